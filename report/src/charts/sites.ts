// Where in the program MPI is called: places by time.

import { numbers } from "../data";
import type { Data, Parts } from "../data";
import * as format from "../format";
import type { Figure } from "../figure";
import { Plot, fitted, plot, textWidth, tip } from "../plot";
import { columnsOf } from "../table";
import type { Column } from "../table";
import { descending } from "../view";
import type { View } from "../view";

/** Calls and time of a row, on the communicators that are chosen. */
export interface PartSum {
  row: number;
  calls: number;
  time_s: number;
  /** Time by family. */
  comms: Map<number, number>;
}

/** The rows with calls on the communicators that are chosen, most time first. */
export function partSums(view: View, parts: Parts): PartSum[] {
  const chosen = view.model.chosen(view.state.comm);
  const sums = new Map<number, PartSum>();
  parts.row.forEach((row, at) => {
    const comm = parts.comm[at];
    if (!chosen[comm]) return;
    const sum = sums.get(row) ?? { row, calls: 0, time_s: 0, comms: new Map<number, number>() };
    sums.set(row, sum);
    sum.calls += parts.calls[at];
    sum.time_s += parts.time_s[at];
    sum.comms.set(comm, (sum.comms.get(comm) ?? 0) + parts.time_s[at]);
  });
  const all = [...sums.values()];
  return descending(all.map((sum) => sum.time_s)).map((at) => all[at]);
}

/** The part of the MPI time; none where an operation of NCCL is called. */
function shareOf({ data, model }: View, sum: PartSum): number | null {
  return model.shareOfMpi(sum.time_s, isOfNccl(data, sum));
}

/** Whether an operation of NCCL is called, which is on communicators of NCCL alone. */
export function isOfNccl(data: Data, sum: PartSum): boolean {
  return [...sum.comms.keys()].some((comm) => data.comms[comm].is_nccl);
}

/** The families with most time, and how many others there are. */
export function commsOf(data: Data, sum: PartSum): string {
  const order = [...sum.comms].sort(([, one], [, other]) => other - one).map(([comm]) => data.comms[comm].name);
  const more = order.length - 2;
  return order.slice(0, 2).join(", ") + (more > 0 ? `, ${more} more` : "");
}

const MOST = 12;
const ROW = 38;

export function sites(view: View): Figure {
  const { data, model, state } = view;
  const common = { id: "sites", title: "Where in the program", source: "calls.csv, sites.csv, paths.csv", command: model.command("sites --all", state.comm), unit: "seconds, summed over ranks", wide: true };
  const all = data.sites;
  if (!all) return { ...common, missing: data.missing.sites ?? "The profile has no call sites." };
  const rows = partSums(view, all.parts);
  if (rows.length === 0) return { ...common, missing: "No calls on these communicators." };
  const places = rows.map(({ row }) => ({ at: String(all.table.columns[0][row]), call: String(all.table.columns[1][row]) }));
  const ofMpi = shareOf(view, rows[0]);
  const first = `Most time: ${places[0].call} in ${places[0].at}, ${format.time(rows[0].time_s)}${ofMpi === null ? "" : ` (${format.percent(ofMpi)} of the MPI time)`}.`;
  const more = rows.length > MOST ? ` The chart has the ${MOST} places with most; the table has all.` : "";
  return {
    ...common,
    lead: `${first}${more} ${all.notes}`.trim(),
    draw: (width) => draw(view, rows.slice(0, MOST), places, width),
    tables: [{ id: "sites", caption: model.hasNccl("") ? "Places that call MPI or NCCL" : "Places that call MPI", columns: columns(view, rows) }],
  };
}

/** The columns: all of the command's where all communicators are chosen, else what is known of a part of them. */
function columns(view: View, rows: PartSum[]): Column[] {
  const { data, state } = view;
  const table = data.sites!.table;
  const of = (name: string) => {
    const column = columnsOf(table).find((column) => column.name === name)!;
    return { ...column, values: rows.map(({ row }) => column.values[row]) };
  };
  const names = state.comm === "" ? [...FIRST, ...FURTHER] : FIRST;
  const parts: Record<string, Column> = {
    time_s: { name: "time_s", heading: "Time sum", kind: "seconds", values: rows.map(({ time_s }) => time_s) },
    share_of_mpi: { name: "share_of_mpi", heading: "% of MPI", kind: "share", values: rows.map((sum) => shareOf(view, sum)) },
    calls: { name: "calls", heading: "Calls", kind: "count", values: rows.map(({ calls }) => calls) },
    per_call_s: { name: "per_call_s", heading: "Per call", kind: "seconds", values: rows.map(({ time_s, calls }) => time_s / Math.max(1, calls)) },
    comms: { name: "comms", heading: "Communicators", kind: "text", values: rows.map((sum) => commsOf(data, sum)) },
  };
  return names.flatMap((name) => parts[name] ?? of(name)).filter(({ name, values }) => FIRST.includes(name) || values.some((value) => value !== null));
}

const FIRST = ["at", "call", "comms", "time_s", "share_of_mpi", "calls", "per_call_s"];
const FURTHER = ["mean_s", "max_s", "max_rank", "waiting_s", "transfer_s", "longest_s", "bytes", "inlined_into", "binary", "chosen", "wrapper"];

function draw(view: View, rows: PartSum[], places: { at: string; call: string }[], width: number): Node {
  const { palette, data } = view;
  const most = Math.max(...rows.map((row) => row.time_s));
  const amount = (row: PartSum) => {
    const share = shareOf(view, row);
    return share === null ? format.time(row.time_s) : `${format.time(row.time_s)}, ${format.percent(share)}`;
  };
  const waits = numbers(data.sites!.table, "waiting_s");
  const about = (at: number) => {
    const { row } = rows[at];
    const waiting = view.state.comm === "" && waits[row] > 0 ? `\nwaiting ${format.time(waits[row] * data.run.ranks)}` : "";
    return `${places[at].at}\n${places[at].call} on ${commsOf(data, rows[at])}\n${amount(rows[at])}\n${format.counted(rows[at].calls, "call")}, each ${format.time(rows[at].time_s / Math.max(1, rows[at].calls))}${waiting}`;
  };
  const index = rows.map((_, at) => at);
  const said = (at: number) => (width < 560 ? format.time(rows[at].time_s) : amount(rows[at]));
  // Functions into which the first is inlined, and the operation, where there is room.
  const name = (at: number) => {
    const room = width - textWidth(said(at)) - 16;
    const [call, inner] = [format.shortCall(places[at].call), places[at].at.split(" < ")[0]];
    const texts = [`${places[at].at} · ${call}`, `${inner} · ${call}`, inner];
    return texts.find((text) => textWidth(text) <= room) ?? fitted(inner, room);
  };
  return plot("Time of the places that call MPI; the table below has the numbers", palette, {
    width,
    height: rows.length * ROW + 4,
    margin: 0,
    marginLeft: 1,
    marginRight: 1,
    x: { domain: [0, most], axis: null },
    y: { domain: [0, rows.length], axis: null, reverse: true },
    marks: [
      Plot.rect(index, { x1: 0, x2: (at: number) => rows[at].time_s, y1: (at: number) => at + 0.56, y2: (at: number) => at + 0.84, fill: palette.categories[0] }),
      Plot.text(index, { x: 0, y: (at: number) => at + 0.44, text: name, textAnchor: "start", lineAnchor: "bottom", fill: palette.ink }),
      Plot.text(index, { x: most, y: (at: number) => at + 0.44, text: said, textAnchor: "end", lineAnchor: "bottom", fill: palette.muted }),
      tip(index, Plot.pointerY({ x: (at: number) => rows[at].time_s / 2, y: (at: number) => at + 0.7, title: about })),
    ],
  });
}

// A beside B: what diff says.

import { column } from "../data";
import type { Cell, CommandTable, Comparison } from "../data";
import { h } from "../dom";
import * as format from "../format";
import { legend } from "../figure";
import type { Figure } from "../figure";
import { Plot, fitted, plot, textWidth, tip } from "../plot";
import { columnsOf } from "../table";
import type { SeveralView } from "./view";
import { command, partName } from "./view";

/** A number of a row of the totals, whose unit its name says. */
function amount(what: string, value: Cell): string {
  if (typeof value !== "number") return "–";
  if (what.includes("time")) return format.time(value);
  if (what.includes("bytes")) return format.bytes(value);
  return format.count(value);
}

interface Total {
  what: string;
  before: Cell;
  after: Cell;
  change: Cell;
  noise_s: Cell;
  mayBeNoise: boolean;
}

function totalsOf({ totals }: Comparison): Total[] {
  const of = (name: string) => column(totals, name);
  return of("what").map((what, row) => ({
    what: String(what),
    before: of("before")[row],
    after: of("after")[row],
    change: of("change")[row],
    noise_s: of("noise_s")[row],
    mayBeNoise: of("may_be_noise")[row] === "~",
  }));
}

function changeOf({ change }: Total): string {
  return typeof change === "number" ? (change === 0 ? "no change" : format.change(change)) : "–";
}

/** What is known of how equal runs differ. */
function noiseOf({ change, noise_s, mayBeNoise }: Total): string {
  if (typeof noise_s !== "number") return "how far equal runs differ is unknown";
  if (change === 0) return `noise ${format.time(noise_s)}`;
  return mayBeNoise ? `may be noise, which is ${format.time(noise_s)}` : `more than noise, which is ${format.time(noise_s)}`;
}

/** A sentence on each of the times, and on each count that changed. */
export function totalsSentence(comparison: Comparison): string[] {
  return totalsOf(comparison)
    .filter(({ what, before, after }) => what.includes("time") || before !== after)
    .map((total) => {
      const what = `${total.what[0].toUpperCase()}${total.what.slice(1)}`.replace("Mpi", "MPI");
      return `${what}: ${amount(total.what, total.before)} in A, ${amount(total.what, total.after)} in B (${[changeOf(total), total.what.includes("time") && noiseOf(total)].filter(Boolean).join("; ")}).`;
    });
}

export function totals(view: SeveralView): Figure | null {
  const { comparison } = view.data;
  if (!comparison) return null;
  const all = totalsOf(comparison);
  const tiles = all.map((total) => {
    const known = typeof total.noise_s === "number";
    return h(
      "div",
      { class: "tile" },
      h("span", { class: "tile-heading" }, total.what),
      h("span", { class: "tile-value" }, changeOf(total)),
      h("span", {}, `${amount(total.what, total.before)} → ${amount(total.what, total.after)}`),
      known && h("span", { class: "tile-meaning" }, noiseOf(total)),
    );
  });
  const table = columnsOf(comparison.totals).map((one) =>
    ["before", "after", "noise_s"].includes(one.name)
      ? { ...one, show: (row: number) => amount(one.name === "noise_s" ? "time" : all[row].what, one.values[row]) }
      : one.name === "change"
        ? { ...one, kind: "change" as const }
        : one,
  );
  return {
    id: "totals",
    title: "A beside B",
    lead: `A is ${comparison.sets[0]}. B is ${comparison.sets[1]}. Per cent are of A.`,
    draw: () => h("div", { class: "tiles" }, ...tiles),
    unit: "wall time of the longest rank; MPI time, calls and bytes are means over ranks; of several runs means over these",
    source: "ranks.csv, calls.csv",
    command: command(view, "diff"),
    tables: [{ id: "totals", caption: "The runs as a whole", columns: table }],
    wide: true,
  };
}

interface Change {
  name: string;
  before_s: number;
  after_s: number;
  change_s: number;
  noise_s: number | null;
  /** Null where nothing is known of the noise. */
  isCertain: boolean | null;
  isIn: string;
}

function changesOf(table: CommandTable, name: (row: number) => string): Change[] {
  const [before, after] = [column(table, "mean_before_s"), column(table, "mean_after_s")];
  const [noise, mark] = [column(table, "noise_s"), column(table, "may_be_noise")];
  return before.map((_, row) => {
    const [before_s, after_s] = [Number(before[row] ?? 0), Number(after[row] ?? 0)];
    const noise_s = typeof noise[row] === "number" ? (noise[row] as number) : null;
    const isIn = before[row] === null ? "in B alone" : after[row] === null ? "in A alone" : "";
    return { name: name(row), before_s, after_s, change_s: after_s - before_s, noise_s, isCertain: noise_s === null ? null : mark[row] !== "~", isIn };
  });
}

const MOST = 16;
const ROW = 38;

/** The changes whose bars can be seen beside the largest. */
function visible(all: Change[]): Change[] {
  const most = Math.max(0, ...all.map(({ change_s }) => Math.abs(change_s)));
  return all.filter(({ change_s }) => Math.abs(change_s) > 0.002 * most);
}

export function changes(view: SeveralView): Figure | null {
  const { comparison } = view.data;
  if (!comparison) return null;
  const table = comparison.changes;
  const [comms, calls] = [column(table, "comm"), column(table, "call")];
  const all = changesOf(table, (row) => partName(String(comms[row]), String(calls[row])));
  const certain = all.filter(({ isCertain }) => isCertain === true).filter(({ change_s }) => change_s !== 0).length;
  const isKnown = all.some(({ isCertain }) => isCertain !== null);
  const shown = visible(all);
  const said = isKnown ? `${certain === 0 ? "No change is" : certain === 1 ? "1 change is" : `${certain} changes are`} more than noise.` : "Of two single runs nothing says how far equal runs differ: any change may be noise.";
  return {
    id: "changes",
    title: "What changed",
    lead: `${said} Bars are B less A; the table has all rows.`,
    controls: [changeLegend(view, isKnown)],
    draw: shown.length > 0 ? (width) => drawChanges(view, shown.slice(0, MOST), width) : undefined,
    missing: shown.length > 0 ? undefined : "No operation takes longer or less in B than in A.",
    unit: "seconds, mean over ranks",
    source: "calls.csv",
    command: command(view, "diff", "--families --all"),
    tables: [{ id: "changes", caption: "Operations on communicators in A and B", columns: columnsOf(table).filter(({ name, values }) => name !== "comm_after" || values.some((value) => value !== null)) }],
    wide: true,
  };
}

export function places(view: SeveralView): Figure | null {
  const { comparison, missing } = view.data;
  if (!comparison) return null;
  const common = { id: "places", title: "What changed, by place in the program", short: "Places", unit: "seconds, mean over ranks", source: "calls.csv, sites.csv", command: command(view, "diff", "--by site --all"), wide: true };
  const table = comparison.sites;
  // Of sets of several runs there is none.
  if (!table) return missing.places ? { ...common, missing: missing.places } : null;
  const [at, calls] = [column(table, "at"), column(table, "call")];
  const all = changesOf(table, (row) => `${at[row]} · ${format.shortCall(String(calls[row]))}`);
  const shown = visible(all);
  return {
    ...common,
    lead: `Places are paired by function and line, else by function and file. Bars are B less A; the table has all rows. Any change may be noise.`,
    controls: [changeLegend(view, false)],
    draw: shown.length > 0 ? (width) => drawChanges(view, shown.slice(0, MOST), width) : undefined,
    missing: shown.length > 0 ? undefined : "No place takes longer or less in B than in A.",
    tables: [{ id: "places", caption: "Places in A and B", columns: columnsOf(table).filter(({ name, values }) => name !== "at_after" || values.some((value) => value !== null)) }],
  };
}

function changeLegend(view: SeveralView, isKnown: boolean): HTMLElement {
  const { palette } = view;
  const entries: [string, string][] = [[palette.longer, "longer in B"], [palette.shorter, "less in B"]];
  return legend("", isKnown ? [...entries, [palette.unmeasured, "may be noise"], [palette.ink, "noise, 95 %"]] : entries);
}

function drawChanges(view: SeveralView, rows: Change[], width: number): Node {
  const { palette } = view;
  // Noise may be far larger than all changes: its lines end where the chart does.
  const largest = Math.max(...rows.map(({ change_s }) => Math.abs(change_s)));
  const cut = (time_s: number) => Math.max(-1.5 * largest, Math.min(1.5 * largest, time_s));
  const noise = ({ change_s, noise_s }: Change): [number, number] => [cut(change_s - (noise_s ?? 0)), cut(change_s + (noise_s ?? 0))];
  const ends = rows.flatMap((row) => [row.change_s, ...noise(row)]);
  const [least, most] = [Math.min(0, ...ends), Math.max(0, ...ends)];
  const index = rows.map((_, at) => at);
  const signed = (time_s: number) => `${time_s > 0 ? "+" : "-"}${format.time(Math.abs(time_s))}`;
  const share = (row: Change) => (row.isIn !== "" ? row.isIn : row.before_s > 0 ? format.change(row.change_s / row.before_s) : "");
  const said = (row: Change) => [signed(row.change_s), share(row)].filter((text) => text !== "").join(", ");
  const colour = (row: Change) => (row.isCertain === false ? palette.unmeasured : row.change_s > 0 ? palette.longer : palette.shorter);
  const about = (row: Change) =>
    `${row.name}\nA ${format.time(row.before_s)}, B ${format.time(row.after_s)}\n${said(row)}${row.noise_s === null ? "" : `\nnoise ${format.time(row.noise_s)}${row.isCertain ? "" : ": the change may be noise"}`}`;
  return plot("Change of the time from A to B; the table below has the numbers", palette, {
    width,
    height: rows.length * ROW + 30,
    marginLeft: 8,
    marginRight: 12,
    marginTop: 0,
    marginBottom: 26,
    x: { domain: [least, most], label: null, tickFormat: (time_s: number) => (time_s === 0 ? "0" : (time_s < 0 ? "-" : "+") + format.tick("time", Math.abs(time_s))), ticks: Math.max(2, Math.min(9, Math.floor(width / 130))), grid: true },
    y: { domain: [0, rows.length], axis: null, reverse: true },
    color: { type: "identity" },
    marks: [
      Plot.rect(index, { x1: (at: number) => Math.min(0, rows[at].change_s), x2: (at: number) => Math.max(0, rows[at].change_s), y1: (at: number) => at + 0.56, y2: (at: number) => at + 0.84, fill: (at: number) => colour(rows[at]) }),
      Plot.ruleY(index.filter((at) => (rows[at].noise_s ?? 0) > 0), { x1: (at: number) => noise(rows[at])[0], x2: (at: number) => noise(rows[at])[1], y: (at: number) => at + 0.7, stroke: palette.ink }),
      Plot.ruleX([0], { stroke: palette.muted }),
      Plot.text(index, { frameAnchor: "left", y: (at: number) => at + 0.44, text: (at: number) => fitted(rows[at].name, width - textWidth(said(rows[at])) - 36), textAnchor: "start", lineAnchor: "bottom", fill: palette.ink, stroke: palette.surface, strokeWidth: 4 }),
      Plot.text(index, { frameAnchor: "right", y: (at: number) => at + 0.44, text: (at: number) => said(rows[at]), textAnchor: "end", lineAnchor: "bottom", fill: palette.muted, stroke: palette.surface, strokeWidth: 4 }),
      tip(index, Plot.pointerY({ x: (at: number) => rows[at].change_s / 2, y: (at: number) => at + 0.7, title: (at: number) => about(rows[at]) })),
    ],
  });
}

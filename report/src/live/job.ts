// A job: where its ranks are, who is missing, its communicators with rates, and the links of its
// nodes.

import { h } from "../dom";
import * as format from "../format";
import type { Palette } from "../theme";
import type { Communicator, Job, Place, Total } from "./data";
import { nodes } from "./nodes";
import { duration, perSecond, section, share, table } from "./parts";
import type { Column } from "./parts";
import { timeline } from "./timeline";
import { callText, deadlock, ranksIn, waiting } from "./words";

/** Everything on a job; `again` draws the view anew. */
export function job(data: Job, width: number, palette: Palette, again: () => void): HTMLElement[] {
  const isOver = data.nodes === undefined;
  const parts: (HTMLElement | null)[] = [head(data, isOver)];
  if (!isOver) parts.push(alerts(data));
  parts.push(section("time", "Over time", timeline(data.samples, width, palette)));
  parts.push(communicators(data, again));
  if (isOver && data.totals) parts.push(totals(data.totals, again));
  parts.push(places(data, isOver, again));
  if (data.nodes) parts.push(nodes(data.nodes, palette));
  return parts.filter((part) => part !== null);
}

function head({ brief, job }: Job, isOver: boolean): HTMLElement {
  const facts: [string, string | HTMLElement][] = [
    [isOver ? "Ended after" : "Running for", duration(job.elapsed_s)],
    ["Ranks", `${brief.seen} of ${job.ranks} seen, on ${format.counted(brief.nodes, "node")}${brief.ended > 0 && !isOver ? `; ${brief.ended} ended` : ""}`],
    ["In MPI", share(brief.mpi_share, `${format.percent(brief.mpi_share)} of the ranks' time`)],
    ["MPI", `${job.mpi_library.split(/[\n,]/)[0] ?? ""}${job.mpi_flavour ? ` (${job.mpi_flavour})` : ""}`],
  ];
  if (!isOver) {
    facts.splice(3, 0, ["In MPI now", share(brief.interval_mpi_share)], ["Calls now", perSecond(format.count(Math.round(brief.calls_per_s)))], ["Volume now", perSecond(format.bytes(brief.bytes_per_s))]);
  }
  const notes = [
    job.not_seen && !isOver ? `Ranks that no reader sees: ${job.not_seen}. An agent on each node shows them.` : "",
    job.recording_was_off ? "Recording was off for a time, so that not all calls are counted." : "",
  ].filter((note) => note !== "");
  return h(
    "section",
    { class: "figure about", "aria-labelledby": "job-title" },
    h("h2", { id: "job-title", class: "command" }, brief.command.map(format.quoted).join(" ")),
    h("dl", { class: "run" }, ...facts.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)))),
    notes.length > 0 ? h("ul", { class: "notes" }, ...notes.map((note) => h("li", {}, note))) : null,
  );
}

/** Deadlocks and ranks that are missing; empty if all goes well. */
function alerts({ job }: Job): HTMLElement | null {
  const sentences = [...job.deadlocks.map(deadlock), ...job.waiting.map(waiting)];
  if (sentences.length === 0) return null;
  return h("section", { class: "figure alert", "aria-labelledby": "alert-title" }, h("h2", { id: "alert-title" }, "Who is missing"), h("ul", {}, ...sentences.map((text) => h("li", {}, text))));
}

function places({ job }: Job, isOver: boolean, again: () => void): HTMLElement {
  const columns: Column<Place>[] = [
    { heading: "Ranks", cell: (place) => place.ranks, order: (place) => place.ranks },
    { heading: "Number", cell: (place) => String(ranksIn(place.ranks)), order: (place) => ranksIn(place.ranks), isNumber: true },
    { heading: "Where", cell: (place) => (place.ended ? "ended" : callText(place)), order: callText },
    { heading: "For", cell: (place) => (place.for_s === null ? "" : duration(place.for_s)), order: (place) => place.for_s ?? -1, isNumber: true },
  ];
  return section("places", isOver ? "Where the ranks were last" : "Where the ranks are", table("places", "Where the ranks are", columns, job.places, again));
}

interface Branch {
  row: Communicator | null;
  name: string;
  depth: number;
}

/** Communicators below those of which they were made, by their names: `W_s1.0` is made of `W`. */
export function tree(rows: Communicator[]): Branch[] {
  const known = new Map(rows.map((row) => [row.comm, row]));
  const children = new Map<string, Set<string>>();
  const add = (name: string): void => {
    const cut = name.lastIndexOf("_");
    const parent = cut > 0 ? name.slice(0, cut) : "";
    const siblings = children.get(parent) ?? new Set();
    if (siblings.has(name)) return;
    siblings.add(name);
    children.set(parent, siblings);
    if (parent !== "") add(parent);
  };
  rows.forEach(({ comm }) => add(comm));
  const all: Branch[] = [];
  const walk = (parent: string, depth: number): void => {
    const names = [...(children.get(parent) ?? [])].sort((one, other) => one.localeCompare(other, "en", { numeric: true }));
    for (const name of names) {
      all.push({ row: known.get(name) ?? null, name, depth });
      walk(name, depth + 1);
    }
  };
  walk("", 0);
  return all;
}

function communicators({ job }: Job, again: () => void): HTMLElement {
  const branches = tree(job.communicators).map((branch, at) => ({ ...branch, at }));
  type Row = (typeof branches)[number];
  const number = (part: (row: Communicator) => number) => (branch: Row) => (branch.row ? part(branch.row) : -1);
  const text = (part: (row: Communicator) => string | HTMLElement) => (branch: Row) => (branch.row ? part(branch.row) : "");
  const columns: Column<Row>[] = [
    { heading: "Communicator", cell: ({ name, depth }) => "\u2003".repeat(depth) + name, order: ({ at }) => at },
    { heading: "Label", cell: text((row) => row.label), order: (branch) => branch.row?.label ?? "" },
    { heading: "Size", cell: text((row) => format.count(row.size)), order: number((row) => row.size), isNumber: true },
    { heading: "Calls/s", cell: text((row) => format.count(Math.round(row.interval_calls_per_s))), order: number((row) => row.interval_calls_per_s), isNumber: true },
    { heading: "Volume/s", cell: text((row) => format.bytes(row.interval_bytes_per_s)), order: number((row) => row.interval_bytes_per_s), isNumber: true },
    { heading: "% of time now", cell: text((row) => share(row.interval_share_of_time)), order: number((row) => row.interval_share_of_time), isNumber: true },
    { heading: "% of run", cell: text((row) => share(row.share_of_time)), order: number((row) => row.share_of_time), isNumber: true },
    { heading: "Calls", cell: text((row) => format.count(row.calls)), order: number((row) => row.calls), isNumber: true },
    { heading: "Volume", cell: text((row) => format.bytes(row.bytes)), order: number((row) => row.bytes), isNumber: true },
    { heading: "Time", cell: text((row) => format.time(row.time_s)), order: number((row) => row.time_s), isNumber: true },
  ];
  const leftOut = job.communicators_left_out;
  const note = leftOut > 0 ? h("p", { class: "lead" }, `${format.counted(leftOut, "communicator")} with less time not shown`) : null;
  return section("comms", "Communicators", note, table("comms", "Communicators, each below the one of which it was made", columns, branches, again));
}

function totals(rows: Total[], again: () => void): HTMLElement {
  const columns: Column<Total>[] = [
    { heading: "Communicators", cell: (row) => row.family, order: (row) => row.family },
    { heading: "Operation", cell: (row) => row.call, order: (row) => row.call },
    { heading: "Calls", cell: (row) => format.count(row.calls), order: (row) => row.calls, isNumber: true },
    { heading: "Volume", cell: (row) => format.bytes(row.bytes), order: (row) => row.bytes, isNumber: true },
    { heading: "Time of all ranks", cell: (row) => format.time(row.time_s), order: (row) => row.time_s, isNumber: true },
  ];
  return section("totals", "Sums at the end", table("totals", "Sums at the end, by communicator family and operation", columns, rows, again));
}

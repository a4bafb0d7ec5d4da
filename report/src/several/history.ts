// A history: a number over entries such as commits, and where it changed for good.

import { column, kept, numbers } from "../data";
import type { CommandTable, History, HistorySeries } from "../data";
import { h } from "../dom";
import * as format from "../format";
import { legend } from "../figure";
import type { Figure } from "../figure";
import { Plot, fitted, plot, textWidth, tip } from "../plot";
import { go } from "../state";
import type { Kind, TableSpec } from "../table";
import type { SeveralView } from "./view";
import { chartId, command, ending, rowsOf, shortTitle } from "./view";

interface Point {
  entry: string;
  runs: number;
  value: number;
  min: number;
  max: number;
}

interface Change {
  entry: string;
  series: HistorySeries;
  before: number;
  after: number;
  share: number | null;
  chance: number;
}

/** The kinds of numbers, by their quantities. */
const KINDS: Record<string, Kind> = { wall_s: "seconds", time_s: "seconds", parallel_efficiency: "share", calls: "count", bytes: "bytes" };

const UNITS: Record<string, string> = {
  wall_s: "seconds, wall time of the longest rank",
  time_s: "seconds, mean over ranks",
  parallel_efficiency: "per cent",
  calls: "calls, summed over ranks",
  bytes: "bytes, summed over ranks",
};

function amount(quantity: string, value: number): string {
  if (quantity === "parallel_efficiency") return format.percent(value);
  return format.amount(quantity === "bytes" ? "bytes" : quantity === "calls" ? "calls" : "time", value);
}

function tick(quantity: string, value: number): string {
  return amount(quantity, value).replace(/(\.\d*?)0+ /, "$1 ").replace(/\. /, " ");
}

function ofHistory(view: SeveralView, at: number): string {
  const { histories } = view.data.history!;
  return ending(view, histories.length > 1 ? histories[at].title : "");
}

/** The rows of a table that are about a series. */
function about(table: CommandTable, { quantity, comm, call }: HistorySeries): CommandTable {
  const [quantities, comms, calls] = ["quantity", "comm", "call"].map((name) => column(table, name));
  return kept(table, (row) => quantities[row] === quantity && comms[row] === comm && calls[row] === call);
}

function pointsOf(rows: CommandTable): Point[] {
  const [runs, value, min, max] = ["runs", "value", "min", "max"].map((name) => numbers(rows, name));
  return column(rows, "entry").map((entry, row) => ({ entry: String(entry), runs: runs[row], value: value[row], min: min[row], max: max[row] }));
}

function changesOf(view: SeveralView, at: number): Change[] {
  const all = rowsOf(view, "changes", "history", at + 1);
  return view.data.history!.histories[at].series.flatMap((series) => {
    const rows = about(all, series);
    const [before, after, chance] = ["before", "after", "chance"].map((name) => numbers(rows, name));
    const shares = column(rows, "change") as (number | null)[];
    return column(rows, "entry").map((entry, row) => ({ entry: String(entry), series, before: before[row], after: after[row], share: shares[row], chance: chance[row] }));
  });
}

/** Whether a change is one for the worse. */
function isWorse({ series, before, after }: Change): boolean {
  return series.quantity === "parallel_efficiency" ? after < before : after > before;
}

function changeText(change: Change): string {
  const { series, before, after, share } = change;
  return share === null ? `from ${amount(series.quantity, before)} to ${amount(series.quantity, after)}` : format.change(share);
}

/** The chosen number over the entries. */
export function history(view: SeveralView, at: number): Figure {
  const { palette } = view;
  const one = view.data.history!.histories[at];
  const all = changesOf(view, at);
  const series = one.series.find(({ name }) => name === view.state.metric) ?? all[0]?.series ?? one.series[0];
  const points = pointsOf(about(rowsOf(view, "points", "history", at + 1), series));
  const changes = all.filter((change) => change.series === series);
  const isRepeated = points.some(({ runs }) => runs > 1);
  const found = changes.map((change) => `Since ${change.entry}: ${changeText(change)}.`);
  const nothing = series.is_too_short ? "Too few runs to tell whether it changed." : "No lasting change.";
  return {
    id: chartId(view, "history", at),
    title: `${series.name} over the entries${ofHistory(view, at)}`,
    short: shortTitle(view, "History", at, view.data.history!.histories.length),
    lead: found.length > 0 ? found.join(" ") : nothing,
    controls: [
      choiceOfSeries(view, one, at, series),
      legend("", [
        [palette.ink, isRepeated ? "median, and smallest to largest run" : "one run per entry"],
        [palette.longer, "lasting change for the worse"],
        [palette.shorter, "for the better"],
      ]),
    ],
    draw: (width) => drawHistory(view, one, series, points, changes, width),
    unit: UNITS[series.quantity],
    source: series.quantity === "wall_s" || (series.comm === "" && series.quantity === "time_s") ? "ranks.csv" : series.quantity === "parallel_efficiency" ? "ranks.csv, calls.csv" : "calls.csv",
    command: command(view, "runs", "--table points --format csv"),
    tables: [pointTable(view, at, series, points, rowsOf(view, "points", "history", at + 1))],
    wide: true,
  };
}

function choiceOfSeries(view: SeveralView, one: History, at: number, chosen: HistorySeries): HTMLElement {
  const select = h("select", { "data-key": chartId(view, "metric", at) });
  for (const series of one.series) select.append(h("option", { value: series.name, selected: series === chosen }, series.name));
  select.addEventListener("change", () => go({ metric: select.value }));
  return h("label", { class: "field" }, "Show ", select);
}

function pointTable(view: SeveralView, at: number, series: HistorySeries, points: Point[], all: CommandTable): TableSpec {
  const kind = KINDS[series.quantity];
  const starts = column(about(all, series), "start");
  return {
    id: chartId(view, "history", at),
    caption: `${series.name} by entry${ofHistory(view, at)}`,
    columns: [
      { name: "entry", heading: "Entry", kind: "text", values: points.map(({ entry }) => entry) },
      { name: "start", heading: "Start", kind: "text", values: starts },
      { name: "runs", heading: "Runs", kind: "count", values: points.map(({ runs }) => runs) },
      { name: "value", heading: "Median", kind, values: points.map(({ value }) => value) },
      { name: "min", heading: "Min", kind, values: points.map(({ min }) => min) },
      { name: "max", heading: "Max", kind, values: points.map(({ max }) => max) },
    ],
  };
}

/** An axis of entries, with the labels that fit, and the space below it. */
function entryAxis(entries: string[], width: number): { x: Plot.ScaleOptions; marginBottom: number } {
  const longest = Math.max(...entries.map(textWidth));
  const isSlanted = (longest + 12) * entries.length > width;
  const marginBottom = isSlanted ? Math.min(90, 24 + longest * 0.75) : 30;
  const every = Math.ceil((entries.length * (isSlanted ? 16 : 0)) / width) || 1;
  const x: Plot.ScaleOptions = {
    type: "point",
    domain: entries,
    padding: 0.5,
    label: null,
    tickSize: 0,
    ticks: entries.filter((_, at) => at % every === 0),
    tickRotate: isSlanted ? -45 : 0,
    tickFormat: (entry: string) => fitted(entry, isSlanted ? marginBottom * 1.2 : longest),
  };
  return { x, marginBottom };
}

/** Ends of an axis around some values; from 0, where they differ much. */
function domain(values: number[]): [number, number] {
  const [least, most] = [Math.min(...values), Math.max(...values)];
  if (least < most / 2) return [0, most * 1.08];
  const room = Math.max((most - least) * 0.25, Math.abs(most) * 0.02, Number.MIN_VALUE);
  return [Math.max(0, least - room), most + room];
}

function drawHistory(view: SeveralView, { entries }: History, series: HistorySeries, points: Point[], changes: Change[], width: number): Node {
  const { palette } = view;
  const { x, marginBottom } = entryAxis(entries, width - 94);
  const y = domain(points.flatMap(({ min, max, value }) => [min, max, value]));
  const colour = (change: Change) => (isWorse(change) ? palette.longer : palette.shorter);
  const text = (point: Point) => {
    const change = changes.find(({ entry }) => entry === point.entry);
    const range = point.runs > 1 ? ` (${amount(series.quantity, point.min)} to ${amount(series.quantity, point.max)})` : "";
    return `${point.entry}, ${format.counted(point.runs, "run")}\n${amount(series.quantity, point.value)}${range}${change ? `\nchanged: ${changeText(change)}` : ""}`;
  };
  return plot(`${series.name} of each entry; the table below has the numbers`, palette, {
    width,
    height: 290 + marginBottom,
    marginLeft: 70,
    marginRight: 24,
    marginTop: 28,
    marginBottom,
    x,
    y: { domain: y, label: null, tickFormat: (value: number) => tick(series.quantity, value), grid: true, ticks: format.ticks(series.quantity === "bytes" ? "bytes" : "time", y[1], 5) },
    color: { type: "identity" },
    marks: [
      Plot.ruleX(changes, { x: "entry", stroke: colour, strokeWidth: 2, strokeDasharray: "5 4" }),
      Plot.text(changes, { x: "entry", y: () => y[1], text: changeText, dy: -12, fill: palette.ink }),
      Plot.line(points, { x: "entry", y: "value", stroke: palette.muted, strokeWidth: 1.5 }),
      Plot.ruleX(points, { x: "entry", y1: "min", y2: "max", stroke: palette.ink, strokeWidth: 2, strokeOpacity: 0.6 }),
      Plot.dot(points, { x: "entry", y: "value", fill: palette.ink, r: 4 }),
      tip(points, Plot.pointerX({ x: "entry", y: "value", title: text })),
    ],
  });
}

/** All lasting changes at once; nothing without any. */
export function changesOver(view: SeveralView, at: number): Figure | null {
  const { palette } = view;
  const changes = changesOf(view, at);
  if (changes.length === 0) return null;
  const one = view.data.history!.histories[at];
  const order = new Map(one.entries.map((entry, place) => [entry, place]));
  const newest = [...changes].sort((left, right) => order.get(right.entry)! - order.get(left.entry)!);
  const values = (of: (change: Change) => string | number | null) => newest.map(of);
  const show = (of: (change: Change) => number) => (row: number) => amount(newest[row].series.quantity, of(newest[row]));
  return {
    id: chartId(view, "changed", at),
    title: `What changed, and since when${ofHistory(view, at)}`,
    short: shortTitle(view, "Changes", at, view.data.history!.histories.length),
    lead: `${format.counted(changes.length, "lasting change")}. ${view.data.history!.error_rate}`,
    controls: [legend("", [[palette.longer, "for the worse"], [palette.shorter, "for the better"]])],
    draw: (width) => drawChanges(view, one, changes, width),
    unit: "a mark for each number that changed; up is an increase",
    source: "ranks.csv, calls.csv",
    command: command(view, "runs", "--table changes --format csv"),
    tables: [
      {
        id: chartId(view, "changed", at),
        caption: `Lasting changes${ofHistory(view, at)}`,
        columns: [
          { name: "entry", heading: "Since", kind: "text", values: values(({ entry }) => entry) },
          { name: "quantity", heading: "Number", kind: "text", values: values(({ series }) => series.name) },
          { name: "before", heading: "Before", kind: "digits", values: values(({ before }) => before), show: show(({ before }) => before) },
          { name: "after", heading: "After", kind: "digits", values: values(({ after }) => after), show: show(({ after }) => after) },
          { name: "change", heading: "Change", kind: "change", values: values(({ share }) => share) },
          { name: "chance", heading: "By chance", kind: "digits", values: values(({ chance }) => chance) },
        ],
      },
    ],
    wide: true,
  };
}

function drawChanges(view: SeveralView, { entries, series }: History, changes: Change[], width: number): Node {
  const { palette } = view;
  const names = series.filter((one) => changes.some((change) => change.series === one)).map(({ name }) => name);
  const marginLeft = Math.min(Math.max(...names.map(textWidth)) + 14, width * 0.42);
  const { x, marginBottom } = entryAxis(entries, width - marginLeft - 24);
  const text = (change: Change) => `${change.series.name}\nsince ${change.entry}: ${changeText(change)}\nfrom ${amount(change.series.quantity, change.before)} to ${amount(change.series.quantity, change.after)}`;
  return plot("Entries since which numbers have changed; the table below has them", palette, {
    width,
    height: names.length * 26 + marginBottom + 20,
    marginLeft,
    marginRight: 24,
    marginBottom,
    x: { ...x, grid: true },
    y: { type: "point", label: null, domain: names, padding: 0.5, tickSize: 0, tickFormat: (name: string) => fitted(name, marginLeft - 10), grid: true },
    color: { type: "identity" },
    marks: [
      Plot.dot(changes, { x: "entry", y: ({ series }: Change) => series.name, symbol: "triangle", r: 6, rotate: ({ before, after }: Change) => (after > before ? 0 : 180), fill: (change: Change) => (isWorse(change) ? palette.longer : palette.shorter) }),
      tip(changes, Plot.pointer({ x: "entry", y: ({ series }: Change) => series.name, title: text })),
    ],
  });
}

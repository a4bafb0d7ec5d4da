// What a chart of several runs is drawn of.

import { kept } from "../data";
import type { CommandTable, Group, Several } from "../data";
import * as format from "../format";
import { Plot } from "../plot";
import type { State } from "../state";
import type { Palette } from "../theme";

export interface SeveralView {
  data: Several;
  /** The runs that the chart is of. */
  group: Group;
  state: State;
  palette: Palette;
}

/** The name of a chart: of a series or of repetitions by their place, of A or B with that. */
export function chartId(view: SeveralView, name: string, at: number): string {
  const { name: group } = view.group;
  return `${group === "" ? "" : `${group.toLowerCase()}-`}${name}-${at + 1}`;
}

/** The end of a title for charts of A or B, and of one of several series or settings. */
export function ending(view: SeveralView, which: string): string {
  const of = view.group.name === "" ? "" : ` of ${view.group.name}`;
  return of + (which === "" ? "" : `: ${which}`);
}

/** A title in the links at the top. */
export function shortTitle(view: SeveralView, text: string, at: number, count: number): string {
  return [text, view.group.name, count > 1 ? String(at + 1) : ""].filter((part) => part !== "").join(" ");
}

/** A command on the profiles of the report. */
export function command(view: SeveralView, words: string, options = ""): string {
  const paths = words.startsWith("diff") ? view.data.diff_arguments : view.group.arguments;
  return ["mpisee-through", words, options, ...paths.map((path) => (path === "--" ? path : format.quoted(path)))].filter((word) => word !== "").join(" ");
}

/** The rows of a table of `runs` that have this number in a column. */
export function rowsOf(view: SeveralView, table: string, column: string, number: number): CommandTable {
  const all = view.group.tables[table];
  const at = all.names.indexOf(column);
  return kept(all, (row) => all.columns[at][row] === number);
}

/** An operation on a family of communicators, or a time that is in no operation. */
export function partName(comm: string, call: string): string {
  return call === "" ? comm : `${format.shortCall(call)} on ${comm}`;
}

/** A value of the number that a series is over. */
export function setting(value: number): string {
  return String(value);
}

/** A value of what a series is over, in words: `32 ranks`, `-n 4096`. */
export function placeOf(over: string, value: number): string {
  return over === "ranks" || over.startsWith("ranks and ") ? `${setting(value)} ranks` : `${over} ${setting(value)}`;
}

/** The upright logarithmic axis with a label at every tick; the library's own leaves out some. */
export function logAxis(ticks: number[], text: (value: number) => string): Plot.Markish[] {
  return [Plot.gridY(ticks), Plot.axisY(ticks, { text, label: null, tickSize: 0 })];
}

/** Where a logarithmic axis has ticks: at 1, 2 and 5 times powers of ten, or at these powers alone where they are many. */
export function logTicks(least: number, most: number): number[] {
  const [first, last] = [Math.floor(Math.log10(least)), Math.ceil(Math.log10(most))];
  const steps = last - first > 3 ? [1] : [1, 2, 5];
  const all = Array.from({ length: last - first + 1 }, (_, at) => steps.map((step) => step * 10 ** (first + at))).flat();
  return all.filter((tick) => tick >= least * 0.999 && tick <= most * 1.001);
}

/** The ends of a logarithmic axis around some values that are larger than 0. */
export function logDomain(values: number[]): [number, number] {
  const [least, most] = [Math.min(...values), Math.max(...values)];
  const room = Math.max(1.15, (most / least) ** 0.08);
  return [least / room, most * room];
}

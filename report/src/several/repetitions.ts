// Runs that repeat each other: how far they differ, and which time goes with the run time.

import { column, numbers } from "../data";
import type { Run } from "../data";
import { h } from "../dom";
import * as format from "../format";
import { legend } from "../figure";
import type { Figure } from "../figure";
import { Plot, fitted, plot, textWidth, tip } from "../plot";
import { columnsOf } from "../table";
import type { TableSpec } from "../table";
import type { SeveralView } from "./view";
import { chartId, command, ending, partName, rowsOf, shortTitle } from "./view";

/** The end of a title where there are several settings with repetitions. */
function ofSetting(view: SeveralView, at: number): string {
  const { repetitions } = view.group;
  return ending(view, repetitions.length > 1 ? repetitions[at].title : "");
}

/** A sentence on the mark of correlations in the terminal, where there is none. */
export function withoutMark(sentence: string): string {
  return sentence.replace(/^~ may be chance: of/, "Of");
}

export function repeated(view: SeveralView, at: number): Figure {
  const { palette } = view;
  const about = view.group.repetitions[at];
  const runs = about.runs.map((run) => view.group.runs[run]);
  const times = runs.map(({ runtime_s }) => runtime_s).sort((one, other) => one - other);
  const median_s = times.length % 2 === 1 ? times[(times.length - 1) / 2] : (times[times.length / 2 - 1] + times[times.length / 2]) / 2;
  return {
    id: chartId(view, "repeated", at),
    title: `Run times${ofSetting(view, at)}`,
    short: shortTitle(view, "Repetitions", at, view.group.repetitions.length),
    lead: [`Median ${format.time(median_s)}, ${format.time(times[0])} to ${format.time(times[times.length - 1])}.`, ...about.sentences].join(" "),
    controls: [legend("Mean over ranks", [[palette.categories[0], "outside of MPI"], [palette.categories[1], "in MPI"], [palette.unmeasured, "waiting in MPI_Finalize"]])],
    draw: (width) => drawRuns(view, runs, median_s, width),
    unit: "seconds; a bar is the wall time of the longest rank",
    source: "ranks.csv",
    command: command(view, "runs"),
    tables: [
      {
        id: chartId(view, "repeated", at),
        caption: `Runs${ofSetting(view, at)}`,
        columns: [
          { name: "profile", heading: "Profile", kind: "text", values: runs.map(({ profile }) => profile) },
          { name: "start", heading: "Start", kind: "text", values: runs.map(({ start }) => start) },
          { name: "runtime_s", heading: "Run time", kind: "seconds", values: runs.map(({ runtime_s }) => runtime_s) },
          { name: "mpi_mean_s", heading: "MPI, mean", kind: "seconds", values: runs.map(({ mpi_s }) => mpi_s) },
          { name: "outside_mean_s", heading: "Outside, mean", kind: "seconds", values: runs.map(({ outside_s }) => outside_s) },
        ],
      },
      ...(areDivided(view, at) ? [] : [partTable(view, at)]),
    ],
  };
}

/** The name of a profile without its folder. */
function fileName(profile: string): string {
  return profile.split("/").filter((part) => part !== "").at(-1) ?? profile;
}

function drawRuns(view: SeveralView, runs: Run[], median_s: number, width: number): Node {
  const { palette } = view;
  const names = runs.map((_, at) => String(at + 1));
  const parts = runs.flatMap(({ outside_s, mpi_s, runtime_s }, at) => {
    // Rounding, and threads that are in MPI at once, may leave nothing.
    const ends = [0, outside_s, Math.min(runtime_s, outside_s + mpi_s), runtime_s];
    const colours = [palette.categories[0], palette.categories[1], palette.unmeasured];
    return colours.map((colour, part) => ({ run: names[at], from: ends[part], to: Math.max(ends[part], ends[part + 1]), colour }));
  });
  const wide = Math.min(width, 90 + 60 * runs.length);
  // The charts of A and B are read beside each other, so that equal heights are equal times.
  const beside = view.data.groups.length > 1 ? view.data.groups.flatMap((group) => group.runs) : runs;
  const longest_s = Math.max(...beside.map(({ runtime_s }) => runtime_s));
  return plot("Run time of each run; the table below has the numbers", palette, {
    width: wide,
    height: 260,
    marginLeft: 62,
    marginBottom: 36,
    x: { domain: names, label: "run, in the order of their starts", labelAnchor: "right", labelArrow: "none", tickSize: 0, padding: 0.2, ticks: names.filter((_, at) => at % Math.ceil((names.length * 22) / wide) === 0) },
    y: { domain: [0, longest_s], nice: true, label: null, tickFormat: (time_s: number) => format.tick("time", time_s), grid: true, ticks: 5 },
    color: { type: "identity" },
    marks: [
      Plot.rectY(parts, { x: "run", y1: "from", y2: "to", fill: "colour" }),
      Plot.ruleY([0], { stroke: palette.muted }),
      Plot.ruleY([median_s], { stroke: palette.ink, strokeDasharray: "5 4" }),
      tip(runs, Plot.pointerX({ x: (_, at) => names[at], y: "runtime_s", title: (run) => `${fileName(run.profile)}\n${format.time(run.runtime_s)}\noutside of MPI ${format.time(run.outside_s)}\nin MPI ${format.time(run.mpi_s)}` })),
    ],
  });
}

interface Part {
  name: string;
  time_s: number;
  share: number | null;
  r: number | null;
  low: number | null;
  high: number | null;
  /** Whether the largest of so many correlations is as large by chance. */
  mayBeChance: boolean;
}

const MOST = 12;

/** The table of the parts of a setting over its runs. */
function partTable(view: SeveralView, at: number): TableSpec {
  const table = rowsOf(view, "variation", "setting", view.group.repetitions[at].setting);
  const columns = columnsOf(table, ["setting", "command", "ranks", "runs"]);
  return { id: chartId(view, "differences", at), caption: `Parts of the time over the runs${ofSetting(view, at)}`, columns: columns.filter(({ values }) => values.some((value) => value !== null)) };
}

/** Whether there are runs enough to divide their differences. */
function areDivided(view: SeveralView, at: number): boolean {
  const table = rowsOf(view, "variation", "setting", view.group.repetitions[at].setting);
  return column(table, "share_of_differences").some((share) => share !== null);
}

/** Nothing of fewer than three runs, or of runs of equal times. */
export function differences(view: SeveralView, at: number): Figure | null {
  if (!areDivided(view, at)) return null;
  const { palette } = view;
  const about = view.group.repetitions[at];
  const table = rowsOf(view, "variation", "setting", about.setting);
  const of = (name: string) => column(table, name) as (number | null)[];
  const [comms, calls, times] = [column(table, "comm"), column(table, "call"), numbers(table, "time_s")];
  const [share, r, low, high, chance] = ["share_of_differences", "correlation", "correlation_low", "correlation_high", "chance"].map(of);
  const tried = r.filter((one) => one !== null).length;
  const all: Part[] = comms.map((comm, row) => ({ name: partName(String(comm), String(calls[row])), time_s: times[row], share: share[row], r: r[row], low: low[row], high: high[row], mayBeChance: (chance[row] ?? 1) * tried > 0.05 }));
  const shown = all.slice(0, MOST).filter((part) => part.share !== null);
  return {
    id: chartId(view, "differences", at),
    title: `What goes with the run time${ofSetting(view, at)}`,
    short: shortTitle(view, "Differences", at, view.group.repetitions.length),
    lead: ["The differences between run times, divided among the parts: all add up to 100 %. Beside them the correlation r of each with the run time.", ...about.closing.map(withoutMark)].join(" "),
    controls: [legend("", [[palette.categories[0], "part of the differences; below, each run"], [palette.categories[1], "correlation, 95 %; hollow where it may be chance"]])],
    draw: (width) => {
      const half = width > 900 ? (width - 32) / 2 : width;
      return h("div", {}, h("div", { class: "beside" }, drawShares(view, shown, half), drawCorrelations(view, shown.filter((part) => part.r !== null), half)), scatters(view, at, width));
    },
    unit: "per cent of the differences between run times; times are means over ranks",
    source: "calls.csv, ranks.csv",
    command: command(view, "runs", "--table variation --format csv"),
    tables: [partTable(view, at)],
    wide: true,
  };
}

function partAxis(parts: Part[], width: number): { marginLeft: number; y: Plot.ScaleOptions } {
  const marginLeft = Math.min(Math.max(...parts.map(({ name }) => textWidth(name))) + 14, width * 0.45);
  return { marginLeft, y: { label: null, domain: parts.map(({ name }) => name), tickSize: 0, tickFormat: (name: string) => fitted(name, marginLeft - 10), padding: 0.25 } };
}

function drawShares(view: SeveralView, parts: Part[], width: number): Node {
  const { palette } = view;
  const { marginLeft, y } = partAxis(parts, width);
  return plot("Part of the differences between run times; the table below has the numbers", palette, {
    width,
    height: parts.length * 26 + 40,
    marginLeft,
    marginRight: 24,
    x: { label: null, tickFormat: (share: number) => `${Math.round(100 * share)} %`, grid: true, ticks: Math.max(2, Math.floor(width / 130)), nice: true },
    y,
    marks: [
      Plot.barX(parts, { x1: 0, x2: "share", y: "name", fill: palette.categories[0] }),
      Plot.ruleX([0], { stroke: palette.muted }),
      tip(parts, Plot.pointerY({ x: "share", y: "name", title: (part) => `${part.name}\n${format.percent(part.share ?? 0)} of the differences\n${format.time(part.time_s)} by rank` })),
    ],
  });
}

function drawCorrelations(view: SeveralView, parts: Part[], width: number): Node {
  const { palette } = view;
  if (parts.length === 0) return h("span");
  const { marginLeft, y } = partAxis(parts, width);
  const about = ({ name, r, low, high, mayBeChance }: Part) => `${name}\nr ${r!.toFixed(2)}${low === null || high === null ? "" : ` (${low.toFixed(2)} to ${high.toFixed(2)})`}${mayBeChance ? "\nmay be chance" : ""}`;
  return plot("Correlation of each part with the run time; the table below has the numbers", palette, {
    width,
    height: parts.length * 26 + 40,
    marginLeft,
    marginRight: 24,
    x: { domain: [-1, 1], label: "r", labelArrow: "none", grid: true, ticks: 5 },
    y,
    color: { type: "identity" },
    marks: [
      Plot.ruleX([0], { stroke: palette.muted }),
      Plot.ruleY(parts.filter(({ low }) => low !== null), { y: "name", x1: "low", x2: "high", stroke: palette.categories[1], strokeWidth: 1.5 }),
      Plot.dot(parts, { x: "r", y: "name", fill: (part: Part) => (part.mayBeChance ? palette.surface : palette.categories[1]), stroke: palette.categories[1], strokeWidth: 1.5, r: 4.5 }),
      tip(parts, Plot.pointerY({ x: "r", y: "name", title: about })),
    ],
  });
}

const SCATTERS = 6;

/** The time of the first parts over the run time, a point for each run. */
function scatters(view: SeveralView, at: number, width: number): Node {
  const { palette } = view;
  const about = view.group.repetitions[at];
  const runs = about.runs.map((run) => view.group.runs[run]);
  const parts = about.parts.slice(0, SCATTERS);
  const columns = Math.max(1, Math.min(parts.length, Math.floor((width + 24) / 300)));
  const each = (width - 24 * (columns - 1)) / columns;
  const charts = parts.map(({ comm, call, times_s }) => {
    const points = times_s.map((time_s, run) => ({ time_s, runtime_s: runs[run].runtime_s, name: fileName(runs[run].profile) }));
    const name = partName(comm, call);
    const chart = plot(`${name} over the run time`, palette, {
      width: each,
      height: 170,
      marginLeft: 62,
      marginBottom: 36,
      marginTop: 8,
      x: { label: "run time", labelArrow: "none", tickFormat: (time_s: number) => format.tick("time", time_s), ticks: Math.max(2, Math.floor(each / 110)), nice: true, grid: true },
      y: { label: null, tickFormat: (time_s: number) => format.tick("time", time_s), ticks: 4, grid: true, nice: true },
      marks: [Plot.dot(points, { x: "runtime_s", y: "time_s", fill: palette.categories[0], r: 4 }), tip(points, Plot.pointer({ x: "runtime_s", y: "time_s", title: (point) => `${point.name}\nrun time ${format.time(point.runtime_s)}\n${format.time(point.time_s)} by rank` }))],
    });
    return h("div", {}, h("h3", {}, fitted(name, each, 7.4)), chart);
  });
  return h("div", { class: "multiples", style: `grid-template-columns:repeat(${columns},minmax(0,1fr));margin-top:1.5rem` }, ...charts);
}

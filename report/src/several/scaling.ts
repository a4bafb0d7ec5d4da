// A series: run time, speedup, and the factors of the efficiency.

import { column, numbers } from "../data";
import { h } from "../dom";
import * as format from "../format";
import { legend } from "../figure";
import type { Figure } from "../figure";
import { Plot, plot, tip } from "../plot";
import { columnsOf } from "../table";
import type { SeveralView } from "./view";
import { chartId, command, ending, logAxis, logDomain, logTicks, placeOf, rowsOf, shortTitle } from "./view";

interface Point {
  value: number;
  ranks: number;
  runs: number;
  runtime_s: number;
  min_s: number;
  max_s: number;
  speedup: number | null;
}

function pointsOf(view: SeveralView, series: number): Point[] {
  const table = rowsOf(view, "points", "series", series + 1);
  const of = (name: string) => numbers(table, name);
  const [value, ranks, runs, runtime, min, max] = ["value", "ranks", "runs", "runtime_s", "runtime_min_s", "runtime_max_s"].map(of);
  const speedup = column(table, "speedup");
  return value.map((one, at) => ({ value: one, ranks: ranks[at], runs: runs[at], runtime_s: runtime[at], min_s: min[at], max_s: max[at], speedup: speedup[at] as number | null })).sort((one, other) => one.value - other.value);
}

/** The end of a title where there are several series. */
export function ofSeries(view: SeveralView, series: number): string {
  return ending(view, view.group.series.length > 1 ? `series ${series + 1}` : "");
}

const POINT_COLUMNS = ["setting", "series", "command", "parameter"];

export function scaling(view: SeveralView, series: number): Figure {
  const about = view.group.series[series];
  const points = pointsOf(view, series);
  const hasSpeedup = points.some(({ speedup }) => speedup !== null);
  const entries: [string, string][] = [[view.palette.categories[0], points.some(({ runs }) => runs > 1) ? "median, and shortest to longest run" : "measured"]];
  if (about.runtime_beyond_s) entries.push([view.palette.categories[1], `predicted at ${placeOf(about.over, about.beyond)}, 95 %`]);
  if (about.is_strong) entries.push([view.palette.muted, "ideal"]);
  return {
    id: chartId(view, "scaling", series),
    title: `${hasSpeedup ? "Run time and speedup" : "Run time"}${ofSeries(view, series)}`,
    short: shortTitle(view, "Scaling", series, view.group.series.length),
    lead: `${about.title}. ${about.sentences[0] ?? ""}`.trim(),
    controls: [legend("", entries)],
    draw: (width) => {
      const half = hasSpeedup && width > 800 ? (width - 32) / 2 : width;
      return h("div", { class: "beside" }, h("div", {}, h("h3", {}, "Run time"), runtimes(view, series, points, half)), hasSpeedup && h("div", {}, h("h3", {}, "Speedup"), speedups(view, series, points, half)));
    },
    unit: `seconds, wall time of the longest rank${hasSpeedup ? "; speedup: first run time / this one" : ""}`,
    source: "ranks.csv, run.json",
    command: command(view, "runs", "--table points --format csv"),
    tables: [{ id: chartId(view, "points", series), caption: `Settings${ofSeries(view, series)}`, columns: columnsOf(rowsOf(view, "points", "series", series + 1), POINT_COLUMNS).filter(({ values, name }) => name !== "outliers" || values.some((value) => value !== "")) }],
    wide: true,
  };
}

function runtimes(view: SeveralView, series: number, points: Point[], width: number): Node {
  const { palette } = view;
  const about = view.group.series[series];
  const beyond = about.runtime_beyond_s;
  const first = points[0];
  const last = points[points.length - 1];
  const ideal = about.is_strong ? points.map(({ value, ranks }) => ({ value, time_s: (first.runtime_s * first.ranks) / ranks })) : [];
  const values = [...points.map(({ value }) => value), ...(beyond ? [about.beyond] : [])];
  const times = [...points.flatMap(({ min_s, max_s, runtime_s }) => [min_s, max_s, runtime_s]), ...(beyond ?? []), ...ideal.map(({ time_s }) => time_s)].filter((time_s) => time_s > 0);
  const domain = logDomain(times);
  const all = beyond ? [...points.map((point) => ({ ...point, text: tipOf(about.over, point) })), { value: about.beyond, runtime_s: beyond[0], text: `${placeOf(about.over, about.beyond)}, predicted\n${format.time(beyond[0])} (${format.time(beyond[1])} to ${format.time(beyond[2])})` }] : points.map((point) => ({ ...point, text: tipOf(about.over, point) }));
  return plot("Run time of each setting; the table below has the numbers", palette, {
    width,
    height: 300,
    marginLeft: 62,
    marginBottom: 40,
    marginRight: 24,
    x: settingAxis(about.over, values, width),
    y: { type: "log", domain, axis: null },
    marks: [
      ...logAxis(logTicks(...domain), (time_s) => format.tick("time", time_s)),
      Plot.line(ideal, { x: "value", y: "time_s", stroke: palette.muted, strokeDasharray: "5 4" }),
      ...(beyond
        ? [
            Plot.line([{ value: last.value, time_s: last.runtime_s }, { value: about.beyond, time_s: beyond[0] }], { x: "value", y: "time_s", stroke: palette.categories[1], strokeDasharray: "2 4" }),
            Plot.ruleX([beyond], { x: () => about.beyond, y1: (one: number[]) => Math.max(one[1], domain[0]), y2: (one: number[]) => one[2], stroke: palette.categories[1], strokeWidth: 2 }),
            Plot.dot([beyond], { x: () => about.beyond, y: (one: number[]) => one[0], fill: palette.surface, stroke: palette.categories[1], strokeWidth: 2, r: 5 }),
          ]
        : []),
      Plot.line(points, { x: "value", y: "runtime_s", stroke: palette.categories[0], strokeWidth: 2 }),
      Plot.ruleX(points, { x: "value", y1: "min_s", y2: "max_s", stroke: palette.categories[0], strokeWidth: 2 }),
      Plot.dot(points, { x: "value", y: "runtime_s", fill: palette.categories[0], r: 4 }),
      tip(all, Plot.pointerX({ x: "value", y: "runtime_s", title: "text" })),
    ],
  });
}

function tipOf(over: string, point: Point): string {
  const range = point.runs > 1 ? ` (${format.time(point.min_s)} to ${format.time(point.max_s)})` : "";
  return `${placeOf(over, point.value)}, ${format.counted(point.runs, "run")}\n${format.time(point.runtime_s)}${range}${point.speedup === null ? "" : `\nspeedup ${point.speedup.toFixed(2)}`}`;
}

function speedups(view: SeveralView, series: number, points: Point[], width: number): Node {
  const { palette } = view;
  const about = view.group.series[series];
  const first = points[0];
  const known = points.filter(({ speedup }) => speedup !== null && speedup > 0);
  const ideal = points.map(({ value, ranks }) => ({ value, speedup: ranks / first.ranks }));
  const domain = logDomain([...known.map(({ speedup }) => speedup!), ...ideal.map(({ speedup }) => speedup)]);
  return plot("Speedup of each setting; the table below has the numbers", palette, {
    width,
    height: 300,
    marginLeft: 48,
    marginBottom: 40,
    marginRight: 24,
    x: settingAxis(about.over, points.map(({ value }) => value), width),
    y: { type: "log", domain, axis: null },
    marks: [
      ...logAxis(logTicks(...domain), format.digits),
      Plot.line(ideal, { x: "value", y: "speedup", stroke: palette.muted, strokeDasharray: "5 4" }),
      Plot.line(known, { x: "value", y: "speedup", stroke: palette.categories[0], strokeWidth: 2 }),
      Plot.dot(known, { x: "value", y: "speedup", fill: palette.categories[0], r: 4 }),
      Plot.text(known, { x: "value", y: "speedup", text: ({ speedup }: Point) => speedup!.toFixed(2), dy: -11, fill: palette.ink }),
      tip(known, Plot.pointerX({ x: "value", y: "speedup", title: (point: Point) => tipOf(about.over, point) })),
    ],
  });
}

/** The axis of the number that a series is over. */
export function settingAxis(over: string, values: number[], width: number): Plot.ScaleOptions {
  const isLog = values.every((value) => value > 0);
  const room = Math.max(2, Math.floor(width / 46));
  const every = Math.ceil(values.length / room);
  return {
    type: isLog ? "log" : "linear",
    ...(isLog ? { base: 2, domain: logDomain(values) } : {}),
    ticks: values.filter((_, at) => at % every === 0),
    tickFormat: (value: number) => String(value),
    label: over,
    labelAnchor: "right",
    labelArrow: "none",
  };
}

const FACTORS: [name: string, text: string][] = [
  ["scaling_efficiency", "efficiency"],
  ["parallel_efficiency", "parallel efficiency"],
  ["load_balance", "load balance"],
  ["communication_efficiency", "communication"],
  ["serialisation_efficiency", "serialisation"],
  ["transfer_efficiency", "transfer"],
  ["computation_scaling", "computation"],
  ["core_availability", "cores"],
];

export function efficiencies(view: SeveralView, series: number): Figure {
  const { palette } = view;
  const about = view.group.series[series];
  const table = rowsOf(view, "points", "series", series + 1);
  const value = numbers(table, "value");
  const lines = FACTORS.map(([name, text], at) => ({
    text,
    colour: at === 0 ? palette.ink : at > palette.categories.length ? palette.muted : palette.categories[at - 1],
    points: column(table, name).map((share, row) => ({ value: value[row], share, text })).filter((point) => typeof point.share === "number") as { value: number; share: number; text: string }[],
  })).filter(({ points }) => points.length > 0);
  const all = lines.flatMap(({ points }) => points);
  return {
    id: chartId(view, "factors", series),
    title: `Efficiency and its factors${ofSeries(view, series)}`,
    short: shortTitle(view, "Efficiency", series, view.group.series.length),
    lead: about.is_strong
      ? "Efficiency is speedup by how many times the ranks: the parallel efficiency by that of the first setting, times computation. Parallel efficiency is load balance × cores × communication, and that is serialisation × transfer, where they are measured."
      : "Parallel efficiency is load balance × cores × communication, and that is serialisation × transfer, where they are measured.",
    controls: [legend("", lines.map(({ colour, text }) => [colour, text]))],
    draw: all.length === 0 ? undefined : (width) =>
      plot("Efficiency and its factors at each setting; the table of settings has the numbers", palette, {
        width,
        height: 300,
        marginLeft: 50,
        marginBottom: 40,
        marginRight: 24,
        x: settingAxis(about.over, value, width),
        y: { label: null, domain: [0, Math.max(1, ...all.map(({ share }) => share))], tickFormat: (share: number) => `${Math.round(100 * share)} %`, ticks: 5, grid: true },
        marks: [
          Plot.ruleY([1], { stroke: palette.muted, strokeDasharray: "5 4" }),
          ...lines.flatMap(({ points, colour }) => [Plot.line(points, { x: "value", y: "share", stroke: colour, strokeWidth: 2 }), Plot.dot(points, { x: "value", y: "share", fill: colour, r: 3.5 })]),
          tip(all, Plot.pointer({ x: "value", y: "share", title: (point) => `${placeOf(about.over, point.value)}\n${point.text} ${format.percent(point.share)}` })),
        ],
      }),
    missing: all.length === 0 ? "No efficiency is known." : undefined,
    unit: "per cent; the parallel efficiency and its factors are those of the run with the median time",
    source: "ranks.csv, arrivals.csv, messages.csv",
    command: command(view, "runs", "--table points --format csv"),
  };
}

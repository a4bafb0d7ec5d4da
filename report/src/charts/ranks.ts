// The time of ranks in MPI, by operation.

import * as format from "../format";
import { legend } from "../figure";
import type { Figure } from "../figure";
import { Plot, plot, tip } from "../plot";
import { columnsOf } from "../table";
import type { View } from "../view";
import { nodeTimes } from "./nodes";

interface Bar {
  field: number;
  call: string;
  time_s: number;
  colour: string;
}

const OTHERS = "other operations";

export function ranks(view: View): Figure {
  const { data, model, state, palette } = view;
  if (data.nodes) return nodeTimes(view, data.nodes);
  const times = model.rankTimes(state.comm);
  const total = (of: Float64Array) => of.reduce((sum, time_s) => sum + time_s, 0);
  const calls = [...times.keys()].filter((call) => !model.isNccl(call)).sort((one, other) => total(times.get(other)!) - total(times.get(one)!));
  // On top of the others, since it is no time in MPI.
  const ofNccl = [...times.keys()].filter((call) => model.isNccl(call));
  const named = calls.slice(0, palette.categories.length);
  const colours = new Map(named.map((call, at) => [call, palette.categories[at]]));
  const { names, ranks: sizes, block } = data.fields;
  const bars: Bar[] = [];
  const sums = new Float64Array(names.length);
  for (const call of [...named, ...calls.slice(named.length)]) {
    times.get(call)!.forEach((time_s, field) => {
      if (time_s <= 0) return;
      sums[field] += time_s / sizes[field];
      bars.push({ field, call: colours.has(call) ? data.calls[call][0] : OTHERS, time_s: time_s / sizes[field], colour: colours.get(call) ?? palette.other });
    });
  }
  for (const call of ofNccl) {
    times.get(call)!.forEach((time_s, field) => {
      if (time_s > 0) bars.push({ field, call: data.calls[call][0], time_s: time_s / sizes[field], colour: palette.nccl });
    });
  }
  const members = [...sums.keys()].filter((field) => sums[field] > 0);
  const weight = members.reduce((all, field) => all + sizes[field], 0);
  const mean_s = members.reduce((all, field) => all + sums[field] * sizes[field], 0) / Math.max(1, weight);
  const entries: [string, string][] = named.map((call) => [colours.get(call)!, data.calls[call][0]]);
  if (calls.length > named.length) entries.push([palette.other, OTHERS]);
  if (ofNccl.length > 0) entries.push([palette.nccl, "NCCL, no time in MPI"]);
  const title = ofNccl.length > 0 ? "Time of ranks in MPI and NCCL" : "MPI time of ranks";
  const table = data.tables.ranks;
  return {
    id: "ranks",
    title: block > 1 ? `${title}, in blocks of ${block}` : title,
    lead: data.missing.ranks ? undefined : spread(view, sums, members, mean_s),
    controls: [legend("", entries)],
    draw: bars.length > 0 ? (width) => draw(view, bars, mean_s, width) : undefined,
    missing: data.missing.ranks ?? (bars.length > 0 ? undefined : "No rank spent time in MPI here."),
    unit: block > 1 ? "seconds, mean over the ranks of a block" : "seconds",
    source: "calls.csv, ranks.csv",
    command: model.command("ranks --all --sort rank", state.comm),
    tables: table ? [{ id: "ranks", caption: data.run.folded ? "Nodes" : "Ranks, over all communicators", columns: columnsOf(table) }] : [],
  };
}

/** How uneven the ranks are. */
function spread(view: View, sums: Float64Array, members: number[], mean_s: number): string | undefined {
  if (members.length < 2) return undefined;
  const { names, block } = view.data.fields;
  const least = members.reduce((best, field) => (sums[field] < sums[best] ? field : best));
  const most = members.reduce((best, field) => (sums[field] > sums[best] ? field : best));
  const what = block > 1 ? "ranks" : "rank";
  return (
    `${view.model.hasNccl(view.state.comm) ? "In MPI: mean" : "Mean"} ${format.time(mean_s)}, least ${format.time(sums[least])} (${what} ${names[least]}), most ${format.time(sums[most])} ` +
    `(${what} ${names[most]}): the most is ${format.percent(sums[most] / mean_s - 1)} above the mean.`
  );
}

function draw(view: View, bars: Bar[], mean_s: number, width: number): Node {
  const { data, palette } = view;
  const { names } = data.fields;
  const gap = barGap(names.length);
  const seconds = (time_s: number) => format.tick("time", time_s);
  return plot("MPI time of each rank, stacked by operation; the table below has the numbers", palette, {
    width: barWidth(width, names.length),
    height: 300,
    marginLeft: 62,
    marginBottom: 36,
    x: fieldAxis(view, barWidth(width, names.length) - 70),
    y: { label: null, tickFormat: seconds, grid: true, ticks: 5 },
    color: { type: "identity" },
    marks: [
      Plot.rectY(
        bars,
        Plot.stackY({
          x1: (bar: Bar) => bar.field - gap,
          x2: (bar: Bar) => bar.field + gap,
          y: "time_s",
          fill: "colour",
          // Bars of less than a pixel would blur into stripes.
          shapeRendering: names.length > 160 ? "crispEdges" : "auto",
        }),
      ),
      Plot.ruleY([0], { stroke: palette.muted }),
      Plot.ruleY([mean_s], { stroke: palette.ink, strokeDasharray: "5 4" }),
      tip(
        totals(bars),
        Plot.pointerX({ x: "field", y: "time_s", title: (one) => `rank ${names[one.field]}: ${format.time(one.time_s)}\n${one.text}` }),
      ),
    ],
  });
}

function totals(bars: Bar[]): { field: number; time_s: number; text: string }[] {
  const by = new Map<number, Bar[]>();
  bars.forEach((bar) => by.set(bar.field, [...(by.get(bar.field) ?? []), bar]));
  return [...by].map(([field, of]) => {
    const lines = new Map<string, number>();
    of.forEach((bar) => lines.set(bar.call, (lines.get(bar.call) ?? 0) + bar.time_s));
    return {
      field,
      time_s: of.reduce((sum, bar) => sum + bar.time_s, 0),
      text: [...lines].map(([call, time_s]) => `${call} ${format.time(time_s)}`).join("\n"),
    };
  });
}

/** Half the width of a bar, where 1 is from one rank to the next. */
export function barGap(fields: number): number {
  return fields <= 16 ? 0.36 : fields <= 160 ? 0.44 : 0.5;
}

/** The width of a chart of ranks: few bars do not need all of the room. */
export function barWidth(width: number, fields: number): number {
  return Math.min(width, 70 + 120 * fields);
}

/** An axis of ranks. */
export function fieldAxis(view: View, pixels: number): Plot.ScaleOptions {
  const { names, block } = view.data.fields;
  return numberedAxis(names, block > 1 ? "ranks" : "rank", pixels);
}

/** An axis of fields with names of digits, as many as there is room for. */
export function numberedAxis(names: string[], label: string, pixels: number): Plot.ScaleOptions {
  const every = Math.max(1, Math.ceil((names.length * (7 * (names.at(-1)?.length ?? 1) + 14)) / pixels));
  const step = every === 1 ? 1 : [2, 4, 5, 8, 10, 16, 20, 32, 50, 64, 100, 128, 256, 512].find((step) => step >= every) ?? every;
  return {
    domain: [-0.5, names.length - 0.5],
    ticks: names.map((_, field) => field).filter((field) => field % step === 0),
    tickFormat: (field: number) => names[field] ?? "",
    label,
    labelAnchor: "right",
    labelArrow: "none",
  };
}

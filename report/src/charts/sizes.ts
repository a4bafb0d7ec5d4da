// Histograms of message sizes, one for each operation.

import { h } from "../dom";
import * as format from "../format";
import { choice } from "../figure";
import type { Figure } from "../figure";
import { Plot, plot, tip } from "../plot";
import { descending } from "../view";
import type { View } from "../view";
import { QUANTITIES, UNITS } from "./operations";

/** Operations that have a chart; the table has all. */
const MOST = 8;

interface Class {
  least: number;
  most: number;
  calls: number;
  bytes: number;
  time_s: number;
}

/** The classes of each operation, those with most time first. */
function histograms(view: View): [call: string, classes: Class[]][] {
  const { data, model, state } = view;
  const chosen = model.chosen(state.comm);
  const all = data.sizes;
  const by = new Map<number, Map<number, Class>>();
  all.comm.forEach((comm, at) => {
    if (!chosen[comm]) return;
    const classes = by.get(all.call[at]) ?? new Map<number, Class>();
    by.set(all.call[at], classes);
    const sum = classes.get(all.size_min[at]) ?? { least: all.size_min[at], most: all.size_max[at], calls: 0, bytes: 0, time_s: 0 };
    classes.set(all.size_min[at], sum);
    sum.calls += all.calls[at];
    sum.bytes += all.bytes[at];
    sum.time_s += all.time_s[at];
  });
  const time = (classes: Map<number, Class>) => [...classes.values()].reduce((sum, one) => sum + one.time_s, 0);
  return [...by]
    .sort(([, one], [, other]) => time(other) - time(one))
    .map(([call, classes]) => [data.calls[call][0], [...classes.values()].sort((one, other) => one.least - other.least)]);
}

export function sizes(view: View): Figure {
  const { model, state } = view;
  const all = histograms(view);
  const value = (one: Class) => (state.of === "time" ? one.time_s : one[state.of]);
  const rows = all.flatMap(([call, classes]) => classes.map((one) => ({ call, ...one })));
  const order = descending(rows.map(value)).map((at) => rows[at]);
  const key = { time: "time", bytes: "volume", calls: "calls" }[state.of];
  return {
    id: "sizes",
    title: "Message sizes",
    lead: all.length > MOST ? `The ${MOST} operations with most time; the table has all.` : undefined,
    controls: [choice("sizes", "Height", "of", QUANTITIES, state.of)],
    draw: (width) => {
      const columns = Math.max(1, Math.min(all.length, Math.floor((width + 24) / 300)));
      const each = (width - 24 * (columns - 1)) / columns;
      const last = Math.max(8, ...rows.map((row) => place(row.least)));
      const charts = all.slice(0, MOST).map(([call, classes]) => h("div", {}, h("h3", {}, call), histogram(view, call, classes, value, last, each)));
      return h("div", { class: "multiples", style: `grid-template-columns:repeat(${columns},minmax(0,1fr))` }, ...charts);
    },
    missing: all.length > 0 ? undefined : "None of the operations has a message.",
    unit: UNITS[state.of],
    source: "calls.csv",
    command: model.command(`sizes --all --by ${key}`, state.comm),
    tables: [
      {
        id: "sizes",
        caption: "Message sizes",
        columns: [
          { name: "call", heading: "Operation", kind: "text", values: order.map((row) => row.call) },
          { name: "size_min", heading: "Smallest", kind: "bytes", values: order.map((row) => row.least) },
          { name: "size_max", heading: "Largest", kind: "bytes", values: order.map((row) => row.most) },
          { name: "calls", heading: "Calls", kind: "count", values: order.map((row) => row.calls) },
          { name: "bytes", heading: "Volume", kind: "bytes", values: order.map((row) => row.bytes) },
          { name: "time_s", heading: "Time sum", kind: "seconds", values: order.map((row) => row.time_s) },
        ],
      },
    ],
    wide: true,
  };
}

/** The place of a class: powers of two. */
function place(size: number): number {
  return size === 0 ? -1 : Math.floor(Math.log2(size));
}

function histogram(view: View, call: string, classes: Class[], value: (one: Class) => number, last: number, width: number): Node {
  const { palette, state } = view;
  const step = (width - 58) / last > 9 ? 5 : 10;
  const ticks = [-1, ...Array.from({ length: 8 }, (_, at) => step * (at + 1))].filter((tick) => tick <= last);
  return plot(`${call}: ${state.of} by message size; the table below has the numbers`, palette, {
    width,
    height: 150,
    marginLeft: 58,
    marginBottom: 26,
    marginTop: 10,
    x: {
      domain: [-1.6, last + 1],
      ticks,
      tickFormat: (tick: number) => (tick < 0 ? "0" : format.bytes(2 ** tick).replace(/\.0+ /, " ")),
      label: null,
    },
    y: { label: null, tickFormat: (amount: number) => format.tick(state.of, amount), ticks: format.ticks(state.of, Math.max(...classes.map(value)), 3), grid: true, zero: true, nice: state.of !== "bytes" },
    marks: [
      Plot.rectY(classes, { x1: (one: Class) => place(one.least) - 0.42, x2: (one: Class) => place(one.least) + 0.42, y1: 0, y2: value, fill: palette.accent }),
      Plot.ruleY([0], { stroke: palette.muted }),
      tip(
        classes,
        Plot.pointerX({
          x: (one: Class) => place(one.least),
          y: value,
          title: (one: Class) => `${format.sizeClass(one.least, one.most)}\n${format.counted(one.calls, "call")}, ${format.bytes(one.bytes)}\n${format.time(one.time_s)}`,
        }),
      ),
    ],
  });
}

// Who waits for whom, as estimated from samples of arrivals.

import type { Waits } from "../data";
import { h } from "../dom";
import * as format from "../format";
import { legend } from "../figure";
import type { Figure } from "../figure";
import { Plot, plot, tip } from "../plot";
import { descending } from "../view";
import type { View } from "../view";
import { drawMatrix, zoomControls } from "./matrix";
import type { Matrix } from "./matrix";
import { barGap, barWidth, fieldAxis } from "./ranks";

interface OfRank {
  field: number;
  caused_s: number;
  suffered_s: number;
}

function ofRanks(view: View, waits: Waits): OfRank[] {
  const chosen = view.model.chosen(view.state.comm);
  const sums = new Map<number, OfRank>();
  waits.ranks.comm.forEach((comm, at) => {
    if (!chosen[comm]) return;
    const field = waits.ranks.field[at];
    const sum = sums.get(field) ?? { field, caused_s: 0, suffered_s: 0 };
    sum.caused_s += waits.ranks.caused_s[at];
    sum.suffered_s += waits.ranks.suffered_s[at];
    sums.set(field, sum);
  });
  return [...sums.values()].sort((one, other) => one.field - other.field);
}

function pairs(view: View, waits: Waits): Matrix {
  const chosen = view.model.chosen(view.state.comm);
  const names = view.data.fields.names;
  const sums = new Map<number, number>();
  waits.pairs.comm.forEach((comm, at) => {
    if (!chosen[comm]) return;
    const place = waits.pairs.waiting[at] * names.length + waits.pairs.cause[at];
    sums.set(place, (sums.get(place) ?? 0) + waits.pairs.time_s[at]);
  });
  const places = [...sums.keys()];
  const row = places.map((place) => Math.floor(place / names.length));
  const column = places.map((place) => place % names.length);
  const value = places.map((place) => sums.get(place)!);
  return {
    id: "waits",
    zoomKey: "waitsZoom",
    rows: "waits",
    columns: "causes it",
    names,
    row,
    column,
    value,
    colour: view.palette.waiting,
    amount: format.time,
    about: (at) => `${names[row[at]]} waits for ${names[column[at]]}: ${format.time(value[at])}`,
  };
}

export function waits(view: View): Figure {
  const { data, model, state, palette } = view;
  const common = {
    id: "waits",
    title: "Who waits for whom",
    unit: "seconds, estimated for all calls from sampled ones",
    source: "arrivals.csv, collectives.csv, messages.csv, streams.csv",
    command: model.command("waits --families --all", state.comm),
    wide: true,
  };
  const all = data.waits;
  if (!all) return { ...common, missing: data.missing.waits ?? "Nothing was sampled." };
  const ranks = ofRanks(view, all);
  const matrix = pairs(view, all);
  const chosen = model.chosen(state.comm);
  const operations = all.operations;
  const rows = descending(operations.waiting_s).filter((row) => chosen[operations.comm[row]]);
  const waiting_s = rows.reduce((sum, row) => sum + operations.waiting_s[row], 0);
  const order = descending(matrix.value);
  const of = (list: number[]) => rows.map((row) => list[row]);
  if (rows.length === 0) return { ...common, missing: "No waiting was measured on these communicators." };
  return {
    ...common,
    lead: lead(view, all, waiting_s),
    controls: [
      legend("Ranks", [[palette.categories[1], "others wait for it"], [palette.categories[0], "it waits for others"]]),
      ...(matrix.value.length > 0 ? [zoomControls(matrix, state)] : []),
    ],
    draw: (width) => {
      const half = width > 900 ? (width - 32) / 2 : width;
      const bars = h("div", {}, drawRanks(view, ranks, half));
      return h("div", { class: "beside" }, bars, matrix.value.length > 0 ? drawMatrix(view, matrix, half) : null);
    },
    tables: [
      {
        id: "waits",
        caption: "Waiting in operations",
        columns: [
          { name: "comm", heading: "Communicator", kind: "text", values: rows.map((row) => data.comms[operations.comm[row]].name) },
          { name: "call", heading: "In", kind: "text", values: rows.map((row) => data.calls[operations.call[row]][0]) },
          { name: "time_s", heading: "Time sum", kind: "seconds", values: of(operations.time_s) },
          { name: "waiting_s", heading: "Waiting", kind: "seconds", values: of(operations.waiting_s) },
          { name: "waiting_low_s", heading: "from", kind: "seconds", values: of(operations.waiting_low_s) },
          { name: "waiting_high_s", heading: "to", kind: "seconds", values: of(operations.waiting_high_s) },
        ],
      },
      {
        id: "waits-pairs",
        caption: "Pairs of ranks of which one waits for the other",
        columns: [
          { name: "waiting", heading: "Waits", kind: "text", values: order.map((at) => matrix.names[matrix.row[at]]) },
          { name: "cause", heading: "For", kind: "text", values: order.map((at) => matrix.names[matrix.column[at]]) },
          { name: "time_s", heading: "Time sum", kind: "seconds", values: order.map((at) => matrix.value[at]) },
        ],
      },
    ],
  };
}

function lead(view: View, all: Waits, waiting_s: number): Node {
  const sentences = view.state.comm === "" ? all.findings.slice(0, 5) : [];
  const rest = all.pairs.left_out_s > 0 ? ` ${format.time(all.pairs.left_out_s)} between pairs with little is left out of the matrix.` : "";
  return h(
    "span",
    {},
    `${format.time(waiting_s)} of waiting, summed over ranks.${rest}`,
    ...sentences.map((sentence) => h("span", { class: "sentence" }, sentence)),
  );
}

function drawRanks(view: View, ranks: OfRank[], width: number): Node {
  const { palette, data } = view;
  const names = data.fields.names;
  const gap = barGap(names.length);
  const bars = (value: (one: OfRank) => number, fill: string) =>
    Plot.rectY(ranks, {
      x1: (one: OfRank) => one.field - gap,
      x2: (one: OfRank) => one.field + gap,
      y1: 0,
      y2: value,
      fill,
    });
  return plot("How long others wait for each rank (up), and how long it waits (down); waits --format csv has the numbers", palette, {
    width: barWidth(width, names.length),
    height: 340,
    marginLeft: 62,
    marginBottom: 36,
    x: fieldAxis(view, barWidth(width, names.length) - 70),
    y: { label: null, tickFormat: (time_s: number) => format.tick("time", Math.abs(time_s)), grid: true, ticks: 7, nice: true },
    marks: [
      bars((one) => one.caused_s, palette.categories[1]),
      bars((one) => -one.suffered_s, palette.categories[0]),
      Plot.ruleY([0], { stroke: palette.muted }),
      tip(
        ranks,
        Plot.pointerX({
          x: "field",
          y: (one: OfRank) => one.caused_s,
          title: (one: OfRank) => `rank ${names[one.field]}\nothers wait for it ${format.time(one.caused_s)}\nit waits ${format.time(one.suffered_s)}`,
        }),
      ),
    ],
  });
}

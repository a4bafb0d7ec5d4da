// Grids of processes: communicators with a Cartesian topology of two or three dimensions.

import type { Grid } from "../data";
import { h } from "../dom";
import * as format from "../format";
import type { Figure } from "../figure";
import { Plot, plot } from "../plot";
import { go } from "../state";
import { inkOn } from "../theme";
import type { View } from "../view";

interface Process {
  rank: string;
  plane: number;
  row: number;
  column: number;
  time_s: number;
}

function processes(view: View, grid: Grid): Process[] {
  const times = view.model.rankTimes(view.state.comm);
  const sums = new Float64Array(view.data.fields.names.length);
  for (const [call, of] of times) if (!view.model.isNccl(call)) of.forEach((time_s, field) => (sums[field] += time_s));
  const [rows, columns] = grid.dims.slice(-2);
  return grid.fields.map((field, number) => ({
    rank: view.data.fields.names[field],
    plane: Math.floor(number / (rows * columns)),
    row: Math.floor(number / columns) % rows,
    column: number % columns,
    time_s: sums[field],
  }));
}

export function grid(view: View): Figure | null {
  const { data, model, state } = view;
  if (data.grids.length === 0) return null;
  const chosen = data.grids.find((grid) => grid.name === state.grid) ?? data.grids[0];
  const all = processes(view, chosen);
  const select = h("select", { "aria-label": "Process grid", "data-key": "grid" });
  data.grids.forEach((grid) => select.append(h("option", { value: grid.name, selected: grid === chosen }, `${grid.name} (${grid.dims.join(" × ")})`)));
  select.addEventListener("change", () => go({ grid: select.value }));
  const wrapped = chosen.periods.map((periodic, at) => (periodic ? at : -1)).filter((at) => at >= 0);
  const where = state.comm === "" ? "on all communicators" : `on ${state.comm} and what was made of it`;
  const around = wrapped.length === 0 ? "not periodic" : wrapped.length === chosen.dims.length ? "periodic" : `periodic in dimension ${wrapped.join(", ")}`;
  return {
    id: "grid",
    title: "Process grid",
    lead: `The MPI time of each rank ${where}, by its place on the grid of ${chosen.name}: ${chosen.dims.join(" × ")}, ${around}.`,
    controls: data.grids.length > 1 ? [h("label", { class: "field" }, "Grid of ", select)] : [],
    draw: (width) => draw(view, chosen, all, width),
    unit: "seconds",
    source: "comms.csv, calls.csv",
    command: model.command("ranks --all --sort rank", state.comm),
    tables: [
      {
        id: "grid",
        caption: "Processes of the grid",
        columns: [
          { name: "rank", heading: "Rank", kind: "text", values: all.map((one) => one.rank) },
          { name: "coordinates", heading: "Coordinates", kind: "text", values: all.map((one) => (chosen.dims.length > 2 ? [one.plane, one.row, one.column] : [one.row, one.column]).join(",")) },
          { name: "time_s", heading: "MPI time", kind: "seconds", values: all.map((one) => one.time_s) },
        ],
      },
    ],
  };
}

function draw(view: View, grid: Grid, all: Process[], width: number): Node {
  const { palette } = view;
  const [rows, columns] = grid.dims.slice(-2);
  const planes = grid.dims.length > 2 ? grid.dims[0] : 1;
  const across = Math.min(planes, Math.max(1, Math.floor(width / 190)));
  const [least, most] = [Math.min(...all.map((one) => one.time_s)), Math.max(...all.map((one) => one.time_s))];
  const colour = (one: Process) => palette.amount(most > least ? 0.1 + (0.9 * (one.time_s - least)) / (most - least) : 0.4);
  const side = Math.min(74, (width - 40 - 16 * across) / across / columns);
  const lines = Math.ceil(planes / across);
  const inPlane = (one: Process) => ({ fx: one.plane % across, fy: Math.floor(one.plane / across) });
  const isLarge = side > 52;
  const text = (one: Process) => (isLarge ? `${one.rank}\n${format.time(one.time_s)}` : side > 7 * one.rank.length + 4 ? one.rank : "");
  const swatches = [0, 0.5, 1].map((share) => least + share * (most - least));
  const key = h("div", { class: "legend" }, ...swatches.map((time_s) =>
    h("span", { class: "swatch" }, h("i", { style: `background:${palette.amount(0.1 + (most > least ? (0.9 * (time_s - least)) / (most - least) : 0.3))}`, "aria-hidden": "true" }), format.time(time_s)),
  ));
  const svg = plot("MPI time of each process by its place on the grid; the table below has the numbers", palette, {
    width: Math.min(width, 40 + across * (side * columns + 16)),
    height: lines * (side * rows + 16) + 34,
    marginLeft: 32,
    marginTop: 30,
    marginBottom: 4,
    marginRight: 4,
    x: { label: null, axis: "top", tickSize: 0, padding: 0.04 },
    y: { label: null, tickSize: 0, padding: 0.04 },
    fx: { axis: null, padding: 0.06 },
    fy: { axis: null, padding: 0.06 },
    color: { type: "identity" },
    marks: [
      Plot.cell(all, { x: "column", y: "row", fx: (one: Process) => inPlane(one).fx, fy: (one: Process) => inPlane(one).fy, fill: colour, rx: 3 }),
      Plot.text(all, {
        x: "column",
        y: "row",
        fx: (one: Process) => inPlane(one).fx,
        fy: (one: Process) => inPlane(one).fy,
        text,
        fill: (one: Process) => inkOn(colour(one), palette),
        pointerEvents: "none",
      }),
    ],
  });
  return h("div", {}, key, svg);
}

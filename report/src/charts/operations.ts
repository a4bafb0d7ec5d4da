// Operations on communicators: a heat map.

import * as format from "../format";
import { choice } from "../figure";
import type { Figure } from "../figure";
import { Plot, fittedName, plot, textWidth, tip } from "../plot";
import { inkOn } from "../theme";
import { descending } from "../view";
import type { View } from "../view";

/** Rows and columns of the chart; the table has all. */
const MOST_COMMS = 18;
const MOST_CALLS = 14;

interface Cell {
  comm: string;
  /** Without what all operations of MPI have. */
  call: string;
  name: string;
  value: number;
}

export const QUANTITIES: ["time" | "bytes" | "calls", string][] = [
  ["time", "Time"],
  ["bytes", "Volume"],
  ["calls", "Calls"],
];

export const UNITS = {
  time: "seconds, summed over ranks",
  bytes: "bytes, summed over ranks",
  calls: "calls, summed over ranks",
};

export function operations(view: View): Figure {
  const { data, model, state } = view;
  const chosen = model.chosen(state.comm);
  const all = data.operations;
  const values = state.of === "time" ? all.time_s : all[state.of];
  const rows = descending(values).filter((row) => chosen[all.comm[row]]);
  const total = (of: number[], rows: number[]) => {
    const sums = new Map<number, number>();
    rows.forEach((row) => sums.set(of[row], (sums.get(of[row]) ?? 0) + values[row]));
    return [...sums].filter(([, sum]) => sum > 0).sort(([, one], [, other]) => other - one).map(([number]) => number);
  };
  const comms = total(all.comm, rows);
  const shownComms = comms.slice(0, MOST_COMMS);
  const calls = total(all.call, rows.filter((row) => shownComms.includes(all.comm[row])));
  const shownCalls = calls.slice(0, MOST_CALLS);
  const cells: Cell[] = rows
    .filter((row) => values[row] > 0 && shownComms.includes(all.comm[row]) && shownCalls.includes(all.call[row]))
    .map((row) => ({ comm: data.comms[all.comm[row]].name, call: format.shortCall(data.calls[all.call[row]][0]), name: data.calls[all.call[row]][0], value: values[row] }));
  const isCut = comms.length > shownComms.length || calls.length > shownCalls.length;
  const whole = rows.reduce((sum, row) => sum + values[row], 0);
  const column = (of: (row: number) => string | number | null) => rows.map(of);
  return {
    id: "operations",
    title: "Operations on communicators",
    lead: rows.length > 0
      ? `${leading(view, rows[0], values, whole)}${isCut ? ` The chart has the ${shownComms.length} communicators and ${shownCalls.length} operations with most; the table has all.` : ""}`
      : undefined,
    controls: [choice("operations", "Shade", "of", QUANTITIES, state.of)],
    draw: cells.length > 0 ? (width) => draw(view, cells, shownComms.map((comm) => data.comms[comm].name), shownCalls.map((call) => format.shortCall(data.calls[call][0])), width) : undefined,
    missing: cells.length > 0 ? undefined : "There is nothing of this quantity.",
    unit: UNITS[state.of],
    source: "calls.csv",
    command: model.command("summary --families --all", state.comm),
    tables: [
      {
        id: "operations",
        caption: "Operations on communicators",
        columns: [
          { name: "comm", heading: "Communicator", kind: "text", values: column((row) => data.comms[all.comm[row]].name) },
          { name: "call", heading: "Operation", kind: "text", values: column((row) => data.calls[all.call[row]][0]) },
          { name: "kind", heading: "Kind", kind: "text", values: column((row) => data.calls[all.call[row]][1]) },
          { name: "time_s", heading: "Time sum", kind: "seconds", values: column((row) => all.time_s[row]) },
          { name: "mean_s", heading: "Mean/rank", kind: "seconds", values: column((row) => all.mean_s[row]) },
          { name: "min_s", heading: "Min/rank", kind: "seconds", values: column((row) => all.min_s[row]) },
          { name: "max_s", heading: "Max/rank", kind: "seconds", values: column((row) => all.max_s[row]) },
          { name: "max_rank", heading: "of rank", kind: "count", values: column((row) => all.max_rank[row]) },
          { name: "bytes", heading: "Volume", kind: "bytes", values: column((row) => all.bytes[row]) },
          { name: "calls", heading: "Calls", kind: "count", values: column((row) => all.calls[row]) },
        ],
      },
    ],
    wide: true,
  };
}

function leading(view: View, row: number, values: number[], whole: number): string {
  const { data, state } = view;
  const of = { time: "time", bytes: "volume", calls: "calls" }[state.of];
  const [call] = data.calls[data.operations.call[row]];
  const share = whole > 0 ? ` (${format.percent(values[row] / whole)})` : "";
  return `Most ${of}: ${call} on ${data.comms[data.operations.comm[row]].name}, ${format.amount(state.of, values[row])}${share}.`;
}

function draw(view: View, cells: Cell[], comms: string[], calls: string[], width: number): Node {
  const { palette, state } = view;
  const longest = Math.max(...comms.map(textWidth));
  const marginLeft = Math.min(longest + 12, Math.max(90, width * 0.3));
  const band = (width - marginLeft) / calls.length;
  const isSlanted = Math.max(...calls.map(textWidth)) > band - 4;
  const most = Math.max(...cells.map((cell) => cell.value));
  // The root lets small values be seen beside large ones.
  const colour = (cell: Cell) => palette.amount(0.06 + 0.94 * Math.sqrt(cell.value / most));
  return plot(`Operations on communicators, shaded by ${state.of}; the table below has the numbers`, palette, {
    width,
    height: comms.length * 30 + (isSlanted ? 96 : 34),
    marginLeft,
    marginTop: isSlanted ? 92 : 30,
    marginBottom: 2,
    marginRight: isSlanted ? Math.min(40, width * 0.06) : 2,
    x: { domain: calls, axis: "top", label: null, tickSize: 0, tickRotate: isSlanted ? (band < 24 ? -62 : -40) : 0, padding: 0.03 },
    y: { domain: comms, label: null, tickSize: 0, tickFormat: (name: string) => fittedName(name, marginLeft - 10), padding: 0.06 },
    color: { type: "identity" },
    marks: [
      Plot.cell(cells, { x: "call", y: "comm", fill: colour, rx: 2 }),
      Plot.text(cells.filter((cell) => textWidth(format.amount(state.of, cell.value)) < band), {
        x: "call",
        y: "comm",
        text: (cell: Cell) => format.amount(state.of, cell.value),
        fill: (cell: Cell) => inkOn(colour(cell), palette),
        pointerEvents: "none",
      }),
      tip(
        cells,
        Plot.pointer({ x: "call", y: "comm", title: (cell: Cell) => `${cell.name} on ${cell.comm}\n${format.amount(state.of, cell.value)}` }),
      ),
    ],
  });
}

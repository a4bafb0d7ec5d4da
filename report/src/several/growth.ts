// A series: how the parts grow, fitted to simple models.

import { column, numbers } from "../data";
import { h } from "../dom";
import * as format from "../format";
import { choice, legend } from "../figure";
import type { Figure } from "../figure";
import { Plot, fitted, plot, tip } from "../plot";
import type { State } from "../state";
import { columnsOf } from "../table";
import { ofSeries, settingAxis } from "./scaling";
import type { SeveralView } from "./view";
import { chartId, command, logAxis, logDomain, logTicks, partName, placeOf, rowsOf, shortTitle } from "./view";

interface Fit {
  part: string;
  comm: string;
  call: string;
  model: string;
  or: string[];
  base: number;
  slope: number;
  at: number;
  predicted: [value: number, low: number, high: number];
}

interface Point {
  value: number;
  amount: number;
}

/** The name of a quantity in the tables of runs. */
const NAMES: Record<State["of"], string> = { time: "time_s", bytes: "bytes", calls: "calls" };

const QUANTITIES: [State["of"], string][] = [
  ["time", "Time"],
  ["bytes", "Volume"],
  ["calls", "Calls"],
];

/** The number of models that are fitted: where none of them is left out, the points tell nothing. */
const MODELS = 5;
const MOST = 9;

/** Nothing of fewer than three settings: every model fits two. */
export function growth(view: SeveralView, series: number): Figure | null {
  const { state, palette } = view;
  const about = view.group.series[series];
  const name = NAMES[state.of];
  const fits = fitsOf(view, series, name);
  const points = pointsOf(view, series, name);
  const whole = rowsOf(view, "growth", "series", series + 1);
  if ((whole.columns[0]?.length ?? 0) === 0) return null;
  return {
    id: chartId(view, "growth", series),
    title: `How parts grow${ofSeries(view, series)}`,
    short: shortTitle(view, "Growth", series, view.group.series.length),
    lead: `Sums over ranks, fitted to a + b f(p), with f constant, log p, p, p log p and p², p being ${about.over}; in sums over ranks what each rank does alike grows with p. A model behind "or" is one that the points cannot tell from the best.${fits.length > MOST ? ` The ${MOST} largest at ${placeOf(about.over, about.beyond)}; the table has all.` : ""}`,
    controls: [
      choice(chartId(view, "growth", series), "Growth of", "of", QUANTITIES, state.of),
      legend("", [[palette.categories[0], "measured"], [palette.categories[1], `model, and predicted at ${placeOf(about.over, about.beyond)}, 95 %`]]),
    ],
    draw: fits.length > 0 ? (width) => multiples(view, series, fits.slice(0, MOST), points, width) : undefined,
    missing: fits.length > 0 ? undefined : "There is nothing of this quantity.",
    unit: { time: "seconds, summed over ranks", bytes: "bytes, summed over ranks", calls: "calls, summed over ranks" }[state.of],
    source: "calls.csv, ranks.csv",
    command: command(view, "runs", "--table growth --format csv"),
    tables: [{ id: chartId(view, "growth", series), caption: `Models of parts${ofSeries(view, series)}`, columns: growthColumns(view, series) }],
    wide: true,
  };
}

/** The columns of the models; units differ from row to row. */
function growthColumns(view: SeveralView, series: number) {
  const table = rowsOf(view, "growth", "series", series + 1);
  const quantities = column(table, "quantity");
  const amounts = ["base", "slope", "predicted", "predicted_low", "predicted_high"];
  const amount = (row: number, value: number) => (quantities[row] === "time_s" ? format.time(value) : quantities[row] === "bytes" ? format.bytes(value) : format.digits(value));
  return columnsOf(table, ["series"]).map((one) => (amounts.includes(one.name) ? { ...one, show: (row: number) => amount(row, Number(one.values[row])) } : one));
}

function fitsOf(view: SeveralView, series: number, name: string): Fit[] {
  const table = rowsOf(view, "growth", "series", series + 1);
  const text = (of: string) => column(table, of).map(String);
  const [comm, call, quantity, model, or] = ["comm", "call", "quantity", "model", "or"].map(text);
  const [base, slope, at, value, low, high] = ["base", "slope", "at", "predicted", "predicted_low", "predicted_high"].map((of) => numbers(table, of));
  return comm
    .map((_, row) => ({
      part: partName(comm[row], call[row]),
      comm: comm[row],
      call: call[row],
      model: model[row],
      or: or[row] === "" ? [] : or[row].split("|"),
      base: base[row],
      slope: slope[row],
      at: at[row],
      predicted: [value[row], low[row], high[row]] as [number, number, number],
    }))
    .filter((_, row) => quantity[row] === name)
    .sort((one, other) => other.predicted[0] - one.predicted[0]);
}

function pointsOf(view: SeveralView, series: number, name: string): Map<string, Point[]> {
  const table = rowsOf(view, "parts", "series", series + 1);
  const [comm, call] = [column(table, "comm").map(String), column(table, "call").map(String)];
  const [value, amount] = [numbers(table, "value"), numbers(table, name)];
  const by = new Map<string, Point[]>();
  comm.forEach((_, row) => {
    const part = partName(comm[row], call[row]);
    by.set(part, [...(by.get(part) ?? []), { value: value[row], amount: amount[row] }]);
  });
  return by;
}

/** The part of a model that grows, at p. */
function growing(model: string, p: number): number {
  switch (model) {
    case "log p":
      return Math.log2(p);
    case "p":
      return p;
    case "p log p":
      return p * Math.log2(p);
    case "p^2":
      return p * p;
    default:
      return 0;
  }
}

function modelText({ model, or }: Fit): string {
  const written = (name: string) => name.replace("^2", "²");
  if (or.length + 1 === MODELS) return "unclear: the points leave every model";
  return `grows with ${written(model)}`.replace("grows with constant", "constant") + (or.length > 0 ? `, or ${or.map(written).join(", ")}` : "");
}

function multiples(view: SeveralView, series: number, fits: Fit[], points: Map<string, Point[]>, width: number): Node {
  const columns = Math.max(1, Math.min(fits.length, Math.floor((width + 24) / 320)));
  const each = (width - 24 * (columns - 1)) / columns;
  const charts = fits.map((fit) => h("div", {}, h("h3", {}, fitted(fit.part, each, 7.4)), h("p", { class: "model" }, modelText(fit)), one(view, series, fit, points.get(fit.part) ?? [], each)));
  return h("div", { class: "multiples", style: `grid-template-columns:repeat(${columns},minmax(0,1fr))` }, ...charts);
}

function one(view: SeveralView, series: number, fit: Fit, points: Point[], width: number): Node {
  const { palette, state } = view;
  const { over } = view.group.series[series];
  const [value, low, high] = fit.predicted;
  const known = points.filter((point) => point.amount > 0);
  const [least, most] = [Math.min(...points.map((point) => point.value)), fit.at];
  const curve = Array.from({ length: 41 }, (_, at) => least * (most / least) ** (at / 40)).map((p) => ({ value: p, amount: fit.base + fit.slope * growing(fit.model, p) }));
  // An interval over many powers of ten would leave no room for the points.
  const amounts = [...known.map((point) => point.amount), value].filter((amount) => amount > 0);
  const cut = (amount: number) => Math.min(Math.max(amount, Math.min(...amounts) / 30), Math.max(...amounts) * 30);
  const domain = logDomain([...amounts, ...[low, high].filter((amount) => amount > 0).map(cut)]);
  const inside = curve.filter(({ amount }) => amount >= domain[0] && amount <= domain[1]);
  const tips = [...known.map((point) => ({ ...point, text: `${placeOf(over, point.value)}\n${format.amount(state.of, point.amount)}` })), { value: fit.at, amount: value, text: `${placeOf(over, fit.at)}, predicted\n${format.amount(state.of, value)} (${format.amount(state.of, low)} to ${format.amount(state.of, high)})` }];
  return plot(`${fit.part}: how it grows; the table below has the numbers`, palette, {
    width,
    height: 190,
    marginLeft: 62,
    marginBottom: 34,
    marginRight: 16,
    marginTop: 8,
    x: settingAxis(over, [...points.map((point) => point.value), fit.at], width),
    y: { type: "log", domain, axis: null },
    marks: [
      ...logAxis(logTicks(...domain).filter((_, at, all) => at % Math.ceil(all.length / 6) === 0), (amount) => format.tick(state.of, amount)),
      Plot.line(inside, { x: "value", y: "amount", stroke: palette.categories[1], strokeDasharray: "4 3", strokeWidth: 1.5 }),
      Plot.ruleX([fit], { x: "at", y1: () => Math.max(cut(low), domain[0]), y2: () => Math.min(cut(high), domain[1]), stroke: palette.categories[1], strokeWidth: 2 }),
      Plot.dot([fit], { x: "at", y: () => value, fill: palette.surface, stroke: palette.categories[1], strokeWidth: 2, r: 4.5 }),
      Plot.dot(known, { x: "value", y: "amount", fill: palette.categories[0], r: 4 }),
      tip(tips, Plot.pointerX({ x: "value", y: "amount", title: "text" })),
    ],
  });
}

// A matrix of ranks: shaded fields, a part of which can be shown larger. Traffic and waits are
// drawn by it.

import { h } from "../dom";
import { go } from "../state";
import type { State } from "../state";
import { Plot, plot, textWidth } from "../plot";
import { inkOn } from "../theme";
import type { View } from "../view";

export interface Matrix {
  id: string;
  /** The key of the part that is shown in the address. */
  zoomKey: "zoom" | "waitsZoom" | "gpuZoom";
  rows: string;
  columns: string;
  /** The names of the fields on both axes. */
  names: string[];
  row: number[];
  column: number[];
  value: number[];
  colour: (share: number) => string;
  amount: (value: number) => string;
  /** What a field says. */
  about: (at: number) => string;
}

interface Part {
  top: number;
  bottom: number;
  left: number;
  right: number;
}

/** Fields up to which each is an element of its own. */
const MOST_ELEMENTS = 3000;
const SIDE = 620;
const LARGEST_FIELD = 76;

/** The part in the address, or all. */
function part(matrix: Matrix, state: State): Part {
  const last = matrix.names.length - 1;
  const match = /^(\d+)-(\d+),(\d+)-(\d+)$/.exec(state[matrix.zoomKey]);
  if (!match) return { top: 0, bottom: last, left: 0, right: last };
  const [top, bottom, left, right] = match.slice(1).map((text) => Math.min(Number(text), last));
  return { top: Math.min(top, bottom), bottom: Math.max(top, bottom), left: Math.min(left, right), right: Math.max(left, right) };
}

function zoomed(matrix: Matrix, to: Part): Partial<State> {
  const last = matrix.names.length - 1;
  const isWhole = to.top <= 0 && to.left <= 0 && to.bottom >= last && to.right >= last;
  const text = `${Math.max(0, to.top)}-${Math.min(last, to.bottom)},${Math.max(0, to.left)}-${Math.min(last, to.right)}`;
  return { [matrix.zoomKey]: isWhole ? "" : text };
}

/** Buttons and fields that choose the part that is shown. */
export function zoomControls(matrix: Matrix, state: State): HTMLElement {
  const now = part(matrix, state);
  const grow = (least: number, most: number, by: number): [number, number] => {
    const span = Math.max(1, Math.round((most - least + 1) * by));
    const middle = (least + most) / 2;
    const first = Math.max(0, Math.min(matrix.names.length - span, Math.round(middle - (span - 1) / 2)));
    return [first, first + span - 1];
  };
  const scaled = (by: number) => {
    const [top, bottom] = grow(now.top, now.bottom, by);
    const [left, right] = grow(now.left, now.right, by);
    go(zoomed(matrix, { top, bottom, left, right }));
  };
  const button = (text: string, label: string, action: () => void) =>
    h("button", { type: "button", "aria-label": label, "data-key": `${matrix.id}-${label}`, onclick: action }, text);
  const number = (label: string, key: keyof Part) => {
    const input = h("select", { "aria-label": label, "data-key": `${matrix.id}-${label}` });
    matrix.names.forEach((name, at) => input.append(h("option", { value: at, selected: at === now[key] }, name)));
    input.addEventListener("change", () => go(zoomed(matrix, { ...now, [key]: Number(input.value) })));
    return input;
  };
  return h(
    "div",
    { class: "zoom", role: "group", "aria-label": "Part of the matrix" },
    button("+", "Zoom in", () => scaled(0.5)),
    button("−", "Zoom out", () => scaled(2)),
    button("All", "All of the matrix", () => go({ [matrix.zoomKey]: "" })),
    h("span", {}, matrix.rows, " ", number(`${matrix.rows} from`, "top"), "–", number(`${matrix.rows} to`, "bottom")),
    h("span", {}, matrix.columns, " ", number(`${matrix.columns} from`, "left"), "–", number(`${matrix.columns} to`, "right")),
  );
}

/** Draws the part; a drag over it shows a smaller one. */
export function drawMatrix(view: View, matrix: Matrix, width: number): HTMLElement {
  const { palette, state } = view;
  const now = part(matrix, state);
  const inside = matrix.value
    .map((_, at) => at)
    .filter((at) => matrix.row[at] >= now.top && matrix.row[at] <= now.bottom && matrix.column[at] >= now.left && matrix.column[at] <= now.right);
  const most = inside.reduce((most, at) => Math.max(most, matrix.value[at]), 0);
  const least = inside.reduce((least, at) => (matrix.value[at] > 0 ? Math.min(least, matrix.value[at]) : least), most);
  const isWide = most > 1000 * least;
  const share = (value: number) => {
    if (most <= 0 || value <= 0) return 0;
    if (most === least) return 0.75;
    return isWide ? 0.08 + (0.92 * Math.log(value / least)) / Math.log(most / least) : 0.08 + 0.92 * Math.sqrt(value / most);
  };
  const longest = Math.max(textWidth(matrix.names[now.bottom]), textWidth(matrix.names[now.top]));
  const marginLeft = longest + 36;
  const side = Math.min(SIDE, width);
  const [rows, columns] = [now.bottom - now.top + 1, now.right - now.left + 1];
  const each = Math.min(LARGEST_FIELD, (side - marginLeft - 8) / columns, Math.max(SIDE, 2 * side) / rows);
  const inner = each * columns;
  const height = Math.max(60, each * rows);
  const marks = inside.length <= MOST_ELEMENTS ? [fields(matrix, inside, share)] : [raster(matrix, now, inside, share)];
  const svg = plot(`${matrix.rows} down, ${matrix.columns} across; the table below has the numbers`, palette, {
    width: inner + marginLeft + 8,
    height: height + 42,
    marginLeft,
    marginTop: 40,
    marginBottom: 2,
    marginRight: 8,
    x: { ...axis(matrix, now.left, now.right, inner, longest + 10, matrix.columns), axis: "top" },
    y: { ...axis(matrix, now.top, now.bottom, height, 20, matrix.rows), reverse: true },
    color: { type: "identity" },
    marks: [
      Plot.frame({ stroke: palette.line }),
      ...marks,
      numbers(view, matrix, inside, each, share),
    ],
  }) as SVGSVGElement & Plot.Plot;
  const readout = h("p", { class: "readout" }, "A drag over the matrix enlarges a part of it.");
  watch(matrix, svg, now, inside, readout);
  const ticks = most === least ? [most] : isWide ? [least, Math.sqrt(least * most), most] : [least, (least + most) / 2, most];
  const swatches = ticks.map((value) =>
    h("span", { class: "swatch" }, h("i", { style: `background:${matrix.colour(share(value))}`, "aria-hidden": "true" }), matrix.amount(value)),
  );
  return h("div", { class: "matrix" }, h("div", { class: "legend" }, ...(most > 0 ? swatches : [])), svg, readout);
}

function axis(matrix: Matrix, first: number, last: number, pixels: number, each: number, label: string): Plot.ScaleOptions {
  const count = last - first + 1;
  const every = Math.ceil((count * each) / pixels);
  const step = [1, 2, 4, 5, 8, 10, 16, 20, 32, 50, 64, 100, 128, 256, 512].find((step) => step >= every) ?? every;
  const ticks = Array.from({ length: count }, (_, at) => first + at).filter((field) => field % step === 0 || count <= step);
  return {
    type: "linear",
    domain: [first - 0.5, last + 0.5],
    ticks,
    tickFormat: (field: number) => matrix.names[field] ?? "",
    tickSize: 3,
    label,
    labelAnchor: "center",
    labelArrow: "none",
  };
}

function fields(matrix: Matrix, inside: number[], share: (value: number) => number): Plot.Markish {
  return Plot.rect(inside, {
    x1: (at: number) => matrix.column[at] - 0.5,
    x2: (at: number) => matrix.column[at] + 0.5,
    y1: (at: number) => matrix.row[at] - 0.5,
    y2: (at: number) => matrix.row[at] + 0.5,
    fill: (at: number) => matrix.colour(share(matrix.value[at])),
    inset: inside.length < 600 ? 0.5 : 0,
  });
}

/** The amounts, where the fields have room for them. */
function numbers(view: View, matrix: Matrix, inside: number[], each: number, share: (value: number) => number): Plot.Markish {
  const fitting = inside.filter((at) => textWidth(matrix.amount(matrix.value[at])) < each - 4);
  return Plot.text(fitting, {
    x: (at: number) => matrix.column[at],
    y: (at: number) => matrix.row[at],
    text: (at: number) => matrix.amount(matrix.value[at]),
    fill: (at: number) => inkOn(matrix.colour(share(matrix.value[at])), view.palette),
    pointerEvents: "none",
  });
}

/** Very many fields as one picture, a pixel each. */
function raster(matrix: Matrix, now: Part, inside: number[], share: (value: number) => number): Plot.Markish {
  const width = now.right - now.left + 1;
  const height = now.bottom - now.top + 1;
  const canvas = document.createElement("canvas");
  Object.assign(canvas, { width, height });
  const context = canvas.getContext("2d");
  for (const at of inside) {
    if (!context) break;
    context.fillStyle = matrix.colour(share(matrix.value[at]));
    context.fillRect(matrix.column[at] - now.left, matrix.row[at] - now.top, 1, 1);
  }
  const source = canvas.toDataURL();
  return (_index, scales) => {
    const image = document.createElementNS("http://www.w3.org/2000/svg", "image");
    const x = scales.scales.x!;
    const y = scales.scales.y!;
    const [left, right] = [x.apply(now.left - 0.5), x.apply(now.right + 0.5)];
    const [top, bottom] = [y.apply(now.top - 0.5), y.apply(now.bottom + 0.5)];
    const attributes = { x: left, y: top, width: right - left, height: bottom - top, href: source, preserveAspectRatio: "none" };
    Object.entries(attributes).forEach(([key, value]) => image.setAttribute(key, String(value)));
    image.style.imageRendering = "pixelated";
    return image;
  };
}

/** Says what is under the pointer, and enlarges what a drag covers. */
function watch(matrix: Matrix, svg: SVGSVGElement & Plot.Plot, now: Part, inside: number[], readout: HTMLElement): void {
  const places = new Map(inside.map((at) => [matrix.row[at] * matrix.names.length + matrix.column[at], at]));
  const [x, y] = [svg.scale("x")!, svg.scale("y")!];
  const field = (event: PointerEvent): { row: number; column: number } | null => {
    const box = svg.getBoundingClientRect();
    const scale = svg.viewBox.baseVal.width / box.width;
    const column = Math.round(x.invert!((event.clientX - box.left) * scale));
    const row = Math.round(y.invert!((event.clientY - box.top) * scale));
    const isInside = row >= now.top && row <= now.bottom && column >= now.left && column <= now.right;
    return isInside ? { row, column } : null;
  };
  const frame = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  frame.setAttribute("class", "drag");
  let begin: { row: number; column: number } | null = null;
  svg.addEventListener("pointerdown", (event) => {
    begin = event.button === 0 && event.pointerType !== "touch" ? field(event) : null;
    if (begin) {
      svg.append(frame);
      svg.setPointerCapture(event.pointerId);
      event.preventDefault();
    }
  });
  svg.addEventListener("pointermove", (event) => {
    const at = field(event);
    if (!at) return;
    const known = places.get(at.row * matrix.names.length + at.column);
    const [from, to] = [matrix.names[at.row], matrix.names[at.column]];
    readout.textContent = known === undefined ? `${matrix.rows} ${from}, ${matrix.columns} ${to}: nothing` : matrix.about(known);
    if (!begin) return;
    const ends = (scale: Plot.Scale, one: number, other: number) =>
      [scale.apply(Math.min(one, other) - 0.5), scale.apply(Math.max(one, other) + 0.5)].sort((a, b) => a - b);
    const [left, right] = ends(x, begin.column, at.column);
    const [top, bottom] = ends(y, begin.row, at.row);
    const attributes = { x: left, y: top, width: right - left, height: bottom - top };
    Object.entries(attributes).forEach(([key, value]) => frame.setAttribute(key, String(value)));
  });
  svg.addEventListener("pointerup", (event) => {
    const end = field(event);
    frame.remove();
    if (begin && end && (begin.row !== end.row || begin.column !== end.column)) {
      const [top, bottom] = [begin.row, end.row].sort((a, b) => a - b);
      const [left, right] = [begin.column, end.column].sort((a, b) => a - b);
      go(zoomed(matrix, { top, bottom, left, right }));
    }
    begin = null;
  });
}

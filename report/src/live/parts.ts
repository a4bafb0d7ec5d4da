// Parts of several views: tables that sort, bars, drawings. The page's policy allows no inline
// style, so sizes and colours are attributes of SVG.

import { h } from "../dom";
import * as format from "../format";

type Content = globalThis.Node | string;

export interface Column<T> {
  heading: string;
  /** What is shown. */
  cell: (row: T) => Content;
  /** What rows are ordered by; columns without it do not sort. */
  order?: (row: T) => number | string;
  isNumber?: boolean;
}

interface Order {
  heading: string;
  descending: boolean;
}

/** How each table is ordered, so that it stays so when it is drawn anew. */
const orders = new Map<string, Order>();

/** A table; `again` draws the view anew. The first column names the row. */
export function table<T>(id: string, caption: string, columns: Column<T>[], rows: T[], again: () => void): HTMLElement {
  const order = orders.get(id);
  const by = columns.find((column) => column.heading === order?.heading)?.order;
  const sorted = [...rows];
  if (by && order) {
    sorted.sort((one, other) => compare(by(one), by(other)) * (order.descending ? -1 : 1));
  }
  const kind = (column: Column<T>) => (column.isNumber ? "number" : "text");
  const head = columns.map((column) => {
    const isSorted = order?.heading === column.heading && by !== undefined;
    const direction = isSorted ? (order.descending ? "descending" : "ascending") : null;
    const mark = isSorted ? h("span", { "aria-hidden": "true" }, order.descending ? "▼" : "▲") : null;
    const sort = () => {
      orders.set(id, { heading: column.heading, descending: isSorted ? !order.descending : column.isNumber === true });
      again();
    };
    const content = column.order
      ? h("button", { type: "button", "data-key": `${id}-${column.heading}`, onclick: sort }, column.heading, mark)
      : h("span", { class: "plain" }, column.heading);
    return h("th", { scope: "col", class: kind(column), "aria-sort": direction }, content);
  });
  const body = sorted.map((row) =>
    h("tr", {}, ...columns.map((column, at) => (at === 0 ? h("th", { scope: "row", class: kind(column) }, column.cell(row)) : h("td", { class: kind(column) }, column.cell(row))))),
  );
  return h(
    "div",
    { class: "scroll", tabindex: 0, role: "group", "aria-label": caption, "data-key": `${id}-region` },
    h("table", {}, h("caption", { class: "off-screen" }, caption), h("thead", {}, h("tr", {}, ...head)), h("tbody", {}, ...body)),
  );
}

function compare(one: number | string, other: number | string): number {
  if (typeof one === "number" && typeof other === "number") return one - other;
  return String(one).localeCompare(String(other), "en", { numeric: true });
}

/** An element of a drawing. */
export function draw(name: string, attributes: Record<string, string | number>, ...children: (globalThis.Node | string)[]): SVGElement {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, String(value));
  element.append(...children);
  return element;
}

/** A share with a bar behind the number. */
export function share(value: number, text = format.percent(value)): HTMLElement {
  const part = 100 * Math.max(0, Math.min(1, value));
  const bar = draw("svg", { viewBox: "0 0 100 4", preserveAspectRatio: "none", "aria-hidden": "true" }, draw("rect", { width: part, height: 4, class: "filled" }));
  return h("span", { class: "share" }, text, bar);
}

/** A little square of a colour. */
export function swatch(colour: string): SVGElement {
  return draw("svg", { width: 12, height: 12, class: "swatch", "aria-hidden": "true" }, draw("rect", { width: 12, height: 12, rx: 2, fill: colour }));
}

/** `2 h 05 min`, `3 min 20 s`, and below a minute as the commands have it. */
export function duration(seconds: number): string {
  const whole = Math.round(seconds);
  const two = (number: number) => String(number).padStart(2, "0");
  if (whole >= 86400) return `${Math.floor(whole / 86400)} d ${two(Math.floor((whole % 86400) / 3600))} h`;
  if (whole >= 3600) return `${Math.floor(whole / 3600)} h ${two(Math.floor((whole % 3600) / 60))} min`;
  if (whole >= 60) return `${Math.floor(whole / 60)} min ${two(whole % 60)} s`;
  return format.time(seconds);
}

/** A moment in the reader's time zone. */
export function moment(seconds: number): HTMLElement {
  const date = new Date(1000 * seconds);
  const two = (number: number) => String(number).padStart(2, "0");
  const text = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
  return h("time", { datetime: date.toISOString() }, text);
}

export function perSecond(text: string): string {
  return `${text}/s`;
}

/** A section with a heading. */
export function section(id: string, title: string, ...content: (HTMLElement | SVGElement | null)[]): HTMLElement {
  return h("section", { class: "figure", "aria-labelledby": `${id}-title` }, h("h2", { id: `${id}-title` }, title), ...content);
}

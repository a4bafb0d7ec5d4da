// Tables: they sort by any column, filter by text, and copy as CSV with exact values.

import type { Cell, CommandTable } from "./data";
import { announce, copyButton, h } from "./dom";
import * as format from "./format";

export type Kind = "text" | "seconds" | "bytes" | "count" | "share" | "change" | "digits" | "ratio";

export interface Column {
  /** In CSV. */
  name: string;
  heading: string;
  kind: Kind;
  values: Cell[];
  /** A value for reading, where its kind differs from row to row. */
  show?: (row: number) => string;
  /** A link of a cell. */
  link?: (row: number) => string;
  /** How far a cell is indented, in steps. */
  indent?: (row: number) => number;
}

export interface TableSpec {
  id: string;
  caption: string;
  columns: Column[];
}

interface Shown {
  open: boolean;
  sortedBy: string;
  descending: boolean;
  filter: string;
  all: boolean;
}

/** How each table is shown, so that it stays so when the page is drawn anew. */
const shown = new Map<string, Shown>();

const FIRST_ROWS = 50;

/** Kinds of columns whose names do not say it. */
const KINDS: Record<string, Kind> = {
  time_change: "change",
  held_out: "change",
  deviation: "share",
  computation_scaling: "share",
  chance: "digits",
  base: "digits",
  slope: "digits",
  value: "digits",
  at: "digits",
  speedup: "ratio",
  correlation: "ratio",
  correlation_low: "ratio",
  correlation_high: "ratio",
};

/** What is in a column of a command's table, by its name. */
function kindOf(name: string, values: Cell[]): Kind {
  if (values.some((value) => typeof value === "string")) return "text";
  if (KINDS[name]) return KINDS[name];
  // Before seconds: of bytes per second the name ends as that of seconds does.
  if (name.includes("bytes")) return "bytes";
  if (name.endsWith("_s")) return "seconds";
  const shares = ["share", "efficiency", "balance", "inside", "_low", "_high", "loss", "imbalance"];
  return shares.some((part) => name.includes(part)) ? "share" : "count";
}

/** Headings in place of those that say nothing without the rest of a table. */
const HEADINGS: Record<string, string> = {
  size_min: "Smallest",
  size_max: "Largest",
  may_be_noise: "May be noise",
  comm: "Communicator",
  call: "Operation",
};

/** Abbreviations in headings of capitals. */
const ABBREVIATIONS: Record<string, string> = Object.fromEntries(["MPI", "NCCL", "CPUs", "GPU", "PCI", "PCIe", "NUMA", "NVLinks"].map((word) => [word.toUpperCase(), word]));

/** A heading of capitals as one of a sentence. */
function capital(heading: string): string {
  // PE % and its factors are abbreviations.
  if (heading !== heading.toUpperCase() || heading.endsWith(" %")) return heading;
  const words = heading.split(" ").map((word, at) => ABBREVIATIONS[word] ?? (at === 0 ? word.slice(0, 1) + word.slice(1).toLowerCase() : word.toLowerCase()));
  return words.join(" ");
}

/** The columns of a command's table, without some. */
export function columnsOf(table: CommandTable, without: string[] = []): Column[] {
  const columns = table.names.map((name, at) => {
    const values = table.columns[at];
    return { name, heading: HEADINGS[name] ?? capital(table.headings[at]), kind: kindOf(name, values), values };
  });
  return columns.filter(({ name }) => !without.includes(name));
}

/** A cell for reading. */
function text({ name, kind, values, show }: Column, row: number): string {
  const value = values[row];
  if (value === null) return "–";
  if (show) return show(row);
  if (name === "region") return format.regionName(String(value));
  if (typeof value === "string") return value;
  switch (kind) {
    case "seconds":
      return format.time(value);
    case "bytes":
      return format.bytes(value);
    case "share":
      return format.percent(value);
    case "change":
      return format.change(value);
    case "digits":
      return format.digits(value);
    case "ratio":
      return value.toFixed(2);
    default:
      return format.count(value);
  }
}

/** The rows as CSV. */
export function csv(columns: Column[], rows: number[]): string {
  const field = (value: Cell) => {
    const text = value === null ? "" : String(value);
    return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  const lines = rows.map((row) => columns.map((column) => field(column.values[row])).join(","));
  return `${columns.map((column) => field(column.name)).join(",")}\n${lines.join("\n")}\n`;
}

function ordered(spec: TableSpec, state: Shown): number[] {
  const length = spec.columns[0]?.values.length ?? 0;
  let rows = Array.from({ length }, (_, row) => row);
  const wanted = state.filter.toLowerCase();
  if (wanted) {
    rows = rows.filter((row) => spec.columns.some((column) => text(column, row).toLowerCase().includes(wanted)));
  }
  const by = spec.columns.find((column) => column.name === state.sortedBy);
  if (by) {
    const sign = state.descending ? -1 : 1;
    const order = (one: Cell, other: Cell): number => {
      if (one === null || other === null) return one === other ? 0 : one === null ? 1 : -1;
      if (typeof one === "number" && typeof other === "number") return sign * (one - other);
      return sign * String(one).localeCompare(String(other), "en", { numeric: true });
    };
    rows.sort((one, other) => order(by.values[one], by.values[other]) || one - other);
  }
  return rows;
}

/** A table that opens below a chart. */
export function dataTable(spec: TableSpec): HTMLElement {
  const state = shown.get(spec.id) ?? { open: false, sortedBy: "", descending: true, filter: "", all: false };
  shown.set(spec.id, state);
  const rows = spec.columns[0]?.values.length ?? 0;
  const details = h("details", { class: "table", open: state.open });
  const summary = h("summary", { "data-key": `table-${spec.id}` }, `${spec.caption}: table with ${format.counted(rows, "row")}`);
  const body = h("div");
  details.append(summary, body);
  const fill = () => body.replaceChildren(...contents(spec, state, fill));
  if (state.open) fill();
  details.addEventListener("toggle", () => {
    state.open = details.open;
    if (details.open && !body.hasChildNodes()) fill();
  });
  return details;
}

function contents(spec: TableSpec, state: Shown, redraw: () => void): Node[] {
  const rows = ordered(spec, state);
  const filter = h("input", {
    type: "search",
    value: state.filter,
    placeholder: "Filter rows",
    "aria-label": `Filter rows of ${spec.caption}`,
    "data-key": `filter-${spec.id}`,
  });
  filter.addEventListener("input", () => {
    state.filter = filter.value;
    redraw();
    const again = document.querySelector<HTMLInputElement>(`[data-key="filter-${spec.id}"]`);
    again?.focus();
    again?.setSelectionRange(state.filter.length, state.filter.length);
    announce(format.counted(ordered(spec, state).length, "row"));
  });
  const tools = h("div", { class: "tools" }, filter, copyButton("Copy as CSV", `Copy as CSV: ${spec.caption}`, () => csv(spec.columns, rows)));
  const visible = state.all ? rows : rows.slice(0, FIRST_ROWS);
  const table = h(
    "table",
    {},
    h("caption", { class: "off-screen" }, spec.caption),
    h("thead", {}, h("tr", {}, ...spec.columns.map((column) => head(spec, column, state, redraw)))),
    h("tbody", {}, ...visible.map((row) => h("tr", {}, ...spec.columns.map((column, at) => cell(column, row, at === 0))))),
  );
  const scroll = h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": `Table: ${spec.caption}` }, table);
  const more =
    visible.length < rows.length &&
    h("button", { type: "button", class: "quiet", onclick: () => ((state.all = true), redraw()) }, `Show all ${rows.length} rows`);
  return [tools, scroll, ...(more ? [more] : [])];
}

function head(spec: TableSpec, column: Column, state: Shown, redraw: () => void): HTMLElement {
  const isSorted = state.sortedBy === column.name;
  const key = `sort-${spec.id}-${column.name}`;
  const sort = () => {
    // Numbers from the largest, texts from A; a third click gives the order as it was.
    const first = column.kind !== "text";
    if (!isSorted) Object.assign(state, { sortedBy: column.name, descending: first });
    else if (state.descending === first) state.descending = !first;
    else state.sortedBy = "";
    redraw();
    document.querySelector<HTMLElement>(`[data-key="${CSS.escape(key)}"]`)?.focus();
  };
  const arrow = isSorted ? (state.descending ? "▼" : "▲") : "";
  return h(
    "th",
    {
      scope: "col",
      class: column.kind === "text" ? "text" : "number",
      "aria-sort": isSorted ? (state.descending ? "descending" : "ascending") : null,
    },
    h("button", { type: "button", "data-key": key, onclick: sort }, column.heading, h("span", { "aria-hidden": "true" }, arrow)),
  );
}

function cell(column: Column, row: number, isFirst: boolean): HTMLElement {
  const content = text(column, row);
  const link = column.link?.(row);
  const steps = column.indent?.(row) ?? 0;
  const inside = link ? h("a", { href: link }, content) : content;
  const attributes = {
    class: column.kind === "text" ? "text" : "number",
    style: steps > 0 ? `padding-left:${0.6 + steps * 1.1}rem` : null,
  };
  return isFirst ? h("th", { scope: "row", ...attributes }, inside) : h("td", attributes, inside);
}

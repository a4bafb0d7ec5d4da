// The frame of a chart: title, controls, the chart, and below it unit, source, command and link.

import { copyButton, h } from "./dom";
import { go, link } from "./state";
import type { State } from "./state";
import { dataTable } from "./table";
import type { TableSpec } from "./table";

export interface Figure {
  id: string;
  title: string;
  /** The title in the links at the top. */
  short?: string;
  /** What the chart says, in a sentence or two. */
  lead?: string | Node | undefined;
  controls?: Node[];
  /** Draws the chart into this width in pixels. */
  draw?: ((width: number) => Node) | undefined;
  /** Instead of the chart: why there is none. */
  missing?: string | undefined;
  unit: string;
  /** The tables of the profile. */
  source: string;
  command: string;
  tables?: TableSpec[];
  /** Takes the whole width of a wide page. */
  wide?: boolean;
}

/** Tables that take the place of others in a profile with sums over ranks. */
const SUMS: Record<string, string> = {
  "calls.csv": "totals.csv, spread.csv",
  "gpu.csv": "gpu-totals.csv",
  "ranks.csv": "nodes.csv",
  "regions.csv": "region-totals.csv",
  "paths.csv": "path-totals.csv",
};

/** The tables of a chart, in a profile with rows of each rank or with sums over ranks. */
export function tablesOf(source: string, isFolded: boolean): string {
  return isFolded ? source.replace(/[a-z]+\.csv/g, (table) => SUMS[table] ?? table) : source;
}

/** Fills the section of a figure; `width` is that of its chart. */
export function fill(section: HTMLElement, figure: Figure, width: number): void {
  const heading = h("h2", { id: `${figure.id}-title`, tabindex: -1 }, figure.title);
  const chart = figure.missing
    ? h("p", { class: "missing" }, figure.missing)
    : figure.draw
      ? h("div", { class: "chart" }, figure.draw(width))
      : null;
  const parts: (Node | null)[] = [
    heading,
    figure.lead ? h("p", { class: "lead" }, figure.lead) : null,
    figure.controls?.length && !figure.missing ? h("div", { class: "controls" }, ...figure.controls) : null,
    chart,
    caption(figure),
    ...(figure.tables ?? []).filter((table) => (table.columns[0]?.values.length ?? 0) > 0).map(dataTable),
  ];
  section.replaceChildren(...parts.filter((part) => part !== null));
}

function caption(figure: Figure): HTMLElement {
  const address = () => new URL(link({ at: figure.id }), location.href).href;
  return h(
    "dl",
    { class: "caption" },
    h("div", {}, h("dt", {}, "Unit"), h("dd", {}, figure.unit)),
    h("div", {}, h("dt", {}, "From"), h("dd", {}, h("code", {}, figure.source))),
    h(
      "div",
      {},
      h("dt", {}, "Link"),
      h("dd", {}, h("a", { href: link({ at: figure.id }), "aria-label": `Link to this view of ${figure.title}` }, "to this view"), copyButton("Copy", `Copy the link to this view of ${figure.title}`, address)),
    ),
    h(
      "div",
      { class: "command" },
      h("dt", {}, "In the terminal"),
      h(
        "dd",
        {},
        h("code", {}, figure.command),
        copyButton("Copy", `Copy the command of ${figure.title}`, () => figure.command),
      ),
    ),
  );
}

/** A choice of one of some values, which is part of the address. */
export function choice<K extends keyof State>(
  id: string,
  label: string,
  key: K,
  values: [State[K], string][],
  now: State[K],
): HTMLElement {
  const options = values.map(([value, text]) => {
    const input = h("input", { type: "radio", name: `${id}-${key}`, value, checked: value === now, "data-key": `${id}-${key}-${value}` });
    input.addEventListener("change", () => go({ [key]: value } as Partial<State>));
    return h("label", {}, input, h("span", {}, text));
  });
  return h("fieldset", { class: "choice" }, h("legend", {}, label), ...options);
}

/** Swatches with what they mean. */
export function legend(label: string, entries: [colour: string, text: string][]): HTMLElement {
  return h(
    "div",
    { class: "legend", role: "group", "aria-label": label || "Colours" },
    label !== "" && h("span", { class: "legend-label" }, label),
    ...entries.map(([colour, text]) =>
      h("span", { class: "swatch" }, h("i", { style: `background:${colour}`, "aria-hidden": "true" }), text),
    ),
  );
}

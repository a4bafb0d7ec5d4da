// The page: verdict and findings, then the charts, each drawn anew when what is chosen changes.

import { comms } from "./charts/comms";
import { cpu } from "./charts/cpu";
import { efficiency } from "./charts/efficiency";
import { grid } from "./charts/grid";
import { locality } from "./charts/locality";
import { operations } from "./charts/operations";
import { ranks } from "./charts/ranks";
import { regions } from "./charts/regions";
import { sizes } from "./charts/sizes";
import { matrix } from "./charts/traffic";
import { waits } from "./charts/waits";
import { decode } from "./data";
import type { Data } from "./data";
import { announce, h } from "./dom";
import { fill, tablesOf } from "./figure";
import type { Figure } from "./figure";
import { findings, header } from "./head";
import { Model } from "./model";
import { current, go, link } from "./state";
import { isDark, palette } from "./theme";
import type { View } from "./view";

const CHARTS: ((view: View) => Figure | null)[] = [
  comms,
  efficiency,
  operations,
  ranks,
  matrix,
  waits,
  sizes,
  grid,
  regions,
  cpu,
  locality,
];

class Page {
  private readonly sections: { draw: (view: View) => Figure | null; element: HTMLElement }[];
  private readonly bar = h("div", { class: "bar" });
  private readonly links = h("ul");
  private widths = "";

  constructor(
    private readonly root: HTMLElement,
    private readonly data: Data,
    private readonly model: Model,
  ) {
    this.sections = CHARTS.map((draw) => ({ draw, element: h("section", { class: "figure" }) }));
    root.append(
      header(data),
      h("main", {}, findings(data), this.bar, h("div", { class: "figures" }, ...this.sections.map(({ element }) => element))),
      h("footer", {}, `${data.generator}. Everything is in this file; nothing is loaded from a network. The licences of the chart library are in its source.`),
      h("div", { id: "announcer", class: "off-screen", role: "status" }),
    );
  }

  /** Draws everything for what is chosen. */
  draw(dark = isDark(current().theme)): void {
    const state = current();
    document.documentElement.dataset["theme"] = dark ? "dark" : "light";
    const view: View = { model: this.model, data: this.data, state, palette: palette(dark) };
    const focus = document.activeElement?.getAttribute("data-key");
    const drawn = this.sections.map(({ draw, element }) => ({ figure: draw(view), element }));
    const figures = drawn.flatMap(({ figure }) => figure ?? []);
    widen(figures);
    for (const { figure, element } of drawn) {
      element.hidden = figure === null;
      if (!figure) continue;
      element.id = figure.id;
      element.className = figure.wide ? "figure wide" : "figure";
      element.setAttribute("aria-labelledby", `${figure.id}-title`);
      fill(element, { ...figure, source: tablesOf(figure.source, this.data.run.folded) }, inner(element));
    }
    this.widths = this.measured();
    this.drawBar(figures);
    if (focus) document.querySelector<HTMLElement>(`[data-key="${CSS.escape(focus)}"]`)?.focus({ preventScroll: true });
  }

  /** The choice of communicators, and links to the charts. */
  private drawBar(figures: Figure[]): void {
    const { comm, theme } = current();
    const select = h("select", { "data-key": "comm" }, h("option", { value: "" }, "all communicators"));
    for (const { comm: number, depth } of this.model.order) {
      const { name, label, size } = this.data.comms[number];
      const text = `${"\u2003".repeat(depth)}${name} (${size})${label ? ` ${label}` : ""}`;
      select.append(h("option", { value: name, selected: name === comm }, text));
    }
    select.addEventListener("change", () => go({ comm: select.value }));
    const next = isDark(theme) ? "light" : "dark";
    const isChosen = this.model.number(comm) !== null;
    this.links.replaceChildren(...figures.map((figure) => h("li", {}, h("a", { href: link({ at: figure.id }) }, SHORT[figure.id] ?? figure.title))));
    this.bar.replaceChildren(
      h("label", { class: "field" }, "Show ", select),
      ...(isChosen ? [h("a", { class: "clear", href: link({ comm: "" }) }, "Show all")] : []),
      h("nav", { "aria-label": "Charts" }, this.links),
      h("button", { type: "button", class: "quiet", "data-key": "theme", onclick: () => go({ theme: next }) }, next === "dark" ? "Dark" : "Light"),
    );
    this.bar.classList.toggle("chosen", isChosen);
  }

  /** Shows the chart in the address. */
  show(): void {
    const { at } = current();
    if (at === "") return;
    // A chart that this profile does not have, as of process grids: the communicators are nearest to it.
    const section = document.getElementById(at) ?? document.getElementById("comms");
    section?.scrollIntoView({ block: "start" });
    section?.querySelector("h2")?.focus({ preventScroll: true });
  }

  private measured(): string {
    return this.sections.map(({ element }) => inner(element)).join();
  }

  /** Follows the address, the width of the page, the system's colours and printing. */
  listen(): void {
    let before = current();
    addEventListener("hashchange", () => {
      const now = current();
      const isOther = JSON.stringify({ ...now, at: "" }) !== JSON.stringify({ ...before, at: "" });
      if (isOther) this.draw();
      if (now.comm !== before.comm) announce(now.comm === "" ? "All communicators" : `The charts show ${now.comm}`);
      before = now;
      this.show();
      document.documentElement.dataset["shown"] = location.hash;
    });
    let waiting = 0;
    new ResizeObserver(() => {
      cancelAnimationFrame(waiting);
      waiting = requestAnimationFrame(() => {
        if (this.measured() !== this.widths) this.draw();
      });
    }).observe(this.root);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
    addEventListener("beforeprint", () => this.draw(false));
    addEventListener("afterprint", () => this.draw());
  }
}

/** Gives the whole width to charts that would stand alone beside an empty place. */
function widen(figures: Figure[]): void {
  let beside = 0;
  figures.forEach((figure, at) => {
    beside = figure.wide ? 0 : beside + 1;
    const next = figures[at + 1];
    if (beside % 2 === 1 && (!next || next.wide)) figure.wide = true;
  });
}

/** The width of an element without its padding. */
function inner(element: HTMLElement): number {
  const style = getComputedStyle(element);
  return Math.max(240, Math.floor(element.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight)));
}

/** The charts in the links at the top. */
const SHORT: Record<string, string> = {
  comms: "Communicators",
  efficiency: "Efficiency",
  operations: "Operations",
  ranks: "Ranks",
  matrix: "Traffic",
  waits: "Waits",
  sizes: "Sizes",
  grid: "Grid",
  regions: "Regions",
  cpu: "Cores",
  locality: "Locality",
};

async function start(): Promise<void> {
  const root = document.getElementById("report");
  const encoded = document.getElementById("data");
  if (!root || !encoded) return;
  const data = await decode(encoded.textContent ?? "");
  encoded.remove();
  const page = new Page(root, data, new Model(data));
  page.draw();
  page.listen();
  page.show();
  // What is drawn, for tests.
  document.documentElement.dataset["shown"] = location.hash;
  document.documentElement.dataset["ready"] = "true";
}

start().catch((error: unknown) => {
  const text = `The report cannot be shown: ${error instanceof Error ? error.message : String(error)}. Browsers from 2023 on can.`;
  document.getElementById("report")?.append(h("p", { class: "missing" }, text));
});

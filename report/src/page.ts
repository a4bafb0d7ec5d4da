// The frame of a page: what stands at the top, the bar with choices and links, and the charts, each
// drawn anew when what is chosen changes.

import { announce, h } from "./dom";
import { fill } from "./figure";
import type { Figure } from "./figure";
import { current, go, link } from "./state";
import type { State } from "./state";
import { isDark, palette } from "./theme";
import type { Palette } from "./theme";

/** What is on a page; `V` is what its charts are drawn of. */
export interface Contents<V> {
  header: HTMLElement;
  /** Before the charts. */
  lead: HTMLElement;
  charts: ((view: V) => Figure | null)[];
  view: (state: State, palette: Palette) => V;
  /** What is chosen in the bar, and whether that is a part of the data. */
  choices: (state: State) => { controls: HTMLElement[]; isPart: boolean };
  /** Titles of charts in the links at the top, by their names. */
  short: Record<string, string>;
  /** The chart to show for one in the address that the page does not have. */
  first: string;
  /** The tables of the profile that a chart is made of. */
  sources: (source: string) => string;
  generator: string;
}

export class Page<V> {
  private readonly sections: { draw: (view: V) => Figure | null; element: HTMLElement }[];
  private readonly bar = h("div", { class: "bar" });
  private readonly links = h("ul");
  private widths = "";

  constructor(
    private readonly root: HTMLElement,
    private readonly contents: Contents<V>,
  ) {
    this.sections = contents.charts.map((draw) => ({ draw, element: h("section", { class: "figure" }) }));
    root.append(
      contents.header,
      h("main", {}, contents.lead, this.bar, h("div", { class: "figures" }, ...this.sections.map(({ element }) => element))),
      h("footer", {}, `${contents.generator}. Everything is in this file; nothing is loaded from a network. The licences of the chart library are in its source.`),
      h("div", { id: "announcer", class: "off-screen", role: "status" }),
    );
  }

  /** Draws everything for what is chosen. */
  draw(dark = isDark(current().theme)): void {
    document.documentElement.dataset["theme"] = dark ? "dark" : "light";
    const view = this.contents.view(current(), palette(dark));
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
      fill(element, { ...figure, source: this.contents.sources(figure.source) }, inner(element));
    }
    this.widths = this.measured();
    this.drawBar(figures);
    if (focus) document.querySelector<HTMLElement>(`[data-key="${CSS.escape(focus)}"]`)?.focus({ preventScroll: true });
  }

  /** Choices, and links to the charts. */
  private drawBar(figures: Figure[]): void {
    const state = current();
    const { controls, isPart } = this.contents.choices(state);
    const next = isDark(state.theme) ? "light" : "dark";
    const short = this.contents.short;
    this.links.replaceChildren(...figures.map((figure) => h("li", {}, h("a", { href: link({ at: figure.id }) }, figure.short ?? short[figure.id] ?? figure.title))));
    this.bar.replaceChildren(
      ...controls,
      h("nav", { "aria-label": "Charts" }, this.links),
      h("button", { type: "button", class: "quiet", "data-key": "theme", onclick: () => go({ theme: next }) }, next === "dark" ? "Dark" : "Light"),
    );
    this.bar.classList.toggle("chosen", isPart);
  }

  /** Shows the chart in the address. */
  show(): void {
    const { at } = current();
    if (at === "") return;
    const section = document.getElementById(at) ?? document.getElementById(this.contents.first);
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

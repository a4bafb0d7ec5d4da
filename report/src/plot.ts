// The library's charts with the look of the page.

import * as Plot from "@observablehq/plot";
import type { Palette } from "./theme";

export { Plot };

export type Svg = SVGSVGElement | HTMLElement;

/** The letters of charts, as those of `--image`. */
const FONT = "DejaVu Sans, Verdana, sans-serif";

/** Draws a chart. `label` is what screen readers say of it; its links, if any, stay reachable. */
export function plot(label: string, palette: Palette, options: Plot.PlotOptions): Svg {
  const drawn = Plot.plot({
    style: { fontFamily: FONT, fontSize: "12px", background: "none", color: palette.ink, overflow: "visible" },
    ...options,
    ariaLabel: label,
  });
  const svg = drawn instanceof SVGSVGElement ? drawn : drawn.querySelector("svg");
  const links = svg?.querySelectorAll("a") ?? [];
  svg?.setAttribute("role", links.length > 0 ? "group" : "img");
  for (const link of links) {
    const name = link.querySelector("[aria-label]")?.getAttribute("aria-label") ?? link.textContent ?? "";
    link.setAttribute("aria-label", name);
    link.setAttribute("role", "link");
    link.setAttribute("data-key", `${label}-${name}`);
  }
  // Marks have labels for screen readers, which only elements with a role may have.
  for (const mark of svg?.querySelectorAll("[aria-label]") ?? []) {
    if (mark !== svg && mark.tagName !== "a") mark.removeAttribute("aria-label");
  }
  return drawn;
}

/** What is under the pointer. Tables have it for those who do not see it, so screen readers pass over it. */
export function tip<T>(data: readonly T[], options: Plot.TipOptions): Plot.Tip {
  return Plot.tip(data as Plot.Data, { ...options, ariaHidden: "true" });
}

/** Pixels of a letter in charts, and of a bold one, at most in ordinary text. */
const LETTER = 6.7;
export const BOLD_LETTER = 7.7;

/** About how wide a text is, in pixels. */
export function textWidth(text: string): number {
  return LETTER * text.length;
}

/** The end of a name that fits into some pixels: the beginnings of communicators' names are those of their parents. */
export function fittedName(name: string, width: number): string {
  const most = Math.floor(width / LETTER);
  return name.length <= most ? name : `…${name.slice(name.length - most + 1)}`;
}

/** A text that fits into some pixels. */
export function fitted(text: string, width: number, letter = LETTER): string {
  const most = Math.floor(width / letter);
  return text.length <= most ? text : most < 2 ? "" : `${text.slice(0, most - 1)}…`;
}

// A job over time: the ranks' time in each of the busiest communicators, and bytes per second.

import { h } from "../dom";
import * as format from "../format";
import type { Palette } from "../theme";
import type { Sample } from "./data";
import { draw, duration, swatch } from "./parts";

const LEFT = 80;
const RIGHT = 12;
const ABOVE = 8;
const BELOW = 22;

interface Frame {
  width: number;
  height: number;
  from: number;
  to: number;
}

/** The charts, for a place of that width. */
export function timeline(samples: Sample[], width: number, palette: Palette): HTMLElement {
  const first = samples[0];
  const last = samples[samples.length - 1];
  if (!first || !last) return h("p", { class: "missing" }, "Rates are there after the second look.");
  const frame = { width, height: 180, from: Math.max(0, first.at_s - first.length_s), to: last.at_s };
  const names = busiest(samples, palette.categories.length);
  const items = names.map((name, at) => h("li", {}, swatch(palette.categories[at] ?? palette.other), name));
  const hasOthers = samples.some((sample) => others(sample, names) > 0.005);
  if (hasOthers) items.push(h("li", {}, swatch(palette.other), "others"));
  const rate = { ...frame, height: 110 };
  return h(
    "div",
    { class: "timeline" },
    h("p", { class: "lead" }, "Part of the ranks' time in MPI, by communicator"),
    h("ul", { class: "legend" }, ...items),
    shares(samples, names, frame, palette),
    h("p", { class: "lead" }, "Bytes per second of MPI calls"),
    bytes(samples, rate, palette),
  );
}

/** The communicators with most time, over all samples. */
function busiest(samples: Sample[], most: number): string[] {
  const sums = new Map<string, number>();
  for (const { comms, length_s } of samples) {
    for (const [name, part] of Object.entries(comms)) sums.set(name, (sums.get(name) ?? 0) + part * length_s);
  }
  const order = [...sums].sort((one, other) => other[1] - one[1]).slice(0, most);
  return order.map(([name]) => name);
}

function others(sample: Sample, names: string[]): number {
  return Math.max(0, sample.mpi - names.reduce((sum, name) => sum + (sample.comms[name] ?? 0), 0));
}

function across(frame: Frame, at_s: number): number {
  return LEFT + ((at_s - frame.from) / Math.max(1e-9, frame.to - frame.from)) * (frame.width - LEFT - RIGHT);
}

function up(frame: Frame, part: number): number {
  return ABOVE + (1 - Math.max(0, Math.min(1, part))) * (frame.height - ABOVE - BELOW);
}

function shares(samples: Sample[], names: string[], frame: Frame, palette: Palette): SVGElement {
  const layers = [...names.map((name) => (sample: Sample) => sample.comms[name] ?? 0), (sample: Sample) => others(sample, names)];
  const below = samples.map(() => 0);
  const areas = layers.map((layer, at) => {
    const base = [...below];
    samples.forEach((sample, index) => (below[index] = (below[index] ?? 0) + layer(sample)));
    const fill = at < names.length ? (palette.categories[at] ?? palette.other) : palette.other;
    return draw("path", { d: steps(samples, frame, base, below), fill });
  });
  const lines = [0, 0.5, 1].map((part) => rule(frame, part, format.percent(part).replace(".0", "")));
  const mean = samples.reduce((sum, sample) => sum + sample.mpi * sample.length_s, 0) / samples.reduce((sum, sample) => sum + sample.length_s, 0);
  const said = `Over ${duration(frame.to - frame.from)}, ${format.percent(mean)} of the ranks' time in MPI; most in ${names[0] ?? "no communicator"}`;
  return chart(frame, said, [...areas, ...lines, ...times(frame)]);
}

/** An area between two lines, flat over each interval. */
function steps(samples: Sample[], frame: Frame, low: number[], high: number[]): string {
  const begin = (sample: Sample) => across(frame, Math.max(frame.from, sample.at_s - sample.length_s)).toFixed(1);
  const end = (sample: Sample) => across(frame, sample.at_s).toFixed(1);
  const there = samples.map((sample, at) => `${begin(sample)},${up(frame, high[at] ?? 0).toFixed(1)}L${end(sample)},${up(frame, high[at] ?? 0).toFixed(1)}`);
  const back = samples.map((sample, at) => `${end(sample)},${up(frame, low[at] ?? 0).toFixed(1)}L${begin(sample)},${up(frame, low[at] ?? 0).toFixed(1)}`).reverse();
  return `M${there.join("L")}L${back.join("L")}Z`;
}

function bytes(samples: Sample[], frame: Frame, palette: Palette): SVGElement {
  const most = Math.max(1, ...samples.map((sample) => sample.bytes_per_s));
  const high = samples.map((sample) => sample.bytes_per_s / most);
  const area = draw("path", { d: steps(samples, frame, samples.map(() => 0), high), fill: palette.accent });
  const lines = [rule(frame, 0, "0"), rule(frame, 1, `${format.bytes(most)}/s`)];
  return chart(frame, `At most ${format.bytes(most)} per second`, [area, ...lines, ...times(frame)]);
}

function rule(frame: Frame, part: number, text: string): SVGElement {
  const y = up(frame, part);
  const line = draw("line", { x1: LEFT, x2: frame.width - RIGHT, y1: y, y2: y, class: "rule" });
  return draw("g", {}, line, draw("text", { x: LEFT - 6, y: y + 4, "text-anchor": "end" }, text));
}

function times(frame: Frame): SVGElement[] {
  const parts = frame.width < 500 ? [0, 1] : [0, 0.25, 0.5, 0.75, 1];
  return parts.map((part) => {
    const at_s = frame.from + part * (frame.to - frame.from);
    const anchor = part === 0 ? "start" : part === 1 ? "end" : "middle";
    return draw("text", { x: across(frame, at_s), y: frame.height - 4, "text-anchor": anchor }, duration(at_s));
  });
}

function chart(frame: Frame, said: string, content: SVGElement[]): SVGElement {
  const size = { width: frame.width, height: frame.height, viewBox: `0 0 ${frame.width} ${frame.height}` };
  return draw("svg", { ...size, role: "img", "aria-label": said }, ...content);
}

// The run over time, as agents read it: MPI time, MPI bytes by family of communicators, and the
// network beside them.

import type { FamilyOverTime, OverTime } from "../data";
import { column, numbers } from "../data";
import { h } from "../dom";
import * as format from "../format";
import { legend } from "../figure";
import type { Figure } from "../figure";
import { Plot, fitted, plot, textWidth, tip } from "../plot";
import { columnsOf } from "../table";
import type { TableSpec } from "../table";
import type { View } from "../view";

/** The colour with which devices begin: those of communicators are above. */
const FIRST_OF_DEVICES = 3;

/** What is drawn in one colour. */
interface Layer {
  name: string;
  colour: string;
  values: number[];
}

interface Point {
  s: number;
  value: number;
  layer: string;
  colour: string;
}

/** The network's share of its links from which on the limit is drawn: below it the rates would be flat. */
const NEAR_LIMIT = 0.2;
const LEFT = 74;
const RIGHT = 10;

const rate = (value: number) => `${format.bytes(value)}/s`;
const sum = (values: number[]) => values.reduce((all, one) => all + one, 0);
const most = (values: number[]) => values.reduce((one, other) => Math.max(one, other), 0);

export function timeline(view: View): Figure | null {
  const { data, model, state } = view;
  const all = data.over_time;
  const common = {
    id: "timeline",
    title: "The run over time",
    unit: `% of the ranks' time in ${libraries(all)}; bytes per second, of ${libraries(all)} over all ranks and of network devices over all nodes`,
    source: "rates.csv, node-rates.csv of the time line",
    command: model.command("timeline"),
    wide: true,
  };
  if (!all) return data.missing.timeline ? { ...common, missing: data.missing.timeline } : null;
  const families = chosen(view, all);
  const isPart = model.number(state.comm) !== null;
  if (families.length === 0) {
    const why = all.others && isPart ? "The time line has these communicators among others, which it does not tell apart." : "The agents saw no call on these communicators.";
    return { ...common, missing: why };
  }
  return {
    ...common,
    lead: lead(all, isPart),
    draw: (width) => draw(view, all, families, width),
    tables: tables(all, families),
  };
}

/** The calls that agents saw. */
function libraries(all: OverTime | null): string {
  return all?.families.some(({ is_nccl }) => is_nccl) ? "MPI and NCCL" : "MPI";
}

/** The families of the communicators that are chosen; of all the rest, too. */
function chosen({ data, model, state }: View, all: OverTime): FamilyOverTime[] {
  if (model.number(state.comm) === null) {
    const name = `${all.other_families} other communicators`;
    return [...all.families, ...(all.others ? [{ ...all.others, name }] : [])].map((family) => ({ ...family, name: nameOf(data.comms, family) }));
  }
  const is = model.chosen(state.comm);
  return all.families.filter(({ comm }) => comm !== null && is[comm]).map((family) => ({ ...family, name: nameOf(data.comms, family) }));
}

/** The name that the other charts have for a family. */
function nameOf(comms: { name: string }[], { comm, name }: FamilyOverTime): string {
  return comm === null ? name : comms[comm].name;
}

function lead(all: OverTime, isPart: boolean): Node {
  const names = column(all.phases, "name").map(String);
  const [begins, ends] = [numbers(all.phases, "begin_s"), numbers(all.phases, "end_s")];
  const first = names.slice(0, 4).map((name, at) => `${name} (${format.time(begins[at])} to ${format.time(ends[at])})`);
  const more = names.length > first.length ? `; ${format.counted(names.length - first.length, "more phase")} in the table` : "";
  const isOne = names.length === 1;
  const phases = `${format.counted(names.length, "phase")}${isPart ? " of the whole run" : ""}, by ${isOne ? "its" : "their"} operation with most time: ${first.join("; ")}${more}.`;
  const used = all.devices.flatMap(({ name, bytes_per_s, link_bytes_per_s }) => (link_bytes_per_s === null ? [] : [{ name, share: most(bytes_per_s) / link_bytes_per_s }]));
  const busiest = used.reduce((one, other) => (other.share > one.share ? other : one), { name: "", share: -1 });
  const link = busiest.share >= 0 ? `At its peak ${busiest.name} ${format.percent(busiest.share)} of what its link can carry.` : "";
  const sentences = [phases, link, ...all.notes].filter((sentence) => sentence !== "");
  return h("span", {}, ...sentences.map((sentence) => h("span", { class: "sentence" }, sentence)));
}

/** Families with colours of their own, the rest as one, and those of NCCL. */
function layers(view: View, families: FamilyOverTime[], of: (family: FamilyOverTime) => number[]): Layer[] {
  const { categories, other, nccl } = view.palette;
  const ofMpi = families.filter(({ is_nccl }) => !is_nccl);
  const all = ofMpi.slice(0, categories.length).map((family, at) => ({ name: family.name, colour: categories[at], values: of(family) }));
  const one = (families: FamilyOverTime[], name: string, colour: string): Layer[] => {
    if (families.length === 0) return [];
    const values = of(families[0]).map((_, bin) => sum(families.map((family) => of(family)[bin])));
    return [{ name: families.length === 1 ? families[0].name : name, colour, values }];
  };
  // On top of the others, since its time is none in MPI.
  const ofNccl = one(families.filter(({ is_nccl }) => is_nccl), "communicators of NCCL", nccl);
  return [...all, ...one(ofMpi.slice(categories.length), "other communicators", other), ...ofNccl];
}

/** Where a part of the time begins; of the one after the last, the end. */
function begin(all: OverTime, bin: number): number {
  return Math.min(bin * all.bin_s, all.end_s);
}

function middle(all: OverTime, bin: number): number {
  return (begin(all, bin) + begin(all, bin + 1)) / 2;
}

/** Each value from its part's begin on; the last one to its end. */
function points(layers: Layer[], all: OverTime): Point[] {
  return layers.flatMap(({ name, colour, values }) =>
    [...values, values[values.length - 1]].map((value, bin) => ({ s: begin(all, bin), value, layer: name, colour })),
  );
}

function draw(view: View, all: OverTime, families: FamilyOverTime[], width: number): Node {
  const { palette } = view;
  const shares = layers(view, families, ({ time_share }) => time_share);
  const bytes = layers(view, families, ({ bytes_per_s }) => bytes_per_s);
  const devices = all.devices.map(({ name, bytes_per_s }, at) => ({ name, colour: palette.categories[(at + FIRST_OF_DEVICES) % palette.categories.length], values: bytes_per_s }));
  const key = legend("Communicators", shares.map(({ name, colour }) => [colour, name]));
  const percent = (share: number) => `${Math.round(100 * share)} %`;
  const link = links(all);
  return h(
    "div",
    { class: "over-time" },
    key,
    h("h3", {}, `Ranks' time in ${libraries(all)}, and the phases`),
    stacked(view, all, shares, { label: `The part of the ranks' time in ${libraries(all)} over time, by communicators`, height: 240, width, tick: percent, show: format.percent, most: 1, hasNames: true }),
    h("h3", {}, `${libraries(all)} bytes per second`),
    stacked(view, all, bytes, { label: `${libraries(all)} bytes per second over time, by communicators`, height: 170, width, tick: (value) => format.tick("bytes", value), show: rate, most: null, hasNames: false }),
    devices.length > 0 && h("h3", {}, "Network devices"),
    devices.length > 0 && legend("Bytes per second", devices.map(({ name, colour }) => [colour, name])),
    devices.length > 0 && network(view, all, devices, link, width),
  );
}

/** How much a device's links carry, of those that come near to it. */
function links(all: OverTime): number[] {
  const near = all.devices.filter(({ bytes_per_s, link_bytes_per_s }) => link_bytes_per_s !== null && most(bytes_per_s) >= NEAR_LIMIT * link_bytes_per_s);
  return [...new Set(near.map(({ link_bytes_per_s }) => link_bytes_per_s as number))];
}

interface Stack {
  label: string;
  height: number;
  width: number;
  tick: (value: number) => string;
  show: (value: number) => string;
  /** The end of the scale; null for that of the values. */
  most: number | null;
  /** Whether phases have their names above. */
  hasNames: boolean;
}

function timeAxis(all: OverTime): Plot.ScaleOptions {
  return { domain: [0, all.end_s], label: null, tickFormat: (s: number) => format.tick("time", s), ticks: 6 };
}

function stacked(view: View, all: OverTime, layers: Layer[], of: Stack): Node {
  const { palette } = view;
  const bins = Array.from({ length: all.bins }, (_, bin) => bin);
  const whole = (bin: number) => sum(layers.map(({ values }) => values[bin]));
  const end = of.most ?? (most(bins.map(whole)) || 1);
  return plot(`${of.label}; the tables below have the numbers`, palette, {
    width: of.width,
    height: of.height,
    marginLeft: LEFT,
    marginRight: RIGHT,
    marginTop: of.hasNames ? 26 : 10,
    marginBottom: 26,
    x: timeAxis(all),
    y: { domain: [0, end], label: null, grid: true, ticks: of.most === null ? format.ticks("bytes", end, 4) : 4, tickFormat: of.tick },
    color: { type: "identity" },
    marks: [
      Plot.areaY(points(layers, all), Plot.stackY({ x: "s", y: "value", z: "layer", fill: "colour", curve: "step-after" })),
      Plot.ruleY([0], { stroke: palette.muted }),
      ...phaseMarks(view, all, of),
      tip(bins, Plot.pointerX({ x: (bin: number) => middle(all, bin), y: whole, title: (bin: number) => about(all, layers, bin, of.show) })),
    ],
  });
}

/** Lines between phases, and what each is. */
function phaseMarks({ palette }: View, all: OverTime, { width, hasNames }: Stack): Plot.Markish[] {
  const [begins, ends] = [numbers(all.phases, "begin_s"), numbers(all.phases, "end_s")];
  const pixels = (width - LEFT - RIGHT) / Math.max(1e-9, all.end_s);
  const names = column(all.phases, "name").map((name, at) => {
    const number = String(at + 1);
    const room = (ends[at] - begins[at]) * pixels - 8;
    const text = fitted(`${number} ${name}`, room);
    return { s: (begins[at] + ends[at]) / 2, text: textWidth(number) > room ? "" : text.length > number.length + 2 ? text : number };
  });
  return [
    Plot.ruleX(begins.slice(1), { stroke: palette.ink, strokeDasharray: "3 3" }),
    ...(hasNames ? [Plot.text(names, { x: "s", frameAnchor: "top", dy: -14, text: "text", fill: palette.muted })] : []),
  ];
}

function about(all: OverTime, layers: Layer[], bin: number, show: (value: number) => string): string {
  const at_s = middle(all, bin);
  const [begins, ends] = [numbers(all.phases, "begin_s"), numbers(all.phases, "end_s")];
  const phase = begins.findIndex((begin_s, at) => at_s >= begin_s && at_s < ends[at]);
  const named = phase < 0 ? [] : [`phase ${phase + 1}: ${column(all.phases, "name")[phase]}`];
  const values = layers.filter(({ values }) => values[bin] > 0).map(({ name, values }) => `${name} ${show(values[bin])}`);
  return [`${format.time(begin(all, bin))} to ${format.time(begin(all, bin + 1))}`, ...named, ...values].join("\n");
}

function network(view: View, all: OverTime, devices: Layer[], links: number[], width: number): Node {
  const { palette } = view;
  const bins = Array.from({ length: all.bins }, (_, bin) => bin);
  const busiest = (bin: number) => most(devices.map(({ values }) => values[bin]));
  const end = most([...bins.map(busiest), ...links]) || 1;
  const show = (value: number, at: number) => {
    const link = all.devices[at].link_bytes_per_s;
    return link === null ? rate(value) : `${rate(value)}, ${format.percent(value / link)} of the link`;
  };
  const title = (bin: number) => {
    const values = devices.flatMap(({ name, values }, at) => (values[bin] > 0 ? [`${name} ${show(values[bin], at)}`] : []));
    return [`${format.time(begin(all, bin))} to ${format.time(begin(all, bin + 1))}`, ...values].join("\n");
  };
  return plot("Bytes per second on network devices over time; the tables below have the numbers", palette, {
    width,
    height: 170,
    marginLeft: LEFT,
    marginRight: RIGHT,
    marginTop: 14,
    marginBottom: 26,
    x: timeAxis(all),
    y: { domain: [0, end], label: null, grid: true, ticks: format.ticks("bytes", end, 4), tickFormat: (value: number) => format.tick("bytes", value) },
    color: { type: "identity" },
    marks: [
      Plot.ruleY([0], { stroke: palette.muted }),
      Plot.ruleY(links, { stroke: palette.ink, strokeDasharray: "5 4" }),
      Plot.text(links, { x: all.end_s, y: (link: number) => link, text: (link: number) => `link: ${rate(link)}`, textAnchor: "end", dy: -7, fill: palette.muted }),
      Plot.lineY(points(devices, all), { x: "s", y: "value", z: "layer", stroke: "colour", strokeWidth: 1.8, curve: "step-after" }),
      tip(bins, Plot.pointerX({ x: (bin: number) => middle(all, bin), y: busiest, title })),
    ],
  });
}

/** The phases, the families, and each part of the time. */
function tables(all: OverTime, families: FamilyOverTime[]): TableSpec[] {
  const bins = Array.from({ length: all.bins }, (_, bin) => bin);
  const length = (bin: number) => begin(all, bin + 1) - begin(all, bin);
  const mean = (values: number[]) => sum(values.map((value, bin) => value * length(bin))) / Math.max(1e-9, all.end_s);
  const total = (of: (family: FamilyOverTime) => number[], isNccl = false) => bins.map((bin) => sum(families.filter(({ is_nccl }) => is_nccl === isNccl).map((family) => of(family)[bin])));
  const hasNccl = families.some(({ is_nccl }) => is_nccl);
  return [
    { id: "timeline-phases", caption: "Phases", columns: columnsOf(all.phases) },
    {
      id: "timeline-families",
      caption: "Communicators over time",
      columns: [
        { name: "family", heading: "Communicator", kind: "text", values: families.map(({ name }) => name) },
        { name: "mean_share", heading: "Mean % of time", kind: "share", values: families.map(({ time_share }) => mean(time_share)) },
        { name: "peak_share", heading: "Peak % of time", kind: "share", values: families.map(({ time_share }) => most(time_share)) },
        { name: "mean_bytes_per_s", heading: "Mean volume/s", kind: "bytes", values: families.map(({ bytes_per_s }) => mean(bytes_per_s)) },
        { name: "peak_bytes_per_s", heading: "Peak volume/s", kind: "bytes", values: families.map(({ bytes_per_s }) => most(bytes_per_s)) },
      ],
    },
    {
      id: "timeline-rates",
      caption: "Each part of the time",
      columns: [
        { name: "begin_s", heading: "From", kind: "seconds", values: bins.map((bin) => begin(all, bin)) },
        { name: "time_share", heading: "MPI % of time", kind: "share", values: total(({ time_share }) => time_share) },
        { name: "bytes_per_s", heading: "MPI volume/s", kind: "bytes", values: total(({ bytes_per_s }) => bytes_per_s) },
        ...(hasNccl ? [
          { name: "nccl_time_share", heading: "NCCL % of time", kind: "share" as const, values: total(({ time_share }) => time_share, true) },
          { name: "nccl_bytes_per_s", heading: "NCCL volume/s", kind: "bytes" as const, values: total(({ bytes_per_s }) => bytes_per_s, true) },
        ] : []),
        ...all.devices.map(({ name, bytes_per_s }) => ({ name: `${name.replaceAll(" ", "_")}_bytes_per_s`, heading: `${name}/s`, kind: "bytes" as const, values: bytes_per_s })),
        ...all.devices
          .filter(({ link_bytes_per_s }) => link_bytes_per_s !== null)
          .map(({ name, bytes_per_s, link_bytes_per_s }) => ({ name: `${name.replaceAll(" ", "_")}_link_share`, heading: `${name}, % of link`, kind: "share" as const, values: bytes_per_s.map((value) => value / (link_bytes_per_s ?? 1)) })),
      ],
    },
  ];
}

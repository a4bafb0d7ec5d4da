// Nodes and their links, coloured by load.

import { h } from "../dom";
import * as format from "../format";
import { inkOn } from "../theme";
import type { Palette } from "../theme";
import type { Load, Node } from "./data";
import { draw, duration, section } from "./parts";

const WIDTH = 150;
const HEIGHT = 44;
/** An agent that says nothing for so long is named; where looking costs much, it looks every 20 s. */
const LATE_S = 25;

/** The darkest shade of a link whose speed is not known: how busy that is cannot be said. */
const PALE = 0.35;

/** A section with the nodes of a job. */
export function nodes(all: Node[], palette: Palette): HTMLElement {
  const traffic = all.flatMap((node) => node.loads.filter(isTraffic).map((load) => ({ ...load, link: `${node.host} ${load.device}` })));
  const unknown = traffic.filter((load) => load.limit === undefined);
  const isOneLink = new Set(unknown.map((load) => load.link)).size < 2;
  // One alone has nothing to be compared with.
  const most = isOneLink ? null : Math.max(1, ...unknown.map((load) => load.value));
  const sentences = [
    unknown.length < traffic.length ? "Colours are the part of what a link can carry." : "",
    unknown.length > 0 ? `Pale ones are links whose speed is not known${most === null ? "" : `; the busiest of them, with ${format.bytes(most)}/s, is the darkest`}.` : "",
  ];
  const what = sentences.filter((sentence) => sentence !== "").join(" ");
  return section("nodes", "Nodes and links", what === "" ? null : h("p", { class: "lead" }, what), h("div", { class: "nodes" }, ...all.map((node) => card(node, most, palette))));
}

function isTraffic(load: Load): boolean {
  return load.quantity === "received_bytes" || load.quantity === "sent_bytes";
}

function card(node: Node, most: number | null, palette: Palette): HTMLElement {
  const traffic = node.loads.filter(isTraffic);
  const others = node.loads.filter((load) => !isTraffic(load)).map(said).filter((text) => text !== "");
  const late = node.age_s !== null && node.age_s > LATE_S ? h("p", { class: "late" }, `No word of its agent for ${duration(node.age_s)}`) : null;
  return h(
    "div",
    { class: "node" },
    h("h3", {}, node.host),
    late,
    traffic.length > 0 ? h("ul", { class: "links" }, ...traffic.map((load) => h("li", {}, tile(load, most, palette)))) : h("p", { class: "lead" }, "No traffic on its interfaces"),
    others.length > 0 ? h("p", { class: "lead" }, others.join("; ")) : null,
  );
}

/** How dark a link is; `most` is the traffic of the busiest one whose speed is not known, if there are several. */
function shade(load: Load, most: number | null): number {
  if (load.limit !== undefined) return Math.sqrt(Math.min(1, load.value / load.limit));
  return most === null ? 0 : PALE * Math.sqrt(load.value / most);
}

/** A link in one direction. */
function tile(load: Load, most: number | null, palette: Palette): SVGElement {
  const fill = palette.amount(shade(load, most));
  const ink = inkOn(fill, palette);
  const arrow = load.quantity === "received_bytes" ? "in" : "out";
  const rate = `${format.bytes(load.value)}/s`;
  const ofLimit = load.limit === undefined ? "" : ` of ${format.bytes(load.limit)}/s`;
  return draw(
    "svg",
    { width: WIDTH, height: HEIGHT, role: "img", "aria-label": `${load.device} ${arrow}: ${rate}${ofLimit}` },
    draw("title", {}, `${load.source} ${load.device} ${arrow}: ${rate}${ofLimit}`),
    draw("rect", { width: WIDTH, height: HEIGHT, rx: 5, fill, class: "tile" }),
    draw("text", { x: 8, y: 18, fill: ink }, `${load.device} ${arrow}`),
    draw("text", { x: 8, y: 35, fill: ink }, rate + (load.limit === undefined ? "" : ` (${format.percent(load.value / load.limit)})`)),
  );
}

/** What processes wait for, by the kernel's names. */
const SHORT: Record<string, string> = { cpu: "a core", memory: "memory", io: "storage" };

/** What else a node counts, in words. */
function said(load: Load): string {
  if (load.quantity === "available_bytes") return `${format.bytes(load.value)} of memory available`;
  if (load.quantity === "stalled_s") return load.value > 0.005 ? `${format.percent(Math.min(1, load.value))} of the time some process waited for ${SHORT[load.device] ?? load.device}` : "";
  if (load.quantity === "sent_wait_ticks") return `${load.device} could not send for ${format.count(Math.round(load.value))} ticks/s`;
  return "";
}

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

/** A section with the nodes of a job. */
export function nodes(all: Node[], palette: Palette): HTMLElement {
  const most = Math.max(1, ...all.flatMap((node) => node.loads.filter(isTraffic).map((load) => load.value)));
  const hasLimits = all.some((node) => node.loads.some((load) => isTraffic(load) && load.limit !== undefined));
  const what = hasLimits
    ? "Colours are the part of what a link can carry; of links whose speed is not known, the part of the busiest one."
    : `Colours are the part of the busiest link, ${format.bytes(most)}/s; no link says what it can carry.`;
  return section("nodes", "Nodes and links", h("p", { class: "lead" }, what), h("div", { class: "nodes" }, ...all.map((node) => card(node, most, palette))));
}

function isTraffic(load: Load): boolean {
  return load.quantity === "received_bytes" || load.quantity === "sent_bytes";
}

function card(node: Node, most: number, palette: Palette): HTMLElement {
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

/** A link in one direction. */
function tile(load: Load, most: number, palette: Palette): SVGElement {
  const part = load.value / (load.limit ?? most);
  const fill = palette.amount(Math.sqrt(Math.min(1, part)));
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
    draw("text", { x: 8, y: 35, fill: ink }, rate + (load.limit === undefined ? "" : ` (${format.percent(part)})`)),
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

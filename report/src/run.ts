// The page of one run: verdict and findings, then the charts.

import { comms } from "./charts/comms";
import { cpu } from "./charts/cpu";
import { efficiency } from "./charts/efficiency";
import { gpus } from "./charts/gpus";
import { grid } from "./charts/grid";
import { locality } from "./charts/locality";
import { operations } from "./charts/operations";
import { order } from "./charts/order";
import { paths } from "./charts/paths";
import { ranks } from "./charts/ranks";
import { regions } from "./charts/regions";
import { sites } from "./charts/sites";
import { sizes } from "./charts/sizes";
import { timeline } from "./charts/timeline";
import { matrix } from "./charts/traffic";
import { waits } from "./charts/waits";
import type { Data } from "./data";
import { h } from "./dom";
import { tablesOf } from "./figure";
import { findings, header } from "./head";
import { Model } from "./model";
import type { Contents } from "./page";
import { go, link } from "./state";
import type { State } from "./state";
import type { View } from "./view";

/** The charts in the links at the top. */
const SHORT: Record<string, string> = {
  comms: "Communicators",
  efficiency: "Efficiency",
  operations: "Operations",
  sites: "Call sites",
  paths: "Call paths",
  timeline: "Time line",
  ranks: "Ranks",
  matrix: "Traffic",
  gpus: "GPUs",
  waits: "Waits",
  sizes: "Sizes",
  grid: "Grid",
  regions: "Regions",
  cpu: "Cores",
  locality: "Locality",
  order: "Order",
};

/** What is on the page. */
export function contents(data: Data): Contents<View> {
  const model = new Model(data);
  return {
    header: header(data),
    lead: findings(data),
    charts: [comms, efficiency, operations, sites, paths, order, timeline, ranks, matrix, gpus, waits, sizes, grid, regions, cpu, locality],
    view: (state, palette) => ({ model, data, state, palette }),
    choices: (state) => choices(model, state),
    short: SHORT,
    // A chart that this profile does not have, as of process grids: the communicators are nearest
    // to it.
    first: "comms",
    sources: (source) => tablesOf(source, data.run.folded),
    generator: data.generator,
  };
}

/** The choice of communicators. */
function choices(model: Model, { comm }: State): { controls: HTMLElement[]; isPart: boolean } {
  const select = h("select", { "data-key": "comm" }, h("option", { value: "" }, "all communicators"));
  for (const { comm: number, depth } of model.order) {
    const { name, label, size } = model.data.comms[number];
    const text = `${"\u2003".repeat(depth)}${name} (${size})${label ? ` ${label}` : ""}`;
    select.append(h("option", { value: name, selected: name === comm }, text));
  }
  select.addEventListener("change", () => go({ comm: select.value }));
  const isPart = model.number(comm) !== null;
  const all = isPart ? [h("a", { class: "clear", href: link({ comm: "" }) }, "Show all")] : [];
  return { controls: [h("label", { class: "field" }, "Show ", select), ...all], isPart };
}

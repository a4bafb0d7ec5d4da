// Efficiencies of the run and of regions.

import { column } from "../data";
import type { Cell } from "../data";
import { h } from "../dom";
import * as format from "../format";
import type { Figure } from "../figure";
import { columnsOf } from "../table";
import type { View } from "../view";

const FACTORS: [name: string, heading: string, meaning: string][] = [
  ["parallel_efficiency", "Parallel efficiency", "mean time outside of MPI, of the run"],
  ["load_balance", "Load balance", "mean time outside of MPI, of the largest"],
  ["communication_efficiency", "Communication efficiency", "largest time outside of MPI, of the run"],
  ["serialisation_efficiency", "Serialisation efficiency", "what waiting for others leaves"],
  ["transfer_efficiency", "Transfer efficiency", "what transfer leaves"],
];

export function efficiency(view: View): Figure {
  const { data, model, state } = view;
  const table = data.tables.efficiency;
  const first = (name: string): Cell => column(table, name)[0] ?? null;
  const bound = (name: string): string => {
    const [low, high] = [first(name.replace("efficiency", "low")), first(name.replace("efficiency", "high"))];
    return typeof low === "number" && typeof high === "number" ? `${(100 * low).toFixed(1)}–${format.percent(high)}` : "–";
  };
  const tiles = FACTORS.map(([name, heading, meaning]) => {
    const share = first(name);
    const ends = [first(name.replace("efficiency", "low")), first(name.replace("efficiency", "high"))];
    const [from, to] = (typeof share === "number" ? [0, share] : ends).map((end) => 100 * Math.max(0, Math.min(1, Number(end ?? 0))));
    return h(
      "div",
      { class: "tile" },
      h("span", { class: "tile-heading" }, heading),
      h("span", { class: "tile-value" }, typeof share === "number" ? format.percent(share) : bound(name)),
      h("span", { class: "meter", "aria-hidden": "true" }, h("i", { style: `margin-left:${from}%;width:${to - from}%` })),
      h("span", { class: "tile-meaning" }, meaning),
    );
  });
  return {
    id: "efficiency",
    title: "Efficiency",
    lead: (state.comm === "" ? "" : "Of the whole run, on all communicators. ") + "Of 100 % nothing is lost. Parallel efficiency is load balance by communication efficiency; that is serialisation by transfer efficiency.",
    draw: () => h("div", { class: "tiles" }, ...tiles),
    unit: "% of the whole that each names",
    source: "ranks.csv, regions.csv, arrivals.csv",
    command: model.command("efficiency --all"),
    tables: table ? [{ id: "efficiency", caption: "Efficiency of the run and of regions", columns: columnsOf(table) }] : [],
    wide: true,
  };
}

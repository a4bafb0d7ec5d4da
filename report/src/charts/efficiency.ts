// Efficiencies of the run and of regions.

import { column } from "../data";
import type { Cell } from "../data";
import { h } from "../dom";
import * as format from "../format";
import type { Figure } from "../figure";
import { columnsOf } from "../table";
import type { View } from "../view";

const FACTORS: [name: string, heading: string, meaning: string][] = [
  ["parallel_efficiency", "Parallel efficiency", "mean useful time / runtime"],
  ["load_balance", "Load balance", "mean useful time / largest useful time"],
  ["communication_efficiency", "Communication efficiency", "largest useful time / runtime"],
  ["serialisation_efficiency", "Serialisation efficiency", "largest useful time / runtime without transfers"],
  ["transfer_efficiency", "Transfer efficiency", "runtime without transfers / runtime"],
];

const COMMON = {
  id: "efficiency",
  title: "Efficiency",
  unit: "per cent; useful time is that outside of MPI",
  source: "ranks.csv, regions.csv, arrivals.csv",
  wide: true,
};

export function efficiency(view: View): Figure {
  const { data, model, state } = view;
  const table = data.tables.efficiency;
  if (data.missing.efficiency) return { ...COMMON, missing: data.missing.efficiency, command: model.command("efficiency --all") };
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
    ...COMMON,
    lead: (state.comm === "" ? "" : "Of the whole run, on all communicators. ") + "Parallel efficiency is load balance × communication efficiency, and that is serialisation × transfer efficiency; at 100 % nothing is lost.",
    draw: () => h("div", { class: "tiles" }, ...tiles),
    command: model.command("efficiency --all"),
    tables: table ? [{ id: "efficiency", caption: "Efficiency of the run and of regions", columns: columnsOf(table) }] : [],
  };
}

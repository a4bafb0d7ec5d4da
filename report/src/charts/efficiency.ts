// Efficiencies of the run and of regions.

import { column } from "../data";
import type { Cell } from "../data";
import { h } from "../dom";
import * as format from "../format";
import type { Figure } from "../figure";
import { columnsOf } from "../table";
import type { View } from "../view";

/** The factors, each with the column of its value and the beginning of those of its ends. */
const FACTORS: [name: string, ends: string, heading: string, meaning: string][] = [
  ["parallel_efficiency", "parallel", "Parallel efficiency", "mean useful time / runtime"],
  ["load_balance", "load_balance", "Load balance", "mean useful time / largest useful time"],
  ["core_availability", "core_availability", "Core availability", "largest useful time / largest time outside of MPI"],
  ["communication_efficiency", "communication", "Communication efficiency", "largest time outside of MPI / runtime"],
  ["serialisation_efficiency", "serialisation", "Serialisation efficiency", "largest time outside of MPI / runtime without transfers"],
  ["transfer_efficiency", "transfer", "Transfer efficiency", "runtime without transfers / runtime"],
];

const COMMON = {
  id: "efficiency",
  title: "Efficiency",
  unit: "per cent; useful time is that on a core outside of MPI",
  source: "ranks.csv, regions.csv, arrivals.csv",
  wide: true,
};

/** `83.1 to 86.2 %`; null where both ends are as good as the value. */
function intervalOf(low: Cell, high: Cell): string | null {
  if (typeof low !== "number" || typeof high !== "number") return null;
  const [from, to] = [low, high].map((end) => (100 * end).toFixed(1));
  return from === to ? null : `${from} to ${to} %`;
}

/** Whether the ends of a value are shown alone, as `mpisee-through efficiency` shows them. */
function isWide(value: Cell, low: Cell, high: Cell): boolean {
  if (typeof value !== "number" || typeof low !== "number" || typeof high !== "number") return false;
  return high - low > 0.1 || high - low > 0.5 * value;
}

export function efficiency(view: View): Figure {
  const { data, model, state } = view;
  const table = data.tables.efficiency;
  if (data.missing.efficiency) return { ...COMMON, missing: data.missing.efficiency, command: model.command("efficiency --all") };
  const first = (name: string): Cell => column(table, name)[0] ?? null;
  // A factor that was not measured has no tile: without it, it is 1.
  const shown = FACTORS.filter(([name]) => name !== "core_availability" || typeof first(name) === "number");
  const tiles = shown.map(([name, ends, heading, meaning]) => {
    const [low, high] = [first(`${ends}_low`), first(`${ends}_high`)];
    const value = isWide(first(name), low, high) ? null : first(name);
    const [from, to] = (typeof value === "number" ? [0, value] : [low, high]).map((end) => 100 * Math.max(0, Math.min(1, Number(end ?? 0))));
    const interval = intervalOf(low, high);
    return h(
      "div",
      { class: "tile" },
      h("span", { class: "tile-heading" }, heading),
      h("span", { class: "tile-value" }, typeof value === "number" ? format.percent(value) : (interval ?? "–")),
      typeof value === "number" && interval !== null && h("span", {}, interval),
      h("span", { class: "meter", "aria-hidden": "true" }, h("i", { style: `margin-left:${from}%;width:${to - from}%` })),
      h("span", { class: "tile-meaning" }, meaning),
    );
  });
  const notes = data.caveats.efficiency ?? [];
  return {
    ...COMMON,
    lead: (state.comm === "" ? "" : "Of the whole run, on all communicators. ") + "Parallel efficiency is load balance × core availability × communication efficiency, and that is serialisation × transfer efficiency; at 100 % nothing is lost.",
    draw: () => h("div", {}, ...notes.map((note) => h("p", { class: "caveat" }, note)), h("div", { class: "tiles" }, ...tiles)),
    command: model.command("efficiency --all"),
    tables: table ? [{ id: "efficiency", caption: "Efficiency of the run and of regions", columns: columnsOf(table) }] : [],
  };
}

// The program as an outline: its calls in order, in loops with counts.

import { column } from "../data";
import type { Cell } from "../data";
import { h } from "../dom";
import * as format from "../format";
import type { Figure } from "../figure";
import { columnsOf } from "../table";
import { descending } from "../view";
import type { View } from "../view";

/** Lines that are drawn, those with most time; the table has the others. */
const MOST = 60;

export function order(view: View): Figure | null {
  const { data, model } = view;
  const table = data.tables.order;
  if (!table) return null;
  const depths = column(table, "depth").map(Number);
  const columns = columnsOf(table).map((one) => (one.name === "outline" ? { ...one, indent: (row: number) => depths[row] } : one));
  return {
    id: "order",
    title: "Order of calls",
    lead: "The calls of the program in their order, in loops with counts, by ranks that make the same calls. Times are those of one rank.",
    draw: () => h("pre", { class: "outline" }, outlines(view)),
    unit: "seconds in all calls of a line, and between them and the calls before",
    source: "order.csv, order-rules.csv, order-steps.csv, order-times.csv",
    command: model.command("order"),
    tables: [{ id: "order", caption: "Lines of the outline", columns }],
    wide: true,
  };
}

/** `rank 3`, or `ranks 1-3, thread 2`. */
function named(ranks: Cell, thread: Cell): string {
  return `${/^\d+$/.test(String(ranks)) ? "rank" : "ranks"} ${ranks}${Number(thread) > 0 ? `, thread ${thread}` : ""}`;
}

/** The outlines as text, each below its ranks. */
function outlines({ data }: View): string {
  const table = data.tables.order;
  const [ranks, threads, lines, depths, texts] = ["ranks", "thread", "line", "depth", "outline"].map((name) => column(table, name));
  const [time_s, between_s, places] = ["time_s", "between_s", "place"].map((name) => column(table, name));
  const all_s = lines.map((_, row) => Number(time_s[row]) + Number(between_s[row]));
  const drawn = new Set(descending(all_s).slice(0, MOST));
  const parts: string[] = [];
  lines.forEach((line, row) => {
    if (Number(line) === 1) parts.push(`${parts.length > 0 ? "\n" : ""}${named(ranks[row], threads[row])}`, `${"  CALLS".padEnd(52)} ${"TIME".padStart(9)} ${"BEFORE".padStart(9)}  PLACE`);
    if (!drawn.has(row)) {
      if (parts.at(-1) !== "  …") parts.push("  …");
      return;
    }
    const head = `${"  ".repeat(Number(depths[row]) + 1)}${texts[row]}`.padEnd(52);
    const times = [time_s[row], between_s[row]].map((time) => (typeof time === "number" ? format.time(time) : "").padStart(9));
    parts.push(`${head} ${times.join(" ")}  ${places[row]}`.trimEnd());
  });
  return parts.join("\n");
}

// Nodes in place of ranks, of a profile with sums over ranks.

import type { Nodes } from "../data";
import * as format from "../format";
import { legend } from "../figure";
import type { Figure } from "../figure";
import { Plot, plot, tip } from "../plot";
import { columnsOf } from "../table";
import type { View } from "../view";
import { barGap, barWidth, numberedAxis } from "./ranks";

function what(nodes: Nodes): string {
  return nodes.block > 1 ? `nodes, in blocks of ${nodes.block}` : "nodes";
}

/** Where the command has no filter, the chart has none either. */
function ofAll(view: View): string {
  return view.state.comm === "" ? "" : "Over all communicators. ";
}

function about(nodes: Nodes, at: number): string {
  return `${nodes.names[at]}, ${format.counted(nodes.ranks[at], "rank")} from ${nodes.first_rank[at]} on`;
}

/** The MPI time of the ranks of each node. */
export function nodeTimes(view: View, nodes: Nodes): Figure {
  const { data, model, palette } = view;
  const index = nodes.names.map((_, at) => at);
  const mean = (at: number) => nodes.mpi_s[at] / Math.max(1, nodes.ranks[at]);
  const ranks = nodes.ranks.reduce((sum, one) => sum + one, 0);
  const mean_s = nodes.mpi_s.reduce((sum, one) => sum + one, 0) / Math.max(1, ranks);
  const least = index.reduce((best, at) => (nodes.mpi_min_s[at] < nodes.mpi_min_s[best] ? at : best));
  const most = index.reduce((best, at) => (nodes.mpi_max_s[at] > nodes.mpi_max_s[best] ? at : best));
  const gap = barGap(index.length);
  // Narrower than the bars, where there is room for both.
  const range = index.length > 160 ? 1 : 0.4;
  return {
    id: "ranks",
    title: `MPI time of ${what(nodes)}`,
    lead:
      `${ofAll(view)}Mean ${format.time(mean_s)}, least ${format.time(nodes.mpi_min_s[least])} (rank ${nodes.mpi_min_rank[least]}), most ${format.time(nodes.mpi_max_s[most])} ` +
      `(rank ${nodes.mpi_max_rank[most]}) over ${format.counted(ranks, "rank")}.`,
    controls: [legend("Ranks of a node", [[palette.categories[0], "mean"], [palette.other, "least to most"]])],
    draw: (width) => {
      const wide = barWidth(width, index.length);
      return plot("MPI time of the ranks of each node; the table below has the numbers", palette, {
        width: wide,
        height: 300,
        marginLeft: 62,
        marginBottom: 36,
        x: nodeAxis(nodes, wide - 70),
        y: { label: null, tickFormat: (time_s: number) => format.tick("time", time_s), grid: true, ticks: 5 },
        marks: [
          Plot.rectY(index, { x1: (at: number) => at - gap, x2: (at: number) => at + gap, y1: 0, y2: mean, fill: palette.categories[0], shapeRendering: index.length > 160 ? "crispEdges" : "auto" }),
          Plot.rectY(index, { x1: (at: number) => at - gap * range, x2: (at: number) => at + gap * range, y1: (at: number) => nodes.mpi_min_s[at], y2: (at: number) => nodes.mpi_max_s[at], fill: palette.other, fillOpacity: 0.75, shapeRendering: index.length > 160 ? "crispEdges" : "auto" }),
          Plot.ruleY([0], { stroke: palette.muted }),
          Plot.ruleY([mean_s], { stroke: palette.ink, strokeDasharray: "5 4" }),
          tip(index, Plot.pointerX({ x: (at: number) => at, y: mean, title: (at: number) => `${about(nodes, at)}\nmean ${format.time(mean(at))}\nleast ${format.time(nodes.mpi_min_s[at])} (rank ${nodes.mpi_min_rank[at]})\nmost ${format.time(nodes.mpi_max_s[at])} (rank ${nodes.mpi_max_rank[at]})` })),
        ],
      });
    },
    unit: "seconds, over the ranks of a node",
    source: "ranks.csv",
    command: model.command("ranks --all"),
    tables: data.tables.ranks ? [{ id: "ranks", caption: "Nodes", columns: columnsOf(data.tables.ranks) }] : [],
  };
}

/** Whether the ranks of each node had cores. */
export function nodeCores(view: View, nodes: Nodes): Figure {
  const { model, palette } = view;
  const share = (time_s: number | null, at: number) => (time_s === null || nodes.wall_s[at] <= 0 ? null : time_s / nodes.wall_s[at]);
  const parts = nodes.names.map((_, at) => ({ at, cpu: share(nodes.cpu_s[at], at), none: share(nodes.no_core_s[at], at) }));
  const known = parts.filter(({ cpu, none }) => cpu !== null || none !== null);
  const lacking = parts.filter(({ none }) => none !== null && none >= 0.05).length;
  const gap = barGap(parts.length);
  const said = (share: number | null) => (share === null ? "not known" : format.percent(share));
  const end = (part: { cpu: number | null; none: number | null }) => (part.cpu ?? 0) + (part.none ?? 0);
  return {
    id: "cpu",
    title: "Had every rank a core?",
    lead: known.length === 0 ? undefined : `On ${lacking} of ${parts.length} ${nodes.block > 1 ? "blocks of nodes" : "nodes"} the ranks were ready to run and had no core for 5 % of their wall time or more.`,
    controls: [legend("Of the wall time", [[palette.categories[0], "on a core, all threads"], [palette.categories[1], "ready, and no core"]])],
    draw: known.length === 0 ? undefined : (width) => {
      const wide = barWidth(width, parts.length);
      return plot("Time on a core and time without one, of the ranks of each node; the table below has the numbers", palette, {
        width: wide,
        height: 240,
        marginLeft: 50,
        marginBottom: 36,
        x: nodeAxis(nodes, wide - 58),
        y: { label: null, tickFormat: (share: number) => `${Math.round(100 * share)} %`, grid: true, ticks: 5, domain: [0, Math.max(1, ...known.map(end))] },
        marks: [
          Plot.rectY(known, { x1: ({ at }) => at - gap, x2: ({ at }) => at + gap, y1: 0, y2: ({ cpu }) => cpu ?? 0, fill: palette.categories[0] }),
          Plot.rectY(known, { x1: ({ at }) => at - gap, x2: ({ at }) => at + gap, y1: ({ cpu }) => cpu ?? 0, y2: end, fill: palette.categories[1] }),
          Plot.ruleY([0], { stroke: palette.muted }),
          Plot.ruleY([1], { stroke: palette.ink, strokeDasharray: "5 4" }),
          tip(known, Plot.pointerX({ x: "at", y: ({ cpu }) => cpu ?? 0, title: ({ at, cpu, none }) => `${about(nodes, at)}\non a core ${said(cpu)}\nno core ${said(none)}` })),
        ],
      });
    },
    missing: known.length === 0 ? "The time on cores is not known." : undefined,
    unit: "% of the wall time of a node's ranks",
    source: "ranks.csv",
    command: model.command("ranks --all --sort no-core"),
    tables: known.length === 0 ? [] : [
      {
        id: "cpu",
        caption: "Time on cores",
        columns: [
          { name: "host", heading: "Host", kind: "text", values: nodes.names },
          { name: "ranks", heading: "Ranks", kind: "count", values: nodes.ranks },
          { name: "cpu_share", heading: "On a core", kind: "share", values: parts.map(({ cpu }) => cpu) },
          { name: "no_core_share", heading: "No core", kind: "share", values: parts.map(({ none }) => none) },
        ],
      },
    ],
  };
}

/** An axis of nodes, by their numbers: names of hosts have no room. */
function nodeAxis(nodes: Nodes, pixels: number): Plot.ScaleOptions {
  const names = nodes.names.map((_, at) => String(at * nodes.block));
  return numberedAxis(names, nodes.block > 1 ? "node (first of a block), in the order of ranks" : "node, in the order of ranks", pixels);
}

// Had every rank a core?

import * as format from "../format";
import { legend } from "../figure";
import type { Figure } from "../figure";
import { Plot, plot, tip } from "../plot";
import type { View } from "../view";
import { nodeCores } from "./nodes";
import { barGap, barWidth, fieldAxis } from "./ranks";

interface Part {
  field: number;
  from: number;
  to: number;
  colour: string;
}

export function cpu(view: View): Figure {
  const { data, model, palette } = view;
  if (data.nodes) return nodeCores(view, data.nodes);
  const { wall_s, cpu_s, no_core_s } = data.processes;
  const parts: Part[] = [];
  let known = 0;
  const shares = wall_s.map((wall_s, field) => {
    const share = (time_s: number | null) => (time_s === null || wall_s <= 0 ? null : time_s / wall_s);
    return { field, cpu: share(cpu_s[field]), none: share(no_core_s[field]) };
  });
  for (const { field, cpu, none } of shares) {
    if (cpu === null && none === null) continue;
    known++;
    parts.push({ field, from: 0, to: cpu ?? 0, colour: palette.categories[0] });
    if (none !== null) parts.push({ field, from: cpu ?? 0, to: (cpu ?? 0) + none, colour: palette.categories[1] });
  }
  const lacking = shares.filter(({ none }) => none !== null && none >= 0.05).length;
  const what = data.fields.block > 1 ? "blocks of ranks" : "ranks";
  const { names } = data.fields;
  return {
    id: "cpu",
    title: "Had every rank a core?",
    lead: known === 0 ? undefined : `${lacking} of ${shares.length} ${what} were ready to run and had no core for 5 % of their wall time or more.`,
    controls: [legend("Of the wall time", [[palette.categories[0], "on a core, all threads"], [palette.categories[1], "ready, and no core"]])],
    draw: known > 0 ? (width) => draw(view, parts, shares, width) : undefined,
    missing: data.missing.cpu ?? (known > 0 ? undefined : "The time on cores is not known."),
    unit: "% of the rank's wall time",
    source: "ranks.csv",
    command: model.command("ranks --all --sort no-core"),
    tables: known === 0 ? [] : [
      {
        id: "cpu",
        caption: "Time on cores",
        columns: [
          { name: "rank", heading: "Rank", kind: "text", values: shares.map(({ field }) => names[field]) },
          { name: "host", heading: "Host", kind: "text", values: shares.map(({ field }) => data.processes.hosts[data.processes.host[field]]) },
          { name: "cpu_share", heading: "On a core", kind: "share", values: shares.map(({ cpu }) => cpu) },
          { name: "no_core_share", heading: "No core", kind: "share", values: shares.map(({ none }) => none) },
        ],
      },
    ],
  };
}

function draw(view: View, parts: Part[], shares: { field: number; cpu: number | null; none: number | null }[], width: number): Node {
  const { palette, data } = view;
  const names = data.fields.names;
  const gap = barGap(names.length);
  const said = (share: number | null) => (share === null ? "not known" : format.percent(share));
  return plot("Time on a core and time without one, of each rank; the table below has the numbers", palette, {
    width: barWidth(width, names.length),
    height: 240,
    marginLeft: 50,
    marginBottom: 36,
    x: fieldAxis(view, barWidth(width, names.length) - 58),
    y: { label: null, tickFormat: (share: number) => `${Math.round(100 * share)} %`, grid: true, ticks: 5, domain: [0, Math.max(1, ...parts.map((part) => part.to))] },
    color: { type: "identity" },
    marks: [
      Plot.rectY(parts, { x1: (part: Part) => part.field - gap, x2: (part: Part) => part.field + gap, y1: "from", y2: "to", fill: "colour" }),
      Plot.ruleY([0], { stroke: palette.muted }),
      Plot.ruleY([1], { stroke: palette.ink, strokeDasharray: "5 4" }),
      tip(shares, Plot.pointerX({ x: "field", y: (one) => one.cpu ?? 0, title: (one) => `rank ${names[one.field]}\non a core ${said(one.cpu)}\nno core ${said(one.none)}` })),
    ],
  });
}

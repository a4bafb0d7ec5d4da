// How much of the messages stays on a node.

import { column } from "../data";
import * as format from "../format";
import { legend } from "../figure";
import type { Figure } from "../figure";
import { Plot, fittedName, plot, textWidth, tip } from "../plot";
import { columnsOf } from "../table";
import type { View } from "../view";

interface Row {
  name: string;
  inside: number;
  across: number;
}

const MOST = 16;

export function locality(view: View): Figure {
  const { data, model, palette } = view;
  const table = data.tables.locality;
  const [names, bytes, inside] = [column(table, "comm"), column(table, "p2p_bytes"), column(table, "p2p_inside")];
  const rows: Row[] = names.map((name, row) => {
    const all = Number(bytes[row] ?? 0);
    const kept = all * Number(inside[row] ?? 0);
    return { name: String(name), inside: kept, across: all - kept };
  });
  const shown = rows.filter((row) => row.inside + row.across > 0).sort((one, other) => other.inside + other.across - one.inside - one.across).slice(0, MOST);
  const isSpread = data.run.nodes > 1;
  return {
    id: "locality",
    title: "What stays on a node",
    lead: !table ? undefined : isSpread ? "Bytes of point-to-point messages by communicator, over all communicators." : "All ranks are on one node, so everything stays on it.",
    controls: isSpread ? [legend("Bytes", [[palette.categories[0], "on a node"], [palette.categories[1], "between nodes"]])] : [],
    draw: isSpread && shown.length > 0 ? (width) => draw(view, shown, width) : undefined,
    missing: data.missing.locality ?? (isSpread && shown.length === 0 ? "There are no bytes in point-to-point messages." : undefined),
    unit: "bytes sent",
    source: "peers.csv, ranks.csv",
    command: model.command("locality --all"),
    tables: table ? [{ id: "locality", caption: "Locality of communicators", columns: columnsOf(table) }] : [],
  };
}

function draw(view: View, rows: Row[], width: number): Node {
  const { palette } = view;
  const marginLeft = Math.min(Math.max(...rows.map((row) => textWidth(row.name))) + 14, width * 0.35);
  return plot("Bytes on a node and between nodes; the table below has the numbers", palette, {
    width,
    height: rows.length * 28 + 40,
    marginLeft,
    marginRight: 30,
    x: { label: null, tickFormat: (bytes: number) => format.tick("bytes", bytes), grid: true, ticks: format.ticks("bytes", Math.max(...rows.map((row) => row.inside + row.across)), Math.max(2, Math.floor(width / 120))) },
    y: { label: null, domain: rows.map((row) => row.name), tickSize: 0, tickFormat: (name: string) => fittedName(name, marginLeft - 10), padding: 0.25 },
    marks: [
      Plot.barX(rows, { x1: 0, x2: "inside", y: "name", fill: palette.categories[0] }),
      Plot.barX(rows, { x1: "inside", x2: (row: Row) => row.inside + row.across, y: "name", fill: palette.categories[1] }),
      Plot.ruleX([0], { stroke: palette.muted }),
      tip(rows, Plot.pointerY({ x: (row: Row) => row.inside + row.across, y: "name", title: (row: Row) => `${row.name}\non a node ${format.bytes(row.inside)}\nbetween nodes ${format.bytes(row.across)}` })),
    ],
  });
}

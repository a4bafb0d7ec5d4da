// The named parts of the program: wall time, and what of it is MPI.

import { column } from "../data";
import * as format from "../format";
import { legend } from "../figure";
import type { Figure } from "../figure";
import { Plot, fitted, plot, textWidth, tip } from "../plot";
import { columnsOf } from "../table";
import type { View } from "../view";

interface Region {
  name: string;
  wall_s: number | null;
  mpi_s: number;
  /** In calls of NCCL, which is no time in MPI. */
  nccl_s: number;
}

/** Mean MPI time in each region, with that in regions inside of it, on the communicators that are chosen. */
function regionsOf(view: View): Region[] {
  const { data, model, state } = view;
  const chosen = model.chosen(state.comm);
  const [inMpi, inNccl] = [new Map<string, number>(), new Map<string, number>()];
  const all = data.region_times;
  all.comm.forEach((comm, at) => {
    const name = all.names[all.region[at]];
    const own = data.comms[comm].is_nccl ? inNccl : inMpi;
    if (chosen[comm]) own.set(name, (own.get(name) ?? 0) + all.time_s[at]);
  });
  const sum = (own: Map<string, number>, name: string) => {
    const inside = [...own].filter(([inner]) => inner === name || (name !== "" && inner.startsWith(`${name}/`)));
    return inside.reduce((sum, [, time_s]) => sum + time_s, 0);
  };
  const table = data.tables.regions;
  const [ranks, wall] = [column(table, "ranks"), column(table, "wall_mean_s")];
  return column(table, "region").map((cell, row) => {
    const name = String(cell);
    const mean_s = (own: Map<string, number>) => sum(own, name) / Math.max(1, Number(ranks[row]));
    return { name: format.regionName(name), wall_s: wall[row] as number | null, mpi_s: mean_s(inMpi), nccl_s: mean_s(inNccl) };
  });
}

const MOST = 16;

export function regions(view: View): Figure {
  const { data, model, state, palette } = view;
  const all = regionsOf(view);
  const isNamed = all.some((region) => region.name !== format.regionName(""));
  const table = data.tables.regions;
  const nccl: [string, string][] = all.some(({ nccl_s }) => nccl_s > 0) ? [[palette.nccl, "in NCCL, no time in MPI"]] : [];
  return {
    id: "regions",
    title: "Regions",
    lead: all.length > MOST ? `The ${MOST} longest; the table has all.` : undefined,
    controls: [legend("Mean over ranks", [[palette.categories[0], state.comm === "" ? "in MPI" : `in MPI on ${state.comm} and below`], ...nccl, [palette.unmeasured, "the rest"]])],
    draw: isNamed ? (width) => draw(view, all.slice(0, MOST), width) : undefined,
    missing: isNamed ? undefined : "The program names no regions (MPI_Pcontrol, or mpisee.h).",
    unit: "seconds, mean over the ranks that entered the region",
    source: "regions.csv, calls.csv",
    command: model.command("regions --all", state.comm),
    tables: table && isNamed ? [{ id: "regions", caption: "Regions, over all communicators", columns: columnsOf(table) }] : [],
  };
}

function draw(view: View, all: Region[], width: number): Node {
  const { palette } = view;
  const marginLeft = Math.min(Math.max(...all.map((region) => textWidth(region.name))) + 14, width * 0.35);
  const rest = all.map((region) => ({ ...region, rest_s: region.wall_s === null ? 0 : Math.max(0, region.wall_s - region.mpi_s - region.nccl_s) }));
  const ends = (region: Region) => region.mpi_s + region.nccl_s;
  const about = (region: Region) =>
    `${region.name}\nin MPI ${format.time(region.mpi_s)}${region.nccl_s > 0 ? `, in NCCL ${format.time(region.nccl_s)}` : ""}${region.wall_s === null ? "" : `\nof ${format.time(region.wall_s)}${region.mpi_s > region.wall_s ? "" : ` (${format.percent(region.mpi_s / Math.max(1e-12, region.wall_s))})`}`}`;
  return plot("Wall time of regions and what of it is MPI; the table below has the numbers", palette, {
    width,
    height: all.length * 30 + 40,
    marginLeft,
    marginRight: 30,
    x: { label: null, tickFormat: (time_s: number) => format.tick("time", time_s), grid: true, ticks: Math.max(2, Math.floor(width / 120)) },
    y: { label: null, domain: all.map((region) => region.name), tickSize: 0, tickFormat: (name: string) => fitted(name, marginLeft - 10), padding: 0.25 },
    marks: [
      Plot.barX(rest, { x1: ends, x2: (region) => ends(region) + region.rest_s, y: "name", fill: palette.unmeasured }),
      Plot.barX(all.filter(({ nccl_s }) => nccl_s > 0), { x1: "mpi_s", x2: ends, y: "name", fill: palette.nccl }),
      Plot.barX(all, { x1: 0, x2: "mpi_s", y: "name", fill: palette.categories[0] }),
      Plot.ruleX([0], { stroke: palette.muted }),
      tip(all, Plot.pointerY({ x: "mpi_s", y: "name", title: about })),
    ],
  });
}

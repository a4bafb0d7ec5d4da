// GPUs: all ways that data took between two of them, or a GPU and the host, as a matrix; and what
// else the profile has of them as tables.

import { column, numbers } from "../data";
import type { CommandTable, Gpus } from "../data";
import { h } from "../dom";
import * as format from "../format";
import { choice } from "../figure";
import type { Figure } from "../figure";
import type { State } from "../state";
import { columnsOf } from "../table";
import type { Column, TableSpec } from "../table";
import type { View } from "../view";
import { drawMatrix, zoomControls } from "./matrix";
import type { Matrix } from "./matrix";

/** The columns of the ways, by who moved the data. */
const WAYS: [way: Exclude<State["way"], "all">, column: string, text: string][] = [
  ["mpi", "mpi_bytes", "MPI"],
  ["nccl", "nccl_bytes", "NCCL"],
  ["copies", "copied_bytes", "Copies"],
  ["kernels", "kernel_bytes", "Kernels"],
];

/** The ways that the profile has counts of: a column without any number was not counted. */
function countedWays(ways: CommandTable): typeof WAYS {
  return WAYS.filter(([, name]) => column(ways, name).some((bytes) => bytes !== null));
}

function choices(ways: CommandTable): [State["way"], string][] {
  return [["all", "All"], ...countedWays(ways).map(([way, , text]): [State["way"], string] => [way, text])];
}

/** Ends that are no GPUs, which come last. */
const PLACES = ["host", "managed", "(unknown)"];

export function gpus(view: View): Figure | null {
  const { data, model, state } = view;
  const common = {
    id: "gpus",
    title: "Data from and to GPUs",
    unit: "bytes",
    source: "gpus.csv, gpu-links.csv, peers.csv, nccl-peers.csv, copies.csv, staged.csv, gpu.csv, calls.csv, comms.csv",
    command: model.command("gpu"),
  };
  const all = data.gpus;
  if (!all) return data.missing.gpus ? { ...common, missing: data.missing.gpus } : null;
  const ways = all.lists.find(({ name }) => name === "ways")?.table;
  const drawn = ways ? matrix(view, all, ways) : null;
  return {
    ...common,
    lead: lead(view, all, drawn !== null),
    controls: ways && drawn ? [choice("gpus", "Moved by", "way", choices(ways), chosenWay(ways, state)), ...(drawn.value.length > 0 ? [zoomControls(drawn, state)] : [])] : [],
    draw: drawn ? (width) => (drawn.value.length > 0 ? drawMatrix(view, drawn, width) : h("p", { class: "missing" }, "Nothing was moved this way.")) : undefined,
    missing: drawn ? undefined : "Nothing is known of data that moved between two GPUs, or a GPU and the host; the tables have what else is known of GPUs.",
    tables: all.lists.map((list) => tableOf(all, list)),
  };
}

/** The way in the address; all, where it is one that was not counted. */
function chosenWay(ways: CommandTable, state: State): State["way"] {
  return countedWays(ways).some(([way]) => way === state.way) ? state.way : "all";
}

/** The bytes of the way that is chosen; of all ways the most, since the same data may be in several. */
function matrix(view: View, all: Gpus, ways: CommandTable): Matrix {
  const counted = countedWays(ways);
  const way = chosenWay(ways, view.state);
  const ends = endsOf(all, ways);
  const axis = axisNames(all, ends);
  const place = (name: string) => column(ways, name).map((end) => ends.indexOf(String(end)));
  const [from, to] = [place("from"), place("to")];
  const bytes = counted.map(([, name]) => numbers(ways, name));
  const chosen = counted.findIndex(([name]) => name === way);
  const amount = (at: number) => (chosen < 0 ? Math.max(...bytes.map((of) => of[at])) : bytes[chosen][at]);
  const rows = from.map((_, at) => at).filter((at) => amount(at) > 0);
  return {
    id: "gpus",
    zoomKey: "gpuZoom",
    rows: "source",
    columns: "target",
    names: axis,
    row: rows.map((at) => from[at]),
    column: rows.map((at) => to[at]),
    value: rows.map(amount),
    colour: view.palette.amount,
    amount: format.bytes,
    about: (at) => {
      const row = rows[at];
      const moved = counted.map(([, , text], number) => `${text} ${format.bytes(bytes[number][row])}`);
      return `from ${nameOf(all, ends[from[row]])} to ${nameOf(all, ends[to[row]])}: ${moved.join(", ")}`;
    },
  };
}

/** The ends of the ways: the GPUs in the order of their table, then others, and what is no GPU. */
function endsOf(all: Gpus, ways: CommandTable): string[] {
  const devices = column(all.lists.find(({ name }) => name === "devices")?.table, "gpu").map(String);
  const found = new Set([...column(ways, "from"), ...column(ways, "to")].map(String));
  const known = devices.filter((device) => found.has(device));
  const others = [...found].filter((end) => !devices.includes(end) && !PLACES.includes(end)).sort();
  return [...known, ...others, ...PLACES.filter((end) => found.has(end))];
}

/** Axes have no room for more than the first digits that tell the GPUs apart; of GPUs that begin alike they have the names of the tables. */
function axisNames(all: Gpus, ends: string[]): string[] {
  const digits = (end: string) => end.replace(/^(GPU|MIG)-/, "");
  const gpus = ends.filter((end) => !PLACES.includes(end)).map(digits);
  const isDistinct = (most: number) => new Set(gpus.map((gpu) => gpu.slice(0, most))).size === gpus.length;
  const most = [4, 5, 6, 7, 8].find(isDistinct);
  const short = (end: string) => (most === undefined ? digits(nameOf(all, end)) : digits(end).slice(0, most));
  return ends.map((end) => (PLACES.includes(end) ? end : short(end)));
}

function nameOf(all: Gpus, end: string): string {
  return all.names[end] ?? end;
}

function lead(view: View, all: Gpus, hasWays: boolean): Node {
  const sentences = [
    ...(view.state.comm === "" ? [] : ["Over all communicators."]),
    ...(hasWays ? ["From the row to the column, GPUs by the first digits of their names. The same data may have taken several ways, a copy to the host and a message from there, so that All is the most of them and no sum. Collectives are in none."] : []),
    ...all.notes,
  ];
  return h("span", {}, ...sentences.map((sentence) => h("span", { class: "sentence" }, sentence)));
}

/** Columns that name GPUs. */
const OF_GPUS = ["from", "to", "gpu", "device", "peer", "part_of", "owner"];

/** A list of the command with short names for reading; copied as CSV it has whole ones. */
function tableOf(all: Gpus, { name, title, table }: Gpus["lists"][number]): TableSpec {
  const shown = (column: Column): Column => (OF_GPUS.includes(column.name) && column.kind === "text" ? { ...column, show: (row) => nameOf(all, String(column.values[row])) } : column);
  const columns = columnsOf(table).filter(({ values }) => values.some((value) => value !== null));
  return { id: `gpus-${name}`, caption: title, columns: columns.map(shown) };
}

// Who sends to whom: messages and one-sided operations, and collectives by what each operation means.

import type { Pairs } from "../data";
import * as format from "../format";
import { choice } from "../figure";
import type { Figure } from "../figure";
import { Plot, plot } from "../plot";
import { descending } from "../view";
import type { View } from "../view";
import { drawMatrix, zoomControls } from "./matrix";
import type { Matrix } from "./matrix";

interface Traffic {
  from: number[];
  to: number[];
  messages: number[];
  p2p: number[];
  oneSided: number[];
  collective: number[];
  joined: number;
}

/** Adds up the pairs of the communicators that are chosen. */
function traffic(view: View): Traffic {
  const { data, model, state } = view;
  const chosen = model.chosen(state.comm);
  const parts: [Pairs, boolean][] = [];
  if (state.traffic !== "collectives" && data.messages) parts.push([data.messages, false]);
  if (state.traffic !== "messages" && data.collectives) parts.push([data.collectives.pairs, true]);
  const joined = Math.max(1, ...parts.map(([pairs]) => pairs.joined));
  const places = new Map<number, number>();
  const all: Traffic = { from: [], to: [], messages: [], p2p: [], oneSided: [], collective: [], joined };
  const width = data.fields.names.length + 1;
  for (const [pairs, isCollective] of parts) {
    const shift = joined / pairs.joined;
    pairs.comm.forEach((comm, at) => {
      if (!chosen[comm]) return;
      const [from, to] = [Math.floor(pairs.from[at] / shift), Math.floor(pairs.to[at] / shift)];
      let place = places.get(from * width + to);
      if (place === undefined) {
        place = all.from.length;
        places.set(from * width + to, place);
        all.from.push(from);
        all.to.push(to);
        for (const list of [all.messages, all.p2p, all.oneSided, all.collective]) list.push(0);
      }
      if (isCollective) all.collective[place] += pairs.bytes[at];
      else {
        const oneSided = pairs.one_sided[at] ?? 0;
        all.p2p[place] += pairs.bytes[at] - oneSided;
        all.oneSided[place] += oneSided;
        all.messages[place] += pairs.messages[at];
      }
    });
  }
  return all;
}

/** The names of fields of which several are joined. */
export function joinedNames(names: string[], joined: number): string[] {
  if (joined === 1) return names;
  const first = (name: string) => name.split(/[-,]/)[0];
  const last = (name: string) => name.split(/[-,]/).at(-1)!;
  return Array.from({ length: Math.ceil(names.length / joined) }, (_, at) => {
    const part = names.slice(at * joined, (at + 1) * joined);
    return `${first(part[0])}-${last(part.at(-1)!)}`;
  });
}

/** The kinds of traffic; messages and one-sided operations are counted by peer, collectives are not. */
function kinds(hasOneSided: boolean): ["messages" | "collectives" | "both", string][] {
  return [
    ["messages", hasOneSided ? "Point-to-point, one-sided" : "Point-to-point"],
    ["collectives", "Collectives"],
    ["both", hasOneSided ? "All" : "Both"],
  ];
}

/** Messages and collectives of MPI; nothing of processes without it. */
export function matrix(view: View): Figure | null {
  const { data, model, state } = view;
  if (data.offsets) return offsets(view);
  if (!data.messages) return null;
  const all = traffic(view);
  const unit = state.traffic === "messages" ? state.unit : "bytes";
  const bytes = all.from.map((_, at) => all.p2p[at] + all.oneSided[at] + all.collective[at]);
  const value = unit === "messages" ? all.messages : bytes;
  const names = joinedNames(data.fields.names, all.joined);
  const drawn: Matrix = {
    id: "matrix",
    zoomKey: "zoom",
    rows: "sender",
    columns: "receiver",
    names,
    row: all.from,
    column: all.to,
    value,
    colour: view.palette.amount,
    amount: (amount) => format.amount(unit, amount),
    about: (at) => `from ${names[all.from[at]]} to ${names[all.to[at]]}: ${details(state.traffic, all, at)}`,
  };
  const order = descending(value);
  const of = (list: number[]) => order.map((at) => list[at]);
  const command = state.traffic === "messages" ? `matrix --of ${unit}` : "matrix --collectives";
  const hasOneSided = data.messages.one_sided.length > 0;
  const isEmpty = sum(value) === 0;
  return {
    id: "matrix",
    title: "Who sends to whom",
    lead: lead(view, all, all.joined * data.fields.block),
    controls: [
      choice("matrix", "Traffic", "traffic", kinds(hasOneSided), state.traffic),
      ...(state.traffic === "messages" ? [choice("matrix", "Shade", "unit", [["bytes", "Bytes"], ["messages", "Messages"]], state.unit)] : []),
      ...(isEmpty ? [] : [zoomControls(drawn, state)]),
    ],
    draw: (width) => (isEmpty ? empty(state.traffic) : drawMatrix(view, drawn, width)),
    unit: unit === "messages" ? "messages sent" : "bytes sent",
    source: { messages: "peers.csv", collectives: "calls.csv, comms.csv", both: "peers.csv, calls.csv, comms.csv" }[state.traffic],
    command: model.command(command, state.comm),
    tables: [
      {
        id: "matrix",
        caption: "Pairs of ranks",
        columns: [
          { name: "from", heading: "From", kind: "text", values: order.map((at) => names[all.from[at]]) },
          { name: "to", heading: "To", kind: "text", values: order.map((at) => names[all.to[at]]) },
          ...(state.traffic === "collectives" ? [] : [{ name: "messages", heading: "Messages", kind: "count" as const, values: of(all.messages) }]),
          { name: "bytes", heading: "Bytes", kind: "bytes", values: of(bytes) },
          ...(hasOneSided && state.traffic !== "collectives" ? [{ name: "one_sided_bytes", heading: "One-sided", kind: "bytes" as const, values: of(all.oneSided) }] : []),
          ...(state.traffic === "both" ? [{ name: "collective_bytes", heading: "In collectives", kind: "bytes" as const, values: of(all.collective) }] : []),
        ],
      },
    ],
  };
}

function empty(traffic: string): Node {
  const paragraph = document.createElement("p");
  paragraph.className = "missing";
  paragraph.textContent = traffic === "messages" ? "No messages or one-sided operations here; collectives may have bytes." : "No bytes here of which the profile has who sends to whom.";
  return paragraph;
}

function details(kind: string, all: Traffic, at: number): string {
  const messages = `${format.bytes(all.p2p[at])} in ${format.counted(all.messages[at], "message")}`;
  const p2p = all.oneSided[at] > 0 ? `${messages}, ${format.bytes(all.oneSided[at])} in one-sided operations` : messages;
  const collective = `${format.bytes(all.collective[at])} in collectives`;
  return kind === "messages" ? p2p : kind === "collectives" ? collective : `${p2p}, ${collective}`;
}

const sum = (list: number[]) => list.reduce((all, one) => all + one, 0);

function lead(view: View, all: Traffic, block: number): string {
  const { data, state } = view;
  const oneSided = sum(all.oneSided);
  const parts = [];
  if (state.traffic !== "collectives") {
    parts.push(`${format.counted(sum(all.messages), "message")} with ${format.bytes(sum(all.p2p))}`);
    if (oneSided > 0) parts.push(`${format.bytes(oneSided)} in one-sided operations`);
  }
  if (state.traffic !== "messages") parts.push(`${format.bytes(sum(all.collective))} in collectives, by what each operation means, whatever the algorithm`);
  const sentences = [`${parts.join("; ")}.`];
  if (state.traffic !== "messages" && data.collectives?.too_many) sentences.push("There are too many pairs of ranks to divide the bytes of collectives among them.");
  if (state.traffic !== "messages" && state.comm === "" && data.collectives && data.collectives.left_out_bytes > 0) {
    sentences.push(`Not in it: ${format.bytes(data.collectives.left_out_bytes)} in ${data.collectives.left_out_calls.join(", ")}, of which the profile does not have who sends to whom.`);
  }
  if (block > 1) sentences.push(`A field is ${block} ranks.`);
  return sentences.join(" ");
}

/** Messages by distance, of a profile that has sums over ranks. */
function offsets(view: View): Figure {
  const { data, model, state, palette } = view;
  const chosen = model.chosen(state.comm);
  const all = data.offsets!;
  const sums = new Map<string, { first: number; last: number; messages: number; bytes: number }>();
  all.comm.forEach((comm, at) => {
    if (!chosen[comm]) return;
    const key = `${all.offset_min[at]},${all.offset_max[at]}`;
    const sum = sums.get(key) ?? { first: all.offset_min[at], last: all.offset_max[at], messages: 0, bytes: 0 };
    sum.messages += all.messages[at];
    sum.bytes += all.bytes[at];
    sums.set(key, sum);
  });
  const value = (sum: { messages: number; bytes: number }) => (state.unit === "bytes" ? sum.bytes : sum.messages);
  const rows = [...sums.values()].sort((one, other) => value(other) - value(one));
  const signed = (offset: number) => (offset > 0 ? `+${offset}` : String(offset));
  const name = (sum: { first: number; last: number }) => (sum.first === sum.last ? signed(sum.first) : `${signed(sum.first)} to ${signed(sum.last)}`);
  const shown = rows.slice(0, 12);
  return {
    id: "matrix",
    title: "How far messages go",
    lead: `Messages by how far the receiver is from the sender: its rank less that of the sender. ${all.has_one_sided ? "Bytes include one-sided operations. " : ""}Sums over ranks have no more.`,
    controls: [choice("matrix", "Length", "unit", [["bytes", "Bytes"], ["messages", "Messages"]], state.unit)],
    draw: rows.length === 0 ? undefined : (width) =>
      plot("Messages by distance; the table below has the numbers", palette, {
        width,
        height: shown.length * 22 + 40,
        marginLeft: 130,
        x: { label: null, tickFormat: (amount: number) => format.tick(state.unit, amount), grid: true, ticks: format.ticks(state.unit, Math.max(...shown.map(value)), 5) },
        y: { label: null, domain: shown.map(name), tickSize: 0 },
        marks: [Plot.barX(shown, { x: value, y: name, fill: palette.accent, insetTop: 2, insetBottom: 2 }), Plot.ruleX([0], { stroke: palette.muted })],
      }),
    missing: rows.length === 0 ? "No point-to-point messages here." : undefined,
    unit: state.unit === "bytes" ? "bytes sent" : "messages sent",
    source: "offsets.csv",
    command: model.command(`matrix --of ${state.unit}`, state.comm),
    tables: [
      {
        id: "matrix",
        caption: "Distances from sender to receiver",
        columns: [
          { name: "offset_min", heading: "From", kind: "count", values: rows.map((row) => row.first) },
          { name: "offset_max", heading: "To", kind: "count", values: rows.map((row) => row.last) },
          { name: "messages", heading: "Messages", kind: "count", values: rows.map((row) => row.messages) },
          { name: "bytes", heading: "Bytes", kind: "bytes", values: rows.map((row) => row.bytes) },
        ],
      },
    ],
  };
}

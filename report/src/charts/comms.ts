// The map: communicators below those from which they were made, as wide as their time, coloured by
// waiting.

import * as format from "../format";
import { legend } from "../figure";
import type { Figure } from "../figure";
import { h } from "../dom";
import { link } from "../state";
import { BOLD_LETTER, Plot, fitted, plot, textWidth } from "../plot";
import { inkOn } from "../theme";
import type { View } from "../view";

interface Box {
  comm: number;
  depth: number;
  from: number;
  to: number;
  /** The time on it and on all that was made of it. */
  time_s: number;
}

/** Places families so that each is as wide as the time on it and below it. */
function boxes(view: View): Box[] {
  const { model, data } = view;
  const all: Box[] = [];
  const total = (comm: number): number =>
    data.comms[comm].time_s + model.children[comm].reduce((sum, child) => sum + total(child), 0);
  const place = (comm: number, depth: number, from: number): number => {
    const time_s = total(comm);
    if (time_s > 0) all.push({ comm, depth, from, to: from + time_s, time_s });
    let next = from;
    for (const child of [...model.children[comm]].sort((one, other) => total(other) - total(one))) {
      next = place(child, depth + 1, next);
    }
    return from + time_s;
  };
  let next = 0;
  for (const root of model.roots) next = place(root, 0, next);
  return all;
}

const ROW = 46;

function draw(view: View, placed: Box[], width: number): Node {
  const { data, model, palette, state } = view;
  const end = placed.reduce((most, box) => Math.max(most, box.to), 0);
  // What is narrower cannot be seen; the table and the choice above have it.
  const all = placed.filter((box) => ((box.to - box.from) / end) * width >= 1);
  const depth = all.reduce((most, box) => Math.max(most, box.depth), 0);
  const chosen = model.chosen(state.comm);
  const pixels = (box: Box) => ((box.to - box.from) / end) * (width - 2) - 8;
  const waiting = (box: Box) => model.waiting[box.comm];
  const fill = (box: Box) => {
    const share = waiting(box);
    if (share === null && data.comms[box.comm].is_nccl) return palette.nccl;
    return share === null ? palette.unmeasured : palette.waiting(share);
  };
  const about = (box: Box) => {
    const comm = data.comms[box.comm];
    const share = waiting(box);
    return [
      `${comm.name} (${comm.size})${comm.label ? ` "${comm.label}"` : ""}`,
      `${format.time(comm.time_s)} on it, ${format.time(box.time_s)} with what was made of it`,
      share === null ? "waiting not measured" : `waiting ${format.percent(share)} of the measured time`,
    ];
  };
  const texts = all.flatMap((box) => {
    const comm = data.comms[box.comm];
    const name = comm.label && BOLD_LETTER * `${comm.name} ${comm.label}`.length < pixels(box) ? `${comm.name} ${comm.label}` : comm.name;
    const ofMpi = model.shareOfMpi(box.time_s, comm.is_nccl);
    const share = ofMpi === null ? format.time(comm.time_s) : `${(100 * ofMpi).toFixed(0)} %, own ${format.time(comm.time_s)}`;
    return [
      { box, text: pixels(box) > 44 ? fitted(name, pixels(box), BOLD_LETTER) : "", dy: -7, weight: "600" },
      { box, text: textWidth(share) < pixels(box) ? share : "", dy: 9, weight: "400" },
    ];
  });
  const label = (row: number) =>
    Plot.text(texts.filter((text, at) => at % 2 === row && text.text !== ""), {
      x: (text) => text.box.from,
      y: (text) => text.box.depth + 0.5,
      text: "text",
      dx: 6,
      dy: row === 0 ? -7 : 9,
      textAnchor: "start",
      fill: (text) => (chosen[text.box.comm] ? inkOn(fill(text.box), palette) : palette.muted),
      fontWeight: row === 0 ? 600 : 400,
      pointerEvents: "none",
    });
  return plot("Communicators by time; each leads to the report of it alone", palette, {
    width,
    height: (depth + 1) * ROW + 2,
    margin: 1,
    x: { domain: [0, end], axis: null },
    y: { domain: [0, depth + 1], axis: null, reverse: true },
    color: { type: "identity" },
    marks: [
      Plot.rect(all, {
        x1: "from",
        x2: "to",
        y1: "depth",
        y2: (box: Box) => box.depth + 1,
        fill,
        fillOpacity: (box: Box) => (chosen[box.comm] ? 1 : 0.3),
        stroke: palette.surface,
        strokeWidth: 1.5,
        rx: 3,
        href: (box: Box) => link({ comm: data.comms[box.comm].name === state.comm ? "" : data.comms[box.comm].name }),
        ariaLabel: (box: Box) => about(box).join(", "),
        title: (box: Box) => about(box).join("\n"),
      }),
      label(0),
      label(1),
    ],
  });
}

export function comms(view: View): Figure {
  const { data, model, palette, state } = view;
  const all = boxes(view);
  const shown = model.order.filter(({ comm }) => state.comm === "" || model.chosen(state.comm)[comm]);
  const of = (value: (comm: number) => string | number | null) => shown.map(({ comm }) => value(comm));
  const shares: [string, string][] = [0, 0.25, 0.5, 0.75, 1].map((share) => [palette.waiting(share), `${100 * share} %`]);
  if (model.hasNccl("")) shares.push([palette.nccl, "NCCL, no time in MPI"]);
  return {
    id: "comms",
    title: "Communicators",
    lead: h(
      "span",
      {},
      "Below each communicator are those that were made of it; a box is as wide as the time on it and below it. ",
      state.comm === "" ? "Choose one to see the report of it and what was made of it." : h("a", { href: link({ comm: "" }) }, "Show all communicators"),
    ),
    controls: [legend("Waiting for others, of the measured time", [...shares, [palette.unmeasured, "not measured"]])],
    draw: all.length > 0 ? (width) => draw(view, all, width) : undefined,
    missing: all.length > 0 ? undefined : "No time was spent on any communicator.",
    unit: "seconds, summed over ranks",
    source: "comms.csv, calls.csv, arrivals.csv",
    command: model.command("summary --families --all", state.comm),
    tables: [
      {
        id: "comms",
        caption: "Communicators",
        columns: [
          {
            name: "comm",
            heading: "Communicator",
            kind: "text",
            values: of((comm) => data.comms[comm].name),
            link: (row) => link({ comm: data.comms[shown[row].comm].name }),
            indent: (row) => shown[row].depth,
          },
          { name: "size", heading: "Size", kind: "text", values: of((comm) => data.comms[comm].size) },
          { name: "members", heading: "Processes", kind: "text", values: of((comm) => data.comms[comm].members) },
          { name: "label", heading: "Label", kind: "text", values: of((comm) => data.comms[comm].label) },
          { name: "created_by", heading: "Made by", kind: "text", values: of((comm) => data.comms[comm].created_by) },
          { name: "time_s", heading: "Time sum", kind: "seconds", values: of((comm) => data.comms[comm].time_s) },
          { name: "share_of_mpi", heading: "% of MPI", kind: "share", values: of((comm) => model.shareOfMpi(data.comms[comm].time_s, data.comms[comm].is_nccl)) },
          { name: "waiting_share", heading: "Waiting", kind: "share", values: of((comm) => model.waiting[comm]) },
          { name: "mean_s", heading: "Mean/rank", kind: "seconds", values: of((comm) => data.comms[comm].mean_s) },
          { name: "min_s", heading: "Min/rank", kind: "seconds", values: of((comm) => data.comms[comm].min_s) },
          { name: "max_s", heading: "Max/rank", kind: "seconds", values: of((comm) => data.comms[comm].max_s) },
          { name: "bytes", heading: "Volume", kind: "bytes", values: of((comm) => data.comms[comm].bytes) },
          { name: "calls", heading: "Calls", kind: "count", values: of((comm) => data.comms[comm].calls) },
        ],
      },
    ],
    wide: true,
  };
}

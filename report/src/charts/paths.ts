// The call paths that lead to slow calls: an icicle, from the outermost function inwards.

import type { Data } from "../data";
import { h } from "../dom";
import * as format from "../format";
import type { Figure } from "../figure";
import { Plot, fitted, plot, textWidth } from "../plot";
import { link } from "../state";
import { inkOn } from "../theme";
import type { View } from "../view";
import { commsOf, isOfNccl, partSums } from "./sites";
import type { PartSum } from "./sites";

/** A function, or at the end of a path an operation, with what is called below it. */
interface Step {
  text: string;
  isCall: boolean;
  depth: number;
  time_s: number;
  calls: number;
  children: Map<string, Step>;
  /** The functions that lead here and this one, as numbers among their siblings in the order of all paths. */
  key: string;
}

interface Box extends Omit<Step, "children"> {
  from: number;
  to: number;
}

/** Merges the paths, of which the first rows are of most time. */
function tree(data: Data, sums: PartSum[]): Step {
  const { frames, names, table } = data.paths!;
  const root: Step = { text: "", isCall: false, depth: -1, time_s: 0, calls: 0, children: new Map(), key: "" };
  const add = (node: Step, sum: PartSum) => {
    node.time_s += sum.time_s;
    node.calls += sum.calls;
  };
  for (const sum of sums) {
    let node = root;
    add(node, sum);
    const steps = [...frames[sum.row].map((frame) => [String(frame), names[frame], false] as const), ["c", String(table.columns[1][sum.row]), true] as const];
    for (const [number, text, isCall] of steps) {
      const key = `${node.key}${node.key === "" ? "" : "."}${isCall ? `c${text}` : number}`;
      let child = node.children.get(key);
      if (!child) node.children.set(key, (child = { text, isCall, depth: node.depth + 1, time_s: 0, calls: 0, children: new Map(), key }));
      add(child, sum);
      node = child;
    }
  }
  return root;
}

/** The function with this key. */
function find(root: Step, key: string): Step | null {
  let node: Step | undefined = root;
  while (node && node.key !== key) {
    node = [...node.children.values()].find((child): boolean => child.key === key || key.startsWith(`${child.key}.`));
  }
  return node ?? null;
}

function boxes(root: Step): Box[] {
  const all: Box[] = [];
  const pending: { node: Step; from: number }[] = [{ node: root, from: 0 }];
  for (let next = pending.pop(); next; next = pending.pop()) {
    const { children, ...node } = next.node;
    all.push({ ...node, depth: node.depth - Math.max(0, root.depth), from: next.from, to: next.from + node.time_s });
    let from = next.from;
    for (const child of [...children.values()].sort((one, other) => other.time_s - one.time_s)) {
      pending.push({ node: child, from });
      from += child.time_s;
    }
  }
  return all.filter((box) => box.depth >= 0);
}

export function paths(view: View): Figure | null {
  const { data, model, state } = view;
  const all = data.paths;
  if (!all) return null;
  const common = { id: "paths", title: "Call paths of slow calls", source: "paths.csv, stacks.csv, sites.csv", command: model.command("paths --all", state.comm), unit: "seconds, summed over ranks", wide: true };
  const sums = partSums(view, all.parts);
  if (sums.length === 0) return { ...common, missing: state.comm === "" ? "No call took so long that its path was taken." : "No call on these communicators took so long that its path was taken." };
  const root = tree(data, sums);
  const shown = find(root, state.path) ?? root;
  const rows = sums.map(({ row }) => row);
  const of = (at: number) => rows.map((row) => all.table.columns[at][row]);
  const frames = rows.map((row) => [...all.frames[row]].reverse().map((frame) => all.names[frame]).join(" < "));
  const inMpi = [...model.operations(state.comm)].filter(([call]) => !model.isNccl(call));
  const whole_s = inMpi.reduce((sum, [, one]) => sum + one.time_s, 0);
  const library = model.hasNccl(state.comm) ? "MPI and NCCL" : "MPI";
  return {
    ...common,
    lead: h(
      "span",
      {},
      `${state.comm === "" ? all.lead : `Paths are known of ${format.time(root.time_s)} on these communicators.`} Each box is a function, as wide as the time in ${library} below it; the last is the operation. `,
      shown === root ? "Choose one to see it alone." : h("a", { href: link({ path: "" }), "data-key": "paths-all" }, "Show all paths"),
    ),
    draw: (width) => draw(view, boxes(shown), width),
    tables: [
      {
        id: "paths",
        caption: "Call paths",
        columns: [
          { name: "path", heading: "Path", kind: "text", values: of(0) },
          { name: "call", heading: "Operation", kind: "text", values: of(1) },
          { name: "comms", heading: "Communicators", kind: "text", values: sums.map((sum) => commsOf(data, sum)) },
          { name: "calls", heading: "Calls", kind: "count", values: sums.map(({ calls }) => calls) },
          { name: "time_s", heading: "Time sum", kind: "seconds", values: sums.map(({ time_s }) => time_s) },
          { name: "share_of_mpi", heading: "% of MPI", kind: "share", values: sums.map((sum) => (whole_s > 0 && !isOfNccl(data, sum) ? sum.time_s / whole_s : null)) },
          { name: "frames", heading: "Functions, from the call outwards", kind: "text", values: frames },
        ],
      },
    ],
  };
}

const ROW = 24;
const MOST_DEPTH = 40;

function draw(view: View, placed: Box[], width: number): Node {
  const { palette } = view;
  const end = placed.reduce((most, box) => Math.max(most, box.to), 0);
  const begin = placed.reduce((least, box) => Math.min(least, box.from), end);
  const pixels = (box: Box) => ((box.to - box.from) / (end - begin)) * (width - 2);
  // What is narrower cannot be read; the table has all.
  const all = placed.filter((box) => pixels(box) >= 3 && box.depth < MOST_DEPTH);
  const depth = all.reduce((most, box) => Math.max(most, box.depth), 0);
  const fill = (box: Box) => (box.isCall ? palette.categories[0] : palette.amount(0.12 + 0.1 * (box.depth % 2)));
  const about = (box: Box) => `${box.text}\n${format.time(box.time_s)} in ${view.model.hasNccl(view.state.comm) ? "MPI and NCCL" : "MPI"} (${format.percent(box.time_s / (end - begin))} of what is shown)\n${format.counted(box.calls, "call")}`;
  const hasRoom = (box: Box) => pixels(box) > 44;
  const text = (box: Box) => {
    const room = pixels(box) - 10;
    const amount = format.time(box.time_s);
    const both = `${box.text}, ${amount}`;
    return textWidth(both) <= room ? both : fitted(box.text, room);
  };
  return plot("Call paths by time; each box leads to the paths through it alone", palette, {
    width,
    height: (depth + 1) * ROW + 2,
    margin: 1,
    x: { domain: [begin, end], axis: null },
    y: { domain: [0, depth + 1], axis: null, reverse: true },
    color: { type: "identity" },
    marks: [
      Plot.rect(all, {
        x1: "from",
        x2: "to",
        y1: "depth",
        y2: (box: Box) => box.depth + 1,
        fill,
        stroke: palette.surface,
        rx: 2,
        href: (box: Box) => link({ path: box.key }),
        ariaLabel: (box: Box) => about(box).replaceAll("\n", ", "),
        title: about,
      }),
      Plot.text(all.filter(hasRoom), {
        x: "from",
        y: (box: Box) => box.depth + 0.5,
        text,
        dx: 6,
        textAnchor: "start",
        fill: (box: Box) => inkOn(fill(box), palette),
        pointerEvents: "none",
      }),
    ],
  });
}

// What is chosen on the page. It is all in the fragment of the address, so that every view has a
// link.

import type { Quantity } from "./format";

export interface State {
  /** The name of the communicator that is chosen; empty for all. */
  comm: string;
  /** Quantity of the operations and the sizes. */
  of: Quantity;
  /** Traffic of the matrix. */
  traffic: "messages" | "collectives" | "both";
  /** Quantity of the matrix. */
  unit: "bytes" | "messages";
  /** Parts of matrices: first and last field of the rows, then of the columns. */
  zoom: string;
  waitsZoom: string;
  gpuZoom: string;
  /** Who moved the data from and to GPUs. */
  way: "all" | "mpi" | "nccl" | "copies" | "kernels";
  /** The process grid. */
  grid: string;
  /** The function in the call paths that is shown with what it calls. */
  path: string;
  /** The number of a history, by its name. */
  metric: string;
  theme: "" | "light" | "dark";
  /** The chart to show. */
  at: string;
}

const DEFAULTS: State = {
  comm: "",
  of: "time",
  traffic: "messages",
  unit: "bytes",
  zoom: "",
  waitsZoom: "",
  gpuZoom: "",
  way: "all",
  grid: "",
  path: "",
  metric: "",
  theme: "",
  at: "",
};

const ALLOWED: { [key in keyof State]?: readonly string[] } = {
  of: ["time", "bytes", "calls"],
  traffic: ["messages", "collectives", "both"],
  unit: ["bytes", "messages"],
  way: ["all", "mpi", "nccl", "copies", "kernels"],
  theme: ["", "light", "dark"],
};

/** Reads the fragment; what it does not have is as in a fresh page. */
export function parse(fragment: string): State {
  const state: Record<string, string> = { ...DEFAULTS };
  for (const [key, value] of new URLSearchParams(fragment.replace(/^#/, ""))) {
    const allowed = ALLOWED[key as keyof State];
    if (key in DEFAULTS && (!allowed || allowed.includes(value))) state[key] = value;
  }
  return state as unknown as State;
}

/** The fragment of a state. */
export function fragment(state: State): string {
  const parameters = new URLSearchParams();
  for (const [key, value] of Object.entries(state)) {
    if (value !== DEFAULTS[key as keyof State]) parameters.set(key, value);
  }
  return `#${parameters}`;
}

/** The state of the page. */
export function current(): State {
  return parse(location.hash);
}

/** The address of the page with some of the state changed. */
export function link(change: Partial<State>): string {
  return fragment({ ...current(), at: "", ...change });
}

/** Changes the state, as following a link does. */
export function go(change: Partial<State>): void {
  const next = link(change);
  if (next !== location.hash) location.hash = next;
}

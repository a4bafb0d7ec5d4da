// Sums of the data for the communicators that are chosen.

import type { Comm, Data } from "./data";
import type { Quantity } from "./format";
import { quoted } from "./format";

/** Sums of an operation on a communicator, or over several. */
export interface Sum {
  time_s: number;
  bytes: number;
  calls: number;
}

export class Model {
  /** The children of each family. */
  readonly children: number[][];
  readonly roots: number[];
  /** The families in the order of the tree, with their depths. */
  readonly order: { comm: number; depth: number }[] = [];
  /** Of each family, the share of the measured time that is waiting; null where too little is measured. */
  readonly waiting: (number | null)[];
  private readonly numbers: Map<string, number>;
  private readonly selections = new Map<string, boolean[]>();

  constructor(readonly data: Data) {
    const { comms } = data;
    this.numbers = new Map(comms.map((comm, number) => [comm.name, number]));
    this.children = comms.map(() => []);
    this.roots = [];
    comms.forEach((comm, number) => {
      (comm.parent === null ? this.roots : this.children[comm.parent]).push(number);
    });
    const visit = (comm: number, depth: number): void => {
      this.order.push({ comm, depth });
      this.children[comm].forEach((child) => visit(child, depth + 1));
    };
    this.roots.forEach((root) => visit(root, 0));
    this.waiting = this.shareOfWaiting();
  }

  private shareOfWaiting(): (number | null)[] {
    const known = this.data.comms.map(() => 0);
    const waiting = this.data.comms.map(() => 0);
    const operations = this.data.waits?.operations;
    operations?.comm.forEach((comm, at) => {
      known[comm] += operations.time_s[at];
      waiting[comm] += operations.waiting_s[at];
    });
    // Where most of the time was not measured, its share of waiting says nothing of the
    // communicator.
    return known.map((time_s, comm) =>
      time_s > 0 && time_s >= 0.25 * this.data.comms[comm].time_s ? Math.min(1, waiting[comm] / time_s) : null,
    );
  }

  /** The number of a communicator that has this name. */
  number(name: string): number | null {
    return this.numbers.get(name) ?? null;
  }

  /** Which families are chosen: all, or that of the name and what was made of it. */
  chosen(name: string): boolean[] {
    const known = this.selections.get(name);
    if (known) return known;
    const number = this.number(name);
    const chosen = this.data.comms.map(() => number === null);
    const visit = (comm: number): void => {
      chosen[comm] = true;
      this.children[comm].forEach(visit);
    };
    if (number !== null) visit(number);
    this.selections.set(name, chosen);
    return chosen;
  }

  /** Families that are chosen and have calls. */
  used(name: string): Comm[] {
    const chosen = this.chosen(name);
    return this.data.comms.filter((comm, number) => chosen[number] && comm.calls > 0);
  }

  /** A command of mpisee-through on this profile, for what is chosen. */
  command(words: string, name = ""): string {
    return `mpisee-through ${words} ${quoted(this.data.profile)}${this.filter(name)}`;
  }

  private filter(name: string): string {
    if (this.number(name) === null) return "";
    const patterns = this.used(name).map((comm) => comm.pattern);
    // Beyond a line's length: what begins with the name.
    const few = patterns.length > 0 && patterns.length <= 6 ? patterns : [name, `${name}_*`];
    return few.map((pattern) => ` --comm ${quoted(pattern)}`).join("");
  }

  /** The operations of the families that are chosen. */
  operations(name: string): Map<number, Sum> {
    const chosen = this.chosen(name);
    const sums = new Map<number, Sum>();
    const { comm, call, time_s, bytes, calls } = this.data.operations;
    comm.forEach((of, at) => {
      if (!chosen[of]) return;
      const sum = sums.get(call[at]) ?? { time_s: 0, bytes: 0, calls: 0 };
      sum.time_s += time_s[at];
      sum.bytes += bytes[at];
      sum.calls += calls[at];
      sums.set(call[at], sum);
    });
    return sums;
  }

  /** Whether an operation is one of NCCL, whose time is no time in MPI. */
  isNccl(call: number): boolean {
    return this.data.calls[call][2];
  }

  /** Whether there are calls of NCCL on the communicators that are chosen. */
  hasNccl(name: string): boolean {
    return this.used(name).some((comm) => comm.is_nccl);
  }

  /** A time's part of the time in MPI; none of calls of NCCL. */
  shareOfMpi(time_s: number, isNccl: boolean): number | null {
    const { mpi_s } = this.data.run;
    return mpi_s > 0 && !isNccl ? time_s / mpi_s : null;
  }

  /** The time of each field of ranks in each operation. */
  rankTimes(name: string): Map<number, Float64Array> {
    const chosen = this.chosen(name);
    const times = new Map<number, Float64Array>();
    const all = this.data.rank_times;
    all?.comm.forEach((comm, at) => {
      if (!chosen[comm]) return;
      let of = times.get(all.call[at]);
      if (!of) times.set(all.call[at], (of = new Float64Array(this.data.fields.names.length)));
      of[all.field[at]] += all.time_s[at];
    });
    return times;
  }
}

/** A sum's value of a quantity. */
export function value(sum: Sum, quantity: Quantity): number {
  return quantity === "time" ? sum.time_s : sum[quantity];
}

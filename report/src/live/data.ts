// What the server sends.

export interface Outline {
  program: string;
  command: string[];
  ranks: number;
  nodes: number;
  start: string;
  wall_s: number;
  mpi_share: number | null;
  complete: boolean;
}

export interface Listed {
  name: string;
  changed_s: number;
  run: Outline | null;
  why: string | null;
}

export interface Profiles {
  folder: string;
  profiles: Listed[];
  is_cut_off: boolean;
}

/** A running job in the list. */
export interface Brief {
  key: string;
  command: string[];
  ranks: number;
  seen: number;
  ended: number;
  nodes: number;
  start_s: number;
  elapsed_s: number;
  mpi_share: number;
  interval_mpi_share: number;
  calls_per_s: number;
  bytes_per_s: number;
  waiting: number;
  deadlocks: number;
}

export interface Jobs {
  jobs: Brief[];
}

export type Partner = string | { rank: number; world_rank: number | null };

/** With whom a call communicates; of several requests `to` or `from` is that of the first. */
export interface With {
  to?: Partner;
  from?: Partner;
  tag?: number;
  any_tag?: boolean;
  requests?: number;
  different?: number;
}

/** Ranks in one place; as `top --format json` has them. */
export interface Place {
  ranks: string;
  ended: boolean;
  call: string | null;
  comm: string | null;
  number: number | null;
  with?: With;
  for_s: number | null;
  least_s: number | null;
  idle_s?: number;
}

export interface Waiting {
  call: string;
  comm: string;
  number: number | null;
  for_s: number;
  inside: string;
  left: string;
  missing: Place[];
  elsewhere: string;
  elided: number;
  foreign: number;
}

export interface Deadlock {
  certain: boolean;
  cycle: Place[];
  behind: string;
}

export interface Communicator {
  comm: string;
  label: string;
  size: number;
  members_here: number;
  calls: number;
  bytes: number;
  time_s: number;
  share_of_time: number;
  interval_calls_per_s: number;
  interval_bytes_per_s: number;
  interval_share_of_time: number;
}

export interface Document {
  mpi_library: string;
  mpi_flavour: string;
  ranks: number;
  ranks_here: string;
  not_seen: string;
  start: string;
  elapsed_s: number;
  interval_s: number;
  recording_was_off: boolean;
  communicators: Communicator[];
  communicators_left_out: number;
  places: Place[];
  waiting: Waiting[];
  deadlocks: Deadlock[];
}

export interface Load {
  source: string;
  device: string;
  quantity: string;
  value: number;
  limit?: number;
}

export interface Node {
  host: string;
  /** Since its agent was heard of; null for the node of the server. */
  age_s: number | null;
  loads: Load[];
}

export interface Sample {
  at_s: number;
  length_s: number;
  mpi: number;
  calls_per_s: number;
  bytes_per_s: number;
  comms: Record<string, number>;
}

export interface Total {
  family: string;
  call: string;
  calls: number;
  bytes: number;
  time_s: number;
}

/** A job; of one that has ended there are no nodes, and sums where agents sent them. */
export interface Job {
  key: string;
  brief: Brief;
  job: Document;
  samples: Sample[];
  nodes?: Node[];
  hosts?: string[];
  totals?: Total[] | null;
}

export interface Past {
  key: string;
  start_s: number;
  ended_s: number;
  command: string;
  ranks: number;
  nodes: number;
  elapsed_s: number;
  mpi_share: number;
  calls: number;
  bytes: number;
}

export interface History {
  count: number;
  from: number;
  jobs: Past[];
}

/** Asks the server; its answers are below the page's own address, which has the token. */
export async function ask<T>(path: string): Promise<T> {
  const answer = await fetch(path, { signal: AbortSignal.timeout(10_000), cache: "no-store" });
  if (!answer.ok) throw new Error((await answer.text()).trim() || answer.statusText);
  return (await answer.json()) as T;
}

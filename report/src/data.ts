// The data in the page, as `mpisee-through report` writes them
// (mpisee-through/src/command/report/data.rs).

/** A communicator, or a family of like ones. */
export interface Comm {
  name: string;
  /** What `--comm` takes to choose its members. */
  pattern: string;
  /** True if it is of NCCL, whose time is no time in MPI. */
  is_nccl: boolean;
  parent: number | null;
  count: number;
  size: string;
  members: string;
  label: string;
  created_by: string;
  topology: string;
  nodes: string;
  ranks: number;
  mean_s: number;
  min_s: number | null;
  max_s: number | null;
  max_rank: number | null;
  time_s: number;
  bytes: number;
  calls: number;
}

/** A table of a command, column by column. */
export interface CommandTable {
  names: string[];
  headings: string[];
  columns: Cell[][];
}

export type Cell = string | number | null;

export interface Pairs {
  /** How many fields of the axis are joined into one. */
  joined: number;
  comm: number[];
  from: number[];
  to: number[];
  messages: number[];
  bytes: number[];
  /** The part of one-sided operations in the bytes; empty if there are none. */
  one_sided: number[];
}

export interface Grid {
  name: string;
  comm: number;
  dims: number[];
  periods: boolean[];
  fields: number[];
}

export interface Waits {
  operations: {
    comm: number[];
    call: number[];
    time_s: number[];
    waiting_s: number[];
    waiting_low_s: number[];
    waiting_high_s: number[];
  };
  ranks: { comm: number[]; call: number[]; field: number[]; caused_s: number[]; suffered_s: number[] };
  pairs: { comm: number[]; waiting: number[]; cause: number[]; time_s: number[]; left_out_s: number };
  findings: string[];
}

/** What of each row of a table is on each family of communicators. */
export interface Parts {
  row: number[];
  comm: number[];
  calls: number[];
  time_s: number[];
}

/** Nodes, or blocks of them, of a profile with sums over ranks; times of nodes are sums. */
export interface Nodes {
  block: number;
  names: string[];
  ranks: number[];
  first_rank: number[];
  wall_s: number[];
  mpi_s: number[];
  mpi_min_s: number[];
  mpi_min_rank: number[];
  mpi_max_s: number[];
  mpi_max_rank: number[];
  cpu_s: (number | null)[];
  no_core_s: (number | null)[];
}

/** A family of communicators, by part of the time. */
export interface FamilyOverTime {
  name: string;
  comm: number | null;
  is_nccl: boolean;
  bytes_per_s: number[];
  time_share: number[];
}

/** What agents read while the program ran, in parts of the time of equal length; the last one ends with the time. */
export interface OverTime {
  bin_s: number;
  bins: number;
  end_s: number;
  ranks: number;
  families: FamilyOverTime[];
  /** The sum of the families without a row, and how many they are. */
  others: FamilyOverTime | null;
  other_families: number;
  devices: { name: string; bytes_per_s: number[]; link_bytes_per_s: number | null }[];
  phases: CommandTable;
  notes: string[];
}

/** The profile's data of GPUs, in the lists of `gpu`. */
export interface Gpus {
  /** Short names of GPUs by their UUIDs. */
  names: Record<string, string>;
  lists: { name: string; title: string; table: CommandTable }[];
  notes: string[];
}

/** A report of one run. */
export interface Data {
  generator: string;
  program: string;
  profile: string;
  run: {
    ranks: number;
    nodes: number;
    mpi_s: number;
    mpi_share_of_wall: number | null;
    wall_max_s: number;
    folded: boolean;
  };
  header: [string, string][];
  notes: string[];
  partial_because: string | null;
  advice: {
    verdict: string;
    caveats: string[];
    findings: CommandTable;
    charts: string[];
    comms: (number | null)[];
  };
  comms: Comm[];
  calls: [name: string, kind: string | null, isNccl: boolean][];
  operations: {
    comm: number[];
    call: number[];
    time_s: number[];
    mean_s: number[];
    min_s: (number | null)[];
    max_s: (number | null)[];
    max_rank: (number | null)[];
    bytes: number[];
    calls: number[];
  };
  fields: { names: string[]; ranks: number[]; block: number };
  processes: {
    wall_s: number[];
    mpi_s: number[];
    cpu_s: (number | null)[];
    no_core_s: (number | null)[];
    host: number[];
    hosts: string[];
  };
  rank_times: { comm: number[]; call: number[]; field: number[]; time_s: number[] } | null;
  sizes: {
    comm: number[];
    call: number[];
    size_min: number[];
    size_max: number[];
    calls: number[];
    bytes: number[];
    time_s: number[];
  };
  region_times: {
    comm: number[];
    region: number[];
    calls: number[];
    bytes: number[];
    time_s: number[];
    names: string[];
  };
  messages: Pairs | null;
  collectives: {
    pairs: Pairs;
    left_out_bytes: number;
    left_out_calls: string[];
    too_many: boolean;
  } | null;
  offsets: {
    comm: number[];
    offset_min: number[];
    offset_max: number[];
    messages: number[];
    bytes: number[];
    /** True if some of the bytes are of one-sided operations. */
    has_one_sided: boolean;
  } | null;
  waits: Waits | null;
  sites: { table: CommandTable; parts: Parts; notes: string } | null;
  paths: { table: CommandTable; parts: Parts; frames: number[][]; names: string[]; lead: string } | null;
  nodes: Nodes | null;
  over_time: OverTime | null;
  gpus: Gpus | null;
  grids: Grid[];
  tables: Record<string, CommandTable>;
  /** Why a chart has nothing, by its name. */
  /** Notes on some of the tables, by their names. */
  caveats: Record<string, string[]>;
  missing: Record<string, string>;
}

/** A run among several. */
export interface Run {
  profile: string;
  setting: number;
  command: string;
  ranks: number;
  nodes: number;
  library: string;
  start: string;
  runtime_s: number;
  mpi_s: number;
  outside_s: number;
}

/** Runs that differ in ranks, or in a number of the command. */
export interface Series {
  title: string;
  over: string;
  is_strong: boolean;
  sentences: string[];
  beyond: number;
  runtime_beyond_s: [value: number, low: number, high: number] | null;
}

/** Runs that repeat each other. */
export interface Repetitions {
  setting: number;
  title: string;
  sentences: string[];
  closing: string[];
  runs: number[];
  parts: { comm: string; call: string; times_s: number[] }[];
}

/** Two sets of runs beside each other. */
export interface Comparison {
  sets: [string, string];
  notes: string[];
  is_per_rank: boolean;
  changes: CommandTable;
  totals: CommandTable;
  sites: CommandTable | null;
}

/** What `runs` says: of all runs, or of those of A or B. */
export interface Group {
  name: "" | "A" | "B";
  arguments: string[];
  notes: string[];
  runs: Run[];
  series: Series[];
  repetitions: Repetitions[];
  tables: Record<string, CommandTable>;
}

/** A number over the entries of a history, as `runs --history` names it. */
export interface HistorySeries {
  quantity: string;
  comm: string;
  call: string;
  name: string;
  is_too_short: boolean;
}

/** Entries of one command on one number of ranks, such as commits. */
export interface History {
  title: string;
  sentences: string[];
  entries: string[];
  series: HistorySeries[];
}

/** A report of several runs. */
export interface Several {
  generator: string;
  program: string;
  diff_arguments: string[];
  comparison: Comparison | null;
  without_comparison: string | null;
  history: { histories: History[]; error_rate: string } | null;
  groups: Group[];
  missing: Record<string, string>;
}

/** Decodes the page's data: base64 of gzip of JSON. */
export async function decode(encoded: string): Promise<Data | Several> {
  const text = atob(encoded.trim());
  const bytes = new Uint8Array(text.length);
  for (let at = 0; at < text.length; at++) bytes[at] = text.charCodeAt(at);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return (await new Response(stream).json()) as Data | Several;
}

/** A column of a command's table. */
export function column(table: CommandTable | undefined, name: string): Cell[] {
  const at = table ? table.names.indexOf(name) : -1;
  return table && at >= 0 ? table.columns[at] : [];
}

/** The rows of a command's table that are kept. */
export function kept(table: CommandTable, keeps: (row: number) => boolean): CommandTable {
  const rows = (table.columns[0] ?? []).map((_, row) => row).filter(keeps);
  return { ...table, columns: table.columns.map((values) => rows.map((row) => values[row])) };
}

/** The numbers of a column; nothing is 0. */
export function numbers(table: CommandTable | undefined, name: string): number[] {
  return column(table, name).map((value) => Number(value ?? 0));
}

// All runs, each with the command that makes its own report.

import * as format from "../format";
import type { Figure } from "../figure";
import type { SeveralView } from "./view";
import { command } from "./view";

export function allRuns(view: SeveralView): Figure {
  const { groups } = view.data;
  const runs = groups.flatMap(({ name, runs }) => runs.map((run) => ({ ...run, set: name })));
  return {
    id: "runs",
    title: "All runs",
    lead: `${format.counted(runs.length, "run")}. A report of one alone: mpisee-through report ${format.quoted(runs[0]?.profile ?? "app.mpisee")}`,
    unit: "seconds",
    source: "run.json, ranks.csv",
    command: groups.length > 1 ? command(view, "diff") : command(view, "runs", "--table points --format csv"),
    tables: [
      {
        id: "runs",
        caption: "All runs",
        columns: [
          { name: "profile", heading: "Profile", kind: "text", values: runs.map(({ profile }) => profile) },
          ...(groups.length > 1 ? [{ name: "set", heading: "Set", kind: "text" as const, values: runs.map(({ set }) => set) }] : []),
          { name: "setting", heading: "Setting", kind: "count", values: runs.map(({ setting }) => setting) },
          { name: "ranks", heading: "Ranks", kind: "count", values: runs.map(({ ranks }) => ranks) },
          { name: "nodes", heading: "Nodes", kind: "count", values: runs.map(({ nodes }) => nodes) },
          { name: "start", heading: "Start", kind: "text", values: runs.map(({ start }) => start) },
          { name: "runtime_s", heading: "Run time", kind: "seconds", values: runs.map(({ runtime_s }) => runtime_s) },
          { name: "mpi_mean_s", heading: "MPI, mean", kind: "seconds", values: runs.map(({ mpi_s }) => mpi_s) },
          { name: "command", heading: "Command", kind: "text", values: runs.map((run) => run.command) },
        ],
      },
    ],
    wide: true,
  };
}

// Lists: running jobs, profiles, ended jobs.

import { h } from "../dom";
import * as format from "../format";
import type { Brief, History, Listed, Past, Profiles } from "./data";
import { duration, moment, perSecond, section, share, table } from "./parts";
import type { Column } from "./parts";

/** Running jobs. */
export function running(jobs: Brief[], again: () => void): HTMLElement {
  if (jobs.length === 0) {
    const how = "mpirun -n 64 mpisee ./app";
    return section("running", "Running jobs", h("p", { class: "missing" }, "None on this node, and no agent sends any. Start a program with ", h("code", {}, how), "."));
  }
  const state = (job: Brief) => (job.deadlocks > 0 ? "deadlock" : job.waiting > 0 ? "ranks are missing" : "runs");
  const columns: Column<Brief>[] = [
    { heading: "Job", cell: (job) => h("a", { href: `#job=${encodeURIComponent(job.key)}`, "data-key": `job-${job.key}` }, job.command.map(format.quoted).join(" ")), order: (job) => job.command.join(" ") },
    { heading: "State", cell: (job) => h("span", { class: state(job) === "runs" ? "" : "bad" }, state(job)), order: state },
    { heading: "Ranks", cell: (job) => (job.seen === job.ranks ? String(job.ranks) : `${job.seen} of ${job.ranks}`), order: (job) => job.ranks, isNumber: true },
    { heading: "Nodes", cell: (job) => String(job.nodes), order: (job) => job.nodes, isNumber: true },
    { heading: "Running for", cell: (job) => duration(job.elapsed_s), order: (job) => job.elapsed_s, isNumber: true },
    { heading: "In MPI now", cell: (job) => share(job.interval_mpi_share), order: (job) => job.interval_mpi_share, isNumber: true },
    { heading: "Calls/s", cell: (job) => format.count(Math.round(job.calls_per_s)), order: (job) => job.calls_per_s, isNumber: true },
    { heading: "Volume/s", cell: (job) => perSecond(format.bytes(job.bytes_per_s)), order: (job) => job.bytes_per_s, isNumber: true },
  ];
  return section("running", "Running jobs", table("running", "Running jobs", columns, jobs, again));
}

/** What is chosen among the profiles. */
const chosen: string[] = [];
let filter = "";

/** The profiles of the folder; two of them can be compared. */
export function profiles(list: Profiles, again: () => void): HTMLElement {
  const words = filter.toLowerCase();
  const takes = (profile: Listed) => `${profile.name} ${profile.run?.command.join(" ") ?? ""}`.toLowerCase().includes(words);
  const shown = list.profiles.filter(takes);
  const search = h("input", { type: "search", placeholder: "Filter", "aria-label": "Filter profiles by name and command", "data-key": "filter", value: filter });
  search.addEventListener("input", () => {
    filter = search.value;
    again();
  });
  const [before, after] = chosen;
  const compare =
    before !== undefined && after !== undefined
      ? h("a", { class: "compare", href: `compare?before=${encodeURIComponent(before)}&after=${encodeURIComponent(after)}`, target: "_blank", rel: "noopener", "data-key": "compare" }, `Compare ${before} with ${after}`)
      : h("span", { class: "lead" }, "Choose two to compare them");
  const note = list.is_cut_off ? h("p", { class: "lead" }, "There may be more: the last 2000 profiles are listed, up to four folders deep, among the first 50000 files and folders.") : null;
  const content =
    list.profiles.length === 0
      ? h("p", { class: "missing" }, "There is none in this folder. A program that runs under mpisee leaves one.")
      : table("profiles", "Profiles", columns(again), shown, again);
  return section("profiles", "Profiles", h("p", { class: "lead" }, h("code", {}, list.folder)), note, h("div", { class: "tools" }, search, compare), content);
}

function columns(again: () => void): Column<Listed>[] {
  const share_of = ({ run }: Listed) => (typeof run?.mpi_share === "number" ? share(run.mpi_share) : "");
  const state = ({ run, why }: Listed) => (run ? (run.complete ? "complete" : "incomplete") : (why ?? "cannot be read"));
  return [
    { heading: "Profile", cell: ({ name, run }) => (run ? h("a", { href: `report?of=${encodeURIComponent(name)}`, target: "_blank", rel: "noopener", "data-key": `open-${name}` }, name) : name), order: ({ name }) => name },
    { heading: "Compare", cell: (profile) => (profile.run ? choice(profile.name, again) : "") },
    { heading: "Program", cell: ({ run }) => run?.program ?? "", order: ({ run }) => run?.program ?? "" },
    { heading: "Ranks", cell: ({ run }) => (run ? String(run.ranks) : ""), order: ({ run }) => run?.ranks ?? -1, isNumber: true },
    { heading: "Nodes", cell: ({ run }) => (run ? String(run.nodes) : ""), order: ({ run }) => run?.nodes ?? -1, isNumber: true },
    { heading: "Date", cell: ({ run, changed_s }) => moment(run?.start ? Date.parse(run.start) / 1000 || changed_s : changed_s), order: ({ changed_s }) => changed_s },
    { heading: "Wall time", cell: ({ run }) => (run ? duration(run.wall_s) : ""), order: ({ run }) => run?.wall_s ?? -1, isNumber: true },
    { heading: "In MPI", cell: share_of, order: ({ run }) => run?.mpi_share ?? -1, isNumber: true },
    { heading: "State", cell: state, order: state },
  ];
}

/** A box to choose a profile; the first of three that are chosen is let go. */
function choice(name: string, again: () => void): HTMLElement {
  const box = h("input", { type: "checkbox", "aria-label": `Compare ${name}`, "data-key": `choose-${name}` });
  box.checked = chosen.includes(name);
  box.addEventListener("change", () => {
    const at = chosen.indexOf(name);
    if (at >= 0) chosen.splice(at, 1);
    if (box.checked) chosen.push(name);
    if (chosen.length > 2) chosen.shift();
    again();
  });
  return box;
}

/** Ended jobs. */
export function history(list: History, again: () => void): HTMLElement {
  if (list.count === 0) return section("history", "Ended jobs", h("p", { class: "missing" }, "None was seen yet."));
  const columns: Column<Past>[] = [
    { heading: "Job", cell: (job) => h("a", { href: `#job=${encodeURIComponent(job.key)}`, "data-key": `past-${job.key}` }, job.command || "(unknown command)"), order: (job) => job.command },
    { heading: "Ended", cell: (job) => moment(job.ended_s), order: (job) => job.ended_s },
    { heading: "After", cell: (job) => duration(job.elapsed_s), order: (job) => job.elapsed_s, isNumber: true },
    { heading: "Ranks", cell: (job) => String(job.ranks), order: (job) => job.ranks, isNumber: true },
    { heading: "Nodes", cell: (job) => String(job.nodes), order: (job) => job.nodes, isNumber: true },
    { heading: "In MPI", cell: (job) => share(job.mpi_share), order: (job) => job.mpi_share, isNumber: true },
    { heading: "Calls", cell: (job) => format.count(job.calls), order: (job) => job.calls, isNumber: true },
    { heading: "Volume", cell: (job) => format.bytes(job.bytes), order: (job) => job.bytes, isNumber: true },
  ];
  const to = list.from + list.jobs.length;
  const link = (from: number, text: string) => h("a", { href: `#history=${from}`, "data-key": text }, text);
  const steps = h(
    "p",
    { class: "tools" },
    `${list.from + 1} to ${to} of ${list.count}`,
    list.from > 0 ? link(Math.max(0, list.from - 100), "Later") : null,
    to < list.count ? link(to, "Earlier") : null,
  );
  return section("history", "Ended jobs", steps, table("history", "Ended jobs", columns, list.jobs, again));
}

// The page of several runs: what diff says of two sets of them, and runs of all.

import type { Several } from "./data";
import { h } from "./dom";
import type { Figure } from "./figure";
import * as format from "./format";
import type { Contents } from "./page";
import { link } from "./state";
import { changes, places, totals, totalsSentence } from "./several/comparison";
import { growth } from "./several/growth";
import { changesOver, history } from "./several/history";
import { parts } from "./several/parts";
import { differences, repeated, withoutMark } from "./several/repetitions";
import { allRuns } from "./several/runs";
import { efficiencies, scaling } from "./several/scaling";
import type { SeveralView } from "./several/view";

/** What is on the page. */
export function contents(data: Several): Contents<SeveralView> {
  const histories = (data.history?.histories ?? []).flatMap((_, at) => [history, changesOver].map((draw) => (view: SeveralView) => draw(view, at)));
  const numbered = data.groups.flatMap((group) => {
    const of = (draw: (view: SeveralView, at: number) => Figure | null, at: number) => (view: SeveralView) => draw({ ...view, group }, at);
    return [
      ...group.series.flatMap((_, at) => [scaling, efficiencies, parts, growth].map((draw) => of(draw, at))),
      ...group.repetitions.map((_, at) => of(repeated, at)),
      ...group.repetitions.map((_, at) => of(differences, at)),
    ];
  });
  return {
    header: header(data),
    lead: lead(data),
    charts: data.history ? [...histories, allRuns] : [totals, changes, places, ...numbered, allRuns],
    view: (state, palette) => ({ data, group: data.groups[0], state, palette }),
    choices: () => ({ controls: [], isPart: false }),
    short: {},
    first: "runs",
    sources: (source) => source,
    generator: data.generator,
  };
}

/** Programs, and which runs they are. */
function header(data: Several): HTMLElement {
  const runs = data.groups.flatMap((group) => group.runs);
  const each = (of: (run: (typeof runs)[number]) => string) => [...new Set(runs.map(of))].sort((one, other) => one.localeCompare(other, "en", { numeric: true }));
  const lines: [string, string[]][] = [];
  if (data.comparison) lines.push(["A", [data.comparison.sets[0]]], ["B", [data.comparison.sets[1]]]);
  const ranks = each((run) => String(run.ranks));
  lines.push(
    ["Runs", [format.counted(runs.length, "run")]],
    [each((run) => run.command).length > 1 ? "Commands" : "Command", shortened(each((run) => run.command))],
    ["MPI", each((run) => run.library)],
    ["Ranks", [ranks.join(", ")]],
    ["Nodes", [each((run) => String(run.nodes)).join(", ")]],
  );
  const notes = [...new Set([...(data.comparison?.notes ?? []), ...(data.without_comparison ? [`A and B are not compared: ${data.without_comparison}`] : []), ...data.groups.flatMap((group) => group.notes)])];
  return h(
    "header",
    {},
    h("h1", {}, data.program, h("span", { class: "subtitle" }, data.history ? "history" : data.comparison ? "comparison of runs" : "several runs")),
    h("dl", { class: "run" }, ...lines.map(([heading, texts]) => h("div", {}, h("dt", {}, heading), ...texts.map((text) => h("dd", {}, text))))),
    notes.length > 0 && h("ul", { class: "notes" }, ...notes.map((note) => h("li", {}, note))),
  );
}

function shortened(texts: string[]): string[] {
  return texts.length > 6 ? [...texts.slice(0, 5), `and ${texts.length - 5} more`] : texts;
}

/** The sentences of the commands, each with the charts that they are about. */
function lead(data: Several): HTMLElement {
  const items: HTMLElement[] = [];
  const add = (heading: string, sentences: string[], at: string) =>
    items.push(
      h(
        "li",
        { class: "said" },
        h("h3", {}, heading),
        ...sentences.map((sentence) => h("p", {}, sentence)),
        h("p", {}, h("a", { class: "evidence", href: link({ at }), "aria-label": `See the charts of ${heading}` }, "See the charts")),
      ),
    );
  if (data.comparison) add("A beside B", totalsSentence(data.comparison), "changes");
  data.history?.histories.forEach(({ title, sentences }, at) => add(title, sentences, `history-${at + 1}`));
  for (const { name, series, repetitions } of data.groups) {
    const [before, prefix] = name === "" ? ["", ""] : [`${name}: `, `${name.toLowerCase()}-`];
    series.forEach(({ title, sentences }, at) => add(before + title, sentences, `${prefix}scaling-${at + 1}`));
    repetitions.forEach(({ title, sentences, closing }, at) => add(before + title, [...sentences, ...closing.map(withoutMark)], `${prefix}repeated-${at + 1}`));
  }
  return h(
    "section",
    { class: "findings", "aria-labelledby": "findings-title" },
    h("h2", { id: "findings-title" }, "What the runs say"),
    items.length > 0
      ? h("ul", { class: "sentences" }, ...items)
      : h("p", { class: "verdict" }, "There are neither repetitions nor a series among the runs."),
  );
}

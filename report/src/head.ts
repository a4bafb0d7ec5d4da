// The first lines: the run, the verdict, and the findings with links to their evidence.

import { column } from "./data";
import type { Data } from "./data";
import { copyButton, h } from "./dom";
import * as format from "./format";
import { link } from "./state";

/** The program and the run. */
export function header(data: Data): HTMLElement {
  const lines: HTMLElement[] = [];
  for (const [heading, text] of data.header) {
    const last = lines.at(-1);
    if (heading === "" && last) last.append(h("dd", {}, text));
    else lines.push(h("div", {}, h("dt", {}, heading), h("dd", {}, text)));
  }
  const notes = [...data.notes, ...(data.partial_because ? [`Only the rows before an error are shown: ${data.partial_because}`] : [])];
  return h(
    "header",
    {},
    h("h1", {}, data.program, h("span", { class: "subtitle" }, "communication profile")),
    h("dl", { class: "run" }, ...lines),
    notes.length > 0 && h("ul", { class: "notes" }, ...notes.map((note) => h("li", {}, note))),
  );
}

/** Findings that are shown at once. */
const FIRST = 6;

/** The verdict and the findings. */
export function findings(data: Data): HTMLElement {
  const { advice } = data;
  const table = advice.findings;
  const of = (name: string, row: number) => column(table, name)[row];
  const items = advice.charts.map((chart, row) => {
    const comm = advice.comms[row];
    const share = Number(of("share_of_run", row) ?? 0);
    const target = link({ at: chart, ...(comm === null ? {} : { comm: data.comms[comm].name }) });
    return h(
      "li",
      {},
      h(
        "div",
        { class: "cost" },
        h("span", { class: "cost-share" }, format.percent(share)),
        h("span", { class: "meter", "aria-hidden": "true" }, h("i", { style: `width:${Math.min(100, 100 * share)}%` })),
        h("span", { class: "cost-time" }, `of the run, ${format.time(Number(of("cost_s", row) ?? 0))}`),
      ),
      h(
        "div",
        { class: "finding" },
        h("h3", {}, String(of("finding", row))),
        h("p", {}, String(of("evidence", row)), " ", h("a", { class: "evidence", href: target, "aria-label": `See the chart of finding ${row + 1}, ${String(of("rule", row))}` }, "See the chart")),
        h("p", { class: "try" }, h("strong", {}, "Try "), String(of("try", row))),
        h("p", { class: "rule" }, `${String(of("rule", row))} · reported from ${String(of("threshold", row))}`),
      ),
    );
  });
  const command = `mpisee-through advise ${data.profile}`;
  return h(
    "section",
    { class: "findings", "aria-labelledby": "findings-title" },
    h("h2", { id: "findings-title" }, "Findings"),
    h("p", { class: "verdict" }, advice.verdict),
    ...advice.caveats.map((caveat) => h("p", { class: "caveat" }, caveat)),
    items.length > 0 ? h("ol", {}, ...items.slice(0, FIRST)) : h("p", {}, "No rule of advise finds anything."),
    items.length > FIRST &&
      h("details", {}, h("summary", {}, `${format.counted(items.length - FIRST, "more finding")}, with less time`), h("ol", {}, ...items.slice(FIRST))),
    h("p", { class: "hint" }, "Hints from sums over the run, not proofs; they may overlap. In the terminal: ", h("code", {}, command), " ", copyButton("Copy", "Copy the command of the findings", () => command)),
  );
}

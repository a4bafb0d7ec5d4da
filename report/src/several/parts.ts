// A series: what of the time of all ranks each operation on a family of communicators has, and what
// dominates beyond.

import { column, numbers } from "../data";
import { h } from "../dom";
import * as format from "../format";
import { legend } from "../figure";
import type { Figure } from "../figure";
import { Plot, fitted, plot, textWidth, tip } from "../plot";
import { columnsOf } from "../table";
import { ofSeries } from "./scaling";
import type { SeveralView } from "./view";
import { chartId, command, partName, placeOf, rowsOf, setting, shortTitle } from "./view";

interface Share {
  part: string;
  place: string;
  share: number;
  time_s: number | null;
}

interface Beyond {
  part: string;
  share: number;
  low: number;
  high: number;
}

const OUTSIDE = "outside of MPI";
const OTHER = "all else";

export function parts(view: SeveralView, series: number): Figure {
  const { palette } = view;
  const about = view.group.series[series];
  const table = rowsOf(view, "parts", "series", series + 1);
  const [comm, call] = [column(table, "comm").map(String), column(table, "call").map(String)];
  const [value, share, time_s] = ["value", "share_of_run", "time_s"].map((name) => numbers(table, name));
  const all: Share[] = comm.map((_, row) => ({ part: partName(comm[row], call[row]), place: setting(value[row]), share: share[row], time_s: time_s[row] }));
  const beyond = beyondOf(view, series);
  const predicted = `${setting(about.beyond)}*`;
  const known = beyond.length > 0 ? [...all, ...beyond.map(({ part, share }) => ({ part, place: predicted, share, time_s: null }))] : all;
  const named = namedParts(known, palette.categories.length);
  const colour = (part: string) => (part === OUTSIDE ? palette.unmeasured : part === OTHER ? palette.other : palette.categories[named.indexOf(part)]);
  const places = [...new Set(known.map(({ place }) => place))];
  const bars = stacked(known, named, places);
  const entries = [OUTSIDE, ...named, OTHER].filter((part) => bars.some((bar) => bar.part === part && bar.share > 0));
  return {
    id: chartId(view, "parts", series),
    title: `Where the time goes${ofSeries(view, series)}`,
    short: shortTitle(view, "Parts", series, view.group.series.length),
    lead: `What of ranks × run time is outside of MPI, which is the parallel efficiency unless NCCL has a part of it, and in each operation on a family of communicators.${beyond.length > 0 ? ` ${predicted} is predicted by the models; at the right with the interval of each part (95 %), beside the others' best values. ${about.sentences[1] ?? ""}` : ""}`,
    controls: [legend("", entries.map((part) => [colour(part), part]))],
    draw: (width) => {
      const half = beyond.length > 0 && width > 900 ? (width - 32) / 2 : width;
      return h("div", { class: "beside" }, drawBars(view, bars, places, colour, about.over, half), beyond.length > 0 && h("div", {}, h("h3", {}, `At ${placeOf(about.over, about.beyond)}`), drawBeyond(view, beyond, colour, named, half)));
    },
    unit: "per cent of ranks × run time, medians over runs",
    source: "calls.csv, ranks.csv",
    command: command(view, "runs", "--table parts --format csv"),
    tables: [{ id: chartId(view, "parts", series), caption: `Parts of each setting${ofSeries(view, series)}`, columns: columnsOf(table, ["series"]) }],
    wide: true,
  };
}

/** The shares of parts at four times the largest setting. */
function beyondOf(view: SeveralView, series: number): Beyond[] {
  const table = rowsOf(view, "growth", "series", series + 1);
  const [comm, call, quantity] = ["comm", "call", "quantity"].map((name) => column(table, name));
  const [share, low, high] = ["predicted_share", "predicted_share_low", "predicted_share_high"].map((name) => numbers(table, name));
  return comm
    .map((name, row) => ({ part: partName(String(name), String(call[row])), share: share[row], low: low[row], high: high[row] }))
    .filter((_, row) => quantity[row] === "time_s")
    .sort((one, other) => other.share - one.share);
}

/** The parts with a colour of their own: those that are largest in some setting. */
function namedParts(all: Share[], most: number): string[] {
  const largest = new Map<string, number>();
  for (const { part, share } of all) if (part !== OUTSIDE) largest.set(part, Math.max(largest.get(part) ?? 0, share));
  return [...largest].sort(([, one], [, other]) => other - one).slice(0, most).filter(([, share]) => share > 0).map(([part]) => part);
}

function stacked(all: Share[], named: string[], places: string[]): (Share & { from: number; to: number })[] {
  const bars: (Share & { from: number; to: number })[] = [];
  for (const place of places) {
    let from = 0;
    for (const part of [OUTSIDE, ...named, OTHER]) {
      const of = all.filter((one) => one.place === place && (one.part === part || (part === OTHER && one.part !== OUTSIDE && !named.includes(one.part))));
      const share = of.reduce((sum, one) => sum + one.share, 0);
      const time_s = of.some((one) => one.time_s === null) ? null : of.reduce((sum, one) => sum + one.time_s!, 0);
      bars.push({ part, place, share, time_s, from, to: from + share });
      from += share;
    }
  }
  return bars;
}

function drawBars(view: SeveralView, bars: (Share & { from: number; to: number })[], places: string[], colour: (part: string) => string, over: string, width: number): Node {
  const { palette } = view;
  const end = Math.max(1, ...bars.map(({ to }) => to));
  return plot("Parts of the time at each setting; the table below has the numbers", palette, {
    width: Math.min(width, 90 + 130 * places.length),
    height: 320,
    marginLeft: 50,
    marginBottom: 40,
    x: { domain: places, label: over, labelAnchor: "right", labelArrow: "none", tickSize: 0, padding: 0.25 },
    y: { domain: [0, end], label: null, tickFormat: (share: number) => `${Math.round(100 * share)} %`, ticks: 5, grid: true },
    color: { type: "identity" },
    marks: [
      Plot.rectY(bars, { x: "place", y1: "from", y2: "to", fill: ({ part }: Share) => colour(part), fillOpacity: ({ place }: Share) => (place.endsWith("*") ? 0.6 : 1), stroke: palette.surface, strokeWidth: 0.7 }),
      Plot.ruleY([0], { stroke: palette.muted }),
      tip(
        bars.filter(({ share }) => share > 0),
        Plot.pointer({ x: "place", y: (bar) => (bar.from + bar.to) / 2, title: (bar) => `${bar.part}\n${over} ${bar.place}: ${format.percent(bar.share)}${bar.time_s === null ? ", predicted" : `\n${format.time(bar.time_s)} over all ranks`}` }),
      ),
    ],
  });
}

const MOST = 10;

function drawBeyond(view: SeveralView, beyond: Beyond[], colour: (part: string) => string, named: string[], width: number): Node {
  const { palette } = view;
  const shown = beyond.slice(0, MOST);
  const marginLeft = Math.min(Math.max(...shown.map(({ part }) => textWidth(part))) + 14, width * 0.45);
  const about = ({ part, share, low, high }: Beyond) => `${part}\n${format.percent(share)} (${format.percent(low)} to ${format.percent(high)})`;
  return plot("Parts of the time at four times the largest setting, with intervals; the table of growth has the numbers", palette, {
    width,
    height: shown.length * 28 + 40,
    marginLeft,
    marginRight: 24,
    x: { domain: [0, Math.min(1, Math.max(...shown.map(({ high }) => high), 0.01) * 1.05)], label: null, tickFormat: (share: number) => `${Number((100 * share).toFixed(1))} %`, grid: true, ticks: Math.max(2, Math.floor(width / 130)) },
    y: { domain: shown.map(({ part }) => part), label: null, tickSize: 0, tickFormat: (part: string) => fitted(part, marginLeft - 10), padding: 0.3 },
    color: { type: "identity" },
    marks: [
      Plot.ruleY(shown, { y: "part", x1: "low", x2: "high", stroke: palette.ink, strokeWidth: 1.5 }),
      Plot.dot(shown, { y: "part", x: "share", fill: ({ part }: Beyond) => colour(part === OUTSIDE || named.includes(part) ? part : OTHER), stroke: palette.ink, r: 5.5 }),
      tip(shown, Plot.pointerY({ x: "share", y: "part", title: about })),
    ],
  });
}

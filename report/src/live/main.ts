// The live page: asks the server again and again, and draws what it says. The fragment of the
// address says what is shown.

import { announce, h } from "../dom";
import { isDark, palette } from "../theme";
import { ask } from "./data";
import type { History, Job, Jobs, Profiles } from "./data";
import { job } from "./job";
import { history, profiles, running } from "./lists";

/** Between two questions, in milliseconds. */
const PAUSE = 1000;
/** Lists of what is on disk are asked for less often. */
const SELDOM = 5;

interface State {
  jobs: Jobs | null;
  profiles: Profiles | null;
  history: History | null;
  job: Job | null | undefined;
}

const state: State = { jobs: null, profiles: null, history: null, job: undefined };
const main = h("main", {});
const status = h("p", { class: "status", hidden: true });
const nav = h("nav", { "aria-label": "Pages" });
let isPaused = false;
/** True until the view of a new address is drawn, which is asked for also while the page is paused. */
let isNewPlace = false;
let theme = "";
let shown = "";

/** What the address asks for: `jobs`, `history` from some job on, or a job. */
function place(): { view: string; of: string } {
  const [view = "", of = ""] = location.hash.slice(1).split("=");
  return { view: view === "" ? "jobs" : view, of: decoded(of) };
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return "";
  }
}

/** Asks for what is shown. */
async function update(turn: number): Promise<void> {
  const { view, of } = place();
  const isSeldom = turn % SELDOM === 0;
  if (view === "job") {
    const now = await ask<Job | null>(`job?key=${encodeURIComponent(of)}`);
    if (state.job?.nodes && now && !now.nodes) announce("The job has ended");
    if (place().of === of) state.job = now;
  } else if (view === "history") {
    if (isSeldom || state.history === null) {
      const now = await ask<History>(`history?from=${Number(of) || 0}`);
      if (place().of === of) state.history = now;
    }
  } else {
    state.jobs = await ask<Jobs>("jobs");
    if (isSeldom || state.profiles === null) state.profiles = await ask<Profiles>("profiles");
  }
}

function drawNav(): void {
  const { view } = place();
  const link = (name: string, text: string) => h("a", { href: `#${name}`, "aria-current": view === name ? "page" : null }, text);
  const isNight = isDark(theme);
  const colours = () => {
    theme = isNight ? "light" : "dark";
    draw(true);
  };
  const pause = () => {
    isPaused = !isPaused;
    draw(true);
  };
  nav.replaceChildren(
    link("jobs", "Jobs and profiles"),
    link("history", "History"),
    h("button", { type: "button", class: "quiet", "data-key": "pause", "aria-pressed": isPaused ? "true" : "false", onclick: pause }, "Pause"),
    h("button", { type: "button", class: "quiet", "data-key": "theme", onclick: colours }, isNight ? "Light" : "Dark"),
  );
}

/** The sections of the view; null while nothing is known. */
function sections(): HTMLElement[] | null {
  const { view } = place();
  const again = () => draw(true);
  if (view === "job") {
    if (state.job === undefined) return null;
    if (state.job === null) return [h("section", { class: "figure" }, h("h2", {}, "This job is not known"), h("p", { class: "missing" }, "It neither runs nor is it in the history."))];
    const width = Math.max(280, Math.min(2120, main.clientWidth - 2 * 28));
    return job(state.job, width, palette(isDark(theme)), again);
  }
  if (view === "history") return state.history && [history(state.history, again)];
  return state.jobs && [running(state.jobs.jobs, again), ...(state.profiles ? [profiles(state.profiles, again)] : [])];
}

/** Draws what is known; `anew` also where it is what is shown. */
function draw(anew = false): void {
  document.documentElement.dataset["theme"] = isDark(theme) ? "dark" : "light";
  const key = JSON.stringify([state, location.hash, main.clientWidth]);
  if (key === shown && !anew) return;
  shown = key;
  const all = sections();
  if (!all) return;
  // Where the reader was, and how far tables were scrolled, stays.
  const focus = document.activeElement?.getAttribute("data-key");
  const caret = document.activeElement instanceof HTMLInputElement && document.activeElement.type === "search" ? document.activeElement.selectionStart : null;
  const scrolled = new Map([...main.querySelectorAll(".scroll")].map((element) => [element.getAttribute("data-key"), [element.scrollLeft, element.scrollTop]]));
  drawNav();
  main.replaceChildren(...all);
  for (const element of main.querySelectorAll(".scroll")) {
    const [left = 0, top = 0] = scrolled.get(element.getAttribute("data-key")) ?? [];
    element.scrollLeft = left;
    element.scrollTop = top;
  }
  if (focus) {
    const element = document.querySelector<HTMLElement>(`[data-key="${CSS.escape(focus)}"]`);
    element?.focus({ preventScroll: true });
    if (caret !== null && element instanceof HTMLInputElement) element.setSelectionRange(caret, caret);
  }
  document.documentElement.dataset["ready"] = "";
}

function tell(text: string): void {
  if (status.textContent !== text) status.textContent = text;
  status.hidden = text === "";
}

async function run(): Promise<void> {
  for (let turn = 0; ; turn++) {
    const isAsked = (!isPaused || isNewPlace) && !document.hidden;
    if (isAsked) {
      const wasNewPlace = isNewPlace;
      isNewPlace = false;
      try {
        await update(turn);
        tell("");
      } catch (error) {
        isNewPlace ||= wasNewPlace;
        tell(`The server does not answer, and is asked again: ${error instanceof Error ? error.message : String(error)}`);
      }
      draw();
    }
    await new Promise((done) => {
      wake = () => done(undefined);
      setTimeout(done, PAUSE);
    });
  }
}

let wake = (): void => {};
addEventListener("hashchange", () => {
  state.job = undefined;
  state.history = null;
  isNewPlace = true;
  scrollTo(0, 0);
  wake();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => draw(true));
addEventListener("resize", () => draw());
document.getElementById("live")?.append(
  h("header", {}, h("h1", {}, "mpisee"), nav),
  status,
  main,
  h("div", { id: "announcer", class: "off-screen", role: "status" }),
);
drawNav();
draw();
void run();

// Opens the live page of a server in Chromium, while a program runs on 4 ranks and a profile is
// there, and checks it as a reader would: `node live.mjs CHROMIUM URL`. With SHOTS=DIR it keeps
// pictures of every width and theme.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { chromium } from "playwright-core";

const [executablePath, url] = process.argv.slice(2);
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
// Where this runs as root, as in a container, Chromium's own sandbox does not start.
const args = process.getuid?.() === 0 ? ["--no-sandbox"] : [];
const browser = await chromium.launch({ executablePath, args });
const WIDTHS = [360, 1280, 2560];
const THEMES = ["light", "dark"];
/** What the console said, what was requested elsewhere, and anything else that must not be. */
const complaints = [];

function listen(page, where) {
  page.on("console", (message) => complaints.push(`${where}: console: ${message.text()}`));
  page.on("pageerror", (error) => complaints.push(`${where}: error: ${error.message}`));
  page.on("request", (request) => {
    if (!request.url().startsWith(url) && !request.url().startsWith("data:")) complaints.push(`${where}: request: ${request.url()}`);
  });
  page.on("response", (response) => {
    if (response.status() >= 400) complaints.push(`${where}: ${response.status()} of ${response.url()}`);
  });
}

async function open(width, colorScheme, fragment = "") {
  // The page's policy forbids what axe would add to it.
  const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme, reducedMotion: "reduce", bypassCSP: false });
  const page = await context.newPage();
  listen(page, `${fragment || "jobs"} at ${width} pixels, ${colorScheme}`);
  await page.goto(url + fragment);
  await page.waitForSelector("html[data-ready]");
  await page.waitForSelector("main .figure");
  return page;
}

/** Nothing sticks out, and axe finds nothing. */
async function look(name, fragment, width, theme) {
  const page = await open(width, theme, fragment);
  const where = `${name} at ${width} pixels, ${theme}`;
  const beyond = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
  assert.ok(beyond <= 0, `${where}: ${beyond} pixels wider than the window`);
  assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), theme, where);
  await page.evaluate(axe);
  const violations = await page.evaluate(async () => (await window.axe.run(document, { resultTypes: ["violations"] })).violations);
  const found = violations.map((one) => `${one.id}: ${one.help}: ${one.nodes.slice(0, 3).map((node) => node.html.slice(0, 200)).join(" ")}`);
  assert.deepEqual(found, [], `${where}: axe`);
  if (process.env.SHOTS) await page.screenshot({ path: join(process.env.SHOTS, `${name}-${width}-${theme}.png`), fullPage: true });
  await page.context().close();
}

/** The cells of a row of communicators, by the heading of their columns. */
async function row(page, comm) {
  return page.evaluate((name) => {
    const table = document.querySelector('[data-key="comms-region"] table');
    const headings = [...(table?.querySelectorAll("thead th") ?? [])].map((cell) => cell.textContent.replace(/[▲▼]/, ""));
    const found = [...(table?.querySelectorAll("tbody tr") ?? [])].find((one) => one.firstChild.textContent.trim() === name);
    return found ? Object.fromEntries([...found.children].map((cell, at) => [headings[at], cell.textContent])) : null;
  }, comm);
}

/** Follows a running job, as the page shows it. */
async function follow() {
  const page = await open(1280, "light");
  await page.locator('[data-key="running-region"] tbody a').click();
  await page.waitForURL(/#job=/);
  await page.waitForSelector("#comms-title");
  const seen = [];
  while (new Set(seen).size < 4) {
    const now = await row(page, "W");
    if (now) seen.push(Number(now.Calls.replace(/[^\d.]/g, "")));
    await page.waitForTimeout(700);
    assert.ok(seen.length < 40, `calls do not grow: ${seen}`);
  }
  assert.deepEqual(seen, [...seen].sort((one, other) => one - other), "calls grow");
  // On a busy machine no call may end between two looks.
  let now = await row(page, "W");
  for (let look = 0; look < 40 && !/[1-9]/.test(now["Calls/s"]); look++) {
    await page.waitForTimeout(700);
    now = await row(page, "W");
  }
  assert.ok(now.Size === "4" && /[1-9]/.test(now["Calls/s"]) && /[1-9].* [KM]?i?B$/.test(now["Volume/s"]), JSON.stringify(now));
  const half = await row(page, "W_s1.0");
  assert.equal(half.Label, "half");
  await page.waitForSelector('.timeline svg[aria-label^="Over "]');
  assert.match(await page.locator('.timeline svg[aria-label^="Over "]').getAttribute("aria-label"), /of the ranks' time in MPI; most in W$/);
  assert.ok((await page.locator(".timeline .legend li").allTextContents()).includes("W"));
  assert.ok((await page.locator("#nodes-title + p + .nodes .links svg").count()) > 0, "links are drawn");
  const places = await page.locator('[data-key="places-region"] tbody tr').allTextContents();
  assert.ok(places.length > 0, "ranks are somewhere");

  // A heading orders the table, also while it is drawn anew, and the focus stays.
  const heading = page.locator('[data-key="comms-Calls"]');
  await heading.click();
  await page.waitForTimeout(2500);
  assert.equal(await page.locator('[data-key="comms-region"] th[aria-sort="descending"]').textContent(), "Calls▼");
  assert.equal(await page.evaluate(() => document.activeElement?.getAttribute("data-key")), "comms-Calls", "the focus stays");

  // Without new numbers while it is halted.
  await page.locator('[data-key="pause"]').click();
  await page.waitForTimeout(1500);
  const halted = await row(page, "W");
  await page.waitForTimeout(2500);
  assert.deepEqual(await row(page, "W"), halted, "it is halted");
  await page.context().close();
}

/** Opens a profile from the list, in its own tab. */
async function openProfile() {
  const page = await open(1280, "light");
  await page.waitForSelector('[data-key="open-growing.mpisee"]');
  const opening = page.context().waitForEvent("page");
  await page.locator('[data-key="open-growing.mpisee"]').click();
  const report = await opening;
  listen(report, "the report");
  await report.waitForSelector("html[data-ready]");
  assert.match(await report.title(), /^growing · mpisee$/);
  assert.ok((await report.locator("#comms .chart svg").count()) > 0, "its charts are drawn");
  // It is of an origin of its own, and cannot read the server's other pages.
  assert.equal(await report.evaluate(() => self.origin), "null");

  await page.locator("input[type=search]").fill("nothing like that");
  assert.equal(await page.locator('[data-key="profiles-region"] tbody tr').count(), 0);
  await page.locator("input[type=search]").fill("GROW");
  assert.equal(await page.locator('[data-key="profiles-region"] tbody tr').count(), 1);
  await page.goto(`${url}#history`);
  await page.waitForSelector("#history-title");
  await page.locator('[data-key="history-region"] tbody a').first().click();
  await page.waitForSelector("#comms-title");
  assert.ok((await page.locator("dt").allTextContents()).includes("Ended after"));
  await page.context().close();
}

try {
  await follow();
  await openProfile();
  const first = await open(1280, "light");
  const job = await first.locator('[data-key="running-region"] tbody a').getAttribute("href");
  await first.context().close();
  // A page waits for frames most of the time.
  const looks = WIDTHS.flatMap((width) => THEMES.map(async (theme) => {
    await look("lists", "", width, theme);
    await look("job", job, width, theme);
    await look("history", "#history", width, theme);
  }));
  await Promise.all(looks);
  assert.deepEqual(complaints, []);
} finally {
  await browser.close();
}

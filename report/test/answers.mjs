// Opens the live page in Chromium with made-up answers of a server, and checks what it says of
// them: `node answers.mjs CHROMIUM`.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { chromium } from "playwright-core";

const [executablePath] = process.argv.slice(2);
const KINDS = { html: "text/html", js: "text/javascript", css: "text/css" };

const nowhere = { ended: false, call: null, comm: null, number: null, for_s: null, least_s: null };
const rank = (number) => ({ rank: number, world_rank: number });
const inCall = (ranks, call, how) => ({ ...nowhere, ranks, call, comm: "W", for_s: 3, least_s: 3, with: how });
const places = [
  inCall("0-62:2", "MPI_Recv", { from: rank(1), any_tag: true }),
  inCall("1-61:2,63", "MPI_Waitall", { requests: 3, from: rank(1) }),
  inCall("64", "MPI_Wait", { requests: 1, to: rank(2) }),
  inCall("65", "MPI_Waitall", { requests: 2 }),
  inCall("66", "MPI_Sendrecv", { to: rank(67), from: "MPI_ANY_SOURCE" }),
  { ...inCall("67", "MPI_Send", { to: { rank: 3, world_rank: 12 }, tag: 5 }), comm: "W_s2.0" },
];
const hang = { call: "MPI_Allreduce", comm: "W", number: 2001, for_s: 12, inside: "0-3", left: "", missing: [], elsewhere: "", elided: 0, foreign: 0 };
const waiting = [
  { ...hang, foreign: 2 },
  { ...hang, left: "4", missing: [{ ...nowhere, ranks: "5" }, { ...nowhere, ranks: "6", ended: true }, inCall("7", "MPI_Recv", { from: rank(5), tag: 4 })] },
  { ...hang, number: null, elsewhere: "9-11", elided: 3, foreign: 1 },
];
const load = (device, value, limit) => ({ source: "network", device, quantity: "received_bytes", value, limit });
let loads = [load("lo", 8800)];
const row = { label: "", size: 68, members_here: 68, calls: 1, bytes: 0, time_s: 1, share_of_time: 0.1, interval_calls_per_s: 0, interval_bytes_per_s: 0, interval_share_of_time: 0 };
const brief = { key: "a", command: ["./app"], ranks: 68, seen: 68, ended: 0, nodes: 1, start_s: 1.7e9, elapsed_s: 20, mpi_share: 0, interval_mpi_share: 0, calls_per_s: 0, bytes_per_s: 0, waiting: 3, deadlocks: 0 };
const document = { mpi_library: "", mpi_flavour: "", ranks: 68, ranks_here: "0-67", not_seen: "", start: "", elapsed_s: 20, interval_s: 1, recording_was_off: false, communicators: [{ ...row, comm: "W" }], communicators_left_out: 0, places, waiting, deadlocks: [] };
const past = { key: "b", start_s: 1.7e9, ended_s: 1.7e9, command: "./old", ranks: 2, nodes: 1, elapsed_s: 1, mpi_share: 0, calls: 1, bytes: 1 };

const answers = {
  jobs: () => ({ jobs: [brief] }),
  job: () => ({ key: "a", brief, job: document, samples: [], nodes: [{ host: "n1", age_s: null, loads }] }),
  profiles: () => ({ folder: "/results", profiles: [], is_cut_off: false }),
  history: () => ({ count: 1, from: 0, jobs: [past] }),
};

function answer(request, response) {
  const name = new URL(request.url, "http://localhost").pathname.slice(1) || "page.html";
  const [, ending] = name.split(".");
  const isFile = KINDS[ending] !== undefined;
  response.setHeader("content-type", isFile ? KINDS[ending] : "application/json");
  response.end(isFile ? readFileSync(new URL(`../../crates/serve/page/${name}`, import.meta.url)) : JSON.stringify(answers[name]()));
}

const server = createServer(answer);
await new Promise((done) => server.listen(0, "127.0.0.1", done));
const url = `http://127.0.0.1:${server.address().port}/`;
// Where this runs as root, as in a container, Chromium's own sandbox does not start.
const browser = await chromium.launch({ executablePath, args: process.getuid?.() === 0 ? ["--no-sandbox"] : [] });

async function open(fragment) {
  const page = await browser.newPage({ colorScheme: "light" });
  page.on("pageerror", (error) => assert.fail(error));
  await page.goto(url + fragment);
  await page.waitForSelector("main .figure");
  return page;
}

async function ranksAreCountedAndCallsNamed() {
  const page = await open("#job=a");
  const rows = await page.locator('[data-key="places-region"] tbody tr').evaluateAll((all) => all.map((one) => [...one.children].slice(0, 3).map((cell) => cell.textContent)));
  assert.deepEqual(rows, [
    ["0-62:2", "32", "MPI_Recv from 1, any tag on W"],
    ["1-61:2,63", "32", "MPI_Waitall (3 requests, first a receive from 1) on W"],
    ["64", "1", "MPI_Wait (send to 2) on W"],
    ["65", "1", "MPI_Waitall (2 requests) on W"],
    ["66", "1", "MPI_Sendrecv to 67, from any rank on W"],
    ["67", "1", "MPI_Send to 3 (rank 12 of W) tag 5 on W_s2.0"],
  ]);
  await page.close();
}

async function everybodyWhoIsMissingIsNamed() {
  const page = await open("#job=a");
  assert.deepEqual(await page.locator(".alert li").allTextContents(), [
    "MPI_Allreduce on W (call 2001), for 12.0 s: in it 0-3; 2 members of another world, of which nothing is known here",
    "MPI_Allreduce on W (call 2001), for 12.0 s: in it 0-3; through it 4; missing 5 (in no MPI call), 6 (ended, in no MPI call), 7 (in MPI_Recv from 5 tag 4 on W for 3.00 s)",
    "MPI_Allreduce on W, for 12.0 s: in it 0-3; not seen 9-11 and 3 that are not listed; 1 member of another world, of which nothing is known here",
  ]);
  await page.close();
}

async function linksLeadOnWhileThePageIsPaused() {
  const page = await open("#jobs");
  await page.locator('[data-key="pause"]').click();
  await page.locator("nav a", { hasText: "History" }).click();
  await page.waitForSelector("#history-title");
  await page.locator('[data-key="past-b"]').click();
  await page.waitForSelector("#comms-title");
  await page.locator("nav a", { hasText: "Jobs" }).click();
  await page.waitForSelector("#running-title");
  assert.equal(await page.locator('[data-key="pause"]').getAttribute("aria-pressed"), "true", "it stays paused");
  await page.close();
}

/** The luminance of each link, by its name, and what is said of the colours. */
async function links() {
  const page = await open("#job=a");
  const shades = await page.locator(".links svg").evaluateAll((all) => all.map((one) => {
    const [red, green, blue] = one.querySelector("rect").getAttribute("fill").match(/\d+/g).map(Number);
    return [one.querySelector("text").textContent.replace(" in", ""), 0.2126 * red + 0.7152 * green + 0.0722 * blue];
  }));
  const texts = await page.locator(".links svg text:last-child").allTextContents();
  const said = await page.locator("#nodes-title + p").textContent();
  await page.close();
  return { shades: Object.fromEntries(shades), texts, said };
}

async function linksOfUnknownSpeedArePale() {
  const alone = await links();
  assert.ok(alone.shades.lo > 230, JSON.stringify(alone));
  assert.deepEqual([alone.texts, alone.said], [["8.59 KiB/s"], "Pale ones are links whose speed is not known."]);
  loads = [load("lo", 8800), load("tap0", 100), load("eth0", 1e9, 1.25e9)];
  const { shades, texts, said } = await links();
  assert.ok(shades.lo > 150 && shades.tap0 > shades.lo && shades.eth0 < 100, JSON.stringify(shades));
  assert.deepEqual(texts, ["8.59 KiB/s", "100 B/s", "954 MiB/s (80.0 %)"]);
  assert.equal(said, "Colours are the part of what a link can carry. Pale ones are links whose speed is not known; the busiest of them, with 8.59 KiB/s, is the darkest.");
}

try {
  await ranksAreCountedAndCallsNamed();
  await everybodyWhoIsMissingIsNamed();
  await linksLeadOnWhileThePageIsPaused();
  await linksOfUnknownSpeedArePale();
} finally {
  await browser.close();
  server.close();
}

// Opens reports in Chromium and checks them as a reader would: `node browser.mjs CHROMIUM FOLDER`,
// where the folder has plain.html, of a profile with a map, messages, a time line and labels that
// look like HTML; sites.html, of one with call sites and paths; gpus.html, of one with all that is
// known of GPUs; some-ways.html, of one without copies and accesses of kernels; nccl.html, of one
// with calls of NCCL; alone.html, of one without MPI; cores.html, of one whose ranks lacked cores;
// alike.html, of one with GPUs whose UUIDs begin alike; several.html, of two sets of repetitions;
// series.html, of a series over ranks; history.html, of a history of entries; and any other *.html.
// With SHOTS=DIR it keeps pictures of every width and theme.

import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

const [executablePath, folder] = process.argv.slice(2);
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
// Where this runs as root, as in a container, Chromium's own sandbox does not start.
const args = process.getuid?.() === 0 ? ["--no-sandbox"] : [];
const browser = await chromium.launch({ executablePath, args });
const WIDTHS = [360, 1280, 2560];
const THEMES = ["light", "dark"];
/** What the console said, what was requested, and anything else that must not be. */
const complaints = [];

async function open(file, width, colorScheme, fragment = "") {
  const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme, reducedMotion: "reduce" });
  const page = await context.newPage();
  const where = `${file} at ${width} pixels, ${colorScheme}`;
  page.on("console", (message) => complaints.push(`${where}: console: ${message.text()}`));
  page.on("pageerror", (error) => complaints.push(`${where}: error: ${error.message}`));
  const address = pathToFileURL(join(resolve(folder), file)).href;
  page.on("request", (request) => {
    const url = request.url();
    if (url.split("#")[0] !== address && !url.startsWith("data:")) complaints.push(`${where}: request: ${url}`);
  });
  await page.goto(address + fragment);
  await page.waitForSelector("html[data-ready]");
  return page;
}

/** Everything is drawn, nothing sticks out, and axe finds nothing. */
async function look(file, width, theme) {
  const page = await open(file, width, theme);
  const where = `${file} at ${width} pixels, ${theme}`;
  const empty = await page.$$eval(".figure:not([hidden])", (figures) =>
    figures.filter((figure) => !figure.querySelector(".chart svg [fill], .chart .tile, .missing, .lead")).map((figure) => figure.id),
  );
  assert.deepEqual(empty, [], `${where}: charts without anything`);
  const beyond = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
  assert.ok(beyond <= 0, `${where}: ${beyond} pixels wider than the window`);
  assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), theme, where);
  await page.$$eval("details:not([open]) > summary", (summaries) => summaries.forEach((summary) => summary.click()));
  // With what the pointer shows.
  if (await page.locator("#ranks .chart svg").count()) await page.locator("#ranks .chart svg").hover();
  await page.evaluate(axe);
  const violations = await page.evaluate(async () => (await window.axe.run(document, { resultTypes: ["violations"] })).violations);
  const found = violations.map((one) => `${one.id}: ${one.help}: ${one.nodes.slice(0, 3).map((node) => node.html.slice(0, 200)).join(" ")}`);
  assert.deepEqual(found, [], `${where}: axe`);
  if (process.env.SHOTS) await page.screenshot({ path: join(process.env.SHOTS, `${file}-${width}-${theme}.png`), fullPage: true });
  await page.context().close();
}

/** Waits until what was done is drawn. */
async function settled(page) {
  await page.waitForFunction(() => document.documentElement.dataset.shown === location.hash);
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => setTimeout(done))));
}

/** The rows of a table, column by column as text. */
async function rows(page, figure) {
  await settled(page);
  const details = page.locator(`#${figure} details`).first();
  if (!(await details.evaluate((element) => element.open))) await details.locator("summary").click();
  await details.locator("tbody tr").first().waitFor();
  return details.locator("tbody tr").evaluateAll((rows) => rows.map((row) => [...row.children].map((cell) => cell.textContent)));
}

/** Filters, sorts, zooms, and follows links. */
async function use(file) {
  const page = await open(file, 1280, "light");
  // The labels of communicators stay text.
  const label = `<script>document.title="no"</script> "quoted" & 'single' 🦀`;
  const options = await page.locator(".bar option").allTextContents();
  assert.ok(options.some((option) => option.includes(label)), `no choice with the label: ${options}`);
  assert.match(await page.title(), /mpisee$/);

  // A click on the map shows one communicator and what was made of it; so do the keys.
  const before = await rows(page, "operations");
  const box = page.locator('#comms svg a[aria-label^="W_s1.* "]');
  await box.click();
  await page.waitForURL(/#.*comm=W_s1\.\*/);
  const names = new Set((await rows(page, "operations")).map(([comm]) => comm));
  assert.ok(names.has("W_s1.*") && [...names].every((name) => name.startsWith("W_s1.*")), `filtered: ${[...names]}`);
  assert.ok((await page.locator("#operations .command code").textContent()).includes("--comm 'W_s1.*@4'"));
  await page.locator(".bar .clear").click();
  assert.deepEqual(await rows(page, "operations"), before, "without the filter all rows are back");
  await box.focus();
  await page.keyboard.press("Enter");
  await page.waitForURL(/comm=W_s1\.\*/);
  await settled(page);
  const key = await page.evaluate(() => document.activeElement?.getAttribute("aria-label"));
  assert.match(key ?? "", /^W_s1\.\* /, "the focus stays on the map");
  await page.goBack();

  // Tables sort by a click on a heading, filter, and copy as CSV.
  await page.locator("#operations thead button", { hasText: "Calls" }).click();
  const calls = (await rows(page, "operations")).map((row) => Number(row.at(-1)));
  assert.deepEqual(calls, [...calls].sort((one, other) => other - one), "sorted by calls");
  assert.equal(await page.locator('#operations th[aria-sort="descending"]').count(), 1);
  await page.locator("#operations input[type=search]").fill("allreduce");
  const kept = await rows(page, "operations");
  assert.ok(kept.length > 0 && kept.every((row) => row[1] === "MPI_Allreduce"), "filtered by text");
  await page.evaluate(() => {
    const clipboard = { writeText: (text) => ((window.copied = text), Promise.resolve()) };
    Object.defineProperty(navigator, "clipboard", { value: clipboard, configurable: true });
  });
  await page.locator("#operations .tools button").click();
  const csv = await page.evaluate(() => window.copied);
  assert.match(csv, /^comm,call,kind,time_s,/);
  assert.equal(csv.trim().split("\n").length, kept.length + 1, "a row for each that is shown");

  // The pointer shows the numbers of a bar.
  await page.locator("#ranks .chart svg").hover();
  await page.locator('#ranks svg [aria-hidden="true"] text', { hasText: /rank \d: .*s/ }).waitFor();

  // The matrix: a button and a drag show a part of it.
  await page.locator('#matrix [aria-label="Zoom in"]').click();
  await page.waitForURL(/zoom=\d+-\d+%2C\d+-\d+/);
  await page.locator('#matrix [aria-label="All of the matrix"]').click();
  await page.waitForURL((url) => !url.hash.includes("zoom="));
  await settled(page);
  await page.locator("#matrix .matrix svg").evaluate((svg) => svg.scrollIntoView({ block: "center" }));
  const area = await page.locator("#matrix .matrix svg").boundingBox();
  const at = (x, y) => [area.x + x * area.width, area.y + y * area.height];
  await page.mouse.move(...at(0.4, 0.4));
  await page.mouse.down();
  await page.mouse.move(...at(0.8, 0.8), { steps: 3 });
  await page.mouse.up();
  await page.waitForURL(/zoom=/);
  await settled(page);
  const choose = page.locator('#matrix input[value="both"]');
  await choose.check({ force: true });
  await page.waitForURL(/traffic=both/);

  // The address alone gives the same view.
  const fragment = new URL(page.url()).hash;
  const again = await open(file, 1280, "light", fragment);
  assert.equal(await again.locator('#matrix input[value="both"]').isChecked(), true);
  assert.deepEqual(await rows(again, "matrix"), await rows(page, "matrix"));
  await again.context().close();

  // The time line follows the communicator, and has a layer for each family.
  const phases = await rows(page, "timeline");
  assert.deepEqual(phases.map((row) => row.at(-1)), ["MPI_Allreduce on W_s1.*@4", "outside of MPI", "MPI_Sendrecv on W"]);
  const layers = () => page.locator("#timeline .chart svg").first().locator('path[fill^="#"]').count();
  assert.equal(await layers(), 3, "two families and one that the profile lacks");
  assert.match(await page.locator("#timeline .lead").textContent(), /At its peak eth0 sent 40\.0 % of what its link can carry/);
  assert.ok(await page.locator("#timeline svg text", { hasText: "1 MPI_Allreduce on W_s1.*@4" }).count(), "phases have names");
  await page.locator("#timeline .chart svg").first().hover({ position: { x: 120, y: 100 } });
  await page.locator('#timeline svg [aria-hidden="true"] text', { hasText: /phase 1: MPI_Allreduce/ }).waitFor();
  await page.locator(".bar select").selectOption("W_s1.*");
  await page.waitForURL(/comm=W_s1\.\*/);
  await settled(page);
  assert.equal(await layers(), 1, "one family is left");
  await page.locator(".bar .clear").click();
  await settled(page);

  // A finding leads to its evidence, and the page can be dark.
  await page.evaluate(() => window.scrollTo(0, 0));
  const link = page.locator(".findings .evidence").first();
  const target = new URLSearchParams((await link.getAttribute("href")).slice(1)).get("at");
  await link.click();
  await settled(page);
  const top = await page.locator(`#${target}`).evaluate((element) => element.getBoundingClientRect().top);
  assert.ok(top >= 0 && top < 450, `the evidence ${target} is at ${top}`);
  await page.locator('.bar [data-key="theme"]').click();
  await settled(page);
  assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), "dark");
  await page.emulateMedia({ media: "print" });
  assert.equal(await page.locator(".bar").isVisible(), false, "paper has no controls");
  await page.context().close();
}

/** Call sites and paths follow the communicator; a path can be shown alone. */
async function usePlaces(file) {
  const page = await open(file, 1280, "light");
  const all = await rows(page, "sites");
  assert.ok(all.length >= 5 && all.some(([at]) => at === "exchange at halo.c:57"), `places: ${all}`);
  await page.locator(".bar select").selectOption("W_s1.*");
  await page.waitForURL(/comm=W_s1\.\*/);
  const some = await rows(page, "sites");
  assert.deepEqual(some.map(([at, call]) => [at, call]), [["exchange at halo.c:57", "MPI_Waitall"]]);
  assert.ok((await page.locator("#sites .command code").textContent()).includes("sites --all app.mpisee --comm"));
  await page.locator(".bar .clear").click();
  await settled(page);
  const box = page.locator('#paths svg a[aria-label^="step at solver.c:301"]').first();
  await box.focus();
  await page.keyboard.press("Enter");
  await page.waitForURL(/path=/);
  await settled(page);
  const first = page.locator("#paths svg a").first();
  assert.match(await first.getAttribute("aria-label"), /^step at solver\.c:301/, "it is the outermost now");
  await page.locator("#paths .lead a").click();
  await settled(page);
  assert.match(await page.locator("#paths svg a").first().getAttribute("aria-label"), /^main at main\.c:88/);
  await page.context().close();
}

/** The matrix of GPUs follows who moved the data; its tables have short names to read, and whole ones to copy. */
async function useGpus(file) {
  const page = await open(file, 1280, "light");
  const [a, b] = ["GPU-0aaaaaaa", "GPU-0bbbbbbb"];
  assert.deepEqual(await rows(page, "gpus"), [
    [a, b, "1000 B", "211 B", "0 B", "5.00 KiB"],
    [b, a, "70 B", "0 B", "4.88 KiB", "400 B"],
    [a, "host", "0 B", "0 B", "2.93 KiB", "0 B"],
    [b, "host", "0 B", "0 B", "0 B", "24 B"],
  ]);
  assert.match(await page.locator("#gpus .tools button").first().evaluate((button) => {
    const clipboard = { writeText: (text) => ((window.copied = text), Promise.resolve()) };
    Object.defineProperty(navigator, "clipboard", { value: clipboard, configurable: true });
    button.click();
    return window.copied;
  }), /^from,to,mpi_bytes,.*\nGPU-0aaaaaaa-1111-/);
  const captions = await page.locator("#gpus details summary").allTextContents();
  assert.equal(captions.length, 8, captions.join());
  assert.deepEqual(await page.locator("#gpus details").first().locator("thead button").allTextContents(), ["From", "To", "MPI", "NCCL", "Copies", "Kernels"]);
  const texts = () => page.locator("#gpus .matrix svg").textContent();
  assert.ok((await texts()).includes("5.00 KiB") && (await texts()).includes("0aaa"), "all ways: the most of them");
  assert.equal(await page.locator("#gpus .matrix svg g rect").count(), 4, "a field for each pair");
  await page.locator('#gpus input[value="nccl"]').check({ force: true });
  await page.waitForURL(/way=nccl/);
  await settled(page);
  assert.ok((await texts()).includes("211 B") && !(await texts()).includes("KiB"), "messages of NCCL alone");
  await page.locator('#gpus [aria-label="Zoom in"]').click();
  await page.waitForURL(/gpuZoom=/);
  await page.context().close();
}

/** A way that was not counted can neither be chosen nor read; one in the address that is not there shows all. */
async function lackWays(file) {
  const page = await open(file, 1280, "light");
  const choices = page.locator('#gpus input[name="gpus-way"]');
  assert.deepEqual(await choices.evaluateAll((inputs) => inputs.map(({ value }) => value)), ["all", "mpi", "nccl"]);
  assert.deepEqual((await rows(page, "gpus")).map((row) => row.slice(2)), [["1000 B", "211 B"], ["70 B", "0 B"]]);
  await page.evaluate(() => (location.hash = "way=copies"));
  await settled(page);
  assert.ok(await choices.first().isChecked(), "all ways");
  assert.ok((await page.locator("#gpus .matrix svg").textContent()).includes("1000 B"));
  await page.context().close();
}

/** Calls of NCCL keep their names, and have no share of the time in MPI. */
async function useNccl(file) {
  const page = await open(file, 1280, "light");
  const share = (all, name) => all.find((row) => row.includes(name));
  const comms = await rows(page, "comms");
  assert.deepEqual(["W", "N1-5e1c09tz"].map((name) => share(comms, name)[6]), ["100.0 %", "–"], `${comms}`);
  const places = await rows(page, "sites");
  assert.deepEqual(["MPI_Allreduce", "ncclAllReduce"].map((name) => share(places, name)[4]), ["100.0 %", "–"], `${places}`);
  assert.match(await page.locator("#sites .lead").textContent(), /Most time: ncclAllReduce in gradients at train\.c:52, 6\.00 s\./);
  const paths = await rows(page, "paths");
  assert.deepEqual(["MPI_Allreduce", "ncclAllReduce"].map((name) => share(paths, name)[5]), ["50.0 %", "–"], `${paths}`);
  assert.match(await page.locator("#ranks .lead").textContent(), /^In MPI: mean 1\.00 s/);
  for (const chart of ["comms", "ranks", "regions"]) {
    assert.match(await page.locator(`#${chart} .legend`).textContent(), /NCCL, no time in MPI/, chart);
  }
  const phases = await rows(page, "timeline");
  assert.deepEqual(phases[0].slice(4), ["25.0 %", phases[0][5], "ncclAllReduce on N1-5e1c09tz"]);
  await page.locator("#operations .chart svg").hover();
  assert.ok(!(await page.locator("main").textContent()).includes("MPI_nccl"), "names are those of NCCL");
  await page.context().close();
}

/** GPUs whose UUIDs begin alike have other names on the axes. */
async function nameGpus(file) {
  const page = await open(file, 1280, "light");
  const text = await page.locator("#gpus .matrix svg").textContent();
  assert.ok(text.includes("00000000…0001") && text.includes("00000000…0002"), text);
  await page.context().close();
}

/** Without MPI there is no chart of who sends to whom by MPI. */
async function lackMpi(file) {
  const page = await open(file, 1280, "light");
  assert.ok(await page.locator("#gpus h2").isVisible());
  assert.equal(await page.locator("#matrix h2").count(), 0);
  await page.context().close();
}

/** Comparison, repetitions and series: charts, links, tables, and the quantity of growth. */
async function useSeveral(file, series) {
  const page = await open(file, 1280, "light");
  const changes = await rows(page, "changes");
  assert.deepEqual(changes[0].slice(0, 2), ["W_s1.*", "MPI_Alltoall"], "the change that is more than noise comes first");
  assert.match(await page.locator("#changes .lead").textContent(), /^1 change is more than noise\./);
  await page.locator("#changes thead button", { hasText: "Change %" }).click();
  const by = (await rows(page, "changes")).map((row) => row.find((cell) => /^[+-][\d.]+ %$/.test(cell))).filter(Boolean).map(parseFloat);
  assert.ok(by.length > 1, "the changes have per cent");
  assert.deepEqual(by, [...by].sort((one, other) => other - one), "sorted by the change");
  const link = page.locator(".findings .evidence").first();
  await link.click();
  await settled(page);
  assert.match(await page.evaluate(() => location.hash), /at=changes/);
  for (const chart of ["a-repeated-1", "a-differences-1", "b-repeated-1", "b-differences-1", "runs"]) {
    assert.equal(await page.locator(`#${chart} h2`).count(), 1, chart);
  }
  const shares = await rows(page, "a-differences-1");
  assert.ok(shares.length >= 3, `parts: ${shares}`);
  await page.context().close();

  const other = await open(series, 1280, "dark");
  const points = await rows(other, "scaling-1");
  assert.deepEqual(points.map(([ranks]) => ranks), ["1", "2", "4", "8", "16"]);
  const growth = await rows(other, "growth-1");
  assert.ok(growth.some((row) => row.includes("p^2") || row.includes("p log p") || row.includes("p")), `${growth[0]}`);
  assert.match(await other.locator("#growth-1 svg").first().getAttribute("aria-label"), /how it grows/);
  await other.locator('#growth-1 input[value="bytes"]').check({ force: true });
  await other.waitForURL(/of=bytes/);
  await settled(other);
  assert.match(await other.locator("#growth-1 .caption").textContent(), /bytes, summed over ranks/);
  await other.context().close();
}

/** A history shows the number that changed, and any other that is chosen, by pointer or by key. */
async function useHistory(file) {
  const page = await open(file, 1280, "light");
  const changed = await rows(page, "changed-1");
  assert.deepEqual(changed[0].slice(1, 4), ["Calls", "52", "68"], "the newest change comes first");
  assert.match(await page.locator("#history-1 h2").textContent(), /^Wall time over the entries/);
  assert.match(await page.locator("#history-1 .lead").textContent(), /^Since [0-9a-f]{7}: \+8\.0 %\.$/);
  assert.equal((await rows(page, "history-1")).length, 12);
  const select = page.locator("#history-1 select");
  await select.focus();
  await select.selectOption("Time: MPI_Allreduce on W");
  await page.waitForURL(/metric=Time/);
  await settled(page);
  assert.equal(await page.evaluate(() => document.activeElement?.getAttribute("data-key")), "metric-1", "the focus stays on the choice");
  assert.match(await page.locator("#history-1 .lead").textContent(), /\+60\.0 %/);
  assert.deepEqual((await rows(page, "history-1"))[0].slice(2, 4), ["5", "500 ms"]);
  await page.locator("#history-1 .chart svg").hover();
  await page.locator('#history-1 svg [aria-hidden="true"] text', { hasText: /5 runs/ }).waitFor();
  assert.match(await page.locator("#history-1 .command code").textContent(), /^mpisee-through runs --table points --format csv --history history$/);
  await page.locator(".findings .evidence").first().click();
  await settled(page);
  assert.match(await page.evaluate(() => location.hash), /at=history-1/);
  await page.context().close();
}

/** A factor has its interval, as on the command line. */
async function haveIntervals(file) {
  const page = await open(file, 1280, "light");
  const tiles = await page.$$eval("#efficiency .tile", (tiles) => tiles.map((tile) => tile.innerText));
  const balance = tiles.find((text) => text.startsWith("Load balance"));
  assert.match(balance ?? "", /\d to \d[\d.]* %/, `${file}: ${JSON.stringify(tiles)}`);
  await page.context().close();
}

try {
  const files = readdirSync(folder).filter((file) => file.endsWith(".html"));
  assert.ok(files.includes("plain.html"), "there is no plain.html");
  const tasks = [
    () => use("plain.html"),
    () => usePlaces("sites.html"),
    () => useGpus("gpus.html"),
    () => lackWays("some-ways.html"),
    () => useNccl("nccl.html"),
    () => lackMpi("alone.html"),
    () => haveIntervals("cores.html"),
    () => nameGpus("alike.html"),
    () => useSeveral("several.html", "series.html"),
    () => useHistory("history.html"),
  ];
  for (const file of files) {
    // All widths in both themes for one report, in one theme for two; the others at one width in
    // one theme.
    const views = WIDTHS.flatMap((width) => THEMES.map((theme) => [width, theme]));
    const some = { "plain.html": views, "gpus.html": [[360, "light"], [1280, "dark"]], "several.html": views.filter((_, at) => at % 2 === 0), "series.html": views.filter((_, at) => at % 2 === 1), "history.html": views };
    for (const [width, theme] of some[file] ?? [[1280, "dark"]]) tasks.push(() => look(file, width, theme));
  }
  // A page waits for frames most of the time.
  const worker = async () => {
    for (let task = tasks.shift(); task; task = tasks.shift()) await task();
  };
  await Promise.all([worker(), worker(), worker(), worker()]);
  assert.deepEqual(complaints, []);
} finally {
  await browser.close();
}

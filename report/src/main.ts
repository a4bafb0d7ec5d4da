// Decodes the data and shows the page: of one run, or of several.

import { decode } from "./data";
import type { Data, Several } from "./data";
import { h } from "./dom";
import { Page } from "./page";
import type { Contents } from "./page";
import * as run from "./run";
import * as several from "./several";

/** Draws a page and keeps it up to date. */
function show<V>(root: HTMLElement, contents: Contents<V>): void {
  const page = new Page(root, contents);
  page.draw();
  page.listen();
  page.show();
}

function isSeveral(data: Data | Several): data is Several {
  return "groups" in data;
}

async function start(): Promise<void> {
  const root = document.getElementById("report");
  const encoded = document.getElementById("data");
  if (!root || !encoded) return;
  const data = await decode(encoded.textContent ?? "");
  encoded.remove();
  if (isSeveral(data)) show(root, several.contents(data));
  else show(root, run.contents(data));
  // What is drawn, for tests.
  document.documentElement.dataset["shown"] = location.hash;
  document.documentElement.dataset["ready"] = "true";
}

start().catch((error: unknown) => {
  const text = `The report cannot be shown: ${error instanceof Error ? error.message : String(error)}. Browsers from 2023 on can.`;
  document.getElementById("report")?.append(h("p", { class: "missing" }, text));
});

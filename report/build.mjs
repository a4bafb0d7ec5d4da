// Bundles the report's script and style into mpisee-through/report, and those of the live page into
// crates/serve/page, where the crates include them. `node build.mjs --check` writes nothing and
// fails if the files there differ.

import { build } from "esbuild";
import { readFileSync, writeFileSync, existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
process.chdir(here);

/** The pages: where each has its sources, and where its bundle goes. */
const pages = [
  { source: "src", target: "mpisee-through/report" },
  { source: "src/live", target: "crates/serve/page" },
];

const bundled = (source) => build({
  entryPoints: { bundle: `${source}/main.ts`, style: `${source}/style.css` },
  bundle: true,
  minify: true,
  format: "iife",
  target: ["chrome115", "firefox115", "safari16.4"],
  charset: "utf8",
  legalComments: "none",
  write: false,
  metafile: true,
  outdir: "out",
});

/** The packages that are in the bundle, with their licences. */
function packages(result) {
  const names = new Set();
  for (const input of Object.keys(result.metafile.outputs["out/bundle.js"].inputs)) {
    const match = /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(input);
    if (match) names.add(match[1]);
  }
  return [...names].sort().map((name) => {
    const folder = join("node_modules", name);
    const { version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
    const file = ["LICENSE", "LICENSE.md", "license"].map((file) => join(folder, file)).find(existsSync);
    if (!file) throw new Error(`${name} has no file with its licence`);
    return { name, version, license, text: readFileSync(file, "utf8").trim() };
  });
}

/** The licences, each text once with the packages that have it. */
function licences(result) {
  const texts = new Map();
  for (const { name, version, license, text } of packages(result)) {
    texts.set(text, [...(texts.get(text) ?? []), `${name} ${version} (${license})`]);
  }
  return [...texts].map(([text, names]) => `${names.join(", ")}:\n\n${text}`).join("\n\n");
}

let differs = false;
for (const { source, target } of pages) {
  const result = await bundled(source);
  const output = (name) => result.outputFiles.find((file) => file.path.endsWith(name)).text;
  const banner = `Made by report/build.mjs from report/${source}; do not edit.`;
  const contains = licences(result);
  const head = contains === "" ? banner : `${banner} Contains:\n\n${contains.replaceAll("*/", "* /")}\n`;
  const files = {
    "bundle.js": `/*! ${head}*/\n${output("bundle.js")}`,
    "bundle.css": `/* ${banner} */\n${output("style.css")}`,
  };
  for (const [name, text] of Object.entries(files)) {
    const file = join(here, "..", target, name);
    if (!process.argv.includes("--check")) writeFileSync(file, text);
    else if (!existsSync(file) || readFileSync(file, "utf8") !== text) {
      console.error(`${target}/${name} is not what report/build.mjs makes of report/${source}; run: npm --prefix report run build`);
      differs = true;
    }
  }
}
process.exitCode = differs ? 1 : 0;

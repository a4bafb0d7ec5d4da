// Numbers with units and three significant digits, as the commands print them
// (mpisee-through/src/units.rs).

function threeDigits(value: number): string {
  const size = Math.abs(value);
  return value.toFixed(size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2);
}

/** `7.20 ms` */
export function time(seconds: number): string {
  if (seconds === 0) return "0 s";
  const units: [number, string][] = [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]];
  const [unit, name] = units.find(([unit]) => Math.abs(seconds) >= 0.9995 * unit) ?? [1e-9, "ns"];
  return `${threeDigits(seconds / unit)} ${name}`;
}

/** `6.94 GiB` */
export function bytes(count: number): string {
  if (count < 1024) return `${Math.round(count)} B`;
  const units = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
  let value = count / 1024;
  let unit = 0;
  while (value >= 1023.5 && unit + 1 < units.length) {
    value /= 1024;
    unit++;
  }
  return `${threeDigits(value)} ${units[unit]}`;
}

/** Exact below ten million, then `12.3 M`. */
export function count(number: number): string {
  if (number < 1e7) return Number.isInteger(number) ? String(number) : number.toFixed(1);
  const [unit, name] = number >= 1e12 ? [1e12, "T"] : number >= 1e9 ? [1e9, "G"] : [1e6, "M"];
  return `${threeDigits(number / unit)} ${name}`;
}

/** A share from 0 to 1 as `62.1 %`. */
export function percent(share: number): string {
  return `${(100 * share).toFixed(1)} %`;
}

/** How much a number changed by what it was: `+10.5 %`. */
export function change(share: number): string {
  const text = percent(share);
  return share > 0 ? `+${text}` : text;
}

/** A number of no unit with three significant digits. */
export function digits(number: number): string {
  const size = Math.abs(number);
  if (size === 0) return "0";
  return size >= 1e7 || size < 1e-3 ? number.toExponential(2) : size >= 1e3 ? number.toFixed(0) : String(Number(number.toPrecision(3)));
}

/** `1 call`, `2 calls` */
export function counted(number: number, noun: string): string {
  return `${count(number)} ${noun}${number === 1 ? "" : "s"}`;
}

/** The name without what all operations have. */
export function shortCall(call: string): string {
  return call.replace(/^MPI_/, "");
}

/** A size class: `0 B`, `1 KiB - <2 KiB`. */
export function sizeClass(least: number, most: number): string {
  const short = (size: number) => bytes(size).replace(/\.00 |\.0 /, " ");
  return least === most ? short(least) : `${short(least)} - <${short(most + 1)}`;
}

/** The name of a region. What is outside of any has none; a name of the program's that may look like it is in quotes. */
export function regionName(region: string): string {
  if (region === "") return "(outside)";
  return region.startsWith("(") ? `'${region}'` : region;
}

/** A word of a command line, as a shell needs it. */
export function quoted(word: string): string {
  return /^[\w./=:,+@%-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

export type Quantity = "time" | "bytes" | "calls";

/** A value of a quantity with its unit. */
export function amount(quantity: Quantity | "messages", value: number): string {
  return quantity === "time" ? time(value) : quantity === "bytes" ? bytes(value) : count(value);
}

/** Where an axis of bytes up to some number has ticks: at multiples of a power of two; other quantities leave it to the chart. */
export function ticks(quantity: Quantity | "messages", most: number, about: number): number | number[] {
  if (quantity !== "bytes" || most <= 0) return about;
  const step = 2 ** Math.max(0, Math.ceil(Math.log2(most / about)));
  return Array.from({ length: Math.floor(most / step) + 1 }, (_, at) => at * step);
}

/** Labels of an axis: the same units with fewer digits. */
export function tick(quantity: Quantity | "messages", value: number): string {
  return amount(quantity, value).replace(/(\.\d*?)0+ /, "$1 ").replace(/\. /, " ");
}

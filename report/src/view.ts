// What a chart is drawn of.

import type { Data } from "./data";
import type { Model } from "./model";
import type { State } from "./state";
import type { Palette } from "./theme";

export interface View {
  model: Model;
  data: Data;
  state: State;
  palette: Palette;
}

/** The index of each value in descending order of a number. */
export function descending(values: readonly number[]): number[] {
  return values.map((_, at) => at).sort((one, other) => values[other] - values[one] || one - other);
}

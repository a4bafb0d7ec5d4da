// Colours. Amounts are shades of one hue, from light to dark (in the dark from dark to light), so
// that they can be told apart without seeing colours; categories are Paul Tol's "bright" scheme,
// which colour-blind eyes tell apart.

export interface Palette {
  dark: boolean;
  surface: string;
  ink: string;
  muted: string;
  line: string;
  accent: string;
  /** The colour of an amount from 0 to 1. */
  amount: (share: number) => string;
  /** The colour of a share of waiting from 0 to 1. */
  waiting: (share: number) => string;
  /** Where nothing was measured. */
  unmeasured: string;
  categories: string[];
  other: string;
  /** Calls of NCCL, beside those of MPI. */
  nccl: string;
  /** Of a change: what takes longer, and what takes less. */
  longer: string;
  shorter: string;
}

type Rgb = [number, number, number];

const rgb = (hex: string): Rgb => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16)) as Rgb;

/** Colours between stops. */
function ramp(...stops: string[]): (share: number) => string {
  const colours = stops.map(rgb);
  return (share) => {
    const place = Math.max(0, Math.min(1, share)) * (colours.length - 1);
    const from = Math.min(Math.floor(place), colours.length - 2);
    const mix = colours[from].map((value, at) => Math.round(value + (place - from) * (colours[from + 1][at] - value)));
    return `rgb(${mix.join(",")})`;
  };
}

const CATEGORIES = ["#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377"];

const LIGHT: Palette = {
  dark: false,
  surface: "#ffffff",
  ink: "#1b2430",
  muted: "#566171",
  line: "#dfe4ea",
  accent: "#1f5fa8",
  amount: ramp("#eaf1f8", "#8db8dd", "#2f74b5", "#0b3766"),
  waiting: ramp("#fbf0e2", "#f2b36b", "#d4691c", "#8a3206"),
  unmeasured: "#d5dae0",
  categories: CATEGORIES,
  other: "#9aa3ad",
  nccl: "#6b4c9a",
  longer: "#d4691c",
  shorter: "#4477aa",
};

const DARK: Palette = {
  dark: true,
  surface: "#161b22",
  ink: "#e6eaf0",
  muted: "#9aa7b5",
  line: "#2c343e",
  accent: "#7db7f2",
  amount: ramp("#1d2a38", "#2b5a87", "#5c9fd6", "#c3e2fb"),
  waiting: ramp("#2e241a", "#80461a", "#d9822f", "#ffd3a0"),
  unmeasured: "#3a434e",
  categories: CATEGORIES.map((colour) => (colour === "#4477aa" ? "#6699cc" : colour === "#aa3377" ? "#cc6699" : colour === "#228833" ? "#44aa66" : colour)),
  other: "#77818c",
  nccl: "#a58ad0",
  longer: "#d9822f",
  shorter: "#6699cc",
};

/** Whether the page is dark: as chosen, else as the system is. */
export function isDark(chosen: string): boolean {
  return chosen === "dark" || (chosen === "" && matchMedia("(prefers-color-scheme: dark)").matches);
}

export function palette(dark: boolean): Palette {
  return dark ? DARK : LIGHT;
}

/** The colour of text on a shade. */
export function inkOn(colour: string, palette: Palette): string {
  const [red, green, blue] = colour.startsWith("#") ? rgb(colour) : (colour.match(/\d+/g) ?? ["0", "0", "0"]).map(Number);
  const linear = (value: number) => ((value / 255 + 0.055) / 1.055) ** 2.4;
  const luminance = 0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue);
  // The contrast with white is higher than that with black below this luminance.
  return luminance < 0.18 ? "#ffffff" : palette.dark ? "#0b1016" : "#10161d";
}

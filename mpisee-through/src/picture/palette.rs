//! Colours, which are those of the report in light (`report/src/theme.ts`), and the scale by which
//! amounts have shades.

/// Red, green and blue.
pub type Colour = [u8; 3];

/// Behind everything.
pub const SURFACE: Colour = [0xff; 3];
/// Text.
pub const INK: Colour = [0x1b, 0x24, 0x30];
/// Text beside other text.
pub const MUTED: Colour = [0x56, 0x61, 0x71];
/// Frames and rules.
pub const LINE: Colour = [0xdf, 0xe4, 0xea];
/// Behind bars.
pub const SOFT: Colour = [0xee, 0xf2, 0xf7];
/// Categories, as operations: Paul Tol's "bright" scheme, which colour-blind eyes tell apart.
pub const CATEGORIES: [Colour; 6] = [
    [0x44, 0x77, 0xaa],
    [0xee, 0x66, 0x77],
    [0x22, 0x88, 0x33],
    [0xcc, 0xbb, 0x44],
    [0x66, 0xcc, 0xee],
    [0xaa, 0x33, 0x77],
];
/// All further categories together.
pub const OTHERS: Colour = [0x9a, 0xa3, 0xad];
/// Parts of a bar: from the ramp of amounts, and one that stands out.
pub const PARTS: [Colour; 3] = [AMOUNT[1], AMOUNT[3], [0xd4, 0x69, 0x1c]];
/// Text on a dark field, and on a light one.
const ON_DARK: Colour = SURFACE;
const ON_LIGHT: Colour = [0x10, 0x16, 0x1d];

/// The stops of the shades of an amount, from little to much.
const AMOUNT: [Colour; 4] = [[0xea, 0xf1, 0xf8], [0x8d, 0xb8, 0xdd], [0x2f, 0x74, 0xb5], [0x0b, 0x37, 0x66]];
/// The colours of waiting.
const WAITING: [Colour; 4] = [[0xfb, 0xf0, 0xe2], [0xf2, 0xb3, 0x6b], [0xd4, 0x69, 0x1c], [0x8a, 0x32, 0x06]];

/// The kind of amounts that shades stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ramp {
    /// Bytes, messages, accesses.
    Amount,
    /// Time of waiting.
    Waiting,
}

impl Ramp {
    /// The colour of a share from 0 to 1.
    fn at(self, share: f64) -> Colour {
        let stops = match self {
            Ramp::Amount => &AMOUNT,
            Ramp::Waiting => &WAITING,
        };
        let place = share.clamp(0.0, 1.0) * (stops.len() - 1) as f64;
        let from = (place as usize).min(stops.len() - 2);
        let mix = place - from as f64;
        let channel = |at: usize| {
            let (one, other) = (f64::from(stops[from][at]), f64::from(stops[from + 1][at]));
            (one + mix * (other - one)).round() as u8
        };
        [0, 1, 2].map(channel)
    }
}

/// The shade of the least amount that is not nothing.
const LIGHTEST: f64 = 0.08;
/// The shade where all amounts are the same.
const ONLY: f64 = 0.75;
/// Amounts that differ by a larger factor have shades by their logarithm, others by their root.
const WIDE: f64 = 1000.0;

/// How amounts have shades.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    ramp: Ramp,
    least: f64,
    most: f64,
}

impl Scale {
    /// Of these amounts, of which zeros are nothing.
    pub fn from_amounts(ramp: Ramp, amounts: impl Iterator<Item = u64>) -> Self {
        let ends = amounts
            .filter(|&amount| amount > 0)
            .fold((u64::MAX, 0), |(least, most), amount| (u64::min(least, amount), u64::max(most, amount)));
        Scale { ramp, least: ends.0.min(ends.1) as f64, most: ends.1 as f64 }
    }

    /// The colour of an amount; nothing is as what is behind.
    pub fn colour(&self, amount: u64) -> Colour {
        match amount {
            0 => SURFACE,
            _ => self.ramp.at(self.shade(amount as f64)),
        }
    }

    fn is_wide(&self) -> bool {
        self.most > WIDE * self.least
    }

    fn shade(&self, amount: f64) -> f64 {
        let Scale { least, most, .. } = *self;
        if most <= least {
            return ONLY;
        }
        let share =
            if self.is_wide() { (amount / least).ln() / (most / least).ln() } else { (amount / most).sqrt() };
        LIGHTEST + (1.0 - LIGHTEST) * share
    }

    /// The amounts that a key shows: the least, one in the middle of the shades, and the largest.
    pub fn key(&self) -> Vec<u64> {
        let Scale { least, most, .. } = *self;
        let middle = if self.is_wide() { (least * most).sqrt() } else { f64::midpoint(least, most) };
        let mut amounts = vec![least as u64, middle.round() as u64, most as u64];
        amounts.retain(|&amount| amount > 0);
        amounts.dedup();
        amounts
    }

    /// The amount that has the darkest colour.
    pub fn most(&self) -> f64 {
        self.most
    }
}

/// The colour of text on a field: the one with more contrast.
pub fn ink_on([red, green, blue]: Colour) -> Colour {
    let linear = |channel: u8| ((f64::from(channel) / 255.0 + 0.055) / 1.055).powf(2.4);
    let luminance = 0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue);
    if luminance < 0.18 { ON_DARK } else { ON_LIGHT }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex([red, green, blue]: Colour) -> String {
        format!("\"#{red:02x}{green:02x}{blue:02x}\"")
    }

    #[test]
    fn more_is_darker_and_nothing_is_white() {
        let scale = Scale::from_amounts(Ramp::Amount, [0, 1, 5, 10].into_iter());
        assert_eq!(scale.colour(0), SURFACE);
        assert_eq!(scale.colour(10), AMOUNT[3]);
        let shades: Vec<u8> = [1, 5, 9].map(|amount| scale.colour(amount)[0]).into();
        assert!(shades.is_sorted_by(|one, other| one > other) && shades[0] < 255, "{shades:?}");
    }

    #[test]
    fn amounts_of_many_orders_have_shades_by_their_orders() {
        let scale = Scale::from_amounts(Ramp::Waiting, [1, 1_000_000].into_iter());
        assert_eq!(scale.key(), [1, 1000, 1_000_000]);
        let shade = |amount| scale.shade(amount);
        assert!((shade(1000.0) - f64::midpoint(shade(1.0), shade(1e6))).abs() < 1e-9);
        assert_eq!(Scale::from_amounts(Ramp::Amount, [7, 7].into_iter()).key(), [7]);
        assert!(Scale::from_amounts(Ramp::Amount, [0].into_iter()).key().is_empty());
    }

    #[test]
    fn colours_are_those_of_the_report() {
        let theme = include_str!("../../../report/src/theme.ts");
        let (_, light) = theme.split_once("const LIGHT").unwrap();
        let (light, _) = light.split_once("};").unwrap();
        let ramp = |name: &str, stops: [Colour; 4]| format!("{name}: ramp({})", stops.map(hex).join(", "));
        let colour = |name: &str, colour: Colour| format!("{name}: {}", hex(colour));
        let parts = [
            ramp("amount", AMOUNT),
            ramp("waiting", WAITING),
            colour("surface", SURFACE),
            colour("ink", INK),
            colour("muted", MUTED),
            colour("line", LINE),
            colour("longer", PARTS[2]),
        ];
        for part in parts {
            assert!(light.contains(&part), "report/src/theme.ts has no {part}");
        }
        let scale = include_str!("../../../report/src/charts/matrix.ts");
        for part in ["most > 1000 * least", "return 0.75", "0.08 + 0.92 * Math.sqrt(value / most)"] {
            assert!(scale.contains(part), "report/src/charts/matrix.ts has no {part}");
        }
        let style = include_str!("../../../report/src/style.css");
        assert!(style.contains(&format!("--soft: {}", hex(SOFT).trim_matches('"'))));
        let font = format!("\"{}\"", crate::picture::Face::Sans.family());
        assert!(include_str!("../../../report/src/plot.ts").contains(&font), "the letters of charts");
    }
}

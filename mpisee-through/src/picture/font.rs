//! The letters of pictures: DejaVu Sans and DejaVu Sans Mono, parts of which are in the program.

use ab_glyph::{Font, FontRef, Glyph, PxScale, ScaleFont, point};
use std::sync::OnceLock;

/// A font.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Face {
    /// For all but source.
    #[default]
    Sans,
    /// For source: letters of one width.
    Mono,
}

impl Face {
    /// Its family in SVG, and what looks alike.
    pub fn family(self) -> &'static str {
        match self {
            Face::Sans => "DejaVu Sans, Verdana, sans-serif",
            Face::Mono => "DejaVu Sans Mono, monospace",
        }
    }

    fn font(self) -> &'static FontRef<'static> {
        static SANS: OnceLock<FontRef<'static>> = OnceLock::new();
        static MONO: OnceLock<FontRef<'static>> = OnceLock::new();
        #[expect(clippy::expect_used, reason = "the files are part of the program, and a test reads them")]
        let read = |bytes: &'static [u8]| FontRef::try_from_slice(bytes).expect("the font is whole");
        match self {
            Face::Sans => SANS.get_or_init(|| read(include_bytes!("DejaVuSans.ttf"))),
            Face::Mono => MONO.get_or_init(|| read(include_bytes!("DejaVuSansMono.ttf"))),
        }
    }

    /// Sizes are of the em square, as in SVG; the rasteriser's are from the highest to the lowest
    /// part of letters.
    fn scale(self, size: f64) -> PxScale {
        let font = self.font();
        let em = font.units_per_em().unwrap_or(2048.0);
        PxScale::from(size as f32 * font.height_unscaled() / em)
    }

    /// How wide a text of this size is.
    pub fn width(self, text: &str, size: f64) -> f64 {
        let font = self.font().as_scaled(self.scale(size));
        text.chars().map(|letter| f64::from(font.h_advance(font.glyph_id(letter)))).sum()
    }

    /// Calls `dot` with each pixel of a text that begins at the origin, x to the right and y down
    /// from the base line, and how much of it is covered.
    pub fn draw(self, text: &str, size: f64, mut dot: impl FnMut(i64, i64, f32)) {
        let (font, scaled) = (self.font(), self.font().as_scaled(self.scale(size)));
        let mut x = 0.0;
        for letter in text.chars() {
            let glyph = Glyph { id: font.glyph_id(letter), scale: self.scale(size), position: point(x, 0.0) };
            x += scaled.h_advance(glyph.id);
            if let Some(outline) = font.outline_glyph(glyph) {
                let corner = outline.px_bounds().min;
                outline.draw(|right, down, covered| {
                    dot(corner.x as i64 + i64::from(right), corner.y as i64 + i64::from(down), covered);
                });
            }
        }
    }
}

/// How wide a text of this size is.
pub fn width(text: &str, size: f64) -> f64 {
    Face::Sans.width(text, size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_have_their_places() {
        // DejaVu Sans: a digit is 1303 of 2048 units wide.
        assert!((width("0123456789", 20.0) - 10.0 * 20.0 * 1303.0 / 2048.0).abs() < 0.01);
        let mono = |text| Face::Mono.width(text, 20.0);
        assert!(
            (mono("iii") - mono("WWW")).abs() < 0.01 && (mono("W") - 20.0 * 1233.0 / 2048.0).abs() < 0.01
        );
        let mut box_ = (i64::MAX, i64::MIN, i64::MAX, i64::MIN);
        Face::Sans.draw("HH", 20.0, |x, y, covered| {
            if covered > 0.5 {
                box_ = (box_.0.min(x), box_.1.max(x), box_.2.min(y), box_.3.max(y));
            }
        });
        // Capitals are 1493 of 2048 units high and stand on the base line.
        assert!(box_.0 >= 0 && box_.1 < width("HH", 20.0) as i64, "{box_:?}");
        assert!((-15..=-14).contains(&box_.2) && box_.3 == -1, "{box_:?}");
    }

    #[test]
    fn a_sign_that_the_font_lacks_is_a_box() {
        let mut dots = 0;
        Face::Sans.draw("\u{4e00}", 20.0, |_, _, covered| dots += i32::from(covered > 0.5));
        assert!(dots > 0 && width("\u{4e00}", 20.0) > 0.0);
    }
}

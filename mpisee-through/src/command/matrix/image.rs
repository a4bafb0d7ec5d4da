//! The matrix as a picture: PNG, or SVG with the numbers behind the fields.

use super::axis::Axis;
use super::{Of, Traffic};
use anyhow::{Context, Result};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// About how many pixels a picture is wide.
const PIXELS: u32 = 960;
/// The colour of the largest; less is lighter, nothing is white.
const DARKEST: [f64; 3] = [8.0, 48.0, 107.0];
/// The shade of what is next to nothing, so that it is seen beside what is nothing.
const LIGHTEST: f64 = 0.12;

/// A file whose name says what picture it is.
#[derive(Clone, Debug)]
pub struct ImageFile {
    path: PathBuf,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Png,
    Svg,
}

impl FromStr for ImageFile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let path = PathBuf::from(text);
        let kind = match path.extension().and_then(|extension| extension.to_str()) {
            Some("png") => Kind::Png,
            Some("svg") => Kind::Svg,
            _ => return Err("a picture's name ends in .png or .svg".to_owned()),
        };
        Ok(ImageFile { path, kind })
    }
}

impl ImageFile {
    /// Writes the picture.
    pub fn write(&self, axis: &Axis, pairs: &[((u32, u32), Traffic)], of: Of) -> Result<()> {
        let bytes = match self.kind {
            Kind::Png => png(axis, pairs, of)?,
            Kind::Svg => svg(axis, pairs, of)?.into_bytes(),
        };
        write_file(&self.path, &bytes)
    }
}

fn write_file(path: &Path, bytes: &[u8]) -> Result<()> {
    std::fs::write(path, bytes).with_context(|| format!("cannot write '{}'", path.display()))
}

fn colour(amount: u64, most: u64) -> [u8; 3] {
    if amount == 0 {
        return [255; 3];
    }
    let shade = LIGHTEST + (1.0 - LIGHTEST) * amount as f64 / most.max(1) as f64;
    DARKEST.map(|dark| (255.0 + (dark - 255.0) * shade).round() as u8)
}

fn most_of(pairs: &[((u32, u32), Traffic)], of: Of) -> u64 {
    pairs.iter().map(|&(_, traffic)| traffic.of(of)).max().unwrap_or(0)
}

/// A square of a few pixels for each field.
fn png(axis: &Axis, pairs: &[((u32, u32), Traffic)], of: Of) -> Result<Vec<u8>> {
    let (fields, most) = (axis.len().max(1), most_of(pairs, of));
    let square = (PIXELS / fields).max(1);
    let side = fields * square;
    let mut pixels = vec![255; side as usize * side as usize * 3];
    for &((from, to), traffic) in pairs {
        let colour = colour(traffic.of(of), most);
        for y in from * square..(from + 1) * square {
            let start = (y as usize * side as usize + (to * square) as usize) * 3;
            for pixel in pixels[start..start + square as usize * 3].chunks_exact_mut(3) {
                pixel.copy_from_slice(&colour);
            }
        }
    }
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, side, side);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(&pixels)?;
    writer.finish()?;
    Ok(bytes)
}

/// A rectangle for each field in which there is something; its numbers show under the pointer.
fn svg(axis: &Axis, pairs: &[((u32, u32), Traffic)], of: Of) -> Result<String, std::fmt::Error> {
    let (fields, most) = (axis.len().max(1), most_of(pairs, of));
    let square = f64::from(PIXELS) / f64::from(fields);
    let (margin, side) = (80, PIXELS + 120);
    let unit = if of == Of::Bytes { "bytes" } else { "messages" };
    let mut text = String::new();
    writeln!(
        text,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {side} {side}\" font-family=\"sans-serif\" \
         font-size=\"14\">\n\
         <title>{unit} from {what} (down) to {what} (across); the darkest is {most} {unit}</title>\n\
         <rect width=\"{side}\" height=\"{side}\" fill=\"white\"/>\n\
         <text x=\"{margin}\" y=\"24\">{unit} from {what} (down) to {what} (across); the darkest is {most}</text>\n\
         <g transform=\"translate({margin} {margin})\" shape-rendering=\"crispEdges\">",
        what = axis.what(),
    )?;
    for &((from, to), traffic) in pairs {
        let [red, green, blue] = colour(traffic.of(of), most);
        writeln!(
            text,
            "<rect x=\"{:.3}\" y=\"{:.3}\" width=\"{square:.3}\" height=\"{square:.3}\" \
             fill=\"#{red:02x}{green:02x}{blue:02x}\"><title>{} to {}: {} messages, {} bytes</title></rect>",
            f64::from(to) * square,
            f64::from(from) * square,
            escaped(&axis.name(from)),
            escaped(&axis.name(to)),
            traffic.messages,
            traffic.bytes,
        )?;
    }
    writeln!(text, "<rect width=\"{PIXELS}\" height=\"{PIXELS}\" fill=\"none\" stroke=\"black\"/>\n</g>")?;
    for field in (0..axis.len()).step_by((fields.div_ceil(16)).max(1) as usize) {
        let middle = f64::from(margin) + (f64::from(field) + 0.5) * square;
        let name = escaped(&axis.name(field));
        writeln!(text, "<text x=\"{middle:.1}\" y=\"{}\" text-anchor=\"middle\">{name}</text>", margin - 8)?;
        writeln!(
            text,
            "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{name}</text>",
            margin - 8,
            middle + 5.0
        )?;
    }
    text.push_str("</svg>\n");
    Ok(text)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_is_darker_and_nothing_is_white() {
        assert_eq!(colour(0, 10), [255; 3]);
        assert_eq!(colour(10, 10), [8, 48, 107]);
        let shades: Vec<u8> = [1, 5, 9].map(|amount| colour(amount, 10)[0]).into();
        assert!(shades.is_sorted_by(|one, other| one > other) && shades[0] < 255, "{shades:?}");
    }

    #[test]
    fn a_picture_is_known_by_its_name() {
        assert!("a.png".parse::<ImageFile>().is_ok());
        assert!("a.jpg".parse::<ImageFile>().unwrap_err().contains(".svg"));
    }
}

//! A picture as PNG.

use super::{Anchor, Colour, Picture, Shape, Text};
use anyhow::Result;

/// Pixels in a point.
const SCALE: f64 = 2.0;

/// Lines that a row of pixels is made of where edges are not upright.
const LINES: i32 = 4;

/// The bytes of the file.
pub fn png(picture: &Picture) -> Result<Vec<u8>> {
    let canvas = Canvas::from_picture(picture);
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, canvas.width as u32, canvas.height as u32);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.add_itxt_chunk("Title".to_owned(), picture.title.clone())?;
    let mut writer = encoder.write_header()?;
    writer.write_image_data(&canvas.pixels)?;
    writer.finish()?;
    Ok(bytes)
}

struct Canvas {
    width: i64,
    height: i64,
    pixels: Vec<u8>,
}

impl Canvas {
    fn from_picture(picture: &Picture) -> Self {
        let (width, height) = (to_pixel(picture.width).max(1), to_pixel(picture.height).max(1));
        let mut canvas = Canvas { width, height, pixels: vec![255; (width * height * 3) as usize] };
        for shape in &picture.shapes {
            canvas.add(shape);
        }
        canvas
    }

    fn add(&mut self, shape: &Shape) {
        match shape {
            Shape::Field { x, y, width, height, colour, .. } => {
                let (left, right) = ends(*x, *width);
                let (top, bottom) = ends(*y, *height);
                self.fill(left, top, right, bottom, *colour);
            }
            Shape::Frame { x, y, width, height, colour } => {
                let (left, right) = ends(*x, *width);
                let (top, bottom) = ends(*y, *height);
                for (left, top, right, bottom) in [
                    (left - 1, top - 1, right + 1, top),
                    (left - 1, bottom, right + 1, bottom + 1),
                    (left - 1, top, left, bottom),
                    (right, top, right + 1, bottom),
                ] {
                    self.fill(left, top, right, bottom, *colour);
                }
            }
            Shape::Area { points, colour, .. } => {
                let points: Vec<(f64, f64)> = points.iter().map(|(x, y)| (x * SCALE, y * SCALE)).collect();
                self.area(&points, *colour);
            }
            Shape::Text(Text { x, y, size, anchor, colour, upright, face, text, .. }) => {
                let size = size * SCALE;
                let before = match anchor {
                    Anchor::Start => 0,
                    Anchor::Middle => (face.width(text, size) / 2.0).round() as i64,
                    Anchor::End => face.width(text, size).round() as i64,
                };
                let (x, y) = (to_pixel(*x), to_pixel(*y));
                face.draw(text, size, |right, down, covered| {
                    let right = right - before;
                    let (x, y) = if *upright { (x + down, y - right) } else { (x + right, y + down) };
                    self.blend(x, y, *colour, covered);
                });
            }
        }
    }

    fn fill(&mut self, left: i64, top: i64, right: i64, bottom: i64, colour: Colour) {
        for y in top.max(0)..bottom.min(self.height) {
            for x in left.max(0)..right.min(self.width) {
                self.pixel(x, y).copy_from_slice(&colour);
            }
        }
    }

    /// Fills what is within the points: of each row of pixels some lines are followed, and each
    /// covers its part of the pixels between where it enters and leaves. Parts that lie upon each
    /// other are within, too.
    fn area(&mut self, points: &[(f64, f64)], colour: Colour) {
        let heights = || points.iter().map(|(_, y)| *y);
        let (top, bottom) = (heights().fold(f64::MAX, f64::min), heights().fold(f64::MIN, f64::max));
        if points.len() < 3 {
            return;
        }
        for row in (top.floor() as i64).max(0)..(bottom.ceil() as i64).min(self.height) {
            let mut covered = vec![0.0f32; self.width as usize];
            for line in 0..LINES {
                let y = row as f64 + (f64::from(line) + 0.5) / f64::from(LINES);
                for (begin, end) in spans(points, y) {
                    cover(&mut covered, begin, end);
                }
            }
            for (x, covered) in (0..).zip(&covered).filter(|(_, covered)| **covered > 0.0) {
                self.blend(x, row, colour, covered / LINES as f32);
            }
        }
    }

    fn blend(&mut self, x: i64, y: i64, colour: Colour, covered: f32) {
        if !(0..self.width).contains(&x) || !(0..self.height).contains(&y) {
            return;
        }
        for (channel, wanted) in self.pixel(x, y).iter_mut().zip(colour) {
            let was = f32::from(*channel);
            *channel = (was + (f32::from(wanted) - was) * covered.clamp(0.0, 1.0)).round() as u8;
        }
    }

    /// A pixel inside of the picture.
    fn pixel(&mut self, x: i64, y: i64) -> &mut [u8] {
        let at = ((y * self.width + x) * 3) as usize;
        &mut self.pixels[at..at + 3]
    }
}

/// From where to where a line is within an outline: where it has crossed it more often in one
/// direction than in the other.
fn spans(points: &[(f64, f64)], y: f64) -> Vec<(f64, f64)> {
    let ends = points.iter().zip(points.iter().cycle().skip(1));
    let crossing = |(a, b): (&(f64, f64), &(f64, f64))| {
        let down = i32::from(a.1 <= y && b.1 > y) - i32::from(b.1 <= y && a.1 > y);
        (down != 0).then(|| (a.0 + (y - a.1) / (b.1 - a.1) * (b.0 - a.0), down))
    };
    let mut crossings: Vec<(f64, i32)> = ends.filter_map(crossing).collect();
    crossings.sort_by(|one, other| one.0.total_cmp(&other.0));
    let (mut spans, mut within) = (Vec::new(), 0);
    for pair in crossings.windows(2) {
        within += pair[0].1;
        if within != 0 {
            spans.push((pair[0].0, pair[1].0));
        }
    }
    spans
}

/// Adds what a line from here to there covers of each pixel.
fn cover(pixels: &mut [f32], begin: f64, end: f64) {
    let (begin, end) = (begin.max(0.0), end.min(pixels.len() as f64));
    for x in begin.floor() as usize..(end.ceil().max(0.0) as usize).min(pixels.len()) {
        let part = (end.min(x as f64 + 1.0) - begin.max(x as f64)).max(0.0);
        pixels[x] += part as f32;
    }
}

fn to_pixel(points: f64) -> i64 {
    (points * SCALE).round() as i64
}

/// From which pixel to which; at least one, so that nothing small is lost.
fn ends(begin: f64, length: f64) -> (i64, i64) {
    let first = to_pixel(begin);
    (first, to_pixel(begin + length).max(first + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The shares of black in the pixels of a row.
    fn row(points: &[(f64, f64)], y: i64) -> Vec<f32> {
        let mut canvas = Canvas { width: 8, height: 8, pixels: vec![255; 8 * 8 * 3] };
        canvas.area(points, [0; 3]);
        (0..8).map(|x| 1.0 - f32::from(canvas.pixel(x, y)[0]) / 255.0).collect()
    }

    #[test]
    fn pixels_are_covered_by_their_parts() {
        let square = [(1.5, 1.0), (4.0, 1.0), (4.0, 4.0), (1.5, 4.0)];
        let near = |found: Vec<f32>, wanted: [f32; 8]| {
            assert!(found.iter().zip(wanted).all(|(one, other)| (one - other).abs() < 0.01), "{found:?}");
        };
        near(row(&square, 0), [0.0; 8]);
        near(row(&square, 1), [0.0, 0.5, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0]);
        near(row(&[(0.0, 0.0), (8.0, 0.0), (0.0, 8.0)], 4), [1.0, 1.0, 1.0, 0.5, 0.0, 0.0, 0.0, 0.0]);
        // An outline that winds twice has no hole.
        let twice: Vec<(f64, f64)> = square.iter().chain(&square).copied().collect();
        near(row(&twice, 2), [0.0, 0.5, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0]);
        near(row(&[(-5.0, -5.0), (50.0, -5.0), (50.0, 50.0), (-5.0, 50.0)], 7), [1.0; 8]);
    }
}

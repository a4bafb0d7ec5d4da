//! A time line as a picture: the time of ranks by operation, the data that they move, and the
//! network.

use super::text::words;
use crate::picture::{Anchor, CATEGORIES, Colour, INK, LINE, MUTED, OTHERS, Picture, Shape, Text, width};
use crate::timeline::bins::Bins;
use crate::timeline::load::TimeLine;
use crate::timeline::phases::{Phase, name_of};
use crate::units::{human_bytes, time};

const WIDTH: f64 = 960.0;
const MARGIN: f64 = 24.0;
const TITLE: f64 = 15.0;
const LETTERS: f64 = 12.0;
/// Where charts begin; their scales are before them.
const LEFT: f64 = 96.0;
const TALL: f64 = 220.0;
const LOW: f64 = 70.0;
/// Operations with a colour of their own.
const MOST_PARTS: usize = CATEGORIES.len();

/// A layer of a stacked chart.
struct Layer {
    name: String,
    values: Vec<f64>,
    colour: Colour,
}

/// The picture.
pub fn picture(line: &TimeLine, bins: &Bins, phases: &[Phase]) -> Picture {
    let command = line.job.command.join(" ");
    let title = format!("{command}: {} ranks, {}", bins.ranks, time(line.end_s()));
    let mut picture = Picture { title: title.clone(), ..Picture::default() };
    picture.text(MARGIN, MARGIN + TITLE, TITLE, Anchor::Start, &title);
    let layers = layers(bins);
    let mut y = key(&mut picture, &layers, MARGIN + 2.2 * TITLE);
    y += LETTERS;
    let chart = Chart { bins, top: y, height: TALL, most: 1.0 };
    chart.frame(&mut picture, "Time in MPI", "100 %");
    chart.stack(&mut picture, &layers);
    mark_phases(&mut picture, bins, phases, y);
    y += TALL + 2.0 * LETTERS;
    let bytes =
        |bin: usize| bins.calls.iter().map(|series| series.bytes[bin]).sum::<f64>() / bins.length_of(bin);
    let bytes: Vec<f64> = (0..bins.count).map(bytes).collect();
    y = low(&mut picture, bins, "MPI bytes/s", bytes, CATEGORIES[0], y);
    for series in bins.nodes.iter().filter(|series| series.source != "gpu" && is_traffic(&series.quantity)) {
        let rates = bins.rates(&series.values);
        if rates.iter().any(|&rate| rate > 0.0) {
            y = low(&mut picture, bins, &words(series), rates, CATEGORIES[2], y);
        }
    }
    axis(&mut picture, bins, y - LETTERS);
    picture.width = WIDTH.max(width(&title, TITLE) + 2.0 * MARGIN);
    picture.height = y + MARGIN;
    picture
}

/// Bytes that moved in a direction.
fn is_traffic(quantity: &str) -> bool {
    ["received_bytes", "sent_bytes"].contains(&quantity)
}

/// The operations with most time, and one layer for the others.
fn layers(bins: &Bins) -> Vec<Layer> {
    let shares = |times: &[f64]| bins.shares(times);
    let mut layers: Vec<Layer> = bins
        .calls
        .iter()
        .take(MOST_PARTS)
        .zip(CATEGORIES)
        .map(|(series, colour)| Layer { name: name_of(series), values: shares(&series.time_s), colour })
        .collect();
    let others = bins.calls.get(MOST_PARTS..).unwrap_or_default();
    if !others.is_empty() {
        let sum = |bin: usize| others.iter().map(|series| series.time_s[bin]).sum::<f64>();
        let times: Vec<f64> = (0..bins.count).map(sum).collect();
        let name = format!("{} other operations", others.len());
        layers.push(Layer { name, values: shares(&times), colour: OTHERS });
    }
    layers
}

/// Draws the names of the layers in as many lines as they need; returns where they end.
fn key(picture: &mut Picture, layers: &[Layer], y: f64) -> f64 {
    let (mut x, mut y) = (MARGIN, y);
    for layer in layers {
        let wide = LETTERS + 6.0 + width(&layer.name, LETTERS) + 18.0;
        if x + wide > WIDTH - MARGIN && x > MARGIN {
            (x, y) = (MARGIN, y + 1.6 * LETTERS);
        }
        let side = LETTERS - 2.0;
        let (colour, title) = (layer.colour, String::new());
        picture.shapes.push(Shape::Field { x, y: y + 2.0, width: side, height: side, colour, title });
        picture.text(x + side + 6.0, y + LETTERS - 0.5, LETTERS, Anchor::Start, &layer.name);
        x += wide;
    }
    y + 1.6 * LETTERS
}

/// Where a chart is, and what its height stands for.
struct Chart<'b> {
    bins: &'b Bins,
    top: f64,
    height: f64,
    most: f64,
}

impl Chart<'_> {
    fn x(&self, bin: usize) -> f64 {
        LEFT + (WIDTH - MARGIN - LEFT) * self.bins.begin_s(bin) / self.bins.end_s.max(1e-9)
    }

    fn y(&self, value: f64) -> f64 {
        self.top + self.height * (1.0 - (value / self.most).clamp(0.0, 1.0))
    }

    fn frame(&self, picture: &mut Picture, name: &str, most: &str) {
        let (x, y, height) = (LEFT, self.top, self.height);
        let width = WIDTH - MARGIN - LEFT;
        picture.shapes.push(Shape::Frame { x, y, width, height, colour: LINE });
        let text = |y: f64, text: &str, colour: Colour| {
            let anchor = Anchor::End;
            Shape::Text(Text {
                x: LEFT - 6.0,
                y,
                size: LETTERS - 2.0,
                anchor,
                colour,
                text: text.to_owned(),
                ..Text::default()
            })
        };
        picture.shapes.push(text(self.top + LETTERS, most, MUTED));
        picture.shapes.push(text(self.top + self.height / 2.0 + 4.0, name, INK));
        picture.shapes.push(text(self.top + self.height, "0", MUTED));
    }

    /// Draws the layers, one on top of the other.
    fn stack(&self, picture: &mut Picture, layers: &[Layer]) {
        let mut below = vec![0.0; self.bins.count];
        for layer in layers {
            let above: Vec<f64> =
                below.iter().zip(&layer.values).map(|(below, value)| below + value).collect();
            // Parts of the time, each as a step.
            let steps = |values: &[f64]| -> Vec<(f64, f64)> {
                let step = |(bin, &value): (usize, &f64)| {
                    [(self.x(bin), self.y(value)), (self.x(bin + 1), self.y(value))]
                };
                values.iter().enumerate().flat_map(step).collect()
            };
            let mut points = steps(&above);
            points.extend(steps(&below).into_iter().rev());
            picture.shapes.push(Shape::Area { points, colour: layer.colour, title: layer.name.clone() });
            below = above;
        }
    }
}

/// A small chart of one rate in bytes per second; returns where the next one begins.
fn low(picture: &mut Picture, bins: &Bins, name: &str, values: Vec<f64>, colour: Colour, y: f64) -> f64 {
    let most = values.iter().copied().fold(0.0, f64::max);
    let chart = Chart { bins, top: y, height: LOW, most: most.max(1.0) };
    chart.frame(picture, name, &format!("{}/s", human_bytes(most as u64)));
    chart.stack(picture, &[Layer { name: name.to_owned(), values, colour }]);
    y + LOW + 2.0 * LETTERS
}

/// Lines between phases, and their numbers; the name shows under the pointer.
fn mark_phases(picture: &mut Picture, bins: &Bins, phases: &[Phase], top: f64) {
    let all_s = bins.begin_s(bins.count);
    let x = |seconds: f64| LEFT + (WIDTH - MARGIN - LEFT) * seconds / all_s;
    for (at, phase) in phases.iter().enumerate() {
        let title = format!("{}: {} to {}", phase.name, time(phase.begin_s), time(phase.end_s));
        if at > 0 {
            let (x, y, height) = (x(phase.begin_s) - 0.5, top - 4.0, TALL + 4.0);
            picture.shapes.push(Shape::Field { x, y, width: 1.0, height, colour: INK, title: title.clone() });
        }
        let middle = (x(phase.begin_s) + x(phase.end_s)) / 2.0;
        let text = format!("{}", at + 1);
        if x(phase.end_s) - x(phase.begin_s) > width(&text, LETTERS) + 4.0 {
            let (anchor, colour) = (Anchor::Middle, MUTED);
            let text = Text {
                x: middle,
                y: top - 4.0,
                size: LETTERS,
                anchor,
                colour,
                text,
                title,
                ..Text::default()
            };
            picture.shapes.push(Shape::Text(text));
        }
    }
}

/// The scale of time.
fn axis(picture: &mut Picture, bins: &Bins, y: f64) {
    const PARTS: usize = 6;
    let all_s = bins.begin_s(bins.count);
    for part in 0..=PARTS {
        let share = part as f64 / PARTS as f64;
        let x = LEFT + (WIDTH - MARGIN - LEFT) * share;
        let anchor = if part == PARTS { Anchor::End } else { Anchor::Middle };
        picture.text(x, y + LETTERS, LETTERS - 2.0, anchor, &time(all_s * share));
    }
}

//! Source text with a bar before each line.

use super::bars::{Kinds, add_notes, cut_to, key, share, stack};
use super::heat::{LETTERS, MARGIN, TITLE, WIDTH};
use super::palette::{self, INK, SOFT};
use super::{Anchor, Colour, Face, MUTED, Picture, Shape, Text, width};

/// The height of a line, of the bar before it, and of its letters.
const LINE: f64 = 17.0;
const BAR: f64 = 10.0;
const CODE: f64 = 11.0;
/// How long the longest bar is.
const BARS: f64 = 130.0;
/// Between columns.
const GAP: f64 = 10.0;
/// Behind lines with a bar.
const TINT: Colour = SOFT;
/// Between numbers and text.
const RULE: Colour = palette::LINE;

/// A line of source.
#[derive(Clone, Debug, Default)]
pub struct SourceLine {
    pub number: usize,
    pub text: String,
    /// Its accesses by kind, and the text that shows under the pointer; none for a line that is
    /// context.
    pub does: Option<([u64; 3], String)>,
    /// True if lines before it are left out.
    pub is_after_gap: bool,
}

/// A file, or what is of no line.
#[derive(Clone, Debug, Default)]
pub struct SourceFile {
    pub name: String,
    /// All of its accesses, by kind.
    pub parts: [u64; 3],
    /// The text that shows under the pointer.
    pub title: String,
    pub lines: Vec<SourceLine>,
}

/// The files one below the other. Bars are as long as their parts of the longest of all lines;
/// `all` is what shares are of.
pub fn source(title: &str, kinds: Kinds, files: &[SourceFile], all: u64, notes: &[String]) -> Picture {
    let mut picture = Picture { title: title.to_owned(), ..Picture::default() };
    picture.text(MARGIN, MARGIN + TITLE, TITLE, Anchor::Start, title);
    let mut y = MARGIN + 2.2 * TITLE;
    key(&mut picture, y, kinds);
    y += 2.0 * LETTERS;
    let does = files.iter().flat_map(|file| &file.lines).filter_map(|line| line.does.as_ref());
    let most = does.map(|(parts, _)| sum(*parts)).max().unwrap_or(0);
    let last = files.iter().flat_map(|file| &file.lines).map(|line| line.number).max().unwrap_or(0);
    let numbers = Face::Mono.width(&last.max(100).to_string(), CODE);
    for file in files {
        y += LETTERS;
        let share = share(sum(file.parts), all);
        let room = WIDTH - 2.0 * MARGIN - width(&share, LETTERS) - 2.0 * GAP;
        let name = cut_to(&file.name, room, true, Face::Sans, LETTERS);
        let (base, title) = (y + LETTERS, file.title.clone());
        let beside = MARGIN + width(&name, LETTERS) + 2.0 * GAP;
        let heading = Text { x: MARGIN, y: base, size: LETTERS, text: name, title, ..Text::default() };
        picture.shapes.push(Shape::Text(heading));
        let text = Text { x: beside, y: base, size: LETTERS, colour: MUTED, text: share, ..Text::default() };
        picture.shapes.push(Shape::Text(text));
        y += 1.6 * LETTERS;
        if file.lines.is_empty() {
            continue;
        }
        let top = y;
        for line in &file.lines {
            if line.is_after_gap {
                y = add_gap(&mut picture, numbers, y);
            }
            add(&mut picture, line, numbers, (most, all), y);
            y += LINE;
        }
        let rule = columns(numbers).2 - GAP;
        let (width, title) = (1.0, String::new());
        let height = y - top;
        picture.shapes.push(Shape::Field { x: rule, y: top, width, height, colour: RULE, title });
    }
    y = add_notes(&mut picture, notes, y + LETTERS / 2.0);
    picture.width = WIDTH.max(width(title, TITLE) + 2.0 * MARGIN);
    picture.height = y + MARGIN;
    picture
}

/// Where shares end, where numbers end, and where the text begins.
fn columns(numbers: f64) -> (f64, f64, f64) {
    let shares = MARGIN + BARS + GAP + width("100.0 %", LETTERS);
    (shares, shares + 1.5 * GAP + numbers, shares + 1.5 * GAP + numbers + 2.0 * GAP)
}

fn add(picture: &mut Picture, line: &SourceLine, numbers: f64, (most, all): (u64, u64), y: f64) {
    let (shares, number_end, begin) = columns(numbers);
    let base = y + LINE / 2.0 + CODE * 0.35;
    let text = cut_to(&line.text, WIDTH - MARGIN - begin, false, Face::Mono, CODE);
    let mut titles = Vec::new();
    if text != line.text {
        titles.push(line.text.trim().to_owned());
    }
    if let Some((parts, title)) = &line.does {
        titles.push(title.clone());
        let (x, width) = (begin - GAP + 1.0, WIDTH - MARGIN - begin + GAP);
        let title = titles.join("; ");
        picture.shapes.push(Shape::Field { x, y, width, height: LINE, colour: TINT, title: title.clone() });
        stack(picture, (MARGIN, y + (LINE - BAR) / 2.0, BARS, BAR), *parts, most, &title);
        picture.text(shares, base, LETTERS, Anchor::End, &share(sum(*parts), all));
    }
    let mono = |x: f64, anchor, colour, text: String, title: String| {
        Shape::Text(Text {
            x,
            y: base,
            size: CODE,
            anchor,
            colour,
            upright: false,
            face: Face::Mono,
            text,
            title,
        })
    };
    picture.shapes.push(mono(number_end, Anchor::End, MUTED, line.number.to_string(), String::new()));
    // What does nothing is there to be known by.
    let colour = if line.does.is_some() { INK } else { MUTED };
    picture.shapes.push(mono(begin, Anchor::Start, colour, text, titles.join("; ")));
}

fn add_gap(picture: &mut Picture, numbers: f64, y: f64) -> f64 {
    let (_, number_end, _) = columns(numbers);
    let text = "…".to_owned();
    let y_text = y + LINE / 2.0;
    let gap = Text {
        x: number_end,
        y: y_text,
        size: CODE,
        anchor: Anchor::End,
        colour: MUTED,
        text,
        ..Text::default()
    };
    picture.shapes.push(Shape::Text(gap));
    y + LINE
}

fn sum(parts: [u64; 3]) -> u64 {
    parts.iter().fold(0, |all, part| all.saturating_add(*part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_inside_and_long_ones_are_cut() {
        let line = |number, text: &str, does| SourceLine {
            number,
            text: text.to_owned(),
            does,
            is_after_gap: number == 50,
        };
        let long = format!("    {};", "x".repeat(400));
        let lines = vec![
            line(1, "int i;", None),
            line(2, &long, Some(([5, 10, 0], "all".to_owned()))),
            line(50, "}", Some(([1, 1, 1], "few".to_owned()))),
        ];
        let file = SourceFile { name: "a.cu".to_owned(), parts: [6, 11, 1], lines, ..SourceFile::default() };
        let picture =
            source("source", ["a", "b", "c"], &[file, SourceFile::default()], 18, &["note".to_owned()]);
        let mut seen = Vec::new();
        for shape in &picture.shapes {
            match shape {
                Shape::Text(text) => {
                    let wide = text.face.width(&text.text, text.size);
                    let begin = if text.anchor == Anchor::End { text.x - wide } else { text.x };
                    assert!(begin >= 0.0 && begin + wide <= picture.width - MARGIN + 0.1, "{text:?}");
                    assert!(text.y < picture.height);
                    seen.push((text.text.clone(), text.title.clone()));
                }
                Shape::Field { x, y, width, height, .. } => {
                    assert!(x + width <= picture.width && y + height <= picture.height, "{shape:?}");
                }
                _ => panic!("{shape:?}"),
            }
        }
        let cut = seen.iter().find(|(text, _)| text.ends_with("x…")).unwrap();
        assert!(cut.0.starts_with("    xx"), "{}", cut.0);
        assert_eq!(cut.1, format!("{}; all", long.trim()));
        for text in ["83.3 %", "16.7 %", "100.0 %", "…", "note"] {
            assert!(seen.iter().any(|(seen, _)| seen == text), "{text} {seen:?}");
        }
    }
}

//! Bar charts: a bar per row, of up to three kinds, with its name before and its shares behind it.

use super::heat::{LETTERS, MARGIN, TITLE, WIDTH};
use super::palette::{PARTS, SOFT};
use super::{Anchor, Colour, Face, MUTED, Picture, Shape, Text, width};

/// The height of a row, and of the bar in it.
pub const ROW: f64 = 21.0;
const BAR: f64 = 11.0;
/// Names have this much of the width at most.
const NAMES: f64 = 470.0;
/// Between columns.
const GAP: f64 = 12.0;
/// Behind bars, as far as the longest reaches.
const TRACK: Colour = SOFT;
/// A bar of next to nothing.
const SHORTEST: f64 = 0.75;

/// The colours of the three kinds.
const COLOURS: [Colour; 3] = PARTS;

/// The names of the three kinds.
pub type Kinds = [&'static str; 3];

/// One row.
#[derive(Clone, Debug, Default)]
pub struct Bar {
    /// The name of the bar.
    pub name: String,
    /// The text that distinguishes it from others of that name.
    pub aside: String,
    /// True if the end of a name that is too long tells more than its begin.
    pub keeps_end: bool,
    /// By kind.
    pub parts: [u64; 3],
    /// All of it in words, for the column at the right.
    pub amount: String,
    /// All about it, for who points at it.
    pub title: String,
}

impl Bar {
    pub fn all(&self) -> u64 {
        self.parts.iter().fold(0, |all, part| all.saturating_add(*part))
    }
}

/// Rows that are parts of one whole.
#[derive(Clone, Debug, Default)]
pub struct Bars {
    /// The part of the program that they are in, if it is not all; cut where it is too long.
    pub main: String,
    /// The title of the picture.
    pub title: String,
    pub bars: Vec<Bar>,
    /// The whole.
    pub all: u64,
    /// The line below them.
    pub rest: String,
}

/// Lists of bars one below the other, each with its longest as long as there is room; and notes
/// below.
pub fn bars(title: &str, kinds: Kinds, lists: &[Bars], notes: &[String]) -> Picture {
    let mut picture = Picture { title: title.to_owned(), ..Picture::default() };
    picture.text(MARGIN, MARGIN + TITLE, TITLE, Anchor::Start, title);
    let mut y = MARGIN + 2.2 * TITLE;
    key(&mut picture, y, kinds);
    y += 2.0 * LETTERS;
    let columns = Columns::from_lists(lists);
    for list in lists {
        y = add(&mut picture, list, &columns, y + LETTERS);
    }
    y = add_notes(&mut picture, notes, y);
    picture.width = WIDTH.max(width(title, TITLE) + 2.0 * MARGIN);
    picture.height = y + MARGIN;
    picture
}

/// Where what is, in all lists alike.
struct Columns {
    names: f64,
    bars: (f64, f64),
    /// Where shares and amounts end.
    shares: f64,
    amount: f64,
}

impl Columns {
    fn from_lists(lists: &[Bars]) -> Self {
        let all = || lists.iter().flat_map(|list| &list.bars);
        let name = |bar: &Bar| {
            let aside = if bar.aside.is_empty() { 0.0 } else { GAP + width(&bar.aside, LETTERS) };
            width(&bar.name, LETTERS) + aside
        };
        let names = all().map(name).fold(0.0, f64::max).min(NAMES);
        let amount = all().map(|bar| width(&bar.amount, LETTERS)).fold(0.0, f64::max);
        let right = WIDTH - MARGIN;
        let shares = right - amount - GAP;
        let begin = MARGIN + names + GAP;
        let end = shares - width("100.0 %", LETTERS) - GAP;
        Columns { names, bars: (begin, (end - begin).max(60.0)), shares, amount: right }
    }
}

fn add(picture: &mut Picture, list: &Bars, columns: &Columns, y: f64) -> f64 {
    let mut y = y;
    if !list.title.is_empty() {
        let room = WIDTH - 2.0 * MARGIN - width(&list.title, LETTERS) - width(": ", LETTERS);
        let main = cut_to(&list.main, room, false, Face::Sans, LETTERS);
        let between = if main.is_empty() { "" } else { ": " };
        let title = if main == list.main { String::new() } else { list.main.clone() };
        let text = format!("{main}{between}{}", list.title);
        picture.shapes.push(Shape::Text(Text { x: MARGIN, y: y + LETTERS, title, ..said(&text) }));
        y += 1.8 * LETTERS;
    }
    let most = list.bars.iter().map(Bar::all).max().unwrap_or(0);
    for bar in &list.bars {
        let base = y + ROW / 2.0 + LETTERS * 0.35;
        add_name(picture, bar, columns.names, base);
        let (left, wide) = columns.bars;
        let top = y + (ROW - BAR) / 2.0;
        stack(picture, (left, top, wide, BAR), bar.parts, most, &bar.title);
        let share = share(bar.all(), list.all);
        picture.text(columns.shares, base, LETTERS, Anchor::End, &share);
        let amount =
            Text { x: columns.amount, y: base, anchor: Anchor::End, colour: MUTED, ..said(&bar.amount) };
        picture.shapes.push(Shape::Text(amount));
        y += ROW;
    }
    if !list.rest.is_empty() {
        y += LETTERS / 2.0;
        let rest = Text { x: MARGIN, y: y + LETTERS, colour: MUTED, ..said(&list.rest) };
        picture.shapes.push(Shape::Text(rest));
        y += 1.5 * LETTERS;
    }
    y + LETTERS / 2.0
}

fn add_name(picture: &mut Picture, bar: &Bar, room: f64, base: f64) {
    let fits = |text: &str| width(text, LETTERS);
    // Where both do not fit the name has the larger part.
    let aside = fits(&bar.aside).min((room - fits(&bar.name) - GAP).max(room * 0.3 - GAP));
    let for_name = if bar.aside.is_empty() { room } else { room - aside - GAP };
    let name = cut_to(&bar.name, for_name, bar.keeps_end, Face::Sans, LETTERS);
    let end = MARGIN + fits(&name);
    let title = bar.title.clone();
    picture.shapes.push(Shape::Text(Text { x: MARGIN, y: base, title: title.clone(), ..said(&name) }));
    if !bar.aside.is_empty() {
        let aside = cut_to(&bar.aside, aside, false, Face::Sans, LETTERS);
        let aside = Text { x: end + GAP, y: base, colour: MUTED, title, ..said(&aside) };
        picture.shapes.push(Shape::Text(aside));
    }
}

/// A bar in its track: where it begins, how wide it may be and how high it is.
pub fn stack(
    picture: &mut Picture,
    (x, y, width, height): (f64, f64, f64, f64),
    parts: [u64; 3],
    most: u64,
    title: &str,
) {
    let field = |x: f64, width: f64, colour: Colour| Shape::Field {
        x,
        y,
        width,
        height,
        colour,
        title: title.to_owned(),
    };
    picture.shapes.push(field(x, width, TRACK));
    let wide = |part: u64| match part {
        0 => 0.0,
        part => (width * part as f64 / most.max(1) as f64).max(SHORTEST),
    };
    // What is next to nothing is seen also where the others fill the track.
    let fit = (width / parts.map(wide).iter().sum::<f64>()).min(1.0);
    let mut at = x;
    for (part, colour) in parts.into_iter().zip(COLOURS).filter(|(part, _)| *part > 0) {
        let long = wide(part) * fit;
        picture.shapes.push(field(at, long, colour));
        at += long;
    }
}

/// Draws the key of the colours.
pub fn key(picture: &mut Picture, y: f64, kinds: Kinds) {
    let mut x = MARGIN;
    for (kind, colour) in kinds.into_iter().zip(COLOURS) {
        let (side, title) = (LETTERS - 2.0, String::new());
        picture.shapes.push(Shape::Field { x, y: y + 2.0, width: side, height: side, colour, title });
        picture.text(x + side + 6.0, y + LETTERS - 0.5, LETTERS, Anchor::Start, kind);
        x += side + 6.0 + width(kind, LETTERS) + 2.0 * GAP;
    }
}

/// Notes below all else; returns where they end.
pub fn add_notes(picture: &mut Picture, notes: &[String], y: f64) -> f64 {
    let mut y = y;
    for note in notes {
        y += 1.5 * LETTERS;
        let text = cut_to(note, WIDTH - 2.0 * MARGIN, false, Face::Sans, LETTERS);
        let title = if text == *note { String::new() } else { note.clone() };
        picture.shapes.push(Shape::Text(Text { x: MARGIN, y, colour: MUTED, title, ..said(&text) }));
    }
    y
}

/// A part of a whole, in per cent.
pub fn share(part: u64, all: u64) -> String {
    format!("{:.1} %", 100.0 * part as f64 / all.max(1) as f64)
}

fn said(text: &str) -> Text {
    Text { size: LETTERS, text: text.to_owned(), ..Text::default() }
}

/// A text without what does not fit, at its end or at its begin.
pub fn cut_to(text: &str, room: f64, keeps_end: bool, face: Face, size: f64) -> String {
    // Sums of widths are not exact.
    if face.width(text, size) <= room + 0.01 {
        return text.to_owned();
    }
    let room = room - face.width("…", size);
    let mut wide = 0.0;
    let mut fits = |letter: &char| {
        wide += face.width(letter.encode_utf8(&mut [0; 4]), size);
        wide <= room
    };
    if keeps_end {
        let mut end: Vec<char> = text.chars().rev().take_while(&mut fits).collect();
        end.reverse();
        format!("…{}", String::from_iter(end))
    } else {
        let begin = String::from_iter(text.chars().take_while(&mut fits));
        format!("{}…", begin.trim_end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(picture: &Picture) -> Vec<(f64, f64, f64, f64, Colour)> {
        let field = |shape: &Shape| match shape {
            Shape::Field { x, y, width, height, colour, .. } => Some((*x, *y, *width, *height, *colour)),
            _ => None,
        };
        picture.shapes.iter().filter_map(field).collect()
    }

    fn drawn(bars_: Vec<Bar>) -> Picture {
        let all = bars_.iter().map(Bar::all).fold(0, u64::saturating_add);
        let (main, title) = ("m".repeat(300), "its parts".to_owned());
        let list = Bars { main, title, bars: bars_, all, rest: "3 more".to_owned() };
        bars("title", ["loaded", "stored", "atomic"], &[list], &["a note".to_owned()])
    }

    #[test]
    fn bars_are_as_long_as_their_parts_and_the_longest_fills_its_track() {
        let bar =
            |parts: [u64; 3]| Bar { name: "n".to_owned(), parts, amount: "t".to_owned(), ..Bar::default() };
        let picture = drawn(vec![bar([60, 40, 0]), bar([0, 0, 50]), bar([1, 0, 1])]);
        let fields = &fields(&picture)[3..];
        let of = |colour: Colour| -> Vec<f64> {
            fields.iter().filter(|field| field.4 == colour).map(|field| field.2).collect()
        };
        let [track, ..] = of(TRACK)[..] else { panic!("{fields:?}") };
        let near = |found: Vec<f64>, wanted: &[f64]| {
            assert_eq!(found.len(), wanted.len(), "{found:?}");
            assert!(
                found.iter().zip(wanted).all(|(one, part)| (one - part * track).abs() < 1e-6),
                "{found:?}"
            );
        };
        near(of(COLOURS[0]), &[0.6, 0.01]);
        near(of(COLOURS[1]), &[0.4]);
        near(of(COLOURS[2]), &[0.5, 0.01]);
        let inside = |x: f64, y: f64| (0.0..picture.width).contains(&x) && (0.0..picture.height).contains(&y);
        assert!(
            fields
                .iter()
                .all(|field| inside(field.0, field.1) && inside(field.0 + field.2, field.1 + field.3))
        );
    }

    #[test]
    fn tiny_bars_are_visible_and_empty_ones_are_not() {
        let bar = |parts: [u64; 3]| Bar { parts, ..Bar::default() };
        let picture = drawn(vec![bar([u64::MAX, 0, 0]), bar([0, 1, 0]), bar([0, 0, 0])]);
        let dark = fields(&picture)[3..].iter().filter(|field| field.4 == COLOURS[1]).count();
        assert_eq!(dark, 1);
        assert!(fields(&picture).iter().all(|field| field.2 > 0.5));
    }

    #[test]
    fn names_of_any_length_end_before_the_bars() {
        for (name, aside) in [
            ("x".repeat(300), String::new()),
            ("x".repeat(300), "y".repeat(300)),
            ("x".into(), "y".repeat(300)),
        ] {
            let bar = Bar {
                name,
                aside,
                keeps_end: true,
                parts: [1, 0, 0],
                amount: "1 byte".into(),
                title: "all".into(),
            };
            let picture = drawn(vec![bar]);
            let left = fields(&picture)[3].0;
            let ends = picture.shapes.iter().filter_map(|shape| match shape {
                Shape::Text(text) if text.title == "all" => Some(text.x + width(&text.text, LETTERS)),
                _ => None,
            });
            assert!(
                ends.clone().count() > 0 && ends.clone().all(|end| end < left),
                "{:?} {left}",
                ends.collect::<Vec<_>>()
            );
        }
    }

    #[test]
    fn long_text_before_a_list_is_cut() {
        let picture = drawn(vec![Bar { parts: [1, 0, 0], ..Bar::default() }]);
        let is_cut = |shape: &Shape| match shape {
            Shape::Text(text) => {
                let end = text.x + width(&text.text, text.size);
                text.text.ends_with("m…: its parts") && end <= WIDTH - MARGIN && text.title == "m".repeat(300)
            }
            _ => false,
        };
        assert!(picture.shapes.iter().any(is_cut), "{picture:?}");
    }

    #[test]
    fn a_text_is_cut_where_it_tells_less() {
        let cut = |keeps_end| cut_to("/a/very/long/way/to/halo.cu:41", 90.0, keeps_end, Face::Sans, LETTERS);
        assert!(cut(true).starts_with('…') && cut(true).ends_with("halo.cu:41"), "{}", cut(true));
        assert!(cut(false).starts_with("/a/very") && cut(false).ends_with('…'), "{}", cut(false));
        assert_eq!(cut_to("short", 90.0, true, Face::Mono, LETTERS), "short");
    }
}

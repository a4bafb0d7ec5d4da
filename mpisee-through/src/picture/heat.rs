//! Heat maps: fields in rows and columns, the darker the more, one beside the other on one scale.

use super::palette::ink_on;
use super::{Anchor, Colour, LINE, MUTED, Picture, Ramp, Scale, Shape, Text, width};
use crate::units::{human_bytes, large_count, time};

/// About how many points a picture is wide at most.
pub const WIDTH: f64 = 960.0;
/// Around and between.
pub const MARGIN: f64 = 24.0;
/// The size of most letters.
pub const LETTERS: f64 = 12.0;
/// The size of the title.
pub const TITLE: f64 = 15.0;
/// The side of a square field at most.
const LARGEST: f64 = 96.0;
/// Names longer than this are cut.
const LONGEST: f64 = 220.0;

/// The rows or the columns.
#[derive(Clone, Debug, Default)]
pub struct Axis {
    /// The noun for all of them: `receiver`.
    pub caption: String,
    /// The name of each.
    pub names: Vec<String>,
}

/// Where there is something.
#[derive(Clone, Debug)]
pub struct Field {
    pub row: u32,
    pub column: u32,
    pub amount: u64,
    /// The text that shows under the pointer.
    pub title: String,
}

/// One heat map.
#[derive(Clone, Debug)]
pub struct Panel {
    pub title: String,
    pub down: Axis,
    pub across: Axis,
    pub fields: Vec<Field>,
    /// The height of a field; as high as wide if there is none.
    pub row_height: Option<f64>,
}

/// The unit of amounts that are nanoseconds, which are shown as times.
pub const NANOSECONDS: &str = "ns";

/// The scale of the fields of all panels.
pub fn scale(panels: &[Panel], unit: &str) -> Scale {
    let ramp = if unit == NANOSECONDS { Ramp::Waiting } else { Ramp::Amount };
    Scale::from_amounts(ramp, panels.iter().flat_map(|panel| &panel.fields).map(|field| field.amount))
}

/// The panels side by side, or each below the last where they are not square; `unit` is that of the
/// amounts.
pub fn drawn(title: &str, panels: &[Panel], unit: &str) -> Picture {
    let scale = scale(panels, unit);
    let mut picture = Picture { title: title.to_owned(), ..Picture::default() };
    picture.text(MARGIN, MARGIN + TITLE, TITLE, Anchor::Start, title);
    let top = MARGIN + 2.0 * TITLE;
    let beside = panels.iter().all(|panel| panel.row_height.is_none());
    let columns = if beside { panels.len().max(1) } else { 1 };
    let wide = (WIDTH - MARGIN) / columns as f64 - MARGIN;
    let (mut bottom, mut y) = (top, top);
    for (number, panel) in panels.iter().enumerate() {
        let column = if beside { number } else { 0 };
        let x = MARGIN + column as f64 * (wide + MARGIN);
        bottom = add(&mut picture, panel, (x, y), wide, (&scale, unit)).max(bottom);
        if !beside {
            y = bottom + MARGIN / 2.0;
        }
    }
    key(&mut picture, bottom + MARGIN, &scale, unit);
    picture.width = picture.shapes.iter().map(Shape::right).fold(0.0, f64::max) + MARGIN;
    picture.height = bottom + 3.5 * MARGIN;
    picture
}

/// Adds one panel that is so wide, names included; returns where it ends.
fn add(
    picture: &mut Picture,
    panel: &Panel,
    (x, y): (f64, f64),
    wide: f64,
    (scale, unit): (&Scale, &str),
) -> f64 {
    let Panel { title, down, across, fields, row_height } = panel;
    let beside = names_width(&down.names) + if down.caption.is_empty() { 8.0 } else { 8.0 + 1.6 * LETTERS };
    let columns = across.names.len().max(1) as f64;
    let widest = if row_height.is_some() { wide } else { LARGEST };
    let (left, cell) = (x + beside, ((wide - beside) / columns).min(widest));
    let (side, height) = (cell * columns, row_height.unwrap_or(cell));
    let names = names_width(&across.names);
    let above = if is_upright(names, cell) { names } else { LETTERS };
    let caption = if across.caption.is_empty() { 0.0 } else { 1.6 * LETTERS };
    picture.text(x, y + LETTERS, LETTERS, Anchor::Start, title);
    let top = y + 2.2 * LETTERS + caption + above + 6.0;
    let all = height * down.names.len() as f64;
    if !across.caption.is_empty() {
        let (x, y) = (left + side / 2.0, y + 2.2 * LETTERS + LETTERS);
        picture.shapes.push(muted(x, y, Anchor::Middle, false, &across.caption));
    }
    if !down.caption.is_empty() {
        picture.shapes.push(muted(x + LETTERS, top + all / 2.0, Anchor::Middle, true, &down.caption));
    }
    for field in fields {
        let (x, y) = (left + f64::from(field.column) * cell, top + f64::from(field.row) * height);
        let colour = scale.colour(field.amount);
        let title = field.title.clone();
        picture.shapes.push(Shape::Field { x, y, width: cell, height, colour, title });
        if row_height.is_none() {
            picture.shapes.extend(number(field, (x, y), cell, colour, unit));
        }
    }
    picture.shapes.push(Shape::Frame { x: left, y: top, width: side, height: all, colour: LINE });
    name_columns(picture, across, (left, top), cell);
    name_rows(picture, down, (left, top), height);
    top + all
}

/// The amount inside of a square field, where it fits.
fn number(field: &Field, (x, y): (f64, f64), cell: f64, behind: Colour, unit: &str) -> Option<Shape> {
    let text = with_unit(field.amount, unit).unwrap_or_else(|| large_count(field.amount));
    let fits = width(&text, LETTERS) + 8.0 <= cell && field.amount > 0;
    let colour = ink_on(behind);
    fits.then(|| {
        Shape::Text(Text {
            x: x + cell / 2.0,
            y: y + cell / 2.0 + LETTERS * 0.35,
            size: LETTERS,
            anchor: Anchor::Middle,
            colour,
            text,
            title: field.title.clone(),
            ..Text::default()
        })
    })
}

/// Bytes and times with three digits and a unit of their size.
fn with_unit(amount: u64, unit: &str) -> Option<String> {
    match unit {
        "bytes" => Some(human_bytes(amount)),
        NANOSECONDS => Some(time(amount as f64 / 1e9)),
        _ => None,
    }
}

/// Returns whether names of columns are written upwards.
fn is_upright(names: f64, cell: f64) -> bool {
    names > 4.0 * LETTERS && names + 6.0 > cell
}

/// Of how many names one has room.
fn step(needed: f64, cell: f64) -> usize {
    (needed / cell).ceil().max(1.0) as usize
}

fn name_columns(picture: &mut Picture, axis: &Axis, (left, top): (f64, f64), cell: f64) {
    let names = names_width(&axis.names);
    let upright = is_upright(names, cell);
    let needed = if upright { 1.4 * LETTERS } else { names + 6.0 };
    for (column, name) in axis.names.iter().enumerate().step_by(step(needed, cell)) {
        let middle = left + (column as f64 + 0.5) * cell;
        let (x, anchor) =
            if upright { (middle + LETTERS * 0.35, Anchor::Start) } else { (middle, Anchor::Middle) };
        let (y, text) = (top - 6.0, cut(name));
        picture.shapes.push(Shape::Text(Text {
            x,
            y,
            size: LETTERS,
            anchor,
            upright,
            text,
            ..Text::default()
        }));
    }
}

fn name_rows(picture: &mut Picture, axis: &Axis, (left, top): (f64, f64), height: f64) {
    for (row, name) in axis.names.iter().enumerate().step_by(step(1.4 * LETTERS, height)) {
        let y = top + (row as f64 + 0.5) * height + LETTERS * 0.35;
        picture.text(left - 6.0, y, LETTERS, Anchor::End, &cut(name));
    }
}

fn muted(x: f64, y: f64, anchor: Anchor, upright: bool, text: &str) -> Shape {
    let text = text.to_owned();
    Shape::Text(Text { x, y, size: LETTERS, anchor, colour: MUTED, upright, text, ..Text::default() })
}

/// Draws the key of the shades.
pub fn key(picture: &mut Picture, y: f64, scale: &Scale, unit: &str) {
    let side = LETTERS;
    let mut x = MARGIN;
    let named = |amount| {
        (amount, with_unit(amount, unit).unwrap_or_else(|| format!("{} {unit}", large_count(amount))))
    };
    let mut amounts: Vec<(u64, String)> = scale.key().into_iter().map(named).collect();
    // Amounts that differ in digits that are not shown would be squares of the same text.
    amounts.dedup_by(|(_, next), (_, text)| next == text);
    for (amount, text) in amounts {
        let (colour, title) = (scale.colour(amount), String::new());
        picture.shapes.push(Shape::Field { x, y, width: side, height: side, colour, title });
        picture.text(x + side + 6.0, y + LETTERS - 1.5, LETTERS, Anchor::Start, &text);
        x += side + 6.0 + width(&text, LETTERS) + MARGIN;
    }
}

fn names_width(names: &[String]) -> f64 {
    names.iter().map(|name| width(name, LETTERS)).fold(0.0, f64::max).min(LONGEST)
}

/// A name without what does not fit.
fn cut(name: &str) -> String {
    if width(name, LETTERS) <= LONGEST {
        return name.to_owned();
    }
    let mut kept = String::new();
    for letter in name.chars() {
        kept.push(letter);
        if width(&kept, LETTERS) + width("…", LETTERS) > LONGEST {
            kept.pop();
            break;
        }
    }
    kept + "…"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn panel(title: &str, rows: usize, columns: usize, row_height: Option<f64>) -> Panel {
        let names = |count: usize| (0..count).map(|it| it.to_string()).collect();
        let axis = |count| Axis { caption: "rank".to_owned(), names: names(count) };
        let field = Field { row: 1, column: 0, amount: 7, title: "1 to 0".to_owned() };
        Panel {
            title: title.to_owned(),
            down: axis(rows),
            across: axis(columns),
            fields: vec![field],
            row_height,
        }
    }

    fn frames(picture: &Picture) -> Vec<(f64, f64, f64, f64)> {
        let frame = |shape: &Shape| match shape {
            Shape::Frame { x, y, width, height, .. } => Some((*x, *y, *width, *height)),
            _ => None,
        };
        picture.shapes.iter().filter_map(frame).collect()
    }

    #[test]
    fn panels_of_squares_are_side_by_side_and_inside() {
        let picture = drawn("both", &[panel("GPU", 4, 4, None), panel("MPI", 4, 4, None)], "bytes");
        let [one, other] = frames(&picture)[..] else { panic!("{picture:?}") };
        assert!((one.1 - other.1).abs() < 1e-9 && one.0 + one.2 < other.0);
        assert!((one.2 - one.3).abs() < 1e-9, "squares");
        assert!(other.0 + other.2 <= picture.width && other.1 + other.3 <= picture.height);
    }

    #[test]
    fn amounts_of_the_same_text_are_one_square_of_the_key() {
        let squares = |amounts: &[u64]| {
            let mut panel = panel("MPI", 4, 4, None);
            let field =
                |(column, &amount): (u32, &u64)| Field { row: 0, column, amount, title: String::new() };
            panel.fields = (0..).zip(amounts).map(field).collect();
            let mut picture = Picture::default();
            key(&mut picture, 0.0, &scale(&[panel], "bytes"), "bytes");
            picture.shapes.iter().filter(|shape| matches!(shape, Shape::Field { .. })).count()
        };
        assert_eq!(squares(&[149_000_872, 149_000_000, 149_000_400]), 1);
        assert_eq!(squares(&[1000, 2000]), 3);
    }

    #[test]
    fn panels_of_bars_are_below_each_other() {
        let bars = [panel("a", 2, 256, Some(20.0)), panel("b", 2, 256, Some(20.0))];
        let picture = drawn("both", &bars, "accesses");
        let [one, other] = frames(&picture)[..] else { panic!("{picture:?}") };
        assert!((one.0 - other.0).abs() < 1e-9 && one.1 + one.3 < other.1);
        let key = picture.shapes.iter().rev().find_map(|shape| match shape {
            Shape::Field { y, .. } => Some(*y),
            _ => None,
        });
        assert!(key.is_some_and(|y| y > other.1 + other.3), "{picture:?}");
        assert!((one.3 - 40.0).abs() < 1e-9);
    }

    #[test]
    fn a_small_panel_has_nothing_blank_beside_it() {
        let picture = drawn("one", &[panel("MPI", 4, 4, None)], "bytes");
        let [panel] = frames(&picture)[..] else { panic!("{picture:?}") };
        let right = picture.shapes.iter().map(Shape::right).fold(panel.0 + panel.2, f64::max);
        assert!(picture.width >= right + MARGIN && picture.width < right + 100.0, "{}", picture.width);
    }

    #[test]
    fn long_names_are_cut_and_a_long_title_is_not() {
        assert!(cut(&"x".repeat(200)).ends_with('…') && width(&cut(&"x".repeat(200)), LETTERS) <= LONGEST);
        let title = "t".repeat(300);
        assert!(drawn(&title, &[], "bytes").width > width(&title, TITLE));
    }
}

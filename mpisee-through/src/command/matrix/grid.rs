//! The matrix as shades of characters, for terminals.

use super::traffic::{Of, Traffic};
use crate::axis::Axis;
use crate::shades::{SHADES, shade};

/// Fields in a row where the output is not a terminal.
const DEFAULT_FIELDS: u32 = 32;
/// The width for the names before the rows.
const NAMES: u16 = 16;

/// How many fields fit into a page of that many columns.
pub fn fitting(width: Option<u16>) -> u32 {
    width.map_or(DEFAULT_FIELDS, |width| u32::from(width.saturating_sub(NAMES) / 2).clamp(4, 96))
}

/// The grid, with what its shades mean.
pub fn drawn(axis: &Axis, pairs: &[((u32, u32), Traffic)], of: Of) -> String {
    let fields = axis.len() as usize;
    let most = pairs.iter().map(|&(_, traffic)| traffic.amount(of)).max().unwrap_or(0);
    let mut shades = vec![0; fields * fields];
    for &((from, to), traffic) in pairs {
        shades[from as usize * fields + to as usize] = shade(traffic.amount(of), most);
    }
    let names: Vec<String> = (0..axis.len()).map(|field| short(&axis.name(field))).collect();
    let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    let mut text = format!("{:>width$}  {}\n", "", numbers(axis));
    for (name, row) in names.iter().zip(shades.chunks(fields)) {
        let row: String = row.iter().flat_map(|&shade| [SHADES[shade]; 2]).collect();
        text += format!("{name:>width$} ▕{row}▏").trim_end();
        text.push('\n');
    }
    if most == 0 {
        return text + "No message has any bytes; --of messages shows how many there are.\n";
    }
    let block = match axis.block() {
        1 => String::new(),
        block => format!(" A field is {block} {}.", axis.what()),
    };
    text += &format!(
        "Senders down, receivers across; ░ to █: up to 25, 50, 75, 100 % of {}.{block}\n",
        of.amount(most)
    );
    text
}

/// The number of every fifth column's field, or of its first rank.
fn numbers(axis: &Axis) -> String {
    let mut text = String::new();
    for field in (0..axis.len()).step_by(5) {
        let name = if axis.what() == "nodes" { field.to_string() } else { axis.name(field) };
        let first: String = name.chars().take_while(char::is_ascii_digit).collect();
        let columns = 2 * field as usize;
        // A number that is longer than its place leaves the next one out.
        if text.chars().count() <= columns {
            text = format!("{text:<columns$}{first} ");
        }
    }
    text.trim_end().to_owned()
}

/// A name that does not take the place of the grid.
fn short(name: &str) -> String {
    let most = usize::from(NAMES) - 4;
    if name.chars().count() <= most {
        name.to_owned()
    } else {
        name.chars().take(most - 1).chain(['…']).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grid_fits_the_page() {
        assert_eq!(fitting(None), 32);
        assert_eq!(fitting(Some(80)), 32);
        assert_eq!(fitting(Some(10)), 4);
        assert_eq!(fitting(Some(1000)), 96);
    }
}

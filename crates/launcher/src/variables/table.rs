//! The tables of `--mpi-t list`: a line for each variable, or in a terminal as many as its width
//! needs.

use crate::flavours::align;
use std::io::IsTerminal;

/// The smallest width of descriptions beside the other columns; below that they have lines of their
/// own.
const BESIDE_AT_LEAST: usize = 30;
/// Columns that the last cell before the description takes at most in a terminal: a value may be a
/// list of hundreds of words.
const CELL_AT_MOST: usize = 30;
/// Columns that are left for it in the narrowest terminal.
const CELL_AT_LEAST: usize = 8;
/// The blanks before a description on lines of its own, and between columns.
const INDENT: usize = 4;
const BETWEEN: usize = 2;
/// A terminal of fewer columns counts as one without a width, as launchers give to the programs
/// that they start.
const NARROWEST: usize = 40;

/// The width of the terminal that standard output is; `None` elsewhere.
pub fn terminal_width() -> Option<usize> {
    if !std::io::stdout().is_terminal() {
        return None;
    }
    // SAFETY: zeros are a valid size.
    let mut size: libc::winsize = unsafe { std::mem::zeroed() };
    // SAFETY: the size is written.
    let code = unsafe { libc::ioctl(libc::STDOUT_FILENO, libc::TIOCGWINSZ, &raw mut size) };
    Some(usize::from(size.ws_col)).filter(|&width| code == 0 && width >= NARROWEST)
}

/// The lines of a table whose last column are descriptions; the first row has the headings. No line
/// is wider than `width`, but for names that are.
pub fn lines<const COLUMNS: usize>(table: &[[String; COLUMNS]], width: Option<usize>) -> String {
    let Some(width) = width else { return align(table) };
    let mut widths: [usize; COLUMNS] =
        std::array::from_fn(|at| table.iter().map(|row| count(&row[at])).max().unwrap_or_default());
    let (last, description) = (COLUMNS - 2, COLUMNS - 1);
    let before: usize = widths[..last].iter().map(|width| width + BETWEEN).sum();
    let left = width.saturating_sub(before).clamp(CELL_AT_LEAST, CELL_AT_MOST);
    widths[last] = widths[last].min(left);
    let beside = before + widths[last] + BETWEEN;
    let is_beside = width >= beside + BESIDE_AT_LEAST;
    let indent = if is_beside { beside } else { INDENT };
    let mut text = String::new();
    for row in table {
        let mut line = String::new();
        for (cell, &width) in row[..description].iter().zip(&widths) {
            line += &format!("{:<width$}{}", cut(cell, width), " ".repeat(BETWEEN));
        }
        let mut wrapped = wrapped(&row[description], width - indent).into_iter();
        if is_beside {
            line += &wrapped.next().unwrap_or_default();
        }
        text += &(line.trim_end().to_owned() + "\n");
        wrapped.for_each(|line| text += &format!("{}{line}\n", " ".repeat(indent)));
    }
    text
}

/// Sentences, wrapped to `width`.
pub fn sentences(text: &str, width: Option<usize>) -> String {
    match width {
        Some(width) => wrapped(text, width).join("\n") + "\n",
        None => format!("{text}\n"),
    }
}

fn count(text: &str) -> usize {
    text.chars().count()
}

/// The begin of a text that is longer than `width`.
fn cut(text: &str, width: usize) -> String {
    match count(text) > width {
        true => text.chars().take(width - 1).chain(['…']).collect(),
        false => text.to_owned(),
    }
}

/// A text in lines; words that are longer than a line are cut into several.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let letters: Vec<char> = word.chars().collect();
        for piece in letters.chunks(width.max(1)) {
            let piece: String = piece.iter().collect();
            match lines.last_mut().filter(|line| count(line) + 1 + count(&piece) <= width) {
                Some(line) => *line += &format!(" {piece}"),
                None => lines.push(piece),
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> [[String; 3]; 3] {
        let list = "tuned,libnbc,basic,inter,self,sync,monitoring";
        [
            ["CONTROL VARIABLE", "VALUE", "IS"],
            ["coll", list, "The components of the framework that are to be used"],
            ["coll_x", "0", "Nothing"],
        ]
        .map(|row| row.map(str::to_owned))
    }

    #[test]
    fn descriptions_are_wrapped_beside_the_other_columns() {
        let expected = "\
CONTROL VARIABLE  VALUE                           IS
coll              tuned,libnbc,basic,inter,self…  The components of the framework
                                                  that are to be used
coll_x            0                               Nothing
";
        assert_eq!(lines(&table(), Some(82)), expected);
    }

    #[test]
    fn a_narrow_terminal_has_descriptions_below() {
        let expected = "\
CONTROL VARIABLE  VALUE
    IS
coll              tuned,libnbc,basic,inte…
    The components of the framework that
    are to be used
coll_x            0
    Nothing
";
        assert_eq!(lines(&table(), Some(42)), expected);
    }

    #[test]
    fn elsewhere_a_variable_is_a_line() {
        let text = lines(&table(), None);
        assert_eq!(text.lines().count(), 3);
        assert!(text.contains("self,sync,monitoring  The components of the framework that are to be used\n"));
    }

    #[test]
    fn a_word_that_is_longer_than_a_line_is_cut() {
        assert_eq!(wrapped("a bcdefgh  ij", 4), ["a", "bcde", "fgh", "ij"]);
        assert_eq!(wrapped("", 4), [""; 0]);
    }
}

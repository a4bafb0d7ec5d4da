//! Tables and text for people, fitted to a terminal.

use comfy_table::{
    Attribute, Cell, CellAlignment, Color, ColumnConstraint, ContentArrangement, Table, Width, presets,
};

/// The columns of the terminal.
pub fn terminal_width() -> Option<u16> {
    Table::new().width()
}

/// The space for a table: a terminal, or without limit (the default).
#[derive(Clone, Copy, Debug, Default)]
pub struct Page {
    /// Columns of the terminal; without one, nothing is cut or wrapped.
    pub width: Option<u16>,
    /// True if text may stand out.
    pub colour: bool,
}

/// How a column of a table behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    /// Text, wrapped where the page is narrow.
    Text,
    /// Text that stays on one line, at least this wide; cut in its middle where nothing else helps.
    Fixed(usize),
    /// The same of text that may be long: it is cut to a third of the page before other columns are hidden.
    Long(usize),
    /// A number, on the right, at least this wide.
    Number(usize),
}

/// How a cell stands out, where it may.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    #[default]
    Plain,
    /// Headings and names.
    Bold,
    /// Dominating numbers.
    Large,
    /// Changes for the worse.
    Worse,
    /// Changes for the better.
    Better,
}

/// The text of a cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text {
    pub text: String,
    pub style: Style,
}

impl Text {
    /// Text in a style.
    pub fn new(text: impl Into<String>, style: Style) -> Self {
        Text { text: text.into(), style }
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Text::new(text, Style::Plain)
    }
}

/// The smallest width of a column of wrapped text.
const TEXT_AT_LEAST: usize = 12;
/// The smallest width to which text is cut.
const CUT_AT_LEAST: usize = 8;
/// The part of the page that long text may take while columns are hidden for it, as a divisor.
const LONG_TEXT_OF_PAGE: usize = 3;
/// The blanks between columns.
const BETWEEN: usize = 2;

impl Page {
    /// A table without rules: `columns` under their headings, two blanks between; a row is one line, unless a column of
    /// wrapped text makes it several.
    fn lines<T: Into<Text>>(
        &self,
        columns: &[(&str, Column)],
        rows: impl IntoIterator<Item = Vec<T>>,
    ) -> Vec<String> {
        let mut table = Table::new();
        table
            .load_preset(presets::NOTHING)
            .force_no_tty()
            .set_content_arrangement(ContentArrangement::Dynamic);
        if let Some(width) = self.width {
            // The blanks after the last column need no place.
            table.set_width(width.saturating_add(BETWEEN as u16));
        }
        if self.colour {
            table.enforce_styling();
        }
        table.set_header(columns.iter().map(|(heading, _)| self.cell(Text::new(*heading, Style::Bold))));
        table.add_rows(rows.into_iter().map(|row| row.into_iter().map(|cell| self.cell(cell.into()))));
        for (column, (_, kind)) in table.column_iter_mut().zip(columns) {
            column.set_padding((0, BETWEEN as u16));
            match kind {
                Column::Text => {}
                Column::Fixed(width) | Column::Long(width) => {
                    column.set_constraint(at_least(*width));
                }
                Column::Number(width) => {
                    column.set_constraint(at_least(*width)).set_cell_alignment(CellAlignment::Right);
                }
            }
        }
        table.lines().map(|line| line.trim_end().to_owned()).collect()
    }

    /// A table in which no number is wrapped. If the page is too narrow, long text is cut first, as far as [`Column::Long`] says. Then
    /// the `optional` columns are hidden in this order, with a line that names them, and then text is cut further.
    pub fn fitted_table<T: Into<Text>>(
        &self,
        columns: &[(&str, Column)],
        rows: Vec<Vec<T>>,
        optional: &[&str],
    ) -> String {
        let (lines, hidden) = self.fitted_lines(columns, rows, optional);
        lines.into_iter().chain(self.hidden(&hidden)).map(|line| line + "\n").collect()
    }

    /// The lines of [`Page::fitted_table`], its headings first, and the headings of the columns that are hidden.
    pub fn fitted_lines<'h, T: Into<Text>>(
        &self,
        columns: &[(&'h str, Column)],
        rows: Vec<Vec<T>>,
        optional: &[&'h str],
    ) -> (Vec<String>, Vec<&'h str>) {
        let mut rows: Vec<Vec<Text>> =
            rows.into_iter().map(|row| row.into_iter().map(Into::into).collect()).collect();
        let mut columns = with_widths(columns, &rows);
        let mut hidden = Vec::new();
        let Some(width) = self.width.map(usize::from) else { return (self.lines(&columns, rows), hidden) };
        for &name in optional {
            if least(&columns, width / LONG_TEXT_OF_PAGE) <= width {
                break;
            }
            if let Some(index) = columns.iter().position(|(heading, _)| *heading == name) {
                columns.remove(index);
                rows.iter_mut().for_each(|row| drop(row.remove(index)));
                hidden.push(name);
            }
        }
        cut(&mut columns, &mut rows, width);
        (self.lines(&columns, rows), hidden)
    }

    /// The lines that name the columns that are hidden.
    pub fn hidden(&self, headings: &[&str]) -> Vec<String> {
        if headings.is_empty() {
            return Vec::new();
        }
        self.wrapped(&format!("Hidden (terminal too narrow): {}.", headings.join(", ")), "")
    }

    /// Text in lines no wider than the page, broken at blanks; `indent` begins all lines but the first.
    pub fn wrapped(&self, text: &str, indent: &str) -> Vec<String> {
        let width = self.width.map_or(usize::MAX, usize::from);
        let mut lines = Vec::new();
        let mut words = text.split(' ');
        let mut line = words.next().unwrap_or_default().to_owned();
        for word in words {
            let has_word = !line.trim().is_empty();
            if has_word && shown_width(&line) + 1 + shown_width(word) > width {
                lines.push(std::mem::replace(&mut line, format!("{indent}{word}")));
            } else {
                line.push(' ');
                line += word;
            }
        }
        lines.push(line);
        lines
    }

    /// The lines of a text, those that are too wide broken at blanks and indented as they begin.
    pub fn wrapped_lines(&self, text: &str) -> String {
        let mut out = String::new();
        for line in text.lines() {
            let indent = &line[..line.len() - line.trim_start().len()];
            for part in self.wrapped(line, indent) {
                out += part.trim_end();
                out.push('\n');
            }
        }
        out
    }

    /// A word that stands out where it may.
    pub fn bold(&self, text: &str) -> String {
        if self.colour { format!("\u{1b}[1m{text}\u{1b}[0m") } else { text.to_owned() }
    }

    fn cell(&self, text: Text) -> Cell {
        let cell = Cell::new(text.text);
        match text.style {
            _ if !self.colour => cell,
            Style::Plain => cell,
            Style::Bold => cell.add_attribute(Attribute::Bold),
            Style::Large => cell.fg(Color::Yellow).add_attribute(Attribute::Bold),
            Style::Worse => cell.fg(Color::Red),
            Style::Better => cell.fg(Color::Green),
        }
    }
}

/// The columns with the width of what is in them.
fn with_widths<'h>(columns: &[(&'h str, Column)], rows: &[Vec<Text>]) -> Vec<(&'h str, Column)> {
    let content = |index: usize, heading: &str| {
        let cells = rows.iter().filter_map(|row| row.get(index)).map(|cell| cell.text.chars().count());
        cells.chain([heading.chars().count()]).max().unwrap_or(0)
    };
    let fitted = |(index, &(heading, column)): (usize, &(&'h str, Column))| match column {
        Column::Text => (heading, Column::Text),
        Column::Fixed(_) => (heading, Column::Fixed(content(index, heading))),
        Column::Long(_) => (heading, Column::Long(content(index, heading))),
        Column::Number(_) => (heading, Column::Number(content(index, heading))),
    };
    columns.iter().enumerate().map(fitted).collect()
}

/// The least width of a table whose long text is cut to `most_of_long`.
fn least(columns: &[(&str, Column)], most_of_long: usize) -> usize {
    let width = |(_, column): &(&str, Column)| match column {
        Column::Text => TEXT_AT_LEAST + BETWEEN,
        Column::Long(width) => *width.min(&most_of_long) + BETWEEN,
        Column::Fixed(width) | Column::Number(width) => width + BETWEEN,
    };
    columns.iter().map(width).sum::<usize>().saturating_sub(BETWEEN)
}

/// Cuts text in columns of one line, the widest first, until the table fits or no text is left to cut; long text first of all, as far
/// as columns are hidden for it.
fn cut(columns: &mut [(&str, Column)], rows: &mut [Vec<Text>], width: usize) {
    let long = width / LONG_TEXT_OF_PAGE;
    loop {
        let excess = least(columns, usize::MAX).saturating_sub(width);
        let widest = columns.iter().enumerate().filter_map(|(index, (heading, column))| match column {
            Column::Fixed(width) | Column::Long(width) => {
                let is_too_long = matches!(column, Column::Long(_)) && *width > long;
                Some((is_too_long, *width, index))
                    .filter(|_| *width > CUT_AT_LEAST.max(heading.chars().count()))
            }
            Column::Text | Column::Number(_) => None,
        });
        let widest = widest.max_by_key(|&(is_too_long, width, _)| (is_too_long, width));
        let Some((is_too_long, most, index)) = widest.filter(|_| excess > 0) else { return };
        let (heading, column) = &mut columns[index];
        let least = if is_too_long { long } else { 0 };
        let room = most.saturating_sub(excess).max(least).max(CUT_AT_LEAST).max(heading.chars().count());
        *column = match column {
            Column::Long(_) => Column::Long(room),
            _ => Column::Fixed(room),
        };
        for cell in rows.iter_mut().filter_map(|row| row.get_mut(index)) {
            cell.text = shortened(&cell.text, room);
        }
    }
}

/// Text without its middle, if it is longer than `room`; what indents it stays.
pub fn shortened(text: &str, room: usize) -> String {
    let letters: Vec<char> = text.chars().collect();
    if letters.len() <= room {
        return text.to_owned();
    }
    let indent = letters.iter().take_while(|c| c.is_whitespace() || "│├└─".contains(**c)).count();
    let indent = indent.min(room.saturating_sub(CUT_AT_LEAST));
    let left = room - indent - 1;
    let (head, tail) = (indent + left / 2, left - left / 2);
    letters[..head].iter().chain(&['…']).chain(&letters[letters.len() - tail..]).collect()
}

/// The columns that text takes in a terminal, without what colours it.
fn shown_width(text: &str) -> usize {
    let mut in_escape = false;
    let is_shown = |c: &char| {
        let hidden = in_escape || *c == '\u{1b}';
        in_escape = hidden && *c != 'm';
        !hidden
    };
    text.chars().filter(is_shown).count()
}

/// The blanks after a column count as its width.
fn at_least(content: usize) -> ColumnConstraint {
    ColumnConstraint::LowerBoundary(Width::Fixed(u16::try_from(content + BETWEEN).unwrap_or(u16::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [(&str, Column); 2] = [("NAME", Column::Fixed(0)), ("WHO", Column::Text)];

    fn rows() -> Vec<Vec<String>> {
        vec![vec!["W".to_owned(), "0, 64, 128, 192, 256, 320".to_owned()]]
    }

    fn page(width: Option<u16>) -> Page {
        Page { width, colour: false }
    }

    #[test]
    fn without_a_terminal_nothing_is_cut() {
        let text = Page::default().fitted_table(&COLUMNS, rows(), &[]);
        assert_eq!(text, "NAME  WHO\nW     0, 64, 128, 192, 256, 320\n");
    }

    #[test]
    fn a_terminal_is_filled_and_not_exceeded() {
        let text = page(Some(22)).fitted_table(&COLUMNS, rows(), &[]);
        assert!(text.lines().all(|line| line.len() <= 22), "{text}");
        assert_eq!(text, "NAME  WHO\nW     0, 64, 128, 192,\n      256, 320\n");
    }

    #[test]
    fn columns_are_hidden_before_numbers_are_broken() {
        let columns = [("NAME", Column::Fixed(0)), ("TIME", Column::Number(0)), ("MORE", Column::Number(0))];
        let rows = || vec![vec!["MPI_Send".to_owned(), "0.123456".to_owned(), "123456789".to_owned()]];
        let all = "NAME          TIME       MORE\nMPI_Send  0.123456  123456789\n";
        assert_eq!(page(None).fitted_table(&columns, rows(), &["MORE"]), all);
        assert_eq!(page(Some(29)).fitted_table(&columns, rows(), &["MORE"]), all);
        let narrow = "NAME          TIME\nMPI_Send  0.123456\nHidden (terminal too\nnarrow): MORE.\n";
        assert_eq!(page(Some(28)).fitted_table(&columns, rows(), &["MORE"]), narrow);
    }

    #[test]
    fn a_name_is_cut_where_no_column_is_left_to_hide() {
        let columns = [("NAME", Column::Fixed(0)), ("TIME", Column::Number(0))];
        let rows = vec![vec!["W_s1.0_s2.0_s3.0_s4.0".to_owned(), "1.00 s".to_owned()]];
        assert_eq!(
            page(Some(20)).fitted_table(&columns, rows, &[]),
            "NAME            TIME\nW_s1.…0_s4.0  1.00 s\n"
        );
        assert_eq!(shortened("│  ├─ W_s1.0_s2.0_s3.0", 16), "│  ├─ W_s1…_s3.0");
        assert_eq!(shortened("W_s1.0", 6), "W_s1.0");
    }

    #[test]
    fn long_text_is_cut_before_columns_are_hidden() {
        let columns = [("AT", Column::Long(0)), ("CALLS", Column::Number(0)), ("MAX", Column::Number(0))];
        let rows = || {
            vec![vec!["exchange_corners at halo.cpp:93".to_owned(), "4000".to_owned(), "1.00 s".to_owned()]]
        };
        let all = "AT                     CALLS     MAX\nexchange_c…alo.cpp:93   4000  1.00 s\n";
        assert_eq!(page(Some(36)).fitted_table(&columns, rows(), &["MAX"]), all);
        // Below a third of the page a column gives way, and the text has its room.
        let narrow = "AT             CALLS\nexchan…cpp:93   4000\nHidden (terminal too\nnarrow): MAX.\n";
        assert_eq!(page(Some(20)).fitted_table(&columns, rows(), &["MAX"]), narrow);
    }

    #[test]
    fn text_breaks_at_blanks() {
        let text = "  one two three\nfour\n";
        assert_eq!(page(Some(9)).wrapped_lines(text), "  one two\n  three\nfour\n");
        assert_eq!(page(None).wrapped_lines(text), text);
        let coloured = Page { width: Some(3), colour: true };
        assert_eq!(coloured.wrapped(&format!("{} b", coloured.bold("a")), ""), ["\u{1b}[1ma\u{1b}[0m b"]);
    }

    #[test]
    fn headings_stand_out_only_where_they_may() {
        assert!(
            Page { width: Some(80), colour: true }.fitted_table(&COLUMNS, rows(), &[]).contains("\u{1b}[1m")
        );
        assert_eq!(Page::default().bold("x"), "x");
        let large = || vec![vec![Text::new("50.0", Style::Large)]];
        let columns = [("SHARE", Column::Number(0))];
        assert!(
            Page { width: None, colour: true }
                .fitted_table(&columns, large(), &[])
                .contains("\u{1b}[38;5;11m")
        );
        assert_eq!(Page::default().fitted_table(&columns, large(), &[]), "SHARE\n 50.0\n");
    }
}

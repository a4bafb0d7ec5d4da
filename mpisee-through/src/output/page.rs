//! Tables and text for people, fitted to a terminal.

use super::shorten::{CUT_AT_LEAST, shortened, shortened_list};
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
    /// The same of text that may be long: it is cut to a quarter of the page before other columns
    /// are hidden.
    Long(usize),
    /// The same of lists of communicators, which are cut first of all, to a fifth of the page.
    Comms(usize),
    /// A number, on the right, at least this wide.
    Number(usize),
}

impl Column {
    /// The width of text that may be cut.
    fn text_width(self) -> Option<usize> {
        match self {
            Column::Fixed(width) | Column::Long(width) | Column::Comms(width) => Some(width),
            Column::Text | Column::Number(_) => None,
        }
    }

    /// The same kind of column, at least this wide.
    fn with_width(self, width: usize) -> Self {
        match self {
            Column::Text => Column::Text,
            Column::Fixed(_) => Column::Fixed(width),
            Column::Long(_) => Column::Long(width),
            Column::Comms(_) => Column::Comms(width),
            Column::Number(_) => Column::Number(width),
        }
    }
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

/// Columns that a narrow page hides, all of them at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hideable<'h> {
    /// Their indices.
    pub columns: Vec<usize>,
    /// Their name in the line on hidden columns.
    pub name: &'h str,
}

impl<'h> Hideable<'h> {
    /// The columns of these headings, each by itself; those that the table does not have are left
    /// out.
    pub fn each(headings: &[&'h str], columns: &[(&str, Column)]) -> Vec<Self> {
        let of = |&name: &&'h str| {
            let index = columns.iter().position(|(heading, _)| *heading == name)?;
            Some(Hideable { columns: vec![index], name })
        };
        headings.iter().filter_map(of).collect()
    }
}

/// The smallest width of a column of wrapped text.
const TEXT_AT_LEAST: usize = 12;
/// The part of the page that long text may take while columns are hidden for it, as a divisor.
const LONG_TEXT_OF_PAGE: usize = 4;
/// The same of lists of communicators.
const COMMS_OF_PAGE: usize = 5;
/// Lists of communicators are not cut further before columns are hidden: `W…*…0 (2 × 2) +1`.
const COMMS_AT_LEAST: usize = 16;
/// The blanks between columns.
const BETWEEN: usize = 2;

impl Page {
    /// A table without rules: `columns` under their headings, two blanks between; a row is one
    /// line, unless a column of wrapped text makes it several.
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
                Column::Fixed(width) | Column::Long(width) | Column::Comms(width) => {
                    column.set_constraint(at_least(*width));
                }
                Column::Number(width) => {
                    column.set_constraint(at_least(*width)).set_cell_alignment(CellAlignment::Right);
                }
            }
        }
        table.lines().map(|line| line.trim_end().to_owned()).collect()
    }

    /// A table in which no number is wrapped. If the page is too narrow, long text is cut first, as
    /// far as [`Column::Long`] says. Then the `optional` columns are hidden in this order, with a
    /// line that names them, and then text is cut further.
    pub fn fitted_table<T: Into<Text>>(
        &self,
        columns: &[(&str, Column)],
        rows: Vec<Vec<T>>,
        optional: &[Hideable<'_>],
    ) -> String {
        let (lines, hidden) = self.fitted_lines(columns, rows, optional);
        lines.into_iter().chain(self.hidden(&hidden)).map(|line| line + "\n").collect()
    }

    /// The lines of [`Page::fitted_table`], its headings first, and the names of the columns that
    /// are hidden.
    pub fn fitted_lines<'h, T: Into<Text>>(
        &self,
        columns: &[(&str, Column)],
        rows: Vec<Vec<T>>,
        optional: &[Hideable<'h>],
    ) -> (Vec<String>, Vec<&'h str>) {
        let mut rows: Vec<Vec<Text>> =
            rows.into_iter().map(|row| row.into_iter().map(Into::into).collect()).collect();
        let all = with_widths(columns, &rows);
        let mut names = Vec::new();
        let Some(width) = self.width.map(usize::from) else { return (self.lines(&all, rows), names) };
        let mut is_shown = vec![true; all.len()];
        let shown = |is_shown: &[bool]| -> Vec<(&str, Column)> {
            all.iter().zip(is_shown).filter(|(_, is_shown)| **is_shown).map(|(column, _)| *column).collect()
        };
        for Hideable { columns, name } in optional {
            if least(&shown(&is_shown), width) <= width {
                break;
            }
            columns.iter().for_each(|&index| is_shown[index] = false);
            names.push(*name);
        }
        let mut columns = shown(&is_shown);
        for row in &mut rows {
            let mut is_shown = is_shown.iter();
            row.retain(|_| is_shown.next().copied().unwrap_or(true));
        }
        cut(&mut columns, &mut rows, width);
        (self.lines(&columns, rows), names)
    }

    /// The lines that name the columns that are hidden.
    pub fn hidden(&self, names: &[&str]) -> Vec<String> {
        if names.is_empty() {
            return Vec::new();
        }
        self.wrapped(&format!("Hidden (terminal too narrow): {}.", names.join(", ")), "")
    }

    /// Text in lines no wider than the page, broken at blanks; `indent` begins all lines but the
    /// first.
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
    let fitted = |(index, &(heading, column)): (usize, &(&'h str, Column))| {
        (heading, column.with_width(content(index, heading)))
    };
    columns.iter().enumerate().map(fitted).collect()
}

/// The width to which a column is cut before others are hidden; none if it is not.
fn cut_first_to(column: Column, page: usize) -> Option<usize> {
    match column {
        Column::Long(_) => Some((page / LONG_TEXT_OF_PAGE).max(CUT_AT_LEAST)),
        Column::Comms(_) => Some((page / COMMS_OF_PAGE).max(COMMS_AT_LEAST)),
        Column::Text | Column::Fixed(_) | Column::Number(_) => None,
    }
}

/// The least width of a table whose long text is cut as far as it is before columns are hidden on
/// such a page.
fn least(columns: &[(&str, Column)], page: usize) -> usize {
    let width = |&(heading, column): &(&str, Column)| match column {
        Column::Text => TEXT_AT_LEAST + BETWEEN,
        Column::Long(width) | Column::Comms(width) => {
            let cut = cut_first_to(column, page).unwrap_or(width).max(heading.chars().count());
            width.min(cut) + BETWEEN
        }
        Column::Fixed(width) | Column::Number(width) => width + BETWEEN,
    };
    columns.iter().map(width).sum::<usize>().saturating_sub(BETWEEN)
}

/// Cuts text in columns of one line until the table fits or no text is left to cut. Lists of
/// communicators and then long text come first of all, as far as they are cut before columns are
/// hidden; then the widest text.
fn cut(columns: &mut [(&str, Column)], rows: &mut [Vec<Text>], page: usize) {
    let before: Vec<Column> = columns.iter().map(|(_, column)| *column).collect();
    while least(columns, usize::MAX) > page {
        let widest = columns.iter().enumerate().filter_map(|(index, &(heading, column))| {
            let width = column.text_width()?;
            let is_too_long = cut_first_to(column, page).is_some_and(|most| width > most);
            let first = u8::from(is_too_long) + u8::from(is_too_long && matches!(column, Column::Comms(_)));
            (width > CUT_AT_LEAST.max(heading.chars().count())).then_some((first, width, index))
        });
        let Some((_, width, index)) = widest.max() else { break };
        columns[index].1 = columns[index].1.with_width(width - 1);
    }
    for (index, (&(_, column), before)) in columns.iter().zip(before).enumerate() {
        let Some(room) = column.text_width().filter(|_| column != before) else { continue };
        let shorten = if matches!(column, Column::Comms(_)) { shortened_list } else { shortened };
        for cell in rows.iter_mut().filter_map(|row| row.get_mut(index)) {
            cell.text = shorten(&cell.text, room);
        }
    }
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
        let more = Hideable::each(&["MORE"], &columns);
        let all = "NAME          TIME       MORE\nMPI_Send  0.123456  123456789\n";
        assert_eq!(page(None).fitted_table(&columns, rows(), &more), all);
        assert_eq!(page(Some(29)).fitted_table(&columns, rows(), &more), all);
        let narrow = "NAME          TIME\nMPI_Send  0.123456\nHidden (terminal too\nnarrow): MORE.\n";
        assert_eq!(page(Some(28)).fitted_table(&columns, rows(), &more), narrow);
    }

    #[test]
    fn a_name_is_cut_where_no_column_is_left_to_hide() {
        let columns = [("NAME", Column::Fixed(0)), ("TIME", Column::Number(0))];
        let rows = vec![vec!["W_s1.0_s2.0_s3.0_s4.0".to_owned(), "1.00 s".to_owned()]];
        assert_eq!(
            page(Some(20)).fitted_table(&columns, rows, &[]),
            "NAME            TIME\nW_s1.…0_s4.0  1.00 s\n"
        );
    }

    #[test]
    fn long_text_is_cut_before_columns_are_hidden() {
        let columns = [("AT", Column::Long(0)), ("CALLS", Column::Number(0)), ("MAX", Column::Number(0))];
        let rows = || {
            vec![vec!["exchange_corners at halo.cpp:93".to_owned(), "4000".to_owned(), "1.00 s".to_owned()]]
        };
        let max = Hideable::each(&["MAX"], &columns);
        let all = "AT                     CALLS     MAX\nexchange_c…alo.cpp:93   4000  1.00 s\n";
        assert_eq!(page(Some(36)).fitted_table(&columns, rows(), &max), all);
        // Below a quarter of the page a column gives way, and the text has its room.
        let narrow = "AT             CALLS\nexchan…cpp:93   4000\nHidden (terminal too\nnarrow): MAX.\n";
        assert_eq!(page(Some(20)).fitted_table(&columns, rows(), &max), narrow);
    }

    #[test]
    fn both_ends_of_an_interval_are_hidden_at_once() {
        let columns = [("TIME", Column::Number(0)), ("from", Column::Number(0)), ("to", Column::Number(0))];
        let rows = || vec![["1.00 s", "900 ms", "1.10 s"].map(str::to_owned).to_vec()];
        let interval = [Hideable { columns: vec![1, 2], name: "interval" }];
        let all = "  TIME    from      to\n1.00 s  900 ms  1.10 s\n";
        assert_eq!(page(Some(22)).fitted_table(&columns, rows(), &interval), all);
        let narrow = "  TIME\n1.00 s\nHidden (terminal too\nnarrow): interval.\n";
        assert_eq!(page(Some(21)).fitted_table(&columns, rows(), &interval), narrow);
    }

    #[test]
    fn lists_of_communicators_are_cut_before_columns_are_hidden() {
        let columns = [("COMM", Column::Comms(0)), ("MAX", Column::Number(0))];
        let comms = "W_s1.0_s1.*_s1.0_s3.0 (2 × 2), W_s1.0_s1.*_s1.0_s5.0 (2 × 2)";
        let rows = || vec![vec![comms.to_owned(), "1.00 s".to_owned()]];
        let max = Hideable::each(&["MAX"], &columns);
        let cut = "COMM                          MAX\nW_s…*…3.0 (2 × 2), 1 more  1.00 s\n";
        assert_eq!(page(Some(33)).fitted_table(&columns, rows(), &max), cut);
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

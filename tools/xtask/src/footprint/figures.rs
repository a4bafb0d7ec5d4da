//! The figures of calls, and the file that holds them.

use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

const HEADER: &str = "flavour,operation,instructions,code_lines,data_lines,pages";

/// An operation with an MPI.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OperationOfMpi {
    pub flavour: String,
    pub operation: String,
}

/// Growth of a figure that passes in any case: where the heap and the stack begin differs from run
/// to run.
const SLACK: u64 = 5;

/// The use of instructions, lines and pages by the library during an operation, where MPI does not
/// use them, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figure {
    pub instructions: u64,
    /// Cache lines of instructions, 64 bytes each.
    pub code_lines: u64,
    /// Cache lines of data.
    pub data_lines: u64,
    /// Pages of either, 4 KiB each.
    pub pages: u64,
}

impl Figure {
    /// The figures that a limit holds for. Lines of code and data are one: a change may turn one
    /// into the other.
    fn limited(&self) -> [(&'static str, u64); 3] {
        [
            ("instructions", self.instructions),
            ("lines", self.code_lines + self.data_lines),
            ("pages", self.pages),
        ]
    }
}

pub type Figures = BTreeMap<OperationOfMpi, Figure>;

/// Prints the figures beside those that hold.
pub fn print(found: &Figures, held: &Figures) {
    println!(
        "{:<14} {:<34} {:>17} {:>13} {:>13} {:>11}",
        "flavour", "operation", "instructions", "code lines", "data lines", "pages"
    );
    let beside = |now: u64, before: Option<u64>| match before {
        Some(before) if before != now => format!("{now} ({before})"),
        _ => now.to_string(),
    };
    for (key, now) in found {
        let before = held.get(key);
        println!(
            "{:<14} {:<34} {:>17} {:>13} {:>13} {:>11}",
            key.flavour,
            key.operation,
            beside(now.instructions, before.map(|it| it.instructions)),
            beside(now.code_lines, before.map(|it| it.code_lines)),
            beside(now.data_lines, before.map(|it| it.data_lines)),
            beside(now.pages, before.map(|it| it.pages)),
        );
    }
}

/// The operations with figures that are by more than a margin, and more than five, above those that
/// hold, and a sentence on each.
pub fn grown<'f>(
    found: &'f Figures,
    held: &Figures,
    margin_percent: f64,
) -> BTreeMap<&'f OperationOfMpi, Vec<String>> {
    let mut grown: BTreeMap<_, Vec<String>> = BTreeMap::new();
    for (key, now) in found {
        let Some(before) = held.get(key) else { continue };
        for ((unit, now), (_, before)) in now.limited().into_iter().zip(before.limited()) {
            if now > before + SLACK && now as f64 > before as f64 * (1.0 + margin_percent / 100.0) {
                let sentence =
                    format!("{} ({}): {now} {unit} instead of {before}", key.operation, key.flavour);
                grown.entry(key).or_default().push(sentence);
            }
        }
    }
    grown
}

/// The figures of these MPIs that are in one of the two alone.
pub fn unmatched(found: &Figures, held: &Figures) -> Vec<String> {
    let is_counted = |key: &&OperationOfMpi| found.keys().any(|other| other.flavour == key.flavour);
    let lost = held.keys().filter(is_counted).filter(|key| !found.contains_key(key));
    let new = found.keys().filter(|key| !held.contains_key(key));
    lost.chain(new).map(|key| format!("{} ({})", key.operation, key.flavour)).collect()
}

/// Reads the file; none is empty.
pub fn read(path: &Path) -> Result<Figures> {
    if !path.exists() {
        return Ok(Figures::new());
    }
    let text = std::fs::read_to_string(path)?;
    text.lines()
        .skip(1)
        .map(row)
        .collect::<Result<_>>()
        .with_context(|| format!("reading {}", path.display()))
}

fn row(line: &str) -> Result<(OperationOfMpi, Figure)> {
    // An operation may have commas in its name, the others have none.
    let (flavour, rest) = line.split_once(',').context("a row of one column")?;
    let mut columns = rest.rsplitn(5, ',');
    let mut number = || {
        let text = columns.next().context("a row that is cut off")?;
        text.parse().with_context(|| format!("'{text}' is no number"))
    };
    let (pages, data_lines, code_lines, instructions) = (number()?, number()?, number()?, number()?);
    let operation = columns.next().context("a row without operation")?.trim_matches('"').to_owned();
    let key = OperationOfMpi { flavour: flavour.to_owned(), operation };
    Ok((key, Figure { instructions, code_lines, data_lines, pages }))
}

/// Writes the file.
pub fn write(path: &Path, figures: &Figures) -> Result<()> {
    let mut text = format!("{HEADER}\n");
    for (OperationOfMpi { flavour, operation }, figure) in figures {
        let Figure { instructions, code_lines, data_lines, pages } = figure;
        writeln!(text, "{flavour},\"{operation}\",{instructions},{code_lines},{data_lines},{pages}")?;
    }
    Ok(std::fs::write(path, text)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(instructions: u64, code_lines: u64) -> Figures {
        let key = OperationOfMpi { flavour: "mpich-4.0".to_owned(), operation: "Irecv, Isend".to_owned() };
        [(key, Figure { instructions, code_lines, data_lines: 13, pages: 7 })].into()
    }

    #[test]
    fn figures_are_read_as_they_were_written() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("footprint.csv");
        write(&file, &one(176, 17)).unwrap();
        assert!(read(&file).unwrap() == one(176, 17));
    }

    #[test]
    fn figures_that_come_or_go_are_named() {
        let other = |flavour: &str| {
            let (_, figure) = one(1, 1).pop_first().unwrap();
            Figures::from([(
                OperationOfMpi { flavour: flavour.to_owned(), operation: "Test".to_owned() },
                figure,
            )])
        };
        assert_eq!(
            unmatched(&one(1, 1), &other("mpich-4.0")),
            ["Test (mpich-4.0)", "Irecv, Isend (mpich-4.0)"]
        );
        assert_eq!(unmatched(&one(1, 1), &other("openmpi-4.1")), ["Irecv, Isend (mpich-4.0)"]);
    }

    #[test]
    fn growth_within_the_margin_and_by_some_lines_passes() {
        assert!(grown(&one(193, 19), &one(176, 17), 10.0).is_empty());
    }

    #[test]
    fn growth_beyond_the_margin_is_told_with_both_figures() {
        let found = one(194, 26);
        let grown = grown(&found, &one(176, 17), 10.0);
        let [(operation, sentences)] = Vec::from_iter(&grown).try_into().unwrap();
        assert_eq!(operation.operation, "Irecv, Isend");
        assert_eq!(
            *sentences,
            [
                "Irecv, Isend (mpich-4.0): 194 instructions instead of 176",
                "Irecv, Isend (mpich-4.0): 39 lines instead of 30"
            ]
        );
    }
}

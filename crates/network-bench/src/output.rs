//! Results as a table, CSV and JSON.

use crate::memory::MemoryKind;
use crate::statistics::Summary;
use serde::Serialize;
use std::fmt::Write;

/// The forms of results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For people
    #[default]
    Table,
    /// A header and a line per measurement, times in seconds
    Csv,
    /// A list of objects, times in seconds
    Json,
}

/// One measurement.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measurement {
    /// The pattern.
    pub pattern: String,
    /// The backend that carried it out.
    pub backend: String,
    /// The kind of memory of its buffers.
    pub memory: MemoryKind,
    /// The ranks that have a part in it.
    pub ranks: u32,
    /// The size that was asked for.
    pub bytes: u64,
    /// The bytes that one run of the pattern moves in all.
    pub moved_bytes: u64,
    /// The parts that the times are of: 2 of a message there and back.
    pub parts: u32,
    /// How often it was measured.
    pub repetitions: u32,
    /// Runs of the pattern in each repetition.
    pub iterations: u32,
    /// True if a run of its own has shown that all bytes arrive.
    pub verified: bool,
    /// Times of a part, on the rank that took longest.
    #[serde(flatten)]
    pub time: Summary,
    /// The time of a part as a mean over the ranks that have a part in the pattern; the median of
    /// the repetitions.
    pub ranks_mean_s: f64,
    /// Bytes per second, from the median.
    pub bytes_per_s: f64,
    /// Bytes per second of the fastest repetition.
    pub best_bytes_per_s: f64,
}

impl Measurement {
    /// Bandwidth at a time of a part.
    pub fn rate(moved_bytes: u64, parts: u32, part_s: f64) -> f64 {
        if part_s > 0.0 { moved_bytes as f64 / (part_s * f64::from(parts)) } else { 0.0 }
    }
}

const COLUMNS: &str = "pattern,backend,memory,ranks,bytes,moved_bytes,parts,repetitions,iterations,verified,min_s,quarter_s,\
                       median_s,three_quarters_s,max_s,ranks_mean_s,bytes_per_s,best_bytes_per_s";

/// The results in that form.
pub fn text(measurements: &[Measurement], format: Format) -> String {
    match format {
        Format::Table => table(measurements),
        Format::Csv => csv(measurements),
        Format::Json => {
            serde_json::to_string_pretty(measurements).expect("numbers and texts are JSON") + "\n"
        }
    }
}

fn csv(measurements: &[Measurement]) -> String {
    let mut text = format!("{COLUMNS}\n");
    for it in measurements {
        let Measurement { pattern, backend, memory, ranks, bytes, moved_bytes, parts, repetitions, .. } = it;
        let _ = write!(text, "{},{backend},{memory},{ranks},{bytes}", quoted(pattern));
        let _ = write!(text, ",{moved_bytes},{parts},{repetitions}");
        let _ = write!(text, ",{},{}", it.iterations, it.verified);
        let time = it.time;
        for time_s in
            [time.min_s, time.quarter_s, time.median_s, time.three_quarters_s, time.max_s, it.ranks_mean_s]
        {
            let _ = write!(text, ",{time_s:.12}");
        }
        let _ = writeln!(text, ",{:.0},{:.0}", it.bytes_per_s, it.best_bytes_per_s);
    }
    text
}

/// A field of CSV: a pattern is called like its file, which may have any name.
fn quoted(field: &str) -> String {
    let is_plain = !field.contains([',', '"', '\n', '\r']);
    if is_plain { field.to_owned() } else { format!("\"{}\"", field.replace('"', "\"\"")) }
}

fn table(measurements: &[Measurement]) -> String {
    let heads =
        ["PATTERN", "BACKEND", "MEMORY", "RANKS", "Size", "Time µs", "Min", "Spread %", "GB/s", "Best"];
    let row = |it: &Measurement| {
        [
            it.pattern.clone(),
            it.backend.clone(),
            it.memory.to_string(),
            it.ranks.to_string(),
            size(it.bytes),
            digits(it.time.median_s * 1e6),
            digits(it.time.min_s * 1e6),
            format!("{:.1}", 100.0 * it.time.spread()),
            digits(it.bytes_per_s / 1e9),
            digits(it.best_bytes_per_s / 1e9),
        ]
    };
    let (heads, rows) = (heads.map(str::to_owned), measurements.iter().map(row));
    match measurements.iter().all(|it| it.memory == MemoryKind::Host) {
        true => aligned(&without_memory(heads), rows.map(without_memory), 2),
        false => aligned(&heads, rows, 3),
    }
}

/// A line of the table without the kind of memory, which most measurements have no other one of.
fn without_memory([pattern, backend, _, ranks, rest @ ..]: [String; 10]) -> [String; 9] {
    let [size, time, min, spread, rate, best] = rest;
    [pattern, backend, ranks, size, time, min, spread, rate, best]
}

/// Lines in which columns begin, or from column `numbers_from` on end, below each other.
pub fn aligned<const COLUMNS: usize>(
    heads: &[String; COLUMNS],
    rows: impl Iterator<Item = [String; COLUMNS]>,
    numbers_from: usize,
) -> String {
    let lines: Vec<[String; COLUMNS]> = std::iter::once(heads.clone()).chain(rows).collect();
    let width =
        |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or_default();
    let widths: Vec<usize> = (0..COLUMNS).map(width).collect();
    let mut text = String::new();
    for line in &lines {
        let cells = line.iter().zip(&widths).enumerate().map(|(column, (cell, &width))| {
            if column < numbers_from { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        text += cells.collect::<Vec<_>>().join("  ").trim_end();
        text.push('\n');
    }
    text
}

/// A number with three significant digits.
pub fn digits(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        small if small < 0.000_999_5 => format!("{value:.2e}"),
        small if small < 0.009_995 => format!("{value:.5}"),
        small if small < 0.099_95 => format!("{value:.4}"),
        small if small < 0.999_5 => format!("{value:.3}"),
        small if small < 9.995 => format!("{value:.2}"),
        middling if middling < 99.95 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// A size with the unit that fits: exact where it is a multiple.
pub fn size(bytes: u64) -> String {
    const UNITS: [(&str, u64); 3] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    match UNITS.into_iter().find(|&(_, unit)| bytes >= unit) {
        Some((name, unit)) if bytes.is_multiple_of(unit) => format!("{} {name}", bytes / unit),
        Some((name, unit)) => format!("{} {name}", digits(bytes as f64 / unit as f64)),
        None => format!("{bytes} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measurement() -> Measurement {
        let time = Summary::from_times(&[2e-6, 2e-6, 3e-6]);
        Measurement {
            pattern: "a, b".to_owned(),
            backend: "isend".to_owned(),
            memory: MemoryKind::Host,
            ranks: 2,
            bytes: 65536,
            moved_bytes: 131_072,
            parts: 2,
            repetitions: 3,
            iterations: 10,
            verified: true,
            time,
            ranks_mean_s: 1.5e-6,
            bytes_per_s: Measurement::rate(131_072, 2, time.median_s),
            best_bytes_per_s: Measurement::rate(131_072, 2, time.min_s),
        }
    }

    #[test]
    fn tables_have_microseconds_and_gigabytes_per_second() {
        let table = text(&[measurement()], Format::Table);
        assert_eq!(
            table,
            "PATTERN  BACKEND  RANKS    Size  Time µs   Min  Spread %  GB/s  Best\n\
             a, b     isend        2  64 KiB     2.00  2.00      25.0  32.8  32.8\n"
        );
        let of_gpu = Measurement { memory: MemoryKind::Device, ..measurement() };
        assert_eq!(
            text(&[of_gpu], Format::Table),
            "PATTERN  BACKEND  MEMORY  RANKS    Size  Time µs   Min  Spread %  GB/s  Best\n\
             a, b     isend    device      2  64 KiB     2.00  2.00      25.0  32.8  32.8\n"
        );
    }

    #[test]
    fn csv_and_json_have_the_same_columns() {
        let csv = text(&[measurement()], Format::Csv);
        let [head, line] = csv.lines().collect::<Vec<_>>()[..] else { panic!("{csv}") };
        assert!(line.starts_with("\"a, b\",isend,host,2,65536,131072,2,3,10,true,0.000002000000,"), "{line}");
        let json: serde_json::Value = serde_json::from_str(&text(&[measurement()], Format::Json)).unwrap();
        let names: Vec<&str> = json[0].as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(names.join(","), head);
    }

    #[test]
    fn numbers_have_three_digits() {
        let all = [0.0, 0.000123, 0.00123, 0.0123, 0.123, 1.234, 12.34, 123.4, 1234.5];
        let shown = ["0", "1.23e-4", "0.00123", "0.0123", "0.123", "1.23", "12.3", "123", "1234"];
        assert_eq!(all.map(digits), shown);
        assert_eq!([1, 1023, 1024, 1536, 4 << 20].map(size), ["1 B", "1023 B", "1 KiB", "1.50 KiB", "4 MiB"]);
    }
}

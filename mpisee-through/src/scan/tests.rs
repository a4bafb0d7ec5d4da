//! The scanner against the csv crate, on random tables, and where rows go wrong.

use super::*;
use crate::load;
use mpisee_profile::rows::{CallRow, Memory, Row, Seconds};
use mpisee_profile::writer::{ProfileWriter, to_csv};
use mpisee_profile::{FORMAT_VERSION, RunInfo, SiteId};
use proptest::prelude::*;

/// Keeps all rows.
#[derive(Default)]
struct Kept(Vec<CallRow>);

impl Fold<Call<'static>> for Kept {
    fn row(&mut self, row: &Call<'_>) -> Result<(), BadField> {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let seconds = |nanoseconds: u64| Seconds(nanoseconds as f64 / 1e9);
        self.0.push(CallRow {
            comm: text(row.comm),
            rank: row.rank,
            region: text(row.region),
            call: text(row.call),
            size_min: row.size_min,
            size_max: row.size_max,
            memory: row.memory,
            site: Some(text(row.site)).filter(|site| !site.is_empty()).map(|site| site.parse().unwrap()),
            calls: row.calls,
            bytes: row.bytes,
            time_s: seconds(row.time_ns),
            min_s: seconds(row.min_ns),
            max_s: seconds(row.max_ns),
            time_error_s: None,
        });
        Ok(())
    }
}

fn profile_of(calls: &[u8]) -> (tempfile::TempDir, Profile) {
    let scratch = tempfile::tempdir().unwrap();
    let writer = ProfileWriter::create(&scratch.path().join("app.mpisee")).unwrap();
    let directory = writer.finish(&RunInfo { format_version: FORMAT_VERSION, ..RunInfo::default() }).unwrap();
    std::fs::write(directory.join("calls.csv"), calls).unwrap();
    let profile = load::open(&directory).unwrap();
    (scratch, profile)
}

/// Removes columns from a line without quotation marks.
fn without(columns: &[&str], line: &str) -> String {
    let is_kept = |&(place, _): &(usize, &str)| !columns.contains(&CallRow::columns()[place]);
    let others = line.split(',').enumerate().filter(is_kept);
    others.map(|(_, field)| field).collect::<Vec<_>>().join(",")
}

fn with_header(rows: &[u8]) -> Vec<u8> {
    [CallRow::columns().join(",").as_bytes(), b"\n", rows].concat()
}

/// The rows of all threads, in the order of their numbers of calls.
fn scanned(calls: &[u8]) -> (Vec<CallRow>, Option<String>) {
    let (_scratch, profile) = profile_of(calls);
    let Scanned { folds, cut_off } = scan::<Call, Kept>(&profile, Kept::default).unwrap();
    let mut rows: Vec<CallRow> = folds.into_iter().flat_map(|fold| fold.0).collect();
    rows.sort_by_key(|row| row.calls);
    (rows, cut_off.map(|error| error.to_string()))
}

fn row(calls: u64, comm: &str, region: &str) -> CallRow {
    CallRow {
        comm: comm.to_owned(),
        rank: 3,
        region: region.to_owned(),
        call: "MPI_Send".to_owned(),
        size_min: 64,
        size_max: 127,
        memory: Memory::Device,
        site: None,
        calls,
        bytes: u64::MAX - calls,
        time_s: Seconds(0.25),
        min_s: Seconds(0.0),
        max_s: Seconds(0.125),
        time_error_s: None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_in_quotes_is_read_as_written(
        names in proptest::collection::vec(("[a\",\n\r ]{0,6}", "[b\"\n]{0,5}"), 0..40)
    ) {
        let rows: Vec<CallRow> = names
            .iter()
            .zip(1..)
            .map(|((comm, region), calls)| row(calls, &format!("c{comm}"), region))
            .collect();
        prop_assert_eq!(scanned(&with_header(&to_csv(&rows))), (rows, None));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_quick_way_and_the_general_one_read_the_same(
        numbers in proptest::collection::vec(
            (any::<u32>(), any::<u64>(), 0..1u64 << 62, 0..4usize, "[a-z/ü]{0,9}"), 0..30
        )
    ) {
        let rows: Vec<CallRow> = numbers
            .iter()
            .zip(1..)
            .map(|((rank, bytes, nanoseconds, memory, region), calls)| CallRow {
                rank: *rank,
                bytes: *bytes,
                // What a number of 53 bits has of it, so that it can be compared.
                time_s: Seconds((nanoseconds >> 10) as f64 / 1e9),
                memory: [Memory::Host, Memory::Device, Memory::Managed, Memory::Pinned][*memory],
                site: (*memory > 0).then(|| SiteId::new("app", "", 0, *bytes)),
                time_error_s: (*memory > 1).then_some(Seconds(0.000_003)),
                ..row(calls, "W", region)
            })
            .collect();
        let text = String::from_utf8(with_header(&to_csv(&rows))).unwrap();
        // A further column is never written, so that each record is read by its header.
        let further: String =
            text.lines().zip(["new"].into_iter().chain(std::iter::repeat("7"))).map(|(line, new)| {
                format!("{line},{new}\n")
            }).collect();
        prop_assert_eq!(scanned(text.as_bytes()), scanned(further.as_bytes()));
        // Before there were sites, and in a wider table.
        let before_errors = text.lines().map(|line| without(&["time_error_s"], line) + "\n").collect::<String>();
        prop_assert_eq!(scanned(before_errors.as_bytes()), scanned(text.as_bytes()));
        let older: Vec<String> = text.lines().map(|line| without(&["site", "time_error_s"], line)).collect();
        let wider = older.iter().map(|line| format!("{line},{line}")).collect::<Vec<_>>().join("\n") + "\n";
        let older = older.join("\n") + "\n";
        prop_assert_eq!(scanned(older.as_bytes()), scanned(wider.as_bytes()));
        prop_assert!(scanned(older.as_bytes()).0.iter().all(|row| row.site.is_none()));
        let (found, cut_off) = scanned(text.as_bytes());
        prop_assert_eq!(cut_off, None);
        let plain = |row: &CallRow| (row.rank, row.bytes, row.memory, row.site, row.region.clone());
        prop_assert_eq!(found.iter().map(plain).collect::<Vec<_>>(), rows.iter().map(plain).collect::<Vec<_>>());
        let near = |(one, other): (&CallRow, &CallRow)| (one.time_s.0 - other.time_s.0).abs() < 1e-5;
        prop_assert!(found.iter().zip(&rows).all(near));
    }
}

#[test]
fn blocks_end_between_records_on_all_cores() {
    // Several blocks, with line feeds in quotes all over.
    let rows: Vec<CallRow> =
        (1..60_000).map(|calls| row(calls, "W", ["x\n\"y\",\n", "", "solver"][calls as usize % 3])).collect();
    let text = with_header(&to_csv(&rows));
    assert!(text.len() > 3 << 20);
    let (found, cut_off) = scanned(&text);
    assert!(found == rows);
    assert_eq!(cut_off, None);
}

#[test]
fn rows_before_the_first_error_are_all_there_is() {
    let mut rows: Vec<CallRow> = (1..60_000).map(|calls| row(calls, "W", "a\nb")).collect();
    let good = rows.len() / 2;
    let text = [
        with_header(&to_csv(&rows[..good])),
        b"W,0,,MPI_Send,1,1,host,,1,1,0.000000000,0.000000000,wrong,\n".to_vec(),
        to_csv(&rows[good..]),
        b"W,0,,MPI_Send\n".to_vec(),
    ]
    .concat();
    let (found, cut_off) = scanned(&text);
    rows.truncate(good);
    assert!(found == rows, "{}", found.len());
    let line = 2 + 2 * good;
    let expected = format!("calls.csv', line {line}: column 'max_s': 'wrong' is not a number");
    assert!(cut_off.unwrap().ends_with(&expected));
}

#[test]
fn errors_name_line_and_column() {
    const ROW: &str = "W,0,,MPI_Send,1,1,host,0000000000ab,1,1,0.000000000,0.000000000,0.000000000,\n";
    for (from, to, said) in [
        ("W,0", "W,4294967296", "line 3: column 'rank': '4294967296' is not a rank"),
        ("1,1,host", "1,-1,host", "line 3: column 'size_max': '-1' is not a whole number"),
        ("1,1,host", "1,1,hots", "line 3: column 'memory': 'hots' is not host, device, managed or pinned"),
        ("ab,1", "ab,18446744073709551616", "column 'calls': '18446744073709551616' is beyond 2^64"),
        ("ab,1", "ab,", "column 'calls': '' is not a whole number"),
        (",0.000000000,\n", ",\n", "line 3: the row has 13 fields instead of 14; the file may be cut off"),
        (",0.000000000,\n", ",0.0000", "line 3: the row has no end; the file may be cut off"),
        ("MPI_Send", "\"MPI_Send", "line 3: a quotation mark is opened and never closed"),
        ("MPI_Send", "\"MPI\"_Send", "line 3: a closing quotation mark is not at the end of its field"),
    ] {
        assert!(ROW.contains(from));
        let (rows, cut_off) = scanned(&with_header([ROW, &ROW.replacen(from, to, 1)].concat().as_bytes()));
        assert_eq!(rows.len(), 1, "{to}");
        let cut_off = cut_off.unwrap();
        assert!(cut_off.contains(said), "{to}: {cut_off}");
    }
}

#[test]
fn other_ways_to_write_a_table_are_read() {
    let columns: Vec<&str> = CallRow::columns().iter().copied().rev().collect();
    let text = format!(
        "\u{feff}new,{}\r\n\r\nx,,0.5,0.25,1e-3,7,1,0000000000ab,host,1,1,\"MPI_Send\",,9,W\r\n\n",
        columns.join(",")
    );
    let (rows, cut_off) = scanned(text.as_bytes());
    assert_eq!(cut_off, None);
    assert_eq!(rows.len(), 1);
    assert_eq!((rows[0].comm.as_str(), rows[0].rank, rows[0].bytes), ("W", 9, 7));
    assert_eq!((rows[0].time_s.0, rows[0].max_s.0), (0.001, 0.5));
    assert_eq!((rows[0].call.as_str(), rows[0].site), ("MPI_Send", "0000000000ab".parse().ok()));
    assert_eq!(scanned(&with_header(b"")), (vec![], None));
}

//! Whose memory it is: what one rank mapped by CUDA IPC, another exported. The handle is the same bytes on both sides,
//! so that nobody needs to be asked while the program runs.

use super::Part;
use crate::rows::{BinaryRow, GpuRow};
use std::collections::{BTreeSet, HashMap};

/// The rows of all ranks, with the owner of each; and the notes.
///
/// An allocation that was exported by several names is the last's. A handle that nobody exported leaves the owner open:
/// it may be a process without the profiler.
pub fn join(parts: Vec<Part>) -> (Vec<GpuRow>, Vec<String>) {
    let mut owners = HashMap::new();
    let mut rows = Vec::new();
    let mut notes = Vec::new();
    for part in parts {
        match part {
            Part::Row(row, handle) => rows.push((row, handle)),
            Part::Export { handle, rank, device, object } => {
                owners.insert(handle, (rank, device, object));
            }
            Part::Note(note) => notes.push(note),
            Part::Binary(_) => {}
        }
    }
    let mut orphans = 0u64;
    let rows: Vec<GpuRow> = rows
        .into_iter()
        .map(|(mut row, handle)| {
            if handle.is_empty() {
                return row;
            }
            match owners.get(&handle) {
                Some((rank, device, object)) => {
                    row.peer_rank = Some(*rank);
                    row.peer_device.clone_from(device);
                    row.object.clone_from(object);
                }
                None => orphans += 1,
            }
            row
        })
        .collect();
    if orphans > 0 {
        let rows = if orphans == 1 {
            "1 row of gpu.csv is".to_owned()
        } else {
            format!("{orphans} rows of gpu.csv are")
        };
        notes.push(format!("{rows} of memory that no profiled rank exported, so that its owner is unknown"));
    }
    (rows, notes)
}

/// The files in which call stacks of any rank have addresses, each once.
pub fn binaries(parts: &[Part]) -> Vec<BinaryRow> {
    let files = parts.iter().filter_map(|part| match part {
        Part::Binary(row) => Some((row.file.clone(), row.build_id.clone())),
        _ => None,
    });
    let files: BTreeSet<(String, String)> = files.collect();
    files.into_iter().map(|(file, build_id)| BinaryRow { file, build_id }).collect()
}

#[cfg(test)]
mod tests {
    use super::super::{Access, GpuFile, Place, Record, Values, parts};
    use super::*;
    use crate::rows::GpuMemory;

    fn counter(id: u32, range: u32, width: u32) -> Record {
        Record::Counter {
            id,
            device: "GPU-a".to_owned(),
            kernel: "halo".to_owned(),
            source: "halo.cu:12".to_owned(),
            range,
            access: Access::Store,
            width,
        }
    }

    fn range(id: u32, place: Place, name: &str) -> Record {
        Record::Range { id, place, object: 0, name: name.to_owned() }
    }

    fn importer() -> GpuFile {
        let records = vec![
            Record::Object { id: 0, stack: "app+0x1".to_owned() },
            range(1, Place::Ipc("ab".to_owned()), ""),
            range(2, Place::Pinned, "flags"),
            range(3, Place::Ipc("cd".to_owned()), ""),
            counter(0, 1, 8),
            counter(1, 2, 4),
            counter(2, 3, 8),
            counter(3, 1, 8),
            counter(4, 1, 0),
            counter(5, 1, 16),
        ];
        let value = |accesses, extra| Values { accesses, extra };
        let values =
            [(0, value(100, 0)), (1, value(7, 0)), (2, value(5, 0)), (3, value(11, 0)), (4, value(2, 4096))];
        GpuFile { records, values: values.into() }
    }

    fn exporter() -> GpuFile {
        let export = |handle: &str, name: &str| Record::Export {
            handle: handle.to_owned(),
            device: "GPU-b".to_owned(),
            object: 0,
            name: name.to_owned(),
        };
        GpuFile { records: vec![export("ab", "ghost cells")], ..GpuFile::default() }
    }

    #[test]
    fn the_owner_is_who_exported_the_handle() {
        let all = parts(&importer(), 1).into_iter().chain(parts(&exporter(), 3)).collect();
        let (rows, notes) = join(all);
        let seen: Vec<_> = rows
            .iter()
            .map(|row| {
                (
                    row.memory,
                    row.peer_rank,
                    row.peer_device.as_str(),
                    row.object.as_str(),
                    row.accesses,
                    row.bytes,
                )
            })
            .collect();
        assert_eq!(
            seen,
            [
                (GpuMemory::Ipc, Some(3), "GPU-b", "ghost cells", 111, 888),
                (GpuMemory::Pinned, Some(1), "host", "flags", 7, 28),
                (GpuMemory::Ipc, None, "", "app+0x1", 5, 40),
                (GpuMemory::Ipc, Some(3), "GPU-b", "ghost cells", 2, 4096),
            ]
        );
        assert_eq!(notes.len(), 1);
        assert!(notes[0].starts_with("1 row of gpu.csv is of memory"), "{notes:?}");
    }

    #[test]
    fn a_file_of_many_ranks_is_told_once() {
        let file = |build_id: &str| GpuFile {
            records: vec![Record::Binary { file: "/app".to_owned(), build_id: build_id.to_owned() }],
            ..GpuFile::default()
        };
        let all: Vec<Part> =
            ["ab", "ab", ""].iter().zip(0..).flat_map(|(id, rank)| parts(&file(id), rank)).collect();
        let row = |build_id: &str| BinaryRow { file: "/app".to_owned(), build_id: build_id.to_owned() };
        assert_eq!(binaries(&all), [row(""), row("ab")]);
        assert_eq!(join(all), (vec![], vec![]));
    }

    #[test]
    fn what_was_sampled_is_scaled_and_has_its_error() {
        let file = GpuFile {
            records: vec![Record::Sampled(100), range(1, Place::Managed, "m"), counter(0, 1, 4)],
            values: [(0, Values { accesses: 320, extra: 10 * 32 * 32 })].into(),
        };
        let (rows, _) = join(parts(&file, 0));
        assert_eq!((rows[0].accesses, rows[0].bytes, rows[0].sampled), (32_000, 128_000, 100));
        assert!((rows[0].error - (10_240.0f64 * 9_900.0).sqrt()).abs() < 1e-6);
    }
}

//! Finds the owners of imported memory. The rank that exported it has the same handle, so that
//! ranks need not communicate while the program runs.

use super::{GpuPart, Import, part};
use mpisee_profile::gpu::{Handle, Owners, common};
use mpisee_profile::rows::{BinaryRow, GpuRow, PeRow};
use std::collections::{BTreeSet, HashMap};

/// The exporter of memory.
struct Owner {
    rank: u32,
    device: String,
    object: String,
}

/// Memory that was made accessible to other processes, with its owners.
#[derive(Default)]
pub struct Exports(Owners<Owner>);

impl Exports {
    /// Adds the exports of a rank.
    pub fn add(&mut self, parts: impl IntoIterator<Item = GpuPart>) {
        for part in parts {
            match part {
                GpuPart::Export { handle, rank, device, object } => {
                    self.0.insert(handle, Owner { rank, device, object });
                }
                GpuPart::Pe { rank, pe } => {
                    self.0
                        .insert(Handle::Pe(pe), Owner { rank, device: String::new(), object: String::new() });
                }
                _ => {}
            }
        }
    }

    /// Fills in the owner of a row, if it is known. If several allocations match, only what they
    /// have in common is used.
    fn fill(&self, row: &mut GpuRow, import: &Import) -> bool {
        let all = self.0.find(&import.handle);
        if all.is_empty() {
            return false;
        }
        row.peer_rank = common(&all, |it| it.rank);
        // The importer may have the device, too.
        if let Some(device) = common(&all, |it| it.device.clone()).filter(|it| !it.is_empty()) {
            row.peer_device = device;
        }
        // Of a PE nothing is known but who it is.
        if !import.is_named && !matches!(import.handle, Handle::Pe(_)) {
            row.object = common(&all, |it| it.object.clone()).unwrap_or_default();
        }
        true
    }

    /// Fills in the owners in the rows of a rank. A row that keeps its import has an unknown owner.
    pub fn fill_all(&self, parts: &mut Vec<GpuPart>) {
        for part in parts.iter_mut() {
            if let GpuPart::Row(row, import) = part {
                import.take_if(|it| self.fill(row, it));
            }
        }
        merge_rows(parts);
    }
}

/// Merges rows that differed only by their handles: those of one owner and one object.
fn merge_rows(parts: &mut Vec<GpuPart>) {
    let mut places = HashMap::new();
    let mut merged: Vec<GpuPart> = Vec::with_capacity(parts.len());
    for part in std::mem::take(parts) {
        if let GpuPart::Row(row, import) = &part {
            let key = (row.rank, row.peer_rank, part::key(row, import.as_ref()));
            let place = *places.entry(key).or_insert(merged.len());
            if let Some(GpuPart::Row(sum, _)) = merged.get_mut(place) {
                part::add(sum, row);
                continue;
            }
        }
        merged.push(part);
    }
    *parts = merged;
}

/// Returns whether owners of rows are to be looked for.
pub fn needs_owners(parts: &[GpuPart]) -> bool {
    parts.iter().any(|part| matches!(part, GpuPart::Row(_, Some(_))))
}

/// The rows of all ranks, with the owner of each; and the notes.
///
/// An allocation that was exported under several names has the last one. The owner of a handle that
/// no rank exported is unknown: it may be a process without the profiler.
pub fn join(mut parts: Vec<GpuPart>) -> (Vec<GpuRow>, Vec<String>) {
    let mut owners = Exports::default();
    owners.add(
        parts.iter().filter(|part| matches!(part, GpuPart::Export { .. } | GpuPart::Pe { .. })).cloned(),
    );
    owners.fill_all(&mut parts);
    let (mut rows, mut notes, mut orphans) = (Vec::new(), Vec::new(), 0u64);
    for part in parts {
        match part {
            GpuPart::Row(row, import) => {
                orphans += u64::from(import.is_some());
                rows.push(row);
            }
            GpuPart::Note { rank, text } => notes.push(format!("rank {rank}: {text}")),
            GpuPart::Lost { rank, accesses, why } => notes
                .push(format!("rank {rank}: {accesses} accesses of GPU kernels are not in gpu.csv: {why}")),
            GpuPart::Export { .. }
            | GpuPart::Device(_)
            | GpuPart::Pe { .. }
            | GpuPart::Binary(_)
            | GpuPart::Calls(..)
            | GpuPart::Staged(..) => {}
        }
    }
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

/// The PE of NVSHMEM of each rank that is one.
pub fn processing_elements(parts: &[GpuPart]) -> Vec<PeRow> {
    let rows = parts.iter().filter_map(|part| match part {
        GpuPart::Pe { rank, pe } => Some((*rank, *pe)),
        _ => None,
    });
    let rows: BTreeSet<(u32, u32)> = rows.collect();
    rows.into_iter().map(|(rank, pe)| PeRow { rank, pe }).collect()
}

/// The files in which call stacks of any rank have addresses, each once.
pub fn binaries(parts: &[GpuPart]) -> Vec<BinaryRow> {
    let files = parts.iter().filter_map(|part| match part {
        GpuPart::Binary(row) => Some((row.file.clone(), row.build_id.clone())),
        _ => None,
    });
    let files: BTreeSet<(String, String)> = files.collect();
    files.into_iter().map(|(file, build_id)| BinaryRow { file, build_id }).collect()
}

#[cfg(test)]
mod tests {
    use super::super::parts;
    use super::*;
    use mpisee_profile::gpu::{Access, Descriptor, FileEntry, GpuFile, RemoteMemory, Values};
    use mpisee_profile::rows::GpuMemory;

    fn counter(id: u32, range: u32, width: u32) -> FileEntry {
        FileEntry::Counter {
            id,
            device: "GPU-a".to_owned(),
            kernel: "halo".to_owned(),
            source: "halo.cu:12".to_owned(),
            launched: String::new(),
            range,
            access: Access::Store,
            width,
        }
    }

    fn range(id: u32, place: RemoteMemory, name: &str) -> FileEntry {
        FileEntry::Range { id, place, object: 0, name: name.to_owned() }
    }

    fn importer() -> GpuFile {
        let entries = vec![
            FileEntry::Object { id: 0, stack: "app+0x1".to_owned() },
            range(1, RemoteMemory::Ipc("ab".to_owned()), ""),
            range(2, RemoteMemory::Pinned, "flags"),
            range(3, RemoteMemory::Ipc("cd".to_owned()), ""),
            counter(0, 1, 8),
            counter(1, 2, 4),
            counter(2, 3, 8),
            counter(3, 1, 8),
            counter(4, 1, 0),
            counter(5, 1, 16),
        ];
        let value = |accesses, extra| Values { accesses, extra, variance: 0 };
        let values =
            [(0, value(100, 0)), (1, value(7, 0)), (2, value(5, 0)), (3, value(11, 0)), (4, value(2, 4096))];
        GpuFile { entries, values: values.into(), ..GpuFile::default() }
    }

    fn exporter() -> GpuFile {
        let export = |handle: &str, name: &str| FileEntry::Export {
            handle: Handle::Ipc(handle.to_owned()),
            device: "GPU-b".to_owned(),
            object: 0,
            name: name.to_owned(),
        };
        GpuFile { entries: vec![export("ab", "ghost cells")], ..GpuFile::default() }
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

    fn descriptor(number: u64, bytes: u64) -> Handle {
        Handle::Descriptor(Descriptor { boot: 1, namespace: 2, pid: 7, number, bytes })
    }

    #[test]
    fn several_exports_give_their_common_owner_and_keep_names_of_the_importer() {
        let imported = |handle: Option<Handle>| RemoteMemory::Imported { device: String::new(), handle };
        let importer = GpuFile {
            entries: vec![
                FileEntry::Object { id: 0, stack: "app+0x1".to_owned() },
                range(1, imported(Some(descriptor(3, 4096))), ""),
                range(2, imported(Some(descriptor(3, 8192))), ""),
                range(3, imported(Some(descriptor(3, 8192))), "mine"),
                range(4, imported(Some(Handle::Pe(5))), "symmetric"),
                range(5, imported(None), ""),
                range(6, imported(Some(Handle::Pe(6))), "of nobody"),
                counter(0, 1, 8),
                counter(1, 2, 8),
                counter(2, 3, 8),
                counter(3, 4, 8),
                counter(4, 5, 8),
                counter(5, 6, 8),
            ],
            values: (0..6)
                .map(|id| (id, Values { accesses: u64::from(id) + 1, ..Values::default() }))
                .collect(),
            ..GpuFile::default()
        };
        let export = |number: u64, bytes: u64, name: &str| FileEntry::Export {
            handle: descriptor(number, bytes),
            device: "GPU-b".to_owned(),
            object: 0,
            name: name.to_owned(),
        };
        let exporter = GpuFile {
            entries: vec![
                export(3, 4096, "early"),
                export(67, 8192, "one"),
                export(131, 8192, "other"),
                export(3, 4096, "late"),
                FileEntry::Pe(5),
            ],
            ..GpuFile::default()
        };
        let all: Vec<GpuPart> = parts(&importer, 1).into_iter().chain(parts(&exporter, 3)).collect();
        assert_eq!(processing_elements(&all), [PeRow { rank: 3, pe: 5 }]);
        let (rows, notes) = join(all);
        let seen: Vec<_> =
            rows.iter().map(|row| (row.peer_rank, row.peer_device.as_str(), row.object.as_str())).collect();
        assert_eq!(
            seen,
            [
                (Some(3), "GPU-b", "late"),
                (Some(3), "GPU-b", ""),
                (Some(3), "GPU-b", "mine"),
                (Some(3), "", "symmetric"),
                (None, "", "app+0x1"),
                (None, "", "of nobody"),
            ]
        );
        assert!(notes[0].starts_with("1 row of gpu.csv is of memory") && notes.len() == 1, "{notes:?}");
    }

    #[test]
    fn a_file_of_many_ranks_is_told_once() {
        let file = |build_id: &str| GpuFile {
            entries: vec![FileEntry::Binary { file: "/app".to_owned(), build_id: build_id.to_owned() }],
            ..GpuFile::default()
        };
        let all: Vec<GpuPart> =
            ["ab", "ab", ""].iter().zip(0..).flat_map(|(id, rank)| parts(&file(id), rank)).collect();
        let row = |build_id: &str| BinaryRow { file: "/app".to_owned(), build_id: build_id.to_owned() };
        assert_eq!(binaries(&all), [row(""), row("ab")]);
        assert_eq!(join(all), (vec![], vec![]));
    }

    #[test]
    fn sampled_counts_are_scaled_and_have_an_error() {
        let file = GpuFile {
            entries: vec![FileEntry::Sampled(100), range(1, RemoteMemory::Managed, "m"), counter(0, 1, 4)],
            values: [(0, Values { accesses: 320, extra: 10 * 32 * 32, variance: 0 })].into(),
            ..GpuFile::default()
        };
        let (rows, _) = join(parts(&file, 0));
        assert_eq!((rows[0].accesses, rows[0].bytes, rows[0].sampled), (32_000, 128_000, 100));
        assert!((rows[0].error - (10_240.0f64 * 9_900.0).sqrt()).abs() < 1e-6);
        // Of intervals the tracer has scaled.
        let file = GpuFile {
            entries: vec![
                FileEntry::Sampled(1),
                FileEntry::Intervals(20),
                range(1, RemoteMemory::Managed, "m"),
                counter(0, 1, 4),
            ],
            values: [(0, Values { accesses: 321, extra: 7, variance: 144 })].into(),
            ..GpuFile::default()
        };
        let (rows, _) = join(parts(&file, 0));
        let row = &rows[0];
        assert_eq!((row.accesses, row.bytes, row.sampled, row.error), (321, 4 * 321, 20, 12.0));
    }
}

//! Copies that the host asks for: from the counters of a process to rows.

use super::GpuPart;
use super::part::{Copied, Staged};
use mpisee_profile::gpu::{CopyEnd, DriverCalls};
use mpisee_profile::rows::{CopyMode, CopyRow, MessageEnd, Seconds, StagedRow};

/// Fills in the names of communicators, by their numbers. Copies for one that has none are left
/// out.
pub fn name_communicators(parts: &mut Vec<GpuPart>, names: &[String]) {
    parts.retain_mut(|part| {
        let GpuPart::Staged(staged, _) = part else { return true };
        if let Some(name) = names.get(staged.number as usize) {
            staged.comm.clone_from(name);
        }
        !staged.comm.is_empty()
    });
}

/// The rows of `copies.csv` and `staged.csv`, in the order of ranks.
pub fn copies(parts: &[GpuPart]) -> (Vec<CopyRow>, Vec<StagedRow>) {
    let (mut calls, mut staged) = (Vec::new(), Vec::new());
    for part in parts {
        match part {
            GpuPart::Calls(kind, copied) => calls.push(call_row(kind, copied)),
            GpuPart::Staged(kind, copied) => staged.push(staged_row(kind, copied)),
            _ => {}
        }
    }
    calls.sort_by_key(|row: &CopyRow| row.rank);
    staged.sort_by(|left: &StagedRow, right| (left.rank, &left.comm).cmp(&(right.rank, &right.comm)));
    (calls, staged)
}

fn seconds(nanoseconds: u64) -> Seconds {
    Seconds(nanoseconds as f64 / 1e9)
}

fn call_row(kind: &DriverCalls, copied: &Copied) -> CopyRow {
    let device = |end: &Option<CopyEnd>| end.as_ref().map_or_else(String::new, |it| it.device.clone());
    CopyRow {
        rank: copied.rank,
        device: kind.device.clone(),
        call: kind.call.clone(),
        mode: CopyMode::new(kind.is_async),
        from: kind.from.as_ref().map(|it| it.memory),
        from_device: device(&kind.from),
        to: kind.to.as_ref().map(|it| it.memory),
        to_device: device(&kind.to),
        line: kind.line.clone(),
        calls: copied.count,
        bytes: copied.bytes,
        time_s: seconds(copied.nanoseconds),
    }
}

fn staged_row(staged: &Staged, copied: &Copied) -> StagedRow {
    StagedRow {
        comm: staged.comm.clone(),
        rank: copied.rank,
        direction: if staged.is_sent { MessageEnd::Sent } else { MessageEnd::Received },
        memory: staged.memory,
        mode: CopyMode::new(staged.is_async),
        matches: copied.count,
        bytes: copied.bytes,
        time_s: seconds(copied.nanoseconds),
    }
}

#[cfg(test)]
mod tests {
    use super::super::parts;
    use super::*;
    use mpisee_profile::gpu::{CopyValues, FileEntry, GpuFile};
    use mpisee_profile::rows::Memory;

    fn file() -> GpuFile {
        let end = |memory, device: &str| Some(CopyEnd { memory, device: device.to_owned() });
        let kind = |call: &str, from, to| DriverCalls {
            call: call.to_owned(),
            is_async: call.ends_with("Async"),
            device: "GPU-a".to_owned(),
            from,
            to,
            line: String::new(),
        };
        let (host, device) = (end(Memory::Host, ""), end(Memory::Device, "GPU-a"));
        let entries = vec![
            FileEntry::Calls { id: 0, kind: kind("cuMemcpyDtoH", device.clone(), host) },
            FileEntry::Calls { id: 1, kind: kind("cuMemsetD8Async", None, device) },
            FileEntry::Staged { id: 2, comm: 1, is_sent: true, memory: Memory::Host, is_async: false },
            FileEntry::Staged { id: 3, comm: 9, is_sent: false, memory: Memory::Pinned, is_async: true },
        ];
        let values = |count, bytes, nanoseconds| CopyValues { count, bytes, nanoseconds };
        let copies = [(0, values(2, 300, 5_000)), (2, values(1, 100, 2_000)), (3, values(1, 1, 0))];
        GpuFile { entries, copies: copies.into(), ..GpuFile::default() }
    }

    #[test]
    fn rows_have_the_values_of_their_counter_and_the_name_of_the_communicator() {
        let mut parts = parts(&file(), 3);
        name_communicators(&mut parts, &["W".to_owned(), "W_d1".to_owned()]);
        // As they travel between ranks.
        let text = serde_json::to_string(&parts).unwrap();
        assert_eq!(serde_json::from_str::<Vec<GpuPart>>(&text).unwrap(), parts);
        let (calls, staged) = copies(&parts);
        assert_eq!(calls.len(), 1, "what was never called has no row: {calls:?}");
        let row = &calls[0];
        assert_eq!((row.rank, row.calls, row.bytes, row.time_s), (3, 2, 300, Seconds(5e-6)));
        assert_eq!((row.from, row.from_device.as_str()), (Some(Memory::Device), "GPU-a"));
        assert_eq!((row.to, row.to_device.as_str(), row.mode), (Some(Memory::Host), "", CopyMode::Blocking));
        assert_eq!(staged.len(), 1, "a communicator without a name has no row: {staged:?}");
        assert_eq!(
            (staged[0].comm.as_str(), staged[0].bytes, staged[0].time_s),
            ("W_d1", 100, Seconds(2e-6))
        );
    }
}

//! The kinds of memory that buffers lie in, and what backends and MPI make of them.

use crate::pattern::{Pattern, Step};
use std::fmt;
use std::path::Path;

/// A kind of memory, by the names that profiles have in their column `memory`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum MemoryKind {
    /// Memory of the host
    #[default]
    Host,
    /// Memory of the host that CUDA has allocated (`cuMemHostAlloc`)
    Pinned,
    /// Memory that CUDA moves between host and GPU (`cuMemAllocManaged`)
    Managed,
    /// Memory of the rank's GPU (`cuMemAlloc`)
    Device,
}

impl MemoryKind {
    /// The name in results.
    pub fn name(self) -> &'static str {
        match self {
            MemoryKind::Host => "host",
            MemoryKind::Pinned => "pinned",
            MemoryKind::Managed => "managed",
            MemoryKind::Device => "device",
        }
    }

    /// Returns whether an MPI has to know about GPUs to be handed such memory.
    pub fn is_for_gpu_aware_mpi(self) -> bool {
        matches!(self, MemoryKind::Managed | MemoryKind::Device)
    }
}

impl fmt::Display for MemoryKind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

/// The kind of memory for a pattern: the one that was asked for, else the one that its backends
/// need.
pub fn choose(pattern: &Pattern, asked: Option<MemoryKind>) -> Result<MemoryKind, String> {
    let of_gpus = pattern.steps.iter().find(|step| step.backend.is_of_gpus());
    let of_host = pattern.steps.iter().find(|step| step.needs_host_memory());
    match (of_gpus, of_host, asked) {
        (Some(gpus), Some(host), _) => Err(format!(
            "{} needs the memory of GPUs, and {} that of the host; a pattern has one kind of memory",
            gpus.backend, host.backend
        )),
        (Some(step), None, Some(asked)) if asked != MemoryKind::Device => Err(format!(
            "{} moves data between GPUs, so --memory {asked} cannot be; leave it out, or take another backend",
            step.backend
        )),
        (None, Some(step), Some(asked)) if asked != MemoryKind::Host => Err(format!(
            "{} copies in the memory of the host, so --memory {asked} cannot be; ipc does the same between GPUs",
            step.backend
        )),
        (Some(_), ..) => Ok(MemoryKind::Device),
        (None, _, asked) => Ok(asked.unwrap_or_default()),
    }
}

/// Returns whether MPI gets to move bytes of the pattern's buffers. Empty messages move none.
pub fn is_moved_by_mpi(pattern: &Pattern) -> bool {
    let by_messages =
        |step: &Step| step.backend.is_mpi() && step.messages.iter().any(|message| message.bytes > 0);
    pattern.steps.iter().any(|step| by_messages(step) || step.has_mpi_collectives())
}

/// Bytes that the processes of this control group, of version 2, can still have before the group or
/// one above it is at its limit; none if there is no limit. `of_process` is `/proc/self/cgroup`.
/// The files that the kernel keeps in memory for them are not counted, since it drops these first.
pub fn left_in_cgroup(of_process: &str, root: &Path) -> Option<u64> {
    let path = of_process.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let folders = Path::new(path).ancestors().map(|below| root.join(below));
    let left = folders.filter_map(|folder| {
        let read = |file: &str| std::fs::read_to_string(folder.join(file)).ok();
        let number = |text: String| text.trim().parse::<u64>().ok();
        let limit = read("memory.max").and_then(number)?;
        let used = read("memory.current").and_then(number)?;
        let stat = read("memory.stat").unwrap_or_default();
        let files = stat.lines().find_map(|line| line.strip_prefix("file ")?.parse().ok()).unwrap_or(0);
        Some(limit.saturating_sub(used.saturating_sub(files)))
    });
    left.min()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Backend;
    use crate::collective::Collective;
    use crate::pattern::{CollectiveCall, Message};

    fn pattern(backends: &[Backend], bytes: u64) -> Pattern {
        let message = |source, destination| Message {
            source,
            destination,
            bytes,
            source_offset: 0,
            destination_offset: bytes,
            times: 1,
        };
        let step = |&backend: &Backend| Step {
            name: "one".to_owned(),
            backend,
            messages: vec![message(0, 1)],
            ..Step::default()
        };
        Pattern::from_steps(backends.iter().map(step).collect())
    }

    #[test]
    fn backends_of_gpus_need_their_memory() {
        use Backend::{Ipc, Isend, Nccl, Put, Shared};
        use MemoryKind::{Device, Host, Managed};
        let chosen = |backends: &[Backend], asked| choose(&pattern(backends, 8), asked);
        assert_eq!(chosen(&[Isend, Put], None), Ok(Host));
        assert_eq!(chosen(&[Isend], Some(Managed)), Ok(Managed));
        assert_eq!(chosen(&[Isend, Ipc], None), Ok(Device));
        assert_eq!(chosen(&[Nccl], Some(Device)), Ok(Device));
        assert_eq!(chosen(&[Shared], Some(Host)), Ok(Host));
        for (backends, asked, said) in [
            (&[Nccl][..], Some(Host), "nccl moves data between GPUs, so --memory host cannot be"),
            (&[Isend, Shared], Some(Device), "shared copies in the memory of the host, so --memory device"),
            (&[Shared, Ipc], None, "ipc needs the memory of GPUs, and shared that of the host"),
        ] {
            let error = chosen(backends, asked).unwrap_err();
            assert!(error.starts_with(said), "{error}");
        }
    }

    #[test]
    fn the_narrowest_limit_of_the_control_groups_counts() {
        let root = tempfile::tempdir().unwrap();
        let job = root.path().join("slurm/job");
        std::fs::create_dir_all(&job).unwrap();
        let write = |folder: &Path, max: &str, current: &str| {
            std::fs::write(folder.join("memory.max"), max).unwrap();
            std::fs::write(folder.join("memory.current"), current).unwrap();
            std::fs::write(folder.join("memory.stat"), "anon 5\nfile 30\nfile_mapped 2\n").unwrap();
        };
        let left = || left_in_cgroup("1:name=x:/y\n0::/slurm/job\n", root.path());
        assert_eq!(left(), None);
        write(&job, "max\n", "100\n");
        assert_eq!(left(), None);
        write(&root.path().join("slurm"), "1000\n", "230\n");
        assert_eq!(left(), Some(800));
        write(&job, "90\n", "100\n");
        assert_eq!(left(), Some(20));
    }

    #[test]
    fn mpi_moves_its_messages_and_collectives_unless_they_are_empty() {
        use Backend::{Get, Ipc, Isend, Nccl};
        let moved = |backends: &[Backend], bytes| is_moved_by_mpi(&pattern(backends, bytes));
        assert!(moved(&[Isend], 1) && moved(&[Ipc, Get], 1));
        assert!(!moved(&[Isend], 0) && !moved(&[Ipc, Nccl], 1));
        let sum =
            CollectiveCall { collective: Collective::Allreduce, members: vec![0, 1], bytes: 8, root: 0 };
        let collective = |backend| {
            let step = Step { backend, collectives: vec![sum.clone()], ..Step::default() };
            is_moved_by_mpi(&Pattern::from_steps(vec![step]))
        };
        assert!(collective(Isend) && collective(Ipc) && !collective(Nccl));
    }
}

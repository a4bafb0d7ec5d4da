//! The ranks of a world that are on one node, and whether a library is in them: from `/proc`, without a word between
//! them.

use super::{
    PMIX, RANKS, SLURM, SLURM_PMI, environment_of, launcher, look_at, namespace, namespace_of, value_in,
};
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// More than are on any node.
const MOST_PROCESSES: usize = 1 << 16;

/// The ranks of the own world whose processes are on this node, by rank, and whether `library` is in the process that
/// uses MPI; a rank whose process may not be looked at counts as having it. Only the own rank is in it where the launcher
/// does not tell ranks or is out of sight. A rank that has it in a container with processes of its own is none of them.
pub fn neighbours(own_rank: u32, library: &str) -> BTreeMap<u32, bool> {
    let told = |name: &&str| std::env::var(name).is_ok_and(|value| value == own_rank.to_string());
    let mut told: Vec<_> = RANKS.into_iter().filter(told).map(|name| (name, BTreeMap::new())).collect();
    if !told.is_empty() {
        let (job, start, namespace) = (Job::own(), Start::own(), namespace());
        walk_descendants(launcher(), |pid| {
            let environment = environment_of(pid);
            let is_one =
                job.has(&environment) && told.iter().any(|(name, _)| rank_in(&environment, name).is_some());
            if !is_one || look_at(pid).is_none_or(|seen| seen.ended) {
                return true;
            }
            // PERF: to list what is mapped takes more than ten times as long as the rest.
            let is_alike = Start::of(pid, &environment).is_some_and(|other| Some(other) == start);
            let loaded = if is_alike { Loaded::ALL } else { Loaded::of(pid, library) };
            let is_apart = namespace_of(pid).is_some_and(|other| other != namespace);
            let loaded = Loaded { is_apart, ..loaded };
            for (variable, ranks) in &mut told {
                if let Some(rank) = rank_in(&environment, variable) {
                    let of_rank = ranks.entry(rank).or_insert(loaded);
                    *of_rank = of_rank.and(loaded);
                }
            }
            // What a rank itself has started is none.
            !loaded.has_mpi
        });
    }
    let mut seen = most(told.into_iter().map(|(_, ranks)| ranks));
    // Such a rank does not see this one: who took it for a neighbour would know more than it does.
    seen.retain(|_, loaded| !(loaded.is_in && loaded.is_apart));
    let seen = seen.into_iter().map(|(rank, loaded)| (rank, loaded.is_in));
    seen.chain([(own_rank, true)]).collect()
}

/// The ranks by the variable that tells them apart: another, which their launcher itself was told by the one that
/// started it, is the same in all of them, and on one of them it is its rank by chance.
fn most<T>(by_variable: impl DoubleEndedIterator<Item = BTreeMap<u32, T>>) -> BTreeMap<u32, T> {
    by_variable.rev().max_by_key(BTreeMap::len).unwrap_or_default()
}

/// What a process was started with. Of two that are alike one has loaded what the other has.
#[derive(PartialEq, Eq)]
struct Start {
    /// Device and inode of the program.
    program: (u64, u64),
    preload: Option<Vec<u8>>,
}

impl Start {
    fn own() -> Option<Start> {
        let pid = std::process::id();
        Start::of(pid, &environment_of(pid))
    }

    /// `None` if it may not be looked at.
    fn of(pid: u32, environment: &[u8]) -> Option<Start> {
        let program = std::fs::metadata(format!("/proc/{pid}/exe")).ok()?;
        let preload = value_in(environment, "LD_PRELOAD").map(<[u8]>::to_vec);
        Some(Start { program: (program.dev(), program.ino()), preload })
    }
}

/// What a process, or those of a rank together, has of libraries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Loaded {
    /// An MPI.
    has_mpi: bool,
    /// The library that is asked for.
    is_in: bool,
    /// Whether it is among processes that see no others, as in a container.
    is_apart: bool,
}

impl Loaded {
    const ALL: Loaded = Loaded { has_mpi: true, is_in: true, is_apart: false };

    /// One that may not be looked at counts as having all.
    fn of(pid: u32, library: &str) -> Loaded {
        match std::fs::read(format!("/proc/{pid}/maps")) {
            Ok(maps) if !maps.is_empty() => Loaded::from_maps(&String::from_utf8_lossy(&maps), library),
            _ => Loaded::ALL,
        }
    }

    /// From `/proc/PID/maps` (proc(5)).
    fn from_maps(maps: &str, library: &str) -> Loaded {
        let mut loaded = Loaded { has_mpi: false, is_in: false, is_apart: false };
        for line in maps.lines() {
            let path = line.find('/').map_or("", |at| &line[at..]);
            let path = path.strip_suffix(" (deleted)").unwrap_or(path);
            let name = Path::new(path).file_name().unwrap_or_default().to_string_lossy();
            let is_library = name == library;
            loaded.is_in |= is_library;
            loaded.has_mpi |= !is_library && name.starts_with("libmpi") && name.contains(".so");
        }
        loaded
    }

    /// Two processes of one rank: that which has an MPI counts, as the other is a script around it or its child.
    fn and(self, other: Loaded) -> Loaded {
        match (self.has_mpi, other.has_mpi) {
            (true, false) => self,
            (false, true) => other,
            _ => {
                Loaded { is_in: self.is_in || other.is_in, is_apart: self.is_apart || other.is_apart, ..self }
            }
        }
    }
}

/// What the launcher tells all processes of the own job.
struct Job {
    variables: Vec<(&'static str, Vec<u8>)>,
}

impl Job {
    fn own() -> Job {
        let names = PMIX.into_iter().chain(SLURM_PMI).chain(SLURM);
        let variables = names.filter_map(|name| Some((name, std::env::var_os(name)?.into_encoded_bytes())));
        Job { variables: variables.collect() }
    }

    /// Whether an environment is that of a process of this job.
    fn has(&self, environment: &[u8]) -> bool {
        self.variables.iter().all(|(name, own)| value_in(environment, name) == Some(own.as_slice()))
    }
}

/// The rank that an environment tells.
fn rank_in(environment: &[u8], variable: &str) -> Option<u32> {
    String::from_utf8_lossy(value_in(environment, variable)?).parse().ok()
}

/// Looks at the processes below one; at those below another only if `look` says so of that.
fn walk_descendants(ancestor: u32, mut look: impl FnMut(u32) -> bool) {
    let mut found = children(ancestor);
    let mut next = 0;
    while next < found.len() && found.len() < MOST_PROCESSES {
        if look(found[next]) {
            found.extend(children(found[next]));
        }
        next += 1;
    }
}

/// The processes that the threads of one have started.
fn children(pid: u32) -> Vec<u32> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
    lists
        .flat_map(|list| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const WITH: &str = "\
55e0c0a0a000-55e0c0a0b000 r-xp 00001000 fe:00 131 /opt/my app
7f2a3c000000-7f2a3c021000 rw-p 00000000 00:00 0
7f2a44a1d000-7f2a44a1e000 r--p 00000000 fe:00 77 /usr/lib/libmpi.so.40.30.4
7f2a44a2d000-7f2a44a2e000 r--p 00000000 fe:00 78 /a/libmpisee.so (deleted)
";

    #[test]
    fn maps_tell_of_libraries() {
        let of = |maps: &str| {
            let loaded = Loaded::from_maps(maps, "libmpisee.so");
            (loaded.has_mpi, loaded.is_in)
        };
        let lines: Vec<&str> = WITH.lines().collect();
        assert_eq!(of(WITH), (true, true));
        assert_eq!(of(&lines[..3].join("\n")), (true, false));
        assert_eq!(of(lines[3]), (false, true));
        assert_eq!(of(&lines[..2].join("\n")), (false, false));
    }

    #[test]
    fn of_a_rank_the_process_with_mpi_counts() {
        let loaded = |has_mpi, is_in| Loaded { has_mpi, is_in, is_apart: false };
        assert!(!loaded(false, true).and(loaded(true, false)).is_in);
        assert!(loaded(true, true).and(loaded(false, false)).is_in);
        assert!(loaded(false, true).and(loaded(false, false)).is_in);
    }

    #[test]
    fn ranks_of_other_jobs_are_no_neighbours() {
        let job = Job { variables: vec![("PMIX_NAMESPACE", b"7".to_vec())] };
        assert!(job.has(b"A=1\0PMIX_RANK=12\0PMIX_NAMESPACE=7\0"));
        assert!(!job.has(b"PMIX_RANK=12\0PMIX_NAMESPACE=71\0"));
        assert!(!job.has(b"PMIX_RANK=12\0"));
        assert_eq!(rank_in(b"A=1\0PMIX_RANK=12\0", "PMIX_RANK"), Some(12));
        assert_eq!(rank_in(b"PMIX_NAMESPACE=7\0", "PMIX_RANK"), None);
    }

    #[test]
    fn a_rank_that_all_inherit_tells_nobody_apart() {
        let of = |ranks: &[u32]| ranks.iter().map(|&rank| (rank, ())).collect::<BTreeMap<_, _>>();
        assert_eq!(most([of(&[0]), of(&[0, 1, 2])].into_iter()), of(&[0, 1, 2]));
        assert_eq!(most([of(&[0, 1, 2]), of(&[0])].into_iter()), of(&[0, 1, 2]));
        assert_eq!(most([of(&[0, 1]), of(&[2, 3])].into_iter()), of(&[0, 1]));
        assert_eq!(most(std::iter::empty::<BTreeMap<u32, ()>>()), of(&[]));
    }

    #[test]
    fn processes_are_alike_by_program_and_preload() {
        let start = |environment: &[u8]| Start::of(std::process::id(), environment).unwrap();
        let one = b"A=1\0LD_PRELOAD=/a/libmpisee.so\0";
        assert!(start(one) == start(b"LD_PRELOAD=/a/libmpisee.so\0B=2"));
        assert!(start(one) != start(b"A=1\0"));
        assert!(start(one) != start(b"LD_PRELOAD=/b/libmpisee.so\0"));
        let mut other = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let of_other = Start::of(other.id(), one);
        other.kill().unwrap();
        other.wait().unwrap();
        assert!(of_other.is_some_and(|of_other| of_other != start(one)));
    }

    #[test]
    fn children_are_found() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let mut found = Vec::new();
        walk_descendants(std::process::id(), |pid| {
            found.push(pid);
            true
        });
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(found.contains(&child.id()), "{found:?}");
    }
}

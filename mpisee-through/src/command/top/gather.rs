//! Readers on several nodes: each writes what it sees into a folder that all of them see, and one
//! of them joins it.

use super::part::NodeReport;
use anyhow::{Context, Result, bail};
use mpisee_collect::process;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How long the first reader waits for the others.
const PATIENCE: Duration = Duration::from_secs(30);
/// The pause between two looks into the folder.
const PAUSE: Duration = Duration::from_millis(50);
/// Nanoseconds between the parts of one roll call at most: readers that no launcher started share
/// their number with earlier ones.
const MOST_APART_NS: u64 = 600_000_000_000;
/// How much earlier than its own part the first reader takes those of others. Launchers give
/// numbers again: a file of that number may be of an earlier roll call.
const MOST_EARLIER: Duration = Duration::from_secs(120);
/// The largest part that is read.
const MOST_BYTES: u64 = 1 << 30;

/// This reader among those that one launcher started, one on each node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reader {
    /// The number that they share.
    launch: u64,
    index: u32,
    count: u32,
    is_launched: bool,
}

/// Variables in which launchers report a process's number and how many there are: of Open MPI, of
/// MPICH and its like, of Slurm.
const VARIABLES: [[&str; 2]; 3] = [
    ["OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"],
    ["PMI_RANK", "PMI_SIZE"],
    ["SLURM_PROCID", "SLURM_STEP_NUM_TASKS"],
];

impl Reader {
    /// As the launcher reports; alone, where none does.
    pub fn own() -> Reader {
        let placed = placed(|name| std::env::var(name).ok());
        let (index, count) = placed.unwrap_or((0, 1));
        let launch = if count > 1 { process::job(count) } else { 0 };
        Reader { launch, index, count, is_launched: placed.is_some() }
    }

    /// Returns whether a launcher started it.
    pub fn is_launched(self) -> bool {
        self.is_launched
    }

    /// Writes the part of this node; `make` gets the number of the launch, the host and the time.
    /// Returns the file.
    pub fn write(self, folder: &Path, make: impl FnOnce(u64, String, u64) -> NodeReport) -> Result<PathBuf> {
        let host = host();
        let text = serde_json::to_vec(&make(self.launch, host.clone(), now_ns()))?;
        let cannot = || format!("cannot write to '{}'; name a folder that all nodes see", folder.display());
        std::fs::create_dir_all(folder).with_context(cannot)?;
        let path = folder.join(format!("{}{host}-{}.json", begin_of(self.launch), self.index));
        // Under its name it is whole.
        let unfinished = path.with_extension("unfinished");
        std::fs::write(&unfinished, text).with_context(cannot)?;
        std::fs::rename(&unfinished, &path).with_context(cannot)?;
        Ok(path)
    }

    /// Returns whether the launcher started others that write to the same folder.
    pub fn has_others(self) -> bool {
        self.count > 1
    }

    /// Returns whether this one joins what all wrote.
    pub fn joins(self) -> bool {
        self.index == 0
    }

    /// The parts of all, and a remark if some are missing after a while. `own` is the file that
    /// this one wrote.
    pub fn wait_for_all(self, folder: &Path, own: &Path) -> Result<(Vec<NodeReport>, Option<String>)> {
        let begin = Instant::now();
        // Both times are the file system's; the clocks of nodes differ.
        let written = |file: &Path| file.metadata().and_then(|it| it.modified());
        let own = written(own).with_context(|| format!("cannot read '{}'", own.display()))?;
        let earliest = own.checked_sub(MOST_EARLIER).unwrap_or(UNIX_EPOCH);
        loop {
            let mut files = files(folder, &begin_of(self.launch))?;
            files.retain(|file| written(file).is_ok_and(|written| written >= earliest));
            let is_late = begin.elapsed() > PATIENCE;
            if files.len() >= self.count as usize || is_late {
                let missing = (self.count as usize).saturating_sub(files.len());
                let remark = (missing > 0).then(|| {
                    format!(
                        "{missing} of {} readers wrote nothing to '{}' within {} s",
                        self.count,
                        folder.display(),
                        PATIENCE.as_secs()
                    )
                });
                return Ok((files.iter().map(|file| read(file)).collect::<Result<_>>()?, remark));
            }
            std::thread::sleep(PAUSE);
        }
    }
}

fn placed(variable: impl Fn(&str) -> Option<String>) -> Option<(u32, u32)> {
    let number = |name: &str| variable(name)?.parse::<u32>().ok();
    VARIABLES.iter().find_map(|[index, count]| Some((number(index)?, number(count)?)))
}

/// Nanoseconds since 1970, UTC.
pub fn now_ns() -> u64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since_1970.as_nanos()).unwrap_or(u64::MAX)
}

/// The begin of the names of the files of one launch.
fn begin_of(launch: u64) -> String {
    format!("mpisee-top-{launch:016x}-")
}

/// The name of this node, with letters that file names may have.
pub fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let is_plain = |letter: &char| letter.is_ascii_alphanumeric() || ['.', '-', '_'].contains(letter);
    let name: String = name.trim().chars().filter(is_plain).collect();
    if name.is_empty() { "host".to_owned() } else { name }
}

/// Files in a folder whose names begin like that.
fn files(folder: &Path, begin: &str) -> Result<Vec<PathBuf>> {
    let cannot = || format!("cannot read '{}'", folder.display());
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(cannot)? {
        let path = entry.with_context(cannot)?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.starts_with(begin) && name.ends_with(".json") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// The part in a file.
pub fn read(path: &Path) -> Result<NodeReport> {
    let read = || -> Result<NodeReport> {
        if std::fs::metadata(path)?.len() > MOST_BYTES {
            bail!("it has more than {MOST_BYTES} bytes");
        }
        NodeReport::parse(&std::fs::read(path)?)
    };
    read().with_context(|| format!("cannot read '{}'", path.display()))
}

/// The parts that the readers of the last launch wrote to a folder, and why other files are none.
pub fn last(folder: &Path) -> Result<(Vec<NodeReport>, Vec<String>)> {
    let files = files(folder, "mpisee-top-")?;
    if files.is_empty() {
        bail!(
            "'{0}' has no part of a roll call; start mpisee-through top --to '{0}' on each node first",
            folder.display()
        );
    }
    let (mut parts, mut remarks) = (Vec::new(), Vec::new());
    for file in &files {
        match read(file) {
            Ok(part) => parts.push(part),
            Err(why) => remarks.push(format!("{why:#}")),
        }
    }
    let Some((written_ns, launch)) = parts.iter().map(|part| (part.written_ns, part.launch)).max() else {
        bail!("{}", remarks.join("; "));
    };
    parts.retain(|part| part.launch == launch && written_ns - part.written_ns < MOST_APART_NS);
    Ok((parts, remarks))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launchers_say_which_reader_it_is() {
        let of = |variables: &[(&str, &str)]| {
            placed(|name| {
                let found = variables.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| (*value).to_owned())
            })
        };
        assert_eq!(of(&[("PMI_RANK", "2"), ("PMI_SIZE", "4")]), Some((2, 4)));
        assert_eq!(of(&[("SLURM_PROCID", "0"), ("SLURM_STEP_NUM_TASKS", "16")]), Some((0, 16)));
        // The script of a batch job has a number, and is in no step.
        assert_eq!(of(&[("SLURM_PROCID", "0"), ("SLURM_NTASKS", "16")]), None);
        let both = [
            ("SLURM_PROCID", "0"),
            ("SLURM_STEP_NUM_TASKS", "2"),
            ("OMPI_COMM_WORLD_RANK", "3"),
            ("OMPI_COMM_WORLD_SIZE", "4"),
        ];
        assert_eq!(of(&both), Some((3, 4)));
    }

    fn part(launch: u64) -> impl FnOnce(u64, String, u64) -> NodeReport {
        move |_, host, written_ns| NodeReport::new(launch, host, written_ns, 0..1, [], Vec::new())
    }

    #[test]
    fn parts_of_the_last_launch_are_read() {
        let folder = tempfile::tempdir().unwrap();
        assert!(format!("{:#}", last(folder.path()).unwrap_err()).contains("has no part of a roll call"));
        let reader = |launch, index| Reader { launch, index, count: 2, is_launched: true };
        for (launch, index) in [(5, 0), (5, 1), (3, 0), (3, 1)] {
            reader(launch, index).write(folder.path(), part(launch)).unwrap();
        }
        let (parts, _) = last(folder.path()).unwrap();
        assert_eq!(parts.iter().map(|part| part.launch).collect::<Vec<_>>(), [3, 3]);
        let old = |launch, host, _| NodeReport::new(launch, host, 1, 0..1, [], Vec::new());
        reader(3, 1).write(folder.path(), old).unwrap();
        assert_eq!(last(folder.path()).unwrap().0.len(), 1, "a part of long ago");
        std::fs::write(folder.path().join("mpisee-top-0000000000000003-n9-9.json"), "{").unwrap();
        let (parts, remarks) = last(folder.path()).unwrap();
        assert_eq!(parts.len(), 1);
        assert!(remarks[0].contains("-n9-9.json': it is not what top --to writes: "), "{remarks:?}");
    }

    #[test]
    fn parts_of_an_earlier_launch_of_the_same_number_are_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let reader = |index| Reader { launch: 5, index, count: 2, is_launched: true };
        let [own, _] = [0, 1].map(|index| reader(index).write(folder.path(), part(5)).unwrap());
        let earlier = folder.path().join(format!("{}n7-1.json", begin_of(5)));
        std::fs::copy(&own, &earlier).unwrap();
        let hour_ago = SystemTime::now() - Duration::from_secs(3600);
        std::fs::File::options().write(true).open(earlier).unwrap().set_modified(hour_ago).unwrap();
        let (parts, remark) = reader(0).wait_for_all(folder.path(), &own).unwrap();
        assert_eq!((parts.len(), remark), (2, None));
    }
}

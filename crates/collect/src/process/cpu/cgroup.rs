//! The CPU quota of this process's control group, cgroups(7).

use mpisee_profile::own_process;
use std::fs;
use std::num::NonZero;
use std::path::{Path, PathBuf};

/// The quota in thousandths of a core; `None` if there is none. That of a group holds for the
/// groups in it, so that the least counts.
pub fn quota() -> Option<NonZero<u64>> {
    let own = |name: &str| fs::read_to_string(own_process::folder().join(name)).ok();
    let (groups, mounts) = (own("cgroup")?, own("mountinfo")?);
    let of_place = |place: GroupFolder| {
        let above = place.folder.ancestors().take_while(|folder| folder.starts_with(&place.mount));
        above.filter_map(|folder| place.version.quota(folder)).min()
    };
    places(&groups, &mounts).into_iter().filter_map(of_place).min().and_then(NonZero::new)
}

/// The two kinds of control groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

impl Version {
    /// The quota of the group in that folder.
    fn quota(self, folder: &Path) -> Option<u64> {
        let text = |name: &str| fs::read_to_string(folder.join(name)).ok();
        match self {
            Version::One => thousandths(&text("cpu.cfs_quota_us")?, &text("cpu.cfs_period_us")?),
            Version::Two => {
                let text = text("cpu.max")?;
                let (quota, period) = text.trim().split_once(' ')?;
                thousandths(quota, period)
            }
        }
    }
}

/// Thousandths of a core, from microseconds on cores in each period; without a quota the first is
/// `max`, or `-1`.
fn thousandths(quota_us: &str, period_us: &str) -> Option<u64> {
    let quota_us: u64 = quota_us.trim().parse().ok()?;
    let period_us: u64 = period_us.trim().parse().ok()?;
    quota_us.checked_mul(1000)?.checked_div(period_us)
}

/// A folder that shows the process's group.
#[derive(Debug, PartialEq, Eq)]
struct GroupFolder {
    version: Version,
    /// Where the groups begin.
    mount: PathBuf,
    folder: PathBuf,
}

/// The process's groups that may have a quota, from `/proc/PID/cgroup` and `/proc/PID/mountinfo`.
fn places(groups: &str, mounts: &str) -> Vec<GroupFolder> {
    let group = |version: Version| {
        groups.lines().find_map(|line| {
            let [_, controllers, path] = *line.splitn(3, ':').collect::<Vec<_>>() else { return None };
            let is_it = match version {
                Version::One => controllers.split(',').any(|controller| controller == "cpu"),
                Version::Two => controllers.is_empty(),
            };
            is_it.then_some(path)
        })
    };
    let place = |line: &str| {
        let (before, after) = line.split_once(" - ")?;
        let [root, mount] = [3, 4].map(|field| before.split(' ').nth(field));
        let mut after = after.split(' ');
        let version = match after.next()? {
            "cgroup2" => Version::Two,
            "cgroup" if after.nth(1)?.split(',').any(|option| option == "cpu") => Version::One,
            _ => return None,
        };
        let (root, mount) = (root?, Path::new(mount?));
        // A container may see its own group as the root, or as a path that begins above what is
        // mounted.
        let below = Path::new(group(version)?).strip_prefix(root).ok();
        let below = below.filter(|path| !path.iter().any(|part| part == "..")).unwrap_or(Path::new(""));
        Some(GroupFolder { version, mount: mount.to_owned(), folder: mount.join(below) })
    };
    mounts.lines().filter_map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folders(groups: &str, mounts: &str) -> Vec<(Version, String)> {
        let places = places(groups, mounts).into_iter();
        places.map(|place| (place.version, place.folder.display().to_string())).collect()
    }

    #[test]
    fn a_quota_is_a_number_of_cores() {
        assert_eq!(thousandths("150000", "100000\n"), Some(1500));
        assert_eq!(thousandths("max", "100000"), None);
        assert_eq!(thousandths("-1\n", "100000\n"), None);
        assert_eq!(thousandths("1", "0"), None);
    }

    #[test]
    fn groups_are_found_below_their_mounts() {
        let one = "36 35 0:31 / /sys/fs/cgroup/cpu rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct";
        let set = "37 35 0:32 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset";
        let two = "38 35 0:33 / /sys/fs/cgroup rw,relatime shared:4 - cgroup2 cgroup2 rw,nsdelegate";
        let groups = "3:cpuset:/\n2:cpu,cpuacct:/slurm/job_7\n0::/system.slice/a b.scope\n";
        let all = format!("{one}\n{set}\n{two}\n");
        assert_eq!(
            folders(groups, &all),
            [
                (Version::One, "/sys/fs/cgroup/cpu/slurm/job_7".to_owned()),
                (Version::Two, "/sys/fs/cgroup/system.slice/a b.scope".to_owned()),
            ]
        );
        assert!(folders("", &all).is_empty() && folders(groups, "").is_empty());
    }

    #[test]
    fn groups_of_a_container_are_those_that_it_sees() {
        let mount = |root: &str| format!("9 8 0:3 {root} /sys/fs/cgroup rw - cgroup2 cgroup rw");
        let seen = |group: &str, root: &str| folders(&format!("0::{group}\n"), &mount(root));
        let own = vec![(Version::Two, "/sys/fs/cgroup/".to_owned())];
        assert_eq!(seen("/docker/4711", "/docker/4711"), own);
        assert_eq!(seen("/", "/"), own);
        assert_eq!(seen("/../..", "/"), own);
        assert_eq!(seen("/docker/4711", "/elsewhere"), own);
    }
}

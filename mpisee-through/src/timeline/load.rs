//! Reads the time line of a job: of all its nodes, from one folder or, where nodes share none, from
//! several.

use super::files::{read, table_path};
use super::gpus::{self, NodeGpu};
use super::{ENDING, JOB_FILE, JobFile, NodeFile, open, read_job};
use anyhow::{Context, Result, bail};
use mpisee_profile::rows::{NodeRateRow, RateRow, Row};
use mpisee_profile::run::rfc3339;
use mpisee_profile::{Profile, RunInfo};
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// A time line.
#[derive(Debug)]
pub struct TimeLine {
    pub job: JobFile,
    pub nodes: Vec<NodeFile>,
    pub rates: Vec<RateRow>,
    pub node_rates: Vec<NodeRateRow>,
    pub gpus: Vec<NodeGpu>,
    /// Remarks for the reader, one sentence each.
    pub notes: Vec<String>,
}

impl TimeLine {
    /// Of the folders of a job, or of its profile.
    pub fn read(paths: &[PathBuf]) -> Result<TimeLine> {
        let folders: Result<Vec<PathBuf>> = paths.iter().map(|path| folder_of(path)).collect();
        let mut known = HashSet::new();
        let mut jobs: Vec<(JobFile, PathBuf)> = Vec::new();
        for folder in folders? {
            // A profile and its time line may both be named.
            if !known.insert(folder.canonicalize().unwrap_or_else(|_| folder.clone())) {
                continue;
            }
            let job = read_job(&folder)?;
            if jobs.iter().any(|(first, _)| first.job != job.job) {
                bail!("'{}' is of another job than the folders before it", folder.display());
            }
            jobs.push((job, folder));
        }
        let Some((first, _)) = jobs.iter().min_by_key(|(job, _)| job.start_ns) else {
            bail!("no folder is named")
        };
        let mut line = TimeLine::from_job(first.clone());
        for (job, folder) in &jobs {
            // Agents that share no folder count from the begin that each has seen.
            let later_s = job.start_ns.saturating_sub(line.job.start_ns) as f64 * 1e-9;
            line.add(folder, later_s)?;
        }
        if line.node_rates.is_empty() {
            bail!("the time line of {} has no interval yet", line.job.profile);
        }
        Ok(line)
    }

    /// Of a profile's run, from the folder beside the profile; `None` if there is none.
    pub fn of_profile(profile: &Path, run: &RunInfo) -> Result<Option<TimeLine>> {
        beside(profile, run)?.map(|folder| TimeLine::read(&[folder])).transpose()
    }

    fn from_job(job: JobFile) -> TimeLine {
        TimeLine {
            job,
            nodes: Vec::new(),
            rates: Vec::new(),
            node_rates: Vec::new(),
            gpus: Vec::new(),
            notes: Vec::new(),
        }
    }

    fn add(&mut self, folder: &Path, later_s: f64) -> Result<()> {
        let cannot = || format!("cannot read '{}'", folder.display());
        let mut hosts = Vec::new();
        for entry in std::fs::read_dir(folder).with_context(cannot)? {
            let name = entry.with_context(cannot)?.file_name();
            let name = name.to_string_lossy();
            let is_node = name != JOB_FILE && !name.starts_with('.');
            hosts.extend(name.strip_suffix(".json").filter(|_| is_node).map(str::to_owned));
        }
        hosts.sort();
        for host in hosts {
            self.add_node(folder, &host, later_s)?;
        }
        Ok(())
    }

    fn add_node(&mut self, folder: &Path, host: &str, later_s: f64) -> Result<()> {
        let path = folder.join(format!("{host}.json"));
        let node: NodeFile =
            serde_json::from_reader(open(&path)?).with_context(|| format!("in '{}'", path.display()))?;
        let (mut rates, is_cut) = rows::<RateRow>(folder, host)?;
        let (mut node_rates, is_cut_too) = rows::<NodeRateRow>(folder, host)?;
        rates.iter_mut().for_each(|row| row.begin_s.0 += later_s);
        node_rates.iter_mut().for_each(|row| row.begin_s.0 += later_s);
        if is_cut || is_cut_too {
            self.notes.push(format!("The files of {host} are cut off: the last intervals are missing."));
        }
        if node.ended.starts_with("signal") {
            self.notes.push(format!("The agent on {host} ended before the job did, by {}.", node.ended));
        }
        if node.ended.is_empty() && is_stale(&table_path::<NodeRateRow>(folder, host), &node) {
            let last_s = node_rates.iter().map(|row| row.begin_s.0 + row.length_s.0).fold(0.0, f64::max);
            self.notes.push(format!(
                "The agent on {host} has written nothing for a while, and has not ended: it was killed, as it seems, {last_s:.0} s after the begin."
            ));
        }
        self.notes.extend(node.notes.iter().map(|note| format!("On {host} {note}.")));
        self.gpus.append(&mut gpus::read(&gpus::gpus_path(folder, host))?);
        self.nodes.push(node);
        self.rates.append(&mut rates);
        self.node_rates.append(&mut node_rates);
        Ok(())
    }

    /// The end of the last interval, in seconds.
    pub fn end_s(&self) -> f64 {
        self.node_rates.iter().map(|row| row.begin_s.0 + row.length_s.0).fold(0.0, f64::max)
    }

    /// Ranks on the nodes that are in it.
    pub fn ranks(&self) -> u32 {
        self.nodes.iter().map(|node| node.ranks).sum()
    }
}

/// Returns whether an agent that runs would have written to a file since.
fn is_stale(file: &Path, node: &NodeFile) -> bool {
    const LEAST_S: f64 = 15.0;
    let interval_s = node.interval_s * 2f64.powi(node.joined.min(20) as i32);
    let written = std::fs::metadata(file).and_then(|file| file.modified()).ok();
    let since = written.and_then(|written| written.elapsed().ok());
    since.is_some_and(|since| since.as_secs_f64() > LEAST_S.max(5.0 * interval_s))
}

fn rows<R: Row>(folder: &Path, host: &str) -> Result<(Vec<R>, bool)> {
    let path = table_path::<R>(folder, host);
    // The agent describes its node before it has read.
    if path.exists() { read(&path) } else { Ok((Vec::new(), false)) }
}

/// The folder that is meant: itself, or that of a profile's job, beside it.
fn folder_of(path: &Path) -> Result<PathBuf> {
    if path.join(JOB_FILE).exists() {
        return Ok(path.to_owned());
    }
    if !path.exists() {
        bail!("there is no '{}'; mpisee --watch writes none of a job that ends within 0.1 s", path.display());
    }
    if !path.join("run.json").exists() {
        bail!(
            "'{}' is neither a time line, NAME.{ENDING}, which mpisee --watch or mpisee-through agent write, nor a profile",
            path.display()
        );
    }
    let profile = Profile::open(path)?;
    match beside(path, profile.run())? {
        Some(folder) => Ok(folder),
        None if profile.run().is_without_mpi() => {
            bail!(
                "no NAME.{ENDING} beside '{}' is of its run: time lines are of MPI, and it has none",
                path.display()
            )
        }
        None => {
            bail!("no NAME.{ENDING} beside '{}' is of its run; mpisee --watch writes one", path.display())
        }
    }
}

/// The folder with the time line of a profile's run, beside the profile; `None` if there is none,
/// and for profiles that do not say which world they are of. Links are not followed.
fn beside(profile: &Path, run: &RunInfo) -> Result<Option<PathBuf>> {
    let Some(world) = &run.world_id else { return Ok(None) };
    let path = std::path::absolute(profile)?;
    let beside = path.parent().unwrap_or(Path::new("/"));
    let entries = std::fs::read_dir(beside).with_context(|| format!("cannot read '{}'", beside.display()))?;
    let folders = entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let is_line = |path: &PathBuf| path.extension().is_some_and(|extension| extension == ENDING);
    // Launchers give the number of a world again after a while: of those the one that began at
    // about the same time. Ranks begin one after the other.
    const MOST_APART_S: i64 = 60;
    let apart_s = |start_ns: u64| {
        let second = |apart: i64| start_ns.saturating_add_signed(apart * 1_000_000_000);
        let mut all = (-MOST_APART_S..=MOST_APART_S).filter(|&apart| rfc3339(second(apart)) == run.start);
        all.next().map(i64::abs)
    };
    let apart_from_run = |folder: &PathBuf| {
        let job = read_job(folder).ok()?;
        let is_of_run = job.job == *world && job.command == run.command && job.ranks == run.ranks;
        apart_s(job.start_ns).filter(|_| is_of_run)
    };
    let folders = folders.map(|entry| entry.path()).filter(is_line);
    let mut found: Vec<(i64, PathBuf)> =
        folders.filter_map(|folder| Some((apart_from_run(&folder)?, folder))).collect();
    found.sort();
    Ok(found.into_iter().next().map(|(_, folder)| folder))
}

//! Finds the job that an agent is to read.

use crate::command::job_selection::{JobSelection, SegmentsArgs};
use crate::output::printable;
use crate::signals;
use crate::timeline::MOST_APART_NS;
use anyhow::{Result, bail};
use mpisee_collect::process;
use mpisee_collect::segments::{self, Segment, WorldSegments};
use std::time::{Duration, Instant, SystemTime};

/// Where to look, and for what.
pub struct Search {
    wanted: JobSelection,
    /// Jobs that were read already.
    done: Vec<u64>,
}

impl Search {
    /// By a process, a name, a job or a directory, else all jobs of this node.
    pub fn new(among: &SegmentsArgs, which: Option<&str>) -> Result<Search> {
        Ok(Search { wanted: JobSelection::within(among, which, segments::own_user()?)?, done: Vec::new() })
    }

    /// All jobs that it could find.
    pub fn all(&self) -> JobSelection {
        self.wanted.of_all()
    }

    /// Waits for a job to begin: while its process runs, if one was named, else that long. `None`
    /// if none came.
    pub fn wait(&mut self, most_s: f64) -> Result<Option<WorldSegments>> {
        // A rank that ends soon is seen, too; after a while nobody has to hurry.
        const FIRST: Duration = Duration::from_secs(60);
        const SHORT: Duration = Duration::from_millis(100);
        const LONG: Duration = Duration::from_secs(1);
        let begin = Instant::now();
        // The ranks of a batch script's process may be of one job after the other; else others'
        // jobs begin beside this one.
        if !self.done.is_empty() && self.wanted.pid().is_none() {
            return Ok(None);
        }
        loop {
            if let Some(world) = self.running()? {
                self.done.extend(job_of(&world));
                return Ok(Some(world));
            }
            let is_over = match self.wanted.pid() {
                Some(pid) => process::look_at(pid).is_none_or(|seen| seen.ended),
                None => begin.elapsed().as_secs_f64() >= most_s,
            };
            if is_over || signals::caught().is_some() {
                return Ok(None);
            }
            std::thread::sleep(if begin.elapsed() < FIRST { SHORT } else { LONG });
        }
    }

    /// The job that runs and was not read; `None` if there is none. Of several of a process, the
    /// one that began first.
    pub fn running(&self) -> Result<Option<WorldSegments>> {
        let mut worlds = self.worlds()?;
        if self.wanted.pid().is_some() {
            return Ok(worlds.into_iter().next());
        }
        if worlds.len() > 1 {
            bail!(
                "{} jobs run here; name one or a process of it, such as {}",
                worlds.len(),
                worlds[0].running().next().map_or(0, |segment| segment.header.pid)
            );
        }
        Ok(worlds.pop())
    }

    /// Jobs that run and were not read.
    fn worlds(&self) -> Result<Vec<WorldSegments>> {
        let found = segments::find(&self.wanted.directory, self.wanted.user, false)?;
        let mut worlds = segments::worlds(found.segments);
        worlds.retain(|world| {
            job_of(world).is_some_and(|job| !self.done.contains(&job)) && self.wanted.takes(world)
        });
        Ok(worlds)
    }

    /// The segments of a job that began then, with those that came since.
    pub fn segments(&self, job: u64, start_ns: u64) -> Result<Vec<Segment>> {
        // Launchers reuse the numbers of jobs, and a killed one has left its segments.
        let mut segments = segments::find(&self.wanted.directory, self.wanted.user, false)?.segments;
        segments.retain(|segment| {
            segment.header.job == job
                && segment.header.start_realtime_ns >= start_ns.saturating_sub(MOST_APART_NS)
        });
        Ok(segments)
    }

    /// When the directory last changed: before that there is no other segment in it.
    pub fn changed(&self) -> Option<SystemTime> {
        std::fs::metadata(&self.wanted.directory).and_then(|metadata| metadata.modified()).ok()
    }

    /// Why there is nothing to read, with what to do.
    pub fn nothing(&self, advice: &str) -> String {
        let advice = if self.wanted.is_of_all() { advice } else { "" };
        printable(&(self.wanted.nothing() + advice))
    }
}

/// The number of a job.
pub fn job_of(world: &WorldSegments) -> Option<u64> {
    world.running().next().map(|segment| segment.header.job)
}

//! The job of an agent: as its file has it, and where and when it began.

use crate::timeline::{ENDING, FORMAT_VERSION, JobFile};
use mpisee_collect::{process, ticks};
use mpisee_profile::options::Options;
use mpisee_profile::run::rfc3339;
use mpisee_profile::segment::snapshot::Program;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Distinguishes nodes of one name, as containers may be: by the system's boot, and by the file
/// system with the segments.
pub fn identity(segments: &Path) -> String {
    let at = std::fs::metadata(segments).map_or((0, 0), |folder| (folder.dev(), folder.ino()));
    format!("{:x}-{:x}-{:x}", process::boot(), at.0, at.1)
}

/// The job, as its first agent sees it.
pub fn job_file(job: u64, program: &Program, ranks: u32, start_ns: u64) -> JobFile {
    JobFile {
        format_version: FORMAT_VERSION,
        job: format!("{job:x}"),
        command: program.command.clone(),
        profile: program.profile.clone(),
        ranks,
        start: rfc3339(start_ns),
        start_ns,
    }
}

/// The folder beside the profile of that name, which is in the working directory or where
/// MPISEE_OUTPUT says.
pub fn beside_profile(profile: &str) -> PathBuf {
    let name = Path::new(profile).with_extension(ENDING);
    let name = if profile.is_empty() { PathBuf::from(format!("job.{ENDING}")) } else { name };
    let output = Options::of_process().0.output;
    match output {
        Some(folder) if folder.as_os_str().as_encoded_bytes().ends_with(b"/") => folder.join(name),
        Some(output) => output.with_file_name(name),
        None => name,
    }
}

/// The begin of the job on the clock of this process. Times of all nodes count from the begin that
/// the first agent saw.
pub fn begin_of(job: &JobFile, (start_ns, start_monotonic_ns): (u64, u64)) -> Instant {
    let now = Instant::now();
    let began = now.checked_sub(passed(start_ns, start_monotonic_ns)).unwrap_or(now);
    let apart = Duration::from_nanos(start_ns.abs_diff(job.start_ns));
    if job.start_ns > start_ns { began + apart } else { began.checked_sub(apart).unwrap_or(began) }
}

/// The time since a rank of this node began. The clock of the day may have been set meanwhile: then
/// the monotonic one tells, which the rank has read a bit later.
fn passed(start_ns: u64, start_monotonic_ns: u64) -> Duration {
    const MOST_APART: Duration = Duration::from_secs(5);
    let by_day = SystemTime::now().duration_since(UNIX_EPOCH + Duration::from_nanos(start_ns)).ok();
    let monotonic = Duration::from_nanos(ticks::monotonic_ns().saturating_sub(start_monotonic_ns));
    let is_right = |by_day: &Duration| start_monotonic_ns == 0 || by_day.abs_diff(monotonic) < MOST_APART;
    match by_day.filter(is_right) {
        Some(by_day) => by_day,
        None if start_monotonic_ns == 0 => Duration::ZERO,
        None => monotonic,
    }
}

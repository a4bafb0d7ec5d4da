//! Writes the profile of segments to the directory that is wanted, or to another, and says where it
//! is.

use crate::state::start_folder::from_start_folder;
use crate::state::world::World;
use crate::storage::message::say;
use crate::storage::segment::has_memory;
use mpisee_collect::output_places::Candidates;
use mpisee_collect::profile::{self, Written};
use mpisee_collect::run::in_numbers;
use mpisee_collect::segments::WorldSegments;
use mpisee_profile::path_text::shell_path;
use mpisee_profile::writer::since_taken;
use mpisee_profile::{ProfileError, RankSet};
use std::path::{Path, PathBuf};

/// Memory that writing a profile takes, beyond [`WRITING_TIMES`] the bytes of the segments.
const WRITING_BYTES: usize = 8 << 20;
const WRITING_TIMES: usize = 4;

/// Returns whether there is memory to write a profile of these segments.
pub fn has_memory_to_write<'p>(segments: impl Iterator<Item = &'p Path>) -> bool {
    let bytes = |path| std::fs::metadata(path).map_or(0, |it| it.len() as usize);
    has_memory(WRITING_BYTES + WRITING_TIMES * segments.map(bytes).sum::<usize>())
}

/// Writes the profile to the wanted directory, or to another; `false` if there is none, and what
/// was counted stays where `recover`, a command, finds it. `note` is of what it does not have
/// though it is complete.
pub fn write_to(
    world: &World,
    all: &WorldSegments,
    why_absent: Option<&str>,
    note: Option<&str>,
    [wanted, folder]: [PathBuf; 2],
    recover: &str,
) -> bool {
    let mut candidates = Candidates::new(wanted, folder, world.options.segments.clone());
    let mut failures = Vec::new();
    while let Some(directory) = candidates.next() {
        match profile::write(all, &directory, why_absent, note) {
            Ok(written) => {
                say_written(world, all, &written, &directory, why_absent, &failures);
                return true;
            }
            Err(error) => {
                if let Some(error) = error.downcast_ref::<ProfileError>() {
                    candidates.note(&directory, error);
                }
                failures.push(format!("{error:#}"));
            }
        }
    }
    let first = failures.first().map_or("", String::as_str);
    say(format_args!(
        "no profile: {first}, nor at any other place; what the ranks counted is kept; where there is room, run: {recover}"
    ));
    false
}

/// The reason for which these ranks are not in the profile.
pub fn ended_before(ranks: &RankSet) -> String {
    format!("{} ended before the profile was written", ranks.named())
}

fn say_written(
    world: &World,
    all: &WorldSegments,
    written: &Written,
    directory: &Path,
    why_absent: Option<&str>,
    failures: &[String],
) {
    for (rank, why) in &written.unreadable {
        say(format_args!("rank {rank}: {why}; its counts are not in the profile"));
    }
    if world.options.quiet && failures.is_empty() {
        return;
    }
    let ranks = in_numbers(all.segments().count() as u64 - written.unreadable.len() as u64);
    let of = why_absent.map_or(String::new(), |why| format!(" of {} ({why})", world.size));
    let short = from_start_folder(&written.directory);
    let since = since_taken(from_start_folder(directory), short);
    let directory = shell_path(short);
    match failures.first() {
        Some(why) => say(format_args!(
            "{why}: the profile of {ranks}{of} is in {0} instead{since}; read it with: mpisee-through {0}",
            shell_path(&written.directory)
        )),
        None => say(format_args!(
            "profile of {ranks}{of} in {directory}{since}; read it with: mpisee-through {directory}"
        )),
    }
}

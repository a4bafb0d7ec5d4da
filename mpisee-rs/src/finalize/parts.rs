//! The profile of a job without MPI that has ranks elsewhere: on other nodes, or of another
//! launcher.

use super::written::{ended_before, has_memory_to_write, write_to};
use crate::state::world::World;
use crate::storage::message::say;
use mpisee_collect::gathering::{Added, Gathering, WholeJob, is_of_this_node};
use mpisee_collect::process::is_on_several_nodes;
use mpisee_collect::segments::WorldSegments;
use mpisee_profile::RankSet;
use mpisee_profile::path_text::shell_path;
use std::path::Path;

/// Leaves what these ranks counted beside the profile, and writes that if all ranks of the job are
/// there; `false` if they have to have a profile of their own.
pub fn gather(world: &World, ranks: &WorldSegments, ended: &RankSet, wanted: &Path) -> bool {
    let beside = wanted.parent().unwrap_or(Path::new("/"));
    match is_on_several_nodes(world.size) {
        Some(false) => return false,
        Some(true) if is_of_this_node(beside) => return false,
        _ => {}
    }
    let Some(gathering) = Gathering::from_ranks(ranks, wanted) else { return false };
    match gathering.add(ranks, ended) {
        Ok(Added::Whole(job)) => write(world, job, wanted),
        Ok(Added::Waits { absent, is_first }) => {
            if is_first {
                say_waits(ranks, &absent, gathering.folder());
            }
        }
        Ok(Added::TakenByAnother) => {}
        Err(why) => {
            say(format_args!("{why:#}: the ranks of this node have a profile of their own"));
            return false;
        }
    }
    true
}

fn say_waits(ranks: &WorldSegments, absent: &RankSet, folder: &Path) {
    let here: RankSet = ranks.segments().map(|segment| segment.header.world_rank).collect();
    say(format_args!(
        "what {} counted is in {}; whoever ends last, of {}, writes the profile; if none does, run: {}",
        here.named(),
        folder.display(),
        absent.named(),
        recover_parts(folder),
    ));
}

/// The command that makes a profile of the parts in a folder.
fn recover_parts(folder: &Path) -> String {
    format!("mpisee-through recover {}/*", shell_path(folder))
}

fn write(world: &World, job: WholeJob, wanted: &Path) {
    let recover = recover_parts(job.folder());
    if !has_memory_to_write(job.ranks.segments().map(|segment| segment.path.as_path())) {
        return say(format_args!("no memory to write the profile; run: {recover}"));
    }
    let folder = wanted.parent().unwrap_or(Path::new("/")).to_owned();
    let why = (!job.ended.is_empty()).then(|| ended_before(&job.ended));
    if write_to(world, &job.ranks, why.as_deref(), None, [wanted.to_owned(), folder], &recover) {
        job.remove();
    }
}

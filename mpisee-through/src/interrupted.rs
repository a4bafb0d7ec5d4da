//! Runs that ended without `MPI_Finalize`: where their ranks were, and what of their time is not
//! counted.

use crate::sites::{SiteArgs, Sites};
use crate::view::ProfileView;
use mpisee_profile::run::{EndedIn, MOST_OF_CYCLE};
use mpisee_profile::{RankSet, RunInfo, WorldRank};

/// Places that the warning lists.
const LISTED: usize = 3;

/// Returns whether the profile is of ranks that ended without `MPI_Finalize`: wall times are lower
/// bounds.
pub fn is_of(run: &RunInfo) -> bool {
    !run.complete && (run.profiler.collected == "recover" || !run.ended_in.is_empty())
}

/// A warning that calls in progress are not counted, with these calls and the members that were not
/// in them.
pub fn warning(view: &ProfileView) -> Option<String> {
    is_of(view.run()).then(|| {
        let listed = listed(view, |place| place.call.is_some());
        let deadlocks = deadlocks(view).into_iter().map(|sentence| format!("Deadlock: {sentence}. "));
        let deadlocks: String = deadlocks.collect();
        format!("{deadlocks}Times do not include calls that were in progress when ranks ended.{listed}")
    })
}

/// Where ranks ended, in MPI calls or in none; the first thing to look at in a run that hung.
pub fn last_places(view: &ProfileView) -> Option<String> {
    is_of(view.run()).then(|| {
        let end = if view.run().is_without_mpi() { "before its exit" } else { "without MPI_Finalize" };
        let first = if view.run().deadlocks.is_empty() { "last places of ranks" } else { "deadlock" };
        format!("The run ended {end}. Start with the {first}.{}", listed(view, |_| true))
    })
}

/// A sentence for each of the first places, with a blank before it, and the number of others.
/// Places that the sentence on a deadlock has are left out.
fn listed(view: &ProfileView, is_meant: fn(&EndedIn) -> bool) -> String {
    let cycles = view.run().deadlocks.iter().flat_map(|one| one.cycle.iter().take(MOST_OF_CYCLE));
    let named: RankSet = cycles.map(|one| WorldRank::new(one.rank)).collect();
    let is_named = |place: &EndedIn| {
        place.ranks.parse().is_ok_and(|ranks: RankSet| ranks.iter().all(|rank| named.contains(rank)))
    };
    let places = view.run().ended_in.iter().filter(|place| is_meant(place) && !is_named(place));
    let places: Vec<&EndedIn> = places.collect();
    let (listed, others) = places.split_at(places.len().min(LISTED));
    let sentences = sentences(view, listed).into_iter().zip(listed);
    let sentences = sentences.map(|(sentence, place)| format!(" {sentence}{}.", absent(place, view)));
    let more = (!others.is_empty()).then(|| format!(" {} more places are in run.json.", others.len()));
    sentences.chain(more).collect()
}

/// A sentence for each deadlock of the ranks that ended, with function and line as far as they are
/// known.
pub fn deadlocks(view: &ProfileView) -> Vec<String> {
    let deadlocks = &view.run().deadlocks;
    // What cannot be read is an error of the commands on sites.
    let mut sites = match deadlocks.is_empty() {
        true => None,
        false => Sites::from_view(view, &SiteArgs::default(), &[]).ok().flatten(),
    };
    let mut line = |site| sites.as_mut().map(|sites| sites.place(site).short_text());
    deadlocks.iter().map(|one| one.sentence(&mut line)).collect()
}

/// A sentence for each of these places, with function and line as far as they are known.
pub fn sentences(view: &ProfileView, places: &[&EndedIn]) -> Vec<String> {
    let has_sites = places.iter().any(|place| place.site.is_some());
    // What cannot be read is an error of the commands on sites.
    let sites = || Sites::from_view(view, &SiteArgs::default(), &[]).ok().flatten();
    let mut sites = if has_sites { sites() } else { None };
    let mut line = |site| sites.as_mut().map(|sites| sites.place(site).short_text());
    let sentence = |place: &&EndedIn| {
        let sentence = place.sentence(place.site.and_then(&mut line).as_deref());
        match place.call.is_none() && view.run().is_without_mpi() {
            true => sentence.replace("no MPI call", "no call of NCCL"),
            false => sentence,
        }
    };
    places.iter().map(sentence).collect()
}

/// The members of the communicator that were not in this call of a collective.
fn absent(place: &EndedIn, view: &ProfileView) -> String {
    let run = view.run();
    let row = place.comm.as_ref().and_then(|comm| view.processes().comms.get(comm));
    let (Some(row), Some(_), false) = (row, place.number, view.processes().ranks().is_empty()) else {
        return String::new();
    };
    let is_same = |other: &&EndedIn| {
        (&other.call, &other.comm, other.number) == (&place.call, &place.comm, place.number)
    };
    let inside: Option<Vec<RankSet>> =
        run.ended_in.iter().filter(is_same).map(|other| other.ranks.parse().ok()).collect();
    let Some(inside) = inside else { return String::new() };
    let members = view.processes().present_members(&row.members).into_iter();
    let absent: RankSet = members.filter(|&rank| !inside.iter().any(|ranks| ranks.contains(rank))).collect();
    let verb = if absent.len() == 1 { "was" } else { "were" };
    match absent.is_empty() {
        true => String::new(),
        false => format!(", {} {verb} not", absent.named()),
    }
}

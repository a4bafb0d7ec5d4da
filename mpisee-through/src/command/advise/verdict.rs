//! The verdict: what dominates the run, in a sentence or two with numbers.

use super::at;
use super::facts::{Facts, FamilyFacts, OfSize, Used};
use super::finding::percent;
use super::{nccl, waiting};
use crate::units::{size_class, time};
use mpisee_profile::rows::UNKNOWN_SIZE;
use mpisee_profile::run::WITHOUT_MPI;

/// The share of the run in MPI below which there is little to gain.
const LITTLE: f64 = 0.05;
/// Of the time in MPI, what is named has at least this share, and all of it together as much as is
/// said enough.
const NAMED: f64 = 0.1;
const ENOUGH: f64 = 0.75;
const MOST_NAMED: usize = 3;
/// Of an operation's time, a size class that is named takes all but a twentieth, or most.
const ALL: f64 = 0.95;
const MOST: f64 = 0.5;

/// An operation on like communicators.
struct Part<'f> {
    used: &'f Used,
    family: &'f FamilyFacts<'f>,
    label: Option<&'f str>,
}

/// The operations that dominate, in words.
pub fn verdict(facts: &Facts<'_>) -> String {
    if facts.library == WITHOUT_MPI {
        return nccl::verdict(facts);
    }
    let of_run = facts.share_of_run(facts.mpi_s);
    let whole = format!(
        "MPI takes {} of the run: {} of {}, summed over ranks.",
        percent(of_run),
        time(facts.mpi_s),
        time(facts.run_s)
    );
    let whole = match facts.is_interrupted {
        true => format!(
            "MPI takes {} or more, summed over ranks: {} of the time up to the last known call of each rank.",
            time(facts.mpi_s),
            percent(of_run)
        ),
        false => whole,
    };
    if of_run < LITTLE && !facts.is_interrupted {
        return format!("{whole} Tuning MPI can save this share at most.");
    }
    let families: Vec<FamilyFacts<'_>> = facts.families().collect();
    let mut parts: Vec<Part<'_>> = families.iter().flat_map(parts).collect();
    parts.sort_by(|left, right| right.used.time_s.total_cmp(&left.used.time_s));
    let of_mpi = |part: &Part<'_>| part.used.time_s / facts.mpi_s.max(f64::MIN_POSITIVE);
    let (of_hang, mut share) = hang_sentence(facts);
    let mut named = Vec::new();
    for part in parts.iter().take(MOST_NAMED) {
        let is_first = named.is_empty() && of_hang.is_empty();
        if !is_first && (of_mpi(part) < NAMED || share >= ENOUGH) {
            break;
        }
        share += of_mpi(part);
        let waiting = waiting::of_family(facts, part.family, Some(&part.used.call));
        let waiting = waiting.map_or(String::new(), |known| format!(", {}", waiting::in_seconds(known)));
        let place = at::place_of_most(facts, part.family, &part.used.call);
        let of_mpi = 100.0 * of_mpi(part);
        named.push(format!("{}: {of_mpi:.0} % of the MPI time{place}{waiting}", part.said()));
    }
    match named.split_first() {
        None => whole + &of_hang,
        Some((first, others)) => {
            let others: String = others.iter().map(|other| format!(" The next part is {other}.")).collect();
            format!(
                "{whole}{of_hang} The largest{} part is {first}.{others}",
                if of_hang.is_empty() { "" } else { " other" }
            )
        }
    }
}

/// A sentence on tests or probes that a hang may explain, if they take much of the time in MPI, and
/// their share.
fn hang_sentence(facts: &Facts<'_>) -> (String, f64) {
    let share = |time_s: f64| time_s / facts.mpi_s.max(f64::MIN_POSITIVE);
    match facts.of_hang.as_ref().map(|found| (found, share(found.time_s))) {
        Some((found, share)) if share >= NAMED => {
            let text = format!(
                " {} of the MPI time is in {} on {}. Ranks ended in or between such calls, so a hang may explain the \
                 time.",
                percent(share),
                found.call,
                found.comm
            );
            (text, share)
        }
        _ => (String::new(), 0.0),
    }
}

fn parts<'f>(family: &'f FamilyFacts<'f>) -> impl Iterator<Item = Part<'f>> {
    let mut labels = family.comms.iter().map(|comm| comm.row.map_or("", |row| row.label.as_str()));
    let first = labels.next().filter(|label| !label.is_empty());
    let label = first.filter(|&first| labels.all(|label| label == first));
    family.used.iter().map(move |used| Part { used, family, label })
}

impl Part<'_> {
    /// `MPI_Alltoall of 4 MiB - <8 MiB on W_s1.* (2 × 4), "fft"`.
    fn said(&self) -> String {
        let label = self.label.map_or(String::new(), |label| format!(", \"{label}\""));
        format!("{}{} on {}{label}", self.used.call, self.size().unwrap_or_default(), self.family.title)
    }

    /// The size class that takes the time, or most of it.
    fn size(&self) -> Option<String> {
        let mut by_size: Vec<OfSize> = Vec::new();
        for of in &self.used.sizes {
            match by_size.iter_mut().find(|known| known.size_min == of.size_min) {
                Some(known) => known.time_s += of.time_s,
                None => by_size.push(*of),
            }
        }
        let most = by_size.into_iter().max_by(|left, right| left.time_s.total_cmp(&right.time_s))?;
        let of = match most.time_s / self.used.time_s.max(f64::MIN_POSITIVE) {
            share if share >= ALL => "of",
            share if share >= MOST => "mostly of",
            _ => return None,
        };
        match (most.size_min, most.size_max) {
            (_, 0) => None,
            (least, most) if [least, most] == UNKNOWN_SIZE => None,
            (least, most) => Some(format!(" {of} {}", size_class(least, most))),
        }
    }
}

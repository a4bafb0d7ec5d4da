//! Explains differences between sent and received that are no mistake in the profile.

use mpisee_profile::RunInfo;
use mpisee_profile::segment::NotSeen;

/// Calls that move messages and are in no table, and what `check` says of them.
const UNCOUNTED: [(NotSeen, &str); 6] = [
    (NotSeen::UnreportedReceive, "there were receives of which the MPI library does not tell what came"),
    (NotSeen::FreedReceive, "there were receives whose request was freed before they completed"),
    (
        NotSeen::TruncatedReceive,
        "there were receives with less room than their message, the bytes of which are in no table",
    ),
    (NotSeen::CallInCallback, "there were calls inside callbacks, which are in no table"),
    (NotSeen::CallLeft, "there were calls that an error handler left, which are in no table"),
    (NotSeen::LostCounts, "a rank lost part of its counts, for which no file had room"),
];

/// The explanation for ranks, communicators and counters that are missing.
pub fn incomplete(run: &RunInfo) -> Option<&'static str> {
    (!run.complete).then_some("the profile is incomplete")
}

/// The explanation for traffic that differs, if `run.json` has one.
pub fn of_traffic(run: &RunInfo) -> Option<&'static str> {
    let counts = |reason: NotSeen| run.not_seen.get(reason.name()).is_some_and(|&calls| calls > 0);
    let off = run.recording_was_off.then_some("recording was off for a part of the run");
    let uncounted = || UNCOUNTED.into_iter().find(|&(reason, _)| counts(reason)).map(|(_, why)| why);
    incomplete(run).or(off).or_else(uncounted)
}

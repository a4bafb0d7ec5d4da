//! A sentence on an operation beside its replay: what it got, and what dominates.

use super::{Compared, Doubt, mean_bytes};
use crate::units::{human_bytes, time};
use crate::waits::Estimate;
use mpisee_profile::network::{MESSAGES, Replay};

/// A part of the time from which on a sentence names it.
const NAMED: f64 = 0.1;

impl Compared {
    /// A sentence on what dominates.
    pub fn verdict(&self) -> String {
        let causes = [self.siblings(), self.waiting(), self.rest()];
        let causes: Vec<String> = causes.into_iter().flatten().collect();
        let causes = match causes.is_empty() {
            true => "the program gets what the network gives".to_owned(),
            false => causes.join(", "),
        };
        format!("{}; {causes}.", self.rates_in_words())
    }

    /// The part of the operation's time.
    fn share(&self, part_s: f64) -> f64 {
        part_s / self.parts.time_s
    }

    fn percent(&self, part_s: f64) -> String {
        format!("{:.0} %", 100.0 * self.share(part_s))
    }

    /// From and to, in per cent; nothing where both are the same.
    fn interval(&self, part: Estimate) -> Option<String> {
        let [low, high] = [part.low, part.high].map(|part_s| self.percent(part_s));
        (low != high).then(|| format!("{} to {high}", low.trim_end_matches(" %")))
    }

    fn rates_in_words(&self) -> String {
        let Compared { replay, parts, .. } = self;
        let [rate, together, alone] =
            self.rates().map(|rate| format!("{}/s", human_bytes(rate.round() as u64)));
        let got = match (replay.bytes, replay.comms.len()) {
            (0, _) => format!(
                "{} a call in the program, {} replayed",
                time(parts.transfer_s() / self.recorded.calls.max(1) as f64),
                time(replay.together_s)
            ),
            (_, 1) => format!("{rate} for each rank in the program, {together} when replayed"),
            (_, comms) => format!(
                "{rate} for each rank in the program, {together} when {} communicators replay it at once, {alone} alone",
                if comms == 2 { "both".to_owned() } else { format!("all {comms}") }
            ),
        };
        let call = if replay.call == MESSAGES { "Messages" } else { &replay.call };
        format!("{call}{} on {}: {got}", self.sizes(), replay.family)
    }

    /// The sizes that were replayed.
    fn sizes(&self) -> String {
        let Replay { call, bytes, size_min, size_max, .. } = &self.replay;
        let [mean, least, most] = [*bytes, *size_min, *size_max].map(human_bytes);
        match (call == MESSAGES, bytes) {
            (_, 0) => String::new(),
            (true, _) if least != most => format!(" of {least} to {most}, {mean} on average,"),
            (true, _) => format!(" of {mean}"),
            (false, _) => format!(" with blocks of {mean}"),
        }
    }

    fn siblings(&self) -> Option<String> {
        let siblings = self.parts.siblings;
        if self.share(siblings.total) < NAMED {
            return None;
        }
        let shared = if self.had_cores { "the network" } else { "the network or the cores" };
        let interval = self.interval(siblings).map_or(String::new(), |interval| format!(", {interval}"));
        Some(match siblings.low > 0.0 {
            true => format!(
                "siblings that communicate at the same time share {shared} ({}{interval})",
                self.percent(siblings.total)
            ),
            false => format!(
                "the siblings may share {shared} (0 to {}, within the spread of the replay)",
                self.percent(siblings.high)
            ),
        })
    }

    fn waiting(&self) -> Option<String> {
        let Some(waiting) = self.parts.waiting else { return Some("waiting was not measured".to_owned()) };
        let (share, interval) = (self.percent(waiting.total), self.interval(waiting));
        match (self.is_of_all_sizes, interval) {
            (true, Some(interval)) if self.share(waiting.high) >= NAMED => Some(format!(
                "waiting is {share} if this size waits as all sizes of the call together (measured; of this \
                 size {interval})"
            )),
            (_, Some(interval)) if self.share(waiting.total) >= NAMED => {
                Some(format!("waiting is {share} (measured, {interval})"))
            }
            (_, None) if self.share(waiting.total) >= NAMED => Some(format!("waiting is {share} (measured)")),
            _ => None,
        }
    }

    /// The reason for which the rest of the time cannot be divided, or how much of it is not
    /// explained.
    fn rest(&self) -> Option<String> {
        let Compared { replay, parts, .. } = self;
        Some(match self.doubt {
            Some(Doubt::Blocks) => {
                "the part of the network is unknown, because the replay has equally long blocks and the \
                 program may have had others"
                    .to_owned()
            }
            Some(Doubt::Disturbed) => format!(
                "the replay was disturbed (its middle half spreads over {:.0} % of the median); replay again \
                 on cores that nobody else uses",
                100.0 * replay.together_spread.max(replay.alone_spread)
            ),
            Some(Doubt::NoCore) => {
                "the part of the network is unknown, because the replay lacked cores".to_owned()
            }
            Some(Doubt::Few) => format!(
                "the part of the network is unknown, because the replay has fewer than {} repetitions",
                Doubt::FEWEST
            ),
            Some(Doubt::OtherMpi) => "the replay is by another MPI".to_owned(),
            Some(Doubt::OtherSizes) => format!(
                "the replay is of another run of this command, whose calls moved {} and not {} each; replay \
                 this profile",
                human_bytes(mean_bytes(replay).unwrap_or_default() as u64),
                human_bytes(self.recorded.bytes / self.recorded.calls.max(1))
            ),
            Some(Doubt::Longer) => match replay.call == MESSAGES {
                true => {
                    "the part of the network is unknown, because a replay with messages of mean sizes took \
                     longer than the program"
                }
                false => {
                    "the replay took longer than the program; replay again on cores that nobody else uses"
                }
            }
            .to_owned(),
            None if self.share(parts.rest_s) >= NAMED => {
                format!("{} are not explained", self.percent(parts.rest_s))
            }
            None => return None,
        })
    }
}

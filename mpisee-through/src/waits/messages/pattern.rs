//! Who is late with sending or receiving.

use super::estimate::Design;
use super::sums::Cause;
use crate::waits::estimate::{Estimate, FEWEST};
use crate::waits::instance::Hosts;
use crate::waits::pattern::{self, Finding};
use crate::waits::{Member, operation};
use hashbrown::HashMap;

/// The end of messages at which a rank is late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LateEnd {
    /// Receivers wait for it to send.
    Sender,
    /// Senders wait for it to receive.
    Receiver,
    /// The same, of many senders.
    HotReceiver,
    /// Receivers wait for it to send, and senders for it to receive.
    Both,
}

/// The fewest ranks that wait for a hot receiver, and their part of the others.
const FEWEST_WAITING: usize = 3;
const MOST_WAITING: f64 = 0.5;
/// A rank counts among those that wait for a hot receiver from this part of an even share of the
/// wait on.
const OF_EVEN_SHARE: f64 = 0.25;

/// A rank is not named that waits for this part of what it causes, or longer.
const MOST_SUFFERED: f64 = 0.5;

/// A rank is late at both ends where each of them has this part of what it caused.
const OF_BOTH: f64 = 0.25;

/// A node is named where those of its ranks that wait less have this part of what all of them
/// cause.
const OF_HOST: f64 = 0.5;

/// The sampled messages of a communicator.
pub struct Evidence<'a> {
    pub design: &'a Design,
    pub causes: &'a [Cause],
    pub members: &'a [Member],
    pub waiting: Estimate,
    /// The number of hosts.
    pub hosts: usize,
    /// True if the sample is a small part of all messages.
    pub is_part: bool,
    /// By waiting rank, how long it waited for this one to receive, in seconds.
    pub waits_for_receiver: &'a dyn Fn(u32) -> HashMap<u32, f64>,
}

/// The ranks that stand out, by the criteria for collectives: members by position.
pub fn findings(evidence: &Evidence<'_>) -> Vec<Finding> {
    let Evidence { design, members, waiting, .. } = *evidence;
    let units = design.units();
    if units < FEWEST || members.len() < 2 || waiting.total <= 0.0 {
        return Vec::new();
    }
    let mut caused = vec![vec![0.0; units]; members.len()];
    let mut waits = vec![0.0; units];
    for cause in evidence.causes {
        if let Ok(position) = members.binary_search_by_key(&cause.rank, |member| member.rank) {
            let weighted_s = cause.likely_s * design.weight(cause.unit);
            caused[position][cause.unit] += weighted_s;
            waits[cause.unit] += weighted_s;
        }
    }
    let of_member = members.iter().map(|member| member.host).collect();
    let hosts = Hosts { of_member, uncertainty_s: vec![0.0; evidence.hosts] };
    let estimated = operation::Estimated {
        waiting,
        suffered: Vec::new(),
        caused: members.iter().map(|member| member.caused.unwrap_or_default()).collect(),
    };
    let late = pattern::late(&hosts, &caused, &estimated, &waits, evidence.is_part);
    late.into_iter().flat_map(|finding| named(finding, evidence)).collect()
}

/// The finding by the ends at which its members are late.
fn named(finding: Finding, evidence: &Evidence<'_>) -> Vec<Finding> {
    let (mut late, host) = match &finding {
        Finding::Late(late) => (late.clone(), None),
        Finding::LateHost(host) => {
            let is_here = |&position: &usize| evidence.members[position].host == *host;
            ((0..evidence.members.len()).filter(is_here).collect(), Some(*host))
        }
        _ => return vec![finding],
    };
    // Who waits so long itself is late because of that: the culprit is another one, as in a chain.
    late.retain(|&position| {
        let Member { suffered, caused, .. } = evidence.members[position];
        suffered.unwrap_or_default().total < MOST_SUFFERED * caused.unwrap_or_default().total
    });
    // The node is named where all that cause much of it remain, and as senders.
    if let Some(host) = host {
        let caused = |end: usize| -> f64 {
            let of =
                |&position: &usize| evidence.members[position].directions.unwrap_or_default().caused_s[end];
            late.iter().map(of).sum()
        };
        let here = evidence.members.iter().filter(|member| member.host == host);
        let whole_s: f64 = here.map(|member| member.caused.unwrap_or_default().total).sum();
        let [as_senders_s, as_receivers_s] = [caused(0), caused(1)];
        if as_senders_s + as_receivers_s < OF_HOST * whole_s {
            return Vec::new();
        }
        if as_senders_s >= as_receivers_s {
            return vec![finding];
        }
    }
    let end = |position: &usize| {
        let member = &evidence.members[*position];
        let [as_sender_s, as_receiver_s] = member.directions.unwrap_or_default().caused_s;
        let are_both = as_sender_s.min(as_receiver_s) >= OF_BOTH * (as_sender_s + as_receiver_s);
        match as_receiver_s > as_sender_s {
            _ if are_both => LateEnd::Both,
            false => LateEnd::Sender,
            true if is_hot(member.rank, evidence) => LateEnd::HotReceiver,
            true => LateEnd::Receiver,
        }
    };
    [LateEnd::Sender, LateEnd::Receiver, LateEnd::HotReceiver, LateEnd::Both]
        .into_iter()
        .filter_map(|wanted| {
            let of_end: Vec<usize> =
                late.iter().copied().filter(|position| end(position) == wanted).collect();
            (!of_end.is_empty()).then_some(Finding::LateEnd(wanted, of_end))
        })
        .collect()
}

/// Returns whether many wait for the rank to receive.
fn is_hot(rank: u32, evidence: &Evidence<'_>) -> bool {
    let waits = (evidence.waits_for_receiver)(rank);
    let others = (evidence.members.len() - 1) as f64;
    let least_s = OF_EVEN_SHARE * waits.values().sum::<f64>() / others;
    let waiting = waits.values().filter(|wait_s| **wait_s > least_s).count();
    waiting >= FEWEST_WAITING && waiting as f64 >= MOST_WAITING * others
}

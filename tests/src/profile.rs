//! A whole profile in memory, with the questions that tests ask.

use mpisee_profile::rows::{
    ArrivalRow, CallRow, CollectiveRow, CommRow, MessageRow, PeerRow, RankRow, RegionRow, Row, StreamRow,
};
use mpisee_profile::{Profile, RunInfo};
use std::path::Path;

/// All tables of a profile.
pub struct Tables {
    /// `run.json`.
    pub run: RunInfo,
    /// `ranks.csv`.
    pub ranks: Vec<RankRow>,
    /// `comms.csv`.
    pub comms: Vec<CommRow>,
    /// `calls.csv`.
    pub calls: Vec<CallRow>,
    /// `peers.csv`.
    pub peers: Vec<PeerRow>,
    /// `regions.csv`.
    pub regions: Vec<RegionRow>,
    /// `arrivals.csv`.
    pub arrivals: Vec<ArrivalRow>,
    /// `collectives.csv`.
    pub collectives: Vec<CollectiveRow>,
    /// `messages.csv`.
    pub messages: Vec<MessageRow>,
    /// `streams.csv`.
    pub streams: Vec<StreamRow>,
}

/// Sums over the rows that a question selects.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sum {
    /// Calls.
    pub calls: u64,
    /// Bytes.
    pub bytes: u64,
}

impl Tables {
    /// Reads a profile; `stderr` is shown where there is none.
    pub fn read(directory: &Path, stderr: &str) -> Tables {
        let profile = Profile::open(directory).unwrap_or_else(|error| panic!("{error}\n{stderr}"));
        Tables {
            run: profile.run().clone(),
            ranks: rows(&profile),
            comms: rows(&profile),
            calls: rows(&profile),
            peers: rows(&profile),
            regions: rows(&profile),
            arrivals: rows_if_any(&profile),
            collectives: rows_if_any(&profile),
            messages: rows_if_any(&profile),
            streams: rows_if_any(&profile),
        }
    }

    /// Calls and bytes of `call` on `comm`, over all ranks.
    pub fn sum(&self, comm: &str, call: &str) -> Sum {
        self.sum_where(|row| row.comm == comm && row.call == call)
    }

    /// Calls and bytes of `call` on `comm` by one rank.
    pub fn of_rank(&self, comm: &str, call: &str, rank: u32) -> Sum {
        self.sum_where(|row| row.comm == comm && row.call == call && row.rank == rank)
    }

    /// Calls and bytes of the rows that `select` selects.
    pub fn sum_where(&self, select: impl Fn(&CallRow) -> bool) -> Sum {
        self.calls.iter().filter(|row| select(row)).fold(Sum::default(), |sum, row| Sum {
            calls: sum.calls + row.calls,
            bytes: sum.bytes + row.bytes,
        })
    }

    /// The communicator of that name.
    pub fn comm(&self, name: &str) -> &CommRow {
        let found: Vec<_> = self.comms.iter().filter(|row| row.comm == name).collect();
        assert_eq!(found.len(), 1, "rows of {name}; there are {:?}", self.names());
        found[0]
    }

    /// The name of the communicator with that label.
    #[track_caller]
    pub fn labelled(&self, label: &str) -> &str {
        let found: Vec<_> = self.comms.iter().filter(|row| row.label == label).collect();
        assert_eq!(found.len(), 1, "communicators labelled {label}: {found:#?}");
        &found[0].comm
    }

    /// The name of the communicator that has this name but for digests: `W_x1.0-qx8fzvcf_d1` for
    /// `W_x1.0_d1`.
    #[track_caller]
    pub fn named(&self, without_digests: &str) -> &str {
        let is_it = |name: &&str| self::without_digests(name) == without_digests;
        let found: Vec<_> = self.names().into_iter().filter(is_it).collect();
        assert_eq!(found.len(), 1, "{without_digests} with any digests; there are {:?}", self.names());
        found[0]
    }

    /// All names.
    pub fn names(&self) -> Vec<&str> {
        self.comms.iter().map(|row| row.comm.as_str()).collect()
    }

    /// Traffic of `rank` with `peer` on `comm`: messages and bytes sent, messages and bytes
    /// received.
    pub fn peer(&self, comm: &str, rank: u32, peer: u32) -> [u64; 4] {
        let mine = |row: &&PeerRow| row.comm == comm && row.rank == rank && row.peer == peer;
        let rows: Vec<_> = self.peers.iter().filter(mine).collect();
        assert!(rows.len() <= 1, "{comm} {rank} {peer} is in the table {} times", rows.len());
        rows.first().map_or([0; 4], |row| {
            [row.sent_messages, row.sent_bytes, row.received_messages, row.received_bytes]
        })
    }

    /// Calls that are in no table, by reason; 0 for one that is not mentioned.
    pub fn not_seen(&self, reason: mpisee_profile::segment::NotSeen) -> u64 {
        self.run.not_seen.get(reason.name()).copied().unwrap_or(0)
    }
}

/// A name of communicators, or several with other text between, without the digests: `W_x1.0_d1` of
/// `W_x1.0-qx8fzvcf_d1`. A `-` that no digest follows stays.
pub fn without_digests(name: &str) -> String {
    let is_digit = |byte: u8| byte.is_ascii_digit() || byte.is_ascii_lowercase() && !b"ilou".contains(&byte);
    let mut parts = name.split('-');
    let mut left = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (digits, rest) = part.split_at_checked(DIGITS).unwrap_or((part, ""));
        let is_digest = digits.len() == DIGITS && digits.bytes().all(is_digit);
        let ends = rest.is_empty() || rest.starts_with(['_', '|']);
        if is_digest && ends {
            left.push_str(rest);
        } else {
            left.push('-');
            left.push_str(part);
        }
    }
    left
}

/// Of a digest.
const DIGITS: usize = 8;

/// All rows of a table.
pub fn rows<R: Row>(profile: &Profile) -> Vec<R> {
    let read = profile.rows().and_then(Iterator::collect);
    read.unwrap_or_else(|error| panic!("{error}"))
}

/// The rows of a table that a profile may lack.
fn rows_if_any<R: Row>(profile: &Profile) -> Vec<R> {
    let read = profile.rows_if_any().and_then(Iterator::collect);
    read.unwrap_or_else(|error| panic!("{error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_end_steps_of_names() {
        assert_eq!(without_digests("W_s1.0"), "W_s1.0");
        assert_eq!(without_digests("W_x1.0-qx8fzvcf"), "W_x1.0");
        assert_eq!(without_digests("W_x1.0-qx8fzvcf_d1_g1.0-00000001"), "W_x1.0_d1_g1.0");
        assert_eq!(without_digests("W_g1.0-qx8fzvcf|W_g1.1-qx8fzvcf"), "W_g1.0|W_g1.1");
        assert_eq!(without_digests("W_x11+.0-qx8fzvcf"), "W_x11+.0");
        for not_one in ["W_x1.0-qx8fzvc", "W_x1.0-qx8fzvcl", "0-7", "W_x1.0-qx8fzvcf1"] {
            assert_eq!(without_digests(not_one), not_one);
        }
    }
}

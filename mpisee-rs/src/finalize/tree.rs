//! A binomial tree of the ranks, so that each rank communicates with at most about log2 of their
//! number.
//!
//! The parent of a rank has the lowest set bit of its number cleared: the children of 4 are 5 and
//! 6, that of 6 is 7. The subtree of a rank is the ranks that follow it, so what arrives child by
//! child is in the order of ranks.

use super::channel::Channel;
use mpisee_collect::wire::pieces::{Frame, PIECE, Pieces, TABLES, frames};
use mpisee_collect::wire::{Message, Ranks, RootCommand};
use mpisee_profile::CommRank;
use std::ffi::c_int;

/// Tag of what is gathered to rank 0; see [`Tree::gather`].
const UP: c_int = 31_001;
/// Tag of the commands of rank 0.
const DOWN: c_int = 31_002;
/// Rows.
const ROWS: c_int = 31_003;

/// The tree over a channel.
pub struct Tree<'l> {
    channel: &'l Channel,
}

impl<'l> Tree<'l> {
    /// Over all ranks of the channel.
    pub fn over(channel: &'l Channel) -> Self {
        Tree { channel }
    }

    /// Returns whether this rank is the root.
    pub fn is_root(&self) -> bool {
        self.channel.rank == CommRank::FIRST
    }

    /// Reduces one value to rank 0: each rank combines its own value with its children's. `add`
    /// gets these in the order of ranks, or the ranks that are lost if a child did not answer, or
    /// as another version of the library does.
    pub fn gather<T: Message>(&self, mut own: T, add: impl Fn(&mut T, Result<T, Ranks>)) -> T {
        let channel = self.channel;
        let size = channel.size();
        for expected in channel.expect(children(channel.rank, size), UP) {
            let child = below(expected.from, size);
            let sentence = || {
                let ranks = channel.in_world(CommRank::new(child.start), child.end - child.start);
                let of = if ranks.len() == 1 {
                    format!("rank {ranks} has not come")
                } else {
                    format!("of ranks {ranks} not all have come")
                };
                format!("waiting in MPI_Finalize for other ranks: {of}; the profile is written when they do")
            };
            let is_root = self.is_root();
            let bytes = expected.take(if is_root { Some(&sentence) } else { None });
            add(&mut own, bytes.and_then(|bytes| T::decode(&bytes).ok()).ok_or(child));
        }
        if let Some(parent) = parent(channel.rank) {
            let sentence = || {
                let root = channel.in_world(CommRank::FIRST, 1);
                format!(
                    "waiting in MPI_Finalize for other ranks: rank {root} has not come; the profile is written when it \
                     does"
                )
            };
            let sentence: super::channel::Sentence = &sentence;
            channel.send_all(parent, UP, &own.encode(), (parent == CommRank::FIRST).then_some(sentence));
        }
        own
    }

    /// Passes the first rank's command, `own` there, to all ranks, and returns it; `None` where it
    /// does not get through, and below.
    pub fn pass(&self, own: Option<RootCommand>) -> Option<RootCommand> {
        let channel = self.channel;
        let command = match parent(channel.rank) {
            // An empty message says that there was none.
            Some(parent) => {
                let bytes = channel.expect(std::iter::once(parent), DOWN).pop()?.take(None);
                bytes.and_then(|bytes| RootCommand::decode(&bytes).ok())
            }
            None => own,
        };
        let bytes = command.as_ref().map(RootCommand::encode).unwrap_or_default();
        // The largest subtree first.
        let mut children: Vec<CommRank> = children(channel.rank, channel.size()).collect();
        children.reverse();
        for child in children {
            channel.send_all(child, DOWN, &bytes, None);
        }
        command
    }

    /// Brings the rows of all ranks to rank 0, in pieces and in the order of ranks. No rank holds
    /// more than its own rows and two pieces of others. Returns the ranks of this rank's subtree
    /// whose rows are missing or incomplete.
    pub fn relay(&self, own: [&[u8]; TABLES], mut sink: impl FnMut(&[u8])) -> Vec<Ranks> {
        let channel = self.channel;
        let mut lost = Vec::new();
        let parent = parent(channel.rank);
        let mut up = Pieces::new(|piece: &[u8]| match parent {
            // Where nobody takes them the children's rows are taken all the same, so that they do
            // not wait.
            Some(parent) => {
                channel.send(parent, ROWS, piece);
            }
            None => sink(piece),
        });
        up.put(own);
        let mut piece = Vec::with_capacity(PIECE);
        for child in children(channel.rank, channel.size()) {
            loop {
                let came = channel.receive(child, ROWS, &mut piece);
                match frames(&piece).next().filter(|_| came) {
                    Some(Frame::End { lost: of_child }) => {
                        lost.extend(of_child);
                        break;
                    }
                    Some(_) => up.pass(&piece),
                    // No rank sends an empty piece.
                    None => {
                        lost.push(below(child, channel.size()));
                        break;
                    }
                }
            }
        }
        up.finish();
        if let Some(parent) = parent {
            channel.send(parent, ROWS, &Frame::end(&lost));
        }
        lost
    }
}

/// The parent in the tree; `None` for the root.
fn parent(rank: CommRank) -> Option<CommRank> {
    let rank = rank.get();
    (rank > 0).then(|| CommRank::new(rank & (rank - 1)))
}

/// The children in the tree, ascending.
fn children(rank: CommRank, size: u32) -> impl Iterator<Item = CommRank> {
    let rank = rank.get();
    let levels = if rank == 0 { u32::BITS } else { rank.trailing_zeros() };
    let children = (0..levels).filter_map(move |level| rank.checked_add(1 << level));
    children.take_while(move |&child| child < size).map(CommRank::new)
}

/// A rank and all below it.
fn below(rank: CommRank, size: u32) -> Ranks {
    let rank = rank.get();
    let count = if rank == 0 { size } else { 1 << rank.trailing_zeros() };
    rank..rank.saturating_add(count).min(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rank_has_one_way_to_the_first_and_what_is_below_it_follows_it() {
        for size in 1..70 {
            let mut ways = vec![0; size as usize];
            for rank in (0..size).map(CommRank::new) {
                let mut next = rank.get() + 1;
                for child in children(rank, size) {
                    assert_eq!(parent(child), Some(rank));
                    assert_eq!(below(child, size).start, next);
                    next = below(child, size).end;
                    ways[child.index()] += 1;
                }
                assert_eq!(below(rank, size), rank.get()..next, "{rank:?} of {size}");
                assert!(children(rank, size).count() <= 7);
            }
            assert_eq!(ways[0], 0);
            assert!(ways[1..].iter().all(|&ways| ways == 1));
        }
    }
}

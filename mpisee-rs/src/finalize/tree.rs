//! A binomial tree of the ranks, so that each rank communicates with at most about log2 of their number.
//!
//! The parent of a rank has the lowest set bit of its number cleared: the children of 4 are 5 and 6, that of 6 is 7.
//! The subtree of a rank is the ranks that follow it, so what arrives child by child is in the order of ranks.

use super::channel::Channel;
use mpisee_collect::pieces::{PIECE, Pieces, TABLES};
use std::ffi::c_int;
use std::ops::Range;

/// Tag of what is gathered to rank 0; see [`Tree::gather`].
const UP: c_int = 31_001;
/// Tag of the commands of rank 0.
const DOWN: c_int = 31_002;
/// Rows.
const ROWS: c_int = 31_003;
/// The first byte of the message after the last piece, which no piece begins with.
const END: u8 = 0xff;

/// Ranks of the channel that follow each other.
pub type Ranks = Range<u32>;

/// The tree over a channel.
pub struct Tree<'l> {
    channel: &'l Channel,
}

impl<'l> Tree<'l> {
    /// Over all ranks of the channel.
    pub fn over(channel: &'l Channel) -> Self {
        Tree { channel }
    }

    /// Whether this rank is the root.
    pub fn is_root(&self) -> bool {
        self.channel.rank == 0
    }

    /// Reduces one value to rank 0: each rank combines its own value with its children's. `take` gets these in the
    /// order of ranks, encoded, or the ranks that are lost if a child did not answer.
    pub fn gather<T>(
        &self,
        mut own: T,
        mut take: impl FnMut(&mut T, Result<Vec<u8>, Ranks>),
        encode: impl FnOnce(&T) -> Vec<u8>,
    ) -> T {
        let channel = self.channel;
        let size = channel.size();
        for expected in channel.expect(children(channel.rank, size), UP) {
            let child = below(expected.from, size);
            let sentence = || {
                let ranks = channel.in_world(child.start, child.end - child.start);
                let of = if ranks.len() == 1 {
                    format!("rank {ranks} has not come")
                } else {
                    format!("of ranks {ranks} not all have come")
                };
                format!("waiting in MPI_Finalize for other ranks: {of}; the profile is written when they do")
            };
            let is_root = channel.rank == 0;
            take(&mut own, expected.take(if is_root { Some(&sentence) } else { None }).ok_or(child));
        }
        if let Some(parent) = parent(channel.rank) {
            let sentence = || {
                let root = channel.in_world(0, 1);
                format!(
                    "waiting in MPI_Finalize for other ranks: rank {root} has not come; the profile is written when it \
                     does"
                )
            };
            let sentence: super::channel::Sentence = &sentence;
            channel.send_all(parent, UP, &encode(&own), (parent == 0).then_some(sentence));
        }
        own
    }

    /// Passes a byte of the first rank's, `said` there, to all ranks, and returns it; `None` where it does not get through,
    /// and below.
    pub fn tell(&self, said: Option<u8>) -> Option<u8> {
        let channel = self.channel;
        let heard = match parent(channel.rank) {
            // An empty message says that there was none.
            Some(parent) => {
                let heard = channel.expect(std::iter::once(parent), DOWN).pop()?.take(None);
                heard.and_then(|heard| heard.first().copied())
            }
            None => said,
        };
        // The largest subtree first.
        let mut children: Vec<u32> = children(channel.rank, channel.size()).collect();
        children.reverse();
        for child in children {
            channel.send_all(child, DOWN, heard.as_slice(), None);
        }
        heard
    }

    /// Brings the rows of all ranks to rank 0, in pieces and in the order of ranks. No rank holds more than its own
    /// rows and two pieces of others. Returns the ranks of this rank's subtree whose rows are missing or incomplete.
    pub fn relay(&self, own: [&[u8]; TABLES], mut sink: impl FnMut(&[u8])) -> Vec<Ranks> {
        let channel = self.channel;
        let mut lost = Vec::new();
        let parent = parent(channel.rank);
        let mut up = Pieces::new(|piece: &[u8]| match parent {
            // Where nobody takes them the children's rows are taken all the same, so that they do not wait.
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
                match piece.split_first().filter(|_| came) {
                    Some((&END, told)) => {
                        lost.extend(decode(told));
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
            channel.send(parent, ROWS, &encode(&lost));
        }
        lost
    }
}

/// The parent in the tree; `None` for the root.
fn parent(rank: u32) -> Option<u32> {
    (rank > 0).then(|| rank & (rank - 1))
}

/// The children in the tree, ascending.
fn children(rank: u32, size: u32) -> impl Iterator<Item = u32> {
    let levels = if rank == 0 { u32::BITS } else { rank.trailing_zeros() };
    (0..levels).filter_map(move |level| rank.checked_add(1 << level)).take_while(move |&child| child < size)
}

/// A rank and all below it.
fn below(rank: u32, size: u32) -> Ranks {
    let count = if rank == 0 { size } else { 1 << rank.trailing_zeros() };
    rank..rank.saturating_add(count).min(size)
}

/// The end of the rows, with as many of the ranks that are lost as fit.
fn encode(lost: &[Ranks]) -> Vec<u8> {
    let words = lost.iter().flat_map(|ranks| [ranks.start, ranks.end]);
    let told = words.flat_map(u32::to_le_bytes).take(PIECE - 8);
    std::iter::once(END).chain(told).collect()
}

fn decode(told: &[u8]) -> impl Iterator<Item = Ranks> {
    let (pairs, _) = told.as_chunks::<8>();
    pairs.iter().map(|pair| {
        let [a, b, c, d, e, f, g, h] = *pair;
        u32::from_le_bytes([a, b, c, d])..u32::from_le_bytes([e, f, g, h])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rank_has_one_way_to_the_first_and_what_is_below_it_follows_it() {
        for size in 1..70 {
            let mut ways = vec![0; size as usize];
            for rank in 0..size {
                let mut next = rank + 1;
                for child in children(rank, size) {
                    assert_eq!(parent(child), Some(rank));
                    assert_eq!(below(child, size).start, next);
                    next = below(child, size).end;
                    ways[child as usize] += 1;
                }
                assert_eq!(below(rank, size), rank..next, "{rank} of {size}");
                assert!(children(rank, size).count() <= 7);
            }
            assert_eq!(ways[0], 0);
            assert!(ways[1..].iter().all(|&ways| ways == 1));
        }
    }

    #[test]
    fn who_is_lost_is_told() {
        let lost = [4..8, 9..10];
        assert_eq!(decode(&encode(&lost)[1..]).collect::<Vec<_>>(), lost);
    }
}

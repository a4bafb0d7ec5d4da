//! Rows between ranks: the text of the tables in pieces of bounded size, which ranks in between
//! hand on as they are.

use super::Ranks;
use serde::{Deserialize, Serialize, Serializer};

/// The tables of a rank, in the order in which its rows travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum RankTable {
    /// `ranks.csv`.
    Ranks,
    /// `comms.csv`, whose rows are merged.
    Comms,
    /// `calls.csv`.
    Calls,
    /// `peers.csv`.
    Peers,
    /// `regions.csv`.
    Regions,
    /// `outside.csv`.
    Outside,
    /// `nccl-peers.csv`.
    NcclPeers,
    /// `nccl-times.csv`.
    NcclTimes,
    /// Accesses of GPU kernels, and copies: a line of JSON each.
    Gpu,
    /// `arrivals.csv`.
    Arrivals,
    /// `collectives.csv`.
    Collectives,
    /// `messages.csv`.
    Messages,
    /// `streams.csv`.
    Streams,
    /// `sites.csv`, of which equal rows are written once.
    Sites,
    /// `paths.csv`.
    Paths,
    /// `stacks.csv`, of which equal rows are written once.
    Stacks,
    /// `order.csv`.
    Orders,
    /// `order-rules.csv`, of which equal rows are written once.
    OrderRules,
    /// `order-steps.csv`, of which equal rows are written once.
    OrderSteps,
    /// `order-times.csv`, whose rows are summed up.
    OrderTimes,
    /// `variables.csv`.
    Variables,
    /// The GPUs of the rank's node, in a form of their own.
    Devices,
}

/// How many they are.
pub const TABLES: usize = RankTable::ALL.len();

impl RankTable {
    /// All of them, each at its number.
    pub const ALL: [RankTable; 22] = [
        RankTable::Ranks,
        RankTable::Comms,
        RankTable::Calls,
        RankTable::Peers,
        RankTable::Regions,
        RankTable::Outside,
        RankTable::NcclPeers,
        RankTable::NcclTimes,
        RankTable::Gpu,
        RankTable::Arrivals,
        RankTable::Collectives,
        RankTable::Messages,
        RankTable::Streams,
        RankTable::Sites,
        RankTable::Paths,
        RankTable::Stacks,
        RankTable::Orders,
        RankTable::OrderRules,
        RankTable::OrderSteps,
        RankTable::OrderTimes,
        RankTable::Variables,
        RankTable::Devices,
    ];

    /// Returns whether rows are looked at when they arrive, so that all of a rank have to be there.
    pub fn is_taken_whole(self) -> bool {
        matches!(
            self,
            RankTable::Comms
                | RankTable::Sites
                | RankTable::Stacks
                | RankTable::OrderRules
                | RankTable::OrderSteps
                | RankTable::OrderTimes
                | RankTable::Devices
        )
    }
}

/// The most bytes of a piece.
pub const PIECE: usize = 1 << 16;
/// The most bytes of a frame beside its text: kind, table, whether more of it follows, and the
/// length.
const FRAME_HEADER: usize = 6;

/// A part of a piece.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Frame<'p> {
    /// A part of what one rank has of one table.
    Rows {
        /// The number of the [`RankTable`].
        table: u8,
        /// True if it ends what the rank has of that table.
        is_last: bool,
        /// Text; a row may go on in the next frame.
        #[serde(serialize_with = "whole")]
        text: &'p [u8],
    },
    /// The end of the rows, in a piece of its own.
    End {
        /// The ranks whose rows are missing or incomplete.
        lost: Vec<Ranks>,
    },
}

impl Frame<'_> {
    /// The end of the rows, with as many of the ranks that are lost as fit into a piece.
    pub fn end(lost: &[Ranks]) -> Vec<u8> {
        const MOST_BYTES_OF_RANKS: usize = 10;
        let fitting = lost.len().min((PIECE - FRAME_HEADER) / MOST_BYTES_OF_RANKS);
        Frame::End { lost: lost[..fitting].to_vec() }.append_to(Vec::new())
    }

    fn append_to(&self, piece: Vec<u8>) -> Vec<u8> {
        // Every frame has a form in bytes, and a vector takes them all.
        postcard::to_extend(self, piece).unwrap_or_default()
    }
}

/// Text at once, and not byte by byte.
fn whole<S: Serializer>(text: &&[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_bytes(text)
}

/// Fills pieces and delivers each when it is full.
pub struct Pieces<F> {
    filling: Vec<u8>,
    deliver: F,
}

impl<F: FnMut(&[u8])> Pieces<F> {
    /// An empty piece.
    pub fn new(deliver: F) -> Self {
        Pieces { filling: Vec::with_capacity(PIECE), deliver }
    }

    /// Adds the rows of one rank.
    pub fn put(&mut self, parts: [&[u8]; TABLES]) {
        for (table, mut rest) in parts.into_iter().enumerate() {
            while !rest.is_empty() {
                if self.filling.len() + FRAME_HEADER >= PIECE {
                    self.deliver();
                }
                let (text, later) = rest.split_at(rest.len().min(PIECE - self.filling.len() - FRAME_HEADER));
                let frame = Frame::Rows { table: table as u8, is_last: later.is_empty(), text };
                self.filling = frame.append_to(std::mem::take(&mut self.filling));
                rest = later;
            }
        }
    }

    /// Adds a piece of another rank, whole.
    pub fn pass(&mut self, piece: &[u8]) {
        if self.filling.len() + piece.len() > PIECE {
            self.deliver();
        }
        self.filling.extend(piece);
    }

    /// Delivers what is left.
    pub fn finish(mut self) {
        self.deliver();
    }

    fn deliver(&mut self) {
        if !self.filling.is_empty() {
            (self.deliver)(&self.filling);
            self.filling.clear();
        }
    }
}

/// The frames of a piece, up to one that is cut off.
pub fn frames(piece: &[u8]) -> impl Iterator<Item = Frame<'_>> {
    let mut rest = piece;
    std::iter::from_fn(move || {
        let (frame, after) = postcard::take_from_bytes(rest).ok()?;
        rest = after;
        Some(frame)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The text of all pieces, by table, and how often a table ended.
    fn arrived(pieces: &[Vec<u8>]) -> ([Vec<u8>; TABLES], [usize; TABLES]) {
        let (mut tables, mut ends): ([Vec<u8>; TABLES], [usize; TABLES]) = Default::default();
        for frame in pieces.iter().flat_map(|piece| frames(piece)) {
            let Frame::Rows { table, is_last, text } = frame else { panic!("nobody sent {frame:?}") };
            tables[usize::from(table)].extend(text);
            ends[usize::from(table)] += usize::from(is_last);
        }
        (tables, ends)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn rows_arrive_in_order_over_any_number_of_ranks(
            ranks in prop::collection::vec(prop::array::uniform22(0usize..3 * PIECE), 1..4),
        ) {
            let mut sent: [Vec<u8>; TABLES] = Default::default();
            let mut ends = [0; TABLES];
            let mut at_the_end = Vec::new();
            let mut last = Pieces::new(|piece: &[u8]| at_the_end.push(piece.to_vec()));
            for (rank, lengths) in ranks.iter().enumerate() {
                let part = |length: usize| (0..length).map(|at| (at * 7 + rank) as u8).collect::<Vec<u8>>();
                let parts = lengths.map(part);
                for (table, part) in parts.iter().enumerate() {
                    sent[table].extend(part);
                    ends[table] += usize::from(!part.is_empty());
                }
                let mut first = Pieces::new(|piece: &[u8]| {
                    assert!(piece.len() <= PIECE);
                    last.pass(piece);
                });
                first.put(parts.each_ref().map(Vec::as_slice));
                first.finish();
            }
            last.finish();
            prop_assert!(at_the_end.iter().all(|piece| piece.len() <= PIECE));
            prop_assert_eq!(arrived(&at_the_end), (sent, ends));
        }

        #[test]
        fn any_bytes_are_read_without_harm(piece in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(frames(&piece).count() <= piece.len());
        }
    }

    #[test]
    fn each_table_is_at_its_number() {
        let numbers = RankTable::ALL.map(|table| table as usize);
        assert!(numbers.into_iter().eq(0..TABLES), "{numbers:?}");
    }

    #[test]
    fn as_many_lost_ranks_are_told_as_fit_into_a_piece() {
        let lost = [4..8, 9..10];
        assert_eq!(frames(&Frame::end(&lost)).next(), Some(Frame::End { lost: lost.to_vec() }));
        let many = vec![u32::MAX - 1..u32::MAX; PIECE];
        let end = Frame::end(&many);
        assert!(end.len() <= PIECE && end.len() > PIECE / 2);
        assert!(matches!(frames(&end).next(), Some(Frame::End { lost }) if many.starts_with(&lost)));
    }
}

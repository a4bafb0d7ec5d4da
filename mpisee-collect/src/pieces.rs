//! Wire format of rows between ranks: the text of the tables in pieces of bounded size, which ranks in between forward
//! without parsing.

/// The tables of a rank, in the order in which its rows travel.
pub const TABLES: usize = 7;
/// The most bytes of a piece.
pub const PIECE: usize = 1 << 16;
/// Before the bytes of a frame: table, whether more of it follows, two bytes of nothing, length.
const FRAME_HEADER: usize = 8;

/// A part of what one rank has of one table.
#[derive(Debug, PartialEq, Eq)]
pub struct Frame<'p> {
    /// Which table.
    pub table: usize,
    /// Whether it ends what the rank has of that table.
    pub is_last: bool,
    /// Text; a row may go on in the next frame.
    pub bytes: &'p [u8],
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
                let (now, later) = rest.split_at(rest.len().min(PIECE - self.filling.len() - FRAME_HEADER));
                self.filling.extend([table as u8, u8::from(later.is_empty()), 0, 0]);
                self.filling.extend((now.len() as u32).to_le_bytes());
                self.filling.extend(now);
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
        let (header, after) = rest.split_first_chunk::<FRAME_HEADER>()?;
        let [table, is_last, _, _, length @ ..] = *header;
        let (bytes, after) = after.split_at_checked(u32::from_le_bytes(length) as usize)?;
        rest = after;
        Some(Frame { table: usize::from(table), is_last: is_last != 0, bytes })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What comes out of the pieces, by table, and how often a table ended.
    fn arrived(pieces: &[Vec<u8>]) -> ([Vec<u8>; TABLES], [usize; TABLES]) {
        let (mut tables, mut ends): ([Vec<u8>; TABLES], [usize; TABLES]) = Default::default();
        for frame in pieces.iter().flat_map(|piece| frames(piece)) {
            tables[frame.table].extend(frame.bytes);
            ends[frame.table] += usize::from(frame.is_last);
        }
        (tables, ends)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn rows_arrive_in_order_over_any_number_of_ranks(
            ranks in prop::collection::vec(prop::array::uniform7(0usize..3 * PIECE), 1..4),
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
            let read: usize = frames(&piece).map(|frame| frame.bytes.len()).sum();
            prop_assert!(read <= piece.len());
        }
    }
}

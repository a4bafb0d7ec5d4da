//! Buffers of collective operations: what members hand over in a verification, and what they have
//! to get.

use crate::collective::Collective;
use crate::provenance::byte;

/// The numbers that an operation adds up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    /// C's `double`.
    Double,
    /// C's `float`.
    Float,
    /// Bytes.
    Byte,
}

impl Element {
    /// The widest that divides a block.
    pub fn of_block(bytes: u64) -> Element {
        match bytes {
            0 => Element::Byte,
            _ if bytes.is_multiple_of(8) => Element::Double,
            _ if bytes.is_multiple_of(4) => Element::Float,
            _ => Element::Byte,
        }
    }

    /// Bytes of a number.
    pub fn bytes(self) -> u64 {
        match self {
            Element::Double => 8,
            Element::Float => 4,
            Element::Byte => 1,
        }
    }

    /// Appends a number that each element holds exactly; bytes wrap around.
    fn write(self, number: u64, buffer: &mut Vec<u8>) {
        match self {
            Element::Double => buffer.extend((number as f64).to_ne_bytes()),
            Element::Float => buffer.extend((number as f32).to_ne_bytes()),
            Element::Byte => buffer.push(number as u8),
        }
    }
}

/// A collective operation as one member sees it.
#[derive(Clone, Copy, Debug)]
pub struct View {
    /// The operation.
    pub collective: Collective,
    /// The member.
    pub member: u32,
    /// How many there are.
    pub members: u32,
    /// The bytes of a block.
    pub bytes: u64,
    /// The root's position.
    pub root: u32,
}

/// The summand of a member.
fn summand(member: u32, at: u64) -> u64 {
    (u64::from(member) * 3 + at) % 7
}

impl View {
    fn is_root(&self) -> bool {
        self.member == self.root
    }

    /// Bytes that the member hands over and gets; where there is a root, as far as it is the root
    /// that does.
    pub fn buffers(&self) -> (u64, u64) {
        use Collective::*;
        let (given, got) = self.collective.blocks(self.members.into());
        let (given, got) = match self.collective {
            Gather | Gatherv | Reduce if !self.is_root() => (given, 0),
            Scatter | Scatterv if !self.is_root() => (0, got),
            // One buffer for both.
            Bcast => (0, got),
            _ => (given, got),
        };
        (given * self.bytes, got * self.bytes)
    }

    /// The data that the member hands over.
    pub fn given(&self) -> Vec<u8> {
        let (bytes, _) = self.buffers();
        if !self.collective.reduces() {
            return (0..bytes).map(|offset| byte(self.member, offset)).collect();
        }
        let element = Element::of_block(self.bytes);
        let mut buffer = Vec::with_capacity(bytes as usize);
        (0..bytes / element.bytes()).for_each(|at| element.write(summand(self.member, at), &mut buffer));
        buffer
    }

    /// The member's buffer for results before: of a broadcast the root's data.
    pub fn before(&self) -> Vec<u8> {
        let (_, bytes) = self.buffers();
        match self.collective {
            Collective::Bcast if self.is_root() => self.blocks_of([(self.root, 0)]),
            _ => vec![0; bytes as usize],
        }
    }

    fn blocks_of(&self, blocks: impl IntoIterator<Item = (u32, u64)>) -> Vec<u8> {
        let block = |(member, block): (u32, u64)| {
            (0..self.bytes).map(move |at| byte(member, block * self.bytes + at))
        };
        blocks.into_iter().flat_map(block).collect()
    }

    /// The sums over members of the numbers of a block.
    fn sums(&self, members: std::ops::Range<u32>, block: u64) -> Vec<u8> {
        let element = Element::of_block(self.bytes);
        let numbers = self.bytes / element.bytes();
        let mut buffer = Vec::with_capacity(self.bytes as usize);
        for at in block * numbers..(block + 1) * numbers {
            element.write(members.clone().map(|member| summand(member, at)).sum(), &mut buffer);
        }
        buffer
    }

    /// Returns whether the member has got what it has to.
    pub fn is_correct(&self, got: &[u8]) -> bool {
        use Collective::*;
        let View { member, members, .. } = *self;
        let all = 0..members;
        let (left, right) = ((member + members - 1) % members, (member + 1) % members);
        let expected = match self.collective {
            Barrier => Vec::new(),
            Bcast => self.blocks_of([(self.root, 0)]),
            Gather | Gatherv if !self.is_root() => Vec::new(),
            Gather | Gatherv | Allgather | Allgatherv => self.blocks_of(all.map(|from| (from, 0))),
            Scatter | Scatterv => self.blocks_of([(self.root, member.into())]),
            Alltoall | Alltoallv | Alltoallw => self.blocks_of(all.map(|from| (from, member.into()))),
            Reduce if !self.is_root() => Vec::new(),
            Reduce | Allreduce => self.sums(all, 0),
            ReduceScatterBlock | ReduceScatter => self.sums(all, member.into()),
            Scan => self.sums(0..member + 1, 0),
            // The first member gets nothing defined.
            Exscan if member == 0 => return true,
            Exscan => self.sums(0..member, 0),
            NeighborAllgather | NeighborAllgatherv => self.blocks_of([(left, 0), (right, 0)]),
            NeighborAlltoall | NeighborAlltoallv | NeighborAlltoallw => {
                // Each sends its first block to the left. On a ring of one or two, where left and
                // right are one, MPIs before the standard's version 4 may have the blocks in either
                // order.
                let swapped = members <= 2 && got == self.blocks_of([(left, 0), (right, 1)]);
                return swapped || got == self.blocks_of([(left, 1), (right, 0)]);
            }
        };
        got == expected
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn view(collective: Collective, member: u32, bytes: u64) -> View {
        View { collective, member, members: 4, bytes, root: 1 }
    }

    #[test]
    fn nobody_has_a_correct_result_before() {
        for &collective in Collective::ALL.iter().filter(|&&it| it != Collective::Barrier) {
            for member in 0..4 {
                let view = view(collective, member, 24);
                // The root of a broadcast has what it sends; the first of an exclusive scan gets
                // nothing.
                let has_all = view.buffers().1 == 0
                    || collective == Collective::Bcast && view.is_root()
                    || collective == Collective::Exscan && member == 0;
                assert_eq!(view.is_correct(&view.before()), has_all, "{collective} on {member}");
            }
        }
    }

    #[test]
    fn sums_are_those_of_all_numbers() {
        let all = view(Collective::Allreduce, 0, 16);
        let second: u64 = (0..4).map(|member| summand(member, 1)).sum();
        let sums: Vec<u8> = [0, 1]
            .into_iter()
            .flat_map(|at| ((0..4).map(|member| summand(member, at)).sum::<u64>() as f64).to_ne_bytes())
            .collect();
        assert_eq!(second, 8);
        assert!(all.is_correct(&sums));
        assert!(!all.is_correct(&sums[8..]));
        assert!(view(Collective::Exscan, 2, 1).is_correct(&[(summand(0, 0) + summand(1, 0)) as u8]));
    }

    #[test]
    fn an_alltoall_has_a_block_of_each() {
        let got: Vec<u8> = (0..4).flat_map(|from| [byte(from, 4), byte(from, 5)]).collect();
        assert!(view(Collective::Alltoall, 2, 2).is_correct(&got));
        assert!(!view(Collective::Alltoall, 3, 2).is_correct(&got));
    }
}

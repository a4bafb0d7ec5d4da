//! What rank 0 tells the others to do.

use super::survey::Survey;
use super::tree::Tree;
use mpisee_profile::files::Shared;

/// What is to be done.
#[derive(Clone, PartialEq, Eq)]
pub enum Order {
    /// Bring the rows through the tree.
    Bring,
    /// Write the rows into files that all see, and bring through the tree what cannot be written so.
    Share(Shared),
    /// Bring sums over ranks.
    BringSums,
    /// The profile is written.
    Written,
    /// It cannot be written: keep what there is.
    Keep,
}

impl Order {
    /// Tells all ranks: the first one, which gives it here. `None` where it is not understood or does not get through.
    pub fn tell(self, tree: &Tree, survey: &Survey) -> Option<Order> {
        Order::pass(Some(self.encode()), tree, survey)
    }

    /// What the first rank tells.
    pub fn hear(tree: &Tree, survey: &Survey) -> Option<Order> {
        Order::pass(None, tree, survey)
    }

    /// Each rank hears where its own rows begin, and tells its children where theirs do.
    fn pass(said: Option<Vec<u8>>, tree: &Tree, survey: &Survey) -> Option<Order> {
        let for_child = |heard: &[u8], n| match Order::decode(heard) {
            Some(Order::Share(shared)) => Order::Share(shared.after(&survey.before_child(n))).encode(),
            _ => heard.to_vec(),
        };
        Order::decode(&tree.tell(said, for_child)?)
    }

    fn encode(&self) -> Vec<u8> {
        let (letter, rest) = match self {
            Order::Bring => (b'B', Vec::new()),
            Order::Share(shared) => (b'I', shared.encode()),
            Order::BringSums => (b'S', Vec::new()),
            Order::Written => (b'W', Vec::new()),
            Order::Keep => (b'K', Vec::new()),
        };
        std::iter::once(letter).chain(rest).collect()
    }

    fn decode(bytes: &[u8]) -> Option<Order> {
        let (letter, rest) = bytes.split_first()?;
        match letter {
            b'B' => Some(Order::Bring),
            b'I' => Shared::decode(rest).map(Order::Share),
            b'S' => Some(Order::BringSums),
            b'W' => Some(Order::Written),
            b'K' => Some(Order::Keep),
            _ => None,
        }
    }
}

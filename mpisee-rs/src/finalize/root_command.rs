//! What rank 0 tells the others to do.

use super::rank_summary::RankSummary;
use super::tree::Tree;
use mpisee_profile::files::Shared;

/// What is to be done.
#[derive(Clone, PartialEq, Eq)]
pub enum RootCommand {
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

impl RootCommand {
    /// Tells all ranks: the first one, which gives it here. `None` where it is not understood or does not get through.
    pub fn tell(self, tree: &Tree, summary: &RankSummary) -> Option<RootCommand> {
        RootCommand::pass(Some(self.encode()), tree, summary)
    }

    /// What the first rank tells.
    pub fn hear(tree: &Tree, summary: &RankSummary) -> Option<RootCommand> {
        RootCommand::pass(None, tree, summary)
    }

    /// Each rank hears where its own rows begin, and tells its children where theirs do.
    fn pass(said: Option<Vec<u8>>, tree: &Tree, summary: &RankSummary) -> Option<RootCommand> {
        let for_child = |heard: &[u8], n| match RootCommand::decode(heard) {
            Some(RootCommand::Share(shared)) => {
                RootCommand::Share(shared.after(&summary.before_child(n))).encode()
            }
            _ => heard.to_vec(),
        };
        RootCommand::decode(&tree.tell(said, for_child)?)
    }

    fn encode(&self) -> Vec<u8> {
        let (letter, rest) = match self {
            RootCommand::Bring => (b'B', Vec::new()),
            RootCommand::Share(shared) => (b'I', shared.encode()),
            RootCommand::BringSums => (b'S', Vec::new()),
            RootCommand::Written => (b'W', Vec::new()),
            RootCommand::Keep => (b'K', Vec::new()),
        };
        std::iter::once(letter).chain(rest).collect()
    }

    fn decode(bytes: &[u8]) -> Option<RootCommand> {
        let (letter, rest) = bytes.split_first()?;
        match letter {
            b'B' => Some(RootCommand::Bring),
            b'I' => Shared::decode(rest).map(RootCommand::Share),
            b'S' => Some(RootCommand::BringSums),
            b'W' => Some(RootCommand::Written),
            b'K' => Some(RootCommand::Keep),
            _ => None,
        }
    }
}

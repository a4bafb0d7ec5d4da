//! What rank 0 has the others do.

use super::tree::Tree;

/// A command.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum RootCommand {
    /// Bring the rows through the tree.
    Bring,
    /// Bring sums over ranks.
    BringSums,
    /// The profile is written.
    Written,
    /// The profile cannot be written: keep the segments.
    Keep,
}

impl RootCommand {
    const ALL: [(u8, RootCommand); 4] = [
        (b'B', RootCommand::Bring),
        (b'S', RootCommand::BringSums),
        (b'W', RootCommand::Written),
        (b'K', RootCommand::Keep),
    ];

    /// Passes rank 0's command to all ranks, and returns it on each. `None` where it does not get through, or is none that
    /// this version knows.
    pub fn pass(said: Option<RootCommand>, tree: &Tree) -> Option<RootCommand> {
        let letter_of =
            |said| Self::ALL.iter().find(|&&(_, command)| command == said).map(|&(letter, _)| letter);
        let heard = tree.tell(said.and_then(letter_of))?;
        Self::ALL.iter().find(|&&(letter, _)| letter == heard).map(|&(_, command)| command)
    }
}

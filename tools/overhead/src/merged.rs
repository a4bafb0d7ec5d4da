//! Merges what ranks have as the tree of a real run does, and counts the messages that it would
//! send.

use anyhow::{Context, Result};
use mpisee_collect::wire::pieces::PIECE;
use mpisee_collect::wire::{Message, RankSummary, RootCommand, Sums};

/// Some ranks that follow each other, as their first one knows them: it has received what the
/// others sent.
pub struct Below {
    pub ranks: u64,
    pub sums: Sums,
    pub summary: RankSummary,
    /// Messages that the first one sent and received, and their bytes.
    pub traffic: Traffic,
}

/// Messages, and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    pub messages: u64,
    pub bytes: u64,
}

impl Traffic {
    /// A message of any length as it is sent: its length, then pieces.
    fn from_bytes(bytes: usize) -> Traffic {
        let length = size_of::<u64>();
        Traffic { messages: 1 + bytes.div_ceil(PIECE) as u64, bytes: (length + bytes) as u64 }
    }

    pub fn add(&mut self, other: Traffic) {
        self.messages += other.messages;
        self.bytes += other.bytes;
    }

    pub fn most(self, other: Traffic) -> Traffic {
        Traffic { messages: self.messages.max(other.messages), bytes: self.bytes.max(other.bytes) }
    }
}

/// The messages of all ranks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sent {
    pub all: Traffic,
    /// The most that one rank sent and received.
    pub most: Traffic,
    /// The longest message, in bytes.
    pub longest: usize,
}

impl Sent {
    pub fn add(&mut self, other: Sent) {
        self.all.add(other.all);
        self.most = self.most.most(other.most);
        self.longest = self.longest.max(other.longest);
    }
}

/// Merges ranks as a binomial tree does: what stands for as many ranks as what came before it is
/// merged with that.
#[derive(Default)]
pub struct Tree {
    /// Larger ones first.
    stack: Vec<Below>,
    pub sent: Sent,
}

impl Tree {
    pub fn add(&mut self, mut below: Below) -> Result<()> {
        while self.stack.last().is_some_and(|before| before.ranks <= below.ranks) {
            let before = self.stack.pop().context("there is one")?;
            below = self.send_to(before, below)?;
        }
        self.stack.push(below);
        Ok(())
    }

    /// The way from rank to rank: each sends its summary and, by the root's command, its sums to
    /// its parent, and learns from it that they are written.
    fn send_to(&mut self, mut parent: Below, child: Below) -> Result<Below> {
        let summary = child.summary.encode();
        let sums = child.sums.encode();
        let commands = [RootCommand::BringSums, RootCommand::Written].map(|command| command.encode().len());
        let mut between = Traffic::default();
        for bytes in [summary.len(), commands[0], sums.len(), commands[1]] {
            between.add(Traffic::from_bytes(bytes));
        }
        let mut of_child = child.traffic;
        of_child.add(between);
        parent.traffic.add(between);
        self.sent.add(Sent { all: between, most: of_child, longest: summary.len().max(sums.len()) });
        parent.summary.add(Ok(RankSummary::decode(&summary)?));
        parent.sums.add(Ok(Sums::decode(&sums)?));
        parent.ranks += child.ranks;
        Ok(parent)
    }

    pub fn finish(mut self) -> Result<(Below, Sent)> {
        let mut last = self.stack.pop().context("there is no rank")?;
        while let Some(before) = self.stack.pop() {
            last = self.send_to(before, last)?;
        }
        Ok((last, self.sent))
    }
}

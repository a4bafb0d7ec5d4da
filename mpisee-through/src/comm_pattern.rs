//! Patterns for communicators, of filters and of expectations.

use crate::family::FamilyMembers;
use mpisee_profile::glob::Glob;
use std::convert::Infallible;
use std::str::FromStr;

/// A pattern for names, or the name of a family with its size: `W_s2.*` or `W_s2.*@4`. The second
/// takes the family's members alone, the first also what was made of them, as `W_s2.0_d1`.
#[derive(Clone, Debug)]
pub struct CommPattern {
    text: String,
    glob: Glob,
}

impl FromStr for CommPattern {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(CommPattern::new(text))
    }
}

impl CommPattern {
    /// Any text is a pattern.
    pub fn new(text: &str) -> Self {
        CommPattern { text: text.to_owned(), glob: Glob::new(text) }
    }

    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns whether the text may be a family's name with its size.
    pub fn has_size(&self) -> bool {
        self.text.contains('@')
    }

    /// Returns whether a communicator with this name and label is chosen, in a profile with these
    /// families.
    pub fn takes<'f>(
        &self,
        comm: &str,
        label: Option<&str>,
        families: impl FnOnce() -> &'f FamilyMembers,
    ) -> bool {
        // Most patterns have no size; families are not made for them.
        match self.has_size().then(families).and_then(|families| families.get(&self.text)) {
            Some(members) => members.contains(comm),
            None => self.glob.matches(comm) || label.is_some_and(|label| self.glob.matches(label)),
        }
    }
}

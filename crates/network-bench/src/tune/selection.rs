//! MPICH's selection of algorithms: a tree of conditions with algorithms at its leaves, in a JSON
//! file in place of the tree that the library has built in.
//!
//! The file replaces the whole tree, so what is written is the library's own tree, in which an
//! algorithm holds for some sizes of communicators and messages. An algorithm only takes the place
//! of others where the library itself has it under no further condition than size, such as an
//! operation that commutes: what it needs of a call is written nowhere else.

use crate::collective::Collective;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde::ser::{Serialize, Serializer};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The variable that names the file.
pub const FILE: &str = "MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE";

/// Conditions in the order in which they are tried, each with what holds under it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree(Vec<(String, Tree)>);

/// An algorithm for a collective on communicators of some sizes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    /// The operation.
    pub collective: Collective,
    /// The sizes of communicators.
    pub members: Vec<u32>,
    /// Message sizes as a profile has them, from and to.
    pub bytes: [u64; 2],
    /// The algorithm, as the tree names it.
    pub algorithm: String,
}

const ALGORITHM: &str = "algorithm=";
const INTRA: &str = "comm_type=intra";

/// The library's own tree in the bytes of its file; none where there is no text of one.
pub fn built_in(library: &[u8]) -> Option<String> {
    const BEGIN: &[u8] = b"{\"collective=";
    memchr::memmem::find_iter(library, BEGIN).find_map(|at| {
        let mut values = serde_json::Deserializer::from_slice(&library[at..]).into_iter::<Tree>();
        let tree = values.next()?.ok()?;
        // Other trees choose among compositions of algorithms on and between nodes.
        let text = std::str::from_utf8(&library[at..at + values.byte_offset()]).ok()?;
        let is_of_algorithms = text.contains("\"algorithm=MPIR_") && !text.contains("\"composition=");
        (is_of_algorithms && tree.0.len() > 1).then(|| text.to_owned())
    })
}

impl Tree {
    /// Reads a tree.
    pub fn parse(text: &str) -> Option<Tree> {
        serde_json::from_str(text).ok()
    }

    /// The file.
    pub fn text(&self) -> String {
        serde_json::to_string_pretty(self).expect("texts are JSON") + "\n"
    }

    fn under(&self, key: &str) -> Option<&Tree> {
        self.0.iter().find(|(own, _)| own == key).map(|(_, tree)| tree)
    }

    /// The part of the tree for a collective on an intracommunicator.
    fn tree(&self, collective: Collective) -> Option<&Tree> {
        self.under(&key(collective)?)?.under(INTRA)
    }

    /// The algorithms for a collective that another one may stand for: as the tree names them,
    /// without those that would change nothing.
    pub fn algorithms(&self, collective: Collective) -> Vec<String> {
        let Some(tree) = self.tree(collective) else { return Vec::new() };
        let mut uses = Vec::new();
        tree.uses(&BTreeSet::new(), &mut uses);
        let names: BTreeSet<&String> = uses.iter().map(|(name, ..)| name).collect();
        let is_other = |name: &&&String| tree.with(name, &BTreeSet::new(), &uses) != *tree;
        names.iter().filter(is_other).map(|name| (*name).clone()).collect()
    }

    /// The leaves, with what has to hold for each beside the sizes.
    fn uses(&self, outer: &BTreeSet<String>, uses: &mut Vec<Use>) {
        for (at, (key, tree)) in self.0.iter().enumerate() {
            match key.strip_prefix(ALGORITHM) {
                Some(name) => uses.push((name.to_owned(), outer.clone(), tree.clone())),
                None => tree.uses(&self.conditions(at, outer), uses),
            }
        }
    }

    /// The conditions beside the sizes under a branch.
    fn conditions(&self, at: usize, outer: &BTreeSet<String>) -> BTreeSet<String> {
        const SIZES: [&str; 7] = [
            "avg_msg_size",
            "total_msg_size",
            "comm_size<",
            "comm_size=any",
            "count=any",
            "count<=",
            "comm_hierarchy=any",
        ];
        const FEW: &str = "count<pow2";
        let mut all = outer.clone();
        let key = &self.0[at].0;
        if !SIZES.iter().any(|size| key.starts_with(size)) {
            all.insert(key.clone());
        }
        // Some algorithms give each process a part of the numbers, so that there have to be enough.
        if self.0[..at].iter().any(|(earlier, _)| earlier == FEW) {
            all.insert(format!("not {FEW}"));
        }
        all
    }

    /// The same with an algorithm in place of all others where the library has it, too.
    fn with(&self, name: &str, outer: &BTreeSet<String>, uses: &[Use]) -> Tree {
        let known = uses.iter().find(|(own, conditions, _)| own == name && conditions.is_subset(outer));
        let branch = |(at, (key, tree)): (usize, &(String, Tree))| match (key.starts_with(ALGORITHM), known) {
            (true, Some((_, _, parameters))) => (format!("{ALGORITHM}{name}"), parameters.clone()),
            (true, None) => (key.clone(), tree.clone()),
            (false, _) => (key.clone(), tree.with(name, &self.conditions(at, outer), uses)),
        };
        Tree(self.0.iter().enumerate().map(branch).collect())
    }

    /// The tree in which these selections hold.
    pub fn selecting(&self, selections: &[Selection]) -> Tree {
        let mut by_collective: BTreeMap<Collective, Vec<&Selection>> = BTreeMap::new();
        for selection in selections {
            by_collective.entry(selection.collective).or_default().push(selection);
        }
        let mut all = self.clone();
        for (collective, selections) in by_collective {
            let (Some(key), Some(own)) = (key(collective), self.tree(collective)) else { continue };
            let changed = by_members(own, collective, &selections);
            let of_collective = all.0.iter_mut().find(|(other, _)| *other == key);
            let intra = of_collective.and_then(|(_, tree)| tree.0.iter_mut().find(|(key, _)| key == INTRA));
            intra.into_iter().for_each(|(_, tree)| *tree = changed.clone());
        }
        all
    }
}

/// The name of an algorithm in a tree, what has to hold beside sizes, and its parameters.
type Use = (String, BTreeSet<String>, Tree);

/// The name of a collective in a tree. None of those whose size in a tree does not follow a
/// profile's.
fn key(collective: Collective) -> Option<String> {
    size_name(collective)?;
    Some(format!("collective={}", collective.name()["MPI_".len()..].to_lowercase()))
}

/// The size by which a tree tells calls of a collective apart.
fn size_name(collective: Collective) -> Option<&'static str> {
    use Collective::*;
    match collective {
        Allreduce | Alltoall | Bcast | Reduce => Some("avg_msg_size"),
        Allgather | ReduceScatter | ReduceScatterBlock => Some("total_msg_size"),
        _ => None,
    }
}

/// The sizes in a tree that are of these in a profile.
fn sizes(collective: Collective, members: u32, [from, to]: [u64; 2]) -> [u64; 2] {
    let members = u64::from(members);
    match collective {
        // Of one block, where the profile has all.
        Collective::Alltoall => [from.div_ceil(members), to / members],
        _ if size_name(collective) == Some("total_msg_size") => {
            [from.saturating_mul(members), to.saturating_mul(members)]
        }
        _ => [from, to],
    }
}

fn by_members(own: &Tree, collective: Collective, selections: &[&Selection]) -> Tree {
    let mut of_members: BTreeMap<u32, Vec<&Selection>> = BTreeMap::new();
    for &selection in selections {
        for &members in &selection.members {
            of_members.entry(members).or_default().push(selection);
        }
    }
    let mut branches = Vec::new();
    let mut end = 0;
    for (members, selections) in of_members {
        if members > end + 1 {
            branches.push((format!("comm_size<={}", members - 1), own.clone()));
        }
        branches.push((format!("comm_size<={members}"), by_size(own, collective, members, &selections)));
        end = members;
    }
    branches.push(("comm_size=any".to_owned(), own.clone()));
    Tree(branches)
}

fn by_size(own: &Tree, collective: Collective, members: u32, selections: &[&Selection]) -> Tree {
    /// MPICH compares with numbers of C's `int`.
    const MOST: u64 = i32::MAX as u64;
    let mut uses = Vec::new();
    own.uses(&BTreeSet::new(), &mut uses);
    let name = size_name(collective).unwrap_or_default();
    let mut ranges: Vec<([u64; 2], &str)> = selections
        .iter()
        .map(|it| (sizes(collective, members, it.bytes), it.algorithm.as_str()))
        .filter(|([from, to], _)| from <= to && *from <= MOST)
        .collect();
    ranges.sort_unstable();
    let mut branches = Vec::new();
    let mut next = 0;
    for ([from, to], algorithm) in ranges {
        if from > next {
            branches.push((format!("{name}<={}", from - 1), own.clone()));
        }
        let chosen = own.with(algorithm, &BTreeSet::new(), &uses);
        if to >= MOST {
            branches.push((format!("{name}=any"), chosen));
            return Tree(branches);
        }
        branches.push((format!("{name}<={to}"), chosen));
        next = to + 1;
    }
    branches.push((format!("{name}=any"), own.clone()));
    Tree(branches)
}

/// The name of an algorithm for people.
pub fn name(algorithm: &str) -> &str {
    algorithm.split_once("_intra_").map_or(algorithm, |(_, name)| name)
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Tree, D::Error> {
        struct Branches;
        impl<'de> Visitor<'de> for Branches {
            type Value = Tree;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("an object of conditions")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Tree, M::Error> {
                let mut branches = Vec::new();
                while let Some(branch) = map.next_entry()? {
                    branches.push(branch);
                }
                Ok(Tree(branches))
            }
        }
        deserializer.deserialize_map(Branches)
    }
}

impl Serialize for Tree {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(key, tree)| (key, tree)))
    }
}

#[cfg(test)]
mod tests;

//! Files of rules for Open MPI's component tuned: which algorithm a collective takes, by size of
//! communicator and of message.

use crate::collective::Collective;
use std::collections::BTreeMap;
use std::fmt::Write;

/// An algorithm for a collective on communicators of some sizes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The operation.
    pub collective: Collective,
    /// The sizes of communicators.
    pub members: Vec<u32>,
    /// Message sizes as a profile has them, from and to; of all sizes if there are none.
    pub bytes: Option<[u64; 2]>,
    /// The number by which Open MPI knows the algorithm for this operation.
    pub algorithm: i64,
    /// Its name.
    pub name: String,
}

/// The number of an operation in rules files: its place in the enumeration `COLLTYPE` of Open MPI's
/// coll_base_functions.h, which versions 1 to 5 have alike. None where the component tuned has no
/// choice.
pub fn number(collective: Collective) -> Option<u32> {
    use Collective::*;
    Some(match collective {
        Allgather => 0,
        Allgatherv => 1,
        Allreduce => 2,
        Alltoall => 3,
        Alltoallv => 4,
        Barrier => 6,
        Bcast => 7,
        Exscan => 8,
        Gather => 9,
        Reduce => 11,
        ReduceScatter => 12,
        ReduceScatterBlock => 13,
        Scan => 14,
        Scatter => 15,
        _ => return None,
    })
}

/// Returns whether rules for the operation look at the size of messages in a way that a profile's
/// size classes follow. Others have one size for all calls, or one that differs between versions of
/// Open MPI.
pub fn has_sizes(collective: Collective) -> bool {
    use Collective::*;
    matches!(
        collective,
        Allgather
            | Allreduce
            | Alltoall
            | Bcast
            | Gather
            | Reduce
            | ReduceScatter
            | ReduceScatterBlock
            | Scatter
    )
}

/// Open MPI's size of a message for a size of the profile: of these operations that of all blocks
/// together (`ompi_coll_tuned_*_intra_dec_dynamic`).
fn open_mpi_bytes(collective: Collective, members: u32, bytes: u64) -> u64 {
    use Collective::*;
    match collective {
        Allgather | Gather | Scatter | ReduceScatter | ReduceScatterBlock => {
            bytes.saturating_mul(members.into())
        }
        _ => bytes,
    }
}

/// The algorithm of a rule that leaves the choice to Open MPI.
const OWN_CHOICE: i64 = 0;

/// The file. A rule holds from its size to the next one's, so that each is followed by one that
/// ends it.
pub fn text(rules: &[Rule]) -> String {
    let mut by_number: BTreeMap<u32, Vec<&Rule>> = BTreeMap::new();
    for rule in rules {
        by_number
            .entry(number(rule.collective).expect("knobs are of such operations"))
            .or_default()
            .push(rule);
    }
    let mut text =
        "# Algorithms of Open MPI's component tuned, as measured by mpisee-bench tune\n".to_owned();
    let _ = writeln!(text, "{} # collectives", by_number.len());
    for (number, rules) in by_number {
        let mut sizes: BTreeMap<u32, Vec<&Rule>> = BTreeMap::from([(0, Vec::new())]);
        for rule in &rules {
            for &members in &rule.members {
                sizes.entry(members).or_default().push(rule);
                sizes.entry(members + 1).or_default();
            }
        }
        let _ =
            writeln!(text, "{number} # {}\n{} # sizes of communicators", rules[0].collective, sizes.len());
        for (members, rules) in sizes {
            of_size(&mut text, members, &rules);
        }
    }
    text
}

fn of_size(text: &mut String, members: u32, rules: &[&Rule]) {
    let mut from: BTreeMap<u64, (i64, &str)> = BTreeMap::from([(0, (OWN_CHOICE, "Open MPI's choice"))]);
    let ends = |rule: &&&Rule| rule.bytes.map(|[_, to]| open_mpi_bytes(rule.collective, members, to));
    for end in rules.iter().filter_map(|rule| ends(&rule)) {
        from.insert(end.saturating_add(1), (OWN_CHOICE, "Open MPI's choice"));
    }
    // The size that ends one rule may begin another.
    for rule in rules {
        let begin = rule.bytes.map_or(0, |[from, _]| open_mpi_bytes(rule.collective, members, from));
        from.insert(begin, (rule.algorithm, &rule.name));
    }
    let _ = writeln!(text, "{members} # processes and more\n{} # sizes of messages", from.len());
    for (bytes, (algorithm, name)) in from {
        let _ = writeln!(text, "{bytes} {algorithm} 0 0 # {name}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(collective: Collective, members: &[u32], bytes: Option<[u64; 2]>, algorithm: i64) -> Rule {
        Rule { collective, members: members.to_vec(), bytes, algorithm, name: "ring".to_owned() }
    }

    #[test]
    fn a_rule_ends_behind_its_sizes() {
        assert_eq!(
            text(&[rule(Collective::Alltoallv, &[256], None, 1)]),
            "\
# Algorithms of Open MPI's component tuned, as measured by mpisee-bench tune
1 # collectives
4 # MPI_Alltoallv
3 # sizes of communicators
0 # processes and more
1 # sizes of messages
0 0 0 0 # Open MPI's choice
256 # processes and more
1 # sizes of messages
0 1 0 0 # ring
257 # processes and more
1 # sizes of messages
0 0 0 0 # Open MPI's choice
"
        );
    }

    #[test]
    fn neighbouring_sizes_of_messages_follow_each_other() {
        let rules = [
            rule(Collective::Allreduce, &[4], Some([1024, 2047]), 3),
            rule(Collective::Allreduce, &[4], Some([2048, 4095]), 4),
            rule(Collective::Allgather, &[4, 5], Some([16, 31]), 2),
        ];
        let text = text(&rules);
        assert!(text.contains("\n4 # sizes of messages\n0 0 0 0 # Open MPI's choice\n1024 3 0 0 # ring\n2048 4 0 0 # ring\n4096 0 0 0"));
        // Open MPI has the size of all blocks.
        assert!(text.contains("\n64 2 0 0 # ring\n125 0 0 0 # Open MPI's choice\n5 # processes"), "{text}");
        assert!(text.contains("\n80 2 0 0 # ring\n156 0 0 0"), "{text}");
        assert!(
            text.contains("\n2 # collectives\n0 # MPI_Allgather\n4 # sizes of communicators\n"),
            "{text}"
        );
    }
}

//! The enum of operations, their names and kinds.

use super::{banner, camel_case};
use crate::spec::{Function, Meaning, OperationKind};
use std::fmt::Write;

/// `functions` come sorted by name.
pub fn emit<'f>(functions: impl Iterator<Item = &'f Function>) -> String {
    let operations: Vec<(&Function, OperationKind)> = functions
        .filter(|function| function.counts_as.is_none())
        .filter_map(|function| Some((function, function.kind?)))
        .collect();
    let mut out = banner("The operations that are counted, with the standard's names.");
    out.push_str(PREAMBLE);
    out.push_str("/// A counted operation; large-count and Fortran variants count under the same one.\n");
    out.push_str("#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]\n#[repr(u16)]\n");
    out.push_str("pub enum Operation {\n");
    for (function, _) in &operations {
        let _ = writeln!(out, "/// `{}`.\n{},", function.name, camel_case(function.short_name()));
    }
    out.push_str("}\n\n");
    let _ = writeln!(out, "const TABLE: [Entry; {}] = [", operations.len());
    for (function, kind) in &operations {
        let variant = camel_case(function.short_name());
        let (starts, has_buffer) = (starts_request(function), has_buffer(function));
        let (name, is_collective) = (&function.name, function.is_collective);
        let _ = writeln!(
            out,
            "(Operation::{variant}, \"{name}\", OperationKind::{kind:?}, {starts}, {is_collective}, {has_buffer}),"
        );
    }
    out.push_str("];\n\n");
    out.push_str(METHODS);
    out
}

/// Returns whether a call of it leaves a request to be completed.
fn starts_request(function: &Function) -> bool {
    match &function.meaning {
        Some(Meaning::Verb { verb, .. }) => verb.starts_with("start_"),
        Some(Meaning::ByHand { .. }) => starts_persistent(function),
        None => false,
    }
}

/// Returns whether a call of it has buffers: its own, or those of the requests that it starts.
fn has_buffer(function: &Function) -> bool {
    let is_buffer = |kind: &str| ["BUFFER", "SEND", "RECEIVE"].contains(&kind);
    starts_persistent(function) || function.params.iter().any(|param| is_buffer(&param.kind))
}

fn starts_persistent(function: &Function) -> bool {
    ["MPI_Start", "MPI_Startall"].contains(&function.name.as_str())
}

const PREAMBLE: &str = r"
/// How an operation is grouped in reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OperationKind {
    /// Sends and receives and what starts them.
    PointToPoint,
    /// Collective operations, neighbourhood ones included.
    Collective,
    /// Waits, tests and what else ends requests.
    Completion,
    /// Probes.
    Probe,
    /// Creation and destruction of communicators.
    Communicator,
    /// Windows, and accesses to the memory of others.
    OneSided,
    /// Files.
    Io,
}

/// An operation: its name and kind, whether it leaves a request, whether it is collective, and
/// whether it has buffers.
type Entry = (Operation, &'static str, OperationKind, bool, bool, bool);

";

const METHODS: &str = r#"
impl Operation {
    /// Every operation, in the order of their names.
    pub fn all() -> impl Iterator<Item = Operation> {
        TABLE.iter().map(|&(operation, ..)| operation)
    }

    /// The standard's name: `MPI_Allreduce`.
    pub fn name(self) -> &'static str {
        TABLE[self as usize].1
    }

    /// Its group in reports.
    pub fn kind(self) -> OperationKind {
        TABLE[self as usize].2
    }

    /// Returns whether a call of it leaves a request to be completed.
    pub fn starts_request(self) -> bool {
        TABLE[self as usize].3
    }

    /// Returns whether every member of the communicator makes the call, in the same order as the
    /// others (MPI 4.1, 6.1), and does so without a request.
    pub fn is_collective(self) -> bool {
        TABLE[self as usize].4
    }

    /// Returns whether a call of it has buffers: its own, or those of the persistent requests that
    /// it starts.
    pub fn has_buffer(self) -> bool {
        TABLE[self as usize].5
    }

    /// Returns whether it is one of NCCL or RCCL, whose time is no time in MPI.
    pub fn is_nccl(self) -> bool {
        is_nccl(self.name())
    }

    /// The operation of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        let found = TABLE.binary_search_by(|(_, known, ..)| known.cmp(&name)).ok()?;
        Some(TABLE[found].0)
    }

    /// The operation with that number, as in a segment.
    pub fn from_index(index: u64) -> Option<Self> {
        TABLE.get(usize::try_from(index).ok()?).map(|&(operation, ..)| operation)
    }

    /// A number that changes with the list: two programs with the same number number operations
    /// alike.
    pub const fn fingerprint() -> u64 {
        // FNV-1a over the names.
        let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
        let mut at = 0;
        while at < TABLE.len() {
            let name = TABLE[at].1.as_bytes();
            let mut byte = 0;
            while byte < name.len() {
                hash = (hash ^ name[byte] as u64).wrapping_mul(0x0000_0100_0000_01b3);
                byte += 1;
            }
            at += 1;
        }
        hash
    }
}

/// Returns whether the operation of that name is one of NCCL or RCCL.
pub fn is_nccl(operation: &str) -> bool {
    operation.starts_with("nccl")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_lead_back() {
        for (index, operation) in Operation::all().enumerate() {
            assert_eq!(Operation::from_name(operation.name()), Some(operation));
            assert_eq!(Operation::from_index(index as u64), Some(operation));
        }
        assert_eq!(Operation::from_name("MPI_Nothing"), None);
    }
}
"#;

//! Options that choose communicators and operations, the same for every command.

use crate::comm_pattern::CommPattern;
use crate::family::FamilyMembers;
use crate::units::{SizeRange, parse_seconds};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use mpisee_profile::glob::Glob;
use mpisee_profile::rows::{CommRow, Members, Memory};
use mpisee_profile::{Operation, OperationKind, RankSet};
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::str::FromStr;

/// Chooses communicators.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Filters")]
pub struct CommFilter {
    /// Only communicators whose name or label matches; * is any text, ? any character, W_s2.*@4 the
    /// members of a family; repeatable (default: all)
    #[arg(long, value_name = "GLOB")]
    comm: Vec<CommPattern>,

    /// Only these ranks of MPI_COMM_WORLD: 0-3,8 (default: all)
    #[arg(long, value_name = "RANKS", value_parser = Typed::parser(parse_ranks))]
    ranks: Option<Typed<RankSet>>,
}

impl CommFilter {
    /// Communicators that match any of these, of all ranks.
    pub fn of_comms(comm: Vec<CommPattern>) -> Self {
        CommFilter { comm, ranks: None }
    }

    /// Returns whether the name, the label that the application gave, or the family is chosen.
    pub fn takes_comm<'f>(
        &self,
        name: &str,
        row: Option<&CommRow>,
        families: impl Fn() -> &'f FamilyMembers,
    ) -> bool {
        let label = row.map(|row| row.label.as_str()).filter(|label| !label.is_empty());
        self.comm.is_empty() || self.comm.iter().any(|pattern| pattern.takes(name, label, &families))
    }

    /// The choice of communicators as on the command line.
    pub fn comms_text(&self) -> String {
        let each = self.comm.iter().map(|pattern| format!("--comm {}", quoted(pattern.text())));
        each.collect::<Vec<_>>().join(" ")
    }

    /// The choice of ranks as on the command line.
    pub fn ranks_text(&self) -> Option<String> {
        self.ranks.as_ref().map(|ranks| format!("--ranks {}", quoted(&ranks.text)))
    }

    /// Both choices as on the command line.
    pub fn described(&self) -> String {
        let comms = Some(self.comms_text()).filter(|text| !text.is_empty());
        comms.into_iter().chain(self.ranks_text()).collect::<Vec<_>>().join(" ")
    }

    /// Returns whether a pattern has the size of a family.
    pub fn names_sizes(&self) -> bool {
        self.comm.iter().any(CommPattern::has_size)
    }

    /// Returns whether the rank is chosen.
    pub fn takes_rank(&self, rank: u32) -> bool {
        self.ranks.as_ref().is_none_or(|ranks| ranks.value.contains(rank))
    }

    /// The same for all communicators.
    pub fn without_comms(&self) -> Self {
        CommFilter { comm: Vec::new(), ..self.clone() }
    }

    /// The same for all ranks.
    pub fn without_ranks(&self) -> Self {
        CommFilter { ranks: None, ..self.clone() }
    }

    /// Returns whether ranks are chosen.
    pub fn names_ranks(&self) -> bool {
        self.ranks.is_some()
    }

    /// Returns whether communicators are chosen by name.
    pub fn names_comms(&self) -> bool {
        !self.comm.is_empty()
    }

    /// Returns whether some member is chosen.
    pub fn takes_members(&self, members: &Members) -> bool {
        let Some(Typed { value: ranks, .. }) = &self.ranks else { return true };
        let shares = |group: &RankSet| {
            if ranks.len() < group.len() {
                ranks.iter().any(|rank| group.contains(rank))
            } else {
                group.iter().any(|rank| ranks.contains(rank))
            }
        };
        shares(&members.group) || members.remote.as_ref().is_some_and(shares)
    }

    /// Returns whether anything is filtered at all.
    pub fn is_on(&self) -> bool {
        !self.comm.is_empty() || self.ranks.is_some()
    }
}

/// Chooses communicators and operations.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Filters")]
pub struct CallFilter {
    /// Communicators and ranks.
    #[command(flatten)]
    pub comms: CommFilter,

    /// Only operations of these kinds, separated by commas (default: all)
    #[arg(long, value_name = "KIND", value_delimiter = ',', value_parser = kind_parser(), ignore_case = true)]
    kind: Vec<OperationKind>,

    /// Only operations whose name matches, with or without MPI_, in any case; * is any text, ? any
    /// character; repeatable (default: all)
    #[arg(long, value_name = "GLOB")]
    call: Vec<CallPattern>,

    /// Only messages of these sizes in bytes: 1k-64k, 1k-, -64k; includes each size class that
    /// overlaps the range (default: all)
    #[arg(long, value_name = "MIN-MAX", allow_hyphen_values = true, value_parser = Typed::parser(SizeRange::from_str))]
    size: Option<Typed<SizeRange>>,

    /// Only calls in regions whose name matches: solver/halo; '' is outside any region; repeatable
    /// (default: all)
    #[arg(long, value_name = "GLOB")]
    region: Vec<Glob>,

    /// Only buffers in these kinds of memory, separated by commas (default: all)
    #[arg(long, value_name = "MEMORY", value_delimiter = ',')]
    memory: Vec<MemoryArg>,

    /// Only operations in which the slowest rank spent at least this time, over all chosen
    /// communicators (summary: on each): 0.5, 10ms, 20us (default: 0)
    #[arg(long, value_name = "TIME", value_parser = Typed::parser(parse_seconds))]
    time_min: Option<Typed<f64>>,

    /// Only operations in which the slowest rank spent at most this time (default: any time)
    #[arg(long, value_name = "TIME", value_parser = Typed::parser(parse_seconds))]
    time_max: Option<Typed<f64>>,

    /// Operations that bounds on times leave, see [`CallFilter::of_operations`].
    #[arg(skip)]
    operations: Option<BTreeSet<String>>,
}

impl CallFilter {
    /// All operations on these communicators and ranks.
    pub fn from_comms(comms: CommFilter) -> Self {
        CallFilter { comms, ..CallFilter::default() }
    }

    /// Operations of these names on these communicators and ranks; without names all.
    pub fn of_calls<P: Clone + Into<CallPattern>>(comms: CommFilter, call: &[P]) -> Self {
        CallFilter { comms, call: call.iter().cloned().map(Into::into).collect(), ..CallFilter::default() }
    }

    /// Returns whether the operation is chosen.
    pub fn takes_call(&self, call: &str) -> bool {
        let kind = Operation::from_name(call).map(Operation::kind);
        // An operation that this program does not know has no kind, so it is of none of those asked
        // for.
        let kind_fits = self.kind.is_empty() || kind.is_some_and(|kind| self.kind.contains(&kind));
        let is_left = self.operations.as_ref().is_none_or(|operations| operations.contains(call));
        let call = call.to_lowercase();
        let name_fits = |pattern: &CallPattern| pattern.takes(&call);
        is_left && kind_fits && (self.call.is_empty() || self.call.iter().any(name_fits))
    }

    /// Returns whether the region is chosen.
    pub fn takes_region(&self, region: &str) -> bool {
        self.region.is_empty() || self.region.iter().any(|glob| glob.matches(region))
    }

    /// Returns whether the rank, size class and memory of a row are chosen; its names are looked up
    /// once each, with [`CommFilter::takes_comm`], [`CallFilter::takes_call`] and
    /// [`CallFilter::takes_region`].
    pub fn takes_row(&self, rank: u32, size_min: u64, size_max: u64, memory: Memory) -> bool {
        self.comms.takes_rank(rank) && self.takes_sums(size_min, size_max, memory)
    }

    /// Returns whether the size class and memory of a row that is a sum over ranks are chosen.
    pub fn takes_sums(&self, size_min: u64, size_max: u64, memory: Memory) -> bool {
        let overlaps =
            |size: &Typed<SizeRange>| size_min <= size.value.max_bytes && size.value.min_bytes <= size_max;
        self.size.as_ref().is_none_or(overlaps)
            && (self.memory.is_empty() || self.memory.iter().any(|wanted| wanted.memory() == memory))
    }

    /// Returns whether an operation is chosen by its largest time over ranks. If that is unknown,
    /// it is chosen unless a filter on time is set.
    pub fn takes_time(&self, max_s: Option<f64>) -> bool {
        let Some(max_s) = max_s else { return self.time_min.is_none() && self.time_max.is_none() };
        self.time_min.as_ref().is_none_or(|least| max_s >= least.value)
            && self.time_max.as_ref().is_none_or(|most| max_s <= most.value)
    }

    /// The filters that are on, as on the command line.
    pub fn described(&self) -> String {
        let mut options: Vec<String> =
            self.each_alone().iter().map(|(option, _)| self.text(*option)).collect();
        options.extend(self.comms.ranks_text());
        options.extend(self.times_text());
        options.join(" ")
    }

    /// The bounds on times, as on the command line.
    pub fn times_text(&self) -> Option<String> {
        let bound = |name: &str, bound: &Option<Typed<f64>>| {
            bound.as_ref().map(|bound| format!("{name} {}", bound.text))
        };
        let bounds = [bound("--time-min", &self.time_min), bound("--time-max", &self.time_max)];
        let bounds: Vec<String> = bounds.into_iter().flatten().collect();
        (!bounds.is_empty()).then(|| bounds.join(" "))
    }

    /// A filter as on the command line: `--comm W_s2.* --comm W`.
    pub fn text(&self, option: FilterOption) -> String {
        let repeated = |values: &mut dyn Iterator<Item = String>| {
            let each = values.map(|value| format!("{option} {}", quoted(&value)));
            each.collect::<Vec<_>>().join(" ")
        };
        let joined = |values: Vec<&str>| format!("{option} {}", values.join(","));
        match option {
            FilterOption::Comm => self.comms.comms_text(),
            FilterOption::Kind => joined(self.kind.iter().map(|&kind| kind_name(kind)).collect()),
            FilterOption::Call => repeated(&mut self.call.iter().map(|call| call.text.clone())),
            FilterOption::Size => {
                self.size.as_ref().map_or(String::new(), |size| format!("{option} {}", size.text))
            }
            FilterOption::Region => repeated(&mut self.region.iter().map(Glob::to_string)),
            FilterOption::Memory => joined(self.memory.iter().map(<&str>::from).collect()),
        }
    }

    /// Returns whether buffers in ordinary memory of the host are left out, by `--memory`.
    pub fn leaves_out_host(&self) -> bool {
        !self.memory.is_empty() && !self.memory.iter().any(|wanted| wanted.memory() == Memory::Host)
    }

    /// The kinds of memory by name, each with a filter that takes it alone.
    pub fn each_memory() -> impl Iterator<Item = (&'static str, CallFilter)> {
        let filter = |&memory| CallFilter { memory: vec![memory], ..CallFilter::default() };
        MemoryArg::value_variants().iter().map(move |memory| (memory.into(), filter(memory)))
    }

    /// Each filter that is on by itself, with its option; those on ranks and on times are not among
    /// them.
    pub fn each_alone(&self) -> Vec<(FilterOption, CallFilter)> {
        let all = CallFilter::default;
        let comms = CommFilter { comm: self.comms.comm.clone(), ranks: None };
        let alone = [
            (FilterOption::Comm, CallFilter { comms, ..all() }),
            (FilterOption::Kind, CallFilter { kind: self.kind.clone(), ..all() }),
            (FilterOption::Call, CallFilter { call: self.call.clone(), ..all() }),
            (FilterOption::Size, CallFilter { size: self.size.clone(), ..all() }),
            (FilterOption::Region, CallFilter { region: self.region.clone(), ..all() }),
            (FilterOption::Memory, CallFilter { memory: self.memory.clone(), ..all() }),
        ];
        alone.into_iter().filter(|(_, filter)| filter.is_on()).collect()
    }

    /// The patterns for operations as typed.
    pub fn call_patterns(&self) -> impl Iterator<Item = &str> {
        self.call.iter().map(|call| call.text.as_str())
    }

    /// The same without bounds on times, and whether there are any.
    pub fn without_times(&self) -> (Self, bool) {
        let has_bound = self.time_min.is_some() || self.time_max.is_some();
        (CallFilter { time_min: None, time_max: None, ..self.clone() }, has_bound)
    }

    /// The same with bounds on times replaced by the operations that they leave.
    pub fn of_operations(&self, operations: BTreeSet<String>) -> Self {
        CallFilter { operations: Some(operations), ..self.without_times().0 }
    }

    /// The same for all regions.
    pub fn without_regions(&self) -> Self {
        CallFilter { region: Vec::new(), ..self.clone() }
    }

    /// The message if no operation is left.
    pub fn nothing(&self) -> &'static str {
        if self.is_on() { "No operation matches the filters." } else { "The profile has no operations." }
    }

    /// Returns whether anything is filtered at all.
    pub fn is_on(&self) -> bool {
        self.comms.is_on() || self.names_calls()
    }

    /// Returns whether a part of the calls of an operation is chosen, by region, size or memory.
    pub fn names_parts_of_operations(&self) -> bool {
        !(self.region.is_empty() && self.memory.is_empty()) || self.size.is_some()
    }

    /// Returns whether calls are chosen, and not communicators and ranks alone.
    pub fn names_calls(&self) -> bool {
        !(self.kind.is_empty() && self.call.is_empty() && self.region.is_empty() && self.memory.is_empty())
            || self.size.is_some()
            || self.time_min.is_some()
            || self.time_max.is_some()
    }
}

/// A filter of calls, by its option.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::Display)]
#[strum(serialize_all = "lowercase", prefix = "--")]
pub enum FilterOption {
    Comm,
    Kind,
    Call,
    Size,
    Region,
    Memory,
}

/// The kinds of memory as typed on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
enum MemoryArg {
    Host,
    Device,
    Managed,
    Pinned,
}

impl MemoryArg {
    fn memory(self) -> Memory {
        match self {
            MemoryArg::Host => Memory::Host,
            MemoryArg::Device => Memory::Device,
            MemoryArg::Managed => Memory::Managed,
            MemoryArg::Pinned => Memory::Pinned,
        }
    }
}

/// The kind as typed on the command line.
pub fn kind_name(kind: OperationKind) -> &'static str {
    match kind {
        OperationKind::PointToPoint => "p2p",
        OperationKind::Collective => "collective",
        OperationKind::Completion => "completion",
        OperationKind::Probe => "probe",
        OperationKind::Communicator => "communicator",
        OperationKind::OneSided => "one-sided",
        OperationKind::Io => "io",
    }
}

/// Accepts the kinds that some operation has.
fn kind_parser() -> impl TypedValueParser<Value = OperationKind> {
    let mut kinds: Vec<OperationKind> = Vec::new();
    for kind in Operation::all().map(Operation::kind) {
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    let names: Vec<&'static str> = kinds.iter().map(|&kind| kind_name(kind)).collect();
    PossibleValuesParser::new(names).try_map(move |name| {
        kinds
            .iter()
            .copied()
            .find(|&kind| kind_name(kind).eq_ignore_ascii_case(&name))
            .ok_or("not a kind of operation")
    })
}

/// A value as a shell needs it where it is empty or has blanks.
fn quoted(value: &str) -> String {
    if value.is_empty() || value.contains(' ') { format!("'{value}'") } else { value.to_owned() }
}

/// A pattern for names of operations, with or without `MPI_`, in capitals or not.
#[derive(Clone, Debug)]
pub struct CallPattern {
    /// As typed.
    text: String,
    /// In small letters.
    glob: Glob,
}

impl CallPattern {
    /// Returns whether the operation is chosen; its name is in small letters.
    fn takes(&self, call: &str) -> bool {
        self.glob.matches(call) || call.strip_prefix("mpi_").is_some_and(|short| self.glob.matches(short))
    }
}

impl FromStr for CallPattern {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(CallPattern { text: text.to_owned(), glob: Glob::new(&text.to_lowercase()) })
    }
}

impl From<Glob> for CallPattern {
    fn from(glob: Glob) -> Self {
        CallPattern { text: glob.to_string(), glob: Glob::new(&glob.to_string().to_lowercase()) }
    }
}

/// The value of an option, with the text that was typed for it.
#[derive(Clone, Debug)]
struct Typed<T> {
    text: String,
    value: T,
}

impl<T> Typed<T> {
    /// Keeps the text beside what `parse` reads from it.
    fn parser<E>(parse: fn(&str) -> Result<T, E>) -> impl Fn(&str) -> Result<Typed<T>, E> + Clone {
        move |text| Ok(Typed { text: text.to_owned(), value: parse(text)? })
    }
}

/// Ranks, at least one: `0-3,8`.
pub fn parse_ranks(text: &str) -> Result<RankSet, String> {
    let ranks: RankSet = text.parse()?;
    if ranks.is_empty() { Err("there is no rank in it".to_owned()) } else { Ok(ranks) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patterns(patterns: &[&str]) -> Vec<CallPattern> {
        patterns.iter().map(|pattern| pattern.parse().unwrap()).collect()
    }

    #[test]
    fn calls_are_chosen_by_kind_and_name() {
        let filter = CallFilter {
            kind: vec![OperationKind::Collective],
            call: patterns(&["all*", "mpi_send"]),
            ..CallFilter::default()
        };
        assert!(filter.takes_call("MPI_Allreduce"));
        assert!(!filter.takes_call("MPI_Send"), "of another kind");
        assert!(!filter.takes_call("MPI_Bcast"), "of another name");
        assert!(!filter.takes_call("MPI_Allnew"), "of no known kind");
        let any_kind = CallFilter { call: patterns(&["all*"]), ..CallFilter::default() };
        assert!(any_kind.takes_call("MPI_Allnew"));
    }

    #[test]
    fn communicators_are_chosen_by_some_member() {
        let members = |text: &str, remote: Option<&str>| Members {
            group: text.parse().unwrap(),
            remote: remote.map(|text| text.parse().unwrap()),
            ..Members::default()
        };
        let filter = CommFilter { ranks: Typed::parser(parse_ranks)("6,9").ok(), ..CommFilter::default() };
        assert!(filter.takes_members(&members("0-7", None)));
        assert!(!filter.takes_members(&members("0-5", None)));
        assert!(filter.takes_members(&members("0-5", Some("8-9"))));
        assert!(filter.takes_members(&members("6", None)));
    }

    #[test]
    fn an_empty_set_of_ranks_is_refused() {
        assert!(parse_ranks(" ,").is_err());
        assert!(parse_ranks("0-x").unwrap_err().contains("'0-x'"));
    }
}

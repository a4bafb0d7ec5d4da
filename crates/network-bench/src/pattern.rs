//! Patterns: steps of messages and collective operations between ranks.
//!
//! Each rank has one piece of memory, its arena. A message copies bytes of its source's arena to
//! its destination's; steps depend on each other where they touch the same bytes. Collective
//! operations have buffers of their own.

use crate::backend::Backend;
use crate::collective::Collective;
use std::collections::HashMap;
use std::fmt;

/// A pattern, with all numbers known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pattern {
    /// The steps, in the order of the dependences between them.
    pub steps: Vec<Step>,
    /// The number of equal parts that a time is divided by: 2 of a message there and back.
    pub parts: u32,
}

/// Messages and collective operations that have nothing to wait for in each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// A name for messages about it.
    pub name: String,
    /// The backend that carries out its messages.
    pub backend: Backend,
    /// The messages.
    pub messages: Vec<Message>,
    /// The collective operations, no two of which have a member in common.
    pub collectives: Vec<CollectiveCall>,
}

/// Bytes of one rank's arena that are copied to another's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// The rank that has the bytes.
    pub source: u32,
    /// The rank that gets them.
    pub destination: u32,
    /// How many.
    pub bytes: u64,
    /// Where they begin in the source's arena.
    pub source_offset: u64,
    /// Where they go in the destination's arena.
    pub destination_offset: u64,
    /// How often the same bytes are sent to the same place.
    pub times: u32,
}

/// A collective operation on some ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollectiveCall {
    /// The operation.
    pub collective: Collective,
    /// The ranks, in the order of the communicator.
    pub members: Vec<u32>,
    /// The bytes of one block.
    pub bytes: u64,
    /// The position of the root among the members.
    pub root: u32,
}

/// Bytes of an arena, from the first up to one before the second.
pub type Span = (u64, u64);

/// Returns whether two spans have a byte in common.
pub fn overlap(one: Span, other: Span) -> bool {
    one.0 < other.1 && other.0 < one.1 && one.0 < one.1 && other.0 < other.1
}

impl Message {
    /// The bytes that are read.
    pub fn source_span(&self) -> Span {
        (self.source_offset, self.source_offset.saturating_add(self.bytes))
    }

    /// The bytes that are written.
    pub fn destination_span(&self) -> Span {
        (self.destination_offset, self.destination_offset.saturating_add(self.bytes))
    }
}

impl Step {
    /// The bytes of a rank's arena that the step reads.
    pub fn reads(&self, rank: u32) -> impl Iterator<Item = Span> {
        self.messages.iter().filter(move |it| it.source == rank).map(Message::source_span)
    }

    /// The bytes of a rank's arena that the step writes.
    pub fn writes(&self, rank: u32) -> impl Iterator<Item = Span> {
        self.messages.iter().filter(move |it| it.destination == rank).map(Message::destination_span)
    }

    /// The collective operation of the step that the rank is a member of.
    pub fn collective_of(&self, rank: u32) -> Option<&CollectiveCall> {
        self.collectives.iter().find(|call| call.members.contains(&rank))
    }

    /// The members of its collective operations, and whether they communicate with neighbours:
    /// steps that have the same share communicators.
    pub fn membership(&self) -> Vec<(&[u32], bool)> {
        self.collectives.iter().map(|call| (&call.members[..], call.collective.is_of_neighbours())).collect()
    }

    fn has_rings(&self) -> bool {
        self.collectives.iter().any(|call| call.collective.is_of_neighbours())
    }

    /// Returns whether the rank has a part in the step.
    pub fn concerns(&self, rank: u32) -> bool {
        self.messages.iter().any(|it| it.source == rank || it.destination == rank)
            || self.collective_of(rank).is_some()
    }

    /// Returns whether its collective operations are MPI's: all but those of a step of NCCL.
    pub fn has_mpi_collectives(&self) -> bool {
        !self.collectives.is_empty() && self.backend != Backend::Nccl
    }

    /// Returns whether ranks may need each other to be in MPI for its progress.
    pub fn needs_mpi_progress(&self) -> bool {
        self.has_mpi_collectives() || (self.backend.is_mpi() && !self.messages.is_empty())
    }

    /// Returns whether its messages are copied by the processor.
    pub fn needs_host_memory(&self) -> bool {
        self.backend == Backend::Shared && !self.messages.is_empty()
    }

    /// Returns whether what the step does to a rank's arena can be done together with what `later`
    /// does.
    pub fn is_independent_of(&self, later: &Step, rank: u32) -> bool {
        let collective = self.collective_of(rank).is_some() || later.collective_of(rank).is_some();
        // An empty message orders steps as one of a byte does.
        let touch = |(begin, end): Span| (begin, end.max(begin.saturating_add(1)));
        let writes: Vec<Span> = self.writes(rank).map(touch).collect();
        let reads: Vec<Span> = self.reads(rank).map(touch).collect();
        let mut touched = later.reads(rank).chain(later.writes(rank)).map(touch);
        let mut rewritten = later.writes(rank).map(touch);
        !collective
            && !touched.any(|span| writes.iter().any(|&write| overlap(write, span)))
            && !rewritten.any(|span| reads.iter().any(|&read| overlap(read, span)))
    }

    /// The bytes that it moves; of collective operations at the least.
    pub fn moved(&self) -> u64 {
        let messages = self.messages.iter().map(|it| it.bytes.saturating_mul(it.times.into()));
        let collectives =
            self.collectives.iter().map(|it| it.collective.moved(it.bytes, it.members.len() as u64));
        messages.chain(collectives).fold(0, u64::saturating_add)
    }
}

/// Why a pattern cannot be carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The step.
    pub step: usize,
    /// The message of the step, if it is one message's.
    pub message: Option<usize>,
    /// The fault, and what to do.
    pub what: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "step {}: {}", self.step + 1, self.what)
    }
}

/// The largest message: counts of MPI functions are C's `int`.
pub const LARGEST_MESSAGE: u64 = i32::MAX as u64;

/// Messages of a rank in a step at the most, each of its times counted: MPI has a request for each,
/// and MPICH ends the program when it has made 2^18.
pub const MOST_MESSAGES: u64 = 1 << 17;

/// Windows of one-sided steps and communicators of collective operations that a pattern may need:
/// MPICH has 2048 of both in all.
pub const MOST_COMMUNICATORS: usize = 1800;

impl Pattern {
    /// A pattern of these steps, of which a time is the time of all.
    pub fn from_steps(steps: Vec<Step>) -> Self {
        Pattern { steps, parts: 1 }
    }

    /// The number of ranks that it needs.
    pub fn ranks(&self) -> u32 {
        let of_messages = self.steps.iter().flat_map(|step| &step.messages);
        let of_messages = of_messages.map(|it| it.source.max(it.destination));
        let members = self.steps.iter().flat_map(|step| &step.collectives).flat_map(|call| &call.members);
        of_messages.chain(members.copied()).max().map_or(0, |last| last.saturating_add(1))
    }

    /// The bytes that all steps move.
    pub fn moved(&self) -> u64 {
        self.steps.iter().map(Step::moved).fold(0, u64::saturating_add)
    }

    /// The bytes of a rank's arena.
    pub fn arena(&self, rank: u32) -> u64 {
        let spans = self.steps.iter().flat_map(|step| step.reads(rank).chain(step.writes(rank)));
        spans.map(|(_, end)| end).max().unwrap_or(0)
    }

    /// The bytes of the buffers that a rank needs for collective operations, each of which has its
    /// own: what all hand over and get.
    pub fn collective_buffers(&self, rank: u32) -> (u64, u64) {
        let calls = self.steps.iter().filter_map(|step| step.collective_of(rank));
        calls.fold((0, 0), |sum: (u64, u64), call| {
            let (given, got) = call.collective.blocks(call.members.len() as u64);
            let [given, got] = [given, got].map(|blocks| blocks.saturating_mul(call.bytes));
            (sum.0.saturating_add(given), sum.1.saturating_add(got))
        })
    }

    /// The names of the backends that carry its messages, `isend+put`; where there are none,
    /// `collective` or `nccl`, by what its first collective operation is carried out.
    pub fn backends(&self) -> String {
        let mut names: Vec<&str> = Vec::new();
        for step in self.steps.iter().filter(|step| !step.messages.is_empty()) {
            if !names.contains(&step.backend.name()) {
                names.push(step.backend.name());
            }
        }
        if names.is_empty() {
            let mut with_collectives = self.steps.iter().filter(|step| !step.collectives.is_empty());
            return match with_collectives.next() {
                Some(step) if step.backend == Backend::Nccl => Backend::Nccl.name().to_owned(),
                Some(_) => "collective".to_owned(),
                None => String::new(),
            };
        }
        names.join("+")
    }

    /// Checks that the pattern can be carried out on so many ranks, and that its result does not
    /// depend on chance.
    pub fn check(&self, ranks: u32) -> Result<(), Fault> {
        if self.steps.iter().all(|step| step.messages.is_empty() && step.collectives.is_empty()) {
            let what = "there is no message and no collective operation".to_owned();
            return Err(Fault { step: 0, message: None, what });
        }
        for (number, step) in self.steps.iter().enumerate() {
            check_messages(number, step, ranks)?;
            check_numbers(number, step)?;
            check_collectives(number, step, ranks)?;
            check_places(number, step)?;
        }
        self.check_communicators()
    }

    /// The number of communicators for collective operations by MPI: steps of the same members
    /// share theirs, and those of neighbours are made beside.
    fn communicators(&self) -> usize {
        let of_mpi = self.steps.iter().filter(|step| step.has_mpi_collectives());
        let all: HashMap<_, _> = of_mpi.map(|step| (step.membership(), step.has_rings())).collect();
        all.into_values().map(|has_rings| 1 + usize::from(has_rings)).sum()
    }

    /// Checks that MPI has enough windows and communicators for the pattern.
    fn check_communicators(&self) -> Result<(), Fault> {
        let is_one_sided =
            |step: &&Step| matches!(step.backend, Backend::Put | Backend::Get) && !step.messages.is_empty();
        let windows = self.steps.iter().filter(is_one_sided).count();
        let communicators = self.communicators();
        if windows + communicators <= MOST_COMMUNICATORS {
            return Ok(());
        }
        let what = format!(
            "the pattern needs {windows} windows, one for each step by put or get, and {communicators} communicators, one for each list of members; \
             an MPI has {MOST_COMMUNICATORS} for certain: take fewer steps"
        );
        Err(Fault { step: self.steps.len() - 1, message: None, what })
    }
}

/// Checks that no rank has more messages in a step than it has memory for their requests.
fn check_numbers(number: usize, step: &Step) -> Result<(), Fault> {
    let mut of_rank: HashMap<u32, u64> = HashMap::new();
    for (at, message) in step.messages.iter().enumerate() {
        for rank in [message.source, message.destination] {
            let count = of_rank.entry(rank).or_default();
            *count += u64::from(message.times);
            if *count > MOST_MESSAGES {
                let what = format!(
                    "rank {rank} has more than {MOST_MESSAGES} messages in one step, each of its times counted; take fewer, or put them into several steps"
                );
                return Err(Fault { step: number, message: Some(at), what });
            }
        }
    }
    Ok(())
}

fn check_messages(number: usize, step: &Step, ranks: u32) -> Result<(), Fault> {
    for (at, message) in step.messages.iter().enumerate() {
        let fault = |what| Err(Fault { step: number, message: Some(at), what });
        let last = message.source.max(message.destination);
        if last >= ranks {
            return fault(format!(
                "rank {last} has a part in it, and there are {ranks} ranks: start {} or more with mpirun -n",
                u64::from(last) + 1
            ));
        }
        if message.bytes > LARGEST_MESSAGE {
            return fault(format!(
                "a message of {} bytes is longer than {LARGEST_MESSAGE} bytes, the most that an MPI call takes; split it",
                message.bytes
            ));
        }
    }
    Ok(())
}

fn check_collectives(number: usize, step: &Step, ranks: u32) -> Result<(), Fault> {
    let fault = |what| Err(Fault { step: number, message: None, what });
    let mut members: Vec<u32> =
        step.collectives.iter().flat_map(|call| call.members.iter().copied()).collect();
    members.sort_unstable();
    if let Some(twice) = members.windows(2).find(|pair| pair[0] == pair[1]) {
        return fault(format!("rank {} is a member twice; one step has one collective of a rank", twice[0]));
    }
    if let Some(last) = members.last().filter(|&&last| last >= ranks) {
        return fault(format!(
            "rank {last} is a member, and there are {ranks} ranks: start {} or more with mpirun -n",
            u64::from(*last) + 1
        ));
    }
    for call in &step.collectives {
        if call.members.is_empty() {
            return fault(format!("{} has no member", call.collective));
        }
        if step.backend == Backend::Nccl && call.collective.nccl_name().is_none() {
            return fault(format!(
                "NCCL has nothing like {}; it has {}",
                call.collective,
                Collective::of_nccl().map(Collective::name).collect::<Vec<_>>().join(", ")
            ));
        }
        if call.root as usize >= call.members.len() {
            return fault(format!("the root {} is not among the {} members", call.root, call.members.len()));
        }
        let (given, got) = call.collective.blocks(call.members.len() as u64);
        if given.max(got).saturating_mul(call.bytes) > LARGEST_MESSAGE {
            return fault(format!(
                "{} of {} bytes on {} members needs a buffer of more than {LARGEST_MESSAGE} bytes, the most that an \
                 MPI call takes; take smaller blocks",
                call.collective,
                call.bytes,
                call.members.len()
            ));
        }
    }
    Ok(())
}

/// Checks that no message of a step writes where another one of it reads or writes.
fn check_places(number: usize, step: &Step) -> Result<(), Fault> {
    // (rank, begin, end, is a write, message)
    let mut places: Vec<(u32, u64, u64, bool, usize)> = Vec::with_capacity(2 * step.messages.len());
    for (at, it) in step.messages.iter().enumerate().filter(|(_, it)| it.bytes > 0) {
        let (source, destination) = (it.source_span(), it.destination_span());
        places.push((it.source, source.0, source.1, false, at));
        places.push((it.destination, destination.0, destination.1, true, at));
    }
    places.sort_unstable();
    // The furthest ends so far of reads and of writes on the rank.
    let mut ends = [(u32::MAX, 0, 0); 2];
    for (rank, begin, end, is_write, at) in places {
        for (is_other_write, &(on, other_end, other)) in [false, true].into_iter().zip(&ends) {
            if on == rank && begin < other_end && (is_write || is_other_write) {
                let what = format!(
                    "at rank {rank}, bytes from {begin} on are {} by a message and {} by another one of the same step; \
                     give them other offsets, or put them into a further step",
                    if is_write { "written" } else { "read" },
                    if is_other_write { "written" } else { "read" },
                );
                return Err(Fault { step: number, message: Some(at.max(other)), what });
            }
        }
        let own = &mut ends[usize::from(is_write)];
        if own.0 != rank || end > own.1 {
            *own = (rank, end, at);
        }
    }
    Ok(())
}

/// The pattern in the language of pattern files.
impl fmt::Display for Pattern {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.parts != 1 {
            writeln!(out, "parts {}", self.parts)?;
        }
        for step in &self.steps {
            writeln!(out, "step {} using {}", step.name, step.backend)?;
            for it in &step.messages {
                let Message { source, destination, bytes, source_offset, destination_offset, times } = it;
                write!(
                    out,
                    "  {source} -> {destination} : {bytes} from {source_offset} to {destination_offset}"
                )?;
                writeln!(out, "{}", if *times == 1 { String::new() } else { format!(" times {times}") })?;
            }
            for call in &step.collectives {
                let members: Vec<String> = call.members.iter().map(u32::to_string).collect();
                write!(out, "  {} on {} : {}", call.collective, members.join(", "), call.bytes)?;
                writeln!(
                    out,
                    "{}",
                    if call.root == 0 { String::new() } else { format!(" root {}", call.root) }
                )?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(source: u32, destination: u32, bytes: u64, from: u64, to: u64) -> Message {
        Message { source, destination, bytes, source_offset: from, destination_offset: to, times: 1 }
    }

    fn pattern(messages: Vec<Message>) -> Pattern {
        Pattern::from_steps(vec![Step { name: "a".to_owned(), messages, ..Step::default() }])
    }

    #[test]
    fn a_message_that_writes_where_another_reads_or_writes_is_a_fault() {
        let apart = pattern(vec![message(0, 1, 8, 0, 8), message(1, 0, 8, 0, 8)]);
        assert_eq!(apart.check(2), Ok(()));
        let crossing = pattern(vec![message(0, 1, 8, 0, 0), message(1, 0, 8, 0, 8)]);
        assert!(crossing.check(2).unwrap_err().what.contains("at rank 1"), "{crossing}");
        let both = pattern(vec![message(0, 2, 8, 0, 0), message(1, 2, 8, 0, 7)]);
        assert!(both.check(3).unwrap_err().to_string().contains("written by a message and written"));
        let inside =
            pattern(vec![message(0, 2, 100, 0, 0), message(0, 2, 1, 0, 200), message(1, 2, 1, 0, 50)]);
        assert!(inside.check(3).is_err());
        let shared_source = pattern(vec![message(0, 1, 8, 0, 0), message(0, 2, 8, 4, 0)]);
        assert_eq!(shared_source.check(3), Ok(()));
    }

    #[test]
    fn too_many_ranks_and_bytes_are_faults() {
        let far = pattern(vec![message(0, 7, 8, 0, 0)]);
        assert!(far.check(4).unwrap_err().to_string().contains("start 8 or more with mpirun -n"));
        let long = pattern(vec![message(0, 1, 1 << 31, 0, 0)]);
        assert!(long.check(2).unwrap_err().to_string().contains("2147483648 bytes is longer"));
        assert!(Pattern::from_steps(Vec::new()).check(2).is_err());
    }

    #[test]
    fn too_many_messages_and_windows_are_faults() {
        let mut often = message(0, 1, 8, 0, 0);
        often.times = 1_000_000_000;
        assert!(
            pattern(vec![often]).check(2).unwrap_err().what.contains("rank 0 has more than 131072 messages")
        );
        let put = Step { backend: Backend::Put, messages: vec![message(0, 1, 8, 0, 0)], ..Step::default() };
        let said = Pattern::from_steps(vec![put.clone(); 3000]).check(2).unwrap_err().what;
        assert!(said.contains("needs 3000 windows") && said.contains("take fewer steps"), "{said}");
        assert_eq!(Pattern::from_steps(vec![put; 1000]).check(2), Ok(()));
    }

    #[test]
    fn steps_of_the_same_members_need_one_communicator_and_each_its_buffers() {
        let step = |members: &[u32]| {
            let call = CollectiveCall {
                collective: Collective::Alltoall,
                members: members.to_vec(),
                bytes: 10,
                root: 0,
            };
            Step { collectives: vec![call], ..Step::default() }
        };
        let steps: Vec<Step> = (0..3000).map(|_| step(&[0, 1])).chain([step(&[1, 0])]).collect();
        let pattern = Pattern::from_steps(steps);
        assert_eq!(pattern.check(2), Ok(()));
        assert_eq!(pattern.communicators(), 2);
        assert_eq!(pattern.collective_buffers(1), (3001 * 20, 3001 * 20));
        assert_eq!(pattern.collective_buffers(2), (0, 0));
    }

    #[test]
    fn nccl_carries_out_what_it_has() {
        let on_both = |collective| {
            let call = CollectiveCall { collective, members: vec![0, 1], bytes: 8, root: 0 };
            Pattern::from_steps(vec![Step {
                backend: Backend::Nccl,
                collectives: vec![call],
                ..Step::default()
            }])
        };
        let sum = on_both(Collective::Allreduce);
        assert_eq!((sum.check(2), sum.backends().as_str()), (Ok(()), "nccl"));
        let what = on_both(Collective::Scan).check(2).unwrap_err().what;
        assert!(what.starts_with("NCCL has nothing like MPI_Scan; it has MPI_Bcast, "), "{what}");
    }

    #[test]
    fn arenas_hold_all_that_is_touched() {
        let one = pattern(vec![message(0, 1, 8, 16, 100)]);
        assert_eq!((one.arena(0), one.arena(1), one.arena(2)), (24, 108, 0));
        assert_eq!((one.ranks(), one.moved()), (2, 8));
    }
}

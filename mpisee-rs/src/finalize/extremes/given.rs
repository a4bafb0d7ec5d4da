//! Input of a program to the recorder, up to the most that the recorder keeps.

use mpisee_profile::segment::layout::HOST_BYTES;
use mpisee_profile::segment::log::{MOST_PATH_FRAMES, MOST_PATH_LINES, Run, Runs};
use mpisee_profile::segment::names::MOST_NAME_BYTES;
use mpisee_profile::{Operation, WorldRank};
use proptest::collection::{hash_set, vec};
use proptest::prelude::*;
use proptest::sample::Index;

pub const WORLD_SIZE: u32 = 1 << 20;
/// The most bytes of all calls together.
const MOST_BYTES: u64 = 1 << 59;
const MOST_CALLS: usize = 99;

/// Input of a program to the recorder.
#[derive(Clone, Debug)]
pub struct Given {
    pub host: [u8; HOST_BYTES],
    /// Regions that begin; `None` ends the innermost.
    pub regions: Vec<Option<String>>,
    /// Words of the command line.
    pub words: Vec<String>,
    pub notes: Vec<String>,
    pub job: Option<String>,
    /// Control variables of MPI: name, value, and what set it.
    pub control: Vec<[String; 3]>,
    /// Performance variables of MPI: name and description.
    pub variables: Vec<[String; 2]>,
    pub comms: Vec<Comm>,
    pub modules: Vec<Module>,
    /// Call sites: operation and place.
    pub sites: Vec<(Index, Place)>,
    /// Call paths.
    pub paths: Vec<Vec<Place>>,
    /// Peers on `W`.
    pub peers: Vec<u32>,
    /// Calls: communicator, site, and bytes.
    pub calls: Vec<(Index, Option<Index>, u64)>,
}

/// A communicator below `W`.
#[derive(Clone, Debug)]
pub struct Comm {
    /// `W` or one of those before it; `None` of the last of these.
    pub parent: Option<Index>,
    pub made_by: (u8, Operation),
    pub n: u32,
    pub r: Option<u32>,
    pub code: u64,
    /// This rank, and others.
    pub members: Runs,
    /// True of an intercommunicator.
    pub has_remote: bool,
    /// Whether the list of its members is left out.
    pub is_elided: bool,
    /// Whether the row stands for more like it.
    pub is_shared: bool,
    pub is_freed: bool,
    /// The names that it gets, one after the other.
    pub labels: Vec<String>,
    pub topology: String,
}

/// A place in a module.
pub type Place = (Index, u64);

/// Code that calls MPI.
#[derive(Clone, Debug)]
pub enum Module {
    Binary { path: String, build_id: Vec<u8>, layout: u32 },
    Function { file: String, name: String },
}

/// A text that a program can pass as a C string, which may be long.
fn text(most_bytes: usize) -> impl Strategy<Value = String> {
    let characters = prop_oneof![3 => any::<char>(), 2 => prop::sample::select(vec!['"', '\n', '\r', ',', ' ', '\\', '/'])];
    let begin = vec(characters.prop_filter("no C string has it", |&it| it != '\0'), 0..9);
    let bytes = prop_oneof![3 => 0..=64usize, 1 => 0..=most_bytes];
    (begin, bytes).prop_map(move |(begin, bytes)| {
        let begin: String = begin.into_iter().collect();
        begin.repeat(bytes.min(most_bytes).checked_div(begin.len()).unwrap_or(0).max(1))
    })
}

fn texts<const COUNT: usize>(most_bytes: usize) -> impl Strategy<Value = [String; COUNT]> {
    vec(text(most_bytes), COUNT).prop_map(|texts| texts.try_into().expect("COUNT texts"))
}

fn regions() -> impl Strategy<Value = Vec<Option<String>>> {
    let in_a_loop = (text(40), 0usize..700).prop_map(|(name, times)| vec![Some(name); times]);
    let deep = (text(3 * MOST_NAME_BYTES), 0usize..5).prop_map(|(name, times)| vec![Some(name); times]);
    let many = (0usize..4500).prop_map(|count| {
        (0..count).flat_map(|number| [Some(format!("{number}")), None]).collect::<Vec<_>>()
    });
    let ends = (0usize..99).prop_map(|times| vec![None; times]);
    let parts = prop_oneof![2 => in_a_loop, 3 => deep, 1 => many, 1 => ends];
    vec(parts, 0..3).prop_map(|parts| parts.concat())
}

/// This rank, which is the first one, and others below the half of the world.
fn members() -> impl Strategy<Value = Runs> {
    const HALF: u32 = WORLD_SIZE / 2;
    let some = |most: usize| {
        hash_set(1..HALF, 0..most)
            .prop_map(|others| std::iter::once(0).chain(others).map(WorldRank::new).collect::<Runs>())
    };
    let regular = (1u32..9, 0u32..70_000).prop_map(|(stride, count)| {
        Runs::from_runs([Run { first: 0, count: 1 + count.min(HALF / stride - 1), stride: stride as i32 }])
    });
    prop_oneof![3 => some(8), 1 => some(3000), 2 => regular]
}

fn comm() -> impl Strategy<Value = Comm> {
    use Operation::{
        CartCreate, CartSub, CommCreate, CommCreateGroup, CommDup, CommIdup, CommSplit, CommSplitType,
        DistGraphCreate, GraphCreate, IntercommCreate, IntercommMerge,
    };
    let made_by = prop::sample::select(vec![
        (b'd', CommDup),
        (b'i', CommIdup),
        (b's', CommSplit),
        (b't', CommSplitType),
        (b'c', CommCreate),
        (b'g', CommCreateGroup),
        (b'a', CartCreate),
        (b'b', CartSub),
        (b'r', GraphCreate),
        (b'n', DistGraphCreate),
        (b'x', IntercommCreate),
        (b'm', IntercommMerge),
    ]);
    let number = prop_oneof![1u32..9, 1..u32::MAX];
    let part = prop::option::of(prop_oneof![0u32..9, 0..i32::MAX as u32]);
    let code = prop_oneof![2 => Just(0), 1 => any::<u64>()];
    let flags = prop::array::uniform3(prop::bool::weighted(0.2));
    (
        prop::option::of(any::<Index>()),
        made_by,
        number,
        part,
        code,
        members(),
        flags,
        vec(text(1 << 14), 0..4),
        text(999),
    )
        .prop_map(
            |(parent, made_by, n, r, code, members, [is_elided, is_shared, is_freed], labels, topology)| {
                Comm {
                    parent,
                    made_by,
                    n,
                    r,
                    code,
                    members,
                    has_remote: made_by.0 == b'x',
                    is_elided,
                    is_shared,
                    is_freed,
                    labels,
                    topology,
                }
            },
        )
}

fn module() -> impl Strategy<Value = Module> {
    let binary = (text(1 << 13), vec(any::<u8>(), 0..70), any::<u32>());
    prop_oneof![
        2 => binary.prop_map(|(path, build_id, layout)| Module::Binary { path, build_id, layout }),
        1 => texts(1 << 13).prop_map(|[file, name]| Module::Function { file, name }),
    ]
}

fn place() -> impl Strategy<Value = Place> {
    (any::<Index>(), prop_oneof![0..9u64, any::<u64>()])
}

pub fn any_given() -> impl Strategy<Value = Given> {
    let host =
        prop::array::uniform32(b'a'..=b'z').prop_map(|name| std::array::from_fn(|at| name[at % name.len()]));
    let program = (
        vec(text(1 << 12), 0..30),
        vec(text(1 << 12), 0..9),
        prop::option::of(text(1 << 12)),
        vec(texts(1 << 12), 0..9),
        vec(texts(1 << 12), 0..40),
    );
    // A chain is as deep as it can be.
    let chain = vec(comm(), 20..60).prop_map(|mut comms| {
        comms.iter_mut().for_each(|comm| comm.parent = None);
        comms
    });
    let comms = prop_oneof![2 => vec(comm(), 0..60), 1 => chain];
    let frames = prop_oneof![1..9usize, 1..=MOST_PATH_FRAMES + MOST_PATH_LINES];
    let path = frames.prop_flat_map(|frames| vec(place(), frames));
    let code = (vec(module(), 1..30), vec((any::<Index>(), place()), 0..200), vec(path, 0..40));
    let bytes = prop_oneof![0..9u64, 0..MOST_BYTES / MOST_CALLS as u64];
    let calls = vec((any::<Index>(), prop::option::of(any::<Index>()), bytes), 0..MOST_CALLS);
    let peers = vec(0..WORLD_SIZE, 0..3000);
    (host, regions(), program, comms, code, peers, calls).prop_map(
        |(
            host,
            regions,
            (words, notes, job, control, variables),
            comms,
            (modules, sites, paths),
            peers,
            calls,
        )| {
            Given {
                host,
                regions,
                words,
                notes,
                job,
                control,
                variables,
                comms,
                modules,
                sites,
                paths,
                peers,
                calls,
            }
        },
    )
}

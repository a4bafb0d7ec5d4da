//! Where the ranks are, and the MPI with its settings.

use mpi::topology::SimpleCommunicator;
use mpi::traits::*;
use mpisee_profile::network::{NetworkMpi, PairClass};
use std::collections::{BTreeMap, BTreeSet};

/// Where a rank is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankLocation {
    /// The node, by the smallest rank on it.
    pub node: i64,
    /// The socket to which the rank is bound; -1 if it may run on several.
    socket: i64,
    /// The last level of cache to which it is bound, by its first core; -1 if it may run on
    /// several.
    cache: i64,
}

/// The circumstances of a measurement, alike on all ranks.
pub struct Setting {
    /// The MPI.
    pub mpi: NetworkMpi,
    /// The places of all ranks.
    pub places: Vec<RankLocation>,
    /// The host names, by node.
    pub hosts: Vec<String>,
}

impl Setting {
    /// Finds out, together with all ranks.
    pub fn from_world(world: &SimpleCommunicator) -> Setting {
        let node = world.split_shared(world.rank());
        let mut first = i64::from(world.rank());
        node.process_at_rank(0).broadcast_into(&mut first);
        let (socket, cache) = bound();
        let mut gathered = vec![0_i64; 3 * world.size() as usize];
        world.all_gather_into(&[first, socket, cache][..], &mut gathered[..]);
        let place = |it: &[i64]| RankLocation { node: it[0], socket: it[1], cache: it[2] };
        let library = mpi::environment::library_version().unwrap_or_default();
        Setting {
            mpi: NetworkMpi {
                library: first_line(&library),
                flavour: env!("MPISEE_FLAVOUR").to_owned(),
                settings: settings(),
            },
            places: gathered.chunks_exact(3).map(place).collect(),
            hosts: hosts(world),
        }
    }

    /// The nodes.
    pub fn nodes(&self) -> usize {
        self.places.iter().map(|place| place.node).collect::<BTreeSet<_>>().len()
    }

    /// How near two ranks are to each other.
    pub fn class(&self, one: usize, other: usize) -> PairClass {
        let (one, other) = (self.places[one], self.places[other]);
        match () {
            () if one.node != other.node => PairClass::Network,
            () if one.cache >= 0 && one.cache == other.cache => PairClass::Cache,
            () if one.socket >= 0 && one.socket == other.socket => PairClass::Socket,
            () => PairClass::Node,
        }
    }

    /// A line for people.
    pub fn text(&self) -> String {
        let library = self.mpi.library.split(',').next().unwrap_or_default();
        let library: Vec<&str> = library.split_whitespace().collect();
        let nodes = self.nodes();
        let counted =
            |number: usize, noun: &str| format!("{number} {noun}{}", if number == 1 { "" } else { "s" });
        let (ranks, nodes) = (counted(self.places.len(), "rank"), counted(nodes, "node"));
        format!("{} (flavour {}), {ranks} on {nodes}", library.join(" "), self.mpi.flavour)
    }
}

/// Socket and last level of cache that all cores have in common on which this process may run.
fn bound() -> (i64, i64) {
    let cores = allowed_cores();
    let common = |of: &dyn Fn(usize) -> Option<i64>| {
        let all: BTreeSet<Option<i64>> = cores.iter().map(|&core| of(core)).collect();
        if all.len() == 1 { all.into_iter().next().flatten().unwrap_or(-1) } else { -1 }
    };
    let number = |path: String| {
        let text = std::fs::read_to_string(path).ok()?;
        text.trim().split(['-', ',']).next()?.parse().ok()
    };
    let cpu = "/sys/devices/system/cpu/cpu";
    let socket = common(&|core| number(format!("{cpu}{core}/topology/physical_package_id")));
    let cache = common(&|core| {
        let last = (0..8).rev().map(|index| format!("{cpu}{core}/cache/index{index}/shared_cpu_list"));
        last.into_iter().find_map(number)
    });
    (socket, cache)
}

/// The cores on which this process may run.
fn allowed_cores() -> Vec<usize> {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let list = text.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap_or_default();
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse().ok()?..=last.parse().ok()?)
    };
    list.trim().split(',').filter_map(range).flatten().collect()
}

/// Names of the hosts, each once, by the first rank on them.
fn hosts(world: &SimpleCommunicator) -> Vec<String> {
    const LONGEST: usize = 64;
    let name = mpi::environment::processor_name().unwrap_or_default();
    let mut own = [0_u8; LONGEST];
    name.bytes().take(LONGEST).zip(&mut own).for_each(|(byte, place)| *place = byte);
    let mut all = vec![0_u8; LONGEST * world.size() as usize];
    world.all_gather_into(&own[..], &mut all[..]);
    let mut hosts: Vec<String> = Vec::new();
    for name in all.chunks_exact(LONGEST) {
        let name = String::from_utf8_lossy(name).trim_end_matches('\0').to_owned();
        if !hosts.contains(&name) {
            hosts.push(name);
        }
    }
    hosts
}

/// Variables by which the MPI, its transports and NCCL are set; not those by which a launcher
/// speaks to its processes, or that a library is to say more by.
fn settings() -> BTreeMap<String, String> {
    const BEGINNINGS: [&str; 14] = [
        "OMPI_MCA_btl",
        "OMPI_MCA_coll",
        "OMPI_MCA_mpi_",
        "OMPI_MCA_mtl",
        "OMPI_MCA_osc",
        "OMPI_MCA_pml",
        "MPIR_CVAR_",
        "MPICH_",
        "NCCL_",
        "I_MPI_ADJUST",
        "I_MPI_FABRICS",
        "UCX_",
        "FI_",
        "PSM",
    ];
    let is_one = |name: &str| {
        BEGINNINGS.iter().any(|begin| name.starts_with(begin)) && !name.starts_with("NCCL_DEBUG")
    };
    let variables = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.to_string_lossy().into_owned())));
    variables.filter(|(name, _)| is_one(name)).collect()
}

/// The first line with one space between words: MPICH has tabs there, and Open MPI's text ends in a
/// zero.
fn first_line(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default().trim_end_matches('\0');
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

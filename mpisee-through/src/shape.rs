//! Shapes of communicators within their parents: a row of a grid, the processes of a node, a
//! duplicate.
//!
//! A profile has the members of a communicator, but not their ranks in it. They are assumed to be
//! in the order of their world ranks, which holds unless the program sorted them otherwise or MPI
//! reordered them.

use crate::processes::{ProcessRows, Processes};
use mpisee_profile::comm_name::creation;
use mpisee_profile::rows::{CommRow, Members, RankRow};
use std::collections::{BTreeMap, HashMap};
use std::fmt;

/// The shape of a communicator, seen from its parent.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Shape {
    /// The members of its parent, from a call that duplicates.
    Duplicate,
    /// The members of its parent.
    Same,
    /// Two groups.
    Between,
    /// A single process of its parent.
    Alone,
    /// All members of its parent that are on one node.
    Node,
    /// Some members of its parent on one of its nodes.
    InNode,
    /// The only one of its creation, with one process of each of its parent's nodes.
    Leaders,
    /// A part of a grid of processes.
    Grid {
        /// The grid's extents.
        dims: Vec<u32>,
        /// The dimensions in which the members differ.
        along: Vec<usize>,
    },
    /// None of these.
    Other,
}

impl fmt::Display for Shape {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let listed = |numbers: &mut dyn Iterator<Item = String>, between: &str| {
            numbers.collect::<Vec<_>>().join(between)
        };
        match self {
            Shape::Duplicate => out.write_str("duplicate"),
            Shape::Same => out.write_str("all of parent"),
            Shape::Between => out.write_str("between groups"),
            Shape::Alone => out.write_str("one process"),
            Shape::Node => out.write_str("node"),
            Shape::InNode => out.write_str("inside a node"),
            Shape::Leaders => out.write_str("one per node"),
            Shape::Grid { dims, along } => {
                let grid = listed(&mut dims.iter().map(u32::to_string), "x");
                match (&along[..], dims.len()) {
                    ([1], 2) => write!(out, "row of {grid}"),
                    ([0], 2) => write!(out, "column of {grid}"),
                    ([one], _) => write!(out, "line along {one} of {grid}"),
                    ([one, other], _) => write!(out, "plane along {one},{other} of {grid}"),
                    _ => {
                        let along = listed(&mut along.iter().map(usize::to_string), ",");
                        write!(out, "part along {along} of {grid}")
                    }
                }
            }
            Shape::Other => Ok(()),
        }
    }
}

/// The distance of neighbouring members, where it is the same for all.
pub fn stride(members: &Members) -> Option<u32> {
    if members.remote.is_some() {
        return None;
    }
    if let [range] = members.group.ranges()
        && range.first < range.last
    {
        return Some(range.stride);
    }
    let mut ranks = members.group.iter();
    let (first, second) = (ranks.next()?, ranks.next()?);
    let stride = second - first;
    let mut last = second;
    for rank in ranks {
        if rank - last != stride {
            return None;
        }
        last = rank;
    }
    Some(stride)
}

/// The shape of each communicator.
pub fn shapes(comms: &[CommRow], processes: &Processes) -> Vec<Shape> {
    match &processes.rows {
        ProcessRows::Ranks(ranks) => shapes_on(comms, ranks),
        ProcessRows::Nodes(_) => comms.iter().map(|row| shape_in_sums(row, comms)).collect(),
    }
}

fn shapes_on(comms: &[CommRow], ranks: &[RankRow]) -> Vec<Shape> {
    let places: HashMap<&str, usize> =
        comms.iter().enumerate().map(|(place, row)| (row.comm.as_str(), place)).collect();
    let mut creations: HashMap<&str, Vec<&CommRow>> = HashMap::new();
    for row in comms {
        creations.entry(creation(&row.comm)).or_default().push(row);
    }
    let hosts: HashMap<u32, &str> = ranks.iter().map(|row| (row.rank, row.host.as_str())).collect();
    let mut parents: HashMap<usize, Parent<'_>> = HashMap::new();
    comms
        .iter()
        .map(|row| {
            let Some(&place) = places.get(row.parent.as_str()) else { return Shape::Other };
            let parent = parents.entry(place).or_insert_with(|| Parent::new(&comms[place], &hosts));
            shape(row, parent, &creations[creation(&row.comm)])
        })
        .collect()
}

/// The same where rows are sums over ranks, and a row may be of a family: what needs no list of
/// processes.
fn shape_in_sums(row: &CommRow, comms: &[CommRow]) -> Shape {
    let Some(parent) = comms.iter().find(|parent| parent.comm == row.parent) else { return Shape::Other };
    if row.members.remote.is_some() {
        return Shape::Between;
    }
    if (row.size, row.count, &row.members) == (parent.size, parent.count, &parent.members) {
        let duplicates = DUPLICATES.contains(&row.created_by.as_str());
        return if duplicates { Shape::Duplicate } else { Shape::Same };
    }
    if row.size == 1 { Shape::Alone } else { Shape::Other }
}

const DUPLICATES: [&str; 4] =
    ["MPI_Comm_dup", "MPI_Comm_dup_with_info", "MPI_Comm_idup", "MPI_Comm_idup_with_info"];

/// A communicator from which others were made.
struct Parent<'a> {
    row: &'a CommRow,
    /// The number of each member.
    numbers: HashMap<u32, u32>,
    /// The extents of its grid, if it has one.
    dims: Option<Vec<u32>>,
    hosts: &'a HashMap<u32, &'a str>,
    /// How many of its members are on each node.
    on_node: BTreeMap<&'a str, u64>,
}

impl<'a> Parent<'a> {
    fn new(row: &'a CommRow, hosts: &'a HashMap<u32, &'a str>) -> Self {
        let all = row.members.all();
        let numbers: HashMap<u32, u32> = all.iter().zip(0..).collect();
        let dims = dims(&row.topology)
            .filter(|dims| dims.iter().map(|&extent| u64::from(extent)).product::<u64>() == all.len());
        let mut on_node = BTreeMap::new();
        for rank in all.iter() {
            if let Some(&host) = hosts.get(&rank) {
                *on_node.entry(host).or_default() += 1;
            }
        }
        Parent { row, numbers, dims, hosts, on_node }
    }
}

/// The extents in `cart dims=4x2 periods=1x0`.
fn dims(topology: &str) -> Option<Vec<u32>> {
    let text = topology.strip_prefix("cart dims=")?.split(' ').next()?;
    text.split('x').map(|extent| extent.parse().ok()).collect()
}

fn shape(row: &CommRow, parent: &Parent<'_>, siblings: &[&CommRow]) -> Shape {
    if row.members.remote.is_some() {
        return Shape::Between;
    }
    if row.members == parent.row.members {
        return if DUPLICATES.contains(&row.created_by.as_str()) { Shape::Duplicate } else { Shape::Same };
    }
    if row.size == 1 {
        return Shape::Alone;
    }
    let numbers: Option<Vec<u32>> =
        row.members.group.iter().map(|rank| parent.numbers.get(&rank).copied()).collect();
    let Some(numbers) = numbers else { return Shape::Other };
    if let Some(grid) = parent.dims.as_ref().and_then(|dims| in_grid(&numbers, dims)) {
        return grid;
    }
    on_nodes(row, parent, siblings).unwrap_or_else(|| {
        let alike = siblings.iter().filter(|sibling| sibling.size == row.size).count();
        let regular = regular(&numbers, alike, parent.numbers.len());
        let in_node =
            || if row.nodes == 1 && parent.on_node.len() > 1 { Shape::InNode } else { Shape::Other };
        regular.unwrap_or_else(in_node)
    })
}

/// All of a node, or one of each.
fn on_nodes(row: &CommRow, parent: &Parent<'_>, siblings: &[&CommRow]) -> Option<Shape> {
    if parent.on_node.len() < 2 {
        return None;
    }
    let mut here: Vec<&str> = Vec::new();
    for rank in row.members.group.iter() {
        here.push(parent.hosts.get(&rank)?);
    }
    let size = here.len();
    here.sort_unstable();
    here.dedup();
    if let [host] = here[..] {
        return (parent.on_node.get(host) == Some(&(size as u64))).then_some(Shape::Node);
    }
    (siblings.len() == 1 && here.len() == size && size == parent.on_node.len()).then_some(Shape::Leaders)
}

/// Which part of the grid the processes of these numbers are, if they are a whole part.
fn in_grid(numbers: &[u32], dims: &[u32]) -> Option<Shape> {
    let coordinate = |number: u32, dimension: usize| {
        let below: u32 = dims[dimension + 1..].iter().product();
        number / below % dims[dimension]
    };
    let differs = |&dimension: &usize| {
        numbers.iter().any(|&number| coordinate(number, dimension) != coordinate(numbers[0], dimension))
    };
    let along: Vec<usize> = (0..dims.len()).filter(differs).collect();
    let whole: u64 = along.iter().map(|&dimension| u64::from(dims[dimension])).product();
    (whole == numbers.len() as u64).then(|| Shape::Grid { dims: dims.to_vec(), along })
}

/// Returns whether `alike` communicators with a regular choice of numbers make up a grid of `all`
/// processes.
fn regular(numbers: &[u32], alike: usize, all: usize) -> Option<Shape> {
    let size = numbers.len();
    if size < 2 || alike * size != all {
        return None;
    }
    let stride = numbers[1] - numbers[0];
    let is_even = numbers.windows(2).all(|pair| pair[1] - pair[0] == stride);
    let block = stride as usize * size;
    let first = numbers[0] as usize;
    if !is_even || !all.is_multiple_of(block) || first % block >= stride as usize {
        return None;
    }
    let mut dims = vec![(all / block) as u32, size as u32, stride];
    let mut along = 1;
    if dims[2] == 1 {
        dims.pop();
    }
    if dims[0] == 1 {
        dims.remove(0);
        along = 0;
    }
    Some(Shape::Grid { dims, along: vec![along] })
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpisee_profile::rows::Seconds;

    fn row(comm: &str, parent: &str, created_by: &str, members: &str, nodes: u32) -> CommRow {
        let (group, remote) = members.split_once('|').map_or((members, None), |(a, b)| (a, Some(b)));
        let remote = remote.map(|text| text.parse().unwrap());
        let members = Members { group: group.parse().unwrap(), remote, ..Members::default() };
        CommRow {
            comm: comm.to_owned(),
            parent: parent.to_owned(),
            created_by: created_by.to_owned(),
            size: members.all().len() as u32,
            count: 1,
            members,
            nodes,
            ..CommRow::default()
        }
    }

    /// The shapes in a run of 16 processes, four on each node.
    fn shown(rows: &[CommRow]) -> Vec<String> {
        let rank = |rank: u32| RankRow {
            rank,
            host: format!("node{}", rank / 4),
            pid: 1,
            wall_s: Seconds(1.0),
            mpi_s: Seconds(0.0),
            ..RankRow::default()
        };
        let ranks: Vec<RankRow> = (0..16).map(rank).collect();
        shapes_on(rows, &ranks).iter().map(Shape::to_string).collect()
    }

    #[test]
    fn members_tell_what_a_communicator_is() {
        let rows = [
            row("W", "", "", "0-15", 4),
            row("W_d1", "W", "MPI_Comm_dup", "0-15", 4),
            row("W_c2", "W", "MPI_Comm_create", "0-15", 4),
            row("W_t3.4", "W", "MPI_Comm_split_type", "4-7", 1),
            row("W_s4.0", "W", "MPI_Comm_split", "0,4,8,12", 4),
            row("W_s5.5", "W", "MPI_Comm_split", "5", 1),
            row("W_s6.5", "W", "MPI_Comm_split", "5-6", 1),
            row("W_s7.0", "W", "MPI_Comm_split", "0,5-6", 2),
            row("W_x8", "W", "MPI_Intercomm_create", "0-7|8-15", 4),
            row("X_d1", "X", "MPI_Comm_dup", "0-7", 2),
        ];
        let expected = [
            "",
            "duplicate",
            "all of parent",
            "node",
            "one per node",
            "one process",
            "inside a node",
            "",
            "between groups",
            "",
        ];
        assert_eq!(shown(&rows), expected);
    }

    #[test]
    fn a_grid_is_known_by_its_topology() {
        let mut rows = vec![
            row("W_a1", "", "", "0-15", 4),
            row("W_a1_b2.0", "W_a1", "MPI_Cart_sub", "0-7", 2),
            row("W_a1_b3.0", "W_a1", "MPI_Cart_sub", "0,8", 2),
            row("W_a1_b4.2", "W_a1", "MPI_Cart_sub", "2,6,10,14", 4),
            row("W_a1_s5.0", "W_a1", "MPI_Comm_split", "0-2", 1),
        ];
        rows[0].topology = "cart dims=2x2x4 periods=0x0x1".to_owned();
        let expected = [
            "",
            "plane along 1,2 of 2x2x4",
            "line along 0 of 2x2x4",
            "plane along 0,1 of 2x2x4",
            "inside a node",
        ];
        assert_eq!(shown(&rows), expected);
    }

    #[test]
    fn a_grid_is_known_by_what_a_split_makes_of_it() {
        let split =
            |members: &[&str]| -> Vec<String> {
                let mut rows = vec![row("W", "", "", "0-15", 4)];
                rows.extend(members.iter().enumerate().map(|(number, members)| {
                    row(&format!("W_s1.{number}"), "W", "MPI_Comm_split", members, 4)
                }));
                shown(&rows)[1..].to_vec()
            };
        assert_eq!(split(&["0-7", "8-15"]), ["row of 2x8"; 2]);
        assert_eq!(split(&["0-14:2", "1-15:2"]), ["column of 8x2"; 2]);
        let lines = ["0,2", "1,3", "4,6", "5,7", "8,10", "9,11", "12,14", "13,15"];
        assert_eq!(split(&lines)[0], "line along 1 of 4x2x2");
        assert_eq!(split(&["0-6", "7-15"]), ["", ""], "sizes differ");
    }

    #[test]
    fn a_stride_is_that_of_all_members() {
        let stride = |text: &str| stride(&row("W", "", "", text, 1).members);
        assert_eq!(stride("0-7"), Some(1));
        assert_eq!(stride("1,9,17"), Some(8));
        assert_eq!(stride("1,9,18"), None);
        assert_eq!(stride("3"), None);
        assert_eq!(stride("0-3|4-7"), None);
    }
}

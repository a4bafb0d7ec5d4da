//! The database of the C++ mpisee (github.com/variemai/mpisee), as its version 4.1 writes it.
//!
//! `metadata` has facts by name, `mappings` and `exectimes` the host and the wall time by rank,
//! `comms` and `operations` names, and `data` a row for each rank, communicator, operation and
//! range of sizes.

use super::{CallSums, Calls, Tables, run_of, seconds, within_run};
use anyhow::{Context, Result, anyhow, bail};
use mpisee_profile::Operation;
use mpisee_profile::RankSet;
use mpisee_profile::rows::{CommRow, Members, RankRow, Seconds, UNKNOWN_SIZE};
use mpisee_profile::run::{Imported, Lacking};
use rusqlite::{Connection, OpenFlags, Row};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

/// The name of `MPI_COMM_WORLD` there: made by rank 0 as its first communicator.
const WORLD: &str = "W0.0";
/// The name that calls have which complete requests, of whatever communicators.
const COMPLETIONS: &str = "*0.0";
/// Operations that count before the wall time begins.
const INIT: [&str; 2] = ["Init", "Init_thread"];

const QUERY: &str = "SELECT data.id, data.rank, comms.name, operations.operation, data.buffer_size_min, data.buffer_size_max, data.calls, \
                     data.time, data.volume FROM data LEFT JOIN comms ON comms.id = data.comm_id \
                     LEFT JOIN operations ON operations.id = data.operation_id ORDER BY data.id";

/// A row of `data` with the names that it refers to.
struct Data {
    id: i64,
    rank: u32,
    comm: String,
    operation: String,
    sizes: [u64; 2],
    calls: u64,
    time_s: f64,
    volume: u64,
}

impl Data {
    fn from_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Data {
            id: row.get(0)?,
            rank: row.get(1)?,
            comm: row.get(2)?,
            operation: row.get(3)?,
            sizes: [row.get(4)?, row.get(5)?],
            calls: row.get(6)?,
            time_s: row.get(7)?,
            volume: row.get(8)?,
        })
    }

    /// The row for an error.
    fn name(&self) -> String {
        named("data", self.id)
    }
}

/// Reads the database.
pub fn read(file: &Path) -> Result<Tables> {
    read_tables(file)
        .with_context(|| format!("'{}' cannot be imported as a database of the C++ mpisee", file.display()))
}

fn read_tables(file: &Path) -> Result<Tables> {
    let database = Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let all = |query: &str| -> rusqlite::Result<Vec<(String, String)>> {
        let mut statement = database.prepare(query)?;
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        rows.collect()
    };
    let metadata: BTreeMap<String, String> = all("SELECT key, value FROM metadata")?.into_iter().collect();
    let hosts = by_rank::<String>(&database, "mappings", "machine")?;
    let wall_s = by_rank::<f64>(&database, "exectimes", "time")?;
    let wall_s = (0..).zip(wall_s).map(|(rank, wall_s)| seconds(wall_s, &named("exectimes", rank)));
    let wall_s = wall_s.collect::<Result<Vec<_>>>()?;
    if hosts.len() != wall_s.len() {
        bail!("mappings has {} ranks, and exectimes {}", hosts.len(), wall_s.len());
    }
    let ranks = u32::try_from(hosts.len()).context("there are too many ranks")?;
    let mut calls = CallSums::default();
    let mut members: BTreeMap<String, (u32, BTreeSet<u32>)> = BTreeMap::new();
    for (name, size) in communicators(&database)? {
        members.insert(our_name(&name).to_owned(), (size, BTreeSet::new()));
    }
    let mut statement = database.prepare(QUERY)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let data = Data::from_row(row).map_err(|error| unusable(&error, "data", row.get(0).unwrap_or(0)))?;
        if data.rank >= ranks {
            bail!("data has the rank {}, and mappings {ranks} ranks", data.rank);
        }
        let comm = our_name(&data.comm);
        if let Some((_, ranks)) = members.get_mut(comm) {
            ranks.insert(data.rank);
        }
        if !INIT.contains(&data.operation.as_str()) {
            add(&mut calls, comm, &data, wall_s[data.rank as usize].0)?;
        }
    }
    let (calls, mpi_s) = calls.finish();
    let row = |(rank, (host, wall_s)): (u32, (&String, Seconds))| RankRow {
        rank,
        host: host.clone(),
        wall_s,
        mpi_s: mpi_s.get(&rank).copied().unwrap_or_default(),
        ..RankRow::default()
    };
    let rows = (0..).zip(hosts.iter().zip(wall_s)).map(row).collect();
    let comms = members.into_iter().map(|(name, (size, ranks))| comm(name, size, ranks, &hosts)).collect();
    let mut run = run_of(imported(&metadata), ranks, &hosts);
    let fact = |key: &str| metadata.get(key).map(|value| value.trim().to_owned()).unwrap_or_default();
    run.command = fact("Run command").split_whitespace().map(str::to_owned).collect();
    run.mpi.library = fact("MPI Library");
    run.end = local_time(&fact("Profile date")).unwrap_or_default();
    Ok(Tables { run, ranks: rows, comms, calls })
}

fn communicators(database: &Connection) -> Result<Vec<(String, u32)>> {
    let mut statement = database.prepare("SELECT id, name, size FROM comms")?;
    let mut rows = statement.query([])?;
    let mut comms = Vec::new();
    while let Some(row) = rows.next()? {
        let comm = || -> rusqlite::Result<(String, u32)> { Ok((row.get(1)?, row.get(2)?)) };
        comms.push(comm().map_err(|error| unusable(&error, "comms", row.get(0).unwrap_or(0)))?);
    }
    Ok(comms)
}

/// The name in the profile: that of the database, but for the world.
fn our_name(name: &str) -> &str {
    if name == WORLD { "W" } else { name }
}

fn imported(metadata: &BTreeMap<String, String>) -> Imported {
    let version = metadata.get("mpisee version").map_or("of an unknown version", String::as_str);
    Imported {
        tool: format!("the C++ mpisee {version}"),
        file: String::new(),
        lacks: [
            Lacking::Ancestry,
            Lacking::Peers,
            Lacking::LongestCalls,
            Lacking::Completions,
            Lacking::Regions,
        ]
        .into(),
    }
}

/// A column by rank, of which there has to be one value each.
fn by_rank<T: rusqlite::types::FromSql>(database: &Connection, table: &str, column: &str) -> Result<Vec<T>> {
    let mut statement = database.prepare(&format!("SELECT id, {column} FROM {table} ORDER BY id"))?;
    let mut rows = statement.query([])?;
    let mut values = Vec::new();
    while let Some(row) = rows.next()? {
        let rank: i64 = row.get(0)?;
        let value = row.get::<_, T>(1).map_err(|error| unusable(&error, table, rank))?;
        if rank != values.len() as i64 {
            bail!("rank {} is missing in {table}", values.len());
        }
        values.push(value);
    }
    Ok(values)
}

/// A row for an error.
fn named(table: &str, id: i64) -> String {
    format!("row {id} of its table {table}")
}

/// The error for a row with something else than a number, a text or a number in range.
fn unusable(error: &rusqlite::Error, table: &str, id: i64) -> anyhow::Error {
    let row = named(table, id);
    match error {
        rusqlite::Error::InvalidColumnType(_, column, found) => {
            anyhow!("{row} has a value of the type {found} in the column {column}")
        }
        rusqlite::Error::IntegralValueOutOfRange(_, value) => {
            anyhow!("{row} has {value}, which is out of range")
        }
        other => anyhow!("{row} cannot be read: {other}"),
    }
}

fn add(calls: &mut CallSums, comm: &str, data: &Data, wall_s: f64) -> Result<()> {
    let what = data.name();
    let time_s = seconds(data.time_s, &what)?.0;
    if data.sizes[0] > data.sizes[1] {
        bail!("{what} has a smallest message of {} bytes, and a largest of {}", data.sizes[0], data.sizes[1]);
    }
    // The longest call is unknown; the shortest is no longer than their mean.
    let more = Calls { calls: data.calls, bytes: data.volume, time_s, extremes_s: [0.0, 0.0] };
    within_run(&more, wall_s, &what)?;
    calls.add(comm, data.rank, &operation(&data.operation), sizes(data), &more)
}

/// `2026-11-25T00:22:31`, in the zone of the machine, from what C's `ctime` writes: `Wed Nov 25
/// 00:22:31 2026`.
fn local_time(text: &str) -> Option<String> {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let words: Vec<&str> = text.split_whitespace().collect();
    let [_, month, day, time, year] = words.as_slice() else { return None };
    let month = MONTHS.iter().position(|name| name == month)? + 1;
    let (year, day): (u32, u32) = (year.parse().ok()?, day.parse().ok()?);
    Some(format!("{year:04}-{month:02}-{day:02}T{time}"))
}

/// The standard's name.
fn operation(name: &str) -> String {
    [format!("MPI_{name}"), format!("MPI_Win_{}", name.to_lowercase())]
        .into_iter()
        .find(|name| Operation::from_name(name).is_some())
        .unwrap_or_else(|| format!("MPI_{name}"))
}

/// The sizes of messages. There they are from the smallest up to below the largest, the last up to
/// that of an `int`, and those of operations with a count for each member are not told apart.
fn sizes(data: &Data) -> [u64; 2] {
    const OF_EACH_MEMBER: [&str; 5] = ["gatherv", "scatterv", "alltoallv", "alltoallw", "reduce_scatter"];
    let [least, most] = data.sizes;
    let name = data.operation.to_lowercase();
    let is_of_each = OF_EACH_MEMBER.iter().any(|end| name.ends_with(end));
    match most {
        _ if is_of_each && least == 0 => UNKNOWN_SIZE,
        _ if most >= i32::MAX as u64 => [least, u64::MAX],
        // An operation without data, such as a barrier.
        _ if least == 0 && data.volume == 0 => [0, 0],
        _ => [least, most.saturating_sub(1)],
    }
}

/// The communicator. Members are the ranks with calls on it; others are counted and not known.
fn comm(name: String, size: u32, ranks: BTreeSet<u32>, hosts: &[String]) -> CommRow {
    let created_by = created_by(&name).unwrap_or_default().to_owned();
    let is_world = name == "W";
    let listed = ranks.len() as u64;
    let (label, size) = match name.as_str() {
        COMPLETIONS => ("completions of requests, whose communicator is unknown".to_owned(), listed as u32),
        _ => (String::new(), size),
    };
    let ranks = if is_world { (0..hosts.len() as u32).collect() } else { ranks };
    let nodes =
        ranks.iter().filter_map(|&rank| hosts.get(rank as usize)).collect::<BTreeSet<_>>().len() as u32;
    let group: RankSet = ranks.into_iter().collect();
    let elided = u64::from(size).saturating_sub(group.len());
    let members = Members { group, elided: [elided, 0], ..Members::default() };
    CommRow { comm: name, created_by, size, count: 1, members, label, nodes, ..CommRow::default() }
}

/// The creating call, which the first letter of the name stands for.
fn created_by(name: &str) -> Option<&'static str> {
    let calls: HashMap<char, &str> = HashMap::from([
        ('a', "MPI_Cart_create"),
        ('b', "MPI_Cart_sub"),
        ('c', "MPI_Comm_create"),
        ('d', "MPI_Comm_dup"),
        ('g', "MPI_Dist_graph_create"),
        ('i', "MPI_Comm_idup"),
        ('j', "MPI_Dist_graph_create_adjacent"),
        ('r', "MPI_Graph_create"),
        ('s', "MPI_Comm_split"),
        ('t', "MPI_Comm_split_type"),
        ('u', "MPI_Comm_create_group"),
    ]);
    calls.get(&name.chars().next()?).copied()
}

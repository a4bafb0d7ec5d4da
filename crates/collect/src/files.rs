//! Writes the files of a profile from the rows of its ranks, at `MPI_Finalize` and when a profile
//! is recovered.

use crate::aggregate::Aggregate;
use crate::devices::{DeviceTables, Devices};
use crate::form::Form;
use crate::gpu::{self, GpuPart};
use crate::nodes::Nodes;
use crate::order::SummedTimes;
use crate::rank_tables::{RankTables, is_merged, merge};
use crate::wire::pieces::{Frame, RankTable, TABLES, frames};
use mpisee_profile::comm_name::is_shared_row;
use mpisee_profile::rows::{
    ArrivalRow, CallRow, CollectiveRow, CommRow, MessageRow, NcclPeerRow, NcclTimeRow, OrderRow,
    OrderRuleRow, OrderStepRow, OutsideRow, PathRow, PeerRow, RankRow, RegionRow, Row, SiteRow, StackRow,
    StreamRow, VariableRow,
};
use mpisee_profile::site::OrderId;
use mpisee_profile::writer::{ProfileWriter, TableWriter, from_csv, to_csv};
use mpisee_profile::{PathId, ProfileError, RunInfo, SiteId};
use std::collections::{HashMap, HashSet};
use std::marker::PhantomData;
use std::mem::take;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The rows of a rank as text, by table: CSV but for what [`RankTable`] says. Takes those that may
/// be very many out of the tables.
pub fn parts<F: Form>(tables: &mut RankTables<F>) -> [Vec<u8>; TABLES] {
    RankTable::ALL.map(|table| text(tables, table))
}

fn text<F: Form>(tables: &mut RankTables<F>, table: RankTable) -> Vec<u8> {
    let (arrivals, sites) = (&mut tables.arrivals, &tables.site_tables);
    match table {
        RankTable::Ranks => to_csv(std::slice::from_ref(&tables.rank)),
        RankTable::Comms => to_csv(&tables.comms),
        RankTable::Calls => F::into_csv(take(&mut tables.calls)),
        RankTable::Peers => to_csv(&tables.peers),
        RankTable::Regions => to_csv(&tables.regions),
        RankTable::Outside => to_csv(&tables.outside),
        RankTable::NcclPeers => to_csv(&tables.nccl_peers),
        RankTable::NcclTimes => to_csv(&tables.nccl_times),
        RankTable::Gpu => to_lines(&tables.gpu),
        RankTable::Arrivals => F::into_csv(take(&mut arrivals.samples)),
        RankTable::Collectives => to_csv(&arrivals.collectives),
        RankTable::Messages => F::into_csv(take(&mut arrivals.messages.samples)),
        RankTable::Streams => to_csv(&arrivals.messages.streams),
        RankTable::Sites => to_csv(&sites.sites),
        RankTable::Paths => to_csv(&sites.paths),
        RankTable::Stacks => to_csv(&sites.stacks),
        RankTable::Orders => to_csv(&tables.order.orders),
        RankTable::OrderRules => to_csv(&tables.order.rules),
        RankTable::OrderSteps => to_csv(&tables.order.steps),
        RankTable::OrderTimes => to_csv(&tables.order.times),
        RankTable::Variables => to_csv(&tables.variables),
        RankTable::Devices => Devices::from_tables(tables).to_bytes(),
    }
}

fn to_lines(parts: &[GpuPart]) -> Vec<u8> {
    let line = |part| serde_json::to_vec(part).into_iter().chain([b"\n".to_vec()]).flatten();
    parts.iter().flat_map(line).collect()
}

fn from_lines(lines: &[u8]) -> Result<Vec<GpuPart>, ProfileError> {
    let parts = serde_json::Deserializer::from_slice(lines).into_iter();
    parts.collect::<Result<_, _>>().map_err(|error| ProfileError::Segment {
        why: format!("what a rank's GPU kernels accessed did not arrive whole: {error}"),
    })
}

/// The files of a profile, being written.
pub struct ProfileFiles {
    directory: ProfileWriter,
    ranks: TableWriter,
    comms: TableWriter,
    calls: TableWriter,
    peers: TableWriter,
    regions: TableWriter,
    outside: OptionalTable<OutsideRow>,
    nccl_peers: OptionalTable<NcclPeerRow>,
    nccl_times: OptionalTable<NcclTimeRow>,
    arrivals: OptionalTable<ArrivalRow>,
    collectives: OptionalTable<CollectiveRow>,
    messages: OptionalTable<MessageRow>,
    streams: OptionalTable<StreamRow>,
    sites: Distinct<SiteRow>,
    paths: OptionalTable<PathRow>,
    stacks: Distinct<StackRow>,
    orders: OptionalTable<OrderRow>,
    order_rules: Distinct<OrderRuleRow>,
    order_steps: Distinct<OrderStepRow>,
    order_times: SummedTimes,
    variables: OptionalTable<VariableRow>,
    /// Accesses of GPU kernels, as received; the owners of the memory are known when all ranks are
    /// there.
    gpu: Vec<u8>,
    devices: Devices,
    /// Communicators that several ranks report, by name; with the order in which they came.
    merged: HashMap<String, (usize, CommRow)>,
    /// The part that has been received of a rank's rows of a table whose rows are looked at.
    begun: Vec<u8>,
    nodes: Nodes,
    /// The number of shared rows, and of the communicators in them.
    shared_rows: (u64, u64),
}

impl ProfileFiles {
    /// Creates the directory, or one with a number after its name, and its tables. Both are removed
    /// again when this is dropped before it is finished.
    pub fn create(wanted: &Path, nodes: Nodes) -> Result<Self, ProfileError> {
        let directory = ProfileWriter::create(wanted)?;
        Ok(ProfileFiles {
            ranks: directory.table::<RankRow>()?,
            comms: directory.table::<CommRow>()?,
            calls: directory.table::<CallRow>()?,
            peers: directory.table::<PeerRow>()?,
            regions: directory.table::<RegionRow>()?,
            outside: OptionalTable::default(),
            nccl_peers: OptionalTable::default(),
            nccl_times: OptionalTable::default(),
            arrivals: OptionalTable::default(),
            collectives: OptionalTable::default(),
            messages: OptionalTable::default(),
            streams: OptionalTable::default(),
            sites: Distinct::default(),
            paths: OptionalTable::default(),
            stacks: Distinct::default(),
            orders: OptionalTable::default(),
            order_rules: Distinct::default(),
            order_steps: Distinct::default(),
            order_times: SummedTimes::default(),
            variables: OptionalTable::default(),
            gpu: Vec::new(),
            devices: Devices::default(),
            directory,
            merged: HashMap::new(),
            begun: Vec::new(),
            nodes,
            shared_rows: (0, 0),
        })
    }

    /// Appends the rows of one rank.
    pub fn append(&mut self, parts: &[Vec<u8>; TABLES]) -> Result<(), ProfileError> {
        RankTable::ALL.into_iter().zip(parts).try_for_each(|(table, text)| self.append_rows(table, text))
    }

    /// Appends a piece of the rows of one or more ranks. The rows of a rank in a table arrive in
    /// order, and complete before those of the next rank.
    pub fn append_piece(&mut self, piece: &[u8]) -> Result<(), ProfileError> {
        frames(piece).try_for_each(|frame| self.append_frame(&frame))
    }

    /// Appends a part of a piece.
    pub(crate) fn append_frame(&mut self, frame: &Frame) -> Result<(), ProfileError> {
        let &Frame::Rows { table: number, is_last, text } = frame else { return Ok(()) };
        let Some(&table) = RankTable::ALL.get(usize::from(number)) else {
            let why = format!("a rank sent rows of table {number}, which this version does not have");
            return Err(ProfileError::Segment { why });
        };
        if !table.is_taken_whole() {
            return self.append_rows(table, text);
        }
        self.begun.extend(text);
        if !is_last {
            return Ok(());
        }
        let whole = take(&mut self.begun);
        self.append_rows(table, &whole)
    }

    /// Appends rows of a table; of one that is taken whole, all that a rank has of it.
    fn append_rows(&mut self, table: RankTable, text: &[u8]) -> Result<(), ProfileError> {
        let directory = &self.directory;
        match table {
            RankTable::Ranks => self.ranks.append(text),
            RankTable::Comms => self.append_comms(text),
            RankTable::Calls => self.calls.append(text),
            RankTable::Peers => self.peers.append(text),
            RankTable::Regions => self.regions.append(text),
            RankTable::Outside => self.outside.append(directory, text),
            RankTable::NcclPeers => self.nccl_peers.append(directory, text),
            RankTable::NcclTimes => self.nccl_times.append(directory, text),
            RankTable::Gpu => {
                self.gpu.extend(text);
                Ok(())
            }
            RankTable::Arrivals => self.arrivals.append(directory, text),
            RankTable::Collectives => self.collectives.append(directory, text),
            RankTable::Messages => self.messages.append(directory, text),
            RankTable::Streams => self.streams.append(directory, text),
            RankTable::Sites => self.sites.append(directory, text),
            RankTable::Paths => self.paths.append(directory, text),
            RankTable::Stacks => self.stacks.append(directory, text),
            RankTable::Orders => self.orders.append(directory, text),
            RankTable::OrderRules => self.order_rules.append(directory, text),
            RankTable::OrderSteps => self.order_steps.append(directory, text),
            RankTable::OrderTimes => {
                self.order_times.add(rows_of_rank(text)?);
                Ok(())
            }
            RankTable::Variables => self.variables.append(directory, text),
            RankTable::Devices => {
                self.devices.merge(Devices::from_bytes(text)?);
                Ok(())
            }
        }
    }

    fn append_comms(&mut self, text: &[u8]) -> Result<(), ProfileError> {
        let rows: Vec<CommRow> = from_csv(text).map_err(|error| ProfileError::Segment {
            why: format!("a rank's communicators did not arrive whole: {error}"),
        })?;
        let mut ready = Vec::new();
        for mut row in rows {
            if self.merged.contains_key(&row.comm) || is_merged(&row) {
                let order = self.merged.len();
                self.merged
                    .entry(row.comm.clone())
                    .and_modify(|(_, known)| merge(known, &row))
                    .or_insert((order, row));
            } else {
                row.nodes = self.count_nodes(&row);
                self.note_shared_row(&row);
                ready.push(row);
            }
        }
        self.comms.append(&to_csv(&ready))
    }

    /// The nodes of a communicator. One that each process has for itself is on one node.
    fn count_nodes(&self, row: &CommRow) -> u32 {
        if row.size == 1 { 1 } else { self.nodes.count_of(&row.members.all()) }
    }

    fn note_shared_row(&mut self, row: &CommRow) {
        if is_shared_row(&row.comm) {
            self.shared_rows = (self.shared_rows.0 + 1, self.shared_rows.1.saturating_add(row.count));
        }
    }

    /// Writes what needed the rows of all ranks, and `run.json`; returns where the profile is.
    pub fn finish(mut self, run: &RunInfo) -> Result<PathBuf, ProfileError> {
        let began = Instant::now();
        let mut merged: Vec<(usize, CommRow)> = self.merged.drain().map(|(_, row)| row).collect();
        merged.sort_by_key(|&(order, _)| order);
        for (_, row) in &mut merged {
            row.nodes = self.count_nodes(row);
            self.note_shared_row(row);
        }
        let rows: Vec<CommRow> = merged.into_iter().map(|(_, row)| row).collect();
        self.comms.append(&to_csv(&rows))?;
        let tables = [self.ranks, self.comms, self.calls, self.peers, self.regions];
        let optional = [
            self.outside.table,
            self.nccl_peers.table,
            self.nccl_times.table,
            self.arrivals.table,
            self.collectives.table,
            self.messages.table,
            self.streams.table,
            self.sites.rows.table,
            self.paths.table,
            self.stacks.rows.table,
            self.orders.table,
            self.order_rules.rows.table,
            self.order_steps.rows.table,
            self.variables.table,
        ];
        for table in tables.into_iter().chain(optional.into_iter().flatten()) {
            table.close()?;
        }
        let times = self.order_times.into_rows();
        if !times.is_empty() {
            write_table(&self.directory, &times)?;
        }
        write_devices(&self.directory, &self.devices.tables())?;
        let parts = from_lines(&self.gpu)?;
        let binaries = gpu::binaries(&parts);
        let elements = gpu::processing_elements(&parts);
        let (copies, staged) = gpu::copies(&parts);
        let (rows, notes) = gpu::join(parts);
        if !copies.is_empty() {
            write_table(&self.directory, &copies)?;
        }
        if !staged.is_empty() {
            write_table(&self.directory, &staged)?;
        }
        if !rows.is_empty() {
            write_table(&self.directory, &rows)?;
            write_table(&self.directory, &binaries)?;
        }
        if !elements.is_empty() {
            write_table(&self.directory, &elements)?;
        }
        let mut run = run.clone();
        run.notes.extend(shared_rows_note(self.shared_rows));
        run.notes.extend(notes);
        add_to_finalize(&mut run, began);
        self.directory.finish(&run)
    }
}

/// A table that is made when there is a first row.
struct OptionalTable<R> {
    table: Option<TableWriter>,
    rows: PhantomData<R>,
}

impl<R> Default for OptionalTable<R> {
    fn default() -> Self {
        OptionalTable { table: None, rows: PhantomData }
    }
}

impl<R: Row> OptionalTable<R> {
    fn append(&mut self, directory: &ProfileWriter, rows: &[u8]) -> Result<(), ProfileError> {
        if rows.is_empty() {
            return Ok(());
        }
        match &mut self.table {
            Some(table) => table.append(rows),
            none => none.insert(directory.table::<R>()?).append(rows),
        }
    }
}

/// A table of what all ranks have in common: of equal rows the first is written.
struct Distinct<R: Distinguished> {
    rows: OptionalTable<R>,
    written: HashSet<R::Id>,
}

/// A row that an identifier stands for.
trait Distinguished: Row {
    type Id: Eq + std::hash::Hash;

    fn id(&self) -> Self::Id;
}

impl Distinguished for SiteRow {
    type Id = SiteId;

    fn id(&self) -> SiteId {
        self.site
    }
}

/// The rows that a rank has of a table.
fn rows_of_rank<R: Row>(text: &[u8]) -> Result<Vec<R>, ProfileError> {
    let why = |error| format!("a rank's {} did not arrive whole: {error}", R::FILE);
    from_csv(text).map_err(|error| ProfileError::Segment { why: why(error) })
}

impl Distinguished for OrderRuleRow {
    type Id = OrderId;

    fn id(&self) -> OrderId {
        self.rules
    }
}

impl Distinguished for OrderStepRow {
    type Id = (OrderId, u32);

    fn id(&self) -> (OrderId, u32) {
        (self.alphabet, self.step)
    }
}

impl Distinguished for StackRow {
    type Id = PathId;

    fn id(&self) -> PathId {
        self.path
    }
}

impl<R: Distinguished> Default for Distinct<R> {
    fn default() -> Self {
        Distinct { rows: OptionalTable::default(), written: HashSet::new() }
    }
}

impl<R: Distinguished> Distinct<R> {
    fn append(&mut self, directory: &ProfileWriter, text: &[u8]) -> Result<(), ProfileError> {
        let mut rows: Vec<R> = rows_of_rank(text)?;
        rows.retain(|row| self.written.insert(row.id()));
        self.rows.append(directory, &to_csv(&rows))
    }
}

/// The files of a profile with sums over ranks.
pub struct AggregateFiles {
    directory: ProfileWriter,
    sums: Aggregate,
}

impl AggregateFiles {
    /// Creates the directory, or one with a number after its name.
    pub fn create(wanted: &Path) -> Result<Self, ProfileError> {
        Ok(AggregateFiles { directory: ProfileWriter::create(wanted)?, sums: Aggregate::default() })
    }

    /// Adds the sums over some ranks.
    pub fn merge(&mut self, sums: Aggregate) {
        self.sums.merge(sums);
    }

    /// Writes the tables and `run.json`; returns where the profile is.
    pub fn finish(self, run: &RunInfo) -> Result<PathBuf, ProfileError> {
        let began = Instant::now();
        let directory = self.directory;
        let tables = self.sums.tables();
        write_table(&directory, &tables.nodes)?;
        write_table(&directory, &tables.comms)?;
        write_table(&directory, &tables.totals)?;
        write_table(&directory, &tables.spread)?;
        write_table(&directory, &tables.offsets)?;
        write_table(&directory, &tables.regions)?;
        if !tables.outside.is_empty() {
            write_table(&directory, &tables.outside)?;
        }
        if !tables.sites.is_empty() {
            write_table(&directory, &tables.sites)?;
            write_table(&directory, &tables.site_totals)?;
        }
        if !tables.paths.is_empty() {
            write_table(&directory, &tables.paths)?;
            write_table(&directory, &tables.stacks)?;
        }
        if !tables.variables.is_empty() {
            write_table(&directory, &tables.variables)?;
        }
        if !tables.gpu.is_empty() {
            write_table(&directory, &tables.gpu)?;
            write_table(&directory, &tables.binaries)?;
        }
        write_devices(&directory, &tables.devices)?;
        let mut run = RunInfo { is_aggregate: true, ..run.clone() };
        run.notes.extend(tables.notes);
        add_to_finalize(&mut run, began);
        directory.finish(&run)
    }
}

/// The files of a profile, being written: with rows of each rank, or with sums over ranks.
pub enum Files {
    /// With rows of each rank.
    Rows(Box<ProfileFiles>),
    /// With sums over ranks.
    Sums(Box<AggregateFiles>),
}

impl Files {
    /// Creates the files of a profile of `ranks` ranks: with sums over them if they are more than
    /// `fold`.
    pub fn create(
        wanted: &Path,
        ranks: u32,
        fold: u32,
        nodes: impl FnOnce() -> Nodes,
    ) -> Result<Self, ProfileError> {
        Ok(match ranks > fold {
            true => Files::Sums(Box::new(AggregateFiles::create(wanted)?)),
            false => Files::Rows(Box::new(ProfileFiles::create(wanted, nodes())?)),
        })
    }

    /// Writes what needs all ranks, and `run.json`; returns where the profile is.
    pub fn finish(self, run: &RunInfo) -> Result<PathBuf, ProfileError> {
        match self {
            Files::Rows(files) => files.finish(run),
            Files::Sums(files) => files.finish(run),
        }
    }
}

/// Adds the time since `began` to what `MPI_Finalize` takes longer: until the tables are written
/// and synced, which on some file systems takes most of it. What is left is `run.json` itself.
fn add_to_finalize(run: &mut RunInfo, began: Instant) {
    run.profiler.finalize_s =
        run.profiler.finalize_s.map(|so_far_s| so_far_s + began.elapsed().as_secs_f64());
}

fn write_table<R: Row>(directory: &ProfileWriter, rows: &[R]) -> Result<(), ProfileError> {
    let mut table = directory.table::<R>()?;
    table.append(&to_csv(rows))?;
    table.close()
}

/// Writes the tables of GPUs and what is near them, where there are GPUs.
fn write_devices(directory: &ProfileWriter, tables: &DeviceTables) -> Result<(), ProfileError> {
    if tables.devices.is_empty() {
        return Ok(());
    }
    write_table(directory, &tables.devices)?;
    if !tables.links.is_empty() {
        write_table(directory, &tables.links)?;
    }
    if !tables.nics.is_empty() {
        write_table(directory, &tables.nics)?;
    }
    Ok(())
}

/// A sentence on communicators that have no row of their own, if there are any.
fn shared_rows_note((rows, communicators): (u64, u64)) -> Option<String> {
    let plural = |number: u64| if number == 1 { "" } else { "s" };
    (rows > 0).then(|| {
        format!(
            "{communicators} communicator{} like many before them are in {rows} row{} of comms.csv, whose names have a +; \
             MPISEE_ALIKE sets how many get rows of their own",
            plural(communicators),
            plural(rows)
        )
    })
}

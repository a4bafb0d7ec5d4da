//! The contents of a report: what the page draws, in numbers of the commands.

use super::arguments::arguments;
use super::calling::{CallPaths, CallSites};
use super::cells::{Operations, RankTimes, RegionTimes, Sizes};
use super::columns::Table;
use super::comms::{self, CommData, Grid};
use super::gpus::Gpus;
use super::nodes::Nodes;
use super::over_time::OverTime;
use super::places::{FamilyNumbers, Fields, Numbered, RankAxis};
use super::traffic::{self, Collectives, Offsets, Pairs};
use super::waiting::{self, Waits};
use crate::command::summary::RunSummary;
use crate::command::{advise, efficiency, gpu, locality, order, paths, ranks, regions, sites};
use crate::cores;
use crate::family_rows;
use crate::filter::{CallFilter, kind_name};
use crate::group::By;
use crate::operation_sums;
use crate::sheet::{self, Answer, Sheet, Value};
use crate::units::to_nine_decimals;
use crate::view::ProfileView;
use anyhow::Result;
use mpisee_profile::operation::is_nccl;
use mpisee_profile::{Operation, ProfileError};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Rows of ranks in the table at most.
const MOST_RANKS: &str = "5000";
/// Places and call paths in tables at most.
const MOST_PLACES: &str = "5000";
const MOST_PATHS: &str = "2000";

/// Lines of each structure of the program at most.
const MOST_OF_STRUCTURE: &str = "1000";
/// Rows of each list of GPUs at most.
const MOST_OF_GPUS: &str = "5000";

/// Everything on the page.
#[derive(Serialize)]
pub struct Data<'a> {
    generator: String,
    program: String,
    /// The profile as it was named on the command line.
    profile: String,
    run: RunSummary<'a>,
    /// The run in lines of heading and text.
    header: Vec<(&'static str, String)>,
    /// Notes on the numbers, as on calls that were not seen.
    notes: Vec<String>,
    /// Why a table was read in part only.
    partial_because: Option<String>,
    advice: Advice,
    comms: Vec<CommData>,
    /// Operations: name, kind, and whether it is one of NCCL, whose time is no time in MPI.
    calls: Vec<(String, Option<&'static str>, bool)>,
    operations: Operations,
    fields: Fields,
    processes: Processes,
    sizes: Sizes,
    region_times: RegionTimes,
    #[serde(flatten)]
    by_rank: ByRank,
    waits: Option<Waits>,
    #[serde(flatten)]
    calling: Calling,
    grids: Vec<Grid>,
    /// The nodes of a profile with sums over ranks.
    nodes: Option<Nodes>,
    /// Where an agent read the run.
    over_time: Option<OverTime>,
    /// Where the profile has anything of GPUs.
    gpus: Option<Gpus>,
    /// The answers of commands, by their names.
    tables: BTreeMap<&'static str, Table>,
    /// Notes on some of these answers, beside those on the profile.
    caveats: BTreeMap<&'static str, Vec<String>>,
    /// Why a chart has nothing, by its name.
    missing: BTreeMap<&'static str, String>,
}

/// The verdict and the findings.
#[derive(Default, Serialize)]
struct Advice {
    verdict: String,
    caveats: Vec<String>,
    findings: Table,
    /// The chart with the evidence of each finding, and the family that it is about.
    charts: Vec<&'static str>,
    comms: Vec<Option<u32>>,
}

/// The data of single ranks; offsets take its place in a profile with sums over ranks. Processes
/// without MPI have no messages and collectives of it.
#[derive(Default, Serialize)]
struct ByRank {
    rank_times: Option<RankTimes>,
    messages: Option<Pairs>,
    collectives: Option<Collectives>,
    offsets: Option<Offsets>,
}

/// Where the program calls MPI.
#[derive(Default, Serialize)]
struct Calling {
    sites: Option<CallSites>,
    paths: Option<CallPaths>,
}

/// The processes of each field, column by column; sums of blocks.
#[derive(Default, Serialize)]
struct Processes {
    wall_s: Vec<f64>,
    mpi_s: Vec<f64>,
    /// None where it is unknown of a rank.
    cpu_s: Vec<Option<f64>>,
    no_core_s: Vec<Option<f64>>,
    /// The host of the first rank of each field, by number.
    host: Vec<u32>,
    hosts: Vec<String>,
}

impl<'a> Data<'a> {
    /// Reads the profile.
    pub fn gather(view: &'a ProfileView, directory: &Path) -> Result<Self> {
        let run = RunSummary::new(view);
        let axis = RankAxis::new(view);
        let mut calls = Numbered::default();
        let mut all = operation_sums::sums(view, &CallFilter::default(), true)?;
        let mut numbers = FamilyNumbers::new(family_rows::of_table(view, |_| true, true));
        let operations = Operations::from_sums(&all.comms, &mut numbers, &mut calls);
        let (sizes, sizes_cut_off) = Sizes::from_view(view, &mut numbers, &mut calls)?;
        let (region_times, regions_cut_off) = RegionTimes::from_view(view, &mut numbers)?;
        let mut gathered = Gathered {
            view,
            directory,
            axis: &axis,
            cut_off: all.cut_off.take().or(sizes_cut_off).or(regions_cut_off),
            caveats: BTreeMap::new(),
            missing: BTreeMap::new(),
            tables: BTreeMap::new(),
        };
        let by_rank = gathered.by_rank(&mut numbers, &mut calls)?;
        let waits = gathered.waits(&mut numbers, &mut calls);
        let calling = gathered.calling(&mut numbers)?;
        gathered.tables()?;
        let over_time = gathered.over_time(&numbers);
        let gpus = gathered.gpus()?;
        let advice = gathered.advice(&numbers)?;
        let processes = Processes::from_view(view, &axis);
        let Gathered { cut_off, missing, caveats, tables, .. } = gathered;
        let kind = |name: &str| Operation::from_name(name).map(|operation| kind_name(operation.kind()));
        Ok(Data {
            generator: format!("mpisee-through {}", env!("CARGO_PKG_VERSION")),
            program: view.program(),
            profile: directory.display().to_string(),
            header: run.lines(),
            notes: run.sentences().into_iter().chain(view.note_on_times()).collect(),
            run,
            partial_because: cut_off.map(|error| error.to_string()),
            advice,
            comms: comms::families(&numbers, &all.comms),
            calls: calls.names.into_iter().map(|name| (name.clone(), kind(&name), is_nccl(&name))).collect(),
            operations,
            grids: comms::grids(view, &numbers, &axis),
            fields: axis.fields,
            processes,
            sizes,
            region_times,
            by_rank,
            waits,
            calling,
            nodes: Nodes::from_view(view),
            over_time,
            gpus,
            tables,
            caveats,
            missing,
        })
    }

    /// Why a table was read in part only.
    pub fn cut_off(&self) -> Option<&str> {
        self.partial_because.as_deref()
    }

    /// The name of the program.
    pub fn program(&self) -> &str {
        &self.program
    }
}

/// Data collected on the way.
struct Gathered<'v, 'g> {
    view: &'v ProfileView,
    directory: &'g Path,
    axis: &'g RankAxis,
    cut_off: Option<ProfileError>,
    caveats: BTreeMap<&'static str, Vec<String>>,
    missing: BTreeMap<&'static str, String>,
    tables: BTreeMap<&'static str, Table>,
}

impl<'v> Gathered<'v, '_> {
    fn by_rank(&mut self, numbers: &mut FamilyNumbers<'v>, calls: &mut Numbered) -> Result<ByRank> {
        if !self.view.may_share_rows() {
            self.without_ranks();
            let offsets = Some(traffic::offsets(self.view, numbers)?);
            return Ok(ByRank { offsets, ..ByRank::default() });
        }
        let by = By { comm: true, call: true, rank: true, ..By::default() };
        let mut groups = self.view.group(&CallFilter::default(), by)?;
        let is_whole = groups.cut_off.is_none();
        self.cut_off = self.cut_off.take().or(groups.cut_off.take());
        let rank_times = Some(RankTimes::from_groups(&groups, numbers, calls, self.axis));
        if self.view.run().is_without_mpi() {
            return Ok(ByRank { rank_times, ..ByRank::default() });
        }
        let (messages, cut_off) = traffic::messages(self.view, numbers, self.axis)?;
        self.cut_off = self.cut_off.take().or(cut_off);
        Ok(ByRank {
            rank_times,
            messages: Some(messages),
            collectives: Some(Collectives::from_view(self.view, &groups, is_whole, numbers, self.axis)),
            offsets: None,
        })
    }

    /// Says of charts of single ranks why a profile with sums over ranks lacks them.
    fn without_ranks(&mut self) {
        let of_charts = [("waits", "the arrival of single ranks"), ("grid", "the time of single ranks")];
        for (chart, what) in of_charts {
            self.missing.insert(chart, format!("{}.", self.view.unanswerable(what)));
        }
    }

    fn waits(&mut self, numbers: &mut FamilyNumbers<'v>, calls: &mut Numbered) -> Option<Waits> {
        match waiting::waits(self.view, numbers, calls, self.axis) {
            Ok((waits, cut_off)) => {
                self.cut_off = self.cut_off.take().or(cut_off);
                Some(waits)
            }
            Err(why) => {
                self.missing.insert("waits", format!("{why}."));
                None
            }
        }
    }

    /// The time line of the run, if there is one.
    fn over_time(&mut self, numbers: &FamilyNumbers<'v>) -> Option<OverTime> {
        OverTime::from_view(self.view, self.directory, numbers).unwrap_or_else(|why| {
            self.missing.insert("timeline", format!("{why:#}."));
            None
        })
    }

    /// The page of `gpu`.
    fn gpus(&mut self) -> Result<Option<Gpus>> {
        let page = gpu::Page::from_view(self.view, &self.arguments(&["--top", MOST_OF_GPUS])?);
        Ok(page.map(Gpus::from_page).unwrap_or_else(|why| {
            self.missing.insert("gpus", format!("{why:#}."));
            None
        }))
    }

    /// The answers of commands, as `--format json` has them.
    fn tables(&mut self) -> Result<()> {
        let view = self.view;
        let regions = regions::answer(&self.arguments::<regions::RegionsArgs>(&[])?, view)?;
        self.add_table("regions", regions);
        match view.need_mpi("efficiency of MPI") {
            Ok(()) => {
                let args = self.arguments::<efficiency::EfficiencyArgs>(&[])?;
                self.add_table("efficiency", efficiency::answer(&args, view)?);
            }
            Err(why) => drop(self.missing.insert("efficiency", format!("{why}."))),
        }
        let ranks = ranks::answer(&self.arguments::<ranks::RanksArgs>(&["--top", MOST_RANKS])?, view)?;
        self.add_table("ranks", ranks);
        if crate::order::is_kept(view.profile())? {
            let args = self.arguments::<order::OrderArgs>(&["--top", MOST_OF_STRUCTURE])?;
            self.add_table("order", order::answer(&args, view)?);
        }
        match locality::answer(&self.arguments::<locality::LocalityArgs>(&[])?, view) {
            Ok(locality) => self.add_table("locality", locality),
            Err(why) => drop(self.missing.insert("locality", format!("{why}."))),
        }
        Ok(())
    }

    /// Places and call paths, if the profile has any.
    fn calling(&mut self, numbers: &mut FamilyNumbers<'v>) -> Result<Calling> {
        let found = sites::SitesAnswer::from_view(&self.arguments(&["--top", MOST_PLACES])?, self.view);
        let mut found = match found {
            Ok(found) => found,
            Err(why) => {
                self.missing.insert("sites", format!("{why}."));
                return Ok(Calling::default());
            }
        };
        self.cut_off = self.cut_off.take().or(found.answer.cut_off.take());
        let sites = Some(CallSites::from_found(&mut found, numbers));
        let paths = paths::PathsAnswer::from_view(&self.arguments(&["--top", MOST_PATHS])?, self.view)?;
        Ok(Calling { sites, paths: Some(CallPaths::from_found(&paths, numbers)) })
    }

    /// The arguments of a command on this profile.
    fn arguments<A: clap::Args>(&self, options: &[&str]) -> Result<A> {
        arguments(options, &[PathBuf::from(self.directory)], &[])
    }

    fn add_table(&mut self, name: &'static str, answer: Answer) {
        self.cut_off = self.cut_off.take().or(answer.cut_off);
        let of_profile = sheet::caveats(self.view.profile());
        let own: Vec<String> = answer.caveats.into_iter().filter(|it| !of_profile.contains(it)).collect();
        if !own.is_empty() {
            self.caveats.insert(name, own);
        }
        self.tables.extend(answer.sheets.first().map(|sheet| (name, Table::from(sheet))));
    }

    fn advice(&mut self, numbers: &FamilyNumbers<'_>) -> Result<Advice> {
        let answer = advise::of_run(self.view)?;
        self.cut_off = self.cut_off.take().or(answer.cut_off);
        let of_name: BTreeMap<&str, u32> =
            (0..).zip(&numbers.names).map(|(number, (name, _))| (name.as_str(), number)).collect();
        let texts = |sheet: &Sheet, column: &str| -> Vec<String> {
            let at = sheet.heads.iter().position(|head| head.name == column);
            let cell = |row: &Vec<Value>| at.map_or(String::new(), |at| row[at].in_table());
            sheet.rows.iter().map(cell).collect()
        };
        let Some(sheet) = answer.sheets.first() else { return Ok(Advice::default()) };
        let verdict = answer.values.iter().find(|(name, _)| *name == "verdict");
        Ok(Advice {
            verdict: verdict.map_or(String::new(), |(_, verdict)| verdict.in_table()),
            caveats: answer.caveats,
            charts: texts(sheet, "rule")
                .iter()
                .map(|rule| advise::registry::rule_by_name(rule).chart)
                .collect(),
            comms: texts(sheet, "about").iter().map(|about| of_name.get(about.as_str()).copied()).collect(),
            findings: Table::from(sheet),
        })
    }
}

/// Sums over the ranks of a field.
struct FieldSums {
    /// The host of the first one.
    host: u32,
    /// Wall time and MPI time.
    times_s: [f64; 2],
    /// Time on cores and without one; none if it is unknown of a rank.
    cores_s: [Option<f64>; 2],
}

impl Processes {
    fn from_view(view: &ProfileView, axis: &RankAxis) -> Self {
        let mut all = Processes::default();
        let mut hosts = Numbered::default();
        let mut sums: BTreeMap<u32, FieldSums> = BTreeMap::new();
        for row in view.processes().ranks() {
            let Some(field) = axis.field(row.rank) else { continue };
            let host = hosts.number(&row.host);
            let of_wall_s = |share: Option<f64>| share.map(|share| share * row.wall_s.0);
            let [cpu_s, no_core_s] = [cores::share_on_core(row), cores::share(row)].map(of_wall_s);
            let of_field =
                sums.entry(field).or_insert(FieldSums { host, times_s: [0.0; 2], cores_s: [Some(0.0); 2] });
            of_field.times_s[0] += row.wall_s.0;
            of_field.times_s[1] += row.mpi_s.0;
            for (sum, more) in of_field.cores_s.iter_mut().zip([cpu_s, no_core_s]) {
                *sum = sum.zip(more).map(|(sum, more)| sum + more);
            }
        }
        for FieldSums { host, times_s: [wall_s, mpi_s], cores_s: [cpu_s, no_core_s] } in sums.into_values() {
            all.host.push(host);
            all.wall_s.push(to_nine_decimals(wall_s));
            all.mpi_s.push(to_nine_decimals(mpi_s));
            all.cpu_s.push(cpu_s.map(to_nine_decimals));
            all.no_core_s.push(no_core_s.map(to_nine_decimals));
        }
        all.hosts = hosts.names;
        all
    }
}

//! The time in which ranks do not compute, by communicator or family: the second table of
//! `efficiency`.

use super::split::{Measured, WaitingKnown};
use super::{Efficiency, ratio, share};
use crate::family_rows;
use crate::filter::CallFilter;
use crate::finalize::Last;
use crate::group::{By, seconds};
use crate::interrupted;
use crate::processes::Processes;
use crate::sheet::{self, Head, Sheet, Value};
use crate::units::natural_order;
use crate::view::ProfileView;
use crate::waits::Estimate;
use anyhow::Result;
use mpisee_profile::ProfileError;
use mpisee_profile::comm_name::is_nccl;
use mpisee_profile::rows::CommRow;
use std::collections::HashMap;
use std::ops::Range;

/// Names of columns that a narrow table hides together.
const INTERVAL: &str = "interval of Waiting";
const RANGE: &str = "range of Each";

const HEADS: [Head; 14] = [
    sheet::fixed("comm", "LOST ON"),
    sheet::number("size", "SIZE"),
    sheet::number("time_s", "Time sum"),
    sheet::number("loss", "% of run").of_whole(),
    sheet::number("imbalance", "Imbalance %").hidden_at(6),
    sheet::number("waiting_s", "Waiting").hidden_at(5),
    sheet::number("waiting_low_s", "from").hidden_at(2).hidden_as(INTERVAL),
    sheet::number("waiting_high_s", "to").hidden_at(2).hidden_as(INTERVAL),
    sheet::number("transfer_s", "Transfer").hidden_at(4),
    sheet::number("not_measured_s", "Not measured").hidden_at(3),
    sheet::fixed("waited_for", "WAITED FOR"),
    sheet::number("count", "COUNT"),
    sheet::number("least_s", "Each from").hidden_at(0).hidden_as(RANGE),
    sheet::number("most_s", "to").hidden_at(0).hidden_as(RANGE),
];
const SIZE: usize = 1;
const MEASURED: Range<usize> = 5..10;
const WAITED_FOR: usize = 10;
const COUNT: usize = 11;

/// The row of what ranks lose that end before the last one.
const EARLY: &str = "waiting in MPI_Finalize for the last rank";

/// The parts of communicators, the largest first.
pub struct Loss {
    pub sheet: Sheet,
    /// True if like communicators share a row.
    pub with_families: bool,
    pub cut_off: Option<ProfileError>,
}

/// True if rows are for families, and for people.
#[derive(Clone, Copy, Debug)]
pub struct Form {
    pub families: bool,
    pub table: bool,
}

/// A communicator's part in the loss.
struct Part {
    /// Over all members.
    time_s: f64,
    /// The part beyond the member that spent least.
    above_s: Option<f64>,
    known: WaitingKnown,
}

/// The part of a communicator or family.
struct Shared {
    name: String,
    /// For people and for programs.
    size: [Value; 2],
    count: Option<u64>,
    parts: Vec<Part>,
}

impl Shared {
    fn time_s(&self) -> f64 {
        self.parts.iter().map(|part| part.time_s).sum()
    }

    /// Waiting with its ends, transfer, and what is neither known as one nor as the other; transfer
    /// is known where waiting is.
    fn measured(&self) -> [Value; 5] {
        let known =
            self.parts.iter().map(|part| part.known).fold(WaitingKnown::default(), WaitingKnown::plus);
        let rest = Value::Seconds(known.rest_of(self.time_s()));
        if known.time_s == 0.0 {
            return [Value::Nothing, Value::Nothing, Value::Nothing, Value::Nothing, rest];
        }
        let Estimate { total, low, high, .. } = known.waiting;
        let [total, low, high, transfer] = [total, low, high, known.time_s - total].map(Value::Seconds);
        [total, low, high, transfer, rest]
    }
}

/// Sums up what is lost.
pub fn loss(view: &ProfileView, all: &Efficiency, measured: Option<&Measured>, form: Form) -> Result<Loss> {
    let by = By { comm: true, ..By::default() };
    let processes = view.processes();
    let mut groups = view.group(&CallFilter::default(), by)?;
    let cut_off = groups.cut_off.take();
    let mut parts: HashMap<&str, Part> = HashMap::new();
    for (key, cell) in &groups.cells {
        let comm = groups.comm(key);
        // What the host does in NCCL is no time in MPI.
        if is_nccl(comm) {
            continue;
        }
        let present = processes.comms.get(comm).map_or(0, |row| processes.present_count(&row.members));
        let ranks = present.max(cell.ranks.ranks().unwrap_or(0));
        let least_ns = cell.ranks.least_ns(ranks);
        let above_s = least_ns.map(|least_ns| cell.time_s() - seconds(least_ns) * ranks as f64);
        let known = measured.and_then(|measured| measured.of_comm.get(comm)).copied().unwrap_or_default();
        parts.insert(comm, Part { time_s: cell.time_s(), above_s, known });
    }
    let mut shared = shared(parts, view, form.families);
    shared.sort_by(|left, right| {
        right.time_s().total_cmp(&left.time_s()).then_with(|| natural_order(&left.name, &right.name))
    });
    let is_measured = measured.is_some();
    let mut rows: Vec<Vec<Value>> = shared.iter().map(|shared| row(shared, all, is_measured, form)).collect();
    rows.extend(without_core(all, form));
    // Where ranks ended without MPI_Finalize, none waited there.
    rows.extend(early(all, processes, form).filter(|_| !interrupted::is_of(view.run())));
    let with_families = shared.iter().any(|shared| shared.parts.len() > 1);
    let mut sheet = Sheet { name: "loss", heads: HEADS.to_vec(), rows };
    if form.table {
        if !with_families {
            sheet.remove_columns(COUNT..HEADS.len());
            // Of a family it has the number of communicators, and stays.
            sheet.heads[SIZE] = HEADS[SIZE].hidden_at(1);
        } else {
            sheet.remove_columns(COUNT..COUNT + 1);
        }
        sheet.remove_columns(WAITED_FOR..WAITED_FOR + 1);
        if !is_measured {
            sheet.remove_columns(MEASURED);
        }
    } else if !form.families {
        sheet.remove_columns(COUNT..HEADS.len());
    }
    Ok(Loss { sheet, with_families, cut_off })
}

/// The parts of communicators that share a row, and those that are not in `comms.csv`.
fn shared(mut parts: HashMap<&str, Part>, view: &ProfileView, families: bool) -> Vec<Shared> {
    let mut all = Vec::new();
    for family in family_rows::of_table(view, |_| true, families) {
        // A family that was never used has lost nothing.
        if !family.rows.iter().any(|row| parts.contains_key(row.comm.as_str())) {
            continue;
        }
        let unused = || Part { time_s: 0.0, above_s: Some(0.0), known: WaitingKnown::default() };
        let of = |row: &&CommRow| parts.remove(row.comm.as_str()).unwrap_or_else(unused);
        let exact = family.sizes().parse().map_or_else(|_| Value::Text(family.sizes()), Value::Count);
        all.push(Shared {
            size: [Value::Text(family.size_text()), exact],
            count: Some(family.count()),
            parts: family.rows.iter().map(of).collect(),
            name: family.name,
        });
    }
    all.extend(parts.into_iter().map(|(comm, part)| Shared {
        name: comm.to_owned(),
        size: [Value::Nothing, Value::Nothing],
        count: None,
        parts: vec![part],
    }));
    all
}

fn row(shared: &Shared, all: &Efficiency, is_measured: bool, form: Form) -> Vec<Value> {
    let time_s = shared.time_s();
    let above_s: Option<f64> = shared.parts.iter().map(|part| part.above_s).sum();
    let imbalance = above_s.and_then(|above_s| ratio(above_s, time_s));
    let [for_people, exact] = shared.size.clone();
    let times = || shared.parts.iter().map(|part| part.time_s);
    let if_several =
        |time_s: f64| if shared.parts.len() > 1 { Value::Seconds(time_s) } else { Value::Nothing };
    let mut row = vec![
        shared.name.as_str().into(),
        if form.table { for_people } else { exact },
        Value::Seconds(time_s),
        share_of_run(time_s, all),
        imbalance.map_or(Value::Nothing, Value::Share),
    ];
    match is_measured {
        true => row.extend(shared.measured()),
        false => row.resize(WAITED_FOR, Value::Nothing),
    }
    row.extend([
        Value::Nothing,
        shared.count.map_or(Value::Nothing, Value::Count),
        if_several(times().fold(f64::INFINITY, f64::min)),
        if_several(times().fold(0.0, f64::max)),
    ]);
    row
}

/// What ranks lose outside of MPI that have no core.
const NO_CORE: &str = "waiting for a core outside of MPI";
/// Below this share of the run it is not shown to people: every rank waits for a core now and then.
const SHOWN_OF_RUN: f64 = 0.0005;

/// The time that ranks had no core outside of MPI.
fn without_core(all: &Efficiency, form: Form) -> Option<Vec<Value>> {
    let time_s = all.without_core_s();
    let of_run = ratio(time_s, all.run_s())?;
    if of_run <= 1e-12 || form.table && of_run < SHOWN_OF_RUN {
        return None;
    }
    let mut row = vec![NO_CORE.into(), Value::Nothing, Value::Seconds(time_s), share_of_run(time_s, all)];
    row.resize(HEADS.len(), Value::Nothing);
    Some(row)
}

/// Below this share of the run, ranks that come last are not named: from `MPI_Init` they do not
/// return at one moment.
const NAMED_OF_RUN: f64 = 0.01;

/// The time that ranks wait for the last ones at the end, with who these are.
fn early(all: &Efficiency, processes: &Processes, form: Form) -> Option<Vec<Value>> {
    let early_s = processes.early_s();
    if early_s <= 0.0 {
        return None;
    }
    let of_run = ratio(early_s, all.run_s()).unwrap_or(0.0);
    let last = Last::from_ranks(processes.ranks()).filter(|_| of_run >= NAMED_OF_RUN);
    let name = match &last {
        Some(last) if form.table => {
            format!("waiting in MPI_Finalize for {} ({:.0} %)", last.text(), 100.0 * last.share)
        }
        _ => EARLY.to_owned(),
    };
    let mut row =
        vec![Value::Text(name), Value::Nothing, Value::Seconds(early_s), share_of_run(early_s, all)];
    row.push(Value::Nothing);
    row.resize(WAITED_FOR, Value::Nothing);
    row[MEASURED.start] = Value::Seconds(early_s);
    row.push(last.map_or(Value::Nothing, |last| Value::Text(last.set().to_string())));
    row.resize(HEADS.len(), Value::Nothing);
    Some(row)
}

fn share_of_run(time_s: f64, all: &Efficiency) -> Value {
    share(ratio(time_s, all.run_s()).filter(|_| !all.useful.is_unknown))
}

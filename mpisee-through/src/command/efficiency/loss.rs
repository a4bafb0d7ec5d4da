//! The time in which ranks do not compute, by communicator or family: the second table of `efficiency`.

use super::{Efficiency, ratio};
use crate::family;
use crate::filter::CallFilter;
use crate::group::{By, seconds};
use crate::interrupted;
use crate::processes::Processes;
use crate::sheet::{self, Head, Sheet, Value};
use crate::units::natural_order;
use crate::view::ProfileView;
use anyhow::Result;
use mpisee_profile::ProfileError;
use mpisee_profile::rows::CommRow;
use std::collections::HashMap;

const HEADS: [Head; 8] = [
    sheet::fixed("comm", "LOST ON"),
    sheet::number("size", "SIZE").hidden_at(1),
    sheet::number("time_s", "Time"),
    sheet::number("loss", "% of run").of_whole(),
    sheet::number("imbalance", "Imbalance %"),
    sheet::number("count", "COUNT"),
    sheet::number("least_s", "Each from").hidden_at(0),
    sheet::number("most_s", "to").hidden_at(0),
];
const COUNT: usize = 5;

/// The row of what ranks lose that end before the last one.
const EARLY: &str = "waiting in MPI_Finalize for the last rank";

/// The parts of communicators, the largest first.
pub struct Loss {
    pub sheet: Sheet,
    /// Whether like communicators share a row.
    pub with_families: bool,
    pub cut_off: Option<ProfileError>,
}

/// Whether rows are for families, and for people.
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
}

/// Sums up what is lost.
pub fn loss(view: &ProfileView, all: &Efficiency, form: Form) -> Result<Loss> {
    let by = By { comm: true, ..By::default() };
    let processes = view.processes();
    let mut groups = view.group(&CallFilter::default(), by)?;
    let cut_off = groups.cut_off.take();
    let mut parts: HashMap<&str, Part> = HashMap::new();
    for (key, cell) in &groups.cells {
        let comm = groups.comm(key);
        let present = processes.comms.get(comm).map_or(0, |row| processes.present_count(&row.members));
        let ranks = present.max(cell.ranks.ranks().unwrap_or(0));
        let least_ns = cell.ranks.least_ns(ranks);
        let above_s = least_ns.map(|least_ns| cell.time_s() - seconds(least_ns) * ranks as f64);
        parts.insert(comm, Part { time_s: cell.time_s(), above_s });
    }
    let mut shared = shared(parts, view, form.families);
    shared.sort_by(|left, right| {
        right.time_s().total_cmp(&left.time_s()).then_with(|| natural_order(&left.name, &right.name))
    });
    let mut rows: Vec<Vec<Value>> = shared.iter().map(|shared| row(shared, all, form)).collect();
    // Where ranks ended without MPI_Finalize, none waited there.
    rows.extend(early(all, processes).filter(|_| !interrupted::is_of(view.run())));
    let with_families = shared.iter().any(|shared| shared.parts.len() > 1);
    let mut sheet = Sheet { name: "loss", heads: HEADS.to_vec(), rows };
    if form.table {
        sheet.remove_columns(COUNT..COUNT + 1);
        if !with_families {
            sheet.remove_columns(COUNT..COUNT + 2);
        }
    } else if !form.families {
        sheet.remove_columns(COUNT..HEADS.len());
    }
    Ok(Loss { sheet, with_families, cut_off })
}

/// The parts of communicators that share a row, and those that are not in `comms.csv`.
fn shared(mut parts: HashMap<&str, Part>, view: &ProfileView, families: bool) -> Vec<Shared> {
    let mut all = Vec::new();
    for family in family::of_table(view, |_| true, families) {
        // A family that was never used has lost nothing.
        if !family.rows.iter().any(|row| parts.contains_key(row.comm.as_str())) {
            continue;
        }
        let unused = || Part { time_s: 0.0, above_s: Some(0.0) };
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

fn row(shared: &Shared, all: &Efficiency, form: Form) -> Vec<Value> {
    let time_s = shared.time_s();
    let above_s: Option<f64> = shared.parts.iter().map(|part| part.above_s).sum();
    let imbalance = above_s.and_then(|above_s| ratio(above_s, time_s));
    let [for_people, exact] = shared.size.clone();
    let times = || shared.parts.iter().map(|part| part.time_s);
    let if_several =
        |time_s: f64| if shared.parts.len() > 1 { Value::Seconds(time_s) } else { Value::Nothing };
    vec![
        shared.name.as_str().into(),
        if form.table { for_people } else { exact },
        Value::Seconds(time_s),
        share_of_run(time_s, all),
        imbalance.map_or(Value::Nothing, Value::Share),
        shared.count.map_or(Value::Nothing, Value::Count),
        if_several(times().fold(f64::INFINITY, f64::min)),
        if_several(times().fold(0.0, f64::max)),
    ]
}

/// The time that ranks wait for the last one at the end.
fn early(all: &Efficiency, processes: &Processes) -> Option<Vec<Value>> {
    let early_s = all.runtime_s * processes.count() as f64 - processes.wall_s();
    // What rounding leaves of equal times is nothing.
    (early_s > 1e-12 * processes.wall_s()).then(|| {
        let known = [EARLY.into(), Value::Nothing, Value::Seconds(early_s), share_of_run(early_s, all)];
        let unknown = std::iter::repeat_n(Value::Nothing, HEADS.len() - known.len());
        known.into_iter().chain(unknown).collect()
    })
}

fn share_of_run(time_s: f64, all: &Efficiency) -> Value {
    ratio(time_s, all.runtime_s * all.ranks as f64).map_or(Value::Nothing, Value::Share)
}

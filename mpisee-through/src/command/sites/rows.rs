//! The rows of places.

use super::waiting::Waits;
use crate::family_rows;
use crate::filter::CallFilter;
use crate::group::seconds;
use crate::sheet::{self, Head, Value};
use crate::sites::{PlaceSum, SiteFrame};
use crate::units::natural_order;
use crate::view::ProfileView;
use mpisee_profile::operation::is_nccl;
use std::collections::{BTreeMap, HashMap};

/// The place of calls whose site is not known.
pub const UNKNOWN: &str = "(not known)";

/// Columns that a table has only if something is in them.
pub const ONLY_IF_MEASURED: [&str; 3] = ["waiting_s", "transfer_s", "ranks"];

/// The column that tables of processes without MPI do not have.
pub const SHARE_OF_MPI: &str = "share_of_mpi";

/// How many communicators are named in a table.
const NAMED: usize = 2;

const HEADS: [Head; 12] = [
    sheet::long("at", "AT"),
    sheet::fixed("call", "CALL"),
    sheet::comms("comms", "COMM"),
    sheet::number("ranks", "Ranks").hidden_at(0),
    sheet::number("mean_s", "Mean/rank"),
    sheet::number(SHARE_OF_MPI, "% of MPI").of_whole().hidden_at(6),
    sheet::number("max_s", "Max/rank").hidden_at(4),
    sheet::number("waiting_s", "Waiting").hidden_at(5),
    sheet::number("transfer_s", "Transfer").hidden_at(2),
    sheet::number("calls", "Calls"),
    sheet::number("per_call_s", "Per call").hidden_at(3),
    sheet::number("longest_s", "Longest call").hidden_at(1),
];

/// The bytes, which a table has before the calls.
const VOLUME: Head = sheet::number("bytes", "Volume");
const VOLUME_IN_TABLE: usize = 9;

/// Columns that only programs read.
const FURTHER: [Head; 11] = [
    sheet::number("time_s", "Time sum"),
    sheet::number("max_rank", "Max rank"),
    VOLUME,
    sheet::fixed("function", "Function"),
    sheet::fixed("file", "File"),
    sheet::number("line", "Line"),
    sheet::fixed("inlined_into", "Inlined into"),
    sheet::fixed("binary", "Binary"),
    sheet::fixed("chosen", "Chosen"),
    sheet::fixed("wrapper", "Wrapper"),
    sheet::fixed("sites", "Sites"),
];

/// The columns of a table, or all. Without MPI bytes say more than times, which are the host's
/// alone.
pub fn heads(is_table: bool, is_of_mpi: bool) -> Vec<Head> {
    let further: &[Head] = if is_table { &[] } else { &FURTHER };
    let mut heads: Vec<Head> = HEADS.iter().chain(further).copied().collect();
    if is_table {
        heads.insert(VOLUME_IN_TABLE, VOLUME.hidden_at(if is_of_mpi { 1 } else { u8::MAX }));
    }
    heads
}

/// Titles of communicators: of like ones that of their family.
pub struct Families(HashMap<String, String>);

impl Families {
    /// The titles of the profile's communicators.
    pub fn from_view(view: &ProfileView) -> Self {
        let mut titles = HashMap::new();
        for family in family_rows::of_table(view, |_| true, true) {
            let title = match family.count() {
                1 => family.name.clone(),
                _ => format!("{} ({})", family.name, family.size_text()),
            };
            titles.extend(family.rows.iter().map(|row| (row.comm.clone(), title.clone())));
        }
        Families(titles)
    }

    /// The communicators with most time by their titles, and how many others there are.
    fn named(&self, comms: &BTreeMap<String, (u64, u128)>) -> String {
        let mut times: BTreeMap<&str, u128> = BTreeMap::new();
        for (comm, (_, time_ns)) in comms {
            *times.entry(self.0.get(comm).unwrap_or(comm)).or_default() += time_ns;
        }
        let mut titles: Vec<(&str, u128)> = times.into_iter().collect();
        titles.sort_by(|(one, least), (other, most)| most.cmp(least).then_with(|| natural_order(one, other)));
        let shown: Vec<&str> = titles.iter().take(NAMED).map(|&(title, _)| title).collect();
        match titles.len() - shown.len() {
            0 => shown.join(", "),
            more => format!("{}, {more} more", shown.join(", ")),
        }
    }
}

/// The row of a place.
pub fn row(
    sum: &PlaceSum,
    view: &ProfileView,
    filter: &CallFilter,
    families: &Families,
    waits: &Waits,
    is_table: bool,
) -> Vec<Value> {
    let cell = &sum.cell;
    let mpi_s = view.processes().chosen_mpi_s(&filter.comms);
    let of = view.processes().chosen(&filter.comms).max(cell.ranks.ranks().unwrap_or(0)).max(1) as f64;
    let waiting_s = waits.waiting_s(sum);
    let known = |time_s: Option<f64>| time_s.map_or(Value::Nothing, Value::Seconds);
    let whole = |value: Value| if sum.is_whole { value } else { Value::Nothing };
    let comms = match is_table {
        true => families.named(&sum.comms),
        false => {
            let mut names: Vec<&str> = sum.comms.keys().map(String::as_str).collect();
            names.sort_by(|one, other| natural_order(one, other));
            names.join(" ")
        }
    };
    let mut row = vec![
        Value::Text(super::text(sum)),
        sum.call.as_str().into(),
        Value::Text(comms),
        cell.ranks.ranks().map_or(Value::Nothing, Value::Count),
        Value::Seconds(cell.time_s() / of),
        // Calls of NCCL have no share of the time in MPI.
        if mpi_s > 0.0 && !is_nccl(&sum.call) { Value::Share(cell.time_s() / mpi_s) } else { Value::Nothing },
        known(cell.ranks.most_ns().map(seconds)),
        known(waiting_s.map(|waiting_s| waiting_s / of)),
        known(waiting_s.map(|waiting_s| (cell.time_s() - waiting_s).max(0.0) / of)),
        Value::Count(cell.calls),
        whole(Value::Seconds(cell.time_s() / cell.calls.max(1) as f64)),
        whole(Value::Seconds(seconds(cell.max_ns))),
    ];
    let volume = whole(Value::Bytes(cell.bytes));
    if is_table {
        row.insert(VOLUME_IN_TABLE, volume);
    } else {
        row.push(Value::Seconds(cell.time_s()));
        row.push(cell.ranks.most_rank().map_or(Value::Nothing, |rank| Value::Count(rank.into())));
        row.push(volume);
        row.extend(of_place(sum));
    }
    row
}

fn of_place(sum: &PlaceSum) -> Vec<Value> {
    let text = |text: &str| if text.is_empty() { Value::Nothing } else { Value::from(text) };
    let sites: Vec<String> = sum.sites.iter().map(ToString::to_string).collect();
    let (Some(place), Some(frame)) = (&sum.place, sum.place.as_ref().and_then(|place| place.frames.first()))
    else {
        return vec![Value::Nothing; 8];
    };
    let outer: Vec<String> = place.frames.iter().skip(1).map(SiteFrame::text).collect();
    vec![
        text(&frame.function),
        text(&frame.file),
        frame.line.map_or(Value::Nothing, |line| Value::Count(line.into())),
        text(&outer.join(crate::debug_info::BETWEEN)),
        text(&frame.module),
        place.how.name().into(),
        match &place.how {
            crate::sites::How::Outside(wrapper) => wrapper.as_str().into(),
            _ => Value::Nothing,
        },
        Value::Text(sites.join(" ")),
    ]
}

//! `comms`: the tree of communicators.

mod family;
mod tree;

use super::Outcome;
use crate::filter::CommFilter;
use crate::load;
use crate::matched;
use crate::output::{self, Column, Format, OutputArgs, Page, printable};
use crate::shape::{self, Shape};
use crate::view::ProfileView;
use anyhow::Result;
use clap::Args;
use family::Family;
use mpisee_profile::RankSet;
use mpisee_profile::comm_name::is_shared_row;
use mpisee_profile::rows::{CommRow, Members, Row};
use serde::Serialize;
use std::path::PathBuf;
use tree::{Line, Tree};

const EXAMPLES: &str = "\
EXAMPLES:
  mpisee-through comms app.mpisee                      the tree, at most ten children of each
  mpisee-through comms app.mpisee --unfold --all       every communicator
  mpisee-through comms app.mpisee --comm 'W_c1*'       some of them, with their ancestors
  mpisee-through comms app.mpisee --ranks 5            those that rank 5 is in
  mpisee-through comms app.mpisee --format csv         every row, for other programs";

/// The tree of communicators: who created what, who is in it.
///
/// In the table, communicators that one call made and that are alike are one line: 32 × 8, W_s2.*, every 8th rank.
/// The shape is what a communicator is of its parent: a row, column or plane of a grid of processes (taken in the order
/// of world ranks), the processes of a node, one per node, a duplicate.
///
/// S is MPI_COMM_SELF: its row and those of its descendants stand for one communicator of each listed
/// process. With a filter the table keeps the ancestors of what it shows; csv and json have no more than
/// what matches.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct CommsArgs {
    /// The NAME.mpisee directory that the run left
    profile: PathBuf,

    /// Show N children of each communicator (default: 10 in a table, all in csv and json)
    #[arg(long, value_name = "N", conflicts_with = "all")]
    top: Option<usize>,

    /// Show all children (default: see --top)
    #[arg(long)]
    all: bool,

    /// One line per communicator in the table (default: like ones are one line)
    #[arg(long)]
    unfold: bool,

    #[command(flatten)]
    filter: CommFilter,

    #[command(flatten)]
    output: OutputArgs,
}

/// Runs the command.
pub fn run(args: &CommsArgs) -> Result<Outcome> {
    let view = ProfileView::open(&args.profile)?;
    let rows: Vec<CommRow> = load::all(view.profile())?;
    let shapes = shape::shapes(&rows, view.processes());
    let matches: Vec<bool> = rows
        .iter()
        .map(|row| args.filter.takes_comm(&row.comm, Some(row)) && args.filter.takes_members(&row.members))
        .collect();
    matched::need_communicator(&rows, &args.filter, !matches.contains(&true))?;
    let tree = Tree::of_rows(&rows);
    let limit = args.output.limit(args.top, args.all);
    let text = match args.output.format() {
        Format::Table => {
            let kept = tree.with_ancestors(&matches);
            let places: Vec<usize> = (0..rows.len()).filter(|&place| kept[place]).collect();
            let families = if args.unfold {
                let parents = tree::parents(&rows);
                family::each(&rows, &parents, &places)
            } else {
                family::families(&rows, &shapes, &tree::parents(&rows), &places)
            };
            table(&Drawing { rows: &rows, shapes: &shapes, families: &families }, limit, args).into_bytes()
        }
        format => {
            let lines = tree.lines(&matches, limit);
            let shown = lines.iter().filter_map(|line| line.place);
            let shown = shown.map(|place| CommDocument::new(&rows[place], &shapes[place]));
            if format == Format::Csv {
                let columns: Vec<&str> = CommRow::columns().iter().copied().chain(["shape"]).collect();
                output::csv(&columns, shown.map(|comm| comm.csv()))?
            } else {
                output::json(&Document {
                    communicators_left_out: lines.iter().map(|line| line.left_out).sum(),
                    communicators: shown.collect(),
                })?
            }
        }
    };
    args.output.write(&text)?;
    Ok(Outcome::Done)
}

/// What a table is made of.
struct Drawing<'a> {
    rows: &'a [CommRow],
    shapes: &'a [Shape],
    families: &'a [Family],
}

fn table(drawing: &Drawing<'_>, limit: usize, args: &CommsArgs) -> String {
    let names = drawing.families.iter().map(|family| family.name.as_str()).collect();
    let parents = drawing.families.iter().map(|family| family.parent).collect();
    let lines = Tree::new(names, parents).lines(&vec![true; drawing.families.len()], limit);
    if lines.is_empty() {
        return "The profile has no communicators.\n".to_owned();
    }
    let mut text = drawn(drawing, &lines, args.output.page());
    if lines.iter().any(|line| line.left_out > 0) {
        text += "\nSome communicators are left out; --all shows all, --top N the first N children of each.\n";
    }
    if drawing.rows.iter().any(|row| row.comm.contains('@')) {
        text += "\nA name with @ is one row for like communicators of all ranks (how many × size).\n";
    }
    if drawing.rows.iter().any(|row| is_shared_row(&row.comm)) {
        text += "\nA name with + is one row for many like communicators (how many × size), which were not told apart.\n";
    }
    if drawing.families.iter().any(|family| family.places.len() > 1) {
        text += "\nLike communicators are one line (how many × size); --unfold shows each.\n";
    }
    text
}

type CellOf<'a> = fn(&Drawing<'a>, &Family) -> String;

fn drawn<'a>(drawing: &Drawing<'a>, lines: &[Line], page: Page) -> String {
    let tree_width = lines.iter().map(|line| line.text.chars().count()).max().unwrap_or(0);
    let all: [(&str, Column, CellOf<'a>); 9] = [
        ("CREATED BY", Column::Fixed(0), |all, family| all.first(family).created_by.clone()),
        ("SIZE", Column::Number(0), Drawing::size),
        ("PROCS", Column::Text, Drawing::processes),
        ("SHAPE", Column::Fixed(0), |all, family| all.shapes[family.places[0]].to_string()),
        ("NODES", Column::Number(0), Drawing::nodes),
        ("LABEL", Column::Text, Drawing::label),
        ("TOPOLOGY", Column::Text, |all, family| all.first(family).topology.clone()),
        ("REORDER", Column::Fixed(0), |all, family| {
            all.first(family).reorder.map_or(String::new(), yes_or_no)
        }),
        ("FREED", Column::Fixed(0), Drawing::freed),
    ];
    let shown_families = || lines.iter().filter_map(|line| line.place).map(|place| &drawing.families[place]);
    // A column in which no communicator has anything only takes the place of the others.
    let used = |cell: CellOf<'a>| shown_families().any(|family| !cell(drawing, family).is_empty());
    let shown: Vec<_> = all.into_iter().filter(|&(_, _, cell)| used(cell)).collect();
    let mut columns = vec![("COMM", Column::Fixed(tree_width))];
    columns.extend(shown.iter().map(|&(heading, kind, _)| (heading, kind)));
    let rows = lines.iter().map(|line| {
        let family = line.place.map(|place| &drawing.families[place]);
        let cells =
            shown.iter().map(|(_, _, cell)| family.map_or(String::new(), |family| cell(drawing, family)));
        std::iter::once(line.text.clone()).chain(cells).collect()
    });
    page.fitted_table(&columns, rows.collect(), &["TOPOLOGY", "REORDER", "LABEL", "FREED", "NODES", "SHAPE"])
}

impl Drawing<'_> {
    fn first(&self, family: &Family) -> &CommRow {
        &self.rows[family.places[0]]
    }

    fn each<'a>(&'a self, family: &'a Family) -> impl Iterator<Item = &'a CommRow> {
        family.places.iter().map(|&place| &self.rows[place])
    }

    fn size(&self, family: &Family) -> String {
        match self.number(family) {
            1 => self.first(family).size.to_string(),
            many => format!("{many} × {}", self.first(family).size),
        }
    }

    /// For how many communicators the line stands.
    fn number(&self, family: &Family) -> u64 {
        self.each(family).map(|row| row.count).fold(0, u64::saturating_add)
    }

    fn processes(&self, family: &Family) -> String {
        let first = self.first(family);
        match (family.places.len(), shape::stride(&first.members)) {
            (1, _) => load::members_text(first),
            (_, Some(1)) => "consecutive ranks".to_owned(),
            (_, Some(stride)) => format!("every {} rank", ordinal(stride)),
            _ => {
                let all: RankSet =
                    self.each(family).flat_map(|row| row.members.all().iter().collect::<Vec<_>>()).collect();
                format!("of {}", all.to_string().replace(',', ", "))
            }
        }
    }

    fn nodes(&self, family: &Family) -> String {
        let least = self.each(family).map(|row| row.nodes).min().unwrap_or(0);
        let most = self.each(family).map(|row| row.nodes).max().unwrap_or(0);
        if least == most { least.to_string() } else { format!("{least}-{most}") }
    }

    /// What the labels have in common.
    fn label(&self, family: &Family) -> String {
        let first = &self.first(family).label;
        let same =
            |other: &str| first.chars().zip(other.chars()).take_while(|(one, other)| one == other).count();
        let common = self.each(family).map(|row| same(&row.label)).min().unwrap_or(0);
        let is_whole = self.each(family).all(|row| row.label == *first);
        let text: String = first.chars().take(common).collect();
        if is_whole { printable(first) } else { format!("{}*", printable(&text)) }
    }

    fn freed(&self, family: &Family) -> String {
        let is_freed = |row: &&CommRow| row.freed != 0;
        let freed = self.each(family).filter(is_freed).map(|row| row.count).fold(0, u64::saturating_add);
        match self.number(family) {
            all if freed == all => "yes".to_owned(),
            1 => "no".to_owned(),
            _ if freed == 0 && family.places.len() == 1 => "not all".to_owned(),
            _ if freed == 0 => "no".to_owned(),
            all => format!("{freed} of {all}"),
        }
    }
}

/// `2nd`, `8th`.
fn ordinal(number: u32) -> String {
    let suffix = match (number % 10, number % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{number}{suffix}")
}

fn yes_or_no(flag: u8) -> String {
    if flag == 0 { "no" } else { "yes" }.to_owned()
}

#[derive(Serialize)]
struct Document<'a> {
    communicators: Vec<CommDocument<'a>>,
    communicators_left_out: usize,
}

#[derive(Serialize)]
struct CommDocument<'a> {
    comm: &'a str,
    parent: Option<&'a str>,
    created_by: Option<&'a str>,
    size: u32,
    count: u64,
    members: &'a Members,
    label: &'a str,
    topology: &'a str,
    reorder: Option<bool>,
    nodes: u32,
    freed: bool,
    between: Option<&'a str>,
    shape: Option<String>,
}

impl<'a> CommDocument<'a> {
    fn new(row: &'a CommRow, shape: &Shape) -> Self {
        let unless_empty = |text: &'a str| Some(text).filter(|text| !text.is_empty());
        CommDocument {
            comm: &row.comm,
            parent: unless_empty(&row.parent),
            created_by: unless_empty(&row.created_by),
            size: row.size,
            count: row.count,
            members: &row.members,
            label: &row.label,
            topology: &row.topology,
            reorder: row.reorder.map(|reorder| reorder != 0),
            nodes: row.nodes,
            freed: row.freed != 0,
            between: unless_empty(&row.between),
            shape: Some(shape.to_string()).filter(|text| !text.is_empty()),
        }
    }

    /// The same with the columns of the profile, where flags are 0 and 1.
    fn csv(&self) -> impl Serialize + use<'a> {
        let flags = (self.reorder.map(u8::from), self.nodes, u8::from(self.freed));
        let rest = (self.between, self.shape.clone());
        let counts = (self.size, self.count);
        (
            (self.comm, self.parent, self.created_by, counts, self.members, self.label, self.topology),
            flags,
            rest,
        )
    }
}

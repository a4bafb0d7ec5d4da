//! `comms`: the tree of communicators.

mod tree;

use super::Outcome;
use crate::family_rows::{self, EACH_HINT, Family};
use crate::filter::{CallFilter, CommFilter};
use crate::group::By;
use crate::load;
use crate::no_match;
use crate::output::{self, Column, Format, Hideable, OutputArgs, Page, printable};
use crate::shape::{self, Shape};
use crate::view::ProfileView;
use anyhow::Result;
use clap::Args;
use mpisee_profile::comm_name::is_shared_row;
use mpisee_profile::rows::{CommRow, Members, Row};
use mpisee_profile::run::Imported;
use serde::Serialize;
use std::path::PathBuf;
use tree::{Line, Tree};

const EXAMPLES: &str = "\
EXAMPLES:
  mpisee-through comms app.mpisee                   the tree, at most ten children of each
  mpisee-through comms app.mpisee --each --all      every communicator
  mpisee-through comms app.mpisee --comm 'W_c1*'    some communicators, with their ancestors
  mpisee-through comms app.mpisee --ranks 5         communicators of rank 5
  mpisee-through comms app.mpisee --format csv      every row, for scripts";

/// The tree of communicators: who created each, and who is in it
///
/// In the table, like communicators share a row: W_s2.*, 32 × 8. The shape is the part of the
/// parent: a row, column or plane of a process grid, a node, one process per node, a duplicate. The
/// shape is derived from the members in the order of world ranks.
///
/// S is MPI_COMM_SELF. Its row and the rows below it stand for one communicator of each listed
/// process. The table has S if the program used it, or with --all. With a filter, the table keeps
/// the ancestors of matching communicators; CSV and JSON do not. See
/// docs/explanation/communicators.md for names.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct CommsArgs {
    /// Profile of the run, a directory NAME.mpisee
    profile: PathBuf,

    /// Show N children of each communicator (default: 10 in a table, all in CSV and JSON)
    #[arg(long, value_name = "N", conflicts_with = "all")]
    top: Option<usize>,

    /// Show all children, and S even if it was not used (default: see --top)
    #[arg(long)]
    all: bool,

    /// Show a row for each communicator in the table (default: like ones share a row)
    #[arg(long, alias = "unfold")]
    each: bool,

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
    let matches: Vec<bool> = rows.iter().map(|row| view.processes().takes_row(&args.filter, row)).collect();
    no_match::need_communicator(&view, &rows, &args.filter, !matches.contains(&true))?;
    let tree = Tree::of_rows(&rows);
    let imported = view.run().imported.as_ref().map(Imported::sentence);
    let limit = args.output.limit(args.top, args.all);
    let text = match args.output.format() {
        Format::Table => {
            let is_chosen = args.all || args.filter.is_on();
            let hidden = if is_chosen { None } else { unused_self(&view, &rows)? };
            let chosen: Vec<bool> = matches
                .iter()
                .enumerate()
                .map(|(place, &is_match)| is_match && hidden != Some(place))
                .collect();
            let kept = tree.with_ancestors(&chosen);
            let all: Vec<&CommRow> = rows.iter().collect();
            let families = match args.each {
                true => family_rows::each(&all, &kept),
                false => family_rows::families(&all, &kept),
            };
            let drawing =
                Drawing { shapes: &shapes, families: &families, hides_self: hidden.is_some(), imported };
            table(&drawing, limit, args).into_bytes()
        }
        format => {
            let lines = tree.lines(&matches, limit);
            let shown = lines.iter().filter_map(|line| line.index);
            let shown = shown.map(|index| CommDocument::new(&rows[index], &shapes[index]));
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

/// The communicators of a table, before it is drawn.
struct Drawing<'a> {
    shapes: &'a [Shape],
    families: &'a [Family<'a>],
    /// True if `S` is left out.
    hides_self: bool,
    /// The origin of a profile that another tool recorded.
    imported: Option<String>,
}

/// The position of `S` if nothing happened on it: no call, and no communicator made of it. Every
/// profile has its row.
fn unused_self(view: &ProfileView, rows: &[CommRow]) -> Result<Option<usize>> {
    const SELF: &str = "S";
    let Some(place) = rows.iter().position(|row| row.comm == SELF) else { return Ok(None) };
    if rows.len() == 1 || rows.iter().any(|row| row.parent == SELF) {
        return Ok(None);
    }
    let by = By { comm: true, without_times: true, ..By::default() };
    let calls = view.group(&CallFilter::default(), by)?;
    let is_used = calls.cut_off.is_some() || calls.cells.iter().any(|(key, _)| calls.comm(key) == SELF);
    Ok((!is_used).then_some(place))
}

fn table(drawing: &Drawing<'_>, limit: usize, args: &CommsArgs) -> String {
    let names = drawing.families.iter().map(|family| family.name.as_str()).collect();
    let parents = drawing.families.iter().map(|family| family.parent).collect();
    let lines = Tree::new(names, parents).lines(&vec![true; drawing.families.len()], limit);
    if lines.is_empty() {
        return "The profile has no communicators.\n".to_owned();
    }
    let page = args.output.page();
    let mut text = drawn(drawing, &lines, page);
    let mut note = |sentence: &str| text += &page.wrapped_lines(&format!("\n{sentence}\n"));
    drawing.imported.iter().for_each(|sentence| note(sentence));
    if lines.iter().any(|line| line.left_out > 0) {
        note("Some communicators are left out; --all shows all, --top N the first N children of each.");
    }
    if drawing.hides_self {
        note("S (MPI_COMM_SELF) is left out: nothing happened on it; --all shows it.");
    }
    let rows = || drawing.families.iter().flat_map(|family| &family.rows);
    if rows().any(|row| row.comm.contains('@')) {
        note("A name with @ is one row for like communicators of all ranks (how many × size).");
    }
    if rows().any(|row| is_shared_row(&row.comm)) {
        note(
            "A name with + is one row for many like communicators (how many × size), which are not distinguished.",
        );
    }
    if !drawing.families.iter().all(Family::is_single) {
        note(EACH_HINT.trim_end());
    }
    text
}

type CellOf<'a> = fn(&Drawing<'a>, &Family<'a>) -> String;

fn drawn<'a>(drawing: &Drawing<'a>, lines: &[Line], page: Page) -> String {
    let all: [(&str, Column, CellOf<'a>); 9] = [
        ("CREATED BY", Column::Fixed(0), |_, family| common(family, |row| row.created_by.clone())),
        ("SIZE", Column::Number(0), |_, family| family.size_text()),
        ("PROCS", Column::Text, |_, family| family.processes()),
        ("SHAPE", Column::Fixed(0), Drawing::shape),
        ("NODES", Column::Number(0), |_, family| family.nodes()),
        ("LABEL", Column::Text, |_, family| printable(&family.label())),
        ("TOPOLOGY", Column::Text, |_, family| common(family, |row| row.topology.clone())),
        ("REORDER", Column::Fixed(0), |_, family| {
            common(family, |row| row.reorder.map_or(String::new(), yes_or_no))
        }),
        ("FREED", Column::Fixed(0), |drawing, family| {
            // Another tool does not tell.
            if drawing.imported.is_some() { String::new() } else { freed(family) }
        }),
    ];
    let shown_families = || lines.iter().filter_map(|line| line.index).map(|index| &drawing.families[index]);
    // A column in which no communicator has anything only takes the place of the others.
    let used = |cell: CellOf<'a>| shown_families().any(|family| !cell(drawing, family).is_empty());
    let shown: Vec<_> = all.into_iter().filter(|&(_, _, cell)| used(cell)).collect();
    let mut columns = vec![("COMM", Column::Fixed(0))];
    columns.extend(shown.iter().map(|&(heading, kind, _)| (heading, kind)));
    let rows = lines.iter().map(|line| {
        let family = line.index.map(|index| &drawing.families[index]);
        let cells =
            shown.iter().map(|(_, _, cell)| family.map_or(String::new(), |family| cell(drawing, family)));
        std::iter::once(line.text.clone()).chain(cells).collect()
    });
    let optional = ["REORDER", "TOPOLOGY", "FREED", "NODES", "LABEL", "SHAPE", "CREATED BY"];
    page.fitted_table(&columns, rows.collect::<Vec<Vec<String>>>(), &Hideable::each(&optional, &columns))
}

impl Drawing<'_> {
    fn shape(&self, family: &Family<'_>) -> String {
        let first = &self.shapes[family.indices[0]];
        let is_common = family.indices.iter().all(|&index| self.shapes[index] == *first);
        if is_common { first.to_string() } else { String::new() }
    }
}

/// A text that all of the family have, or nothing.
fn common(family: &Family<'_>, of: fn(&CommRow) -> String) -> String {
    let first = of(family.rows[0]);
    if family.rows.iter().all(|row| of(row) == first) { first } else { String::new() }
}

fn freed(family: &Family<'_>) -> String {
    let freed =
        family.rows.iter().filter(|row| row.freed != 0).map(|row| row.count).fold(0, u64::saturating_add);
    match family.count() {
        all if freed == all => "yes".to_owned(),
        1 => "no".to_owned(),
        _ if freed == 0 && family.is_single() => "not all".to_owned(),
        _ if freed == 0 => "no".to_owned(),
        all => format!("{freed} of {all}"),
    }
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

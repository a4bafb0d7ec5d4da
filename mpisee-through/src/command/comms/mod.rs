//! `comms`: the tree of communicators.

mod tree;

use super::Outcome;
use crate::filter::CommFilter;
use crate::load;
use crate::output::{self, Column, Format, OutputArgs, Page, printable};
use anyhow::Result;
use clap::Args;
use mpisee_profile::rows::{CommRow, Members, Row};
use serde::Serialize;
use std::path::PathBuf;
use tree::{Line, Tree};

const EXAMPLES: &str = "\
EXAMPLES:
  mpisee-through comms app.mpisee                      the tree, at most ten children of each
  mpisee-through comms app.mpisee --all                every communicator
  mpisee-through comms app.mpisee --comm 'W_c1*'       some of them, with their ancestors
  mpisee-through comms app.mpisee --ranks 5            those that rank 5 is in
  mpisee-through comms app.mpisee --output csv         every row, for other programs";

/// The tree of communicators: who created what, who is in it.
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

    #[command(flatten)]
    filter: CommFilter,

    #[command(flatten)]
    output: OutputArgs,
}

/// Runs the command.
pub fn run(args: &CommsArgs) -> Result<Outcome> {
    let profile = load::open(&args.profile)?;
    let rows: Vec<CommRow> = load::all(&profile)?;
    let matches: Vec<bool> = rows
        .iter()
        .map(|row| args.filter.takes_comm(&row.comm, Some(row)) && args.filter.takes_members(&row.members))
        .collect();
    let tree = Tree::new(&rows);
    let limit = args.output.limit(args.top, args.all);
    let text = match args.output.format() {
        Format::Table => table(&tree.lines(&tree.with_ancestors(&matches), limit), args).into_bytes(),
        format => {
            let lines = tree.lines(&matches, limit);
            let rows = lines.iter().filter_map(|line| line.row);
            if format == Format::Csv {
                output::csv(CommRow::COLUMNS, rows)?
            } else {
                output::json(&Document {
                    communicators_left_out: lines.iter().map(|line| line.left_out).sum(),
                    communicators: rows.map(CommDocument::from).collect(),
                })?
            }
        }
    };
    args.output.write(&text)?;
    Ok(Outcome::Done)
}

fn table(lines: &[Line], args: &CommsArgs) -> String {
    if lines.is_empty() {
        return match args.filter.is_on() {
            true => "No communicator matches the filters.\n".to_owned(),
            false => "The profile has no communicators.\n".to_owned(),
        };
    }
    let mut text = drawn(lines, args.output.page());
    let left_out: usize = lines.iter().map(|line| line.left_out).sum();
    if left_out > 0 {
        text += "\nSome communicators are left out; --all shows all, --top N the first N children of each.\n";
    }
    text
}

type CellOf = fn(&CommRow) -> String;

fn drawn(lines: &[Line], page: Page) -> String {
    let tree_width = lines.iter().map(|line| line.text.chars().count()).max().unwrap_or(0);
    let all: [(&str, Column, CellOf); 8] = [
        ("CREATED BY", Column::Fixed(0), |row| row.created_by.clone()),
        ("SIZE", Column::Number(0), |row| row.size.to_string()),
        ("PROCS", Column::Text, load::members_text),
        ("NODES", Column::Number(0), |row| row.nodes.to_string()),
        ("LABEL", Column::Text, |row| printable(&row.label)),
        ("TOPOLOGY", Column::Text, |row| row.topology.clone()),
        ("REORDER", Column::Fixed(0), |row| row.reorder.map_or(String::new(), yes_or_no)),
        ("FREED", Column::Fixed(0), |row| yes_or_no(row.freed)),
    ];
    // A column in which no communicator has anything only takes the place of the others.
    let used = |cell: CellOf| lines.iter().filter_map(|line| line.row).any(|row| !cell(row).is_empty());
    let shown: Vec<_> = all.into_iter().filter(|&(_, _, cell)| used(cell)).collect();
    let mut columns = vec![("COMM", Column::Fixed(tree_width))];
    columns.extend(shown.iter().map(|&(heading, kind, _)| (heading, kind)));
    let rows = lines.iter().map(|line| {
        let cells = shown.iter().map(|(_, _, cell)| line.row.map_or(String::new(), cell));
        std::iter::once(line.text.clone()).chain(cells).collect()
    });
    page.table(&columns, rows)
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
    members: &'a Members,
    label: &'a str,
    topology: &'a str,
    reorder: Option<bool>,
    nodes: u32,
    freed: bool,
}

impl<'a> From<&'a CommRow> for CommDocument<'a> {
    fn from(row: &'a CommRow) -> Self {
        let unless_empty = |text: &'a str| Some(text).filter(|text| !text.is_empty());
        CommDocument {
            comm: &row.comm,
            parent: unless_empty(&row.parent),
            created_by: unless_empty(&row.created_by),
            size: row.size,
            members: &row.members,
            label: &row.label,
            topology: &row.topology,
            reorder: row.reorder.map(|reorder| reorder != 0),
            nodes: row.nodes,
            freed: row.freed != 0,
        }
    }
}

//! `gpu --by address`: positions of accesses within an object, from the records of all accesses.

mod cells;

pub use cells::Fold;

use super::bars::what;
use super::label::or_unknown;
use super::{GpuArgs, Of, sums};
use crate::debug_info::{SearchDirs, Symbols};
use crate::gpu_record_files;
use crate::output::{Format, printable};
use crate::picture::{Axis, Field, Panel, Picture, drawn};
use crate::shades::{SHADES, shade};
use crate::sheet::{self, Answer, Head, Sheet, Value};
use crate::units::{accesses, count, human_bytes};
use crate::view::ProfileView;
use anyhow::{Result, bail};
use cells::{Cell, Cells, Grid, Object, ObjectKey, OfRank};
use mpisee_profile::Profile;
use mpisee_profile::rows::RankRow;
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// Fields in a row in tables without a terminal, in CSV and JSON, and in pictures.
const FIELDS: (u64, u64, u64) = (64, 256, 512);
/// Rows of a folded object in a table.
const TABLE_ROWS: u64 = 32;
/// Objects in a picture, one below the other.
const MOST_BARS: usize = 16;
/// Of how many fields SVG tells the numbers; it would be too large.
const MOST_TITLES: usize = 1 << 14;
/// The height of an object's bar.
const BAR: f64 = 24.0;
/// About how wide and how high a folded object is.
const FOLDED: (f64, f64) = (880.0, 720.0);

/// Objects with what was read of them, those with most first.
struct Found {
    objects: Vec<(ObjectKey, Object)>,
    instructions: Vec<(String, String)>,
    caveats: Vec<String>,
}

/// The table, and the lists for CSV and JSON.
pub fn answer(view: &ProfileView, ranks: &[RankRow], args: &GpuArgs) -> Result<Answer> {
    let page = args.output.page();
    let is_table = args.output.format() == Format::Table;
    let most = match page.width {
        Some(width) if is_table => u64::from(width).saturating_sub(4).clamp(16, 256),
        _ if is_table => FIELDS.0,
        _ => FIELDS.1,
    };
    // CSV has all fields that were asked for.
    let rows = if is_table { TABLE_ROWS } else { u64::MAX };
    let columns = if is_table || args.fold.is_none() { most } else { u64::MAX };
    let found = read(view.profile(), ranks, args, (columns, rows))?;
    let all = found.objects.iter().map(|(_, object)| object.all.amount(args.of)).fold(0, u64::saturating_add);
    let mut cells: Vec<_> = found
        .objects
        .iter()
        .flat_map(|(key, object)| object.cells.iter().map(move |(field, cell)| (key, object, *field, cell)))
        .collect();
    if is_table {
        cells.sort_by_key(|(.., cell)| Reverse(cell.sum.amount(args.of)));
    }
    let row = |(key, object, field, cell): &(&ObjectKey, &Object, (u64, u64), &Cell)| {
        row(args, key, object, *field, cell, &found.instructions, all)
    };
    let mut rows: Vec<Vec<Value>> = cells.iter().map(row).collect();
    let closing = args.shown.cut(&args.output, &mut rows, "The records have no access.");
    let mut answer = Answer::new(view.profile(), Sheet { name: "addresses", heads: heads(args), rows }, None);
    answer.caveats.extend(found.caveats);
    answer.closing = closing;
    if is_table {
        let most = args.shown.limit(&args.output);
        let shown = found.objects.iter().take(if args.fold.is_some() { 1 } else { most });
        answer.lead = shown.map(|(key, object)| shaded(args, key, object)).collect::<Vec<_>>().join("\n");
    }
    Ok(answer)
}

/// Bars of objects, or one object folded.
pub fn picture(view: &ProfileView, ranks: &[RankRow], args: &GpuArgs) -> Result<Picture> {
    let found = read(view.profile(), ranks, args, (FIELDS.2, FIELDS.2))?;
    let unit = if args.of == Of::Bytes { "bytes" } else { "accesses" };
    let most = if args.fold.is_some() { 1 } else { MOST_BARS };
    let shown = &found.objects[..found.objects.len().min(most)];
    let has_titles = shown.iter().map(|(_, object)| object.cells.len()).sum::<usize>() <= MOST_TITLES;
    let panel =
        |(key, object): &(ObjectKey, Object)| panel(args, key, object, &found.instructions, has_titles);
    let panels: Vec<Panel> = shown.iter().map(panel).collect();
    let title = format!("{}: {}, by where they are in an object", view.program(), what(args.of));
    Ok(drawn(&title, &panels, unit))
}

fn read(profile: &Profile, ranks: &[RankRow], args: &GpuArgs, most: (u64, u64)) -> Result<Found> {
    let Some(folder) = &args.records else {
        bail!("--by address needs --records DIR, the folder that `mpisee --gpu-records DIR` filled");
    };
    let symbols = Symbols::from_profile(profile, SearchDirs(args.source.clone()))?;
    let mut cells = Cells::new(Grid { fold: args.fold, most }, &args.choice);
    let mut caveats = Vec::new();
    let files = gpu_record_files::of_run(folder, ranks)?;
    if files.len() < ranks.len() {
        caveats.push(format!("Of {} ranks {} have records.", ranks.len(), files.len()));
    }
    for file in files {
        let mut of_rank = OfRank::new(file.rank);
        let take = |item| {
            cells.take(&mut of_rank, item);
            Ok(())
        };
        if !gpu_record_files::read(&file.path, take)? {
            caveats.push(format!("The records of rank {} break off.", file.rank));
        }
        if of_rank.dropped() > 0 {
            caveats.push(format!(
                "Of rank {} {} are missing.",
                file.rank,
                count(of_rank.dropped(), "record")
            ));
        }
    }
    let named = cells.named(symbols);
    caveats.extend(named.problems);
    let mut objects: Vec<_> = named.objects.into_iter().collect();
    if objects.is_empty() {
        let folder = folder.display();
        bail!("'{folder}' has no access that matches; mpisee-through gpu-records {folder} prints all");
    }
    objects.sort_by_key(|(_, object)| Reverse(object.all.amount(args.of)));
    if let (Some(fold), Some((_, object))) = (args.fold, objects.first().filter(|(_, it)| it.beyond > 0)) {
        caveats.push(format!(
            "Accesses beyond {} x {} elements of {} bytes are left out: {}.",
            fold.rows, fold.columns, object.division.element_bytes, object.beyond
        ));
    }
    if args.fold.is_some() && objects.len() > 1 {
        caveats.push(format!("The object with most is drawn, of {}; --object chooses.", objects.len()));
    }
    Ok(Found { objects, instructions: named.instructions, caveats })
}

fn heads(args: &GpuArgs) -> Vec<Head> {
    let mut heads = vec![sheet::fixed("object", "OBJECT"), sheet::number("object_bytes", "LENGTH")];
    if args.fold.is_some() {
        heads.extend([sheet::number("row", "ROW"), sheet::number("column", "COLUMN")]);
    }
    heads.extend([sheet::number("begin", "BEGIN"), sheet::number("end", "END")]);
    heads.extend(sums::heads(args.of.heading(), false));
    heads.extend([sheet::fixed("devices", "DEVICES").or_none(), sheet::fixed("lines", "LINES").or_none()]);
    heads
}

fn row(
    args: &GpuArgs,
    (name, bytes): &ObjectKey,
    object: &Object,
    field: (u64, u64),
    cell: &Cell,
    instructions: &[(String, String)],
    all: u64,
) -> Vec<Value> {
    let mut row = vec![Value::Text(or_unknown(name)), Value::Bytes(*bytes)];
    if args.fold.is_some() {
        row.extend([Value::Count(field.0), Value::Count(field.1)]);
    }
    let (begin, end) = object.division.offsets(field);
    row.extend([Value::Count(begin), Value::Count(end.min(*bytes))]);
    row.extend(cell.sum.cells(args.of, all, false));
    let (devices, lines) = places(cell, instructions);
    row.extend([Value::Text(devices), Value::Text(lines)]);
    row
}

/// The devices that access a field, and the lines in which they do.
fn places(cell: &Cell, instructions: &[(String, String)]) -> (String, String) {
    let places = || cell.instructions.iter().filter_map(|&number| instructions.get(number as usize));
    let devices: BTreeSet<&str> = places().map(|(device, _)| device.as_str()).collect();
    let lines: BTreeSet<&str> = places().map(|(_, line)| line.as_str()).collect();
    let list = |set: BTreeSet<&str>| set.into_iter().collect::<Vec<_>>().join(" ");
    (list(devices), list(lines))
}

/// The line above an object's picture.
fn heading(args: &GpuArgs, (name, bytes): &ObjectKey, object: &Object) -> String {
    let amount = match args.of {
        Of::Bytes => count(object.all.amount(args.of), "byte"),
        Of::Accesses => accesses(object.all.accesses),
    };
    let several = match object.count() {
        1 => String::new(),
        times => format!(", {times} times"),
    };
    format!("{}, {}{several}: {amount}", printable(&or_unknown(name)), human_bytes(*bytes))
}

/// An object as shades.
fn shaded(args: &GpuArgs, key: &ObjectKey, object: &Object) -> String {
    let most = object.cells.values().map(|cell| cell.sum.amount(args.of)).max().unwrap_or(0);
    let mut text = format!("{}\n", heading(args, key, object));
    for row in 0..object.division.rows {
        let letter = |column| {
            let cell = object.cells.get(&(row, column));
            SHADES[shade(cell.map_or(0, |cell| cell.sum.amount(args.of)), most)]
        };
        let letters: String = (0..object.division.columns).map(letter).collect();
        text += &format!("▕{letters}▏\n");
    }
    let unit = if args.of == Of::Bytes { "bytes" } else { "accesses" };
    text + &format!("░ to █: up to 25, 50, 75, 100 % of {most} {unit}.\n")
}

fn panel(
    args: &GpuArgs,
    key: &ObjectKey,
    object: &Object,
    instructions: &[(String, String)],
    has_titles: bool,
) -> Panel {
    let division = object.division;
    let field = |(&(row, column), cell): (&(u64, u64), &Cell)| {
        let title = match has_titles {
            true => field_title(object, (row, column), cell, instructions),
            false => String::new(),
        };
        Field { row: row as u32, column: column as u32, amount: cell.sum.amount(args.of), title }
    };
    let names = |number: u64| (0..number).map(|it| it.to_string()).collect();
    let (down, across, height) = match args.fold {
        None => {
            let begin = |column| human_bytes(division.offsets((0, column)).0);
            let across = Axis { caption: String::new(), names: (0..division.columns).map(begin).collect() };
            (Axis { caption: String::new(), names: vec![String::new()] }, across, BAR)
        }
        Some(fold) => {
            let axis = |what: &str, all: u64, number: u64| Axis {
                caption: if all == number {
                    what.to_owned()
                } else {
                    format!("{what}s, by {}", all.div_ceil(number))
                },
                names: names(number),
            };
            let side = (FOLDED.0 / division.columns as f64).min(FOLDED.1 / division.rows as f64);
            (axis("row", fold.rows, division.rows), axis("column", fold.columns, division.columns), side)
        }
    };
    Panel {
        title: heading(args, key, object),
        down,
        across,
        fields: object.cells.iter().map(field).collect(),
        row_height: Some(height),
    }
}

/// A field in words.
fn field_title(object: &Object, field: (u64, u64), cell: &Cell, instructions: &[(String, String)]) -> String {
    let (begin, end) = object.division.offsets(field);
    let [loaded, stored, atomic] = cell.sum.bytes;
    let (devices, lines) = places(cell, instructions);
    format!(
        "bytes {begin} to {end}: {}, {loaded} bytes loaded, {stored} stored, {atomic} by atomics; {devices}; {lines}",
        accesses(cell.sum.accesses)
    )
}

//! `order`: the calls of the program in their order, as an outline.

use super::Outcome;
use crate::order::{self, Call, Line, Outline, Sizes};
use crate::output::{Format, OutputArgs, Page};
use crate::sheet::{self, Answer, Sheet, Value};
use crate::sites::{SiteArgs, Sites};
use crate::units::{count, short_bytes, time};
use crate::view::ProfileView;
use anyhow::Result;
use clap::Args;
use mpisee_profile::RankSet;
use mpisee_profile::WorldRank;
use std::collections::BTreeSet;
use std::path::PathBuf;

const EXAMPLES: &str = "\
EXAMPLES:
  mpirun -n 4 mpisee --order ./app
  mpisee-through order app.mpisee                  the loops of the program, and their calls
  mpisee-through order app.mpisee --rank 3         of one rank
  mpisee-through order app.mpisee --all            every line of every structure
  mpisee-through order app.mpisee --format csv     for scripts";

/// The program as an outline: its calls in order, in loops with counts
///
/// The profile needs the order of calls, which `mpisee --order` keeps. Ranks whose calls come in
/// the same order are shown together. So are the calls of a place, whatever their sizes and peers
/// are. Peers are the ranks to which a call sends: +1 is the next rank, =0 is rank 0. A call that
/// contributes nothing, as a receive, has the size of its class. TIME is the time in all calls of
/// the line. BEFORE is the time between each and the call before. Both are of one thread, in the
/// mean over the ranks. Times are kept by call and the call before: where a pair of these is on
/// several lines, each has its share by the number of calls. Polls that find nothing, as an
/// MPI_Test before its request is complete, are left out.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct OrderArgs {
    /// Profile of the run, a directory NAME.mpisee
    profile: PathBuf,

    /// Only this rank
    #[arg(long, value_name = "RANK")]
    rank: Option<u32>,

    /// Show the N lines of each structure with most time (default: 40 in a table, all in CSV and
    /// JSON)
    #[arg(long, value_name = "N", conflicts_with = "all")]
    top: Option<usize>,

    /// Show all lines (default: see --top)
    #[arg(long)]
    all: bool,

    #[command(flatten)]
    sites: SiteArgs,

    #[command(flatten)]
    output: OutputArgs,
}

const HEADS: [sheet::Head; 15] = [
    sheet::fixed("ranks", "RANKS"),
    sheet::number("thread", "THREAD"),
    sheet::number("line", "LINE"),
    sheet::number("depth", "DEPTH"),
    sheet::number("times", "TIMES"),
    sheet::number("total", "TOTAL"),
    sheet::fixed("outline", "OUTLINE"),
    sheet::fixed("call", "CALL"),
    sheet::comms("comm", "COMM"),
    sheet::number("size_min", "MIN"),
    sheet::number("size_max", "MAX"),
    sheet::fixed("root", "ROOT"),
    sheet::fixed("peers", "PEERS"),
    sheet::number("time_s", "Time"),
    sheet::number("between_s", "Between"),
];
const PLACE: sheet::Head = sheet::long("place", "PLACE");
/// Lines of a structure in a table, unless more are asked for.
const LINES: usize = 40;
/// Peers of a line in a table.
const PEERS: usize = 3;

/// Runs the command.
pub fn run(args: &OrderArgs) -> Result<Outcome> {
    answer(args, &ProfileView::open(&args.profile)?)?.write(&args.output)
}

/// The structures of the program: text for a table, else a sheet of their lines.
pub fn answer(args: &OrderArgs, view: &ProfileView) -> Result<Answer> {
    let outlines = order::outlines(view, args.rank)?;
    let mut sites = Sites::from_view(view, &args.sites, &[])?;
    let mut place = |call: &Call| {
        let place = call.site.zip(sites.as_mut()).map(|(site, sites)| sites.place(site).short_text());
        place.unwrap_or_default()
    };
    let is_table = args.output.format() == Format::Table;
    let most = match (args.all, args.top) {
        (true, _) => usize::MAX,
        (_, Some(lines)) => lines,
        _ if is_table => LINES,
        _ => usize::MAX,
    };
    let heads = HEADS.into_iter().chain([PLACE]).collect();
    let mut answer = Answer::new(view.profile(), Sheet { name: "order", heads, rows: Vec::new() }, None);
    if is_table {
        answer.sheets.clear();
        let page = args.output.page();
        let texts: Vec<String> = outlines.iter().map(|it| text(it, most, page, &mut place)).collect();
        answer.lead = texts.join("\n");
        return Ok(answer);
    }
    for outline in &outlines {
        for number in heaviest(outline, most) {
            let line = &outline.lines[number];
            let place = outline.call(line).map_or_else(String::new, &mut place);
            answer.sheets[0].rows.extend(rows(outline, number, line, &place));
        }
    }
    Ok(answer)
}

fn ranks_of(ranks: &BTreeSet<u32>) -> RankSet {
    ranks.iter().map(|&rank| WorldRank::new(rank)).collect()
}

/// The rows of a line, one per thread number.
fn rows(outline: &Outline, number: usize, line: &Line, place: &str) -> Vec<Vec<Value>> {
    let joined = |texts: &BTreeSet<String>| Vec::from_iter(texts.iter().cloned()).join(" ");
    let row = |(thread, ranks): (&u32, &BTreeSet<u32>)| {
        let call = outline.call(line);
        let size =
            |size: fn(Sizes) -> u64| call.map_or(Value::Nothing, |call| Value::Count(size(call.sizes)));
        vec![
            Value::Text(ranks_of(ranks).to_string()),
            Value::Count(u64::from(*thread)),
            Value::Count(number as u64 + 1),
            Value::Count(line.depth as u64),
            Value::Count(line.times),
            Value::Count(line.total),
            Value::Text(head(line, call)),
            call.map_or("loop", |call| if call.name.is_empty() { "recording on" } else { &call.name }).into(),
            Value::Text(call.map(|call| joined(&call.comms)).unwrap_or_default()),
            size(|sizes| sizes.min),
            size(|sizes| sizes.max),
            Value::Text(call.map(|call| joined(&call.roots)).unwrap_or_default()),
            Value::Text(call.map(|call| joined(&call.peers)).unwrap_or_default()),
            Value::Seconds(line.time_s),
            Value::Seconds(line.between_s),
            place.into(),
        ]
    };
    outline.threads.iter().map(row).collect()
}

/// A structure as text: its threads, then a line per call and loop.
fn text(outline: &Outline, most: usize, page: Page, place: &mut impl FnMut(&Call) -> String) -> String {
    let threads: Vec<String> = outline
        .threads
        .iter()
        .map(|(thread, ranks)| {
            let named = ranks_of(ranks).named();
            if *thread == 0 { named } else { format!("{named} (thread {thread})") }
        })
        .collect();
    let each = if outline.threads.values().map(BTreeSet::len).sum::<usize>() > 1 { " each" } else { "" };
    let first = if outline.lost > 0 { "the first " } else { "" };
    let calls = count(outline.length, "call");
    let mut text = format!("{}: {first}{calls}{each}\n", page.bold(&threads.join(", ")));
    let rows = shown_rows(outline, most, place);
    let width = rows.iter().map(|row| row.head.chars().count()).max().unwrap_or(0);
    text += &format!("  {:width$}  {:>8}  {:>8}  PLACE\n", "CALLS", "TIME", "BEFORE");
    for ShownRow { head, time_s, between_s, place } in rows {
        let pad = " ".repeat(width - head.chars().count());
        let row = format!("  {head}{pad}  {:>8}  {:>8}  {place}", time(time_s), time(between_s));
        text += row.trim_end();
        text.push('\n');
    }
    if outline.lines.len() > most {
        text += "  … are lines with less time; --all shows them\n";
    }
    if outline.is_cut {
        text += "  … and more, beyond the limit of an outline\n";
    }
    if outline.lost > 0 {
        text += &format!("  … and {} that the recorder could not note\n", count(outline.lost, "step"));
    }
    text
}

/// The numbers of the lines with most time, in their order. A loop has the time of its lines, so it
/// is there if one of them is.
fn heaviest(outline: &Outline, most: usize) -> Vec<usize> {
    let all_s = |number: &usize| outline.lines[*number].time_s + outline.lines[*number].between_s;
    let mut numbers: Vec<usize> = (0..outline.lines.len()).collect();
    numbers.sort_by(|one, other| all_s(other).total_cmp(&all_s(one)));
    numbers.truncate(most);
    numbers.sort_unstable();
    numbers
}

/// A row of an outline as text.
struct ShownRow {
    head: String,
    time_s: f64,
    between_s: f64,
    place: String,
}

/// The heaviest lines, and a row for those between two of them.
fn shown_rows(outline: &Outline, most: usize, place: &mut impl FnMut(&Call) -> String) -> Vec<ShownRow> {
    let shown = heaviest(outline, most);
    let mut rows = Vec::new();
    let mut from = 0;
    for &number in shown.iter().chain([&outline.lines.len()]) {
        rows.extend(left_out(&outline.lines[from..number]));
        from = number + 1;
        let Some(line) = outline.lines.get(number) else { break };
        let call = outline.call(line);
        let head = "  ".repeat(line.depth) + &head(line, call);
        let place = call.map_or_else(String::new, &mut *place);
        rows.push(ShownRow { head, time_s: line.time_s, between_s: line.between_s, place });
    }
    rows
}

/// A row for each group of lines that are left out: a group ends with the loop that it is in.
fn left_out(lines: &[Line]) -> Vec<ShownRow> {
    let mut rows = Vec::new();
    let mut from = 0;
    while let Some(first) = lines.get(from) {
        let rest = &lines[from..];
        let length = rest.iter().position(|line| line.depth < first.depth).unwrap_or(rest.len());
        let group = &rest[..length];
        let calls = || group.iter().filter(|line| line.call.is_some());
        let number = calls().map(|line| line.total).fold(0, u64::saturating_add);
        rows.push(ShownRow {
            head: "  ".repeat(first.depth) + "… " + &count(number, "call"),
            time_s: calls().map(|line| line.time_s).sum(),
            between_s: calls().map(|line| line.between_s).sum(),
            place: String::new(),
        });
        from += length;
    }
    rows
}

/// `4 × Isend 8 KiB to +1 on W`, or `100 ×` of a loop.
fn head(line: &Line, call: Option<&Call>) -> String {
    let times = if line.times > 1 { format!("{} × ", line.times) } else { String::new() };
    let Some(call) = call else { return times.trim_end().to_owned() };
    if call.name.is_empty() {
        return "recording was off".to_owned();
    }
    let size = match call.sizes {
        Sizes { max: 0, .. } => String::new(),
        Sizes { min, max } if min == max => format!(" {}", short_bytes(u128::from(min))),
        Sizes { min, max } => {
            format!(" {}-{}", short_bytes(u128::from(min)), short_bytes(u128::from(max)))
        }
    };
    let peers = some_of(" to ", &call.peers) + &some_of(" root ", &call.roots);
    let comm = match call.comms.first() {
        Some(comm) if call.comms.len() == 1 => format!(" on {comm}"),
        Some(comm) => format!(" on {comm} and {}", count(call.comms.len() as u64 - 1, "other")),
        None => String::new(),
    };
    format!("{times}{}{size}{peers}{comm}", call.name.trim_start_matches("MPI_"))
}

/// The first of some processes, after a word.
fn some_of(word: &str, processes: &BTreeSet<String>) -> String {
    let first = Vec::from_iter(processes.iter().take(PEERS).map(String::as_str)).join(" ");
    match processes.len() {
        0 => String::new(),
        many if many > PEERS => format!("{word}{first} and {} more", many - PEERS),
        _ => format!("{word}{first}"),
    }
}

//! `gpu --by copy` and `--by staging`: what the host asked GPUs to copy, set and launch, and which
//! of it was for messages.

use super::cells::{COUNTED, text};
use super::{GpuArgs, Of};
use crate::sheet::{self, Answer, Head, Sheet, Value};
use crate::units::{human_bytes, time};
use crate::view::ProfileView;
use anyhow::{Result, bail};
use mpisee_profile::rows::{CopyMode, CopyRow, Memory, MessageEnd, StagedRow};
use mpisee_profile::{Profile, ProfileError};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// The message where nothing was copied.
const NOTHING: &str = "The profile has no copies between host and GPUs; `mpisee --gpu-copies` counts them.";
const NONE_STAGED: &str = "No copy was for a message of MPI.";
const NOTHING_STAGED: &str = "The profile has no copies for messages; `mpisee --gpu-copies` looks for them.";
/// Communicators that have a sentence below a table.
const MOST_SENTENCES: usize = 3;

/// Calls or matches, bytes and time.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    count: u64,
    bytes: u64,
    time_s: f64,
}

impl Sum {
    fn add(&mut self, count: u64, bytes: u64, time_s: f64) {
        self.count = self.count.saturating_add(count);
        self.bytes = self.bytes.saturating_add(bytes);
        self.time_s += time_s;
    }

    fn cells(&self) -> [Value; 3] {
        [Value::Count(self.count), Value::Bytes(self.bytes), Value::Seconds(self.time_s)]
    }

    /// Sorts largest first, by what shares are of.
    fn order(&self, of: Of) -> (Reverse<u64>, Reverse<u64>) {
        match of {
            Of::Bytes => (Reverse(self.bytes), Reverse(self.count)),
            Of::Accesses => (Reverse(self.count), Reverse(self.bytes)),
        }
    }
}

/// Sums by the text of the columns before them.
type Sums = BTreeMap<Vec<String>, Sum>;

/// The rows of a profile that are chosen.
pub struct Rows {
    pub copies: Vec<CopyRow>,
    pub staged: Vec<StagedRow>,
}

impl Rows {
    /// The rows that the filters take.
    pub fn from_profile(profile: &Profile, args: &GpuArgs) -> Result<Rows> {
        let takes = |row: &CopyRow| args.choice.takes_line(row.rank, &row.device, "", ["", &row.line]);
        let mut copies = Vec::new();
        for row in profile.rows_if_any::<CopyRow>()? {
            copies.extend(Some(row?).filter(takes));
        }
        let staged: Result<Vec<StagedRow>, ProfileError> = profile
            .rows_if_any::<StagedRow>()?
            .filter(|row| row.as_ref().map_or(true, |row| args.choice.takes_rank(row.rank)))
            .collect();
        Ok(Rows { copies, staged: staged? })
    }
}

/// The table, and the lists for JSON.
pub fn answer(view: &ProfileView, args: &GpuArgs, is_of_messages: bool) -> Result<Answer> {
    view.ranks("what the host copies")?;
    if args.annotate || args.image.is_some() || args.graph {
        bail!("copies of the host have no picture and no source; --by copy and --by staging are tables");
    }
    let rows = Rows::from_profile(view.profile(), args)?;
    let (mut copies, mut staged) = (by_end(&rows, args), by_comm(&rows, args));
    let sentences = sentences(&rows.staged);
    let mut answer = if is_of_messages {
        let nothing = if rows.copies.is_empty() { NOTHING_STAGED } else { NONE_STAGED };
        let closing = args.shown.cut(&args.output, &mut staged.rows, nothing);
        let mut answer = Answer::new(view.profile(), staged, None);
        answer.closing = closing;
        answer
    } else {
        let closing = args.shown.cut(&args.output, &mut copies.rows, NOTHING);
        let mut answer = Answer::new(view.profile(), copies, None);
        answer.closing = closing;
        answer.sheets.push(staged);
        answer
    };
    if args.detail {
        answer.sheets.extend(details(&rows, args, is_of_messages));
    }
    if !sentences.is_empty() {
        answer.closing += &sentences;
    }
    Ok(answer)
}

/// `device`, or that it is another than the one beside it.
fn end(memory: Option<Memory>, device: &str, other: &str) -> String {
    match memory {
        None => String::new(),
        Some(Memory::Host) => "host".to_owned(),
        Some(Memory::Pinned) => "pinned".to_owned(),
        Some(Memory::Managed) => "managed".to_owned(),
        Some(Memory::Device) if device != other && !other.is_empty() => "another device".to_owned(),
        Some(Memory::Device) => "device".to_owned(),
    }
}

fn mode(mode: CopyMode) -> &'static str {
    match mode {
        CopyMode::Blocking => "blocking",
        CopyMode::Stream => "stream",
    }
}

fn direction(direction: MessageEnd) -> &'static str {
    match direction {
        MessageEnd::Sent => "sent",
        MessageEnd::Received => "received",
    }
}

/// Copies and launches, by the memory of both ends.
pub fn by_end(rows: &Rows, args: &GpuArgs) -> Sheet {
    let heads = vec![
        sheet::fixed("from", "FROM"),
        sheet::fixed("to", "TO"),
        sheet::fixed("mode", "MODE"),
        sheet::fixed("call", "CALL").or_none(),
    ];
    let key = |row: &CopyRow| {
        let (from, to) = (row.from_device.as_str(), row.to_device.as_str());
        vec![end(row.from, from, from), end(row.to, to, from), mode(row.mode).to_owned(), row.call.clone()]
    };
    let mut sums = Sums::new();
    for row in &rows.copies {
        sums.entry(key(row)).or_default().add(row.calls, row.bytes, row.time_s.0);
    }
    sheet("copies", heads, sums, args.of)
}

/// Copies for messages, by communicator.
pub fn by_comm(rows: &Rows, args: &GpuArgs) -> Sheet {
    let heads = vec![
        sheet::fixed("comm", "COMM"),
        sheet::fixed("direction", "MESSAGES"),
        sheet::fixed("memory", "HOST MEMORY"),
        sheet::fixed("mode", "COPIES").or_none(),
    ];
    let mut sums = Sums::new();
    for row in &rows.staged {
        let memory = end(Some(row.memory), "", "");
        let key =
            vec![row.comm.clone(), direction(row.direction).to_owned(), memory, mode(row.mode).to_owned()];
        sums.entry(key).or_default().add(row.matches, row.bytes, row.time_s.0);
    }
    let mut sheet = sheet("staged", heads, sums, args.of);
    // A message may match several copies.
    if let Some(head) = sheet.heads.iter_mut().find(|head| head.name == "calls") {
        *head = sheet::number("matches", "MATCHES").or_none();
    }
    sheet
}

fn sheet(name: &'static str, mut heads: Vec<Head>, sums: Sums, of: Of) -> Sheet {
    let mut sums: Vec<(Vec<String>, Sum)> = sums.into_iter().collect();
    sums.sort_by_key(|(_, sum)| sum.order(of));
    heads.extend(COUNTED);
    let row = |(key, sum): (Vec<String>, Sum)| key.iter().map(|it| text(it)).chain(sum.cells()).collect();
    Sheet { name, heads, rows: sums.into_iter().map(row).collect() }
}

/// By rank; of copies also by line of Python, if there is any.
fn details(rows: &Rows, args: &GpuArgs, is_of_messages: bool) -> Vec<Sheet> {
    let most = args.shown.limit(&args.output);
    let by_rank = vec![sheet::number("rank", "RANK"), sheet::fixed("from", "FROM"), sheet::fixed("to", "TO")];
    let by_line = vec![sheet::fixed("line", "LINE"), sheet::fixed("from", "FROM"), sheet::fixed("to", "TO")];
    if is_of_messages {
        let mut sums = Sums::new();
        for row in &rows.staged {
            let key = vec![row.rank.to_string(), row.comm.clone(), direction(row.direction).to_owned()];
            sums.entry(key).or_default().add(row.matches, row.bytes, row.time_s.0);
        }
        let heads = vec![
            sheet::number("rank", "RANK"),
            sheet::fixed("comm", "COMM"),
            sheet::fixed("direction", "MESSAGES"),
        ];
        let mut found = sheet("staged_by_rank", heads, sums, args.of);
        found.rows.truncate(most);
        return vec![found];
    }
    let (mut ranks, mut lines) = (Sums::new(), Sums::new());
    for row in &rows.copies {
        let (from, to) = (row.from_device.as_str(), row.to_device.as_str());
        let ends = [end(row.from, from, from), end(row.to, to, from)];
        let add = |sums: &mut Sums, first: String| {
            let key = [vec![first], ends.to_vec()].concat();
            sums.entry(key).or_default().add(row.calls, row.bytes, row.time_s.0);
        };
        add(&mut ranks, row.rank.to_string());
        if !row.line.is_empty() {
            add(&mut lines, row.line.clone());
        }
    }
    let mut found = vec![sheet("copies_by_rank", by_rank, ranks, args.of)];
    if !lines.is_empty() {
        found.push(sheet("copies_by_line", by_line, lines, args.of));
    }
    found.iter_mut().for_each(|sheet| sheet.rows.truncate(most));
    found
}

/// The communicators with most staged bytes, a sentence each.
pub fn sentences(staged: &[StagedRow]) -> String {
    let mut sums: BTreeMap<&str, (Sum, bool, BTreeMap<u32, f64>)> = BTreeMap::new();
    for row in staged {
        let (sum, has_streams, by_rank) = sums.entry(&row.comm).or_default();
        sum.add(row.matches, row.bytes, row.time_s.0);
        *has_streams |= row.mode == CopyMode::Stream;
        *by_rank.entry(row.rank).or_default() += row.time_s.0;
    }
    let mut sums: Vec<_> = sums.into_iter().collect();
    sums.sort_by_key(|(_, (sum, ..))| Reverse(sum.bytes));
    let mut text = String::new();
    for (comm, (sum, has_streams, by_rank)) in sums.iter().take(MOST_SENTENCES) {
        let bytes = human_bytes(sum.bytes);
        let taken = time(sum.time_s);
        let most = by_rank.iter().max_by(|one, other| one.1.total_cmp(other.1));
        let most = most.filter(|_| by_rank.len() > 1);
        let most = most.map_or(String::new(), |(rank, &most_s)| format!(", {} on rank {rank}", time(most_s)));
        text += &match has_streams {
            false => format!(
                "{comm}: {bytes} staged, {taken} in the copies{most}: what an MPI that knows GPUs would save at most.\n"
            ),
            // The host does not wait for these.
            true => format!(
                "{comm}: {bytes} staged, {taken} of the host in the copies{most}: an MPI that knows GPUs would save that, and what copies in \
                 streams take on the GPU, which is not known.\n"
            ),
        };
    }
    text
}

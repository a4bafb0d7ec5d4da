//! `gpu`: what kernels accessed by themselves.

use super::Outcome;
use crate::glob::Glob;
use crate::load;
use crate::output::OutputArgs;
use crate::sheet::{self, Answer, Head, Sheet, Shown, Value};
use anyhow::Result;
use clap::{Args, ValueEnum};
use mpisee_profile::rows::{GpuMemory, GpuRow, PeerRow};
use mpisee_profile::{Profile, RankSet};
use std::collections::BTreeMap;
use std::path::PathBuf;

const EXAMPLES: &str = "\
EXAMPLES:
  mpisee-through gpu app.mpisee                         between ranks, beside what MPI sent
  mpisee-through gpu app.mpisee --by line               the lines of source that access most
  mpisee-through gpu app.mpisee --by object --ranks 3   what rank 3 accesses, by allocation
  mpisee-through gpu app.mpisee --by device --output csv";

/// What GPU kernels accessed on other devices, in other ranks and on the host.
///
/// Loads, stores and atomics of kernels, as `mpisee --gpu` counts them; copies that the host asks for are not among
/// them. LOADED is what the rank's kernels read there, STORED what they wrote, ATOMIC what atomics and reductions
/// changed, in bytes. An error, where the run was sampled, is the standard error of all accesses.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct GpuArgs {
    /// The NAME.mpisee directory that the run left
    profile: PathBuf,

    /// What a row is
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = By::Rank)]
    by: By,

    /// Kernels by their mangled names; * and ? as in file names
    #[arg(long, value_name = "PATTERN")]
    kernel: Option<Glob>,

    /// Ranks whose kernels they are: 0-3,8
    #[arg(long, value_name = "RANKS")]
    ranks: Option<RankSet>,

    #[command(flatten)]
    shown: Shown,

    /// Volume in KiB, MiB, … in the table (default: exact bytes)
    #[arg(long)]
    human: bool,

    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum By {
    /// A rank and the owner of the memory
    Rank,
    /// A device and the device of the memory
    Device,
    /// A kernel
    Kernel,
    /// A line of source
    Line,
    /// What was accessed
    Object,
}

/// What is in a row.
#[derive(Debug, Default)]
struct Sum {
    accesses: u64,
    bytes: [u64; 3],
    error: f64,
}

impl Sum {
    fn add(&mut self, row: &GpuRow) {
        self.accesses = self.accesses.saturating_add(row.accesses);
        let bytes = &mut self.bytes[row.access as usize];
        *bytes = bytes.saturating_add(row.bytes);
        self.error = self.error.hypot(row.error);
    }

    fn all(&self) -> u64 {
        self.bytes.iter().fold(0, |sum, bytes| sum.saturating_add(*bytes))
    }
}

/// Runs the command.
pub fn run(args: &GpuArgs) -> Result<Outcome> {
    let profile = load::open(&args.profile)?;
    let mut sums: BTreeMap<Vec<String>, Sum> = BTreeMap::new();
    let mut is_sampled = false;
    for row in profile.rows_if_any::<GpuRow>()? {
        let row = row?;
        let is_chosen = args.kernel.as_ref().is_none_or(|it| it.matches(&row.kernel))
            && args.ranks.as_ref().is_none_or(|it| it.contains(row.rank));
        if is_chosen {
            is_sampled |= row.sampled > 1;
            sums.entry(key(args.by, &row)).or_default().add(&row);
        }
    }
    let sent = if args.by == By::Rank && !sums.is_empty() { sent(&profile)? } else { BTreeMap::new() };
    let mut found: Vec<(Vec<String>, Sum)> = sums.into_iter().collect();
    found.sort_by(|(left, a), (right, b)| b.all().cmp(&a.all()).then_with(|| left.cmp(right)));
    let mut rows = found.iter().map(|(key, sum)| row(args.by, key, sum, is_sampled, &sent)).collect();
    let nothing = if profile.directory().join("gpu.csv").exists() {
        "No access matches the filters."
    } else {
        "The profile has no accesses of GPU kernels; `mpisee --gpu` counts them."
    };
    let closing = args.shown.cut(&args.output, &mut rows, nothing);
    let mut answer =
        Answer::new(&profile, Sheet { name: "gpu", heads: heads(args.by, is_sampled), rows }, None);
    answer.closing = closing;
    answer.write(&args.output, args.human)
}

fn key(by: By, row: &GpuRow) -> Vec<String> {
    match by {
        // Ranks are ordered by their numbers, which have at most ten digits.
        By::Rank => vec![format!("{:010}", row.rank), owner(row)],
        By::Device => vec![row.device.clone(), or_unknown(&row.peer_device)],
        By::Kernel => vec![row.kernel.clone()],
        By::Line => vec![row.source.clone(), row.kernel.clone()],
        By::Object => vec![or_unknown(&row.object), owner(row)],
    }
}

/// `rank 3`, or the kind of memory where that tells more.
fn owner(row: &GpuRow) -> String {
    match (row.memory, row.peer_rank) {
        (GpuMemory::Pinned | GpuMemory::Registered, _) => "host".to_owned(),
        (GpuMemory::Managed, _) => "managed".to_owned(),
        (_, Some(rank)) => format!("{rank}"),
        (_, None) => or_unknown(""),
    }
}

fn or_unknown(text: &str) -> String {
    if text.is_empty() { "(unknown)" } else { text }.to_owned()
}

fn heads(by: By, is_sampled: bool) -> Vec<Head> {
    let mut heads = match by {
        By::Rank => vec![sheet::number("rank", "RANK"), sheet::number("owner", "OWNER")],
        By::Device => vec![sheet::fixed("device", "DEVICE"), sheet::fixed("peer_device", "MEMORY OF")],
        By::Kernel => vec![sheet::fixed("kernel", "KERNEL")],
        By::Line => vec![sheet::fixed("source", "LINE"), sheet::fixed("kernel", "KERNEL").or_none()],
        By::Object => vec![sheet::fixed("object", "OBJECT"), sheet::number("owner", "OWNER")],
    };
    heads.extend([
        sheet::number("accesses", "ACCESSES"),
        sheet::number("loaded_bytes", "LOADED"),
        sheet::number("stored_bytes", "STORED"),
        sheet::number("atomic_bytes", "ATOMIC"),
    ]);
    if is_sampled {
        heads.push(sheet::number("accesses_error", "ERROR"));
    }
    if by == By::Rank {
        heads.extend([
            sheet::number("mpi_sent_bytes", "MPI SENT"),
            sheet::number("mpi_received_bytes", "MPI RECEIVED"),
        ]);
    }
    heads
}

/// Bytes that MPI moved from one rank to another in point-to-point messages: sent and received.
type Sent = BTreeMap<(u32, u32), (u64, u64)>;

fn sent(profile: &Profile) -> Result<Sent> {
    let mut sent = Sent::new();
    for row in profile.rows::<PeerRow>()? {
        let row = row?;
        let sum = sent.entry((row.rank, row.peer)).or_default();
        *sum = (sum.0.saturating_add(row.sent_bytes), sum.1.saturating_add(row.received_bytes));
    }
    Ok(sent)
}

fn row(by: By, key: &[String], sum: &Sum, is_sampled: bool, sent: &Sent) -> Vec<Value> {
    let number = |text: &str| text.parse::<u64>().map_or_else(|_| Value::from(text), Value::Count);
    let mut row: Vec<Value> = match by {
        By::Rank => key.iter().map(|it| number(it)).collect(),
        By::Object => vec![Value::from(key[0].as_str()), number(&key[1])],
        _ => key.iter().map(|it| Value::from(it.as_str())).collect(),
    };
    row.push(Value::Count(sum.accesses));
    row.extend(sum.bytes.map(Value::Bytes));
    if is_sampled {
        row.push(Value::Number(sum.error.round()));
    }
    if by == By::Rank {
        let pair = key[0].parse().ok().zip(key[1].parse().ok());
        row.extend(match pair {
            Some(pair) => {
                let (sent, received) = sent.get(&pair).copied().unwrap_or_default();
                [Value::Bytes(sent), Value::Bytes(received)]
            }
            None => [Value::Nothing, Value::Nothing],
        });
    }
    row
}

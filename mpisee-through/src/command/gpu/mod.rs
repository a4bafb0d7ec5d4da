//! `gpu`: all that a profile has of GPUs on a page; and accesses of GPU kernels to memory on other
//! devices, in other ranks and on the host, in several views.

mod address;
mod annotate;
mod bars;
mod cells;
mod choose;
mod copies;
mod detail;
mod heat;
mod label;
mod mpi;
mod nccl;
mod page;
mod rows;
mod sums;
mod ways;

use super::Outcome;
use crate::comm_pattern::CommPattern;
use crate::debug_info::{SearchDirs, Symbols};
use crate::no_match;
use crate::output::OutputArgs;
use crate::picture::{ImageFile, Picture};
use crate::sheet::{self, Answer, Head, Sheet, Shown, Value};
use crate::short_names::Names;
use crate::view::ProfileView;
use address::Fold;
use anyhow::{Result, bail};
use choose::Choice;
use clap::{Args, ValueEnum};
use mpi::Mpi;
use mpisee_profile::rows::PeRow;
use mpisee_profile::{Profile, RankSet};
pub use page::Page;
use rows::{Accessed, Ends};
use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use sums::{Key, Sum, Sums};

const EXAMPLES: &str = "\
EXAMPLES:
  mpisee-through gpu app.mpisee                                 everything about GPUs, on a page
  mpisee-through gpu app.mpisee --comm 'N*'                     only communicators of NCCL
  mpisee-through gpu app.mpisee --by rank                       kernel traffic beside MPI's messages
  mpisee-through gpu app.mpisee --image traffic.svg             the same as heat maps, .svg or .png
  mpisee-through gpu app.mpisee --by device --detail            devices, with lines
  mpisee-through gpu app.mpisee --by object                     objects, by allocation
  mpisee-through gpu app.mpisee --by address --records DIR --object 'ghost cells' --fold 512x512
  mpisee-through gpu app.mpisee --by line --image lines.svg     the busiest lines, as bars
  mpisee-through gpu app.mpisee --annotate                      source, with the share of each line
  mpisee-through gpu app.mpisee --annotate --image source.svg   the same as a picture
  mpisee-through gpu app.mpisee --by line --line '*halo.cu:41' --detail
  mpisee-through gpu app.mpisee --by copy                       copies of the host
  mpisee-through gpu app.mpisee --by staging --format csv       copies for messages
  mpisee-through gpu app.mpisee --by launch                     lines of Python, by their kernels
  mpisee-through gpu app.mpisee --by kernel --ranks 3 --format csv";

/// GPUs: traffic, copies, buffers, NCCL, kernels
///
/// Without options you get a page. Its first table has data between GPUs and hosts, by who moved
/// them. MPI and NCCL are messages between the ranks of these GPUs. COPIES are those of `mpisee
/// --gpu-copies`, KERNELS loads and stores of `mpisee --gpu`. One transfer can be in several
/// columns. Collectives and one-sided operations are not in this table. See docs/how-to/gpus.md for
/// the page.
///
/// With --by and other options you get accesses of kernels. LOADED, STORED and ATOMIC are bytes
/// that kernels of the rank read, wrote, and changed by atomics and reductions. An error is the
/// standard error of the accesses in a sampled run. An object without a name is shown by the calls
/// that allocated it. See docs/how-to/gpu-kernels.md. Several GPUs and NVLink are untested: see
/// docs/reference/gpu-status.md.
///
/// In sums over ranks, the owner is the distance to its rank, +1 for the next one. The device of
/// the memory is then the kernel's own or another.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct GpuArgs {
    /// Profile of the run, a directory NAME.mpisee
    profile: PathBuf,

    /// Kind of row (default: the page; rank with a filter or a picture)
    #[arg(long, value_name = "WHAT", value_enum)]
    by: Option<By>,

    /// Quantity for shares, order of rows, and shades
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = Of::Bytes)]
    of: Of,

    /// Divide each row by kind of access, object, line and device, too
    #[arg(long, conflicts_with = "annotate")]
    detail: bool,

    /// Show the source files, with the accesses of each line
    #[arg(long, conflicts_with = "by")]
    annotate: bool,

    /// Write a picture to FILE (.png or .svg) instead of the table: heat maps of ranks or devices,
    /// source with --annotate, else bars (24, or 8 with --detail, unless --top is given)
    #[arg(long, value_name = "FILE")]
    image: Option<ImageFile>,

    /// Draw a graph instead of heat maps
    #[arg(long, requires = "image", conflicts_with_all = ["annotate", "detail"])]
    graph: bool,

    /// Folder of `mpisee --gpu-records DIR`, for --by address
    #[arg(long, value_name = "DIR")]
    records: Option<PathBuf>,

    /// Shape of the object for --by address, in elements: ROWSxCOLUMNS, or with their bytes,
    /// ROWSxCOLUMNSxBYTES (default: as many bytes as fill the object)
    #[arg(long, value_name = "SHAPE")]
    fold: Option<Fold>,

    /// Search source files and binaries below DIR first; repeatable
    #[arg(long, value_name = "DIR")]
    source: Vec<PathBuf>,

    /// Show only the lists by communicator of the page (NCCL, copies for messages), for names or
    /// labels that match; repeatable
    #[arg(long, value_name = "GLOB", help_heading = "Filters")]
    comm: Vec<CommPattern>,

    #[command(flatten)]
    shown: Shown,

    #[command(flatten)]
    choice: Choice,

    #[command(flatten)]
    output: OutputArgs,
}

impl GpuArgs {
    fn by(&self) -> By {
        self.by.unwrap_or(By::Rank)
    }

    /// Returns whether nothing says which view is wanted.
    fn is_page(&self) -> bool {
        let has_view = self.by.is_some() || self.detail || self.annotate || self.image.is_some();
        let has_option = self.fold.is_some() || self.records.is_some() || self.of != Of::Bytes;
        !has_view && !has_option && !self.choice.is_on()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum By {
    /// Rank and owner of the memory
    Rank,
    /// Device of the kernel and device of the memory
    Device,
    /// Kernel
    Kernel,
    /// Line of source
    Line,
    /// Line of Python that launched kernels
    Launch,
    /// Accessed object
    Object,
    /// Kind of access and its width in bytes
    Access,
    /// Part of an object; needs --records
    Address,
    /// Copies and launches of the host, by memory of both ends; needs `mpisee --gpu-copies`
    Copy,
    /// Copies for MPI's messages, by communicator; needs `mpisee --gpu-copies`
    Staging,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Of {
    Bytes,
    Accesses,
}

impl Of {
    /// The heading of shares of all that was chosen.
    fn heading(self) -> &'static str {
        match self {
            Of::Bytes => "% of bytes",
            Of::Accesses => "% of accesses",
        }
    }
}

/// The devices of ranks.
type RankDevices = HashMap<u32, BTreeSet<String>>;

/// The device of a rank, if it uses no more than one.
fn only(devices: &BTreeSet<String>) -> Option<&String> {
    devices.first().filter(|_| devices.len() == 1)
}

/// The rows that were chosen, with objects and kernels as people write them.
struct Chosen {
    rows: Vec<Accessed>,
    kernels: Names,
    is_sampled: bool,
    /// How they say who accesses whose memory.
    ends: Ends,
    /// The devices of each rank that is known to use any, whatever rows are chosen.
    devices: RankDevices,
    /// Why objects could not be resolved to their calls.
    problems: BTreeSet<String>,
}

impl Chosen {
    fn from_view(view: &ProfileView, args: &GpuArgs) -> Result<Self> {
        let mut symbols = Symbols::from_profile(view.profile(), SearchDirs(args.source.clone()))?;
        let needs_objects = args.detail || args.by() == By::Object || args.choice.needs_objects();
        let mut devices = RankDevices::new();
        let mut add = |rank, device: &str| {
            let known = devices.entry(rank).or_default();
            if !known.contains(device) {
                known.insert(device.to_owned());
            }
        };
        for row in view.processes().ranks() {
            row.gpus().for_each(|device| add(row.rank, device));
        }
        let (mut chosen, mut objects) = (Vec::new(), BTreeSet::new());
        let (all, ends) = rows::rows(view)?;
        let all_kernels: BTreeSet<String> = all.iter().map(|row| row.kernel.clone()).collect();
        let all_ranks: RankSet = all.iter().filter_map(|row| Some(row.rank.as_ref()?.0)).collect();
        for mut row in all {
            if let Some((rank, device)) = &row.rank {
                add(*rank, device);
            }
            if !args.choice.takes(&row) {
                continue;
            }
            if needs_objects {
                let resolved = symbols.stack(&row.object);
                let object = std::mem::replace(&mut row.object, resolved);
                if !args.choice.takes_object(&row.object) {
                    continue;
                }
                objects.insert(object);
            }
            chosen.push(row);
        }
        let rows = chosen;
        if rows.is_empty() {
            let names = Names::from_mangled(all_kernels.iter().map(String::as_str));
            no_match::need_access(all_kernels.iter().map(|kernel| names.get(kernel)), &all_ranks)?;
        }
        let kernels = Names::from_mangled(rows.iter().map(|row| row.kernel.as_str()));
        let is_sampled = rows.iter().any(|row| row.sampled > 1);
        let problems = symbols.problems(&objects);
        Ok(Chosen { rows, kernels, is_sampled, ends, devices, problems })
    }
}

/// Runs the command.
pub fn run(args: &GpuArgs) -> Result<Outcome> {
    let view = ProfileView::open(&args.profile)?;
    if args.is_page() {
        let answer = if args.comm.is_empty() { page::answer } else { page::of_comms };
        return answer(&view, args)?.write(&args.output);
    }
    if !args.comm.is_empty() {
        bail!("--comm is for the page: leave out --by and other options that choose what is shown");
    }
    if args.by() == By::Address {
        return by_address(&view, args);
    }
    if args.fold.is_some() {
        bail!("--fold is for --by address");
    }
    if matches!(args.by(), By::Copy | By::Staging) {
        return copies::answer(&view, args, args.by() == By::Staging)?.write(&args.output);
    }
    if args.choice.names_ranks() {
        view.ranks("which ranks and devices access what")?;
    }
    let chosen = Chosen::from_view(&view, args)?;
    if let Some(file) = &args.image {
        file.write(&picture(&view, &chosen, args)?)?;
        return Ok(Outcome::Done);
    }
    let mut answer =
        if args.annotate { annotate::answer(&view, &chosen, args)? } else { table(&view, &chosen, args)? };
    answer.caveats.extend(chosen.problems);
    answer.caveats.extend(other_numbers(view.profile())?);
    answer.write(&args.output)
}

/// Pairs as a heat map or a graph, the source with its lines' shares, and all else as bars.
fn picture(view: &ProfileView, chosen: &Chosen, args: &GpuArgs) -> Result<Picture> {
    let is_of_pairs = matches!(args.by(), By::Rank | By::Device);
    if args.graph {
        if !is_of_pairs {
            bail!("--graph draws pairs, --by rank or --by device");
        }
        view.ranks("who of two ranks or devices accesses memory of the other")?;
    }
    if chosen.rows.is_empty() {
        bail!("there is nothing to draw: {}", NOTHING.trim_end_matches('.'));
    }
    if args.annotate {
        return Ok(annotate::picture(view, chosen, args));
    }
    match is_of_pairs && !args.detail && chosen.ends == Ends::Pairs {
        true => heat::picture(view, chosen, args),
        false => bars::picture(view, chosen, args),
    }
}

fn by_address(view: &ProfileView, args: &GpuArgs) -> Result<Outcome> {
    let ranks = view.ranks("whose records those of DIR are")?;
    if args.detail {
        bail!("--detail is not for --by address, which has devices and lines of each part");
    }
    if let Some(file) = &args.image {
        file.write(&address::picture(view, ranks, args)?)?;
        return Ok(Outcome::Done);
    }
    address::answer(view, ranks, args)?.write(&args.output)
}

/// A note where NVSHMEM's PEs are not the ranks.
fn other_numbers(profile: &Profile) -> Result<Option<String>> {
    for row in profile.rows_if_any::<PeRow>()? {
        let row = row?;
        if row.pe != row.rank {
            return Ok(Some("PEs of NVSHMEM have other numbers than ranks: pes.csv.".to_owned()));
        }
    }
    Ok(None)
}

/// The message where the profile has no accesses.
const NOTHING: &str = "The profile has no accesses of GPU kernels; `mpisee --gpu` counts them.";

/// The same where a filter has left the page.
const NOTHING_TO_CHOOSE: &str = "The profile has no accesses of GPU kernels, among which filters choose; `mpisee --gpu` counts them. Without filters \
    `mpisee-through gpu` has all that is known of GPUs.";

fn table(view: &ProfileView, chosen: &Chosen, args: &GpuArgs) -> Result<Answer> {
    let sums = Sums::from_rows(&chosen.rows, |row| sums::key(args.by(), row));
    let found = sums.sorted(args.of);
    let mpi = Mpi::beside(view.profile(), chosen, args.by())?;
    let all = sums.all(args.of);
    let row = |(key, sum): &(Key, Sum)| {
        let mut row = sums::key_cells(args.by(), key, &chosen.kernels);
        row.extend(sum.cells(args.of, all, chosen.is_sampled));
        row.extend(mpi.as_ref().map(|mpi| mpi.cells(key)).into_iter().flatten());
        row
    };
    let mut rows: Vec<Vec<Value>> = found.iter().map(row).collect();
    let nothing = if args.by.is_none() && args.choice.is_on() { NOTHING_TO_CHOOSE } else { NOTHING };
    let closing = args.shown.cut(&args.output, &mut rows, nothing);
    let shown = rows.len();
    let heads = heads(args, chosen, mpi.is_some());
    let mut answer = Answer::new(view.profile(), Sheet { name: "gpu", heads, rows }, None);
    answer.closing = closing;
    if args.detail {
        let keys = found[..shown].iter().map(|(key, _)| key);
        answer.sheets.extend(detail::sheets(chosen, args, keys));
    }
    Ok(answer)
}

fn heads(args: &GpuArgs, chosen: &Chosen, beside_mpi: bool) -> Vec<Head> {
    let mut heads = sums::key_heads(args.by(), chosen.ends);
    heads.extend(sums::heads(args.of.heading(), chosen.is_sampled));
    if beside_mpi {
        heads.extend([
            sheet::number("mpi_sent_bytes", "MPI SENT"),
            sheet::number("mpi_received_bytes", "MPI RECEIVED"),
        ]);
    }
    heads
}

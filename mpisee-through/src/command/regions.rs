//! `regions`: the named parts of the program.

use super::Outcome;
use super::cores_used::{CORES_USED, cores_used, is_several};
use crate::filter::CallFilter;
use crate::group::{By, Cell, seconds};
use crate::nccl_times;
use crate::no_match;
use crate::output::{Format, OutputArgs};
use crate::sheet::{self, Answer, Sheet, Shown, Value};
use crate::view::{ProfileView, RegionSum};
use anyhow::Result;
use clap::Args;
use mpisee_profile::operation::is_nccl;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

const EXAMPLES: &str = "\
EXAMPLES:
  mpisee-through regions app.mpisee                      all regions, by wall time
  mpisee-through regions app.mpisee --kind collective    time in collectives
  mpisee-through regions app.mpisee --region 'solver*' --format csv";

/// Named regions: wall time, and the MPI time in them
///
/// Numbers of a region include the regions in it; solver/halo is halo in solver. Wall/rank and
/// Wall max are the mean and the maximum over the ranks that entered the region. MPI/rank is the
/// mean over these ranks, of the calls that the filters choose. % of wall is MPI/rank relative to
/// wall time, as a mean over the threads that call MPI there.
///
/// % on CPU is time on cores relative to wall time. It is empty if the region was open at the end,
/// or if threads used several cores. Cores used then has the mean number of cores. NCCL/rank is the
/// time of its calls on the host, which is no MPI time. GPU time is how long GPUs worked on them
/// (`mpisee --nccl-gpu-time`). The last line is outside any region. See docs/how-to/profile.md to
/// mark regions.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct RegionsArgs {
    /// Profile of the run, a directory NAME.mpisee
    profile: PathBuf,

    #[command(flatten)]
    shown: Shown,

    #[command(flatten)]
    filter: CallFilter,

    #[command(flatten)]
    output: OutputArgs,
}

/// The column of time in calls of NCCL, which only runs with such calls have.
const NCCL: &str = "nccl_mean_s";
/// The column of their time on GPUs, where it was measured.
const OF_GPU: &str = "gpu_mean_s";
/// Columns that tables of processes without MPI do not have.
const OF_MPI: [&str; 2] = ["mpi_mean_s", "share_of_wall"];

const HEADS: [sheet::Head; 13] = [
    sheet::fixed("region", "REGION"),
    sheet::number("ranks", "RANKS").or_none(),
    sheet::number("entries", "ENTRIES").or_none(),
    sheet::number("wall_mean_s", "Wall/rank"),
    sheet::number("wall_max_s", "Wall max").or_none(),
    sheet::number(OF_MPI[0], "MPI/rank"),
    sheet::number(OF_MPI[1], "% of wall"),
    sheet::number(NCCL, "NCCL/rank").or_none(),
    sheet::number(OF_GPU, "GPU time").or_none(),
    sheet::number("share_on_cpu", "% on CPU").or_none(),
    sheet::number("bytes", "Volume").or_none(),
    sheet::number("calls", "Calls").or_none(),
    sheet::number(CORES_USED, "Cores used").or_none(),
];

/// The calls in a region.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    mpi_ns: u128,
    /// Time in calls of NCCL, which is no time in MPI.
    nccl_ns: u128,
    /// Seconds of GPUs in these.
    gpu_s: Option<f64>,
    bytes: u64,
    calls: u64,
}

impl Sum {
    fn add(&mut self, call: &str, cell: &Cell) {
        let of_library = if is_nccl(call) { &mut self.nccl_ns } else { &mut self.mpi_ns };
        *of_library = of_library.saturating_add(cell.time_ns);
        self.bytes = self.bytes.saturating_add(cell.bytes);
        self.calls = self.calls.saturating_add(cell.calls);
    }
}

/// The time of GPUs in calls of NCCL.
#[derive(Default)]
struct OfGpu {
    /// Seconds over all ranks, by region.
    seconds: BTreeMap<String, f64>,
    /// Calls that were timed, and those that were not.
    calls: [u64; 2],
}

impl OfGpu {
    fn read(view: &ProfileView, filter: &CallFilter) -> Result<OfGpu> {
        let mut of_gpu = OfGpu::default();
        for timed in nccl_times::chosen(view, filter)? {
            let timed = timed?;
            let gpu_s = timed.gpu_s();
            of_gpu.calls[0] = of_gpu.calls[0].saturating_add(timed.row.calls);
            of_gpu.calls[1] = of_gpu.calls[1].saturating_add(timed.row.untimed);
            if timed.row.calls > 0 {
                *of_gpu.seconds.entry(timed.row.region).or_default() += gpu_s;
            }
        }
        Ok(of_gpu)
    }

    /// That in a region and those in it; none where no call was timed.
    fn in_region(&self, outer: &str) -> Option<f64> {
        let inside = self.seconds.iter().filter(|(region, _)| is_in(region, outer));
        inside.map(|(_, gpu_s)| *gpu_s).reduce(|sum, gpu_s| sum + gpu_s)
    }
}

/// Runs the command.
pub fn run(args: &RegionsArgs) -> Result<Outcome> {
    let view = ProfileView::open(&args.profile)?;
    answer(args, &view)?.write(&args.output)
}

/// The answer of the command.
pub fn answer(args: &RegionsArgs, view: &ProfileView) -> Result<Answer> {
    no_match::need_chosen(view, &args.filter.comms)?;
    let entered = view.regions(&args.filter.comms)?;
    let inner = args.filter.without_regions();
    let by = By { region: true, call: true, ..By::default() };
    let inner_calls = view.with_times_as_operations(&inner)?;
    let groups = view.group(&inner_calls, by)?;
    let of_gpu = OfGpu::read(view, &inner_calls)?;
    // Regions without calls are an answer, unless calls are chosen.
    no_match::need_operation(view, &inner, groups.cells.is_empty() && inner.names_calls())?;
    let mut names: BTreeSet<&str> = entered.keys().map(String::as_str).collect();
    names.extend(groups.cells.iter().map(|(key, _)| groups.region(key)));
    let has_nccl = groups.cells.iter().any(|(key, _)| is_nccl(groups.call(key)));
    let mut found: Vec<(&str, Sum)> = names
        .into_iter()
        .filter(|name| args.filter.takes_region(name))
        .map(|name| {
            let mut sum = Sum::default();
            let inside = groups.cells.iter().filter(|(key, _)| is_in(groups.region(key), name));
            inside.for_each(|(key, cell)| sum.add(groups.call(key), cell));
            sum.gpu_s = of_gpu.in_region(name);
            (name, sum)
        })
        .collect();
    let nothing = RegionSum::default();
    let of = |name: &str| entered.get(name).unwrap_or(&nothing);
    found.sort_by(|(left, _), (right, _)| {
        // What is outside comes last.
        let order = left.is_empty().cmp(&right.is_empty());
        order.then_with(|| of(right).wall_s.total_cmp(&of(left).wall_s)).then_with(|| left.cmp(right))
    });
    if found.is_empty() && args.filter.is_on() {
        no_match::need_region(view, &args.filter, &entered)?;
    }
    let all_ranks = view.processes().chosen(&args.filter.comms);
    let mut rows = found.iter().map(|(name, sum)| row(name, of(name), *sum, all_ranks)).collect();
    let mut closing = args.shown.cut(&args.output, &mut rows, "The profile has no calls.");
    if entered.is_empty() && !args.filter.is_on() {
        closing += &format!("The profile has no regions; {}.\n", no_match::make_regions(view.run()));
    }
    let mut sheet = Sheet { name: "regions", heads: HEADS.to_vec(), rows };
    if !has_nccl {
        sheet.keep_columns(|name, _| name != NCCL);
    }
    if of_gpu.seconds.is_empty() {
        sheet.keep_columns(|name, _| name != OF_GPU);
    }
    if args.output.format() == Format::Table {
        let is_without_mpi = view.run().is_without_mpi();
        sheet.keep_columns(|name, _| !is_without_mpi || !OF_MPI.contains(&name));
        let used_several = found.iter().any(|(name, _)| is_several(of(name).cpu_s(), of(name).wall_s));
        sheet.keep_columns(|name, _| name != CORES_USED || used_several);
    }
    let on_nccl = view.note_on_nccl_times(groups.cells.iter().map(|(key, _)| groups.call(key)));
    let on_threads = RegionSum::note_on_threads(found.iter().map(|(name, _)| of(name)));
    let mut answer = Answer::new(view.profile(), sheet, groups.cut_off);
    answer.closing = closing;
    answer.caveats.extend(on_nccl);
    answer.caveats.extend(on_threads);
    answer.caveats.extend(nccl_times::note_on_untimed(of_gpu.calls));
    Ok(answer)
}

/// Returns whether `region` is `outer` or in it; only what is outside of any is in the region
/// without a name.
fn is_in(region: &str, outer: &str) -> bool {
    region == outer
        || !outer.is_empty() && region.strip_prefix(outer).is_some_and(|rest| rest.starts_with('/'))
}

fn row(name: &str, region: &RegionSum, sum: Sum, all_ranks: u64) -> Vec<Value> {
    let outside = name.is_empty();
    let ranks = if outside { all_ranks } else { region.ranks };
    let mean_s = |time_s: f64| if ranks > 0 { Value::Seconds(time_s / ranks as f64) } else { Value::Nothing };
    let unless_outside = |value: Value| if outside { Value::Nothing } else { value };
    vec![
        Value::Region(name.to_owned()),
        Value::Count(ranks),
        unless_outside(Value::Count(region.entries)),
        unless_outside(mean_s(region.wall_s)),
        unless_outside(Value::Seconds(region.wall_max_s)),
        mean_s(seconds(sum.mpi_ns)),
        Value::share_of(seconds(sum.mpi_ns), region.useful.thread_s),
        mean_s(seconds(sum.nccl_ns)),
        sum.gpu_s.map_or(Value::Nothing, mean_s),
        region.cpu_s().map_or(Value::Nothing, |cpu_s| Value::share_of(cpu_s, region.wall_s)),
        Value::Bytes(sum.bytes),
        Value::Count(sum.calls),
        cores_used(region.cpu_s(), region.wall_s),
    ]
}

#[cfg(test)]
mod tests {
    use super::is_in;

    #[test]
    fn regions_are_in_those_around_them() {
        assert!(is_in("solver/halo", "solver"));
        assert!(is_in("solver", "solver"));
        assert!(!is_in("solver2", "solver"));
        assert!(!is_in("solver", ""));
        assert!(is_in("", ""));
    }
}

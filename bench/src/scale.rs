//! Cost of collecting the profile in `MPI_Finalize`, over the number of ranks: `bench/finalize.c`, without and with the
//! profiler in turns; and to `MPI_Init`, by its own account.

use anyhow::{Context, Result, ensure};
use clap::Args;
use mpisee_profile::Profile;
use std::path::PathBuf;
use std::process::Stdio;
use xtask::build::Wanted;
use xtask::flavour::{Family, Flavour};
use xtask::{launch, mpi};

/// Barriers of the run that collecting may take, and the seconds besides.
const MOST_BARRIERS: f64 = 30.0;
const MOST_SECONDS: f64 = 1.0;
/// Most memory that a rank may have over the median.
const MOST_RATIO: f64 = 1.2;

/// Options of the measurement.
#[derive(Args)]
pub struct Scaled {
    #[command(flatten)]
    wanted: Wanted,
    /// Numbers of ranks
    #[arg(long, value_delimiter = ',', default_values_t = [8, 32, 128])]
    ranks: Vec<u32>,
    /// Communicators of each rank
    #[arg(long, default_value_t = 100)]
    communicators: u32,
    /// How often each is run, without and with the profiler in turns
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// A variable for the profiled runs
    #[arg(long, value_name = "NAME=VALUE")]
    set: Vec<String>,
}

/// One run.
struct Seen {
    /// The median of its barriers, in seconds.
    barrier: f64,
    /// The longest `MPI_Finalize` of a rank, in seconds.
    finalize: f64,
    /// The most memory of each rank during it, in KiB, ascending.
    memory: Vec<u64>,
    /// Bytes of the profile.
    profile: u64,
    /// Time that the profiler added to `MPI_Init` on rank 0, in seconds.
    init: f64,
}

impl Seen {
    /// In KiB.
    fn median_memory(&self) -> f64 {
        self.memory[self.memory.len() / 2] as f64
    }

    /// In KiB.
    fn most_memory(&self) -> f64 {
        self.memory[self.memory.len() - 1] as f64
    }
}

/// Runs all, and prints a table. Fails if a limit is passed.
pub fn scale(scaled: &Scaled) -> Result<()> {
    ensure!(scaled.rounds > 0, "--rounds 0 measures nothing");
    println!(
        "| MPI | ranks | barrier | finalize without | with | added | limit | memory of a rank without: median, most | with: \
         median, most | most by median | profile | added to MPI_Init |"
    );
    println!("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
    let mut passed = Vec::new();
    for flavour in mpi::find(scaled.wanted.mpicc())? {
        let program = Compiled {
            finalize: launch::compile(&flavour, "finalize")?,
            pause: launch::compile_library(&flavour, "pause")?,
        };
        for &ranks in &scaled.ranks {
            let (mut plain, mut profiled) = (Vec::new(), Vec::new());
            for _ in 0..scaled.rounds {
                plain.push(run(&flavour, &program, ranks, scaled, false)?);
                profiled.push(run(&flavour, &program, ranks, scaled, true)?);
            }
            passed.extend(print(&flavour.name, ranks, &plain, &profiled));
        }
    }
    ensure!(passed.is_empty(), "{}", passed.join("; "));
    Ok(())
}

/// Prints a line; returns the limits that were passed.
fn print(name: &str, ranks: u32, plain: &[Seen], profiled: &[Seen]) -> Vec<String> {
    let of = |runs: &[Seen], what: fn(&Seen) -> f64| median(runs.iter().map(what).collect());
    let barrier = of(profiled, |seen| seen.barrier);
    let [without, with] = [plain, profiled].map(|runs| of(runs, |seen| seen.finalize));
    let (added, limit) = (with - without, MOST_BARRIERS * barrier + MOST_SECONDS);
    let [plain_memory, memory] =
        [plain, profiled].map(|runs| [of(runs, Seen::median_memory), of(runs, Seen::most_memory)]);
    let ratio = of(profiled, |seen| seen.most_memory() / seen.median_memory());
    let mib = |kib: f64| kib / 1024.0;
    println!(
        "| {name} | {ranks} | {:.3} ms | {without:.3} s | {with:.3} s | {added:.3} s | {limit:.2} s | {:.1}, {:.1} MiB | \
         {:.1}, {:.1} MiB | {ratio:.2} | {:.2} MB | {:.1} ms |",
        barrier * 1e3,
        mib(plain_memory[0]),
        mib(plain_memory[1]),
        mib(memory[0]),
        mib(memory[1]),
        of(profiled, |seen| seen.profile as f64) / 1e6,
        of(profiled, |seen| seen.init) * 1e3,
    );
    let mut passed = Vec::new();
    if added > limit {
        passed.push(format!("{name}, {ranks} ranks: {added:.3} s added are more than {limit:.3} s"));
    }
    if ratio > MOST_RATIO {
        passed.push(format!("{name}, {ranks} ranks: a rank has {ratio:.2} times the median memory"));
    }
    passed
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// Programs compiled for an MPI.
struct Compiled {
    /// `bench/finalize.c`.
    finalize: PathBuf,
    /// `bench/pause.c`, to be preloaded where that MPI has nothing like it.
    pause: PathBuf,
}

fn run(flavour: &Flavour, program: &Compiled, ranks: u32, scaled: &Scaled, profiled: bool) -> Result<Seen> {
    let folder = tempfile::tempdir()?;
    let memory = folder.path().join("memory");
    std::fs::create_dir(&memory)?;
    let profile = folder.path().join("run.mpisee");
    let mut command = launch::launcher(flavour, ranks, profiled.then_some(&profile));
    if flavour.family != Family::OpenMpi {
        command.env("LD_PRELOAD", &program.pause);
    }
    for set in scaled.set.iter().filter(|_| profiled) {
        let (name, value) = set.split_once('=').with_context(|| format!("--set {set} is not NAME=VALUE"))?;
        command.env(name, value);
    }
    command.arg(&program.finalize).arg(scaled.communicators.to_string()).arg(&memory);
    let output = command.stdin(Stdio::null()).output().context("starting mpirun")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?} failed: {said}");
    let printed = String::from_utf8(output.stdout)?;
    let barrier = printed.split_whitespace().nth(1).with_context(|| format!("'{printed}' is no figure"))?;
    let mut seen =
        Seen { barrier: barrier.parse()?, finalize: 0.0, memory: Vec::new(), profile: 0, init: 0.0 };
    for rank in 0..ranks {
        let text = std::fs::read_to_string(memory.join(rank.to_string()))?;
        let [_, most, time] = text.split_whitespace().collect::<Vec<_>>()[..] else {
            anyhow::bail!("'{text}' is not three figures")
        };
        seen.memory.push(most.parse()?);
        seen.finalize = seen.finalize.max(time.parse()?);
    }
    seen.memory.sort_unstable();
    if profiled {
        seen.init = Profile::open(&profile)?.run().profiler.init_s;
        for entry in std::fs::read_dir(&profile)? {
            seen.profile += entry?.metadata()?.len();
        }
    }
    Ok(seen)
}

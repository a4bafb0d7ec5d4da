//! Cost of collecting the profile in `MPI_Finalize`, over the number of ranks:
//! `tools/overhead/finalize.c`, without and with the profiler in turns; and to `MPI_Init`, by its
//! own account. Then the messages that the profiler sends, by `tools/overhead/messages.c`.

use anyhow::{Context, Result, ensure};
use clap::Args;
use mpisee_profile::Profile;
use std::path::PathBuf;
use std::process::Stdio;
use xtask::build::MpiSelection;
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
    wanted: MpiSelection,
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
    let mut programs = Vec::new();
    for flavour in mpi::find(scaled.wanted.mpicc())? {
        let program = Compiled {
            finalize: launch::compile(&flavour, "finalize")?,
            pause: launch::compile_library(&flavour, "pause")?,
            messages: launch::compile_library(&flavour, "messages")?,
        };
        for &ranks in &scaled.ranks {
            let (mut plain, mut profiled) = (Vec::new(), Vec::new());
            for _ in 0..scaled.rounds {
                plain.push(run(&flavour, &program, ranks, scaled, false)?);
                profiled.push(run(&flavour, &program, ranks, scaled, true)?);
            }
            passed.extend(print(&flavour.name, ranks, &plain, &profiled));
        }
        programs.push((flavour, program));
    }
    print_messages(&programs, scaled)?;
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
    /// `tools/overhead/finalize.c`.
    finalize: PathBuf,
    /// `tools/overhead/pause.c`, to be preloaded where that MPI has nothing like it.
    pause: PathBuf,
    /// `tools/overhead/messages.c`, to be preloaded to count.
    messages: PathBuf,
}

impl Compiled {
    /// The libraries that are preloaded besides the profiler, as `LD_PRELOAD` has them.
    fn preloaded(&self, flavour: &Flavour, counts: bool) -> String {
        let pause = (flavour.family != Family::OpenMpi).then_some(&self.pause);
        let libraries = pause.into_iter().chain(counts.then_some(&self.messages));
        libraries.map(|library| library.display().to_string()).collect::<Vec<_>>().join(":")
    }
}

/// Messages, their bytes, and collective calls, in `MPI_Init`, in the calls that create
/// communicators, in other calls, and in `MPI_Finalize`.
type Phases = [[u64; 3]; 4];

/// Prints what the profiler sends, in either way of collecting the profile.
fn print_messages(programs: &[(Flavour, Compiled)], scaled: &Scaled) -> Result<()> {
    println!();
    println!(
        "| MPI | ranks | collected by | MPI_Init: messages, collectives | creating {0} communicators: messages, collectives \
         besides its own | MPI_Finalize: collectives | messages of all ranks | of a rank, at most | bytes of all ranks | \
         of a rank, at most |",
        scaled.communicators - 1
    );
    println!("| --- | ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
    for (flavour, program) in programs {
        for &ranks in &scaled.ranks {
            for way in ["node", "tree"] {
                let counted = counted(flavour, program, ranks, scaled, way)?;
                let of = |phase: usize, what: usize| counted.iter().map(move |rank| rank[phase][what]);
                let most = |phase, what| of(phase, what).max().unwrap_or(0);
                let own = u64::from(scaled.communicators) - 1;
                println!(
                    "| {} | {ranks} | {way} | {}, {} | {}, {} | {} | {} | {} | {} | {} |",
                    flavour.name,
                    of(0, 0).sum::<u64>(),
                    most(0, 2),
                    of(1, 0).sum::<u64>(),
                    most(1, 2) as i64 - own as i64,
                    most(3, 2),
                    of(3, 0).sum::<u64>(),
                    most(3, 0),
                    of(3, 1).sum::<u64>(),
                    most(3, 1),
                );
            }
        }
    }
    Ok(())
}

/// The counts of each rank of a run.
fn counted(
    flavour: &Flavour,
    program: &Compiled,
    ranks: u32,
    scaled: &Scaled,
    way: &str,
) -> Result<Vec<Phases>> {
    let folder = tempfile::tempdir()?;
    let counts = folder.path().join("messages");
    std::fs::create_dir(&counts)?;
    let mut command = launch::launcher(flavour, ranks, Some(&folder.path().join("run.mpisee")));
    command.env("LD_PRELOAD", program.preloaded(flavour, true));
    command.env("MESSAGES_TO", &counts).env("MPISEE_COLLECT", way);
    command.arg(&program.finalize).arg(scaled.communicators.to_string());
    let output = command.stdin(Stdio::null()).output().context("starting mpirun")?;
    ensure!(output.status.success(), "{command:?} failed: {}", String::from_utf8_lossy(&output.stderr));
    (0..ranks)
        .map(|rank| {
            let text = std::fs::read_to_string(counts.join(rank.to_string()))?;
            let mut phases = Phases::default();
            let figures = phases.as_flattened_mut().iter_mut().zip(text.split_whitespace());
            for (figure, word) in figures {
                *figure = word.parse()?;
            }
            Ok(phases)
        })
        .collect()
}

fn run(flavour: &Flavour, program: &Compiled, ranks: u32, scaled: &Scaled, profiled: bool) -> Result<Seen> {
    let folder = tempfile::tempdir()?;
    let memory = folder.path().join("memory");
    std::fs::create_dir(&memory)?;
    let profile = folder.path().join("run.mpisee");
    let mut command = launch::launcher(flavour, ranks, profiled.then_some(&profile));
    command.env("LD_PRELOAD", program.preloaded(flavour, false));
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

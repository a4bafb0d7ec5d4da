//! Runs the cases that `#[case]` registers: each once for each MPI, several at a time.
//!
//! A case named `module::name` appears as `module::name::openmpi-4.1`. The arguments are those of
//! Rust's own test harness: a filter, `--exact`, `--skip`, `--list`, `--test-threads`. At the end
//! the slowest cases are listed with their processor time, and all of them are in
//! `target/tests/times`. `TEST_MPIS` selects MPIs ([`Mpi::all`]), and `TEST_SUBJECTS` the modules
//! of cases: `TEST_SUBJECTS="smoke requests"`.

use crate::mpi::RANKS_SLEEP;
use crate::{Mpi, command, root};
pub use inventory;
use libtest_mimic::{Arguments, Completion, Conclusion, Failed, Trial};
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::panic::{self, AssertUnwindSafe, PanicHookInfo};
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A registered case.
pub struct Case {
    /// The path of its module.
    pub module: &'static str,
    /// The name of the function.
    pub name: &'static str,
    /// The function.
    pub body: Body,
}

/// The function of a case.
pub enum Body {
    /// Runs once.
    Once(fn()),
    /// Runs for each MPI that is selected.
    PerMpi {
        /// The function.
        run: fn(&Mpi),
        /// Returns whether the case is for an MPI.
        is_for: fn(&Mpi) -> bool,
    },
}

inventory::collect!(Case);

/// The subjects, first modules of cases, that run with the MPIs of the package index as well.
const CORE: [&str; 4] = ["collectives", "point_to_point", "smoke", "variables"];

/// How many cases of a run are listed as its slowest.
const SLOWEST: usize = 30;

/// Wall time and processor time of a case, and how it ended.
struct Duty {
    name: String,
    wall: Duration,
    processor: Duration,
    /// Why it failed.
    failure: Option<Failed>,
}

type Duties = Arc<Mutex<Vec<Duty>>>;

/// Runs the cases of this binary, and lists the slowest. Cases wait three times as long as they
/// compute, so three per core keep the cores busy.
pub fn run(binary: &str) -> ExitCode {
    let mut arguments = Arguments::from_args();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    arguments.test_threads.get_or_insert(cores * 3);
    RANKS_SLEEP.store(true, Ordering::Relaxed);
    let duties = Duties::default();
    let ended = run_cases(&arguments, &duties, |_| true);
    finish(binary, &duties, ended.has_failed())
}

/// Runs the cases of this binary whose ranks do not sleep: one per core, and then those of the
/// subjects `alone` one after the other.
pub fn run_awake(binary: &str, alone: &[&str]) -> ExitCode {
    let mut arguments = Arguments::from_args();
    let is_alone = |case: &Case| alone.contains(&case.subject());
    let duties = Duties::default();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let most = arguments.test_threads.unwrap_or(cores);
    let ended = [(most, false), (1, true)].map(|(lanes, is_their_turn)| {
        arguments.test_threads = Some(lanes);
        run_cases(&arguments, &duties, |case| is_alone(case) == is_their_turn)
    });
    finish(binary, &duties, ended.iter().any(Conclusion::has_failed))
}

fn run_cases(arguments: &Arguments, duties: &Duties, is_wanted: impl Fn(&Case) -> bool) -> Conclusion {
    let selection = Selection::from_environment();
    let cases = inventory::iter::<Case>().filter(|case| selection.has(case) && is_wanted(case));
    let mut trials: Vec<Trial> = cases.flat_map(|case| trials(case, &selection, duties)).collect();
    trials.sort_by(|a, b| a.name().cmp(b.name()));
    panic::set_hook(Box::new(keep_message));
    libtest_mimic::run(arguments, trials)
}

fn finish(binary: &str, duties: &Duties, has_failed: bool) -> ExitCode {
    list(binary, std::mem::take(&mut *duties.lock().unwrap_or_else(PoisonError::into_inner)));
    // As of Rust's own test harness.
    if has_failed { ExitCode::from(101) } else { ExitCode::SUCCESS }
}

/// The cases and MPIs to run.
struct Selection {
    /// The subjects that `TEST_SUBJECTS` names; without it, all.
    subjects: Option<Vec<String>>,
    mpis: Arc<[Mpi]>,
    core_mpis: Arc<[Mpi]>,
}

impl Selection {
    fn from_environment() -> Selection {
        let subjects = std::env::var("TEST_SUBJECTS").ok();
        let words = |text: String| text.split_whitespace().map(str::to_owned).collect();
        Selection {
            subjects: subjects.map(words),
            mpis: Mpi::all().into(),
            core_mpis: Mpi::all_for_core().into(),
        }
    }

    fn has(&self, case: &Case) -> bool {
        self.subjects.as_ref().is_none_or(|subjects| subjects.iter().any(|subject| subject == case.subject()))
    }

    fn mpis_for(&self, case: &Case) -> Arc<[Mpi]> {
        if CORE.contains(&case.subject()) { self.core_mpis.clone() } else { self.mpis.clone() }
    }
}

impl Case {
    /// The path of its module below the binary.
    fn path(&self) -> &'static str {
        self.module.split_once("::").map_or("", |(_, path)| path)
    }

    /// The first module of its path.
    fn subject(&self) -> &'static str {
        self.path().split("::").next().unwrap_or_default()
    }
}

/// The trials of a case: one, or one for each MPI.
fn trials(case: &'static Case, selection: &Selection, duties: &Duties) -> Vec<Trial> {
    let name = [case.path(), case.name].join("::");
    match case.body {
        Body::Once(run) => vec![trial(name, duties, move || {
            run();
            None
        })],
        Body::PerMpi { run, is_for } => {
            let mpis = selection.mpis_for(case);
            let for_mpi = |index: usize| {
                let mpis = mpis.clone();
                trial(format!("{name}::{}", mpis[index].name), duties, move || {
                    let mpi = &mpis[index];
                    if !is_for(mpi) {
                        return Some(format!("not for {}", mpi.name));
                    }
                    run(mpi);
                    None
                })
            };
            (0..mpis.len()).map(for_mpi).collect()
        }
    }
}

/// A trial that runs `body` and notes its times; `body` returns why it has left the case out.
fn trial(name: String, duties: &Duties, body: impl FnOnce() -> Option<String> + Send + 'static) -> Trial {
    let duties = duties.clone();
    Trial::ignorable_test(name.clone(), move || {
        let (begin, before) = (Instant::now(), command::processor_time());
        let ended = panic::catch_unwind(AssertUnwindSafe(body));
        let (wall, processor) = (begin.elapsed(), command::processor_time() - before);
        let notes = NOTES.take();
        let completion = match (ended, LEFT_OUT.take()) {
            (Ok(Some(reason)), _) | (Ok(None), Some(reason)) => Ok(Completion::ignored_with(reason)),
            (Ok(None), None) => Ok(Completion::Completed),
            (Err(payload), _) => Err(failure(&*payload, &notes)),
        };
        let failure = completion.as_ref().err().cloned();
        duties.lock().unwrap_or_else(PoisonError::into_inner).push(Duty { name, wall, processor, failure });
        completion
    })
}

thread_local! {
    static NOTES: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
    static LEFT_OUT: Cell<Option<String>> = const { Cell::new(None) };
    static PANIC: Cell<Option<String>> = const { Cell::new(None) };
}

/// Keeps a line that is printed only if the case fails.
pub fn note(line: String) {
    NOTES.with_borrow_mut(|notes| notes.push(line));
}

/// Reports the case as ignored, because the machine or the MPI lacks what it needs. The case
/// returns by itself.
pub fn leave_out(reason: impl Into<String>) {
    LEFT_OUT.set(Some(reason.into()));
}

/// Keeps a line that is printed only if the case fails; the arguments are those of `format!`.
#[macro_export]
macro_rules! note {
    ($($argument:tt)*) => { $crate::harness::note(format!($($argument)*)) };
}

/// Keeps place and message of a panic. Libtest-mimic prints the message alone.
fn keep_message(info: &PanicHookInfo<'_>) {
    let thread = std::thread::current();
    let name = thread.name().map(|name| format!(", in thread '{name}'")).unwrap_or_default();
    let place = info.location().map_or("unknown place".to_owned(), ToString::to_string);
    let text = message(info.payload());
    PANIC.set(Some(format!("{place}{name}: {text}")));
    if thread.name().is_some() {
        eprintln!("{place}{name}: {text}");
    }
}

fn message(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("a panic without a text")
}

fn failure(payload: &(dyn Any + Send), notes: &[String]) -> Failed {
    let text = PANIC.take().unwrap_or_else(|| message(payload).to_owned());
    let notes = notes.iter().map(|note| format!("\nnote: {note}"));
    Failed::from(text + &notes.collect::<String>())
}

/// Prints the slowest cases, and writes the times of all and the failures. The log of a run is
/// long, so `scripts/test` says at its end what failed.
fn list(binary: &str, mut duties: Vec<Duty>) {
    if duties.is_empty() {
        return;
    }
    duties.sort_by_key(|duty| Reverse(duty.wall));
    let line = |duty: &Duty| {
        format!("{:>8.2} {:>10.2}  {}\n", duty.wall.as_secs_f64(), duty.processor.as_secs_f64(), duty.name)
    };
    let sum = |time: fn(&Duty) -> Duration| duties.iter().map(time).sum::<Duration>().as_secs_f64();
    let (wall, processor) = (sum(|duty| duty.wall), sum(|duty| duty.processor));
    eprintln!("{} cases of {binary}: {wall:.0} s, {processor:.0} s of processor time", duties.len());
    eprintln!("{:>8} {:>10}  slowest cases (seconds)", "took", "processor");
    duties.iter().take(SLOWEST).for_each(|duty| eprint!("{}", line(duty)));
    write("times", binary, duties.iter().map(line).collect());
    let failures = duties.iter().filter_map(|duty| Some((&duty.name, duty.failure.as_ref()?.message()?)));
    let failure =
        |(name, why): (&String, &str)| format!("{name}:\n    {}\n", why.trim_end().replace('\n', "\n    "));
    write("failures", binary, failures.map(failure).collect());
}

/// Writes what is known of a run's cases below `target/tests`.
fn write(what: &str, binary: &str, text: String) {
    let folder = root().join("target/tests").join(what);
    let file = folder.join(format!("{binary}.txt"));
    if let Err(why) = std::fs::create_dir_all(&folder).and_then(|()| std::fs::write(&file, text)) {
        eprintln!("the {what} of the cases could not be written to {}: {why}", file.display());
    }
}

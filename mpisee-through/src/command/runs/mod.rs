//! `runs`: several runs, as repetitions of one command and as series over ranks or a parameter.

mod growing;
mod history;
mod outline;
mod scaling;
mod settings;
mod sums;
mod variation;

use super::Outcome;
use crate::output::{Format, OutputArgs, Page, printable};
use crate::run_set::{self, RunProfiles, command_text};
use crate::sheet::{Answer, Sheet, Shown, heading_lines};
use crate::units::{count, left_out_of};
use crate::view::ProfileView;
use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use growing::Growing;
pub use history::{Histories, HistoryOutline, log_text};
pub use outline::Outline;
use scaling::Measured;
use settings::{Axis, Series, Setting};
use std::path::{Path, PathBuf};
use sums::Run;
use variation::Variation;

const EXAMPLES: &str = "\
EXAMPLES:
  mpisee --repeat 5 -- mpirun -n 4 mpisee ./app    five runs, in app.runs
  mpisee-through runs app.runs                     how they differ, and which time goes with it
  for n in 1 2 4 8; do mpisee --repeat 3 -o scaling/ -- mpirun -n $n mpisee ./app; done
  mpisee-through runs scaling                      speedup, efficiency, growth
  mpisee-through runs scaling --table growth --format csv
  mpisee-through runs --history history            lasting changes over the commits of a CI";

/// Several runs: how repetitions differ, and how a series scales
///
/// Repetitions have the same command, MPI library, ranks and nodes. Runs that differ only in ranks,
/// in one number of the command, or in both, are a series. Copies of a run count once.
///
/// REPETITIONS:
/// Spread is the standard deviation between runs. Time/rank is the time in an operation on a family
/// of communicators, as a mean over ranks. % of differences is its part of the differences between
/// run times. r is its correlation with the run time, with a 95 % interval. ~ marks what may be
/// chance. See docs/how-to/compare-runs.md for the rules.
///
/// HISTORY:
/// Entries of the folder are profiles and sets of runs, in the order of their starts. Their names
/// are labels, such as commits. Calls and bytes are exact. A change of a time lasts at least two
/// entries and is at least 5 %. At most 1 % of histories without a change show one. See
/// docs/how-to/ci.md for the rules.
///
/// SERIES:
/// Speedup is the first run time / this one. Efficiency % is speedup / growth of ranks. If a number
/// of the command grows with the ranks, Efficiency % is the first run time / this one. PE, LB, CE,
/// SerE and TE are those of mpisee-through efficiency, of the median run. Computation % is the
/// useful time of the first setting / this one. It falls if ranks compute more in all, or more
/// slowly. % of run adds up to 100 %. Sums over ranks are fitted to a + b f(p), with f constant,
/// log p, p, p log p or p^2. Several models are named if the points cannot tell them apart.
/// Predictions are at four times the largest setting, with an interval over all these models. See
/// docs/how-to/scaling.md for the rules.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, verbatim_doc_comment)]
pub struct RunsArgs {
    /// Profiles, and folders that contain profiles
    #[arg(required_unless_present = "history", value_name = "DIR|PROFILE")]
    paths: Vec<PathBuf>,

    /// Show lasting changes over the entries of this folder: NAME.mpisee and NAME.runs
    #[arg(long, value_name = "DIR", conflicts_with = "paths")]
    history: Option<PathBuf>,

    /// Show only this table (default: all in a table and in JSON, points in CSV)
    #[arg(long, value_name = "TABLE", value_enum)]
    table: Option<Table>,

    #[command(flatten)]
    shown: Shown,

    #[command(flatten)]
    output: OutputArgs,
}

/// The tables, as programs get them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Table {
    /// A row for each setting: run times, speedup, efficiencies; with --history, for each number of
    /// each entry
    Points,
    /// A row for each operation on a family of communicators in repeated runs: spread, correlation
    Variation,
    /// A row for each operation on a family in each setting of a series: time, calls, bytes
    Parts,
    /// A row for each operation on a family and each quantity: model, error, prediction
    Growth,
    /// With --history, a row for each lasting change
    Changes,
}

/// Runs that are read, and the settings and series that they form.
pub struct RunSet {
    settings: Vec<Setting>,
    series: Vec<Series>,
    /// The sentence on profiles that are copies of others, if there are any.
    copies: Option<String>,
}

/// Everything that is known of the runs.
pub struct Comparison<'s> {
    settings: &'s [Setting],
    copies: Option<&'s str>,
    measured: Vec<Measured>,
    series: &'s [Series],
    growing: Vec<Growing<'s>>,
    /// Of repeated settings, with their numbers.
    variations: Vec<(usize, Variation<'s>)>,
}

/// Runs the command.
pub fn run(args: &RunsArgs) -> Result<Outcome> {
    if let Some(folder) = &args.history {
        return history_answer(args, folder)?.write(&args.output);
    }
    if args.table == Some(Table::Changes) {
        bail!("the table of changes is that of a history: use --history DIR");
    }
    let found = run_set::profiles(&args.paths)?;
    if let ([only], note) = (&found.profiles[..], found.note()) {
        if let Some(note) = note {
            bail!("runs compares several runs: {}", note.trim_end_matches('.'));
        }
        // Where it is no profile, that comes first.
        ProfileView::open(only)?;
        bail!(
            "'{}' is one run, but runs compares several; make some with: mpisee --repeat 5 -- mpirun …",
            only.display()
        );
    }
    let set = RunSet::read(&found)?;
    let comparison = set.compare()?;
    let caveats = comparison.notes();
    if args.output.format() == Format::Table && args.table.is_none() {
        let page = args.output.page();
        let text = heading_lines(&caveats, None, page) + &comparison.text(page, &args.shown, &args.output);
        args.output.write(text.as_bytes())?;
        return Ok(Outcome::Done);
    }
    let mut sheets = comparison.sheets();
    if let Some(table) = args.table {
        sheets = vec![sheets.swap_remove(table as usize)];
        if sheets[0].rows.is_empty() {
            bail!("these runs have no table of that kind: {}", table.needs());
        }
    }
    let mut answer = Answer {
        next: String::new(),
        lead: String::new(),
        sheets,
        titles: Vec::new(),
        values: Vec::new(),
        closing: String::new(),
        caveats,
        cut_off: None,
    };
    if args.output.format() == Format::Table {
        answer.closing = args.shown.cut(&args.output, &mut answer.sheets[0].rows, "There is nothing.");
    }
    answer.write(&args.output)
}

/// The answer of `--history`.
fn history_answer(args: &RunsArgs, folder: &Path) -> Result<Answer> {
    let histories = Histories::read(folder)?;
    let mut answer = histories.answer(&args.output);
    if let Some(table) = args.table {
        let [points, changes] = histories.sheets();
        answer.sheets = vec![match table {
            Table::Points => points,
            Table::Changes => changes,
            _ => bail!("a history has the tables points and changes"),
        }];
        answer.lead.clear();
    }
    Ok(answer)
}

impl Table {
    /// The runs that it needs.
    fn needs(self) -> &'static str {
        match self {
            Table::Points => "there is no run",
            Table::Variation => "no command was run more than once with as many ranks",
            Table::Parts => "no two runs differ in ranks, or in one number of the command, alone",
            Table::Growth => {
                "growth needs three settings that differ in ranks, or in one number of the command, alone"
            }
            Table::Changes => "there is no history",
        }
    }
}

impl RunSet {
    /// Reads the profiles.
    pub fn read(found: &RunProfiles) -> Result<Self> {
        let runs: Result<Vec<Run>> = found.profiles.iter().map(|path| Run::read(path)).collect();
        let settings = settings::settings(runs?);
        let series = settings::series(&settings);
        Ok(RunSet { settings, series, copies: found.note() })
    }

    /// Compares the runs.
    pub fn compare(&self) -> Result<Comparison<'_>> {
        let RunSet { settings, series, copies } = self;
        let measured: Result<Vec<Measured>> = settings.iter().map(Measured::from_setting).collect();
        let variation = |(index, setting)| Some((index + 1, Variation::from_setting(setting)?));
        Ok(Comparison {
            settings,
            copies: copies.as_deref(),
            measured: measured?,
            growing: series.iter().map(|series| Growing::from_series(series, settings)).collect(),
            variations: settings.iter().enumerate().filter_map(variation).collect(),
            series,
        })
    }
}

impl Comparison<'_> {
    /// The tables for programs: points, variation, parts and growth, in the order of [`Table`].
    pub fn sheets(&self) -> Vec<Sheet> {
        vec![
            scaling::exact_sheet(self.series, self.settings, &self.measured),
            variation::exact_sheet(&self.variations),
            growing::part_sheet(&self.growing),
            growing::growth_sheet(&self.growing),
        ]
    }

    /// Limits of all that follows.
    pub fn notes(&self) -> Vec<String> {
        let mut notes: Vec<String> = self.copies.map(str::to_owned).into_iter().collect();
        let mut runs = self.settings.iter().flat_map(|setting| &setting.runs);
        notes.extend(runs.find_map(|run| run.on_nccl.clone()));
        for setting in self.settings {
            let lacking: Vec<&Run> = setting.runs.iter().filter(|run| run.lack.is_some()).collect();
            if let Some(sentence) = lacking.first().and_then(|run| run.lack.as_ref()) {
                let some = match setting.runs.len() {
                    1 => String::new(),
                    all => format!(" (in {} of {all} runs)", lacking.len()),
                };
                notes.push(format!(
                    "{}: {sentence}{some}. Waiting for cores changes all times of this setting.",
                    setting.text()
                ));
            }
            for run in &setting.runs {
                notes.extend(run.limits.iter().map(|limit| format!("In {}: {limit}", run.path.display())));
            }
        }
        let in_series =
            |index: usize| self.series.iter().any(|series| series.points.iter().any(|p| p.1 == index));
        let single = |index: &usize| self.settings[*index].runs.len() == 1;
        let (once, alone): (Vec<usize>, Vec<usize>) =
            (0..self.settings.len()).filter(single).partition(|&index| in_series(index));
        if !once.is_empty() {
            notes.push(format!(
                "{} of {} settings ran once: the noise between equal runs is unknown, and a fit may take \
                 noise for growth. mpisee --repeat measures the noise.",
                once.len(),
                self.settings.len()
            ));
        }
        notes.extend(alone.into_iter().map(|index| {
            let setting = &self.settings[index];
            format!("{} ran once and is in no series: {}.", setting.text(), setting.runs[0].path.display())
        }));
        notes
    }

    fn text(&self, page: Page, shown: &Shown, output: &OutputArgs) -> String {
        let limit = shown.limit(output);
        let mut parts = Vec::new();
        for (series, growing) in self.series.iter().zip(&self.growing) {
            parts.push(page.wrapped_lines(&(page.bold(&self.title(series)) + "\n")));
            parts.push(scaling::sheet(series, self.settings, &self.measured).table(page));
            parts.push(growing.table(page, limit));
            parts.push(page.wrapped_lines(
                &(growing.sentences()
                    + &left_out_of(growing.count().saturating_sub(limit), "row", "what grows")),
            ));
        }
        for (number, variation) in &self.variations {
            let setting = &self.settings[number - 1];
            let title = format!("{} of {}", count(setting.runs.len() as u64, "run"), setting.text());
            parts.push(page.wrapped_lines(&(page.bold(&printable(&title)) + "\n")));
            parts.push(variation.run_sheet().table(page));
            parts.push(page.wrapped_lines(&variation.sentences()));
            let mut sheet = variation.sheet();
            let closing = variation.closing()
                + &left_out_of(sheet.rows.len().saturating_sub(limit), "row", "what varies");
            sheet.rows.truncate(limit);
            parts.push(sheet.table(page));
            parts.push(page.wrapped_lines(&closing));
        }
        let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        match parts.is_empty() {
            true => "There are neither repetitions nor a series among the runs.\n".to_owned(),
            false => "\n".to_owned() + &parts.join("\n"),
        }
    }

    /// The title of a series: what changes along it.
    fn title(&self, series: &Series) -> String {
        let first = &self.settings[series.points[0].1];
        let values: Vec<String> = series.points.iter().map(|point| scaling::number(point.0)).collect();
        let values = values.join(", ");
        let last = &self.settings[series.points[series.points.len() - 1].1];
        let same =
            |(word, other): (&String, &String)| if word == other { word.clone() } else { "…".to_owned() };
        let command: Vec<String> = first.command().iter().zip(last.command()).map(same).collect();
        let command = command_text(&command);
        printable(&match &series.axis {
            Axis::Ranks => format!("{command} on {values} ranks"),
            Axis::RanksAnd(name) => format!("{command} on {values} ranks, {name} growing with them"),
            Axis::Parameter(name) => {
                format!("{command} on {}, {name} being {values}", count(first.ranks(), "rank"))
            }
        })
    }
}

//! A history: the entries of a folder by the time of their runs, such as the commits of a CI, and
//! their lasting changes.

mod outline;
mod sentences;
mod series;
mod sheets;

pub use outline::HistoryOutline;

use super::outline::Outline;
use super::sums::Run;
use crate::output::{Format, OutputArgs, Page, printable};
use crate::profile_folders::inside;
use crate::run_set::{self, command_text};
use crate::sheet::{Answer, Sheet, headed};
use crate::units::{count, count_of, natural_order};
use anyhow::{Context, Result, bail};
use series::Series;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The histories of a folder.
pub struct Histories {
    /// One for each command and number of ranks.
    all: Vec<History>,
    notes: Vec<String>,
}

/// The entries of one command on one number of ranks.
struct History {
    /// By their starts.
    entries: Vec<Entry>,
    series: Vec<Series>,
}

/// A profile or a set of runs.
struct Entry {
    label: String,
    runs: Vec<Run>,
}

impl Entry {
    /// The start of its first run, in a form that sorts by time.
    fn start(&self) -> &str {
        self.runs.iter().map(|run| run.start.as_str()).min().unwrap_or_default()
    }
}

/// A label with the profiles of its entry.
type Named = (String, Vec<PathBuf>);

impl Histories {
    /// Reads a folder of entries. Entries that cannot be read are left out, with a note.
    pub fn read(folder: &Path) -> Result<Self> {
        if folder.join("run.json").exists() {
            bail!("'{}' is one profile, but a history is a folder of entries", folder.display());
        }
        let mut notes = Vec::new();
        let mut named = entries(folder, &mut notes)?;
        let all: Vec<PathBuf> = named.iter().flat_map(|(_, profiles)| profiles.clone()).collect();
        let found = run_set::profiles(&all)?;
        notes.extend(found.note());
        named.iter_mut().for_each(|(_, profiles)| profiles.retain(|path| found.profiles.contains(path)));
        let mut grouped: BTreeMap<(Vec<String>, u64), Vec<Entry>> = BTreeMap::new();
        for (label, profiles) in named {
            for run in profiles.iter().filter_map(|path| read(path, &mut notes)) {
                let entries = grouped.entry((run.command.clone(), run.ranks)).or_default();
                match entries.last_mut().filter(|entry| entry.label == label) {
                    Some(entry) => entry.runs.push(run),
                    None => entries.push(Entry { label: label.clone(), runs: vec![run] }),
                }
            }
        }
        if grouped.is_empty() {
            let why = notes.first().map(|note| format!(": {}", note.trim_end_matches('.')));
            bail!(
                "'{}' has no entry that can be read{}; entries are profiles (NAME.mpisee) and sets of runs \
                 (NAME.runs)",
                folder.display(),
                why.unwrap_or_default()
            );
        }
        // A CI begins with one entry, which may have runs of several commands.
        let mut labels = grouped.values().flatten().map(|entry| &entry.label);
        let first = labels.next();
        let is_begun = grouped.len() == 1 || labels.all(|label| Some(label) == first);
        let (several, single): (Vec<_>, Vec<_>) =
            grouped.into_values().partition(|entries| is_begun || entries.len() > 1);
        if several.is_empty() {
            bail!("{}", nothing_to_compare(folder, &single));
        }
        notes.extend(single.iter().map(|entries| {
            format!("{} is in {} alone, and has no history.", setting(entries), entries[0].label)
        }));
        let mut all: Vec<History> = several.into_iter().map(History::new).collect();
        series::find_steps(&mut all.iter_mut().flat_map(|history| &mut history.series).collect::<Vec<_>>());
        notes.extend(all.iter().flat_map(History::notes));
        Ok(Histories { all, notes })
    }

    /// Limits of all that follows.
    pub fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }

    /// The lasting changes in sentences, the newest first, history by history.
    pub fn text(&self, page: Page) -> String {
        let text = |history: &History| {
            let sentences: String =
                history.sentences().iter().map(|sentence| printable(sentence) + "\n").collect();
            page.bold(&printable(&history.title())) + "\n" + &sentences
        };
        page.wrapped_lines(&self.all.iter().map(text).collect::<Vec<_>>().join("\n"))
    }

    /// The tables for programs: points and changes.
    pub fn sheets(&self) -> [Sheet; 2] {
        [sheets::points(&self.all), sheets::changes(&self.all)]
    }

    /// The runs alone, each with the number of its history.
    pub fn runs(&self) -> Outline {
        let numbered = (1..).zip(&self.all);
        Outline::from_runs(
            numbered.flat_map(|(number, history)| history.runs().map(move |(_, run)| (number, run))),
        )
    }

    /// Writes the answer of `runs --history`.
    pub fn answer(&self, output: &OutputArgs) -> Answer {
        let sheets = match output.format() {
            Format::Table => self.all.iter().map(sheets::table).collect(),
            _ => self.sheets().into(),
        };
        let page = output.page();
        let lead = match output.format() {
            Format::Table => self.text(page),
            _ => String::new(),
        };
        Answer {
            lead,
            sheets,
            titles: Vec::new(),
            values: Vec::new(),
            closing: sheets::closing(),
            next: String::new(),
            caveats: self.notes(),
            cut_off: None,
        }
    }

    /// Names of the programs, each once.
    pub fn program(&self) -> String {
        let mut names: Vec<String> = Vec::new();
        for history in &self.all {
            let command = history.entries[0].runs[0].command.first().map_or("", String::as_str);
            let name =
                Path::new(command).file_name().map_or_else(String::new, |name| name.to_string_lossy().into());
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names.join(", ")
    }
}

/// The entries of the folder by their names.
fn entries(folder: &Path, notes: &mut Vec<String>) -> Result<Vec<Named>> {
    let cannot = || format!("cannot read '{}'", folder.display());
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(cannot)? {
        paths.push(entry.with_context(cannot)?.path());
    }
    paths.sort_by(|one, other| natural_order(&one.to_string_lossy(), &other.to_string_lossy()));
    let mut found: Vec<Named> = Vec::new();
    for path in paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let label = ["mpisee", "runs"].iter().find_map(|ending| name.strip_suffix(ending)?.strip_suffix('.'));
        let profiles = match path.join("run.json").exists() {
            true => Ok(vec![path.clone()]),
            false if path.is_dir() => inside(&path),
            false if label.is_some() => Ok(Vec::new()),
            // Other files, such as a list of commits.
            false => continue,
        };
        match profiles {
            Ok(profiles) if profiles.is_empty() => {
                notes.push(format!("{name} is left out: it has no profile."))
            }
            Ok(profiles) => {
                let label = label.filter(|label| found.iter().all(|(other, _)| other != label));
                found.push((label.unwrap_or(&name).to_owned(), profiles));
            }
            Err(why) => notes.push(format!("{name} is left out: {why}.")),
        }
    }
    if found.is_empty() && notes.is_empty() {
        bail!(
            "'{}' is empty: put profiles (NAME.mpisee) or sets of runs (NAME.runs) into it",
            folder.display()
        );
    }
    Ok(found)
}

/// Reads a run, or says why not.
fn read(path: &Path, notes: &mut Vec<String>) -> Option<Run> {
    let run = Run::read(path);
    run.map_err(|why| notes.push(format!("{} is left out: {why:#}.", path.display()))).ok()
}

/// `./app 256 on 8 ranks`
fn setting(entries: &[Entry]) -> String {
    let run = &entries[0].runs[0];
    format!("{} on {}", command_text(&run.command), count(run.ranks, "rank"))
}

/// The sentence on a folder in which no two entries have one command and number of ranks.
fn nothing_to_compare(folder: &Path, single: &[Vec<Entry>]) -> String {
    let [first, second] = [0, 1].map(|at| format!("{} is {}", single[at][0].label, setting(&single[at])));
    format!("no two entries of '{}' have the same command and ranks: {first}, {second}", folder.display())
}

impl History {
    fn new(mut entries: Vec<Entry>) -> Self {
        entries.sort_by(|one, other| one.start().cmp(other.start()));
        let series = series::collect_series(&entries);
        History { entries, series }
    }

    /// `./app on 4 ranks, 20 entries from a1b2c3d to d4e5f6a`
    fn title(&self) -> String {
        let entries = match &self.entries[..] {
            [first, .., last] => {
                let count = count_of(self.entries.len() as u64, "entry", "entries");
                format!("{count} from {} to {}", first.label, last.label)
            }
            _ => format!("1 entry, {}", self.entries[0].label),
        };
        format!("{}, {entries}", setting(&self.entries))
    }

    /// The runs with the labels of their entries.
    fn runs(&self) -> impl Iterator<Item = (&str, &Run)> {
        self.entries.iter().flat_map(|entry| entry.runs.iter().map(|run| (entry.label.as_str(), run)))
    }

    fn notes(&self) -> Vec<String> {
        let runs: Vec<(&str, &Run)> = self.runs().collect();
        let lacking: Vec<_> =
            runs.iter().filter_map(|(label, run)| Some((label, run.lack.as_ref()?))).collect();
        let of_cores = lacking.first().map(|(label, lack)| {
            let some = count(lacking.len() as u64, "run");
            format!("Ranks waited for cores in {some}, as in {label}: {lack}. Waiting for cores changes all times.")
        });
        let libraries: Vec<_> = self
            .entries
            .windows(2)
            .map(|pair| (&pair[1].label, [0, 1].map(|at| pair[at].runs[0].library.as_str())))
            .filter(|(_, [before, after])| before != after)
            .map(|(label, [before, after])| {
                format!("Since {label}, the MPI library is {after} (before {before}).")
            })
            .collect();
        let mut limits: BTreeMap<&str, Vec<&Run>> = BTreeMap::new();
        for (_, run) in &runs {
            run.limits.iter().for_each(|limit| limits.entry(limit).or_default().push(run));
        }
        let limits = limits.into_iter().map(|(limit, runs)| match runs.len() {
            1 => format!("In {}: {limit}", runs[0].path.display()),
            all => {
                let more = count(all as u64 - 1, "more run");
                format!("In {} and {more}: {limit}", runs[0].path.display())
            }
        });
        let on_nccl = runs.iter().find_map(|(_, run)| run.on_nccl.clone());
        of_cores.into_iter().chain(on_nccl).chain(libraries).chain(limits).collect()
    }
}

/// Notes and sentences for a log.
pub fn log_text(histories: &Histories) -> String {
    let page = Page::default();
    let notes: String = histories.notes.iter().map(|note| headed("Note", &printable(note), page)).collect();
    notes + &histories.text(page)
}

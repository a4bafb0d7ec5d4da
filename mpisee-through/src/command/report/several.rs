//! The contents of a report of several runs: what `diff` says of two sets of them, and `runs` of
//! all.

use super::arguments::arguments;
use super::columns::Table;
use crate::command::diff::{self, DiffArgs};
use crate::command::runs::{Histories, HistoryOutline, Outline, RunSet};
use crate::run_set;
use crate::sheet::Answer;
use crate::view::ProfileView;
use anyhow::{Result, bail};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The profiles of a report, as the command line names them.
#[derive(Clone, Copy, Debug)]
pub struct Named<'a> {
    /// All of them; of two sets the first.
    pub profiles: &'a [PathBuf],
    /// The second set, where `--` divides them.
    pub after: &'a [PathBuf],
}

impl<'a> Named<'a> {
    /// The two sets that are compared, if there are two.
    fn sets(self) -> Option<[&'a [PathBuf]; 2]> {
        match (self.profiles, self.after) {
            ([before, after], []) => Some([std::slice::from_ref(before), std::slice::from_ref(after)]),
            (_, []) => None,
            (before, after) => Some([before, after]),
        }
    }

    fn all(self) -> Vec<PathBuf> {
        self.profiles.iter().chain(self.after).cloned().collect()
    }

    /// The arguments of a command, as they were given.
    fn words(self) -> Vec<String> {
        let text = |path: &PathBuf| path.display().to_string();
        let mut words: Vec<String> = self.profiles.iter().map(text).collect();
        if !self.after.is_empty() {
            words.push("--".to_owned());
            words.extend(self.after.iter().map(text));
        }
        words
    }
}

/// Everything on the page.
#[derive(Serialize)]
pub struct Several {
    generator: String,
    program: String,
    /// The profiles as arguments of `diff`.
    diff_arguments: Vec<String>,
    comparison: Option<Comparison>,
    /// Why there is no comparison of two sets.
    without_comparison: Option<String>,
    /// The histories of a folder of entries.
    history: Option<HistoryOutline>,
    /// The sentences of `runs`: of all, or of each set where both have one command and look like
    /// repetitions of each other.
    groups: Vec<Group>,
    /// Why a chart has nothing, by its name.
    missing: BTreeMap<&'static str, String>,
}

/// The sentences of `runs` of some of the profiles.
#[derive(Serialize)]
struct Group {
    /// `A` or `B`; empty of all.
    name: &'static str,
    /// The profiles as arguments of `runs`.
    arguments: Vec<String>,
    /// Notes on the numbers.
    notes: Vec<String>,
    #[serde(flatten)]
    outline: Outline,
    /// The tables by their names.
    tables: BTreeMap<&'static str, Table>,
}

impl Group {
    fn from_paths(name: &'static str, paths: &[PathBuf]) -> Result<Self> {
        let set = RunSet::read(&run_set::profiles(paths)?)?;
        let found = set.compare()?;
        Ok(Group {
            name,
            arguments: paths.iter().map(|path| path.display().to_string()).collect(),
            notes: found.notes(),
            outline: Outline::from_comparison(&found),
            tables: found.sheets().iter().map(|sheet| (sheet.name, Table::from(sheet))).collect(),
        })
    }
}

/// The rows of `diff`.
#[derive(Serialize)]
struct Comparison {
    /// Both sets: name, runs, command and ranks.
    sets: [String; 2],
    notes: Vec<String>,
    /// True if numbers are per rank, since the sets have different numbers of ranks.
    is_per_rank: bool,
    changes: Table,
    totals: Table,
    /// The rows of `diff --by site` for two runs; nothing of sets of several.
    sites: Option<Table>,
}

impl Several {
    /// Reads the profiles.
    pub fn gather(named: Named<'_>) -> Result<Self> {
        let all = named.all();
        let profiles = run_set::profiles(&all)?;
        if let ([only], None) = (&profiles.profiles[..], named.sets()) {
            if let Some(note) = profiles.note() {
                bail!("this is a report of several runs: {}", note.trim_end_matches('.'));
            }
            bail!(
                "'{}' is one run, and this is a report of several; mpisee-through report {} is that of the run",
                only.display(),
                only.display()
            );
        }
        let mut missing = BTreeMap::new();
        let (comparison, without_comparison) = match named.sets() {
            None => (None, None),
            Some(sets) => match Comparison::from_sets(sets, &mut missing) {
                Ok(comparison) => (Some(comparison), None),
                // Sets that do not repeat one command each are a series, or nothing; what cannot be
                // read is an error below.
                Err(why) => (None, Some(format!("{why}."))),
            },
        };
        let whole = Group::from_paths("", &all)?;
        // Of builds or inputs a profile says nothing: runs of two sets that are compared do not
        // repeat each other.
        let groups = match named.sets() {
            Some([before, after]) if comparison.is_some() && whole.outline.settings() == 1 => {
                vec![Group::from_paths("A", before)?, Group::from_paths("B", after)?]
            }
            _ => vec![whole],
        };
        Ok(Several {
            generator: format!("mpisee-through {}", env!("CARGO_PKG_VERSION")),
            program: programs(&profiles.profiles)?,
            diff_arguments: named.words(),
            comparison,
            without_comparison,
            history: None,
            groups,
            missing,
        })
    }

    /// Makes the page of a history; its runs are one group without sentences of their own.
    pub fn from_history(folder: &Path, histories: &Histories) -> Self {
        let group = Group {
            name: "",
            arguments: vec!["--history".to_owned(), folder.display().to_string()],
            notes: histories.notes(),
            outline: histories.runs(),
            tables: histories.sheets().iter().map(|sheet| (sheet.name, Table::from(sheet))).collect(),
        };
        Several {
            generator: format!("mpisee-through {}", env!("CARGO_PKG_VERSION")),
            program: histories.program(),
            diff_arguments: Vec::new(),
            comparison: None,
            without_comparison: None,
            history: Some(HistoryOutline::new(histories)),
            groups: vec![group],
            missing: BTreeMap::new(),
        }
    }

    /// The names of the programs.
    pub fn program(&self) -> &str {
        &self.program
    }
}

impl Comparison {
    fn from_sets(sets: [&[PathBuf]; 2], missing: &mut BTreeMap<&'static str, String>) -> Result<Self> {
        let args = |options: &[&str]| match sets {
            [[before], [after]] => arguments::<DiffArgs>(options, &[before.clone(), after.clone()], &[]),
            [before, after] => arguments::<DiffArgs>(options, before, after),
        };
        let diff::Comparison { answer, sets: named, is_per_rank, .. } =
            diff::compared(&args(&["--families"])?)?;
        if let Some(error) = answer.cut_off {
            return Err(error.into());
        }
        let counts =
            sets.iter().map(|set| Ok(run_set::profiles(set)?.profiles.len())).collect::<Result<Vec<_>>>()?;
        let sites = match counts[..] {
            [1, 1] => match args(&["--by", "site"]).and_then(|args| diff::by_site(&args)) {
                Ok(Answer { sheets, .. }) => sheets.first().map(Table::from),
                Err(why) => {
                    missing.insert("places", format!("{why}."));
                    None
                }
            },
            _ => None,
        };
        let table = |at: usize| answer.sheets.get(at).map_or_else(Table::default, Table::from);
        Ok(Comparison {
            sets: named,
            notes: answer.caveats.clone(),
            is_per_rank,
            changes: table(0),
            totals: table(1),
            sites,
        })
    }
}

/// The names of the programs, each once.
fn programs(profiles: &[PathBuf]) -> Result<String> {
    let mut names: Vec<String> = Vec::new();
    for profile in profiles {
        let name = ProfileView::open(profile)?.program();
        if !names.contains(&name) {
            names.push(name);
        }
    }
    Ok(names.join(", "))
}

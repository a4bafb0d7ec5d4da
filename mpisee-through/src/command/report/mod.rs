//! `report`: one HTML file with charts and tables of a profile, which needs no network.

mod arguments;
mod calling;
mod cells;
mod columns;
mod comms;
mod data;
mod gpus;
mod nodes;
mod over_time;
mod page;
mod places;
mod several;
mod traffic;
mod waiting;

use super::Outcome;
use super::runs::{Histories, log_text};
use crate::output::{is_stdout, printable, write_file};
use crate::profile_folders;
use crate::view::ProfileView;
use anyhow::{Context, Result, bail};
use clap::Args;
use several::Named;
use std::io::Write;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
EXAMPLES:
  mpisee-through report app.mpisee                 app.html in the current folder
  mpisee-through report app.mpisee -o report.html
  mpisee-through report app.mpisee -o - | ssh host 'cat > report.html'
  mpisee-through report before.runs after.runs     a comparison: before-after.html
  mpisee-through report a.mpisee a-2.mpisee -- b.mpisee b-2.mpisee
  mpisee-through report scaling                    a folder of runs, and how they scale
  mpisee-through report --history history          changes over the commits of a CI: history.html";

/// One HTML file with findings, charts and tables
///
/// The file contains everything and loads nothing from a network. It begins with the findings of
/// advise, each with a link to its chart. Click a communicator to restrict the charts below to it
/// and its descendants. Each chart has its unit, its tables, and the command with the same numbers.
/// The address of the page keeps the choices.
///
/// Several runs show what runs shows. Two paths, or two sets divided by --, show what diff shows,
/// too. A folder stands for its profiles. --history shows what runs --history shows, and prints its
/// sentences. The page needs a browser from 2023 or later. Above 1024
/// ranks, charts have blocks of consecutive ranks. See docs/how-to/report.md for the charts.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[command(
    override_usage = "mpisee-through report [OPTIONS] PROFILE\n       mpisee-through report [OPTIONS] A B\n       \
                      mpisee-through report [OPTIONS] A... [-- B...]\n       \
                      mpisee-through report [OPTIONS] --history DIR"
)]
pub struct ReportArgs {
    /// NAME.mpisee directories, or folders that contain them
    #[arg(required_unless_present = "history", value_name = "PROFILE")]
    profiles: Vec<PathBuf>,

    /// Second set of runs, if the first has several; behind all options
    #[arg(last = true, value_name = "B")]
    after: Vec<PathBuf>,

    /// Show lasting changes over the entries of this folder: NAME.mpisee and NAME.runs
    #[arg(long, value_name = "DIR", conflicts_with_all = ["profiles", "after"])]
    history: Option<PathBuf>,

    /// File to write, - for standard output (default: the profile's name with .html, in the current
    /// folder)
    #[arg(short = 'o', long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// The file name that stands for standard output.
const STDOUT: &str = "-";

/// Runs the command. A table that breaks off is in the report of a run as far as it goes, and an
/// error after that.
pub fn run(args: &ReportArgs) -> Result<Outcome> {
    match (&args.history, &args.profiles[..], &args.after[..]) {
        (Some(folder), ..) => write_history(args, folder),
        (None, [profile], []) if !profile_folders::is_folder(profile) => of_one(args, profile),
        _ => of_several(args),
    }
}

/// The page of a profile, or of several; as far as its tables can be read.
pub fn html(profiles: &[PathBuf]) -> Result<Vec<u8>> {
    match profiles {
        [profile] if !profile_folders::is_folder(profile) => {
            let view = ProfileView::open(profile)?;
            let data = data::Data::gather(&view, profile)?;
            page::page(&data, data.program())
        }
        _ => {
            let data = several::Several::gather(Named { profiles, after: &[] })?;
            page::page(&data, data.program())
        }
    }
}

fn of_one(args: &ReportArgs, profile: &Path) -> Result<Outcome> {
    let view = ProfileView::open(profile)?;
    let data = data::Data::gather(&view, profile)?;
    write(args, &page::page(&data, data.program())?)?;
    match data.cut_off() {
        Some(why) => bail!("the report has only the rows before an error: {why}"),
        None => Ok(Outcome::Done),
    }
}

fn of_several(args: &ReportArgs) -> Result<Outcome> {
    let data = several::Several::gather(Named { profiles: &args.profiles, after: &args.after })?;
    write(args, &page::page(&data, data.program())?)?;
    Ok(Outcome::Done)
}

/// Writes the page, and the sentences to standard output unless the page is there.
fn write_history(args: &ReportArgs, folder: &Path) -> Result<Outcome> {
    let histories = Histories::read(folder)?;
    let data = several::Several::from_history(folder, &histories);
    write(args, &page::page(&data, data.program())?)?;
    if !args.output.as_deref().is_some_and(is_stdout) {
        write_file(Path::new(STDOUT), log_text(&histories).as_bytes())?;
    }
    Ok(Outcome::Done)
}

fn write(args: &ReportArgs, page: &[u8]) -> Result<()> {
    match &args.output {
        Some(file) => write_file(file, page),
        None => {
            let file = match &args.history {
                Some(folder) => PathBuf::from(format!("{}.html", stem(folder)?)),
                None => default_name(&args.profiles, &args.after)?,
            };
            write_file(&file, page)?;
            let place = printable(&file.display().to_string());
            writeln!(std::io::stderr(), "mpisee-through: the report is in {place}")?;
            Ok(())
        }
    }
}

/// The file in the current folder: `app.html` of `app.mpisee`, `app-runs.html` of a folder
/// `app.runs`, `a-b.html` of two paths or sets, `runs.html` of more.
fn default_name(profiles: &[PathBuf], after: &[PathBuf]) -> Result<PathBuf> {
    let name = match (profiles, after) {
        ([only], []) if profile_folders::is_folder(only) => format!("{}-runs", stem(only)?),
        ([only], []) => stem(only)?,
        ([first, second], []) => format!("{}-{}", stem(first)?, stem(second)?),
        (_, []) | ([], _) => "runs".to_owned(),
        ([first, ..], [second, ..]) => format!("{}-{}", stem(first)?, stem(second)?),
    };
    Ok(PathBuf::from(format!("{name}.html")))
}

/// The name of a profile or a folder of them, without its ending.
fn stem(path: &Path) -> Result<String> {
    let whole = path.canonicalize().with_context(|| format!("cannot find '{}'", path.display()))?;
    let stem = whole.file_stem().context("the folder has no name; -o names the file")?;
    Ok(stem.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::default_name;
    use std::path::Path;

    #[test]
    fn the_file_has_the_name_of_what_it_is_of() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for profile in ["app.mpisee", "b.mpisee", "app.runs/app-1.mpisee"] {
            std::fs::create_dir_all(path(profile)).unwrap();
            std::fs::write(path(profile).join("run.json"), "{}").unwrap();
        }
        let [app, other, runs] = ["app.mpisee", "b.mpisee", "app.runs"].map(path);
        let name = |profiles: &[&Path], after: &[&Path]| {
            let owned = |paths: &[&Path]| paths.iter().map(|path| path.to_path_buf()).collect::<Vec<_>>();
            default_name(&owned(profiles), &owned(after)).unwrap()
        };
        assert_eq!(name(&[&app], &[]), Path::new("app.html"));
        assert_eq!(name(&[&runs], &[]), Path::new("app-runs.html"));
        assert_eq!(name(&[&app, &other], &[]), Path::new("app-b.html"));
        assert_eq!(name(&[&app, &app], &[&other]), Path::new("app-b.html"));
        assert_eq!(name(&[&app, &app, &other], &[]), Path::new("runs.html"));
    }
}

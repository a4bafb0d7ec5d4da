//! `report`: one HTML file with charts and tables of a profile, which needs no network.

mod cells;
mod columns;
mod comms;
mod data;
mod evidence;
mod page;
mod places;
mod traffic;
mod waiting;

use super::Outcome;
use crate::view::ProfileView;
use anyhow::{Context, Result, bail};
use clap::Args;
use std::io::Write;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
EXAMPLES:
  mpisee-through report app.mpisee                     app.html in the current folder
  mpisee-through report app.mpisee -o report.html      to this file
  mpisee-through report app.mpisee -o - | ssh host 'cat > report.html'";

/// One HTML file of a profile, to open in a browser or to send: findings, charts and tables of every command.
///
/// The file has everything in it and loads nothing from a network. It opens with the verdict and the findings of advise, each
/// leading to its evidence. A click on a communicator shows the charts below for it and what was made of it. Each chart names
/// its unit, the table of the profile that it is made of, and the command that gives the same numbers; the address of the
/// page holds what is chosen. The numbers are those of the commands.
///
/// Browsers from 2023 on show it. Where there are more than 1024 ranks, charts have blocks of consecutive ranks.
/// docs/report.md describes the charts.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ReportArgs {
    /// The NAME.mpisee directory that the run left
    profile: PathBuf,

    /// Where to write, - for standard output (default: the profile's name with .html, in the current folder)
    #[arg(short = 'o', long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Runs the command. A table that breaks off is in the report as far as it goes, and an error after that.
pub fn run(args: &ReportArgs) -> Result<Outcome> {
    let view = ProfileView::open(&args.profile)?;
    let data = data::Data::gather(&view, &args.profile)?;
    let page = page::page(&data)?;
    match &args.output {
        Some(file) if file.as_os_str() == "-" => {
            let mut stdout = std::io::stdout().lock();
            stdout.write_all(&page).and_then(|()| stdout.flush()).context("cannot write the output")?;
        }
        Some(file) => write(file, &page)?,
        None => {
            let file = default_name(&args.profile)?;
            write(&file, &page)?;
            writeln!(std::io::stderr(), "mpisee-through: the report is in {}", file.display())?;
        }
    }
    match data.cut_off() {
        Some(why) => bail!("the report has only the rows before an error: {why}"),
        None => Ok(Outcome::Done),
    }
}

fn write(file: &Path, page: &[u8]) -> Result<()> {
    std::fs::write(file, page).with_context(|| format!("cannot write '{}'", file.display()))
}

/// The profile's name with the ending of the report, in the current folder.
fn default_name(profile: &Path) -> Result<PathBuf> {
    let whole = profile.canonicalize().with_context(|| format!("cannot find '{}'", profile.display()))?;
    let stem = whole.file_stem().context("the profile's folder has no name; -o names the file")?;
    Ok(Path::new(stem).with_extension("html"))
}

#[cfg(test)]
mod tests {
    use super::default_name;
    use std::path::Path;

    #[test]
    fn the_file_has_the_name_of_the_profile() {
        let folder = tempfile::tempdir().unwrap();
        let profile = folder.path().join("app.mpisee");
        std::fs::create_dir(&profile).unwrap();
        assert_eq!(default_name(&profile).unwrap(), Path::new("app.html"));
    }
}

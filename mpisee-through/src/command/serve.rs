//! `serve`: starts `mpisee-serve`, a program of its own, so that this one has no server in it.

use super::Outcome;
use super::top::parse_interval;
use anyhow::{Context, Result, bail};
use clap::Args;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

const EXAMPLES: &str = "\
EXAMPLES:
  mpisee-through serve                    profiles of the current folder, and jobs of this node
  mpisee-through serve results --listen 127.0.0.1:8080
                                          then, elsewhere: ssh -L 8080:127.0.0.1:8080 HOST
  MPISEE_TOKEN=… mpisee-through serve --listen 10.0.0.1:8080
                                          with a token that agents on other nodes know, too
  MPISEE_TOKEN=… mpisee-through agent --to 10.0.0.1:8080
                                          on each node of a job";

/// A web server for profiles and running jobs
///
/// Prints an address to open in a browser. The address contains a token, and requests without it
/// get nothing. The pages list profiles, open their reports, and compare them. Files outside of the
/// folder are not served.
///
/// Running jobs are those of this node, and those of agents that send to the server. Their pages
/// show where ranks are, who is missing, rates by communicator, and the load of links. Ended jobs
/// stay in a history. See docs/how-to/browser.md for access from other machines.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ServeArgs {
    /// Folder of profiles, up to four levels deep
    #[arg(value_name = "DIR", default_value = ".")]
    pub folder: PathBuf,

    /// Address to listen on; port 0 is any free port
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:0")]
    pub listen: SocketAddr,

    /// Time between readings of running jobs
    #[arg(long, value_name = "TIME", value_parser = parse_interval, default_value = "1s")]
    pub interval: f64,

    /// Number of ended jobs to keep in the history
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000), default_value_t = 1000)]
    pub keep: u32,

    /// File of the history (default: mpisee/history.sqlite in XDG_STATE_HOME, else in
    /// ~/.local/state)
    #[arg(long, value_name = "FILE")]
    pub store: Option<PathBuf>,
}

impl ServeArgs {
    /// The same as words of a command line.
    fn words(&self) -> Vec<OsString> {
        let mut words: Vec<OsString> = vec![
            format!("--listen={}", self.listen).into(),
            format!("--interval={}s", self.interval).into(),
            format!("--keep={}", self.keep).into(),
        ];
        if let Some(store) = &self.store {
            words.extend(["--store".into(), store.into()]);
        }
        words.extend(["--".into(), (&self.folder).into()]);
        words
    }
}

/// Runs the command: this process becomes `mpisee-serve`, which is installed beside it.
pub fn run(args: &ServeArgs) -> Result<Outcome> {
    let own = std::env::current_exe().context("cannot find this program")?;
    let server = own.with_file_name("mpisee-serve");
    let error = Command::new(&server).args(args.words()).exec();
    if error.kind() == ErrorKind::NotFound {
        bail!(
            "there is no '{}', which serves; it was left out of this installation, and 'cargo xtask dist' without --without-serve builds it",
            server.display()
        );
    }
    Err(error).with_context(|| format!("cannot start '{}'", server.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{CommandFactory, Parser};

    #[derive(Parser)]
    #[command(name = "mpisee-through serve", term_width = 120)]
    struct Line {
        #[command(flatten)]
        args: ServeArgs,
    }

    #[test]
    fn the_help_is_as_it_was() {
        insta::with_settings!({
            prepend_module_to_snapshot => false,
            snapshot_path => "../../tests/commands/snapshots",
            omit_expression => true,
        }, { insta::assert_snapshot!("serve_help", Line::command().render_long_help()) });
    }

    #[test]
    fn the_server_gets_what_was_asked_for() {
        let parsed = |words: &[OsString]| {
            let line = std::iter::once(OsString::from("serve")).chain(words.iter().cloned());
            Line::try_parse_from(line).unwrap().args
        };
        let words = ["-x", "--listen", "[::1]:80"].map(OsString::from);
        let asked =
            parsed(&[&words[1..], &["--store".into(), "a b".into(), "--".into(), "-x".into()][..]].concat());
        let again = parsed(&asked.words());
        assert_eq!(format!("{asked:?}"), format!("{again:?}"));
        assert_eq!((again.folder, again.keep), (PathBuf::from("-x"), 1000));
    }
}

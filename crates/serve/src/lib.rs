//! `mpisee-serve`: a local web server with the profiles of a folder, and running jobs, live.
//! `mpisee-through serve` becomes this program.
//!
//! One thread looks at the jobs of this node and joins them with what agents of other nodes sent:
//! `jobs`, with `samples` over time, and the `store` for those that have ended, with the `totals`
//! of their calls. Another one answers: `server` takes connections, bounds them, and checks the
//! `token` of each request; `agents` reads what agents send. `profiles` has the names in the
//! folder, `pages` the reports on them. What is read of segments and profiles is
//! `mpisee_through`'s.

mod agents;
mod answers;
mod jobs;
mod pages;
mod profiles;
mod samples;
mod server;
mod store;
mod token;
mod totals;

use anyhow::{Context, Result};
use clap::Parser;
use jobs::Jobs;
use mpisee_through::library::live::Reader;
use mpisee_through::library::{ServeArgs, printable};
use mpisee_through::signals;
use profiles::Profiles;
use server::Server;
use std::io::Write;
use std::net::TcpListener;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::Store;
use token::Token;

#[derive(Parser)]
#[command(name = "mpisee-serve", version)]
struct Line {
    #[command(flatten)]
    args: ServeArgs,
}

/// The program.
pub fn main() -> ExitCode {
    let line = Line::parse();
    match run(&line.args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("{error:#}"));
            ExitCode::from(2)
        }
    }
}

/// A sentence on stderr.
fn say(text: &str) {
    // Nobody is left to tell if stderr is closed.
    let _ = writeln!(std::io::stderr(), "mpisee-serve: {}", printable(text));
}

/// Serves until a signal comes.
fn run(args: &ServeArgs) -> Result<()> {
    signals::catch();
    let token = Token::new()?;
    let profiles = Profiles::from_folder(&args.folder)?;
    let file = args.store.clone().map_or_else(store::default_file, Ok)?;
    let store = Arc::new(Store::open(&file, args.keep)?);
    let interval = Duration::from_secs_f64(args.interval);
    let jobs = Arc::new(Jobs::new(Arc::clone(&store), interval));
    let cannot = || format!("cannot listen on {}; --listen 127.0.0.1:0 takes any free port", args.listen);
    let listener = TcpListener::bind(args.listen).with_context(cannot)?;
    let address = listener.local_addr().with_context(cannot)?;
    if !address.ip().is_loopback() {
        say(
            "what goes over the network is not encrypted, the token included; docs/how-to/browser.md says how to use SSH or TLS",
        );
    }
    let url = format!("http://{address}/{}/", token.text());
    writeln!(std::io::stdout(), "{url}")
        .and_then(|()| std::io::stdout().flush())
        .context("cannot write the address")?;
    let server = Arc::new(Server::new(token, profiles, store, Arc::clone(&jobs)));
    let answering = std::thread::Builder::new().name("answers".to_owned());
    let answering = answering.spawn(move || server.run(listener)).context("cannot start a thread")?;
    look(&jobs, interval, || answering.is_finished());
    match signals::caught() {
        Some(signal) => {
            signals::die_of(signal);
            Ok(())
        }
        None => answering.join().unwrap_or_else(|_| Err(anyhow::anyhow!("the server has failed"))),
    }
}

/// Looks at this node, and joins what agents sent, until a signal comes or nobody answers any more.
fn look(jobs: &Jobs, interval: Duration, is_over: impl Fn() -> bool) {
    const PATIENCE: Duration = Duration::from_millis(100);
    /// A look takes that part of the time at most.
    const MOST_SHARE: u32 = 20;
    let mut reader =
        Reader::new(None, None).map_err(|why| say(&format!("jobs of this node are not shown: {why:#}"))).ok();
    let mut failed = String::new();
    loop {
        let begin = Instant::now();
        let local = reader.as_mut().and_then(|reader| match reader.look() {
            Ok(look) => Some(look),
            Err(why) => {
                let why = format!("{why:#}");
                if why != failed {
                    say(&format!("jobs of this node are not shown: {why}"));
                    failed = why;
                }
                None
            }
        });
        if catch_unwind(AssertUnwindSafe(|| jobs.update(local))).is_err() {
            say("a look at running jobs has failed, and is left out");
        }
        let due = begin + interval.max(MOST_SHARE * begin.elapsed());
        while Instant::now() < due {
            if signals::caught().is_some() || is_over() {
                jobs.keep_all();
                return;
            }
            std::thread::sleep(due.saturating_duration_since(Instant::now()).min(PATIENCE));
        }
    }
}

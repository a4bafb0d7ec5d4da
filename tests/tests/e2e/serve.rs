//! `mpisee-through serve`: profiles of a folder, what is refused, running jobs, agents, and what a
//! browser shows.

mod agents;
mod browser;
mod clients;
mod jobs;
mod profiles;

use mpisee_tests::place::{Staying, until};
use mpisee_tests::{Mpi, Place, dist};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A token that agents know, too.
const TOKEN: &str = "a-token-of-the-tests";

/// A server that runs.
struct Server {
    _process: Staying,
    address: String,
    /// `/TOKEN/`
    base: String,
}

/// An answer of a server.
struct Answer {
    status: u32,
    head: String,
    body: String,
}

impl Answer {
    /// From what came over a connection.
    fn from_text(text: &[u8]) -> Answer {
        let text = String::from_utf8_lossy(text);
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_default();
        Answer { status, head: head.to_owned(), body: body.to_owned() }
    }
}

impl Server {
    /// `serve` of a folder.
    fn command(folder: &Path, segments: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new(dist().join("bin/mpisee-through"));
        command
            .arg("serve")
            .arg(folder)
            .args(["--interval", "200ms", "--store"])
            .arg(folder.join("history.sqlite"));
        command.args(arguments).env("MPISEE_SEGMENTS", segments).env_remove("MPISEE_TOKEN");
        command
    }

    /// Serves the folder of a place, and the jobs whose segments are there.
    fn start(place: &Place, arguments: &[&str]) -> Server {
        Server::run(&mut Server::command(place.folder(), &place.segments(), arguments))
    }

    /// With the token that agents know.
    fn start_with_token(place: &Place, arguments: &[&str]) -> Server {
        Server::run(Server::command(place.folder(), &place.segments(), arguments).env("MPISEE_TOKEN", TOKEN))
    }

    fn run(command: &mut Command) -> Server {
        command.stdin(Stdio::null()).stderr(Stdio::null()).stdout(Stdio::piped());
        let mut process = Staying(command.spawn().expect("it starts"));
        let mut url = String::new();
        let stdout = process.0.stdout.take().expect("it is a pipe");
        BufReader::new(stdout).read_line(&mut url).expect("it is a pipe");
        let rest = url.trim().strip_prefix("http://").unwrap_or_else(|| panic!("no address: '{url}'"));
        let (address, token) = rest.split_once('/').expect("there is a token");
        Server { _process: process, address: address.to_owned(), base: format!("/{token}") }
    }

    fn url(&self) -> String {
        format!("http://{}{}", self.address, self.base)
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("it is not zero");
        stream
    }

    /// The answer to these bytes, which end a request.
    fn sent(&self, request: &[u8]) -> Answer {
        let mut stream = self.connect();
        let mut answer = Vec::new();
        // A server that refuses may close while more is on its way.
        let _ = stream.write_all(request);
        let _ = stream.read_to_end(&mut answer);
        Answer::from_text(&answer)
    }

    /// The answer at a path below the token, which stays as it is.
    fn get(&self, path: &str) -> Answer {
        self.asked(&format!("{}{path}", self.base))
    }

    /// The answer at a path.
    fn asked(&self, path: &str) -> Answer {
        self.sent(
            format!("GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.address).as_bytes(),
        )
    }

    fn json(&self, path: &str) -> Value {
        let answer = self.get(path);
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        serde_json::from_str(&answer.body).unwrap_or_else(|error| panic!("{path}: {error}: {}", answer.body))
    }

    /// The only running job; null if there is none.
    fn job(&self) -> Value {
        let list = self.json("jobs");
        let jobs = list["jobs"].as_array().expect("a list");
        assert!(jobs.len() <= 1, "{list}");
        jobs.first()
            .map_or(Value::Null, |job| self.json(&format!("job?key={}", job["key"].as_str().expect("a key"))))
    }

    /// The only running job, once this holds for it.
    #[track_caller]
    fn job_that(&self, what: &str, mut holds: impl FnMut(&Value) -> bool) -> Value {
        let mut job = Value::Null;
        until(what, || {
            std::thread::sleep(Duration::from_millis(100));
            job = self.job();
            !job.is_null() && holds(&job)
        });
        job
    }

    /// The only running job, once it has what its ranks counted until they stood still: an agent
    /// looks once a second, and between two looks ranks without a core count nothing, either.
    #[track_caller]
    fn job_that_stands_still(&self) -> Value {
        const TWO_LOOKS: Duration = Duration::from_millis(2500);
        let mut last = None;
        self.job_that("counts stand still", |job| {
            let counts = Some(["W", "W_s1.0", "W_s1.1"].map(|comm| of_comm(job, comm)));
            let is_same = job["brief"]["calls_per_s"] == 0.0 && counts == last;
            if !is_same {
                last = counts;
                std::thread::sleep(TWO_LOOKS);
            }
            is_same
        })
    }

    /// The history, once it has so many jobs.
    #[track_caller]
    fn history(&self, jobs: u64) -> Vec<Value> {
        let mut list = Value::Null;
        until("jobs are in the history", || {
            std::thread::sleep(Duration::from_millis(100));
            list = self.json("history");
            list["count"] == jobs
        });
        list["jobs"].as_array().expect("a list").clone()
    }
}

/// Calls and bytes on a communicator of a running job.
fn of_comm(job: &Value, comm: &str) -> (u64, u64) {
    let rows = job["job"]["communicators"].as_array().expect("a list");
    let row = rows.iter().find(|row| row["comm"] == comm);
    row.map_or((0, 0), |row| {
        (row["calls"].as_u64().expect("a number"), row["bytes"].as_u64().expect("a number"))
    })
}

/// `growing`, which counts until it is told to stand still, and then waits.
struct Growing {
    place: Place,
    launcher: Staying,
    ranks: u32,
}

impl Growing {
    fn start(mpi: &Mpi, place: Place, ranks: u32) -> Growing {
        let launcher = Staying::start(place.command(mpi, ranks).arg(mpi.compile("live/growing")));
        Growing { place, launcher, ranks }
    }

    fn write(&self, file: &str) {
        std::fs::write(self.place.path(file), "").expect("the folder is there");
    }

    /// Until all ranks stand still.
    fn stand_still(&self) {
        self.write("enough");
        mpisee_tests::place::until_arrived(self.place.folder(), self.ranks);
    }

    /// Lets it end, and returns how long that took.
    fn end(&mut self) -> Duration {
        let begin = Instant::now();
        self.write("go");
        assert!(self.launcher.0.wait().expect("it is our child").success());
        begin.elapsed()
    }
}

/// The profile has what the server showed last: calls and bytes of each communicator on which there
/// was anything to count.
#[track_caller]
fn assert_as_in_profile(job: &Value, place: &Place) {
    let tables = place.tables("growing.mpisee");
    for comm in ["W", "W_s1.0", "W_s1.1"] {
        let sum = tables.sum_where(|row| row.comm == comm);
        assert_eq!(of_comm(job, comm), (sum.calls, sum.bytes), "{comm}");
    }
}

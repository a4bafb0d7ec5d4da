//! `mpisee-through top` while programs run: counts, where every rank is, who is missing from a
//! collective, and the screen.

use mpisee_tests::place::{Staying, until, until_arrived};
use mpisee_tests::{LIMIT, Mpi, Place, case, dist, signal, within};
use portable_pty::{CommandBuilder, PtySize, native_pty_system};
use serde_json::Value;
use std::io::{Read, Write};
use std::num::NonZero;
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};

/// A run of `waits` on 4 ranks, which hangs until a file lets it go on.
struct Waiting {
    place: Place,
    launcher: Staying,
}

impl Waiting {
    fn start(mpi: &Mpi, arguments: &[&str]) -> Waiting {
        let place = Place::new();
        let launcher =
            Staying::start(place.command(mpi, 4).arg(mpi.compile("lifecycle/waits")).args(arguments));
        until_arrived(&place.path(""), 4);
        Waiting { place, launcher }
    }

    fn top(&self, which: Option<&str>, arguments: &[&str]) -> Output {
        let often = ["--interval", "100ms", "--hang", "300ms"];
        self.place.through(&[&["top"], which.as_slice(), &often, arguments].concat())
    }

    fn json(&self, which: Option<&str>) -> Value {
        let output = self.top(which, &["--format", "json"]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).expect("it is JSON")
    }

    /// The job once ranks 0 and 1 wait for rank 2.
    fn hung(&self) -> Value {
        let mut found = Value::Null;
        until("the hang is seen", || {
            found = self.json(None);
            found["jobs"][0]["waiting"][0]["inside"] == "0-1"
        });
        found["jobs"][0].take()
    }

    /// Lets it end, and waits for that.
    fn end(&mut self) {
        self.go();
        let status = self.launcher.0.wait().expect("it is our child");
        assert!(status.success());
    }

    fn go(&self) {
        std::fs::write(self.place.path("go"), "").expect("the folder is there");
    }
}

/// Ranks, call and communicator of a place, or a list of such.
fn brief(places: &Value) -> Vec<(String, String)> {
    let places = places.as_array().expect("a list");
    let text = |place: &Value| {
        let call = place["call"].as_str().unwrap_or("-");
        let number = place["number"].as_u64().map_or(String::new(), |number| format!(" {number}"));
        format!("{call} {}{number}", place["comm"].as_str().unwrap_or("-"))
    };
    let mut all: Vec<_> = places
        .iter()
        .map(|place| (place["ranks"].as_str().expect("a text").to_owned(), text(place)))
        .collect();
    all.sort();
    all
}

fn owned(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|&(ranks, place)| (ranks.to_owned(), place.to_owned())).collect()
}

#[case]
fn a_hang_says_who_is_in_and_who_is_missing(mpi: &Mpi) {
    let mut waiting = Waiting::start(mpi, &["1000"]);
    let job = waiting.hung();
    assert_eq!((&job["ranks"], &job["ranks_here"]), (&Value::from(4), &Value::from("0-3")));
    assert!(job["command"][0].as_str().is_some_and(|program| program.ends_with("/waits")), "{job}");
    let places = [("0-1", "MPI_Allreduce W_s1.0 6"), ("2", "MPI_Recv W"), ("3", "- -")];
    assert_eq!(brief(&job["places"]), owned(&places));
    let hangs = job["waiting"].as_array().expect("a list");
    assert_eq!(hangs.len(), 1, "{job}");
    let hang = &hangs[0];
    assert_eq!((hang["call"].as_str(), hang["comm"].as_str()), (Some("MPI_Allreduce"), Some("W_s1.0")));
    assert_eq!((hang["number"].as_u64(), hang["left"].as_str()), (Some(6), Some("")));
    assert_eq!(brief(&hang["missing"]), owned(&[("2", "MPI_Recv W")]));
    assert!(hang["for_s"].as_f64().is_some_and(|seconds| (0.3..60.0).contains(&seconds)), "{hang}");

    let comms = job["communicators"].as_array().expect("a list");
    let of = |name: &str| comms.iter().find(|row| row["comm"] == name).expect("it is there");
    let three = of("W_s1.0");
    assert_eq!((three["calls"].as_u64(), three["bytes"].as_u64()), (Some(15), Some(15 * 1031)));
    assert_eq!((three["size"].as_u64(), three["members_here"].as_u64()), (Some(3), Some(3)));
    assert_eq!(three["label"], "three");
    // Two of four ranks do nothing but wait there, a third waits on the world.
    let share = |row: &Value| row["interval_share_of_time"].as_f64().expect("a number");
    assert!((share(three) - 0.5).abs() < 0.1 && (share(of("W")) - 0.25).abs() < 0.1, "{comms:?}");
    let bytes = of("W_s1.3")["bytes"].as_u64();
    assert_eq!(bytes, Some(5 * 1031));

    let text = String::from_utf8(waiting.top(None, &["--once"]).stdout).expect("it is text");
    let line = text.lines().find(|line| line.starts_with("Waiting ")).expect("there is one");
    assert!(line.contains("MPI_Allreduce on W_s1.0 (call 6), for "), "{text}");
    assert!(line.contains(": in it 0-1; missing 2 (in MPI_Recv from 3 tag 4 on W for "), "{text}");
    assert!(text.lines().any(|line| line.starts_with("rank 3 in no MPI call for ")), "{text}");
    waiting.end();
}

#[case]
fn jobs_are_shown_separately(mpi: &Mpi) {
    let mut one = Waiting::start(mpi, &["1000"]);
    let mut other = Waiting::start(mpi, &["2000"]);
    for path in other.place.left() {
        // The same segments in the other folder: two jobs in one place.
        let copy = one.place.segments().join(path.file_name().expect("it has one"));
        std::fs::copy(&path, copy).expect("it can be read");
    }
    let both = one.json(None);
    let sizes: Vec<_> =
        both["jobs"].as_array().expect("a list").iter().map(|job| &job["command"][1]).collect();
    assert_eq!(sizes, ["1000", "2000"]);
    for job in both["jobs"].as_array().expect("a list") {
        assert_eq!(job["ranks_here"], "0-3");
        let pid = job["processes"][1]["pid"].to_string();
        let chosen = one.json(Some(&pid));
        assert_eq!(chosen["jobs"].as_array().map(Vec::len), Some(1));
        assert_eq!(chosen["jobs"][0]["command"], job["command"]);
    }
    let launched = one.json(Some(&other.launcher.0.id().to_string()));
    assert_eq!(launched["jobs"][0]["command"][1], "2000");
    one.end();
    other.end();
}

#[case]
fn a_job_is_chosen_by_the_name_of_its_profile(mpi: &Mpi) {
    let mut waiting = Waiting::start(mpi, &["1000"]);
    // A folder of that name is no mistake: it may have the sources.
    std::fs::create_dir(waiting.place.path("waits")).expect("the folder is new");
    for name in ["waits", "waits.mpisee"] {
        assert_eq!(waiting.json(Some(name))["jobs"][0]["command"][1], "1000", "{name}");
    }
    for (word, why) in [
        ("wait", "no running job is called 'wait', and there is no directory of that name; "),
        ("4000000001", "there is neither a process 4000000001 nor a running job of that number; "),
    ] {
        let output = waiting.top(Some(word), &["--once"]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.starts_with(&format!("mpisee-through: {why}waits (processes ")), "{said}");
        assert!(said.ends_with(") runs\n"), "{said}");
    }
    waiting.end();
}

#[case]
fn a_rank_that_died_is_shown_as_ended_and_recovered_with_its_place(mpi: &Mpi) {
    let mut waiting = Waiting::start(mpi, &["3000", "dies"]);
    // The launcher ends the others sooner or later; nobody can rely on seeing them in between.
    let _ = waiting.launcher.0.wait();
    waiting.place.wait_for_ranks(&[]);
    let output = waiting.top(None, &["--once"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{said}");
    assert!(said.contains("no program that mpisee records runs here"), "{said}");
    assert!(said.contains("4 segments of processes that ended"), "{said}");
    let said = waiting.place.recover(&["--output", "ended.mpisee"]);
    assert!(said.contains("\n  Ranks 0-1 were in MPI_Allreduce on W_s1.0 (call 6)"), "{said}");
    assert!(said.contains("\n  Ranks 2-3 were in no MPI call\n"), "{said}");
    let profile = waiting.place.tables("ended.mpisee");
    let shown: Vec<_> =
        profile.run.ended_in.iter().map(|place| (place.ranks.as_str(), &place.call)).collect();
    assert_eq!(shown, [("0-1", &Some("MPI_Allreduce".to_owned())), ("2-3", &None)]);
}

#[case]
fn ranks_that_were_killed_in_a_hang_say_for_which_message_they_waited(mpi: &Mpi) {
    let mut waiting = Waiting::start(mpi, &["1000"]);
    let job = waiting.hung();
    for process in job["processes"].as_array().expect("a list") {
        let pid = process["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok()).expect("a number");
        signal::send(signal::SIGKILL, pid);
    }
    let _ = waiting.launcher.0.wait();
    waiting.place.wait_for_ranks(&[]);
    let said = waiting.place.recover(&["--output", "ended.mpisee"]);
    assert!(said.contains("\n  Ranks 0-1 were in MPI_Allreduce on W_s1.0 (call 6)"), "{said}");
    let at = |text: &str| {
        let source = std::fs::read_to_string(mpisee_tests::root().join("tests/programs/lifecycle/waits.c"))
            .expect("it is there");
        let line = source.lines().position(|line| line.contains(text)).expect("the call is there") + 1;
        format!(", called by main at waits.c:{line}")
    };
    let receives = at("MPI_Recv(in");
    assert!(said.contains(&format!("\n  Rank 2 was in MPI_Recv from 3 tag 4 on W{receives}")), "{said}");
    let reduces = at("        MPI_Allreduce(out");
    assert!(said.contains(&format!("on W_s1.0 (call 6){reduces}")), "{said}");
    let profile = waiting.place.tables("ended.mpisee");
    let place = profile.run.ended_in.iter().find(|place| place.ranks == "2").expect("it is there");
    assert_eq!((place.with.as_deref(), place.peer, place.tag), (Some("from 3 tag 4"), Some(3), Some(4)));
}

/// A terminal in which `top` runs.
struct Terminal {
    parser: Arc<Mutex<vt100::Parser>>,
    /// All that was written to it.
    written: Arc<Mutex<Vec<u8>>>,
    keys: Box<dyn Write + Send>,
    child: Box<dyn portable_pty::Child + Send + Sync>,
    _master: Box<dyn portable_pty::MasterPty + Send>,
}

impl Terminal {
    fn open(waiting: &Waiting) -> Terminal {
        const LINES: NonZero<u16> = NonZero::new(24).expect("it is not 0");
        const COLUMNS: NonZero<u16> = NonZero::new(100).expect("it is not 0");
        let pair = native_pty_system()
            .openpty(PtySize { rows: LINES.get(), cols: COLUMNS.get(), pixel_width: 0, pixel_height: 0 })
            .expect("a terminal");
        let mut command = CommandBuilder::new(dist().join("bin/mpisee-through"));
        command.args(["top", "--interval", "100ms", "--hang", "300ms"]);
        command.env("MPISEE_SEGMENTS", waiting.place.segments());
        command.env("TERM", "xterm-256color");
        let child = pair.slave.spawn_command(command).expect("it starts");
        drop(pair.slave);
        let parser = Arc::new(Mutex::new(vt100::Parser::new(LINES, COLUMNS, 0)));
        let written = Arc::new(Mutex::new(Vec::new()));
        let mut reader = pair.master.try_clone_reader().expect("the terminal can be read");
        let (screen, all) = (Arc::clone(&parser), Arc::clone(&written));
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = reader.read(&mut buffer) {
                screen.lock().expect("nobody panics").process(&buffer[..count]);
                all.lock().expect("nobody panics").extend(&buffer[..count]);
            }
        });
        let keys = pair.master.take_writer().expect("the terminal can be written");
        Terminal { parser, written, keys, child, _master: pair.master }
    }

    fn text(&self) -> String {
        self.parser.lock().expect("nobody panics").screen().contents()
    }

    fn is_whole_screen(&self) -> bool {
        self.parser.lock().expect("nobody panics").screen().alternate_screen()
    }

    fn press(&mut self, key: &str) {
        self.keys.write_all(key.as_bytes()).and_then(|()| self.keys.flush()).expect("it reads keys");
    }

    /// Waits until the program has ended; its exit code, and asserts that the terminal is as it
    /// was.
    fn ended(&mut self) -> u32 {
        let mut code = None;
        until("it ends", || {
            code = self.child.try_wait().expect("it is our child").map(|status| status.exit_code());
            code.is_some()
        });
        until("the screen is left", || !self.is_whole_screen());
        let parser = self.parser.lock().expect("nobody panics");
        assert!(!parser.screen().hide_cursor(), "the cursor is there again");
        code.expect("it has ended")
    }
}

#[case]
fn the_screen_shows_the_hang_obeys_keys_and_leaves_the_terminal_as_it_was(mpi: &Mpi) {
    let mut waiting = Waiting::start(mpi, &["1000"]);
    let mut terminal = Terminal::open(&waiting);
    let hang = "in it 0-1; missing 2 (in MPI_Recv from 3 tag 4 on W for ";
    // The line is longer than the screen is wide.
    let joined = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
    until("the hang is on the screen", || joined(terminal.text()).contains(hang));
    assert!(terminal.is_whole_screen());
    let text = terminal.text();
    assert!(text.contains("4 of 4 here: 0-3") && text.contains("q quit"), "{text}");
    terminal.press("p");
    until("it pauses", || terminal.text().contains("PAUSED"));
    terminal.press("n");
    until("communicators are sorted", || {
        let text = terminal.text();
        let at = |start: &str| text.lines().position(|line| line.starts_with(start));
        let places = ["S ", "W ", "W_s1.0 "].map(at);
        places[0].is_some() && places.is_sorted_by(|one, other| one < other)
    });
    terminal.press("q");
    assert_eq!(terminal.ended(), 0);

    // A signal ends it as well, and leaves the terminal in order.
    let mut terminal = Terminal::open(&waiting);
    until("it is on the screen", || terminal.text().contains("q quit"));
    signal::send(signal::SIGTERM, terminal.child.process_id().expect("it runs"));
    assert_ne!(terminal.ended(), 0);

    let mut terminal = Terminal::open(&waiting);
    until("it is on the screen", || terminal.text().contains("q quit"));
    waiting.end();
    assert_eq!(terminal.ended(), 0);
    // Its last words may be in the terminal still.
    let written = || String::from_utf8_lossy(&terminal.written.lock().expect("nobody panics")).into_owned();
    until("it says that the job has ended", || written().ends_with("the job has ended\r\n"));
}

#[case]
fn without_a_job_there_is_one_sentence() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut command = Command::new(dist().join("bin/mpisee-through"));
    let output = within(LIMIT, command.arg("top").arg(folder.path()));
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(said.starts_with("mpisee-through: no program that mpisee records runs here: "), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}

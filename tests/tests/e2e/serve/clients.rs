//! Clients that hang, are many, or send what cannot be.

use super::{Answer, Server, TOKEN};
use mpisee_tests::place::{soon, timed};
use mpisee_tests::{Place, case};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

/// An agent's connection; it sends lines as parts of one request.
struct Played(TcpStream);

impl Played {
    fn connect(server: &Server) -> Played {
        let mut stream = server.connect();
        let head = format!(
            "POST /agent HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\nTransfer-Encoding: chunked\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).expect("it is connected");
        Played(stream)
    }

    fn send(&mut self, message: &Value) -> std::io::Result<()> {
        let line = json!({ "version": 1, "message": message }).to_string() + "\n";
        self.0.write_all(format!("{:x}\r\n{line}\r\n", line.len()).as_bytes())
    }

    /// Ends the request, and waits for the answer.
    fn end(mut self) -> Answer {
        let mut answer = Vec::new();
        let _ = self.0.write_all(b"0\r\n\r\n");
        let _ = self.0.read_to_end(&mut answer);
        Answer::from_text(&answer)
    }
}

/// Ranks of each node.
const RANKS: u32 = 4;

/// A look of a node's agent at a job: `calls` on W so far.
fn look(node: u32, nodes: u32, calls: u64) -> Value {
    let host = format!("n{node}");
    let members = format!("0-{}", RANKS * nodes - 1);
    let rank = |rank: u32| {
        json!({
            "rank": rank, "pid": 1000 + rank, "host": host, "ended": false, "elapsed_s": 2.0, "thread_s": 2.0, "thread_before_s": 1.0,
            "may_act_unseen": false, "is_stopped": false, "is_still": false, "completed": [[0, "MPI_Allreduce", calls]],
            "calls": [{ "call": "MPI_Allreduce", "comm": [0, 0], "number": calls + 1, "with": null, "for_s": 0.5, "stack": [], "outside": 0 }],
            "peers": [], "streams": [], "posted": [],
        })
    };
    let ranks: Vec<Value> = (0..RANKS).map(|at| rank(RANKS * (node - 1) + at)).collect();
    let job = json!({
        "job": 77, "size": RANKS * nodes, "start_realtime_ns": 1_700_000_000_000_000_000_u64, "elapsed_s": 2.0, "elapsed_before_s": 1.0,
        "recording_was_off": false, "command": ["./played"], "library": "none", "flavour": "none", "stack_problems": [],
        "names": ["W"], "ranks": ranks,
        "comms": [{
            "name": 0, "label": "", "size": RANKS * nodes, "members": members, "elided": 0, "here": RANKS, "ambiguous": false, "is_inter": false,
            "now": [calls, 8 * calls, 0.5], "before": [calls / 2, 4 * calls, 0.25],
        }],
    });
    let part = json!({
        "version": 3, "launch": 0, "host": host, "written_ns": 5, "between_ns": { "start": 1, "end": 2 }, "jobs": [job], "skipped": [],
    });
    let load = json!({ "source": "network", "device": "eth0", "quantity": "sent_bytes", "value": 1e6, "limit": 1e9 });
    json!({ "look": { "host": host, "part": part, "loads": [load] } })
}

fn ended(node: u32, calls: u64) -> Value {
    let total =
        json!({ "family": "W", "call": "MPI_Allreduce", "calls": calls, "bytes": 8 * calls, "time_s": 1.5 });
    json!({ "ended": { "host": format!("n{node}"), "job": 77, "totals": [total] } })
}

#[case]
fn a_hundred_agents_are_one_job() {
    const NODES: u32 = 100;
    let place = Place::new();
    let server = Server::start_with_token(&place, &[]);
    let mut agents: Vec<Played> = (0..NODES).map(|_| Played::connect(&server)).collect();
    for calls in [10, 20] {
        for (node, agent) in (1..).zip(&mut agents) {
            agent.send(&look(node, NODES, calls + u64::from(node))).expect("it is connected");
        }
        let expected: u64 = (1..=u64::from(NODES)).map(|node| calls + node).sum();
        let job = server.job_that("all nodes are seen", |job| super::of_comm(job, "W").0 == expected);
        assert_eq!((&job["brief"]["nodes"], &job["brief"]["seen"]), (&100.into(), &400.into()));
        assert_eq!(job["nodes"].as_array().map(Vec::len), Some(100));
        assert_eq!(job["job"]["not_seen"], "");
    }
    // The connection of one is cut and made again; nothing counts twice.
    agents[6] = Played::connect(&server);
    agents[6].send(&look(7, NODES, 1020)).expect("it is connected");
    let expected: u64 = (1..=100).map(|node| 20 + node).sum::<u64>() - 27 + 1020;
    server.job_that("one has more", |job| super::of_comm(job, "W").0 == expected);
    for (node, mut agent) in (1..).zip(agents) {
        agent.send(&ended(node, 50)).expect("it is connected");
        assert_eq!(agent.end().status, 200);
    }
    let history = server.history(1);
    assert_eq!((&history[0]["calls"], &history[0]["bytes"]), (&5000.into(), &40_000.into()), "{history:?}");
    assert_eq!((&history[0]["nodes"], &history[0]["ranks"]), (&100.into(), &400.into()));
    let past = server.json(&format!("job?key={}", history[0]["key"].as_str().expect("a key")));
    assert_eq!((&past["totals"][0]["calls"], &past["totals"][0]["time_s"]), (&5000.into(), &150.0.into()));
}

#[case]
fn ranks_that_leave_one_by_one_are_of_the_same_job() {
    let place = Place::new();
    let server = Server::start_with_token(&place, &[]);
    let mut agent = Played::connect(&server);
    for left in 0..RANKS as usize {
        let mut look = look(1, 1, 100);
        look["look"]["part"]["jobs"][0]["ranks"].as_array_mut().expect("a list").drain(..left);
        agent.send(&look).expect("it is connected");
        // Of which there would be two, were the earlier look of another job.
        server.job_that("the others are seen", |job| job["brief"]["seen"] == RANKS - left as u32);
    }
    agent.send(&ended(1, 50)).expect("it is connected");
    assert_eq!(agent.end().status, 200);
    assert_eq!(server.history(1)[0]["calls"], 50);
}

#[case]
fn clients_that_hang_keep_nobody_waiting() {
    let place = Place::new();
    let server = Server::start_with_token(&place, &[]);
    let begins = [
        "",
        "G",
        "GET / HTTP/1.1\r\n",
        "GET / HTTP/1.1\r\nHost: x\r\n",
        "POST /agent HTTP/1.1\r\nAuthorization: Bear",
    ];
    let mut hanging: Vec<TcpStream> = Vec::new();
    for begin in begins.iter().cycle().take(300) {
        let mut stream = server.connect();
        stream.write_all(begin.as_bytes()).expect("it is connected");
        hanging.push(stream);
    }
    // Those ask for much, and read nothing.
    for _ in 0..50 {
        let mut stream = server.connect();
        for _ in 0..20 {
            let request = format!("GET {}bundle.js HTTP/1.1\r\nHost: x\r\n\r\n", server.base);
            stream.write_all(request.as_bytes()).expect("it is connected");
        }
        hanging.push(stream);
    }
    // An agent that begins a line and says no more.
    let mut agent = Played::connect(&server);
    agent.0.write_all(b"5\r\n{\"ver\r\n").expect("it is connected");
    for _ in 0..20 {
        let answer = soon(Duration::from_secs(1), || timed(|| server.get("jobs")));
        assert_eq!(answer.status, 200);
    }
    // Those without a whole head are closed.
    let begin = Instant::now();
    let mut first = hanging.swap_remove(0);
    let _ = first.read_to_end(&mut Vec::new());
    assert!(begin.elapsed() < Duration::from_secs(15), "{:?}", begin.elapsed());
}

#[case]
fn strangers_make_room_for_those_who_know_the_token() {
    let place = Place::new();
    let own = Server::command(place.folder(), &place.segments(), &[]);
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n 200; exec \"$0\" \"$@\""]).arg(own.get_program()).args(own.get_args());
    command.env("MPISEE_SEGMENTS", place.segments()).env("MPISEE_TOKEN", TOKEN);
    let server = Server::run(&mut command);
    let mut agent = Played::connect(&server);
    agent.send(&look(1, 1, 100)).expect("it is connected");
    server.job_that("the agent is seen", |job| !job.is_null());
    let mut strangers: Vec<TcpStream> = (0..300).map(|_| server.connect()).collect();
    for _ in 0..20 {
        let answer = soon(Duration::from_secs(1), || timed(|| server.get("jobs")));
        assert_eq!(answer.status, 200);
    }
    assert_eq!(strangers[0].read(&mut [0]).expect("it was connected"), 0, "the oldest had to leave");
    agent.send(&ended(1, 51)).expect("it is still connected");
    assert_eq!(agent.end().status, 200);
}

#[case]
fn what_cannot_be_is_refused_and_the_server_goes_on() {
    let place = Place::new();
    let server = Server::start_with_token(&place, &[]);
    let long = format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(100_000));
    let many = format!("GET / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(10_000));
    let requests = [
        "\r\n\r\n",
        "\0\u{1}\u{2}",
        "GET\r\n\r\n",
        "GET / HTTP/9.9\r\n\r\n",
        "\u{16}\u{3}\u{1}\u{2}",
        &long,
        &many,
    ];
    for request in requests {
        let answer = server.sent(request.as_bytes());
        assert!(
            [0, 400, 403, 414, 431].contains(&answer.status),
            "{}: {}",
            &request[..request.len().min(40)],
            answer.status
        );
    }
    let path = format!("GET {} HTTP/1.1\r\nHost: x\r\n\r\n", server.base).replace("GET", "DELETE");
    assert_eq!(server.sent(path.as_bytes()).status, 405);
    for query in [
        "history?from=-1",
        "history?from=99999999999999999999",
        "job?key=%ff%fe",
        "job?key=%00",
        "job?%",
        "jobs?&&&===",
    ] {
        assert_eq!(server.get(query).status, 200, "{query}");
    }
    let mut wrong = look(1, 1, 10);
    wrong["look"]["part"]["jobs"][0]["ranks"][0]["rank"] = json!(4_000_000_000_u32);
    let mut huge = look(1, 1, 10);
    huge["look"]["part"]["jobs"][0]["comms"][0]["here"] = json!(u64::MAX);
    let mut names = look(1, 1, 10);
    names["look"]["part"]["jobs"][0]["comms"][0]["name"] = json!(9);
    for message in [json!({}), json!(null), json!({ "look": {} }), json!({ "other": 1 }), wrong, huge, names]
    {
        let mut agent = Played::connect(&server);
        agent.send(&message).expect("it is connected");
        let answer = agent.end();
        assert_eq!(answer.status, 400, "{message}: {}", answer.body);
        assert!(answer.body.contains("it is not what mpisee-through agent --to sends"), "{}", answer.body);
    }
    assert_eq!(server.json("jobs")["jobs"], json!([]));
}

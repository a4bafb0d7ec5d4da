use super::*;

/// A look of a node at the ranks of a job of 4 that has run for a while, or at none.
fn look(host: &str, ranks: &[u32], elapsed_s: f64) -> Look {
    let rank = |rank: &u32| {
        json!({
            "rank": rank, "pid": 10 + rank, "host": host, "ended": false, "elapsed_s": elapsed_s,
            "thread_s": elapsed_s, "thread_before_s": elapsed_s - 1.0, "may_act_unseen": false, "is_stopped": false, "is_still": false,
            "calls": [], "completed": [], "peers": [], "streams": [], "posted": [],
        })
    };
    let ranks: Vec<Value> = ranks.iter().map(rank).collect();
    let job = json!({
        "job": 7, "size": 4, "start_realtime_ns": 1_700_000_000_000_000_000_u64, "elapsed_s": elapsed_s,
        "elapsed_before_s": elapsed_s - 1.0, "recording_was_off": false, "command": ["./app"], "library": "",
        "flavour": "", "stack_problems": [], "names": [], "comms": [], "ranks": ranks,
    });
    let jobs: Vec<Value> = if ranks.is_empty() { Vec::new() } else { vec![job] };
    let part = json!({
        "version": 3, "launch": 0, "host": host, "written_ns": 0, "between_ns": { "start": 0, "end": 1 },
        "jobs": jobs, "skipped": [],
    });
    serde_json::from_value(json!({ "host": host, "part": part, "loads": [] })).unwrap()
}

/// The only job on its page: the seconds for which it has run, its ranks, and the nodes whose
/// agents are shown.
fn shown(jobs: &Jobs) -> Option<(f64, Value, Vec<String>)> {
    let key = jobs.state().entries.first()?.key.clone();
    let page: Value = serde_json::from_slice(&jobs.page(&key)?).unwrap();
    let nodes = page["nodes"].as_array().unwrap().iter();
    let of_agents = nodes.filter(|node| !node["age_s"].is_null());
    let agents = of_agents.map(|node| node["host"].as_str().unwrap().to_owned()).collect();
    Some((page["job"]["elapsed_s"].as_f64()?, page["job"]["ranks_here"].clone(), agents))
}

/// Moves the last message of a node's agent back in time.
fn silence(jobs: &Jobs, host: &str, seconds: u64) {
    let mut state = jobs.state();
    let source = state.sources.iter_mut().find(|source| source.look.host == host).unwrap();
    source.at -= Duration::from_secs(seconds);
}

#[test]
fn a_job_of_a_silent_agent_on_this_node_is_read_by_the_server() {
    let place = tempfile::tempdir().unwrap();
    let store = Arc::new(Store::open(&place.path().join("h"), 10).unwrap());
    let jobs = Jobs::new(Arc::clone(&store), Duration::from_secs(1));
    assert!(jobs.take(look("n1", &[0, 1], 5.0), 1000) && jobs.take(look("n2", &[2, 3], 5.0), 1000));
    jobs.update(Some(look("n1", &[0, 1], 6.0)));
    let both = || vec!["n1".to_owned(), "n2".to_owned()];
    assert_eq!(shown(&jobs), Some((5.0, "0-3".into(), both())), "the agents' looks");

    silence(&jobs, "n1", 10);
    jobs.update(Some(look("n1", &[0, 1], 16.0)));
    assert_eq!(shown(&jobs), Some((16.0, "0-3".into(), vec!["n2".to_owned()])), "the server's own");

    // Its ranks have ended here, so that the agent's old look is of no use.
    jobs.update(Some(look("n1", &[], 0.0)));
    assert_eq!(shown(&jobs).map(|(_, ranks, _)| ranks), Some("2-3".into()));

    // An agent that goes on is used again.
    assert!(jobs.take(look("n1", &[0, 1], 18.0), 1000));
    jobs.update(Some(look("n1", &[0, 1], 19.0)));
    assert_eq!(shown(&jobs), Some((18.0, "0-3".into(), both())));
}

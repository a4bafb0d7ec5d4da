//! `mpisee-bench tune`: a slow algorithm that is forced by variables is found and undone.

use mpisee_bench::collective::Collective;
use mpisee_bench::tune::selection::{FILE, Selection, Tree};
use mpisee_tests::bench::{TUNED_RANKS as RANKS, Variables, tune};
use mpisee_tests::{Finished, Mpi, Place, Run, case, dist, harness};
use std::collections::BTreeMap;
use std::path::Path;

/// Operations with a planted bad default.
fn operations(mpi: &Mpi) -> [&'static str; 3] {
    // MPICH 4.0 has no variable that makes MPI_Reduce slow and right.
    let third = if mpi.is_open_mpi { "MPI_Reduce" } else { "MPI_Alltoall" };
    ["MPI_Bcast", "MPI_Allreduce", third]
}

const BYTES: &str = "64k";

/// Variables that force slow algorithms: most of them cut messages into tiny pieces.
fn plant(mpi: &Mpi) -> Variables {
    let planted: &[(&str, &str)] = match mpi.is_open_mpi {
        true => &[
            ("OMPI_MCA_coll_tuned_use_dynamic_rules", "1"),
            ("OMPI_MCA_coll_tuned_bcast_algorithm", "3"),
            ("OMPI_MCA_coll_tuned_bcast_algorithm_segmentsize", "64"),
            ("OMPI_MCA_coll_tuned_reduce_algorithm", "3"),
            ("OMPI_MCA_coll_tuned_reduce_algorithm_segmentsize", "64"),
            ("OMPI_MCA_coll_tuned_allreduce_algorithm", "5"),
            ("OMPI_MCA_coll_tuned_allreduce_algorithm_segmentsize", "64"),
        ],
        false => &[
            ("MPIR_CVAR_BCAST_INTRA_ALGORITHM", "nb"),
            ("MPIR_CVAR_IBCAST_INTRA_ALGORITHM", "tsp_tree"),
            ("MPIR_CVAR_IBCAST_TREE_PIPELINE_CHUNK_SIZE", "512"),
            ("MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM", "nb"),
            ("MPIR_CVAR_IALLREDUCE_INTRA_ALGORITHM", "tsp_tree"),
            ("MPIR_CVAR_IALLREDUCE_TREE_PIPELINE_CHUNK_SIZE", "512"),
            ("MPIR_CVAR_ALLTOALL_INTRA_ALGORITHM", "brucks"),
        ],
    };
    planted.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// The time of each operation under variables, the fastest repetition of a run.
fn times(mpi: &Mpi, variables: &Variables) -> BTreeMap<&'static str, f64> {
    let mut times = BTreeMap::new();
    for operation in operations(mpi) {
        let words = format!(
            "collective {operation} --sizes {BYTES} --repetitions 20 --warm-up 1 --least-ms 1 --format csv"
        );
        let run = Run::from_program(mpi, dist().join("bin/mpisee-bench")).ranks(RANKS);
        let run = words.split_whitespace().fold(run, Run::argument);
        let run = variables.iter().fold(run, |run, (name, value)| run.variable(name, value));
        let text = run.plain().stdout;
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
        let column = lines[0].iter().position(|&head| head == "min_s").expect("there is the column");
        times.insert(operation, lines[1][column].parse().expect("it is a number"));
    }
    times
}

/// The variables in a file of `export NAME='VALUE'`.
fn exported(file: &Path) -> Variables {
    let text = std::fs::read_to_string(file).expect("tune has written it");
    let lines = text.lines().map(|line| line.strip_prefix("export ").expect("each line sets a variable"));
    let pairs = lines.map(|line| line.split_once('=').expect("a name and a value"));
    pairs.map(|(name, value)| (name.to_owned(), value.trim_matches('\'').to_owned())).collect()
}

/// At least nine tenths of what the planted algorithms lose come back, on each of three operations.
#[case]
fn a_planted_bad_default_is_undone(mpi: &Mpi) {
    if !mpi.library().with_file_name("mpisee-bench").exists() {
        return;
    }
    let place = Place::new();
    let pattern = place.path("three.pattern");
    // Each on a communicator of its own.
    let step = |operation: &str| format!("step\n  {operation} on 0..p : n\n");
    std::fs::write(&pattern, operations(mpi).map(step).concat()).unwrap();
    let words = format!("run {} --sizes {BYTES} --repetitions 20 --least-ms 5", pattern.display());
    let pattern_run = || {
        let run = Run::from_program(mpi, dist().join("bin/mpisee-bench")).ranks(RANKS);
        words.split_whitespace().fold(run, Run::argument)
    };
    let profiled = pattern_run().profiled();
    let planted = plant(mpi);
    let profile = profiled.directory().display().to_string();
    let said = tune(
        &place,
        mpi,
        &[&profile, "--rounds", "6", "--share", "99", "--format", "json", "-o", "t"],
        &[],
        &planted,
    );
    let errors = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(said.status.success(), "{errors}");
    let found: serde_json::Value = serde_json::from_slice(&said.stdout).expect("it is JSON");
    for operation in operations(mpi) {
        let choices = found["choices"].as_array().expect("a list");
        let it = choices.iter().find(|it| it["call"] == operation).expect("it is tuned");
        if !it["better"].is_string() || it["difference"]["high"].as_f64() >= Some(0.0) {
            if is_noise(&it["tried"]) {
                return harness::leave_out(format!("times varied by more than themselves: {it}"));
            }
            return leave_out_without_cores(&pattern_run().profiled(), &it.to_string());
        }
    }
    let mut tuned = planted.clone();
    tuned.extend(exported(&place.path("t.env")));
    let settings = [Variables::new(), planted, tuned];
    let mut least = [(); 3].map(|()| BTreeMap::<&str, f64>::new());
    // The part of the planted loss that comes back; the least times of more rounds are nearer to
    // those of a machine without other work.
    let parts = |least: &[BTreeMap<&str, f64>; 3]| {
        operations(mpi).map(|operation| {
            let [none_s, planted_s, tuned_s] = least.each_ref().map(|it| it[operation]);
            let back = (planted_s - tuned_s) / (planted_s - none_s);
            (planted_s > 1.5 * none_s && back >= 0.9, format!("{operation}: {none_s} {planted_s} {tuned_s}"))
        })
    };
    for round in 1.. {
        for (least, variables) in least.iter_mut().zip(&settings) {
            for (operation, time_s) in times(mpi, variables) {
                let of = least.entry(operation).or_insert(f64::INFINITY);
                *of = of.min(time_s);
            }
        }
        let parts = parts(&least);
        if round >= 3 && parts.iter().all(|(is_back, _)| *is_back) {
            return mpisee_tests::note!("{}, {round} rounds: {parts:?}", mpi.name);
        }
        assert!(round < MOST_ROUNDS, "{parts:?}");
    }
}

/// Rounds of times without, with a planted and with a tuned algorithm, at most.
const MOST_ROUNDS: u32 = 12;

/// Others use the cores, if the program's ranks wait for one for more than this part of the time.
const MOST_WITHOUT_CORE: f64 = 0.1;

/// True if the interval of each choice is wider than the time itself: others used the cores then,
/// whether or not they do now.
fn is_noise(tried: &serde_json::Value) -> bool {
    let width = |choice: &serde_json::Value| {
        let end = |name: &str| choice["difference"][name].as_f64();
        Some(end("high")? - end("low")?)
    };
    // A choice that fails has none.
    let widths: Vec<f64> = tried.as_array().expect("a list").iter().filter_map(width).collect();
    !widths.is_empty() && widths.iter().all(|width| *width > 1.0)
}

/// Leaves the case out if ranks lacked cores in a run that was made now; else it fails, and says
/// what was found.
fn leave_out_without_cores(now: &Finished, found: &str) {
    let without_core = now.share_without_core();
    assert!(without_core > MOST_WITHOUT_CORE, "{found}, {without_core} of the time without a core");
    harness::leave_out(format!("ranks had no core for {without_core} of the time"));
}

/// The program itself is measured without and with what was found, in turn: what a planted
/// algorithm loses comes back, and is said as a difference with its interval.
#[case]
fn a_program_gets_back_what_a_planted_default_loses(mpi: &Mpi) {
    if !mpi.library().with_file_name("mpisee-bench").exists() {
        return;
    }
    let words = ["2097152", "80"];
    // It copies the blocks several times, which takes as much longer on cores that others use, too.
    let planted: &[(&str, &str)] = match mpi.is_open_mpi {
        true => {
            &[("OMPI_MCA_coll_tuned_use_dynamic_rules", "1"), ("OMPI_MCA_coll_tuned_alltoall_algorithm", "3")]
        }
        false => &[("MPIR_CVAR_ALLTOALL_INTRA_ALGORITHM", "brucks")],
    };
    let planted: Variables =
        planted.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
    let run = words.into_iter().fold(Run::new(mpi, "replay/exchanges").ranks(RANKS), Run::argument);
    let profiled = planted.iter().fold(run, |run, (name, value)| run.variable(name, value)).profiled();
    let profile = profiled.directory().display().to_string();
    let launcher = mpi.launcher(RANKS, &[]);
    let program = mpi.compile("replay/exchanges");
    // MPICH binds no ranks by itself: two that share a core wait for each other's turns.
    let bound: &[&str] = if mpi.is_open_mpi { &[] } else { &["-bind-to", "core"] };
    let all = std::iter::once(launcher.get_program())
        .chain(bound.iter().map(std::ffi::OsStr::new))
        .chain(launcher.get_args());
    let command: Vec<String> = all
        .map(|word| word.to_string_lossy().into_owned())
        .chain([program.display().to_string()])
        .chain(words.map(str::to_owned))
        .collect();
    let command = command.join(" ");
    let options = ["--rounds", "6", "--share", "99", "--program", &command, "--pairs", "8", "-o", "t"];
    // Where others use the cores the interval may include no difference, and the answer says so.
    const TRIES: usize = 3;
    let answer = || {
        let place = Place::new();
        let said = tune(&place, mpi, &[&[&*profile][..], &options].concat(), bound, &planted);
        let [text, errors] = [&said.stdout, &said.stderr].map(|it| String::from_utf8_lossy(it).into_owned());
        assert!(said.status.success(), "{errors}");
        mpisee_tests::note!(
            "{}: {:?}",
            mpi.name,
            text.lines().find(|line| line.starts_with("The program: "))
        );
        (place, text)
    };
    let is_certain = |(_, text): &(Place, String)| {
        text.lines().any(|line| line.starts_with("The program: ")) && !text.contains("may be no difference")
    };
    let mut answers = std::iter::repeat_with(answer).take(TRIES);
    let Some((place, text)) = answers.find(is_certain) else {
        let run = words.into_iter().fold(Run::new(mpi, "replay/exchanges").ranks(RANKS), Run::argument);
        return leave_out_without_cores(&run.profiled(), "no difference");
    };
    let line = text.lines().find(|line| line.starts_with("The program: ")).expect(&text);
    // The program: 1.20 s without, 0.512 s with them: -57.3 % [-61.4, -53.2] (95 % of 8 pairs of
    // runs).
    let (_, figures) = line.split_once("with them: ").expect(line);
    let (figures, confidence) = figures.split_once(" (").expect(line);
    assert_eq!(confidence, "95 % of 8 pairs of runs).");
    let (median, interval) = figures.split_once(" % [").expect(line);
    let (low, high) = interval.trim_end_matches(']').split_once(", ").expect(line);
    let [median, low, high] = [median, low, high].map(|it| it.parse::<f64>().expect(line));
    assert!(low <= median && median <= high && high < 0.0, "{line}");
    // All that was found is written, and nothing else: the environment of the second run of each
    // pair.
    assert!(!exported(&place.path("t.env")).is_empty());
    assert!(text.contains("Use them with: . "), "{text}");
}

/// The tree by which this MPICH selects algorithms, as a run for `tune` reports it.
fn own_selection(mpi: &Mpi, place: &Place) -> Tree {
    let [task, report] = ["task.json", "report.json"].map(|name| place.path(name));
    let asked = serde_json::json!({
        "ranks": RANKS, "items": [], "variables": [FILE], "files": [], "wants_selection": true,
    });
    std::fs::write(&task, asked.to_string()).unwrap();
    let run = Run::from_program(mpi, dist().join("bin/mpisee-bench")).ranks(RANKS).argument("trial");
    run.argument(task.display()).argument(report.display()).plain();
    let found: serde_json::Value = serde_json::from_slice(&std::fs::read(&report).unwrap()).unwrap();
    assert!(found["variables"].as_array().unwrap().iter().any(|it| it["name"] == FILE), "{found}");
    Tree::parse(found["selection"].as_str().expect("MPICH has one built in")).expect("it is a tree")
}

/// The fastest of an `MPI_Alltoall` of 64 KiB, 256 KiB and 1 MiB to each rank.
fn exchanges(mpi: &Mpi, file: &str) -> Vec<f64> {
    let words =
        "collective alltoall --sizes 64k,256k,1M --repetitions 60 --warm-up 1 --least-ms 1 --format csv";
    let run = Run::from_program(mpi, dist().join("bin/mpisee-bench")).ranks(RANKS).variable(FILE, file);
    let text = words.split_whitespace().fold(run, Run::argument).plain().stdout;
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
    let column = lines[0].iter().position(|&head| head == "min_s").expect("there is the column");
    lines[1..].iter().map(|line| line[column].parse().expect("it is a number")).collect()
}

/// MPICH takes an algorithm from a selection file for the sizes that the file says, and for no
/// others.
#[case]
fn a_selection_of_mpich_holds_for_its_sizes(mpi: &Mpi) {
    if mpi.is_open_mpi || !mpi.library().with_file_name("mpisee-bench").exists() {
        return;
    }
    let place = Place::new();
    let own = own_selection(mpi, &place);
    // On two ranks it copies all blocks three times, where others copy them once.
    let algorithm = "MPIR_Alltoall_intra_brucks".to_owned();
    assert!(own.algorithms(Collective::Alltoall).contains(&algorithm), "{own:?}");
    // In all, a block to each of two ranks.
    let bytes = [512 << 10, (1 << 20) - 1];
    let slow = Selection { collective: Collective::Alltoall, members: vec![RANKS], bytes, algorithm };
    let files = [own.clone(), own.selecting(&[slow])].map(|tree| tree.text());
    let mut least = [(); 2].map(|()| vec![f64::INFINITY; 3]);
    for round in 0..5 {
        for (number, text) in files.iter().enumerate() {
            let file = place.path(&format!("{number}.json"));
            std::fs::write(&file, text).unwrap();
            let found = exchanges(mpi, &file.display().to_string());
            least[number].iter_mut().zip(&found).for_each(|(least, found)| *least = least.min(*found));
        }
        mpisee_tests::note!("{}: round {round}: {least:?}", mpi.name);
    }
    let [without, with] = least;
    let is_slower = with[1] > 1.5 * without[1];
    if !is_slower || with[0] > 1.3 * without[0] || with[2] > 1.3 * without[2] {
        let run = Run::new(mpi, "replay/exchanges").ranks(RANKS).argument(262_144).argument(80);
        leave_out_without_cores(&run.profiled(), &format!("{without:?} {with:?}"));
    }
}

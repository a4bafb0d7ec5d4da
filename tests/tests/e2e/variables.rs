//! MPI's own variables (`--mpi-t`), beside what a program reads of them itself by `MPI_T`.

use mpisee_profile::Profile;
use mpisee_profile::rows::VariableRow;
use mpisee_profile::run::ControlInfo;
use mpisee_profile::segment::NotSeen;
use mpisee_tests::{Finished, LIMIT, Mpi, Run, case, dist, through, within};
use std::process::Command;

/// Reductions of `variables/read.c` in its region.
const REDUCTIONS: f64 = 5.0;

/// The program that reads a performance and a control variable. On Open MPI, variables that count
/// are there with its monitoring.
fn read<'m>(mpi: &'m Mpi, performance: &str) -> Run<'m> {
    let control =
        if mpi.is_open_mpi { "mpool_hugepage_priority" } else { "MPIR_CVAR_ALLREDUCE_SHORT_MSG_SIZE" };
    let performance = if mpi.is_open_mpi { performance } else { "-" };
    Run::new(mpi, "variables/read")
        .ranks(2)
        .argument(performance)
        .argument(control)
        .variable("OMPI_MCA_pml", "^cm,ucx")
        .variable("OMPI_MCA_pml_monitoring_enable", "1")
        .variable("OMPI_MCA_mpool_hugepage_priority", "51")
        .variable("MPIR_CVAR_ALLREDUCE_SHORT_MSG_SIZE", "4096")
}

/// The number after a word of a line.
fn after(line: &str, word: &str) -> f64 {
    let mut words = line.split(' ').skip_while(|&it| it != word);
    words
        .nth(1)
        .and_then(|number| number.parse().ok())
        .unwrap_or_else(|| panic!("no number after {word}: {line}"))
}

fn rows(finished: &Finished) -> Vec<VariableRow> {
    let profile = Profile::open(finished.directory()).expect("there is a profile");
    profile.rows_if_any().and_then(Iterator::collect).expect("its rows can be read")
}

fn sorted(stdout: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = stdout.lines().collect();
    lines.sort_unstable();
    lines
}

#[case]
fn variables_are_those_that_the_program_reads(mpi: &Mpi) {
    for (variable, grows, expected) in
        [("coll_monitoring_a2a_count", true, REDUCTIONS), ("pml_ob1_posted_recvq_length", false, 3.0)]
    {
        let plain = read(mpi, variable).plain();
        let finished = read(mpi, variable).options(&["--mpi-t", variable]).profiled();
        assert_eq!(sorted(&finished.stdout), sorted(&plain.stdout), "the program sees the same");
        finished.check();
        let rows = rows(&finished);
        if !mpi.is_open_mpi {
            let run = &finished.tables().run;
            assert!(rows.is_empty(), "MPICH has no performance variable: {rows:?}");
            assert!(run.notes.iter().any(|note| note.contains("--mpi-t list")), "{:?}", run.notes);
            continue;
        }
        for rank in 0..2 {
            let line = finished.stdout.lines().find(|line| line.starts_with(&format!("rank {rank} ")));
            let line = line.expect("each rank prints");
            let seen = after(line, "after") - after(line, "before");
            assert_eq!(seen, expected, "{line}");
            let row = rows.iter().find(|row| row.rank == rank && row.region == "posted");
            let row = row.unwrap_or_else(|| panic!("no row of rank {rank}: {rows:?}"));
            assert_eq!((row.name.as_str(), row.readings), (variable, 1));
            assert_eq!(if grows { row.delta } else { row.most }, Some(expected), "{row:?}");
            assert_eq!((row.delta.is_some(), row.most.is_some()), (grows, !grows));
        }
    }
}

#[case]
fn sums_over_ranks_have_what_the_rows_of_ranks_have(mpi: &Mpi) {
    let table = |finished: &Finished, more: &[&str]| {
        let directory = finished.directory().display().to_string();
        through(&[&["variables", directory.as_str(), "--format", "csv"], more].concat())
    };
    if !mpi.is_open_mpi {
        return; // MPICH has no performance variable.
    }
    let run = |fold: &str| {
        let count = "coll_monitoring_a2a_count";
        let run = read(mpi, count).variable("MPISEE_MPI_T", count).variable("MPISEE_FOLD", fold);
        run.preloaded_to("test.mpisee")
    };
    let [by_rank, sums] = ["2", "1"].map(run);
    assert!(sums.directory().join("variable-totals.csv").exists());
    let [expected, found] = [&by_rank, &sums].map(|finished| table(finished, &[]));
    let text = |output: &std::process::Output| String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text(&expected).contains(",posted,2,10"), "{}", text(&expected));
    assert_eq!(text(&found), text(&expected));
    let each = table(&sums, &["--each"]);
    assert!(!each.status.success() && each.stdout.is_empty());
    sums.check();
}

#[case]
fn control_variables_that_are_set_are_in_the_profile(mpi: &Mpi) {
    let finished = read(mpi, "-").options(&["--mpi-t", "*"]).argument("-").profiled();
    let control = &finished.tables().run.mpi.control;
    let info = |name: &str, value: &str, set_by: &str| ControlInfo {
        name: name.to_owned(),
        value: value.to_owned(),
        set_by: set_by.to_owned(),
    };
    let expected = if mpi.is_open_mpi {
        vec![info("mpool_hugepage_priority", "51", "environment")]
    } else {
        vec![
            info("MPIR_CVAR_ALLREDUCE_SHORT_MSG_SIZE", "4096", "environment"),
            info("MPIR_CVAR_ALLREDUCE_SHORT_MSG_SIZE", "4097", "program"),
        ]
    };
    for info in expected {
        assert!(control.contains(&info), "{info:?} is not in {control:?}");
    }
    assert!(control.iter().all(|info| !info.name.starts_with("orte_")), "{control:?}");
    // All names are chosen: strings, and variables of windows, have no number.
    assert_eq!(finished.tables().not_seen(NotSeen::UnreadVariable) > 0, mpi.is_open_mpi);
    assert_eq!(rows(&finished).iter().any(|row| row.name == "pml_ob1_posted_recvq_length"), mpi.is_open_mpi);
}

#[case]
fn mpi_is_not_asked_without_the_option(mpi: &Mpi) {
    let arguments = ["-shared", "-fPIC", "-ldl"];
    let tells = mpi.compile_with("variables/tells", &arguments).display().to_string();
    let run = || Run::new(mpi, "regions/regions").ranks(2).variable("LD_PRELOAD", &tells);
    let said = |finished: &Finished| finished.stderr.matches("PMPI_T_init_thread was called").count();
    assert_eq!(said(&run().profiled()), 0);
    assert_eq!(said(&run().options(&["--mpi-t", "none"]).profiled()), 2);
}

/// Open MPI offers variables of components that it has closed, and whose memory is gone: where the
/// user selects components, and where the program has initialised MPI_T before MPI.
#[case]
fn variables_of_closed_components_are_not_read(mpi: &Mpi) {
    const COMPONENTS: [[&str; 2]; 3] = [["coll", "tuned,libnbc,basic"], ["osc", "rdma"], ["pml", "ob1"]];
    for [framework, components] in COMPONENTS {
        let variable = format!("OMPI_MCA_{framework}");
        let run = Run::new(mpi, "lifecycle/nothing").ranks(2).variable(&variable, components);
        let finished = run.options(&["--mpi-t", "*"]).profiled();
        finished.check();
    }
    for (selected, pattern) in [(None, "*"), (None, "nothing_*"), (Some("ob1"), "*")] {
        let early = || Run::new(mpi, "variables/early").ranks(2);
        let early = || selected.into_iter().fold(early(), |run, list| run.variable("OMPI_MCA_pml", list));
        let finished = early().options(&["--mpi-t", pattern]).profiled();
        assert_eq!(sorted(&finished.stdout), sorted(&early().plain().stdout));
        finished.check();
    }
}

#[case]
fn variables_of_an_mpi_are_listed(mpi: &Mpi) {
    let mut command = Command::new(dist().join("bin/mpisee"));
    command.args(["--flavour", &mpi.name, "--mpi-t", "list"]);
    let output = within(LIMIT, &mut command);
    let (listed, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}");
    let one = if mpi.is_open_mpi {
        "mpool_hugepage_bytes_allocated "
    } else {
        "MPIR_CVAR_ALLREDUCE_SHORT_MSG_SIZE "
    };
    assert!(listed.lines().any(|line| line.starts_with(one)), "{listed}");
    assert!(listed.contains(&format!("{}, before MPI_Init", mpi.name)), "{listed}");
    let is_marked =
        listed.contains("  if pml_monitoring_enable=1  ") || !listed.contains("coll_monitoring_a2a");
    assert!(is_marked, "{listed}");
}

#[case]
fn variables_are_shown_over_ranks(mpi: &Mpi) {
    let variable = "coll_monitoring_a2a_count";
    let finished = read(mpi, variable).options(&["--mpi-t", variable, "--collect", "tree"]).profiled();
    let shown = through(&["variables", &finished.directory().display().to_string(), "--format", "csv"]);
    let text = String::from_utf8_lossy(&shown.stdout);
    assert!(shown.status.success(), "{}", String::from_utf8_lossy(&shown.stderr));
    let row = format!("{variable},counter,posted,2,{},{REDUCTIONS},", 2.0 * REDUCTIONS);
    assert_eq!(text.contains(&row), mpi.is_open_mpi, "{text}");
    let table = through(&["variables", &finished.directory().display().to_string()]).stdout;
    let table = String::from_utf8_lossy(&table).into_owned();
    if !mpi.is_open_mpi {
        assert!(table.contains("MPIR_CVAR_ALLREDUCE_SHORT_MSG_SIZE"), "{table}");
        assert!(table.contains("this MPI has no performance variable"), "{table}");
    }
}

#[case]
fn patterns_that_choose_nothing_are_named_once(mpi: &Mpi) {
    // Open MPI has the second where it is switched on.
    let options = ["--mpi-t", "nosuch,coll_monitoring_*"];
    let plain = Run::new(mpi, "regions/regions").ranks(2).plain();
    let finished = Run::new(mpi, "regions/regions").ranks(2).options(&options).profiled();
    assert_eq!(sorted(&finished.stdout), sorted(&plain.stdout));
    let said = if mpi.is_open_mpi {
        "has a name that --mpi-t 'nosuch,coll_monitoring_*' chooses"
    } else {
        "no performance variable, so --mpi-t 'nosuch,coll_monitoring_*' reads none"
    };
    assert_eq!(finished.stderr.matches(said).count(), 1, "{}", finished.stderr);
    assert!(finished.tables().run.notes.iter().any(|note| note.contains(said)));
}

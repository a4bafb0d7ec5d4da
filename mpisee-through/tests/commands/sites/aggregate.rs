//! Places and paths of a profile with sums over ranks.

use crate::support::{Written, solver};
use mpisee_profile::rows::{
    CallRow, Memory, NodeRow, OffsetRow, PathRow, PathTotalRow, Ranks, RegionTotalRow, Row, Seconds,
    SiteTotalRow, SpreadRow, TotalRow,
};
use mpisee_profile::writer::to_csv;

/// The sum over ranks, and what the rank with most has, with its number.
fn sum_and_most(times: &[(u32, f64)]) -> (f64, (u32, f64)) {
    let most = times.iter().copied().max_by(|(_, one), (_, other)| one.total_cmp(other)).unwrap();
    (times.iter().map(|(_, time_s)| time_s).sum(), most)
}

fn total(rows: &[&CallRow]) -> TotalRow {
    let times: Vec<(u32, f64)> = rows.iter().map(|row| (row.rank, row.time_s.0)).collect();
    let (time_s, (time_max_rank, most_s)) = sum_and_most(&times);
    let first = rows[0];
    let longest_s = rows.iter().map(|row| row.max_s.0).fold(0.0, f64::max);
    TotalRow {
        comm: first.comm.clone(),
        region: String::new(),
        call: first.call.clone(),
        size_min: first.size_min,
        size_max: first.size_max,
        memory: Memory::Host,
        site: first.site,
        ranks: rows.len() as u64,
        calls: rows.iter().map(|row| row.calls).sum(),
        bytes: rows.iter().map(|row| row.bytes).sum(),
        time_s: Seconds(time_s),
        time_min_s: first.time_s,
        time_min_rank: first.rank,
        time_max_s: Seconds(most_s),
        time_max_rank,
        time_deviation_s: Seconds(0.0),
        min_s: Seconds(0.0),
        max_s: Seconds(longest_s),
    }
}

fn path_total(rows: &[&PathRow]) -> PathTotalRow {
    let times: Vec<(u32, f64)> = rows.iter().map(|row| (row.rank, row.time_s.0)).collect();
    let (time_s, (time_max_rank, most_s)) = sum_and_most(&times);
    PathTotalRow {
        path: rows[0].path,
        comm: rows[0].comm.clone(),
        call: rows[0].call.clone(),
        ranks: rows.len() as u64,
        calls: rows.iter().map(|row| row.calls).sum(),
        time_s: Seconds(time_s),
        time_max_s: Seconds(most_s),
        time_max_rank,
    }
}

/// The sums of a site's operation, over communicators.
fn site_total(rows: &[&CallRow]) -> Option<SiteTotalRow> {
    let of_ranks = grouped(rows, |row| row.rank);
    let times: Vec<(u32, f64)> =
        of_ranks.iter().map(|rows| (rows[0].rank, rows.iter().map(|row| row.time_s.0).sum())).collect();
    let (time_s, (time_max_rank, most_s)) = sum_and_most(&times);
    Some(SiteTotalRow {
        site: rows[0].site?,
        call: rows[0].call.clone(),
        ranks: times.len() as u64,
        calls: rows.iter().map(|row| row.calls).sum(),
        time_s: Seconds(time_s),
        time_min_s: Seconds(times.iter().map(|(_, time_s)| *time_s).fold(f64::INFINITY, f64::min)),
        time_max_s: Seconds(most_s),
        time_max_rank,
    })
}

/// Rows that are alike, together.
fn grouped<R, K: PartialEq>(rows: &[R], key: impl Fn(&R) -> K) -> Vec<Vec<&R>> {
    let mut groups: Vec<(K, Vec<&R>)> = Vec::new();
    for row in rows {
        match groups.iter_mut().find(|(known, _)| *known == key(row)) {
            Some((_, group)) => group.push(row),
            None => groups.push((key(row), vec![row])),
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}

fn add<R: Row>(profile: &Written, rows: &[R]) {
    let text = [R::columns().join(",").as_bytes(), b"\n", &to_csv(rows)].concat();
    std::fs::write(profile.directory.join(R::FILE), text).unwrap();
}

/// The solver's profile with sums over its ranks.
fn aggregate() -> Written {
    let profile = solver().with(|profile| profile.run.is_aggregate = true);
    let written = profile.write();
    let calls = grouped(&profile.calls, |row| (row.comm.clone(), row.call.clone(), row.site));
    let paths = grouped(&profile.paths, |row| (row.comm.clone(), row.call.clone(), row.path));
    let mpi_s: Vec<f64> = profile.ranks.iter().map(|row| row.mpi_s.0).collect();
    let ranks: Ranks = Ranks::Listed("0-3".parse().unwrap());
    add(
        &written,
        &[NodeRow {
            host: "node0".to_owned(),
            members: ranks,
            ranks: 4,
            wall_s: Seconds(40.0),
            wall_min_s: Seconds(10.0),
            wall_max_s: Seconds(10.0),
            wall_max_rank: 0,
            mpi_s: Seconds(mpi_s.iter().sum()),
            mpi_min_s: Seconds(mpi_s[0]),
            mpi_min_rank: 0,
            mpi_max_s: Seconds(mpi_s[3]),
            mpi_max_rank: 3,
            useful_s: Seconds(40.0 - mpi_s.iter().sum::<f64>()),
            useful_max_s: Seconds(10.0 - mpi_s[0]),
            profiler_s: Seconds(0.0),
            cpu_s: None,
            cpu_wait_s: None,
            cpu_wait_max_s: None,
            cpu_wait_max_rank: None,
            cpus_allowed: Default::default(),
            node_cpus: None,
            cpu_quota: None,
            mpi_threads: None,
            mpi_thread_s: None,
        }],
    );
    add(&written, &calls.iter().map(|rows| total(rows)).collect::<Vec<_>>());
    add(&written, &paths.iter().map(|rows| path_total(rows)).collect::<Vec<_>>());
    let by_site = grouped(&profile.calls, |row| (row.call.clone(), row.site));
    add(&written, &by_site.iter().filter_map(|rows| site_total(rows)).collect::<Vec<_>>());
    add::<SpreadRow>(&written, &[]);
    add::<OffsetRow>(&written, &[]);
    add::<RegionTotalRow>(&written, &[]);
    for file in ["calls.csv", "paths.csv", "ranks.csv"] {
        std::fs::remove_file(written.directory.join(file)).unwrap();
    }
    written
}

#[test]
fn places_and_paths_are_those_of_all_ranks() {
    let profile = aggregate();
    profile.run(&["sites", "app.mpisee"]).golden("sites-aggregate");
    let [of_sums, of_ranks] = [&profile, &solver().write()].map(|it| it.run(&["paths", "app.mpisee"]));
    assert_eq!(of_sums.exits(0).stdout, of_ranks.exits(0).stdout);
    let folded = |profile: &Written| {
        profile.run(&["paths", "app.mpisee", "--folded", "app.folded"]).exits(0);
        std::fs::read_to_string(profile.beside().join("app.folded")).unwrap()
    };
    assert_eq!(folded(&profile), folded(&solver().write()));
    profile.run(&["sites", "app.mpisee", "--ranks", "0"]).fails_with(&["has sums over ranks"]);
    profile.run(&["paths", "app.mpisee", "--ranks", "0"]).fails_with(&["has sums over ranks"]);
}

#[test]
fn sites_and_paths_are_checked() {
    let profile = aggregate();
    let ran = profile.run(&["check", "app.mpisee", "--all"]);
    assert!(!ran.stdout.contains("rows: "), "{}", ran.stdout);
    let site = solver().calls[0].site.unwrap();
    profile.replace("sites.csv", &site.to_string(), "0000000000ab");
    let ran = profile.run(&["check", "app.mpisee", "--all"]);
    let said = format!(
        "rows: site {site} has calls of MPI_Waitall on W_s1.0 in totals.csv and is not in sites.csv."
    );
    assert!(ran.exits(1).stdout.contains(&said), "{}", ran.stdout);
}

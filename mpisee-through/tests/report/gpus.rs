//! Calls of NCCL in the report: their time is no time in MPI.

use super::{at, data_of, index, list, page_of, rows_of};
use crate::support::Written;
use crate::support::gpus::beside_nccl;
use crate::support::time_line::TimeLine;
use serde_json::{Value, json};

/// A profile with calls of NCCL beside those of MPI, and a time line of it.
pub fn with_time_line() -> Written {
    let profile = beside_nccl().write();
    let mut line = TimeLine::new(10, 2);
    for second in 0..4 {
        line.rate(second, "W", "MPI_Allreduce", 16, 0.5);
        line.rate(second, "N1-5e1c09tz", "ncclAllReduce", 1 << 19, 1.5);
    }
    line.write(&profile);
    profile
}

#[test]
fn calls_of_nccl_are_told_from_those_of_mpi() {
    let data = data_of(&page_of(&with_time_line()));
    let calls: Vec<&Value> = list(&data["calls"]).iter().collect();
    let is_nccl = |name: &str| calls.iter().find(|call| call[0] == name).map(|call| &call[2]);
    assert_eq!(
        [is_nccl("ncclAllReduce"), is_nccl("MPI_Allreduce")],
        [Some(&true.into()), Some(&false.into())]
    );
    for comm in list(&data["comms"]) {
        assert_eq!(comm["is_nccl"], comm["name"].as_str().unwrap().starts_with('N'), "{comm}");
    }
    for family in list(&data["over_time"]["families"]) {
        assert_eq!(family["is_nccl"], family["name"].as_str().unwrap().starts_with('N'), "{family}");
    }
    assert_eq!(data["run"]["mpi_s"], 2.0);
    let ranks = rows_of(&data["tables"]["ranks"]);
    assert_eq!((&ranks[0]["mpi_s"], &ranks[0]["nccl_s"]), (&json!(1.0), &json!(3.0)));
    let regions = rows_of(&data["tables"]["regions"]);
    assert_eq!((&regions[0]["mpi_mean_s"], &regions[0]["nccl_mean_s"]), (&json!(1.0), &json!(3.0)));
    let shares = |table: &Value| -> Vec<(Value, Value)> {
        rows_of(table).into_iter().map(|row| (row["call"].clone(), row["share_of_mpi"].clone())).collect()
    };
    let of_calls = [(json!("ncclAllReduce"), Value::Null), (json!("MPI_Allreduce"), json!(1.0))];
    assert_eq!(shares(&data["sites"]["table"]), of_calls);
    let of_paths = [(json!("ncclAllReduce"), Value::Null), (json!("MPI_Allreduce"), json!(0.5))];
    assert_eq!(shares(&data["paths"]["table"]), of_paths);
    let phase = &rows_of(&data["over_time"]["phases"])[0];
    assert_eq!((&phase["mpi_share"], &phase["name"]), (&json!(0.25), &json!("ncclAllReduce on N1-5e1c09tz")));
    let times = &data["rank_times"];
    assert_eq!(list(&times["call"]).len(), 4, "both operations of each rank");
    let row = (0..4).find(|&row| calls[index(at(times, "call", row))][0] == "ncclAllReduce").unwrap();
    assert_eq!(times["time_s"][row], 3.0);
}

#[test]
fn processes_without_mpi_have_no_efficiency() {
    let profile = beside_nccl().with(|profile| profile.run.mpi.library = "none".to_owned()).write();
    let data = data_of(&page_of(&profile));
    assert!(data["tables"]["efficiency"].is_null());
    assert!(data["missing"]["efficiency"].as_str().unwrap().contains("processes without MPI"));
}

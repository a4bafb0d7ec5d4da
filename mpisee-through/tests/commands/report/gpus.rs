//! GPUs in the report: the lists of `gpu`; and calls of NCCL, whose time is no time in MPI.

use super::{at, data_of, full, index, json_of, list, page_of, rows_of};
use crate::support::gpus::{A, B, beside_nccl, nccl_alone, two_gpus};
use crate::support::time_line::TimeLine;
use crate::support::{Written, golden};
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

/// [`two_gpus`] of a run that counted neither copies nor accesses of kernels.
pub fn without_copies_and_kernels() -> Written {
    let profile = two_gpus();
    for file in ["copies.csv", "staged.csv", "gpu.csv"] {
        std::fs::remove_file(profile.directory.join(file)).unwrap();
    }
    profile
}

/// The same with UUIDs that differ in the last digits alone.
pub fn with_like_uuids() -> Written {
    let profile = without_copies_and_kernels();
    for file in std::fs::read_dir(&profile.directory).unwrap().map(|file| file.unwrap().path()) {
        let text = std::fs::read_to_string(&file).unwrap();
        let text = text.replace(A, "GPU-00000000-0000-0000-0000-000000000001");
        std::fs::write(&file, text.replace(B, "GPU-00000000-0000-0000-0000-000000000002")).unwrap();
    }
    profile
}

/// The section, with a line for each column.
fn lines_of(gpus: &Value) -> String {
    let mut text = format!("names {}\n", gpus["names"]);
    for of in list(&gpus["lists"]) {
        text += &format!("\n{}: {}\n", of["name"].as_str().unwrap(), of["title"].as_str().unwrap());
        let (names, columns) = (list(&of["table"]["names"]), list(&of["table"]["columns"]));
        for (name, values) in names.iter().zip(columns) {
            text += &format!("{} {values}\n", name.as_str().unwrap());
        }
    }
    for note in list(&gpus["notes"]) {
        text += &format!("\n{}", note.as_str().unwrap());
    }
    text
}

#[test]
fn lists_are_those_of_the_command() {
    let profile = two_gpus();
    let data = data_of(&page_of(&profile));
    let page = json_of(&profile, &["gpu"]);
    let lists = list(&data["gpus"]["lists"]);
    let names: Vec<&str> = lists.iter().map(|of| of["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["ways", "devices", "links", "buffers", "copies", "staged", "nccl", "gpu"]);
    for (name, of) in names.into_iter().zip(lists) {
        assert_eq!(rows_of(&of["table"]), *list(&page[name]), "{name}");
    }
    assert_eq!(data["gpus"]["names"], json!({ A: "GPU-0aaaaaaa", B: "GPU-0bbbbbbb" }));
    golden("report-gpus", &lines_of(&data["gpus"]));
}

#[test]
fn ways_that_were_not_counted_have_no_numbers() {
    let data = data_of(&page_of(&without_copies_and_kernels()));
    let ways = rows_of(&data["gpus"]["lists"][0]["table"]);
    assert_eq!((&ways[0]["mpi_bytes"], &ways[0]["nccl_bytes"]), (&json!(1000), &json!(211)));
    assert!(
        ways.iter().all(|row| row["copied_bytes"].is_null() && row["kernel_bytes"].is_null()),
        "{ways:?}"
    );
}

#[test]
fn a_profile_without_gpus_has_no_section_of_them() {
    let data = data_of(&page_of(&full().write()));
    assert!(data["gpus"].is_null() && data["missing"]["gpus"].is_null());
}

#[test]
fn sums_over_ranks_have_what_they_have_of_gpus() {
    let profile = super::page::sums_over_ranks();
    let totals = "memory,offset_min,offset_max,peer_device,kernel,source,launched,object,access,width,count,accesses,bytes,bytes_min,bytes_max,bytes_max_rank,sampled,error\n\
                  ipc,1,1,another,halo,stencil.cu:41,,ghost cells,store,8,4,640,5120,1,2,3,1,0.0\n";
    std::fs::write(profile.directory.join("gpu-totals.csv"), totals).unwrap();
    let data = data_of(&page_of(&profile));
    let lists = list(&data["gpus"]["lists"]);
    assert_eq!((lists.len(), &lists[0]["name"]), (1, &json!("gpu")));
    assert_eq!(rows_of(&lists[0]["table"]), *list(&json_of(&profile, &["gpu"])["gpu"]));
    assert_eq!(data["gpus"]["notes"], json!(["Sums over ranks do not have what moved between which GPUs."]));
}

#[test]
fn a_list_that_cannot_be_read_is_said_to_be_missing() {
    let profile = two_gpus();
    std::fs::write(profile.directory.join("copies.csv"), "rank\nx\n").unwrap();
    let data = data_of(&page_of(&profile));
    let why = data["missing"]["gpus"].as_str().unwrap();
    assert!(data["gpus"].is_null() && why.contains("copies.csv"), "{why}");
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
    assert!(data["missing"]["efficiency"].as_str().unwrap().contains("processes ran without MPI"));
}

#[test]
fn processes_without_mpi_have_no_messages_of_it() {
    let data = data_of(&page_of(&nccl_alone().write()));
    for part in ["messages", "collectives", "offsets"] {
        assert!(data[part].is_null(), "{part}: {}", data[part]);
    }
    let data = data_of(&page_of(&beside_nccl().write()));
    assert!(data["messages"].is_object() && data["collectives"].is_object());
}

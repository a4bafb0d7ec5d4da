//! `mpisee-through comms`: the tree of communicators.

mod support;

use support::{Builder, splatt};

#[test]
fn the_tree_shows_descent_and_members() {
    let profile = splatt().write();
    profile.run(&["comms", "app.mpisee"]).prints(
        "\
COMM             CREATED BY            SIZE  PROCS        NODES  LABEL  TOPOLOGY                   REORDER  FREED
W                                         8  0-7              2                                             no
├─ W_a1          MPI_Cart_create          8  0-7              2         cart dims=4x2 periods=1x0  yes      no
│  ├─ W_a1_s2.0  MPI_Comm_split           4  0, 2, 4, 6       2  rows                                       yes
│  └─ W_a1_s2.1  MPI_Comm_split           4  1, 3, 5, 7       2                                             no
└─ W_x2          MPI_Intercomm_create     8  0-3 | 4-7        2                                             no
S                                         1  each of 0-7      1                                             no
",
    );
}

#[test]
fn many_siblings_stay_readable() {
    let mut builder = Builder::new(24);
    for rank in 0..24 {
        let comm = format!("W_s1.{rank}");
        builder = builder.comm(&comm, "W", "MPI_Comm_split", &rank.to_string(), |_| {}).comm(
            &format!("{comm}_d1"),
            &comm,
            "MPI_Comm_dup",
            &rank.to_string(),
            |_| {},
        );
    }
    let profile = builder.write();
    profile.run(&["comms", "app.mpisee", "--top", "2"]).prints(
        "\
COMM                       CREATED BY      SIZE  PROCS  NODES  FREED
W                                            24  0-23       1  no
├─ W_s1.0                  MPI_Comm_split     1  0          1  no
│  └─ W_s1.0_d1            MPI_Comm_dup       1  0          1  no
├─ W_s1.1                  MPI_Comm_split     1  1          1  no
│  └─ W_s1.1_d1            MPI_Comm_dup       1  1          1  no
└─ … 22 more and 22 below

Some communicators are left out; --all shows all, --top N the first N children of each.
",
    );
    let lines = |arguments: &[&str]| profile.run(arguments).exits(0).stdout.lines().count();
    assert_eq!(lines(&["comms", "app.mpisee"]), 1 + 1 + 2 * 10 + 1 + 2);
    assert_eq!(lines(&["comms", "app.mpisee", "--all"]), 1 + 49);
    assert_eq!(lines(&["comms", "app.mpisee", "--output", "csv"]), 1 + 49);
    assert_eq!(lines(&["comms", "app.mpisee", "--output", "csv", "--top", "2"]), 1 + 5);
}

#[test]
fn what_matches_is_shown_with_its_ancestors() {
    let profile = splatt().write();
    let expected = "\
COMM             CREATED BY       SIZE  PROCS       NODES  LABEL  TOPOLOGY                   REORDER  FREED
W                                    8  0-7             2                                             no
└─ W_a1          MPI_Cart_create     8  0-7             2         cart dims=4x2 periods=1x0  yes      no
   └─ W_a1_s2.0  MPI_Comm_split      4  0, 2, 4, 6      2  rows                                       yes
";
    profile.run(&["comms", "app.mpisee", "--comm", "*_s2.0"]).prints(expected);
    profile.run(&["comms", "app.mpisee", "--comm", "rows"]).prints(expected);
    profile.run(&["comms", "app.mpisee", "--comm", "*_s2.?", "--ranks", "2"]).prints(expected);
    profile.run(&["comms", "app.mpisee", "--comm", "X"]).prints("No communicator matches the filters.\n");
}

#[test]
fn csv_has_the_columns_of_the_profile() {
    let profile = splatt().write();
    profile.run(&["comms", "app.mpisee", "--output", "csv", "--comm", "W_?[12]", "--comm", "W_??"]).prints(
        "\
comm,parent,created_by,size,members,label,topology,reorder,nodes,freed
W_a1,W,MPI_Cart_create,8,0-7,,cart dims=4x2 periods=1x0,1,2,0
W_x2,W,MPI_Intercomm_create,8,0-3|4-7,,,,2,0
",
    );
}

#[test]
fn json_tells_what_is_absent() {
    let profile = splatt().write();
    let ran = profile.run(&["comms", "app.mpisee", "--output", "json"]);
    let document: serde_json::Value = serde_json::from_str(&ran.exits(0).stdout).unwrap();
    let expected = serde_json::json!([
        {"comm": "W", "parent": null, "created_by": null, "size": 8, "members": "0-7", "label": "",
         "topology": "", "reorder": null, "nodes": 2, "freed": false},
        {"comm": "W_a1", "parent": "W", "created_by": "MPI_Cart_create", "size": 8, "members": "0-7",
         "label": "", "topology": "cart dims=4x2 periods=1x0", "reorder": true, "nodes": 2, "freed": false},
        {"comm": "W_a1_s2.0", "parent": "W_a1", "created_by": "MPI_Comm_split", "size": 4,
         "members": "0,2,4,6", "label": "rows", "topology": "", "reorder": null, "nodes": 2, "freed": true},
    ]);
    let first: Vec<_> = document["communicators"].as_array().unwrap()[..3].to_vec();
    assert_eq!(serde_json::Value::from(first), expected);
    assert_eq!(document["communicators_left_out"], 0);
}

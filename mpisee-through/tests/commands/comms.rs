//! `mpisee-through comms`: the tree of communicators.

use crate::support::{Builder, splatt};

#[test]
fn the_tree_shows_descent_and_members() {
    let profile = splatt().write();
    profile.run(&["comms", "app.mpisee"]).golden("comms-the_tree_shows_descent_and_members");
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
    profile
        .run(&["comms", "app.mpisee", "--top", "2", "--unfold"])
        .golden("comms-many_siblings_stay_readable");
    let lines = |arguments: &[&str]| profile.run(arguments).exits(0).stdout.lines().count();
    assert_eq!(lines(&["comms", "app.mpisee", "--unfold"]), 1 + 1 + 2 * 10 + 1 + 2);
    assert_eq!(lines(&["comms", "app.mpisee", "--all", "--unfold"]), 1 + 49);
    profile.run(&["comms", "app.mpisee"]).golden("comms-many_siblings_stay_readable-2");
    assert_eq!(lines(&["comms", "app.mpisee", "--format", "csv"]), 1 + 49);
    assert_eq!(lines(&["comms", "app.mpisee", "--format", "csv", "--top", "2"]), 1 + 5);
}

#[test]
fn matches_are_shown_with_their_ancestors() {
    let profile = splatt().write();
    profile
        .run(&["comms", "app.mpisee", "--comm", "*_s2.0"])
        .golden("comms-matches_are_shown_with_their_ancestors");
    profile
        .run(&["comms", "app.mpisee", "--comm", "rows"])
        .golden("comms-matches_are_shown_with_their_ancestors-2");
    profile
        .run(&["comms", "app.mpisee", "--comm", "*_s2.?", "--ranks", "2"])
        .golden("comms-matches_are_shown_with_their_ancestors-3");
    let words = ["no communicator matches --comm X; the profile has W, W_a1, W_x2, W_a1_s2.0"];
    profile.run(&["comms", "app.mpisee", "--comm", "X"]).fails_with(&words);
}

#[test]
fn csv_has_the_columns_of_the_profile() {
    let profile = splatt().write();
    profile.run(&["comms", "app.mpisee", "--format", "csv", "--comm", "W_?[12]", "--comm", "W_??"]).prints(
        "\
comm,parent,created_by,size,count,members,label,topology,reorder,nodes,freed,between,shape
W_a1,W,MPI_Cart_create,8,1,0-7,,cart dims=4x2 periods=1x0,1,2,0,,all of parent
W_x2,W,MPI_Intercomm_create,8,1,0-3|4-7,,,,2,0,,between groups
",
    );
}

#[test]
fn json_tells_what_is_absent() {
    let profile = splatt().write();
    let ran = profile.run(&["comms", "app.mpisee", "--format", "json"]);
    let document: serde_json::Value = serde_json::from_str(&ran.exits(0).stdout).unwrap();
    let expected = serde_json::json!([
        {"comm": "W", "parent": null, "created_by": null, "size": 8, "count": 1, "members": "0-7", "label": "",
         "topology": "", "reorder": null, "nodes": 2, "freed": false, "between": null, "shape": null},
        {"comm": "W_a1", "parent": "W", "created_by": "MPI_Cart_create", "size": 8, "count": 1, "members": "0-7",
         "label": "", "topology": "cart dims=4x2 periods=1x0", "reorder": true, "nodes": 2, "freed": false, "between": null,
         "shape": "all of parent"},
        {"comm": "W_a1_s2.0", "parent": "W_a1", "created_by": "MPI_Comm_split", "size": 4, "count": 1,
         "members": "0,2,4,6", "label": "rows", "topology": "", "reorder": null, "nodes": 2, "freed": true, "between": null,
         "shape": "column of 4x2"},
    ]);
    let first: Vec<_> = document["communicators"].as_array().unwrap()[..3].to_vec();
    assert_eq!(serde_json::Value::from(first), expected);
    assert_eq!(document["communicators_left_out"], 0);
}

/// 32 ranks on 4 nodes in a grid of 4 x 8, with what programs make of one.
fn grid() -> Builder {
    let mut builder = Builder::new(32)
        .with(|profile| {
            profile.run.nodes = 4;
            profile.comms[0].nodes = 4;
            for row in &mut profile.ranks {
                row.host = format!("node{}", row.rank / 8);
            }
        })
        .comm("S", "", "", "0-31", |_| {})
        .comm("W_d1", "W", "MPI_Comm_dup", "0-31", |row| row.nodes = 4)
        .comm("W_s4.0", "W", "MPI_Comm_split", "0,8,16,24", |row| row.nodes = 4)
        .comm("W_s5.1", "W", "MPI_Comm_split", "1,5", |row| row.label = "odd\tone".to_owned());
    for row in 0..4 {
        let members = format!("{}-{}", 8 * row, 8 * row + 7);
        let comm = format!("W_s2.{}", 8 * row);
        builder = builder
            .comm(&comm, "W", "MPI_Comm_split", &members, |it| it.label = format!("row {row}"))
            .comm(&format!("{comm}_d1"), &comm, "MPI_Comm_dup", &members, |it| it.freed = u8::from(row == 2));
    }
    for column in 0..8 {
        let members = format!("{column},{},{},{}", column + 8, column + 16, column + 24);
        let comm = format!("W_s3.{column}");
        builder = builder.comm(&comm, "W", "MPI_Comm_split", &members, |row| {
            row.nodes = 4;
            row.freed = 1;
        });
    }
    builder
}

#[test]
fn like_communicators_are_one_line() {
    let profile = grid().write();
    profile.run(&["comms", "app.mpisee"]).golden("comms-like_communicators_are_one_line");
    profile
        .run(&["comms", "app.mpisee", "--comm", "W_s3*", "--ranks", "0-4"])
        .golden("comms-like_communicators_are_one_line-2");
    let unfolded = profile.run(&["comms", "app.mpisee", "--unfold", "--all"]).exits(0).stdout.lines().count();
    assert_eq!(unfolded, 1 + 1 + 1 + 3 + 8 + 8);
}

#[test]
fn self_is_shown_where_something_happened_on_it() {
    let note = "S (MPI_COMM_SELF) is left out: nothing happened on it; --all shows it.";
    let has_self = |builder: &Builder, arguments: &[&str]| {
        let ran = builder.write().run(&[&["comms", "app.mpisee"], arguments].concat());
        let has_self = ran.exits(0).stdout.lines().any(|line| line.starts_with("S  "));
        assert_eq!(ran.stdout.contains(note), !has_self, "{}", ran.stdout);
        has_self
    };
    let unused = Builder::new(4).comm("S", "", "", "0-3", |_| {});
    assert!(!has_self(&unused, &[]));
    assert!(has_self(&unused, &["--all"]) && has_self(&unused, &["--comm", "S"]));
    assert!(has_self(
        &Builder::new(4).comm("S", "", "", "0-3", |_| {}).call("S", 1, "MPI_Send", 1, 0, 0.5),
        &[]
    ));
    let parent =
        Builder::new(4).comm("S", "", "", "0-3", |_| {}).comm("S_d1", "S", "MPI_Comm_dup", "0-3", |_| {});
    assert!(has_self(&parent, &[]));
    let csv = unused.write().run(&["comms", "app.mpisee", "--format", "csv"]);
    assert!(csv.exits(0).stdout.contains("\nS,"), "{}", csv.stdout);
}

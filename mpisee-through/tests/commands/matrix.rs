//! `mpisee-through matrix`: who sends to whom.

use crate::report::data_of;
use crate::support::Builder;
use mpisee_profile::rows::PeerRow;
use proptest::prelude::*;
use serde_json::json;
use std::collections::BTreeMap;

/// Six ranks on three nodes: a ring, a heavy pair, and messages of no bytes on a communicator of
/// two.
fn ring() -> Builder {
    let mut builder = Builder::new(6)
        .with(|profile| {
            for row in &mut profile.ranks {
                row.host = format!("n{}", row.rank / 2);
            }
        })
        .comm("W_s1.4", "W", "MPI_Comm_split", "4-5", |_| {});
    for rank in 0..6 {
        builder = builder.messages("W", rank, (rank + 1) % 6, 10, 1000);
    }
    builder.messages("W", 0, 3, 1, 4000).messages("W_s1.4", 5, 4, 7, 0)
}

#[test]
fn the_grid_is_shaded_by_bytes() {
    let profile = ring().write();
    profile.run(&["matrix", "app.mpisee", "--top", "2"]).golden("matrix-the_grid_is_shaded_by_bytes");
    profile
        .run(&["matrix", "app.mpisee", "--of", "messages", "--top", "1"])
        .golden("matrix-the_grid_is_shaded_by_bytes-2");
}

#[test]
fn fields_are_nodes_or_blocks_of_ranks_too() {
    let profile = ring().write();
    profile
        .run(&["matrix", "app.mpisee", "--by", "node"])
        .golden("matrix-fields_are_nodes_or_blocks_of_ranks_too");
    profile
        .run(&["matrix", "app.mpisee", "--fields", "2"])
        .golden("matrix-fields_are_nodes_or_blocks_of_ranks_too-2");
}

#[test]
fn chosen_communicators_and_ranks_make_the_axes() {
    let profile = ring().write();
    profile
        .run(&["matrix", "app.mpisee", "--comm", "W_s1.4"])
        .golden("matrix-chosen_communicators_and_ranks_make_the_axes");
    let csv = ["matrix", "app.mpisee", "--ranks", "0-2", "--format", "csv"];
    profile.run(&csv).golden("matrix-chosen_communicators_and_ranks_make_the_axes-2");
    profile.run(&["matrix", "app.mpisee", "--ranks", "4"]).prints("No messages between these ranks.\n");
}

#[test]
fn a_picture_has_a_square_for_each_field() {
    let profile = ring().write();
    profile.run(&["matrix", "app.mpisee", "--image", "a.png"]).prints("");
    let file = std::fs::File::open(profile.beside().join("a.png")).unwrap();
    let mut reader = png::Decoder::new(std::io::BufReader::new(file)).read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut pixels).unwrap();
    // Six fields of 96 points, their names and the margins.
    assert!((6 * 96 * 2..6 * 96 * 2 + 200).contains(&info.width), "{}", info.width);
    let colours = |wanted: [u8; 3]| pixels.chunks_exact(3).filter(|pixel| **pixel == wanted).count();
    // The largest, and in the key; six of the same, which is a quarter of it.
    let field = 96 * 2 * 96 * 2;
    // Less what the numbers in the fields cover.
    let letters = 1000;
    assert!((field - letters..field + 4000).contains(&colours([11, 55, 102])), "{}", colours([11, 55, 102]));
    let quarters = 6 * (field - letters)..6 * field + 4000;
    assert!(quarters.contains(&colours([83, 142, 196])), "a quarter is lighter");

    profile.run(&["matrix", "app.mpisee", "--image", "a.svg", "--by", "node"]).prints("");
    let text = std::fs::read_to_string(profile.beside().join("a.svg")).unwrap();
    assert!(text.starts_with("<svg ") && text.ends_with("</svg>\n"));
    assert!(text.contains("<title>n0 to n1: 11 messages, 5000 bytes</title>"), "{text}");
    assert_eq!(text.matches("<title>n").count(), 12, "of each field, and of the number in it");
    assert!(text.contains(">68 messages, 9.77 KiB</text>"), "{text}");
    assert!(
        text.contains("<title>splatt: who sends to whom, point-to-point bytes between nodes</title>"),
        "{text}"
    );
    // On dark fields white, on light ones dark.
    assert!(
        text.contains("fill=\"#ffffff\"><title>n0 to n1: 11 messages, 5000 bytes</title>4.88 KiB</text>"),
        "{text}"
    );
    assert_eq!(text.matches(">1000 B</text>").count(), 6, "five fields, and the key: {text}");

    profile.run(&["matrix", "app.mpisee", "--image", "a.jpg"]).fails_with(&["--image", ".png or .svg"]);
    profile.run(&["matrix", "app.mpisee", "--image", "no/a.png"]).fails_with(&["cannot write 'no/a.png'"]);
}

#[test]
fn no_picture_is_drawn_of_nothing() {
    let profile = ring().write();
    let draw = |arguments: &[&str]| {
        profile.run(&[&["matrix", "app.mpisee", "--image", "none.svg"], arguments].concat())
    };
    draw(&["--ranks", "4"]).fails_with(&["there is nothing to draw: no messages between these ranks\n"]);
    let barriers = Builder::new(2).call("W", 0, "MPI_Bcast", 1, 1024, 0.1).write();
    barriers.run(&["matrix", "app.mpisee", "--image", "b.svg"]).fails_with(&[
        "no messages between these ranks. Not in it: 1.00 KiB in collectives, 100.0 % of both; --collectives adds them\n",
    ]);
    draw(&["--comm", "W_s1.4"]).fails_with(&["nothing to draw: the 7 messages have no bytes; --of messages"]);
    assert!(!profile.beside().join("none.svg").exists());
}

/// Four ranks that send one message and make each collective whose bytes have a place.
fn collectives() -> Builder {
    let mut builder = Builder::new(4)
        .comm("W_a1", "W", "MPI_Cart_create", "0-3", |row| {
            row.topology = "cart dims=4 periods=0".to_owned();
        })
        .comm("W_x2", "W", "MPI_Intercomm_create", "0|1-3", |_| {})
        .messages("W", 0, 1, 1, 100);
    for rank in 0..4 {
        builder = builder
            // Rank 2 gives 1000 bytes once.
            .call("W", rank, "MPI_Ibcast", 1, if rank == 2 { 0 } else { 1000 }, 0.1)
            .call("W", rank, "MPI_Alltoall", 1, 40, 0.1)
            .call("W", rank, "MPI_Allreduce", 1, 31, 0.1)
            .call("W", rank, "MPI_Reduce_scatter_block", 1, 9, 0.1)
            .call("W", rank, "MPI_Scan", 1, if rank == 0 { 0 } else { 5 }, 0.1)
            .call("W_a1", rank, "MPI_Neighbor_alltoall", 1, if rank % 3 == 0 { 7 } else { 14 }, 0.1);
    }
    builder.call("W_x2", 0, "MPI_Allgather", 1, 300, 0.1)
}

#[test]
fn collectives_are_named_beside_the_messages_and_added_by_what_they_mean() {
    let profile = collectives().write();
    let printed = profile.run(&["matrix", "app.mpisee"]).exits(0).stdout.clone();
    assert!(printed.starts_with("1 message with 100 B, between 1 pair of ranks.\nNot in it: 3.59 KiB in collectives, 97.4 % of both; --collectives adds them.\n"), "{printed}");
    profile
        .run(&["matrix", "app.mpisee", "--collectives", "--all"])
        .golden("matrix-collectives_are_named_beside_the_messages_and_added_by_what_they_mean");
    profile.run(&["matrix", "app.mpisee", "--collectives", "--of", "messages"]).fails_with(&["--of bytes"]);
    // Who has the root of a reduction is in no table.
    let rooted = collectives().call("W", 1, "MPI_Reduce", 1, 2048, 0.1).write();
    let printed = rooted.run(&["matrix", "app.mpisee", "--collectives"]).exits(0).stdout.clone();
    let expected =
        "Not in it: 2.00 KiB in MPI_Reduce, of which the profile does not have who sends to whom.\n";
    assert!(printed.contains(expected), "{printed}");
    let ran = rooted.run(&["matrix", "app.mpisee", "--collectives", "--format", "json"]);
    let json: serde_json::Value = serde_json::from_str(&ran.exits(0).stdout).unwrap();
    assert_eq!((&json["collective_bytes"], &json["left_out_collective_bytes"]), (&3677.into(), &2048.into()));
}

#[test]
fn the_roots_are_unknown_where_a_rank_is_missing() {
    let profile = collectives()
        .with(|profile| {
            profile.run.complete = false;
            profile.run.incomplete_because = Some("rank 3 was killed".to_owned());
            profile.ranks.retain(|row| row.rank != 3);
            profile.calls.retain(|row| row.rank != 3);
        })
        .write();
    let printed = profile.run(&["matrix", "app.mpisee", "--collectives"]).exits(0).stdout.clone();
    assert!(printed.contains("Not in it: 1.95 KiB in MPI_Ibcast,"), "{printed}");
}

#[test]
fn rows_before_an_error_are_shown() {
    let profile = ring().write();
    profile.replace("peers.csv", "W,3,4,10", "W,3,4,ten");
    let ran = profile.run(&["matrix", "app.mpisee"]);
    ran.exits(2);
    ran.says(&["peers.csv', line 8: column 'sent_messages': 'ten' is not a whole number"]);
    assert!(ran.stdout.starts_with("Partial    "), "{}", ran.stdout);
    assert!(ran.stdout.contains("\n   2   3        10  1000 B"), "{}", ran.stdout);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_pairs_are_the_sums_of_what_was_sent(
        rows in proptest::collection::vec((0..3usize, 0..7u32, 0..7u32, 0..4u64, 0..1000u64), 0..60),
        fields in 1..9u32,
        by_node in any::<bool>()
    ) {
        let mut builder = Builder::new(7)
            .comm("W_d1", "W", "MPI_Comm_dup", "0-6", |_| {})
            .comm("W_d2", "W", "MPI_Comm_dup", "0-6", |_| {})
            .with(|profile| profile.ranks.iter_mut().for_each(|row| row.host = format!("n{}", row.rank % 3)));
        let mut expected: BTreeMap<(u32, u32), (u64, u64)> = BTreeMap::new();
        let places = if by_node { 3 } else { 7 };
        let block = u32::div_ceil(places, fields);
        let place = |rank: u32| if by_node { rank % 3 } else { rank } / block;
        for (comm, from, to, messages, bytes) in rows {
            let bytes = bytes * messages;
            builder = builder.messages(["W", "W_d1", "W_d2"][comm], from, to, messages, bytes);
            if comm < 2 && messages > 0 {
                let sum = expected.entry((place(from), place(to))).or_default();
                sum.0 += messages;
                sum.1 += bytes;
            }
        }
        let fields = fields.to_string();
        let by = if by_node { "node" } else { "rank" };
        let ran = builder.write().run(&[
            "matrix", "app.mpisee", "--comm", "W", "--comm", "W_d1", "--by", by, "--fields", &fields,
            "--format", "csv",
        ]);
        let mut found: BTreeMap<(u32, u32), (u64, u64)> = BTreeMap::new();
        for record in csv::Reader::from_reader(ran.exits(0).stdout.as_bytes()).records() {
            let record = record.unwrap();
            let first = |text: &str| -> u32 {
                let text = text.trim_start_matches('n');
                let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
                text[..digits].parse::<u32>().unwrap() / block
            };
            let numbers = (record[2].parse().unwrap(), record[3].parse().unwrap());
            prop_assert_eq!(found.insert((first(&record[0]), first(&record[1])), numbers), None);
        }
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn the_bytes_of_collectives_add_up_to_those_of_their_communicators(
        rows in proptest::collection::vec((0..2usize, 0..6u32, 0..7usize, 0..100_000u64), 0..60)
    ) {
        const CALLS: [&str; 7] = [
            "MPI_Alltoallv", "MPI_Allgatherv", "MPI_Iallreduce", "MPI_Reduce_scatter", "MPI_Exscan", "MPI_Gather",
            "MPI_Barrier",
        ];
        let mut builder = Builder::new(6).comm("W_s1.1", "W", "MPI_Comm_split", "1,3,5", |_| {});
        let (mut placed, mut left_out) = (0, 0);
        for (comm, rank, call, bytes) in rows {
            let (comm, rank) = ([("W", rank), ("W_s1.1", rank / 2 * 2 + 1)])[comm];
            // The first rank of a scan gets nothing.
            let bytes = if CALLS[call] == "MPI_Exscan" && rank == u32::from(comm != "W") { 0 } else { bytes };
            builder = builder.call(comm, rank, CALLS[call], 1, bytes, 0.0);
            if call < 5 { placed += bytes } else { left_out += bytes }
        }
        let ran = builder.write().run(&["matrix", "app.mpisee", "--collectives", "--format", "json"]);
        let json: serde_json::Value = serde_json::from_str(&ran.exits(0).stdout).unwrap();
        prop_assert_eq!(&json["bytes"], &serde_json::Value::from(placed));
        prop_assert_eq!(&json["left_out_collective_bytes"], &serde_json::Value::from(left_out));
        let pairs = json["pairs"].as_array().unwrap();
        let sum: u64 = pairs.iter().map(|pair| pair["collective_bytes"].as_u64().unwrap()).sum();
        prop_assert_eq!(sum, placed);
    }
}

#[test]
fn one_sided_operations_without_targets_are_said_not_to_be_in_it() {
    let profile =
        Builder::new(2).call("W", 0, "MPI_Put", 3, 5119, 0.5).call("W", 1, "MPI_Barrier", 2, 0, 0.5).write();
    let header = "comm,rank,peer,sent_messages,sent_bytes,received_messages,received_bytes\n";
    std::fs::write(profile.directory.join("peers.csv"), header).unwrap();
    let sentence = "Not in it: 5.00 KiB in one-sided operations, whose targets the profile does not have.";
    for more in [&[][..], &["--collectives"]] {
        let ran = profile.run(&[&["matrix", "app.mpisee"], more].concat());
        assert!(ran.exits(0).stdout.contains(sentence), "{}", ran.stdout);
    }
}

/// Bytes of puts and accumulations go to the target, those of gets come from it.
#[test]
fn one_sided_operations_are_beside_messages() {
    let row = |rank, peer, put_bytes, get_bytes, accumulate_bytes| PeerRow {
        comm: "W".to_owned(),
        rank,
        peer,
        puts: 1,
        put_bytes,
        gets: 1,
        get_bytes,
        accumulates: 1,
        accumulate_bytes,
        ..PeerRow::default()
    };
    let profile = Builder::new(2).messages("W", 0, 1, 3, 1000).with(|profile| {
        profile.peers.push(row(0, 1, 20, 300, 4));
        profile.peers.push(row(1, 0, 0, 7, 0));
    });
    let profile = profile.write();
    let csv = profile.run(&["matrix", "app.mpisee", "--format", "csv"]);
    let expected = "from,to,messages,bytes,one_sided_bytes,share\n\
                    0,1,3,1031,31,0.774605560\n1,0,0,300,300,0.225394440\n";
    assert_eq!(csv.exits(0).stdout, expected);
    let table = profile.run(&["matrix", "app.mpisee"]);
    let lead = "3 messages with 1000 B, and 331 B in one-sided operations, between 2 pairs of ranks.";
    assert!(table.exits(0).stdout.starts_with(lead), "{}", table.stdout);
    let locality = profile.run(&["locality", "app.mpisee", "--format", "json"]);
    let document: serde_json::Value = serde_json::from_str(&locality.exits(0).stdout).unwrap();
    let row = &document["communicators"][0];
    assert_eq!((&row["p2p_bytes"], &row["one_sided_bytes"]), (&1000.into(), &331.into()), "{document}");
    let page = profile.run(&["report", "app.mpisee", "--output", "-"]);
    let messages = &data_of(&page.exits(0).stdout)["messages"];
    let lists = [&messages["messages"], &messages["bytes"], &messages["one_sided"]];
    assert_eq!(lists, [&json!([3, 0]), &json!([1031, 300]), &json!([31, 300])]);
}

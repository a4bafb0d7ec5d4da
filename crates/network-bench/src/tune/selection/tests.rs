//! Tests of selections, on a tree like MPICH's own.

use super::{Selection, Tree, built_in, name};
use crate::collective::Collective;

const OWN: &str = r#"{"collective=alltoall":{"comm_type=intra":{"is_sendbuf_inplace=yes":{"algorithm=MPIR_Alltoall_intra_replace":{}},"is_sendbuf_inplace=no":{"avg_msg_size<=256":{"algorithm=MPIR_Alltoall_intra_brucks":{"k=2":{}}},"avg_msg_size=any":{"algorithm=MPIR_Alltoall_intra_pairwise":{}}}},"comm_type=inter":{"algorithm=MPIR_Alltoall_inter_pairwise":{}}},"collective=allreduce":{"comm_type=intra":{"avg_msg_size<=8":{"algorithm=MPIR_Allreduce_intra_doubling":{}},"avg_msg_size=any":{"count<pow2":{"algorithm=MPIR_Allreduce_intra_doubling":{}},"count=any":{"algorithm=MPIR_Allreduce_intra_scatter":{}}}}}}"#;

fn own() -> Tree {
    Tree::parse(OWN).unwrap()
}

fn selection(collective: Collective, members: &[u32], bytes: [u64; 2], algorithm: &str) -> Selection {
    Selection { collective, members: members.to_vec(), bytes, algorithm: algorithm.to_owned() }
}

/// The tree that a path of conditions leads to, as compact JSON.
fn at(tree: &Tree, path: &[&str]) -> String {
    let found =
        path.iter().fold(tree, |tree, key| tree.under(key).unwrap_or_else(|| panic!("{key}: {tree:?}")));
    serde_json::to_string(found).unwrap()
}

#[test]
fn the_order_of_conditions_is_kept() {
    assert_eq!(serde_json::to_string(&own()).unwrap(), OWN);
    assert_eq!(Tree::parse("[]"), None);
    assert_eq!(own().selecting(&[]), own());
}

#[test]
fn a_selection_holds_for_its_sizes_alone() {
    // 1 to 2 KiB in all, of two blocks.
    let one = selection(Collective::Alltoall, &[2], [1024, 2047], "MPIR_Alltoall_intra_brucks");
    let changed = own().selecting(&[one]);
    let path = ["collective=alltoall", "comm_type=intra"];
    let of_own = at(&own(), &path);
    let of = |more: &[&str]| at(&changed, &[&path[..], more].concat());
    assert_eq!(of(&["comm_size<=1"]), of_own);
    assert_eq!(of(&["comm_size=any"]), of_own);
    let sizes = changed.under(path[0]).unwrap().under(path[1]).unwrap().under("comm_size<=2").unwrap();
    let keys: Vec<&str> = sizes.0.iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!(keys, ["avg_msg_size<=511", "avg_msg_size<=1023", "avg_msg_size=any"]);
    assert_eq!(of(&["comm_size<=2", "avg_msg_size<=511"]), of_own);
    assert_eq!(of(&["comm_size<=2", "avg_msg_size=any"]), of_own);
    // With its parameters, in place of pairwise, and not of what is for calls in place.
    let chosen = of(&["comm_size<=2", "avg_msg_size<=1023"]);
    assert!(
        chosen.contains(r#""avg_msg_size=any":{"algorithm=MPIR_Alltoall_intra_brucks":{"k=2":{}}}"#),
        "{chosen}"
    );
    assert!(
        chosen.contains(r#""is_sendbuf_inplace=yes":{"algorithm=MPIR_Alltoall_intra_replace":{}}"#),
        "{chosen}"
    );
    // The rest is the library's.
    assert_eq!(at(&changed, &["collective=allreduce"]), at(&own(), &["collective=allreduce"]));
    assert_eq!(
        at(&changed, &["collective=alltoall", "comm_type=inter"]),
        at(&own(), &["collective=alltoall", "comm_type=inter"])
    );
}

#[test]
fn what_an_algorithm_needs_of_a_call_is_kept() {
    let scatter = "MPIR_Allreduce_intra_scatter";
    let changed = own().selecting(&[selection(Collective::Allreduce, &[4], [0, 15], scatter)]);
    let chosen =
        at(&changed, &["collective=allreduce", "comm_type=intra", "comm_size<=4", "avg_msg_size<=15"]);
    // It has to have a number for each process.
    assert_eq!(chosen, at(&own(), &["collective=allreduce", "comm_type=intra"]));
    // The other one may stand for both.
    assert_eq!(own().algorithms(Collective::Allreduce), ["MPIR_Allreduce_intra_doubling"]);
    let of_alltoall = own().algorithms(Collective::Alltoall);
    assert_eq!(of_alltoall.iter().map(|it| name(it)).collect::<Vec<_>>(), ["brucks", "pairwise"]);
    assert_eq!(own().algorithms(Collective::Bcast), Vec::<String>::new());
    assert_eq!(own().algorithms(Collective::Gather), Vec::<String>::new());
}

#[test]
fn several_selections_follow_each_other() {
    let brucks = "MPIR_Alltoall_intra_brucks";
    let changed = own().selecting(&[
        selection(Collective::Alltoall, &[4], [8192, u64::MAX], brucks),
        selection(Collective::Alltoall, &[3, 4], [4096, 8191], "MPIR_Alltoall_intra_pairwise"),
    ]);
    let intra = changed.under("collective=alltoall").unwrap().under("comm_type=intra").unwrap();
    let keys = |tree: &Tree| tree.0.iter().map(|(key, _)| key.clone()).collect::<Vec<_>>();
    assert_eq!(keys(intra), ["comm_size<=2", "comm_size<=3", "comm_size<=4", "comm_size=any"]);
    let of_four = intra.under("comm_size<=4").unwrap();
    assert_eq!(keys(of_four), ["avg_msg_size<=1023", "avg_msg_size<=2047", "avg_msg_size=any"]);
    assert!(at(of_four, &["avg_msg_size=any"]).matches("brucks").count() == 2);
    // 4096 bytes are 1365 and a third for each of three.
    assert_eq!(keys(intra.under("comm_size<=3").unwrap())[0], "avg_msg_size<=1365");
}

#[test]
fn the_tree_is_found_in_a_library() {
    let others = r#"{"collective=bcast":{"composition=MPIDI_Bcast":{}}}"#;
    let library = format!("\0ELF {{\"collective=\0\0{others}\0…\0{OWN}\0more");
    assert_eq!(built_in(library.as_bytes()).as_deref(), Some(OWN));
    assert_eq!(built_in(others.as_bytes()), None);
}

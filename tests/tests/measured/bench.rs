//! `mpisee-bench`: the model of a network, and the rates of links.

use mpisee_profile::network::{Network, PairClass};
use mpisee_tests::bench::{bench, has_bench, number, rows};
use mpisee_tests::{Cluster, Mpi, case};
use std::process::Command;

fn network(mpi: &Mpi, variables: &[(&str, &str)]) -> Network {
    let run = bench(mpi, "network --sizes 1,8,64,512,2k,16k,128k,512k --output network.json").ranks(2);
    let run = variables.iter().fold(run, |run, (name, value)| run.variable(name, value));
    let finished = run.plain();
    assert_eq!(finished.stdout.lines().count(), 1 + 8, "{}", finished.stdout);
    Network::read(&finished.place.path("network.json")).unwrap()
}

/// The model has the measurements that it was fitted to, and finds the eager limit where it is
/// moved to.
#[case(only = has_bench)]
fn a_network_is_modelled_and_the_eager_limit_found(mpi: &Mpi) {
    let name = match &*mpi.name {
        "openmpi-4.1" => "OMPI_MCA_btl_vader_eager_limit",
        "openmpi-5.0" => "OMPI_MCA_btl_sm_eager_limit",
        _ => "UCX_RNDV_THRESH",
    };
    let limits = ["2000", "30000"].map(|limit| {
        let network = network(mpi, &[(name, limit)]);
        assert_eq!((network.network_version, network.ranks, network.hosts.len()), (1, 2, 1));
        assert_eq!(network.mpi.flavour, mpi.name);
        assert_eq!(network.mpi.settings.get(name).map(String::as_str), Some(limit));
        let [pair] = &network.pairs[..] else { panic!("{:?}", network.pairs) };
        assert!(pair.class != PairClass::Network && pair.ranks == [0, 1]);
        assert_eq!(pair.points.iter().map(|it| it.bytes).collect::<Vec<_>>()[6..], [131_072, 524_288]);
        for point in &pair.points {
            assert!(point.one_way_min_s > 0.0 && point.one_way_min_s <= point.one_way_median_s, "{point:?}");
            let model_s = pair.one_way_s(point.bytes).unwrap();
            assert!((model_s / point.one_way_min_s - 1.0).abs() < pair.error_max + 1e-6, "{pair:?}");
        }
        assert!(pair.gap_s > 0.0 && pair.gap_per_byte_s > 0.0);
        pair.eager_limit_bytes
    });
    mpisee_tests::note!("{}: eager limits {limits:?}", mpi.name);
    // The limit counts a header, which each MPI has of its own length.
    let [small, large] = limits.map(|limit| limit.expect("a limit below 4 MiB"));
    assert!((1800..=2000).contains(&small) && (29_000..=30_000).contains(&large), "{small} {large}");
}

/// Bytes per second of a message's data on a link of so many bits per second: Ethernet, IP and TCP
/// add 66 bytes to 1448.
fn rate_of_data(bits_per_s: f64) -> f64 {
    bits_per_s / 8.0 * 1448.0 / 1514.0
}

/// Shapes what a node sends.
fn shape(cluster: &Cluster, node: &str, rate: &str) {
    let mut tc = Command::new("tc");
    tc.args(["qdisc", "add", "dev", "e0", "root", "tbf", "rate", rate, "burst", "64kb", "latency", "400ms"]);
    cluster.run(node, &tc);
}

/// The rate of played links is found within 10 %, and the one that is slower.
#[case]
fn the_rates_of_shaped_links_are_found(mpi: &Mpi) {
    const TRIES: usize = 10;
    if !has_bench(mpi) || !mpi.name.starts_with("openmpi-4") {
        return;
    }
    let Some(cluster) = Cluster::begin(3) else { return };
    for (node, rate) in [("n1", "200mbit"), ("n2", "200mbit"), ("n3", "50mbit")] {
        shape(&cluster, node, rate);
    }
    // In some runs a rank may have waited for a core.
    let mut found = Vec::new();
    while !found.last().is_some_and(|part| (0.9..1.1).contains(part)) {
        assert!(found.len() < TRIES, "{found:?} of the planted rate");
        let run = bench(mpi, "network --sizes 64k,256k,1M --output network.json").ranks(3).on(&cluster);
        let finished = run.plain();
        let network = Network::read(&finished.place.path("network.json")).unwrap();
        assert_eq!(network.hosts, ["n1", "n2", "n3"]);
        let [pair] = &network.pairs[..] else { panic!("{:?}", network.pairs) };
        assert_eq!((pair.class, pair.ranks), (PairClass::Network, [0, 1]));
        found.push(1.0 / pair.gap_per_byte_s / rate_of_data(200e6));
    }
    for (ranks, planted) in [("0,2", 200e6), ("2,0", 50e6), ("2,1", 50e6)] {
        let words = format!("p2p --exchange uni --window 4 --ranks {ranks} --sizes 1M");
        // The fastest repetition of some runs: in others the sender may have waited for a core.
        let mut best = 0.0_f64;
        for _ in 0..TRIES {
            let finished = bench(mpi, &words).ranks(3).on(&cluster).plain();
            best = best.max(number(&rows(&finished)[0], "best_bytes_per_s") / rate_of_data(planted));
            if best >= 0.9 {
                break;
            }
        }
        assert!((0.9..1.1).contains(&best), "{best} of {planted} on {ranks}");
    }
}

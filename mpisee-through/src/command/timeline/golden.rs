//! Golden files of a made-up time line of two nodes: three phases of ten seconds, of which the
//! agent of one node saw the first as a whole.

use super::{Table, answer, image, text};
use crate::output::{self, Page};
use crate::timeline::bins::Bins;
use crate::timeline::gpus::NodeGpu;
use crate::timeline::load::TimeLine;
use crate::timeline::phases::phases;
use crate::timeline::{JobFile, NodeFile};
use mpisee_profile::rows::{NodeRateRow, RateRow, Seconds};
use std::collections::BTreeMap;

fn golden(name: &str, text: &str) {
    insta::with_settings!({
        prepend_module_to_snapshot => false,
        snapshot_path => "../../../tests/commands/snapshots",
        omit_expression => true,
    }, { insta::assert_snapshot!(name, text) });
}

fn rate(host: &str, (begin_s, length_s): (f64, f64), name: (&str, &str), bytes: u64, time_s: f64) -> RateRow {
    RateRow {
        host: host.to_owned(),
        begin_s: Seconds(begin_s),
        length_s: Seconds(length_s),
        family: name.0.to_owned(),
        call: name.1.to_owned(),
        ranks: 2,
        calls: 100 * length_s as u64,
        bytes,
        time_s: Seconds(time_s),
        ..RateRow::default()
    }
}

fn node_rate(host: &str, (begin_s, length_s): (f64, f64), name: [&str; 3], value: f64) -> NodeRateRow {
    let [source, device, quantity] = name.map(str::to_owned);
    let (begin_s, length_s) = (Seconds(begin_s), Seconds(length_s));
    NodeRateRow { host: host.to_owned(), begin_s, length_s, source, device, quantity, value }
}

fn line() -> TimeLine {
    let (mut rates, mut node_rates) = (Vec::new(), Vec::new());
    for host in ["n1", "n2"] {
        let late = host == "n2";
        let first = if late { vec![(0.0, 10.0)] } else { (0..10).map(|s| (f64::from(s), 1.0)).collect() };
        for interval in first.into_iter().chain((10..30).map(|s| (f64::from(s), 1.0))) {
            let (begin_s, length_s) = interval;
            node_rates.push(node_rate(host, interval, ["job", "", "ranks"], 2.0));
            node_rates.push(node_rate(host, interval, ["gpu", "gpu0", "used_bytes"], 4e10 + 1e8 * begin_s));
            node_rates.push(node_rate(
                host,
                interval,
                ["memory", "", "available_bytes"],
                3e9 - 1e7 * begin_s,
            ));
            let length = length_s as u64;
            match begin_s {
                ..10.0 => {
                    let name = ("W_s1.*@2", "MPI_Allreduce");
                    rates.push(rate(host, interval, name, length << 24, 1.5 * length_s));
                }
                ..20.0 => rates.push(rate(host, interval, ("W", "MPI_Barrier"), 0, 0.02)),
                _ => {
                    rates.push(rate(host, interval, ("W", "MPI_Sendrecv"), 1 << 28, 0.8));
                    rates.push(rate(host, interval, ("W", "MPI_Waitall"), 0, 0.9));
                    let sent = ["network", "eth0", "sent_bytes"];
                    node_rates.push(node_rate(host, interval, sent, 1.25e9));
                    node_rates.push(node_rate(host, interval, ["gpu", "gpu0", "busy_s"], 0.75));
                    let received = ["gpu", "gpu0/nvlink", "received_bytes"];
                    node_rates.push(node_rate(host, interval, received, 8e10));
                }
            }
        }
    }
    let node = |host: &str| NodeFile {
        host: host.to_owned(),
        ranks: 2,
        interval_s: 1.0,
        cpu_s: 0.012,
        wall_s: 30.0,
        ended: "the job ended".to_owned(),
        link_bytes_per_s: BTreeMap::from([("eth0".to_owned(), 3.125e9), ("gpu0/nvlink".to_owned(), 4e11)]),
        ..NodeFile::default()
    };
    let gpu = |host: &str| NodeGpu {
        host: host.to_owned(),
        device: "gpu0".to_owned(),
        model: "NVIDIA H100 80GB HBM3".to_owned(),
        ..NodeGpu::default()
    };
    TimeLine {
        job: JobFile {
            format_version: 1,
            job: "1a2b".to_owned(),
            command: vec!["./ocean".to_owned(), "--steps".to_owned(), "40".to_owned()],
            profile: "ocean.mpisee".to_owned(),
            ranks: 6,
            start: "2025-06-01T12:00:00Z".to_owned(),
            start_ns: 1_748_779_200_000_000_000,
        },
        nodes: vec![node("n1"), node("n2")],
        rates,
        node_rates,
        gpus: vec![gpu("n1"), gpu("n2")],
        notes: vec!["The agent on n2 ended before the job did, by signal 15.".to_owned()],
    }
}

#[test]
fn the_text_fits_the_page() {
    let line = line();
    let phases = phases(&Bins::from_line(&line, super::FINE));
    for width in [60, 100] {
        let page = Page { width: Some(width), colour: false };
        let text = text::text(&line, &phases, 10, page);
        assert!(text.lines().all(|line| line.chars().count() <= width.into()), "{text}");
        golden(&format!("timeline-{width}"), &text);
    }
    golden("timeline-top", &text::text(&line, &phases, 1, Page::default()));
}

#[test]
fn scripts_get_the_same() {
    let line = line();
    let bins = Bins::from_line(&line, 6);
    let phases = phases(&Bins::from_line(&line, super::FINE));
    let answer = answer(&line, &bins, &phases, Table::Rates);
    golden("timeline.csv", std::str::from_utf8(&answer.sheets[0].csv().unwrap()).unwrap());
    golden("timeline.json", std::str::from_utf8(&output::json(&answer.json()).unwrap()).unwrap());
}

#[test]
fn the_picture_has_all_layers_within_its_borders() {
    let line = line();
    let bins = Bins::from_line(&line, super::FINE);
    let picture = image::picture(&line, &bins, &phases(&bins));
    let mut areas = Vec::new();
    for shape in &picture.shapes {
        if let crate::picture::Shape::Area { points, title, .. } = shape {
            let inside = |&(x, y): &(f64, f64)| {
                (0.0..=picture.width).contains(&x) && (0.0..=picture.height).contains(&y)
            };
            assert!(points.iter().all(inside), "{title}");
            areas.push(title.as_str());
        }
    }
    let expected = [
        "MPI_Allreduce on W_s1.*@2",
        "MPI_Waitall on W",
        "MPI_Sendrecv on W",
        "MPI_Barrier on W",
        "MPI bytes/s",
        "eth0 sent",
    ];
    assert_eq!(areas, expected);
}

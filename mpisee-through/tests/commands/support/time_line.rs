//! Writes time lines as agents do: `NAME.timeline` beside a profile.

use super::Written;
use mpisee_profile::rows::{NodeRateRow, RateRow, Row, Seconds};
use serde_json::json;
use std::path::{Path, PathBuf};

/// The rows of one node, `node0`, in intervals of a second.
#[derive(Default)]
pub struct TimeLine {
    rates: Vec<RateRow>,
    node_rates: Vec<NodeRateRow>,
}

impl TimeLine {
    /// A time line of that many seconds, in which the node has its ranks alone.
    pub fn new(seconds: u32, ranks: u32) -> Self {
        let mut line = TimeLine::default();
        for second in 0..seconds {
            line.node(second, ["job", "", "ranks"], ranks.into());
        }
        line
    }

    /// Adds the calls of all ranks of the node in an interval.
    pub fn rate(&mut self, second: u32, family: &str, call: &str, bytes: u64, time_s: f64) {
        self.rates.push(RateRow {
            host: "node0".to_owned(),
            begin_s: Seconds(second.into()),
            length_s: Seconds(1.0),
            family: family.to_owned(),
            call: call.to_owned(),
            ranks: 8,
            calls: 10,
            bytes,
            time_s: Seconds(time_s),
            ..RateRow::default()
        });
    }

    /// Adds a count of the node in an interval.
    pub fn node(&mut self, second: u32, [source, device, quantity]: [&str; 3], value: f64) {
        self.node_rates.push(NodeRateRow {
            host: "node0".to_owned(),
            begin_s: Seconds(second.into()),
            length_s: Seconds(1.0),
            source: source.to_owned(),
            device: device.to_owned(),
            quantity: quantity.to_owned(),
            value,
        });
    }

    /// Writes it as `app.timeline`, of the run of the profile; `eth0` carries 1 GB/s.
    pub fn write(mut self, profile: &Written) -> PathBuf {
        let folder = profile.beside().join("app.timeline");
        std::fs::create_dir(&folder).unwrap();
        let run = std::fs::read(profile.directory.join("run.json")).unwrap();
        let run: serde_json::Value = serde_json::from_slice(&run).unwrap();
        let job = json!({
            "format_version": 1, "job": "1a2b", "command": run["command"], "profile": "app.mpisee", "ranks": run["ranks"],
            "start": run["start"], "start_ns": 1_748_779_200_000_000_000_u64,
        });
        let node = json!({
            "host": "node0", "ranks": run["ranks"], "interval_s": 1.0, "joined": 0, "readings": 10, "cpu_s": 0.01, "wall_s": 10.0,
            "ended": "the job ended", "notes": [], "link_bytes_per_s": { "eth0": 1e9 },
        });
        std::fs::write(folder.join("job.json"), job.to_string()).unwrap();
        std::fs::write(folder.join("node0.json"), node.to_string()).unwrap();
        self.node_rates.sort_by(|one, other| one.begin_s.0.total_cmp(&other.begin_s.0));
        table(&folder, &self.rates);
        table(&folder, &self.node_rates);
        folder
    }
}

fn table<R: Row>(folder: &Path, rows: &[R]) {
    let mut writer = csv::WriterBuilder::new().has_headers(false).from_writer(Vec::new());
    writer.write_record(R::columns()).unwrap();
    rows.iter().for_each(|row| writer.serialize(row).unwrap());
    let text = zstd::bulk::compress(&writer.into_inner().unwrap(), 1).unwrap();
    std::fs::write(folder.join(format!("node0.{}.zst", R::FILE)), text).unwrap();
}

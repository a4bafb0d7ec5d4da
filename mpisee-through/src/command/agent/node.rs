//! Counters of the node's kernel, readable without being root: interfaces, InfiniBand ports,
//! pressure, free memory.
//!
//! Files stay open and are read again from their begin, which has the kernel write them anew.

use crate::timeline::history::{History, NodeRate};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Readings from one look for files to the next: interfaces come and go.
const READINGS_PER_LOOK: u32 = 10;

/// A file with numbers, what they are called, and the values at the last reading.
struct Source {
    /// The folder of the device; empty of what is there always.
    device: PathBuf,
    file: File,
    kind: Kind,
    names: u32,
    before: Option<f64>,
}

/// How a file is read.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    /// One number that grows; what it counts is that many of the unit.
    Counter { unit: f64 },
    /// `some … total=MICROSECONDS`.
    Pressure,
    /// `MemAvailable: N kB`.
    Memory,
}

/// The sources of a node.
pub struct Node {
    root: PathBuf,
    sources: Vec<Source>,
    /// The devices that are read.
    devices: BTreeSet<PathBuf>,
    readings: u32,
    /// Devices that came or went, one sentence each.
    pub notes: Vec<String>,
    /// Bytes per second of links, by device.
    pub links: BTreeMap<String, f64>,
}

impl Node {
    /// Looks for counters below a folder, which is `/` but for tests.
    pub fn below(root: &Path, history: &mut History) -> Node {
        let mut node = Node {
            root: root.to_owned(),
            sources: Vec::new(),
            devices: BTreeSet::new(),
            readings: 0,
            notes: Vec::new(),
            links: BTreeMap::new(),
        };
        node.add_devices(history);
        let always = Path::new("");
        for what in ["cpu", "memory", "io"] {
            let path = root.join("proc/pressure").join(what);
            node.add(always, &path, Kind::Pressure, ["pressure", what, "stalled_s"], history);
        }
        let path = root.join("proc/meminfo");
        node.add(always, &path, Kind::Memory, ["memory", "", "available_bytes"], history);
        node
    }

    /// Adds the devices that are not read yet; returns their names.
    fn add_devices(&mut self, history: &mut History) -> Vec<String> {
        let mut added = Vec::new();
        for (folder, add) in [
            ("sys/class/net", Node::add_interface as fn(&mut Node, &Path, &str, &mut History)),
            ("sys/class/infiniband", Node::add_ports),
        ] {
            let folder = self.root.join(folder);
            for name in entries(&folder) {
                let device = folder.join(&name);
                if self.devices.insert(device.clone()) {
                    add(self, &device, &name, history);
                    added.push(name);
                }
            }
        }
        added
    }

    /// Forgets devices that are gone, which the kernel may have made anew, and adds what is there
    /// now.
    fn look_for_devices(&mut self, gone: BTreeSet<PathBuf>, history: &mut History) {
        self.sources.retain(|source| !gone.contains(&source.device));
        self.devices.retain(|device| !gone.contains(device));
        let name = |device: &PathBuf| device.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut notes: Vec<String> =
            gone.iter().map(|device| name(device) + " went while the job ran").collect();
        let added = self.add_devices(history).into_iter();
        notes.extend(
            added.map(|name| {
                name + " came while the job ran; what it carried at first is not in the time line"
            }),
        );
        const MOST_NOTES: usize = 20;
        let is_new = |note: &String| !self.notes.contains(note);
        let notes: Vec<String> =
            notes.into_iter().filter(is_new).take(MOST_NOTES - self.notes.len()).collect();
        self.notes.extend(notes);
    }

    fn add(&mut self, device: &Path, path: &Path, kind: Kind, name: [&str; 3], history: &mut History) {
        let Ok(file) = File::open(path) else { return };
        let names = history.quantities.number(name.map(str::to_owned).into());
        self.sources.push(Source { device: device.to_owned(), file, kind, names, before: None });
    }

    fn add_interface(&mut self, device: &Path, name: &str, history: &mut History) {
        for (file, quantity) in [("rx_bytes", "received_bytes"), ("tx_bytes", "sent_bytes")] {
            let path = device.join("statistics").join(file);
            self.add(device, &path, Kind::Counter { unit: 1.0 }, ["network", name, quantity], history);
        }
        // In Mbit/s; interfaces that have no speed say -1, or nothing.
        let speed = std::fs::read_to_string(device.join("speed")).ok();
        if let Some(speed) = speed.and_then(|text| text.trim().parse::<f64>().ok()).filter(|it| *it > 0.0) {
            self.links.insert(name.to_owned(), speed * 1e6 / 8.0);
        }
    }

    fn add_ports(&mut self, device: &Path, name: &str, history: &mut History) {
        let ports = device.join("ports");
        for port in entries(&ports) {
            let of = ports.join(&port);
            let name = format!("{name}/{port}");
            // Data is counted in words of four bytes.
            for (file, quantity, unit) in [
                ("port_rcv_data", "received_bytes", 4.0),
                ("port_xmit_data", "sent_bytes", 4.0),
                ("port_xmit_wait", "sent_wait_ticks", 1.0),
            ] {
                let path = of.join("counters").join(file);
                self.add(device, &path, Kind::Counter { unit }, ["infiniband", &name, quantity], history);
            }
            // `100 Gb/sec (4X EDR)`
            let rate = std::fs::read_to_string(of.join("rate")).unwrap_or_default();
            let gigabits = rate.split_whitespace().next().and_then(|number| number.parse::<f64>().ok());
            if let Some(gigabits) = gigabits {
                self.links.insert(name, gigabits * 1e9 / 8.0);
            }
        }
    }

    /// Reads everything; appends what there was since the last reading, which the first one has
    /// not.
    pub fn read(&mut self, rates: &mut Vec<NodeRate>, history: &mut History) {
        let mut gone = BTreeSet::new();
        for source in &mut self.sources {
            let value = match source.value() {
                Ok(Some(value)) => value,
                Err(error) if error.raw_os_error() == Some(libc::ENODEV) || !source.device.exists() => {
                    gone.insert(source.device.clone());
                    continue;
                }
                // A port may be without this counter.
                Ok(None) | Err(_) => continue,
            };
            let before = source.before.replace(value);
            let value = match (source.kind, before) {
                (Kind::Memory, _) => value,
                (_, Some(before)) if value > before => value - before,
                _ => continue,
            };
            rates.push(NodeRate { name: source.names, value });
        }
        gone.remove(Path::new(""));
        self.readings += 1;
        if !gone.is_empty() || self.readings.is_multiple_of(READINGS_PER_LOOK) {
            self.look_for_devices(gone, history);
        }
    }
}

impl Source {
    /// Fails if the file is gone; `None` if there is no number in it.
    fn value(&self) -> std::io::Result<Option<f64>> {
        let mut bytes = [0; 4096];
        let length = self.file.read_at(&mut bytes, 0)?;
        Ok(std::str::from_utf8(&bytes[..length]).ok().and_then(|text| self.kind.value(text)))
    }
}

impl Kind {
    fn value(self, text: &str) -> Option<f64> {
        match self {
            Kind::Counter { unit } => Some(text.trim().parse::<u64>().ok()? as f64 * unit),
            Kind::Pressure => {
                let some = text.lines().find(|line| line.starts_with("some "))?;
                let total = some.split_whitespace().find_map(|word| word.strip_prefix("total="))?;
                Some(total.parse::<u64>().ok()? as f64 * 1e-6)
            }
            Kind::Memory => {
                let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
                Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? as f64 * 1024.0)
            }
        }
    }
}

/// The names in a folder, in order; none if it is not there.
fn entries(folder: &Path) -> Vec<String> {
    let found = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = found.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timeline::history::Interval;

    #[test]
    fn differences_have_their_units() {
        let place = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = place.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let counters = |add: u64| {
            write("sys/class/net/eth0/statistics/rx_bytes", &format!("{}\n", 1000 + add));
            write("sys/class/net/eth0/statistics/tx_bytes", "77\n");
            write("sys/class/infiniband/mlx5_0/ports/1/counters/port_rcv_data", &format!("{}\n", 50 + add));
            write("sys/class/infiniband/mlx5_0/ports/1/counters/port_xmit_wait", &format!("{add}\n"));
            write("sys/class/infiniband/mlx5_0/ports/1/counters/port_xmit_data", "N/A (no PMA)\n");
            let pressure = |total: u64| {
                format!("some avg10=0.00 avg60=0.00 avg300=0.00 total={total}\nfull avg10=0.00 total=9\n")
            };
            write("proc/pressure/cpu", &pressure(1_000_000 * (5 + add)));
            write("proc/meminfo", "MemTotal:  9 kB\nMemAvailable:    8 kB\n");
        };
        counters(0);
        write("sys/class/net/eth0/speed", "25000\n");
        write("sys/class/net/lo/speed", "-1\n");
        write("sys/class/infiniband/mlx5_0/ports/1/rate", "100 Gb/sec (4X EDR)\n");
        let mut history = History::new("n1", 1000);
        let mut node = Node::below(place.path(), &mut history);
        let links = [("eth0", 3.125e9), ("mlx5_0/1", 12.5e9)];
        assert!(node.links.iter().map(|(name, rate)| (name.as_str(), *rate)).eq(links));
        let mut read = |node: &mut Node| {
            let mut rates = Vec::new();
            node.read(&mut rates, &mut history);
            let from = history.len();
            history.push(Interval { begin_s: from as f64, length_s: 1.0 }, &[], &rates);
            let rows = history.node_rows(from);
            rows.map(|row| (row.source + " " + &row.device + " " + &row.quantity, row.value))
                .collect::<Vec<_>>()
        };
        assert_eq!(read(&mut node), [("memory  available_bytes".to_owned(), 8192.0)]);
        counters(3);
        let expected = [
            ("network eth0 received_bytes", 3.0),
            ("infiniband mlx5_0/1 received_bytes", 12.0),
            ("infiniband mlx5_0/1 sent_wait_ticks", 3.0),
            ("pressure cpu stalled_s", 3.0),
            ("memory  available_bytes", 8192.0),
        ];
        assert_eq!(read(&mut node), expected.map(|(name, value)| (name.to_owned(), value)));
    }
}

//! The GPUs of the node, read by a thread of its own: the library may take long, or never return,
//! and nobody waits for that.

mod nvml;

use crate::timeline::gpus::{GpuLinkRow, NodeGpu};
use crate::timeline::history::{History, NodeRate};
use nvml::{Reading, Sample};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, TrySendError, channel, sync_channel};
use std::time::{Duration, Instant};

/// How long a reading waits for the GPUs; what comes later is in the next interval.
const PATIENCE: Duration = Duration::from_millis(50);
/// After this time without an answer a note says so.
const SILENT: Duration = Duration::from_secs(10);

/// An answer of the thread.
enum Answer {
    /// Once, before all samples.
    Found(Topology),
    /// Of all GPUs, in their order.
    Samples(Vec<Sample>),
    /// In words; later answers may follow.
    Failed(String),
}

/// The GPUs and their links, as tables.
pub struct Topology {
    pub gpus: Vec<NodeGpu>,
    pub links: Vec<GpuLinkRow>,
}

impl Topology {
    /// Bytes per second that links carry in one direction, by device in rates.
    pub fn link_bytes_per_s(&self) -> BTreeMap<String, f64> {
        let of = |gpu: &NodeGpu| {
            let nvlink = gpu.nvlink_bytes_per_s.map(|rate| (format!("{}/nvlink", gpu.device), rate));
            let pcie = gpu.pcie_bytes_per_s.map(|rate| (format!("{}/pcie", gpu.device), rate));
            nvlink.into_iter().chain(pcie)
        };
        self.gpus.iter().flat_map(of).collect()
    }
}

/// The sums of a GPU so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GpuState {
    pub device: String,
    pub uuid: String,
    /// Of the last reading.
    pub busy: Option<f64>,
    pub used_bytes: Option<u64>,
    /// Received and sent; none of what the GPU does not count.
    pub nvlink_bytes: [Option<f64>; 2],
    pub pcie_bytes: [Option<f64>; 2],
}

/// A GPU, with what is in rates already.
struct Followed {
    /// The numbers of the names of its quantities: busy, memory, received and sent by NVLink, by
    /// PCIe.
    names: [u32; 6],
    before: [Option<Reading>; 4],
}

/// The GPUs of a node; none, if there is no library or no GPU.
pub struct Gpus {
    /// None once there is nobody to ask.
    requests: Option<SyncSender<()>>,
    answers: Receiver<Answer>,
    /// When a sample was asked for that has not come.
    asked: Option<Instant>,
    is_silent: bool,
    /// The GPUs and their links, until somebody takes them.
    pub topology: Option<Topology>,
    followed: Vec<Followed>,
    pub states: Vec<GpuState>,
    /// Sentences on what could not be read.
    pub notes: Vec<String>,
}

impl Gpus {
    /// Has a thread look for them.
    pub fn start(host: &str) -> Gpus {
        Gpus::start_with(OsStr::new(nvml::LIBRARY), host)
    }

    fn start_with(library: &OsStr, host: &str) -> Gpus {
        let (requests, asked) = sync_channel(1);
        let (to_agent, answers) = channel();
        let (library, host) = (library.to_owned(), host.to_owned());
        let serve = move || {
            if let Err(why) = serve(&library, &host, &asked, &to_agent) {
                let _ = to_agent.send(Answer::Failed(format!("the GPUs are not read: {why}")));
            }
        };
        let thread = std::thread::Builder::new().name("gpus".to_owned()).spawn(serve);
        Gpus {
            requests: thread.is_ok().then_some(requests),
            answers,
            asked: None,
            is_silent: false,
            topology: None,
            followed: Vec::new(),
            states: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Asks for a sample, and does not wait.
    pub fn ask(&mut self) {
        let Some(requests) = self.requests.as_ref().filter(|_| self.asked.is_none()) else { return };
        // A thread that has ended may have left an answer.
        if !matches!(requests.try_send(()), Err(TrySendError::Full(()))) {
            self.asked = Some(Instant::now());
        }
    }

    /// Appends what the GPUs did since the last sample, if there is one now.
    pub fn read(&mut self, history: &mut History, length_s: f64, rates: &mut Vec<NodeRate>) {
        while let Some(asked) = self.asked {
            let left = PATIENCE.saturating_sub(asked.elapsed());
            match self.answers.recv_timeout(left) {
                Ok(Answer::Found(topology)) => self.follow(topology, history),
                Ok(Answer::Failed(what)) => self.notes.push(what),
                Ok(Answer::Samples(samples)) => {
                    self.asked = None;
                    self.add(&samples, length_s, rates);
                    if left.is_zero() {
                        // One that takes longer than a reading waits is ready at the next one.
                        self.ask();
                    }
                    return;
                }
                Err(RecvTimeoutError::Timeout) => {
                    if asked.elapsed() > SILENT && !std::mem::replace(&mut self.is_silent, true) {
                        self.notes
                            .push(format!("the GPUs' library did not answer for {} s", SILENT.as_secs()));
                    }
                    return;
                }
                Err(RecvTimeoutError::Disconnected) => (self.asked, self.requests) = (None, None),
            }
        }
    }

    fn follow(&mut self, topology: Topology, history: &mut History) {
        for gpu in &topology.gpus {
            let mut number = |part: &str, quantity: &str| {
                let name = ["gpu", &format!("{}{part}", gpu.device), quantity].map(str::to_owned);
                history.quantities.number(name.into())
            };
            let names = [
                number("", "busy_s"),
                number("", "used_bytes"),
                number("/nvlink", "received_bytes"),
                number("/nvlink", "sent_bytes"),
                number("/pcie", "received_bytes"),
                number("/pcie", "sent_bytes"),
            ];
            self.followed.push(Followed { names, before: [None; 4] });
            let (device, uuid) = (gpu.device.clone(), gpu.uuid.clone());
            self.states.push(GpuState { device, uuid, ..GpuState::default() });
        }
        self.topology = Some(topology);
    }

    fn add(&mut self, samples: &[Sample], length_s: f64, rates: &mut Vec<NodeRate>) {
        for ((gpu, state), sample) in self.followed.iter_mut().zip(&mut self.states).zip(samples) {
            let [busy, memory, links @ ..] = gpu.names;
            if let Some(share) = sample.busy.filter(|share| *share > 0.0) {
                rates.push(NodeRate { name: busy, value: share * length_s });
            }
            if let Some(bytes) = sample.used_bytes {
                rates.push(NodeRate { name: memory, value: bytes as f64 });
            }
            (state.busy, state.used_bytes) = (sample.busy, sample.used_bytes);
            let totals = state.nvlink_bytes.iter_mut().chain(&mut state.pcie_bytes);
            let readings = sample.nvlink.iter().chain(&sample.pcie).zip(&mut gpu.before);
            for ((name, total), (reading, before)) in links.into_iter().zip(totals).zip(readings) {
                let Some(reading) = *reading else { continue };
                let bytes = grown(before.replace(reading), reading, length_s);
                *total = Some(total.unwrap_or(0.0) + bytes);
                if bytes > 0.0 {
                    rates.push(NodeRate { name, value: bytes });
                }
            }
        }
    }
}

/// The bytes since the last reading; none at the first one, and where a counter began anew.
fn grown(before: Option<Reading>, now: Reading, length_s: f64) -> f64 {
    match (before, now) {
        (_, Reading::Rate(bytes_per_s)) => bytes_per_s * length_s,
        (Some(Reading::Total(before)), Reading::Total(now)) => now.saturating_sub(before) as f64,
        (Some(Reading::Wrapping(before)), Reading::Wrapping(now)) => now.wrapping_sub(before).into(),
        _ => 0.0,
    }
}

/// Looks for GPUs, and reads them at each request until nobody is there to ask.
fn serve(
    library: &OsStr,
    host: &str,
    requests: &Receiver<()>,
    answers: &Sender<Answer>,
) -> Result<(), nvml_wrapper::error::NvmlError> {
    let Some(library) = nvml::load(library)? else { return Ok(()) };
    let mut gpus = nvml::find(&library, host, Path::new("/"))?;
    if gpus.is_empty() {
        return Ok(());
    }
    let rows = gpus.iter().map(|gpu| gpu.row.clone()).collect();
    let topology = Topology { gpus: rows, links: nvml::links(&library, &gpus, host) };
    let _ = answers.send(Answer::Found(topology));
    while requests.recv().is_ok() {
        let mut samples = Vec::new();
        for gpu in &mut gpus {
            let (sample, failed) = gpu.sample(&library);
            samples.push(sample);
            if let Some(failed) = failed {
                let _ = answers.send(Answer::Failed(failed));
            }
        }
        if answers.send(Answer::Samples(samples)).is_err() {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timeline::history::Interval;

    #[test]
    fn counters_grow_by_their_kinds() {
        assert_eq!(grown(None, Reading::Total(7), 1.0), 0.0);
        assert_eq!(grown(Some(Reading::Total(7)), Reading::Total(10), 1.0), 3.0);
        assert_eq!(grown(Some(Reading::Total(7)), Reading::Total(2), 1.0), 0.0, "the driver began anew");
        assert_eq!(grown(Some(Reading::Wrapping(u32::MAX)), Reading::Wrapping(2), 1.0), 3.0);
        assert_eq!(grown(None, Reading::Rate(5.0), 2.0), 10.0);
    }

    #[test]
    fn without_a_library_nothing_is_said() {
        let mut gpus = Gpus::start_with(OsStr::new("libnvidia-ml-of-nobody.so.1"), "n1");
        let (mut history, mut rates) = (History::new("n1", 1000), Vec::new());
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(30) {
            gpus.ask();
            gpus.read(&mut history, 1.0, &mut rates);
            if gpus.requests.is_none() {
                break;
            }
        }
        assert!(
            gpus.requests.is_none() && gpus.notes.is_empty() && rates.is_empty() && gpus.topology.is_none()
        );
    }

    #[test]
    fn a_sample_that_comes_late_is_in_the_next_interval() {
        let (requests, asked) = sync_channel(1);
        let (to_agent, answers) = channel();
        let mut gpus = Gpus::start_with(OsStr::new("libnvidia-ml-of-nobody.so.1"), "n1");
        (gpus.requests, gpus.answers) = (Some(requests), answers);
        let row = NodeGpu { device: "gpu0".to_owned(), ..NodeGpu::default() };
        to_agent.send(Answer::Found(Topology { gpus: vec![row], links: Vec::new() })).ok().unwrap();
        let mut history = History::new("n1", 1000);
        let sample = |total: u64, busy: f64| {
            let nvlink = [Some(Reading::Total(total)), None];
            Answer::Samples(vec![Sample { busy: Some(busy), nvlink, ..Sample::default() }])
        };
        let mut values = Vec::new();
        for answer in [Some(sample(100, 0.5)), None, Some(sample(400, 0.0)), Some(sample(500, 1.0))] {
            gpus.ask();
            answer.into_iter().for_each(|answer| to_agent.send(answer).ok().unwrap());
            let mut rates = Vec::new();
            gpus.read(&mut history, 2.0, &mut rates);
            let from = history.len();
            history.push(Interval { begin_s: 2.0 * from as f64, length_s: 2.0 }, &[], &rates);
            values.push(history.node_rows(from).map(|row| (row.quantity, row.value)).collect::<Vec<_>>());
            let _ = asked.try_recv();
        }
        let row = |name: &str, value: f64| (name.to_owned(), value);
        let expected = [
            vec![row("busy_s", 1.0)],
            vec![],
            vec![row("received_bytes", 300.0)],
            vec![row("busy_s", 2.0), row("received_bytes", 100.0)],
        ];
        assert_eq!(values, expected);
        assert_eq!(gpus.states[0].nvlink_bytes, [Some(400.0), None]);
    }
}

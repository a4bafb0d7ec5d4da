//! `network.json`: what a network gives to MPI programs, as `mpisee-bench` measured it.

use crate::error::ProfileError;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// Version of the file's format. Every version ever written stays readable.
pub const NETWORK_VERSION: u32 = 1;

/// The part of its time from which on a rank lacked a core.
pub const LACKING_FROM: f64 = 0.05;

/// The contents of a `network.json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Network {
    /// [`NETWORK_VERSION`] of the program that wrote it.
    pub network_version: u32,
    /// When the models, or without any the replays, were measured, in UTC.
    pub measured: String,
    /// The MPI and its settings.
    pub mpi: NetworkMpi,
    /// The hosts on which they were.
    pub hosts: Vec<String>,
    /// The number of ranks.
    pub ranks: u32,
    /// The kind of memory of all buffers, as in `calls.csv`; none if it is that of the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<String>,
    /// While the models were measured, the part of its time that the rank with most of it was ready
    /// to run and had no core; none if that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_core: Option<f64>,
    /// Models of pairs of ranks, one for each class of pairs.
    #[serde(default)]
    pub pairs: Vec<PairModel>,
    /// Models of how the ranks of a node share its network interfaces.
    #[serde(default)]
    pub interfaces: Vec<InterfaceModel>,
    /// Replays of profiles.
    #[serde(default)]
    pub replays: Vec<Replay>,
}

/// An MPI library and its settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkMpi {
    /// The first line of `MPI_Get_library_version`.
    pub library: String,
    /// The flavour of `mpisee-bench`.
    pub flavour: String,
    /// Variables of the environment by which the MPI and its transports are set.
    pub settings: BTreeMap<String, String>,
}

/// How near two ranks are to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PairClass {
    /// Cores that share the last level of cache.
    Cache,
    /// Cores of one socket.
    Socket,
    /// One node, on different sockets or where the ranks are not bound to cores.
    Node,
    /// Two nodes.
    Network,
}

impl PairClass {
    /// The class for people.
    pub fn text(self) -> &'static str {
        match self {
            PairClass::Cache => "same cache",
            PairClass::Socket => "same socket",
            PairClass::Node => "same node",
            PairClass::Network => "across nodes",
        }
    }
}

/// Measurements between two ranks, and the model that was fitted to them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PairModel {
    /// The class of the pair.
    pub class: PairClass,
    /// The ranks that stand for the class.
    pub ranks: [u32; 2],
    /// The way in which messages were sent.
    pub backend: String,
    /// The largest message that is sent without waiting for its receiver; none if even an empty one
    /// waits, or all that were tried went.
    pub eager_limit_bytes: Option<u64>,
    /// Time of one way by size, of the fastest repetitions: in each segment latency + bytes × time
    /// per byte.
    pub segments: Vec<SizeRange>,
    /// How far the model is off, as a part of the measured time: the median over the sizes, and the
    /// most.
    pub error_median: f64,
    /// See `error_median`.
    pub error_max: f64,
    /// LogGP's g: the time between two messages of one byte in a stream of them.
    pub gap_s: f64,
    /// LogGP's G: the time per byte in a stream of long messages.
    pub gap_per_byte_s: f64,
    /// The measurements.
    pub points: Vec<PairPoint>,
}

impl PairModel {
    /// The time of one way that the model has for a message.
    pub fn one_way_s(&self, bytes: u64) -> Option<f64> {
        let segment = self.segments.iter().rev().find(|segment| segment.from_bytes <= bytes);
        let segment = segment.or(self.segments.first())?;
        Some(segment.latency_s + bytes as f64 * segment.per_byte_s)
    }
}

/// Message sizes of which the time is a straight line.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SizeRange {
    /// The smallest size.
    pub from_bytes: u64,
    /// The largest size that was measured.
    pub to_bytes: u64,
    /// The time of an empty message on the line.
    pub latency_s: f64,
    /// The time of each byte.
    pub per_byte_s: f64,
}

/// Times of messages of one size between two ranks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PairPoint {
    /// The size.
    pub bytes: u64,
    /// One way, the fastest repetition.
    pub one_way_min_s: f64,
    /// One way, the median of the repetitions.
    pub one_way_median_s: f64,
    /// The middle half of the repetitions, as a part of the median.
    pub one_way_spread: f64,
    /// A message in a stream of them one way, the fastest repetition.
    pub stream_min_s: f64,
    /// The same, the median of the repetitions.
    pub stream_median_s: f64,
}

/// How the ranks of one node share its network interfaces when they send to another node: equations
/// (1) and (2) of the CommBench paper.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InterfaceModel {
    /// `rail` or `fan`.
    pub pattern: String,
    /// The bytes of a message.
    pub bytes: u64,
    /// Bytes per second by the number of active ranks, from 1 on.
    pub bytes_per_s: Vec<f64>,
    /// The scheme that fits best.
    pub scheme: InterfaceScheme,
    /// Bytes per second of one interface.
    pub interface_bytes_per_s: f64,
    /// Ranks that share an interface (packed), or interfaces that the ranks go round (round-robin).
    pub number: u32,
    /// How far the model is off: the median over the numbers of active ranks.
    pub error_median: f64,
    /// How far the other scheme is off.
    pub error_other: f64,
}

/// How ranks are assigned to network interfaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InterfaceScheme {
    /// The first p ranks use the first interface, the next p the second.
    Packed,
    /// Rank k uses interface k modulo r.
    RoundRobin,
}

/// The name that all point-to-point messages of a communicator have as an operation.
pub const MESSAGES: &str = "messages";

/// One operation of a profile, carried out again without the computation between.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Replay {
    /// The profile's command line, so that a reader notices another profile.
    pub command: Vec<String>,
    /// The number of ranks of the profile, and of the replay.
    pub ranks: u32,
    /// The family of communicators: `W_s2.*`.
    pub family: String,
    /// The communicators, which were replayed at the same time.
    pub comms: Vec<String>,
    /// The operation, or [`MESSAGES`].
    pub call: String,
    /// The size class.
    pub size_min: u64,
    /// See `size_min`.
    pub size_max: u64,
    /// The bytes of a block, or of a message, in the replay.
    pub bytes: u64,
    /// The calls of all ranks in the profile, or the messages.
    pub calls: u64,
    /// The bytes of these, as the profile has them; none in files of before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume: Option<u64>,
    /// When it was measured, in UTC; empty in files of before.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub measured: String,
    /// The hosts on which it was.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// The repetitions; none in files of before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repetitions: Option<u32>,
    /// The time of a call with all communicators at once: that of all ranks by the calls of all
    /// ranks, median of the repetitions.
    pub together_s: f64,
    /// The middle half of the repetitions, as a part of the median.
    pub together_spread: f64,
    /// The time of a call with one communicator at a time: a mean over the calls of all, of which
    /// each kind was measured once.
    pub alone_s: f64,
    /// See `together_spread`.
    pub alone_spread: f64,
    /// As [`Network::no_core`], of the replay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_core: Option<f64>,
}

/// Operations whose blocks may have different lengths, which no profile has one by one, so that a
/// replay has them equally long.
const WITH_VECTORS: [&str; 6] =
    ["MPI_Gatherv", "MPI_Scatterv", "MPI_Allgatherv", "MPI_Alltoallv", "MPI_Alltoallw", "MPI_Reduce_scatter"];

impl Replay {
    /// Returns whether the blocks of the program may have been of other lengths than those of the
    /// replay, so that it is not known what the network takes for the program's.
    pub fn assumes_equal_blocks(&self) -> bool {
        WITH_VECTORS.contains(&self.call.as_str())
    }
}

impl Network {
    /// Reads a `network.json`.
    pub fn read(path: &Path) -> Result<Network, ProfileError> {
        let text = std::fs::read_to_string(path).map_err(|source| ProfileError::File {
            path: path.to_owned(),
            action: "read",
            source,
        })?;
        let malformed = |error: serde_json::Error| ProfileError::Malformed {
            path: path.to_owned(),
            line: error.line() as u64,
            why: error.to_string(),
        };
        // The version decides whether the rest can be understood, so it is looked at first.
        let value: serde_json::Value = serde_json::from_str(&text).map_err(malformed)?;
        match value.get("network_version").and_then(serde_json::Value::as_u64) {
            Some(version) if version == 0 || version > u64::from(NETWORK_VERSION) => {
                Err(ProfileError::Malformed {
                    path: path.to_owned(),
                    line: 1,
                    why: format!(
                        "it has network_version {version}, this program reads up to {NETWORK_VERSION}; use the \
                     mpisee-through that came with the mpisee-bench that wrote it"
                    ),
                })
            }
            Some(_) => {
                let network: Network = serde_json::from_str(&text).map_err(malformed)?;
                match network.absurd() {
                    Some(why) => Err(ProfileError::Malformed { path: path.to_owned(), line: 1, why }),
                    None => Ok(network),
                }
            }
            None => Err(ProfileError::Malformed {
                path: path.to_owned(),
                line: 1,
                why: "it has no network_version, so it is not of mpisee-bench".to_owned(),
            }),
        }
    }

    /// A value that no measurement can have: a time or a spread that is negative or longer than a
    /// day.
    fn absurd(&self) -> Option<String> {
        const DAY_S: f64 = 86_400.0;
        let of_replays = self.replays.iter().flat_map(|it| {
            let numbers = [
                ("together_s", it.together_s),
                ("alone_s", it.alone_s),
                ("together_spread", it.together_spread),
                ("alone_spread", it.alone_spread),
            ];
            numbers.map(|(name, value)| (format!("{name} of {} on {}", it.call, it.family), value))
        });
        let of_pairs = self.pairs.iter().flat_map(|pair| {
            let of_pair = format!("between ranks {} and {}", pair.ranks[0], pair.ranks[1]);
            let points = pair.points.iter().flat_map(|it| {
                [
                    ("one_way_min_s", it.one_way_min_s),
                    ("one_way_median_s", it.one_way_median_s),
                    ("stream_min_s", it.stream_min_s),
                ]
            });
            let all: Vec<_> = points.chain([("gap_s", pair.gap_s)]).collect();
            all.into_iter().map(move |(name, value)| (format!("{name} {of_pair}"), value))
        });
        let of_cores = self.replays.iter().filter_map(|it| it.no_core).chain(self.no_core);
        if let Some(share) = of_cores.into_iter().find(|share| !(0.0..=1.0).contains(share)) {
            return Some(format!(
                "a no_core is {share}, and not a part from 0 to 1; make the file anew with mpisee-bench"
            ));
        }
        let is_absurd = |(_, value): &(String, f64)| !(0.0..=DAY_S).contains(value);
        let (what, value) = of_replays.chain(of_pairs).find(is_absurd)?;
        Some(format!("the {what} is {value}, which was not measured; make the file anew with mpisee-bench"))
    }

    /// The text of the file.
    pub fn text(&self) -> String {
        serde_json::to_string_pretty(self).expect("numbers, texts and lists are JSON") + "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(text: &str) -> Result<Network, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("network.json");
        std::fs::write(&path, text).unwrap();
        Network::read(&path).map_err(|error| error.to_string())
    }

    #[test]
    fn a_file_is_read_as_it_was_written() {
        let network = Network { network_version: NETWORK_VERSION, ranks: 7, ..Network::default() };
        assert_eq!(written(&network.text()), Ok(network));
        let lacking = Network { no_core: Some(99.0), network_version: NETWORK_VERSION, ..Network::default() };
        assert!(written(&lacking.text()).unwrap_err().contains("no_core is 99"));
        assert!(written("{\"network_version\": 0}").is_err());
        assert!(written("{}").unwrap_err().contains("no network_version"));
        assert!(written("{\"network_version\": 99}").unwrap_err().contains("99"));
        assert!(written("[").is_err());
    }

    #[test]
    fn times_that_nobody_measured_are_refused() {
        let replay = |together_s, alone_s| Replay {
            command: Vec::new(),
            ranks: 2,
            family: "W".to_owned(),
            comms: vec!["W".to_owned()],
            call: "MPI_Bcast".to_owned(),
            size_min: 8,
            size_max: 15,
            bytes: 8,
            calls: 1,
            volume: None,
            measured: String::new(),
            hosts: Vec::new(),
            repetitions: None,
            together_s,
            together_spread: 0.1,
            alone_s,
            alone_spread: 0.1,
            no_core: None,
        };
        let read = |together_s, alone_s| {
            let replays = vec![replay(together_s, alone_s)];
            written(&Network { network_version: NETWORK_VERSION, replays, ..Network::default() }.text())
        };
        assert!(read(1e-6, 0.0).is_ok());
        assert!(read(-1e-6, 1e-6).unwrap_err().contains("together_s of MPI_Bcast on W is -0.000001"));
        assert!(read(1e-6, 1e300).unwrap_err().contains("alone_s of MPI_Bcast on W is"));
    }

    #[test]
    fn a_model_is_a_line_in_each_segment() {
        let line = |from_bytes, to_bytes, latency_s, per_byte_s| SizeRange {
            from_bytes,
            to_bytes,
            latency_s,
            per_byte_s,
        };
        let model = PairModel {
            class: PairClass::Node,
            ranks: [0, 1],
            backend: "isend".to_owned(),
            eager_limit_bytes: Some(4096),
            segments: vec![line(1, 4096, 1e-6, 0.0), line(4097, 1 << 20, 5e-6, 1e-9)],
            error_median: 0.0,
            error_max: 0.0,
            gap_s: 0.0,
            gap_per_byte_s: 0.0,
            points: Vec::new(),
        };
        assert_eq!(model.one_way_s(0), Some(1e-6));
        assert_eq!(model.one_way_s(4096), Some(1e-6));
        assert_eq!(model.one_way_s(10_000), Some(5e-6 + 1e-5));
    }
}

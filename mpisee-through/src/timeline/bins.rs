//! The intervals of all nodes on one grid of time.
//!
//! Nodes read at moments of their own, and intervals that were joined are longer: what an interval
//! has is spread over the bins that it overlaps.

use super::load::TimeLine;
use super::{JOB, RANKS, UNCOUNTED, UNRECORDED, is_level};
use hashbrown::HashMap;

/// The quantities on the grid, by operation on a family of communicators.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CallSeries {
    pub family: String,
    pub call: String,
    /// By bin.
    pub calls: Vec<f64>,
    pub bytes: Vec<f64>,
    /// Over all ranks.
    pub time_s: Vec<f64>,
}

/// The counts of nodes, by device and quantity, over all nodes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeSeries {
    pub source: String,
    pub device: String,
    pub quantity: String,
    /// By bin.
    pub values: Vec<f64>,
    /// The nodes that have the device.
    pub nodes: u32,
    /// Bytes per second that the links of these nodes can carry, if all are known.
    pub link_bytes_per_s: Option<f64>,
}

/// A time line on a grid.
#[derive(Clone, Debug, PartialEq)]
pub struct Bins {
    /// How long a bin is, in seconds; the last one is what is left of the time.
    pub length_s: f64,
    pub count: usize,
    /// Where the last bin ends, in seconds.
    pub end_s: f64,
    /// The calls with most time first.
    pub calls: Vec<CallSeries>,
    pub nodes: Vec<NodeSeries>,
    pub ranks: u32,
    /// By bin, the time of all ranks whose nodes were read in it while they were recorded, in
    /// seconds.
    pub rank_s: Vec<f64>,
    /// The same while they were not.
    pub unrecorded_s: Vec<f64>,
    /// By bin, the part of the nodes' time in which what they count was looked at.
    pub counted: Vec<f64>,
}

/// Bins at most, whatever there are of intervals.
const MOST_BINS: usize = 1024;

impl Bins {
    /// On a grid of `most` bins at most, and no finer than the intervals are.
    pub fn from_line(line: &TimeLine, most: usize) -> Bins {
        // What is left at the end is in the last bin, if it is less than that part of one.
        const REST: f64 = 0.05;
        let end_s = line.end_s();
        // Agents read at multiples of their interval since the begin: so the bins begin where
        // intervals do.
        let interval_s = usual_interval_s(line).unwrap_or(end_s).max(1e-9);
        let most = most.clamp(1, MOST_BINS) as f64;
        let length_s = interval_s * ((end_s / interval_s - REST) / most).ceil().max(1.0);
        let count = (end_s / length_s - REST).ceil().clamp(1.0, most) as usize;
        let mut bins = Bins {
            length_s,
            count,
            end_s,
            calls: Vec::new(),
            nodes: Vec::new(),
            ranks: line.ranks(),
            rank_s: vec![0.0; count],
            unrecorded_s: vec![0.0; count],
            counted: vec![1.0; count],
        };
        bins.add_ranks(line);
        bins.add_calls(line);
        bins.widen();
        bins.add_nodes(line);
        bins
    }

    /// Where threads of a rank were in MPI at once, the time of the ranks is that of these threads,
    /// at the least what they were in MPI. When in an interval recording was switched is not known.
    fn widen(&mut self) {
        for bin in (0..self.count).filter(|&bin| self.unrecorded_s[bin] <= 0.0) {
            let in_calls_s: f64 = self.calls.iter().map(|series| series.time_s[bin]).sum();
            self.rank_s[bin] = self.rank_s[bin].max(in_calls_s);
        }
    }

    /// An agent that ended before the job did has no rows from then on.
    fn add_ranks(&mut self, line: &TimeLine) {
        let ranks: HashMap<&str, u32> =
            line.nodes.iter().map(|node| (node.host.as_str(), node.ranks)).collect();
        for row in line.node_rates.iter().filter(|row| row.source == JOB) {
            let ranks = ranks.get(row.host.as_str()).copied().unwrap_or(0);
            for (bin, share) in overlaps((self.length_s, self.count), row.begin_s.0, row.length_s.0) {
                match row.quantity.as_str() {
                    RANKS => self.rank_s[bin] += share * row.length_s.0 * f64::from(ranks),
                    UNRECORDED => {
                        self.rank_s[bin] -= share * row.value;
                        self.unrecorded_s[bin] += share * row.value;
                    }
                    UNCOUNTED => {
                        let of_all_s = self.length_of(bin) * line.nodes.len().max(1) as f64;
                        self.counted[bin] = (self.counted[bin] - share * row.value / of_all_s).max(0.0);
                    }
                    _ => {}
                }
            }
        }
        // What rounding leaves is no time of a rank.
        for (rank_s, unrecorded_s) in self.rank_s.iter_mut().zip(&self.unrecorded_s) {
            if *rank_s < 1e-6 * unrecorded_s {
                *rank_s = 0.0;
            }
        }
    }

    fn add_calls(&mut self, line: &TimeLine) {
        let mut places: HashMap<(&str, &str), usize> = HashMap::new();
        for row in &line.rates {
            let next = self.calls.len();
            let place = *places.entry((&row.family, &row.call)).or_insert(next);
            if place == next {
                let zeros = vec![0.0; self.count];
                self.calls.push(CallSeries {
                    family: row.family.clone(),
                    call: row.call.clone(),
                    calls: zeros.clone(),
                    bytes: zeros.clone(),
                    time_s: zeros,
                });
            }
            let (begin_s, length_s) = (row.begin_s.0, row.length_s.0);
            let grid = (self.length_s, self.count);
            let series = &mut self.calls[place];
            for (bin, share) in overlaps(grid, begin_s, length_s) {
                series.calls[bin] += share * row.calls as f64;
                series.bytes[bin] += share * row.bytes as f64;
                series.time_s[bin] += share * row.time_s.0;
            }
        }
        let key =
            |series: &CallSeries| (-series.time_s.iter().sum::<f64>(), -series.bytes.iter().sum::<f64>());
        self.calls.sort_by(|one, other| {
            let (one_key, other_key) = (key(one), key(other));
            one_key.0.total_cmp(&other_key.0).then(one_key.1.total_cmp(&other_key.1))
        });
    }

    fn add_nodes(&mut self, line: &TimeLine) {
        let mut places: HashMap<(&str, &str, &str), usize> = HashMap::new();
        let mut hosts: HashMap<usize, Vec<&str>> = HashMap::new();
        let bin_lengths_s: Vec<f64> = (0..self.count).map(|bin| self.length_of(bin)).collect();
        for row in line.node_rates.iter().filter(|row| row.source != JOB) {
            let next = self.nodes.len();
            let place = *places.entry((&row.source, &row.device, &row.quantity)).or_insert(next);
            if place == next {
                self.nodes.push(NodeSeries {
                    source: row.source.clone(),
                    device: row.device.clone(),
                    quantity: row.quantity.clone(),
                    values: vec![0.0; self.count],
                    ..NodeSeries::default()
                });
            }
            let known = hosts.entry(place).or_default();
            if !known.contains(&row.host.as_str()) {
                known.push(&row.host);
            }
            let series = &mut self.nodes[place];
            let is_level = is_level(&row.quantity);
            let (length_s, count) = (self.length_s, self.count);
            for (bin, share) in overlaps((length_s, count), row.begin_s.0, row.length_s.0) {
                let share = if is_level { share * row.length_s.0 / bin_lengths_s[bin] } else { share };
                series.values[bin] += share * row.value;
            }
        }
        for (place, hosts) in hosts {
            let series = &mut self.nodes[place];
            series.nodes = hosts.len() as u32;
            let of_host = |host: &&str| {
                let node = line.nodes.iter().find(|node| node.host == **host)?;
                node.link_bytes_per_s.get(&series.device).copied()
            };
            series.link_bytes_per_s = hosts.iter().map(of_host).sum();
        }
        self.nodes.sort_by(|one, other| {
            (&one.source, &one.device, &one.quantity).cmp(&(&other.source, &other.device, &other.quantity))
        });
    }

    /// The part of the ranks' time in a bin, as far as it was recorded.
    pub fn share(&self, bin: usize, time_s: f64) -> f64 {
        let share = if self.rank_s[bin] > 0.0 { time_s / self.rank_s[bin] } else { 0.0 };
        share.min(1.0)
    }

    /// The same over all bins.
    pub fn mean_share(&self, times_s: &[f64]) -> f64 {
        let rank_s: f64 = self.rank_s.iter().sum();
        if rank_s > 0.0 { (times_s.iter().sum::<f64>() / rank_s).min(1.0) } else { 0.0 }
    }

    /// The part of the ranks' time in a bin in which recording was off.
    pub fn unrecorded_share(&self, bin: usize) -> f64 {
        let all_s = self.rank_s[bin] + self.unrecorded_s[bin];
        if all_s > 0.0 { self.unrecorded_s[bin] / all_s } else { 0.0 }
    }

    /// The same of each bin.
    pub fn shares(&self, times_s: &[f64]) -> Vec<f64> {
        times_s.iter().enumerate().map(|(bin, &time_s)| self.share(bin, time_s)).collect()
    }

    /// The begin of a bin; of the one after the last, the end.
    pub fn begin_s(&self, bin: usize) -> f64 {
        if bin >= self.count { self.end_s } else { bin as f64 * self.length_s }
    }

    /// How long a bin is.
    pub fn length_of(&self, bin: usize) -> f64 {
        self.begin_s(bin + 1) - self.begin_s(bin)
    }

    /// Sums by bin, per second.
    pub fn rates(&self, sums: &[f64]) -> Vec<f64> {
        sums.iter().enumerate().map(|(bin, sum)| sum / self.length_of(bin)).collect()
    }

    /// A node's sums by bin, per second over all the time in which they were looked at.
    pub fn mean_counted_rate(&self, sums: &[f64]) -> f64 {
        let seconds: f64 =
            self.counted.iter().enumerate().map(|(bin, part)| part * self.length_of(bin)).sum();
        sums.iter().sum::<f64>() / seconds.max(1e-9)
    }
}

/// The interval of the agents, in seconds: that of the slowest one, or what most rows have where
/// none says it.
fn usual_interval_s(line: &TimeLine) -> Option<f64> {
    let said = line.nodes.iter().map(|node| node.interval_s * 2f64.powi(node.joined.min(20) as i32));
    if let Some(most_s) = said.reduce(f64::max).filter(|&most_s| most_s > 0.0) {
        return Some(most_s);
    }
    let mut lengths: Vec<f64> = line.node_rates.iter().map(|row| row.length_s.0).collect();
    lengths.sort_by(f64::total_cmp);
    lengths.get(lengths.len() / 2).copied()
}

/// The bins that an interval overlaps, each with the part of the interval that is in it.
fn overlaps((bin_s, count): (f64, usize), begin_s: f64, length_s: f64) -> impl Iterator<Item = (usize, f64)> {
    let end_s = begin_s + length_s;
    let first = ((begin_s / bin_s) as usize).min(count - 1);
    (first..count).map_while(move |bin| {
        let from_s = begin_s.max(bin as f64 * bin_s);
        // What rounding leaves behind the last bin is in it.
        let to_s = if bin + 1 == count { end_s } else { end_s.min((bin + 1) as f64 * bin_s) };
        (to_s > from_s).then(|| (bin, (to_s - from_s) / length_s))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_spread_over_the_bins_that_it_overlaps() {
        let of = |begin_s: f64, length_s: f64| {
            let found: Vec<(usize, f64)> = overlaps((2.0, 5), begin_s, length_s).collect();
            let all: f64 = found.iter().map(|(_, share)| share).sum();
            assert!((all - 1.0).abs() < 1e-12, "{found:?}");
            found.into_iter().map(|(bin, share)| (bin, (share * 1000.0).round() / 1000.0)).collect::<Vec<_>>()
        };
        assert_eq!(of(0.0, 2.0), [(0, 1.0)]);
        assert_eq!(of(1.0, 2.0), [(0, 0.5), (1, 0.5)]);
        assert_eq!(of(3.0, 5.0), [(1, 0.2), (2, 0.4), (3, 0.4)]);
        assert_eq!(of(9.5, 0.500_001), [(4, 1.0)]);
        assert_eq!(of(10.0, 0.1), [(4, 1.0)]);
    }
}

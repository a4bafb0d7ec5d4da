//! Offsets and drifts between the clocks of hosts, from the program's own calls.
//!
//! Where every member depends on every other, nobody leaves before all have arrived: `departure of
//! i >= arrival of j`, for every pair of members, on a true clock. Each instance so bounds the
//! offset between two hosts from both sides, at two moments. A line that keeps all bounds is offset
//! and drift. The lines that do are a convex polygon in the offsets at the begin and at the end of
//! the run, which is cut by one bound after the other.

/// A bound of the offset between two clocks, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bound {
    /// When, on the clock that is compared.
    pub at_s: f64,
    /// The offset is at least this, or at most.
    pub offset_s: f64,
    pub is_upper: bool,
}

/// A clock beside a reference: `reference = clock + offset at that moment`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Offset {
    /// The offset at the moment 0, in seconds.
    pub at_zero_s: f64,
    /// The change of the offset per second.
    pub drift: f64,
    /// How far off the offset may be at any moment, in seconds.
    pub uncertainty_s: f64,
}

impl Offset {
    /// Of a clock beside itself.
    pub const NONE: Offset = Offset { at_zero_s: 0.0, drift: 0.0, uncertainty_s: 0.0 };

    /// The moment on the reference clock.
    pub fn correct(&self, clock_s: f64) -> f64 {
        clock_s + self.at_zero_s + self.drift * clock_s
    }

    /// Beside the reference of `next`, where this one's reference is the clock of `next`.
    pub fn then(&self, next: &Offset) -> Offset {
        Offset {
            at_zero_s: next.correct(self.at_zero_s),
            drift: (1.0 + self.drift) * (1.0 + next.drift) - 1.0,
            uncertainty_s: self.uncertainty_s + next.uncertainty_s,
        }
    }

    /// The reference beside this clock.
    pub fn inverse(&self) -> Offset {
        let rate = 1.0 + self.drift;
        Offset {
            at_zero_s: -self.at_zero_s / rate,
            drift: 1.0 / rate - 1.0,
            uncertainty_s: self.uncertainty_s,
        }
    }
}

/// Clocks of computers drift by less than this against each other, in seconds per second.
const MOST_DRIFT: f64 = 1e-3;

/// Steps in which the tolerance of bounds that contradict each other is searched.
const STEPS: u32 = 40;

/// The offset that keeps all bounds; none without a bound from either side.
///
/// Where clocks were adjusted during the run no line does, and bounds are relaxed by as little as
/// leaves one: this is a part of the uncertainty.
pub fn fit(bounds: &[Bound]) -> Option<Offset> {
    let moments = || bounds.iter().map(|bound| bound.at_s);
    let (begin_s, end_s) =
        (moments().fold(f64::INFINITY, f64::min), moments().fold(f64::NEG_INFINITY, f64::max));
    let sides = [false, true].map(|is_upper| {
        let side = bounds.iter().filter(move |bound| bound.is_upper == is_upper).map(|bound| bound.offset_s);
        (side.clone().fold(f64::INFINITY, f64::min), side.fold(f64::NEG_INFINITY, f64::max))
    });
    let [(lower_least, lower_most), (upper_least, upper_most)] = sides;
    if !(lower_least.is_finite() && upper_least.is_finite()) {
        return None;
    }
    let span_s = (end_s - begin_s).max(1e-6);
    let reach_s = MOST_DRIFT * span_s;
    let (least, most) = (lower_least.min(upper_least) - reach_s, lower_most.max(upper_most) + reach_s);
    let run = Run { begin_s, span_s, least, most };
    let within = |tolerance_s: f64| run.polygon(bounds, tolerance_s);
    let (mut tolerance_s, mut found) = (0.0, within(0.0));
    if found.is_empty() {
        let (mut too_small, mut enough) = (0.0, most - least);
        for _ in 0..STEPS {
            let middle = f64::midpoint(too_small, enough);
            if within(middle).is_empty() { too_small = middle } else { enough = middle }
        }
        (tolerance_s, found) = (enough, within(enough));
    }
    run.middle(&found, tolerance_s)
}

/// The moments and offsets between which a line is searched.
struct Run {
    begin_s: f64,
    span_s: f64,
    /// The range of offsets.
    least: f64,
    most: f64,
}

/// The offsets at the begin and at the end.
type Corner = [f64; 2];

impl Run {
    /// The corners of the lines that keep all bounds; none if no line does.
    fn polygon(&self, bounds: &[Bound], tolerance_s: f64) -> Vec<Corner> {
        let Run { least, most, .. } = *self;
        let mut corners = vec![[least, least], [most, least], [most, most], [least, most]];
        let mut next = Vec::new();
        let drift_s = MOST_DRIFT * self.span_s;
        // sign × (share of begin × offset there + share of end × offset there) <= limit
        let mut cut = |shares: [f64; 2], limit: f64| {
            clip(&corners, shares, limit, &mut next);
            std::mem::swap(&mut corners, &mut next);
        };
        cut([-1.0, 1.0], drift_s);
        cut([1.0, -1.0], drift_s);
        for bound in bounds {
            let sign = if bound.is_upper { 1.0 } else { -1.0 };
            let share = (bound.at_s - self.begin_s) / self.span_s;
            cut([sign * (1.0 - share), sign * share], sign * bound.offset_s + tolerance_s);
        }
        corners
    }

    /// The line in the middle of what is possible at the begin and at the end.
    fn middle(&self, corners: &[Corner], tolerance_s: f64) -> Option<Offset> {
        if corners.is_empty() {
            return None;
        }
        let ends = [0, 1].map(|end| {
            let offsets = || corners.iter().map(move |corner| corner[end]);
            let (least, most) =
                (offsets().fold(f64::INFINITY, f64::min), offsets().fold(f64::NEG_INFINITY, f64::max));
            (f64::midpoint(least, most), (most - least) / 2.0)
        });
        let [(begin, begin_gap), (end, end_gap)] = ends;
        let drift = (end - begin) / self.span_s;
        Some(Offset {
            at_zero_s: begin - drift * self.begin_s,
            drift,
            uncertainty_s: begin_gap.max(end_gap) + tolerance_s,
        })
    }
}

/// The part of a convex polygon where the weighted sum of the coordinates is at most `limit`.
fn clip(corners: &[Corner], weights: [f64; 2], limit: f64, kept: &mut Vec<Corner>) {
    let beyond = |corner: &Corner| weights[0] * corner[0] + weights[1] * corner[1] - limit;
    if corners.iter().all(|corner| beyond(corner) <= 0.0) {
        // PERF: most bounds cut nothing off.
        kept.clear();
        kept.extend_from_slice(corners);
        return;
    }
    kept.clear();
    for (at, corner) in corners.iter().enumerate() {
        let next = &corners[(at + 1) % corners.len()];
        let (here, there) = (beyond(corner), beyond(next));
        if here <= 0.0 {
            kept.push(*corner);
        }
        if (here < 0.0 && there > 0.0) || (here > 0.0 && there < 0.0) {
            let part = here / (here - there);
            kept.push([0, 1].map(|end| corner[end] + part * (next[end] - corner[end])));
        }
    }
}

/// A pair of hosts, by number, with the offset of the second one beside the first.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    pub hosts: [usize; 2],
    pub offset: Offset,
}

/// The offset of each host beside the first host of those that links join, with the number of that
/// one. Of several ways, the one of least uncertainty is taken.
pub fn join(hosts: usize, links: &[Link]) -> Vec<(usize, Offset)> {
    let mut joined: Vec<Option<(usize, Offset)>> = vec![None; hosts];
    for first in 0..hosts {
        if joined[first].is_some() {
            continue;
        }
        joined[first] = Some((first, Offset::NONE));
        loop {
            let known = &joined;
            let reach = |link: &Link| {
                let [one, other] = link.hosts;
                let (from, to, offset) = match (known[one], known[other]) {
                    (Some(from), None) => (from, other, link.offset),
                    (None, Some(from)) => (from, one, link.offset.inverse()),
                    _ => return None,
                };
                (from.0 == first).then(|| (to, offset.then(&from.1)))
            };
            let nearest = links
                .iter()
                .filter_map(reach)
                .min_by(|(_, one), (_, other)| one.uncertainty_s.total_cmp(&other.uncertainty_s));
            let Some((host, offset)) = nearest else { break };
            joined[host] = Some((first, offset));
        }
    }
    joined.into_iter().enumerate().map(|(host, joined)| joined.unwrap_or((host, Offset::NONE))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Uniform numbers from 0 to 1.
    fn random(state: &mut u64) -> f64 {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*state >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Bounds from calls each 0.1 s for 100 s, where ranks arrive within `spread_s`, and leave up
    /// to 100 µs after the last.
    fn bounds(offset_s: f64, drift: f64, spread_s: f64) -> Vec<Bound> {
        let mut state = 7;
        let mut bounds = Vec::new();
        for call in 0..1000 {
            let start_s = 0.1 * f64::from(call);
            let arrivals = [0, 1].map(|_| start_s + spread_s * random(&mut state));
            let last_s = arrivals[0].max(arrivals[1]);
            let departures = [0, 1].map(|_| last_s + 5e-6 + 1e-4 * random(&mut state));
            // The other clock shows less by the offset: true = clock + offset + drift x clock.
            let clock = |true_s: f64| (true_s - offset_s) / (1.0 + drift);
            let (arrival_s, departure_s) = (clock(arrivals[1]), clock(departures[1]));
            bounds.push(Bound { at_s: arrival_s, offset_s: departures[0] - arrival_s, is_upper: true });
            bounds.push(Bound { at_s: departure_s, offset_s: arrivals[0] - departure_s, is_upper: false });
        }
        bounds
    }

    #[test]
    fn offset_and_drift_are_found_within_the_stated_uncertainty() {
        for (offset_s, drift) in [(5.0, 20e-6), (-3e4, -80e-6), (0.0, 0.0)] {
            let found = fit(&bounds(offset_s, drift, 1e-3)).unwrap();
            assert!((1e-6..20e-6).contains(&found.uncertainty_s), "{found:?}");
            assert!((found.drift - drift).abs() < 1e-6, "{found:?}");
            for true_s in [0.0, 50.0, 100.0] {
                let clock_s = (true_s - offset_s) / (1.0 + drift);
                let off_s = (found.correct(clock_s) - true_s).abs();
                assert!(off_s <= found.uncertainty_s, "off by {off_s} s: {found:?}");
            }
        }
    }

    #[test]
    fn clocks_that_no_line_fits_are_less_certain() {
        let mut stepped = bounds(5.0, 20e-6, 1e-3);
        stepped.iter_mut().filter(|bound| bound.at_s > 45.0).for_each(|bound| bound.offset_s += 0.002);
        let found = fit(&stepped).unwrap();
        assert!((0.5e-3..3e-3).contains(&found.uncertainty_s), "{found:?}");
    }

    #[test]
    fn bounds_from_one_side_tell_nothing() {
        let mut upper = bounds(5.0, 0.0, 1e-3);
        upper.retain(|bound| bound.is_upper);
        assert_eq!(fit(&upper), None);
        assert_eq!(fit(&[]), None);
    }

    #[test]
    fn hosts_are_joined_by_the_most_certain_way() {
        let offset = |at_zero_s: f64, uncertainty_s: f64| Offset { at_zero_s, drift: 1e-5, uncertainty_s };
        let links = [
            Link { hosts: [0, 1], offset: offset(1.0, 1e-6) },
            Link { hosts: [2, 1], offset: offset(10.0, 1e-6) },
            Link { hosts: [0, 2], offset: offset(0.0, 1.0) },
            Link { hosts: [3, 4], offset: offset(2.0, 1e-6) },
        ];
        let joined = join(6, &links);
        let firsts: Vec<usize> = joined.iter().map(|(first, _)| *first).collect();
        assert_eq!(firsts, [0, 0, 0, 3, 3, 5]);
        let second = joined[2].1;
        assert!((second.at_zero_s + 9.0).abs() < 1e-3, "{second:?}");
        assert!((second.uncertainty_s - 2e-6).abs() < 1e-12, "{second:?}");
        let there_and_back = links[0].offset.then(&links[0].offset.inverse());
        assert!(there_and_back.at_zero_s.abs() < 1e-12 && there_and_back.drift.abs() < 1e-15);
    }
}

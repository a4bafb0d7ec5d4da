//! How the ranks of a node share its network interfaces: equations (1) and (2) of the CommBench
//! paper, fitted to the bandwidth between two nodes by the number of active ranks.

use crate::statistics::median;
use mpisee_profile::network::{InterfaceModel, InterfaceScheme};

/// The bandwidth of `active` ranks in units of an interface's.
fn shape(scheme: InterfaceScheme, number: u32, active: u32) -> f64 {
    match scheme {
        InterfaceScheme::Packed => 1.0 + f64::from(active.saturating_sub(number)) / f64::from(number),
        InterfaceScheme::RoundRobin => f64::from(active) / f64::from(active.div_ceil(number)),
    }
}

/// A scheme with the interface's bandwidth that fits best.
struct Candidate {
    scheme: InterfaceScheme,
    number: u32,
    bytes_per_s: f64,
    /// The sum of the squared relative errors, and their median.
    error: f64,
    error_median: f64,
}

fn candidate(scheme: InterfaceScheme, number: u32, measured: &[f64]) -> Candidate {
    let active = |at: usize| at as u32 + 1;
    let ratio = |(at, rate): (usize, &f64)| shape(scheme, number, active(at)) / rate;
    let ratios: Vec<f64> = measured.iter().enumerate().map(ratio).collect();
    let bytes_per_s = ratios.iter().sum::<f64>() / ratios.iter().map(|it| it * it).sum::<f64>();
    let errors: Vec<f64> = ratios.iter().map(|it| (bytes_per_s * it - 1.0).abs()).collect();
    let error = errors.iter().map(|it| it * it).sum();
    Candidate { scheme, number, bytes_per_s, error, error_median: median(&errors) }
}

/// Fits both schemes to the bandwidth of 1, 2, … active ranks; `None` of fewer than two.
pub fn fit(pattern: &str, bytes: u64, measured: &[f64]) -> Option<InterfaceModel> {
    if measured.len() < 2 {
        return None;
    }
    let best = |scheme| {
        let all = (1..=measured.len() as u32).map(|number| candidate(scheme, number, measured));
        all.min_by(|one, other| one.error.total_cmp(&other.error)).expect("there is one active rank")
    };
    let (packed, robin) = (best(InterfaceScheme::Packed), best(InterfaceScheme::RoundRobin));
    let (chosen, other) = if packed.error <= robin.error { (packed, robin) } else { (robin, packed) };
    Some(InterfaceModel {
        pattern: pattern.to_owned(),
        bytes,
        bytes_per_s: measured.to_vec(),
        scheme: chosen.scheme,
        interface_bytes_per_s: chosen.bytes_per_s,
        number: chosen.number,
        error_median: chosen.error_median,
        error_other: other.error_median,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn planted_schemes_are_found() {
        for (scheme, number) in [
            (InterfaceScheme::Packed, 2),
            (InterfaceScheme::Packed, 3),
            (InterfaceScheme::RoundRobin, 3),
            (InterfaceScheme::RoundRobin, 8),
        ] {
            let rate =
                |active| 25e9 * shape(scheme, number, active) * if active % 2 == 0 { 1.01 } else { 0.99 };
            let measured: Vec<f64> = (1..=12).map(rate).collect();
            let model = fit("rail", 1 << 24, &measured).unwrap();
            assert_eq!((model.scheme, model.number), (scheme, number), "{model:?}");
            assert!((model.interface_bytes_per_s / 25e9 - 1.0).abs() < 0.02, "{model:?}");
            assert!(model.error_median < model.error_other, "{model:?}");
        }
    }

    #[test]
    fn the_shapes_are_the_papers_equations() {
        // f (1 + ReLU(k - p) / p) with p = 2, and f k / ceil(k / r) with r = 3.
        let packed: Vec<f64> = (1..=4).map(|active| shape(InterfaceScheme::Packed, 2, active)).collect();
        assert_eq!(packed, [1.0, 1.0, 1.5, 2.0]);
        let robin: Vec<f64> = (1..=4).map(|active| shape(InterfaceScheme::RoundRobin, 3, active)).collect();
        assert_eq!(robin, [1.0, 2.0, 3.0, 2.0]);
    }
}

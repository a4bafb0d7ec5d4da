use super::growth::{Growth, MODELS, Model, Point};
use super::*;
use proptest::prelude::*;

/// Numbers that look like noise and are the same in each run of the test, from -1 to 1: a linear
/// congruence.
fn noise(seed: u64) -> impl FnMut() -> f64 {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as f64 / f64::from(1u32 << 30) - 1.0
    }
}

/// Of a normal distribution, nearly.
fn normal_noise(seed: u64) -> impl FnMut() -> f64 {
    let mut next = noise(seed);
    move || (0..12).map(|_| next()).sum::<f64>() / 2.0
}

fn points(numbers: &[(f64, f64)]) -> Vec<Point> {
    numbers.iter().map(|&(p, y)| Point { p, y, error: None }).collect()
}

#[test]
fn medians_and_deviations_are_those_of_the_textbook() {
    let spread = Spread::from_values(&[3.0, 1.0, 2.0, 10.0]);
    assert_eq!((spread.median, spread.min, spread.max), (2.5, 1.0, 10.0));
    assert!((spread.deviation.unwrap() - 4.082_482_904_638_63).abs() < 1e-12);
    assert_eq!(Spread::from_values(&[7.0]).deviation, None);
    assert_eq!(median(&[]), 0.0);
}

#[test]
fn five_runs_contain_the_median_with_94_per_cent() {
    let range = median_range(&[5.0, 1.0, 4.0, 2.0, 3.0]).unwrap();
    assert!((range.low, range.high) == (1.0, 5.0) && (range.confidence - 0.9375).abs() < 1e-9, "{range:?}");
    let six = median_range(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap();
    assert!((six.low, six.high) == (1.0, 6.0) && (six.confidence - 0.968_75).abs() < 1e-9);
    let nine: Vec<f64> = (1..=9).map(f64::from).collect();
    let nine = median_range(&nine).unwrap();
    assert!((nine.low, nine.high) == (2.0, 8.0) && (nine.confidence - 0.960_937_5).abs() < 1e-9);
    assert_eq!(median_range(&[1.0]), None);
}

#[test]
fn an_outlier_is_one_that_chance_does_not_make() {
    assert_eq!(outliers(&[1.0, 1.01, 0.99, 1.0, 1.9]), [4]);
    assert!(outliers(&[1.0, 1.01, 0.99, 1.0, 1.03]).is_empty());
    assert!(outliers(&[1.0, 1.0, 9.0]).is_empty(), "of three none can be told");
    // Far in standard deviations, and too near to matter.
    assert!(outliers(&[1.0, 1.000_01, 0.999_99, 1.0, 1.01]).is_empty());
    assert!(outliers(&[2.0; 6]).is_empty());
    // Grubbs' table has 1.764 for five values at 1 %, on both sides.
    assert!((grubbs(5) - 1.764).abs() < 5e-4, "{}", grubbs(5));
}

#[test]
fn equal_runs_rarely_have_outliers() {
    let found = (0..500).filter(|&seed| {
        let mut next = normal_noise(seed);
        let values: Vec<f64> = (0..6).map(|_| 1.0 + 0.1 * next()).collect();
        !outliers(&values).is_empty()
    });
    let found = found.count();
    assert!(found <= 15, "{found} of 500, where 5 are expected");
}

#[test]
fn a_correlation_has_the_interval_of_its_number_of_runs() {
    let x = [1.0, 2.0, 3.0, 4.0, 5.0];
    let y = [1.1, 1.9, 3.2, 3.8, 5.0];
    let found = correlation(&x, &y).unwrap();
    // 9.7 / sqrt(10 x 9.5).
    assert!((found.r - 0.995_199).abs() < 1e-6, "{found:?}");
    // The hyperbolic tangents of 3.015 ± 1.386.
    let [low, high] = found.interval.unwrap();
    assert!((low - 0.926).abs() < 1e-3 && (high - 0.999_7).abs() < 1e-4, "{found:?}");
    assert!(found.chance < 0.001 && (found.slope - 0.97).abs() < 1e-9, "{found:?}");
    assert!(correlation(&x[..3], &y[..3]).unwrap().interval.is_none());
    assert_eq!(correlation(&x[..2], &y[..2]), None);
    assert_eq!(correlation(&x, &[2.0; 5]), None);
    let falling = correlation(&x, &[5.0, 4.0, 3.0, 2.0, 1.0]).unwrap();
    assert!(falling.r == -1.0 && falling.chance < 1e-9, "{falling:?}");
}

#[test]
fn among_many_unrelated_numbers_the_largest_correlation_stays_below_the_bound() {
    // The table of critical values of r has 0.878 for five runs at 5 %.
    assert!((chance_correlation(5, 1).unwrap() - 0.878).abs() < 5e-4);
    assert_eq!(chance_correlation(2, 1), None);
    let (runs, tried) = (6, 20);
    let bound = chance_correlation(runs, tried).unwrap();
    let exceeded = (0..400).filter(|&seed| {
        let mut next = normal_noise(seed);
        let mut sample = || (0..runs).map(|_| next()).collect::<Vec<f64>>();
        let wall = sample();
        (0..tried).any(|_| correlation(&wall, &sample()).is_some_and(|found| found.r.abs() > bound))
    });
    let exceeded = exceeded.count();
    assert!(exceeded <= 36, "{exceeded} of 400, where 20 are expected");
}

#[test]
fn sets_of_equal_runs_differ_by_noise_and_others_do_not() {
    let found = difference(&[1.0, 1.1, 0.9], &[2.0, 2.1, 1.9]).unwrap();
    // Welch: standard error 0.0816, four degrees of freedom, 2.776.
    assert!((found.noise - 0.226_7).abs() < 1e-3 && found.chance < 0.001, "{found:?}");
    let single = difference(&[1.0, 1.1, 0.9], &[2.0]).unwrap();
    assert!((single.noise - 4.302_65 * 0.115_470).abs() < 1e-3, "{single:?}");
    assert_eq!(difference(&[1.0], &[1.41]), None);
    assert_eq!(difference(&[2.0; 3], &[2.0; 3]).unwrap().chance, 1.0);
    assert_eq!(difference(&[2.0; 3], &[3.0; 3]).unwrap().chance, 0.0);
    // 20 numbers of two equal programs, compared 200 times: one finding in 5 % of the comparisons.
    let wrong = (0..200).filter(|&seed| {
        let mut next = normal_noise(seed);
        let mut set = || (0..4).map(|_| 1.0 + 0.2 * next()).collect::<Vec<f64>>();
        let chances: Vec<f64> = (0..20).map(|_| difference(&set(), &set()).unwrap().chance).collect();
        holm(&chances).contains(&true)
    });
    let wrong = wrong.count();
    assert!(wrong <= 20, "{wrong} of 200");
}

#[test]
fn holms_bound_rises_with_what_was_found() {
    assert_eq!(holm(&[0.04, 0.001, 0.02, 0.5]), [false, true, false, false]);
    assert_eq!(holm(&[0.026, 0.001, 0.016, 0.024]), [true, true, true, true]);
    assert!(holm(&[]).is_empty());
}

fn value(model: Model, p: f64) -> f64 {
    match model {
        Model::Constant => 0.0,
        Model::Log => p.log2(),
        Model::Linear => p,
        Model::LinearLog => p * p.log2(),
        Model::Square => p * p,
    }
}

#[test]
fn a_planted_model_is_found_and_told_from_others() {
    for model in MODELS {
        let planted: Vec<(f64, f64)> =
            [1.0, 2.0, 4.0, 8.0].iter().map(|&p| (p, 3.0 + 2.0 * value(model, p))).collect();
        let found = Growth::from_points(&points(&planted)).unwrap();
        assert_eq!((found.best.model, found.others.len()), (model, 0), "{found:?}");
        let expected = 3.0 + 2.0 * value(model, 32.0);
        let at = found.at(32.0);
        assert!((at.value - expected).abs() < 1e-6 * expected, "{model}: {at:?}");
        assert!(at.high - at.low < 1e-3 * expected, "{model}: {at:?}");
        assert!(found.off().unwrap().abs() < 1e-6, "{found:?}");
        assert_eq!(found.text(), model.to_string());
    }
}

#[test]
fn noisy_points_do_not_tell_near_models_apart_and_the_interval_says_so() {
    let noisy = points(&[(1.0, 1.0), (2.0, 2.2), (4.0, 4.1), (8.0, 8.9)]);
    let found = Growth::from_points(&noisy).unwrap();
    assert_eq!(found.best.model, Model::Linear, "{found:?}");
    assert!(found.others.iter().any(|fit| fit.model == Model::LinearLog), "{found:?}");
    assert!(found.text().starts_with("p, or "), "{}", found.text());
    let at = found.at(32.0);
    assert!(at.low < 32.0 && at.high > 60.0, "{at:?}");
    // Ranks over a wide range tell them apart.
    let wide =
        points(&[(1.0, 1.0), (4.0, 4.1), (16.0, 15.8), (64.0, 65.0), (256.0, 254.0), (1024.0, 1030.0)]);
    let found = Growth::from_points(&wide).unwrap();
    assert_eq!(found.text(), "p", "{found:?}");
}

#[test]
fn what_does_not_grow_is_constant() {
    let flat = points(&[(1.0, 5.0), (2.0, 5.2), (4.0, 4.9), (8.0, 5.1)]);
    assert_eq!(Growth::from_points(&flat).unwrap().best.model, Model::Constant);
    let taken_for_growth = (0..200).filter(|&seed| {
        let mut next = normal_noise(seed);
        let noisy: Vec<(f64, f64)> = [1.0, 2.0, 4.0, 8.0].map(|p| (p, 5.0 + 0.3 * next())).to_vec();
        Growth::from_points(&points(&noisy)).unwrap().best.model != Model::Constant
    });
    let taken_for_growth = taken_for_growth.count();
    assert!(taken_for_growth <= 10, "{taken_for_growth} of 200");
    let falling = points(&[(1.0, 8.0), (2.0, 6.0), (4.0, 5.0), (8.0, 4.0)]);
    assert_eq!(Growth::from_points(&falling).unwrap().text(), "constant");
}

#[test]
fn too_few_points_have_no_fit() {
    assert_eq!(Growth::from_points(&points(&[(1.0, 1.0), (2.0, 2.0)])), None);
    assert_eq!(Growth::from_points(&points(&[(1.0, 1.0), (1.0, 1.1), (2.0, 2.0)])), None);
    assert_eq!(Growth::from_points(&points(&[(1.0, 0.0), (2.0, 0.0), (4.0, 0.0)])), None);
    // What nothing pointed to.
    let late = Growth::from_points(&points(&[(1.0, 0.0), (2.0, 0.0), (4.0, 0.0), (8.0, 5.0)])).unwrap();
    assert_eq!((late.held_out, late.off()), (Some(0.0), Some(-1.0)));
    // With three points there is nothing to hold out.
    assert_eq!(Growth::from_points(&points(&[(1.0, 1.0), (2.0, 2.0), (4.0, 4.0)])).unwrap().held_out, None);
}

#[test]
fn noise_of_repeated_runs_keeps_models_in_play() {
    let exact = [(1.0, 1.0), (2.0, 2.0), (4.0, 4.0), (8.0, 8.0)];
    let with_error = |error: f64| -> Vec<Point> {
        exact.iter().map(|&(p, y)| Point { p, y, error: Some(error * y) }).collect()
    };
    assert!(Growth::from_points(&with_error(1e-6)).unwrap().others.is_empty());
    let noisy = Growth::from_points(&with_error(0.2)).unwrap();
    assert!(noisy.others.iter().any(|fit| fit.model == Model::LinearLog), "{noisy:?}");
    assert!(noisy.at(32.0).high > 40.0, "{noisy:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn planted_models_survive_units_and_little_noise(
        which in 1..5usize,
        base in 0.0..10.0f64,
        slope in 0.5..10.0f64,
        unit in -6..6i32,
        seed in 0..1000u64,
    ) {
        let (model, unit) = (MODELS[which], 10f64.powi(unit));
        let mut next = noise(seed);
        let planted: Vec<(f64, f64)> = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0]
            .iter()
            .map(|&p| (p, unit * (base + 0.1 + slope * value(model, p)) * (1.0 + 1e-4 * next())))
            .collect();
        let found = Growth::from_points(&points(&planted)).unwrap();
        // The planted model is among those that are left; and what is predicted contains what is
        // planted.
        let left = std::iter::once(&found.best).chain(&found.others).any(|fit| fit.model == model);
        prop_assert!(left, "{model}: {found:?}");
        let (expected, at) = (unit * (base + 0.1 + slope * value(model, 256.0)), found.at(256.0));
        prop_assert!(at.low <= expected * 1.001 && at.high >= expected * 0.999, "{model}: {expected} {at:?}");
        prop_assert!(at.low <= at.value && at.value <= at.high);
    }

    #[test]
    fn a_correlation_does_not_depend_on_units(
        pairs in proptest::collection::vec((0.0..100.0f64, 0.0..100.0f64), 4..12),
        unit in 0.01..100.0f64,
    ) {
        let x: Vec<f64> = pairs.iter().map(|pair| pair.0).collect();
        let y: Vec<f64> = pairs.iter().map(|pair| pair.1).collect();
        let scaled: Vec<f64> = y.iter().map(|y| 7.0 + unit * y).collect();
        if let (Some(one), Some(other)) = (correlation(&x, &y), correlation(&x, &scaled)) {
            prop_assert!((one.r - other.r).abs() < 1e-6);
            prop_assert!(one.r.abs() <= 1.0 && (0.0..=1.0).contains(&one.chance));
            let [low, high] = one.interval.unwrap();
            prop_assert!(low <= one.r + 1e-9 && one.r <= high + 1e-9);
        }
    }

    #[test]
    fn the_range_of_the_median_contains_that_of_the_runs(
        values in proptest::collection::vec(-100.0..100.0f64, 2..20),
    ) {
        let range = median_range(&values).unwrap();
        let middle = median(&values);
        prop_assert!(range.low <= middle && middle <= range.high);
        prop_assert!(range.confidence > 0.5 - 1e-9);
        prop_assert!(values.len() < 6 || range.confidence >= CONFIDENCE);
    }
}

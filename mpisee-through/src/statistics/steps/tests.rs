use super::*;
use proptest::prelude::*;

/// The probability of a false step in these tests.
const LIMIT: f64 = 0.01;

/// A generator of numbers that look random (xorshift).
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        for _ in 0..16 {
            random.uniform();
        }
        random
    }

    /// From 0 to 1, without both.
    fn uniform(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        (-2.0 * self.uniform().ln()).sqrt() * (std::f64::consts::TAU * self.uniform()).cos()
    }
}

/// A name, and a run time of a distribution.
type Noise = (&'static str, fn(&mut Random) -> f64);

/// Distributions of run times, with the heaviest tails at the end.
const NOISES: [Noise; 7] = [
    ("normal", |random| 1.0 + 0.05 * random.normal()),
    ("rounded", |random| ((1.0 + 0.05 * random.normal()) * 20.0).round() / 20.0),
    ("two modes", |random| 1.0 + 0.01 * random.normal() + f64::from(u8::from(random.uniform() < 0.2))),
    ("exponential", |random| -random.uniform().ln()),
    ("log-normal", |random| random.normal().exp()),
    ("Pareto", |random| 1.0 / random.uniform()),
    ("Cauchy", |random| 1.0 + 0.1 * (random.normal() / random.normal()).abs()),
];

fn history(entries: usize, mut of_entry: impl FnMut(usize) -> Vec<f64>) -> Vec<Vec<f64>> {
    (0..entries).map(&mut of_entry).collect()
}

/// The number of histories with a step.
fn with_steps(histories: u64, mut of: impl FnMut(&mut Random) -> Vec<Vec<f64>>) -> usize {
    let has_step =
        |seed: &u64| noisy_steps(&of(&mut Random::new(*seed)), LIMIT).is_some_and(|steps| !steps.is_empty());
    (1..=histories).filter(has_step).count()
}

#[test]
fn noise_of_any_distribution_has_a_step_in_at_most_one_per_cent_of_histories() {
    for (name, noise) in NOISES {
        for (entries, runs) in [(20, 5), (20, 1), (8, 3)] {
            let found =
                with_steps(1000, |random| history(entries, |_| (0..runs).map(|_| noise(random)).collect()));
            assert!(found <= 10, "{name}, {entries} entries of {runs} runs: {found} of 1000");
        }
    }
}

#[test]
fn entries_that_differ_as_days_do_have_a_step_in_at_most_one_per_cent_of_histories() {
    let found = with_steps(1000, |random| {
        history(20, |_| {
            let day = 1.0 + 0.1 * random.normal();
            (0..5).map(|_| day * (1.0 + 0.02 * random.normal())).collect()
        })
    });
    assert!(found <= 10, "{found} of 1000");
}

#[test]
fn planted_steps_are_found_at_their_entry() {
    let (mut right, histories) = (0, 1000);
    for seed in 1..=histories {
        let mut random = Random::new(seed);
        let at = 2 + (random.uniform() * 17.0) as usize;
        let entries = history(20, |entry| {
            let level = if entry < at { 1.0 } else { 1.2 };
            (0..5).map(|_| level * (1.0 + 0.05 * random.normal())).collect()
        });
        // As of eight numbers of a history.
        let steps = noisy_steps(&entries, LIMIT / 8.0).unwrap();
        right += usize::from(matches!(steps[..], [step] if step.at == at));
    }
    assert!(right >= 950, "{right} of {histories}");
}

#[test]
fn a_step_that_one_slow_run_hides_is_possible() {
    let before = [[0.107, 0.109, 1.34], [0.106, 0.110, 0.108], [0.107, 0.105, 0.112], [0.111, 0.108, 0.107]];
    let after = [[0.234, 0.231, 0.240], [0.232, 0.229, 0.233], [0.222, 0.235, 0.236]];
    let entries: Vec<Vec<f64>> =
        before.iter().chain([&before[1]]).chain(&after).map(|it| it.to_vec()).collect();
    assert!(noisy_steps(&entries, LIMIT / 8.0).is_none_or(|steps| steps.is_empty()));
    let step = possible_step(&entries, 0.05, 0.2).unwrap();
    assert_eq!((step.at, step.to), (5, 8));
    assert!((step.after / step.before - 2.15).abs() < 0.05, "{step:?}");
    assert_eq!(possible_step(&entries, 0.05, 1.5), None);
}

#[test]
fn noise_has_a_possible_step_in_at_most_five_per_cent_of_histories() {
    for (name, noise) in NOISES {
        let is_possible = |seed: &u64| {
            let random = &mut Random::new(*seed);
            let entries = history(8, |_| (0..3).map(|_| noise(random)).collect());
            possible_step(&entries, 0.05, 0.0).is_some()
        };
        let found = (1..=1000).filter(is_possible).count();
        assert!(found <= 50, "{name}: {found}");
    }
}

#[test]
fn a_step_up_and_one_down_have_their_levels() {
    let mut random = Random::new(7);
    let level = |entry| if (6..13).contains(&entry) { 1.5 } else { 1.0 };
    let entries =
        history(20, |entry| (0..5).map(|_| level(entry) * (1.0 + 0.02 * random.normal())).collect());
    let steps = noisy_steps(&entries, LIMIT).unwrap();
    let places: Vec<[usize; 3]> = steps.iter().map(|step| [step.from, step.at, step.to]).collect();
    assert_eq!(places, [[0, 6, 13], [6, 13, 20]], "{steps:?}");
    let ratio = |step: &Step| step.after / step.before;
    assert!(
        (ratio(&steps[0]) - 1.5).abs() < 0.05 && (ratio(&steps[1]) - 1.0 / 1.5).abs() < 0.05,
        "{steps:?}"
    );
}

#[test]
fn small_steps_and_single_entries_are_no_steps_of_times() {
    let exact = |levels: &[f64]| -> Vec<Vec<f64>> {
        levels.iter().map(|level| (0..5).map(|run| level + 1e-4 * f64::from(run)).collect()).collect()
    };
    let steps = |levels: &[f64]| noisy_steps(&exact(levels), LIMIT).unwrap().len();
    assert_eq!(steps(&[1.0, 1.0, 1.0, 1.04, 1.04, 1.04]), 0);
    assert_eq!(steps(&[1.0, 1.0, 1.0, 1.06, 1.06, 1.06]), 1);
    assert_eq!(steps(&[1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 2.0]), 0);
}

#[test]
fn few_runs_cannot_show_a_step() {
    let entries = |entries: usize, runs: usize| history(entries, |entry| vec![1.0 + entry as f64; runs]);
    for (few, enough, runs) in [(3, 4, 5), (5, 6, 3), (17, 18, 1)] {
        assert_eq!(noisy_steps(&entries(few, runs), LIMIT / 8.0), None, "{few} entries of {runs} runs");
        assert!(
            noisy_steps(&entries(enough, runs), LIMIT / 8.0).is_some(),
            "{enough} entries of {runs} runs"
        );
    }
}

/// Places and levels of the steps.
fn exact(numbers: &[&[f64]]) -> Option<Vec<(usize, f64, f64)>> {
    let entries: Vec<Vec<f64>> = numbers.iter().map(|runs| runs.to_vec()).collect();
    Some(exact_steps(&entries)?.iter().map(|step| (step.at, step.before, step.after)).collect())
}

#[test]
fn exact_numbers_change_where_they_differ_for_good() {
    let [a, b, c] = [&[302.0, 302.0][..], &[402.0, 402.0], &[17.0, 17.0]];
    assert_eq!(exact(&[a, a, b, b]), Some(vec![(2, 302.0, 402.0)]));
    assert_eq!(exact(&[a, a, a, a, a, a, b, a]), Some(vec![]), "a single entry is none");
    assert_eq!(exact(&[a, a, b]), Some(vec![(2, 302.0, 402.0)]), "the newest has several runs");
    assert_eq!(exact(&[a, a, a, a, b, b, b, c]), Some(vec![(4, 302.0, 402.0), (7, 402.0, 17.0)]));
    assert_eq!(exact(&[a, a]), Some(vec![]));
}

#[test]
fn numbers_that_vary_as_times_do_are_not_exact() {
    assert_eq!(exact(&[&[302.0, 303.0], &[302.0, 302.0]]), None);
    assert_eq!(exact(&[&[5.0], &[4.0], &[5.0], &[6.0], &[5.0]]), None);
    assert_eq!(exact(&[&[5.0], &[5.0], &[6.0]]), Some(vec![]), "the newest has one run");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn steps_do_not_depend_on_units(seed in 1..10_000u64, unit in 1e-6..1e6f64, by in 0.5..2.0f64) {
        let mut random = Random::new(seed);
        let of = |entry| if entry < 6 { 1.0 } else { by };
        let entries = history(12, |entry| (0..5).map(|_| of(entry) * (1.0 + 0.05 * random.normal())).collect());
        let scaled = history(12, |entry| entries[entry].iter().map(|run| run * unit).collect());
        let places = |entries| noisy_steps(entries, LIMIT).map(|steps| steps.iter().map(|step| step.at).collect::<Vec<_>>());
        prop_assert_eq!(places(&entries), places(&scaled));
    }

    #[test]
    fn steps_are_in_order_and_their_levels_meet(seed in 1..10_000u64) {
        let mut random = Random::new(seed);
        let entries = history(30, |entry| (0..3).map(|_| (1 + entry / 9) as f64 * (1.0 + 0.1 * random.normal())).collect());
        let steps = noisy_steps(&entries, LIMIT).unwrap();
        prop_assert!(steps.iter().all(|step| step.from < step.at && step.at < step.to));
        prop_assert!(steps.windows(2).all(|pair| pair[0].at == pair[1].from && pair[0].to == pair[1].at));
    }
}

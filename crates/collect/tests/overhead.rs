//! The overhead of recording, from what a rank measured of it.

use mpisee_collect::overhead::Overhead;
use mpisee_profile::rows::{Memory, Seconds};
use mpisee_profile::segment::layout::{Header, overhead, sampled};
use mpisee_profile::segment::words::{Owner, Words};
use mpisee_profile::segment::{CallKey, OperationAtSite, Snapshot};
use mpisee_profile::{CommId, Operation, RegionId, Ticks};
use std::mem::offset_of;

const CALLS: u64 = 1000;

/// The overhead of a rank with a thousand Barriers that measured `measured` of them, each of
/// `ticks`, and `hidden` ticks for each.
fn overhead_of(measured: &[i64], hidden: i64) -> Overhead {
    overhead_with(measured, hidden, 0)
}

/// The same with `rare` ticks of what is measured each time.
fn overhead_with(measured: &[i64], hidden: i64, rare: u64) -> Overhead {
    let owner = Owner { pid: 1, host: "node0", world_rank: 0, world_size: 1 };
    let key = CallKey {
        communicator: CommId::WORLD,
        region: RegionId::OUTSIDE,
        operation: OperationAtSite::from_operation(Operation::Barrier),
        size_class: 0,
        memory: Memory::Host,
    };
    let mut words = Words::new(owner).counters(&[(key.pack(), [CALLS, 0, 70_000, 8, 900, 0])]);
    let mut set = |which: usize, value: u64| words.set(offset_of!(Header, sampled) + 8 * which, value);
    let count = measured.len() as i64;
    set(sampled::SAMPLES, measured.len() as u64);
    set(sampled::ALL_CALLS, CALLS);
    // Each stands for 50.
    set(sampled::CALLS, 50 * measured.len() as u64);
    set(sampled::TICKS, (50 * measured.iter().sum::<i64>()).cast_unsigned());
    set(sampled::SQUARES, 50 * measured.iter().map(|ticks| ticks.unsigned_abs().pow(2)).sum::<u64>());
    set(sampled::HIDDEN_TICKS, (50 * count * hidden).cast_unsigned());
    words.set(offset_of!(Header, overhead) + 8 * overhead::THOUSAND_CALLS, 33_000);
    words.set(offset_of!(Header, overhead) + 8 * overhead::RARE, rare);
    let snapshot = Snapshot::read(words.words()).unwrap();
    Overhead::from_snapshot(&snapshot, |ticks: Ticks| Seconds(ticks.get() as f64))
}

#[test]
fn few_measured_calls_are_no_range() {
    let overhead = overhead_of(&[40; 7], 0);
    let in_a_loop = Seconds(33_000.0);
    assert_eq!(overhead, Overhead { estimate_s: in_a_loop, low_s: in_a_loop, high_s: in_a_loop, samples: 0 });
}

#[test]
fn recording_takes_no_longer_than_the_rank_ran() {
    let seconds = |seconds| Seconds(seconds);
    let overhead =
        Overhead { estimate_s: seconds(3.0), low_s: seconds(1.0), high_s: seconds(9.0), samples: 8 };
    let capped = Overhead { estimate_s: seconds(2.0), low_s: seconds(1.0), high_s: seconds(2.0), samples: 8 };
    assert_eq!(overhead.within(seconds(2.0)), capped);
}

#[test]
fn calls_that_cost_the_same_leave_what_clocks_do_not_show() {
    // Of the 7 ticks more than in a loop two thirds may have passed beside misses of the program's
    // own.
    let low_s = Seconds(28_266.0);
    let overhead = overhead_of(&[40; 8], 0);
    assert_eq!(overhead, Overhead { estimate_s: Seconds(40e3), low_s, high_s: Seconds(48e3), samples: 8 });
    // 20 ticks more may be hidden, by 8 measured calls 34.
    let overhead = overhead_of(&[40; 8], 20);
    assert_eq!(
        overhead,
        Overhead { estimate_s: Seconds(45e3), low_s, high_s: Seconds(81_859.0), samples: 8 }
    );
}

#[test]
fn calls_that_differ_widen_the_range() {
    // A standard deviation of 30, of the mean of 9 one of 10.
    let overhead = overhead_of(&[10, 10, 70, 70, 10, 70, 40, 70, 10], 0);
    let mean = 360.0 / 9.0;
    assert!((overhead.estimate_s.0 - 1e3 * mean).abs() < 1.0, "{overhead:?}");
    let error = (overhead.high_s.0 / 1.2 - 1e3 * mean) / 1.96;
    assert!((9000.0..10_000.0).contains(&error), "{error}");
}

#[test]
fn what_is_rare_is_added_as_it_was_measured() {
    for calls in [7, 16] {
        let (without, with) = (overhead_of(&vec![40; calls], 3), overhead_with(&vec![40; calls], 3, 5_003));
        for (one, other) in [
            (without.low_s, with.low_s),
            (without.estimate_s, with.estimate_s),
            (without.high_s, with.high_s),
        ] {
            assert_eq!(other.0 - one.0, 5_003.0, "{calls} measured calls");
        }
    }
}

#[test]
fn the_first_measured_calls_weigh_less_than_later_ones() {
    // Of 16, 32, … 1024 calls, eight measured ones each: as good as 23.6 of one weight.
    let overhead = overhead_of(&[40; 56], 20);
    let weights = (4..=10).map(|power| f64::from(1 << power));
    let (sum, squares) =
        weights.fold((0.0, 0.0), |(sum, squares), it| (sum + 8.0 * it, squares + 8.0 * it * it));
    let of_hidden = (overhead.high_s.0 - 48e3) / 20e3;
    assert!((of_hidden - 1.0 - 1.96 / (sum * sum / squares).sqrt()).abs() < 1e-3, "{of_hidden}");
}

#[test]
fn what_measuring_takes_may_be_more_than_what_was_measured() {
    let overhead = overhead_of(&[-3; 16], -2);
    assert_eq!([overhead.estimate_s, overhead.low_s, overhead.high_s], [Seconds(0.0); 3]);
}

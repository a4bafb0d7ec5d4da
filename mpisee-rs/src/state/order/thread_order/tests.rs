use super::*;
use crate::storage::segment::publish;
use mpisee_order::Rules;
use mpisee_profile::segment::Snapshot;
use mpisee_profile::segment::layout::state;
use mpisee_profile::segment::order::ThreadOrder as ReadOrder;
use proptest::prelude::*;
use std::path::PathBuf;

/// A segment in a folder of its own. Orders refer to it, so it stays mapped.
struct Rank {
    folder: PathBuf,
    segment: &'static Segment,
}

impl Rank {
    fn new() -> Rank {
        static RANKS: AtomicU64 = AtomicU64::new(0);
        let number = RANKS.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("mpisee-order-{}-{number}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let (segment, complaint) = Segment::create(&folder).unwrap();
        assert_eq!(complaint, None);
        let header = segment.header();
        for (field, value) in [
            (&header.pid, u64::from(std::process::id())),
            (&header.world_size, 1),
            (&header.start_ticks, 1),
            (&header.state, state::ACTIVE),
        ] {
            field.store(value, Ordering::Relaxed);
        }
        publish(header);
        Rank { folder, segment: Box::leak(Box::new(segment)) }
    }
}

impl Drop for Rank {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.folder).unwrap();
    }
}

fn order(segment: &'static Segment) -> ThreadOrder {
    ThreadOrder::new(segment, 3, ClassOfTicks { ns_per_tick: 1 << 32 }, 0).unwrap()
}

/// The steps that a reader of the segment finds, and what else there is.
fn read(segment: &Segment) -> (Vec<Step>, ReadOrder) {
    let snapshot = Snapshot::read(segment).unwrap();
    let [(3, order)] = &snapshot.orders.threads()[..] else { panic!("there is one thread") };
    let compressed = match order.compressed.is_empty() {
        true => Rules::default(),
        false => Rules::decode(&order.compressed).unwrap(),
    };
    let numbers = compressed.iter().chain(order.recent.iter().copied());
    let steps: Vec<Step> = numbers.map(|number| order.steps[number as usize]).collect();
    assert_eq!(steps.len() as u64, order.length);
    (steps, order.clone())
}

fn step(kind: StepKind, key: u64, bytes: u64, tag: i32) -> Step {
    Step { kind, tag, key: SlotKey(key), bytes }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn readers_find_the_steps_in_their_order(
        raw in prop::collection::vec((0u64..5, 0u64..3, 0i32..4), 1..60), times in 1usize..80,
        published in prop::collection::vec(any::<prop::sample::Index>(), 0..4),
    ) {
        let rank = Rank::new();
        let mut order = order(rank.segment);
        let steps: Vec<Step> =
            raw.iter().map(|&(key, bytes, tag)| step(StepKind::Sent, key, bytes, tag)).collect();
        let steps = steps.repeat(times);
        let published: Vec<usize> = published.iter().map(|at| at.index(steps.len())).collect();
        for (at, &step) in steps.iter().enumerate() {
            order.take(step);
            if published.contains(&at) {
                order.publish();
            }
        }
        let (found, read) = read(rank.segment);
        prop_assert_eq!(found, steps);
        prop_assert_eq!(read.lost, 0);
    }
}

#[test]
fn polls_that_find_nothing_are_no_steps_and_no_time_between() {
    let rank = Rank::new();
    let mut order = order(rank.segment);
    let [call, poll] = [step(StepKind::Call, 1, 8, NO_TAG), step(StepKind::Call, 2, 0, NO_TAG)];
    let at = |order: &mut ThreadOrder, step, since: u64, ticks: u64, is_poll| {
        order.call(step, Ticks::new(since), Ticks::new(ticks), is_poll);
    };
    at(&mut order, call, 100, 10, false);
    at(&mut order, poll, 115, 20, true);
    at(&mut order, poll, 138, 20, true);
    order.complete(SlotKey(1));
    at(&mut order, poll, 160, 5, true);
    let (found, read) = read(rank.segment);
    assert_eq!(found, [call, step(StepKind::Completed, 1, 0, NO_TAG), poll]);
    let [first, second] = &read.edges[..] else { panic!("{:?}", read.edges) };
    assert_eq!((first.previous, first.step, first.count, first.during.ticks), (NO_STEP, 0, 1, 10));
    assert_eq!((second.previous, second.step, second.count), (0, 2, 1));
    assert_eq!((second.between.ticks, second.during.ticks), (5 + 3 + 2, 5));
}

#[test]
fn many_tags_are_one_step() {
    let rank = Rank::new();
    let mut order = order(rank.segment);
    (0..100).for_each(|tag| order.take(step(StepKind::Sent, 7, 64, tag)));
    let (found, read) = read(rank.segment);
    let tags: Vec<i32> = found.iter().map(|step| step.tag).collect();
    assert_eq!(tags, Vec::from_iter((0..16).chain(std::iter::repeat_n(MANY_TAGS, 84))));
    assert_eq!(read.steps.len(), 17);
}

#[test]
fn steps_without_room_are_counted_as_lost() {
    let rank = Rank::new();
    let mut order = order(rank.segment);
    let different = MOST_STEPS as u64 + 40;
    (0..different).for_each(|bytes| order.take(step(StepKind::Sent, 7, bytes, NO_TAG)));
    // One that is known does not follow on the last that had room.
    order.take(step(StepKind::Sent, 7, 0, NO_TAG));
    let (found, read) = read(rank.segment);
    assert_eq!((found.len(), read.lost), (MOST_STEPS, 41));
    assert!(found.iter().zip(0..).all(|(step, bytes)| step.bytes == bytes));
}

use super::runs::{LONG, OUTSIDE};
use super::*;
use crate::{RankSet, WorldRank};
use proptest::prelude::*;

fn runs_of(ranks: impl IntoIterator<Item = u32>) -> Runs {
    ranks.into_iter().map(WorldRank::new).collect()
}

fn ranks_of(runs: &Runs) -> Vec<u32> {
    runs.iter().map(WorldRank::get).collect()
}

proptest! {
    #[test]
    fn processes_of_other_worlds_are_counted_and_have_no_rank(
        ranks in proptest::collection::vec(prop_oneof![0u32..9, Just(OUTSIDE)], 0..40),
    ) {
        let runs = runs_of(ranks.iter().copied());
        prop_assert_eq!(ranks_of(&runs), ranks.clone());
        let insiders: Vec<u32> = ranks.iter().copied().filter(|&rank| rank != OUTSIDE).collect();
        prop_assert_eq!(u64::from(runs.outsiders()), (ranks.len() - insiders.len()) as u64);
        prop_assert_eq!(runs.min().map(WorldRank::get), insiders.iter().copied().min());
        let first = ranks.iter().position(|&rank| rank != OUTSIDE);
        prop_assert_eq!(runs.first_insider().map(CommRank::index), first);
        prop_assert_eq!(runs.to_set(), insiders.into_iter().collect::<RankSet>());
    }

    #[test]
    fn runs_keep_order_and_content(ranks in proptest::collection::vec(0u32..50, 0..60)) {
        let runs = runs_of(ranks.iter().copied());
        prop_assert_eq!(ranks_of(&runs), ranks.clone());
        for (index, rank) in ranks.iter().enumerate() {
            prop_assert_eq!(runs.get(CommRank::new(index as u32)), Some(WorldRank::new(*rank)));
        }
        for rank in 0..50 {
            let first = ranks.iter().position(|&other| other == rank);
            prop_assert_eq!(runs.position(WorldRank::new(rank)).map(CommRank::index), first);
        }
        prop_assert_eq!(runs.is_ascending(), ranks.is_sorted_by(|one, next| one < next));
        prop_assert_eq!(runs.get(CommRank::new(ranks.len() as u32)), None);
        prop_assert_eq!(runs.min().map(WorldRank::get), ranks.iter().copied().min());
        prop_assert_eq!(runs.to_set(), ranks.into_iter().collect::<RankSet>());
    }

    #[test]
    fn runs_are_the_set_of_their_ranks(
        runs in proptest::collection::vec((0u32..9000, prop_oneof![0u32..9, LONG..LONG + 9], -3i32..4), 0..3),
    ) {
        let apart = |(at, (first, count, stride)): (u32, (u32, u32, i32))| Run { first: first + 100_000 * at, count, stride };
        let runs = Runs((1u32..).zip(runs).map(apart).collect());
        let ranks: std::collections::BTreeSet<u32> = ranks_of(&runs).into_iter().collect();
        prop_assert_eq!(runs.min().map(WorldRank::get), ranks.first().copied());
        let set = runs.to_set();
        prop_assert_eq!(set.len(), ranks.len() as u64);
        prop_assert_eq!(set.iter().collect::<Vec<_>>(), ranks.into_iter().collect::<Vec<_>>());
    }

    #[test]
    fn a_record_leads_back(
        number: u32, parent in proptest::option::of(0u32..1 << CommId::BITS), text in "\\PC{0,40}",
        ranks in proptest::collection::vec(0u32..99, 1..9),
    ) {
        let (id, parent) = (CommId::new(number), parent.map(CommId::new));
        let group = runs_of(ranks.iter().copied());
        let created = Created {
            id, parent, letter: b's', n: 7, r: None, code: u64::from(number) << 20, members: u64::MAX - 7, local: None,
            peer: Some(CommId::new(4)), operation: 3, rank: CommRank::new(1), reorder: 0, group: group.clone(), remote: Some(group),
        };
        let code = Code { module: number, offset: u64::from(number) << 17 };
        for record in [
            Record::Created(created),
            Record::Label { id, text: text.clone() },
            Record::Fact { which: number, text: text.clone() },
            Record::Region { id: RegionId::new(number), parent: RegionId::new(3), name: text.clone() },
            Record::Variable { of_world: number % 2 == 0, class: "level".to_owned(), name: "pml_x".to_owned(), description: text.clone() },
            Record::Function { file: text.clone(), name: format!("{number}") },
            Record::Module { path: text, build_id: format!("{number:x}"), layout: number },
            Record::Loaded { module: number, addresses: code.offset..u64::MAX, bias: u64::from(number) << 30 },
            Record::Site { operation: number as u16, code },
            Record::Path { frames: vec![code, Code { module: 0, offset: 1 }] },
            Record::Freed { id },
        ] {
            let words = record.encode();
            prop_assert_eq!(Record::decode(&words), Some((record, words.len())));
            prop_assert_eq!(Record::decode(&words[..words.len() - 1]), None);
        }
    }

    #[test]
    fn any_words_decode_or_not_but_end(words in proptest::collection::vec(any::<u64>(), 0..40)) {
        if let Some((_, count)) = Record::decode(&words) {
            prop_assert!(count <= words.len());
        }
    }
}

proptest! {
    #[test]
    fn an_elided_list_keeps_what_every_member_needs(
        ranks in proptest::sample::subsequence((0u32..40).collect::<Vec<_>>(), 4..40).prop_shuffle(),
        outsiders in proptest::collection::vec(0usize..40, 0..5),
        itself: proptest::sample::Index,
    ) {
        let itself = ranks[itself.index(ranks.len())];
        let mut all = ranks.clone();
        outsiders.iter().for_each(|&at| all.insert(at.min(all.len()), OUTSIDE));
        let whole = runs_of(all.iter().copied());
        let elided = whole.without_list(Some(WorldRank::new(itself)));
        prop_assert!(elided.0.len() <= 6);
        prop_assert_eq!(elided.len(), whole.len());
        prop_assert_eq!(elided.outsiders(), whole.outsiders());
        prop_assert_eq!(elided.first_insider(), whole.first_insider());
        prop_assert_eq!(elided.min(), whole.min());
        let known = elided.to_set();
        prop_assert!(known.contains(itself));
        prop_assert!(known.iter().all(|rank| ranks.contains(&rank)));
        prop_assert_eq!(known.len() + elided.elided(), ranks.len() as u64);
        prop_assert!(elided.elided() > 0);
        let created = Created { group: elided.clone(), ..Created::with_world(CommId::new(2), CommRank::new(1), Runs::default()) };
        let words = Record::Created(created.clone()).encode();
        prop_assert_eq!(Record::decode(&words), Some((Record::Created(created), words.len())));
        prop_assert_eq!(Record::decode(&words[..words.len() - 1]), None);
    }
}

/// docs/explanation/cost.md has the figures.
#[test]
fn log_entry_of_a_member_does_not_grow_with_the_communicator() {
    const RANKS: u32 = 1 << 20;
    // A full period of a linear congruential generator modulo a power of two (Knuth, volume 2,
    // 3.2.1.2): an order in which neighbours have no constant distance.
    let next = |rank: u32| rank.wrapping_mul(1_664_525).wrapping_add(1_013_904_223) % RANKS;
    let shuffled = runs_of(std::iter::successors(Some(0), |&rank| Some(next(rank))).take(RANKS as usize));
    assert_eq!(shuffled.to_set(), RankSet::first(RANKS));
    let created = |group| Created::with_world(CommId::new(2), CommRank::new(7), group);
    let whole = created(shuffled);
    let bytes = |created: &Created| Record::Created(created.clone()).encode().len() * 8;
    assert!(bytes(&whole) > 6_000_000, "{}", bytes(&whole));
    let elided = whole.without_list(1024).expect("it has no order");
    assert_eq!((bytes(&elided), elided.group.len()), (96, RANKS.into()));
    let regular = created(Runs::first(RANKS));
    assert_eq!(regular.without_list(1024), None);
}

#[test]
fn few_processes_are_listed_whatever_their_order() {
    let three = Created::with_world(CommId::new(2), CommRank::FIRST, runs_of([7, 1, 3]));
    assert_eq!(three.without_list(0), None);
    let four = Created::with_world(CommId::new(2), CommRank::new(3), runs_of([7, 1, 3, 2]));
    assert_eq!(four.without_list(9), None);
    assert_eq!(four.without_list(1).map(|four| four.group.to_set().to_string()), Some("1-2,7".to_owned()));
}

#[test]
fn regular_groups_take_one_run() {
    for ranks in [vec![0, 1, 2, 3], vec![7, 5, 3, 1], vec![0, 64, 128, 192]] {
        assert_eq!(runs_of(ranks).0.len(), 1);
    }
}

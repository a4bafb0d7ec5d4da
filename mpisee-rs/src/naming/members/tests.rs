use super::*;

/// A group in Open MPI, by the world ranks of its members; negative for other worlds.
struct Model {
    members: Vec<c_int>,
    world_size: u32,
    /// Comparisons in `MPI_Group_translate_ranks`.
    compared: u64,
    groups: u64,
    /// Calls until MPI fails.
    until_failure: u64,
}

impl Model {
    fn new(members: &[c_int], world_size: u32) -> Self {
        Model { members: members.to_vec(), world_size, compared: 0, groups: 0, until_failure: u64::MAX }
    }

    fn translate(&mut self, target: &[c_int], first: u32, places: &mut [c_int]) -> bool {
        if self.until_failure == 0 {
            return false;
        }
        self.until_failure -= 1;
        let members = &self.members[first as usize..][..places.len()];
        for (member, place) in members.iter().zip(places) {
            let found = target.iter().position(|rank| rank == member);
            self.compared += found.map_or(target.len(), |at| at + 1) as u64;
            *place = found.map_or(constant::UNDEFINED, |at| at as c_int);
        }
        true
    }
}

impl Translation for Model {
    fn to_world(&mut self, first: u32, ranks: &mut [c_int]) -> bool {
        let world: Vec<c_int> = (0..self.world_size as c_int).collect();
        self.translate(&world, first, ranks)
    }

    fn to_few(&mut self, few: &[c_int], first: u32, places: &mut [c_int]) -> bool {
        assert!(few.iter().all(|&rank| (0..self.world_size as c_int).contains(&rank)), "{few:?}");
        self.groups += 1;
        self.translate(few, first, places)
    }
}

const MOST_RUNS: usize = 1024;

fn elided(size: u32, first: u32) -> Listed {
    Listed::Elided { size, first: WorldRank::new(first) }
}

fn runs(members: &[c_int]) -> Runs {
    members.iter().map(|&rank| WorldRank::translated(rank)).collect()
}

/// Lists them by prediction; returns comparisons and groups made.
#[track_caller]
fn assert_listed(members: &[c_int], world_size: u32) -> (u64, u64) {
    let mut model = Model::new(members, world_size);
    let size = members.len() as u32;
    assert_eq!(predicting(&mut model, size, world_size, MOST_RUNS), Listed::Runs(runs(members)));
    assert_eq!(at_once(&mut Model::new(members, world_size), size, MOST_RUNS), Listed::Runs(runs(members)));
    (model.compared, model.groups)
}

/// Regular lists of about `world` members, by what they are.
fn regular(world: c_int) -> Vec<(&'static str, Vec<c_int>)> {
    vec![
        ("all", (0..world).collect()),
        ("reversed", (0..world).rev().collect()),
        ("every third", (0..world).step_by(3).collect()),
        ("the upper half", (world / 2..world).collect()),
        ("rotated", (world / 3..world).chain(0..world / 3).collect()),
        ("in blocks of 32 of 64", (0..world).filter(|rank| rank % 64 < 32).collect()),
        ("without every seventh", (0..world).filter(|rank| rank % 7 != 6).collect()),
    ]
}

#[test]
fn comparisons_of_regular_lists_grow_like_the_members() {
    for ((what, small), (_, large)) in regular(1 << 9).into_iter().zip(regular(1 << 12)) {
        let ((few, _), (many, groups)) = (assert_listed(&small, 1 << 9), assert_listed(&large, 1 << 12));
        let (per_small, per_large) = (few / small.len() as u64, many / large.len() as u64);
        // Looked up one by one it would be 2048. Each of the blocks is a jump, which costs as much
        // as there are processes.
        let most = if what.starts_with("in blocks") { 128 } else { 64 };
        assert!(
            per_small <= most && per_large <= most,
            "{what}: {per_small}, then {per_large} comparisons for each"
        );
        assert!(groups <= large.len() as u64 / 5, "{what}: {groups} groups for {} members", large.len());
    }
}

#[test]
fn processes_of_other_worlds_and_short_lists_are_listed() {
    assert_listed(&[], 100);
    for rank in [0, 57, 99, -1] {
        assert_listed(&[rank], 100);
    }
    assert_listed(&[-5, -5, 3, 4, 5, -5, 99, 98, 97, -5], 100);
    assert_listed(&[99, 0, 98, 1, 97, 2], 100);
}

#[test]
fn a_list_without_order_is_elided_at_a_limited_cost() {
    // A full period of a linear congruential generator (Knuth, volume 2, 3.2.1.2).
    const WORLD: u32 = 1 << 14;
    let next = |rank: u32| rank.wrapping_mul(1_664_525).wrapping_add(1_013_904_223) % WORLD;
    let shuffled = std::iter::successors(Some(7), |&rank| Some(next(rank)));
    let shuffled: Vec<c_int> = shuffled.take(WORLD as usize).map(|rank| rank as c_int).collect();
    let swapped: Vec<c_int> = (0..WORLD as c_int).map(|rank| rank ^ 1).collect();
    let mut model = Model::new(&swapped, WORLD);
    assert_eq!(predicting(&mut model, WORLD, WORLD, 16), elided(WORLD, 1));
    assert!(model.compared < 64 * u64::from(WORLD), "{}", model.compared);
    let mut model = Model::new(&shuffled, WORLD);
    assert_eq!(predicting(&mut model, WORLD, WORLD, 16), elided(WORLD, 7));
    assert!(model.compared < 64 * u64::from(WORLD), "{}", model.compared);
    assert_eq!(at_once(&mut Model::new(&shuffled, WORLD), WORLD, 16), elided(WORLD, 7));
    // Processes of other worlds are one run, but each has to be looked for everywhere.
    let mut model = Model::new(&vec![constant::UNDEFINED; WORLD as usize], WORLD);
    assert_eq!(predicting(&mut model, WORLD, WORLD, 16), elided(WORLD, WorldRank::OUTSIDE.get()));
    assert!(model.compared < 64 * u64::from(WORLD), "{}", model.compared);
}

#[test]
fn any_list_is_the_same_by_prediction_as_at_once() {
    let mut seed = 1u64;
    let mut random = move |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    for _ in 0..300 {
        let world = 65 + random(300) as u32;
        let mut members: Vec<c_int> = (0..world as c_int).filter(|_| random(8) < 6).collect();
        for _ in 0..random(6) {
            let (one, other) = (random(members.len() as u64) as usize, random(members.len() as u64) as usize);
            members.swap(one, other);
            let by = random(3) as usize % (members.len() - one);
            members[one..].rotate_left(by);
        }
        members.iter_mut().for_each(|rank| {
            if random(40) == 0 {
                *rank = constant::UNDEFINED
            }
        });
        assert_listed(&members, world);
    }
}

#[test]
fn members_that_mpi_fails_to_translate_are_elided() {
    let members: Vec<c_int> = (5..300).collect();
    for until_failure in 0..6 {
        let mut model = Model { until_failure, ..Model::new(&members, 400) };
        let first = if until_failure == 0 { WorldRank::OUTSIDE } else { WorldRank::new(5) };
        assert_eq!(predicting(&mut model, 295, 400, 9), Listed::Elided { size: 295, first });
    }
}

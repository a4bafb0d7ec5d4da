//! Divides communicators into families of like ones.
//!
//! Communicators are a family if one call made them of the same parent, or if the same calls, one
//! after the other, made them of parents that are a family; so are those of like calls in a loop.
//! Their sizes are equal or, as of parts that do not divide evenly, differ by less than a factor of
//! two; labels are equal but for numbers in them.

use crate::units::natural_order;
use mpisee_profile::CommName;
use mpisee_profile::comm_name::creation;
use mpisee_profile::rows::CommRow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// Like communicators, or a single one.
#[derive(Clone, Debug)]
pub struct Family<'a> {
    /// The name, with `*` for what differs: `W_s2.*`.
    pub name: String,
    /// The family from which these were made.
    pub parent: Option<usize>,
    /// The members' indices in the list that was divided.
    pub indices: Vec<usize>,
    /// The members.
    pub rows: Vec<&'a CommRow>,
}

/// The index of each row's parent.
pub fn parents(rows: &[&CommRow]) -> Vec<Option<usize>> {
    // Of rows with one name, which `check` reports, the first gets the children.
    let mut indices: HashMap<&str, usize> = HashMap::new();
    for (index, row) in rows.iter().enumerate() {
        indices.entry(&row.comm).or_insert(index);
    }
    // A name has more steps than its parent's; anything else could lead in a circle.
    let steps = |name: &str| name.parse().map_or(0, |name: CommName| name.steps().len());
    let parent_of = |row: &&CommRow| {
        indices.get(row.parent.as_str()).copied().filter(|_| steps(&row.parent) < steps(&row.comm))
    };
    rows.iter().map(parent_of).collect()
}

/// Divides communicators into families, each after the one from which it was made; `kept` chooses
/// those that count.
pub fn families<'a>(rows: &[&'a CommRow], kept: &[bool]) -> Vec<Family<'a>> {
    let parents = parents(rows);
    let mut children: HashMap<Option<usize>, Vec<usize>> = HashMap::new();
    for (index, parent) in parents.into_iter().enumerate() {
        children.entry(parent).or_default().push(index);
    }
    for list in children.values_mut() {
        list.sort_by(|&left, &right| natural_order(&rows[left].comm, &rows[right].comm));
    }
    // All are divided and not the kept ones alone, so that who belongs together does not depend on
    // the choice.
    let mut divided: Vec<(Option<usize>, Vec<usize>)> = Vec::new();
    let roots = children.remove(&None).unwrap_or_default();
    divided.extend(roots.into_iter().map(|root| (None, vec![root])));
    let mut next = 0;
    while next < divided.len() {
        let below: Vec<Vec<usize>> =
            divided[next].1.iter().filter_map(|&index| children.remove(&Some(index))).collect();
        divided.extend(alike(rows, &below).into_iter().map(|indices| (Some(next), indices)));
        next += 1;
    }
    named(rows, kept, divided)
}

/// A family for each communicator that is kept.
pub fn each<'a>(rows: &[&'a CommRow], kept: &[bool]) -> Vec<Family<'a>> {
    let indices = (0..rows.len()).filter(|&index| kept[index]);
    let numbers: HashMap<usize, usize> = indices.clone().enumerate().map(|(at, index)| (index, at)).collect();
    let parents = parents(rows);
    let alone = |index: usize| Family {
        name: rows[index].comm.clone(),
        parent: parents[index].and_then(|parent| numbers.get(&parent).copied()),
        indices: vec![index],
        rows: vec![rows[index]],
    };
    indices.map(alone).collect()
}

/// The names of communicators by the names of their families.
pub type FamilyMembers = HashMap<String, HashSet<String>>;

/// The members of each family, by its name with its size: `W_s2.*@4`. Where `are_families`, each
/// row is a family already.
pub fn members_by_sized_name<'a>(
    rows: impl Iterator<Item = &'a CommRow>,
    are_families: bool,
) -> FamilyMembers {
    let mut rows: Vec<&CommRow> = rows.collect();
    rows.sort_by(|left, right| natural_order(&left.comm, &right.comm));
    let all = vec![true; rows.len()];
    let mut members = FamilyMembers::new();
    for family in if are_families { each(&rows, &all) } else { families(&rows, &all) } {
        let comms = family.rows.iter().map(|row| row.comm.clone());
        members.entry(family.sized_name()).or_default().extend(comms);
    }
    members
}

/// As many like creations on one communicator are those of a loop.
const LOOP: usize = 16;

/// The properties that like communicators share: how they were made, and what they are.
#[derive(PartialEq, Eq, Hash)]
struct Likeness {
    letter: char,
    /// Of the creations of this letter on a parent, the number in the name or, if parents made like
    /// communicators by calls of other numbers, the position.
    creation: Result<String, usize>,
    size: u32,
    label: String,
}

/// The children of a family, by likeness; `below` has them by parent.
fn alike(rows: &[&CommRow], below: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let kinds: Vec<Vec<(char, u32, String)>> = below.iter().map(|indices| kinds(rows, indices)).collect();
    // For each kind the creations on each parent, as their numbers and in their order.
    let mut made: HashMap<&(char, u32, String), Vec<Vec<&str>>> = HashMap::new();
    for (parent, (indices, kinds)) in below.iter().zip(&kinds).enumerate() {
        for (&index, kind) in indices.iter().zip(kinds) {
            let by_parent = made.entry(kind).or_insert_with(|| vec![Vec::new(); below.len()]);
            let number = Step::from_comm(&rows[index].comm).number;
            if by_parent[parent].last() != Some(&number) {
                by_parent[parent].push(number);
            }
        }
    }
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut known: HashMap<Likeness, usize> = HashMap::new();
    for (parent, (indices, kinds)) in below.iter().zip(&kinds).enumerate() {
        for (&index, kind) in indices.iter().zip(kinds) {
            let number = Step::from_comm(&rows[index].comm).number;
            let by_parent = &made[kind];
            let lengths: BTreeSet<usize> =
                by_parent.iter().map(Vec::len).filter(|&length| length > 0).collect();
            let position = by_parent[parent].iter().position(|&other| other == number).unwrap_or(0);
            let (letter, size, label) = kind.clone();
            let creation = match lengths.len() {
                _ if by_parent[parent].len() >= LOOP => Err(0),
                1 => Err(position),
                _ => Ok(number.to_owned()),
            };
            let likeness = Likeness { letter, creation, size, label };
            let group = *known.entry(likeness).or_insert_with(|| {
                groups.push(Vec::new());
                groups.len() - 1
            });
            groups[group].push(index);
        }
    }
    groups
}

/// Letter, size and label of a parent's children; of about equal parts of one creation, the size of
/// the largest.
fn kinds(rows: &[&CommRow], indices: &[usize]) -> Vec<(char, u32, String)> {
    let mut sizes: BTreeMap<&str, BTreeSet<u32>> = BTreeMap::new();
    for &index in indices {
        sizes.entry(creation(&rows[index].comm)).or_default().insert(rows[index].size);
    }
    let kind = |&index: &usize| {
        let row = rows[index];
        let mut largest = 0;
        for &size in sizes[creation(&row.comm)].iter().rev().take_while(|&&size| size >= row.size) {
            let is_even = u64::from(size) * 2 > u64::from(largest) && size > 1;
            largest = if is_even && largest > 0 { largest } else { size };
        }
        (Step::from_comm(&row.comm).letter, largest, without_numbers(&row.label))
    };
    indices.iter().map(kind).collect()
}

/// `row #` for `row 12`.
fn without_numbers(label: &str) -> String {
    let mut text = String::new();
    for c in label.chars() {
        match c.is_ascii_digit() {
            true if text.ends_with('#') => {}
            true => text.push('#'),
            false => text.push(c),
        }
    }
    text
}

/// A step of a name, or of a pattern, in which `*` may stand for any number: `s2.8` has the letter
/// `s`, the number `2` and the rest `8`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Step<'n> {
    letter: char,
    number: &'n str,
    rest: Option<&'n str>,
}

impl<'n> Step<'n> {
    fn new(text: &'n str) -> Self {
        let letter = text.chars().next().unwrap_or(' ');
        let rest = &text[letter.len_utf8().min(text.len())..];
        let (number, rest) = rest.split_once('.').map_or((rest, None), |(number, rest)| (number, Some(rest)));
        Step { letter, number, rest }
    }

    /// The last step of a name.
    fn from_comm(comm: &'n str) -> Self {
        Step::new(comm.rsplit('_').next().unwrap_or(comm))
    }
}

/// The families of what is kept, with their names.
fn named<'a>(
    rows: &[&'a CommRow],
    kept: &[bool],
    divided: Vec<(Option<usize>, Vec<usize>)>,
) -> Vec<Family<'a>> {
    let mut numbers: Vec<Option<usize>> = Vec::new();
    let mut families: Vec<Family<'a>> = Vec::new();
    // Counted over all families, so that a name does not depend on which are kept.
    let mut uses: HashMap<String, usize> = HashMap::new();
    for (parent, mut indices) in divided {
        let all: Vec<&CommRow> = indices.iter().map(|&index| rows[index]).collect();
        *uses.entry(pattern(&all)).or_default() += 1;
        indices.retain(|&index| kept[index]);
        // What hangs from a family that is not kept hangs from that family's parent.
        let parent = parent.and_then(|parent| numbers[parent]);
        if indices.is_empty() {
            numbers.push(parent);
            continue;
        }
        numbers.push(Some(families.len()));
        let rows: Vec<&CommRow> = indices.iter().map(|&index| rows[index]).collect();
        families.push(Family { name: pattern(&rows), parent, indices, rows });
    }
    // As in the names of profiles that are sums over ranks.
    for family in families.iter_mut().filter(|family| uses.get(&family.name).is_some_and(|&uses| uses > 1)) {
        family.name = family.sized_name();
    }
    families
}

/// `W_s2.*` for `W_s2.0` and `W_s2.8`.
fn pattern(rows: &[&CommRow]) -> String {
    let mut common: Vec<String> = rows[0].comm.split('_').map(str::to_owned).collect();
    for row in &rows[1..] {
        for (step, other) in common.iter_mut().zip(row.comm.split('_')) {
            if *step != other {
                *step = common_step(Step::new(step), Step::new(other));
            }
        }
    }
    common.join("_")
}

fn common_step(one: Step<'_>, other: Step<'_>) -> String {
    let same = |one: &str, other: &str| if one == other { one.to_owned() } else { "*".to_owned() };
    let made = format!("{}{}", one.letter, same(one.number, other.number));
    match (one.rest, other.rest) {
        (Some(one), Some(other)) => format!("{made}.{}", same(one, other)),
        _ => made,
    }
}

impl Family<'_> {
    /// For how many communicators the family stands.
    pub fn count(&self) -> u64 {
        self.rows.iter().map(|row| row.count).fold(0, u64::saturating_add)
    }

    /// Returns whether the family is a single row of `comms.csv`.
    pub fn is_single(&self) -> bool {
        self.rows.len() == 1
    }

    /// `4` or, of several sizes, `2-4`.
    pub fn sizes(&self) -> String {
        range(self.rows.iter().map(|row| row.size))
    }

    /// The name with the size, as tables print it where several families have one name.
    pub fn sized_name(&self) -> String {
        if self.name.contains('@') { self.name.clone() } else { format!("{}@{}", self.name, self.sizes()) }
    }
}

/// `4` or `2-4`.
pub fn range(numbers: impl Iterator<Item = u32> + Clone) -> String {
    let least = numbers.clone().min().unwrap_or(0);
    let most = numbers.max().unwrap_or(0);
    if least == most { least.to_string() } else { format!("{least}-{most}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpisee_profile::rows::Members;

    fn row(comm: &str, members: &str, label: &str) -> CommRow {
        let members: Members = members.parse().unwrap();
        CommRow {
            comm: comm.to_owned(),
            parent: comm.rsplit_once('_').map_or("", |(parent, _)| parent).to_owned(),
            size: members.all().len() as u32,
            count: 1,
            members,
            label: label.to_owned(),
            nodes: 1,
            ..CommRow::default()
        }
    }

    /// Name and size of each family.
    fn found(comms: &[(&str, &str)]) -> Vec<String> {
        let rows: Vec<CommRow> = comms.iter().map(|(comm, members)| row(comm, members, "")).collect();
        let rows: Vec<&CommRow> = rows.iter().collect();
        let all = families(&rows, &vec![true; rows.len()]);
        all.iter().map(|family| format!("{} {}", family.name, family.size_text())).collect()
    }

    #[test]
    fn parts_of_one_creation_are_a_family() {
        let comms = [("W", "0-5"), ("W_s1.0", "0-2"), ("W_s1.3", "3-5"), ("W_d2", "0-5"), ("W_d3", "0-5")];
        assert_eq!(found(&comms), ["W 6", "W_d2 6", "W_d3 6", "W_s1.* 2 × 3"]);
    }

    #[test]
    fn descendants_by_the_same_calls_are_a_family() {
        let comms = [
            ("W", "0-7"),
            ("W_s1.0", "0-3"),
            ("W_s1.4", "4-7"),
            ("W_s1.0_s1.0", "0-3"),
            ("W_s1.4_s1.0", "4-7"),
            ("W_s1.0_s3.0", "0-3"),
            ("W_s1.4_s3.0", "4-7"),
        ];
        assert_eq!(found(&comms), ["W 8", "W_s1.* 2 × 4", "W_s1.*_s1.0 2 × 4", "W_s1.*_s3.0 2 × 4"]);
    }

    #[test]
    fn creations_of_other_numbers_are_paired_in_their_order() {
        let comms = [
            ("W", "0-7"),
            ("W_s3.0", "0-3"),
            ("W_s3.4", "4-7"),
            ("W_s3.0_s21.0", "0-3"),
            ("W_s3.4_s20.0", "4"),
            ("W_s3.4_s25.0", "4-7"),
        ];
        assert_eq!(found(&comms), ["W 8", "W_s3.* 2 × 4", "W_s3.*_s*.0 2 × 4", "W_s3.4_s20.0 1"]);
    }

    #[test]
    fn unequal_numbers_of_creations_are_paired_by_number() {
        let comms = [
            ("W", "0-7"),
            ("W_s1.0", "0-3"),
            ("W_s1.4", "4-7"),
            ("W_s1.0_d1", "0-3"),
            ("W_s1.4_d1", "4-7"),
            ("W_s1.4_d2", "4-7"),
        ];
        assert_eq!(found(&comms), ["W 8", "W_s1.* 2 × 4", "W_s1.*_d1 2 × 4", "W_s1.4_d2 4"]);
    }

    #[test]
    fn parts_may_differ_in_size_as_uneven_ones_do() {
        let comms = [("W", "0-9"), ("W_s1.0", "0-3"), ("W_s1.4", "4-6"), ("W_s1.7", "7-9")];
        assert_eq!(found(&comms), ["W 10", "W_s1.* 3 × 3-4"]);
        let master = [("W", "0-2"), ("W_s1.0", "0"), ("W_s1.1", "1-2")];
        assert_eq!(found(&master), ["W 3", "W_s1.0 1", "W_s1.1 2"]);
        let two_kinds =
            [("W", "0-9"), ("W_s1.0", "0-3"), ("W_s1.4", "4-7"), ("W_s1.8", "8"), ("W_s1.9", "9")];
        assert_eq!(found(&two_kinds), ["W 10", "W_s1.*@4 2 × 4", "W_s1.*@1 2 × 1"]);
    }

    #[test]
    fn children_of_a_family_that_is_not_kept_hang_from_its_parent() {
        let rows = [row("W", "0-3", ""), row("W_d1", "0-3", ""), row("W_d1_s1.0", "0-1", "")];
        let rows: Vec<&CommRow> = rows.iter().collect();
        let found = families(&rows, &[true, false, true]);
        let shown: Vec<_> = found.iter().map(|family| (family.name.as_str(), family.parent)).collect();
        assert_eq!(shown, [("W", None), ("W_d1_s1.0", Some(0))]);
    }
}

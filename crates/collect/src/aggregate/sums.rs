//! Statistics of a number over ranks, and merging of sorted tables.

use serde::{Deserialize, Serialize};
use std::cmp::Ordering;

/// Statistics of a number over ranks, in integers, so that they do not depend on the order of
/// merging.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spread {
    /// The sum over ranks.
    pub sum: u128,
    /// The sum of the squares.
    pub squares: u128,
    /// The least.
    pub min: u64,
    /// The first rank that has it.
    pub min_rank: u32,
    /// The most.
    pub max: u64,
    /// The first rank that has it.
    pub max_rank: u32,
}

impl Spread {
    /// Of one rank.
    pub fn from_value(rank: u32, number: u64) -> Self {
        let wide = u128::from(number);
        Spread { sum: wide, squares: wide * wide, min: number, min_rank: rank, max: number, max_rank: rank }
    }

    /// The standard deviation over `ranks` ranks.
    pub fn deviation(&self, ranks: u64) -> f64 {
        let ranks = u128::from(ranks.max(1));
        // ranks² × variance, without loss where it fits.
        let exact = self.squares.checked_mul(ranks).zip(self.sum.checked_mul(self.sum));
        let scaled = match exact {
            Some((squares, square)) => squares.saturating_sub(square) as f64,
            None => self.squares as f64 * ranks as f64 - (self.sum as f64).powi(2),
        };
        scaled.max(0.0).sqrt() / ranks as f64
    }
}

/// A value that can be merged with that of other ranks.
pub trait Join {
    /// Adds the other's.
    fn join(&mut self, other: Self);
}

impl Join for Spread {
    fn join(&mut self, other: Self) {
        self.sum = self.sum.saturating_add(other.sum);
        self.squares = self.squares.saturating_add(other.squares);
        (self.min, self.min_rank) = (self.min, self.min_rank).min((other.min, other.min_rank));
        if (other.max, self.max_rank) > (self.max, other.max_rank) {
            (self.max, self.max_rank) = (other.max, other.max_rank);
        }
    }
}

impl<T: Join> Join for Option<T> {
    fn join(&mut self, other: Self) {
        match (self, other) {
            (Some(one), Some(other)) => one.join(other),
            (none @ None, other) => *none = other,
            (Some(_), None) => {}
        }
    }
}

/// Adds a sorted table to another.
pub fn merge<K: Ord, V: Join>(own: &mut Vec<(K, V)>, other: Vec<(K, V)>) {
    let mut new = Vec::new();
    let mut at = 0;
    for (key, value) in other {
        // PERF: ranks of a regular program have the same rows, so that it is mostly the next one.
        while own.get(at).is_some_and(|(known, _)| *known < key) {
            at += 1;
        }
        match own.get_mut(at) {
            Some((known, sum)) if *known == key => sum.join(value),
            _ => new.push((key, value)),
        }
    }
    if !new.is_empty() {
        own.extend(new);
        own.sort_by(|(left, _), (right, _)| left.cmp(right));
    }
}

/// Sorts a table, and merges rows with equal keys.
pub fn merge_equal_keys<K: Ord, V: Join>(rows: Vec<(K, V)>) -> Vec<(K, V)> {
    let mut rows = rows;
    rows.sort_by(|(left, _), (right, _)| left.cmp(right));
    let mut merged: Vec<(K, V)> = Vec::with_capacity(rows.len());
    for (key, value) in rows {
        match merged.last_mut() {
            Some((known, sum)) if *known == key => sum.join(value),
            _ => merged.push((key, value)),
        }
    }
    merged
}

/// Adds a table by name to another, and says which places the rows of both have in the result.
pub fn merge_named<V: Join>(own: &mut Vec<(String, V)>, other: Vec<(String, V)>) -> (Vec<u32>, Vec<u32>) {
    let (mut own_places, mut other_places) = (Vec::with_capacity(own.len()), Vec::with_capacity(other.len()));
    let mut merged: Vec<(String, V)> = Vec::with_capacity(own.len().max(other.len()));
    let mut right = other.into_iter().peekable();
    for (name, mut value) in std::mem::take(own) {
        while let Some((earlier, _)) = right.peek() {
            match earlier.cmp(&name) {
                Ordering::Greater => break,
                Ordering::Equal => value.join(right.next().expect("it was peeked at").1),
                Ordering::Less => {
                    other_places.push(merged.len() as u32);
                    merged.push(right.next().expect("it was peeked at"));
                    continue;
                }
            }
            other_places.push(merged.len() as u32);
            break;
        }
        own_places.push(merged.len() as u32);
        merged.push((name, value));
    }
    for row in right {
        other_places.push(merged.len() as u32);
        merged.push(row);
    }
    *own = merged;
    (own_places, other_places)
}

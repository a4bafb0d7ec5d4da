//! Who waits for whom, and who can never go on.

use std::collections::VecDeque;

/// When a node can go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// It does go on.
    Nothing,
    /// Once all those go on for which it waits.
    All,
    /// Once one of them does.
    Any,
}

/// Nodes by number, and for which others each waits.
#[derive(Debug, Default)]
pub struct Graph {
    nodes: Vec<(Needs, Vec<usize>)>,
}

impl Graph {
    /// So many nodes, which go on.
    pub fn with_nodes(nodes: usize) -> Graph {
        Graph { nodes: vec![(Needs::Nothing, Vec::new()); nodes] }
    }

    /// A further node; its number.
    pub fn add(&mut self, needs: Needs, awaited: Vec<usize>) -> usize {
        self.nodes.push((needs, awaited));
        self.nodes.len() - 1
    }

    /// Says for whom a node waits.
    pub fn set(&mut self, node: usize, needs: Needs, awaited: Vec<usize>) {
        self.nodes[node] = (needs, awaited);
    }

    /// The nodes for which a node waits.
    pub fn awaited(&self, node: usize) -> &[usize] {
        &self.nodes[node].1
    }

    /// The nodes that can never go on: each waits, directly or by way of others, for one that waits
    /// for itself. A node that waits for nobody goes on.
    pub fn stuck(&self) -> Vec<bool> {
        let mut waiting_for: Vec<Vec<usize>> = vec![Vec::new(); self.nodes.len()];
        for (node, (_, awaited)) in self.nodes.iter().enumerate() {
            awaited.iter().for_each(|&other| waiting_for[other].push(node));
        }
        let mut missing: Vec<usize> = self.nodes.iter().map(|(_, awaited)| awaited.len()).collect();
        let goes_on = |(needs, awaited): &(Needs, Vec<usize>)| *needs == Needs::Nothing || awaited.is_empty();
        let mut stuck: Vec<bool> = self.nodes.iter().map(|node| !goes_on(node)).collect();
        let mut free: VecDeque<usize> = (0..stuck.len()).filter(|&node| !stuck[node]).collect();
        while let Some(node) = free.pop_front() {
            for &waiter in waiting_for[node].iter().filter(|&&waiter| stuck[waiter]).collect::<Vec<_>>() {
                missing[waiter] -= 1;
                if self.nodes[waiter].0 == Needs::Any || missing[waiter] == 0 {
                    stuck[waiter] = false;
                    free.push_back(waiter);
                }
            }
        }
        stuck
    }

    /// The cycles in which stuck nodes wait for each other, each from its smallest node, and the
    /// nodes behind it, which wait for one of the cycle. Of several for which a node waits the
    /// first counts, so that each node belongs to one cycle.
    pub fn cycles(&self, stuck: &[bool]) -> Vec<Cycle> {
        let next = |node: usize| self.awaited(node).iter().copied().find(|&other| stuck[other]);
        let mut cycle_of: Vec<Option<usize>> = vec![None; stuck.len()];
        let mut cycles: Vec<Cycle> = Vec::new();
        for start in (0..stuck.len()).filter(|&node| stuck[node]) {
            let mut path = Vec::new();
            let mut is_on_path = std::collections::HashSet::new();
            let mut node = start;
            let found = loop {
                if let Some(cycle) = cycle_of[node] {
                    break cycle;
                }
                if !is_on_path.insert(node) {
                    let from = path.iter().position(|&one| one == node).unwrap_or_default();
                    let mut cycle: Vec<usize> = path.drain(from..).collect();
                    let least = cycle.iter().enumerate().min_by_key(|(_, node)| **node);
                    let least = least.map_or(0, |(at, _)| at);
                    cycle.rotate_left(least);
                    cycle.iter().for_each(|&node| cycle_of[node] = Some(cycles.len()));
                    cycles.push(Cycle { nodes: cycle, behind: Vec::new() });
                    break cycles.len() - 1;
                }
                path.push(node);
                match next(node) {
                    Some(other) => node = other,
                    // Nobody who is stuck waits for none that is.
                    None => return cycles,
                }
            };
            for node in path {
                cycle_of[node] = Some(found);
                cycles[found].behind.push(node);
            }
        }
        cycles
    }
}

/// Nodes that wait for each other, each for the next, the last for the first.
#[derive(Debug, PartialEq, Eq)]
pub struct Cycle {
    pub nodes: Vec<usize>,
    /// Nodes that wait for one of them, directly or by way of others.
    pub behind: Vec<usize>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(nodes: &[(Needs, &[usize])]) -> Graph {
        Graph { nodes: nodes.iter().map(|(needs, awaited)| (*needs, awaited.to_vec())).collect() }
    }

    fn stuck(nodes: &[(Needs, &[usize])]) -> Vec<usize> {
        let stuck = graph(nodes).stuck();
        (0..nodes.len()).filter(|&node| stuck[node]).collect()
    }

    use Needs::{All, Any, Nothing};

    #[test]
    fn chains_that_end_go_on() {
        assert_eq!(stuck(&[(All, &[1]), (All, &[2]), (Nothing, &[])]), [0; 0]);
        assert_eq!(stuck(&[(All, &[])]), [0; 0], "who waits for nobody that is known");
    }

    #[test]
    fn who_waits_in_a_cycle_is_stuck_with_all_behind() {
        let nodes: &[(Needs, &[usize])] = &[(All, &[1]), (All, &[2]), (All, &[1]), (Nothing, &[0])];
        assert_eq!(stuck(nodes), [0, 1, 2]);
        let cycles = graph(nodes).cycles(&graph(nodes).stuck());
        assert_eq!(cycles, [Cycle { nodes: vec![1, 2], behind: vec![0] }]);
        assert_eq!(stuck(&[(All, &[0])]), [0], "a rank that waits for itself");
    }

    #[test]
    fn one_of_several_is_enough_for_some() {
        assert_eq!(stuck(&[(Any, &[1, 2]), (All, &[0]), (Nothing, &[])]), [0; 0]);
        assert_eq!(stuck(&[(Any, &[1, 2]), (All, &[0]), (All, &[0])]), [0, 1, 2]);
        assert_eq!(stuck(&[(All, &[1, 2]), (All, &[0]), (Nothing, &[])]), [0, 1]);
    }

    #[test]
    fn cycles_are_apart_and_begin_with_their_smallest() {
        let nodes: &[(Needs, &[usize])] =
            &[(All, &[2]), (All, &[3]), (All, &[4]), (All, &[1]), (All, &[0]), (All, &[3])];
        let cycles = graph(nodes).cycles(&graph(nodes).stuck());
        assert_eq!(cycles[0], Cycle { nodes: vec![0, 2, 4], behind: vec![] });
        assert_eq!(cycles[1], Cycle { nodes: vec![1, 3], behind: vec![5] });
    }
}

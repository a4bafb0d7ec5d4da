//! The tree of communicators as lines of text, with branches drawn before the names.

use crate::family_rows::parents;
use crate::units::natural_order;
use mpisee_profile::rows::CommRow;

/// Communicators, or families of them, by descent.
pub struct Tree<'a> {
    names: Vec<&'a str>,
    /// The index of each one's parent; roots and those whose parent is missing have none.
    parents: Vec<Option<usize>>,
    children: Vec<Vec<usize>>,
    roots: Vec<usize>,
}

/// A line of the drawn tree: a communicator, or how many are left out there.
pub struct Line {
    /// The branch and the name.
    pub text: String,
    /// The index of the communicator.
    pub index: Option<usize>,
    /// Communicators that this line stands for without showing them, descendants included.
    pub left_out: usize,
}

/// A line that is left to draw.
enum Step {
    Comm(usize),
    LeftOut { siblings: usize, all: usize },
}

impl<'a> Tree<'a> {
    /// Sorts by descent, children in the order of their names.
    pub fn new(names: Vec<&'a str>, parents: Vec<Option<usize>>) -> Self {
        let mut order: Vec<usize> = (0..names.len()).collect();
        order.sort_by(|&left, &right| natural_order(names[left], names[right]));
        let mut children = vec![Vec::new(); names.len()];
        let mut roots = Vec::new();
        for index in order {
            match parents[index] {
                Some(parent) => children[parent].push(index),
                None => roots.push(index),
            }
        }
        // The world comes first, whatever else there is.
        roots.sort_by_key(|&root| names[root] != "W");
        Tree { names, parents, children, roots }
    }

    /// The rows of `comms.csv`.
    pub fn of_rows(rows: &'a [CommRow]) -> Self {
        let parents = parents(&rows.iter().collect::<Vec<_>>());
        Tree::new(rows.iter().map(|row| row.comm.as_str()).collect(), parents)
    }

    /// The choice, with the ancestors of what is chosen.
    pub fn with_ancestors(&self, chosen: &[bool]) -> Vec<bool> {
        let mut kept = chosen.to_vec();
        for index in (0..chosen.len()).filter(|&index| chosen[index]) {
            let mut ancestor = self.parents[index];
            while let Some(next) = ancestor.filter(|&next| !kept[next]) {
                kept[next] = true;
                ancestor = self.parents[next];
            }
        }
        kept
    }

    /// The lines of what is kept, with at most `limit` children of each communicator.
    ///
    /// The children of a communicator that is not kept hang from its parent.
    pub fn lines(&self, kept: &[bool], limit: usize) -> Vec<Line> {
        let mut lines = Vec::new();
        let roots = self.kept_among(&self.roots, kept);
        // Depth first without recursion: a chain of dups may be longer than the stack.
        let mut pending: Vec<(Step, String, String)> = Vec::new();
        pending.extend(roots.iter().rev().map(|&root| (Step::Comm(root), String::new(), String::new())));
        while let Some((step, branch, indent)) = pending.pop() {
            let index = match step {
                Step::Comm(index) => index,
                Step::LeftOut { siblings, all } => {
                    let below =
                        if all > siblings { format!(" and {} below", all - siblings) } else { String::new() };
                    let text = format!("{branch}… {siblings} more{below}");
                    lines.push(Line { text, index: None, left_out: all });
                    continue;
                }
            };
            let text = format!("{branch}{}", self.names[index]);
            lines.push(Line { text, index: Some(index), left_out: 0 });
            let steps = self.steps(&self.kept_among(&self.children[index], kept), kept, limit);
            let last = steps.len().saturating_sub(1);
            pending.extend(steps.into_iter().enumerate().rev().map(|(i, step)| {
                let (corner, line) = if i == last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
                (step, format!("{indent}{corner}"), format!("{indent}{line}"))
            }));
        }
        lines
    }

    /// The indices that are kept; instead of one that is not, its nearest kept descendants.
    fn kept_among(&self, indices: &[usize], kept: &[bool]) -> Vec<usize> {
        let mut found = Vec::new();
        let mut pending: Vec<usize> = indices.iter().rev().copied().collect();
        while let Some(index) = pending.pop() {
            if kept[index] {
                found.push(index);
            } else {
                pending.extend(self.children[index].iter().rev());
            }
        }
        found
    }

    fn steps(&self, children: &[usize], kept: &[bool], limit: usize) -> Vec<Step> {
        let (shown, rest) = children.split_at(limit.min(children.len()));
        let mut steps: Vec<Step> = shown.iter().map(|&index| Step::Comm(index)).collect();
        if !rest.is_empty() {
            let all = rest.iter().map(|&index| self.kept_below(index, kept)).sum();
            steps.push(Step::LeftOut { siblings: rest.len(), all });
        }
        steps
    }

    /// The number of nodes kept at this index and below it.
    fn kept_below(&self, index: usize, kept: &[bool]) -> usize {
        let mut number = 0;
        let mut pending = vec![index];
        while let Some(next) = pending.pop() {
            number += usize::from(kept[next]);
            pending.extend(&self.children[next]);
        }
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(names: &[(&str, &str)]) -> Vec<CommRow> {
        let row = |&(comm, parent): &(&str, &str)| CommRow {
            comm: comm.to_owned(),
            parent: parent.to_owned(),
            ..CommRow::default()
        };
        names.iter().map(row).collect()
    }

    fn drawn(rows: &[CommRow], kept: &[bool], limit: usize) -> String {
        Tree::of_rows(rows).lines(kept, limit).iter().map(|line| line.text.clone() + "\n").collect()
    }

    #[test]
    fn children_hang_from_their_parents() {
        let rows =
            rows(&[("S", ""), ("W", ""), ("W_d2", "W"), ("W_d1", "W"), ("W_d1_s1.0", "W_d1"), ("X", "gone")]);
        let expected = "W\n├─ W_d1\n│  └─ W_d1_s1.0\n└─ W_d2\nS\nX\n";
        assert_eq!(drawn(&rows, &[true; 6], usize::MAX), expected);
    }

    #[test]
    fn many_siblings_are_counted_instead() {
        let rows = rows(&[("W", ""), ("W_d1", "W"), ("W_d2", "W"), ("W_d3", "W"), ("W_d3_d1", "W_d3")]);
        assert_eq!(drawn(&rows, &[true; 5], 1), "W\n├─ W_d1\n└─ … 2 more and 1 below\n");
        assert_eq!(drawn(&rows, &[true; 5], 3), drawn(&rows, &[true; 5], usize::MAX));
    }

    #[test]
    fn ancestors_of_the_chosen_are_kept_where_asked() {
        let rows = rows(&[("W", ""), ("W_d1", "W"), ("W_d1_d1", "W_d1"), ("W_d2", "W")]);
        let chosen = [false, false, true, false];
        let tree = Tree::of_rows(&rows);
        assert_eq!(tree.with_ancestors(&chosen), [true, true, true, false]);
        assert_eq!(drawn(&rows, &chosen, 10), "W_d1_d1\n");
    }

    #[test]
    fn a_circle_is_not_followed() {
        let rows = rows(&[("A", "B"), ("B", "A"), ("C", "C")]);
        assert_eq!(drawn(&rows, &[true; 3], 10), "A\nB\nC\n");
    }
}

//! Call paths as a tree, merged from the outermost function inwards.

use super::{OnPath, Times};
use crate::group::seconds;
use crate::sheet::{self, Sheet, Value};
use mpisee_profile::operation::is_nccl;

/// A function, or at the end of a path an operation, with what was called below it.
#[derive(Debug, Default)]
struct Node {
    text: String,
    calls: u64,
    time_ns: u128,
    /// The time in MPI; none where there are only calls of NCCL.
    in_mpi_ns: Option<u128>,
    /// True if it is on a path that is shown.
    is_shown: bool,
    children: Vec<Node>,
}

impl Node {
    fn child(&mut self, text: String) -> &mut Node {
        let place = self.children.iter().position(|child| child.text == text).unwrap_or_else(|| {
            self.children.push(Node { text, ..Node::default() });
            self.children.len() - 1
        });
        &mut self.children[place]
    }

    fn add(&mut self, of: &OnPath, is_shown: bool) {
        self.calls = self.calls.saturating_add(of.calls);
        self.time_ns += of.time_ns;
        if !is_nccl(&of.call) {
            *self.in_mpi_ns.get_or_insert(0) += of.time_ns;
        }
        self.is_shown |= is_shown;
    }
}

/// The tree, most time first: the first paths of all, each function with the time of all paths
/// through it.
pub fn sheet(paths: &[OnPath], shown: usize, times: Times) -> Sheet {
    let mut root = Node::default();
    for (number, of) in paths.iter().enumerate() {
        let mut node = &mut root;
        let frames = of.frames.iter().map(|frame| frame.text());
        for text in frames.chain([of.call.clone()]) {
            node = node.child(text);
            node.add(of, number < shown);
        }
    }
    let heads = vec![
        sheet::number("time_s", "Time sum"),
        sheet::number("share_of_mpi", "% of MPI").of_whole(),
        sheet::number("calls", "Calls"),
        sheet::fixed("function", "FUNCTION"),
    ];
    Sheet { name: "paths", heads, rows: rows(root, times) }
}

/// Bytes of the lines before a function; what is deeper is not moved further to the right.
const MOST_INDENT_BYTES: usize = 1024;

/// The rows of all below a node, depth first without recursion: paths may be deep.
fn rows(root: Node, times: Times) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    let mut pending: Vec<(Node, String, String)> = Vec::new();
    let push =
        |pending: &mut Vec<(Node, String, String)>, mut children: Vec<Node>, indent: &str, is_top: bool| {
            children.retain(|child| child.is_shown);
            children.sort_by(|one, other| {
                other.time_ns.cmp(&one.time_ns).then_with(|| one.text.cmp(&other.text))
            });
            let last = children.len().saturating_sub(1);
            let lines = children.into_iter().enumerate().map(|(place, child)| {
                let (corner, line) = match (is_top, place == last) {
                    (true, _) => ("", ""),
                    (false, true) => ("└─ ", "   "),
                    (false, false) => ("├─ ", "│  "),
                };
                let line = if indent.len() < MOST_INDENT_BYTES { line } else { "" };
                (child, format!("{indent}{corner}"), format!("{indent}{line}"))
            });
            let lines: Vec<_> = lines.collect();
            pending.extend(lines.into_iter().rev());
        };
    push(&mut pending, root.children, "", true);
    while let Some((node, branch, indent)) = pending.pop() {
        rows.push(vec![
            Value::Seconds(seconds(node.time_ns)),
            node.in_mpi_ns.map_or(Value::Nothing, |time_ns| Value::Share(times.share(time_ns))),
            Value::Count(node.calls),
            Value::Text(format!("{branch}{}", node.text)),
        ]);
        push(&mut pending, node.children, &indent, false);
    }
    rows
}

//! Graphviz: the DOT language.

use super::graph::{Attribute, Attributes, Graph};
use anyhow::Result;
use std::io::Write;

/// Writes the graph.
pub fn write(graph: &Graph, out: &mut dyn Write) -> Result<()> {
    writeln!(out, "digraph {} {{", quoted(graph.name))?;
    writeln!(out, "  node [shape=box, style=filled, fontname=\"sans-serif\"];")?;
    writeln!(out, "  edge [fontname=\"sans-serif\", fontsize=10];")?;
    for node in &graph.nodes {
        let label = node.label.join("\n");
        // Hue, saturation and value: the more of the time, the deeper the colour.
        let colour = format!("0.08 {:.3} 1.0", node.share);
        let attributes = attributes(&node.attributes);
        writeln!(
            out,
            "  {} [label={}, fillcolor={}{attributes}];",
            quoted(&node.id),
            quoted(&label),
            quoted(&colour)
        )?;
    }
    for edge in &graph.edges {
        let (from, to) = (quoted(&graph.nodes[edge.from].id), quoted(&graph.nodes[edge.to].id));
        let width = 1.0 + 4.0 * edge.share;
        let attributes = attributes(&edge.attributes);
        writeln!(out, "  {from} -> {to} [label={}, penwidth={width:.2}{attributes}];", quoted(&edge.label))?;
    }
    writeln!(out, "}}")?;
    Ok(())
}

/// Attributes of Graphviz have the same names as some of ours: these are kept apart by a prefix.
fn attributes(attributes: &Attributes) -> String {
    let one = |(name, value): &(&str, Attribute)| {
        let value = match value {
            Attribute::Text(text) => text.clone(),
            Attribute::Count(number) => number.to_string(),
            Attribute::Real(number) => number.to_string(),
        };
        format!(", mpisee_{name}={}", quoted(&value))
    };
    attributes.iter().map(one).collect()
}

/// A quoted string: a backslash begins an escape, and control characters are left out.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            letter if letter.is_control() => quoted.push(' '),
            letter => quoted.push(letter),
        }
    }
    quoted + "\""
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn texts_of_the_program_stay_texts() {
        assert_eq!(quoted("a\"];\\\n\u{7}"), "\"a\\\"];\\\\\\n \"");
    }
}

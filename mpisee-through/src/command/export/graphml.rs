//! GraphML, as its primer at graphml.graphdrawing.org has it: one directed graph, and a key for each attribute.

use super::graph::{Attribute, Attributes, Graph};
use anyhow::Result;
use std::io::Write;

const HEAD: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
    xsi:schemaLocation="http://graphml.graphdrawing.org/xmlns http://graphml.graphdrawing.org/xmlns/1.0/graphml.xsd">"#;

/// Writes the graph.
pub fn write(graph: &Graph, out: &mut dyn Write) -> Result<()> {
    writeln!(out, "{HEAD}")?;
    keys(out, "node", graph.nodes.first().map(|node| &node.attributes))?;
    keys(out, "edge", graph.edges.first().map(|edge| &edge.attributes))?;
    writeln!(out, "  <graph id=\"{}\" edgedefault=\"directed\">", graph.name)?;
    for node in &graph.nodes {
        writeln!(out, "    <node id=\"{}\">", escaped(&node.id))?;
        data(out, "node", &node.attributes)?;
        writeln!(out, "    </node>")?;
    }
    for edge in &graph.edges {
        let (from, to) = (escaped(&graph.nodes[edge.from].id), escaped(&graph.nodes[edge.to].id));
        writeln!(out, "    <edge source=\"{from}\" target=\"{to}\">")?;
        data(out, "edge", &edge.attributes)?;
        writeln!(out, "    </edge>")?;
    }
    writeln!(out, "  </graph>\n</graphml>")?;
    Ok(())
}

fn keys(out: &mut dyn Write, of: &str, attributes: Option<&Attributes>) -> Result<()> {
    for (name, value) in attributes.into_iter().flatten() {
        let kind = match value {
            Attribute::Text(_) => "string",
            Attribute::Count(_) => "long",
            Attribute::Real(_) => "double",
        };
        writeln!(out, "  <key id=\"{of}_{name}\" for=\"{of}\" attr.name=\"{name}\" attr.type=\"{kind}\"/>")?;
    }
    Ok(())
}

fn data(out: &mut dyn Write, of: &str, attributes: &Attributes) -> Result<()> {
    for (name, value) in attributes {
        let value = match value {
            Attribute::Text(text) => escaped(text),
            Attribute::Count(number) => number.to_string(),
            Attribute::Real(number) => number.to_string(),
        };
        writeln!(out, "      <data key=\"{of}_{name}\">{value}</data>")?;
    }
    Ok(())
}

/// Text for XML, which has no way to write most control characters, nor what is no character.
fn escaped(text: &str) -> String {
    let is_none = |it: char| it.is_control() || matches!(it, '\u{fffe}' | '\u{ffff}');
    let plain: String = text.chars().map(|it| if is_none(it) { ' ' } else { it }).collect();
    plain.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::escaped;

    #[test]
    fn texts_of_the_program_stay_texts() {
        assert_eq!(escaped("<a b=\"&\">\u{1}"), "&lt;a b=&quot;&amp;&quot;&gt; ");
    }
}

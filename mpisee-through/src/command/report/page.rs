//! The HTML file: script, style and compressed data in one.

use crate::output::{ForBrowser, printable};
use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde::Serialize;

/// The page with a mark for each part.
const TEMPLATE: &str = include_str!("../../../report/page.html");
/// Built by `report/build.mjs`, as is the style.
const SCRIPT: &str = include_str!("../../../report/bundle.js");
const STYLE: &str = include_str!("../../../report/bundle.css");

/// The file of a report on these programs.
pub fn page<D: Serialize>(data: &D, programs: &str) -> Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    data.serialize(&mut serde_json::Serializer::with_formatter(&mut encoder, ForBrowser))
        .context("cannot compress the report's data")?;
    let compressed = encoder.finish().context("cannot compress the report's data")?;
    let parts = [
        ("{{title}}", escaped(&printable(&format!("{programs} · mpisee")))),
        ("{{style}}", STYLE.to_owned()),
        ("{{data}}", STANDARD.encode(compressed)),
        ("{{script}}", SCRIPT.to_owned()),
    ];
    Ok(filled(TEMPLATE, &parts).into_bytes())
}

/// The template with its marks, which come in this order, replaced; what takes their place is not
/// searched for marks.
fn filled(template: &str, parts: &[(&str, String)]) -> String {
    let mut page =
        String::with_capacity(parts.iter().map(|(_, part)| part.len()).sum::<usize>() + template.len());
    let mut rest = template;
    for (mark, part) in parts {
        if let Some((before, after)) = rest.split_once(mark) {
            page.push_str(before);
            page.push_str(part);
            rest = after;
        }
    }
    page + rest
}

/// Text for an element.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_part_ends_its_element() {
        assert!(!SCRIPT.to_lowercase().contains("</script"), "the script would end early");
        assert!(!SCRIPT.contains("<!--"), "an HTML comment in a script changes where it ends");
        assert!(!STYLE.to_lowercase().contains("</style"));
        assert_eq!(escaped("<script>&"), "&lt;script&gt;&amp;");
    }

    #[test]
    fn marks_in_parts_stay() {
        let parts = [("{{a}}", "{{b}}".to_owned()), ("{{b}}", "2".to_owned())];
        assert_eq!(filled("<{{a}} {{b}}>", &parts), "<{{b}} 2>");
    }
}

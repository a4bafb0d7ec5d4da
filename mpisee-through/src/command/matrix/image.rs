//! The matrix as a picture.

use super::traffic::{Of, Traffic};
use crate::axis::Axis;
use crate::picture::{self, Field, Panel, Picture};
use crate::units::{count, human_bytes};

/// A field for each pair between which there is something; its numbers show under the pointer in
/// SVG. `beside` is said of what is not in it.
pub fn picture(program: &str, axis: &Axis, pairs: &[((u32, u32), Traffic)], of: Of, beside: &str) -> Picture {
    let mut all = Traffic::default();
    pairs.iter().for_each(|&(_, traffic)| all.add(traffic));
    let names = |caption: &str| picture::Axis {
        caption: caption.to_owned(),
        names: (0..axis.len()).map(|field| axis.name(field)).collect(),
    };
    let field = |&((from, to), traffic): &((u32, u32), Traffic)| Field {
        row: from,
        column: to,
        amount: traffic.amount(of),
        title: format!(
            "{} to {}: {}, {}",
            axis.name(from),
            axis.name(to),
            count(traffic.messages, "message"),
            amounts(traffic, |bytes| count(bytes, "byte"))
        ),
    };
    let panel = Panel {
        title: format!(
            "{}, {}. {}",
            count(all.messages, "message"),
            amounts(all, human_bytes),
            // What an option of the command adds is no part of a picture.
            beside.trim_end().split(';').next().unwrap_or_default()
        )
        .trim_end_matches(['.', ' '])
        .to_owned(),
        down: names("sender"),
        across: names("receiver"),
        fields: pairs.iter().map(field).collect(),
        row_height: None,
    };
    let mut kinds = vec!["point-to-point"];
    kinds.extend((of == Of::Bytes && all.one_sided_bytes > 0).then_some("one-sided"));
    kinds.extend((all.collective_bytes > 0).then_some("collective"));
    let kinds = kinds.join(" and ");
    let title = format!("{program}: who sends to whom, {kinds} {} between {}", of.unit(), axis.what());
    picture::drawn(&title, &[panel], of.unit())
}

/// Bytes, with the part of one-sided operations if there are any.
fn amounts(traffic: Traffic, text: impl Fn(u64) -> String) -> String {
    match traffic.one_sided_bytes {
        0 => text(traffic.bytes),
        one_sided => format!("{}, {} of them one-sided", text(traffic.bytes), text(one_sided)),
    }
}

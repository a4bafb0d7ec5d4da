//! The matrix as a picture.

use super::axis::Axis;
use super::{Of, Traffic};
use crate::picture::{self, Field, Panel, Picture};
use crate::units::count;

/// A field for each pair between which there is something; its numbers show under the pointer in SVG.
pub fn picture(axis: &Axis, pairs: &[((u32, u32), Traffic)], of: Of) -> Picture {
    let mut all = Traffic::default();
    pairs.iter().for_each(|&(_, traffic)| all.add(traffic));
    let unit = if of == Of::Bytes { "bytes" } else { "messages" };
    let names = |caption: &str| picture::Axis {
        caption: caption.to_owned(),
        names: (0..axis.len()).map(|field| axis.name(field)).collect(),
    };
    let field = |&((from, to), traffic): &((u32, u32), Traffic)| Field {
        row: from,
        column: to,
        amount: traffic.of(of),
        title: format!(
            "{} to {}: {}, {}",
            axis.name(from),
            axis.name(to),
            count(traffic.messages, "message"),
            count(traffic.bytes, "byte")
        ),
    };
    let panel = Panel {
        title: format!("{}, {}", count(all.messages, "message"), count(all.bytes, "byte")),
        down: names("sender"),
        across: names("receiver"),
        fields: pairs.iter().map(field).collect(),
        row_height: None,
    };
    picture::drawn(&format!("Point-to-point {unit} between {}", axis.what()), &[panel], unit)
}

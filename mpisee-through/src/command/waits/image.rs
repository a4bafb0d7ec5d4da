//! Who waits for whom, as a picture.

use crate::axis::Axis;
use crate::picture::{self, Field, NANOSECONDS, Panel, Picture};
use crate::units::time;
use hashbrown::HashMap;

/// Fields in a row of a picture at most.
pub const MOST_FIELDS: u32 = 1024;

/// The time that the ranks of one field waited for those of another, in seconds.
#[derive(Debug, Default)]
pub struct Pairs(HashMap<(u32, u32), f64>);

impl Pairs {
    /// Adds a wait of one rank for another, if both are on the axis.
    pub fn add(&mut self, axis: &Axis, waiting: u32, cause: u32, time_s: f64) {
        if let (Some(waiting), Some(cause)) = (axis.field(waiting), axis.field(cause)) {
            *self.0.entry((waiting, cause)).or_default() += time_s;
        }
    }

    /// All of the waiting, in seconds.
    pub fn sum_s(&self) -> f64 {
        self.0.values().sum()
    }

    /// A field for each pair of which one waits for the other; its time shows under the pointer in
    /// SVG.
    pub fn picture(&self, program: &str, axis: &Axis) -> Picture {
        let names = |caption: &str| picture::Axis {
            caption: caption.to_owned(),
            names: (0..axis.len()).map(|field| axis.name(field)).collect(),
        };
        let field = |(&(row, column), &time_s): (&(u32, u32), &f64)| Field {
            row,
            column,
            amount: (time_s * 1e9).round() as u64,
            title: format!("{} waited for {}: {}", axis.name(row), axis.name(column), time(time_s)),
        };
        let mut fields: Vec<Field> = self.0.iter().map(field).collect();
        fields.sort_by_key(|field| (field.row, field.column));
        let panel = Panel {
            title: format!("{} of waiting", time(self.sum_s())),
            down: names("waits"),
            across: names("causes it"),
            fields,
            row_height: None,
        };
        let title = format!("{program}: who waits for whom, between {}", axis.what());
        picture::drawn(&title, &[panel], NANOSECONDS)
    }
}

//! Columns and cells that several lists of the page have.

use crate::sheet::{self, Head, Value};

/// The columns of sums of calls.
pub const COUNTED: [Head; 3] =
    [sheet::number("calls", "CALLS"), sheet::number("bytes", "BYTES"), sheet::number("time_s", "TIME")];

/// A text; nothing where it is empty.
pub fn text(text: &str) -> Value {
    if text.is_empty() { Value::Nothing } else { Value::from(text) }
}

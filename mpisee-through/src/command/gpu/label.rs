//! Labels in the key columns of `gpu`: numbers, which come first, and texts.

use crate::sheet::Value;
use std::fmt;

/// A label in a column of a key. Numbers come before texts.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Label {
    /// A rank, or a width in bytes.
    Number(u32),
    /// How far the owner's rank is above the rank's, at least and at most.
    Offset(i64, i64),
    /// All else.
    Text(String),
}

impl Label {
    /// The text; of numbers there is none.
    pub fn text(&self) -> &str {
        if let Label::Text(text) = self { text } else { "" }
    }

    /// The cell of a table.
    pub fn value(&self) -> Value {
        match self {
            Label::Number(number) => Value::Count(u64::from(*number)),
            Label::Offset(..) => Value::Text(self.to_string()),
            Label::Text(text) => Value::from(text.as_str()),
        }
    }
}

impl From<&str> for Label {
    fn from(text: &str) -> Self {
        Label::Text(text.to_owned())
    }
}

impl fmt::Display for Label {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Label::Number(number) => write!(to, "{number}"),
            Label::Offset(first, last) if first == last => write!(to, "{first:+}"),
            Label::Offset(first, last) => write!(to, "{first:+} to {last:+}"),
            Label::Text(text) => to.write_str(text),
        }
    }
}

/// The text, or what stands for none.
pub fn or_unknown(text: &str) -> String {
    if text.is_empty() { "(unknown)" } else { text }.to_owned()
}

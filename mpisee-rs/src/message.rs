//! What the library says: on stderr, each line with its name, never on the application's stdout.

use std::fmt::Arguments;
use std::io::Write;

/// Writes one line. A stderr that is closed or full is nobody's problem.
pub fn say(text: Arguments<'_>) {
    let line = format!("mpisee: {text}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
}

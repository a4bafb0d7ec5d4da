//! Messages of the library: on stderr, each line with its name, never on the application's stdout.

use std::fmt::Arguments;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};

/// Writes one line. A closed or full stderr is ignored.
pub fn say(text: Arguments<'_>) {
    let line = format!("mpisee: {text}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// Reports the first panic inside the profiler as one line; later ones are only counted as not seen.
pub fn announce_panics() {
    static SAID: AtomicBool = AtomicBool::new(false);
    std::panic::set_hook(Box::new(|panic| {
        if !SAID.swap(true, Ordering::Relaxed) {
            let place = panic.location().map_or(String::new(), |place| format!(" ({place})"));
            say(format_args!(
                "an error inside the profiler{place}: some calls will not be seen; please report it"
            ));
        }
    }));
}

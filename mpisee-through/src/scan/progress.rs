//! Shows the progress of reading, on stderr if that is a terminal.

use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Milliseconds before the first update, and between updates.
const EVERY_MS: u64 = 250;

/// The line that tells how much of a file is read; it is wiped at the end.
pub struct Progress {
    file: &'static str,
    end: u64,
    started: Instant,
    shown: bool,
    /// When something was said last, in milliseconds after the start; 0 is never.
    said_ms: AtomicU64,
}

impl Progress {
    /// Begins a file of that many bytes.
    pub fn start(file: &'static str, end: u64) -> Self {
        let shown = std::io::stderr().is_terminal();
        Progress { file, end, started: Instant::now(), shown, said_ms: AtomicU64::new(0) }
    }

    /// Says how far it is, if it is time to.
    pub fn reached(&self, at: u64) {
        if !self.shown {
            return;
        }
        let now_ms = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let said_ms = self.said_ms.load(Ordering::Relaxed);
        let is_time = now_ms >= said_ms + EVERY_MS;
        // Of two threads one says it.
        if is_time
            && self.said_ms.compare_exchange(said_ms, now_ms, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        {
            // Nothing depends on it.
            let _ = write!(std::io::stderr(), "\r{}", self.line(at));
        }
    }

    fn line(&self, at: u64) -> String {
        format!("reading {}: {} %", self.file, 100 * u128::from(at) / u128::from(self.end.max(1)))
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if *self.said_ms.get_mut() > 0 {
            // Carriage return, and the rest of the line is wiped.
            let _ = write!(std::io::stderr(), "\r\u{1b}[K");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Progress;

    #[test]
    fn progress_is_a_share_of_the_file() {
        let progress = Progress::start("calls.csv", 400);
        assert_eq!(progress.line(100), "reading calls.csv: 25 %");
        assert_eq!(Progress::start("calls.csv", 0).line(0), "reading calls.csv: 0 %");
    }
}

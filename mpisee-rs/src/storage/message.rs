//! Messages of the library: on stderr, each line with its name, never on the application's stdout.
//!
//! Printing never harms the program: where stderr was closed or replaced nothing is printed, and
//! neither a pipe without a reader, or with one that does not read, nor a file beyond
//! `RLIMIT_FSIZE` ends the program or delays it for long.

use mpisee_in_process::guards::{cancellation, errno, signals};
use std::fmt::{Arguments, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Bytes written at a time: a pipe that is ready has room for so many.
const PIECE: usize = 4096;
/// The longest wait for a reader.
const PATIENCE_MS: i32 = 1000;

/// Device and inode of stderr when the library was loaded.
static STDERR: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

/// Notes stderr as it is when the library is loaded: before the program can close it and open a
/// file of its own.
#[used]
#[unsafe(link_section = ".init_array")]
static NOTE_STDERR: extern "C" fn() = {
    extern "C" fn note() {
        for (known, number) in STDERR.iter().zip(stderr().unwrap_or_default()) {
            known.store(number, Ordering::Relaxed);
        }
    }
    note
};

/// Device and inode of stderr; `None` if it is closed.
fn stderr() -> Option<[u64; 2]> {
    // SAFETY: a stat of zeros is valid.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: `stat` is valid for writing.
    let code = unsafe { libc::fstat(libc::STDERR_FILENO, &raw mut stat) };
    (code == 0).then_some([stat.st_dev, stat.st_ino])
}

/// Returns whether stderr is that with which the library was loaded.
pub fn has_stderr() -> bool {
    stderr() == Some(STDERR.each_ref().map(|number| number.load(Ordering::Relaxed)))
}

/// A text for which there may be no memory.
struct Line(Vec<u8>);

impl Write for Line {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.0.try_reserve(text.len()).map_err(|_| std::fmt::Error)?;
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

/// Writes one line. A stderr that is closed, replaced, or full for longer than a second gets
/// nothing.
pub fn say(text: Arguments<'_>) {
    let (_errno, _not_cancelled) = (errno::keep(), cancellation::hold());
    let mut line = Line(Vec::new());
    if !has_stderr() || writeln!(line, "mpisee: {text}").is_err() {
        return;
    }
    let _held = signals::hold([libc::SIGPIPE, libc::SIGXFSZ]);
    let mut rest = &line.0[..];
    while !rest.is_empty() && is_ready() {
        let piece = &rest[..rest.len().min(PIECE)];
        // SAFETY: the bytes are there.
        let written = unsafe { libc::write(libc::STDERR_FILENO, piece.as_ptr().cast(), piece.len()) };
        match usize::try_from(written) {
            Ok(written) => rest = &rest[written..],
            Err(_) if std::io::Error::last_os_error().raw_os_error() == Some(libc::EINTR) => {}
            Err(_) => return,
        }
    }
}

/// Returns whether stderr takes what is written.
fn is_ready() -> bool {
    let mut poll = libc::pollfd { fd: libc::STDERR_FILENO, events: libc::POLLOUT, revents: 0 };
    // SAFETY: there is one structure.
    unsafe { libc::poll(&raw mut poll, 1, PATIENCE_MS) > 0 && poll.revents & libc::POLLOUT != 0 }
}

/// Reports the first panic inside the profiler as one line; later ones are only counted as not
/// seen.
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

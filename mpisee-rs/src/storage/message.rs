//! Messages of the library: on stderr, each line with its name, never on the application's stdout.
//!
//! They go to the stderr with which the program began, also if it has put a log in its place meanwhile.
//!
//! Printing never harms the program: where that stderr is gone nothing is printed, and neither a pipe without a reader, or with one
//! that does not read, nor a file beyond `RLIMIT_FSIZE` ends the program or delays it for long.

use mpisee_guards::{cancellation, errno, signals};
use std::ffi::c_int;
use std::fmt::{Arguments, Write};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};

/// Bytes written at a time: a pipe that is ready has room for so many.
const PIECE: usize = 4096;
/// The longest wait for a reader.
const PATIENCE_MS: i32 = 1000;

/// Device and inode of stderr when the library was loaded.
static STDERR: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

/// Notes stderr as it is when the library is loaded: before the program can close it and open a file of its own.
#[used]
#[unsafe(link_section = ".init_array")]
static NOTE_STDERR: extern "C" fn() = {
    extern "C" fn note() {
        for (known, number) in STDERR.iter().zip(file_at(libc::STDERR_FILENO).unwrap_or_default()) {
            known.store(number, Ordering::Relaxed);
        }
    }
    note
};

/// Device and inode of the file at a descriptor; `None` if it is closed.
fn file_at(descriptor: c_int) -> Option<[u64; 2]> {
    // SAFETY: a stat of zeros is valid.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: `stat` is valid for writing.
    let code = unsafe { libc::fstat(descriptor, &raw mut stat) };
    (code == 0).then_some([stat.st_dev, stat.st_ino])
}

/// Returns whether stderr is that with which the library was loaded.
pub fn has_stderr() -> bool {
    is_stderr(libc::STDERR_FILENO)
}

/// Returns whether the file at a descriptor is that which was stderr when the library was loaded.
fn is_stderr(descriptor: c_int) -> bool {
    file_at(descriptor) == Some(STDERR.each_ref().map(|number| number.load(Ordering::Relaxed)))
}

/// Another descriptor of stderr, while the program uses MPI; negative if there is none.
static KEPT: AtomicI32 = AtomicI32::new(-1);

/// Keeps stderr until [`release_stderr`]: programs put logs of their own in its place.
pub fn keep_stderr() {
    /// Above the numbers that programs expect to get.
    const LEAST: c_int = 200;
    if !has_stderr() || KEPT.load(Ordering::Relaxed) >= 0 {
        return;
    }
    let _errno = errno::keep();
    // SAFETY: the call takes numbers.
    let kept = unsafe { libc::fcntl(libc::STDERR_FILENO, libc::F_DUPFD_CLOEXEC, LEAST) };
    KEPT.store(kept, Ordering::Relaxed);
}

/// Closes the descriptor of [`keep_stderr`], unless the program has closed it, and has another file there.
pub fn release_stderr() {
    let kept = KEPT.swap(-1, Ordering::Relaxed);
    if kept >= 0 && is_stderr(kept) {
        let _errno = errno::keep();
        // SAFETY: nothing else uses it.
        unsafe { libc::close(kept) };
    }
}

/// A descriptor of the stderr with which the library was loaded.
fn descriptor() -> Option<c_int> {
    [libc::STDERR_FILENO, KEPT.load(Ordering::Relaxed)].into_iter().find(|&it| it >= 0 && is_stderr(it))
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

/// Writes one line. A stderr that is gone, or full for longer than a second gets nothing.
pub fn say(text: Arguments<'_>) {
    let (_errno, _not_cancelled) = (errno::keep(), cancellation::hold());
    let mut line = Line(Vec::new());
    let Some(descriptor) = descriptor() else { return };
    if writeln!(line, "mpisee: {text}").is_err() {
        return;
    }
    let _held = signals::hold([libc::SIGPIPE, libc::SIGXFSZ]);
    let mut rest = &line.0[..];
    while !rest.is_empty() && is_ready(descriptor) {
        let piece = &rest[..rest.len().min(PIECE)];
        // SAFETY: the bytes are there.
        let written = unsafe { libc::write(descriptor, piece.as_ptr().cast(), piece.len()) };
        match usize::try_from(written) {
            Ok(written) => rest = &rest[written..],
            Err(_) if std::io::Error::last_os_error().raw_os_error() == Some(libc::EINTR) => {}
            Err(_) => return,
        }
    }
}

/// Returns whether the file takes what is written.
fn is_ready(descriptor: c_int) -> bool {
    let mut poll = libc::pollfd { fd: descriptor, events: libc::POLLOUT, revents: 0 };
    // SAFETY: there is one structure.
    unsafe { libc::poll(&raw mut poll, 1, PATIENCE_MS) > 0 && poll.revents & libc::POLLOUT != 0 }
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

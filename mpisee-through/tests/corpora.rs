//! Replays the corpora of the fuzzers, in `tools/fuzz/`, through the readers: each input within
//! limits of memory and time. No test harness: what commands print goes nowhere.

#[path = "../../tools/fuzz/src/readers.rs"]
mod readers;

use std::alloc::{GlobalAlloc, Layout, System};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

/// More than any input of a few thousand bytes may need.
const MOST_BYTES: usize = 512 << 20;
/// Longer than any of them takes on the slowest machine.
const LONGEST: Duration = Duration::from_secs(60);

/// The system's allocator, which keeps count.
struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is handed on to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = NOW.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        MOST.fetch_max(now, Ordering::Relaxed);
        // SAFETY: the layout has a size, as `GlobalAlloc` demands of whoever calls this.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the pointer is from `alloc`, which took it from the system's allocator for this
        // layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn main() {
    // SAFETY: the name ends in a zero; the test speaks on stderr alone.
    unsafe { libc::dup2(libc::open(c"/dev/null".as_ptr(), libc::O_WRONLY), 1) };
    let corpora = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tools/fuzz/corpus");
    for (target, read) in readers::TARGETS {
        let mut inputs: Vec<_> = std::fs::read_dir(corpora.join(target))
            .unwrap_or_else(|error| panic!("no corpus of {target}: {error}"))
            .map(|entry| entry.expect("it can be listed").path())
            .collect();
        inputs.sort();
        assert!(!inputs.is_empty(), "the corpus of {target} is empty");
        for path in &inputs {
            let input = std::fs::read(path).expect("it can be read");
            let before = NOW.load(Ordering::Relaxed);
            MOST.store(before, Ordering::Relaxed);
            let (done, wait) = mpsc::channel();
            let worker = std::thread::spawn(move || {
                read(&input);
                let _ = done.send(());
            });
            if wait.recv_timeout(LONGEST) == Err(mpsc::RecvTimeoutError::Timeout) {
                panic!("{} takes longer than {LONGEST:?}", path.display());
            }
            assert!(worker.join().is_ok(), "{} ends in a panic", path.display());
            let grown = MOST.load(Ordering::Relaxed) - before;
            assert!(grown < MOST_BYTES, "{} needs {grown} bytes of memory", path.display());
        }
        eprintln!("{target}: {} inputs", inputs.len());
    }
}

//! Debug log: one line per event of the driver or the backend, and what the tracer did with it, to
//! find out why something is not counted. `MPISEE_GPU_TRACE=FILE` writes FILE.PID without
//! buffering, so that a process that is killed or hangs leaves its log.

use std::fmt::Arguments;
use std::fs::File;
use std::io::Write;
use std::sync::OnceLock;
use std::time::Instant;

struct Trace {
    file: File,
    begin: Instant,
}

static TRACE: OnceLock<Option<Trace>> = OnceLock::new();

/// Begins, if the user wants it.
pub fn begin() {
    TRACE.get_or_init(|| {
        let mut path = std::env::var_os("MPISEE_GPU_TRACE").filter(|it| !it.is_empty())?;
        path.push(format!(".{}", std::process::id()));
        let file = File::options().append(true).create_new(true).open(path).ok()?;
        Some(Trace { file, begin: Instant::now() })
    });
}

/// Returns whether the debug log is on.
pub fn is_on() -> bool {
    TRACE.get().is_some_and(Option::is_some)
}

/// Writes a line, after the seconds since the begin.
pub fn write(text: Arguments<'_>) {
    if let Some(trace) = TRACE.get().and_then(Option::as_ref) {
        let line = format!("{:.6} {text}\n", trace.begin.elapsed().as_secs_f64());
        // A trace that cannot be written is nobody's problem.
        let _ = (&trace.file).write_all(line.as_bytes());
    }
}

/// Writes a line, as of `format!`, if the trace is on.
macro_rules! trace {
    ($($text:tt)*) => {
        if $crate::trace::is_on() {
            $crate::trace::write(format_args!($($text)*));
        }
    };
}
pub(crate) use trace;

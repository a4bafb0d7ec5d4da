//! This process in `/proc`.

use std::path::Path;

/// The folder of this process in `/proc`. That of its number shows little once the first thread has
/// ended, so the thread's own is used, which kernels have from 3.17 on.
pub fn folder() -> &'static Path {
    let [of_thread, of_process] = ["/proc/thread-self", "/proc/self"].map(Path::new);
    if of_thread.exists() { of_thread } else { of_process }
}

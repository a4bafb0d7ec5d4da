//! Measures the time spent on naming communicators.

use crate::state::process::Process;
use crate::storage::clock;
use mpisee_profile::segment::layout::overhead;
use std::sync::atomic::Ordering;

/// Charges the time until it is dropped to the naming of communicators.
pub struct Naming<'p> {
    process: &'p Process,
    since: u64,
}

impl<'p> Naming<'p> {
    pub fn begin(process: &'p Process) -> Self {
        Naming { process, since: clock::ticks() }
    }
}

impl Drop for Naming<'_> {
    fn drop(&mut self) {
        let overheads = &self.process.segment.header().overhead;
        overheads[overhead::NAMING].fetch_add(clock::since(self.since), Ordering::Relaxed);
    }
}

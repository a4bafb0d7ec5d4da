//! Measures the time spent on naming communicators.

use crate::state::world::World;
use crate::storage::clock;
use mpisee_profile::Ticks;
use mpisee_profile::segment::layout::overhead;
use std::sync::atomic::Ordering;

/// Charges the time until it is dropped to the naming of communicators.
pub struct Naming<'p> {
    world: &'p World,
    since: Ticks,
}

impl<'p> Naming<'p> {
    pub fn begin(world: &'p World) -> Self {
        Naming { world, since: clock::ticks() }
    }
}

impl Drop for Naming<'_> {
    fn drop(&mut self) {
        let overheads = &self.world.segment.header().overhead;
        overheads[overhead::NAMING].fetch_add(clock::since(self.since).get(), Ordering::Relaxed);
    }
}

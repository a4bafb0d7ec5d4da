//! `MPI_Pcontrol`: recording on and off, and named regions.

use crate::state::gpu::tracer;
use crate::state::process;
use crate::state::region::REGIONS;
use crate::state::sampled_overhead::Rare;
use crate::state::switching::{follow, switch};
use crate::state::world;
use crate::storage::clock;
use mpisee_in_process::guards::keep_thread_state;
use mpisee_profile::segment::NotSeen;
use std::ffi::{CStr, c_char, c_int};
use std::fmt::Write;
use std::panic::catch_unwind;

/// The levels of `MPI_Pcontrol`; those of regions are in include/mpisee.h, and far from what other
/// profilers use.
mod level {
    use std::ffi::c_int;

    pub const OFF: c_int = 0;
    pub const ON: c_int = 1;
    /// A region begins; its name is the next argument.
    pub const BEGIN: c_int = 0x4d50_5300;
    /// The innermost region ends.
    pub const END: c_int = 0x4d50_5301;
    /// A region known by a number from 0 to 65535, which is added, begins.
    pub const BEGIN_NUMBER: c_int = 0x4d51_0000;
    /// It ends.
    pub const END_NUMBER: c_int = 0x4d52_0000;
    pub const MOST: c_int = 0xffff;
    /// Names memory; the next argument points to its address, size and name.
    pub const NAME_MEMORY: c_int = 0x4d50_5302;
}

/// `MPI_Pcontrol` (MPI 4.1, 15.2.4). Level 2, flush, needs nothing: every count is in the segment
/// at once.
///
/// # Safety
/// The arguments are those of the application's call, which `make` makes; `extra` is a name where
/// the level says so, and not looked at otherwise.
pub unsafe fn pcontrol(level: c_int, extra: *const c_char, make: impl FnOnce() -> c_int) -> c_int {
    if let Some(world) = world::world().filter(|_| process::is_tracking()) {
        // No call that is sampled: a region's begin or end takes as long as many of them.
        let _rare = Rare::begin(world);
        let _kept = keep_thread_state();
        clock::compare(&world.segment.header().clocks_apart_ns);
        let done = catch_unwind(|| match level {
            // An earlier request from outside comes first: the last word holds.
            level::OFF | level::ON => {
                follow();
                switch(world, level == level::ON);
            }
            level::BEGIN if !extra.is_null() => {
                // SAFETY: mpisee.h passes a C string with this level, and nothing else uses it.
                let name = unsafe { CStr::from_ptr(extra) }.to_string_lossy();
                REGIONS.begin(&world.segment, &name);
            }
            level::END => REGIONS.end(None),
            // SAFETY: mpisee.h passes the address of such a structure with this level, and nothing
            // else uses it.
            level::NAME_MEMORY if !extra.is_null() => unsafe { tracer::name_memory(&*extra.cast()) },
            _ if (0..=level::MOST).contains(&(level.wrapping_sub(level::BEGIN_NUMBER))) => {
                let name = number_name(level.wrapping_sub(level::BEGIN_NUMBER));
                REGIONS.begin(&world.segment, name.as_deref().unwrap_or("region"));
            }
            _ if (0..=level::MOST).contains(&(level.wrapping_sub(level::END_NUMBER))) => {
                REGIONS.end(number_name(level.wrapping_sub(level::END_NUMBER)).as_deref());
            }
            _ => {}
        });
        if done.is_err() {
            world::not_seen(NotSeen::InternalError);
        }
    }
    make()
}

/// The name of a region known by a number; `None` if there is no memory for it.
fn number_name(number: c_int) -> Option<String> {
    let mut name = String::new();
    name.try_reserve_exact("region ".len() + 10).ok()?;
    write!(name, "region {number}").ok()?;
    Some(name)
}

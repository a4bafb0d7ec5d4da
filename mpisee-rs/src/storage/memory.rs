//! Allocation that survives running out of memory: a program may use up its limit and go on, and
//! Rust's library ends the process when an allocation fails. So large buffers are allocated
//! fallibly (`try_reserve`), and work of many small allocations begins only while memory is left,
//! and is finished from a reserve.

use mpisee_in_process::guards::errno;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::UnsafeCell;
use std::hint::black_box;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A box for `value`; `None` if there is no memory for it.
pub fn boxed<T>(value: T) -> Option<Box<T>> {
    let mut one = Vec::new();
    one.try_reserve_exact(1).ok()?;
    one.push(value);
    // SAFETY: a box of a slice with one element is one of the element, and passes it on.
    Some(unsafe { Box::from_raw(Box::into_raw(one.into_boxed_slice()).cast::<T>()) })
}

/// A box of zeros, never on the stack, which may be small; `None` if there is no memory for it.
pub fn zeroed<T>() -> Option<Box<MaybeUninit<T>>> {
    const { assert!(size_of::<T>() > 0) };
    // SAFETY: the size is not zero.
    let place = unsafe { std::alloc::alloc_zeroed(Layout::new::<T>()) }.cast::<MaybeUninit<T>>();
    // SAFETY: a place that is not null is allocated with this layout.
    (!place.is_null()).then(|| unsafe { Box::from_raw(place) })
}

/// Zeros for values of a type, at a cache line; given back when dropped.
pub struct Zeros<T> {
    place: *mut u8,
    layout: Layout,
    first: *mut T,
}

impl<T> Zeros<T> {
    /// Zeros for `count` values; `None` if there is no memory for them.
    ///
    /// PERF: the C library's `calloc`, unlike its functions that align, touches nothing of a large
    /// piece.
    pub fn for_values(count: usize) -> Option<Zeros<T>> {
        const LINE: usize = 64;
        const { assert!(size_of::<T>() > 0 && align_of::<T>() <= LINE) };
        let bytes = Layout::array::<T>(count.max(1)).ok()?.size();
        let layout = Layout::from_size_align(bytes.checked_add(LINE)?, align_of::<u128>()).ok()?;
        // SAFETY: the size is not zero.
        let place = unsafe { std::alloc::alloc_zeroed(layout) };
        let first = place.wrapping_add(place.align_offset(LINE)).cast();
        (!place.is_null()).then_some(Zeros { place, layout, first })
    }

    /// The first value.
    pub fn first(&self) -> *mut T {
        self.first
    }

    /// Keeps them for good.
    pub fn keep(self) -> *mut T {
        std::mem::ManuallyDrop::new(self).first
    }
}

impl<T> Drop for Zeros<T> {
    fn drop(&mut self) {
        // SAFETY: the place is allocated with this layout.
        unsafe { std::alloc::dealloc(self.place, self.layout) };
    }
}

/// Returns whether there are `bytes` more: for what takes memory in many small pieces, each of
/// which then finds some.
pub fn is_left(bytes: usize) -> bool {
    // PERF: asking takes longer than all else about a communicator.
    bytes <= LARGEST_PIECE && !ALLOCATOR.is_in_use() || is_left_to_all(bytes)
}

/// As [`is_left`] for what the C library takes itself, which has no reserve.
pub fn is_left_to_all(bytes: usize) -> bool {
    let Ok(layout) = Layout::array::<u8>(bytes.max(1)) else { return false };
    // Without memory it is set, and the program goes on.
    let _errno = errno::keep();
    // SAFETY: the size is not zero. Unseen by the compiler, which leaves out memory that nobody
    // uses.
    let room = black_box(unsafe { System.alloc(layout) });
    if !room.is_null() {
        // SAFETY: it is from there, with this layout.
        unsafe { System.dealloc(room, layout) };
    }
    !room.is_null()
}

/// Bytes of the reserve.
const RESERVE_BYTES: usize = 1 << 18;
/// Bytes of a piece that the reserve gives at most: what is larger was asked for in advance.
const LARGEST_PIECE: usize = 1 << 14;

/// The C library's memory and, once there is none, a reserve for what was begun before that was
/// known.
struct Allocator {
    reserve: UnsafeCell<[u128; RESERVE_BYTES / 16]>,
    /// Bytes of the reserve that were given out; they are not taken back.
    used: AtomicUsize,
}

// SAFETY: each part of the reserve is given out once.
unsafe impl Sync for Allocator {}

#[cfg_attr(not(test), global_allocator)]
static ALLOCATOR: Allocator =
    Allocator { reserve: UnsafeCell::new([0; RESERVE_BYTES / 16]), used: AtomicUsize::new(0) };

impl Allocator {
    /// Returns whether memory was wanting.
    fn is_in_use(&self) -> bool {
        self.used.load(Ordering::Relaxed) > 0
    }

    /// Returns whether an address is in the reserve.
    fn has(&self, place: *const u8) -> bool {
        place.addr().wrapping_sub(self.reserve.get().addr()) < RESERVE_BYTES
    }

    #[cold]
    fn take(&self, layout: Layout) -> *mut u8 {
        if layout.size() > LARGEST_PIECE || layout.align() > align_of::<u128>() {
            return ptr::null_mut();
        }
        let begin = |used: usize| used.next_multiple_of(layout.align());
        let end = |used| Some(begin(used).checked_add(layout.size())?).filter(|&end| end <= RESERVE_BYTES);
        match self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, end) {
            // SAFETY: from there to the end that was stored it is within the reserve.
            Ok(used) => unsafe { self.reserve.get().cast::<u8>().add(begin(used)) },
            Err(_) => ptr::null_mut(),
        }
    }
}

// SAFETY: memory is the C library's, or a part of the reserve that is given out once.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _errno = errno::keep();
        // SAFETY: the layout has a size, as `GlobalAlloc` demands of whoever calls this.
        let place = unsafe { System.alloc(layout) };
        if place.is_null() { self.take(layout) } else { place }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        if !self.has(place) {
            let _errno = errno::keep();
            // SAFETY: `place` is from an allocator of this type with this layout, and not from the
            // reserve: it is the C library's.
            unsafe { System.dealloc(place, layout) }
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let _errno = errno::keep();
        // SAFETY: the layout has a size, as `GlobalAlloc` demands of whoever calls this. The
        // reserve is zero at first.
        let place = unsafe { System.alloc_zeroed(layout) };
        if place.is_null() { self.take(layout) } else { place }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let _errno = errno::keep();
        if !self.has(place) {
            // SAFETY: `place` is from an allocator of this type with this layout, and not from the
            // reserve: it is the C library's; `size` is not zero.
            let grown = unsafe { System.realloc(place, layout, size) };
            if !grown.is_null() {
                return grown;
            }
        }
        // SAFETY: the caller promises a size that makes a layout, and that as many bytes as the old
        // one has are there.
        unsafe {
            let grown = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
            if !grown.is_null() {
                place.copy_to_nonoverlapping(grown, layout.size().min(size));
                self.dealloc(place, layout);
            }
            grown
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_box_has_its_value() {
        assert_eq!(boxed(String::from("it")).as_deref().map(String::as_str), Some("it"));
        assert_eq!(boxed(()), Some(Box::new(())));
    }

    #[test]
    fn the_reserve_serves_until_it_is_empty() {
        static OWN: Allocator =
            Allocator { reserve: UnsafeCell::new([0; RESERVE_BYTES / 16]), used: AtomicUsize::new(0) };
        assert!(!OWN.is_in_use());
        let layout = |size, align| Layout::from_size_align(size, align).unwrap();
        let first = OWN.take(layout(3, 1));
        let second = OWN.take(layout(40, 8));
        assert_eq!((second.addr() - first.addr(), second.addr() % 8), (8, 0));
        assert!(OWN.is_in_use() && OWN.has(first) && !OWN.has(ptr::from_ref(&first).cast()));
        assert!(OWN.take(layout(LARGEST_PIECE + 1, 1)).is_null());
        let taken = (0..).take_while(|_| !OWN.take(layout(LARGEST_PIECE, 16)).is_null()).count();
        assert_eq!(taken, RESERVE_BYTES / LARGEST_PIECE - 1);
        // SAFETY: both layouts are those of the places.
        let grown = unsafe {
            second.write(7);
            OWN.realloc(second, layout(40, 8), 80)
        };
        // SAFETY: the first byte was copied.
        assert_eq!(unsafe { grown.read() }, 7);
        // SAFETY: `realloc` gave the place, for this layout.
        unsafe { OWN.dealloc(grown, layout(80, 8)) };
    }

    #[test]
    fn more_than_there_is_is_not_left() {
        assert!(is_left(1 << 16));
        assert!(!is_left(1 << 60));
    }
}

//! Where the loader has mapped the object around an address, without its lock: a thread may hold
//! that for as long as a library's constructor or destructor waits for another thread, or for good,
//! if the handler of a signal has left by `siglongjmp`.

use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::sync::OnceLock;

/// `struct dl_find_object` of `dlfcn.h`, with more room at its end than any machine's has.
#[repr(C)]
struct FoundObject {
    flags: u64,
    start: usize,
    end: usize,
    link_map: usize,
    more: [u64; 16],
}

type FindObject = unsafe extern "C" fn(*const c_void, *mut FoundObject) -> c_int;

/// An object that the loader has mapped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapped {
    /// Its addresses.
    pub range: Range<usize>,
    /// The address of the loader's description, a `struct link_map` of `link.h`.
    pub link_map: usize,
}

/// The C library's function that finds objects, if it has one: glibc 2.35 and later. The first call
/// takes the loader's lock.
fn finder() -> Option<FindObject> {
    static FIND_OBJECT: OnceLock<Option<FindObject>> = OnceLock::new();
    *FIND_OBJECT.get_or_init(|| {
        let found = crate::symbols::first(c"_dl_find_object")?;
        // SAFETY: the function has this type in dlfcn.h.
        Some(unsafe { std::mem::transmute::<*mut c_void, FindObject>(found.as_ptr()) })
    })
}

/// Returns whether objects can be found without the loader's lock.
pub fn can_find_mapped() -> bool {
    finder().is_some()
}

/// The object around an address; `None` where there is none, or [`can_find_mapped`] is false.
pub fn mapped_at(address: usize) -> Option<Mapped> {
    let mut found = FoundObject { flags: 0, start: 0, end: 0, link_map: 0, more: [0; 16] };
    // SAFETY: any address may be asked about, and there is room for the answer.
    let status = unsafe { finder()?(std::ptr::without_provenance(address), &raw mut found) };
    (status == 0).then_some(Mapped { range: found.start..found.end, link_map: found.link_map })
}

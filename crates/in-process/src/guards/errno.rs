//! The program's `errno`, which a driver that is asked may set.

use std::ffi::c_int;

/// While it lives, `errno` may be set: afterwards it is what it was.
pub struct Kept(c_int);

/// Keeps the thread's `errno`.
#[inline]
pub fn keep() -> Kept {
    // SAFETY: the C library's address for this thread is always valid.
    Kept(unsafe { *libc::__errno_location() })
}

impl Drop for Kept {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: as above.
        unsafe { *libc::__errno_location() = self.0 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_meanwhile_is_gone() {
        let errno = || std::io::Error::last_os_error().raw_os_error();
        // SAFETY: no descriptor has this number, so that the call fails.
        let fail = || unsafe { libc::close(-1) };
        {
            let _kept = Kept(libc::EAGAIN);
            fail();
            assert_eq!(errno(), Some(libc::EBADF));
        }
        assert_eq!(errno(), Some(libc::EAGAIN));
        {
            let _kept = keep();
            fail();
        }
        assert_eq!(errno(), Some(libc::EAGAIN));
    }
}

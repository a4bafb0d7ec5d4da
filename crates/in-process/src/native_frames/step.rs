//! One step of a walk up a stack.

use crate::native_frames::computed_frame::Registers;
use crate::native_frames::unwind_rules::Rules;
use framehop::{
    CacheNative, FrameAddress, MayAllocateDuringUnwind, UnwindRegsNative, Unwinder as _, UnwinderNative,
};
use std::ops::Deref;

/// A frame that cannot be left: its rules do not say enough, `read` knows no word at an address
/// that they take, or what they lead to lies not further out on the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost;

/// Changes the registers from those at `at` to those of the caller, and returns the address to
/// which the function returns there; `None` at the begin of the thread.
///
/// Without rules framehop goes by the frame pointer, whose register may hold anything: the address
/// counts only if [`may_be_return`](crate::native_frames::may_be_return) says so.
///
/// # Errors
/// [`Lost`].
pub fn leave_frame<D: Deref<Target = [u8]>>(
    unwinder: &UnwinderNative<D, MayAllocateDuringUnwind>,
    cache: &mut CacheNative<MayAllocateDuringUnwind>,
    at: FrameAddress,
    rules: &Rules,
    registers: &mut UnwindRegsNative,
    mut read: impl FnMut(u64) -> Result<u64, ()>,
) -> Result<Option<u64>, Lost> {
    let before = registers.sp();
    let caller = match rules {
        Rules::Refused => return Err(Lost),
        Rules::Safe | Rules::Missing => {
            unwinder.unwind_frame(at, registers, cache, &mut read).map_err(|_| Lost)?
        }
        Rules::Computed(frame) if frame.is_outermost() => None,
        Rules::Computed(frame) => {
            let own = Registers { address: at.address(), stack: before, frame: frame_pointer(registers) };
            let Registers { address, stack, frame } = frame.caller(own, |at| read(at).ok()).ok_or(Lost)?;
            *registers = UnwindRegsNative::new(address, stack, frame);
            Some(address)
        }
    };
    // The stack pointer must grow, so that the walk ends.
    if caller.is_some() && registers.sp() <= before { Err(Lost) } else { Ok(caller) }
}

fn frame_pointer(registers: &UnwindRegsNative) -> u64 {
    #[cfg(target_arch = "x86_64")]
    return registers.bp();
    #[cfg(not(target_arch = "x86_64"))]
    registers.fp()
}

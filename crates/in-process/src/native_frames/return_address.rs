//! Addresses to which a call may return, by the instructions before them.

/// The longest call of a machine that is known here.
const MOST_BYTES_OF_CALL: usize = 7;

/// Returns whether a call may return to an address: there is one before it, or the begin of a
/// thread's stack. `read` fills the bytes from an address on, and returns whether it could.
pub fn may_be_return(address: u64, read: impl FnOnce(u64, &mut [u8]) -> bool) -> bool {
    let mut before = [0; MOST_BYTES_OF_CALL];
    let from = address.wrapping_sub(before.len() as u64);
    address == 0 || read(from, &mut before) && ends_in_call(&before)
}

/// Returns whether the last instruction is a call: `call rel32`, or `call` through a register or
/// memory.
#[cfg(target_arch = "x86_64")]
fn ends_in_call(code: &[u8; MOST_BYTES_OF_CALL]) -> bool {
    let through = |bytes: usize| {
        let instruction = &code[MOST_BYTES_OF_CALL - bytes..];
        let (mode, operation, base) = (instruction[1] >> 6, instruction[1] >> 3 & 7, instruction[1] & 7);
        let has_index = mode != 3 && base == 4;
        let is_without_base =
            mode == 0 && (base == 5 || has_index && instruction.get(2).is_some_and(|index| index & 7 == 5));
        let displacement = match mode {
            1 => 1,
            2 => 4,
            _ if is_without_base => 4,
            _ => 0,
        };
        instruction[0] == 0xff && operation == 2 && bytes == 2 + usize::from(has_index) + displacement
    };
    code[MOST_BYTES_OF_CALL - 5] == 0xe8 || [2, 3, 4, 6, 7].into_iter().any(through)
}

/// Returns whether the last instruction is `bl`, or `blr` in one of its kinds.
#[cfg(target_arch = "aarch64")]
fn ends_in_call(code: &[u8; MOST_BYTES_OF_CALL]) -> bool {
    let [.., a, b, c, d] = *code;
    let instruction = u32::from_le_bytes([a, b, c, d]);
    instruction >> 26 == 0b10_0101 || instruction & 0xfeff_f000 == 0xd63f_0000
}

/// Of other machines nothing is known.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn ends_in_call(_code: &[u8; MOST_BYTES_OF_CALL]) -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn calls_are_told_from_other_instructions() {
        let calls: [&[u8]; 8] = [
            &[0xe8, 1, 2, 3, 4],             // call rel32
            &[0xff, 0xd0],                   // call rax
            &[0xff, 0x55, 8],                // call [rbp + 8]
            &[0xff, 0x15, 1, 2, 3, 4],       // call [rip + n]
            &[0xff, 0x14, 0xc3],             // call [rbx + rax * 8]
            &[0xff, 0x54, 0x24, 8],          // call [rsp + 8]
            &[0xff, 0x94, 0x24, 1, 2, 3, 4], // call [rsp + n]
            &[0xff, 0x14, 0xc5, 1, 2, 3, 4], // call [rax * 8 + n]
        ];
        let others: [&[u8]; 5] = [
            &[],
            &[0x55],             // push rbp
            &[0xff, 0xe0],       // jmp rax
            &[0xff, 0x30],       // push [rax]
            &[0x48, 0x89, 0xe5], // mov rbp, rsp
        ];
        let ends = |instruction: &[u8]| {
            let mut code = [0x90; MOST_BYTES_OF_CALL];
            code[MOST_BYTES_OF_CALL - instruction.len()..].copy_from_slice(instruction);
            ends_in_call(&code)
        };
        for call in calls {
            assert!(ends(call), "{call:x?}");
        }
        for other in others {
            assert!(!ends(other), "{other:x?}");
        }
    }

    #[test]
    fn the_begin_of_a_stack_and_what_cannot_be_read_are_told_apart() {
        assert!(may_be_return(0, |_, _| false));
        assert!(!may_be_return(1 << 12, |_, _| false));
    }
}

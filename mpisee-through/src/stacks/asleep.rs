//! Where a thread sleeps: of threads in a system call the kernel tells the registers, without
//! stopping anything.

use std::fs;

/// A thread that sleeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asleep {
    /// Its stack pointer.
    pub stack: u64,
    /// The address at which it goes on.
    pub address: u64,
    /// How often it has lost its core: a thread that has run since has another number.
    switches: u64,
}

impl Asleep {
    /// `None` if it runs or is ready to run, and where the kernel does not tell.
    pub fn from_thread(pid: u32, thread: u32) -> Option<Asleep> {
        let read = |file: &str| fs::read_to_string(format!("/proc/{pid}/task/{thread}/{file}")).ok();
        let (stack, address) = registers(&read("syscall")?)?;
        Some(Asleep { stack, address, switches: switches(&read("status")?)? })
    }
}

/// Stack pointer and address: `/proc/PID/syscall` is `running`, or ends in these two.
fn registers(text: &str) -> Option<(u64, u64)> {
    let mut words = text.split_whitespace().rev();
    let mut number = || u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok();
    let (address, stack) = (number()?, number()?);
    (address != 0 && stack != 0).then_some((stack, address))
}

fn switches(status: &str) -> Option<u64> {
    let value = |line: &str| {
        let (name, value) = line.split_once(':')?;
        name.ends_with("voluntary_ctxt_switches").then(|| value.trim().parse::<u64>().ok())?
    };
    status.lines().filter_map(value).reduce(u64::wrapping_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_tells_is_read() {
        let sleeping = "230 0x0 0x0 0x7ffd0a0 0x0 0x0 0x0 0x7ffd0a1b2c38 0x7f0000e2a1c7\n";
        assert_eq!(registers(sleeping), Some((0x7ffd_0a1b_2c38, 0x7f00_00e2_a1c7)));
        assert_eq!(registers("-1 0x7ffd0a1b2c38 0x55d0\n"), Some((0x7ffd_0a1b_2c38, 0x55d0)));
        for other in ["running\n", "", "0x7f00\n", "-1 0x0 0x0\n"] {
            assert_eq!(registers(other), None, "{other}");
        }
        let status = "Name:\tapp\nvoluntary_ctxt_switches:\t150\nnonvoluntary_ctxt_switches:\t545\n";
        assert_eq!(switches(status), Some(695));
        assert_eq!(switches("Name:\tapp\n"), None);
    }
}

//! Keeps an agent a good neighbour: away from the cores of the ranks, and its own cost known.

use crate::output::printable;
use mpisee_profile::rows::Cpus;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;

/// CPUs of the node that no rank may use; all of them where none is left, since an agent may have
/// inherited the binding of a rank.
pub fn free_cpus(online: &Cpus, of_ranks: &Cpus) -> Cpus {
    let free: Cpus = online.iter().filter(|cpu| !of_ranks.iter().any(|used| used == *cpu)).collect();
    if free.is_empty() || of_ranks.is_empty() { online.clone() } else { free }
}

/// The CPUs that are online; none if that is unknown.
pub fn online_cpus() -> Cpus {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    text.trim().parse().unwrap_or_default()
}

/// Runs on CPUs that ranks with these may not use, from now on; on any if the job has no others on
/// the node.
pub fn move_away_from(of_ranks: &Cpus) {
    let online = online_cpus();
    let _ = move_to(&free_cpus(&online, of_ranks)) || move_to(&online);
}

/// Runs on these CPUs from now on, as far as the kernel allows; false if it allows none.
fn move_to(cpus: &Cpus) -> bool {
    // SAFETY: a set of CPUs is an array of bits, and zeros are the empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    let most = libc::CPU_SETSIZE as u32;
    for cpu in cpus.iter().filter(|cpu| *cpu < most) {
        // SAFETY: the number is less than the bits of the set.
        unsafe { libc::CPU_SET(cpu as usize, &mut set) };
    }
    // SAFETY: the set is valid and has the size that is said.
    unsafe { libc::sched_setaffinity(0, size_of_val(&set), &raw const set) == 0 }
}

/// A descriptor that this process has from the one that started it; `None` if there is none of that
/// number.
pub fn inherited(number: RawFd) -> Option<OwnedFd> {
    // SAFETY: the call takes numbers, and fails if the descriptor is not open.
    let is_open = number > libc::STDERR_FILENO && unsafe { libc::fcntl(number, libc::F_GETFD) } >= 0;
    // SAFETY: it is open, and who named it to this process has left it to it alone.
    is_open.then(|| unsafe { OwnedFd::from_raw_fd(number) })
}

/// Says a sentence on the standard error of a process of the job, if it still runs and that can be
/// written without waiting.
pub fn say_beside(process: &str, sentence: &str) {
    let mut options = OpenOptions::new();
    options.append(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY);
    if process.parse::<u32>().is_ok()
        && let Ok(mut stderr) = options.open(format!("/proc/{process}/fd/2"))
    {
        let _ = stderr.write_all(format!("mpisee: {}\n", printable(sentence)).as_bytes());
    }
}

/// The CPU time of this process, in seconds.
pub fn cpu_s() -> f64 {
    // SAFETY: zeros are valid for numbers.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the place for the result is valid.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + 1e-6 * time.tv_usec as f64;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpus(text: &str) -> Cpus {
        text.parse().unwrap()
    }

    #[test]
    fn an_agent_keeps_away_from_the_ranks_where_it_can() {
        assert_eq!(free_cpus(&cpus("0-7"), &cpus("0-5")), cpus("6-7"));
        assert_eq!(free_cpus(&cpus("0-3"), &cpus("0-7")), cpus("0-3"), "none is left");
        assert_eq!(free_cpus(&cpus("0-3"), &Cpus::default()), cpus("0-3"), "the ranks' are unknown");
    }

    #[test]
    fn where_no_cpu_is_allowed_the_next_set_is_taken() {
        let all = online_cpus();
        let beyond = libc::CPU_SETSIZE as u32 - 1;
        assert!(!move_to(&cpus(&beyond.to_string())) && !move_to(&Cpus::default()) && move_to(&all));
    }

    #[test]
    fn time_of_its_own_grows() {
        let before = cpu_s();
        while cpu_s() <= before {
            std::hint::black_box(online_cpus());
        }
    }
}

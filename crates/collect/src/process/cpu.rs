//! CPU use of this process, and the cores that it may use.

use mpisee_profile::rows::Cpus;
use mpisee_profile::segment::CpuReading;
use std::fs;
use std::mem::{MaybeUninit, size_of_val};
use std::num::NonZero;

mod cgroup;

pub use cgroup::quota;

/// Threads that ran for less than one in this many of the process's time on cores are helpers, such
/// as those of MPI: they may have a wider choice of cores than the program, and use none.
const PART_OF_HELPER: u64 = 100;

/// CPU use of this process at one moment.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Its use since it was started.
    pub reading: CpuReading,
    /// The CPUs on which those threads may run that do its work.
    pub cpus: Cpus,
    threads: Vec<Thread>,
}

/// Reads what this process has used, in some microseconds and as many for each thread. The threads
/// that do its work are those that ran `since` an earlier moment.
pub fn read(since: Option<&Sample>) -> Sample {
    let threads = threads();
    let usage = usage();
    let reading = CpuReading {
        user_us: microseconds(usage.ru_utime),
        system_us: microseconds(usage.ru_stime),
        wait_ns: wait_ns(&threads),
        involuntary_switches: usage.ru_nivcsw.try_into().unwrap_or(0),
        voluntary_switches: usage.ru_nvcsw.try_into().unwrap_or(0),
        minor_faults: usage.ru_minflt.try_into().unwrap_or(0),
        major_faults: usage.ru_majflt.try_into().unwrap_or(0),
    };
    let before = since.map_or(&[][..], |earlier| &earlier.threads);
    Sample { reading, cpus: cpus_of(&threads, before), threads }
}

/// CPUs of this node that are online.
pub fn online() -> Option<NonZero<u32>> {
    let cpus: Cpus = fs::read_to_string("/sys/devices/system/cpu/online").ok()?.parse().ok()?;
    NonZero::new(u32::try_from(cpus.len()).ok()?)
}

/// A thread, and its times where the kernel counts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Thread {
    id: libc::pid_t,
    times: Option<CoreTimes>,
}

/// The numbers of `/proc/PID/task/TID/schedstat` of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoreTimes {
    /// On a core.
    pub ran_ns: u64,
    /// Ready to run, without a core.
    pub waited_ns: u64,
}

/// The threads of this process; none if they cannot be listed.
fn threads() -> Vec<Thread> {
    let Ok(entries) = fs::read_dir("/proc/self/task") else { return Vec::new() };
    let thread = |entry: fs::DirEntry| {
        let times = fs::read_to_string(entry.path().join("schedstat")).ok();
        let id = entry.file_name().to_str()?.parse().ok()?;
        Some(Thread { id, times: times.and_then(|text| parse_schedstat(&text)) })
    };
    entries.flatten().filter_map(thread).collect()
}

/// The times of the first thread of a process; `None` where the kernel does not count.
pub fn first_thread_times(pid: u32) -> Option<CoreTimes> {
    parse_schedstat(&fs::read_to_string(format!("/proc/{pid}/schedstat")).ok()?)
}

/// Nanoseconds on a core and without one; the third number, of how often the thread got a core, is
/// 0 where the kernel does not count, as are the others.
fn parse_schedstat(text: &str) -> Option<CoreTimes> {
    let numbers: Vec<u64> = text.split_ascii_whitespace().map_while(|word| word.parse().ok()).collect();
    match numbers[..] {
        [0, 0, 0] => None,
        [ran_ns, waited_ns, _] => Some(CoreTimes { ran_ns, waited_ns }),
        _ => None,
    }
}

/// The time in which threads were ready to run and had no core; `None` if no thread shows it.
fn wait_ns(threads: &[Thread]) -> Option<u64> {
    threads.iter().filter_map(|thread| thread.times).map(|times| times.waited_ns).reduce(u64::saturating_add)
}

/// The CPUs on which the threads may run that do the program's work; those of the calling thread
/// where that is unknown.
fn cpus_of(threads: &[Thread], before: &[Thread]) -> Cpus {
    const CALLING: libc::pid_t = 0;
    let busy = busy(threads, before).into_iter().filter_map(affinity);
    let cpus = busy.reduce(|one, other| one.union(&other));
    cpus.or_else(|| affinity(CALLING)).unwrap_or_default()
}

/// The threads that ran for a good part of what all of them did, since they were as they are in
/// `before`.
fn busy(threads: &[Thread], before: &[Thread]) -> Vec<libc::pid_t> {
    let so_far_ns = |thread: &Thread| thread.times.map_or(0, |times| times.ran_ns);
    let ran_ns = |thread: &Thread| {
        let earlier = before.iter().find(|earlier| earlier.id == thread.id);
        so_far_ns(thread).saturating_sub(earlier.map_or(0, so_far_ns))
    };
    let all_ns = threads.iter().map(ran_ns).fold(0, u64::saturating_add);
    let is_busy = |thread: &&Thread| ran_ns(thread) > 0 && ran_ns(thread) >= all_ns / PART_OF_HELPER;
    threads.iter().filter(is_busy).map(|thread| thread.id).collect()
}

/// The CPUs on which a thread may run.
fn affinity(thread: libc::pid_t) -> Option<Cpus> {
    // Room for 8192 CPUs: the call fails where the kernel has more.
    let mut words = [0u64; 128];
    // SAFETY: the set is as long as is said, and any bits are one.
    let code = unsafe { libc::sched_getaffinity(thread, size_of_val(&words), words.as_mut_ptr().cast()) };
    let is_set = |&cpu: &u32| words[cpu as usize / 64] & (1 << (cpu % 64)) != 0;
    (code == 0).then(|| (0..words.len() as u32 * 64).filter(is_set).collect())
}

/// Microseconds on cores by all threads so far, and times that one lost its core to another.
pub fn used() -> [u64; 2] {
    let usage = usage();
    let us = microseconds(usage.ru_utime).saturating_add(microseconds(usage.ru_stime));
    [us, u64::try_from(usage.ru_nivcsw).unwrap_or(0)]
}

fn usage() -> libc::rusage {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the call fills the structure, which consists of integers: zeros are one, too.
    unsafe {
        libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
        usage.assume_init()
    }
}

fn microseconds(time: libc::timeval) -> u64 {
    let [seconds, microseconds] = [time.tv_sec, time.tv_usec].map(|part| u64::try_from(part).unwrap_or(0));
    seconds.saturating_mul(1_000_000).saturating_add(microseconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_and_unknown_where_the_kernel_does_not_count() {
        let times = |text: &str| parse_schedstat(text).map(|times| (times.ran_ns, times.waited_ns));
        assert_eq!(times("88614 149369 2\n"), Some((88_614, 149_369)));
        assert_eq!(times("0 17 0\n"), Some((0, 17)));
        for unknown in ["0 0 0\n", "", "1 2", "1 x 3", "1 2 3 4"] {
            assert_eq!(times(unknown), None, "{unknown:?}");
        }
    }

    #[test]
    fn waits_are_summed_over_threads_and_unknown_without_one() {
        let thread = |id, times: Option<(u64, u64)>| Thread {
            id,
            times: times.map(|(ran_ns, waited_ns)| CoreTimes { ran_ns, waited_ns }),
        };
        let threads = [thread(7, Some((1000, 5))), thread(8, None), thread(9, Some((10, 8)))];
        assert_eq!(wait_ns(&threads), Some(13));
        assert_eq!(wait_ns(&threads[1..2]), None);
        assert_eq!(busy(&threads, &[]), [7, 9]);
        assert_eq!(busy(&[thread(7, Some((1000, 5))), thread(9, Some((9, 8)))], &[]), [7]);
        assert_eq!(busy(&threads, &[thread(9, Some((9, 0))), thread(7, Some((300, 4)))]), [7]);
        assert!(busy(&threads[1..2], &[]).is_empty());
    }

    #[test]
    fn this_process_has_used_a_core_that_it_may_use() {
        let begin = std::time::Instant::now();
        while begin.elapsed().as_millis() < 20 {}
        let first = read(None);
        let used_us = |sample: &Sample| sample.reading.user_us + sample.reading.system_us;
        assert!(used_us(&first) > 0 && first.reading.minor_faults > 0, "{first:?}");
        assert!(!first.cpus.is_empty(), "{first:?}");
        assert!(first.cpus.len() <= u64::from(online().unwrap().get()), "{first:?}");
        let second = read(Some(&first));
        assert!(used_us(&second) >= used_us(&first) && second.cpus == first.cpus, "{first:?} {second:?}");
    }
}

//! Device memory that was written in the order of one stream, until it is known to be there.
//!
//! A kernel in that stream finds it written. Kernels in other streams must not use it yet, nor may
//! it be read: the Sanitizer's reads wait for nothing (docs/explanation/gpu-tracing.md).

use std::time::{Duration, Instant};

/// So long a context's launches are held up in all, until what other streams wait for is there: the
/// stream in which it was written may have a kernel in it that waits for what the program does
/// next.
const PATIENCE: Duration = Duration::from_millis(200);
const BETWEEN_LOOKS: Duration = Duration::from_micros(100);
/// Stands for all streams that are gone: no handle is this.
pub const GONE: u64 = u64::MAX;

/// The state of such memory.
#[derive(Debug)]
pub struct Arrival {
    /// The stream in whose order it was written; none once it is there.
    stream: Option<u64>,
    patience: Duration,
}

impl Arrival {
    /// Of memory that was just written.
    pub fn in_order_of(stream: u64) -> Arrival {
        Arrival { stream: Some(stream), patience: PATIENCE }
    }

    /// The program has waited for a stream, or, without one, for the whole context.
    pub fn waited(&mut self, stream: Option<u64>) {
        if stream.is_none() || stream == self.stream {
            self.stream = None;
        }
    }

    /// The stream is about to go; another may get its handle.
    pub fn stream_gone(&mut self, stream: u64) {
        if self.stream == Some(stream) {
            self.stream = Some(GONE);
        }
    }

    /// Returns whether it is there; `look` reads the device.
    pub fn is_there(&mut self, look: impl FnOnce() -> bool) -> bool {
        if self.stream.is_some() && look() {
            self.stream = None;
        }
        self.stream.is_none()
    }

    /// Returns whether what is put into the stream now finds it written, after waiting for that for
    /// a while.
    pub fn is_for(&mut self, stream: u64, mut look: impl FnMut() -> bool) -> bool {
        loop {
            if self.stream == Some(stream) || self.is_there(&mut look) {
                return true;
            }
            if self.patience.is_zero() {
                return false;
            }
            let begun = Instant::now();
            std::thread::sleep(BETWEEN_LOOKS);
            self.patience = self.patience.saturating_sub(begun.elapsed());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_itself_needs_no_look_and_others_wait_until_it_is_there() {
        let mut arrival = Arrival::in_order_of(3);
        assert!(arrival.is_for(3, || panic!("no look is needed")));
        let mut looks = 0;
        assert!(arrival.is_for(5, || {
            looks += 1;
            looks == 4
        }));
        assert_eq!(looks, 4);
        assert!(arrival.is_for(7, || panic!("it is known to be there")));
    }

    #[test]
    fn a_context_is_held_up_once() {
        let mut arrival = Arrival::in_order_of(3);
        let begun = Instant::now();
        assert!(!arrival.is_for(5, || false));
        assert!(begun.elapsed() >= PATIENCE);
        let mut looks = 0;
        assert!(!arrival.is_for(5, || {
            looks += 1;
            false
        }));
        assert_eq!(looks, 1);
        arrival.waited(Some(5));
        assert!(!arrival.is_there(|| false));
        arrival.waited(Some(3));
        assert!(arrival.is_there(|| false));
    }

    #[test]
    fn the_handle_of_a_stream_that_is_gone_is_another_stream() {
        let mut arrival = Arrival::in_order_of(3);
        arrival.stream_gone(3);
        assert!(!arrival.is_there(|| false));
        arrival.waited(Some(3));
        assert!(!arrival.is_there(|| false));
        arrival.waited(None);
        assert!(arrival.is_there(|| false));
    }
}

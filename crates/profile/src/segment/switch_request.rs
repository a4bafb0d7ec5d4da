//! A request from outside to switch recording on or off, in two words of the header.
//!
//! Whoever asks stores the request in [`super::layout::Header::switch_request`]. Then it marks the
//! slots of the calls in progress, by [`super::active_call::ASKED`], of threads that are in no
//! call. The process stores the request in [`super::layout::Header::followed_switch_request`] once
//! it has switched.

/// A request to switch recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwitchRequest {
    /// True if recording is to be on.
    pub on: bool,
    /// When it was made, in nanoseconds since 1970, UTC; an even number.
    pub asked_ns: u64,
}

impl SwitchRequest {
    /// A request that is made at that moment.
    pub fn new(on: bool, asked_ns: u64) -> SwitchRequest {
        SwitchRequest { on, asked_ns: asked_ns & !1 }
    }

    /// As a word, which is not 0.
    pub fn word(self) -> u64 {
        self.asked_ns.max(2) & !1 | u64::from(self.on)
    }

    /// From a word; `None` if it stands for no request.
    pub fn from_word(word: u64) -> Option<SwitchRequest> {
        (word > 1).then_some(SwitchRequest { on: word & 1 == 1, asked_ns: word & !1 })
    }
}

/// A request that a process has followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FollowedRequest {
    /// The request.
    pub request: SwitchRequest,
    /// When the process followed it, in nanoseconds since 1970, UTC.
    pub at_ns: u64,
}

impl FollowedRequest {
    /// As the text of a fact.
    pub fn text(self) -> String {
        format!("{} {}", self.request.word(), self.at_ns)
    }

    /// From such a text.
    pub fn from_text(text: &str) -> Option<FollowedRequest> {
        let (word, at) = text.split_once(' ')?;
        Some(FollowedRequest {
            request: SwitchRequest::from_word(word.parse().ok()?)?,
            at_ns: at.parse().ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_read_as_it_was_written() {
        for on in [false, true] {
            let request = SwitchRequest::new(on, 1_764_074_000_123_456_789);
            assert_eq!(SwitchRequest::from_word(request.word()), Some(request));
            let followed = FollowedRequest { request, at_ns: 1_764_074_001_000_000_001 };
            assert_eq!(FollowedRequest::from_text(&followed.text()), Some(followed));
        }
        assert_eq!([0, 1].map(SwitchRequest::from_word), [None; 2]);
        assert_eq!(FollowedRequest::from_text("7"), None);
        assert_eq!(FollowedRequest::from_text("1 7"), None);
    }
}

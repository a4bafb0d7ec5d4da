//! Read access to the words of a segment, wherever they are stored.

use super::layout::{self, HEADER_BYTES, Header, SLOT_BYTES, Slot};
use crate::error::ProfileError;
use std::mem::offset_of;

/// The words of a segment: mapped and changing, or read from a file.
pub trait Source {
    /// The number of words.
    fn words(&self) -> usize;
    /// The word at `index`, which is less than [`Source::words`]; with acquire ordering if others
    /// write it.
    fn word(&self, index: usize) -> u64;

    /// The eight words of the slot that begins at `index`, from one moment. If the owner was killed
    /// while it wrote them, they are taken as they are.
    fn slot(&self, index: usize) -> [u64; SLOT_WORDS] {
        let read = || std::array::from_fn(|word| self.word(index + word));
        settled(read(), read)
    }
}

/// Words of a slot.
pub const SLOT_WORDS: usize = SLOT_BYTES / 8;

/// Limit on reading a slot again while its owner writes it.
const MOST_READS: u32 = 1000;

/// Reads a slot again until two readings are alike, and none was made while its owner wrote: then
/// nothing changed from the end of the first to the begin of the second.
pub fn settled(
    mut last: [u64; SLOT_WORDS],
    mut read: impl FnMut() -> [u64; SLOT_WORDS],
) -> [u64; SLOT_WORDS] {
    for _ in 0..MOST_READS {
        let next = read();
        if next == last && next[offset_of!(Slot, sequence) / 8].is_multiple_of(2) {
            break;
        }
        last = next;
    }
    last
}

impl Source for [u64] {
    fn words(&self) -> usize {
        self.len()
    }

    fn word(&self, index: usize) -> u64 {
        self[index]
    }
}

/// Fails if the words do not begin with the header of a segment of this version.
pub fn check_layout<S: Source + ?Sized>(source: &S) -> Result<(), ProfileError> {
    let wrong = |why: String| Err(ProfileError::Segment { why });
    let total = source.words();
    if total < HEADER_BYTES / 8 {
        return wrong(format!("it has {} bytes, a header has {HEADER_BYTES}", total * 8));
    }
    let field = |offset: usize| source.word(offset / 8);
    if field(offset_of!(Header, magic)) != layout::MAGIC {
        return wrong("it does not begin as one".to_owned());
    }
    let version = field(offset_of!(Header, version));
    if version != layout::VERSION {
        let expected = layout::VERSION;
        return wrong(format!("its layout has version {version}, this program reads {expected}"));
    }
    if field(offset_of!(Header, operations)) != crate::Operation::fingerprint() {
        return wrong("another version of mpisee wrote it".to_owned());
    }
    Ok(())
}

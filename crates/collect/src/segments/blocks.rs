//! Reads few words of a large file.

use super::live::words_of;
use mpisee_profile::segment::source::Source;
use std::cell::RefCell;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// A file that is read by blocks, and only where words are asked for. The last block is kept.
pub struct Blocks {
    file: File,
    words: usize,
    /// The number of the last block, and its words.
    last: RefCell<Option<(usize, Vec<u64>)>>,
}

const WORDS_OF_BLOCK: usize = 1 << 10;

impl Blocks {
    pub fn new(file: File, words: usize) -> Blocks {
        Blocks { file, words, last: RefCell::default() }
    }

    fn read(&self, block: usize) -> Vec<u64> {
        const BYTES: usize = WORDS_OF_BLOCK * size_of::<u64>();
        let mut bytes = [0; BYTES];
        // A file that is cut off or cannot be read has zeros there, and the reader fails at a chunk
        // without words.
        let read = self.file.read_at(&mut bytes, (block * BYTES) as u64).unwrap_or(0);
        words_of(&bytes[..read])
    }
}

impl Source for Blocks {
    fn words(&self) -> usize {
        self.words
    }

    fn word(&self, index: usize) -> u64 {
        let (block, word) = (index / WORDS_OF_BLOCK, index % WORDS_OF_BLOCK);
        let mut last = self.last.borrow_mut();
        let words = match &mut *last {
            Some((number, words)) if *number == block => words,
            last => &mut last.insert((block, self.read(block))).1,
        };
        words.get(word).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_the_file() {
        let words: Vec<u64> = (1..=2 * WORDS_OF_BLOCK as u64 + 7).collect();
        let file = tempfile::NamedTempFile::new().unwrap();
        let bytes: Vec<u8> = words.iter().copied().flat_map(u64::to_ne_bytes).collect();
        std::fs::write(file.path(), bytes).unwrap();
        let blocks = Blocks::new(file.reopen().unwrap(), words.len() + 5);
        assert_eq!(blocks.words(), words.len() + 5);
        for at in [3, 0, words.len() - 1, WORDS_OF_BLOCK, WORDS_OF_BLOCK - 1] {
            assert_eq!(blocks.word(at), words[at]);
        }
        assert_eq!(blocks.word(words.len()), 0);
    }
}

//! A hash of bytes that is equal in all processes.

/// FNV-1a of 64 bits from a seed, and the mixing of MurmurHash3 (A. Appleby) over it.
pub struct Hash(u64);

impl Hash {
    /// Of nothing yet.
    pub fn new(seed: u64) -> Hash {
        Hash(0xcbf2_9ce4_8422_2325 ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// Takes in more bytes.
    pub fn add(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    }

    /// The hash of all bytes.
    pub fn end(self) -> u64 {
        let mixed = (self.0 ^ self.0 >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
        let mixed = (mixed ^ mixed >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
        mixed ^ mixed >> 33
    }
}

/// The [`struct@Hash`] of bytes that are at hand.
pub fn hash(bytes: &[u8], seed: u64) -> u64 {
    let mut hash = Hash::new(seed);
    hash.add(bytes);
    hash.end()
}

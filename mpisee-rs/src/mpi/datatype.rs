//! Sizes of datatypes.

use crate::generated::pmpi;
use crate::mpi::abi::{self, Count, Datatype, Raw, constant};
use std::sync::atomic::{AtomicU64, Ordering};

const CACHED: usize = 64;
const SIZE_BITS: u32 = 16;

/// Sizes of predefined datatypes, which live as long as the program: handle in the upper bits, size in the
/// lower ones, so that one word holds a pair that belongs together.
static CACHE: [AtomicU64; CACHED] = [const { AtomicU64::new(0) }; CACHED];

/// The bytes of data in `count` elements.
///
/// With a count of 0, an MPI may accept any datatype. Its size is not queried then, since an error could end the
/// program.
#[inline]
pub fn bytes(count: u64, datatype: Raw<Datatype>) -> u64 {
    if count == 0 { 0 } else { count.wrapping_mul(size(datatype)) }
}

/// The bytes of data in one element.
#[inline]
fn size(datatype: Raw<Datatype>) -> u64 {
    let handle = abi::bits(datatype.get());
    let entry = &CACHE[(handle.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58) as usize];
    let cached = entry.load(Ordering::Relaxed);
    if cached >> SIZE_BITS == handle && cached != 0 {
        return cached & ((1 << SIZE_BITS) - 1);
    }
    ask(datatype, handle, entry)
}

#[cold]
fn ask(datatype: Raw<Datatype>, handle: u64, entry: &AtomicU64) -> u64 {
    let mut size: Count = 0;
    // SAFETY: the application passed the datatype to a call that succeeded; `size` is written.
    let code = unsafe { pmpi::MPI_Type_size_x.get()(datatype, &raw mut size) };
    let Ok(size) = u64::try_from(size) else { return 0 };
    if code != constant::SUCCESS {
        return 0;
    }
    let fits = size < 1 << SIZE_BITS && handle < 1 << (64 - SIZE_BITS);
    if fits && entry.load(Ordering::Relaxed) == 0 && is_predefined(datatype) {
        entry.store(handle << SIZE_BITS | size, Ordering::Relaxed);
    }
    size
}

fn is_predefined(datatype: Raw<Datatype>) -> bool {
    let (mut integers, mut addresses, mut datatypes, mut combiner) = (0, 0, 0, 0);
    // SAFETY: as in `ask`; all four are written.
    let code = unsafe {
        pmpi::MPI_Type_get_envelope.get()(
            datatype,
            &raw mut integers,
            &raw mut addresses,
            &raw mut datatypes,
            &raw mut combiner,
        )
    };
    code == constant::SUCCESS && combiner == abi::COMBINER_NAMED
}

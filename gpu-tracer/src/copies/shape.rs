//! The copy that a call of the driver makes: its ends and bytes, read from its parameters.
//!
//! Parameters and NVIDIA's descriptions of copies are words of eight bytes here; `device/cupti_abi.c` has the C compiler compare
//! the places of what is used with NVIDIA's headers.

use std::ffi::{c_int, c_void};

/// An end of a copy, by the number of its parameter.
#[derive(Clone, Copy, Debug)]
pub enum End {
    /// There is none.
    Nothing,
    /// The address is the parameter of that number.
    Address(usize),
    /// A CUDA array, which is on a device.
    Array,
}

/// The number of bytes, by the numbers of parameters.
#[derive(Clone, Copy, Debug)]
pub enum Size {
    /// The parameter of that number.
    Word(usize),
    /// The parameter of that number, in elements of a number of bytes.
    Elements(usize, u64),
    /// Elements in a row, and in the next parameter rows; the pitch of rows is the parameter 1.
    Rows(usize, u64),
}

/// The parameters of a function.
#[derive(Clone, Copy, Debug)]
pub enum Shape {
    /// Ends and size.
    Plain {
        /// The memory that is written.
        to: End,
        /// The memory that is read.
        from: End,
        /// How much.
        size: Size,
    },
    /// A `CUDA_MEMCPY2D`.
    Rectangle,
    /// A `CUDA_MEMCPY3D` or `CUDA_MEMCPY3D_PEER`.
    Block,
    /// Arrays of destinations, sources and sizes, and their length.
    Batch,
    /// A number of `CUDA_MEMCPY3D_BATCH_OP`, and these.
    BlockBatch,
    /// Nothing is copied.
    Launch,
}

/// An end of one copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyEnd {
    /// There is none.
    Nothing,
    /// Memory at an address, and how far the copy reaches from there, in bytes.
    At(u64, u64),
    /// A CUDA array.
    Array,
}

/// One copy of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// The memory that is written.
    pub to: CopyEnd,
    /// The memory that is read.
    pub from: CopyEnd,
    /// The bytes.
    pub bytes: u64,
}

/// The words of a `CUDA_MEMCPY2D` or `CUDA_MEMCPY3D`.
struct Description {
    dimensions: usize,
    from: Layout,
    to: Layout,
    /// The first word of the extent: bytes in a row, rows, slices.
    extent: usize,
}

/// The words of one end.
struct Layout {
    /// The first of the offsets: bytes in a row, rows, slices.
    offsets: usize,
    /// The kind of memory; the address in the host's, that on a device, and the array follow.
    kind: usize,
    /// Bytes from row to row; rows from slice to slice follow.
    pitch: usize,
}

const RECTANGLE: Description = Description {
    dimensions: 2,
    from: Layout { offsets: 0, kind: 2, pitch: 6 },
    to: Layout { offsets: 7, kind: 9, pitch: 13 },
    extent: 14,
};
const BLOCK: Description = Description {
    dimensions: 3,
    from: Layout { offsets: 0, kind: 4, pitch: 9 },
    to: Layout { offsets: 11, kind: 15, pitch: 20 },
    extent: 22,
};
/// Words of a `CUDA_MEMCPY3D_BATCH_OP`, of an end in it, and where its extent is.
const OPERATION_WORDS: usize = 14;
const OPERAND_WORDS: usize = 5;
const OPERATION_EXTENT: usize = 10;
/// `CU_MEMCPY_OPERAND_TYPE_POINTER`
const OPERAND_IS_POINTER: c_int = 1;
/// `CU_MEMORYTYPE_HOST`, `CU_MEMORYTYPE_ARRAY`; the others have the address of a device.
const HOST: c_int = 1;
const ARRAY: c_int = 3;
/// Copies of a batch beyond this are not looked at.
const MOST_OF_BATCH: usize = 1 << 20;

impl Shape {
    /// Passes each copy of a call on.
    ///
    /// # Safety
    /// The parameters are those of a call of a function of this shape which succeeded.
    pub unsafe fn copies(self, parameters: *const c_void, mut each: impl FnMut(Transfer)) {
        let words = parameters.cast::<u64>();
        // SAFETY: the parameters have these words, and those that are pointers are valid, since the call succeeded.
        unsafe {
            match self {
                Shape::Plain { to, from, size } => each(plain(words, to, from, size)),
                Shape::Rectangle => each(described(pointer(words, 0), &RECTANGLE)),
                Shape::Block => each(described(pointer(words, 0), &BLOCK)),
                Shape::Batch => {
                    let [to, from, sizes] = [0, 1, 2].map(|at| pointer(words, at));
                    for at in 0..(words.add(3).read() as usize).min(MOST_OF_BATCH) {
                        let bytes = sizes.add(at).read();
                        let place = |of: *const u64| CopyEnd::At(of.add(at).read(), bytes);
                        each(Transfer { to: place(to), from: place(from), bytes });
                    }
                }
                Shape::BlockBatch => {
                    let operations = pointer(words, 1);
                    for at in 0..(words.read() as usize).min(MOST_OF_BATCH) {
                        each(operation(operations.add(at * OPERATION_WORDS)));
                    }
                }
                Shape::Launch => each(Transfer { to: CopyEnd::Nothing, from: CopyEnd::Nothing, bytes: 0 }),
            }
        }
    }
}

/// # Safety
/// The word is a pointer.
unsafe fn pointer(words: *const u64, at: usize) -> *const u64 {
    // SAFETY: the words are parameters, of which the one at `at` is a pointer.
    unsafe { words.cast::<*const u64>().add(at).read() }
}

/// # Safety
/// The parameters are of such a function.
unsafe fn plain(words: *const u64, to: End, from: End, size: Size) -> Transfer {
    // SAFETY: the words are parameters, of which these are numbers or addresses.
    let word = |at: usize| unsafe { words.add(at).read() };
    let (bytes, span) = match size {
        Size::Word(at) => (word(at), word(at)),
        Size::Elements(at, width) => {
            let bytes = word(at).saturating_mul(width);
            (bytes, bytes)
        }
        Size::Rows(at, width) => {
            let row = word(at).saturating_mul(width);
            (row.saturating_mul(word(at + 1)), reach(row, &[(word(1), word(at + 1))]))
        }
    };
    let place = |end: End| match end {
        End::Nothing => CopyEnd::Nothing,
        End::Address(at) => CopyEnd::At(word(at), span),
        End::Array => CopyEnd::Array,
    };
    Transfer { to: place(to), from: place(from), bytes }
}

/// How far rows reach, in bytes; of each further dimension the distance, and how many there are.
fn reach(row: u64, dimensions: &[(u64, u64)]) -> u64 {
    let further = dimensions.iter().map(|(distance, count)| distance.saturating_mul(count.saturating_sub(1)));
    further.fold(row, u64::saturating_add)
}

/// # Safety
/// It is a description of that layout.
unsafe fn described(words: *const u64, description: &Description) -> Transfer {
    // SAFETY: the description has the words of its structure in cuda.h.
    let word = |at: usize| unsafe { words.add(at).read() };
    let has_slices = description.dimensions == 3;
    let mut extent =
        [0, 1, 2].map(|at| if at < description.dimensions { word(description.extent + at) } else { 1 });
    // Rows and slices may be left out.
    extent[1..].iter_mut().for_each(|it| *it = (*it).max(1));
    let place = |end: &Layout| {
        let address = match word(end.kind) as c_int {
            ARRAY => return CopyEnd::Array,
            HOST => word(end.kind + 1),
            _ => word(end.kind + 2),
        };
        let pitch = word(end.pitch);
        let slice = if has_slices { pitch.saturating_mul(word(end.pitch + 1)) } else { 0 };
        let offset = [1, pitch, slice].into_iter().take(description.dimensions).enumerate();
        let offset = offset.fold(0u64, |sum, (at, distance)| {
            sum.saturating_add(word(end.offsets + at).saturating_mul(distance))
        });
        let span = reach(extent[0], &[(pitch, extent[1]), (slice, extent[2])]);
        CopyEnd::At(address.saturating_add(offset), span)
    };
    let bytes = extent.into_iter().fold(1u64, u64::saturating_mul);
    Transfer { from: place(&description.from), to: place(&description.to), bytes }
}

/// A copy of a batch of blocks. The extent of one between arrays is in elements, whose size is not known.
///
/// # Safety
/// It is a `CUDA_MEMCPY3D_BATCH_OP`.
unsafe fn operation(words: *const u64) -> Transfer {
    // SAFETY: the operation has the words of its structure in cuda.h.
    let word = |at: usize| unsafe { words.add(at).read() };
    let extent = [0, 1, 2].map(|at| word(OPERATION_EXTENT + at));
    let place = |at: usize| {
        if word(at) as c_int != OPERAND_IS_POINTER {
            return CopyEnd::Array;
        }
        // 0 stands for rows and slices without gaps.
        let or = |given: u64, else_: u64| if given == 0 { else_ } else { given };
        let row = or(word(at + 2), extent[0]);
        let slice = row.saturating_mul(or(word(at + 3), extent[1]));
        CopyEnd::At(word(at + 1), reach(extent[0], &[(row, extent[1]), (slice, extent[2])]))
    };
    let bytes = extent.into_iter().fold(1u64, u64::saturating_mul);
    Transfer { from: place(0), to: place(OPERAND_WORDS), bytes }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copies(shape: Shape, parameters: &[u64]) -> Vec<Transfer> {
        let mut found = Vec::new();
        // SAFETY: the tests' parameters have the words of the shape.
        unsafe { shape.copies(parameters.as_ptr().cast(), |copy| found.push(copy)) };
        found
    }

    #[test]
    fn a_set_of_rows_reaches_over_their_pitch() {
        let shape = Shape::Plain { to: End::Address(0), from: End::Nothing, size: Size::Rows(3, 2) };
        let expected = Transfer { to: CopyEnd::At(4096, 128 * 4 + 20), from: CopyEnd::Nothing, bytes: 100 };
        assert_eq!(copies(shape, &[4096, 128, 7, 10, 5]), [expected]);
    }

    #[test]
    fn offsets_of_described_copies_are_added() {
        let mut rectangle = [0u64; 16];
        // From the host, row 3 from byte 5 on, at a pitch of 100; to a device; 10 bytes of 4 rows.
        (rectangle[0], rectangle[1], rectangle[2], rectangle[3], rectangle[6]) = (5, 3, 1, 1000, 100);
        (rectangle[9], rectangle[10], rectangle[11], rectangle[13]) = (2, 1, 9000, 50);
        (rectangle[14], rectangle[15]) = (10, 4);
        let expected = Transfer { from: CopyEnd::At(1305, 310), to: CopyEnd::At(9000, 160), bytes: 40 };
        assert_eq!(copies(Shape::Rectangle, &[rectangle.as_ptr().expose_provenance() as u64]), [expected]);
        let mut block = [0u64; 25];
        // From an array, to slice 2 of unified memory, of slices with 6 rows.
        (block[4], block[13], block[15], block[17], block[20], block[21]) = (3, 2, 4, 7000, 10, 6);
        (block[22], block[23], block[24]) = (8, 5, 2);
        let expected = Transfer { from: CopyEnd::Array, to: CopyEnd::At(7120, 8 + 40 + 60), bytes: 80 };
        assert_eq!(copies(Shape::Block, &[block.as_ptr().expose_provenance() as u64]), [expected]);
    }

    #[test]
    fn each_copy_of_a_batch_is_passed_on() {
        let [to, from, sizes] = [[100u64, 200], [300, 400], [7, 9]];
        let parameters = [&to, &from, &sizes].map(|it| it.as_ptr().expose_provenance() as u64);
        let found = copies(Shape::Batch, &[parameters[0], parameters[1], parameters[2], 2]);
        let copy =
            |to, from, bytes| Transfer { to: CopyEnd::At(to, bytes), from: CopyEnd::At(from, bytes), bytes };
        assert_eq!(found, [copy(100, 300, 7), copy(200, 400, 9)]);
        let mut operations = [0u64; 14];
        (operations[0], operations[1], operations[5], operations[6]) = (1, 500, 2, 600);
        (operations[10], operations[11], operations[12]) = (4, 3, 2);
        let found = copies(Shape::BlockBatch, &[1, operations.as_ptr().expose_provenance() as u64]);
        assert_eq!(found, [Transfer { from: CopyEnd::At(500, 24), to: CopyEnd::Array, bytes: 24 }]);
    }
}

//! The copy that a call of the driver makes: its ends and bytes, read from its parameters.
//!
//! Parameters and NVIDIA's descriptions of copies are words of eight bytes here, and no references
//! to the structures of cudarc: the kinds of memory in these are enumerations, of which a program
//! may pass a later value.

use cudarc::driver::sys::{
    CUDA_MEMCPY2D, CUDA_MEMCPY3D, CUDA_MEMCPY3D_BATCH_OP, CUDA_MEMCPY3D_PEER, CUmemcpy3DOperand,
    CUmemcpy3DOperandType, CUmemorytype,
};
use std::ffi::{c_int, c_void};

/// The number of the word of a structure that a field is.
macro_rules! word {
    ($of:ident, $($field:ident).+) => {
        const {
            let offset = ::std::mem::offset_of!($of, $($field).+);
            assert!(offset % 8 == 0);
            offset / 8
        }
    };
}
pub(crate) use word;

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
    /// The parameter of that number, in elements of a number of bytes.
    Elements(usize, u64),
    /// Rows of elements.
    Rows {
        /// Elements in a row.
        width: usize,
        /// Bytes of an element.
        element: u64,
        /// Rows.
        height: usize,
        /// Bytes from row to row.
        pitch: usize,
    },
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
    /// A pointer to a structure that describes the copy.
    Described(usize, &'static Description),
    /// Arrays of destinations, sources and sizes, and their length.
    Batch {
        /// The memory that is written.
        to: usize,
        /// The memory that is read.
        from: usize,
        /// Bytes.
        sizes: usize,
        /// The number of copies.
        count: usize,
    },
    /// An array of `CUDA_MEMCPY3D_BATCH_OP`, and its length.
    BlockBatch {
        /// The array.
        operations: usize,
        /// Its length.
        count: usize,
    },
    /// Nothing is copied.
    Launch,
}

/// An end of one copy, as the call names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operand {
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
    pub to: Operand,
    /// The memory that is read.
    pub from: Operand,
    /// The bytes; none where they are not known.
    pub bytes: Option<u64>,
}

/// The words of a structure that describes a copy.
#[derive(Debug)]
pub struct Description {
    from: Layout,
    to: Layout,
    /// Bytes in a row, rows, slices.
    extent: &'static [usize],
}

/// The words of one end.
#[derive(Debug)]
struct Layout {
    /// Bytes in a row, rows, slices.
    offsets: &'static [usize],
    /// The kind of memory, of which there is one of the addresses, or an array.
    kind: usize,
    /// The address in the host's memory.
    host: usize,
    /// The address in a device's memory.
    device: usize,
    /// Bytes from row to row.
    pitch: usize,
    /// Rows from slice to slice.
    height: Option<usize>,
}

/// The words of a `CUDA_MEMCPY2D`.
pub static RECTANGLE: Description = Description {
    from: Layout {
        offsets: &[word!(CUDA_MEMCPY2D, srcXInBytes), word!(CUDA_MEMCPY2D, srcY)],
        kind: word!(CUDA_MEMCPY2D, srcMemoryType),
        host: word!(CUDA_MEMCPY2D, srcHost),
        device: word!(CUDA_MEMCPY2D, srcDevice),
        pitch: word!(CUDA_MEMCPY2D, srcPitch),
        height: None,
    },
    to: Layout {
        offsets: &[word!(CUDA_MEMCPY2D, dstXInBytes), word!(CUDA_MEMCPY2D, dstY)],
        kind: word!(CUDA_MEMCPY2D, dstMemoryType),
        host: word!(CUDA_MEMCPY2D, dstHost),
        device: word!(CUDA_MEMCPY2D, dstDevice),
        pitch: word!(CUDA_MEMCPY2D, dstPitch),
        height: None,
    },
    extent: &[word!(CUDA_MEMCPY2D, WidthInBytes), word!(CUDA_MEMCPY2D, Height)],
};

macro_rules! block {
    ($of:ident) => {
        Description {
            from: Layout {
                offsets: &[word!($of, srcXInBytes), word!($of, srcY), word!($of, srcZ)],
                kind: word!($of, srcMemoryType),
                host: word!($of, srcHost),
                device: word!($of, srcDevice),
                pitch: word!($of, srcPitch),
                height: Some(word!($of, srcHeight)),
            },
            to: Layout {
                offsets: &[word!($of, dstXInBytes), word!($of, dstY), word!($of, dstZ)],
                kind: word!($of, dstMemoryType),
                host: word!($of, dstHost),
                device: word!($of, dstDevice),
                pitch: word!($of, dstPitch),
                height: Some(word!($of, dstHeight)),
            },
            extent: &[word!($of, WidthInBytes), word!($of, Height), word!($of, Depth)],
        }
    };
}

/// The words of a `CUDA_MEMCPY3D`.
pub static BLOCK: Description = block!(CUDA_MEMCPY3D);
/// The words of a `CUDA_MEMCPY3D_PEER`.
pub static PEER_BLOCK: Description = block!(CUDA_MEMCPY3D_PEER);

impl Shape {
    /// The number of copies of a call. A launch counts as one, of nothing.
    ///
    /// # Safety
    /// The parameters are those of a call of a function of this shape which succeeded.
    pub unsafe fn number(self, parameters: *const c_void) -> usize {
        match self {
            // SAFETY: the parameters have this word, a number.
            Shape::Batch { count, .. } | Shape::BlockBatch { count, .. } => unsafe {
                parameters.cast::<usize>().add(count).read()
            },
            Shape::Plain { .. } | Shape::Described(..) | Shape::Launch => 1,
        }
    }

    /// A copy of a call, by its place among them. `bytes_of_element` has the size of an array's
    /// elements, by the array's handle.
    ///
    /// # Safety
    /// The parameters are those of a call of a function of this shape which succeeded, and has more
    /// copies than `at`.
    pub unsafe fn copy(
        self,
        parameters: *const c_void,
        at: usize,
        bytes_of_element: impl Fn(u64) -> Option<u64>,
    ) -> Transfer {
        let words = parameters.cast::<u64>();
        // SAFETY: the parameters have these words, and those that are pointers are valid, since the
        // call succeeded.
        unsafe {
            match self {
                Shape::Plain { to, from, size } => plain(words, to, from, size),
                Shape::Described(at, description) => described(pointer(words, at), description),
                Shape::Batch { to, from, sizes, .. } => {
                    let [to, from, bytes] = [to, from, sizes].map(|of| pointer(words, of).add(at).read());
                    Transfer {
                        to: Operand::At(to, bytes),
                        from: Operand::At(from, bytes),
                        bytes: Some(bytes),
                    }
                }
                Shape::BlockBatch { operations, .. } => {
                    let operations = pointer(words, operations).cast::<CUDA_MEMCPY3D_BATCH_OP>();
                    operation(operations.add(at).cast(), bytes_of_element)
                }
                Shape::Launch => Transfer { to: Operand::Nothing, from: Operand::Nothing, bytes: Some(0) },
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
        Size::Elements(at, width) => {
            let bytes = word(at).saturating_mul(width);
            (bytes, bytes)
        }
        Size::Rows { width, element, height, pitch } => {
            let row = word(width).saturating_mul(element);
            (row.saturating_mul(word(height)), reach(row, &[(word(pitch), word(height))]))
        }
    };
    let place = |end: End| match end {
        End::Nothing => Operand::Nothing,
        End::Address(at) => Operand::At(word(at), span),
        End::Array => Operand::Array,
    };
    Transfer { to: place(to), from: place(from), bytes: Some(bytes) }
}

/// How far rows reach, in bytes; of each further dimension the distance, and how many there are.
fn reach(row: u64, dimensions: &[(u64, u64)]) -> u64 {
    if row == 0 || dimensions.iter().any(|&(_, count)| count == 0) {
        return 0;
    }
    let further = dimensions.iter().map(|(distance, count)| distance.saturating_mul(count.saturating_sub(1)));
    further.fold(row, u64::saturating_add)
}

/// # Safety
/// It is a description of that layout.
unsafe fn described(words: *const u64, description: &Description) -> Transfer {
    // SAFETY: the description has the words of its structure in cuda.h.
    let word = |at: usize| unsafe { words.add(at).read() };
    let extent = [0, 1, 2].map(|at| description.extent.get(at).map_or(1, |&at| word(at)));
    let place = |end: &Layout| {
        const HOST: c_int = CUmemorytype::CU_MEMORYTYPE_HOST as c_int;
        const ARRAY: c_int = CUmemorytype::CU_MEMORYTYPE_ARRAY as c_int;
        let address = match word(end.kind) as c_int {
            ARRAY => return Operand::Array,
            HOST => word(end.host),
            _ => word(end.device),
        };
        let pitch = word(end.pitch);
        let slice = end.height.map_or(0, |height| pitch.saturating_mul(word(height)));
        let offset = end.offsets.iter().zip([1, pitch, slice]);
        let offset =
            offset.fold(0u64, |sum, (&at, distance)| sum.saturating_add(word(at).saturating_mul(distance)));
        let span = reach(extent[0], &[(pitch, extent[1]), (slice, extent[2])]);
        Operand::At(address.saturating_add(offset), span)
    };
    let bytes = extent.into_iter().fold(1u64, u64::saturating_mul);
    Transfer { from: place(&description.from), to: place(&description.to), bytes: Some(bytes) }
}

/// A copy of a batch of blocks. Lengths in it are in elements: of the array, if there is one, else
/// of one byte.
///
/// # Safety
/// It is a `CUDA_MEMCPY3D_BATCH_OP`.
unsafe fn operation(words: *const u64, bytes_of_element: impl Fn(u64) -> Option<u64>) -> Transfer {
    const POINTER: c_int = CUmemcpy3DOperandType::CU_MEMCPY_OPERAND_TYPE_POINTER as c_int;
    // SAFETY: the operation has the words of its structure in cuda.h.
    let word = |at: usize| unsafe { words.add(at).read() };
    let [width, height, depth] = [
        word(word!(CUDA_MEMCPY3D_BATCH_OP, extent.width)),
        word(word!(CUDA_MEMCPY3D_BATCH_OP, extent.height)),
        word(word!(CUDA_MEMCPY3D_BATCH_OP, extent.depth)),
    ];
    let operands = [word!(CUDA_MEMCPY3D_BATCH_OP, src), word!(CUDA_MEMCPY3D_BATCH_OP, dst)];
    let is_pointer = |operand: usize| word(operand + word!(CUmemcpy3DOperand, type_)) as c_int == POINTER;
    let element = if operands.into_iter().all(is_pointer) {
        Some(1)
    } else {
        // Of two arrays elements are of one size.
        let mut arrays = operands.into_iter().filter(|&it| !is_pointer(it));
        arrays.find_map(|it| bytes_of_element(word(it + word!(CUmemcpy3DOperand, op.array.array))))
    };
    // Where it is not known the copy reaches at least this far.
    let row_bytes = |elements: u64| elements.saturating_mul(element.unwrap_or(1));
    let place = |operand: usize| {
        if !is_pointer(operand) {
            return Operand::Array;
        }
        // 0 stands for rows and slices without gaps.
        let or = |given: u64, else_: u64| if given == 0 { else_ } else { given };
        let row = row_bytes(or(word(operand + word!(CUmemcpy3DOperand, op.ptr.rowLength)), width));
        let rows = or(word(operand + word!(CUmemcpy3DOperand, op.ptr.layerHeight)), height);
        let address = word(operand + word!(CUmemcpy3DOperand, op.ptr.ptr));
        Operand::At(address, reach(row_bytes(width), &[(row, height), (row.saturating_mul(rows), depth)]))
    };
    let [from, to] = operands.map(place);
    let bytes =
        element.map(|element| [element, width, height, depth].into_iter().fold(1, u64::saturating_mul));
    Transfer { from, to, bytes }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copies(shape: Shape, parameters: &[u64]) -> Vec<Transfer> {
        // Of the array at 600 the size is known.
        let element = |array| (array == 600).then_some(16);
        let parameters = parameters.as_ptr().cast();
        // SAFETY: the tests' parameters have the words of the shape.
        unsafe { (0..shape.number(parameters)).map(|at| shape.copy(parameters, at, element)).collect() }
    }

    #[test]
    fn a_set_of_rows_reaches_over_their_pitch() {
        let shape = Shape::Plain {
            to: End::Address(0),
            from: End::Nothing,
            size: Size::Rows { width: 3, element: 2, height: 4, pitch: 1 },
        };
        let expected =
            Transfer { to: Operand::At(4096, 128 * 4 + 20), from: Operand::Nothing, bytes: Some(100) };
        assert_eq!(copies(shape, &[4096, 128, 7, 10, 5]), [expected]);
    }

    #[test]
    fn offsets_of_described_copies_are_added() {
        let mut rectangle = [0u64; 16];
        // From the host, row 3 from byte 5 on, at a pitch of 100; to a device; 10 bytes of 4 rows.
        (rectangle[0], rectangle[1], rectangle[2], rectangle[3], rectangle[6]) = (5, 3, 1, 1000, 100);
        (rectangle[9], rectangle[10], rectangle[11], rectangle[13]) = (2, 1, 9000, 50);
        (rectangle[14], rectangle[15]) = (10, 4);
        let expected = Transfer { from: Operand::At(1305, 310), to: Operand::At(9000, 160), bytes: Some(40) };
        assert_eq!(
            copies(Shape::Described(0, &RECTANGLE), &[rectangle.as_ptr().expose_provenance() as u64]),
            [expected]
        );
        let mut block = [0u64; 25];
        // From an array, to slice 2 of unified memory, of slices with 6 rows.
        (block[4], block[13], block[15], block[17], block[20], block[21]) = (3, 2, 4, 7000, 10, 6);
        (block[22], block[23], block[24]) = (8, 5, 2);
        let expected = Transfer { from: Operand::Array, to: Operand::At(7120, 8 + 40 + 60), bytes: Some(80) };
        assert_eq!(
            copies(Shape::Described(0, &BLOCK), &[block.as_ptr().expose_provenance() as u64]),
            [expected]
        );
    }

    #[test]
    fn copies_of_no_rows_or_slices_are_of_nothing() {
        let shape = Shape::Plain {
            to: End::Address(0),
            from: End::Nothing,
            size: Size::Rows { width: 3, element: 2, height: 4, pitch: 1 },
        };
        let nothing = Operand::At(4096, 0);
        let expected = Transfer { to: nothing, from: Operand::Nothing, bytes: Some(0) };
        assert_eq!(copies(shape, &[4096, 128, 7, 10, 0]), [expected]);
        let mut rectangle = [0u64; 16];
        (rectangle[2], rectangle[3], rectangle[9], rectangle[11]) = (1, 4096, 2, 4096);
        rectangle[14] = 10;
        let expected = Transfer { to: nothing, from: nothing, bytes: Some(0) };
        assert_eq!(
            copies(Shape::Described(0, &RECTANGLE), &[rectangle.as_ptr().expose_provenance() as u64]),
            [expected]
        );
        let mut block = [0u64; 25];
        (block[4], block[5], block[15], block[17]) = (1, 4096, 2, 4096);
        (block[22], block[23]) = (8, 5);
        assert_eq!(
            copies(Shape::Described(0, &BLOCK), &[block.as_ptr().expose_provenance() as u64]),
            [expected]
        );
    }

    #[test]
    fn each_copy_of_a_batch_is_passed_on() {
        let [to, from, sizes] = [[100u64, 200], [300, 400], [7, 9]];
        let parameters = [&to, &from, &sizes].map(|it| it.as_ptr().expose_provenance() as u64);
        let found = copies(
            Shape::Batch { to: 0, from: 1, sizes: 2, count: 3 },
            &[parameters[0], parameters[1], parameters[2], 2],
        );
        let copy = |to, from, bytes| Transfer {
            to: Operand::At(to, bytes),
            from: Operand::At(from, bytes),
            bytes: Some(bytes),
        };
        assert_eq!(found, [copy(100, 300, 7), copy(200, 400, 9)]);
    }

    #[test]
    fn blocks_between_memory_and_arrays_are_of_the_arrays_elements() {
        let block = |from: [u64; 4], to: [u64; 2]| {
            let mut operation = [0u64; 14];
            operation[..4].copy_from_slice(&from);
            operation[5..7].copy_from_slice(&to);
            (operation[10], operation[11], operation[12]) = (4, 3, 2);
            let parameters = [1, operation.as_ptr().expose_provenance() as u64];
            copies(Shape::BlockBatch { operations: 1, count: 0 }, &parameters)
        };
        let array = |at, span, bytes| [Transfer { from: Operand::At(at, span), to: Operand::Array, bytes }];
        assert_eq!(block([1, 500, 0, 0], [2, 600]), array(500, 24 * 16, Some(24 * 16)));
        // Rows of 10 elements, 5 of them from slice to slice.
        let span = (4 + 2 * 10 + 5 * 10) * 16;
        assert_eq!(block([1, 500, 10, 5], [2, 600]), array(500, span, Some(24 * 16)));
        assert_eq!(block([1, 500, 10, 5], [2, 700]), array(500, span / 16, None));
        let whole = Transfer { from: Operand::At(500, 24), to: Operand::At(600, 24), bytes: Some(24) };
        assert_eq!(block([1, 500, 0, 0], [1, 600]), [whole]);
        let arrays = Transfer { from: Operand::Array, to: Operand::Array, bytes: Some(24 * 16) };
        assert_eq!(block([2, 700, 0, 0], [2, 600]), [arrays]);
    }
}

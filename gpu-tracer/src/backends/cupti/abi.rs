//! The parts of NVIDIA's headers that are used, of CUDA 13.0: `cupti_callbacks.h`, `cupti_driver_cbid.h`, `cupti_result.h`,
//! and the parameters of the driver's functions. `cargo xtask gpu` has the C compiler compare them with those headers
//! (`device/cupti_abi.c`).

use crate::copies::function::{Function, Stream};
use crate::copies::shape::{End, Shape, Size};
use crate::process::driver::Handle;
use std::ffi::{c_char, c_int, c_void};

/// `CUptiResult`: 0 is success.
pub type Status = c_int;
/// `CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED`
pub const ANOTHER_SUBSCRIBER: Status = 39;
/// `CUPTI_CB_DOMAIN_DRIVER_API`
pub const DRIVER_API: u32 = 1;
/// `CUPTI_API_EXIT`
pub const API_EXIT: u32 = 1;

/// `CUpti_CallbackData`
#[repr(C)]
pub struct CallbackData {
    pub site: u32,
    pub function_name: *const c_char,
    pub parameters: *const c_void,
    pub return_value: *const c_int,
    pub symbol_name: *const c_char,
    pub context: Handle,
    pub context_uid: u32,
    pub correlation_data: *mut u64,
    pub correlation_id: u32,
}

/// `CUpti_CallbackFunc`
pub type Callback = unsafe extern "C" fn(*mut c_void, u32, u32, *const CallbackData);

/// `CUPTI_DRIVER_TRACE_CBID_cuStreamBeginCapture…`, with those of per-thread default streams.
pub const BEGIN_CAPTURE: [u32; 6] = [495, 496, 539, 540, 720, 721];

/// A function that is counted, by its numbers: that of the ordinary function, and of the one for per-thread default streams.
pub type Numbered = ([u32; 2], Function);

/// There is no variant for per-thread default streams.
pub const NONE: u32 = 0;

const fn copy(
    numbers: [u32; 2],
    name: &'static str,
    (to, from): (End, End),
    bytes: usize,
    stream: Stream,
) -> Numbered {
    (numbers, Function { name, shape: Shape::Plain { to, from, size: Size::Word(bytes) }, stream })
}

const fn set(numbers: [u32; 2], name: &'static str, size: Size, stream: Stream) -> Numbered {
    (numbers, Function { name, shape: Shape::Plain { to: Address(0), from: End::Nothing, size }, stream })
}

const fn of(numbers: [u32; 2], name: &'static str, shape: Shape, stream: Stream) -> Numbered {
    (numbers, Function { name, shape, stream })
}

use End::{Address, Array};
use Stream::{Blocking, Default, InConfiguration, Word};

const TO_AND_FROM: (End, End) = (Address(0), Address(1));

/// `CUPTI_DRIVER_TRACE_CBID_…` of the functions that are counted. Numbers of parameters are words of eight bytes. Functions of
/// before CUDA 4, whose addresses have 32 bits, are not among them.
pub static FUNCTIONS: [Numbered; 48] = [
    copy([305, 408], "cuMemcpy", TO_AND_FROM, 2, Blocking),
    copy([306, 418], "cuMemcpyAsync", TO_AND_FROM, 2, Word(3)),
    copy([276, 397], "cuMemcpyHtoD", TO_AND_FROM, 2, Blocking),
    copy([277, 421], "cuMemcpyHtoDAsync", TO_AND_FROM, 2, Word(3)),
    copy([278, 398], "cuMemcpyDtoH", TO_AND_FROM, 2, Blocking),
    copy([279, 422], "cuMemcpyDtoHAsync", TO_AND_FROM, 2, Word(3)),
    copy([280, 399], "cuMemcpyDtoD", TO_AND_FROM, 2, Blocking),
    copy([281, 423], "cuMemcpyDtoDAsync", TO_AND_FROM, 2, Word(3)),
    copy([282, 403], "cuMemcpyAtoH", (Address(0), Array), 3, Blocking),
    copy([283, 420], "cuMemcpyAtoHAsync", (Address(0), Array), 3, Word(4)),
    copy([284, 401], "cuMemcpyAtoD", (Address(0), Array), 3, Blocking),
    copy([285, 400], "cuMemcpyDtoA", (Array, Address(2)), 3, Blocking),
    copy([286, 404], "cuMemcpyAtoA", (Array, Array), 4, Blocking),
    copy([292, 402], "cuMemcpyHtoA", (Array, Address(2)), 3, Blocking),
    copy([293, 419], "cuMemcpyHtoAAsync", (Array, Address(2)), 3, Word(4)),
    copy([318, 409], "cuMemcpyPeer", (Address(0), Address(2)), 4, Blocking),
    copy([319, 426], "cuMemcpyPeerAsync", (Address(0), Address(2)), 4, Word(5)),
    of([287, 405], "cuMemcpy2D", Shape::Rectangle, Blocking),
    of([288, 406], "cuMemcpy2DUnaligned", Shape::Rectangle, Blocking),
    of([289, 424], "cuMemcpy2DAsync", Shape::Rectangle, Word(1)),
    of([290, 407], "cuMemcpy3D", Shape::Block, Blocking),
    of([291, 425], "cuMemcpy3DAsync", Shape::Block, Word(1)),
    of([320, 410], "cuMemcpy3DPeer", Shape::Block, Blocking),
    of([321, 427], "cuMemcpy3DPeerAsync", Shape::Block, Word(1)),
    of([776, 777], "cuMemcpyBatchAsync", Shape::Batch, Word(8)),
    of([796, 797], "cuMemcpyBatchAsync", Shape::Batch, Word(7)),
    of([778, 779], "cuMemcpy3DBatchAsync", Shape::BlockBatch, Word(4)),
    of([798, 799], "cuMemcpy3DBatchAsync", Shape::BlockBatch, Word(3)),
    set([249, 411], "cuMemsetD8", Size::Elements(2, 1), Blocking),
    set([250, 412], "cuMemsetD16", Size::Elements(2, 2), Blocking),
    set([251, 413], "cuMemsetD32", Size::Elements(2, 4), Blocking),
    set([216, 428], "cuMemsetD8Async", Size::Elements(2, 1), Word(3)),
    set([218, 429], "cuMemsetD16Async", Size::Elements(2, 2), Word(3)),
    set([220, 430], "cuMemsetD32Async", Size::Elements(2, 4), Word(3)),
    set([252, 414], "cuMemsetD2D8", Size::Rows(3, 1), Blocking),
    set([253, 415], "cuMemsetD2D16", Size::Rows(3, 2), Blocking),
    set([254, 416], "cuMemsetD2D32", Size::Rows(3, 4), Blocking),
    set([222, 431], "cuMemsetD2D8Async", Size::Rows(3, 1), Word(5)),
    set([224, 432], "cuMemsetD2D16Async", Size::Rows(3, 2), Word(5)),
    set([226, 433], "cuMemsetD2D32Async", Size::Rows(3, 4), Word(5)),
    of([307, 442], "cuLaunchKernel", Shape::Launch, Word(5)),
    of([652, 653], "cuLaunchKernelEx", Shape::Launch, InConfiguration),
    of([477, 478], "cuLaunchCooperativeKernel", Shape::Launch, Word(5)),
    of([480, NONE], "cuLaunchCooperativeKernelMultiDevice", Shape::Launch, Default),
    of([514, 515], "cuGraphLaunch", Shape::Launch, Word(1)),
    of([115, NONE], "cuLaunch", Shape::Launch, Default),
    of([116, NONE], "cuLaunchGrid", Shape::Launch, Default),
    of([117, NONE], "cuLaunchGridAsync", Shape::Launch, Word(2)),
];

/// Numbers are below this.
const NUMBERS: usize = 1024;

/// By number, the place in [`FUNCTIONS`] and 1, or 0.
static PLACES: [u8; NUMBERS] = {
    let mut places = [0; NUMBERS];
    let mut at = 0;
    while at < FUNCTIONS.len() {
        let [ordinary, of_thread] = FUNCTIONS[at].0;
        places[ordinary as usize] = at as u8 + 1;
        places[of_thread as usize] = at as u8 + 1;
        at += 1;
    }
    places[NONE as usize] = 0;
    places
};

/// The function with a number, and whether that is of the variant for per-thread default streams.
pub fn function(id: u32) -> Option<(&'static Function, bool)> {
    let place = *PLACES.get(id as usize)?;
    let (numbers, function) = FUNCTIONS.get(usize::from(place.checked_sub(1)?))?;
    Some((function, numbers[1] == id))
}

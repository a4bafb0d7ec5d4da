//! The functions of the driver whose calls CUPTI reports, by their numbers, and where in their
//! parameters a copy is described.
//!
//! Numbers and structures are cudarc's, of CUPTI of CUDA 13.0.

use crate::copies::function::{Function, Stream};
use crate::copies::shape::{BLOCK, End, PEER_BLOCK, RECTANGLE, Shape, Size, word};
use cudarc::cupti::sys::CUpti_driver_api_trace_cbid::{self as Cbid, *};
use cudarc::cupti::sys::*;
use std::ffi::{c_int, c_void};

/// A `CUptiResult`: 0 is success.
pub type Status = c_int;
/// The status where another tool listens.
pub const ANOTHER_SUBSCRIBER: Status = CUptiResult::CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED as Status;
/// The domain of the driver's functions.
pub const DRIVER_API: u32 = CUpti_CallbackDomain::CUPTI_CB_DOMAIN_DRIVER_API as u32;
/// The end of a call.
pub const API_EXIT: u32 = CUpti_ApiCallbackSite::CUPTI_API_EXIT as u32;

/// `CUpti_CallbackFunc`, with numbers for what are enumerations in cudarc.
pub type Callback = unsafe extern "C" fn(*mut c_void, u32, u32, *const CUpti_CallbackData);

/// The functions that begin to capture a stream, with those of per-thread default streams.
pub const BEGIN_CAPTURE: [u32; 6] = [
    CUPTI_DRIVER_TRACE_CBID_cuStreamBeginCapture as u32,
    CUPTI_DRIVER_TRACE_CBID_cuStreamBeginCapture_ptsz as u32,
    CUPTI_DRIVER_TRACE_CBID_cuStreamBeginCapture_v2 as u32,
    CUPTI_DRIVER_TRACE_CBID_cuStreamBeginCapture_v2_ptsz as u32,
    CUPTI_DRIVER_TRACE_CBID_cuStreamBeginCaptureToGraph as u32,
    CUPTI_DRIVER_TRACE_CBID_cuStreamBeginCaptureToGraph_ptsz as u32,
];

/// A function that is counted, by its numbers: that of the ordinary function, and of the one for
/// per-thread default streams.
pub type Numbered = ([u32; 2], Function);

/// There is no variant for per-thread default streams.
pub const NONE: u32 = CUPTI_DRIVER_TRACE_CBID_INVALID as u32;

macro_rules! end {
    ($of:ident, Array) => {
        End::Array
    };
    ($of:ident, $address:ident) => {
        End::Address(word!($of, $address))
    };
}

macro_rules! shape {
    ($of:ident, copy $to:ident <- $from:ident, $bytes:ident) => {
        Shape::Plain {
            to: end!($of, $to),
            from: end!($of, $from),
            size: Size::Elements(word!($of, $bytes), 1),
        }
    };
    ($of:ident, set $to:ident, $count:ident * $width:literal) => {
        Shape::Plain {
            to: end!($of, $to),
            from: End::Nothing,
            size: Size::Elements(word!($of, $count), $width),
        }
    };
    ($of:ident, set $to:ident, $width:ident * $element:literal, $height:ident by $pitch:ident) => {
        Shape::Plain {
            to: end!($of, $to),
            from: End::Nothing,
            size: Size::Rows {
                width: word!($of, $width),
                element: $element,
                height: word!($of, $height),
                pitch: word!($of, $pitch),
            },
        }
    };
    ($of:ident, described $copy:ident, $description:ident) => {
        Shape::Described(word!($of, $copy), &$description)
    };
    ($of:ident, batch $to:ident <- $from:ident, $sizes:ident, $count:ident) => {
        Shape::Batch {
            to: word!($of, $to),
            from: word!($of, $from),
            sizes: word!($of, $sizes),
            count: word!($of, $count),
        }
    };
    ($of:ident, blocks $operations:ident, $count:ident) => {
        Shape::BlockBatch { operations: word!($of, $operations), count: word!($of, $count) }
    };
    ($of:ident, launch) => {
        Shape::Launch
    };
}

macro_rules! stream {
    ($of:ident, Blocking) => {
        Stream::Blocking
    };
    ($of:ident, Default) => {
        Stream::Default
    };
    ($of:ident, config) => {
        Stream::InConfiguration(word!($of, config))
    };
    ($of:ident, $stream:ident) => {
        Stream::Word(word!($of, $stream))
    };
}

/// Of each function its name, its numbers, the structure of its parameters with the names of those
/// that describe the copy, and the parameter that has the stream.
macro_rules! functions {
    ($($name:literal: [$id:ident, $of_thread:ident], $of:ident($($shape:tt)*), $stream:ident;)*) => {
        [$((
            [Cbid::$id as u32, Cbid::$of_thread as u32],
            Function { name: $name, shape: shape!($of, $($shape)*), stream: stream!($of, $stream) },
        )),*]
    };
}

/// The functions that are counted. Functions of before CUDA 4, whose addresses have 32 bits, are
/// not among them.
pub static FUNCTIONS: [Numbered; 48] = functions! {
    "cuMemcpy": [CUPTI_DRIVER_TRACE_CBID_cuMemcpy, CUPTI_DRIVER_TRACE_CBID_cuMemcpy_ptds],
        cuMemcpy_params(copy dst <- src, ByteCount), Blocking;
    "cuMemcpyAsync": [CUPTI_DRIVER_TRACE_CBID_cuMemcpyAsync, CUPTI_DRIVER_TRACE_CBID_cuMemcpyAsync_ptsz],
        cuMemcpyAsync_params(copy dst <- src, ByteCount), hStream;
    "cuMemcpyHtoD": [CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoD_v2, CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoD_v2_ptds],
        cuMemcpyHtoD_v2_params(copy dstDevice <- srcHost, ByteCount), Blocking;
    "cuMemcpyHtoDAsync": [CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoDAsync_v2, CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoDAsync_v2_ptsz],
        cuMemcpyHtoDAsync_v2_params(copy dstDevice <- srcHost, ByteCount), hStream;
    "cuMemcpyDtoH": [CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoH_v2, CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoH_v2_ptds],
        cuMemcpyDtoH_v2_params(copy dstHost <- srcDevice, ByteCount), Blocking;
    "cuMemcpyDtoHAsync": [CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoHAsync_v2, CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoHAsync_v2_ptsz],
        cuMemcpyDtoHAsync_v2_params(copy dstHost <- srcDevice, ByteCount), hStream;
    "cuMemcpyDtoD": [CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoD_v2, CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoD_v2_ptds],
        cuMemcpyDtoD_v2_params(copy dstDevice <- srcDevice, ByteCount), Blocking;
    "cuMemcpyDtoDAsync": [CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoDAsync_v2, CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoDAsync_v2_ptsz],
        cuMemcpyDtoDAsync_v2_params(copy dstDevice <- srcDevice, ByteCount), hStream;
    "cuMemcpyAtoH": [CUPTI_DRIVER_TRACE_CBID_cuMemcpyAtoH_v2, CUPTI_DRIVER_TRACE_CBID_cuMemcpyAtoH_v2_ptds],
        cuMemcpyAtoH_v2_params(copy dstHost <- Array, ByteCount), Blocking;
    "cuMemcpyAtoHAsync": [CUPTI_DRIVER_TRACE_CBID_cuMemcpyAtoHAsync_v2, CUPTI_DRIVER_TRACE_CBID_cuMemcpyAtoHAsync_v2_ptsz],
        cuMemcpyAtoHAsync_v2_params(copy dstHost <- Array, ByteCount), hStream;
    "cuMemcpyAtoD": [CUPTI_DRIVER_TRACE_CBID_cuMemcpyAtoD_v2, CUPTI_DRIVER_TRACE_CBID_cuMemcpyAtoD_v2_ptds],
        cuMemcpyAtoD_v2_params(copy dstDevice <- Array, ByteCount), Blocking;
    "cuMemcpyDtoA": [CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoA_v2, CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoA_v2_ptds],
        cuMemcpyDtoA_v2_params(copy Array <- srcDevice, ByteCount), Blocking;
    "cuMemcpyAtoA": [CUPTI_DRIVER_TRACE_CBID_cuMemcpyAtoA_v2, CUPTI_DRIVER_TRACE_CBID_cuMemcpyAtoA_v2_ptds],
        cuMemcpyAtoA_v2_params(copy Array <- Array, ByteCount), Blocking;
    "cuMemcpyHtoA": [CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoA_v2, CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoA_v2_ptds],
        cuMemcpyHtoA_v2_params(copy Array <- srcHost, ByteCount), Blocking;
    "cuMemcpyHtoAAsync": [CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoAAsync_v2, CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoAAsync_v2_ptsz],
        cuMemcpyHtoAAsync_v2_params(copy Array <- srcHost, ByteCount), hStream;
    "cuMemcpyPeer": [CUPTI_DRIVER_TRACE_CBID_cuMemcpyPeer, CUPTI_DRIVER_TRACE_CBID_cuMemcpyPeer_ptds],
        cuMemcpyPeer_params(copy dstDevice <- srcDevice, ByteCount), Blocking;
    "cuMemcpyPeerAsync": [CUPTI_DRIVER_TRACE_CBID_cuMemcpyPeerAsync, CUPTI_DRIVER_TRACE_CBID_cuMemcpyPeerAsync_ptsz],
        cuMemcpyPeerAsync_params(copy dstDevice <- srcDevice, ByteCount), hStream;
    "cuMemcpy2D": [CUPTI_DRIVER_TRACE_CBID_cuMemcpy2D_v2, CUPTI_DRIVER_TRACE_CBID_cuMemcpy2D_v2_ptds],
        cuMemcpy2D_v2_params(described pCopy, RECTANGLE), Blocking;
    "cuMemcpy2DUnaligned": [CUPTI_DRIVER_TRACE_CBID_cuMemcpy2DUnaligned_v2, CUPTI_DRIVER_TRACE_CBID_cuMemcpy2DUnaligned_v2_ptds],
        cuMemcpy2DUnaligned_v2_params(described pCopy, RECTANGLE), Blocking;
    "cuMemcpy2DAsync": [CUPTI_DRIVER_TRACE_CBID_cuMemcpy2DAsync_v2, CUPTI_DRIVER_TRACE_CBID_cuMemcpy2DAsync_v2_ptsz],
        cuMemcpy2DAsync_v2_params(described pCopy, RECTANGLE), hStream;
    "cuMemcpy3D": [CUPTI_DRIVER_TRACE_CBID_cuMemcpy3D_v2, CUPTI_DRIVER_TRACE_CBID_cuMemcpy3D_v2_ptds],
        cuMemcpy3D_v2_params(described pCopy, BLOCK), Blocking;
    "cuMemcpy3DAsync": [CUPTI_DRIVER_TRACE_CBID_cuMemcpy3DAsync_v2, CUPTI_DRIVER_TRACE_CBID_cuMemcpy3DAsync_v2_ptsz],
        cuMemcpy3DAsync_v2_params(described pCopy, BLOCK), hStream;
    "cuMemcpy3DPeer": [CUPTI_DRIVER_TRACE_CBID_cuMemcpy3DPeer, CUPTI_DRIVER_TRACE_CBID_cuMemcpy3DPeer_ptds],
        cuMemcpy3DPeer_params(described pCopy, PEER_BLOCK), Blocking;
    "cuMemcpy3DPeerAsync": [CUPTI_DRIVER_TRACE_CBID_cuMemcpy3DPeerAsync, CUPTI_DRIVER_TRACE_CBID_cuMemcpy3DPeerAsync_ptsz],
        cuMemcpy3DPeerAsync_params(described pCopy, PEER_BLOCK), hStream;
    "cuMemcpyBatchAsync": [CUPTI_DRIVER_TRACE_CBID_cuMemcpyBatchAsync, CUPTI_DRIVER_TRACE_CBID_cuMemcpyBatchAsync_ptsz],
        cuMemcpyBatchAsync_params(batch dsts <- srcs, sizes, count), hStream;
    "cuMemcpyBatchAsync": [CUPTI_DRIVER_TRACE_CBID_cuMemcpyBatchAsync_v2, CUPTI_DRIVER_TRACE_CBID_cuMemcpyBatchAsync_v2_ptsz],
        cuMemcpyBatchAsync_v2_params(batch dsts <- srcs, sizes, count), hStream;
    "cuMemcpy3DBatchAsync": [CUPTI_DRIVER_TRACE_CBID_cuMemcpy3DBatchAsync, CUPTI_DRIVER_TRACE_CBID_cuMemcpy3DBatchAsync_ptsz],
        cuMemcpy3DBatchAsync_params(blocks opList, numOps), hStream;
    "cuMemcpy3DBatchAsync": [CUPTI_DRIVER_TRACE_CBID_cuMemcpy3DBatchAsync_v2, CUPTI_DRIVER_TRACE_CBID_cuMemcpy3DBatchAsync_v2_ptsz],
        cuMemcpy3DBatchAsync_v2_params(blocks opList, numOps), hStream;
    "cuMemsetD8": [CUPTI_DRIVER_TRACE_CBID_cuMemsetD8_v2, CUPTI_DRIVER_TRACE_CBID_cuMemsetD8_v2_ptds],
        cuMemsetD8_v2_params(set dstDevice, N * 1), Blocking;
    "cuMemsetD16": [CUPTI_DRIVER_TRACE_CBID_cuMemsetD16_v2, CUPTI_DRIVER_TRACE_CBID_cuMemsetD16_v2_ptds],
        cuMemsetD16_v2_params(set dstDevice, N * 2), Blocking;
    "cuMemsetD32": [CUPTI_DRIVER_TRACE_CBID_cuMemsetD32_v2, CUPTI_DRIVER_TRACE_CBID_cuMemsetD32_v2_ptds],
        cuMemsetD32_v2_params(set dstDevice, N * 4), Blocking;
    "cuMemsetD8Async": [CUPTI_DRIVER_TRACE_CBID_cuMemsetD8Async, CUPTI_DRIVER_TRACE_CBID_cuMemsetD8Async_ptsz],
        cuMemsetD8Async_params(set dstDevice, N * 1), hStream;
    "cuMemsetD16Async": [CUPTI_DRIVER_TRACE_CBID_cuMemsetD16Async, CUPTI_DRIVER_TRACE_CBID_cuMemsetD16Async_ptsz],
        cuMemsetD16Async_params(set dstDevice, N * 2), hStream;
    "cuMemsetD32Async": [CUPTI_DRIVER_TRACE_CBID_cuMemsetD32Async, CUPTI_DRIVER_TRACE_CBID_cuMemsetD32Async_ptsz],
        cuMemsetD32Async_params(set dstDevice, N * 4), hStream;
    "cuMemsetD2D8": [CUPTI_DRIVER_TRACE_CBID_cuMemsetD2D8_v2, CUPTI_DRIVER_TRACE_CBID_cuMemsetD2D8_v2_ptds],
        cuMemsetD2D8_v2_params(set dstDevice, Width * 1, Height by dstPitch), Blocking;
    "cuMemsetD2D16": [CUPTI_DRIVER_TRACE_CBID_cuMemsetD2D16_v2, CUPTI_DRIVER_TRACE_CBID_cuMemsetD2D16_v2_ptds],
        cuMemsetD2D16_v2_params(set dstDevice, Width * 2, Height by dstPitch), Blocking;
    "cuMemsetD2D32": [CUPTI_DRIVER_TRACE_CBID_cuMemsetD2D32_v2, CUPTI_DRIVER_TRACE_CBID_cuMemsetD2D32_v2_ptds],
        cuMemsetD2D32_v2_params(set dstDevice, Width * 4, Height by dstPitch), Blocking;
    "cuMemsetD2D8Async": [CUPTI_DRIVER_TRACE_CBID_cuMemsetD2D8Async, CUPTI_DRIVER_TRACE_CBID_cuMemsetD2D8Async_ptsz],
        cuMemsetD2D8Async_params(set dstDevice, Width * 1, Height by dstPitch), hStream;
    "cuMemsetD2D16Async": [CUPTI_DRIVER_TRACE_CBID_cuMemsetD2D16Async, CUPTI_DRIVER_TRACE_CBID_cuMemsetD2D16Async_ptsz],
        cuMemsetD2D16Async_params(set dstDevice, Width * 2, Height by dstPitch), hStream;
    "cuMemsetD2D32Async": [CUPTI_DRIVER_TRACE_CBID_cuMemsetD2D32Async, CUPTI_DRIVER_TRACE_CBID_cuMemsetD2D32Async_ptsz],
        cuMemsetD2D32Async_params(set dstDevice, Width * 4, Height by dstPitch), hStream;
    "cuLaunchKernel": [CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz],
        cuLaunchKernel_params(launch), hStream;
    "cuLaunchKernelEx": [CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz],
        cuLaunchKernelEx_params(launch), config;
    "cuLaunchCooperativeKernel": [CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel, CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel_ptsz],
        cuLaunchCooperativeKernel_params(launch), hStream;
    "cuLaunchCooperativeKernelMultiDevice": [CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernelMultiDevice, CUPTI_DRIVER_TRACE_CBID_INVALID],
        cuLaunchCooperativeKernelMultiDevice_params(launch), Default;
    "cuGraphLaunch": [CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch, CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch_ptsz],
        cuGraphLaunch_params(launch), hStream;
    "cuLaunch": [CUPTI_DRIVER_TRACE_CBID_cuLaunch, CUPTI_DRIVER_TRACE_CBID_INVALID],
        cuLaunch_params(launch), Default;
    "cuLaunchGrid": [CUPTI_DRIVER_TRACE_CBID_cuLaunchGrid, CUPTI_DRIVER_TRACE_CBID_INVALID],
        cuLaunchGrid_params(launch), Default;
    "cuLaunchGridAsync": [CUPTI_DRIVER_TRACE_CBID_cuLaunchGridAsync, CUPTI_DRIVER_TRACE_CBID_INVALID],
        cuLaunchGridAsync_params(launch), hStream;
};

/// Numbers are below this.
const NUMBERS: usize = CUPTI_DRIVER_TRACE_CBID_SIZE as usize;

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

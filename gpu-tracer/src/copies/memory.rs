//! The driver's answers in callbacks: the kind of memory at an address, the current device, and
//! whether a stream is captured.

use super::shape::Operand;
use crate::process::driver::{self, Handle, PER_THREAD, function, handle};
use cudarc::driver::sys::CUarray_format::{self, *};
use cudarc::driver::sys::{CUDA_ARRAY3D_DESCRIPTOR, CUpointer_attribute, CUstreamCaptureStatus};
use mpisee_profile::rows::Memory;
use std::ffi::{c_int, c_uint, c_void};
use std::mem::{MaybeUninit, transmute};
use std::sync::OnceLock;

const ATTRIBUTES: [c_int; 3] = [
    CUpointer_attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE as c_int,
    CUpointer_attribute::CU_POINTER_ATTRIBUTE_IS_MANAGED as c_int,
    CUpointer_attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL as c_int,
];
const NOT_CAPTURED: c_int = CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE as c_int;
/// Devices that have names.
const MOST_DEVICES: usize = 256;

/// A device by its number, whose name is cached; or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Device(c_int);

static NAMES: [OnceLock<String>; MOST_DEVICES] = [const { OnceLock::new() }; MOST_DEVICES];

impl Device {
    /// Where no device is known.
    pub const NONE: Device = Device(-1);

    /// Queries the driver for the name, the first time. No lock may be held meanwhile: a thread
    /// that waits for it may hold a lock of the driver.
    fn from_number(number: c_int) -> Device {
        let device = Device(number);
        if let Some(name) = device.place()
            && name.get().is_none()
        {
            // `get_or_init` would hold a lock while the driver answers.
            let _ = name.set(driver::device_name(number));
        }
        device
    }

    /// The name; empty where no device is known.
    pub fn name(self) -> &'static str {
        self.place().and_then(OnceLock::get).map_or("", String::as_str)
    }

    fn place(self) -> Option<&'static OnceLock<String>> {
        NAMES.get(usize::try_from(self.0).ok()?)
    }
}

type GetAttributes = unsafe extern "C" fn(c_uint, *const c_int, *const *mut c_void, u64) -> c_int;
type GetDevice = unsafe extern "C" fn(*mut c_int) -> c_int;
type GetDescriptor = unsafe extern "C" fn(*mut CUDA_ARRAY3D_DESCRIPTOR, Handle) -> c_int;
type IsCapturing = unsafe extern "C" fn(*mut c_void, *mut c_int) -> c_int;

/// Functions of the driver, as far as it has them.
struct Functions {
    attributes: Option<GetAttributes>,
    device: Option<GetDevice>,
    descriptor: Option<GetDescriptor>,
    is_capturing: Option<IsCapturing>,
}

/// Looks the functions up, as the tracer starts.
pub fn find_functions() {
    functions();
}

fn functions() -> &'static Functions {
    static FUNCTIONS: OnceLock<Functions> = OnceLock::new();
    FUNCTIONS.get_or_init(Functions::find)
}

impl Functions {
    fn find() -> Functions {
        // SAFETY: the functions have these types in cuda.h.
        unsafe {
            Functions {
                attributes: function(c"cuPointerGetAttributes")
                    .map(|it| transmute::<*mut c_void, GetAttributes>(it)),
                device: function(c"cuCtxGetDevice").map(|it| transmute::<*mut c_void, GetDevice>(it)),
                descriptor: function(c"cuArray3DGetDescriptor_v2")
                    .map(|it| transmute::<*mut c_void, GetDescriptor>(it)),
                is_capturing: function(c"cuStreamIsCapturing")
                    .map(|it| transmute::<*mut c_void, IsCapturing>(it)),
            }
        }
    }
}

/// The kind of memory at an end of a copy, and its device.
pub type LocatedMemory = (Memory, Device);

/// The end of a copy at a place; none where there is none. Arrays are on the current device.
pub fn find(place: Operand) -> Option<LocatedMemory> {
    match place {
        Operand::Nothing => None,
        Operand::Array => Some((Memory::Device, current_device())),
        Operand::At(address, _) => Some(at(address)),
    }
}

fn at(address: u64) -> LocatedMemory {
    let Some(get_attributes) = functions().attributes else { return (Memory::Host, Device::NONE) };
    let (mut kind, mut is_managed, mut device): (c_uint, c_uint, c_int) = (0, 0, Device::NONE.0);
    let results = [(&raw mut kind).cast::<c_void>(), (&raw mut is_managed).cast(), (&raw mut device).cast()];
    // SAFETY: a place of four bytes for each attribute; any address may be queried.
    let status =
        unsafe { get_attributes(ATTRIBUTES.len() as c_uint, ATTRIBUTES.as_ptr(), results.as_ptr(), address) };
    let memory = if status == 0 { Memory::of_cuda(kind, is_managed & 1 != 0) } else { Memory::Host };
    (memory, if memory == Memory::Device { Device::from_number(device) } else { Device::NONE })
}

/// The device of the calling thread's context.
pub fn current_device() -> Device {
    let mut device = Device::NONE.0;
    // SAFETY: the result is written, if there is one.
    let status = functions().device.map(|get_device| unsafe { get_device(&raw mut device) });
    if status == Some(0) { Device::from_number(device) } else { Device::NONE }
}

/// Returns whether work that is put into the stream becomes part of a graph. `is_of_thread`: null
/// is the thread's default stream.
pub fn is_captured(stream: u64, is_of_thread: bool) -> bool {
    let stream = match stream {
        // The stream of the context is never captured.
        0 if !is_of_thread => return false,
        0 => PER_THREAD,
        stream => stream,
    };
    let Some(is_capturing) = functions().is_capturing else { return false };
    let mut captured = NOT_CAPTURED;
    // SAFETY: the stream is that of a call that succeeded; the result is written.
    unsafe { is_capturing(handle(stream), &raw mut captured) == 0 && captured != NOT_CAPTURED }
}

/// The size of an array's elements; none where the driver does not say it, or elements have no size
/// of their own, as of compressed formats.
pub fn bytes_of_element(array: u64) -> Option<u64> {
    let get_descriptor = functions().descriptor?;
    let mut descriptor = MaybeUninit::<CUDA_ARRAY3D_DESCRIPTOR>::zeroed();
    let place = descriptor.as_mut_ptr();
    // SAFETY: the array is one of a copy that succeeded; there is room for its description.
    if unsafe { get_descriptor(place, handle(array)) } != 0 {
        return None;
    }
    // SAFETY: all of the description is initialised. The format is read as a number, as cudarc's
    // enumeration lacks those of later versions, and no reference is made of the description.
    let (format, channels) = unsafe {
        ((&raw const (*place).Format).cast::<u32>().read(), (&raw const (*place).NumChannels).read())
    };
    bytes_of_format(format, channels)
}

/// Bytes of each channel of an element.
const OF_CHANNEL: [(CUarray_format, u64); 8] = [
    (CU_AD_FORMAT_UNSIGNED_INT8, 1),
    (CU_AD_FORMAT_UNSIGNED_INT16, 2),
    (CU_AD_FORMAT_UNSIGNED_INT32, 4),
    (CU_AD_FORMAT_SIGNED_INT8, 1),
    (CU_AD_FORMAT_SIGNED_INT16, 2),
    (CU_AD_FORMAT_SIGNED_INT32, 4),
    (CU_AD_FORMAT_HALF, 2),
    (CU_AD_FORMAT_FLOAT, 4),
];

/// Bytes of an element with all channels, which the format has.
const OF_ELEMENT: [(CUarray_format, u64); 12] = [
    (CU_AD_FORMAT_UNORM_INT8X1, 1),
    (CU_AD_FORMAT_UNORM_INT8X2, 2),
    (CU_AD_FORMAT_UNORM_INT8X4, 4),
    (CU_AD_FORMAT_UNORM_INT16X1, 2),
    (CU_AD_FORMAT_UNORM_INT16X2, 4),
    (CU_AD_FORMAT_UNORM_INT16X4, 8),
    (CU_AD_FORMAT_SNORM_INT8X1, 1),
    (CU_AD_FORMAT_SNORM_INT8X2, 2),
    (CU_AD_FORMAT_SNORM_INT8X4, 4),
    (CU_AD_FORMAT_SNORM_INT16X1, 2),
    (CU_AD_FORMAT_SNORM_INT16X2, 4),
    (CU_AD_FORMAT_SNORM_INT16X4, 8),
];

fn bytes_of_format(format: u32, channels: u32) -> Option<u64> {
    let bytes = |of: &[(CUarray_format, u64)]| {
        of.iter().find(|&&(it, _)| it as u32 == format).map(|&(_, bytes)| bytes)
    };
    bytes(&OF_ELEMENT).or_else(|| Some(bytes(&OF_CHANNEL)? * u64::from(channels)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_have_the_bytes_of_their_channels() {
        let bytes = |format: CUarray_format, channels| bytes_of_format(format as u32, channels);
        assert_eq!(bytes(CU_AD_FORMAT_FLOAT, 4), Some(16));
        assert_eq!(bytes(CU_AD_FORMAT_HALF, 1), Some(2));
        assert_eq!(bytes(CU_AD_FORMAT_UNORM_INT16X4, 4), Some(8));
        assert_eq!(bytes(CU_AD_FORMAT_BC1_UNORM, 4), None);
        assert_eq!(bytes_of_format(0, 4), None);
    }
}

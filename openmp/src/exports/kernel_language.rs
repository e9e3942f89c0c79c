//! Kernels of CUDA and HIP sources that clang compiles for this library (`-foffload-via-llvm`).

use super::regions::{RAN, RUN_ON_HOST};
use crate::construct;
use crate::device::OmpDevice;
use crate::mapping::Failure;
use crate::stream::Stream;
use longshore::{Grid, RawArguments};
use smallvec::SmallVec;
use std::cell::Cell;
use std::ffi::c_void;
use std::ptr::{null, null_mut};

/// Numbers in x, y and z; 0 counts as 1. CUDA: `dim3`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dimensions {
    /// The number in x.
    pub x: u32,
    /// The number in y.
    pub y: u32,
    /// The number in z.
    pub z: u32,
}

impl Dimensions {
    fn counts(self) -> [u32; 3] {
        [self.x, self.y, self.z].map(|count| count.max(1))
    }
}

/// The arguments of a kernel, as in a structure with a member for each of them.
#[repr(C)]
pub struct PackedArguments {
    bytes: usize,
    data: *const u8,
    /// Address of each argument; null from clang 19 to 22.
    pointers: *const *const c_void,
}

/// The launch for which a thread evaluates the arguments.
#[derive(Clone, Copy)]
struct Configuration {
    groups: Dimensions,
    items: Dimensions,
    shared_bytes: usize,
    stream: *mut c_void,
}

thread_local! {
    static CONFIGURATION: Cell<Configuration> = const {
        let none = Dimensions { x: 0, y: 0, z: 0 };
        let (shared_bytes, stream) = (0, null_mut());
        Cell::new(Configuration { groups: none, items: none, shared_bytes, stream })
    };
}

/// Notes the configuration of the thread's next launch. Returns 0. LLVM:
/// `__llvmPushCallConfiguration`.
#[unsafe(no_mangle)]
pub extern "C" fn __llvmPushCallConfiguration(
    groups: Dimensions,
    items: Dimensions,
    shared_bytes: usize,
    stream: *mut c_void,
) -> u32 {
    CONFIGURATION.set(Configuration { groups, items, shared_bytes, stream });
    0
}

/// Writes the configuration of the thread's next launch. Returns 0. LLVM:
/// `__llvmPopCallConfiguration`.
///
/// # Safety
/// Each pointer leads to a variable of its type.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __llvmPopCallConfiguration(
    groups: *mut Dimensions,
    items: *mut Dimensions,
    shared_bytes: *mut usize,
    stream: *mut *mut c_void,
) -> u32 {
    let configuration = CONFIGURATION.get();
    // SAFETY: promised by the caller.
    unsafe {
        *groups = configuration.groups;
        *items = configuration.items;
        *shared_bytes = configuration.shared_bytes;
        *stream = configuration.stream;
    }
    0
}

/// Launches a kernel on device 0 and waits for it; `stream` is not used. Returns 0. A failure ends
/// the program, as that of a target region does. LLVM: `llvmLaunchKernel`.
///
/// # Safety
/// `kernel` is the host's function for the kernel, which takes these arguments.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn llvmLaunchKernel(
    kernel: *const c_void,
    groups: Dimensions,
    items: Dimensions,
    arguments: *const PackedArguments,
    shared_bytes: usize,
    _stream: *mut c_void,
) -> u32 {
    let grid = Grid::new(groups.counts(), items.counts()).with_shared_bytes(shared_bytes as u64);
    // SAFETY: promised by the caller; a null location is allowed.
    unsafe {
        let Some(device) = construct::device(0, null(), |_| ()) else { return RUN_ON_HOST as u32 };
        let launched = launch(device, kernel as usize, grid, arguments.as_ref());
        if let Err(failure) = launched {
            construct::fail(&failure, null());
            return RUN_ON_HOST as u32;
        }
    }
    RAN as u32
}

unsafe fn launch(
    device: &'static OmpDevice,
    address: usize,
    grid: Grid,
    packed: Option<&PackedArguments>,
) -> Result<(), Failure> {
    let Some(kernel) = device.kernel(address) else {
        return Err(Failure::Other(format!(
            "device {} has no image with the kernel at {address:#x}",
            device.number
        )));
    };
    let kernel = kernel.get()?;
    let attributes = kernel.attributes();
    let Some(declared) = &attributes.argument_sizes else {
        return Err(Failure::Other(format!(
            "the image does not describe the arguments of kernel '{}', so structures of arguments \
             cannot be taken apart",
            kernel.name()
        )));
    };
    let sizes: SmallVec<[usize; 12]> = declared.iter().map(|bytes| *bytes as usize).collect();
    let pointers: SmallVec<[*const c_void; 12]> = match packed {
        Some(packed) if !packed.pointers.is_null() => {
            // SAFETY: the callers' promise: a pointer for each argument.
            (0..sizes.len()).map(|index| unsafe { *packed.pointers.add(index) }).collect()
        }
        Some(packed) => {
            let Some(offsets) = offsets(&sizes, packed.bytes) else {
                return Err(Failure::Other(format!(
                    "kernel '{}' takes arguments of {sizes:?} bytes; expected a structure of {} \
                     bytes",
                    kernel.name(),
                    packed.bytes
                )));
            };
            offsets.iter().map(|offset| packed.data.wrapping_add(*offset).cast()).collect()
        }
        None => SmallVec::new(),
    };
    let mut stream = Stream::new(device);
    // SAFETY: the callers' promise; the offsets are within the structure.
    unsafe {
        let arguments = RawArguments::new(&pointers, &sizes)?;
        Ok(stream.queue()?.launch_and_wait(kernel, grid, arguments)?)
    }
}

/// Returns the offsets of arguments in a structure of `bytes` bytes; `None` if they do not fill it.
/// An image states no alignments: each argument has that of its size, up to 8 or 16 bytes.
fn offsets(sizes: &[usize], bytes: usize) -> Option<SmallVec<[usize; 12]>> {
    [8, 16].into_iter().find_map(|most| {
        let (mut end, mut alignment) = (0_usize, 1);
        let place = |size: &usize| {
            let own = (1 << size.trailing_zeros().min(4)).min(most);
            alignment = alignment.max(own);
            let offset = end.next_multiple_of(own);
            end = offset + size;
            offset
        };
        let offsets = sizes.iter().map(place).collect();
        (end == bytes || end.next_multiple_of(alignment) == bytes).then_some(offsets)
    })
}

#[cfg(test)]
mod tests {
    use super::{__llvmPopCallConfiguration, __llvmPushCallConfiguration, Dimensions, offsets};
    use std::ptr::null_mut;

    #[test]
    fn arguments_lie_at_their_alignment() {
        let found = offsets(&[8, 4, 12, 8, 1, 4], 40).unwrap();
        assert_eq!(found[..], [0, 8, 12, 24, 32, 36]);
    }

    #[test]
    fn the_size_of_the_structure_decides_about_vectors_of_16_bytes() {
        assert_eq!(offsets(&[8, 16], 24).unwrap()[..], [0, 8]);
        assert_eq!(offsets(&[8, 16], 32).unwrap()[..], [0, 16]);
        assert_eq!(offsets(&[8, 16], 40), None);
    }

    #[test]
    fn a_thread_gets_back_the_configuration_that_it_pushed() {
        let (groups, items) = (Dimensions { x: 3, y: 0, z: 1 }, Dimensions { x: 64, y: 2, z: 1 });
        __llvmPushCallConfiguration(groups, items, 128, null_mut());
        let mut found = (Dimensions::default(), Dimensions::default(), 0, null_mut());
        // SAFETY: all pointers lead to variables.
        unsafe {
            let (groups, items) = (&mut found.0, &mut found.1);
            __llvmPopCallConfiguration(groups, items, &mut found.2, &mut found.3);
        }
        assert_eq!(found, (groups, items, 128, null_mut()));
        assert_eq!(groups.counts(), [3, 1, 1]);
    }
}

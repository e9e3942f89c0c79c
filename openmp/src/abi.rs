//! Structures and flags of the interface between clang's code, libomptarget and libomp.
//!
//! All layouts are for 64-bit machines. Pointers come from compiled programs and are only read.

use std::ffi::{CStr, c_char, c_void};
use std::ops::BitOr;

/// The device number that stands for the default device.
pub const DEFAULT_DEVICE: i64 = -1;

/// A source location. LLVM: `ident_t`.
#[repr(C)]
pub struct Ident {
    reserved_1: i32,
    flags: i32,
    reserved_2: i32,
    reserved_3: i32,
    /// Text of the form `;file;function;line;column;;`.
    pub source: *const c_char,
}

/// An embedded device image. LLVM: `__tgt_device_image`.
#[repr(C)]
pub struct DeviceImage {
    /// First byte of the image, or of an OffloadBinary with images.
    pub start: *const u8,
    /// End of the image; padding may follow the image's last byte.
    pub end: *const u8,
    /// The host entries again.
    pub entries_begin: *const c_void,
    /// End of the host entries.
    pub entries_end: *const c_void,
}

/// A descriptor of the images and entries of an executable or shared object. LLVM:
/// `__tgt_bin_desc`.
#[repr(C)]
pub struct BinaryDescriptor {
    /// Number of images.
    pub image_count: i32,
    /// The images.
    pub images: *const DeviceImage,
    /// First host entry, in one of the two forms of [`crate::entries`].
    pub entries_begin: *const c_void,
    /// End of the host entries.
    pub entries_end: *const c_void,
}

/// The arguments of a target region, of a version given by the first field. LLVM: `KernelArgsTy`.
///
/// The fields after `trip_count` exist from version 2 on. The structure is never written.
#[repr(C)]
pub struct KernelArguments {
    /// Version of the structure, 1 to 5.
    pub version: u32,
    /// Number of mapped arguments.
    pub count: u32,
    /// Base address of each argument.
    pub bases: *mut *mut c_void,
    /// First mapped address of each argument.
    pub begins: *mut *mut c_void,
    /// Size of each argument, in bytes.
    pub sizes: *mut i64,
    /// Map type of each argument.
    pub types: *mut i64,
    /// Name of each argument; may be null.
    pub names: *mut *mut c_void,
    /// Mapper function of each argument; may be null.
    pub mappers: *mut *mut c_void,
    /// Number of iterations of the region's loop; 0 if unknown.
    pub trip_count: u64,
    flags: u64,
    team_counts: [u32; 3],
    thread_limits: [u32; 3],
    dynamic_group_bytes: u32,
}

/// The fields of [`KernelArguments`] beyond version 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaunchRequest {
    /// Flags: bit 0 `nowait`, bit 1 CUDA, bits 2 and 3 the fallback of dynamic group memory, bit 4
    /// cooperative.
    pub flags: u64,
    /// Number of teams in x, y and z; 0 if unspecified.
    pub teams: [u32; 3],
    /// Number of threads in x, y and z; 0 if unspecified.
    pub threads: [u32; 3],
    /// Size in bytes of dynamic group memory.
    pub dynamic_group_bytes: u32,
}

impl KernelArguments {
    /// Reads the fields beyond version 1; all zero in version 1.
    ///
    /// # Safety
    /// `this` points at a structure of the size of its version.
    pub unsafe fn request(this: *const KernelArguments) -> LaunchRequest {
        // SAFETY: promised by the caller; each field is read only if the version has it.
        unsafe {
            if (*this).version < 2 {
                return LaunchRequest::default();
            }
            LaunchRequest {
                flags: (*this).flags,
                teams: (*this).team_counts,
                threads: (*this).thread_limits,
                dynamic_group_bytes: (*this).dynamic_group_bytes,
            }
        }
    }

    /// Reads the mapped arguments. From version 4 on, the last argument is a slot for the runtime's
    /// own pointer, which the result leaves out.
    ///
    /// # Safety
    /// `this` points at a structure of the size of its version, with arrays of its count.
    pub unsafe fn arguments(this: *const KernelArguments) -> MapArguments {
        // SAFETY: promised by the caller; every version has these fields.
        unsafe {
            let slots = usize::from((*this).version >= 4);
            MapArguments {
                count: ((*this).count as usize).saturating_sub(slots),
                bases: (*this).bases,
                begins: (*this).begins,
                sizes: (*this).sizes,
                types: (*this).types,
                names: (*this).names,
                mappers: (*this).mappers,
            }
        }
    }
}

/// Flag of [`LaunchRequest::flags`]: the region runs in a task, and the caller does not wait.
pub const FLAG_NOWAIT: u64 = 1;
/// Flag of [`LaunchRequest::flags`]: all teams run at the same time.
pub const FLAG_COOPERATIVE: u64 = 1 << 4;

/// Arrays with the mapped arguments of a construct.
#[derive(Clone, Copy, Debug)]
pub struct MapArguments {
    /// Number of arguments.
    pub count: usize,
    /// Base address of each argument.
    pub bases: *mut *mut c_void,
    /// First mapped address of each argument.
    pub begins: *mut *mut c_void,
    /// Size of each argument, in bytes.
    pub sizes: *const i64,
    /// Map type of each argument.
    pub types: *const i64,
    /// Name of each argument; may be null.
    pub names: *const *mut c_void,
    /// Mapper function of each argument; may be null.
    pub mappers: *const *mut c_void,
}

/// A function that lists the components of a value, through `__tgt_push_mapper_component`.
pub type Mapper =
    unsafe extern "C" fn(*mut c_void, *mut c_void, *mut c_void, i64, i64, *mut c_void);

/// A function that answers calls of device code; it gets LLVM's `rpc::Server::Port` and the number
/// of lanes.
pub type RpcCallback = unsafe extern "C" fn(*mut c_void, u32) -> u32;

/// One mapped argument.
#[derive(Clone, Copy, Debug)]
pub struct MapArgument {
    /// Base address; the value of a literal.
    pub base: u64,
    /// First mapped address.
    pub begin: u64,
    /// Size in bytes; the number of dimensions for a non-contiguous update.
    pub size: i64,
    /// Map type.
    pub kind: MapType,
    /// Name in the form `;name;file;line;column;;`; may be null.
    pub name: *const c_char,
    /// Mapper function.
    pub mapper: Option<Mapper>,
}

impl MapArguments {
    /// Returns an argument.
    ///
    /// # Safety
    /// The arrays are readable, and `index` is less than the count.
    pub unsafe fn get(&self, index: usize) -> MapArgument {
        // SAFETY: promised by the caller. A mapper that is not null is a function of that type.
        unsafe {
            let optional = |array: *const *mut c_void| match array.is_null() {
                true => std::ptr::null_mut(),
                false => *array.add(index),
            };
            MapArgument {
                base: *self.bases.add(index) as u64,
                begin: *self.begins.add(index) as u64,
                size: *self.sizes.add(index),
                kind: MapType(*self.types.add(index)),
                name: optional(self.names).cast(),
                mapper: std::mem::transmute::<*mut c_void, Option<Mapper>>(optional(self.mappers)),
            }
        }
    }

    /// Returns the map type of an argument; an empty type beyond the last one.
    ///
    /// # Safety
    /// The arrays are readable.
    pub unsafe fn kind(&self, index: usize) -> MapType {
        // SAFETY: promised by the caller.
        if index < self.count { MapType(unsafe { *self.types.add(index) }) } else { MapType(0) }
    }
}

/// The map type of an argument: flags, and the index of a parent. LLVM: `tgt_map_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapType(pub i64);

impl MapType {
    /// Copied to the device.
    pub const TO: MapType = MapType(0x001);
    /// Copied back to the host.
    pub const FROM: MapType = MapType(0x002);
    /// Copied even if present before.
    pub const ALWAYS: MapType = MapType(0x004);
    /// Removed whatever the count.
    pub const DELETE: MapType = MapType(0x008);
    /// A pointer and its pointee.
    pub const PTR_AND_OBJ: MapType = MapType(0x010);
    /// An argument of the kernel.
    pub const TARGET_PARAM: MapType = MapType(0x020);
    /// The device's address is returned in the base.
    pub const RETURN_PARAM: MapType = MapType(0x040);
    /// A private copy for the region.
    pub const PRIVATE: MapType = MapType(0x080);
    /// A value instead of an address.
    pub const LITERAL: MapType = MapType(0x100);
    /// Mapped without a clause.
    pub const IMPLICIT: MapType = MapType(0x200);
    /// Near the device even with unified shared memory.
    pub const CLOSE: MapType = MapType(0x400);
    /// An error if not present before.
    pub const PRESENT: MapType = MapType(0x1000);
    /// Counted by the second counter.
    pub const HOLD: MapType = MapType(0x2000);
    /// A pointer to attach to its pointee.
    pub const ATTACH: MapType = MapType(0x4000);
    /// A pointer that becomes null if its pointee is absent.
    pub const FALLBACK_NULL: MapType = MapType(0x8000);
    /// A section with gaps.
    pub const NON_CONTIGUOUS: MapType = MapType(0x1000_0000_0000);
    /// All bits of the parent's index.
    pub const MEMBER_OF: MapType = MapType(0xffff_0000_0000_0000_u64 as i64);

    /// Returns whether any of these flags is set.
    #[inline]
    pub fn has(self, flags: MapType) -> bool {
        self.0 & flags.0 != 0
    }

    /// Returns whether all of these flags are set.
    #[inline]
    pub fn has_all(self, flags: MapType) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// Returns the map type without these flags.
    #[inline]
    pub fn without(self, flags: MapType) -> MapType {
        MapType(self.0 & !flags.0)
    }

    /// Returns the index of the parent of a member.
    #[inline]
    pub fn parent(self) -> Option<usize> {
        (((self.0 as u64) >> 48) as usize).checked_sub(1)
    }

    /// Returns whether the argument is a part of its parent's range, rather than a pointee.
    #[inline]
    pub fn is_part(self) -> bool {
        self.has(MapType::MEMBER_OF) && !self.has(MapType::PTR_AND_OBJ)
    }

    /// Returns whether the argument is a variable that a lambda captures by reference.
    #[inline]
    pub fn is_lambda_capture(self) -> bool {
        self.has_all(MapType::PTR_AND_OBJ | MapType::LITERAL | MapType::IMPLICIT)
    }
}

impl BitOr for MapType {
    type Output = MapType;

    fn bitor(self, other: MapType) -> MapType {
        MapType(self.0 | other.0)
    }
}

/// One dimension of a section with gaps. LLVM: `__tgt_target_non_contig`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Dimension {
    /// Index of the first element.
    pub offset: u64,
    /// Number of elements.
    pub count: u64,
    /// Distance of elements, in bytes.
    pub stride: u64,
}

/// Flags of `requires` directives.
pub mod requires {
    /// No requirement.
    pub const NONE: i64 = 1;
    /// `reverse_offload`.
    pub const REVERSE_OFFLOAD: i64 = 2;
    /// `unified_address`.
    pub const UNIFIED_ADDRESS: i64 = 4;
    /// `unified_shared_memory`.
    pub const UNIFIED_SHARED_MEMORY: i64 = 8;
    /// `dynamic_allocators`.
    pub const DYNAMIC_ALLOCATORS: i64 = 16;
}

/// A source location that was taken apart. Unknown parts are "unknown" and 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceLocation {
    /// Name of the variable or function.
    pub name: String,
    /// File name without folders.
    pub file: String,
    /// Line, from 1.
    pub line: i32,
    /// Column, from 1.
    pub column: i32,
    /// Whether the program has the location.
    pub is_known: bool,
}

impl SourceLocation {
    /// Reads the location of a construct: `;file;function;line;column;;`.
    ///
    /// # Safety
    /// `ident` is null or points at a location whose text is null or ends with a zero byte.
    pub unsafe fn for_construct(ident: *const Ident) -> SourceLocation {
        // SAFETY: promised by the caller.
        let text = unsafe { ident.as_ref().map_or(std::ptr::null(), |ident| ident.source) };
        // SAFETY: as above.
        match unsafe { SourceLocation::parts(text) } {
            Some([file, name, line, column]) => SourceLocation::new(name, file, line, column),
            None => SourceLocation::unknown(),
        }
    }

    /// Reads the location of a variable: `;name;file;line;column;;`. A text without semicolons is a
    /// name alone.
    ///
    /// # Safety
    /// `name` is null or ends with a zero byte.
    pub unsafe fn for_variable(name: *const c_char) -> SourceLocation {
        // SAFETY: promised by the caller.
        match unsafe { SourceLocation::parts(name) } {
            Some([name, file, line, column]) => SourceLocation::new(name, file, line, column),
            None if name.is_null() => SourceLocation::unknown(),
            None => {
                // SAFETY: promised by the caller.
                let name = unsafe { CStr::from_ptr(name) }.to_bytes();
                SourceLocation::new(name, b"unknown", b"0", b"0")
            }
        }
    }

    /// Returns the location that stands for this library itself.
    pub fn for_library() -> SourceLocation {
        SourceLocation::new(b"libomptarget", b"libomptarget", b"0", b"0")
    }

    unsafe fn parts<'a>(text: *const c_char) -> Option<[&'a [u8]; 4]> {
        if text.is_null() {
            return None;
        }
        // SAFETY: the callers' promise.
        let text = unsafe { CStr::from_ptr(text) }.to_bytes();
        let mut parts = text.split(|byte| *byte == b';').skip(1);
        Some([parts.next()?, parts.next()?, parts.next()?, parts.next()?])
    }

    fn new(name: &[u8], file: &[u8], line: &[u8], column: &[u8]) -> SourceLocation {
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        let number = |bytes| text(bytes).parse().unwrap_or(0);
        let file = file.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        let file = text(file);
        SourceLocation {
            name: text(name),
            is_known: file != "unknown",
            file,
            line: number(line),
            column: number(column),
        }
    }

    fn unknown() -> SourceLocation {
        SourceLocation::new(b"unknown", b"unknown", b"0", b"0")
    }
}

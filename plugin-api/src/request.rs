//! Requests to a device or a queue, as safe values.
//!
//! Addresses are plain numbers until a caller vouches for them. Only `unsafe` constructors make the
//! types with such a promise ([`Span`], [`Arguments`], [`HostFunction`]). The glue calls the
//! constructors on behalf of the program; a plugin only reads the values.

use crate::abi;
use crate::argument_type::ArgumentType;
#[cfg(feature = "serde")]
use crate::bounds::{limits, received};
use crate::error::{Error, ErrorCode, Result, unsupported};
use std::ffi::c_void;
use std::fmt::Display;
use std::marker::PhantomData;

/// The place of an allocation. The values equal LLVM's `ol_alloc_type_t`.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum MemoryKind {
    /// Page-locked host memory that the device can reach.
    Host = 0,
    /// Device memory.
    Device = 1,
    /// Memory that migrates between host and device.
    Managed = 2,
}

impl MemoryKind {
    /// Creates the `Unsupported` error for memory of a kind that `subject`, a device, lacks.
    pub fn unsupported_by(self, subject: impl Display) -> Error {
        let message = format!("{subject} has no {self:?} memory (kind {})", self as u32);
        Error::new(ErrorCode::Unsupported, message)
    }
}

/// The place to which a prefetch moves memory.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum PrefetchTarget {
    /// The queue's device. LLVM: `OL_MEM_MIGRATION_FLAG_HOST_TO_DEVICE`.
    Device = 1,
    /// The host. LLVM: `OL_MEM_MIGRATION_FLAG_DEVICE_TO_HOST`.
    Host = 2,
}

/// The kind of a symbol. The values equal LLVM's `ol_symbol_kind_t`.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum SymbolKind {
    /// A kernel.
    Kernel = 0,
    /// A global variable.
    Global = 1,
}

/// Creates the error for a lookup of the global `name` in a module without globals.
pub(crate) fn no_global(name: &str, symbols: &[(String, SymbolKind)]) -> Error {
    if symbols.iter().any(|(symbol, _)| symbol == name) {
        let message = format!("'{name}' is a kernel of the image, expected a global");
        return Error::new(ErrorCode::SymbolKind, message);
    }
    Error::new(ErrorCode::NotFound, format!("the image has no global '{name}'"))
}

/// The kind of a profile section, named as in LLVM's `InstrProfData.inc`.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum ProfileSectionKind {
    /// `__llvm_prf_cnts`: the counters.
    Counters = 0,
    /// `__llvm_prf_data`: a record for each function.
    Data = 1,
    /// `__llvm_prf_names`: the names, compressed or not.
    Names = 2,
    /// `__llvm_prf_bits`: bitmaps of condition coverage.
    Bitmap = 3,
    /// `__llvm_profile_raw_version`: the raw version with its variant bits, 8 bytes.
    RawVersion = 4,
}

/// The time at which the parts of an image are linked.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Loading {
    /// All parts during the load.
    AtOnce = 0,
    /// Deferrable parts at the first launch of the kernels.
    Lazily = 1,
}

macro_rules! from_raw {
    ($($name:ident { $($variant:ident),* })*) => { $(
        impl $name {
            /// Returns the enumerator with this value; `None` for any other value.
            pub fn from_raw(value: u32) -> Option<$name> {
                [$($name::$variant),*].into_iter().find(|known| *known as u32 == value)
            }
        }
    )* };
}

from_raw! {
    MemoryKind { Host, Device, Managed }
    Loading { AtOnce, Lazily }
    PrefetchTarget { Device, Host }
    SymbolKind { Kernel, Global }
    ProfileSectionKind { Counters, Data, Names, Bitmap, RawVersion }
}

/// A range of memory. The creator of this value vouches that the range stays valid until the
/// operation that receives it is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    address: u64,
    bytes: u64,
}

impl Span {
    /// Creates a range that the caller vouches for.
    ///
    /// # Safety
    /// The range must be valid, for reads or writes as the operation implies, in the address
    /// space that the operation names, until the operation is complete.
    pub unsafe fn new(address: u64, bytes: u64) -> Span {
        Span { address, bytes }
    }

    /// Returns the first address.
    pub fn address(self) -> u64 {
        self.address
    }

    /// Returns the length in bytes.
    pub fn bytes(self) -> u64 {
        self.bytes
    }
}

/// One end of a copy.
pub enum Place<'a, D> {
    /// Memory of the host process.
    Host,
    /// Memory of a device of the queue's platform.
    Device(&'a D),
}

impl<'a, D> Place<'a, D> {
    /// Returns the same place with its device converted by `device`.
    ///
    /// # Errors
    /// Errors of `device`.
    pub(crate) fn with_device<E>(
        &self,
        device: impl Fn(&'a D) -> Result<&'a E>,
    ) -> Result<Place<'a, E>> {
        match self {
            Place::Host => Ok(Place::Host),
            Place::Device(one) => device(one).map(Place::Device),
        }
    }
}

/// A copy between two places.
#[non_exhaustive]
pub struct CopyRequest<'a, D> {
    /// Range to copy to.
    pub destination: Span,
    /// Place of `destination`.
    pub destination_place: Place<'a, D>,
    /// Range to copy from, as long as `destination`.
    pub source: Span,
    /// Place of `source`.
    pub source_place: Place<'a, D>,
    /// Whether the call returns only when the copy and all work queued before it are done.
    pub wait: bool,
}

impl<'a, D> CopyRequest<'a, D> {
    /// Creates a copy from `source` to `destination`, which has the same length. The caller does
    /// not wait for the copy.
    pub fn new(
        destination: Span,
        destination_place: Place<'a, D>,
        source: Span,
        source_place: Place<'a, D>,
    ) -> CopyRequest<'a, D> {
        CopyRequest { destination, destination_place, source, source_place, wait: false }
    }

    /// Returns the same copy with [`CopyRequest::wait`] set.
    #[must_use]
    pub fn with_wait(mut self, wait: bool) -> CopyRequest<'a, D> {
        self.wait = wait;
        self
    }

    /// Returns the same copy with its devices converted by `device`.
    ///
    /// # Errors
    /// Errors of `device`.
    pub fn with_devices<E>(
        &self,
        device: impl Fn(&'a D) -> Result<&'a E>,
    ) -> Result<CopyRequest<'a, E>> {
        Ok(CopyRequest {
            destination: self.destination,
            destination_place: self.destination_place.with_device(&device)?,
            source: self.source,
            source_place: self.source_place.with_device(&device)?,
            wait: self.wait,
        })
    }
}

/// The way in which a kernel takes its arguments.
#[repr(u32)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum ArgumentPassing {
    /// The backend's usual way. On the CPU, a kernel of LLVM's host form takes an array of pointers
    /// to the values, `void kernel(void **args)`.
    #[default]
    Pointers = 0,
    /// Parameters of C, `void kernel(uint64_t, ...)`: each value is an integer of 64 bits in the
    /// calling convention of the processor. A value has at most 8 bytes; zeros fill up a shorter
    /// one.
    Words = 1,
}

/// The shape of a launch. `groups` and `items` are at least 1 in each dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct LaunchShape {
    /// Work-groups in x, y, z.
    pub groups: [u32; 3],
    /// Work-items per group in x, y, z.
    pub items: [u32; 3],
    /// Work-groups of a cluster in x, y, z, each at least 1. The groups of a cluster run at the
    /// same time and reach each other's shared memory. `None` for a launch without clusters.
    pub cluster: Option<[u32; 3]>,
    /// Dynamic shared memory per group, in bytes.
    pub dynamic_shared_bytes: u64,
    /// Whether all groups run at the same time and can wait for each other.
    pub cooperative: bool,
    /// Whether the call returns only when the kernel and all work queued before it are done.
    pub wait: bool,
    /// The way in which the kernel takes its arguments.
    pub passing: ArgumentPassing,
}

impl LaunchShape {
    /// Creates the shape of `groups` work-groups of `items` work-items each, in x, y, z: without
    /// clusters, dynamic shared memory and cooperation, for a caller that does not wait. Arguments
    /// are passed in the backend's usual way.
    #[inline]
    pub const fn new(groups: [u32; 3], items: [u32; 3]) -> LaunchShape {
        LaunchShape {
            groups,
            items,
            cluster: None,
            dynamic_shared_bytes: 0,
            cooperative: false,
            wait: false,
            passing: ArgumentPassing::Pointers,
        }
    }

    /// Returns the same shape with [`LaunchShape::cluster`] set.
    #[inline]
    #[must_use]
    pub const fn with_cluster(mut self, cluster: Option<[u32; 3]>) -> LaunchShape {
        self.cluster = cluster;
        self
    }

    /// Returns the same shape with [`LaunchShape::dynamic_shared_bytes`] set, in bytes.
    #[inline]
    #[must_use]
    pub const fn with_dynamic_shared_bytes(mut self, bytes: u64) -> LaunchShape {
        self.dynamic_shared_bytes = bytes;
        self
    }

    /// Returns the same shape with [`LaunchShape::cooperative`] set.
    #[inline]
    #[must_use]
    pub const fn with_cooperative(mut self, cooperative: bool) -> LaunchShape {
        self.cooperative = cooperative;
        self
    }

    /// Returns the same shape with [`LaunchShape::wait`] set.
    #[inline]
    #[must_use]
    pub const fn with_wait(mut self, wait: bool) -> LaunchShape {
        self.wait = wait;
        self
    }

    /// Returns the same shape with [`LaunchShape::passing`] set.
    #[inline]
    #[must_use]
    pub const fn with_passing(mut self, passing: ArgumentPassing) -> LaunchShape {
        self.passing = passing;
        self
    }

    /// Refuses [`ArgumentPassing::Words`], for a device whose kernels have one form of arguments.
    ///
    /// # Errors
    /// `Unsupported` for a launch that passes words.
    #[inline]
    pub fn refuse_words(&self) -> Result<()> {
        match self.passing {
            ArgumentPassing::Pointers => Ok(()),
            ArgumentPassing::Words => {
                Err(unsupported("kernels that take their arguments as words"))
            }
        }
    }

    /// Refuses clusters, for a device without them.
    ///
    /// # Errors
    /// `Unsupported` for a launch with clusters.
    #[inline]
    pub fn refuse_clusters(&self) -> Result<()> {
        match self.cluster {
            None => Ok(()),
            Some(_) => Err(unsupported("clusters of groups")),
        }
    }
}

/// The values of a kernel's arguments. The creator of this value vouches for the kernel's use of
/// them, above all of pointers.
#[derive(Clone, Copy)]
pub struct Arguments<'a> {
    pointers: *const *const c_void,
    sizes: *const usize,
    count: usize,
    borrowed: PhantomData<&'a [u8]>,
}

impl<'a> Arguments<'a> {
    /// Creates a list of arguments that the caller vouches for.
    ///
    /// # Safety
    /// `pointers` and `sizes` have `count` entries each; `pointers[i]` is readable for `sizes[i]`
    /// bytes during `'a`; the kernel may be run with these values.
    pub unsafe fn from_raw(
        pointers: *const *const c_void,
        sizes: *const usize,
        count: usize,
    ) -> Arguments<'a> {
        Arguments { pointers, sizes, count, borrowed: PhantomData }
    }

    /// Returns the number of arguments.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Returns whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the arguments' values, one slice each. The values are valid until the launch
    /// returns.
    pub fn values(&self) -> impl ExactSizeIterator<Item = &'a [u8]> + use<'a> {
        let (pointers, sizes) = (self.pointers, self.sizes);
        // SAFETY: `from_raw`'s caller promised both arrays and the values behind the pointers.
        (0..self.count).map(move |i| unsafe {
            let size = *sizes.add(i);
            if size == 0 {
                &[]
            } else {
                std::slice::from_raw_parts((*pointers.add(i)).cast(), size)
            }
        })
    }

    /// Returns the `N` bytes of the argument at `index`, counted from 0. `from_ne_bytes` of a
    /// number's type converts them.
    ///
    /// # Errors
    /// `InvalidArgument` if the argument does not exist or has another size.
    pub fn bytes<const N: usize>(&self, index: usize) -> Result<[u8; N]> {
        let value = self.values().nth(index).unwrap_or_default();
        value.try_into().map_err(|_| {
            let message = format!("argument {index} has {} bytes, expected {N}", value.len());
            Error::new(ErrorCode::InvalidArgument, message)
        })
    }

    /// Returns the array of pointers as it crossed the boundary; `len()` entries, valid for `'a`.
    pub fn pointers(&self) -> *const *const c_void {
        self.pointers
    }

    /// Returns the array of sizes as it crossed the boundary; `len()` entries, valid for `'a`.
    pub fn sizes(&self) -> *const usize {
        self.sizes
    }
}

/// A function of the host program. Dropping the value does not call the function.
pub struct HostFunction {
    raw: abi::HostFunction,
}

// SAFETY: `from_raw`'s caller promised that the function may run on any thread.
unsafe impl Send for HostFunction {}

impl HostFunction {
    /// Creates a function that the caller vouches for.
    ///
    /// # Safety
    /// `raw.call(raw.context)` may be called once, from any thread, and does not unwind.
    pub unsafe fn from_raw(raw: abi::HostFunction) -> HostFunction {
        HostFunction { raw }
    }

    /// Calls the function on the current thread.
    pub fn call(self) {
        // SAFETY: `from_raw`'s caller promised one call from any thread; `self` is consumed.
        unsafe { (self.raw.call)(self.raw.context) }
    }

    /// Returns the function in the form that crosses the boundary.
    pub fn into_raw(self) -> abi::HostFunction {
        self.raw
    }
}

/// Attributes of a kernel. The default knows nothing; a plugin fills in its fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct KernelAttributes {
    /// Address of the code, 0 if unknown.
    pub address: u64,
    /// Size of the code in bytes, 0 if unknown.
    pub code_bytes: u64,
    /// Size of each argument in bytes, if the image describes them.
    #[cfg_attr(feature = "serde", serde(deserialize_with = "received::sizes"))]
    pub argument_sizes: Option<Vec<u32>>,
    /// Type of each argument, as many as there are sizes; empty if unknown.
    #[cfg_attr(
        feature = "serde",
        serde(deserialize_with = "received::list::<_, _, { limits::ARGUMENTS }>")
    )]
    pub argument_types: Vec<ArgumentType>,
    /// Parameters as the source declares them, "(uint64_t n, float *x)"; empty if unknown.
    pub declaration: String,
    /// Maximum number of work-items in a group, 0 if only the device limits it.
    pub max_group_items: u32,
    /// Shared memory that the kernel's code declares, in bytes.
    pub static_shared_bytes: u64,
    /// Private memory per work-item in bytes, 0 if unknown.
    pub private_bytes: u64,
    /// Registers per work-item, 0 if unknown.
    pub registers: u32,
    /// Group size that the image requires in x, y, z; 0 where any size is allowed.
    pub required_group: [u32; 3],
}

impl KernelAttributes {
    /// Returns the parameter at an index as the source declares it, "float *x". `None` if the
    /// declaration is unknown or shorter.
    pub fn parameter(&self, index: usize) -> Option<&str> {
        let list = self.declaration.trim().strip_prefix('(')?.strip_suffix(')')?;
        let mut depth = 0i32;
        let separates = |c: char| {
            depth +=
                i32::from(matches!(c, '(' | '[' | '{')) - i32::from(matches!(c, ')' | ']' | '}'));
            c == ',' && depth == 0
        };
        list.split(separates).nth(index).map(str::trim).filter(|text| !text.is_empty())
    }
}

/// A global variable on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct GlobalAddress {
    /// Device address.
    pub address: u64,
    /// Size in bytes.
    pub bytes: u64,
}

impl GlobalAddress {
    /// Creates the address of a variable of `bytes` bytes.
    pub const fn new(address: u64, bytes: u64) -> GlobalAddress {
        GlobalAddress { address, bytes }
    }
}

/// A profile section, copied from the device.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct ProfileSection {
    /// Kind of the section.
    pub kind: ProfileSectionKind,
    /// Address of the section on the device.
    pub address: u64,
    /// Bytes of the section.
    pub contents: Vec<u8>,
}

impl ProfileSection {
    /// Creates a section of `kind` that lies at `address` on the device.
    pub const fn new(kind: ProfileSectionKind, address: u64, contents: Vec<u8>) -> ProfileSection {
        ProfileSection { kind, address, contents }
    }
}

pub use crate::abi::PoolTracker;

impl PoolTracker {
    /// Name of the tracker's variable in LLVM's device runtime.
    pub const SYMBOL: &str = "__omp_rtl_device_memory_pool_tracker";

    /// Reads the contents of the variable: four little-endian 64-bit numbers. Ignores further
    /// bytes.
    ///
    /// # Errors
    /// `InvalidBinary` for fewer than 32 bytes.
    pub fn parse(bytes: &[u8]) -> Result<PoolTracker> {
        let Some((bytes, _)) = bytes.split_first_chunk::<32>() else {
            let message = format!("the memory-pool tracker has {} bytes, expected 32", bytes.len());
            return Err(Error::new(ErrorCode::InvalidBinary, message));
        };
        let number = |at: usize| {
            u64::from_le_bytes([0, 1, 2, 3, 4, 5, 6, 7].map(|byte| bytes[8 * at + byte]))
        };
        Ok(PoolTracker {
            allocations: number(0),
            total_bytes: number(1),
            min_bytes: number(2),
            max_bytes: number(3),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_globals_a_name_is_a_kernel_or_unknown() {
        let symbols = [("saxpy".to_owned(), SymbolKind::Kernel)];
        assert_eq!(no_global("saxpy", &symbols).code(), ErrorCode::SymbolKind);
        assert_eq!(no_global("sax", &symbols).code(), ErrorCode::NotFound);
    }

    #[test]
    fn arguments_read_back_their_values() {
        let (a, b) = (7u32, [1.0f64, 2.0]);
        let pointers = [(&raw const a).cast(), (&raw const b).cast(), std::ptr::null()];
        let sizes = [4, 16, 0];
        // SAFETY: the arrays have three entries that point at locals of these sizes.
        let arguments = unsafe { Arguments::from_raw(pointers.as_ptr(), sizes.as_ptr(), 3) };
        let values: Vec<_> = arguments.values().map(<[u8]>::len).collect();
        assert_eq!(values, [4, 16, 0]);
        assert_eq!(arguments.values().next(), Some(&7u32.to_ne_bytes()[..]));
        assert_eq!(arguments.bytes(0).map(u32::from_ne_bytes), Ok(7));
        for (index, size) in [(0, 4), (1, 16), (2, 0), (3, 0)] {
            let error = arguments.bytes::<8>(index).unwrap_err();
            assert_eq!(error.code(), ErrorCode::InvalidArgument);
            let expected = format!("argument {index} has {size} bytes, expected 8");
            assert_eq!(error.message(), expected);
        }
    }
}

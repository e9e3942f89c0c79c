//! The inputs of a launch: the grid and the arguments.

mod pointer;

pub use pointer::PointerTo;

use crate::memory::{Buffer, BufferSlice, DevicePointer, Element};
use longshore_plugin_api::{
    ArgumentKind, ArgumentPassing, ArgumentType, Error, ErrorCode, LaunchShape, Result,
};
use std::any::TypeId;
use std::ffi::c_void;

/// The numbers of work-groups and work-items of a launch. LLVM: `ol_kernel_launch_size_args_t`.
///
/// The default is one group of one item.
///
/// ```
/// use longshore::Grid;
///
/// // One work-item for each of 1000 elements: 8 groups of 128 items.
/// let grid = Grid::for_items(1000, 128)?;
/// assert_eq!(grid, Grid::new([8, 1, 1], [128, 1, 1]));
///
/// // A work-item for each pixel, in groups of 16 by 16 with 4 KiB of dynamic shared memory each.
/// let tiles = Grid::for_extent([640, 470, 1], [16, 16, 1])?.with_shared_bytes(4096);
/// assert_eq!(tiles, Grid::new([40, 30, 1], [16, 16, 1]).with_shared_bytes(4096));
/// # Ok::<(), longshore::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    groups: [u32; 3],
    items: [u32; 3],
    dynamic_shared_bytes: u64,
    cooperative: bool,
    cluster: Option<[u32; 3]>,
    passing: ArgumentPassing,
}

impl Default for Grid {
    fn default() -> Grid {
        Grid::new([1; 3], [1; 3])
    }
}

impl Grid {
    /// Creates a grid of this number of work-groups, and of work-items per group, in x, y and z.
    pub fn new(groups: [u32; 3], items: [u32; 3]) -> Grid {
        Grid {
            groups,
            items,
            dynamic_shared_bytes: 0,
            cooperative: false,
            cluster: None,
            passing: ArgumentPassing::Pointers,
        }
    }

    /// Creates a one-dimensional grid of `groups` work-groups of `items` work-items each.
    pub fn linear(groups: u32, items: u32) -> Grid {
        Grid::new([groups, 1, 1], [items, 1, 1])
    }

    /// Creates a one-dimensional grid with at least `items` work-items, in groups of `group` items.
    /// The number of groups is rounded up, so that the kernel must skip the items behind the last
    /// element. The launch compares the grid with the limits of kernel and device.
    ///
    /// # Errors
    /// `InvalidArgument` for 0 items, for groups of 0 items, and for more than 2^32 - 1 groups. A
    /// program without items omits the launch.
    pub fn for_items(items: usize, group: u32) -> Result<Grid> {
        Grid::for_extent([items, 1, 1], [group, 1, 1])
    }

    /// Creates a grid with at least `extent` work-items in x, y and z, in groups of `group` items.
    /// The number of groups is rounded up in each dimension, as by [`Grid::for_items`].
    ///
    /// # Errors
    /// As for [`Grid::for_items`], for each dimension. An unused dimension has the extent 1.
    pub fn for_extent(extent: [usize; 3], group: [u32; 3]) -> Result<Grid> {
        // 0 stands for a number of groups that no launch can have.
        let groups = [0, 1, 2].map(|axis| match group[axis] {
            0 => 0,
            group => u32::try_from(extent[axis].div_ceil(group as usize)).unwrap_or(0),
        });
        match groups.contains(&0) {
            false => Ok(Grid::new(groups, group)),
            true => Err(Error::new(
                ErrorCode::InvalidArgument,
                format!(
                    "a grid for {extent:?} items in groups of {group:?}; expected at least 1 item \
                     and at most {} groups in each dimension: omit a launch without items",
                    u32::MAX
                ),
            )),
        }
    }

    /// Returns the grid with dynamic shared memory of this size, in bytes per group.
    #[must_use]
    pub fn with_shared_bytes(mut self, bytes: u64) -> Grid {
        self.dynamic_shared_bytes = bytes;
        self
    }

    /// Returns the grid with cooperative launching on or off: all groups of a cooperative launch
    /// run at the same time.
    #[must_use]
    pub fn with_cooperative(mut self, cooperative: bool) -> Grid {
        self.cooperative = cooperative;
        self
    }

    /// Returns the grid with clusters of this number of groups in x, y and z. The groups of a
    /// cluster run at the same time and access each other's shared memory. CUDA:
    /// `CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION`.
    #[must_use]
    pub fn with_clusters(mut self, groups: [u32; 3]) -> Grid {
        self.cluster = Some(groups);
        self
    }

    /// Returns the grid for a kernel that takes its arguments in this way.
    /// On the CPU, kernels of clang's OpenMP images take [`ArgumentPassing::Words`].
    #[must_use]
    pub fn with_passing(mut self, passing: ArgumentPassing) -> Grid {
        self.passing = passing;
        self
    }

    /// Returns the number of work-items of a group in x, y and z.
    #[inline]
    pub(crate) fn items(&self) -> [u32; 3] {
        self.items
    }

    /// Returns the shape of a launch of a kernel, whose limits are not compared.
    ///
    /// # Errors
    /// `InvalidArgument` for a dimension of 0, and for clusters that do not divide the groups.
    pub(crate) fn shape(&self, kernel: &str, wait: bool) -> Result<LaunchShape> {
        let Grid { groups, items, dynamic_shared_bytes, cooperative, cluster, passing } = *self;
        if groups.contains(&0) || items.contains(&0) {
            return Err(self.refuse(kernel, "every dimension must be at least 1"));
        }
        if let Some(cluster) = cluster {
            let divides = |(one, all): (&u32, u32)| *one != 0 && all.is_multiple_of(*one);
            if !cluster.iter().zip(groups).all(divides) {
                return Err(self
                    .refuse(kernel, &format!("clusters of {cluster:?} do not divide the groups")));
            }
        }
        Ok(LaunchShape::new(groups, items)
            .with_cluster(cluster)
            .with_dynamic_shared_bytes(dynamic_shared_bytes)
            .with_cooperative(cooperative)
            .with_wait(wait)
            .with_passing(passing))
    }

    #[cold]
    fn refuse(&self, kernel: &str, why: &str) -> Error {
        let (groups, items) = (self.groups, self.items);
        let message = format!("kernel '{kernel}' with {groups:?} groups of {items:?} items: {why}");
        Error::new(ErrorCode::InvalidArgument, message)
    }
}

/// A value that can be an argument of a kernel: numbers and other plain data by value, a
/// [`Buffer`], a [`BufferSlice`] or a [`DevicePointer`] as an address.
///
/// A launch compares the value's size and kind with the image's declaration. Signed and unsigned
/// integers of one size are interchangeable; a declared structure takes any value of its size. A
/// pointer to numbers takes a buffer of numbers of that size and kind, a buffer of other plain data
/// (`[f32; 4]`), or a [`DevicePointer`], whose elements are unknown. An [`Untyped`] passes a value
/// of another kind.
///
/// # Structures
///
/// A structure by value is an argument if its type derives the trait, and [`Element`]:
///
/// ```
/// use longshore::{Argument, ArgumentKind, Element};
///
/// #[repr(C)]
/// #[derive(Clone, Copy, Debug, PartialEq, Element, Argument)]
/// struct Range {
///     first: u32,
///     end: u32,
/// }
///
/// let range = Range { first: 8, end: 16 };
/// assert_eq!((range.stored(), Range::KIND), (range, Some(ArgumentKind::Structure)));
/// ```
///
/// The derive requires `#[repr(C)]`. A structure with `#[repr(transparent)]` passes for its only
/// field. A structure that is an element through the feature `bytemuck` derives `Argument` alone.
/// Without `Element` the derive is an error:
///
/// ```compile_fail,E0277
/// #[repr(C)]
/// #[derive(Clone, Copy, longshore::Argument)]
/// struct Range {
///     first: u32,
///     end: u32,
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no argument of a kernel",
    label = "expected a number, a buffer, a slice, a pointer or a structure that derives `Argument`",
    note = "buffers are passed by reference: `&buffer`"
)]
pub trait Argument {
    /// The value that the kernel receives: plain data without padding.
    type Stored: Element;

    /// The kind of the value; `None`, the default, fits every declared kind.
    const KIND: Option<ArgumentKind> = None;

    /// Returns the type that launches compare with the image's declaration: [`Argument::KIND`] and,
    /// for a pointer, the type of its elements.
    #[inline]
    fn argument_type() -> ArgumentType {
        Self::KIND.map_or(ArgumentType::UNKNOWN, ArgumentType::new)
    }

    /// Returns the value as the kernel receives it.
    fn stored(&self) -> Self::Stored;

    /// Returns the [`Device::id`](crate::Device::id) of the device that the value belongs to;
    /// `None` for a value without a device.
    fn device(&self) -> Option<u64> {
        None
    }
}

macro_rules! plain_arguments {
    ($($name:ty: $kind:ident),*) => {
        /// Returns the type of a pointer to values of type `T`.
        #[inline]
        fn pointer_to<T: 'static>() -> ArgumentType {
            let element = TypeId::of::<T>();
            $(
                if element == TypeId::of::<$name>() {
                    return const {
                        ArgumentType::pointer_to(ArgumentKind::$kind, size_of::<$name>() as u16)
                    };
                }
            )*
            const { ArgumentType::new(ArgumentKind::Pointer) }
        }

        $(
        impl Argument for $name {
            type Stored = $name;
            const KIND: Option<ArgumentKind> = Some(ArgumentKind::$kind);

            #[inline]
            fn stored(&self) -> $name {
                *self
            }
        }
        )*
    };
}

plain_arguments!(
    u8: Unsigned, u16: Unsigned, u32: Unsigned, u64: Unsigned, usize: Unsigned, i8: Signed,
    i16: Signed, i32: Signed, i64: Signed, isize: Signed, f32: Float, f64: Float
);

/// A value that is passed for an argument of any kind. The sizes must be equal.
///
/// ```no_run
/// # use longshore::{Grid, Kernel, Queue, Result, Untyped};
/// # fn launch(queue: &Queue, scale: &Kernel, grid: Grid) -> Result<()> {
/// // SAFETY: the kernel takes a float. The number has the bits of 1.0.
/// unsafe { queue.launch(scale, grid, (Untyped(0x3f80_0000u32),))? };
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Untyped<T>(pub T);

impl<T: Argument> Argument for Untyped<T> {
    type Stored = T::Stored;

    #[inline]
    fn stored(&self) -> T::Stored {
        self.0.stored()
    }

    #[inline]
    fn device(&self) -> Option<u64> {
        self.0.device()
    }
}

impl Argument for DevicePointer {
    type Stored = u64;
    const KIND: Option<ArgumentKind> = Some(ArgumentKind::Pointer);

    #[inline]
    fn stored(&self) -> u64 {
        self.address()
    }
}

impl<T: Element> Argument for BufferSlice<'_, T> {
    type Stored = u64;
    const KIND: Option<ArgumentKind> = Some(ArgumentKind::Pointer);

    #[inline]
    fn argument_type() -> ArgumentType {
        pointer_to::<T>()
    }

    #[inline]
    fn stored(&self) -> u64 {
        self.pointer().address()
    }

    #[inline]
    fn device(&self) -> Option<u64> {
        Some(BufferSlice::device(self).id())
    }
}

impl<'a, T: Element> Argument for &'a Buffer<T> {
    type Stored = u64;
    const KIND: Option<ArgumentKind> = Some(ArgumentKind::Pointer);

    #[inline]
    fn argument_type() -> ArgumentType {
        <BufferSlice<'a, T>>::argument_type()
    }

    #[inline]
    fn stored(&self) -> u64 {
        self.as_slice().stored()
    }

    #[inline]
    fn device(&self) -> Option<u64> {
        Argument::device(&self.as_slice())
    }
}

/// Arguments whose number and sizes are known only at run time: pairs of a pointer and a size.
/// Launches check only number and sizes, unless [`RawArguments::with_types`] adds the types. LLVM:
/// `ArgPtrs` and `ArgSizes` of `olLaunchKernel`.
#[derive(Clone, Copy)]
pub struct RawArguments<'a> {
    pointers: &'a [*const c_void],
    sizes: &'a [usize],
    types: &'a [ArgumentType],
}

impl<'a> RawArguments<'a> {
    /// Creates a list of arguments from pointers to the values and their sizes in bytes.
    ///
    /// # Errors
    /// `InvalidArgument` if the numbers of pointers and sizes differ.
    ///
    /// # Safety
    /// `pointers[i]` is readable for `sizes[i]` bytes during `'a`.
    pub unsafe fn new(pointers: &'a [*const c_void], sizes: &'a [usize]) -> Result<Self> {
        if pointers.len() == sizes.len() {
            return Ok(RawArguments { pointers, sizes, types: &[] });
        }
        let message = format!("{} argument pointers and {} sizes", pointers.len(), sizes.len());
        Err(Error::new(ErrorCode::InvalidArgument, message))
    }

    /// Returns the list with the type of each argument, which launches compare with the image's
    /// description.
    ///
    /// # Errors
    /// `InvalidArgument` if the numbers of types and arguments differ.
    pub fn with_types(mut self, types: &'a [ArgumentType]) -> Result<Self> {
        if types.len() == self.sizes.len() {
            self.types = types;
            return Ok(self);
        }
        let message = format!("{} arguments and {} types", self.sizes.len(), types.len());
        Err(Error::new(ErrorCode::InvalidArgument, message))
    }
}

/// A list of arguments: a tuple of up to 16 [`Argument`]s, or [`RawArguments`].
///
/// # Safety
/// `with` passes `body` one pointer for each size, and each pointer is readable for its size until
/// `body` returns.
pub unsafe trait ArgumentList {
    /// Calls `body` with pointers to the arguments' values, their sizes in bytes and their types.
    /// An empty list of types means unknown types. Allocates nothing.
    ///
    /// # Errors
    /// `InvalidDevice` if an argument belongs to a device other than `device`; errors of `body`.
    fn with(
        &self,
        device: u64,
        body: impl FnOnce(&[*const c_void], &[usize], &[ArgumentType]) -> Result<()>,
    ) -> Result<()>;
}

// SAFETY: `RawArguments::new` checked the lengths, and its caller promised that the pointers are
// readable.
unsafe impl ArgumentList for RawArguments<'_> {
    fn with(
        &self,
        _device: u64,
        body: impl FnOnce(&[*const c_void], &[usize], &[ArgumentType]) -> Result<()>,
    ) -> Result<()> {
        body(self.pointers, self.sizes, self.types)
    }
}

macro_rules! tuple_arguments {
    ($($name:ident . $index:tt),*) => {
        // SAFETY: both arrays have an entry for each value, and the values lie in a local of
        // `with`.
        unsafe impl<$($name: Argument),*> ArgumentList for ($($name,)*) {
            #[inline]
            fn with(
                &self,
                device: u64,
                body: impl FnOnce(&[*const c_void], &[usize], &[ArgumentType]) -> Result<()>,
            ) -> Result<()> {
                $( belongs(self.$index.device(), device, $index)?; )*
                let stored = ($(self.$index.stored(),)*);
                let pointers = [$( (&raw const stored.$index).cast::<c_void>() ),*];
                let sizes = [$( size_of_val(&stored.$index) ),*];
                let types = [$( $name::argument_type() ),*];
                body(&pointers, &sizes, &types)
            }
        }
    };
}

// SAFETY: no pointers and no sizes.
unsafe impl ArgumentList for () {
    #[inline]
    fn with(
        &self,
        _device: u64,
        body: impl FnOnce(&[*const c_void], &[usize], &[ArgumentType]) -> Result<()>,
    ) -> Result<()> {
        body(&[], &[], &[])
    }
}

tuple_arguments!(A.0);
tuple_arguments!(A.0, B.1);
tuple_arguments!(A.0, B.1, C.2);
tuple_arguments!(A.0, B.1, C.2, D.3);
tuple_arguments!(A.0, B.1, C.2, D.3, E.4);
tuple_arguments!(A.0, B.1, C.2, D.3, E.4, F.5);
tuple_arguments!(A.0, B.1, C.2, D.3, E.4, F.5, G.6);
tuple_arguments!(A.0, B.1, C.2, D.3, E.4, F.5, G.6, H.7);
tuple_arguments!(A.0, B.1, C.2, D.3, E.4, F.5, G.6, H.7, I.8);
tuple_arguments!(A.0, B.1, C.2, D.3, E.4, F.5, G.6, H.7, I.8, J.9);
tuple_arguments!(A.0, B.1, C.2, D.3, E.4, F.5, G.6, H.7, I.8, J.9, K.10);
tuple_arguments!(A.0, B.1, C.2, D.3, E.4, F.5, G.6, H.7, I.8, J.9, K.10, L.11);
tuple_arguments!(A.0, B.1, C.2, D.3, E.4, F.5, G.6, H.7, I.8, J.9, K.10, L.11, M.12);
tuple_arguments!(A.0, B.1, C.2, D.3, E.4, F.5, G.6, H.7, I.8, J.9, K.10, L.11, M.12, N.13);
tuple_arguments!(A.0, B.1, C.2, D.3, E.4, F.5, G.6, H.7, I.8, J.9, K.10, L.11, M.12, N.13, O.14);
tuple_arguments!(
    A.0, B.1, C.2, D.3, E.4, F.5, G.6, H.7, I.8, J.9, K.10, L.11, M.12, N.13, O.14, P.15
);

#[inline]
fn belongs(owner: Option<u64>, device: u64, index: usize) -> Result<()> {
    match owner {
        Some(owner) if owner != device => Err(foreign(index)),
        _ => Ok(()),
    }
}

#[cold]
fn foreign(index: usize) -> Error {
    let message = format!("argument {index} is memory of a device other than the queue's");
    Error::new(ErrorCode::InvalidDevice, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tuple_becomes_pointers_and_sizes() {
        let arguments = (7u8, 2.5f64, DevicePointer(0x1000));
        let checked = arguments.with(0, |pointers, sizes, types| {
            assert_eq!(sizes, [1, 8, 8]);
            let kinds: Vec<_> = types.iter().map(|known| known.kind()).collect();
            use ArgumentKind::*;
            assert_eq!(kinds, [Some(Unsigned), Some(Float), Some(Pointer)]);
            // SAFETY: the pointers point at the stored values, of these sizes.
            unsafe {
                assert_eq!(*pointers[0].cast::<u8>(), 7);
                assert_eq!(*pointers[1].cast::<f64>(), 2.5);
                assert_eq!(*pointers[2].cast::<u64>(), 0x1000);
            }
            Ok(())
        });
        assert_eq!(checked, Ok(()));
    }

    #[test]
    fn a_grid_for_items_has_enough_groups_and_no_more() {
        for (items, group, groups) in [(1, 64, 1), (64, 64, 1), (65, 64, 2), (1 << 32, 2, 1 << 31)]
        {
            let grid = Grid::for_items(items, group).unwrap();
            assert_eq!(grid, Grid::linear(groups, group), "{items} items");
        }
        let volume = Grid::for_extent([17, 16, 1], [16, 4, 2]).unwrap();
        assert_eq!(volume, Grid::new([2, 4, 1], [16, 4, 2]));
    }

    #[test]
    fn a_grid_without_items_or_with_too_many_groups_is_refused() {
        let most = Grid::for_items(u32::MAX as usize, 1).unwrap();
        assert_eq!(most, Grid::linear(u32::MAX, 1));
        for (items, group) in [(0, 64), (64, 0), (1 << 32, 1), (usize::MAX, 1)] {
            let error = Grid::for_items(items, group).unwrap_err();
            assert_eq!(error.code(), ErrorCode::InvalidArgument);
            let start = format!("a grid for [{items}, 1, 1] items in groups of [{group}, 1, 1]");
            assert!(error.message().starts_with(&start), "{error}");
        }
        assert!(Grid::for_extent([8, 0, 1], [4, 4, 1]).is_err());
    }

    #[test]
    fn a_buffer_is_a_pointer_to_its_element_type() {
        let floats = ArgumentType::pointer_to(ArgumentKind::Float, 8);
        assert_eq!(<&Buffer<f64>>::argument_type(), floats);
        assert_eq!(<&Buffer<[f32; 4]>>::argument_type().element(), None);
        assert_eq!(<Untyped<u32>>::argument_type(), ArgumentType::UNKNOWN);
    }

    #[test]
    fn raw_arguments_need_a_size_each_and_a_type_each_or_none() {
        // SAFETY: the lists are not read, as they do not fit.
        let error = unsafe { RawArguments::new(&[std::ptr::null()], &[]) }.err().unwrap();
        assert_eq!(error.code(), ErrorCode::InvalidArgument);
        // SAFETY: the pointer is readable for no bytes.
        let one = unsafe { RawArguments::new(&[std::ptr::null()], &[0]) }.unwrap();
        assert_eq!(one.with_types(&[]).err().unwrap().code(), ErrorCode::InvalidArgument);
        assert!(one.with_types(&[ArgumentType::UNKNOWN]).is_ok());
    }
}

//! Variants of kernels: copies that the compiler of bitcode makes for launches with known values.

use crate::jit;
use crate::launch::Argument;
use crate::memory::element;
use longshore_plugin_api::{ArgumentKind, ArgumentType, Error, ErrorCode, Result};
use std::ffi::c_void;

/// A request for a variant of a kernel: a copy, compiled for launches in which the group size or
/// arguments have known values. It is part of [`LoadOptions`](crate::LoadOptions) for an image of
/// bitcode.
///
/// A launch of the kernel compares its group size and its arguments with the variants, and runs the
/// variant whose values are all equal. Among several, the one with the most constants precedes, and
/// then the one that the options name first. For other values the kernel itself runs. The results
/// are the same: a variant uses the same globals, and takes the same arguments. Numbers are equal
/// if their bytes are, so 0.0 differs from -0.0.
///
/// ```no_run
/// # fn load(device: &longshore::Device, queue: &longshore::Queue) -> longshore::Result<()> {
/// use longshore::{Grid, Image, KernelVariant, LoadOptions};
///
/// let blur = KernelVariant::for_kernel("blur");
/// let tiled = blur.with_group_items([16, 16, 1]).with_argument(2, 5u32);
/// let options = LoadOptions::new().with_variant(tiled);
/// // SAFETY: the build made blur.bc of a kernel of this program.
/// let program = unsafe { device.load_with(Image::read("blur.bc")?, &options)? };
/// let blur = program.kernel("blur")?;
/// let pixels = device.buffer::<f32>(queue, 640 * 480)?;
/// let grid = Grid::new([40, 30, 1], [16, 16, 1]);
/// // SAFETY: blur takes pixels, their number in a row, and a radius. The variant runs.
/// unsafe { queue.launch(&blur, grid, (&pixels, 640u32, 5u32))? };
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelVariant {
    kernel: String,
    group: Option<[u32; 3]>,
    /// The constant arguments, by their indices.
    arguments: Vec<Constant>,
}

/// The value of an argument.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Constant {
    index: usize,
    bytes: Vec<u8>,
    argument_type: ArgumentType,
}

impl KernelVariant {
    /// Most variants of one load.
    pub const MOST: usize = 64;

    /// Creates a variant of a kernel without constants, which a load refuses.
    pub fn for_kernel(kernel: impl Into<String>) -> KernelVariant {
        KernelVariant { kernel: kernel.into(), group: None, arguments: Vec::new() }
    }

    /// Returns the variant for groups of this number of work-items in x, y and z. Loops over items
    /// then have constant bounds, and a GPU's code generator knows the limit for the registers of
    /// an item. CUDA: `reqntid`; AMD: `reqd_work_group_size`.
    #[must_use]
    pub fn with_group_items(mut self, items: [u32; 3]) -> KernelVariant {
        self.group = Some(items);
        self
    }

    /// Returns the variant for launches whose argument at an index, which counts from 0, has this
    /// value. The argument must be a number. A second value for the same index replaces the first.
    #[must_use]
    pub fn with_argument<T: Argument>(mut self, index: usize, value: T) -> KernelVariant {
        let bytes = element::bytes(&[value.stored()]).to_vec();
        let constant = Constant { index, bytes, argument_type: T::argument_type() };
        match self.arguments.binary_search_by_key(&index, |constant| constant.index) {
            Ok(at) => self.arguments[at] = constant,
            Err(at) => self.arguments.insert(at, constant),
        }
        self
    }

    /// Returns the name of the kernel.
    pub fn kernel(&self) -> &str {
        &self.kernel
    }

    /// Returns the number of work-items of a group in x, y and z; `None` if it is not constant.
    pub fn group_items(&self) -> Option<[u32; 3]> {
        self.group
    }

    /// Returns the indices of the constant arguments, in ascending order.
    pub fn arguments(&self) -> impl Iterator<Item = usize> {
        self.arguments.iter().map(|constant| constant.index)
    }

    /// Returns whether a launch with these values runs the variant.
    ///
    /// # Safety
    /// Each pointer is readable for the size of the same index.
    #[inline]
    pub(super) unsafe fn fits(
        &self,
        items: [u32; 3],
        pointers: &[*const c_void],
        sizes: &[usize],
    ) -> bool {
        self.group.is_none_or(|group| group == items)
            && self.arguments.iter().all(|constant| {
                let (index, bytes) = (constant.index, constant.bytes.as_slice());
                let (Some(pointer), Some(size)) = (pointers.get(index), sizes.get(index)) else {
                    return false;
                };
                // SAFETY: promised by the caller.
                *size == bytes.len()
                    && unsafe { std::slice::from_raw_parts(pointer.cast::<u8>(), *size) } == bytes
            })
    }

    /// Returns the number of constants, which decides among variants that fit a launch.
    pub(super) fn constants(&self) -> usize {
        self.arguments.len() + usize::from(self.group.is_some())
    }

    fn check(&self) -> Result<()> {
        let name = &self.kernel;
        let refused = |message| Err(Error::new(ErrorCode::InvalidArgument, message));
        if self.constants() == 0 {
            return refused(format!(
                "the variant of kernel '{name}' has no constant: it needs a group size or an \
                 argument"
            ));
        }
        if let Some(group) = self.group.filter(|group| group.contains(&0)) {
            return refused(format!(
                "the variant of kernel '{name}' is for groups of {group:?} items; every dimension \
                 must be at least 1"
            ));
        }
        for Constant { index, bytes, argument_type } in &self.arguments {
            let size = bytes.len();
            let is_pointer = argument_type.kind() == Some(ArgumentKind::Pointer);
            if is_pointer || !matches!(size, 1 | 2 | 4 | 8) || u32::try_from(*index).is_err() {
                let given = argument_type.name(size);
                return refused(format!(
                    "the variant of kernel '{name}' has {given} as argument {index}; only numbers \
                     can be constants"
                ));
            }
        }
        Ok(())
    }

    /// Returns the request for the compiler.
    fn request(&self, symbol: String) -> jit::Variant {
        let kind = |argument_type: ArgumentType| match argument_type.kind()? {
            ArgumentKind::Signed | ArgumentKind::Unsigned => Some(jit::NumberKind::Integer),
            ArgumentKind::Float => Some(jit::NumberKind::Float),
            _ => None,
        };
        let arguments = self.arguments.iter().map(|constant| jit::Constant {
            index: constant.index as u32,
            bytes: constant.bytes.clone(),
            kind: kind(constant.argument_type),
        });
        let (kernel, group) = (self.kernel.clone(), self.group);
        jit::Variant { kernel, symbol, group, arguments: arguments.collect() }
    }
}

/// The variants of a load, with the names of their code in the image. A launch takes the first one
/// that fits.
#[derive(Clone, Debug, Default)]
pub(super) struct Variants(Vec<(KernelVariant, String)>);

impl Variants {
    /// Checks the variants of a load and gives them names.
    ///
    /// # Errors
    /// `InvalidArgument` for a variant without a constant, with a zero in its group size, or with
    /// an argument that is not a number; `InvalidValue` for too many variants.
    pub(super) fn new(variants: &[KernelVariant]) -> Result<Variants> {
        if variants.len() > KernelVariant::MOST {
            let (count, most) = (variants.len(), KernelVariant::MOST);
            let message = format!("{count} variants of kernels, expected at most {most}");
            return Err(Error::new(ErrorCode::InvalidValue, message));
        }
        variants.iter().try_for_each(KernelVariant::check)?;
        let symbol = |(number, variant): (usize, &KernelVariant)| {
            (variant.clone(), format!("longshore_variant_{number}_of_{}", variant.kernel))
        };
        let mut named: Vec<_> = variants.iter().enumerate().map(symbol).collect();
        named.sort_by_key(|(variant, _)| std::cmp::Reverse(variant.constants()));
        Ok(Variants(named))
    }

    pub(super) fn requests(&self) -> Vec<jit::Variant> {
        self.0.iter().map(|(variant, symbol)| variant.request(symbol.clone())).collect()
    }

    /// Returns whether a name is that of a variant's code.
    pub(super) fn has_symbol(&self, symbol: &str) -> bool {
        self.0.iter().any(|(_, known)| known == symbol)
    }

    /// Returns the variants of a kernel.
    pub(super) fn for_kernel(
        &self,
        kernel: &str,
    ) -> impl Iterator<Item = &(KernelVariant, String)> {
        self.0.iter().filter(move |(variant, _)| variant.kernel == kernel)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fits(variant: &KernelVariant, items: [u32; 3], first: f32, second: u64) -> bool {
        let pointers = [(&raw const first).cast(), (&raw const second).cast()];
        // SAFETY: the pointers point at numbers of these sizes.
        unsafe { variant.fits(items, &pointers, &[4, 8]) }
    }

    #[test]
    fn a_launch_fits_a_variant_if_all_constants_are_equal_bytes() {
        let variant = KernelVariant::for_kernel("k").with_argument(1, 7u64).with_argument(0, 0f32);
        assert_eq!(variant.arguments().collect::<Vec<_>>(), [0, 1]);
        assert!(fits(&variant, [1, 2, 3], 0.0, 7));
        assert!(!fits(&variant, [1, 2, 3], -0.0, 7));
        assert!(!fits(&variant, [1, 2, 3], 0.0, 8));
        let sized = variant.clone().with_group_items([8, 1, 1]);
        assert!(fits(&sized, [8, 1, 1], 0.0, 7) && !fits(&sized, [1, 8, 1], 0.0, 7));
        let other_size = KernelVariant::for_kernel("k").with_argument(1, 7u32);
        let beyond = KernelVariant::for_kernel("k").with_argument(2, 7u32);
        assert!(!fits(&other_size, [1; 3], 0.0, 7) && !fits(&beyond, [1; 3], 0.0, 7));
    }

    #[test]
    fn the_variant_with_the_most_constants_precedes() {
        let small = KernelVariant::for_kernel("k").with_argument(1, 7u64);
        let large = small.clone().with_group_items([8, 1, 1]);
        let other = KernelVariant::for_kernel("other").with_argument(0, 1u8);
        let variants = Variants::new(&[small.clone(), other, large.clone()]).unwrap();
        let order: Vec<_> = variants.for_kernel("k").map(|(variant, _)| variant.clone()).collect();
        assert_eq!(order, [large, small]);
    }

    #[test]
    fn a_variant_needs_constants_that_are_numbers() {
        let code = |variants: &[KernelVariant]| Variants::new(variants).err().map(|it| it.code());
        let none = KernelVariant::for_kernel("k");
        let zero = none.clone().with_group_items([8, 0, 1]);
        let pointer = none.clone().with_argument(0, crate::DevicePointer(0));
        let large = none.clone().with_argument(0, crate::Untyped(Large));
        for variant in [none.clone(), zero, pointer, large] {
            assert_eq!(code(&[variant]), Some(ErrorCode::InvalidArgument));
        }
        let number = none.with_argument(0, 1u8);
        assert_eq!(code(&vec![number.clone(); 64]), None);
        assert_eq!(code(&vec![number; 65]), Some(ErrorCode::InvalidValue));
    }

    struct Large;

    impl Argument for Large {
        type Stored = [u32; 3];

        fn stored(&self) -> [u32; 3] {
            [1; 3]
        }
    }
}

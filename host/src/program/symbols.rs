//! Kernels and globals of a program.

use super::core::unloaded;
use super::{KernelVariant, Program};
use crate::backend::{AnyKernel, AnyModule};
use crate::launch::{ArgumentList, Grid};
use crate::memory::{DevicePointer, Element, element};
use crate::queue::Queue;
use crate::rundown::RundownGuard;
use longshore_plugin_api::{
    ArgumentType, Error, ErrorCode, GlobalAddress, KernelAttributes, Module as _, Result,
};
use std::ffi::c_void;
use std::sync::Arc;

/// A kernel of a program. The handle keeps the program loaded. Cloning is cheap. Any thread may
/// call the methods. LLVM: `ol_symbol_handle_t` of kind `OL_SYMBOL_KIND_KERNEL`.
///
/// ```no_run
/// # use longshore::{Buffer, Grid, Program, Queue, Result};
/// # fn run(program: &Program, queue: &Queue, x: &Buffer<f32>, y: &Buffer<f32>) -> Result<()> {
/// let saxpy = program.kernel("saxpy")?;
/// let items = queue.device().optimal_group_items(&saxpy, 0)?;
/// let grid = Grid::linear(u32::try_from(x.len()).unwrap().div_ceil(items), items);
/// // SAFETY: saxpy takes (u64, f32, pointer, pointer) and stays within `x.len()` elements.
/// unsafe { queue.launch(&saxpy, grid, (x.len() as u64, 2.5f32, x, y))? };
/// queue.synchronize()?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Kernel {
    program: Program,
    facts: Arc<Facts>,
}

struct Facts {
    name: String,
    remote: Arc<AnyKernel>,
    attributes: KernelAttributes,
    /// Largest number of work-items of a group; `u64::MAX` if neither kernel nor device has a
    /// limit.
    most_items: u64,
    /// Size in bytes and type of each argument, if the image describes them.
    arguments: Option<Box<[(usize, ArgumentType)]>>,
    /// The kernel's variants, in the order in which launches prefer them.
    variants: Box<[(KernelVariant, Kernel)]>,
}

impl Kernel {
    pub(super) fn find(program: &Program, name: &str) -> Result<Kernel> {
        let core = program.core();
        if core.variants.has_symbol(name) {
            let message = format!("'{name}' is a variant, which launches of its kernel reach");
            return Err(Error::new(ErrorCode::NotFound, message));
        }
        let module = core.module.enter(0).ok_or_else(unloaded)?;
        let mut variants = Vec::new();
        for (variant, symbol) in core.variants.for_kernel(name) {
            match Kernel::from_symbol(program, &module, symbol, Box::default()) {
                Ok(kernel) => variants.push((variant.clone(), kernel)),
                // A setting can replace the result of the compilation.
                Err(error) if error.code() == ErrorCode::NotFound => {
                    log::warn!("kernel '{name}' has no variant '{symbol}': {error}");
                }
                Err(error) => return Err(error),
            }
        }
        Kernel::from_symbol(program, &module, name, variants.into())
    }

    fn from_symbol(
        program: &Program,
        module: &AnyModule,
        name: &str,
        variants: Box<[(KernelVariant, Kernel)]>,
    ) -> Result<Kernel> {
        let (remote, mut attributes) = module.kernel(name)?;
        let limits = [attributes.max_group_items, program.device().core().most_group_items()];
        attributes.max_group_items =
            limits.into_iter().filter(|most| *most != 0).min().unwrap_or(0);
        let facts = Facts {
            name: name.to_owned(),
            remote,
            most_items: match attributes.max_group_items {
                0 => u64::MAX,
                most => most.into(),
            },
            arguments: arguments(&attributes),
            attributes,
            variants,
        };
        Ok(Kernel { program: program.clone(), facts: Arc::new(facts) })
    }

    /// Returns the kernel's name.
    pub fn name(&self) -> &str {
        &self.facts.name
    }

    /// Returns the program that this symbol belongs to.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Returns the kernel's attributes: limits, required group and arguments, as far as image and
    /// device have them.
    pub fn attributes(&self) -> &KernelAttributes {
        &self.facts.attributes
    }

    /// Returns the variant that a launch with these inputs runs; `None` if the kernel itself runs.
    /// LLVM has no such function. Does not block.
    ///
    /// # Errors
    /// `InvalidDevice` if an argument belongs to another device.
    pub fn variant_for(
        &self,
        grid: Grid,
        arguments: impl ArgumentList,
    ) -> Result<Option<&KernelVariant>> {
        let mut found = None;
        arguments.with(self.program.device().id(), |pointers, sizes, _| {
            // SAFETY: the list vouches for its pointers.
            found = unsafe { self.find_variant(grid.items(), pointers, sizes) };
            Ok(())
        })?;
        Ok(found.map(|(variant, _)| variant))
    }

    /// Returns the kernel that a launch with these values runs: a variant, or this one.
    ///
    /// # Safety
    /// Each pointer is readable for the size of the same index.
    #[inline]
    pub(crate) unsafe fn for_launch(
        &self,
        items: [u32; 3],
        pointers: &[*const c_void],
        sizes: &[usize],
    ) -> &Kernel {
        if self.facts.variants.is_empty() {
            return self;
        }
        // SAFETY: promised by the caller.
        let found = unsafe { self.find_variant(items, pointers, sizes) };
        found.map_or(self, |(_, kernel)| kernel)
    }

    /// # Safety
    /// As for [`Kernel::for_launch`].
    unsafe fn find_variant(
        &self,
        items: [u32; 3],
        pointers: &[*const c_void],
        sizes: &[usize],
    ) -> Option<&(KernelVariant, Kernel)> {
        let mut variants = self.facts.variants.iter();
        // SAFETY: promised by the caller.
        variants.find(|(variant, _)| unsafe { variant.fits(items, pointers, sizes) })
    }

    /// Returns the plugin's kernel; valid while the module is entered.
    pub(crate) fn remote(&self) -> &AnyKernel {
        &self.facts.remote
    }

    /// Returns a guard that keeps the module loaded.
    ///
    /// # Errors
    /// `Uninitialized` if the module was unloaded.
    pub(crate) fn enter(&self) -> Result<RundownGuard<'_, AnyModule, 8>> {
        self.program.core().module.enter(0).ok_or_else(unloaded)
    }

    /// Checks the size of a group against the limits of kernel and device, and against the size
    /// that the image requires.
    ///
    /// # Errors
    /// `InvalidArgument` for a dimension of 0 and for a size beyond a limit or other than the
    /// required one.
    #[inline]
    pub(crate) fn check_group(&self, items: [u32; 3]) -> Result<()> {
        let [x, y, z] = items.map(u64::from);
        let most = self.facts.most_items;
        let required = self.facts.attributes.required_group;
        let is_required = |(required, asked): (&u32, u32)| *required == 0 || *required == asked;
        // No overflow: `x * y` fits 64 bits, and `x * y * z` is computed only if `x * y` fits 32
        // bits.
        let fits = x * y <= most.min(u32::MAX.into()) && x * y * z <= most;
        if fits && x * y * z != 0 && required.iter().zip(items).all(is_required) {
            return Ok(());
        }
        Err(self.wrong_group(items))
    }

    #[cold]
    fn wrong_group(&self, items: [u32; 3]) -> Error {
        let required_group = self.attributes().required_group;
        let most = self.facts.most_items.min(u32::MAX.into());
        let expected = match (items.contains(&0), required_group) {
            (true, _) => "expected at least 1 in every dimension".to_owned(),
            (false, [0, 0, 0]) => format!("a group has at most {most} items"),
            (false, [0, ..] | [_, 0, _] | [.., 0]) => format!(
                "the image requires groups of {required_group:?}, where 0 allows any number, and a \
                 group has at most {most} items"
            ),
            (false, required) => format!(
                "the image requires groups of {required:?}, and a group has at most {most} items"
            ),
        };
        let name = self.name();
        let message = format!("kernel '{name}' with groups of {items:?} items: {expected}");
        Error::new(ErrorCode::InvalidArgument, message)
    }

    /// Checks the arguments against the image's description, if it has one. An empty list of types
    /// means unknown types.
    ///
    /// # Errors
    /// `InvalidArgument` for a wrong number or kind, `InvalidSize` for a wrong size.
    #[inline]
    pub(crate) fn check_arguments(&self, sizes: &[usize], types: &[ArgumentType]) -> Result<()> {
        let Some(declared) = &self.facts.arguments else { return Ok(()) };
        let fits = declared.len() == sizes.len()
            && declared.iter().zip(sizes).all(|((bytes, _), given)| bytes == given)
            && declared.iter().zip(types).all(|((_, expected), given)| expected.takes(*given));
        if fits { Ok(()) } else { Err(self.misfit(declared, sizes, types)) }
    }

    /// Returns the error for the first argument that does not fit, or for their number.
    #[cold]
    fn misfit(
        &self,
        declared: &[(usize, ArgumentType)],
        sizes: &[usize],
        types: &[ArgumentType],
    ) -> Error {
        let name = self.name();
        if declared.len() != sizes.len() {
            let (expected, given) = (declared.len(), sizes.len());
            let message = format!("kernel '{name}' takes {expected} arguments, {given} were given");
            return Error::new(ErrorCode::InvalidArgument, message);
        }
        let given = |index: usize| types.get(index).copied().unwrap_or(ArgumentType::UNKNOWN);
        let wrong_size = (0..declared.len()).find(|index| declared[*index].0 != sizes[*index]);
        let has_wrong_kind = |index: &usize| !declared[*index].1.takes(given(*index));
        let wrong_kind = || (0..declared.len()).find(has_wrong_kind);
        let index = wrong_size.or_else(wrong_kind).unwrap_or(0);
        let ((bytes, expected), given) = (declared[index], given(index));
        let source = match self.attributes().parameter(index) {
            Some(source) => format!(" '{source}'"),
            None => String::new(),
        };
        let describe = |argument: ArgumentType, bytes| match argument.kind() {
            None => format!("{bytes} bytes"),
            Some(_) => format!("{} ({bytes} bytes)", argument.name(bytes)),
        };
        let message = format!(
            "kernel '{name}': argument {index}{source} is declared as {}, {} given",
            describe(expected, bytes),
            match describe(given, sizes[index]) {
                given if given.ends_with(" bytes") => format!("{given} were"),
                given => format!("{given} was"),
            }
        );
        let code = match bytes == sizes[index] {
            true => ErrorCode::InvalidArgument,
            false => ErrorCode::InvalidSize,
        };
        Error::new(code, message)
    }
}

/// Returns the size in bytes and the type of each argument, if the image describes them.
fn arguments(attributes: &KernelAttributes) -> Option<Box<[(usize, ArgumentType)]>> {
    let types = attributes.argument_types.iter().copied();
    let types = types.chain(std::iter::repeat(ArgumentType::UNKNOWN));
    let sizes = attributes.argument_sizes.as_ref()?.iter().map(|bytes| *bytes as usize);
    Some(sizes.zip(types).collect())
}

/// A global variable of a program. The handle keeps the program loaded. Cloning is cheap. Any
/// thread may call the methods. LLVM: `ol_symbol_handle_t` of kind
/// `OL_SYMBOL_KIND_GLOBAL_VARIABLE`.
#[derive(Clone)]
pub struct Global {
    program: Program,
    address: GlobalAddress,
}

impl Global {
    pub(super) fn find(program: &Program, name: &str) -> Result<Global> {
        let core = program.core();
        let module = core.module.enter(0).ok_or_else(unloaded)?;
        let address = module.global(name)?;
        let device = program.device();
        device.table().insert_global(device.id(), core.id, address.address, address.bytes);
        Ok(Global { program: program.clone(), address })
    }

    /// Returns the program that this symbol belongs to.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Returns the global's address on the device.
    pub fn pointer(&self) -> DevicePointer {
        DevicePointer(self.address.address)
    }

    /// Returns the global's size in bytes.
    pub fn bytes(&self) -> u64 {
        self.address.bytes
    }

    /// Reads the global's value after all queued work of `queue`. Blocks until the value is read.
    ///
    /// # Errors
    /// `InvalidSize` if the size of the global is not that of `T`, `Uninitialized` if the program
    /// was unloaded; errors of [`Queue::synchronize`](crate::Queue::synchronize).
    pub fn read<T: Element>(&self, queue: &Queue) -> Result<T> {
        self.fits::<T>()?;
        let mut value = element::zero::<T>();
        let bytes = element::bytes_mut(std::slice::from_mut(&mut value));
        let _loaded = self.program.core().module.enter(0).ok_or_else(unloaded)?;
        queue.read_from(self.pointer(), self.program.device(), bytes)?;
        Ok(value)
    }

    /// Writes the global's value after all queued work of `queue`. Blocks until the value is
    /// written.
    ///
    /// # Errors
    /// As for [`Global::read`].
    pub fn write<T: Element>(&self, queue: &Queue, value: T) -> Result<()> {
        self.fits::<T>()?;
        let _loaded = self.program.core().module.enter(0).ok_or_else(unloaded)?;
        let bytes = element::bytes(std::slice::from_ref(&value));
        queue.write_to(self.pointer(), self.program.device(), bytes)
    }

    fn fits<T>(&self) -> Result<()> {
        if self.bytes() == size_of::<T>() as u64 {
            return Ok(());
        }
        let message =
            format!("the global has {} bytes, the value {}", self.bytes(), size_of::<T>());
        Err(Error::new(ErrorCode::InvalidSize, message))
    }
}

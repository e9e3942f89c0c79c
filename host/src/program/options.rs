//! Options of loading.

use super::variant::{KernelVariant, Variants};
use crate::jit::JitLoad;
use longshore_plugin_api::{Loading, Result};

/// Options of [`Device::load_with`](crate::Device::load_with). The defaults are the choices of
/// [`Device::load`](crate::Device::load): the whole image is linked at once and need not be
/// verified.
///
/// ```no_run
/// # fn load(device: &longshore::Device) -> longshore::Result<()> {
/// use longshore::{Image, LoadOptions};
///
/// const LAZY: LoadOptions = LoadOptions::new().with_lazy_linking(true);
/// // SAFETY: the build made kernels.a of kernels of this program.
/// let program = unsafe { device.load_with(Image::read("kernels.a")?, &LAZY)? };
/// // The first launch links the kernel.
/// let kernel = program.kernel("saxpy")?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadOptions {
    is_lazy: bool,
    must_be_verified: bool,
    optimization: Option<u32>,
    variants: Vec<KernelVariant>,
}

impl LoadOptions {
    /// Creates the options of [`Device::load`](crate::Device::load).
    pub const fn new() -> LoadOptions {
        LoadOptions {
            is_lazy: false,
            must_be_verified: false,
            optimization: None,
            variants: Vec::new(),
        }
    }

    /// Returns the options with lazy linking on or off. With lazy linking, the CPU's backend links
    /// a member of a relocatable object or an archive at the first call of one of the member's
    /// functions. Loading an archive of many kernels then takes only the time of reading its index.
    /// The first launch of a kernel links the kernel's member, before the launch is queued. Looking
    /// up a kernel links nothing; looking up a global links the member that defines it.
    ///
    /// The constructors of a member run once, in the order of their priorities, before the first of
    /// its functions. The constructors of a member that is never called do not run. Destructors of
    /// linked members run in reverse order when the program is unloaded.
    ///
    /// The option changes only the time of linking. Images of other kinds are linked at once, and
    /// so are images for a backend without lazy linking.
    #[must_use]
    pub const fn with_lazy_linking(mut self, lazy: bool) -> LoadOptions {
        self.is_lazy = lazy;
        self
    }

    /// Returns the options with verification required or not. Required verification refuses an
    /// image that the backend does not verify entirely, as
    /// [`Device::load_verified`](crate::Device::load_verified) does.
    #[must_use]
    pub const fn with_verification(mut self, required: bool) -> LoadOptions {
        self.must_be_verified = required;
        self
    }

    /// Returns the options with an optimization level, 0 to 3, for an image of LLVM bitcode. The
    /// default is `LONGSHORE_JIT_OPT_LEVEL`, else level 3. Other images are loaded as
    /// they are. Loading with a higher level fails with `InvalidValue`.
    #[must_use]
    pub const fn with_optimization(mut self, level: u32) -> LoadOptions {
        self.optimization = Some(level);
        self
    }

    /// Returns the options with a further variant of a kernel, for an image of LLVM bitcode. It is
    /// compiled with the image, and is a part of the image's key in the cache. The same variant
    /// again changes nothing.
    ///
    /// Loading fails with `NotFound` if the image has no such kernel. It fails with
    /// `InvalidArgument` for an argument that the kernel lacks, or that is of another kind. That
    /// code stands also for a group size that the kernel does not allow, and for a variant without
    /// constants. Loading fails with `InvalidSize` for an argument of another size, and with
    /// `InvalidValue` for more than [`KernelVariant::MOST`] variants. Other images are loaded as
    /// they are, without variants.
    #[must_use]
    pub fn with_variant(mut self, variant: KernelVariant) -> LoadOptions {
        if !self.variants.contains(&variant) {
            self.variants.push(variant);
        }
        self
    }

    /// Returns the variants with the names of their code.
    ///
    /// # Errors
    /// Errors of [`Variants::new`].
    pub(super) fn variants(&self) -> Result<Variants> {
        Variants::new(&self.variants)
    }

    /// Returns the options for the compiler of bitcode. `checks` adds checks of accesses.
    pub(super) fn jit(&self, variants: &Variants, checks: bool) -> JitLoad {
        JitLoad { level: self.optimization, checks, variants: variants.requests() }
    }

    pub(super) fn must_be_verified(&self) -> bool {
        self.must_be_verified
    }

    /// Returns the option in the form of the plugin interface.
    pub(super) fn loading(&self) -> Loading {
        if self.is_lazy { Loading::Lazily } else { Loading::AtOnce }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_links_at_once_without_verification() {
        assert_eq!(LoadOptions::new(), LoadOptions::default());
        assert_eq!(LoadOptions::new().loading(), Loading::AtOnce);
        assert!(!LoadOptions::new().must_be_verified());
        let both = LoadOptions::new().with_lazy_linking(true).with_verification(true);
        assert_eq!((both.loading(), both.must_be_verified()), (Loading::Lazily, true));
        let neither = both.with_lazy_linking(false).with_verification(false);
        assert_eq!(neither, LoadOptions::new());
    }
}

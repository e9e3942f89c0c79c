//! Kernels and the checks of their launches.

use crate::call::{Call, Code, Failure};
use crate::device_core::DeviceCore;
use crate::driver::Driver;
use crate::handle::{Function, Stream};
use longshore_plugin_api::{Arguments, Error, ErrorCode, KernelAttributes, LaunchShape, Result};
use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Most work-groups of a cluster on every device that has clusters.
const PORTABLE_CLUSTER: u64 = 8;
/// Most work-groups of a cluster on any device.
const MOST_CLUSTER: u64 = 16;

/// A kernel of a module.
pub struct StreamKernel<D: Driver> {
    core: Arc<KernelCore<D>>,
}

/// The data of a kernel for its launches. Not valid after its module is unloaded.
pub(crate) struct KernelCore<D: Driver> {
    function: Function,
    name: Arc<str>,
    /// The kernel's number in the list of launches in flight.
    number: u64,
    attributes: KernelAttributes,
    /// Bytes of dynamic shared memory that a launch may have at present.
    allowed_shared_bytes: AtomicU64,
    device: Arc<DeviceCore<D>>,
}

impl<D: Driver> StreamKernel<D> {
    /// Creates the kernel for a function of the driver.
    pub(crate) fn new(
        device: &Arc<DeviceCore<D>>,
        name: &str,
        function: Function,
        attributes: KernelAttributes,
    ) -> StreamKernel<D> {
        let name: Arc<str> = name.into();
        let mut attributes = attributes;
        if attributes.max_group_items == 0 {
            attributes.max_group_items = device.facts().limits.group_items;
        }
        let usual = device.facts().limits.shared_bytes;
        let core = KernelCore {
            function,
            number: device.registry().name_kernel(&name),
            name,
            allowed_shared_bytes: AtomicU64::new(
                usual.saturating_sub(attributes.static_shared_bytes),
            ),
            attributes,
            device: Arc::clone(device),
        };
        StreamKernel { core: Arc::new(core) }
    }

    /// Returns the kernel for a queue of a device.
    ///
    /// # Errors
    /// `InvalidDevice` if the kernel is of another device.
    #[inline]
    pub(crate) fn on(&self, device: &Arc<DeviceCore<D>>) -> Result<&Arc<KernelCore<D>>> {
        if Arc::ptr_eq(&self.core.device, device) {
            return Ok(&self.core);
        }
        let (name, ours) = (&self.core.name, &self.core.device.facts().name);
        let message = format!("kernel '{name}' is loaded on another device, '{ours}'");
        Err(Error::new(ErrorCode::InvalidDevice, message))
    }

    pub(crate) fn attributes(&self) -> KernelAttributes {
        self.core.attributes.clone()
    }
}

impl<D: Driver> KernelCore<D> {
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Checks that a launch of this shape with these arguments can be queued. Raises the driver's
    /// limit of dynamic shared memory if the launch needs it.
    ///
    /// # Errors
    /// `InvalidArgument` for a shape or arguments that the kernel or the device cannot have,
    /// `Unsupported` for a cooperative launch without support, and for arguments as words.
    #[inline]
    pub(crate) fn check(&self, shape: &LaunchShape, arguments: Arguments<'_>) -> Result<()> {
        shape.refuse_words()?;
        let limits = &self.device.facts().limits;
        let items = product(shape.items);
        let fits = |sizes: &[u32; 3], most: &[u32; 3]| {
            sizes.iter().zip(most).all(|(size, most)| size <= most)
        };
        let required = self.attributes.required_group;
        if items > u64::from(self.attributes.max_group_items)
            || !fits(&shape.items, &limits.items)
            || !fits(&shape.groups, &limits.groups)
            || required.iter().zip(shape.items).any(|(fixed, size)| *fixed != 0 && *fixed != size)
        {
            return Err(self.wrong_shape(shape));
        }
        if shape.dynamic_shared_bytes > self.allowed_shared_bytes.load(Ordering::Relaxed) {
            self.allow_shared(shape.dynamic_shared_bytes)?;
        }
        if shape.cooperative {
            self.check_cooperative(shape)?;
        }
        self.check_arguments(arguments)
    }

    #[cold]
    fn check_cooperative(&self, shape: &LaunchShape) -> Result<()> {
        if !self.device.facts().features.cooperative {
            let message = format!("'{}' has no cooperative launches", self.device.facts().name);
            return Err(Error::new(ErrorCode::Unsupported, message));
        }
        let most = self.most_cooperative_groups(shape.items, shape.dynamic_shared_bytes)?;
        if product(shape.groups) <= u64::from(most) {
            return Ok(());
        }
        let (name, groups) = (&self.name, shape.groups);
        let message = format!(
            "kernel '{name}': {groups:?} groups of a cooperative launch, at most {most} run at once"
        );
        Err(Error::new(ErrorCode::InvalidArgument, message))
    }

    /// Checks that the launch's work-groups can be in clusters of this size. Asks the driver for
    /// clusters above the size that every device has.
    ///
    /// # Errors
    /// `Unsupported` if the device has no clusters; `InvalidArgument` for a size that does not
    /// divide the grid or that no device has; errors of the driver.
    pub(crate) fn check_cluster(&self, shape: &LaunchShape, cluster: [u32; 3]) -> Result<()> {
        let device = &self.device;
        if !device.facts().features.clusters {
            let (name, arch) = (&device.facts().name, &device.facts().architecture);
            let message = format!("'{name}', which is {arch}, has no clusters of groups");
            return Err(Error::new(ErrorCode::Unsupported, message));
        }
        let divides = |(one, all): (&u32, u32)| *one != 0 && all.is_multiple_of(*one);
        let groups = product(cluster);
        if groups > MOST_CLUSTER || !cluster.iter().zip(shape.groups).all(divides) {
            let (name, all) = (&self.name, shape.groups);
            let message = format!(
                "kernel '{name}': clusters of {cluster:?} in a grid of {all:?} groups, expected sizes \
                 that divide the grid, and at most {MOST_CLUSTER} groups in a cluster"
            );
            return Err(Error::new(ErrorCode::InvalidArgument, message));
        }
        if groups <= PORTABLE_CLUSTER {
            return Ok(());
        }
        device.call(format_args!("allowing clusters of {cluster:?}"), |driver| {
            // SAFETY: the function is of a live module.
            unsafe { driver.allow_large_clusters(self.function) }
        })
    }

    /// Queues the kernel. The caller has checked `shape`; the context is current.
    ///
    /// # Safety
    /// `arguments` points to the addresses of values, one of the right size for each argument of
    /// the kernel, and the kernel may run with them. The stream is live and of this device.
    #[inline]
    pub(crate) unsafe fn launch(
        &self,
        shape: &LaunchShape,
        arguments: *const *const c_void,
        stream: Stream,
    ) -> Call {
        // SAFETY: the function is of a live module, as the caller uses the kernel; the rest is
        // promised by the caller.
        unsafe { self.device.driver().launch(self.function, shape, arguments, stream) }
    }

    /// Returns the error of a launch that the driver refused.
    #[cold]
    pub(crate) fn refused(&self, shape: &LaunchShape, failure: Failure) -> Error {
        let LaunchShape { groups, items, dynamic_shared_bytes, .. } = shape;
        let doing = format!(
            "launching '{}' in {groups:?} groups of {items:?} items with {dynamic_shared_bytes} bytes \
             of dynamic shared memory",
            self.name
        );
        let most = match failure.is(Code::COOPERATIVE_LAUNCH_TOO_LARGE) {
            true => self.most_cooperative_groups(*items, *dynamic_shared_bytes).ok(),
            false => None,
        };
        let error = self.device.failed(doing, failure);
        match most {
            Some(most) => error.context(format_args!("at most {most} groups can run at once")),
            None => error,
        }
    }

    /// Returns a good number of work-items in a work-group.
    ///
    /// # Errors
    /// Errors of the driver.
    pub(crate) fn optimal_group_items(&self, dynamic_shared_bytes: u64) -> Result<u32> {
        if dynamic_shared_bytes > self.allowed_shared_bytes.load(Ordering::Relaxed) {
            self.allow_shared(dynamic_shared_bytes)?;
        }
        let required = self.attributes.required_group;
        if !required.contains(&0) {
            return Ok(required.iter().product());
        }
        let mut items = 0;
        let shared = dynamic_shared_bytes as usize;
        self.device.call(
            format_args!("querying the best group size of '{}'", self.name),
            |driver| {
                // SAFETY: the function is of a live module.
                unsafe { driver.best_group_items(&mut items, self.function, shared) }
            },
        )?;
        match u32::try_from(items) {
            Ok(items) if items > 0 => Ok(items.min(self.attributes.max_group_items)),
            _ => {
                let name = &self.name;
                let message = format!(
                    "kernel '{name}' has no groups with {dynamic_shared_bytes} bytes of dynamic shared memory"
                );
                Err(Error::new(ErrorCode::InvalidArgument, message))
            }
        }
    }

    /// Returns the number of work-groups that can run at once.
    ///
    /// # Errors
    /// `InvalidArgument` for work-groups that the kernel cannot have; errors of the driver.
    pub(crate) fn most_cooperative_groups(
        &self,
        items: [u32; 3],
        dynamic_shared_bytes: u64,
    ) -> Result<u32> {
        if dynamic_shared_bytes > self.allowed_shared_bytes.load(Ordering::Relaxed) {
            self.allow_shared(dynamic_shared_bytes)?;
        }
        let items = product(items);
        if items > u64::from(self.attributes.max_group_items) {
            let (name, most) = (&self.name, self.attributes.max_group_items);
            let message =
                format!("kernel '{name}': groups of {items} items, expected at most {most}");
            return Err(Error::new(ErrorCode::InvalidArgument, message));
        }
        let mut groups = 0;
        let (items, shared) = (items as i32, dynamic_shared_bytes as usize);
        self.device.call(
            format_args!("querying the groups of '{}' that run at once", self.name),
            |driver| {
                // SAFETY: the function is of a live module.
                unsafe { driver.active_groups(&mut groups, self.function, items, shared) }
            },
        )?;
        Ok((groups.max(0) as u32).saturating_mul(self.device.facts().limits.multiprocessors))
    }

    /// Raises the driver's limit to the most dynamic shared memory of the device, if a launch needs
    /// more than the present limit. A launch states its own number of bytes.
    #[cold]
    fn allow_shared(&self, bytes: u64) -> Result<()> {
        self.check_shared(bytes)?;
        let most = self
            .device
            .facts()
            .limits
            .most_shared_bytes
            .saturating_sub(self.attributes.static_shared_bytes);
        self.device.call(
            format_args!("allowing {most} bytes of dynamic shared memory"),
            |driver| {
                // SAFETY: the function is of a live module.
                unsafe { driver.allow_shared(self.function, most) }
            },
        )?;
        self.allowed_shared_bytes.store(most, Ordering::Relaxed);
        Ok(())
    }

    fn check_shared(&self, dynamic_bytes: u64) -> Result<()> {
        let most = self.device.facts().limits.most_shared_bytes;
        let own = self.attributes.static_shared_bytes;
        if dynamic_bytes <= most.saturating_sub(own) {
            return Ok(());
        }
        let name = &self.name;
        let message = format!(
            "kernel '{name}': {dynamic_bytes} bytes of dynamic shared memory and {own} of its own, \
             expected at most {most} together"
        );
        Err(Error::new(ErrorCode::InvalidArgument, message))
    }

    fn check_arguments(&self, arguments: Arguments<'_>) -> Result<()> {
        let Some(sizes) = &self.attributes.argument_sizes else { return Ok(()) };
        let given = arguments.values().map(<[u8]>::len);
        let fits = arguments.len() == sizes.len()
            && sizes.iter().zip(given).all(|(size, given)| *size as usize == given);
        if fits {
            return Ok(());
        }
        let given: Vec<usize> = arguments.values().map(<[u8]>::len).collect();
        let name = &self.name;
        let message = format!("kernel '{name}': arguments of {given:?} bytes, expected {sizes:?}");
        Err(Error::new(ErrorCode::InvalidArgument, message))
    }

    #[cold]
    fn wrong_shape(&self, shape: &LaunchShape) -> Error {
        let limits = &self.device.facts().limits;
        let LaunchShape { groups, items, .. } = shape;
        let expected = match self.attributes.required_group {
            [0, 0, 0] => format!(
                "at most {} items in a group, {:?} in each dimension",
                self.attributes.max_group_items, limits.items
            ),
            required => format!("groups of {required:?}"),
        };
        let message = format!(
            "kernel '{}': {groups:?} groups of {items:?} items, expected {expected}, and at most {:?} groups",
            self.name, limits.groups
        );
        Error::new(ErrorCode::InvalidArgument, message)
    }
}

impl<D: Driver> Drop for KernelCore<D> {
    fn drop(&mut self) {
        self.device.registry().forget_kernel(self.number);
    }
}

#[inline]
fn product(sizes: [u32; 3]) -> u64 {
    sizes.iter().fold(1u64, |all, one| all.saturating_mul(u64::from(*one)))
}

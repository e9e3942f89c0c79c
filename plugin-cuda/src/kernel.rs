//! Kernels, and what can be launched of them.

use crate::device::DeviceCore;
use crate::driver::types::{Function, LaunchAttribute, LaunchConfig, Stream, function_attribute};
use crate::driver::{Call, CuResult, Failure};
use longshore_plugin_api::{Arguments, Error, ErrorCode, KernelAttributes, LaunchShape, Result};
use std::ffi::{c_int, c_uint, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Clusters of so many groups every device has that has any.
const PORTABLE_CLUSTER: u64 = 8;
/// No device has clusters of more.
const MOST_CLUSTER: u64 = 16;

/// A kernel of a module.
pub struct CudaKernel {
    core: Arc<KernelCore>,
}

/// What a launch needs to know of a kernel. Not to be used when its module is gone.
pub(crate) struct KernelCore {
    function: Function,
    name: Arc<str>,
    /// For the list of what is in flight.
    number: u64,
    argument_sizes: Option<Vec<u32>>,
    required_group: [u32; 3],
    group_items: u32,
    registers: u32,
    private_bytes: u64,
    static_shared_bytes: u64,
    /// Dynamic shared memory that a launch may ask for by now.
    allowed_shared_bytes: AtomicU64,
    device: Arc<DeviceCore>,
}

impl CudaKernel {
    /// The kernel behind a function of the driver. `of_image` is what its image says of it.
    ///
    /// # Errors
    /// Those of the driver.
    pub(crate) fn new(
        device: &Arc<DeviceCore>,
        name: &str,
        function: Function,
        of_image: Option<&longshore_cuda_image::Kernel>,
    ) -> Result<CudaKernel> {
        let doing = format!("asking about kernel '{name}'");
        let attribute = |which| -> Result<u64> {
            let mut value = 0;
            device.call(&doing, |driver| {
                // SAFETY: the output is ours, the function of a live module.
                unsafe { driver.cuFuncGetAttribute(&mut value, which, function) }
            })?;
            Ok(value.max(0) as u64)
        };
        let name: Arc<str> = name.into();
        let static_shared_bytes = attribute(function_attribute::SHARED_SIZE_BYTES)?;
        let usual = device.physical.limits.shared_bytes.saturating_sub(static_shared_bytes);
        let argument_sizes = of_image.map(|kernel| kernel.argument_sizes.clone());
        let core = KernelCore {
            function,
            number: device.registry.name_kernel(&name),
            name,
            argument_sizes: argument_sizes.or_else(|| parameters(device, function)),
            required_group: of_image.and_then(|kernel| kernel.required_group).unwrap_or_default(),
            group_items: attribute(function_attribute::MAX_THREADS_PER_BLOCK)? as u32,
            registers: attribute(function_attribute::NUM_REGS)? as u32,
            private_bytes: attribute(function_attribute::LOCAL_SIZE_BYTES)?,
            static_shared_bytes,
            allowed_shared_bytes: AtomicU64::new(usual),
            device: Arc::clone(device),
        };
        Ok(CudaKernel { core: Arc::new(core) })
    }

    /// The kernel, for a queue of a device.
    ///
    /// # Errors
    /// `InvalidDevice` if it is of another one.
    #[inline]
    pub(crate) fn on(&self, device: &Arc<DeviceCore>) -> Result<&Arc<KernelCore>> {
        if Arc::ptr_eq(&self.core.device, device) {
            return Ok(&self.core);
        }
        let (name, ours) = (&self.core.name, &self.core.device.physical.name);
        let message = format!("kernel '{name}' is loaded on another device, '{ours}'");
        Err(Error::new(ErrorCode::InvalidDevice, message))
    }

    pub(crate) fn attributes(&self) -> KernelAttributes {
        let core = &self.core;
        KernelAttributes {
            argument_sizes: core.argument_sizes.clone(),
            max_group_items: core.group_items,
            static_shared_bytes: core.static_shared_bytes,
            private_bytes: core.private_bytes,
            registers: core.registers,
            required_group: core.required_group,
            ..KernelAttributes::default()
        }
    }
}

impl KernelCore {
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Whether a launch of this shape with these arguments can be queued. Asks the driver for more
    /// dynamic shared memory than is usual.
    ///
    /// # Errors
    /// `InvalidArgument` for what the kernel or the device cannot have, `Unsupported` for a
    /// cooperative launch without support.
    #[inline]
    pub(crate) fn check(&self, shape: &LaunchShape, arguments: Arguments<'_>) -> Result<()> {
        let limits = &self.device.physical.limits;
        let items = product(shape.items);
        let fits = |sizes: &[u32; 3], most: &[u32; 3]| {
            sizes.iter().zip(most).all(|(size, most)| size <= most)
        };
        let required = self.required_group;
        if items > u64::from(self.group_items)
            || !fits(&shape.items, &limits.items)
            || !fits(&shape.groups, &limits.groups)
            || (required != [0; 3] && required != shape.items)
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
        if !self.device.physical.features.cooperative {
            let message = format!("'{}' has no cooperative launches", self.device.physical.name);
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

    /// Whether its groups can be in clusters of this size. Asks the driver for larger clusters than all
    /// devices have.
    ///
    /// # Errors
    /// `Unsupported` if the device has none; `InvalidArgument` for a size that does not divide the groups
    /// or that no device has; those of the driver.
    pub(crate) fn check_cluster(&self, shape: &LaunchShape, cluster: [u32; 3]) -> Result<()> {
        let device = &self.device;
        if !device.physical.features.clusters {
            let (name, arch) = (&device.physical.name, device.physical.arch);
            let message =
                format!("'{name}' has no clusters of groups: it is {arch}, they came with sm_90");
            return Err(Error::new(ErrorCode::Unsupported, message));
        }
        let divides = |(one, all): (&u32, u32)| *one != 0 && all.is_multiple_of(*one);
        let groups = product(cluster);
        if groups > MOST_CLUSTER || !cluster.iter().zip(shape.groups).all(divides) {
            let (name, all) = (&self.name, shape.groups);
            let message = format!(
                "kernel '{name}': clusters of {cluster:?} of {all:?} groups, expected such as divide \
                 them, of at most {MOST_CLUSTER}"
            );
            return Err(Error::new(ErrorCode::InvalidArgument, message));
        }
        if groups <= PORTABLE_CLUSTER {
            return Ok(());
        }
        device.call(format_args!("asking for clusters of {cluster:?}"), |driver| {
            let which = function_attribute::NON_PORTABLE_CLUSTER_SIZE_ALLOWED;
            // SAFETY: the function is of a live module.
            unsafe { driver.cuFuncSetAttribute(self.function, which, 1) }
        })
    }

    /// Queues the kernel. `shape` was checked; the context is current.
    ///
    /// # Safety
    /// `arguments` points to the addresses of as many values as the kernel has arguments, of their
    /// sizes; the kernel may be run with them. The stream is live and of this device.
    #[inline]
    pub(crate) unsafe fn launch(
        &self,
        shape: &LaunchShape,
        cluster: Option<[u32; 3]>,
        arguments: *const *const c_void,
        stream: Stream,
    ) -> Call {
        let ([gx, gy, gz], [x, y, z]) = (shape.groups, shape.items);
        let (driver, shared) = (self.device.driver(), shape.dynamic_shared_bytes as c_uint);
        let (arguments, none) = (arguments.cast_mut().cast::<*mut c_void>(), std::ptr::null_mut());
        if shape.cooperative || cluster.is_some() {
            // SAFETY: promised by the caller.
            return unsafe { self.launch_with(shape, cluster, arguments, stream) };
        }
        // SAFETY: the function is of a live module, as the caller uses the kernel; the rest is
        // promised by the caller.
        unsafe {
            driver.cuLaunchKernel(
                self.function,
                gx,
                gy,
                gz,
                x,
                y,
                z,
                shared,
                stream,
                arguments,
                none,
            )
        }
    }

    /// # Safety
    /// As for [`KernelCore::launch`].
    unsafe fn launch_with(
        &self,
        shape: &LaunchShape,
        cluster: Option<[u32; 3]>,
        arguments: *mut *mut c_void,
        stream: Stream,
    ) -> Call {
        let ([gx, gy, gz], [x, y, z]) = (shape.groups, shape.items);
        let (driver, shared) = (self.device.driver(), shape.dynamic_shared_bytes as c_uint);
        if cluster.is_none() {
            // SAFETY: promised by the caller.
            return unsafe {
                driver.cuLaunchCooperativeKernel(
                    self.function,
                    gx,
                    gy,
                    gz,
                    x,
                    y,
                    z,
                    shared,
                    stream,
                    arguments,
                )
            };
        }
        let cooperative =
            shape.cooperative.then(|| LaunchAttribute::new(LaunchAttribute::COOPERATIVE, &[1]));
        let cluster = cluster.map(|sizes| LaunchAttribute::new(LaunchAttribute::CLUSTER, &sizes));
        let attributes: Vec<_> = cooperative.into_iter().chain(cluster).collect();
        let config = LaunchConfig {
            groups: shape.groups,
            items: shape.items,
            shared_bytes: shared,
            stream,
            attributes: attributes.as_ptr(),
            attribute_count: attributes.len() as c_uint,
        };
        // SAFETY: promised by the caller; the structure and its attributes live during the call.
        unsafe { driver.cuLaunchKernelEx(&config, self.function, arguments, std::ptr::null_mut()) }
    }

    /// The error of a launch that the driver refused.
    #[cold]
    pub(crate) fn refused(&self, shape: &LaunchShape, failure: Failure) -> Error {
        let LaunchShape { groups, items, dynamic_shared_bytes, .. } = shape;
        let doing = format!(
            "launching '{}' in {groups:?} groups of {items:?} items with {dynamic_shared_bytes} bytes \
             of dynamic shared memory",
            self.name
        );
        let most = match failure.is(CuResult::COOPERATIVE_LAUNCH_TOO_LARGE) {
            true => self.most_cooperative_groups(*items, *dynamic_shared_bytes).ok(),
            false => None,
        };
        let error = self.device.failed(doing, failure);
        match most {
            Some(most) => error.context(format_args!("at most {most} groups can run at once")),
            None => error,
        }
    }

    /// A good number of items in a group.
    ///
    /// # Errors
    /// Those of the driver.
    pub(crate) fn optimal_group_items(&self, dynamic_shared_bytes: u64) -> Result<u32> {
        if dynamic_shared_bytes > self.allowed_shared_bytes.load(Ordering::Relaxed) {
            self.allow_shared(dynamic_shared_bytes)?;
        }
        let required = self.required_group;
        if required != [0; 3] {
            return Ok(required.iter().product());
        }
        let (mut groups, mut items) = (0, 0);
        let shared = dynamic_shared_bytes as usize;
        self.device.call(
            format_args!("asking for the best group size of '{}'", self.name),
            |driver| {
                // SAFETY: the outputs are ours, the function is of a live module.
                unsafe {
                    driver.cuOccupancyMaxPotentialBlockSize(
                        &mut groups,
                        &mut items,
                        self.function,
                        None,
                        shared,
                        0,
                    )
                }
            },
        )?;
        match u32::try_from(items) {
            Ok(items) if items > 0 => Ok(items.min(self.group_items)),
            _ => {
                let name = &self.name;
                let message = format!(
                    "kernel '{name}' has no groups with {dynamic_shared_bytes} bytes of dynamic shared memory"
                );
                Err(Error::new(ErrorCode::InvalidArgument, message))
            }
        }
    }

    /// How many groups can run at once.
    ///
    /// # Errors
    /// `InvalidArgument` for groups that the kernel cannot have; those of the driver.
    pub(crate) fn most_cooperative_groups(
        &self,
        items: [u32; 3],
        dynamic_shared_bytes: u64,
    ) -> Result<u32> {
        if dynamic_shared_bytes > self.allowed_shared_bytes.load(Ordering::Relaxed) {
            self.allow_shared(dynamic_shared_bytes)?;
        }
        let items = product(items);
        if items > u64::from(self.group_items) {
            let (name, most) = (&self.name, self.group_items);
            let message =
                format!("kernel '{name}': groups of {items} items, expected at most {most}");
            return Err(Error::new(ErrorCode::InvalidArgument, message));
        }
        let mut groups = 0;
        let (items, shared) = (items as c_int, dynamic_shared_bytes as usize);
        self.device.call(
            format_args!("asking how many groups of '{}' run at once", self.name),
            |driver| {
                // SAFETY: the output is ours, the function is of a live module.
                unsafe {
                    driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(
                        &mut groups,
                        self.function,
                        items,
                        shared,
                    )
                }
            },
        )?;
        Ok((groups.max(0) as u32).saturating_mul(self.device.physical.limits.multiprocessors))
    }

    /// Asks for as much dynamic shared memory as there can be, if more is wanted than every kernel may
    /// have. How much a launch has, it says itself.
    #[cold]
    fn allow_shared(&self, bytes: u64) -> Result<()> {
        self.check_shared(bytes)?;
        let most =
            self.device.physical.limits.most_shared_bytes.saturating_sub(self.static_shared_bytes);
        self.device.call(format_args!("asking for {most} bytes of shared memory"), |driver| {
            let which = function_attribute::MAX_DYNAMIC_SHARED_SIZE_BYTES;
            // SAFETY: the function is of a live module.
            unsafe { driver.cuFuncSetAttribute(self.function, which, most as c_int) }
        })?;
        self.allowed_shared_bytes.store(most, Ordering::Relaxed);
        Ok(())
    }

    fn check_shared(&self, dynamic_bytes: u64) -> Result<()> {
        let most = self.device.physical.limits.most_shared_bytes;
        let own = self.static_shared_bytes;
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
        let Some(sizes) = &self.argument_sizes else { return Ok(()) };
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
        let limits = &self.device.physical.limits;
        let LaunchShape { groups, items, .. } = shape;
        let expected = match self.required_group {
            [0, 0, 0] => format!(
                "at most {} items in a group, {:?} in each dimension",
                self.group_items, limits.items
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

impl Drop for KernelCore {
    fn drop(&mut self) {
        self.device.registry.forget_kernel(self.number);
    }
}

#[inline]
fn product(sizes: [u32; 3]) -> u64 {
    sizes.iter().fold(1u64, |all, one| all.saturating_mul(u64::from(*one)))
}

/// The sizes of the arguments, of a driver that tells them.
fn parameters(device: &DeviceCore, function: Function) -> Option<Vec<u32>> {
    let mut sizes = Vec::new();
    let _current = device.enter().ok()?;
    loop {
        let (mut offset, mut bytes) = (0, 0);
        // SAFETY: the outputs are ours, the function is of a live module.
        let asked = unsafe {
            device.driver().cuFuncGetParamInfo(function, sizes.len(), &mut offset, &mut bytes)
        };
        match asked {
            Ok(()) => sizes.push(u32::try_from(bytes).ok()?),
            Err(failure) if failure.is(CuResult::INVALID_VALUE) => return Some(sizes),
            Err(_) => return None,
        }
    }
}

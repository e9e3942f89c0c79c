//! Preparation of a loaded image: variables that its device runtime reads.

use super::environment::{self, DEVICE_ENVIRONMENT, DeviceEnvironment};
use super::indirect::IndirectCalls;
use super::limits::Gpu;
use super::rpc;
use crate::device::OmpDevice;
use crate::library::Library;
use crate::runtime;
use longshore::{Allocation, MemoryKind, Program, Queue, Result};

/// Name of the variable with the memory pool for `malloc` of AMD's device runtime.
const POOL: &str = "__omp_rtl_device_memory_pool";
/// Name of the variable with the pool's counters.
const POOL_TRACKER: &str = "__omp_rtl_device_memory_pool_tracker";
const POOL_ALIGNMENT: u64 = 256;

/// Device memory and services of a loaded image. They end with the image.
pub(crate) struct GpuImage {
    /// Ended first: device code of the image may still call.
    _rpc: Option<rpc::Server>,
    _indirect: IndirectCalls,
    _pool: Option<Allocation>,
}

impl GpuImage {
    /// Prepares an image. No kernel or constructor of the image has run. Blocks.
    ///
    /// # Errors
    /// Errors of the driver; a function in the table of indirect calls that the image lacks.
    pub(crate) fn prepare(
        device: &OmpDevice,
        gpu: &Gpu,
        library: &Library,
        program: &Program,
    ) -> Result<GpuImage> {
        let queue = device.device.queue()?;
        let indirect = IndirectCalls::new(&device.device, &queue, program, &library.entries)?;
        let contents = DeviceEnvironment {
            debug_kinds: gpu.debug_kinds,
            device_count: runtime::devices().len() as u32,
            device_number: device.number as u32,
            group_bytes: gpu.group_bytes,
            clock_rate: gpu.clock_rate,
            indirect_calls: indirect.address(),
            indirect_call_count: indirect.count,
            parallelism: gpu.parallelism,
        };
        for name in DEVICE_ENVIRONMENT {
            environment::write_if_found(program, &queue, name, &contents.to_bytes(usize::MAX))?;
        }
        let pool = make_pool(device, gpu, program, &queue)?;
        let rpc = rpc::Server::start(device, gpu, program, &queue)?;
        Ok(GpuImage { _rpc: rpc, _indirect: indirect, _pool: pool })
    }
}

/// Makes the memory pool of an image that wants one. Without memory, the image's `malloc` fails.
/// LLVM: `setupDeviceMemoryPool`.
fn make_pool(
    device: &OmpDevice,
    gpu: &Gpu,
    program: &Program,
    queue: &Queue,
) -> Result<Option<Allocation>> {
    let words =
        |words: &[u64]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>();
    // The least allocation so far begins with the greatest number of 32 bits.
    let counters = words(&[0, 0, u64::from(u32::MAX), 0]);
    environment::write_if_found(program, queue, POOL_TRACKER, &counters)?;
    if gpu.pool_bytes == 0 || environment::find(program, POOL)?.is_none() {
        return Ok(None);
    }
    let pool = match device.device.allocate(MemoryKind::Device, gpu.pool_bytes, POOL_ALIGNMENT) {
        Ok(pool) => pool,
        Err(error) => {
            log::warn!("no memory pool for `malloc` in kernels: {error}");
            return Ok(None);
        }
    };
    let contents = words(&[pool.pointer().address(), pool.bytes()]);
    environment::write_if_found(program, queue, POOL, &contents)?;
    Ok(Some(pool))
}

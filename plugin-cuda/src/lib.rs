//! # The CUDA backend of Longshore
//!
//! Makes NVIDIA GPUs Longshore devices through CUDA's driver interface. The driver, `libcuda.so.1`, is
//! found at run time; without it, or without a device, the backend says so and stays out of the way.
//!
//! The types, in the order in which a program meets them:
//!
//! - [`CudaPlatform`]: the driver (`driver/`) and its devices (`physical.rs`).
//! - [`CudaDevice`]: a primary context (`context.rs`), and memory (`memory.rs`).
//! - [`CudaModule`]: PTX, a cubin, a fatbin, or relocatable objects that the driver links (`jit.rs`), and its
//!   [`CudaKernel`]s. What an image says of itself is read by `longshore-cuda-image`.
//! - [`CudaQueue`]: a stream. `line.rs` keeps the order between what the stream does and what a thread
//!   of the host must do, as `step.rs` says; `transfer.rs` copies and fills.
//! - [`CudaEvent`]: a place in a queue.
//!
//! **Choices.** Work goes straight to the driver, with no lock and no allocation, as long as nothing in
//! the queue needs the host. The driver's own host functions may not call CUDA, and one that waits
//! holds up those of all streams; so functions of the program, and copies that would block the caller,
//! run on a thread of the queue, and what is queued behind them is kept until they are done. A stream
//! never waits for the host, so queues cannot block each other.
//!
//! Start reading at [`CudaQueue`], then `line.rs`.

mod context;
mod device;
mod driver;
mod error;
mod event;
mod image;
mod in_flight;
mod jit;
mod kernel;
mod line;
mod memory;
mod module;
mod physical;
mod platform;
mod queue;
mod settings;
mod step;
mod transfer;

pub use device::CudaDevice;
pub use event::CudaEvent;
pub use kernel::CudaKernel;
pub use module::CudaModule;
pub use platform::CudaPlatform;
pub use queue::CudaQueue;

use longshore_plugin_api::{
    Backend, Connected, Description, Plugin, Result, Services, export_plugin,
};
use settings::Settings;

/// The CUDA backend.
pub struct CudaBackend;

impl Backend for CudaBackend {
    type Platform = CudaPlatform;
    type Device = CudaDevice;
    type Module = CudaModule;
    type Kernel = CudaKernel;
    type Queue = CudaQueue;
    type Event = CudaEvent;
}

impl Plugin for CudaBackend {
    const DESCRIPTION: Description = Description {
        backend: "cuda",
        name: "Longshore CUDA backend",
        version: env!("CARGO_PKG_VERSION"),
        vendor: "Longshore",
        image_formats: "cubin,ptx,fatbin",
        driver: "libcuda.so.1",
        unloadable: false,
    };

    fn connect(services: Services) -> Result<Connected<CudaPlatform>> {
        CudaPlatform::connect(Settings::read(|name| services.setting(name))?)
    }
}

export_plugin!(CudaBackend);

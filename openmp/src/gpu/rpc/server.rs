//! The thread that answers calls of an image's kernels.

use super::layout::{Layout, MOST_PORTS, Process};
use super::memory::{DeviceMemory, Heap};
use super::port::{Broken, Port};
use super::serve::Answers;
use super::streams::Streams;
use super::users::Users;
use crate::device::OmpDevice;
use crate::gpu::environment;
use crate::gpu::limits::Gpu;
use crate::message;
use longshore::{Allocation, MemoryKind, Program, Queue, Result};
use std::cell::UnsafeCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Names of the client's variable: LLVM 20 and newer, and LLVM 19, whose variable is a pointer.
const CLIENTS: [&str; 2] = ["__llvm_rpc_client", "__llvm_libc_rpc_client"];
const POINTER_BYTES: u64 = 8;
const ALIGNMENT: u64 = 64;
/// Time without a call after which the thread sleeps between looks.
const BUSY: Duration = Duration::from_micros(25);
const PAUSE: Duration = Duration::from_micros(250);

/// A server of an image whose device code calls the host. Ends its thread when dropped.
pub(crate) struct Server {
    _running: Running,
    /// The buffer, which the thread uses; freed last.
    _buffer: Allocation,
}

/// The thread of a server. Ends when dropped.
pub(super) struct Running {
    thread: Option<JoinHandle<()>>,
    shared: Arc<Shared>,
}

struct Shared {
    process: UnsafeCell<Process>,
    layout: Layout,
    answers: Answers,
    users: Arc<Users>,
    stop: AtomicBool,
}

// SAFETY: the process's pointers lead into the buffer, which outlives the thread. Words of the
// buffer that both sides write are atomic or volatile.
unsafe impl Send for Shared {}
// SAFETY: as above; one thread alone serves ports.
unsafe impl Sync for Shared {}

impl Server {
    /// Starts a server if the image has a client. No kernel of the image has run. Blocks.
    ///
    /// # Errors
    /// Errors of the driver.
    pub(crate) fn start(
        device: &OmpDevice,
        gpu: &Gpu,
        program: &Program,
        queue: &Queue,
    ) -> Result<Option<Server>> {
        let found = CLIENTS.iter().map(|name| environment::find(program, name));
        let Some(client) = found.filter_map(Result::transpose).next().transpose()? else {
            return Ok(None);
        };
        if gpu.is_isolated {
            log::warn!("kernels of an isolated plugin cannot print, allocate or call the host");
            return Ok(None);
        }
        let ports = gpu.parallelism.clamp(1, u64::from(MOST_PORTS)) as u32;
        let layout = Layout { ports, lanes: gpu.limits.warp };
        let buffer = device.device.allocate(MemoryKind::Host, layout.bytes(), ALIGNMENT)?;
        let address = buffer.pointer().address();
        // SAFETY: page-locked memory of a plugin in this process is the host's at its address.
        unsafe { std::ptr::write_bytes(address as *mut u8, 0, layout.bytes() as usize) };
        let place = match client.bytes() {
            POINTER_BYTES => {
                let pointer = environment::read(queue, &client)?;
                u64::from_le_bytes(pointer.try_into().expect("the pointer was read in whole"))
            }
            _ => client.pointer().address(),
        };
        environment::write_at(queue, place, &layout.client(address))?;
        let memory = Box::new(Heap::new(device.device.clone()));
        // SAFETY: the buffer has the layout's size, begins with zeros, and is kept in the server.
        let running = unsafe { Running::start(layout, address as *mut u8, memory, &gpu.users) };
        Ok(Some(Server { _running: running, _buffer: buffer }))
    }
}

impl Running {
    /// Starts the thread of a server.
    ///
    /// # Safety
    /// The buffer has the size of the layout, begins with zeros, and outlives the result.
    pub(super) unsafe fn start(
        layout: Layout,
        buffer: *mut u8,
        memory: Box<dyn DeviceMemory>,
        users: &Arc<Users>,
    ) -> Running {
        users.add_server();
        let shared = Arc::new(Shared {
            process: UnsafeCell::new(layout.server(buffer)),
            layout,
            answers: Answers { memory, streams: Streams::default() },
            users: Arc::clone(users),
            stop: AtomicBool::new(false),
        });
        let served = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("longshore-rpc".to_owned());
        let thread = thread.spawn(move || served.run()).ok();
        if thread.is_none() {
            log::error!("no thread for calls of kernels can be started");
        }
        Running { thread, shared }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.shared.users.remove_server();
        self.shared.stop.store(true, Ordering::Release);
        self.shared.users.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    /// Answers calls while launches are under way, and sleeps otherwise.
    fn run(&self) {
        let mut broken = vec![false; self.layout.ports as usize];
        while self.users.wait(&self.stop) {
            let mut last = Instant::now();
            while !self.stop.load(Ordering::Relaxed) {
                let was_busy = self.users.is_busy();
                if self.look(&mut broken) {
                    last = Instant::now();
                } else if !was_busy {
                    // All calls of the launches that have ended are answered.
                    break;
                } else if last.elapsed() < BUSY {
                    std::hint::spin_loop();
                } else {
                    std::thread::sleep(PAUSE);
                }
            }
        }
    }

    /// Answers the calls of all ports once, and returns whether there was one.
    fn look(&self, broken: &mut [bool]) -> bool {
        let mut has_answered = false;
        for index in 0..self.layout.ports {
            if broken[index as usize] {
                continue;
            }
            let (process, lanes) = (self.process.get(), self.layout.lanes);
            // SAFETY: the process describes the buffer; this thread alone serves it.
            let port = unsafe { Port::open(process, lanes, index, &self.stop) };
            let Some(port) = port else { continue };
            has_answered = true;
            if self.answers.answer(port) == Err(Broken::TooLong) {
                message::error(format_args!("a kernel's call to the host is too long"));
                broken[index as usize] = true;
            }
        }
        has_answered
    }
}

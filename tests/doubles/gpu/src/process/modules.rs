//! Twins in memory, and launches of their kernels.

use super::counters;
use longshore_double_gpu::protocol::{Fault, FaultKind, Launch, Reply, Symbol};
use longshore_plugin_api::{
    Arguments, Device, Error, ErrorCode, ImageBytes, LaunchShape, Loading, Module, Queue,
};
use longshore_plugin_host::{HostDevice, HostKernel, HostModule, HostQueue};
use object::read::elf::ElfFile64;
use object::{LittleEndian, Object, ObjectSymbol};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The loaded modules, by the numbers that the driver gave them.
#[derive(Default)]
pub(super) struct Modules {
    loaded: Mutex<HashMap<u64, Arc<Twin>>>,
}

/// A twin in memory.
struct Twin {
    /// Dropped before the bytes in `object`, which it refers to.
    module: HostModule,
    object: Box<[u8]>,
    /// Whether the constructors, if there are any, have run.
    is_begun: AtomicBool,
    kernels: Mutex<HashMap<String, Arc<HostKernel>>>,
    /// Names of all functions.
    functions: HashMap<u64, String>,
}

impl Modules {
    pub(super) fn load(&self, device: &HostDevice, number: u64, object: Vec<u8>) -> Reply {
        let twin = Twin::load(device, object.into()).map_err(refusal)?;
        self.loaded.lock().insert(number, Arc::new(twin));
        Ok(Vec::new())
    }

    pub(super) fn unload(&self, number: u64) -> Reply {
        self.loaded.lock().remove(&number);
        Ok(Vec::new())
    }

    /// Looks up a name. In names of NVIDIA's assembly, `_$_` replaces characters that are not
    /// allowed.
    pub(super) fn find(&self, module: u64, name: &str) -> Reply {
        let twin = self.get(module)?;
        let found = twin.symbol(name).or_else(|| twin.symbol(&name.replace("_$_", ".")));
        Ok(found.map(|symbol| symbol.encode()).unwrap_or_default())
    }

    /// Returns the profile's counters of a function.
    pub(super) fn counters(&self, module: u64, function: u64) -> Reply {
        let twin = self.get(module)?;
        let found = counters::find(&twin.module, function);
        Ok(found.map(|symbol| symbol.encode()).unwrap_or_default())
    }

    /// Runs a kernel. Blocks until it ends.
    pub(super) fn launch(&self, queue: &HostQueue, launch: &Launch) -> Reply {
        let twin = self.get(launch.module)?;
        let kernel = twin.kernel(&launch.kernel).map_err(refusal)?;
        let shape = LaunchShape::new(launch.groups, launch.items)
            .with_dynamic_shared_bytes(launch.shared_bytes)
            .with_cooperative(launch.cooperative)
            .with_wait(true);
        let arguments = &launch.arguments;
        let pointers: Vec<*const c_void> =
            arguments.iter().map(|value| value.as_ptr().cast()).collect();
        let sizes: Vec<usize> = arguments.iter().map(Vec::len).collect();
        // SAFETY: both arrays have an entry for each value, and this function waits for the launch.
        // A kernel may do anything with its values; the GPU process exists to contain that.
        let arguments =
            unsafe { Arguments::from_raw(pointers.as_ptr(), sizes.as_ptr(), sizes.len()) };
        queue.launch(&kernel, &shape, arguments).map_err(fault)?;
        Ok(Vec::new())
    }

    /// Runs constructors, or destructors. Blocks until they end. A failure status that such code
    /// sets is no fault.
    pub(super) fn life(&self, module: u64, ends: bool) -> Reply {
        let twin = self.get(module)?;
        if ends && !twin.is_begun.swap(true, Ordering::Relaxed) {
            // A twin whose constructors never ran cannot run its destructors alone.
            if memchr::memmem::find(&twin.object, b".init_array").is_some() {
                return Ok(Vec::new());
            }
            // Destructors need constructors that ran before.
            ended(twin.module.run_constructors())?;
        }
        twin.is_begun.store(true, Ordering::Relaxed);
        ended(match ends {
            false => twin.module.run_constructors(),
            true => twin.module.run_destructors(),
        })
    }

    /// Calls functions without arguments. Blocks until they return.
    pub(super) fn call(&self, queue: &HostQueue, module: u64, functions: &[u64]) -> Reply {
        let twin = self.get(module)?;
        for address in functions {
            let name = twin.functions.get(address).ok_or_else(|| Fault {
                kind: FaultKind::Address,
                message: format!("a kernel calls {address:#x}, which is no function of the module"),
            })?;
            let launch = Launch {
                module,
                kernel: name.clone(),
                groups: [1; 3],
                items: [1; 3],
                ..Launch::default()
            };
            self.launch(queue, &launch)?;
        }
        Ok(Vec::new())
    }

    fn get(&self, module: u64) -> Result<Arc<Twin>, Fault> {
        let found = self.loaded.lock().get(&module).map(Arc::clone);
        found.ok_or_else(|| Fault::refused(format!("there is no module {module}")))
    }
}

/// Returns the names of all functions of an object, kernels or not.
fn functions_of(object: &[u8]) -> Vec<String> {
    let Ok(file) = ElfFile64::<LittleEndian>::parse(object) else { return Vec::new() };
    let functions = file.symbols().filter(|symbol| symbol.kind() == object::SymbolKind::Text);
    functions.filter_map(|symbol| Some(symbol.name().ok()?.to_owned())).collect()
}

impl Twin {
    fn load(device: &HostDevice, object: Box<[u8]>) -> Result<Twin, Error> {
        // SAFETY: the bytes are on the heap and dropped after the module.
        let module = device.load(unsafe { ImageBytes::new(&object) }, Loading::AtOnce)?;
        let mut functions = HashMap::new();
        for name in functions_of(&object) {
            if let Ok((_, attributes)) = module.kernel(&name) {
                functions.insert(attributes.address, name);
            }
        }
        Ok(Twin {
            module,
            object,
            is_begun: AtomicBool::new(false),
            kernels: Mutex::default(),
            functions,
        })
    }

    fn symbol(&self, name: &str) -> Option<Symbol> {
        if let Ok(global) = self.module.global(name) {
            let (address, bytes) = (global.address, global.bytes);
            return Some(Symbol { address, bytes, is_function: false });
        }
        let (_, attributes) = self.module.kernel(name).ok()?;
        let (address, bytes) = (attributes.address, attributes.code_bytes);
        Some(Symbol { address, bytes, is_function: true })
    }

    fn kernel(&self, name: &str) -> Result<Arc<HostKernel>, Error> {
        if let Some(kernel) = self.kernels.lock().get(name) {
            return Ok(Arc::clone(kernel));
        }
        let (kernel, _) = self.module.kernel(name)?;
        self.kernels.lock().insert(name.to_owned(), Arc::clone(&kernel));
        Ok(kernel)
    }
}

fn refusal(error: Error) -> Fault {
    Fault::refused(error.to_string())
}

/// Converts the outcome of constructors or destructors. They have run even if a status variable
/// reports a failure.
fn ended(result: Result<(), Error>) -> Reply {
    match result {
        Err(error) if !error.message().contains("tor_status is ") => Err(fault(error)),
        _ => Ok(Vec::new()),
    }
}

/// Classifies a kernel's failure. The message of an assertion ends with its place in the source.
fn fault(error: Error) -> Fault {
    let is_place = |text: &str| text.ends_with(')') && text.contains(" (") && text.contains(':');
    let kind = match error.vendor().map(|vendor| vendor.name.as_str()) {
        Some("SIGSEGV" | "SIGBUS") => FaultKind::Address,
        Some("SIGILL" | "SIGTRAP") => FaultKind::Instruction,
        None if error.code() != ErrorCode::BackendFailure => FaultKind::Refused,
        None if is_place(error.message()) => FaultKind::Assertion,
        _ => FaultKind::Other,
    };
    Fault { kind, message: error.to_string() }
}

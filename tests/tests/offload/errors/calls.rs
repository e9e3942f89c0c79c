//! A call of each function that succeeds, and what is to be done after it.

use crate::errors::functions::Function;
use crate::errors::table::Mode;
use crate::errors::world::{BYTES, World, made, ok};
use longshore_capi::*;
use std::any::Any;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};

/// A function with its arguments.
pub(crate) struct Call {
    pub(crate) function: &'static Function,
    pub(crate) words: Vec<usize>,
    /// What they point to.
    keep: Vec<Box<dyn Any>>,
}

/// What a launch's arguments point to.
pub(crate) struct LaunchArguments {
    pub(crate) values: [usize; 3],
    pub(crate) pointers: [usize; 3],
    pub(crate) sizes: [usize; 3],
}

/// What lets go of a queue that [`hold`] holds.
static LET_GO: AtomicBool = AtomicBool::new(true);

impl Call {
    /// Returns the call that succeeds.
    pub(crate) fn valid(world: &World, function: &'static Function) -> Call {
        let mut call = Call { function, words: Vec::new(), keep: Vec::new() };
        call.words = call.arguments(world);
        call
    }

    /// Replaces an argument.
    pub(crate) fn set(&mut self, parameter: &str, word: usize) {
        self.words[self.function.position(parameter)] = word;
    }

    /// Has a value live as long as the call, and answers where.
    pub(crate) fn keep<T: 'static>(&mut self, value: T) -> usize {
        let value = Box::new(value);
        let address = &raw const *value as usize;
        self.keep.push(value);
        address
    }

    fn arguments(&mut self, world: &World) -> Vec<usize> {
        let first = world.first();
        let (objects, room) = (first.objects, world.room());
        let device = objects.device;
        let here = world.here.as_ptr() as usize;
        match self.function.name {
            "olGetPlatformInfo" => vec![objects.platform, 0, 256, room],
            "olGetPlatformInfoSize" => vec![objects.platform, 0, room],
            "olPlatformRegisterRPCCallback" => vec![objects.platform, serve as *const () as usize],
            "olIterateDevices" => vec![each as *const () as usize, room],
            "olGetDeviceInfo" => vec![device, 0, 256, room],
            "olGetDeviceInfoSize" => vec![device, 0, room],
            "olMemAlloc" => vec![device, 1, BYTES, room],
            "olMemAllocAligned" => vec![device, 1, BYTES, 128, room],
            "olMemFree" => vec![made("olMemAlloc", &[device, 1, BYTES])],
            "olGetMemInfo" => vec![first.memory, 0, 256, room],
            "olGetMemInfoSize" => vec![first.memory, 0, room],
            "olMemRegister" => vec![device, here, 1024, 1, room],
            "olMemUnregister" => {
                made("olMemRegister", &[device, here, 1024, 1]);
                vec![device, here, 2]
            }
            "olMemPrefetch" => {
                let (memory, bytes) = (self.keep([first.memory; 2]), self.keep([BYTES; 2]));
                vec![objects.queue, 2, memory, bytes, 1]
            }
            "olMemcpy" => vec![objects.queue, first.memory, device, here, world.host, BYTES],
            "olMemFill" => vec![objects.queue, first.memory, 4, here, BYTES],
            "olCreateQueue" => vec![device, room],
            "olDestroyQueue" => vec![made("olCreateQueue", &[device])],
            "olSyncQueue" | "olWaitQueue" => vec![objects.queue],
            "olQueryQueue" => vec![objects.queue, room],
            "olWaitEvents" => {
                vec![objects.queue, self.keep([world.second().objects.event; 2]), 2]
            }
            "olGetQueueInfo" => vec![objects.queue, 0, 256, room],
            "olGetQueueInfoSize" => vec![objects.queue, 0, room],
            "olLaunchHostFunction" => vec![objects.queue, mark as *const () as usize, room],
            "olCreateEvent" => vec![objects.queue, 1, room],
            "olDestroyEvent" => vec![made("olCreateEvent", &[objects.queue, 0])],
            "olSyncEvent" | "olWaitEvent" => vec![objects.event],
            "olGetEventInfo" => vec![objects.event, 0, 256, room],
            "olGetEventInfoSize" => vec![objects.event, 0, room],
            "olGetEventElapsedTime" => vec![first.first_event, objects.event, room],
            "olCreateProgram" | "olIsValidBinary" => {
                vec![device, world.image.as_ptr() as usize, world.image.len(), room]
            }
            "olDestroyProgram" => {
                let image = [world.image.as_ptr() as usize, world.image.len()];
                vec![made("olCreateProgram", &[device, image[0], image[1]])]
            }
            "olGetSymbol" => vec![objects.program, c"iota".as_ptr() as usize, 0, room],
            "olGetSymbolInfo" => vec![first.global, 1, 256, room],
            "olGetSymbolInfoSize" => vec![first.global, 1, room],
            "olLaunchKernel" => self.launch(world),
            "olCalculateOptimalOccupancy" => vec![device, objects.symbol, 0, room],
            "olGetKernelMaxCooperativeGroupCount" => {
                vec![device, objects.symbol, self.keep(sizes([1; 3], [1; 3], 0)), room]
            }
            "olGetPlatformCount" => vec![room],
            "olGetPlatform" => vec![1, room],
            "olGetDeviceCount" => vec![objects.platform, room],
            "olGetDevice" => vec![objects.platform, 1, room],
            other => panic!("{other} is not described"),
        }
    }

    fn launch(&mut self, world: &World) -> Vec<usize> {
        let first = world.first();
        let size = self.keep(sizes([1; 3], [1; 3], 0));
        let end = self.keep(property(OL_KERNEL_LAUNCH_PROP_TYPE_NONE, 0));
        let arguments = LaunchArguments::new(first.memory, |_, _, _| {});
        let [pointers, sizes] = arguments.kept(self);
        let objects = first.objects;
        vec![objects.queue, objects.device, objects.symbol, size, end, 2, pointers, sizes]
    }

    /// Undoes what the function did, or may have done, and waits for it.
    pub(crate) fn finish(&self, world: &World, succeeded: bool) {
        LET_GO.store(true, Ordering::Release);
        for side in &world.sides {
            ok("olSyncQueue", &[side.objects.queue]);
        }
        if !succeeded {
            return;
        }
        match self.function.name {
            "olMemAlloc" | "olMemAllocAligned" => ok("olMemFree", &[world.answered()]),
            "olMemRegister" | "olMemUnregister" => unregister(world),
            "olCreateQueue" => ok("olDestroyQueue", &[world.answered()]),
            "olCreateEvent" => ok("olDestroyEvent", &[world.answered()]),
            "olCreateProgram" => ok("olDestroyProgram", &[world.answered()]),
            _ => {}
        }
    }
}

impl LaunchArguments {
    /// A pointer and a number, which `change` changes together with their addresses and sizes.
    pub(crate) fn new(
        memory: usize,
        change: impl Fn(&mut [usize; 3], &mut [usize; 3], &mut [usize; 3]),
    ) -> Box<LaunchArguments> {
        let mut made = Box::new(LaunchArguments {
            values: [memory, BYTES / 4, 0],
            pointers: [0; 3],
            sizes: [8; 3],
        });
        made.pointers = [0, 1, 2].map(|index| &raw const made.values[index] as usize);
        let LaunchArguments { values, pointers, sizes } = &mut *made;
        change(values, pointers, sizes);
        made
    }

    /// Keeps them, and answers where pointers and sizes are.
    pub(crate) fn kept(self: Box<LaunchArguments>, call: &mut Call) -> [usize; 2] {
        let addresses = [&raw const self.pointers as usize, &raw const self.sizes as usize];
        call.keep.push(self);
        addresses
    }
}

/// Sizes of a launch.
pub(crate) fn sizes(
    groups: [u32; 3],
    items: [u32; 3],
    shared: usize,
) -> ol_kernel_launch_size_args_t {
    let three = |[x, y, z]: [u32; 3]| ol_dimensions_t { x, y, z };
    ol_kernel_launch_size_args_t {
        Dimensions: 1,
        NumGroups: three(groups),
        GroupSize: three(items),
        DynSharedMemory: shared,
    }
}

/// Returns a property of a launch.
pub(crate) fn property(kind: ol_kernel_launch_prop_type_t, data: usize) -> ol_kernel_launch_prop_t {
    ol_kernel_launch_prop_t { r#type: kind, data: data as *mut c_void }
}

/// Has a queue wait until the call is finished.
pub(crate) fn hold(queue: usize) {
    unsafe extern "C" fn wait(_: *mut c_void) {
        while !LET_GO.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
    }
    LET_GO.store(false, Ordering::Release);
    ok("olLaunchHostFunction", &[queue, wait as *const () as usize, 0]);
}

/// Until nothing is registered.
fn unregister(world: &World) {
    let words = [world.first().objects.device, world.here.as_ptr() as usize, 2];
    while Function::named("olMemUnregister").call(Mode::Plain, &words).is_null() {}
}

unsafe extern "C" fn each(_: ol_device_handle_t, data: *mut c_void) -> bool {
    // SAFETY: it has room, or is null.
    unsafe { mark(data) };
    true
}

/// Shows that it was called, by what it is given.
unsafe extern "C" fn mark(data: *mut c_void) {
    if !data.is_null() {
        // SAFETY: it has room.
        unsafe { data.cast::<u8>().write(1) };
    }
}

unsafe extern "C" fn serve(_: *mut c_void, _: u32) -> u32 {
    0
}

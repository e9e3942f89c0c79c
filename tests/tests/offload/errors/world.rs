//! Objects for calls: two devices of the CPU, and objects of each kind.

use crate::errors::functions::Function;
use crate::errors::table::Mode;
use longshore::{Environment, Host};
use longshore_capi::*;
use longshore_conformance::Fixtures;
use longshore_tests::device_code::{Workshop, clangs};
use longshore_tests::vulkan;
use longshore_tests::world::host_plugin;
use std::cell::{OnceCell, RefCell};
use std::ffi::c_void;
use std::path::PathBuf;

/// Bytes of each allocation.
pub(crate) const BYTES: usize = 96;
/// Byte value of memory for results that no call has written yet.
const UNTOUCHED: u8 = 0xa5;

/// Source of a kernel in LLVM's host form, without an array of argument sizes.
const BARE: &str = "void bump(void **arguments); void bump(void **arguments) { (void)arguments; }";
/// Source of kernels whose items wait for each other.
const MEET: &str = r#"
#include "longshore_device.h"
LONGSHORE_KERNEL(meet, (uint32_t *at, uint64_t count)) {
  longshore_barrier();
  if (longshore_global_id(0) < count) at[longshore_global_id(0)] = 0;
}
LONGSHORE_KERNEL(meet_all, (uint32_t *at, uint64_t count)) {
  longshore_grid_barrier();
  if (longshore_global_id(0) < count) at[longshore_global_id(0)] = 0;
}
"#;

/// The library after olInit.
pub(crate) struct World {
    /// The objects on each of several devices; the last device may be of another platform.
    pub(crate) sides: Vec<Side>,
    /// A device of the CPU.
    pub(crate) host: usize,
    /// An event without a time.
    pub(crate) untimed: usize,
    /// A program on the first device with kernels that are called for each group.
    program_of_clang: OnceCell<usize>,
    /// A program on the first device, if that is the CPU.
    program_without_descriptions: OnceCell<usize>,
    /// Destroyed objects.
    pub(crate) gone: Objects,
    /// Objects from before the last olShutDown.
    pub(crate) earlier: Objects,
    pub(crate) image: Vec<u8>,
    /// Memory of the program, for data.
    pub(crate) here: Box<[u64; 512]>,
    /// Memory for the results of functions.
    room: RefCell<Box<[u8; 512]>>,
}

/// Objects on one device.
pub(crate) struct Side {
    pub(crate) objects: Objects,
    pub(crate) global: usize,
    /// An event with a time, recorded before the event of the objects.
    pub(crate) first_event: usize,
    /// An allocation.
    pub(crate) memory: usize,
}

/// One object of each kind, as words.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Objects {
    pub(crate) platform: usize,
    pub(crate) device: usize,
    pub(crate) queue: usize,
    pub(crate) event: usize,
    pub(crate) program: usize,
    pub(crate) symbol: usize,
}

/// The platforms of the devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Platforms {
    /// Two devices of the CPU.
    Host,
    /// Two devices of the CPU and, last, one of Vulkan.
    HostFirst,
    /// One device of Vulkan and, after it, two of the CPU.
    VulkanFirst,
}

impl Platforms {
    /// Names of trials, and the values for their processes.
    pub(crate) const OF_TWO: [(&str, &str); 2] = [
        ("rows about another platform are true of the CPU with Vulkan", "HostFirst"),
        ("every row is true of Vulkan, but for those about the CPU", "VulkanFirst"),
    ];

    pub(crate) fn from_name(name: &str) -> Option<Platforms> {
        [Platforms::HostFirst, Platforms::VulkanFirst]
            .into_iter()
            .find(|platforms| format!("{platforms:?}") == name)
    }

    /// Returns the chosen devices of the library, in this order, with images for them.
    fn devices(self, images: &[Vec<u8>]) -> Vec<(usize, &[u8])> {
        let kind = |device: &usize| {
            let mut kind = ol_device_type_t(99);
            ok("olGetDeviceInfo", &[*device, 0, 4, &raw mut kind as usize]);
            kind
        };
        let (host, vulkan): (Vec<_>, Vec<_>) =
            devices().into_iter().partition(|device| kind(device) == OL_DEVICE_TYPE_HOST);
        let mut all: Vec<_> = host.iter().take(2).map(|device| (*device, &images[0][..])).collect();
        assert_eq!(all.len(), 2, "LONGSHORE_HOST_DEVICES was not heeded");
        if self != Platforms::Host {
            all.push((vulkan[0], &images[1]));
        }
        if self == Platforms::VulkanFirst {
            all.rotate_right(1);
        }
        all
    }

    /// Returns the image `basic` of the suite for each platform.
    fn images(self) -> Vec<Vec<u8>> {
        let vulkan = || vulkan::plugin().expect("it was built");
        match self {
            Platforms::Host => vec![image(host_plugin())],
            _ => vec![image(host_plugin()), image(vulkan())],
        }
    }
}

impl Objects {
    /// Returns the objects with their types.
    pub(crate) fn all(&self) -> [(&'static str, usize); 6] {
        [
            ("ol_platform_handle_t", self.platform),
            ("ol_device_handle_t", self.device),
            ("ol_queue_handle_t", self.queue),
            ("ol_event_handle_t", self.event),
            ("ol_program_handle_t", self.program),
            ("ol_symbol_handle_t", self.symbol),
        ]
    }

    /// Returns the object of a type.
    pub(crate) fn get(&self, kind: &str) -> usize {
        self.all().into_iter().find(|(known, _)| *known == kind).expect("a type of handles").1
    }
}

/// Calls a function that must succeed.
pub(crate) fn ok(name: &str, words: &[usize]) {
    let result = Function::named(name).call(Mode::Plain, words);
    // SAFETY: results are null or live until the end of the process.
    if let Some(error) = unsafe { result.as_ref() } {
        panic!("{name}{words:x?}: {}", details(error));
    }
}

/// Returns the details of an error.
pub(crate) fn details(error: &ol_error_struct_t) -> String {
    assert!(!error.Details.is_null());
    // SAFETY: `Details` is a text with a NUL at its end.
    unsafe { std::ffi::CStr::from_ptr(error.Details) }.to_string_lossy().into_owned()
}

/// Calls a function that must succeed, and returns the value that it writes after these arguments.
pub(crate) fn made(name: &str, words: &[usize]) -> usize {
    let mut answer = 0usize;
    ok(name, &[words, &[&raw mut answer as usize]].concat());
    answer
}

/// Returns all devices, in the library's order.
pub(crate) fn devices() -> Vec<usize> {
    unsafe extern "C" fn take(device: ol_device_handle_t, found: *mut c_void) -> bool {
        // SAFETY: `found` points to the list below.
        unsafe { &mut *found.cast::<Vec<usize>>() }.push(device as usize);
        true
    }
    let mut found = Vec::new();
    ok("olIterateDevices", &[take as *const () as usize, &raw mut found as usize]);
    found
}

fn image(plugin: PathBuf) -> Vec<u8> {
    let host = Host::builder().with_environment(Environment::empty()).with_only_given_plugins();
    let host = host.with_plugin(plugin).build().unwrap();
    let device = host.default_device().unwrap();
    Fixtures::built_in().image(&device, "basic").unwrap().unwrap().to_vec()
}

impl Side {
    pub(crate) fn new(device: usize, image: &[u8]) -> Side {
        let mut platform = 0usize;
        let query = OL_DEVICE_INFO_PLATFORM.0 as usize;
        ok("olGetDeviceInfo", &[device, query, 8, &raw mut platform as usize]);
        let queue = made("olCreateQueue", &[device]);
        let timed = OL_EVENT_FLAGS_ENABLE_PROFILING.0 as usize;
        let program = made("olCreateProgram", &[device, image.as_ptr() as usize, image.len()]);
        let symbol = |name: &std::ffi::CStr, kind: ol_symbol_kind_t| {
            made("olGetSymbol", &[program, name.as_ptr() as usize, kind.0 as usize])
        };
        let side = Side {
            first_event: made("olCreateEvent", &[queue, timed]),
            objects: Objects {
                platform,
                device,
                queue,
                event: made("olCreateEvent", &[queue, timed]),
                program,
                symbol: symbol(c"iota", OL_SYMBOL_KIND_KERNEL),
            },
            global: symbol(c"counter", OL_SYMBOL_KIND_GLOBAL_VARIABLE),
            memory: made("olMemAlloc", &[device, OL_ALLOC_TYPE_DEVICE.0 as usize, BYTES]),
        };
        ok("olSyncQueue", &[queue]);
        side
    }

    fn destroy(&self) {
        ok("olDestroyEvent", &[self.objects.event]);
        ok("olDestroyEvent", &[self.first_event]);
        ok("olDestroyProgram", &[self.objects.program]);
        ok("olDestroyQueue", &[self.objects.queue]);
        ok("olMemFree", &[self.memory]);
    }
}

impl World {
    /// Starts the library twice, so that handles from an earlier start exist.
    pub(crate) fn start(platforms: Platforms) -> World {
        let images = platforms.images();
        let first = || {
            let (device, image) = platforms.devices(&images)[0];
            Side::new(device, image)
        };
        ok("olInit", &[0]);
        let earlier = first().objects;
        ok("olShutDown", &[]);
        ok("olInit", &[0]);
        let gone = first();
        gone.destroy();
        let devices = platforms.devices(&images);
        let sides: Vec<_> =
            devices.iter().map(|(device, image)| Side::new(*device, image)).collect();
        let queue = sides[0].objects.queue;
        World {
            untimed: made("olCreateEvent", &[queue, OL_EVENT_FLAGS_NONE.0 as usize]),
            // The second device is always the CPU, whether the other platform is first or last.
            host: devices[1].0,
            sides,
            program_of_clang: OnceCell::new(),
            program_without_descriptions: OnceCell::new(),
            gone: gone.objects,
            earlier,
            image: devices[0].1.to_vec(),
            here: Box::new([0; 512]),
            room: RefCell::new(Box::new([UNTOUCHED; 512])),
        }
    }

    /// Returns the objects on the first device.
    pub(crate) fn first(&self) -> &Side {
        &self.sides[0]
    }

    /// Returns the objects on the second device.
    pub(crate) fn second(&self) -> &Side {
        &self.sides[1]
    }

    /// Returns the objects on a device of another platform.
    pub(crate) fn other(&self) -> &Side {
        assert_eq!(self.sides.len(), 3, "there is no other platform");
        &self.sides[2]
    }

    /// Returns whether the first device is the CPU's.
    pub(crate) fn is_on_cpu(&self) -> bool {
        self.first().objects.platform == self.second().objects.platform
    }

    /// Returns a device whose memory does not belong to the program.
    pub(crate) fn apart(&self) -> usize {
        let mut all = [self.first(), self.other()].into_iter().map(|side| side.objects);
        let host = self.second().objects.platform;
        let found = all.find(|objects| objects.platform != host);
        found.expect("there is another platform").device
    }

    /// Returns a program with kernels that are called for each group, with the arguments of `iota`.
    pub(crate) fn program_of_clang(&self) -> usize {
        *self.program_of_clang.get_or_init(|| {
            let clang = clangs().pop().expect("there is one");
            self.compiled(clang, "meet", MEET)
        })
    }

    /// Returns a program with a kernel `bump` whose arguments the image does not describe.
    pub(crate) fn program_without_descriptions(&self) -> usize {
        if !self.is_on_cpu() {
            return self.first().objects.program;
        }
        *self.program_without_descriptions.get_or_init(|| self.compiled("cc", "bare", BARE))
    }

    /// Returns a program of a source in C on the first device, which is the CPU's.
    fn compiled(&self, compiler: &str, name: &str, source: &str) -> usize {
        let workshop = Workshop::new();
        let object = workshop.object(compiler, name, source, &["-O2"]);
        let image = std::fs::read(object).expect("it was just written");
        let image = [image.as_ptr() as usize, image.len()];
        made("olCreateProgram", &[self.first().objects.device, image[0], image[1]])
    }

    /// Returns the address of the memory for results.
    pub(crate) fn room(&self) -> usize {
        self.room.borrow_mut().as_mut_ptr() as usize
    }

    /// Returns whether no call has written a result since the memory was cleared.
    pub(crate) fn is_untouched(&self) -> bool {
        self.room.borrow().iter().all(|byte| *byte == UNTOUCHED)
    }

    /// Returns the handle that the call has written.
    pub(crate) fn answered(&self) -> usize {
        usize::from_ne_bytes(self.room.borrow()[..8].try_into().expect("eight bytes"))
    }

    pub(crate) fn clear(&self) {
        self.room.borrow_mut().fill(UNTOUCHED);
    }
}

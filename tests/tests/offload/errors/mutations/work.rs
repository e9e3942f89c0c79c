//! Changes of arguments that are events, images, symbols and launches.

use super::{Mutation, one, set};
use crate::errors::calls::{Call, LaunchArguments, hold, property, sizes};
use crate::errors::world::{World, made};
use longshore_capi::*;
use std::ffi::CStr;

pub(super) fn events(argument: &str, how: &str) -> Vec<Mutation> {
    let second = |word: fn(&World) -> usize| {
        one(move |world, call| {
            let array = call.keep([world.second().objects.event, word(world)]);
            call.set("Events", array);
        })
    };
    match (argument, how) {
        ("Events", "null, of 0 events") => one(|_, call| {
            call.set("Events", 0);
            call.set("NumEvents", 0);
        }),
        ("Events", "an element of another platform") => second(|world| world.other().objects.event),
        ("Events", "an element of another platform that is not reached") => second(|world| {
            let queue = world.other().objects.queue;
            hold(queue);
            made("olCreateEvent", &[queue, 0])
        }),
        ("Events", "a null element") => second(|_| 0),
        ("Events", "an element of another kind") => second(|world| world.first().objects.queue),
        ("Events", "a destroyed element") => second(|world| world.gone.event),
        ("Events", "an element of an earlier olInit") => second(|world| world.earlier.event),
        ("Events", "an element that is no handle") => second(|_| 0xdead_beef),
        ("Events", "an element of the same queue") => second(|world| world.first().objects.event),
        ("Queue", "of another device") => {
            one(|world, call| call.set("Queue", world.second().objects.queue))
        }
        _ => Vec::new(),
    }
}

pub(super) fn elapsed(argument: &str, how: &str) -> Vec<Mutation> {
    let parameter = argument.to_owned();
    let event = move |event: fn(&World) -> usize| {
        one(move |world, call| {
            let event = event(world);
            call.set(&parameter, event);
        })
    };
    match how {
        "without OL_EVENT_FLAGS_ENABLE_PROFILING" => event(|world| world.untimed),
        "of another device" => event(|world| world.second().objects.event),
        "not reached" => event(|world| {
            hold(world.first().objects.queue);
            made("olCreateEvent", &[world.first().objects.queue, 1])
        }),
        "after EndEvent" => one(|world, call| {
            call.set("StartEvent", world.first().objects.event);
            call.set("EndEvent", world.first().first_event);
        }),
        _ => Vec::new(),
    }
}

pub(super) fn image(argument: &str, how: &str) -> Vec<Mutation> {
    match (argument, how) {
        ("ProgData", "rubbish") => one(|world, call| {
            let bytes = call.keep([0x5au8; 4096]);
            call.set("ProgData", bytes);
            call.set("ProgDataSize", world.image.len().min(4096));
        }),
        ("ProgData", "an ELF header and nothing else") => one(|world, call| {
            call.set("ProgData", world.image.as_ptr() as usize);
            call.set("ProgDataSize", 64);
        }),
        ("ProgDataSize", "half of the image") => {
            one(|world, call| call.set("ProgDataSize", world.image.len() / 2))
        }
        ("ProgDataSize", "1") => vec![set("ProgDataSize", 1)],
        _ => Vec::new(),
    }
}

pub(super) fn symbol(argument: &str, how: &str) -> Vec<Mutation> {
    let named = |name: &'static CStr| vec![set("Name", name.as_ptr() as usize)];
    match (argument, how) {
        ("Name", "of nothing") => named(c"nothing"),
        ("Name", "of no variable") => one(|_, call| {
            call.set("Name", c"nothing".as_ptr() as usize);
            call.set("Kind", 1);
        }),
        ("Name", "empty") => named(c""),
        ("Name", "not UTF-8") => named(c"\xff\xfe"),
        ("Name", "very long") => one(|_, call| {
            let mut name = Box::new([b'a'; 1 << 16]);
            name[(1 << 16) - 1] = 0;
            let name = call.keep(*name);
            call.set("Name", name);
        }),
        ("Kind", "a variable, of a kernel's name") => vec![set("Kind", 1)],
        ("Kind", "a kernel, of a variable's name") => named(c"counter"),
        _ => Vec::new(),
    }
}

pub(super) fn launch(argument: &str, how: &str) -> Vec<Mutation> {
    let size = |all: &[ol_kernel_launch_size_args_t]| -> Vec<Mutation> {
        let change = |size: ol_kernel_launch_size_args_t| -> Mutation {
            Box::new(move |_, call| {
                let size = call.keep(size);
                call.set("LaunchSizeArgs", size);
            })
        };
        all.iter().copied().map(change).collect()
    };
    let zeros = [[0, 1, 1], [1, 0, 1], [1, 1, 0], [0, 0, 0]];
    match (argument, how) {
        ("Queue", "of another device") => {
            one(|world, call| call.set("Queue", world.second().objects.queue))
        }
        ("Device", "another one") => {
            one(|world, call| call.set("Device", world.second().objects.device))
        }
        ("Device", "another one, without a queue") => one(|world, call| {
            call.set("Device", world.second().objects.device);
            call.set("Queue", 0);
        }),
        ("Kernel", "of a program of another device") => {
            one(|world, call| call.set("Kernel", world.second().objects.symbol))
        }
        ("Kernel", "a variable") => one(|world, call| call.set("Kernel", world.first().global)),
        ("LaunchSizeArgs", "a 0 in NumGroups") => size(&zeros.map(|zero| sizes(zero, [1; 3], 0))),
        ("LaunchSizeArgs", "a 0 in GroupSize") => size(&zeros.map(|zero| sizes([1; 3], zero, 0))),
        ("LaunchSizeArgs", "a GroupSize larger than the device's") => {
            size(&[sizes([1; 3], [u32::MAX; 3], 0), sizes([1; 3], [1 << 16, 1 << 16, 1], 0)])
        }
        ("LaunchSizeArgs", "NumGroups UINT32_MAX in each dimension") => {
            size(&[sizes([u32::MAX; 3], [1; 3], 0)])
        }
        ("LaunchSizeArgs", "DynSharedMemory SIZE_MAX") => {
            size(&[sizes([1; 3], [1; 3], usize::MAX)])
        }
        ("LaunchSizeArgs", "Dimensions 0 or 4") => {
            let plain = sizes([1; 3], [1; 3], 0);
            let with =
                |dimensions| ol_kernel_launch_size_args_t { Dimensions: dimensions, ..plain };
            size(&[with(0), with(4), with(usize::MAX)])
        }
        ("Properties", _) => properties(how),
        _ => Vec::new(),
    }
}

fn properties(how: &str) -> Vec<Mutation> {
    let (none, cooperative) =
        (OL_KERNEL_LAUNCH_PROP_TYPE_NONE, OL_KERNEL_LAUNCH_PROP_TYPE_IS_COOPERATIVE);
    match how {
        "an unknown type" => [2, 0x7fff_ffff]
            .into_iter()
            .map(|unknown| -> Mutation {
                Box::new(move |_, call| {
                    let unknown = property(ol_kernel_launch_prop_type_t(unknown), 0);
                    let list = call.keep([unknown, property(none, 0)]);
                    call.set("Properties", list);
                })
            })
            .collect(),
        "IS_COOPERATIVE without data" => one(move |_, call| {
            let list = call.keep([property(cooperative, 0), property(none, 0)]);
            call.set("Properties", list);
        }),
        "IS_COOPERATIVE with too many groups" => one(move |_, call| {
            let yes = call.keep(true);
            let list = call.keep([property(cooperative, yes), property(none, 0)]);
            let size = call.keep(sizes([1 << 20, 1, 1], [1; 3], 0));
            call.set("Properties", list);
            call.set("LaunchSizeArgs", size);
        }),
        _ => Vec::new(),
    }
}

pub(super) fn launch_arguments(argument: &str, how: &str) -> Vec<Mutation> {
    let with = |change: fn(&mut [usize; 3], &mut [usize; 3], &mut [usize; 3])| {
        one(move |world, call| {
            let arguments = LaunchArguments::new(world.first().memory, change);
            let [pointers, sizes] = arguments.kept(call);
            call.set("ArgPtrs", pointers);
            call.set("ArgSizes", sizes);
        })
    };
    match (argument, how) {
        ("NumArgs", "1 too few") => vec![set("NumArgs", 1)],
        ("NumArgs", "too many, for a kernel that describes none") => one(undescribed),
        ("ArgSizes", "an element SIZE_MAX, for a kernel that describes none") => {
            let mut changes = with(|_, _, sizes| sizes[1] = usize::MAX);
            let change = changes.remove(0);
            one(move |world, call| {
                change(world, call);
                undescribed(world, call);
            })
        }
        ("NumArgs", "1 too many") => vec![set("NumArgs", 3)],
        ("ArgPtrs", "null, as ArgSizes") => one(|_, call| {
            call.set("ArgPtrs", 0);
            call.set("ArgSizes", 0);
        }),
        ("ArgPtrs", "a null element") => with(|_, pointers, _| pointers[1] = 0),
        ("ArgSizes", "an element 0") => with(|_, _, sizes| sizes[1] = 0),
        ("ArgSizes", "an element too small") => with(|_, _, sizes| sizes[1] = 4),
        ("ArgSizes", "an element too large") => with(|_, _, sizes| sizes[1] = 16),
        ("ArgSizes", "an element SIZE_MAX") => with(|_, _, sizes| sizes[1] = usize::MAX),
        _ => Vec::new(),
    }
}

/// Makes the call a launch of a kernel whose arguments the image does not describe.
fn undescribed(world: &World, call: &mut Call) {
    let words = [world.program_without_descriptions(), c"bump".as_ptr() as usize, 0];
    call.set("Kernel", made("olGetSymbol", &words));
}

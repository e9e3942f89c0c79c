//! Of arguments that are memory: allocations, registrations, copies, fills and hints.

use super::{Mutation, one, set};
use crate::errors::calls::Call;
use crate::errors::world::{BYTES, World, made, ok};
use longshore_capi::*;

pub(super) fn memory(argument: &str, how: &str) -> Vec<Mutation> {
    let parameter = argument.to_owned();
    let at = move |address: fn(&World) -> usize| -> Vec<Mutation> {
        one(move |world, call| {
            let address = address(world);
            call.set(&parameter, address);
        })
    };
    match (argument, how) {
        ("Ptr" | "Address", "within an allocation") => at(|world| world.first().memory + 5),
        ("Ptr" | "Address", "behind an allocation") => at(|world| world.first().memory + BYTES),
        ("Ptr" | "Address", "in no allocation") => at(|world| world.here.as_ptr() as usize),
        ("Ptr", "in no allocation, without a queue") => one(|world, call| {
            call.set("Queue", 0);
            call.set("Ptr", world.here.as_ptr() as usize);
        }),
        ("Ptr" | "Address", "freed") => at(freed),
        ("Ptr" | "Address", "a variable of a program") => at(variable),
        ("Ptr", "of another platform") => at(|world| world.other().memory),
        ("Ptr", "of another device") => at(|world| world.second().memory),
        ("Ptr", "of another device, without a queue") => one(|world, call| {
            call.set("Queue", 0);
            call.set("Ptr", world.second().memory);
        }),
        ("Queue", "of another device") => at(|world| world.second().objects.queue),
        ("PatternSize", "no divisor of FillSize") => vec![set("PatternSize", 5)],
        ("PatternSize", "larger than FillSize") => vec![set("PatternSize", 2 * BYTES)],
        ("PatternSize", "SIZE_MAX, as FillSize") => one(|_, call| {
            call.set("PatternSize", usize::MAX);
            call.set("FillSize", usize::MAX);
        }),
        ("FillSize", "no multiple of PatternSize") => vec![set("FillSize", BYTES - 1)],
        ("FillSize", "larger than the allocation") => vec![set("FillSize", BYTES + 4)],
        ("FillSize", "SIZE_MAX, nearly") => vec![set("FillSize", usize::MAX - 3)],
        _ => Vec::new(),
    }
}

/// Returns the address of what was just freed.
fn freed(world: &World) -> usize {
    let address = made("olMemAlloc", &[world.first().objects.device, 1, 4096]);
    ok("olMemFree", &[address]);
    address
}

/// Returns the address of a program's variable.
fn variable(world: &World) -> usize {
    let query = OL_SYMBOL_INFO_GLOBAL_VARIABLE_ADDRESS.0 as usize;
    made("olGetSymbolInfo", &[world.first().global, query, 8])
}

pub(super) fn allocation(argument: &str, how: &str) -> Vec<Mutation> {
    match (argument, how) {
        ("Size", "more than there is") => vec![set("Size", 1 << 50)],
        ("Alignment", "no power of 2") => vec![3, 65, usize::MAX]
            .into_iter()
            .map(|alignment| set("Alignment", alignment))
            .collect(),
        ("Alignment", "2⁶³") => vec![set("Alignment", 1 << 63)],
        _ => Vec::new(),
    }
}

pub(super) fn registration(function: &str, argument: &str, how: &str) -> Vec<Mutation> {
    let register = |world: &World, offset: usize| {
        let here = world.here.as_ptr() as usize + offset;
        made("olMemRegister", &[world.first().objects.device, here, 1024, 1]);
    };
    match (function, argument, how) {
        ("olMemRegister", "Ptr", "partly registered") => one(move |world, call| {
            register(world, 0);
            call.set("Ptr", world.here.as_ptr() as usize + 512);
        }),
        ("olMemRegister", "Ptr", "within a registered range") => one(move |world, call| {
            register(world, 0);
            call.set("Ptr", world.here.as_ptr() as usize + 512);
            call.set("Size", 100);
        }),
        ("olMemRegister", "Size", "SIZE_MAX") => vec![set("Size", usize::MAX)],
        ("olMemRegister", "Flags", "0") => vec![set("Flags", 0)],
        ("olMemRegister", "Flags", "that of olMemUnregister") => vec![set("Flags", 2)],
        ("olMemUnregister", "Flags", "that of olMemRegister") => vec![set("Flags", 1)],
        ("olMemUnregister", "Flags", "0") => vec![set("Flags", 0)],
        ("olMemUnregister", "Ptr", "not registered") => {
            one(|world, call| call.set("Ptr", world.here.as_ptr() as usize + 2048))
        }
        ("olMemUnregister", "Ptr", "not registered, without a flag") => one(|world, call| {
            call.set("Ptr", world.here.as_ptr() as usize + 2048);
            call.set("Flags", 0);
        }),
        ("olMemUnregister", "Device", "another one") => {
            one(|world, call| call.set("Device", world.second().objects.device))
        }
        _ => Vec::new(),
    }
}

pub(super) fn prefetch(argument: &str, how: &str) -> Vec<Mutation> {
    match (argument, how) {
        ("Queue", "of another device") => {
            one(|world, call| call.set("Queue", world.second().objects.queue))
        }
        ("Count", "0, without arrays") => one(|_, call| {
            call.set("Count", 0);
            call.set("Mems", 0);
            call.set("Sizes", 0);
        }),
        ("Mems", "an element of another platform") => one(|world, call| {
            let array = call.keep([world.first().memory, world.other().memory]);
            call.set("Mems", array);
        }),
        ("Mems", "a null element") => one(|world, call| {
            let array = call.keep([world.first().memory, 0]);
            call.set("Mems", array);
        }),
        ("Mems", "an element in no allocation") => one(|world, call| {
            let array = call.keep([world.first().memory, world.here.as_ptr() as usize]);
            call.set("Mems", array);
        }),
        ("Sizes", "an element 0") => sized([BYTES, 0]),
        ("Sizes", "an element larger than the allocation") => sized([BYTES, BYTES + 1]),
        ("Sizes", "an element SIZE_MAX") => sized([usize::MAX, usize::MAX]),
        _ => Vec::new(),
    }
}

fn sized(sizes: [usize; 2]) -> Vec<Mutation> {
    one(move |_, call| {
        let array = call.keep(sizes);
        call.set("Sizes", array);
    })
}

/// A copy between two halves of an allocation, by a queue of its device.
fn within_the_device(world: &World, call: &mut Call) {
    let (half, first) = (BYTES / 2, world.first());
    let device = first.objects.device;
    let (to, from) = (("DstPtr", first.memory), ("SrcPtr", first.memory + half));
    let devices = [("DstDevice", device), ("SrcDevice", device)];
    for (parameter, value) in [to, from, ("Size", half)].into_iter().chain(devices) {
        call.set(parameter, value);
    }
}

pub(super) fn copy(argument: &str, how: &str) -> Vec<Mutation> {
    let parameter = argument.to_owned();
    match (argument, how) {
        ("Queue", "of another device") => {
            one(|world, call| call.set("Queue", world.second().objects.queue))
        }
        ("DstDevice" | "SrcDevice", "another one") => {
            one(move |world, call| call.set(&parameter, world.second().objects.device))
        }
        ("DstPtr" | "SrcPtr", "of another device") => {
            one(move |world, call| call.set(&parameter, world.second().memory))
        }
        ("DstPtr" | "SrcPtr", "null, without a queue") => one(move |_, call| {
            call.set(&parameter, 0);
            call.set("Queue", 0);
        }),
        ("DstPtr" | "SrcPtr", "null, of 0 bytes") => one(move |_, call| {
            call.set(&parameter, 0);
            call.set("Size", 0);
        }),
        ("DstDevice" | "SrcDevice", "of another platform, for memory of the program") => {
            one(move |world, call| {
                call.set(&parameter, world.apart());
                call.set(&parameter.replace("Device", "Ptr"), world.here.as_ptr() as usize);
            })
        }
        ("DstPtr" | "SrcPtr", _) if how.starts_with("of another platform, as ") => {
            let is_synchronous = how.ends_with(", without a queue");
            one(move |world, call| {
                call.set(&parameter, world.other().memory);
                call.set(&parameter.replace("Ptr", "Device"), world.other().objects.device);
                if is_synchronous {
                    call.set("Queue", 0);
                }
            })
        }
        ("DstPtr" | "SrcPtr", "null, within the queue's device") => one(move |world, call| {
            within_the_device(world, call);
            call.set(&parameter, 0);
        }),
        ("Size", "SIZE_MAX, within the queue's device") => one(|world, call| {
            within_the_device(world, call);
            call.set("Size", usize::MAX);
        }),
        ("Size", "2⁶³, within the queue's device") => one(|world, call| {
            within_the_device(world, call);
            call.set("Size", 1 << 63);
        }),
        ("Size", "SIZE_MAX, without a queue") => one(|_, call| {
            call.set("Size", usize::MAX);
            call.set("Queue", 0);
        }),
        ("Size", "0, with a destroyed queue") => one(|world, call| {
            call.set("Size", 0);
            call.set("Queue", world.gone.queue);
        }),
        _ => Vec::new(),
    }
}

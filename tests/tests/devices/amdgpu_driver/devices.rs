//! Other users of HIP in the process: the current device, and registered memory.

use super::{Case, ROUND};
use longshore_conformance::TrustedImages;
use longshore_tests::doubled::cases::assert_clean;
use longshore_tests::doubled::{Double, image};
use std::ffi::{c_int, c_uint, c_void};

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "a thread has the same device current afterwards",
        driver: "devices=2",
        check: the_current_device_stays,
    },
    Case {
        name: "errors that the backend expects are not left for the program to find",
        driver: "devices=1",
        check: no_error_is_left,
    },
    Case {
        name: "memory that somebody else registered is pinned, and stays registered",
        driver: "devices=1",
        check: registered_memory_is_taken,
    },
    Case {
        name: "the same with HIP 5, whose kinds of memory have other numbers",
        driver: "devices=1;version=5",
        check: registered_memory_is_taken,
    },
];

/// # Safety
/// `F` is the type of HIP's function with this name.
unsafe fn function<F: Copy>(double: &Double, name: &str) -> F {
    // SAFETY: promised by the caller.
    *unsafe { double.library().get::<F>(name) }.expect("the double has the function")
}

fn current(double: &Double) -> c_int {
    let mut device = -1;
    // SAFETY: the function has this type; the output is a variable of this function.
    let asked = unsafe {
        function::<unsafe extern "C" fn(*mut c_int) -> u32>(double, "hipGetDevice")(&mut device)
    };
    assert_eq!(asked, 0);
    device
}

fn the_current_device_stays(double: &Double) {
    ROUND.run().unwrap();
    for theirs in [1, 0] {
        // SAFETY: the function has this type.
        let set = unsafe {
            function::<unsafe extern "C" fn(c_int) -> u32>(double, "hipSetDevice")(theirs)
        };
        assert_eq!(set, 0);
        ROUND.run().unwrap();
        assert_eq!(current(double), theirs);
        let host = ROUND.host().unwrap();
        let device = host.device("amdgpu:1").unwrap();
        let queue = device.queue().unwrap();
        drop(device.buffer_of(&queue, &[1u8; 100]).unwrap());
        assert_eq!(current(double), theirs);
        drop(queue);
        device.close().unwrap();
        assert_eq!(current(double), theirs);
    }
    assert_clean(double);
}

fn no_error_is_left(double: &Double) {
    ROUND.run().unwrap();
    let host = ROUND.host().unwrap();
    let device = host.device("amdgpu:0").unwrap();
    let basic = device.load_trusted(&*image(&device, "basic").unwrap()).unwrap();
    assert!(basic.kernel("no such kernel").is_err());
    assert!(device.allocate(longshore::MemoryKind::Device, 1 << 40, 1).is_err());
    basic.unload().unwrap();
    device.close().unwrap();
    // SAFETY: the function has this type.
    let left = unsafe { function::<unsafe extern "C" fn() -> u32>(double, "hipGetLastError")() };
    assert_eq!(left, 0);
    assert_clean(double);
}

fn registered_memory_is_taken(double: &Double) {
    const BYTES: usize = 1 << 16;
    const MAPPED: c_uint = 2;
    let host = ROUND.host().unwrap();
    let device = host.device("amdgpu:0").unwrap();
    let queue = device.queue().unwrap();
    let memory = vec![7u8; BYTES];
    let start = memory.as_ptr().cast_mut().cast::<c_void>();
    // SAFETY: the functions have these types; the memory lives until its unregistration.
    unsafe {
        type Register = unsafe extern "C" fn(*mut c_void, usize, c_uint) -> u32;
        let register = function::<Register>(double, "hipHostRegister");
        assert_eq!(register(start, BYTES, MAPPED), 0);
        device.pin(start, BYTES as u64).unwrap();
        device.unpin(start).unwrap();
        let buffer = device.buffer::<u8>(&queue, BYTES).unwrap();
        queue.copy_from_host(buffer.pointer(), start.cast_const(), BYTES as u64).unwrap();
        assert_eq!(buffer.to_vec(&queue).unwrap(), memory);
        type Unregister = unsafe extern "C" fn(*mut c_void) -> u32;
        let unregister = function::<Unregister>(double, "hipHostUnregister");
        assert_eq!(unregister(start), 0, "it is still registered");
    }
    drop(queue);
    device.close().unwrap();
    assert_clean(double);
}

//! Other users of CUDA in the process.

use super::{Case, ROUND};
use longshore_tests::doubled::Double;
use longshore_tests::doubled::cases::assert_clean;
use std::ffi::{c_int, c_uint, c_void};
use std::ptr::null_mut;

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "a thread that has a context current has the same afterwards",
        driver: "devices=2",
        check: contexts_of_others_stay_current,
    },
    Case {
        name: "a thread without a context has none that was destroyed",
        driver: "devices=1",
        check: no_context_is_left_over,
    },
    Case {
        name: "a primary context that somebody else retained is left to them",
        driver: "devices=1",
        check: retained_contexts_stay,
    },
    Case {
        name: "memory that somebody else registered is pinned, and stays registered",
        driver: "devices=1",
        check: registered_memory_is_taken,
    },
];

/// Calls of another user of the driver.
pub(crate) struct Other<'a>(pub(crate) &'a Double);

type Context = *mut c_void;

impl Other<'_> {
    /// # Safety
    /// `F` is the type of the driver's function with this name.
    unsafe fn function<F: Copy>(&self, name: &str) -> F {
        // SAFETY: promised by the caller.
        *unsafe { self.0.library().get::<F>(name) }.expect("the double has the function")
    }

    fn context(&self, device: c_int) -> Context {
        let mut context = null_mut();
        // SAFETY: the functions have these types; the output is a variable of this method.
        unsafe {
            let init = self.function::<unsafe extern "C" fn(c_uint) -> u32>("cuInit");
            assert_eq!(init(0), 0);
            type Create = unsafe extern "C" fn(*mut Context, c_uint, c_int) -> u32;
            let create = self.function::<Create>("cuCtxCreate_v2");
            assert_eq!(create(&mut context, 0, device), 0);
        }
        context
    }

    fn current(&self) -> Context {
        let mut context = null_mut();
        // SAFETY: the function has this type; the output is a variable of this method.
        unsafe {
            type Get = unsafe extern "C" fn(*mut Context) -> u32;
            assert_eq!(self.function::<Get>("cuCtxGetCurrent")(&mut context), 0);
        }
        context
    }

    fn destroy(&self, context: Context) {
        // SAFETY: the function has this type; the context belongs to this user.
        unsafe {
            type Destroy = unsafe extern "C" fn(Context) -> u32;
            assert_eq!(self.function::<Destroy>("cuCtxDestroy_v2")(context), 0);
        }
    }

    /// Retains the primary context of the first device.
    fn retain(&self) -> Context {
        let mut context = null_mut();
        // SAFETY: the functions have these types; the output is a variable of this method.
        unsafe {
            let init = self.function::<unsafe extern "C" fn(c_uint) -> u32>("cuInit");
            assert_eq!(init(0), 0);
            type Retain = unsafe extern "C" fn(*mut Context, c_int) -> u32;
            assert_eq!(self.function::<Retain>("cuDevicePrimaryCtxRetain")(&mut context, 0), 0);
        }
        context
    }

    /// Releases the primary context of the first device.
    pub(crate) fn release(&self) {
        // SAFETY: the function has this type; the context was retained.
        unsafe {
            type Release = unsafe extern "C" fn(c_int) -> u32;
            assert_eq!(self.function::<Release>("cuDevicePrimaryCtxRelease_v2")(0), 0);
        }
    }

    fn set_current(&self, context: Context) {
        // SAFETY: the function has this type; the context is live or null.
        unsafe {
            type Set = unsafe extern "C" fn(Context) -> u32;
            assert_eq!(self.function::<Set>("cuCtxSetCurrent")(context), 0);
        }
    }
}

fn contexts_of_others_stay_current(double: &Double) {
    let other = Other(double);
    for device in [0, 1] {
        let theirs = other.context(device);
        ROUND.run().unwrap();
        assert_eq!(other.current(), theirs);
        let host = ROUND.host().unwrap();
        let device = host.device("cuda:1").unwrap();
        let queue = device.queue().unwrap();
        drop(device.buffer_of(&queue, &[1u8; 100]).unwrap());
        assert_eq!(other.current(), theirs);
        drop(queue);
        device.close().unwrap();
        assert_eq!(other.current(), theirs);
        other.destroy(theirs);
    }
    assert_clean(double);
}

fn no_context_is_left_over(double: &Double) {
    let other = Other(double);
    ROUND.run().unwrap();
    assert!(other.current().is_null());
    assert_eq!(double.live(), [""; 0]);
}

fn retained_contexts_stay(double: &Double) {
    let other = Other(double);
    let primary = other.retain();
    other.set_current(primary);
    ROUND.run().unwrap();
    assert_eq!(other.current(), primary);
    assert_eq!(double.lost(), [""; 0], "all that was in it was given back");
    other.set_current(null_mut());
    other.release();
    assert_eq!(double.live(), [""; 0]);
    assert_eq!(double.violations(), [""; 0]);
}

fn registered_memory_is_taken(double: &Double) {
    const BYTES: usize = 1 << 16;
    const DEVICEMAP: c_uint = 2;
    let other = Other(double);
    let host = ROUND.host().unwrap();
    let device = host.device("cuda:0").unwrap();
    let queue = device.queue().unwrap();
    let memory = vec![7u8; BYTES];
    let start = memory.as_ptr().cast_mut().cast::<c_void>();
    other.set_current(other.retain());
    // SAFETY: the functions have these types; the memory lives until its unregistration.
    unsafe {
        type Register = unsafe extern "C" fn(*mut c_void, usize, c_uint) -> u32;
        let register = other.function::<Register>("cuMemHostRegister_v2");
        assert_eq!(register(start, BYTES, DEVICEMAP), 0);
        device.pin(start, BYTES as u64).unwrap();
        device.unpin(start).unwrap();
        // The other user has registered a part of this memory only.
        let more = vec![0u8; BYTES];
        assert_eq!(register(more.as_ptr().cast_mut().cast(), BYTES / 2, DEVICEMAP), 0);
        let refused = device.pin(more.as_ptr().cast_mut().cast(), BYTES as u64).map(drop);
        assert_eq!(refused.unwrap_err().code(), longshore::ErrorCode::InvalidArgument);
        let buffer = device.buffer::<u8>(&queue, BYTES).unwrap();
        queue.copy_from_host(buffer.pointer(), start.cast_const(), BYTES as u64).unwrap();
        assert_eq!(buffer.to_vec(&queue).unwrap(), memory);
        type Unregister = unsafe extern "C" fn(*mut c_void) -> u32;
        let unregister = other.function::<Unregister>("cuMemHostUnregister");
        assert_eq!(unregister(start), 0, "it is still registered");
        assert_eq!(unregister(more.as_ptr().cast_mut().cast()), 0);
    }
    drop(queue);
    device.close().unwrap();
    other.set_current(null_mut());
    other.release();
    assert_clean(double);
}

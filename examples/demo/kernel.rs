//! A kernel in LLVM's host form: each pointer points at the value of one argument.
#![no_std]

use core::ffi::c_void;

/// Computes `y[i] = a * x[i] + y[i]` for `n` elements. The arguments are `n`, `a`, `x` and `y`.
///
/// # Safety
/// The arguments have these types, and `x` and `y` have `n` elements and do not overlap.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn saxpy(arguments: *const *const c_void) {
    unsafe {
        let n = *(*arguments).cast::<u64>() as usize;
        let a = *(*arguments.add(1)).cast::<f32>();
        let x = core::slice::from_raw_parts(*(*arguments.add(2)).cast::<*const f32>(), n);
        let y = core::slice::from_raw_parts_mut(*(*arguments.add(3)).cast::<*mut f32>(), n);
        for (y, x) in y.iter_mut().zip(x) {
            *y += a * x;
        }
    }
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

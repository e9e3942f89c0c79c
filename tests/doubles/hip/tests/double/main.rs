//! Tests of the double of HIP, used like the runtime.

mod calls;
mod kernels;
mod support;

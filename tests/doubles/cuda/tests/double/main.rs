//! Tests of the double of CUDA's driver, used like a driver.

mod calls;
mod kernels;
mod support;

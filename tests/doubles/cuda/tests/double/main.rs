//! The double of CUDA's driver, used as programs use a driver.

mod calls;
mod kernels;
mod support;

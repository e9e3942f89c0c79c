//! The double of HIP, used as programs use a driver.

mod calls;
mod kernels;
mod support;

//! The tables of a plugin in Rust and their functions, generated from the declaration of the
//! interface.

use super::module::kernel;
use super::{
    give_device, give_event, give_module, give_queue, guard, in_range, lent_device, lent_event,
    lent_kernel, lent_module, lent_platform, lent_queue, reference, request, send, take_device,
    take_event, take_module, take_platform, take_queue,
};
use crate::abi::*;
use crate::backend::*;
use crate::info::{DeviceInfo, PlatformInfo};
use crate::raw;
use crate::request::{Loading, MemoryKind, PrefetchTarget, Span};

with_interface!(longshore_interface_macros::export_of);

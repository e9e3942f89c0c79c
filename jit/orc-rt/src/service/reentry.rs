//! Trampolines of linked code.

use super::services;
use crate::reentry;

services! {
    /// The service that stops hooks from writing to the slots of a batch of trampolines, named by
    /// its context and its number, or with `false` permits it again.
    RETIRE_TRAMPOLINES = "__longshore_retire_trampolines", fn((u64, u64, bool)) -> (), retire;
}

fn retire((context, batch, retired): (u64, u64, bool)) {
    reentry::retire(context, batch, retired);
}

//! The tables of functions, generated from the declaration of the interface.

use super::values::*;
use abi_stable::StableAbi;

with_interface!(longshore_interface_macros::tables_of);

//! Tests that modules compiled piece by piece behave like modules compiled as a whole.

mod calls;
mod cplusplus;
mod failures;
mod language;
mod support;

//! Handles of a driver's objects.

use std::ffi::c_void;
use std::fmt;
use std::marker::PhantomData;

/// A handle of a driver's object. Drivers' objects may be used from any thread.
#[repr(transparent)]
pub struct Handle<T>(*mut c_void, PhantomData<fn() -> T>);

/// The kinds of objects that a [`Handle`] can stand for.
pub(crate) mod object {
    #![allow(missing_docs, reason = "the types are named below")]
    pub enum Module {}
    pub enum Function {}
    pub enum Stream {}
    pub enum Event {}
    pub enum Pool {}
}

/// `CUmodule`, `hipModule_t`.
pub type Module = Handle<object::Module>;
/// `CUfunction`, `hipFunction_t`.
pub type Function = Handle<object::Function>;
/// `CUstream`, `hipStream_t`.
pub type Stream = Handle<object::Stream>;
/// `CUevent`, `hipEvent_t`.
pub type Event = Handle<object::Event>;
/// `CUmemoryPool`, `hipMemPool_t`.
pub type Pool = Handle<object::Pool>;
/// `CUdeviceptr`, `hipDeviceptr_t`.
pub type DevicePtr = u64;

impl<T> Handle<T> {
    /// The handle of no object.
    pub const NULL: Handle<T> = Handle(std::ptr::null_mut(), PhantomData);

    /// Returns the handle as a number.
    pub fn address(self) -> u64 {
        self.0 as u64
    }

    /// Returns whether the handle is null.
    pub fn is_null(self) -> bool {
        self.0.is_null()
    }
}

impl<T> Clone for Handle<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Handle<T> {}

impl<T> PartialEq for Handle<T> {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}

impl<T> Eq for Handle<T> {}

impl<T> fmt::Debug for Handle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:p}", self.0)
    }
}

// SAFETY: the handle names an object of the driver, and the driver accepts it on any thread.
unsafe impl<T> Send for Handle<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Handle<T> {}

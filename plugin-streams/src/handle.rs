//! Objects of a driver.

use std::ffi::c_void;
use std::fmt;
use std::marker::PhantomData;

/// An object of a driver. Drivers' objects may be used from any thread.
#[repr(transparent)]
pub struct Handle<T>(*mut c_void, PhantomData<fn() -> T>);

/// What a [`Handle`] can stand for.
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
    /// No object.
    pub const NULL: Handle<T> = Handle(std::ptr::null_mut(), PhantomData);

    /// Whether it is no object.
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

// SAFETY: it is a name of an object of the driver, which takes it on any thread.
unsafe impl<T> Send for Handle<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Handle<T> {}

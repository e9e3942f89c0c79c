//! What a program has handles of.

use super::context::Context;
use super::event::Event;
use super::function::Function;
use super::module::Module;
use super::pool::Pool;
use super::stream::Stream;
use super::{Answer, Code, Scope, broken, driver};
use std::any::Any;
use std::sync::Arc;

macro_rules! objects {
    ($($variant:ident $lower:ident $remove:ident $kind:literal $code:ident;)*) => {
        /// An object with a handle.
        #[derive(Clone)]
        pub(crate) enum Object {
            $($variant(Arc<$variant>),)*
            Own(Arc<dyn Own>),
        }

        impl crate::Object for Object {
            fn kind(&self) -> &'static str {
                match self {
                    $(Object::$variant(_) => $kind,)*
                    Object::Own(object) => object.kind(),
                }
            }
        }

        impl Object {
            /// The handle of the context that it is of; 0 if it is of none.
            pub(crate) fn context(&self) -> usize {
                match self {
                    $(Object::$variant(object) => object.context_handle(),)*
                    Object::Own(object) => object.context_handle(),
                }
            }
        }

        $(
            impl From<Arc<$variant>> for Object {
                fn from(object: Arc<$variant>) -> Object {
                    Object::$variant(object)
                }
            }

            #[doc = concat!("What the handle of a ", $kind, " stands for. Anything else is a violation.")]
            ///
            /// # Errors
            #[doc = concat!("`", stringify!($code), "`.")]
            #[allow(unreachable_pub, reason = "some are for vendors")]
            pub fn $lower(handle: usize) -> Answer<Arc<$variant>> {
                match driver().handles.get(handle) {
                    Some(Object::$variant(object)) => Ok(object),
                    _ => Err(wrong(handle, $kind, Code::$code)),
                }
            }

            /// The same, of a handle that ends with this.
            #[allow(dead_code, reason = "some objects end with others")]
            pub(crate) fn $remove(handle: usize) -> Answer<Arc<$variant>> {
                ended(handle, $lower(handle)?, $kind, Code::$code)
            }
        )*
    };
}

objects! {
    Context context remove_context "context" INVALID_CONTEXT;
    Stream stream remove_stream "stream" INVALID_HANDLE;
    Event event remove_event "event" INVALID_HANDLE;
    Module module remove_module "module" INVALID_HANDLE;
    Function function remove_function "function" INVALID_HANDLE;
    Pool pool remove_pool "pool" INVALID_VALUE;
}

/// An object that one vendor's driver has alone.
pub trait Own: Any + Send + Sync {
    /// What it is: "link state".
    fn kind(&self) -> &'static str;

    /// The handle of the context that it is of; 0 if it is of none.
    fn context_handle(&self) -> usize;
}

impl Object {
    /// Whether a program has to give it back.
    pub(crate) fn is_of_program(&self) -> bool {
        match self {
            Object::Function(_) => false,
            Object::Context(_) => driver().vendor.scope() == Scope::Context,
            Object::Pool(pool) => pool.is_of_program(),
            _ => true,
        }
    }
}

/// Makes an object that holds its own handle.
pub(crate) fn add<T>(make: impl FnOnce(usize) -> T) -> Arc<T>
where
    Arc<T>: Into<Object>,
{
    add_as(make, Into::into)
}

/// Makes an object of a vendor.
pub fn add_own<T: Own>(make: impl FnOnce(usize) -> T) -> Arc<T> {
    add_as(make, |object| Object::Own(object))
}

/// What the handle of a vendor's object stands for. Anything else is a violation.
///
/// # Errors
/// `INVALID_HANDLE`.
pub fn own<T: Own>(handle: usize, kind: &'static str) -> Answer<Arc<T>> {
    let found = match driver().handles.get(handle) {
        Some(Object::Own(object)) => Arc::downcast::<T>(object as Arc<dyn Any + Send + Sync>).ok(),
        _ => None,
    };
    found.ok_or_else(|| wrong(handle, kind, Code::INVALID_HANDLE))
}

/// The same, of a handle that ends with this.
///
/// # Errors
/// `INVALID_HANDLE`.
pub fn remove_own<T: Own>(handle: usize, kind: &'static str) -> Answer<Arc<T>> {
    ended(handle, own(handle, kind)?, kind, Code::INVALID_HANDLE)
}

fn add_as<T>(make: impl FnOnce(usize) -> T, into: impl FnOnce(Arc<T>) -> Object) -> Arc<T> {
    let mut made = None;
    driver().handles.add(|handle| {
        let object = Arc::new(make(handle));
        made = Some(Arc::clone(&object));
        into(object)
    });
    made.expect("the table makes the object")
}

fn ended<T>(handle: usize, object: Arc<T>, kind: &str, code: Code) -> Answer<Arc<T>> {
    match driver().handles.remove(handle) {
        Some(_) => Ok(object),
        None => Err(wrong(handle, kind, code)),
    }
}

fn wrong(handle: usize, kind: &str, code: Code) -> Code {
    broken(code, format!("{}, expected {kind}", driver().handles.describe(handle)))
}

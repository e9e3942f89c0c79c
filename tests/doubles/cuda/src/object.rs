//! What a program has handles of.

use crate::code::{Answer, Code};
use crate::context::Context;
use crate::driver::{broken, driver};
use crate::event::Event;
use crate::function::Function;
use crate::link::Link;
use crate::module::Module;
use crate::pool::Pool;
use crate::stream::Stream;
use std::sync::Arc;

macro_rules! objects {
    ($($variant:ident $lower:ident $remove:ident $kind:literal $code:ident;)*) => {
        /// An object with a handle.
        #[derive(Clone)]
        pub(crate) enum Object {
            $($variant(Arc<$variant>),)*
        }

        impl longshore_double_gpu::Object for Object {
            fn kind(&self) -> &'static str {
                match self { $(Object::$variant(_) => $kind,)* }
            }
        }

        impl Object {
            /// The handle of the context that it is of; 0 if it is of none.
            pub(crate) fn context(&self) -> usize {
                match self { $(Object::$variant(object) => object.context_handle(),)* }
            }
        }

        $(
            impl From<Arc<$variant>> for Object {
                fn from(object: Arc<$variant>) -> Object {
                    Object::$variant(object)
                }
            }

            /// What a handle stands for. Anything else is a violation.
            pub(crate) fn $lower(handle: usize) -> Answer<Arc<$variant>> {
                match driver().handles.get(handle) {
                    Some(Object::$variant(object)) => Ok(object),
                    _ => Err(wrong(handle, $kind, Code::$code)),
                }
            }

            /// The same, of a handle that ends with this.
            #[allow(dead_code, reason = "some objects end with others")]
            pub(crate) fn $remove(handle: usize) -> Answer<Arc<$variant>> {
                let object = $lower(handle)?;
                match driver().handles.remove(handle) {
                    Some(_) => Ok(object),
                    None => Err(wrong(handle, $kind, Code::$code)),
                }
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
    Link link remove_link "link state" INVALID_HANDLE;
}

/// Makes an object that holds its own handle.
pub(crate) fn add<T>(make: impl FnOnce(usize) -> T) -> Arc<T>
where
    Arc<T>: Into<Object>,
{
    let mut made = None;
    driver().handles.add(|handle| {
        let object = Arc::new(make(handle));
        made = Some(Arc::clone(&object));
        object.into()
    });
    made.expect("the table makes the object")
}

fn wrong(handle: usize, kind: &str, code: Code) -> Code {
    broken(code, format!("{}, expected {kind}", driver().handles.describe(handle)))
}

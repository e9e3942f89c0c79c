//! Calls from code of this process to its controller (ORC's `jit_dispatch`).

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::RwLock;

use crate::wrapper::{Reply, bytes};

/// A handler of calls: a function of this process, or a connection to the process with the
/// handlers. Any thread may call it, several at once, and it may block.
pub type Handler = Arc<dyn Fn(&[u8]) -> Result<Vec<u8>, String> + Send + Sync>;

/// A [`Handler`] of all tags, which also receives the tag.
pub type Controller = Arc<dyn Fn(u64, &[u8]) -> Result<Vec<u8>, String> + Send + Sync>;

static HANDLERS: RwLock<Option<HashMap<u64, Handler>>> = RwLock::new(None);
static CONTROLLER: RwLock<Option<Controller>> = RwLock::new(None);

/// Adds a handler of this process for the calls with a tag. Returns false, without a change, if the
/// tag has one already.
pub fn add_handler(tag: u64, handler: Handler) -> bool {
    use std::collections::hash_map::Entry;
    match HANDLERS.write().get_or_insert_default().entry(tag) {
        Entry::Occupied(_) => false,
        Entry::Vacant(place) => {
            place.insert(handler);
            true
        }
    }
}

/// Removes the handler of a tag. Calls under way end normally.
pub fn remove_handler(tag: u64) {
    let handler = HANDLERS.write().as_mut().and_then(|handlers| handlers.remove(&tag));
    // Dropped without the lock: the values that the handler owns may call this module.
    drop(handler);
}

/// Sets the handler of calls with tags that have no handler in this process. An executor sets it,
/// and removes it when the connection ends.
pub fn set_controller(controller: Option<Controller>) {
    let old = std::mem::replace(&mut *CONTROLLER.write(), controller);
    drop(old);
}

/// Calls the controller. Blocks until it has replied.
///
/// # Errors
/// The handler's error, and an error for a tag without a handler.
pub fn call_controller(tag: u64, argument: &[u8]) -> Result<Vec<u8>, String> {
    let handler = HANDLERS.read().as_ref().and_then(|handlers| handlers.get(&tag).cloned());
    if let Some(handler) = handler {
        return handler(argument);
    }
    let controller = CONTROLLER.read().clone();
    match controller {
        Some(controller) => controller(tag, argument),
        None => Err(format!("no handler is registered for calls with the tag {tag:#x}")),
    }
}

/// Calls the controller for linked code, as [`call_controller`] does. Its C declaration is `void
/// __longshore_call_controller(uint64_t tag, const unsigned char *argument, size_t size, struct
/// longshore_reply *reply)`. A panic of a handler becomes an error.
///
/// # Safety
/// `argument` must be valid for reads of `size` bytes, and `reply` for writes.
pub(crate) unsafe extern "C" fn call_controller_from_c(
    tag: u64,
    argument: *const u8,
    size: usize,
    reply: *mut Reply,
) {
    // SAFETY: guaranteed by the caller.
    let (argument, reply) = unsafe { (bytes(argument, size), &mut *reply) };
    let answer = std::panic::catch_unwind(|| call_controller(tag, argument));
    match answer.unwrap_or_else(|_| Err(format!("the handler of the tag {tag:#x} panicked"))) {
        Ok(answer) => reply.set(&answer),
        Err(problem) => reply.fail(&problem),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a tag that no other test has.
    fn tag() -> u64 {
        Box::leak(Box::new(0)) as *const i32 as u64
    }

    fn call(tag: u64, argument: &[u8]) -> Result<Vec<u8>, String> {
        let mut reply = Reply::new();
        // SAFETY: both live during the call.
        unsafe { call_controller_from_c(tag, argument.as_ptr(), argument.len(), &mut reply) };
        reply.result().map(<[u8]>::to_vec)
    }

    fn reversed() -> Handler {
        Arc::new(|argument| Ok(argument.iter().rev().copied().collect()))
    }

    #[test]
    fn a_tag_is_answered_by_its_handler_until_that_is_taken_away() {
        let tag = tag();
        assert!(call(tag, b"abc").unwrap_err().contains("no handler is registered"));
        assert!(add_handler(tag, reversed()));
        assert_eq!(call(tag, b"abc"), Ok(b"cba".to_vec()));
        remove_handler(tag);
        assert!(call(tag, b"abc").is_err());
    }

    #[test]
    fn a_tag_has_one_handler() {
        let tag = tag();
        assert!(add_handler(tag, reversed()));
        assert!(!add_handler(tag, Arc::new(|_| Err("another".to_owned()))));
        assert_eq!(call(tag, b"ab"), Ok(b"ba".to_vec()));
        remove_handler(tag);
    }

    #[test]
    fn errors_and_panics_of_a_handler_are_errors_of_the_call() {
        let (failing, panicking) = (tag(), tag());
        add_handler(failing, Arc::new(|_| Err("no".to_owned())));
        add_handler(panicking, Arc::new(|_| panic!("on purpose")));
        assert_eq!(call(failing, &[]), Err("no".to_owned()));
        assert!(call(panicking, &[]).unwrap_err().contains("panicked"));
        [failing, panicking].into_iter().for_each(remove_handler);
    }

    #[test]
    fn a_handler_may_add_and_remove_handlers() {
        let (outer, inner) = (tag(), tag());
        let adds = move |_: &[u8]| {
            add_handler(inner, reversed());
            remove_handler(outer);
            call_controller(inner, b"xy")
        };
        add_handler(outer, Arc::new(adds));
        assert_eq!(call(outer, &[]), Ok(b"yx".to_vec()));
        assert!(call(outer, &[]).is_err());
        remove_handler(inner);
    }
}

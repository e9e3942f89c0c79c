//! The origins of allocations, for errors of a backend that checks accesses.

use longshore_plugin_api::Error;
use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};
use std::panic::Location;

/// Most allocations whose origin is kept, live or freed.
const MOST: usize = 1 << 16;

/// The program's calls that made allocations, by address, also of freed ones.
#[derive(Default)]
pub(super) struct Origins {
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    by_address: HashMap<u64, &'static Location<'static>>,
    /// The addresses, the oldest first.
    order: VecDeque<u64>,
}

impl Origins {
    /// Adds an allocation, in place of an older one at its address.
    pub(super) fn add(&self, address: u64, location: &'static Location<'static>) {
        let mut known = self.known.lock();
        if known.by_address.insert(address, location).is_none() {
            known.order.push_back(address);
        }
        if known.order.len() > MOST
            && let Some(oldest) = known.order.pop_front()
        {
            known.by_address.remove(&oldest);
        }
    }

    /// Adds to an error where the program made the allocations of its message. Plugins name an
    /// allocation by its size and address: "the allocation of 64 bytes at 0x7f0000000000".
    pub(super) fn explain(&self, error: Error) -> Error {
        let known = self.known.lock();
        let message = error.message();
        let mut explained = String::with_capacity(message.len());
        let mut rest = message;
        while let Some(begin) = rest.find(" bytes at 0x") {
            let digits = begin + " bytes at 0x".len();
            let length = rest[digits..].bytes().take_while(u8::is_ascii_hexdigit).count();
            let (before, after) = rest.split_at(digits + length);
            explained.push_str(before);
            let address = u64::from_str_radix(&before[digits..], 16).ok();
            let is_allocation = before[..begin]
                .rsplit(" of ")
                .nth(1)
                .is_some_and(|name| name.ends_with("allocation") || name.ends_with("memory"));
            let origin = address.and_then(|address| known.by_address.get(&address));
            if let Some(origin) = origin.filter(|_| is_allocation) {
                explained.push_str(&format!(", made at {origin}"));
            }
            rest = after;
        }
        if explained.len() + rest.len() == message.len() {
            return error;
        }
        explained.push_str(rest);
        let changed = Error::new(error.code(), explained);
        match error.vendor() {
            Some(vendor) => changed.with_vendor(vendor.name.as_str(), vendor.number),
            None => changed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use longshore_plugin_api::ErrorCode;

    #[test]
    fn the_origin_of_each_named_allocation_is_in_the_message() {
        let (origins, here) = (Origins::default(), Location::caller());
        origins.add(0x1000, here);
        let error = |text: &str| origins.explain(Error::new(ErrorCode::BackendFailure, text));
        let text = "reads bytes 0 to 4 of the allocation of 64 bytes at 0x1000; then";
        let expected = text.replace("0x1000", &format!("0x1000, made at {here}"));
        assert_eq!(error(text).message(), expected);
        for text in ["the allocation of 64 bytes at 0x2000", "writes 4 bytes at 0x1000", "x"] {
            assert_eq!(error(text).message(), text);
        }
    }
}

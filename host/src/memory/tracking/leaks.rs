//! The table of leaks.

use super::text_table::TextTable;
use crate::device::Leak;
use crate::units;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt;

/// Number of the largest leaks that are grouped by call stack, too. Formatting a call stack takes
/// time, so further leaks are grouped by kind and location only.
const MOST_STACKS: usize = 256;

/// The leaks of a device, grouped by kind of memory, location and call stack.
pub(crate) struct LeakTable<'a> {
    pub(crate) device: String,
    pub(crate) leaks: &'a [Leak],
}

/// Leaks of one kind, location and call stack.
struct Group {
    count: usize,
    bytes: u64,
    place: String,
    stack: String,
}

impl LeakTable<'_> {
    /// Returns the groups, the largest first.
    fn groups(&self) -> Vec<Group> {
        let mut leaks: Vec<&Leak> = self.leaks.iter().collect();
        leaks.sort_by_key(|leak| (Reverse(leak.bytes), leak.address));
        let mut groups: HashMap<(String, String), (usize, u64)> = HashMap::new();
        for (index, leak) in leaks.into_iter().enumerate() {
            let place = format!("{:?} memory, allocated at {}", leak.kind, leak.location);
            let stack = leak.stack.as_ref().filter(|_| index < MOST_STACKS);
            let stack = stack.map(ToString::to_string).unwrap_or_default();
            let (count, bytes) = groups.entry((place, stack)).or_default();
            *count += 1;
            *bytes = bytes.saturating_add(leak.bytes);
        }
        let groups = groups.into_iter();
        let mut groups: Vec<Group> = groups
            .map(|((place, stack), (count, bytes))| Group { count, bytes, place, stack })
            .collect();
        groups.sort_by(|a, b| (b.bytes, &a.place, &a.stack).cmp(&(a.bytes, &b.place, &b.stack)));
        groups
    }
}

impl fmt::Display for LeakTable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.leaks.iter().fold(0u64, |sum, leak| sum.saturating_add(leak.bytes));
        let (count, bytes) = (self.leaks.len(), units::bytes(bytes));
        let plural = if count == 1 { "" } else { "s" };
        writeln!(f, "{}: {count} allocation{plural} leaked, {bytes} in all", self.device)?;
        let mut table = TextTable::new(["leaked", "size", "what"]);
        for Group { count, bytes, place, stack } in self.groups() {
            let what = format!("{place}\n{stack}");
            table.row([count.to_string(), units::bytes(bytes), what.trim_end().to_owned()]);
        }
        write!(f, "{table}")
    }
}

#[cfg(test)]
mod tests {
    use super::super::CallStack;
    use super::*;
    use longshore_plugin_api::MemoryKind;
    use std::panic::Location;

    fn leak(address: u64, bytes: u64, stack: Option<CallStack>) -> Leak {
        let location = Location::caller();
        Leak { address, bytes, kind: MemoryKind::Host, location, stack }
    }

    #[test]
    fn leaks_from_one_place_are_one_row() {
        let leaks = [leak(1, 100, None), leak(2, 1948, None)];
        let shown = LeakTable { device: "toy:0".into(), leaks: &leaks }.to_string();
        let location = leaks[0].location;
        let expected = format!(
            "toy:0: 2 allocations leaked, 2 KiB in all\n\
             leaked   size  what\n     2  2 KiB  Host memory, allocated at {location}\n"
        );
        assert_eq!(shown, expected);
    }

    #[test]
    fn leaks_of_several_call_stacks_are_distinguished() {
        #[inline(never)]
        fn one() -> CallStack {
            std::hint::black_box(CallStack::capture(Location::caller()))
        }
        #[inline(never)]
        fn other() -> CallStack {
            std::hint::black_box(CallStack::capture(Location::caller()))
        }
        let leaks = [leak(1, 1, Some(one())), leak(2, 1, Some(other())), leak(3, 1, None)];
        let table = LeakTable { device: "toy:0".into(), leaks: &leaks };
        assert_eq!(table.groups().len(), 3);
        let same = [leaks[0].clone(), leaks[0].clone()];
        assert_eq!(LeakTable { device: "toy:0".into(), leaks: &same }.groups().len(), 1);
    }
}

//! Sources of images that tests of several doubles use.

/// An image that records in `order` when its constructors (1 and 2) and destructors (3 and 4) run.
pub const CONSTRUCTORS: &str = r#"
#include <longshore_device.h>
LONGSHORE_GLOBAL uint64_t order[4];
static volatile uint64_t next;
static void note(uint64_t what) { uint64_t at = next; order[at] = what; next = at + 1; }
__attribute__((constructor(200))) static void second(void) { note(2); }
__attribute__((constructor(101))) static void first(void) { note(1); }
__attribute__((destructor(101))) static void last(void) { note(4); }
__attribute__((destructor(200))) static void before_last(void) { note(3); }
LONGSHORE_KERNEL(nothing, (uint64_t x)) { (void)x; }
"#;

/// An image with a kernel `count`, whose argument is a number of calls of a function. The function
/// gets the number of each call, and adds multiples of 3 to `total`.
pub const COUNTED: &str = r#"
#include <longshore_device.h>
LONGSHORE_GLOBAL volatile uint64_t total;
__attribute__((noinline)) void longshore_counted(uint64_t i) { if (i % 3 == 0) total += i; }
LONGSHORE_KERNEL(count, (uint64_t n)) {
  (void)longshore_self;
  for (uint64_t i = 0; i < n; i++) longshore_counted(i);
}
"#;

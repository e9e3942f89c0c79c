//! The process that executes.

fn main() {
    longshore_executor::target::main();
}

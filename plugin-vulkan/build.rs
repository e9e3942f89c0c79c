//! Has what SPIRV-Tools registers for the end of the process go to a function of `validate.rs`.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,--wrap=__cxa_atexit");
}

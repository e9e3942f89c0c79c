//! The build script. Redirects the exit handlers that a compiled-in SPIRV-Tools registers to a
//! function of `validate/compiled.rs`.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var_os("CARGO_FEATURE_SPIRV_TOOLS").is_some() {
        println!("cargo::rustc-cdylib-link-arg=-Wl,--wrap=__cxa_atexit");
    }
}

//! A plugin with one answer beyond a bound.

use longshore::{
    DeviceInfo, Environment, ErrorCode, Host, HostBuilder, MemoryKind, Outcome, PlatformInfo,
};
use std::path::PathBuf;
use std::process::Command;
use tempfile::TempDir;

/// Names of answers beyond a bound, each with a part of the error's message.
pub(crate) const WRONG_ANSWERS: [(&str, &str); 31] = [
    ("devices", "longshore.platform, device_count: 4294967295 devices, expected at most 1024"),
    ("description", "describe, name: 70368744177664 bytes, expected at most 4096"),
    ("reason", "connect, reason: 4294967296 bytes, expected at most 65536"),
    ("info", "longshore.platform, info Name: 4294967302 bytes, expected at most 65536"),
    ("device info", "device_info Name of device 0: 4294967302 bytes, expected at most 65536"),
    ("acceptance", "longshore.device, accepts: 7, expected 0, 1 or 2"),
    ("refusal", "longshore.device, accepts, reason: 4294967296 bytes, expected at most 65536"),
    ("address 0", "longshore.device, allocate: address 0, expected a nonzero address"),
    ("odd address", "longshore.device, allocate: address 0x1, expected a multiple of 256"),
    ("last address", "bytes at 0xffffffffffffff00, expected an end within 64 bits"),
    ("message", "whose message has 70368744177664 bytes, expected at most 65536"),
    ("vendor", "whose vendor name has 70368744177664 bytes, expected at most 65536"),
    ("code", "kernel 'k', address: 256 bytes at 0xffffffffffffffff, expected an end within 64"),
    ("odd sizes", "kernel 'k', argument_sizes: 0x"),
    ("arguments", "kernel 'k', argument_count: 4294967295 arguments, expected at most 32768"),
    ("argument", "size of argument 1: 4294967295 bytes, expected at most 16777216"),
    ("shared memory", "static_shared_bytes: 18446744073709551615 bytes, expected at most 92233"),
    ("private memory", "private_bytes: 18446744073709551615 bytes, expected at most 92233"),
    ("odd types", "kernel 'k', argument_types: 0x"),
    ("declaration", "kernel 'k', declaration: 70368744177664 bytes, expected at most 1048576"),
    ("global", "global 'g': 18446744073709551615 bytes, expected at most 92233"),
    ("end of a global", "global 'g': 8 bytes at 0xffffffffffffffff, expected an end within 64"),
    ("symbols", "longshore.module, symbols: 1048577 symbols, expected at most 1048576"),
    ("symbol", "symbols, name: 70368744177664 bytes, expected at most 1048576"),
    ("null symbol", "symbols, name: null with 8 bytes, expected a pointer to them"),
    ("names of symbols", "symbols, all names: 68157440 bytes, expected at most 67108864"),
    ("sections", "longshore.instrumentation, profile: 4097 sections, expected at most 4096"),
    ("section", "all contents: 18446744073709551615 bytes, expected at most 67108864"),
    ("contents of sections", "all contents: 68157440 bytes, expected at most 67108864"),
    ("end of a section", "section: 8 bytes at 0xffffffffffffffff, expected an end within 64 bits"),
    ("items", "longshore.occupancy, optimal_group_items: 0 items, expected at least 1"),
];

/// The plugin, built with one wrong answer.
pub(crate) struct Absurd {
    folder: TempDir,
}

impl Absurd {
    /// Builds the plugin with the wrong answer `wrong`. A name outside of [`WRONG_ANSWERS`] makes
    /// all answers correct.
    pub(crate) fn new(wrong: &str) -> Absurd {
        let absurd = Absurd { folder: tempfile::tempdir().unwrap() };
        let here = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/hostile/absurd/plugin.c");
        let header = concat!(env!("CARGO_MANIFEST_DIR"), "/../plugin-api/include");
        let mut compiler = Command::new("cc");
        compiler.args(["-std=gnu11", "-shared", "-fPIC", "-fvisibility=hidden", "-I", header]);
        compiler.arg(format!("-DWRONG=\"{wrong}\"")).arg(here).arg("-o").arg(absurd.path());
        assert!(compiler.status().unwrap().success());
        absurd
    }

    /// Returns a builder of a host without other plugins.
    pub(crate) fn host(&self) -> HostBuilder {
        let profile = self.folder.path().join("profile_%p.profraw");
        let environment = Environment::empty().with("LONGSHORE_PROFILE_FILE", profile);
        Host::builder()
            .with_environment(environment)
            .with_only_given_plugins()
            .with_plugin(self.path())
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("liblongshore_plugin_absurd.so")
    }
}

/// Makes the calls that reach every answer, and returns the first error.
pub(crate) fn first_error(builder: HostBuilder) -> longshore::Result<()> {
    let host = builder.build()?;
    match &host.candidates()[0].outcome {
        Outcome::Failed(error) => return Err(error.clone()),
        Outcome::Loaded | Outcome::Isolated(_) => {}
        other => panic!("{other:?}"),
    }
    let entry = &host.devices()[0];
    entry.platform_info(PlatformInfo::Name)?;
    entry.info(DeviceInfo::Name)?;
    let device = entry.open()?;
    device.accepts(b"an image")?;
    device.allocate(MemoryKind::Device, 100, 64)?;
    let mut word = 0_u64;
    // SAFETY: the plugin accesses no memory of the program.
    match unsafe { device.pin((&raw mut word).cast(), 8) } {
        // An isolated plugin cannot pin memory of the program.
        Err(error) if error.code() == ErrorCode::Unsupported => {}
        pinned => assert_eq!(pinned?.address(), &raw const word as u64),
    }
    // SAFETY: the plugin runs no code of the image.
    let program = unsafe { device.load(&b"an image"[..]) }?;
    let kernel = program.kernel("k")?;
    device.optimal_group_items(&kernel, 0)?;
    program.global("g")?;
    program.symbols()?;
    drop(kernel);
    program.unload()?;
    device.close().map(drop)
}

/// Allocates memory of the first device, then of the device with this index. Returns the result of
/// the second allocation, and the number of blocks that were freed meanwhile.
pub(crate) fn second_allocation(
    builder: HostBuilder,
    index: usize,
) -> (longshore::Result<()>, u64) {
    const BYTES: u64 = 1 << 26;
    let host = builder.build().unwrap();
    let [device, other] = [0, 1].map(|index| host.devices()[index].open().unwrap());
    let first = device.allocate(MemoryKind::Device, BYTES, 256).unwrap();
    let second = [&device, &other][index].allocate(MemoryKind::Device, 1 << 16, 256);
    let known = host.allocation_at(first.pointer()).unwrap();
    assert_eq!((known.base, known.bytes), (first.pointer().address(), BYTES));
    // SAFETY: the plugin runs no code of the image.
    let program = unsafe { device.load(&b"an image"[..]) }.unwrap();
    let freed = program.global("g").unwrap().bytes() - 8;
    (second.map(drop), freed)
}

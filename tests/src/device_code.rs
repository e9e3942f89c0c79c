//! Device code that a test compiles itself, by the installed versions of clang.

use crate::effort;
use crate::world::{World, copy_into, host_plugin, root};
use longshore::{Device, Environment, Image, Program};
use longshore_conformance::TrustedImages;
use std::path::PathBuf;
use std::process::Command;

/// Returns the installed versions of clang among the versions for Longshore's header, oldest first:
/// the oldest and the newest, or [all](effort::is_all).
pub fn clangs() -> Vec<&'static str> {
    let mut all = vec!["clang-14", "clang-16", "clang-19", "clang-22"];
    if !effort::is_all() {
        all.drain(1..3);
    }
    let is_there = |name: &&str| Command::new(name).arg("--version").output().is_ok();
    let (there, missing): (Vec<_>, Vec<_>) = all.into_iter().partition(is_there);
    for name in missing {
        println!("{name} is not installed; nothing was tried with it");
    }
    there
}

/// A folder with the CPU's plugin, sources and objects.
pub struct Workshop {
    world: World,
}

impl Workshop {
    /// Creates an empty folder.
    #[expect(clippy::new_without_default, reason = "it makes files")]
    pub fn new() -> Workshop {
        let world = World::new();
        copy_into(&world, &host_plugin());
        Workshop { world }
    }

    /// Opens the CPU with settings of its own.
    pub fn device(&self, environment: Environment) -> Device {
        let host = self.world.host().with_environment(environment).build();
        host.and_then(|host| host.default_device()).expect("the CPU is a device")
    }

    /// Compiles C to a relocatable object beside its source.
    pub fn object(&self, clang: &str, name: &str, source: &str, flags: &[&str]) -> PathBuf {
        self.compile(clang, name, source, &[&["-c"], flags].concat())
    }

    /// Compiles C to a shared object, as an image.
    pub fn shared(&self, clang: &str, name: &str, source: &str, flags: &[&str]) -> Image {
        let object = self.compile(clang, name, source, &[&["-shared"], flags].concat());
        Image::read(object).expect("the object was just written")
    }

    fn compile(&self, clang: &str, name: &str, source: &str, flags: &[&str]) -> PathBuf {
        let file = self.world.path().join(format!("{name}.c"));
        std::fs::write(&file, source).expect("the folder can be written to");
        let object = self.world.path().join(format!("{name}-{clang}{}.o", flags.concat()));
        let mut command = Command::new(clang);
        command.args(["-fPIC", "-Wall", "-Wextra", "-Werror", "-I"]).arg(root().join("include"));
        let output = command.args(flags).arg("-o").arg(&object).arg(&file).output();
        let output = output.unwrap_or_else(|error| panic!("{clang}: {error}"));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{clang} {flags:?} {name}: {said}");
        object
    }

    /// Compiles C to a relocatable object, as an image.
    pub fn image(&self, clang: &str, name: &str, source: &str, flags: &[&str]) -> Image {
        Image::read(self.object(clang, name, source, flags)).expect("the object was just written")
    }
}

/// Returns the setting for `count` threads in a launch.
pub fn threads(count: usize) -> Environment {
    Environment::empty().with("LONGSHORE_HOST_THREADS", count.to_string())
}

/// Runs `test` with each compiler, at -O0 and -O3, and with 1, 2 and 5 threads.
pub fn everywhere(source: &str, test: impl Fn(&Device, &Program)) {
    let workshop = Workshop::new();
    for clang in clangs() {
        for flags in ["-O0", "-O3"] {
            let image = workshop.image(clang, "source", source, &[flags]);
            for count in [1, 2, 5] {
                println!("{clang} {flags}, {count} threads");
                let device = workshop.device(threads(count));
                let program = device.load_trusted(image.clone()).expect("the CPU takes it");
                test(&device, &program);
            }
        }
    }
}

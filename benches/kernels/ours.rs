//! The CPU as Longshore's device.

use crate::COMPILER_FLAGS;
use anyhow::{Context, Result, ensure};
use longshore::{Buffer, Device, Element, Environment, Host};
use longshore_tests::kernels::{Build, Kernels, Language, Shape, source};
use longshore_tests::programs::Position;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A device with the kernels.
pub(crate) struct Ours {
    pub(crate) kernels: Kernels,
    device: Device,
}

/// Compiles the kernels by `clang-19` alone.
pub(crate) fn image() -> Vec<u8> {
    let shape = Shape::Object(Position::Independent);
    Build { clang: 19, language: Language::C, flags: COMPILER_FLAGS, shape }.image()
}

/// Compiles the kernels by `longshore cc`, with `clang-19`.
///
/// # Errors
/// A command that was not built or fails.
pub(crate) fn image_of_cc() -> Result<Vec<u8>> {
    compiled(&source())
}

/// Compiles the kernels in CUDA by `longshore cc`, with `clang-19`.
///
/// # Errors
/// A command that was not built or fails.
pub(crate) fn image_of_cuda() -> Result<Vec<u8>> {
    compiled(&source().with_extension("cu"))
}

fn compiled(source: &Path) -> Result<Vec<u8>> {
    let folder = tempfile::tempdir()?;
    let image = folder.path().join("kernels.o");
    let command = built("longshore")?;
    let mut compile = Command::new(&command);
    compile.arg("cc").arg(source).args(["--target", "host:native", "--raw"]);
    compile.args(["--clang", "clang-19", "-O3", "-fno-math-errno", "-o"]).arg(&image);
    let output = compile.output().with_context(|| command.display().to_string())?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}: {said}", command.display());
    Ok(std::fs::read(image)?)
}

impl Ours {
    /// Opens the CPU with `threads` threads, or with one for each core.
    pub(crate) fn new(image: &[u8], threads: Option<u32>) -> Result<Ours> {
        let mut environment = Environment::empty();
        if let Some(threads) = threads {
            environment = environment.with("LONGSHORE_HOST_THREADS", threads.to_string());
        }
        let host = Host::builder()
            .with_environment(environment)
            .with_only_given_plugins()
            .with_plugin(built("liblongshore_plugin_host.so")?);
        let device = host.build()?.default_device()?;
        Ok(Ours { kernels: Kernels::new(&device, image)?, device })
    }

    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    /// Returns device memory with these values. On the CPU, peers can use it as well.
    pub(crate) fn buffer<T: Element>(&self, values: &[T]) -> Buffer<T> {
        self.device.buffer_of(self.kernels.queue(), values).expect("there is memory")
    }

    pub(crate) fn write<T: Element>(&self, buffer: &Buffer<T>, values: &[T]) {
        buffer.write(self.kernels.queue(), values).expect("the device copies");
    }

    pub(crate) fn read<T: Element>(&self, buffer: &Buffer<T>) -> Vec<T> {
        buffer.to_vec(self.kernels.queue()).expect("the device copies")
    }

    /// Waits for the launches whose result is `launched`.
    pub(crate) fn finish(&self, launched: longshore::Result<()>) {
        let finished = launched.and_then(|()| self.kernels.queue().synchronize());
        finished.expect("the kernels run");
    }
}

/// Returns a file beside this executable's folder: target/release/.
fn built(file: &str) -> Result<PathBuf> {
    let executable = std::env::current_exe()?;
    let folder = executable.ancestors().nth(2).context("target/release/deps/<executable>")?;
    Ok(folder.join(file))
}

//! Bitcode images of the CPU with cached results, beside the objects that they become.

use crate::bitcode::{bitcode, version};
use crate::executors::executor;
use anyhow::Result;
use longshore::{Device, Environment, Host, Image};
use longshore_benches::report::{Limit, Report};
use longshore_benches::rounds::{Contender, in_rounds};
use longshore_compiler::{Compile, Compiler, Module, Options, Part, Request, Target};
use longshore_conformance::TrustedImages;
use longshore_executor::compiler::change_kernels;
use longshore_tests::world::host_plugin;
use std::path::Path;
use std::time::{Duration, Instant};

/// Number of loads in one sample.
const LOADS: u32 = 200;

/// Measures images of one kernel and of a hundred.
pub(crate) fn measure(report: &mut Report) -> Result<()> {
    let Some(version) = version() else {
        println!("not measured: cached images, which need a libLLVM with its clang");
        return Ok(());
    };
    let folder = tempfile::tempdir_in("/dev/shm")?;
    let device = device(&folder.path().join("jit"))?;
    for kernels in [1, 100] {
        let bitcode = bitcode(version, &folder.path().join("it.bc"), &text(kernels))?;
        let object = object(&device, &bitcode)?;
        let sizes = format!("{} bytes, as object {}", bitcode.len(), object.len());
        let (image, object) = (Image::from(&bitcode), Image::from(object));
        load(&device, image.clone())?;
        let first = || load(&self::device(&folder.path().join("jit"))?, image.clone());
        let [floor, again, copied, first] = in_rounds([
            sample(|| loads(&device, || object.clone())),
            sample(|| loads(&device, || image.clone())),
            sample(|| loads(&device, || Image::from(&bitcode))),
            sample(first),
        ]);
        let floor = floor.expect("it ran");
        let what = format!("{kernels} kernels from cached bitcode ({sizes})");
        for (name, times) in [("the same image", again), ("a copy", copied)] {
            let limit = Limit::from_floor("1.2 x", &floor, |time| time.mul_f64(1.2));
            let name = format!("{what}, {name}; floor: the object");
            report.row(&name, Some(&floor), &times.expect("it ran"), limit);
        }
        report.note(&format!("{what}, the first load of a host"), &first.expect("it ran"));
    }
    Ok(())
}

fn device(cache: &Path) -> Result<Device> {
    let host = Host::builder()
        .with_plugin(host_plugin())
        .with_environment(Environment::empty().with("LONGSHORE_JIT_CACHE", cache))
        .with_executor(executor()?);
    Ok(host.build()?.default_device()?)
}

/// Returns a program with this many kernels.
fn text(kernels: usize) -> String {
    let kernel = |number: usize| {
        format!(
            "void kernel{number}(void **arguments) {{
                 float *values = *(float **)arguments[0];
                 int count = *(int *)arguments[1];
                 for (int n = 1; n < count; n++) values[n] += values[n - 1] * {number};
             }}\n"
        )
    };
    (0..kernels).map(kernel).collect()
}

/// Compiles bitcode as the host does.
fn object(device: &Device, bitcode: &[u8]) -> Result<Vec<u8>> {
    let target = device.code_target()?;
    let target = Target { triple: target.triple, cpu: target.processor, features: target.features };
    let (module, options) = (Module::new(bitcode), Options::default());
    let request =
        Request { module: &module, part: &Part::Whole, target: &target, options: &options };
    // SAFETY: the system's libLLVM is LLVM's, and clang made the module.
    let compiler = unsafe { Compiler::in_process([]) }.with_pre_pass(change_kernels);
    Ok(compiler.compile(&request)?.bytes)
}

fn sample<'a>(run: impl Fn() -> Result<Duration> + 'a) -> Option<Contender<'a>> {
    Some(Contender { sample: Box::new(move || run().expect("the image is good")) })
}

/// Returns the average time of loads. Making and unloading the images does not count.
fn loads(device: &Device, image: impl Fn() -> Image) -> Result<Duration> {
    load(device, image())?;
    let times = (0..LOADS).map(|_| load(device, image()));
    Ok(times.sum::<Result<Duration>>()? / LOADS)
}

/// Returns the time of one load.
fn load(device: &Device, image: Image) -> Result<Duration> {
    let start = Instant::now();
    let program = device.load_trusted(image)?;
    let took = start.elapsed();
    program.unload()?;
    Ok(took)
}

//! An archive of many kernels, of which a program calls one.

use crate::compile;
use crate::image::Cpu;
use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use longshore::Device;
use longshore_benches::report::{Limit, Report};
use longshore_benches::rounds::{Contender, in_rounds};
use longshore_conformance::TrustedImages;
use longshore_jitlink::lazy::LazyReexports;
use longshore_jitlink::session::StaticArchive;
use longshore_jitlink::{Library, Session};
use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

const KERNELS: usize = 10_000;
/// Name of the compiled kernel. The other names have the same length.
const NAME: &str = "kernel_NNNNN";

const SOURCE: &str = "
    static const float weights[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };
    static void scale(float *values, int count, float by) { for (int n = 0; n < count; n++) values[n] *= by + weights[n & 7]; }
    int kernel_NNNNN(float *values, int count, float by)
    {
        scale(values, count, by);
        for (int n = 1; n < count; n++)
            values[n] += values[n - 1] * weights[n & 7];
        return count;
    }";

/// The kernel in the form that a device launches.
const IMAGE_SOURCE: &str = "
    static const float weights[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };
    static void scale(float *values, int count, float by) { for (int n = 0; n < count; n++) values[n] *= by + weights[n & 7]; }
    void kernel_NNNNN(void **arguments)
    {
        float *values = *(float **)arguments[0];
        int count = *(int *)arguments[1];
        scale(values, count, *(float *)arguments[2]);
        for (int n = 1; n < count; n++)
            values[n] += values[n - 1] * weights[n & 7];
    }";

type Kernel = extern "C" fn(*mut f32, i32, f32) -> i32;

/// A kernel, and the re-exports that its code needs until it is called.
type Ready = (Kernel, Option<LazyReexports>);

pub(crate) fn measure(report: &mut Report) -> Result<()> {
    let archive = archive(SOURCE)?;
    let timed = |run: fn(&Session, &Bytes) -> Result<Ready>| {
        let archive = &archive;
        Some(Contender {
            sample: Box::new(move || time(archive, run).expect("the archive is good")),
        })
    };
    let [whole, lazy, members] = in_rounds([timed(whole), timed(lazily), timed(by_members)]);
    let (whole, lazy) = (whole.expect("it ran"), lazy.expect("it ran"));
    let limit = Limit::share(20.0, &whole);
    report.row("10,000 kernels: one called; floor: all linked", Some(&whole), &lazy, limit);
    let name = "the same by StaticArchive, which reads the members' symbols";
    report.note(name, &members.expect("it ran"));
    Ok(())
}

/// Measures an image of the CPU backend.
pub(crate) fn measure_image(report: &mut Report) -> Result<()> {
    let cpu = Cpu::open(archive(IMAGE_SOURCE)?)?;
    let contender = |run: fn(&Cpu) -> Result<Duration>| {
        let cpu = &cpu;
        Some(Contender { sample: Box::new(move || run(cpu).expect("the archive is good")) })
    };
    let [whole, lazy, called] = in_rounds([
        contender(|cpu| cpu.load(Device::load_trusted)),
        contender(|cpu| cpu.load(Device::load_trusted_lazily)),
        contender(Cpu::load_and_launch),
    ]);
    let (whole, lazy) = (whole.expect("it ran"), lazy.expect("it ran"));
    let limit = Limit::share(20.0, &whole);
    report.row(
        "10,000 kernels: image loaded lazily; floor: as a whole",
        Some(&whole),
        &lazy,
        limit,
    );
    report.note("image loaded lazily, and a kernel launched", &called.expect("it ran"));
    Ok(())
}

/// Returns the time from the bytes to the result of a kernel.
fn time(archive: &Bytes, run: fn(&Session, &Bytes) -> Result<Ready>) -> Result<Duration> {
    // SAFETY: the kernels are this benchmark's.
    let session = unsafe { Session::new() }?;
    let mut values = [1.0f32; 4];
    let start = Instant::now();
    let (kernel, lazy) = run(&session, archive)?;
    let result = kernel(values.as_mut_ptr(), 4, 0.5);
    let took = start.elapsed();
    drop(lazy);
    ensure!(result == 4 && values == [1.5, 5.5, 20.0, 84.5], "a kernel gives {values:?}");
    Ok(took)
}

fn whole(session: &Session, archive: &Bytes) -> Result<Ready> {
    let library = session.create_library("whole");
    let _objects = library.add_whole_archive("it.a", archive)?;
    library.link_all()?;
    Ok((kernel(&library)?, None))
}

fn lazily(session: &Session, archive: &Bytes) -> Result<Ready> {
    let library = session.create_library("lazy");
    let lazy = LazyReexports::for_session(session)?;
    lazy.add_lazily(&library, "it.a", archive.clone())?;
    Ok((kernel(&library)?, Some(lazy)))
}

fn by_members(session: &Session, archive: &Bytes) -> Result<Ready> {
    let library = session.create_library("members");
    library.add_generator(StaticArchive::new("it.a", archive.clone())?);
    Ok((kernel(&library)?, None))
}

fn kernel(library: &Library) -> Result<Kernel> {
    let address = library.lookup("kernel_07777")?;
    // SAFETY: the source defines it with this type.
    Ok(unsafe { std::mem::transmute::<usize, Kernel>(address as usize) })
}

/// Creates an archive of one object under many names.
fn archive(source: &str) -> Result<Bytes> {
    let folder = tempfile::tempdir_in("/dev/shm")?;
    let path = |name: &str| folder.path().join(name);
    let object = compile(source)?;
    let at: Vec<usize> =
        (0..object.len()).filter(|at| object[*at..].starts_with(NAME.as_bytes())).collect();
    let names: Vec<String> = (0..KERNELS).map(|index| format!("kernel_{index:05}")).collect();
    for name in &names {
        let mut renamed = object.to_vec();
        at.iter().for_each(|at| renamed[*at..at + NAME.len()].copy_from_slice(name.as_bytes()));
        fs::write(path(&format!("{name}.o")), renamed)?;
    }
    let members = names.iter().map(|name| format!("{name}.o"));
    let ar =
        Command::new("ar").current_dir(folder.path()).args(["rcs", "it.a"]).args(members).status();
    ensure!(ar.context("ar")?.success(), "ar does not make an archive");
    Ok(fs::read(path("it.a"))?.into())
}

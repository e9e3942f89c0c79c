//! Linking with NVIDIA's own tools.
//!
//! The output is real. Its twin consists of the twins of all inputs.

use crate::code::{INVALID_PTX, JIT_COMPILER_NOT_FOUND};
use crate::image::{self, device_arch};
use crate::jit::{Jit, Options};
use crate::ptx_check;
use longshore_double_gpu::driver::context::{current, current_or_failed};
use longshore_double_gpu::driver::image::Refusal;
use longshore_double_gpu::driver::object::{self, Object};
use longshore_double_gpu::driver::twin::{self, Twin};
use longshore_double_gpu::driver::{Code, DriverResult, In, Out, Text, broken, driver};
use parking_lot::Mutex;
use std::ffi::c_void;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

const INPUT_CUBIN: u32 = 0;
const INPUT_PTX: u32 = 1;
const INPUT_FATBIN: u32 = 2;
const INPUT_OBJECT: u32 = 3;
const INPUT_LIBRARY: u32 = 4;

/// Folder of the tools in an installation of NVIDIA's packages.
const PACKAGES: &str = "target/nvcc/nvidia/cu13/bin";

/// A link state.
pub(crate) struct Link {
    handle: usize,
    context: usize,
    jit: Jit,
    state: Mutex<State>,
}

// SAFETY: the program keeps the logs' buffers until it destroys the link state, and only calls on
// the link state write to them.
unsafe impl Send for Link {}
// SAFETY: as above; the driver does not allow two concurrent calls on one link state either.
unsafe impl Sync for Link {}

#[derive(Default)]
struct State {
    inputs: Vec<(&'static str, Vec<u8>)>,
    /// Twin of each input, if it has one.
    twins: Vec<Option<Twin>>,
    /// Result, which the program reads until it destroys the link state.
    output: Vec<u8>,
}

impl Object for Link {
    const KIND: &'static str = "link state";

    fn context_handle(&self) -> usize {
        self.context
    }
}

pub(crate) fn create(options: Options, link: Out<usize>) -> DriverResult {
    let context = current()?;
    let jit = Jit::new(options)?;
    if link.is_null() {
        return link.put(0);
    }
    let made = object::add(|handle| Link {
        handle,
        context: context.handle,
        jit,
        state: Mutex::default(),
    });
    link.put(made.handle)
}

pub(crate) fn add(
    link: usize,
    kind: u32,
    data: In<c_void>,
    bytes: usize,
    name: Text,
    options: Options,
) -> DriverResult {
    current()?;
    let link = object::get::<Link>(link)?;
    Jit::new(options)?;
    let _for_people = name.get_or_empty();
    if data.is_null() || bytes == 0 {
        return Err(broken(Code::INVALID_VALUE, "an empty or null input is added to a link"));
    }
    let start = std::ptr::with_exposed_provenance::<u8>(data.address());
    // SAFETY: the program passed `bytes` bytes.
    let data = unsafe { std::slice::from_raw_parts(start, bytes) }.to_vec();
    let added = input(kind, data);
    let (extension, data, twin) = added.map_err(|refusal| {
        link.jit.complain(&refusal.log);
        refusal.code
    })?;
    let mut state = link.state.lock();
    state.inputs.push((extension, data));
    state.twins.push(twin);
    Ok(())
}

pub(crate) fn complete(link: usize, cubin: Out<*const u8>, bytes: Out<usize>) -> DriverResult {
    current()?;
    let link = object::get::<Link>(link)?;
    let mut state = link.state.lock();
    let output = run(&state.inputs).map_err(|refusal| {
        link.jit.complain(&refusal.log);
        refusal.code
    })?;
    let twins: Option<Vec<Twin>> = state.twins.iter().cloned().collect();
    if let Some(twins) = twins {
        twin::remember(&output, twins.concat());
    }
    state.output = output;
    cubin.put(state.output.as_ptr())?;
    bytes.put_if_wanted(state.output.len());
    Ok(())
}

pub(crate) fn destroy(link: usize) -> DriverResult {
    current_or_failed()?;
    object::remove::<Link>(link)?;
    Ok(())
}

/// Returns an input's file extension for the tools, its contents, and its twin.
fn input(kind: u32, data: Vec<u8>) -> Result<(&'static str, Vec<u8>, Option<Twin>), Refusal> {
    let extension = match kind {
        INPUT_CUBIN | INPUT_OBJECT => "cubin",
        INPUT_PTX => "ptx",
        INPUT_FATBIN => {
            let image = image::Image::read(data)?;
            let kind = if image.is_ptx { INPUT_PTX } else { INPUT_CUBIN };
            return input(kind, image.bytes);
        }
        INPUT_LIBRARY => {
            return Err(Refusal::new(Code(801), "the double cannot link libraries\n"));
        }
        _ => {
            let what = format!("unknown kind of input for a link: {kind}");
            return Err(Refusal::new(broken(Code::INVALID_VALUE, what), ""));
        }
    };
    if extension == "ptx"
        && let Some(complaint) = ptx_check::complaint(&String::from_utf8_lossy(&data))
    {
        return Err(Refusal::new(INVALID_PTX, complaint));
    }
    // The linker may still report that an input without a twin lacks a symbol. If the link
    // succeeds, its output has no twin either.
    let twin = twin::from_bytes(&data).ok();
    Ok((extension, data, twin))
}

/// Assembles PTX, and links.
fn run(inputs: &[(&str, Vec<u8>)]) -> Result<Vec<u8>, Refusal> {
    let missing =
        |name: &str| Refusal::new(JIT_COMPILER_NOT_FOUND, format!("the double found no {name}\n"));
    let nvlink = tool("nvlink").ok_or_else(|| missing("nvlink"))?;
    let ptxas = tool("ptxas").ok_or_else(|| missing("ptxas"))?;
    let folder = tempfile::tempdir().map_err(system)?;
    let arch = format!("-arch={}", device_arch());
    let mut objects = Vec::new();
    for (index, (extension, data)) in inputs.iter().enumerate() {
        let data = match *extension {
            "ptx" => data.strip_suffix(b"\0").unwrap_or(data),
            _ => data,
        };
        let file = folder.path().join(format!("input{index}.{extension}"));
        std::fs::write(&file, data).map_err(system)?;
        if *extension != "ptx" {
            objects.push(file);
            continue;
        }
        let object = file.with_extension("cubin");
        let mut command = Command::new(&ptxas);
        command.arg("-c").arg(&arch).arg(&file).arg("-o").arg(&object);
        run_tool(command, INVALID_PTX)?;
        objects.push(object);
    }
    let output = folder.path().join("linked.cubin");
    let mut command = Command::new(&nvlink);
    command.arg(&arch).args(&objects).arg("-o").arg(&output);
    run_tool(command, Code::UNKNOWN)?;
    std::fs::read(&output).map_err(system)
}

/// Runs a tool; its output becomes the log of a failure.
fn run_tool(mut command: Command, code: Code) -> Result<(), Refusal> {
    let output = command.output().map_err(system)?;
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stdout, output.stderr].concat();
    Err(Refusal::new(code, String::from_utf8_lossy(&said)))
}

fn system(error: io::Error) -> Refusal {
    Refusal::new(Code::OPERATING_SYSTEM, format!("{error}\n"))
}

/// Finds a tool in the folder of the setting `tools`, beside `$PTXAS`, in a folder with NVIDIA's
/// packages above this one, or in `$PATH`.
fn tool(name: &str) -> Option<PathBuf> {
    if let Some(folder) = driver().settings.get("tools") {
        return Some(Path::new(folder).join(name)).filter(|tool| tool.is_file());
    }
    let beside = std::env::var_os("PTXAS").map(PathBuf::from);
    let beside = beside.and_then(|tool| tool.parent().map(Path::to_path_buf));
    let here = std::env::current_dir().unwrap_or_default();
    let packages = here.ancestors().map(|folder| folder.join(PACKAGES)).collect::<Vec<_>>();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = beside.into_iter().chain(packages).chain(std::env::split_paths(&path));
    folders.map(|folder| folder.join(name)).find(|tool| tool.is_file())
}

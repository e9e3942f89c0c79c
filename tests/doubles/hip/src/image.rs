//! Images: code objects.

use crate::code::SHARED_OBJECT_INIT_FAILED;
use crate::current::target_of;
use crate::survival::survive;
use longshore_double_gpu::driver::context::current;
use longshore_double_gpu::driver::image::{
    self, Argument, Contents, ELF_MAGIC, Image, Reference, Refusal, elf_at, peek,
};
use longshore_double_gpu::driver::module::{self, Module};
use longshore_double_gpu::driver::{Code, DriverResult, In, Out, driver, object};
use longshore_double_gpu::protocol::Request;
use longshore_format_amdgpu::{CodeObject, Header, Kernel, Linkage, Target};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::ffi::c_void;

/// Types of sections without bytes in the file.
const WITHOUT_BYTES: [u64; 2] = [0, 8];
/// Number of bytes to read of an image that does not state its size.
const FIRST_BYTES: usize = 64;
/// Prefixes of the names of a profile's records and counters, and the offset of a record's
/// reference to its counters in bytes.
const RECORD: &str = "__profd_";
const COUNTERS: &str = "__profc_";
const COUNTERS_AT: u64 = 16;
/// Kinds of kernels that the runtime runs by itself, in the form by which a program hides them, and
/// in the original form.
const HIDDEN: [(&[u8], &[u8]); 2] =
    [(b"\xa5.kind\xa4INIT", b"\xa5.kind\xa4init"), (b"\xa5.kind\xa4FINI", b"\xa5.kind\xa4fini")];
/// Modules whose destructors the runtime runs.
static WITH_DESTRUCTORS: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());

pub(crate) fn load(module: Out<usize>, image: In<c_void>) -> DriverResult {
    let mut by_runtime = [false; 2];
    let loaded = module::load(module, || {
        let bytes = image::bytes_at(image.address(), |magic| match magic {
            ELF_MAGIC => elf_at(image.address(), &WITHOUT_BYTES),
            _ => peek(image.address(), FIRST_BYTES),
        })?;
        if is_linked(&bytes) {
            survive(&bytes);
        }
        by_runtime = HIDDEN.map(|(_, shown)| memchr::memmem::find(&bytes, shown).is_some());
        let device = current()?.device;
        read(as_made(bytes), &target_of(&driver().settings, device))
    });
    let loaded = loaded.map_err(|refusal| refusal.code)?;
    let [begins, ends] = by_runtime;
    if begins {
        run(&loaded, false)?;
    }
    if ends {
        WITH_DESTRUCTORS.lock().insert(loaded.handle());
    }
    Ok(())
}

pub(crate) fn unload(module: usize) -> DriverResult {
    if WITH_DESTRUCTORS.lock().remove(&module) {
        run(&*object::get::<Module>(module)?, true)?;
    }
    module::unload(module)
}

/// Runs constructors or destructors, as the runtime does by itself at load and unload.
fn run(module: &Module, ends: bool) -> DriverResult {
    let ran = current()?.ask(&Request::Life { module: module.number, ends });
    ran.map(drop).map_err(|_| Code::LAUNCH_FAILED)
}

/// Returns whether HIP reads the parts of a file: it must be linked, and for AMD's GPUs.
fn is_linked(bytes: &[u8]) -> bool {
    Header::read(bytes).is_ok_and(|header| !header.is_relocatable)
}

/// Reads a code object, if the device runs it.
///
/// # Errors
/// The reason for a refusal.
fn read(bytes: Vec<u8>, device: &Target) -> Result<Image, Refusal> {
    let refuse = |code, why: String| Refusal::new(code, format!("{why}\n"));
    let object = CodeObject::read(&bytes)
        .map_err(|malformed| refuse(Code::INVALID_IMAGE, malformed.to_string()))?;
    if object.header.is_relocatable {
        return Err(refuse(Code::INVALID_IMAGE, "the code object is not linked".to_owned()));
    }
    if !object.header.is_supported() {
        let what = format!("code objects of version {} are not run", object.header.version);
        return Err(refuse(Code::NO_BINARY_FOR_GPU, what));
    }
    let target = &object.header.target;
    target.runs_on(device).map_err(|why| refuse(Code::NO_BINARY_FOR_GPU, why.to_string()))?;
    if !object.undefined.is_empty() {
        let what = format!("undefined: {}", object.undefined.join(", "));
        return Err(refuse(SHARED_OBJECT_INIT_FAILED, what));
    }
    let contents = contents(&object, &bytes);
    Ok(Image { bytes, contents, refused: Code::INVALID_IMAGE })
}

/// Returns an image in its compiler's form, by which its twin is found.
fn as_made(mut bytes: Vec<u8>) -> Vec<u8> {
    for (hidden, shown) in HIDDEN {
        let places: Vec<usize> = memchr::memmem::find_iter(&bytes, hidden).collect();
        for place in places {
            bytes[place..place + shown.len()].copy_from_slice(shown);
        }
    }
    bytes
}

/// Converts a code object's contents. The functions' version of machine code is the processor's.
fn contents(object: &CodeObject, bytes: &[u8]) -> Contents {
    let digits = object.header.target.processor.trim_start_matches("gfx");
    let version = digits.chars().take_while(char::is_ascii_digit).collect::<String>();
    let version = version.parse().unwrap_or(0);
    let variables = object.variables.iter().map(|variable| image::Variable {
        name: variable.name.clone(),
        bytes: variable.bytes,
        is_seen: variable.linkage != Linkage::Internal,
        initial: variable.initial(bytes).to_vec(),
        references: counters_of(&variable.name).into_iter().collect(),
        place: None,
    });
    Contents {
        kernels: object.kernels.iter().map(kernel).collect(),
        variables: variables.collect(),
        has_references: object.variables.iter().any(|of| counters_of(&of.name).is_some()),
        language: version,
        machine_code: version,
    }
}

/// Returns a record's reference to its counters, by their address. The image has their distance
/// instead, but the twin places the counters elsewhere.
fn counters_of(record: &str) -> Option<Reference> {
    let function = record.strip_prefix(RECORD)?;
    let symbol = format!("{COUNTERS}{function}");
    Some(Reference { offset: COUNTERS_AT, symbol, addend: 0 })
}

fn kernel(kernel: &Kernel) -> image::Kernel {
    let arguments = kernel.arguments.iter().map(|argument| Argument {
        offset: argument.offset as usize,
        bytes: argument.bytes as usize,
    });
    image::Kernel {
        name: kernel.name.clone(),
        arguments: arguments.collect(),
        required_group: kernel.required_group,
        most_items: kernel.max_group_items.map(u64::from),
        registers: kernel.registers.unwrap_or(0),
        static_shared_bytes: kernel.static_shared_bytes.into(),
        private_bytes: kernel.private_bytes.into(),
    }
}

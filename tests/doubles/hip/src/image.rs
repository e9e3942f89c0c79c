//! Images: code objects.

use crate::code::SHARED_OBJECT_INIT_FAILED;
use crate::current::target_of;
use longshore_amd_image::{CodeObject, Kernel, Linkage, Target, Variable};
use longshore_double_gpu::driver::context::current;
use longshore_double_gpu::driver::image::{
    self, Argument, Contents, ELF_MAGIC, Image, Place, Refusal, elf_at, peek,
};
use longshore_double_gpu::driver::{Answer, Code, In, Out, driver, module};
use std::ffi::c_void;

/// Sections of these types have no bytes, or are none.
const WITHOUT_BYTES: [u64; 2] = [0, 8];
/// What is read of bytes that do not say how many they are.
const FIRST_BYTES: usize = 64;
/// How the names of a profile's counters begin.
const COUNTERS: &str = "__profc_";

pub(crate) fn load(module: Out<usize>, image: In<c_void>) -> Answer {
    let loaded = module::load(module, || {
        let bytes = image::bytes_at(image.address(), |magic| match magic {
            ELF_MAGIC => elf_at(image.address(), &WITHOUT_BYTES),
            _ => peek(image.address(), FIRST_BYTES),
        })?;
        let device = current()?.device;
        read(bytes, &target_of(&driver().settings, device))
    });
    loaded.map_err(|refusal| refusal.code)
}

/// What a code object says, if the device runs it.
///
/// # Errors
/// Why it does not.
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

/// A processor's version is what functions tell of the code.
fn contents(object: &CodeObject, bytes: &[u8]) -> Contents {
    let digits = object.header.target.processor.trim_start_matches("gfx");
    let version = digits.chars().take_while(char::is_ascii_digit).collect::<String>();
    let version = version.parse().unwrap_or(0);
    // All of an image is moved by the same distance, by which programs find what the runtime does not tell of.
    let is_hidden =
        |of: &Variable| of.linkage == Linkage::Internal && of.name.starts_with(COUNTERS);
    let has_places = object.variables.iter().any(is_hidden);
    let variables = object.variables.iter().map(|variable| image::Variable {
        name: variable.name.clone(),
        bytes: variable.bytes,
        is_seen: variable.linkage != Linkage::Internal,
        initial: variable.initial(bytes).to_vec(),
        references: Vec::new(),
        place: has_places.then_some(Place { section: 0, offset: variable.address }),
    });
    Contents {
        kernels: object.kernels.iter().map(kernel).collect(),
        variables: variables.collect(),
        has_references: false,
        language: version,
        machine_code: version,
    }
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

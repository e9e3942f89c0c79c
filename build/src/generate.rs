//! The text of the Rust module for some kernels.

use crate::descriptions::Described;
use crate::names::{Names, parameter_names, source_name};
use longshore_cc::{ImageKind, TargetImage};
use longshore_plugin_api::{ArgumentDescription, ArgumentKind};
use std::fmt::Write;

/// Most arguments of a tuple that a launch takes.
const MOST_ARGUMENTS: usize = 16;

/// Returns the file's name of an image.
pub(crate) fn image_file(name: &str, index: usize) -> String {
    format!("{name}.{index}.img")
}

/// A kernel with a function.
struct Kernel<'a> {
    symbol: &'a str,
    /// The function's name, which is that of the field too.
    name: String,
    described: &'a Described,
}

/// Returns the module's text.
pub(crate) fn module(name: &str, images: &[TargetImage], described: &[Described]) -> String {
    // A function of the name `clone` would hide the one of the trait.
    let mut names = Names::new(&["image", "load", "program", "clone"]);
    let mut kernels = Vec::new();
    for described in described {
        let (symbol, description) = described;
        if description.arguments.len() > MOST_ARGUMENTS {
            log::warn!(
                "kernel '{symbol}' gets no function: it has {} arguments, expected at most \
                 {MOST_ARGUMENTS}; `Queue::launch` takes them as `RawArguments`",
                description.arguments.len()
            );
            continue;
        }
        kernels.push(Kernel { symbol, name: names.identifier(&source_name(symbol)), described });
    }
    let mut text = String::new();
    let fields: String = kernels.iter().map(|it| field(&it.name)).collect();
    let finds: String = kernels.iter().map(|it| find(it.symbol, &it.name)).collect();
    let entries: String =
        images.iter().enumerate().map(|(index, image)| entry(name, index, image)).collect();
    // A write to a string cannot fail.
    let _ = write!(
        text,
        r#"/// The kernels of "{name}", loaded on a device. Cloning is cheap.
#[derive(Clone)]
#[allow(non_snake_case)]
pub struct Kernels {{
    program: ::longshore::Program,
{fields}}}

#[allow(dead_code, non_snake_case, clippy::too_many_arguments)]
impl Kernels {{
    /// Returns the image, with code for each target.
    pub fn image() -> ::longshore::Image {{
        let entries = [
{entries}        ];
        ::longshore::Image::from(::longshore::write_offload_binary(&entries))
    }}

    /// Loads the kernels on a device. Blocks.
    ///
    /// # Errors
    /// As for [`Device::load`](::longshore::Device::load), and `NotFound` for a kernel that the
    /// device's image lacks.
    ///
    /// # Safety
    /// As for [`Device::load`](::longshore::Device::load).
    pub unsafe fn load(device: &::longshore::Device) -> ::longshore::Result<Kernels> {{
        // SAFETY: promised by the caller.
        let program = unsafe {{ device.load(Kernels::image())? }};
        Ok(Kernels {{
{finds}            program,
        }})
    }}

    /// Returns the loaded program.
    pub fn program(&self) -> &::longshore::Program {{
        &self.program
    }}
"#
    );
    kernels.iter().for_each(|kernel| text.push_str(&function(kernel)));
    text.push_str("}\n");
    text
}

fn field(name: &str) -> String {
    format!("    {name}: ::longshore::Kernel,\n")
}

fn find(symbol: &str, name: &str) -> String {
    format!("            {name}: program.kernel({symbol:?})?,\n")
}

fn entry(name: &str, index: usize, image: &TargetImage) -> String {
    let kind = match image.kind {
        ImageKind::Object => "Object",
        ImageKind::Cubin => "Cubin",
        ImageKind::Ptx => "Ptx",
        ImageKind::Spirv => "Spirv",
        _ => "None",
    };
    let (file, triple, architecture) =
        (format!("/{}", image_file(name, index)), &image.triple, &image.architecture);
    format!(
        "            ::longshore::OffloadImage::new(include_bytes!(concat!(env!(\"OUT_DIR\"), \
         {file:?})))\n                .with_image_kind(::longshore::ImageKind::{kind})\n                \
         .with_triple({triple:?})\n                .with_arch({architecture:?}),\n"
    )
}

/// Returns the function that launches a kernel.
fn function(kernel: &Kernel<'_>) -> String {
    let Kernel { symbol, name, described: (_, description) } = kernel;
    let names = parameter_names(&description.declaration, description.arguments.len());
    let parameters = names.iter().zip(&description.arguments);
    let parameters: String = parameters
        .map(|(name, argument)| format!("        {name}: {},\n", type_of(argument)))
        .collect();
    let arguments: String = names.iter().map(|name| format!("{name}, ")).collect();
    let source = source_name(symbol);
    // The declaration is a comment of Rust: it must stay on its line.
    let declaration = description.declaration.split_whitespace().collect::<Vec<_>>().join(" ");
    format!(
        r#"
    /// Launches `{source}{declaration}`.
    ///
    /// # Errors
    /// As for [`Queue::launch`](::longshore::Queue::launch).
    ///
    /// # Safety
    /// As for [`Queue::launch`](::longshore::Queue::launch), but the compiler has checked the
    /// arguments as far as the image describes them.
    pub unsafe fn {name}(
        &self,
        queue: &::longshore::Queue,
        grid: ::longshore::Grid,
{parameters}    ) -> ::longshore::Result<()> {{
        // SAFETY: promised by the caller.
        unsafe {{ queue.launch(&self.{name}, grid, ({arguments})) }}
    }}
"#
    )
}

/// Returns the type of a parameter of the function.
fn type_of(argument: &ArgumentDescription) -> String {
    let number = |kind, bytes| number(kind, bytes).map(str::to_owned);
    match (argument.kind, argument.argument_type.element()) {
        (ArgumentKind::Pointer, element) => {
            let element = element.and_then(|(kind, bytes)| number(kind, bytes.into()));
            let element = element.unwrap_or_else(|| "()".to_owned());
            format!("impl ::longshore::PointerTo<{element}>")
        }
        (kind, _) => {
            number(kind, argument.bytes).unwrap_or_else(|| "impl ::longshore::Argument".to_owned())
        }
    }
}

/// Returns the number of Rust of this kind and size in bytes.
fn number(kind: ArgumentKind, bytes: u32) -> Option<&'static str> {
    Some(match (kind, bytes) {
        (ArgumentKind::Signed, 1) => "i8",
        (ArgumentKind::Signed, 2) => "i16",
        (ArgumentKind::Signed, 4) => "i32",
        (ArgumentKind::Signed, 8) => "i64",
        (ArgumentKind::Unsigned, 1) => "u8",
        (ArgumentKind::Unsigned, 2) => "u16",
        (ArgumentKind::Unsigned, 4) => "u32",
        (ArgumentKind::Unsigned, 8) => "u64",
        (ArgumentKind::Float, 4) => "f32",
        (ArgumentKind::Float, 8) => "f64",
        _ => return None,
    })
}

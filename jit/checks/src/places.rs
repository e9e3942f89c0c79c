//! Source places of accesses: which are the program's own, and their sites.

use crate::ir::{Ir, ll};
use longshore_llvm::types::*;
use std::collections::HashMap;

/// The end of the header's path in debug information.
const HEADER: &str = "longshore_device.h";
/// The folder of the other headers of `longshore cc` in debug information, and their beginning.
const HEADERS: &str = "longshore/longshore_";
/// Headers of libraries whose plain accesses are to memory that the program passes.
const LIBRARIES: [&str; 7] = [
    "longshore_cuda/cub.h",
    "longshore_cuda/cub_order.h",
    "longshore_cuda/cub_warp.h",
    "longshore_cuda/curand.h",
    "longshore_cuda/math.h",
    "longshore_cuda/ptx.h",
    "longshore_cuda/thrust.h",
];
/// Functions of the headers whose accesses the program asks for.
const ACCESSES: [&str; 15] = [
    "memcpy",
    "memmove",
    "memset",
    "memcpy_async",
    "longshore_copy_",
    "__ldg",
    "__ldca",
    "__ldcg",
    "__ldcs",
    "__ldlu",
    "__ldcv",
    "__stwb",
    "__stcg",
    "__stcs",
    "__stwt",
];
/// `LLVMDISubprogramMetadataKind`.
const SUBPROGRAM: u32 = 17;
/// Prefixes of the function of one item: of its symbol, and of its name in the header.
const ITEM: &str = "__longshore_item_";
const ITEM_OF_HEADER: &str = "longshore_item_of_";
/// Prefix of the function with a kernel's body.
const BODY: &str = "__longshore_body_";

/// A place in the program's sources.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    file: String,
    function: String,
    line: u32,
    column: u32,
}

/// The owner of an instruction's source line.
pub(crate) enum Owner {
    /// The program, at this place.
    Program(Place),
    /// The header, in code that the program calls at this place.
    Header(Place),
    /// A kernel's entry, which the header defines at the kernel's line.
    Entry,
}

/// The sites of a module: variables that name the places of accesses.
pub(crate) struct Sites<'i, 'l> {
    ir: &'i Ir<'l>,
    texts: HashMap<String, ValueRef>,
    sites: HashMap<(Place, u32, ValueRef), ValueRef>,
}

impl<'i, 'l> Sites<'i, 'l> {
    pub(crate) fn new(ir: &'i Ir<'l>) -> Self {
        Sites { ir, texts: HashMap::new(), sites: HashMap::new() }
    }

    /// Returns the address of the site of a place that accesses no object.
    pub(crate) fn site(&mut self, place: &Place) -> ValueRef {
        self.site_of(place, 1, ValueRef::NULL)
    }

    /// Returns the address of the site of an access, with its alignment in bytes, and the pointer
    /// that its address begins with. A site remembers the last object. In a macro, a place has
    /// several pointers.
    pub(crate) fn site_of(&mut self, place: &Place, alignment: u32, pointer: ValueRef) -> ValueRef {
        let key = (place.clone(), alignment, pointer);
        if let Some(site) = self.sites.get(&key) {
            return *site;
        }
        let (file, function) = (self.text(&place.file), self.text(&place.function));
        let ir = self.ir;
        let null = ll!(ir, LLVMConstNull(ir.pointer));
        // `struct Site` of the runtime, which fills in the rest.
        let value = ir.structure(&[
            file,
            function,
            ir.constant(32, place.line.into()),
            ir.constant(32, place.column.into()),
            ir.constant(32, alignment.into()),
            ir.constant(32, 0),
            null,
            ir.constant(64, 0),
            null,
            null,
            ir.constant(64, 0),
        ]);
        let site = ir.constant_pointer(ir.add_variable(value));
        self.sites.insert(key, site);
        site
    }

    fn text(&mut self, text: &str) -> ValueRef {
        let ir = self.ir;
        *self.texts.entry(text.to_owned()).or_insert_with(|| ir.add_text(text))
    }
}

/// Returns the owner of an instruction's source line; `None` without a line.
pub(crate) fn owner(ir: &Ir<'_>, instruction: ValueRef, is_entry: bool) -> Option<Owner> {
    let mut at = ll!(ir, LLVMInstructionGetDebugLoc(instruction)).present();
    let (mut place, mut is_header, mut is_body) = (None, false, !is_entry);
    while let Some(location) = at {
        let scope = ll!(ir, LLVMDILocationGetScope(location));
        let file = file_of(ir, scope);
        let function = function_of(ir, scope);
        is_body |= function.starts_with(BODY);
        if is_in_header(&file) {
            let name = function.split('<').next().unwrap_or_default();
            let is_of_program =
                ACCESSES.contains(&name) || LIBRARIES.iter().any(|it| file.ends_with(it));
            is_header |= place.is_none() && !is_of_program;
        } else if place.is_none() {
            let function = function.strip_prefix(BODY).unwrap_or(&function).to_owned();
            let line = ll!(ir, LLVMDILocationGetLine(location));
            let column = ll!(ir, LLVMDILocationGetColumn(location));
            place = Some(Place { file, function, line, column });
        }
        at = ll!(ir, LLVMDILocationGetInlinedAt(location)).present();
    }
    let place = place?;
    Some(match (is_body, is_header) {
        (false, _) => Owner::Entry,
        (true, true) => Owner::Header(place),
        (true, false) => Owner::Program(place),
    })
}

/// Returns whether a function is one by which the header runs a kernel.
pub(crate) fn is_entry(ir: &Ir<'_>, function: ValueRef) -> bool {
    let name = ir.name(function);
    // The function of one item is the program's own in CUDA and HIP, and the header's otherwise.
    if name.starts_with(ITEM) {
        let program = ll!(ir, LLVMGetSubprogram(function)).present();
        return program.is_none_or(|program| function_of(ir, program).starts_with(ITEM_OF_HEADER));
    }
    let described = || {
        let description = format!("__longshore_kernel_{name}\0");
        !ll!(ir, LLVMGetNamedGlobal(ir.module, description.as_ptr().cast())).is_null()
    };
    let prefixes =
        ["longshore_run_", "longshore_traced_", "__longshore_item_", "longshore_item_of_"];
    prefixes.iter().any(|prefix| name.contains(prefix)) || described()
}

/// Returns whether a function is the header's own, and none by which the header runs a kernel. The
/// name does not tell, as the symbol of a function in C++ has the types of parameters.
pub(crate) fn is_function_of_header(ir: &Ir<'_>, function: ValueRef) -> bool {
    let is_of_header = match ll!(ir, LLVMGetSubprogram(function)).present() {
        Some(program) => {
            let file = file_of(ir, program);
            is_in_header(&file) && !LIBRARIES.iter().any(|it| file.ends_with(it))
        }
        None => ir.name(function).contains("longshore_"),
    };
    is_of_header && !is_entry(ir, function)
}

/// Returns whether a function is described as one of the headers of `longshore cc`. Its accesses
/// have no line of the program.
pub(crate) fn is_described_in_header(ir: &Ir<'_>, function: ValueRef) -> bool {
    let program = ll!(ir, LLVMGetSubprogram(function)).present();
    program.is_some_and(|program| is_in_header(&file_of(ir, program)))
}

/// Returns whether a file is one of the headers of `longshore cc`.
fn is_in_header(file: &str) -> bool {
    file.ends_with(HEADER) || file.contains(HEADERS)
}

fn file_of(ir: &Ir<'_>, scope: MetadataRef) -> String {
    let Some(file) = ll!(ir, LLVMDIScopeGetFile(scope)).present() else { return String::new() };
    let mut length = 0;
    let name = ll!(ir, LLVMDIFileGetFilename(file, &raw mut length));
    text(name, length)
}

/// Returns the name of the function that contains a scope.
fn function_of(ir: &Ir<'_>, scope: MetadataRef) -> String {
    let mut scope = Some(scope);
    while let Some(current) = scope {
        let operands = ir.metadata_operands(current);
        if ll!(ir, LLVMGetMetadataKind(current)) == SUBPROGRAM {
            let Some(name) = operands.get(2).copied().flatten() else { break };
            return ir.metadata_text(name).unwrap_or_default();
        }
        // A block's scope is its second operand.
        scope = operands.get(1).copied().flatten();
    }
    String::new()
}

fn text(start: *const std::ffi::c_char, length: u32) -> String {
    if start.is_null() {
        return String::new();
    }
    // SAFETY: LLVM returns the text's address and length.
    let bytes = unsafe { std::slice::from_raw_parts(start.cast::<u8>(), length as usize) };
    String::from_utf8_lossy(bytes).into_owned()
}

//! Descriptions for debuggers of the functions that no source has: of an item, and of all items.

use std::collections::HashMap;
use std::ffi::CString;
use std::fmt::Write;
use std::ptr::null;

use longshore_llvm::types::*;

use super::entry;
use crate::ir::{Ir, ll};

/// Begin of the names of functions that bring descriptions into a module.
const BEARER: &str = "longshore_described_";
/// `LLVMDIFlagArtificial`.
const ARTIFICIAL: u32 = 1 << 6;
/// `DW_ATE_unsigned`.
const UNSIGNED: u32 = 7;
/// `DW_OP_plus_uconst`.
const PLUS: u64 = 0x23;
/// `DW_OP_deref`.
const DEREFERENCE: u64 = 0x06;
/// `LLVMDISubprogramMetadataKind`.
const SUBPROGRAM: u32 = 17;
/// `LLVMDILexicalBlockMetadataKind`.
const LEXICAL_BLOCK: u32 = 18;
/// Operands of `DIGlobalVariable` that are its names.
const NAMES: [u32; 3] = [1, 4, 5];
/// Most blocks around a variable.
const MOST_BLOCKS: usize = 100;
/// Members of `struct longshore_self` that are three numbers of 32 bits, in their order from the
/// structure's begin on, with the variables of CUDA that are the same numbers.
const NUMBERS: [(&str, &str); 4] =
    [("item", "threadIdx"), ("group", "blockIdx"), ("items", "blockDim"), ("groups", "gridDim")];
/// Bits of one of them.
const BITS: u64 = 3 * 32;

/// The descriptions that the pass adds to a module.
pub(super) struct Describer<'d, 'l> {
    ir: &'d Ir<'l>,
    builder: DescriberRef,
    /// The structure of the item, and the type of CUDA's variables.
    item: MetadataRef,
    index: MetadataRef,
    /// The descriptions of functions, by their names.
    functions: HashMap<String, MetadataRef>,
}

impl<'d, 'l> Describer<'d, 'l> {
    /// Returns a describer for a module with these kernels; `None` if no source is described.
    ///
    /// # Errors
    /// LLVM's message.
    pub(super) fn new(
        ir: &'d Ir<'l>,
        kernels: &[ValueRef],
    ) -> Result<Option<Describer<'d, 'l>>, String> {
        let mut places = Vec::new();
        for kernel in kernels {
            let Some(program) = ll!(ir, LLVMGetSubprogram(*kernel)).present() else { continue };
            let Some(file) = ll!(ir, LLVMDIScopeGetFile(program)).present() else { continue };
            let line = ll!(ir, LLVMDISubprogramGetLine(program));
            places.extend(entry::names(&ir.name(*kernel)).map(|name| (name, file, line)));
        }
        let Some((_, file, _)) = places.first() else { return Ok(None) };
        let functions = functions(ir, &places)?;
        let builder = ll!(ir, LLVMCreateDIBuilder(ir.module));
        let none = MetadataRef::NULL;
        let mut describer = Describer { ir, builder, item: none, index: none, functions };
        describer.make_types(*file);
        Ok(Some(describer))
    }

    fn make_types(&mut self, file: MetadataRef) {
        let (ir, builder) = (self.ir, self.builder);
        let number = "unsigned int";
        let number = ll!(
            ir,
            LLVMDIBuilderCreateBasicType(
                builder,
                number.as_ptr().cast(),
                number.len(),
                32,
                UNSIGNED,
                0
            )
        );
        let range = ll!(ir, LLVMDIBuilderGetOrCreateSubrange(builder, 0, 3));
        let numbers = ll!(ir, LLVMDIBuilderCreateArrayType(builder, BITS, 32, number, &range, 1));
        let coordinates = ["x", "y", "z"].map(|name| (name, 32, number));
        self.index = self.structure(file, "longshore_index", &coordinates);
        self.item =
            self.structure(file, "longshore_self", &NUMBERS.map(|(name, _)| (name, BITS, numbers)));
    }

    fn structure(
        &self,
        file: MetadataRef,
        name: &str,
        members: &[(&str, u64, MetadataRef)],
    ) -> MetadataRef {
        let (ir, builder) = (self.ir, self.builder);
        let mut bits = 0;
        let mut nodes = Vec::new();
        for (name, size, ty) in members {
            let name = (name.as_ptr().cast(), name.len());
            nodes.push(ll!(
                ir,
                LLVMDIBuilderCreateMemberType(
                    builder, file, name.0, name.1, file, 0, *size, 32, bits, 0, *ty
                )
            ));
            bits += size;
        }
        let (name, nothing) = ((name.as_ptr().cast(), name.len()), MetadataRef::NULL);
        ll!(
            ir,
            LLVMDIBuilderCreateStructType(
                builder,
                file,
                name.0,
                name.1,
                file,
                0,
                bits,
                32,
                0,
                nothing,
                nodes.as_ptr(),
                nodes.len() as u32,
                0,
                nothing,
                null(),
                0
            )
        )
    }

    /// Describes a function that runs a kernel's items, with the kernel's line. Returns the place
    /// of its calls.
    pub(super) fn describe(&self, function: ValueRef) -> Option<MetadataRef> {
        let ir = self.ir;
        let own = *self.functions.get(&ir.name(function))?;
        ll!(ir, LLVMSetSubprogram(function, own));
        Some(place(ir, own, ll!(ir, LLVMDISubprogramGetLine(own))))
    }

    /// Describes the variable of an item, at the end of a block of its function: as a whole, and as
    /// the variables of CUDA.
    pub(super) fn describe_item(&self, item: ValueRef, block: BlockRef, kernel: ValueRef) {
        let (ir, builder) = (self.ir, self.builder);
        let scope = ll!(ir, LLVMGetSubprogram(kernel));
        let line = ll!(ir, LLVMDISubprogramGetLine(scope));
        let all = Declaration { scope, line, name: "longshore_self", ty: self.item, place: &[] };
        declare(ir, builder, item, block, &all);
        for (index, (_, name)) in NUMBERS.into_iter().enumerate() {
            let place = [PLUS, index as u64 * BITS / 8];
            let place = if index == 0 { &[][..] } else { &place[..] };
            let part = Declaration { scope, line, name, ty: self.index, place };
            declare(ir, builder, item, block, &part);
        }
    }
}

/// A variable to be described.
struct Declaration<'n> {
    scope: MetadataRef,
    line: u32,
    name: &'n str,
    ty: MetadataRef,
    /// Operations of DWARF that lead from the storage to the variable.
    place: &'n [u64],
}

/// Describes a variable at the end of a block.
fn declare(
    ir: &Ir<'_>,
    builder: DescriberRef,
    storage: ValueRef,
    block: BlockRef,
    variable: &Declaration<'_>,
) {
    let Declaration { scope, line, name, ty, place } = *variable;
    let file = ll!(ir, LLVMDIScopeGetFile(scope));
    let name = (name.as_ptr().cast(), name.len());
    let variable = ll!(
        ir,
        LLVMDIBuilderCreateAutoVariable(
            builder, scope, name.0, name.1, file, line, ty, 1, ARTIFICIAL, 0
        )
    );
    let place = ll!(ir, LLVMDIBuilderCreateExpression(builder, place.as_ptr(), place.len()));
    let location = self::place(ir, scope, line);
    let functions = ir.functions;
    // SAFETY: all objects are of this module, and the functions of its library.
    unsafe {
        let has_records =
            functions.LLVMIsNewDbgInfoFormat.is_none_or(|is_new| is_new(ir.module) != 0);
        let records = functions.LLVMDIBuilderInsertDeclareRecordAtEnd.filter(|_| has_records);
        match (records, functions.LLVMDIBuilderInsertDeclareAtEnd) {
            (Some(insert), _) => {
                insert(builder, storage, variable, place, location, block);
            }
            (None, Some(insert)) => {
                insert(builder, storage, variable, place, location, block);
            }
            (None, None) => {}
        }
    }
}

fn place(ir: &Ir<'_>, scope: MetadataRef, line: u32) -> MetadataRef {
    ll!(ir, LLVMDIBuilderCreateDebugLocation(ir.context, line, 0, scope, MetadataRef::NULL))
}

/// Describes the shared variables of an item's function, each with its address in the function.
pub(super) fn describe_shared(ir: &Ir<'_>, item: ValueRef, variables: &[(ValueRef, ValueRef)]) {
    let Some(program) = ll!(ir, LLVMGetSubprogram(item)).present() else { return };
    let block = ll!(ir, LLVMGetEntryBasicBlock(item));
    let builder = ll!(ir, LLVMCreateDIBuilder(ir.module));
    for (variable, address) in variables {
        let Some(Shared { scope, name, ty }) = Shared::read(ir, *variable, program) else {
            continue;
        };
        let first = ir.instructions(block)[0];
        let storage = ir.before(first).alloca(ir.type_of(*address));
        ir.before(ir.terminator(block)).store(*address, storage);
        let line = ll!(ir, LLVMDISubprogramGetLine(program));
        let declaration = Declaration { scope, line, name: &name, ty, place: &[DEREFERENCE] };
        declare(ir, builder, storage, block, &declaration);
    }
    ll!(ir, LLVMDIBuilderFinalize(builder));
    ll!(ir, LLVMDisposeDIBuilder(builder));
}

/// A shared variable in the source.
struct Shared {
    scope: MetadataRef,
    name: String,
    ty: MetadataRef,
}

impl Shared {
    /// Returns the description of a variable; `None` if it is in another function than `program`.
    fn read(ir: &Ir<'_>, variable: ValueRef, program: MetadataRef) -> Option<Shared> {
        let own = description(ir, variable)?;
        let [scope, name, _, ty] = *ir.metadata_operands(own).first_chunk::<4>()?;
        let name = ir.metadata_text(name?)?;
        let scope = match scope {
            Some(scope) => Shared::scope_in(ir, scope, program)?,
            None => program,
        };
        Some(Shared { scope, name, ty: ty? })
    }

    /// Returns the scope of a variable: its block in this function, or the function if it is
    /// outside of all functions.
    fn scope_in(ir: &Ir<'_>, scope: MetadataRef, program: MetadataRef) -> Option<MetadataRef> {
        let mut at = scope;
        for _ in 0..MOST_BLOCKS {
            if at == program {
                return Some(scope);
            }
            match ll!(ir, LLVMGetMetadataKind(at)) {
                LEXICAL_BLOCK => at = (*ir.metadata_operands(at).get(1)?)?,
                SUBPROGRAM => return None,
                _ => return Some(program),
            }
        }
        None
    }
}

/// Adds descriptions of functions to a module, each with its file and line. They have a unit of
/// their own, as LLVM's C API finds the unit of no function. Like clang's units it has no index of
/// names: gdb fails where only one of the units has one.
fn functions(
    ir: &Ir<'_>,
    places: &[(String, MetadataRef, u32)],
) -> Result<HashMap<String, MetadataRef>, String> {
    let mut text = format!(
        "!llvm.module.flags = !{{!0}}
!0 = !{{i32 2, !\"Debug Info Version\", i32 3}}
!llvm.dbg.cu = !{{!1}}
!1 = distinct !DICompileUnit(language: DW_LANG_C99, file: !2, producer: \"Longshore\", \
         isOptimized: true, runtimeVersion: 0, emissionKind: FullDebug, \
         splitDebugInlining: false, nameTableKind: None)
!2 = {}
!3 = !DISubroutineType(types: !{{null}})
",
        file_text(ir, places[0].1)
    );
    for (index, (name, file, line)) in places.iter().enumerate() {
        let (file_at, at) = (4 + 2 * index, 5 + 2 * index);
        let name = quoted(name);
        // Writing to a string never fails.
        let _ = write!(
            text,
            "define void @{BEARER}{index}() !dbg !{at} {{
  ret void
}}
!{file_at} = {}
!{at} = distinct !DISubprogram(name: {name}, linkageName: {name}, scope: !{file_at}, \
             file: !{file_at}, line: {line}, type: !3, scopeLine: {line}, flags: DIFlagArtificial, \
             spFlags: DISPFlagLocalToUnit | DISPFlagDefinition | DISPFlagOptimized, unit: !1)
",
            file_text(ir, *file)
        );
    }
    ir.link(&text)?;
    let mut found = HashMap::new();
    for (index, (name, ..)) in places.iter().enumerate() {
        let bearer = CString::new(format!("{BEARER}{index}")).expect("the name has no NUL");
        let bearer = ll!(ir, LLVMGetNamedFunction(ir.module, bearer.as_ptr()));
        found.insert(name.clone(), ll!(ir, LLVMGetSubprogram(bearer)));
        ll!(ir, LLVMDeleteFunction(bearer));
    }
    Ok(found)
}

/// Returns the description of a variable of the module.
fn description(ir: &Ir<'_>, variable: ValueRef) -> Option<MetadataRef> {
    let mut count = 0;
    let entries = ll!(ir, LLVMGlobalCopyAllMetadata(variable, &raw mut count));
    let kind = ll!(ir, LLVMGetMDKindIDInContext(ir.context, c"dbg".as_ptr(), 3));
    let found = (0..count as u32)
        .find(|index| ll!(ir, LLVMValueMetadataEntriesGetKind(entries, *index)) == kind)
        .map(|index| ll!(ir, LLVMValueMetadataEntriesGetMetadata(entries, index)));
    ll!(ir, LLVMDisposeValueMetadataEntries(entries));
    ll!(ir, LLVMDIGlobalVariableExpressionGetVariable(found?)).present()
}

/// Takes the names of shared variables from their descriptions, which have no place: debuggers
/// would find them before the ones of [`describe_shared`]. LLVM before 17 cannot do it.
pub(super) fn hide_names(ir: &Ir<'_>, variables: &[ValueRef]) {
    let Some(replace) = ir.functions.LLVMReplaceMDNodeOperandWith else { return };
    for own in variables.iter().filter_map(|variable| description(ir, *variable)) {
        let own = ll!(ir, LLVMMetadataAsValue(ir.context, own));
        for name in NAMES {
            let none = ll!(ir, LLVMMDStringInContext2(ir.context, c"".as_ptr(), 0));
            // SAFETY: the description has these operands.
            unsafe { replace(own, name, none) };
        }
    }
}

fn file_text(ir: &Ir<'_>, file: MetadataRef) -> String {
    let text = |read: unsafe extern "C" fn(MetadataRef, *mut u32) -> *const std::ffi::c_char| {
        let mut length = 0;
        // SAFETY: LLVM returns a text of this length, which lives as long as the file's node.
        let bytes = unsafe {
            let start = read(file, &raw mut length);
            if start.is_null() {
                &[]
            } else {
                std::slice::from_raw_parts(start.cast(), length as usize)
            }
        };
        quoted(&String::from_utf8_lossy(bytes))
    };
    let name = text(ir.functions.LLVMDIFileGetFilename);
    let folder = text(ir.functions.LLVMDIFileGetDirectory);
    format!("!DIFile(filename: {name}, directory: {folder})")
}

/// Returns a text as a literal of LLVM's assembly language.
fn quoted(text: &str) -> String {
    let mut quoted = "\"".to_owned();
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' | 0..0x20 | 0x7f.. => {
                let _ = write!(quoted, "\\{byte:02x}");
            }
            _ => quoted.push(byte.into()),
        }
    }
    quoted + "\""
}

impl Drop for Describer<'_, '_> {
    fn drop(&mut self) {
        ll!(self.ir, LLVMDIBuilderFinalize(self.builder));
        ll!(self.ir, LLVMDisposeDIBuilder(self.builder));
    }
}

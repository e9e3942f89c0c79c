//! Makes loops of the kernels in a file of bitcode: `loops VERSION INPUT OUTPUT`.

use std::ffi::CString;

use longshore_llvm::Library;
use longshore_llvm::types::*;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [version, input, output] = arguments.as_slice() else {
        return Err("expected VERSION INPUT OUTPUT".into());
    };
    // SAFETY: the system's library of this name is LLVM's.
    let library = unsafe { Library::find(Some(version.parse()?)) }?;
    let bytes = std::fs::read(input)?;
    let llvm = library.functions();
    // SAFETY: the calls have LLVM's contracts; the program ends on any failure.
    unsafe {
        let context = (llvm.LLVMContextCreate)();
        let buffer = (llvm.LLVMCreateMemoryBufferWithMemoryRangeCopy)(
            bytes.as_ptr().cast(),
            bytes.len(),
            c"input".as_ptr(),
        );
        let mut module = ModuleRef::NULL;
        if (llvm.LLVMParseBitcodeInContext2)(context, buffer, &raw mut module) != 0 {
            return Err("this is no bitcode".into());
        }
        let report = longshore_work_items::run(&library, context, module, TargetMachineRef::NULL);
        if let Err(problem) = &report {
            if let Ok(path) = std::env::var("LOOPS_DUMP") {
                let text = (llvm.LLVMPrintModuleToString)(module);
                std::fs::write(path, std::ffi::CStr::from_ptr(text).to_bytes())?;
            }
            return Err(problem.clone().into());
        }
        for outcome in report?.kernels {
            println!("{}: {:?}", outcome.kernel, outcome.result);
        }
        let written = (llvm.LLVMWriteBitcodeToMemoryBuffer)(module);
        let start = (llvm.LLVMGetBufferStart)(written).cast::<u8>();
        let bytes = std::slice::from_raw_parts(start, (llvm.LLVMGetBufferSize)(written));
        std::fs::write(output, bytes)?;
    }
    let _ = CString::default();
    Ok(())
}

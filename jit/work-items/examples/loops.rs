//! Makes loops of the kernels in a file of bitcode: `loops [--cuda] VERSION INPUT OUTPUT`.

use longshore_llvm::Library;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let is_cuda = arguments.first().is_some_and(|argument| argument == "--cuda");
    if is_cuda {
        arguments.remove(0);
    }
    let options = longshore_work_items::Options { is_cuda, ..Default::default() };
    let [version, input, output] = arguments.as_slice() else {
        return Err("expected VERSION INPUT OUTPUT".into());
    };
    // SAFETY: the system's library of this name is LLVM's.
    let library = unsafe { Library::find(Some(version.parse()?)) }?;
    let bytes = std::fs::read(input)?;
    // SAFETY: the user vouches for the file.
    let (bytes, report) =
        unsafe { longshore_work_items::run_on_bitcode(&library, &[&bytes], options) }?;
    for outcome in report.kernels {
        println!("{}: {:?}", outcome.kernel, outcome.result);
    }
    std::fs::write(output, bytes)?;
    Ok(())
}

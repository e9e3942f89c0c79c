use super::SIGNATURES;
use std::fmt::Write as _;
use std::process::Command;

#[test]
fn open_mpi_declares_the_functions_of_the_table() {
    compare("mpicc.openmpi");
}

#[test]
fn mpich_declares_the_functions_of_the_table() {
    compare("mpicc.mpich");
}

#[test]
fn the_standard_abi_declares_the_functions_of_the_table() {
    compare("mpicc_abi");
}

/// Compiles an assignment of each function to a pointer with the table's parameters.
fn compare(compiler: &str) {
    if Command::new(compiler).arg("--version").output().is_err() {
        return eprintln!("skipped: {compiler} is not installed");
    }
    let mut source = "#include <mpi.h>\n".to_owned();
    for (name, parameters, result) in SIGNATURES {
        let parameters: Vec<_> = parameters.iter().map(|parameter| in_c(parameter)).collect();
        let parameters = if parameters.is_empty() { "void".into() } else { parameters.join(", ") };
        writeln!(source, "{} (*of_{name})({parameters}) = {name};", in_c(result)).unwrap();
    }
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("functions.c");
    std::fs::write(&file, &source).unwrap();
    let mut command = Command::new(compiler);
    let output = command.args(["-fsyntax-only", "-Werror"]).arg(file).output().unwrap();
    assert!(output.status.success(), "{}\n{source}", String::from_utf8_lossy(&output.stderr));
}

/// Returns a type of the table in C.
fn in_c(rust: &str) -> String {
    if let Some(target) = rust.strip_prefix("*mut ") {
        return format!("{} *", in_c(target));
    }
    if let Some(target) = rust.strip_prefix("*const ") {
        return format!("const {} *", in_c(target));
    }
    let name = match rust {
        "c_int" => "int",
        "c_char" => "char",
        "c_void" => "void",
        "RawStatus" => "MPI_Status",
        "CopyFunction" => "MPI_Comm_copy_attr_function *",
        "DeleteFunction" => "MPI_Comm_delete_attr_function *",
        handle => return format!("MPI_{handle}"),
    };
    name.to_owned()
}

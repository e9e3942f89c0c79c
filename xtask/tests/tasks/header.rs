//! Tests that the C headers match their sources, in C and in C++.

mod declared;
mod llvm;
mod offload;
mod plugin;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use xtask::header;

/// Compilers, standards and languages.
const COMPILERS: [(&str, &str, &str); 4] = [
    ("gcc", "-std=c99", "c"),
    ("g++", "-std=c++17", "c++"),
    ("clang-19", "-std=c99", "c"),
    ("clang++-19", "-std=c++17", "c++"),
];

/// The layout of a type in memory.
#[derive(Clone, Debug, PartialEq)]
struct Layout {
    name: String,
    /// Size and alignment.
    whole: [usize; 2],
    fields: Vec<(usize, String)>,
}

impl Layout {
    fn numbers(&self) -> String {
        let offsets = self.fields.iter().map(|(offset, _)| *offset);
        let numbers: Vec<_> =
            self.whole.into_iter().chain(offsets).map(|number| number.to_string()).collect();
        format!("{} {}", self.name, numbers.join(" "))
    }
}

/// Returns a program that prints a line like `Layout::numbers` for each of a header's types.
fn layout_program(header: &str, layouts: &[Layout]) -> String {
    let mut program = format!("#include <stdio.h>\n#include \"{header}\"\n");
    program.push_str("#define ALIGN(type) offsetof(struct align_##type, second)\n");
    for Layout { name, .. } in layouts {
        program.push_str(&format!("struct align_{name} {{ char first; {name} second; }};\n"));
    }
    program.push_str("int main(void) {\n");
    for Layout { name, fields, .. } in layouts {
        let format = " %zu".repeat(2 + fields.len());
        let offsets: String =
            fields.iter().map(|(_, field)| format!(", offsetof({name}, {field})")).collect();
        program.push_str(&format!(
            "printf(\"{name}{format}\\n\", sizeof({name}), ALIGN({name}){offsets});\n"
        ));
    }
    program.push_str("return 0; }\n");
    program
}

/// Compiles a text without a warning; `None` if the compiler is not installed.
fn compile(
    (compiler, standard, language): (&str, &str, &str),
    arguments: &[&str],
    text: &str,
    folder: &Path,
) -> Option<PathBuf> {
    let (source, made) = (folder.join("text"), folder.join(format!("made-by-{compiler}")));
    std::fs::write(&source, text).unwrap();
    let output = Command::new(compiler)
        .args([standard, "-Wall", "-Wextra", "-Wpedantic", "-Werror"])
        .args(arguments)
        .args(["-I".as_ref(), header::plugin::path().parent().unwrap()])
        .args(["-I".as_ref(), header::offload::path().parent().unwrap()])
        .args(["-x", language])
        .arg(&source)
        .arg("-o")
        .arg(&made)
        .output();
    match output {
        Ok(output) => {
            text_of(output);
            Some(made)
        }
        Err(_) if compiler.starts_with("clang") => None,
        Err(error) => panic!("{compiler}: {error}"),
    }
}

/// Runs a program and returns its output.
fn run(program: &Path) -> String {
    text_of(Command::new(program).output().unwrap())
}

fn text_of(output: Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

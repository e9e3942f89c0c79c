//! Holds that the C header is what the interface's source says, in C and in C++.

use longshore_plugin_api::describe_layouts;
use std::path::Path;
use std::process::{Command, Output};
use xtask::header;

const COMPILERS: [(&str, &str, &str); 4] = [
    ("gcc", "-std=c99", "c"),
    ("g++", "-std=c++17", "c++"),
    ("clang-19", "-std=c99", "c"),
    ("clang++-19", "-std=c++17", "c++"),
];

#[test]
fn the_header_is_what_the_source_says() {
    let there = std::fs::read_to_string(header::header_path()).unwrap_or_default();
    assert!(there == header::generate().unwrap(), "out of date: run `{}`", header::COMMAND);
}

#[test]
fn the_header_declares_what_was_published() {
    header::check_frozen(&header::generate().unwrap()).unwrap();
}

#[test]
fn a_plugin_compiles_as_c99_and_as_cpp17() {
    let folder = tempfile::tempdir().unwrap();
    for compiler in COMPILERS {
        let arguments = ["-shared", "-fPIC", "-fvisibility=hidden"];
        let Some(path) = compile(compiler, &arguments, SMALL_PLUGIN, folder.path()) else {
            continue;
        };
        // SAFETY: just compiled, and without initialisers.
        let library = unsafe { libloading::Library::new(path) }.unwrap();
        // SAFETY: only the symbol's presence is asked for.
        assert!(unsafe { library.get::<*const u8>(b"longshore_plugin") }.is_ok(), "{compiler:?}");
    }
}

#[test]
fn c_and_rust_agree_on_every_size_and_offset() {
    let folder = tempfile::tempdir().unwrap();
    for compiler in COMPILERS {
        let Some(path) = compile(compiler, &[], &layout_program(), folder.path()) else { continue };
        let printed = text_of(Command::new(path).output().unwrap());
        let expected: Vec<_> = layouts().iter().map(Layout::numbers).collect();
        assert_eq!(printed.lines().collect::<Vec<_>>(), expected, "{compiler:?}");
    }
}

#[test]
fn the_log_levels_are_those_of_the_log_crate() {
    let folder = tempfile::tempdir().unwrap();
    let mut program = String::from("#include <stdio.h>\n#include \"longshore_plugin.h\"\n");
    program.push_str("int main(void) {\n");
    for level in log::Level::iter() {
        let print = format!("printf(\"%d\\n\", (int)LONGSHORE_LOG_LEVEL_{level});\n");
        program.push_str(&print);
    }
    program.push_str("return 0; }\n");
    let path = compile(COMPILERS[0], &[], &program, folder.path()).expect("gcc");
    let printed = text_of(Command::new(path).output().unwrap());
    let expected: Vec<_> = log::Level::iter().map(|level| (level as usize).to_string()).collect();
    assert_eq!(printed.lines().collect::<Vec<_>>(), expected);
}

const SMALL_PLUGIN: &str = r#"
#include "longshore_plugin.h"
LONGSHORE_PLUGIN_NOTE("toy", "elf-so,toy", "");
static void describe(longshore_description *description) { (void)description; }
static longshore_error_object *connect(const longshore_services *services, uint32_t *outcome,
                                       longshore_platform **platform, longshore_sink reason) {
    (void)services, (void)platform, (void)reason;
    *outcome = LONGSHORE_CONNECTION_NO_DEVICE;
    return NULL;
}
static longshore_table_ref table(longshore_text name, uint32_t version) {
    longshore_table_ref none = {NULL, NULL};
    (void)name, (void)version;
    return none;
}
const longshore_entry longshore_plugin = {
    LONGSHORE_ENTRY_MAGIC, LONGSHORE_INTERFACE_MAJOR, LONGSHORE_INTERFACE_MINOR, NULL,
    describe, connect, table};
"#;

/// A structure, as `describe_layouts` prints it.
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

fn layouts() -> Vec<Layout> {
    let mut layouts: Vec<Layout> = Vec::new();
    for line in describe_layouts().lines() {
        let words: Vec<_> = line.split_whitespace().collect();
        if line.starts_with(' ') {
            let field = (words[0].parse().unwrap(), words[1].trim_end_matches(':').to_owned());
            layouts.last_mut().unwrap().fields.push(field);
        } else {
            let name = format!("longshore_{}", heck::AsSnakeCase(words[0]));
            let whole = [words[2].parse().unwrap(), words[4].parse().unwrap()];
            layouts.push(Layout { name, whole, fields: Vec::new() });
        }
    }
    assert!(layouts.len() > 20 && layouts.iter().all(|layout| !layout.fields.is_empty()));
    layouts
}

/// A program that prints a line like `Layout::numbers` for each structure.
fn layout_program() -> String {
    let mut program = String::from("#include <stdio.h>\n#include \"longshore_plugin.h\"\n");
    program.push_str("#define ALIGN(type) offsetof(struct align_##type, second)\n");
    for Layout { name, .. } in layouts() {
        program.push_str(&format!("struct align_{name} {{ char first; {name} second; }};\n"));
    }
    program.push_str("int main(void) {\n");
    for Layout { name, fields, .. } in layouts() {
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
) -> Option<std::path::PathBuf> {
    let (source, made) = (folder.join("text"), folder.join(format!("made-by-{compiler}")));
    std::fs::write(&source, text).unwrap();
    let output = Command::new(compiler)
        .args([standard, "-Wall", "-Wextra", "-Wpedantic", "-Werror"])
        .args(arguments)
        .arg("-I")
        .arg(header::header_path().parent().unwrap())
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

fn text_of(output: Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

//! The header of the plugin interface.

use crate::header::{COMPILERS, Layout, compile, layout_program, run};
use longshore_plugin_api::describe_layouts;
use xtask::header::{COMMAND, plugin};

#[test]
fn it_is_what_the_source_says() {
    let there = std::fs::read_to_string(plugin::path()).unwrap_or_default();
    assert!(there == plugin::generate().unwrap(), "out of date: run `{COMMAND}`");
}

#[test]
fn it_declares_the_published_interface() {
    plugin::check_frozen(&plugin::generate().unwrap()).unwrap();
}

#[test]
fn a_plugin_compiles_as_c99_and_as_cpp17() {
    let folder = tempfile::tempdir().unwrap();
    for compiler in COMPILERS {
        let arguments = ["-shared", "-fPIC", "-fvisibility=hidden"];
        let Some(path) = compile(compiler, &arguments, SMALL_PLUGIN, folder.path()) else {
            continue;
        };
        // SAFETY: the test has just compiled the library, which has no initialisers.
        let library = unsafe { libloading::Library::new(path) }.unwrap();
        // SAFETY: the test only checks that the symbol exists.
        assert!(unsafe { library.get::<*const u8>(b"longshore_plugin") }.is_ok(), "{compiler:?}");
    }
}

#[test]
fn c_and_rust_agree_on_every_size_and_offset() {
    let folder = tempfile::tempdir().unwrap();
    let program = layout_program("longshore_plugin.h", &layouts());
    let expected: Vec<_> = layouts().iter().map(Layout::numbers).collect();
    for compiler in COMPILERS {
        let Some(path) = compile(compiler, &[], &program, folder.path()) else { continue };
        assert_eq!(run(&path).lines().collect::<Vec<_>>(), expected, "{compiler:?}");
    }
}

#[test]
fn the_log_levels_match_the_log_crate() {
    let folder = tempfile::tempdir().unwrap();
    let mut program = String::from("#include <stdio.h>\n#include \"longshore_plugin.h\"\n");
    program.push_str("int main(void) {\n");
    for level in log::Level::iter() {
        let print = format!("printf(\"%d\\n\", (int)LONGSHORE_LOG_LEVEL_{level});\n");
        program.push_str(&print);
    }
    program.push_str("return 0; }\n");
    let path = compile(COMPILERS[0], &[], &program, folder.path()).expect("gcc");
    let printed = run(&path);
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

use super::fake_validator::Folder;
use super::*;
use crate::validate::rules::{Environment, Layouts};
use std::path::PathBuf;
use std::process::Command as Process;
use tempfile::TempDir;

const RULES: Rules = Rules {
    environment: Environment::Vulkan1_2,
    layouts: Layouts { scalar: false, standard_uniform: false },
};
const NO_LIBRARY: &str = "/nowhere/libSPIRV-Tools.so";
/// SPIRV-Tools' C interface, with parts that a test defines.
const LIBRARY_IN_C: &str = r#"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int __cxa_atexit(void (*)(void *), void *, void *);
extern void *__dso_handle;
struct diagnostic { size_t position[3]; char *error; bool is_text; };
struct binary { const uint32_t *code; size_t words; };
#ifndef VERDICT
#define VERDICT (b->words > 26 && b->code[26] == 3)
#endif
#ifndef KNOWN
#define KNOWN strcmp(name, "")
#endif
static bool is_dead;
static void die(void *unused) { (void)unused; is_dead = true; }
const char *spvSoftwareVersionString(void) { return "v1.2.3"; }
bool spvParseTargetEnv(const char *name, int *environment) { *environment = (int)strlen(name); return KNOWN; }
void *spvContextCreate(int environment) { return malloc(1); }
void spvContextDestroy(void *context) { free(context); }
void *spvValidatorOptionsCreate(void) { return malloc(1); }
void spvValidatorOptionsDestroy(void *options) { free(options); }
void spvValidatorOptionsSetScalarBlockLayout(void *options, bool value) {}
#ifndef OLD
void spvValidatorOptionsSetUniformBufferStandardLayout(void *options, bool value) {}
#endif
int spvValidateWithOptions(void *context, void *options, const struct binary *b, struct diagnostic **d) {
  static bool is_used;
  if (!is_used && b->words == 3) {
    is_used = true;
    __cxa_atexit(die, NULL, &__dso_handle);
  }
  if (is_dead) abort();
  int verdict = VERDICT;
  if (!verdict) return 0;
  *d = calloc(1, sizeof **d);
  (*d)->error = strdup("It is made invalid.");
  return verdict < 0 ? verdict : -10;
}
void spvDiagnosticDestroy(struct diagnostic *d) { free(d->error); free(d); }
"#;

fn library(definitions: &str) -> (Folder, PathBuf) {
    Folder::with_library(&format!("{definitions}\n{LIBRARY_IN_C}"))
}

fn new_tool(library: impl AsRef<OsStr>, folder: &Folder, cache: Option<&Path>) -> Tool {
    Tool::named(library.as_ref(), Some(folder.path().as_os_str()), cache)
}

#[track_caller]
fn is_not_used(library: &Path, texts: &[&str]) {
    let commands = Folder::with_validator();
    let tool = new_tool(library, &commands, None);
    assert_eq!(tool.verdict(&[1, 2, 3], RULES), Ok(Verdict::Valid));
    assert_eq!(commands.runs(), 3, "the command is tried with two modules, then asked");
    let why = Library::open(library.as_ref()).err().expect("it was opened");
    for text in texts {
        assert!(why.contains(text), "no '{text}' in: {why}");
    }
}

#[test]
fn the_library_is_asked_where_there_is_one_and_no_process_is_started() {
    let (_made, file) = library("");
    let commands = Folder::with_validator();
    let tool = new_tool(&file, &commands, None);
    assert!(tool.can_judge(&[1, 2, 3], RULES));
    assert_eq!(tool.verdict(&[1, 2, 3], RULES), Ok(Verdict::Valid));
    assert_eq!(commands.runs(), 0);
    let description = tool.description().unwrap();
    assert!(description.ends_with("libmade.so, SPIRV-Tools v1.2.3"), "{description}");
}

#[test]
fn a_library_that_lacks_a_function_knows_too_little_or_judges_wrongly_is_not_used() {
    let cases: [(&str, &[&str]); 5] = [
        ("#define OLD", &["libmade.so", "spvValidatorOptionsSetUniformBufferStandardLayout"]),
        (
            "#define KNOWN strcmp(name, \"vulkan1.3\")",
            &["libmade.so, SPIRV-Tools v1.2.3 does not know vulkan1.3"],
        ),
        ("#define VERDICT 0", &["it accepts an invalid module"]),
        ("#define VERDICT 1", &["it refuses a valid module: It is made invalid."]),
        ("#define VERDICT -1", &["SPIRV-Tools failed with -1: It is made invalid."]),
    ];
    for (definition, texts) in cases {
        let (_made, file) = library(definition);
        is_not_used(&file, texts);
    }
}

#[test]
fn a_file_that_is_no_library_is_not_used() {
    let folder = Folder::new();
    let file = folder.path().join("libSPIRV-Tools-shared.so");
    std::fs::write(&file, "no library").unwrap();
    is_not_used(&file, &["libSPIRV-Tools-shared.so", "file too short"]);
    is_not_used(NO_LIBRARY.as_ref(), &[NO_LIBRARY, "No such file"]);
}

/// Tests SPIRV-Tools as a shared library, linked from Debian's static one.
#[test]
fn the_library_of_spirv_tools_is_usable() {
    const ARCHIVE: &str = "/usr/lib/x86_64-linux-gnu/libSPIRV-Tools.a";
    if !Path::new(ARCHIVE).exists() {
        return println!("nothing is tried: there is no {ARCHIVE}");
    }
    let folder = Folder::new();
    let file = folder.path().join("libSPIRV-Tools-shared.so");
    let mut linker = Process::new("g++");
    linker.args(["-shared", "-o"]).arg(&file);
    linker.args(["-Wl,--whole-archive", ARCHIVE, "-Wl,--no-whole-archive"]);
    if !linker.status().is_ok_and(|status| status.success()) {
        return println!("nothing is tried: {ARCHIVE} cannot be linked as a shared library");
    }
    let library = Library::open(file.as_ref()).unwrap();
    assert!(library.description().contains("SPIRV-Tools v"), "{}", library.description());
    let Some(Ok(Verdict::Invalid(text))) = library.verdict(&[1, 2, 3], RULES) else {
        panic!("three words are no module")
    };
    assert!(text.contains("magic number") || text.contains("header"), "{text}");
}

#[test]
fn a_kept_verdict_starts_no_process_in_this_or_another_tool() {
    let (commands, cache) = (Folder::with_validator(), TempDir::new().unwrap());
    let tool = || new_tool(NO_LIBRARY, &commands, Some(cache.path()));
    let mut invalid = [0; 27];
    invalid[26] = 3;
    let first = tool();
    for (words, verdict) in [
        (&[1, 2, 3][..], Verdict::Valid),
        (&invalid, Verdict::Invalid("It is made invalid.".into())),
    ] {
        assert_eq!(first.verdict(words, RULES), Ok(verdict.clone()));
        let runs = commands.runs();
        assert_eq!(first.verdict(words, RULES), Ok(verdict.clone()));
        let other = tool();
        assert!(other.can_judge(words, RULES));
        assert_eq!(other.verdict(words, RULES), Ok(verdict));
        assert_eq!(commands.runs(), runs);
    }
    commands.put_command("echo 'error: not by me'; exit 1");
    let refused = tool().verdict(&[1, 2, 3], RULES);
    assert!(matches!(refused, Err(ValidatorError::Missing(_))), "{refused:?}");
}

#[test]
fn a_failure_is_not_kept() {
    let cache = TempDir::new().unwrap();
    let commands = Folder::with_validator_that("if [ $words = 3 ]; then kill -SEGV $$; fi");
    let tool = new_tool(NO_LIBRARY, &commands, Some(cache.path()));
    for runs in [3, 4] {
        let failed = tool.verdict(&[1, 2, 3], RULES);
        assert!(matches!(failed, Err(ValidatorError::Failed(_))), "{failed:?}");
        assert_eq!(commands.runs(), runs);
    }
}

#[test]
fn a_torn_file_of_verdicts_has_the_command_asked_again() {
    let (commands, cache) = (Folder::with_validator(), TempDir::new().unwrap());
    let tool = new_tool(NO_LIBRARY, &commands, Some(cache.path()));
    tool.verdict(&[1, 2, 3], RULES).unwrap();
    for entry in std::fs::read_dir(cache.path()).unwrap() {
        let file = entry.unwrap().path();
        let whole = std::fs::read(&file).unwrap();
        std::fs::write(&file, &whole[..whole.len() / 2]).unwrap();
    }
    assert_eq!(tool.verdict(&[1, 2, 3], RULES), Ok(Verdict::Valid));
    assert_eq!(commands.runs(), 4);
}

const ENDING: &str = "LONGSHORE_TEST_ENDING_LIBRARY";

/// Calls the library from an exit handler that is older than a handler that the library registered
/// in a call.
#[test]
fn the_library_is_not_called_once_its_exit_handlers_may_have_run() {
    extern "C" fn at_exit() {
        let late = LATE.get().expect("it is set before the end");
        assert_eq!(late.verdict(&[1, 2, 3], RULES), None);
        println!("the handler has run");
    }
    static LATE: OnceLock<Library> = OnceLock::new();
    if let Some(file) = std::env::var_os(ENDING) {
        let library = Library::open(&file).unwrap();
        // SAFETY: the handler is a function of this program.
        assert_eq!(unsafe { libc::atexit(at_exit) }, 0);
        assert_eq!(library.verdict(&[1, 2, 3], RULES), Some(Ok(Verdict::Valid)));
        assert!(LATE.set(library).is_ok());
        std::process::exit(0);
    }
    let (_made, file) = library("");
    let name =
        "validate::installed::tests::the_library_is_not_called_once_its_exit_handlers_may_have_run";
    let mut again = Process::new(std::env::current_exe().unwrap());
    again.args(["--exact", name, "--nocapture"]).env(ENDING, file);
    let output = again.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    assert!(text.contains("the handler has run"), "{output:?}");
}

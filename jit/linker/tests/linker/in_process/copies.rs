//! Copies of libraries' data for code that is not position-independent, and their use by the
//! libraries. Tests that change the libraries of their process run in a process of their own: this
//! program, run again.

use std::ffi::{CString, c_char, c_int, c_void};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use bytes::Bytes;
use longshore_jitlink::session::{MainArguments, Object, ProcessSymbols, Removal};
use longshore_jitlink::{Error, Library, Session};
use longshore_orc_rt::static_tls_reserve;
use tempfile::TempDir;

#[test]
fn the_program_reads_values_that_libc_writes() {
    in_its_own_process("the_program_reads_values_that_libc_writes", || {
        let (library, _object) = program(
            r#"#include <getopt.h>
            #include <stdlib.h>
            void *copied(void) { return &optarg; }
            long given(void) {
                char *arguments[] = {"program", "-n", "42", 0};
                optind = 1;
                return getopt(3, arguments, "n:") == 'n' && optind == 3 ? atol(optarg) : -1;
            }"#,
        );
        assert_eq!(call(&library, "given"), 42);
    });
}

#[test]
fn libc_reads_values_that_the_program_writes() {
    in_its_own_process("libc_reads_values_that_the_program_writes", || {
        let (library, _object) = program(
            r#"#include <stdio.h>
            #include <string.h>
            void *copied(void) { return &stdout; }
            long printed(void) {
                char bytes[16] = "";
                FILE *usual = stdout;
                stdout = fmemopen(bytes, sizeof bytes, "w");
                printf("%d", 42);
                fclose(stdout);
                stdout = usual;
                return strcmp(bytes, "42");
            }"#,
        );
        assert_eq!(call(&library, "printed"), 0);
    });
}

#[test]
fn the_environment_is_one_by_any_of_its_names() {
    in_its_own_process("the_environment_is_one_by_any_of_its_names", || {
        let (library, _object) = program(
            r#"#include <stdlib.h>
            #include <string.h>
            extern char **environ, **__environ;
            void *copied(void) { return &environ; }
            long is_there(void) {
                setenv("OF_THE_PROGRAM", "1", 1);
                for (char **variable = environ; *variable; variable++)
                    if (strcmp(*variable, "OF_THE_PROGRAM=1") == 0)
                        return &environ == &__environ;
                return -1;
            }
            long replace(void) {
                static char *variables[] = {"ONLY=1", 0};
                environ = variables;
                return getenv("ONLY") && !getenv("OF_THE_PROGRAM");
            }"#,
        );
        assert_eq!(call(&library, "is_there"), 1);
        assert!(std::env::var_os("OF_THE_PROGRAM").is_some());
        assert_eq!(call(&library, "replace"), 1);
        assert_eq!(std::env::vars().collect::<Vec<_>>(), [("ONLY".into(), "1".into())]);
    });
}

const SHARED: &str = r#"
    int variable = 1;
    extern int other_name __attribute__((alias("variable")));
    int array[4] = {1, 2, 3, 4};
    static int *in_array = &array[2];
    static int *const forever = &array[3];
    const int *const constant = &array[1];
    long get(void) { return variable; }
    long get_by_other_name(void) { return other_name; }
    void set(int value) { variable = value; }
    void add(int *p) { *p += 10; }
    void change_array(void) { add(in_array); add(*(int *const volatile *)&forever); }
    struct list { struct list *next; } ring = {&ring};
    long is_ring(void) { return ring.next == &ring; }
    long get_constant(void) { return *constant; }
    long array_at(int index) { return array[index]; }
"#;

const USER: &str = r#"
    extern int variable, array[4];
    extern const int *const constant;
    long get(void), get_by_other_name(void), array_at(int);
    void set(int), change_array(void);
    extern struct list { struct list *next; } ring;
    long is_ring(void);
    void *copied(void) { return &variable; }
    long are_rings(void) { return is_ring() && ring.next == &ring; }
    long library_writes(void) { set(42); return variable; }
    long program_writes(void) { variable = 43; return get() * 100 + get_by_other_name(); }
    long slots_with_addends(void) { change_array(); return array[2] * 100 + array[3]; }
    long through_constant(void) { array[1] = 5; return *constant; }
"#;

const READER: &str = r#"
    extern int variable;
    void *copied_too(void) { return &variable; }
    long read(void) { return variable; }
    long increment(void) { return ++variable; }
"#;

#[test]
fn a_library_and_the_program_share_a_variable() {
    in_its_own_process("a_library_and_the_program_share_a_variable", || {
        let _shared = Shared::open(SHARED);
        let (library, _object) = program(USER);
        assert_eq!(call(&library, "library_writes"), 42);
        assert_eq!(call(&library, "program_writes"), 4343);
        assert_eq!(call(&library, "slots_with_addends"), 1314);
    });
}

#[test]
fn a_library_has_its_variables_back_with_their_values_when_their_last_user_is_removed() {
    let name = "a_library_has_its_variables_back_with_their_values_when_their_last_user_is_removed";
    in_its_own_process(name, || {
        let shared = Shared::open(SHARED);
        let (library, object) = program(USER);
        let other = compile("gcc", "c", "-O1 -fno-pic", READER);
        let other = library.add_object("other.o", other).unwrap();
        assert_eq!(call(&library, "program_writes"), 4343);
        assert_eq!(call(&library, "read"), 43);
        assert_eq!(library.lookup("variable").unwrap() as i64, call(&library, "copied"));
        assert_eq!(shared.variable("variable"), 1);

        object.remove(Removal::WithUsers).unwrap();
        shared.set(44);
        assert_eq!(call(&library, "read"), 44);

        other.remove(Removal::WithUsers).unwrap();
        assert_eq!(shared.variable("variable"), 44);
        assert_eq!(library.lookup("variable").unwrap(), shared.address("variable"));
        shared.set(45);
        assert_eq!((shared.variable("variable"), shared.get()), (45, 45));

        let _object = add(&library, USER);
        assert_eq!(call(&library, "library_writes"), 42);
        assert_eq!(shared.variable("variable"), 45);
    });
}

#[test]
fn a_library_has_its_variables_back_with_their_values_when_the_session_ends() {
    let name = "a_library_has_its_variables_back_with_their_values_when_the_session_ends";
    in_its_own_process(name, || {
        let shared = Shared::open(SHARED);
        for _ in 0..2 {
            let (library, object) = program(USER);
            assert_eq!(call(&library, "library_writes"), 42);
            assert_eq!(call(&library, "program_writes"), 4343);
            assert_eq!(call(&library, "through_constant"), 5);
            assert_eq!(call(&library, "are_rings"), 1);
            drop((library, object));
            assert_eq!((shared.variable("variable"), shared.get()), (43, 43));
            shared.set(7);
            assert_eq!((shared.variable("variable"), shared.get()), (7, 7));
            assert_eq!(shared.call("get_constant"), 5);
            assert_eq!(shared.call("is_ring"), 1);
        }
    });
}

#[test]
fn a_library_s_pages_are_as_protected_afterwards_as_before() {
    in_its_own_process("a_library_s_pages_are_as_protected_afterwards_as_before", || {
        let shared = Shared::open(SHARED);
        let before = shared.mappings();
        assert!(before.iter().any(|line| line.contains("r--p")), "{before:?}");
        let (library, object) = program(USER);
        assert_eq!(call(&library, "library_writes"), 42);
        assert_eq!(shared.mappings(), before);
        drop((library, object));
        assert_eq!(shared.mappings(), before);
    });
}

#[test]
fn a_second_session_s_copy_is_a_snapshot_of_the_first_one_s() {
    in_its_own_process("a_second_session_s_copy_is_a_snapshot_of_the_first_one_s", || {
        let shared = Shared::open(SHARED);
        let (first, of_first) = program(USER);
        assert_eq!(call(&first, "program_writes"), 4343);
        let (second, of_second) = program(READER);
        assert_eq!(call(&second, "increment"), 44);
        assert_eq!(shared.get(), 43);
        drop((first, of_first));
        assert_eq!((shared.variable("variable"), shared.get()), (43, 43));
        drop((second, of_second));
        assert_eq!((shared.variable("variable"), shared.get()), (43, 43));
    });
}

#[test]
fn a_library_may_be_closed_before_the_session_ends() {
    in_its_own_process("a_library_may_be_closed_before_the_session_ends", || {
        let shared = Shared::open(SHARED);
        let (library, object) = program(READER);
        assert_eq!(call(&library, "read"), 1);
        shared.close();
        drop((library, object));
    });
}

#[test]
fn without_the_option_a_copy_keeps_the_old_value() {
    in_its_own_process("without_the_option_a_copy_keeps_the_old_value", || {
        let shared = Shared::open(SHARED);
        // SAFETY: as above.
        let session = unsafe { Session::new() }.unwrap();
        let library = session.create_library("program");
        library.add_generator(ProcessSymbols);
        let _object = add(&library, USER);
        shared.set(9);
        assert_eq!(call(&library, "library_writes"), 9);
        assert_eq!(call(&library, "program_writes"), 4242);
        assert_eq!(shared.variable("variable"), 42);
    });
}

#[test]
fn data_that_may_not_be_copied_is_out_of_reach() {
    in_its_own_process("data_that_may_not_be_copied_is_out_of_reach", || {
        let _shared = Shared::open(SHARED);
        let copied_only = |name: &'static str| {
            let builder = Session::builder().with_copied_process_data(move |copied| copied == name);
            // SAFETY: as above.
            let library = unsafe { builder.build() }.unwrap().create_library("program");
            library.add_generator(ProcessSymbols);
            let _object = add(&library, READER);
            library.lookup("read").map(call_at)
        };
        assert_eq!(copied_only("variable").unwrap(), 1);
        let refused = copied_only("array").unwrap_err();
        assert!(matches!(refused, Error::Relocation(_)), "{refused}");
        assert!(refused.to_string().contains("against variable"), "{refused}");
    });
}

const STREAMS: &str = r#"
    #include <iostream>
    #include <sstream>
    #include <stdexcept>
    #include <string>
    struct Speaker {
        std::string name;
        Speaker(const char *name) : name(name) { std::cout << "hello " << name << "\n"; }
        ~Speaker() { std::cout << "goodbye " << name << std::endl; }
    };
    static Speaker speaker("static");
    struct Failure : std::runtime_error { using runtime_error::runtime_error; };
    static void fail(int n) { std::ostringstream text; text << "failure " << n; throw Failure(text.str()); }
    int main() {
        try { fail(3); } catch (const std::exception &e) { std::cout << e.what() << "\n"; }
        try { throw 4; } catch (int n) { std::cout << "int " << n << "\n"; }
        return std::cin.tie() == &std::cout && std::cout.good() ? 5 : 6;
    }
"#;

#[test]
fn cpp_that_is_not_position_independent_prints_to_the_standard_streams() {
    let name = "cpp_that_is_not_position_independent_prints_to_the_standard_streams";
    let objects = TempDir::new().unwrap();
    let compilers = ["g++", "clang++-19"].into_iter().filter(|compiler| is_installed(compiler));
    for (compiler, level) in compilers.flat_map(|compiler| [(compiler, "-O0"), (compiler, "-O2")]) {
        let object = objects.path().join("it.o");
        if std::env::var_os(CHILD).is_none() {
            let flags = format!("{level} -fno-pic");
            std::fs::write(&object, compile(compiler, "c++", &flags, STREAMS)).unwrap();
        }
        let preloads = [("LD_PRELOAD", "libstdc++.so.6"), (OBJECT, object.to_str().unwrap())];
        let output = run_in_its_own_process(name, &preloads, || {
            let bytes = std::fs::read(std::env::var_os(OBJECT).unwrap()).unwrap();
            let library = library();
            let _object = library.add_object("streams.o", bytes.into()).unwrap();
            // SAFETY: the program is sound.
            let code = unsafe {
                library.initialize(MainArguments::default()).unwrap();
                let code = call(&library, "main") as c_int;
                library.deinitialize().unwrap();
                code
            };
            assert_eq!(code, 5);
        });
        let expected = "hello static\nfailure 3\nint 4\ngoodbye static\n";
        assert!(output.contains(expected), "{compiler} {level}: {output}");
    }
}

const CHILD: &str = "COPIES_CHILD";
const OBJECT: &str = "COPIES_OBJECT";

/// Runs the rest of a test of this module in another process: this program with that test alone.
fn in_its_own_process(test: &str, body: fn()) {
    run_in_its_own_process(test, &[], body);
}

/// Runs the rest of a test like [`in_its_own_process`], with further environment variables, and
/// returns the output of the child process. Ends that process instead of returning there.
fn run_in_its_own_process(test: &str, environment: &[(&str, &str)], body: fn()) -> String {
    if std::env::var_os(CHILD).is_some() {
        body();
        // The code after this call is for the parent process alone.
        std::process::exit(0);
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    let test = format!("in_process::copies::{test}");
    command.args(["--exact", &test, "--nocapture", "--test-threads=1"]).env(CHILD, "1");
    let output = command.envs(environment.iter().copied()).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        output.status.success(),
        "{}: {}{}",
        output.status,
        text(&output.stdout),
        text(&output.stderr)
    );
    let said = text(&output.stdout);
    assert!(said.contains("running 1 test"), "there is no test {test}: {said}");
    said
}

/// Returns a library of a session that rebinds, with the symbols of this process.
fn library() -> Library {
    let reserve = static_tls_reserve!(4096).unwrap();
    // SAFETY: the objects are programs of these tests, which are sound in this process.
    let session =
        unsafe { Session::builder().with_static_tls(reserve).with_rebound_process_data().build() }
            .unwrap();
    let library = session.create_library("program");
    library.add_generator(ProcessSymbols);
    library
}

/// Returns such a library, with a C object that is not position-independent and returns the copy's
/// address by `copied` or `copied_too`.
fn program(source: &str) -> (Library, Object) {
    let library = library();
    let object = add(&library, source);
    let name = if source == READER { "copied_too" } else { "copied" };
    assert!(call(&library, name) < 1 << 31);
    (library, object)
}

fn add(library: &Library, source: &str) -> Object {
    library.add_object("it.o", compile("gcc", "c", "-O1 -fno-pic", source)).unwrap()
}

/// Returns the result of `long NAME(void)`.
fn call(library: &Library, name: &str) -> i64 {
    call_at(library.lookup(name).unwrap())
}

fn call_at(address: u64) -> i64 {
    // SAFETY: the tests' sources define the function with this type.
    let function: extern "C-unwind" fn() -> i64 = unsafe { std::mem::transmute(address as usize) };
    function()
}

fn is_installed(command: &str) -> bool {
    Command::new(command).arg("--version").stdout(Stdio::null()).status().is_ok_and(|s| s.success())
}

fn compile(compiler: &str, language: &str, flags: &str, source: &str) -> Bytes {
    let directory = TempDir::new().unwrap();
    let output = directory.path().join("it.o");
    build(compiler, &format!("-x {language} -c {flags}"), source, &output);
    std::fs::read(output).unwrap().into()
}

fn build(compiler: &str, flags: &str, source: &str, output: &Path) {
    let mut command = Command::new(compiler);
    command.args(flags.split_whitespace()).arg("-o").arg(output).arg("-").stdin(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(source.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success(), "{command:?}");
}

/// A shared library that was opened globally, and stays open unless it is closed.
struct Shared {
    directory: TempDir,
    handle: *mut c_void,
}

impl Shared {
    fn open(source: &str) -> Self {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("it.so");
        build("gcc", "-x c -O1 -fPIC -shared -Wl,-z,relro,-z,now", source, &path);
        let path = CString::new(path.to_str().unwrap()).unwrap();
        // SAFETY: the library has no constructors.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
        assert!(!handle.is_null());
        Self { directory, handle }
    }

    /// Returns the address that the dynamic linker finds for a name in the library.
    fn address(&self, name: &str) -> u64 {
        let name = CString::new(name).unwrap();
        // SAFETY: the handle is open.
        let address = unsafe { libc::dlsym(self.handle, name.as_ptr() as *const c_char) };
        assert!(!address.is_null());
        address as u64
    }

    /// Returns the value of the library's own `int`, by address.
    fn variable(&self, name: &str) -> i64 {
        // SAFETY: the library defines an `int` of this name.
        i64::from(unsafe { (self.address(name) as *const c_int).read_volatile() })
    }

    fn call(&self, name: &str) -> i64 {
        call_at(self.address(name))
    }

    fn get(&self) -> i64 {
        self.call("get")
    }

    fn set(&self, value: c_int) {
        // SAFETY: the library defines the function with this type.
        let set: extern "C" fn(c_int) =
            unsafe { std::mem::transmute(self.address("set") as usize) };
        set(value);
    }

    /// Returns the library's lines in the kernel's memory map.
    fn mappings(&self) -> Vec<String> {
        let path = self.directory.path().to_str().unwrap();
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        maps.lines().filter(|line| line.contains(path)).map(str::to_owned).collect()
    }

    fn close(self) {
        // SAFETY: the handle is open, and no code of the library runs any more.
        assert_eq!(unsafe { libc::dlclose(self.handle) }, 0);
    }
}

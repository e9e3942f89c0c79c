//! Programs in an executor, and their failures. The programs of `runs` run there too.

use super::AARCH64;
use super::folder::{Folder, error_of, is_installed, text};
use longshore_tests::world;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};

const EXIT: &str = "int main(int argc, char **argv) { return argc; }";

#[test]
fn an_executor_is_found_beside_the_command_or_by_its_path() {
    let folder = Folder::from_c(&[("main", EXIT)]);
    let path = world::command().with_file_name("longshore-executor");
    for executor in ["--executor".to_owned(), format!("--executor={}", path.display())] {
        assert_eq!(folder.code(&[&executor, "main.o", "--args", "x"]), Some(2));
    }
}

#[test]
fn an_executor_is_found_in_an_installation() {
    let folder = Folder::from_c(&[("main", EXIT)]);
    let root = folder.0.path().join("installation");
    let executor = world::executor();
    for (from, folder, name) in [
        (world::command(), "bin", "longshore"),
        (executor, "libexec/longshore", "longshore-executor"),
    ] {
        fs::create_dir_all(root.join(folder)).unwrap();
        fs::copy(from, root.join(folder).join(name)).unwrap();
    }
    let link = || {
        let mut link = Command::new(root.join("bin/longshore"));
        link.args(["link", "--executor", "main.o", "--args", "x"]);
        link.current_dir(folder.0.path()).output().unwrap()
    };
    assert_eq!(link().status.code(), Some(2), "{}", error_of(&link()));
    fs::remove_dir_all(root.join("libexec")).unwrap();
    let error = error_of(&link());
    assert!(error.contains("libexec/longshore/longshore-executor"), "{error}");
    assert!(error.contains("hint: name a longshore-executor"), "{error}");
}

/// An object, and the exit code or the signal at the end of its program.
type Ending = (&'static str, Option<i32>, Option<i32>);

/// Returns programs with different ends.
fn endings() -> (Folder, [Ending; 6]) {
    let folder = Folder::from_c(&[
        ("returns", EXIT),
        ("exits", "#include <stdlib.h>\nint main(void) { exit(7); }"),
        ("leaves", "#include <unistd.h>\nint main(void) { _exit(8); }"),
        ("aborts", "#include <stdlib.h>\nint main(void) { abort(); }"),
        ("faults", "int main(void) { *(volatile int *)8 = 1; }"),
        ("terminates", "#include <signal.h>\nint main(void) { raise(SIGTERM); }"),
    ]);
    let endings = [
        ("returns.o", Some(1), None),
        ("exits.o", Some(7), None),
        ("leaves.o", Some(8), None),
        ("aborts.o", None, Some(libc::SIGABRT)),
        ("faults.o", None, Some(libc::SIGSEGV)),
        ("terminates.o", None, Some(libc::SIGTERM)),
    ];
    (folder, endings)
}

/// A listening executor in a process group of its own, and its output.
struct Listening {
    process: Child,
    output: BufReader<ChildStdout>,
    address: String,
}

impl Listening {
    /// Starts an executor. Its key is the file `key` of the folder.
    fn start(folder: &Folder, options: &[&str]) -> Self {
        let key = folder.0.path().join("key");
        fs::write(&key, "a".repeat(64)).unwrap();
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
        let mut listening = Command::new(world::executor());
        listening.args(["--listen", "127.0.0.1:0", "--core", "0", "--key"]).arg(&key).args(options);
        // SAFETY: the call changes the new process only.
        unsafe {
            listening.pre_exec(|| {
                libc::signal(libc::SIGCHLD, libc::SIG_IGN);
                Ok(())
            });
        }
        let mut process = listening.process_group(0).stdout(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(process.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening at ").unwrap().to_owned();
        Self { process, output, address }
    }

    /// Links and runs an object there.
    fn link(&self, folder: &Folder, object: &str) -> Output {
        let executor = format!("--executor={}", self.address);
        folder.link(&[object, &executor, "--executor-key", "key"])
    }
}

const SANDBOXES: [&[&str]; 2] = [&[], &["--sandbox"]];

#[test]
fn a_program_in_an_executor_that_listens_ends_the_command_as_it_ends() {
    let (folder, endings) = endings();
    for (sandbox, (object, code, signal)) in
        SANDBOXES.into_iter().flat_map(|s| endings.map(|e| (s, e)))
    {
        let mut listening = Listening::start(&folder, sandbox);
        let output = listening.link(&folder, object);
        let said = error_of(&output);
        assert_eq!(
            (output.status.code(), output.status.signal()),
            (code, signal),
            "{object} {sandbox:?}: {said}"
        );
        let ended = listening.process.wait().unwrap();
        assert_eq!(
            ended.code(),
            code.or(signal.map(|signal| 128 + signal)),
            "{object} {sandbox:?}"
        );
    }
}

#[test]
fn an_executor_that_listens_tells_of_a_signal_that_all_its_terminal_s_processes_get() {
    let source = "#include <stdio.h>\n#include <unistd.h>\n
        int main(void) { puts(\"ready\"); fflush(stdout); for (;;) pause(); }";
    let folder = Folder::from_c(&[("main", source)]);
    for sandbox in SANDBOXES {
        let mut listening = Listening::start(&folder, sandbox);
        let executor = format!("--executor={}", listening.address);
        let arguments = ["main.o", &executor, "--executor-key", "key"];
        let output = std::thread::scope(|scope| {
            let linking = scope.spawn(|| folder.link(&arguments));
            let mut line = String::new();
            listening.output.read_line(&mut line).unwrap();
            assert_eq!(line, "ready\n");
            let group = -libc::pid_t::try_from(listening.process.id()).unwrap();
            // SAFETY: the group consists of the listening processes.
            unsafe { libc::kill(group, libc::SIGINT) };
            linking.join().unwrap()
        });
        assert_eq!(output.status.signal(), Some(libc::SIGINT), "{sandbox:?} {}", error_of(&output));
        assert_eq!(listening.process.wait().unwrap().code(), Some(130), "{sandbox:?}");
    }
}

#[test]
fn a_program_in_a_sandbox_ends_the_command_as_it_ends() {
    let (folder, endings) = endings();
    let thread = "#include <pthread.h>\n#include <unistd.h>\n
        static void *run(void *unused) { usleep(10000); return 0; }
        int main(void) {
            pthread_t id;
            pthread_create(&id, 0, run, 0);
            pthread_exit(0);
        }";
    folder.compile("gcc", "ends_first.c", thread, &[]);
    let executor = folder.0.path().join("sandboxed");
    let script =
        format!("#!/bin/sh\nexec {} \"$@\" --core 0 --sandbox\n", world::executor().display());
    fs::write(&executor, script).unwrap();
    fs::set_permissions(&executor, fs::Permissions::from_mode(0o700)).unwrap();
    let of_thread = ("ends_first.o", Some(0), None);
    for (object, code, signal) in endings.into_iter().chain([of_thread]) {
        let output = folder.link(&[object, "--executor=./sandboxed"]);
        let said = error_of(&output);
        assert_eq!(
            (output.status.code(), output.status.signal()),
            (code, signal),
            "{object}: {said}"
        );
    }
}

#[test]
fn an_invalid_executor_is_an_error_that_says_so() {
    let folder = Folder::from_c(&[("main", EXIT)]);
    for (executor, problem) in [
        ("/nowhere/executor", "No such file"),
        ("/bin/false", "exited with code 1"),
        ("./main.o", "Permission denied"),
    ] {
        let output = folder.link(&["main.o", &format!("--executor={executor}")]);
        let error = error_of(&output);
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(error.contains(problem) && error.contains(executor), "{error}");
        assert!(error.contains("hint: name a longshore-executor"), "{error}");
    }
}

#[test]
fn an_invalid_key_is_an_error_that_describes_keys() {
    let folder = Folder::from_c(&[("main", EXIT)]);
    let key = folder.0.path().join("key");
    let link = |content: &str, mode| {
        fs::write(&key, content).unwrap();
        fs::set_permissions(&key, fs::Permissions::from_mode(mode)).unwrap();
        let arguments = ["main.o", "--executor=127.0.0.1:1", "--executor-key", "key"];
        error_of(&folder.link(&arguments))
    };
    assert!(link("short", 0o600).contains("64 hexadecimal digits"));
    assert!(link(&"a".repeat(64), 0o644).contains("chmod 600"));
    let refused = link(&"a".repeat(64), 0o600);
    assert!(refused.contains("127.0.0.1:1") && refused.contains("refused"), "{refused}");
}

#[test]
fn linking_for_debuggers_of_another_process_is_refused() {
    let folder = Folder::from_c(&[("main", EXIT)]);
    let output = folder.link(&["main.o", "--executor", "--gdb"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(error_of(&output).contains("process"), "{}", error_of(&output));
}

const CPP: &str = r#"
#include <cstdio>
#include <stdexcept>
#include <thread>
struct Global { Global() { std::puts("constructed"); } ~Global() { std::puts("destroyed"); } } global;
thread_local int variable = 42;
static int thrower(int depth) {
    if (depth == 0) throw std::runtime_error("thrown");
    return thrower(depth - 1) + 1;
}
int main(int argc, char **argv) {
    try { thrower(10); } catch (const std::exception &error) { std::puts(error.what()); }
    int other = 0;
    std::thread([&] { other = ++variable; }).join();
    std::printf("%d %d %s\n", variable, other, argv[argc - 1]);
    return 7;
}
"#;

/// Returns the option for an executor of another machine, in an emulator.
fn emulated(folder: &Folder) -> Option<String> {
    let executor = emulated_executor()?;
    let emulator = ["qemu-aarch64-static", "qemu-aarch64"]
        .into_iter()
        .find(|emulator| is_installed(emulator))?;
    let path = folder.0.path().join("executor");
    let script = format!(
        "#!/bin/sh\nexec {emulator} -L /usr/aarch64-linux-gnu {} \"$@\"\n",
        executor.display()
    );
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    Some(format!("--executor={}", path.display()))
}

/// Returns `longshore-executor` for AArch64, if its build tools are installed.
fn emulated_executor() -> Option<PathBuf> {
    const TARGET: &str = "aarch64-unknown-linux-gnu";
    // The target folder of the workspace contains the programs for this machine.
    let target_folder = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let output = Command::new(env!("CARGO"))
        // One command builds for two test programs: dependencies have the same features in both.
        .args(["build", "-p", "longshore-executor", "-p", "longshore-jitlink", "--bins"])
        .args(["--example", "run", "--target", TARGET, "--target-dir"])
        .arg(target_folder)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", AARCH64)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("error[E0463]") {
        eprintln!("skipped: there is no standard library for {TARGET}; `rustup target add` it");
        return None;
    }
    assert!(output.status.success(), "{said}");
    Some(target_folder.join(TARGET).join("debug/longshore-executor"))
}

#[test]
fn code_for_another_machine_is_linked_here_and_runs_in_its_executor() {
    if !is_installed("aarch64-linux-gnu-g++") {
        return eprintln!("skipped: there is no aarch64-linux-gnu-g++");
    }
    let folder = Folder::new();
    let Some(executor) = emulated(&folder) else { return };
    for flags in [["-O0", "-fPIC"], ["-O2", "-fno-pic"]] {
        folder.compile("aarch64-linux-gnu-g++", "main.cpp", CPP, &flags);
        for sharing in [&[][..], &["--no-shared-memory"], &["--lazy"]] {
            let options = ["main.o", "--dylib", "libstdc++.so.6", &executor];
            let output = folder.link(&[&options[..], sharing, &["--args", "last"]].concat());
            let expected = "constructed\nthrown\n42 43 last\ndestroyed\n";
            assert_eq!(text(&output.stdout), expected, "{}", error_of(&output));
            assert_eq!(output.status.code(), Some(7));
        }
    }
    // This machine compiles the bitcode when the other one calls it.
    if is_installed("clang-19") {
        let target = "--target=aarch64-linux-gnu";
        folder.run("clang-19", &[target, "-O1", "-fPIC", "-c", "-emit-llvm", "main.cpp"]);
        let options =
            ["--lazy", "main.bc", "--dylib", "libstdc++.so.6", &executor, "--args", "last"];
        let output = folder.link(&options);
        assert_eq!(
            text(&output.stdout),
            "constructed\nthrown\n42 43 last\ndestroyed\n",
            "{output:?}"
        );
        assert_eq!(output.status.code(), Some(7));
    }
    folder.compile("gcc", "native.c", EXIT, &[]);
    let output = folder.link(&["native.o", &executor]);
    let error = error_of(&output);
    assert!(error.contains("x86_64") && error.contains("aarch64"), "{error}");
}

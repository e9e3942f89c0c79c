//! Kernels under gdb and lldb, in each format of image: sessions by script, with the command
//! `longshore run`.

mod gdb;
mod lldb;

use longshore_tests::world::{command, host_plugin, root};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const CLANG: &str = "clang-19";
/// The time limit for a debugger.
const LIMIT: Duration = Duration::from_secs(240);

/// A kernel of items whose line 11 calls an other function.
const BLUR: &str = "\
#include <longshore_device.h>

LONGSHORE_FUNCTION float sum(float low, float value, const float *at) {
  float next = at[1];
  return value + next < low ? low : value + next;
}

LONGSHORE_KERNEL(blur, (uint64_t n, const float *in, float *out)) {
  uint64_t i = longshore_global_id(0);
  float mean = 0;
  if (i < n) mean = sum(0, in[i], in + i) / 2;
  if (i < n) out[i] = mean;
}
";
/// The options of a launch of the kernel that succeeds.
const BLUR_LAUNCH: &str =
    "--groups 16 --items 128 --arg u64=2047 --arg f32[2048]=iota --arg out:f32[2048]";

/// Kernels of items that wait, of groups, and of LLVM's host form.
const ITEMS: &str = "\
#include <longshore_device.h>

LONGSHORE_KERNEL(tree, (const int *in, int *out)) {
  int mine = in[longshore_global_id(0)] * 10;
  LONGSHORE_SHARED(int, all, [64]);
  all[longshore_item_id(0)] = mine;
  longshore_barrier();
  int other = all[longshore_group_items(0) - 1 - longshore_item_id(0)];
  out[longshore_global_id(0)] = mine + other;
}

LONGSHORE_GROUP_KERNEL(grouped, (const int *in, int *out)) {
  LONGSHORE_PRIVATE(int, own);
  LONGSHORE_ITEMS { longshore_private(own) = in[longshore_global_id(0)] * 3; }
  LONGSHORE_ITEMS {
    int twice = longshore_private(own) * 2;
    out[longshore_global_id(0)] = twice;
  }
}

__attribute__((visibility(\"default\"))) void plain(void **arguments) {
  int *out = *(int **)arguments[1];
  *out = 7;
}
";
/// The options of their launches.
const ITEMS_LAUNCH: &str = "--groups 2 --items 4 --arg i32[8]=iota --arg out:i32[8]";

/// A kernel in CUDA whose items wait, and one whose optimized loop contains its code.
const CUDA: &str = "\
#include <cuda_runtime.h>

namespace ns {
template <class T> __global__ void sums(const T *x, T *y) {
  __shared__ T tile[4];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  tile[threadIdx.x] = x[i];
  __syncthreads();
  T sum = 0;
  for (int k = 0; k <= (int)threadIdx.x; ++k)
    sum += tile[k];
  y[i] = sum;
}
template __global__ void sums<int>(const int *, int *);
}
__global__ void far(const int *x, int *y) {
  y[threadIdx.x] = x[threadIdx.x * 100000000];
}
";

/// A folder with images.
struct Folder {
    folder: TempDir,
}

impl Folder {
    /// Creates an empty folder. `None` if the debugger or the compiler is not installed.
    fn new(debugger: &str) -> Option<Folder> {
        for program in [debugger, CLANG] {
            if Command::new(program).arg("--version").output().is_err() {
                assert!(std::env::var_os("CI").is_none(), "{program} is not installed");
                println!("{program} is not installed; nothing was tried");
                return None;
            }
        }
        Some(Folder { folder: tempfile::tempdir().unwrap() })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a source, and compiles it with debug information and without optimization.
    fn compile(&self, source: &str, image: &str, options: &[&str]) {
        fs::write(self.path("k.c"), source).unwrap();
        let mut clang = Command::new(CLANG);
        clang.args(["-g", "-O0", "-fPIC", "-isystem"]).arg(root().join("include"));
        clang.args(options).args(["k.c", "-o", image]).current_dir(&self.folder);
        assert!(clang.status().unwrap().success(), "{clang:?}");
    }

    /// Compiles a source in CUDA by `longshore cc`.
    fn compile_cuda(&self, source: &str, image: &str, options: &[&str]) {
        fs::write(self.path("k.cu"), source).unwrap();
        let mut compile = Command::new(command());
        compile.args(["cc", "--clang", CLANG, "k.cu", "-g", "-o", image]).args(options);
        let output = compile.current_dir(&self.folder).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// Compiles the source to an image of each format. Returns the images with the options of their
    /// runs.
    fn images(&self, source: &str) -> [(&'static str, &'static str); 6] {
        self.compile(source, "k.o", &["-c"]);
        self.compile(source, "k.so", &["-shared"]);
        self.compile(source, "k.bc", &["-c", "-emit-llvm"]);
        let mut archiver = Command::new("ar");
        archiver.args(["rcs", "k.a", "k.o"]).current_dir(&self.folder);
        assert!(archiver.status().unwrap().success());
        [
            ("k.o", ""),
            ("k.o", "--lazy"),
            ("k.a", "--lazy"),
            ("k.so", ""),
            ("k.bc", ""),
            ("k.bc", "--lazy"),
        ]
    }

    /// Returns a debugger without the user's settings, which runs in the folder.
    fn debugger(&self, program: impl AsRef<Path>) -> Command {
        let mut debugger = Command::new(program.as_ref());
        let ours =
            |(name, _): &(std::ffi::OsString, _)| name.to_string_lossy().starts_with("LONGSHORE_");
        for (name, _) in std::env::vars_os().filter(ours) {
            debugger.env_remove(name);
        }
        debugger
            .current_dir(&self.folder)
            .env("HOME", self.folder.path())
            .env("LONGSHORE_CACHE", "off")
            .env("LONGSHORE_JIT_OPT_LEVEL", "0")
            .env("LONGSHORE_PLUGIN_PATH", host_plugin())
            .env("LONGSHORE_HOST_DEBUG", "gdb")
            .env_remove("DEBUGINFOD_URLS");
        debugger
    }

    /// Runs a debugger with these lines on its standard input. Returns its output; `None` if the
    /// system lets it trace no process.
    fn session(&self, debugger: &mut Command, lines: &[&str]) -> Option<String> {
        fs::write(self.path("input"), lines.join("\n") + "\n").unwrap();
        let output = File::create(self.path("output")).unwrap();
        let mut running = debugger
            .stdin(Stdio::from(File::open(self.path("input")).unwrap()))
            .stdout(Stdio::from(output.try_clone().unwrap()))
            .stderr(Stdio::from(output))
            .spawn()
            .unwrap();
        let deadline = Instant::now() + LIMIT;
        while running.try_wait().unwrap().is_none() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(20));
        }
        let has_ended = running.try_wait().unwrap().is_some();
        let _ = running.kill();
        let _ = running.wait();
        let said = fs::read(self.path("output")).unwrap();
        let said = String::from_utf8_lossy(&said).into_owned();
        assert!(has_ended, "{debugger:?} hangs: {said}");
        if said.contains("ptrace") || said.contains("Operation not permitted") {
            println!("a debugger may not trace here; nothing was tried: {said}");
            return None;
        }
        Some(said)
    }
}

/// Returns the words of `longshore run` for an image.
fn run(image: &str, options: &str, launch: &str) -> Vec<String> {
    let words = format!("--backend host run {image} {options} {launch}");
    let words = words.split_whitespace().map(str::to_owned);
    [command().display().to_string()].into_iter().chain(words).collect()
}

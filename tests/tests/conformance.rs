//! The suite for every device of this machine, one trial for each device and behaviour: those of
//! the plugins that lie in the target folder, and of the sample plugin in C where there is a C
//! compiler. CUDA's and AMD's, doubles of the drivers' where there is no GPU, are tried as they are, CUDA's with PTX and with cubins. Vulkan's devices are tried twice, with images in SPIR-V and in WGSL, and some groups a
//! third time with copies through staging memory, as on a GPU with memory of its own.

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use longshore::Environment;
use longshore_conformance::{Behaviour, DeviceName, Fixtures, Outcome, Setup, behaviours};
use longshore_tests::doubled::Doubled;
use longshore_tests::{gpus, vulkan};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;

/// Groups of behaviours that are tried with staging memory too.
const STAGED_GROUPS: [&str; 3] = ["copies", "life", "threads"];

fn main() -> ExitCode {
    // SAFETY: there is no other thread yet.
    unsafe { gpus::take_drivers() };
    let arguments = Arguments::from_args();
    let plugins = built_plugins().into_iter().chain(sample_plugin());
    let runs =
        plugins.flat_map(|plugin| runs_with(&plugin)).filter(|run| run.is_wanted(&arguments));
    let trials = runs.flat_map(Run::trials).collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// Behaviours that are tried with one plugin, images and environment.
struct Run {
    plugin: PathBuf,
    setup: Setup,
    /// What the names of the trials say of the images.
    images: &'static str,
    behaviours: fn(&Behaviour) -> bool,
}

/// What is tried with a plugin.
fn runs_with(plugin: &Path) -> Vec<Run> {
    let backend = backend_of(plugin).expect("a plugin's file name");
    let setup = Setup::new().plugin(plugin).backends(backend);
    let run = |setup: Setup, images, behaviours| Run {
        plugin: plugin.to_owned(),
        setup,
        images,
        behaviours,
    };
    if backend == "vulkan" {
        let strict = setup.clone().environment(vulkan::environment());
        let wgsl = |setup: &Setup| setup.clone().fixtures(Fixtures::wgsl());
        let staging = vulkan::environment().with("LONGSHORE_VULKAN_STAGING", "always");
        let staged = setup.clone().environment(staging);
        let isolated = strict.clone().isolated(executor(), true);
        return vec![
            run(isolated, " (isolated)", is_for_layers),
            run(wgsl(&strict), " (WGSL)", is_for_layers),
            run(wgsl(&setup), " (WGSL)", is_not_for_layers),
            run(staged, " (staged)", is_staged),
            run(strict, "", is_for_layers),
            run(setup, "", is_not_for_layers),
        ];
    }
    if backend == "cuda" {
        let cubins = setup.clone().fixtures(Fixtures::cubins());
        return vec![run(setup, "", |_| true), run(cubins, " (cubin)", is_of_images)];
    }
    if Doubled::of(backend).is_some() {
        return vec![run(setup, "", |_| true)];
    }
    // Two devices, so that there are no gaps where a platform's devices meet.
    let several = format!("LONGSHORE_{}_DEVICES", backend.to_uppercase());
    let environment = Environment::of_process().with(several, "2");
    let setup = setup.environment(environment);
    let isolated = |shares_memory| setup.clone().isolated(executor(), shares_memory);
    vec![
        run(isolated(true), " (isolated)", |_| true),
        run(isolated(false), " (isolated, nothing shared)", |_| true),
        run(setup, "", |_| true),
    ]
}

/// Beside the plugins.
fn executor() -> PathBuf {
    let folder = target_folder();
    let executor = folder.join("longshore-executor");
    if !executor.exists() {
        build(&folder, "longshore-executor");
    }
    executor
}

/// What depends on an image's form.
fn is_of_images(behaviour: &Behaviour) -> bool {
    ["bad_input", "launches", "life", "programs"].contains(&behaviour.group)
}

/// Vulkan's validation layer may be of another year than the plugin's own validator, and of another
/// opinion on modules that no compiler would make.
fn is_for_layers(behaviour: &Behaviour) -> bool {
    !behaviour.name.contains("flipped")
}

fn is_staged(behaviour: &Behaviour) -> bool {
    STAGED_GROUPS.contains(&behaviour.group) && is_for_layers(behaviour)
}

fn is_not_for_layers(behaviour: &Behaviour) -> bool {
    !is_for_layers(behaviour)
}

impl Run {
    /// Whether a trial that is named in full is one of these: starting drivers for nothing takes
    /// time.
    fn is_wanted(&self, arguments: &Arguments) -> bool {
        let Some(name) = arguments.filter.as_ref().filter(|_| arguments.exact) else { return true };
        let Some((device, behaviour)) = name.split_once(": ") else { return true };
        let backend = backend_of(&self.plugin).expect("a plugin's file name");
        let is_one = |known: &Behaviour| known.to_string() == behaviour && (self.behaviours)(known);
        device.starts_with(backend)
            && device.ends_with(self.images)
            && device.ends_with(')') != self.images.is_empty()
            && behaviours().any(is_one)
    }

    /// A trial for each device of the plugin and each behaviour.
    fn trials(self) -> Vec<Trial> {
        let devices = match self.setup.devices() {
            Ok(devices) => devices,
            Err(error) => return vec![broken(&self.plugin, &format!("{error:?}"))],
        };
        let of = backend_of(&self.plugin).and_then(Doubled::of).filter(Doubled::is_double);
        if devices.is_empty() && of.is_some() && Environment::of_process().devices().is_none() {
            return vec![broken(&self.plugin, "the double of its driver shows no device")];
        }
        let Run { setup, images, behaviours: is_tried, .. } = self;
        let setup = Arc::new(setup);
        let trial = |(device, behaviour): (DeviceName, &'static Behaviour)| {
            let name = format!("{}:{}{images}: {behaviour}", device.backend, device.index);
            let setup = Arc::clone(&setup);
            Trial::ignorable_test(name, move || run(&setup, &device, behaviour))
        };
        let tried = || behaviours().filter(|behaviour| is_tried(behaviour));
        let pairs = |device: DeviceName| tried().map(move |b| (device.clone(), b));
        devices.into_iter().flat_map(pairs).map(trial).collect()
    }
}

fn run(
    setup: &Setup,
    device: &DeviceName,
    behaviour: &'static Behaviour,
) -> Result<Completion, Failed> {
    let outcome = setup.run(device, behaviour);
    if let Some(complaint) = complaint_of_double(device) {
        return Err(complaint.into());
    }
    match outcome {
        Outcome::Passed => Ok(Completion::Completed),
        Outcome::Skipped(why) => Ok(Completion::ignored_with(why)),
        Outcome::Failed(what) => Err(what.into()),
    }
}

/// What the double of a driver says that was done wrong with it. Trials that run at the same time may be
/// told what others did.
fn complaint_of_double(device: &DeviceName) -> Option<String> {
    let of = Doubled::of(&device.backend).filter(Doubled::is_double)?;
    let double = of.open_double();
    let wrong = [double.violations(), double.lost()].concat();
    (!wrong.is_empty()).then(|| wrong.join("; "))
}

fn broken(plugin: &Path, why: &str) -> Trial {
    let (name, why) = (plugin.display().to_string(), why.to_owned());
    Trial::test(name, move || Err(why.into()))
}

/// The plugins beside this program's folder; the CPU's is built if it is not there.
fn built_plugins() -> Vec<PathBuf> {
    let folder = target_folder();
    if !folder.join("liblongshore_plugin_host.so").exists() {
        build(&folder, "longshore-plugin-host");
    }
    let files = std::fs::read_dir(&folder).expect("the target folder is readable");
    let paths = files.filter_map(|file| file.ok().map(|file| file.path()));
    let mut plugins: Vec<_> = paths.filter(|path| backend_of(path).is_some()).collect();
    plugins.sort();
    plugins
}

fn target_folder() -> PathBuf {
    let program = std::env::current_exe().expect("the path of this program");
    program.ancestors().nth(2).expect("cargo's target/<profile>/deps").to_owned()
}

/// Brings a package's files in `folder` up to date. `cargo xtask test` has built the workspace before, and says so.
fn build(folder: &Path, package: &str) {
    if std::env::var_os("LONGSHORE_TEST_BUILT").is_some() {
        return;
    }
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--package", package, "--manifest-path"]);
    cargo.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.toml"));
    cargo.arg("--target-dir").arg(folder.parent().expect("the target folder"));
    if folder.ends_with("release") {
        cargo.arg("--release");
    }
    let status = cargo.status().expect("cargo starts");
    assert!(status.success(), "building {package} failed: {status}");
}

/// Compiles the sample plugin, unless that was done since its sources changed; `None` without a C
/// compiler.
fn sample_plugin() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let plugin = Path::new(env!("CARGO_TARGET_TMPDIR")).join("liblongshore_plugin_sample.so");
    let include = root.join("plugin-api/include");
    let sources = [files(&root.join("examples/plugin-c")), files(&include)].concat();
    if is_newer(&plugin, &sources) {
        return Some(plugin);
    }
    // Several of these programs may run at once: each makes its own, and puts it into place whole.
    let made = plugin.with_extension(std::process::id().to_string());
    let mut compiler = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
    compiler.args(["-std=c99", "-O1", "-g", "-fPIC", "-shared", "-fvisibility=hidden"]);
    compiler.arg("-pthread").arg("-I").arg(include).arg("-o").arg(&made);
    compiler.args(sources.iter().filter(|path| path.extension().is_some_and(|name| name == "c")));
    match compiler.status() {
        Ok(status) => assert!(status.success(), "compiling the sample plugin failed: {status}"),
        Err(error) => {
            eprintln!("the sample plugin is left out: no C compiler: {error}");
            return None;
        }
    }
    std::fs::rename(made, &plugin).expect("both are in one folder");
    Some(plugin)
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let files = std::fs::read_dir(folder).expect("a folder of the sources");
    files.filter_map(|file| file.ok().map(|file| file.path())).collect()
}

fn is_newer(made: &Path, sources: &[PathBuf]) -> bool {
    let modified = |path: &Path| path.metadata().and_then(|metadata| metadata.modified()).ok();
    let Some(made) = modified(made) else { return false };
    sources.iter().all(|source| modified(source).is_some_and(|source| source < made))
}

/// The backend in a plugin's file name.
fn backend_of(path: &Path) -> Option<&str> {
    path.file_name()?.to_str()?.strip_prefix("liblongshore_plugin_")?.strip_suffix(".so")
}

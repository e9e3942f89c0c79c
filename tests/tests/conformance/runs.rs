//! Runs of the suite with a plugin: images, environment, process.
//!
//! Devices of CUDA and AMD, on doubles of their drivers without a GPU, are tested unchanged, CUDA's
//! with PTX and with cubins, and the CPU's device with bitcode too. Vulkan's devices are tested
//! with SPIR-V and WGSL images, in a process of their own, and in some groups with staging memory,
//! as on a discrete GPU. Other plugins are tested in this process and in another, with and without
//! shared memory.

use crate::plugins::backend_of;
use crate::supervised;
use libtest_mimic::{Arguments, Failed, Trial};
use longshore::Environment;
use longshore_conformance::{Behaviour, DeviceName, Filter, Fixtures, Outcome, Setup, behaviours};
use longshore_tests::doubled::Doubled;
use longshore_tests::{effort, vulkan, world};
use std::path::{Path, PathBuf};

/// Groups of behaviours for Vulkan's isolated plugin in a short test.
const ISOLATED_GROUPS: [&str; 6] = ["copies", "events", "launches", "life", "memory", "queues"];
/// Groups of behaviours for staging memory.
const STAGED_GROUPS: [&str; 3] = ["copies", "life", THREADS];
const THREADS: &str = "threads";
/// Groups of behaviours that depend on the form of an image.
const GROUPS_OF_IMAGES: [&str; 4] = ["bad_input", "launches", "life", "programs"];
/// The variable with texts in the names of behaviours to run.
pub(crate) const ONLY: &str = "LONGSHORE_TEST_BEHAVIOURS";

/// A run of behaviours with one plugin, form of images and way to run the plugin, on each of the
/// plugin's devices.
pub(crate) struct Run {
    plugin: PathBuf,
    /// The part of trial names after the device.
    form: &'static str,
    /// Parts of the run, with different environments. A process runs one part.
    parts: Vec<Part>,
}

struct Part {
    setup: Setup,
    is_tried: fn(&Behaviour) -> bool,
}

/// Returns the runs with a plugin.
pub(crate) fn for_plugin(plugin: &Path) -> Vec<Run> {
    let backend = backend_of(plugin).expect("a plugin's file name");
    let setup = Setup::new().with_plugin(plugin).with_backends(backend);
    let run = |form, parts: Vec<Part>| Run { plugin: plugin.to_owned(), form, parts };
    if backend == "vulkan" {
        return vulkan_parts(&setup).into_iter().map(|(form, parts)| run(form, parts)).collect();
    }
    if backend == "cuda" {
        let cubins =
            Part { setup: setup.clone().with_fixtures(Fixtures::cubins()), is_tried: is_of_images };
        return vec![run("", vec![Part::all(setup)]), run(" (cubin)", vec![cubins])];
    }
    if Doubled::for_backend(backend).is_some() {
        return vec![run("", vec![Part::all(setup)])];
    }
    // Two devices, so that behaviours about two devices of a platform run too.
    let several = format!("LONGSHORE_{}_DEVICES", backend.to_uppercase());
    let environment = Environment::from_process().with(several, "2");
    let compiling = environment
        .clone()
        .with("LONGSHORE_JIT_CACHE", "off")
        .with("LONGSHORE_EXECUTOR", world::executor());
    let bitcode = (backend == "host").then(|| {
        let setup = setup.clone().with_environment(compiling).with_fixtures(Fixtures::bitcode());
        run(" (bitcode)", vec![Part { setup, is_tried: is_of_bitcode }])
    });
    let setup = setup.with_environment(environment);
    let isolated =
        |shares_memory| Part::all(setup.clone().with_isolation(world::executor(), shares_memory));
    bitcode
        .into_iter()
        .chain([
            run(" (isolated)", vec![isolated(true)]),
            run(" (isolated, nothing shared)", vec![isolated(false)]),
            run("", vec![Part::all(setup)]),
        ])
        .collect()
}

/// Returns the parts for Vulkan. The validation layer and the plugin's own validator may differ in
/// version, and disagree about modules that no compiler makes: such modules run without the layer.
/// In a short test, so do concurrent threads: in the layer they may wait 10 s for each other.
fn vulkan_parts(setup: &Setup) -> [(&'static str, Vec<Part>); 4] {
    let strict = setup.clone().with_environment(vulkan::environment());
    let wgsl = |setup: &Setup| setup.clone().with_fixtures(Fixtures::wgsl());
    let wgsl_part =
        |setup| Part { setup, is_tried: if effort::is_all() { is_for_layers } else { is_of_wgsl } };
    let staging = vulkan::environment().with("LONGSHORE_VULKAN_STAGING", "always");
    let staged = Part { setup: setup.clone().with_environment(staging), is_tried: is_staged };
    let staging = vulkan::environment_without_layer().with("LONGSHORE_VULKAN_STAGING", "always");
    let staged_threads = Part {
        setup: setup.clone().with_environment(staging),
        is_tried: |behaviour| behaviour.group == THREADS && !is_for_layers(behaviour),
    };
    let isolated = strict.clone().with_isolation(world::executor(), true);
    let isolated_part = |setup| Part {
        setup,
        is_tried: if effort::is_all() { is_for_layers } else { is_isolated },
    };
    let with_layers = |setup| Part { setup, is_tried: is_for_layers };
    let without_layers = |setup| Part { setup, is_tried: |behaviour| !is_for_layers(behaviour) };
    [
        (" (isolated)", vec![isolated_part(isolated)]),
        (" (WGSL)", vec![wgsl_part(wgsl(&strict)), without_layers(wgsl(setup))]),
        (" (staged)", vec![staged, staged_threads]),
        ("", vec![with_layers(strict), without_layers(setup.clone())]),
    ]
}

/// Returns whether a behaviour loads its images through the host, which compiles bitcode. Other
/// behaviours call the plugin's tables themselves, or query the plugin for the image as it is. LLVM
/// compiles some bitcode with flipped bits for minutes.
fn is_of_bitcode(behaviour: &Behaviour) -> bool {
    const OTHERS: [&str; 2] = [
        "an image is accepted before it is loaded",
        "an image with a bit flipped anywhere does no harm",
    ];
    behaviour.group != "interface" && !OTHERS.contains(&behaviour.name)
}

fn is_of_images(behaviour: &Behaviour) -> bool {
    GROUPS_OF_IMAGES.contains(&behaviour.group)
}

fn is_for_layers(behaviour: &Behaviour) -> bool {
    let is_for_all = !behaviour.name.contains("flipped");
    is_for_all && (effort::is_all() || behaviour.group != THREADS)
}

fn is_of_wgsl(behaviour: &Behaviour) -> bool {
    is_of_images(behaviour) && is_for_layers(behaviour)
}

fn is_isolated(behaviour: &Behaviour) -> bool {
    ISOLATED_GROUPS.contains(&behaviour.group) && is_for_layers(behaviour)
}

fn is_staged(behaviour: &Behaviour) -> bool {
    STAGED_GROUPS.contains(&behaviour.group) && is_for_layers(behaviour)
}

impl Run {
    /// Returns whether the arguments select a trial of this run: starting drivers in vain takes
    /// time.
    pub(crate) fn is_wanted(&self, arguments: &Arguments) -> bool {
        let name = arguments.filter.as_ref().filter(|_| arguments.exact);
        name.is_none_or(|name| self.has(name))
    }

    /// Returns whether this run has a trial with this name, if the device exists.
    pub(crate) fn has(&self, trial: &str) -> bool {
        self.index_in(trial).is_some()
    }

    /// Returns the index of the device in the name of a trial: 1 for "vulkan:1 (WGSL)".
    fn index_in(&self, trial: &str) -> Option<u32> {
        let device = trial.strip_prefix(self.backend())?.strip_prefix(':')?;
        device.strip_suffix(self.form)?.parse().ok()
    }

    /// Returns a trial for each device of the plugin.
    pub(crate) fn trials(self) -> Vec<Trial> {
        let devices = match self.parts[0].setup.devices() {
            Ok(devices) => devices,
            Err(error) => return vec![broken(&self.plugin, &format!("{error:?}"))],
        };
        let of = Doubled::for_backend(self.backend()).filter(Doubled::is_double);
        if devices.is_empty() && of.is_some() && Environment::from_process().devices().is_none() {
            return vec![broken(&self.plugin, "the double of its driver shows no device")];
        }
        let parts: Vec<Vec<_>> =
            self.parts.iter().map(|part| part.behaviours().collect()).collect();
        let trial = |device: DeviceName| {
            let name = format!("{}:{}{}", device.backend, device.index, self.form);
            let (trial, parts) = (name.clone(), parts.clone());
            Trial::test(name, move || attempt(&trial, &parts))
        };
        devices.into_iter().filter(|device| self.is_chosen(device)).map(trial).collect()
    }

    /// Returns whether a short test includes a device. For the isolating process and the compiler
    /// of bitcode, further devices of a plugin are like the first. Further devices of a double are
    /// like its first.
    fn is_chosen(&self, device: &DeviceName) -> bool {
        let is_double = Doubled::for_backend(&device.backend).is_some_and(|of| of.is_double());
        let is_alike =
            is_double || ["isolated", "bitcode"].iter().any(|form| self.form.contains(form));
        device.index == 0 || !is_alike || effort::is_all()
    }

    /// Runs one behaviour of a part in this process, on the device of a trial.
    pub(crate) fn outcome(&self, trial: &str, part: usize, behaviour: usize) -> Outcome {
        let index = self.index_in(trial).expect("the trial is of this run");
        let device = DeviceName::for_index(self.backend(), index);
        let part = &self.parts[part];
        let behaviour =
            part.behaviours().nth(behaviour).expect("a number below that of behaviours");
        let outcome = part.setup.run(&device, behaviour);
        match complaint_of_double(&device) {
            Some(complaint) => Outcome::Failed(complaint),
            None => outcome,
        }
    }

    /// Returns the number of behaviours of a part.
    pub(crate) fn count(&self, part: usize) -> usize {
        self.parts[part].behaviours().count()
    }

    fn backend(&self) -> &str {
        backend_of(&self.plugin).expect("a plugin's file name")
    }
}

impl Part {
    fn all(setup: Setup) -> Part {
        Part { setup, is_tried: |_| true }
    }

    fn behaviours(&self) -> impl Iterator<Item = &'static Behaviour> {
        let only = std::env::var(ONLY).unwrap_or_default();
        let texts = only.split(',').filter(|text| !text.is_empty()).map(str::to_owned);
        let only = Filter::any_of(texts.collect::<Vec<_>>());
        behaviours().filter(move |behaviour| (self.is_tried)(behaviour) && only.admits(behaviour))
    }
}

/// Runs all behaviours of a trial, and prints each outcome. The error lists the failed behaviours.
fn attempt(trial: &str, parts: &[Vec<&'static Behaviour>]) -> Result<(), Failed> {
    let (mut passed, mut skipped, mut failed) = (0, 0, Vec::new());
    for (number, behaviours) in parts.iter().enumerate() {
        let outcomes = supervised::outcomes(trial, number, behaviours.len())?;
        for (behaviour, outcome) in behaviours.iter().zip(outcomes) {
            match outcome {
                Outcome::Passed => {
                    passed += 1;
                    println!("\u{2713} {behaviour}");
                }
                Outcome::Skipped(why) => {
                    skipped += 1;
                    println!("- {behaviour} (skipped: {why})");
                }
                Outcome::Failed(what) => {
                    println!("\u{2717} {behaviour}");
                    let promises = behaviour.requirements.join(", ");
                    failed.push(format!("{behaviour} [{promises}]\n    {what}"));
                }
            }
        }
    }
    println!("{trial}: {passed} passed, {} failed, {skipped} skipped", failed.len());
    match failed.len() {
        0 => Ok(()),
        count => Err(format!("{count} behaviours failed:\n{}", failed.join("\n")).into()),
    }
}

/// Returns the violations that the double of a driver has recorded since the last call.
fn complaint_of_double(device: &DeviceName) -> Option<String> {
    let of = Doubled::for_backend(&device.backend).filter(Doubled::is_double)?;
    let double = of.open_double();
    let wrong = [double.violations(), double.lost()].concat();
    double.reset();
    (!wrong.is_empty()).then(|| wrong.join("; "))
}

fn broken(plugin: &Path, why: &str) -> Trial {
    let (name, why) = (plugin.display().to_string(), why.to_owned());
    Trial::test(name, move || Err(why.into()))
}

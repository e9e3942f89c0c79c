//! Programs whose image is damaged after the compilation: for another machine, or without a symbol.
//! The policy decides whether the region runs on the host or the program ends.

use super::compile::{Compiled, Compiler};
use super::matrix::COMPILERS;
use super::programs::Program;
use super::run::{Library, Outcome, TrialResult, not_tried};
use libtest_mimic::{Completion, Failed, Trial};
use longshore_tests::suites::Suite;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

pub(crate) const SUITE: Suite = Suite::new("damaged", trials);

const PROGRAM: Program = Program::new("damaged.c");
/// The beginning of an ELF file, and the place of the machine's number.
const MAGIC: &[u8] = b"\x7fELF";
const MACHINE_AT: usize = 18;
/// The places of the position, the size and the number of the headers of sections.
const SECTIONS_AT: usize = 40;
const SECTION_BYTES_AT: usize = 58;
const SECTION_COUNT_AT: usize = 60;
/// The number of AArch64.
const MACHINE: [u8; 2] = [183, 0];

/// Changes of the image in an executable.
#[derive(Clone, Copy, Debug)]
enum Damage {
    /// The image is for AArch64.
    Machine,
    /// The program looks for a symbol whose name begins so under another name. The image itself
    /// has a table of hashes, so its names are left.
    Symbol(&'static str),
}

/// The end of a damaged program.
#[derive(Clone, Copy, Debug)]
enum End {
    OnHost,
    /// An abnormal end, with these texts on standard error.
    Fatal(&'static [&'static str]),
}

const FATAL: &str = "failure of target construct while offloading is mandatory";
const KERNEL: &str = "__omp_offloading_";
const OTHER_KERNEL: &str = "X_omp_offloading_";
const VARIABLE: &str = "variable_of_image";
const OTHER_VARIABLE: &str = "Xariable_of_image";

fn trials() -> Vec<Trial> {
    let cases: [(&str, Damage, &str, End); 7] = [
        ("another machine, mandatory", Damage::Machine, "MANDATORY", End::Fatal(&[FATAL])),
        ("another machine", Damage::Machine, "DEFAULT", End::OnHost),
        ("no kernel", Damage::Symbol(KERNEL), "DEFAULT", End::Fatal(&[FATAL, OTHER_KERNEL])),
        (
            "no kernel, mandatory",
            Damage::Symbol(KERNEL),
            "MANDATORY",
            End::Fatal(&[FATAL, OTHER_KERNEL]),
        ),
        ("no kernel, disabled", Damage::Symbol(KERNEL), "DISABLED", End::OnHost),
        (
            "no variable",
            Damage::Symbol(VARIABLE),
            "MANDATORY",
            End::Fatal(&[FATAL, OTHER_VARIABLE]),
        ),
        ("no variable, disabled", Damage::Symbol(VARIABLE), "DISABLED", End::OnHost),
    ];
    let mut trials = Vec::new();
    for compiler in COMPILERS {
        for (name, damage, policy, end) in cases {
            let name = format!("{name} by {compiler}");
            let run = move || run(compiler, damage, policy, end);
            trials.push(Trial::ignorable_test(name, run));
        }
    }
    trials
}

fn run(compiler: Compiler, damage: Damage, policy: &str, end: End) -> TrialResult {
    if let Some(missing) = compiler.missing() {
        return not_tried(missing);
    }
    let compiled = compiler.compile(&PROGRAM)?;
    let mut bytes = std::fs::read(&compiled.program)?;
    damage.apply(&mut bytes)?;
    let folder = tempfile::tempdir()?;
    let program = folder.path().join("program");
    std::fs::write(&program, bytes)?;
    std::fs::set_permissions(&program, Permissions::from_mode(0o755))?;
    let mut command = Library::Ours.command(&Compiled { program, argument: None }, &[])?;
    let outcome = Outcome::from_command(command.env("OMP_TARGET_OFFLOAD", policy))?;
    let is_expected = match end {
        End::OnHost => outcome.is_success && outcome.printed == "place: 1\n",
        End::Fatal(texts) => {
            let has_all = texts.iter().all(|text| outcome.errors.contains(text));
            !outcome.is_success && outcome.printed.is_empty() && has_all
        }
    };
    match is_expected {
        true => Ok(Completion::Completed),
        false => Err(outcome.text().into()),
    }
}

impl Damage {
    /// Damages the image in the bytes of an executable.
    fn apply(self, bytes: &mut [u8]) -> Result<(), Failed> {
        let start = find(&bytes[MAGIC.len()..], MAGIC).ok_or("the executable has no image")?;
        let start = start + MAGIC.len();
        let end = start + size_of_image(&bytes[start..]);
        let (before, rest) = bytes.split_at_mut(start);
        let (image, after) = rest.split_at_mut(end - start);
        match self {
            Damage::Machine => image[MACHINE_AT..][..2].copy_from_slice(&MACHINE),
            Damage::Symbol(name) => {
                if rename(before, name) + rename(after, name) == 0 {
                    return Err(format!("the program has no entry {name}").into());
                }
            }
        }
        Ok(())
    }
}

/// Changes the first byte of a name wherever it stands. Returns the number of places.
fn rename(bytes: &mut [u8], name: &str) -> usize {
    let mut places = 0;
    while let Some(place) = find(bytes, name.as_bytes()) {
        bytes[place] = b'X';
        places += 1;
    }
    places
}

/// Returns the size of an image, whose headers of sections are last.
fn size_of_image(image: &[u8]) -> usize {
    let number = |at: usize, bytes: usize| {
        let mut number = [0; 8];
        number[..bytes].copy_from_slice(&image[at..][..bytes]);
        usize::from_le_bytes(number)
    };
    number(SECTIONS_AT, 8) + number(SECTION_BYTES_AT, 2) * number(SECTION_COUNT_AT, 2)
}

fn find(bytes: &[u8], text: &[u8]) -> Option<usize> {
    bytes.windows(text.len()).position(|window| window == text)
}

//! The runs of each program.

use super::compile::files_with;
use super::fixture;
use super::sources::{self, Unavailable};
use std::fs;
use std::path::PathBuf;

/// A sequence of runs of a program, one after another in one folder.
#[derive(Clone, Debug)]
pub struct Case {
    /// Name of the case.
    pub name: String,
    /// Runs, in order.
    pub steps: Vec<Step>,
    /// Folder with the initial files.
    pub files: Option<PathBuf>,
    /// Whether the remaining files are part of the outcome.
    pub compare_files: bool,
}

/// One run of a program.
#[derive(Clone, Debug, Default)]
pub struct Step {
    /// Arguments after the program's name.
    pub args: Vec<String>,
    /// Standard input.
    pub stdin: Vec<u8>,
    /// File for the standard output, for later steps.
    pub stdout_to: Option<&'static str>,
    /// Expected exit code.
    pub exit: i32,
    /// Output that is the same in each run.
    pub stable: Output,
}

/// Output that is the same in each run of a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Output {
    /// All of the output.
    #[default]
    Both,
    /// Standard output alone.
    Stdout,
    /// No output, as it has times or addresses.
    None,
}

impl Case {
    fn new(name: &str, steps: impl Into<Vec<Step>>) -> Case {
        Case { name: name.to_owned(), steps: steps.into(), files: None, compare_files: true }
    }
}

impl Step {
    /// Creates a step with these arguments, which spaces separate.
    fn new(args: &str) -> Step {
        Step { args: args.split_whitespace().map(str::to_owned).collect(), ..Step::default() }
    }

    fn arg(mut self, arg: &str) -> Step {
        self.args.push(arg.to_owned());
        self
    }

    fn stdin(self, stdin: impl Into<Vec<u8>>) -> Step {
        Step { stdin: stdin.into(), ..self }
    }

    fn stdout_to(self, file: &'static str) -> Step {
        Step { stdout_to: Some(file), ..self }
    }

    fn exit(self, exit: i32) -> Step {
        Step { exit, ..self }
    }

    fn stable(self, stable: Output) -> Step {
        Step { stable, ..self }
    }
}

pub(super) fn sqlite3() -> Result<Vec<Case>, Unavailable> {
    let script = |name: &str, database: &str| -> Result<Step, Unavailable> {
        Ok(Step::new(database).stdin(fs::read(fixture("sql").join(name))?))
    };
    let file = [script("create.sql", "words.db")?, script("read.sql", "words.db")?];
    Ok(vec![
        Case::new("queries", [script("queries.sql", ":memory:")?]),
        Case::new("extensions", [script("extensions.sql", ":memory:")?]),
        Case::new("an error", [script("failing.sql", ":memory:")?.exit(1)]),
        Case::new("a file", file),
    ])
}

pub(super) fn lua() -> Result<Vec<Case>, Unavailable> {
    // Lua's suite for embedders without Lua's internal tests. Skipped files: `main` starts the
    // interpreter by its file name, and `heavy` fills the memory.
    const PORTABLE: &str = "_soft = true; _port = true; _nomsg = true";
    let suite = sources::lua()?.join("testes");
    let skipped = ["all.lua", "heavy.lua", "main.lua"].map(|name| suite.join(name));
    let random =
        ["constructs.lua", "files.lua", "math.lua", "sort.lua"].map(|name| suite.join(name));
    let part = |file: &PathBuf| {
        let stable = if random.contains(file) { Output::None } else { Output::Both };
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        Step::new("-e").arg(PORTABLE).arg(&name).stable(stable)
    };
    let files = files_with(&suite, &["lua"]);
    let parts: Vec<_> = files.iter().filter(|file| !skipped.contains(file)).map(part).collect();
    let all = Step::new("-e _U=true all.lua").stable(Output::None);
    let suite_case = |name, steps| Case {
        files: Some(suite.clone()),
        compare_files: false,
        ..Case::new(name, steps)
    };
    let tour = Step::new("tour.lua 5").stdin("one\ntwo\n").exit(5);
    let tour = Case { files: Some(fixture("lua")), ..Case::new("a tour", [tour]) };
    let error = Step::new("-e").arg("error('on purpose')").exit(1).stable(Output::Stdout);
    Ok(vec![
        tour,
        suite_case("its suite, in parts", parts),
        suite_case("its suite", vec![all]),
        Case::new("an error", [error]),
    ])
}

pub(super) fn zlib_example() -> Result<Vec<Case>, Unavailable> {
    Ok(vec![Case::new("its test", [Step::new("")])])
}

pub(super) fn zlib_minigzip() -> Result<Vec<Case>, Unavailable> {
    let pack = Step::new("-9").stdin(text()).stdout_to("text.gz");
    let refuse = Step::new("-d").stdin("no such stream, \u{1f}").stable(Output::Stdout);
    Ok(vec![
        Case::new("there and back", [pack, Step::new("-d text.gz"), Step::new("-1 -f text")]),
        Case::new("no stream", [refuse]),
    ])
}

pub(super) fn zstd() -> Result<Vec<Case>, Unavailable> {
    let quiet = |args: &str| Step::new(&format!("-q {args}"));
    let pack = |level: &str, file| quiet(&format!("{level} -c text")).stdout_to(file);
    let levels = vec![
        Step::new("-q -c -1").stdin(text()).stdout_to("pipe.zst"),
        quiet("-d -c pipe.zst").stdout_to("text"),
        pack("-1", "1.zst"),
        pack("-9 --check", "9.zst"),
        pack("-19 --long=24", "19.zst"),
        pack("--ultra -22", "22.zst"),
        pack("--fast=5 --no-check", "fast.zst"),
        pack("-T2 -B64K -3", "threads.zst"),
        quiet("-t 1.zst 9.zst 19.zst 22.zst fast.zst threads.zst"),
        quiet("-d -c threads.zst").stdout_to("back"),
    ];
    let dictionary = vec![
        quiet("--train -r . -o dictionary --maxdict=8192").stable(Output::Stdout),
        quiet("-D dictionary zstd.h -o header.zst"),
        quiet("-D dictionary -d header.zst -o header"),
        quiet("-d header.zst -o refused").exit(1),
    ];
    let headers = Some(sources::zstd()?.join("lib"));
    let broken = Step::new("-q -d -c").stdin("this is no frame at all").exit(1);
    Ok(vec![
        Case::new("levels and back", levels),
        Case { files: headers, ..Case::new("a dictionary", dictionary) },
        Case::new("no frame", [broken.stable(Output::Stdout)]),
        Case::new("a benchmark", [Step::new("-b1 -e3 -i0").stable(Output::None)]),
    ])
}

pub(super) fn zstd_fuzzer() -> Result<Vec<Case>, Unavailable> {
    let step = Step::new("-s1 -i20 --no-big-tests").stable(Output::Stdout);
    Ok(vec![Case::new("its tests", [step])])
}

pub(super) fn zstd_stream_test() -> Result<Vec<Case>, Unavailable> {
    let steps = ["", "--newapi -t1"]
        .map(|mode| Step::new(&format!("-s1 -i10 --no-big-tests {mode}")).stable(Output::Stdout));
    Ok(vec![Case::new("its tests", steps)])
}

pub(super) fn cpp() -> Result<Vec<Case>, Unavailable> {
    let arguments = Step::new("one").arg("two words");
    Ok(vec![Case::new("all parts", [Step::new("").exit(3), arguments])])
}

pub(super) fn rust() -> Result<Vec<Case>, Unavailable> {
    // The message of a panic contains the number of the thread.
    let steps = ["", "1 2"].map(|args| Step::new(args).stable(Output::Stdout));
    Ok(vec![Case::new("all parts", steps)])
}

/// Returns a compressible text of half a megabyte.
fn text() -> Vec<u8> {
    let mut state = 1_u32;
    let mut text = Vec::new();
    while text.len() < 1 << 19 {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let word = ["relocation ", "symbol ", "section ", "a\n", "block ", "edge "];
        text.extend(word[(state >> 16) as usize % word.len()].bytes());
        text.extend((state >> 24).to_string().bytes());
    }
    text
}

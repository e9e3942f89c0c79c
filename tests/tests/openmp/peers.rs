//! LLVM's own libraries beside ours, with the same programs: equal output, and equal texts of
//! `LIBOMPTARGET_INFO`.

use super::matrix::{self, COMPILERS};
use super::programs::{PROGRAMS, Program};
use super::run::{Library, Outcome, TrialResult, not_tried};
use libtest_mimic::{Completion, Failed, Trial};
use longshore_tests::suites::Suite;

pub(crate) const SUITE: Suite = Suite::new("peers", trials);

/// The versions of LLVM whose libraries are peers.
const VERSIONS: [u32; 2] = [19, 22];

fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for (index, program) in PROGRAMS.iter().enumerate() {
        for version in VERSIONS {
            let compilers = COMPILERS.into_iter().filter(|c| c.version == version);
            for compiler in compilers.filter(|c| matrix::is_chosen(index, c)) {
                let name = format!("{} by {compiler}", program.file);
                let run = move || compare(program, compiler.version);
                trials.push(Trial::ignorable_test(name, run));
            }
        }
    }
    trials
}

/// Compares both libraries, with all information unless it is known to differ.
fn compare(program: &Program, version: u32) -> TrialResult {
    let compiler = COMPILERS.into_iter().find(|compiler| compiler.version == version);
    let compiler = compiler.ok_or("the peer has a compiler")?;
    let obstacle = program.obstacle(compiler).or(program.defect_of_peer(version));
    if let Some(why) = obstacle.map(str::to_owned).or_else(|| compiler.missing()) {
        return not_tried(why);
    }
    let compiled = compiler.compile(program)?;
    let level = if program.other_info.is_some() { "0" } else { "-1" };
    let run = |library: Library| {
        let mut command = library.command(&compiled, &[])?;
        Outcome::from_command(command.env("LIBOMPTARGET_INFO", level))
    };
    let (llvm, ours) = (run(Library::Llvm(version))?, run(Library::Ours)?);
    llvm.check()?;
    equal(&llvm.printed, &ours.printed)?;
    if program.other_info.is_none() {
        equal(&normalized(&llvm.errors), &normalized(&ours.errors))?;
    }
    Ok(Completion::Completed)
}

/// Checks that two texts are equal; the error shows the lines around the first difference.
fn equal(llvm: &str, ours: &str) -> Result<(), Failed> {
    if llvm == ours {
        return Ok(());
    }
    let same = llvm.lines().zip(ours.lines()).take_while(|(llvm, ours)| llvm == ours).count();
    let part = |text: &str| {
        let lines: Vec<_> = text.lines().skip(same.saturating_sub(3)).take(9).collect();
        lines.join("\n")
    };
    Err(format!("line {}\nLLVM:\n{}\n\nours:\n{}", same + 1, part(llvm), part(ours)).into())
}

/// Replaces addresses, and sorts the rows of each table of mappings: their order is that of the
/// addresses, which differ between processes.
fn normalized(text: &str) -> String {
    let mut lines: Vec<_> = text.lines().map(without_addresses).collect();
    for rows in lines.chunk_by_mut(|one, other| is_row(one) && is_row(other)) {
        rows.sort_unstable();
    }
    lines.join("\n")
}

/// Returns whether a line without addresses is a row of a table.
fn is_row(line: &str) -> bool {
    line.contains(" info: ADDRESS ADDRESS ")
}

fn without_addresses(line: &str) -> String {
    let mut parts = line.split("0x");
    let mut all = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        all += "ADDRESS";
        all += part.trim_start_matches(|digit: char| digit.is_ascii_hexdigit());
    }
    all
}

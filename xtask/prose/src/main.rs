//! `cargo xtask prose`: checks comments, documentation, messages and commit subjects.
//!
//! The rules are in `CONTRIBUTING.md`. A finding that must stay is an
//! exception of the module `exceptions`.

mod count;
mod exceptions;
mod files;
mod passage;
mod rules;
mod rust;

use anyhow::{Context, Result, bail};
use count::Counts;
use exceptions::Exceptions;
use rules::Finding;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Commits after this time are checked. Earlier ones cannot be changed.
const FIRST_COMMIT: &str = "2026-11-24T12:30:00Z";

const USAGE: &str = "\
Usage: cargo xtask prose [--count] [PATH]...

Checks the prose of the files of the repository, or of those at or below PATH.

  --count  Print how often some words stand in comments, and check nothing";

fn main() -> Result<ExitCode> {
    let mut paths = Vec::new();
    let mut count = false;
    for argument in std::env::args().skip(1) {
        match argument.as_str() {
            "--count" => count = true,
            "--help" | "-h" => {
                println!("{USAGE}");
                return Ok(ExitCode::SUCCESS);
            }
            option if option.starts_with('-') => bail!("unknown option {option}\n\n{USAGE}"),
            path => paths.push(PathBuf::from(path)),
        }
    }
    let root = root()?;
    let files = tracked(&root, &paths)?;
    if count {
        let mut counts = Counts::default();
        for file in files.iter().filter(|file| file.extension().is_some_and(|end| end == "rs")) {
            let text = std::fs::read_to_string(root.join(file))?;
            counts.add(&text, &rust::read(&text, false)?.passages);
        }
        print!("{counts}");
        return Ok(ExitCode::SUCCESS);
    }
    let mut exceptions = Exceptions::default();
    let mut broken = 0;
    for file in &files {
        let findings = check(&root, file).with_context(|| format!("reading {}", file.display()))?;
        broken += report(file, findings, &mut exceptions);
    }
    if paths.is_empty() {
        let mut findings = Vec::new();
        for subject in subjects(&root)? {
            rules::check_commit(&subject, &mut findings);
        }
        broken += report(Path::new("commit"), findings, &mut exceptions);
        for unused in exceptions.unused() {
            println!("exception without a finding: {} {:?}", unused.file, unused.text);
            broken += 1;
        }
    }
    if broken == 0 {
        return Ok(ExitCode::SUCCESS);
    }
    _ = writeln!(
        std::io::stdout(),
        "{broken} places break the rules for prose, which are in CONTRIBUTING.md"
    );
    Ok(ExitCode::FAILURE)
}

/// Returns the root of the repository in which the caller is.
fn root() -> Result<PathBuf> {
    let output = git(Path::new("."), &["rev-parse", "--show-toplevel"])?;
    Ok(PathBuf::from(output.trim()))
}

/// Returns the files that git tracks or would add, at or below the paths.
fn tracked(root: &Path, paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let prefix = std::env::current_dir()?;
    let output = git(root, &["ls-files", "--cached", "--others", "--exclude-standard"])?;
    let chosen = |file: &PathBuf| {
        let whole = root.join(file);
        paths.is_empty() || paths.iter().any(|path| whole.starts_with(prefix.join(path)))
    };
    let exists = |file: &PathBuf| root.join(file).is_file();
    Ok(output.lines().map(PathBuf::from).filter(chosen).filter(exists).collect())
}

/// Returns the subjects of the commits, without merges.
fn subjects(root: &Path) -> Result<Vec<String>> {
    let since = format!("--since={FIRST_COMMIT}");
    let output = git(root, &["log", "--no-merges", "--format=%s", &since])?;
    Ok(output.lines().map(str::to_owned).collect())
}

fn git(folder: &Path, arguments: &[&str]) -> Result<String> {
    let output = Command::new("git").current_dir(folder).args(arguments).output();
    let output = output.context("starting git")?;
    if !output.status.success() {
        bail!("git {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// Checks a file. Files of other kinds have no findings.
fn check(root: &Path, file: &Path) -> Result<Vec<Finding>> {
    let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let end = file.extension().and_then(|end| end.to_str()).unwrap_or(name);
    let kind = match end {
        "rs" | "md" => end,
        "c" | "h" | "in" | "cc" | "cpp" | "hpp" | "cu" | "cl" | "comp" | "glsl" | "wgsl" | "S" => {
            end
        }
        "txt" if name.ends_with(".rs.txt") => "rs",
        "toml" | "sh" | "py" | "yml" | "yaml" | "run" | "Makefile" | "cmake" | "gitignore" => "#",
        _ => return Ok(Vec::new()),
    };
    let text = std::fs::read_to_string(root.join(file))?;
    check_text(file, kind, &text)
}

/// Checks the text of a file; `kind` is its extension, or `#` where comments begin so.
fn check_text(file: &Path, kind: &str, text: &str) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    let passages = match kind {
        "rs" => {
            let source = rust::read(text, !is_test(file))?;
            for name in &source.names {
                rules::check_name(name.subject, &name.name, name.line, &mut findings);
            }
            source.passages
        }
        "md" => vec![files::markdown(text)],
        "#" => files::hash(text),
        _ => files::c(text),
    };
    for passage in &passages {
        rules::check(passage, &mut findings);
    }
    check_lines(kind, text, &mut findings);
    if file.ends_with("docs/glossary.md") {
        rules::check_glossary(text, &mut findings);
    }
    Ok(findings)
}

/// Returns whether the strings of a source are a test's or a benchmark's, which no user reads.
fn is_test(file: &Path) -> bool {
    let folders = ["tests", "benches", "fuzz", "prose"];
    let part = |part: &std::ffi::OsStr| folders.iter().any(|folder| part == *folder);
    let stem = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    file.iter().any(part) || stem == "tests" || stem == "build"
}

/// Checks the columns of comment lines, or of all lines of a page outside of code.
fn check_lines(kind: &str, text: &str, findings: &mut Vec<Finding>) {
    let mut code = false;
    for (number, line) in text.lines().enumerate() {
        let trimmed = line.trim_start();
        let fence =
            if kind == "md" { trimmed } else { trimmed.trim_start_matches(['/', '!', ' ']) };
        code ^= fence.starts_with("```");
        let counts = match kind {
            "md" => !code,
            "#" => trimmed.starts_with('#'),
            _ => {
                trimmed.starts_with("//") || trimmed.starts_with("* ") || trimmed.starts_with("/*")
            }
        };
        if counts {
            rules::check_columns(number + 1, line, findings);
        }
    }
}

/// Prints the findings that no exception allows, and returns their number.
fn report(file: &Path, mut findings: Vec<Finding>, exceptions: &mut Exceptions) -> usize {
    findings.sort_by_key(|finding| (finding.line, finding.rule));
    findings.retain(|finding| !exceptions.allow(file, finding));
    for Finding { rule, line, text, advice } in &findings {
        let file = file.display();
        // A reader that has seen enough, such as `head`, does not end the checks.
        _ = writeln!(std::io::stdout(), "{file}:{line}: {rule}: {advice}\n    {text}");
    }
    findings.len()
}

#[cfg(test)]
mod tests;

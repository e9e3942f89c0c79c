//! LLVM's executor, driven by a program that this benchmark compiles.

use anyhow::{Context, Result, ensure};
use longshore_benches::report::Report;
use longshore_benches::rounds::Times;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const CONFIG: &str = "llvm-config-19";
const EXECUTOR: &str = "/usr/bin/llvm-jitlink-executor-19";
const HEADER: &str = "/usr/lib/llvm-19/include/llvm/ExecutionEngine/Orc/SimpleRemoteEPC.h";

/// Adds the times of LLVM's executor to the report, without limits.
pub(crate) fn measure(report: &mut Report) -> Result<()> {
    if !Path::new(HEADER).exists() || !Path::new(EXECUTOR).exists() {
        println!("not measured: LLVM's executor, which needs llvm-19-dev and llvm-19-tools");
        return Ok(());
    }
    let folder = tempfile::tempdir()?;
    let peer = folder.path().join("peer");
    compile(&peer)?;
    let output = Command::new(&peer).arg(EXECUTOR).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for line in String::from_utf8(output.stdout)?.lines() {
        let mut fields = line.split('\t');
        let name = fields.next().context("a name")?;
        let times: Vec<Duration> =
            fields.map(|field| Ok(Duration::from_nanos(field.parse()?))).collect::<Result<_>>()?;
        let [best, median] = times[..] else { anyhow::bail!("'{line}': expected two times") };
        let times = Times::new(vec![best, median]).context("two times")?;
        report.note(&format!("LLVM 19's executor: {}", named(name)), &times);
    }
    Ok(())
}

fn named(name: &str) -> &str {
    match name {
        "start" => "started and ended",
        "call" => "an empty call",
        "write" => "8 bytes written",
        "look-ups" => "ten look-ups in one message",
        other => other,
    }
}

fn compile(peer: &Path) -> Result<()> {
    let flags = |arguments: &[&str]| -> Result<Vec<String>> {
        let output = Command::new(CONFIG).args(arguments).output()?;
        let text = String::from_utf8(output.stdout)?;
        // The program catches its own exceptions.
        let flags = text.split_whitespace().filter(|flag| *flag != "-fno-exceptions");
        Ok(flags.map(str::to_owned).collect())
    };
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/executors/llvm_peer.cpp");
    let mut compiler = Command::new("g++");
    compiler.args(["-O2", "-DNDEBUG", "-fno-rtti"]).args(flags(&["--cxxflags"])?);
    compiler.args([source, "-o"]).arg(peer);
    compiler.args(flags(&["--ldflags", "--libs", "orcjit", "orctargetprocess"])?);
    ensure!(compiler.status()?.success(), "LLVM's peer is not compiled");
    Ok(())
}

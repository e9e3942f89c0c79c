//! PTX, and cubins from it.

use super::Cuda;
use crate::images::{KERNELS, Many};
use anyhow::{Result, ensure};
use longshore_tests::cuda;
use std::ffi::OsStr;
use std::fmt::Write;
use std::process::Command;

pub(super) const EMPTY: &str = "\
.version 7.0
.target sm_70
.address_size 64
.visible .entry empty() { ret; }
";

/// Returns a cubin by NVIDIA's assembler if it is installed and knows the device, else by the
/// driver.
pub(super) fn cubin(plain: &Cuda, arch: &str) -> Result<Many> {
    let (ptx, form) = (many(), "cubin");
    if let Some(assembler) = cuda::nvidia_tool("ptxas") {
        match assembled(&ptx, assembler.as_os_str(), arch) {
            Ok(bytes) => return Ok(Many { bytes, form, maker: "ptxas" }),
            Err(error) => println!("not assembled by ptxas: {error:#}"),
        }
    }
    Ok(Many { bytes: plain.link(&ptx)?, form, maker: "the driver" })
}

fn many() -> String {
    let mut ptx = ".version 7.0\n.target sm_70\n.address_size 64\n".to_owned();
    for number in 0..KERNELS {
        writeln!(
            ptx,
            ".visible .entry kernel{number}(.param .u64 place) {{
    .reg .u64 %place;
    ld.param.u64 %place, [place];
    cvta.to.global.u64 %place, %place;
    st.global.u32 [%place], {number};
    ret;
}}"
        )
        .expect("a string can be written to");
    }
    ptx
}

fn assembled(ptx: &str, assembler: &OsStr, arch: &str) -> Result<Vec<u8>> {
    let folder = tempfile::tempdir()?;
    let [text, code] = ["kernels.ptx", "kernels.cubin"].map(|name| folder.path().join(name));
    std::fs::write(&text, ptx)?;
    let mut command = Command::new(assembler);
    let output = command.args(["-arch", arch, "-o"]).arg(&code).arg(&text).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}: {}", output.status, said.trim());
    Ok(std::fs::read(code)?)
}

//! The images, in the form that everyone gets.

use crate::plain::Plain;
use anyhow::{Result, ensure};
use longshore_tests::cuda;
use std::ffi::{CStr, OsStr};
use std::fmt::Write;
use std::process::Command;

/// How many kernels [`cubin`] has.
pub(crate) const KERNELS: usize = 1000;
/// The last of them.
pub(crate) const LAST_KERNEL: &CStr = c"kernel999";

/// PTX of a kernel `empty` without arguments.
pub(crate) const EMPTY: &CStr = c"\
.version 7.0
.target sm_70
.address_size 64
.visible .entry empty() { ret; }
";

/// Machine code for the device, and by what it was made.
pub(crate) struct Cubin {
    pub(crate) bytes: Vec<u8>,
    pub(crate) maker: &'static str,
}

/// A cubin of many kernels, by NVIDIA's assembler if it is there and knows the device, else by the
/// driver.
pub(crate) fn cubin(plain: &Plain) -> Result<Cubin> {
    let ptx = many();
    if let Some(assembler) = cuda::nvidia_tool("ptxas") {
        match assembled(&ptx, assembler.as_os_str(), &plain.arch()?) {
            Ok(bytes) => return Ok(Cubin { bytes, maker: "ptxas" }),
            Err(error) => println!("not assembled by ptxas: {error:#}"),
        }
    }
    Ok(Cubin { bytes: plain.link(&ptx)?, maker: "the driver" })
}

/// PTX of kernels that each store a number of their own.
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

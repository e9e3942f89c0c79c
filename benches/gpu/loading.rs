//! The time of loads.

use crate::Both;
use crate::images::{KERNELS, LAST_KERNEL};
use crate::raw::Raw;
use anyhow::Result;
use longshore::Image;
use longshore_benches::report::{Limit, Report};
use longshore_benches::rounds::{Contender, in_rounds};
use longshore_conformance::TrustedImages;

/// Loads in a sample.
const LOADS: u32 = 5;
const SHARE: f64 = 1.05;

/// Measures the load and unload of machine code with many kernels.
pub(crate) fn measure<D: Raw>(both: &Both<D>, report: &mut Report) -> Result<()> {
    let many = both.plain.many(&both.ours.arch)?;
    let image = Image::from(&many.bytes);
    let floor = || -> Result<()> {
        // SAFETY: it is a whole image, and none of its kernels runs during the unload.
        unsafe { both.plain.unload(both.plain.load(&many.bytes)?) }
    };
    let ours = || -> Result<()> {
        both.ours.device.load_trusted(image.clone())?.unload()?;
        Ok(())
    };
    check(both, &image)?;
    floor()?;
    ours()?;
    let times = in_rounds([
        Some(Contender::new(LOADS, || floor().unwrap())),
        Some(Contender::new(LOADS, || ours().unwrap())),
    ]);
    let [Some(floor), Some(ours)] = times else { unreachable!("every contender ran") };
    let limit = Limit::from_floor("1.05 x floor", &floor, |floor| floor.mul_f64(SHARE));
    let (form, maker) = (many.form, many.maker);
    let mib = many.bytes.len() as f64 / f64::from(1 << 20);
    let name = format!("{form} of {KERNELS} kernels by {maker}, {mib:.1} MiB, loaded and unloaded");
    report.row(&name, Some(&floor), &ours, limit);
    Ok(())
}

/// Checks that the image has the kernels.
fn check<D>(both: &Both<D>, image: &Image) -> Result<()> {
    let program = both.ours.device.load_trusted(image.clone())?;
    program.kernel(LAST_KERNEL.to_str()?)?;
    program.unload()?;
    Ok(())
}

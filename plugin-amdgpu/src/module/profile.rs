//! The profile of an image: variables that HIP finds. Variables that are visible only
//! in the image cannot be read through HIP.

use super::AmdgpuImage;
use crate::driver::Driver;
use longshore_plugin_api::{ProfileSection, Result};
use longshore_plugin_streams::{ModuleCore, make_relative, profile_part};

impl AmdgpuImage {
    /// Returns the present contents of the profile's variables. Blocks.
    pub(super) fn profile_sections(
        &self,
        module: &ModuleCore<Driver>,
    ) -> Result<Vec<ProfileSection>> {
        let mut sections = Vec::new();
        for variable in &self.contents.variables {
            let Some(kind) = profile_part(&variable.name) else { continue };
            let Some(place) = self.variable(module, &variable.name)? else {
                log::warn!(
                    "the profile variable '{}' is not visible, so HIP does not find it",
                    variable.name
                );
                continue;
            };
            let contents = module.read(place)?;
            sections.push(ProfileSection::new(kind, place.address, contents));
        }
        make_relative(&mut sections);
        Ok(sections)
    }
}

//! The profile of an image: variables that HIP finds. Those that only the image sees cannot be read through it.

use super::AmdgpuImage;
use crate::driver::Driver;
use longshore_plugin_api::{ProfileSection, Result};
use longshore_plugin_streams::{ModuleCore, make_relative, profile_part};

impl AmdgpuImage {
    /// What the profile's variables hold now. Blocks.
    pub(super) fn profile_sections(
        &self,
        module: &ModuleCore<Driver>,
    ) -> Result<Vec<ProfileSection>> {
        let mut sections = Vec::new();
        for variable in &self.contents.variables {
            let Some(kind) = profile_part(&variable.name) else { continue };
            let Some(place) = self.variable(module, &variable.name)? else {
                log::warn!(
                    "'{}' of a profile is not visible, so HIP does not find it",
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

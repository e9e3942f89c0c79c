//! The header of the ELF file.

use crate::{Feature, Malformed, Target, processor};

/// The contents of a code object's header.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Header {
    /// The version of the code object's format, 3 to 6.
    pub version: u8,
    /// The code's target. An unknown processor number gives "processor 0xff", which no device has.
    pub target: Target,
    /// Whether the code object must be linked before loading.
    pub is_relocatable: bool,
}

const HEADER_BYTES: usize = 64;
const EM_AMDGPU: u16 = 224;
const OSABI_HSA: u8 = 64;
const ET_REL: u16 = 1;
const ET_EXEC: u16 = 2;
const ET_DYN: u16 = 3;
/// First version whose generic processors have versions, in the highest byte of the flags.
const WITH_GENERIC_VERSION: u8 = 6;

impl Header {
    /// Reads the header, and no other bytes.
    ///
    /// # Errors
    /// A header that is not one of a code object for HSA, or one of version 2, which has its target
    /// elsewhere.
    pub fn read(bytes: &[u8]) -> Result<Header, Malformed> {
        Header::read_with(bytes, None)
    }

    /// Reads the header as [`Header::read`] does. `named` is a target ID for a processor with an
    /// unknown number.
    pub(crate) fn read_with(bytes: &[u8], named: Option<&str>) -> Result<Header, Malformed> {
        let head = bytes.first_chunk::<HEADER_BYTES>();
        let head = head.ok_or_else(|| wrong("its header is cut off".to_owned()))?;
        let half = |at: usize| u16::from_le_bytes([head[at], head[at + 1]]);
        if !head.starts_with(b"\x7fELF\x02\x01\x01") || half(18) != EM_AMDGPU {
            return Err(wrong("it is not a 64-bit ELF file for AMD's GPUs".to_owned()));
        }
        if head[7] != OSABI_HSA {
            return Err(wrong(format!("its OS/ABI is {}, expected {OSABI_HSA} (HSA)", head[7])));
        }
        let is_relocatable = match half(16) {
            ET_REL => true,
            ET_EXEC | ET_DYN => false,
            other => return Err(wrong(format!("its ELF type is {other}, expected 1, 2 or 3"))),
        };
        let version = version(head[8])?;
        let flags = u32::from_le_bytes([head[48], head[49], head[50], head[51]]);
        Ok(Header { version, target: target(version, flags, named), is_relocatable })
    }

    /// Returns whether AMD's present runtimes and compilers support this version.
    #[must_use]
    pub fn is_supported(&self) -> bool {
        self.version >= 4
    }
}

fn version(abi: u8) -> Result<u8, Malformed> {
    match abi {
        0 => Err(wrong("it is of version 2, expected 4 to 6".to_owned())),
        1..=4 => Ok(abi + 2),
        _ => Err(wrong(format!("it has ABI version {abi}, expected 1 to 4"))),
    }
}

fn target(version: u8, flags: u32, named: Option<&str>) -> Target {
    let [number, settings, _, generic_version] = flags.to_le_bytes();
    let named = || Some(Target::parse(named?).ok()?.processor);
    let name = processor::name(number).map(str::to_owned).or_else(named);
    let mut target =
        Target::from_processor(name.unwrap_or_else(|| format!("processor {number:#x}")));
    if version == 3 {
        // Each feature has one bit, which is off even for a processor without the feature.
        let is_on = |bit| if settings & bit == 0 { Feature::Any } else { Feature::On };
        (target.xnack, target.sramecc) = (is_on(1), is_on(2));
        return target;
    }
    let setting = |shift: u8| match settings >> shift & 3 {
        2 => Feature::Off,
        3 => Feature::On,
        _ => Feature::Any,
    };
    (target.xnack, target.sramecc) = (setting(0), setting(2));
    if target.is_generic() {
        target.generic_version =
            Some(if version >= WITH_GENERIC_VERSION { generic_version } else { 0 });
    }
    target
}

pub(crate) fn wrong(what: String) -> Malformed {
    Malformed(format!("the code object is malformed: {what}"))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Returns a header with this file type, ABI version and flags.
    pub(crate) fn head(kind: u16, abi: u8, flags: u32) -> Vec<u8> {
        let mut head = b"\x7fELF\x02\x01\x01\x40".to_vec();
        head.push(abi);
        head.resize(HEADER_BYTES, 0);
        head[16..18].copy_from_slice(&kind.to_le_bytes());
        head[18..20].copy_from_slice(&EM_AMDGPU.to_le_bytes());
        head[48..52].copy_from_slice(&flags.to_le_bytes());
        head
    }

    fn target(abi: u8, flags: u32) -> String {
        Header::read(&head(ET_DYN, abi, flags)).unwrap().target.to_string()
    }

    #[test]
    fn the_flags_say_processor_and_features() {
        assert_eq!(target(2, 0x53f), "gfx90a");
        assert_eq!(target(2, 0xb3f), "gfx90a:sramecc-:xnack+");
        assert_eq!(target(3, 0xe4c), "gfx942:sramecc+:xnack-");
        assert_eq!(target(4, 0x41), "gfx1100");
        assert_eq!(target(1, 0x33f), "gfx90a:sramecc+:xnack+");
        assert_eq!(target(1, 0x03f), "gfx90a");
        assert_eq!(target(2, 0xff), "processor 0xff");
        let named =
            |flags, name| Header::read_with(&head(ET_DYN, 4, flags), Some(name)).unwrap().target;
        assert_eq!(named(0x2ff, "amdgcn-amd-amdhsa--gfx1400:xnack+").to_string(), "gfx1400:xnack-");
        assert_eq!(named(0x0300_00ff, "gfx14-generic").generic_version, Some(3));
        assert_eq!(named(0x3f, "gfx1400").to_string(), "gfx90a");
        assert_eq!(named(0xff, "none").to_string(), "processor 0xff");
    }

    #[test]
    fn generic_processors_have_a_version_since_version_6() {
        let version =
            |abi, flags| Header::read(&head(ET_DYN, abi, flags)).unwrap().target.generic_version;
        assert_eq!(version(4, 0x0200_0054), Some(2));
        assert_eq!(version(3, 0x0200_0054), Some(0));
        assert_eq!(version(4, 0x0200_0041), None);
    }

    #[test]
    fn versions_and_kinds_are_distinguished() {
        let read = |kind, abi| Header::read(&head(kind, abi, 0x3f));
        for (abi, version, is_supported) in
            [(1, 3, false), (2, 4, true), (3, 5, true), (4, 6, true)]
        {
            let header = read(ET_DYN, abi).unwrap();
            assert_eq!((header.version, header.is_supported()), (version, is_supported));
        }
        assert!(read(ET_REL, 4).unwrap().is_relocatable);
        assert!(!read(ET_EXEC, 4).unwrap().is_relocatable);
        assert!(read(ET_DYN, 0).unwrap_err().0.contains("version 2,"));
        assert!(read(ET_DYN, 5).unwrap_err().0.contains("ABI version 5"));
        assert!(read(4, 4).unwrap_err().0.contains("type is 4"));
    }

    #[test]
    fn other_files_are_no_code_objects() {
        let good = head(ET_DYN, 4, 0x3f);
        for (at, byte, why) in [
            (0, 0, "not a 64-bit ELF"),
            (4, 1, "64-bit"),
            (5, 2, "64-bit"),
            (18, 62, "AMD"),
            (7, 65, "OS/ABI is 65"),
        ] {
            let mut bad = good.clone();
            bad[at] = byte;
            let error = Header::read(&bad).unwrap_err();
            assert!(error.0.contains(why), "{error}");
        }
        for end in 0..good.len() {
            assert!(Header::read(&good[..end]).unwrap_err().0.contains("cut off"));
        }
    }
}

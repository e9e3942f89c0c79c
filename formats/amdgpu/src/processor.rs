//! Processors: their numbers in headers, and the processors that a generic one covers.

/// Processors by their number, the lowest byte of a header's flags.
const PROCESSORS: [(u8, &str); 63] = [
    (0x20, "gfx600"),
    (0x21, "gfx601"),
    (0x22, "gfx700"),
    (0x23, "gfx701"),
    (0x24, "gfx702"),
    (0x25, "gfx703"),
    (0x26, "gfx704"),
    (0x28, "gfx801"),
    (0x29, "gfx802"),
    (0x2a, "gfx803"),
    (0x2b, "gfx810"),
    (0x2c, "gfx900"),
    (0x2d, "gfx902"),
    (0x2e, "gfx904"),
    (0x2f, "gfx906"),
    (0x30, "gfx908"),
    (0x31, "gfx909"),
    (0x32, "gfx90c"),
    (0x33, "gfx1010"),
    (0x34, "gfx1011"),
    (0x35, "gfx1012"),
    (0x36, "gfx1030"),
    (0x37, "gfx1031"),
    (0x38, "gfx1032"),
    (0x39, "gfx1033"),
    (0x3a, "gfx602"),
    (0x3b, "gfx705"),
    (0x3c, "gfx805"),
    (0x3d, "gfx1035"),
    (0x3e, "gfx1034"),
    (0x3f, "gfx90a"),
    (0x40, "gfx940"),
    (0x41, "gfx1100"),
    (0x42, "gfx1013"),
    (0x43, "gfx1150"),
    (0x44, "gfx1103"),
    (0x45, "gfx1036"),
    (0x46, "gfx1101"),
    (0x47, "gfx1102"),
    (0x48, "gfx1200"),
    (0x49, "gfx1250"),
    (0x4a, "gfx1151"),
    (0x4b, "gfx941"),
    (0x4c, "gfx942"),
    (0x4e, "gfx1201"),
    (0x4f, "gfx950"),
    (0x50, "gfx1310"),
    (0x51, "gfx9-generic"),
    (0x52, "gfx10-1-generic"),
    (0x53, "gfx10-3-generic"),
    (0x54, "gfx11-generic"),
    (0x55, "gfx1152"),
    (0x57, "gfx1154"),
    (0x58, "gfx1153"),
    (0x59, "gfx12-generic"),
    (0x5a, "gfx1251"),
    (0x5b, "gfx12-5-generic"),
    (0x5c, "gfx1172"),
    (0x5d, "gfx1170"),
    (0x5e, "gfx1171"),
    (0x5f, "gfx9-4-generic"),
    (0x62, "gfx11-7-generic"),
    (0x63, "gfx13-generic"),
];

/// Generic processors with the processors that each covers, and the first version that covers each.
const GENERIC: [(&str, &[(&str, u8)]); 9] = [
    (
        "gfx9-generic",
        &[("gfx900", 1), ("gfx902", 1), ("gfx904", 1), ("gfx906", 1), ("gfx909", 1), ("gfx90c", 1)],
    ),
    ("gfx9-4-generic", &[("gfx942", 1), ("gfx950", 1)]),
    ("gfx10-1-generic", &[("gfx1010", 1), ("gfx1011", 1), ("gfx1012", 1), ("gfx1013", 1)]),
    (
        "gfx10-3-generic",
        &[
            ("gfx1030", 1),
            ("gfx1031", 1),
            ("gfx1032", 1),
            ("gfx1033", 1),
            ("gfx1034", 1),
            ("gfx1035", 1),
            ("gfx1036", 1),
        ],
    ),
    (
        "gfx11-generic",
        &[
            ("gfx1100", 1),
            ("gfx1101", 1),
            ("gfx1102", 1),
            ("gfx1103", 1),
            ("gfx1150", 1),
            ("gfx1151", 1),
            ("gfx1152", 1),
            ("gfx1153", 1),
            ("gfx1154", 1),
        ],
    ),
    ("gfx11-7-generic", &[("gfx1170", 1), ("gfx1171", 1), ("gfx1172", 1)]),
    ("gfx12-generic", &[("gfx1200", 1), ("gfx1201", 1)]),
    ("gfx12-5-generic", &[("gfx1250", 1), ("gfx1251", 1)]),
    ("gfx13-generic", &[("gfx1310", 1)]),
];

/// Returns the name of the processor with this number.
pub(crate) fn name(number: u8) -> Option<&'static str> {
    PROCESSORS.iter().find(|(known, _)| *known == number).map(|(_, name)| *name)
}

/// Returns the first version of a generic processor that covers another processor; `None` if no
/// version does.
pub(crate) fn stands_for_since(generic: &str, processor: &str) -> Option<u8> {
    let (_, members) = GENERIC.iter().find(|(name, _)| *name == generic)?;
    members.iter().find(|(name, _)| *name == processor).map(|(_, since)| *since)
}

/// Returns whether a processor is generic, even one that is not listed here.
pub(crate) fn is_generic(processor: &str) -> bool {
    processor.ends_with("-generic")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn numbers_and_names_are_each_there_once() {
        let numbers: HashSet<_> = PROCESSORS.iter().map(|(number, _)| number).collect();
        let names: HashSet<_> = PROCESSORS.iter().map(|(_, name)| name).collect();
        assert_eq!((numbers.len(), names.len()), (PROCESSORS.len(), PROCESSORS.len()));
        assert_eq!((name(0x3f), name(0x4c), name(0)), (Some("gfx90a"), Some("gfx942"), None));
    }

    #[test]
    fn a_generic_processor_and_its_members_are_known() {
        let known = |name: &str| PROCESSORS.iter().any(|(_, known)| *known == name);
        let mut members = HashSet::new();
        for (generic, of_it) in GENERIC {
            assert!(known(generic) && is_generic(generic), "{generic}");
            for (member, since) in of_it {
                assert!(known(member) && !is_generic(member) && *since > 0, "{member}");
                assert!(members.insert(*member), "{member} in two");
            }
        }
        let generics = PROCESSORS.iter().filter(|(_, name)| is_generic(name)).count();
        assert_eq!(generics, GENERIC.len());
    }
}

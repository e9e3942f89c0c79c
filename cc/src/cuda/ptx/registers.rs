//! Registers, and the types of instructions.

/// Returns the number of bits of a type.
pub(crate) fn bits(ty: &str) -> Option<u32> {
    let bits = ty.strip_prefix(['u', 's', 'b', 'f'])?.parse().ok()?;
    matches!(bits, 8 | 16 | 32 | 64).then_some(bits)
}

/// Returns a type that C++ has: an unsigned one for bits. There is no `float` of 16 bits.
pub(crate) fn plain(ty: &str) -> Option<&'static str> {
    const TYPES: [(&str, &str); 14] = [
        ("u8", "u8"),
        ("u16", "u16"),
        ("u32", "u32"),
        ("u64", "u64"),
        ("s8", "s8"),
        ("s16", "s16"),
        ("s32", "s32"),
        ("s64", "s64"),
        ("b8", "u8"),
        ("b16", "u16"),
        ("b32", "u32"),
        ("b64", "u64"),
        ("f32", "f32"),
        ("f64", "f64"),
    ];
    // Predicates have one bit.
    let known = TYPES.iter().find(|(known, _)| *known == ty).map(|(_, plain)| *plain);
    known.or((ty == "pred").then_some("u8"))
}

/// Returns a type of 32 or 64 bits.
pub(crate) fn sized(ty: &str) -> Option<&'static str> {
    plain(ty).filter(|ty| matches!(bits(ty), Some(32 | 64)))
}

/// Returns the type with twice the bits.
pub(crate) fn wider(ty: &str) -> Option<&'static str> {
    Some(match ty {
        "u16" => "u32",
        "s16" => "s32",
        "u32" => "u64",
        "s32" => "s64",
        _ => return None,
    })
}

/// Returns the value of a special register, whose name has no `%`.
pub(crate) fn special(name: &str) -> Option<String> {
    let dimension = |of: &str, name: &str| {
        let axis = name.strip_prefix('.')?;
        matches!(axis, "x" | "y" | "z").then(|| format!("{of}.{axis}"))
    };
    const DIMENSIONS: [(&str, &str); 4] =
        [("ntid", "blockDim"), ("tid", "threadIdx"), ("nctaid", "gridDim"), ("ctaid", "blockIdx")];
    let found = DIMENSIONS.iter().find_map(|(known, of)| dimension(of, name.strip_prefix(known)?));
    found.or_else(|| {
        let value = match name {
            "laneid" => "__lane_id()",
            "warpid" => "longshore_ptx::thread_rank() / 32",
            "nwarpid" => "longshore_ptx::warp_count()",
            "smid" | "gridid" => "0",
            "nsmid" => "1",
            "lanemask_eq" => "longshore_ptx::lane_bit()",
            "lanemask_lt" => "longshore_ptx::lanes_before()",
            "lanemask_le" => "(longshore_ptx::lanes_before() | longshore_ptx::lane_bit())",
            "lanemask_gt" => "(~(longshore_ptx::lanes_before() | longshore_ptx::lane_bit()))",
            "lanemask_ge" => "(~longshore_ptx::lanes_before())",
            "clock" => "(longshore_ptx::u32)clock64()",
            "clock_hi" => "clock64() >> 32",
            "clock64" => "clock64()",
            "globaltimer" => "wall_clock64()",
            "globaltimer_lo" => "(longshore_ptx::u32)wall_clock64()",
            "globaltimer_hi" => "wall_clock64() >> 32",
            _ => return None,
        };
        Some(value.to_owned())
    })
}

/// Returns the variable of a register.
pub(crate) fn register(name: &str) -> Option<String> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '%');
    let is_register = name.starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '_' | '%'))
        && name != "_"
        && name.chars().all(is_name);
    is_register.then(|| format!("longshore_r_{}_", name.replace('%', "p_")))
}

//! Two modules that distinguish a validator from other programs and libraries.

use crate::validate::rules::Verdict;

const WORDS: usize = 34;
/// Index of the word of [`VALID`] with the result type of its function.
const RESULT_TYPE: usize = 26;

/// A module with one empty kernel.
#[rustfmt::skip]
const VALID: [u32; WORDS] = [
    // Header: magic number, SPIR-V 1.3, no generator, ids below 5, schema.
    0x0723_0203, 0x0001_0300, 0, 5, 0,
    // OpCapability Shader; OpMemoryModel Logical GLSL450
    2 << 16 | 17, 1,
    3 << 16 | 14, 0, 1,
    // OpEntryPoint GLCompute %1 "m"; OpExecutionMode %1 LocalSize 1 1 1
    4 << 16 | 15, 5, 1, 0x6d,
    6 << 16 | 16, 1, 17, 1, 1, 1,
    // %2 = OpTypeVoid; %3 = OpTypeFunction %2
    2 << 16 | 19, 2,
    3 << 16 | 33, 3, 2,
    // %1 = OpFunction %2 None %3
    5 << 16 | 54, 2, 1, 0, 3,
    // %4 = OpLabel; OpReturn; OpFunctionEnd
    2 << 16 | 248, 4,
    1 << 16 | 253,
    1 << 16 | 56,
];

/// Tests a validator on a valid and on an invalid module.
///
/// # Errors
/// A wrong verdict, or none.
pub(super) fn probe(judge: impl Fn(&[u32]) -> Result<Verdict, String>) -> Result<(), String> {
    let mut invalid = VALID;
    invalid[RESULT_TYPE] = 3;
    match (judge(&VALID)?, judge(&invalid)?) {
        (Verdict::Valid, Verdict::Invalid(_)) => Ok(()),
        (Verdict::Invalid(text), _) => Err(format!("it refuses a valid module: {text}")),
        (Verdict::Valid, Verdict::Valid) => Err("it accepts an invalid module".to_owned()),
    }
}

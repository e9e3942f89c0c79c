//! The meaning of operations, on the bits of values. A value of 32 bits is extended by zeros.

use super::ast::{Binary, Combine, Compare, Subgroup, Type, Unary};

pub(super) fn unary(unary: Unary, ty: Type, value: u64) -> u64 {
    let float = f32::from_bits(value as u32);
    match (unary, ty) {
        (Unary::Not, Type::U64) => !value,
        (Unary::Not, _) => u64::from(!(value as u32)),
        (Unary::Negate, Type::U64) => value.wrapping_neg(),
        (Unary::Negate, Type::F32) => u64::from((-float).to_bits()),
        (Unary::Negate, _) => u64::from((value as u32).wrapping_neg()),
        (Unary::IsZero, Type::F32) => u64::from(float == 0.0),
        (Unary::IsZero, _) => u64::from(value == 0),
        (Unary::Keep, _) => {
            let is_small = float > -65536.0 && float < 65536.0;
            u64::from(if is_small { float } else { 1.0 }.to_bits())
        }
        (Unary::Bits, _) => value,
    }
}

pub(super) fn binary(binary: Binary, ty: Type, left: u64, right: u64) -> u64 {
    match ty {
        Type::U32 => binary_u32(binary, left as u32, right as u32).into(),
        Type::I32 => u64::from(binary_i32(binary, left as i32, right as i32) as u32),
        Type::U64 => binary_u64(binary, left, right),
        Type::F32 => {
            let (left, right) = (f32::from_bits(left as u32), f32::from_bits(right as u32));
            let result = match binary {
                Binary::Add => left + right,
                Binary::Sub => left - right,
                Binary::Mul => left * right,
                _ => unreachable!("{binary:?} of floats"),
            };
            result.to_bits().into()
        }
    }
}

macro_rules! binary_unsigned {
    ($name:ident, $type:ty) => {
        fn $name(binary: Binary, left: $type, right: $type) -> $type {
            match binary {
                Binary::Add => left.wrapping_add(right),
                Binary::Sub => left.wrapping_sub(right),
                Binary::Mul => left.wrapping_mul(right),
                Binary::And => left & right,
                Binary::Or => left | right,
                Binary::Xor => left ^ right,
                Binary::Left => left.wrapping_shl(right as u32),
                Binary::Right => left.wrapping_shr(right as u32),
                Binary::Div => left / (right | 1),
                Binary::Rem => left % (right | 1),
                Binary::Min => left.min(right),
                Binary::Max => left.max(right),
            }
        }
    };
}

binary_unsigned!(binary_u32, u32);
binary_unsigned!(binary_u64, u64);

fn binary_i32(binary: Binary, left: i32, right: i32) -> i32 {
    match binary {
        Binary::Right => left.wrapping_shr(right as u32),
        Binary::Div => left / (right & 15 | 1),
        Binary::Rem => left % (right & 15 | 1),
        Binary::Min => left.min(right),
        Binary::Max => left.max(right),
        _ => binary_u32(binary, left as u32, right as u32) as i32,
    }
}

pub(super) fn compare(compare: Compare, ty: Type, left: u64, right: u64) -> bool {
    fn holds<T: PartialOrd>(compare: Compare, left: T, right: T) -> bool {
        match compare {
            Compare::Less => left < right,
            Compare::LessEqual => left <= right,
            Compare::Equal => left == right,
            Compare::NotEqual => left != right,
        }
    }
    match ty {
        Type::U32 | Type::U64 => holds(compare, left, right),
        Type::I32 => holds(compare, left as i32, right as i32),
        Type::F32 => holds(compare, f32::from_bits(left as u32), f32::from_bits(right as u32)),
    }
}

pub(super) fn cast(to: Type, from: Type, value: u64) -> u64 {
    let float = f32::from_bits(value as u32);
    match (from, to) {
        (Type::F32, Type::F32) => value,
        (Type::F32, Type::U64) => float as i32 as i64 as u64,
        (Type::F32, _) => u64::from(float as i32 as u32),
        (Type::I32, Type::F32) => u64::from((value as i32 as f32).to_bits()),
        (Type::I32, Type::U64) => value as i32 as i64 as u64,
        (_, Type::F32) => u64::from((value as f32).to_bits()),
        (_, Type::U64) => value,
        _ => u64::from(value as u32),
    }
}

pub(super) fn combined(combine: Combine, ty: Type, old: u64, new: u64) -> u64 {
    let operation = match combine {
        Combine::Add => Binary::Add,
        Combine::And => Binary::And,
        Combine::Or => Binary::Or,
        Combine::Xor => Binary::Xor,
        Combine::Min | Combine::Max => {
            let (left, right) = if combine == Combine::Min { (new, old) } else { (old, new) };
            return if compare(Compare::Less, ty, left, right) { new } else { old };
        }
    };
    binary(operation, ty, old, new)
}

/// Returns the value that does not change others when combined with them.
fn identity(combine: Combine, ty: Type) -> u64 {
    match (combine, ty) {
        (Combine::Add | Combine::Or | Combine::Xor, _) => 0,
        (Combine::And, Type::U64) => u64::MAX,
        (Combine::And, _) => u32::MAX.into(),
        (Combine::Min, Type::U32) => u32::MAX.into(),
        (Combine::Min, Type::I32) => i32::MAX as u64,
        (Combine::Min, Type::U64) => u64::MAX,
        (Combine::Min, Type::F32) => f32::INFINITY.to_bits().into(),
        (Combine::Max, Type::I32) => u64::from(i32::MIN as u32),
        (Combine::Max, Type::F32) => f32::NEG_INFINITY.to_bits().into(),
        (Combine::Max, _) => 0,
    }
}

/// Returns the result of a sub-group operation for one lane, from the values of the active lanes.
/// `other` is that lane's second operand.
pub(super) fn exchange(
    subgroup: Subgroup,
    ty: Type,
    lanes: &[Option<u64>],
    lane: usize,
    other: u64,
) -> u64 {
    let active = || lanes.iter().enumerate().filter_map(|(at, value)| Some((at, (*value)?)));
    let own = lanes[lane].expect("an active lane asks");
    let other = other as u32;
    let take = |from: u32| lanes.get(from as usize).copied().flatten().unwrap_or(own);
    let holds = |value: u64| compare(Compare::NotEqual, ty, value, 0);
    let over = |combine, end: usize| {
        let before = active().take_while(|(at, _)| *at < end);
        before.fold(identity(combine, ty), |old, (_, value)| combined(combine, ty, old, value))
    };
    match subgroup {
        Subgroup::Ballot => active().map(|(at, value)| u64::from(holds(value)) << at).sum(),
        Subgroup::Any => active().any(|(_, value)| holds(value)).into(),
        Subgroup::All => active().all(|(_, value)| holds(value)).into(),
        Subgroup::Shuffle | Subgroup::Broadcast => take(other),
        Subgroup::ShuffleXor => take(lane as u32 ^ other),
        Subgroup::ShuffleUp => take((lane as u32).wrapping_sub(other)),
        Subgroup::ShuffleDown => take((lane as u32).wrapping_add(other)),
        Subgroup::Reduce(combine) => over(combine, lanes.len()),
        Subgroup::Inclusive(combine) => over(combine, lane + 1),
        Subgroup::Exclusive(combine) => over(combine, lane),
    }
}

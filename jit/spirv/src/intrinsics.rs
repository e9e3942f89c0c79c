//! LLVM's intrinsic functions.

use crate::body::Body;
use crate::numbers::{Number, numbers};
use longshore_llvm::types::*;
use rspirv::spirv::{Op, Word};

/// Intrinsic functions without an effect on the result.
const IGNORED: [&str; 7] = [
    "dbg.",
    "lifetime.",
    "assume",
    "experimental.noalias",
    "invariant.",
    "donothing",
    "sideeffect",
];

impl Body<'_> {
    /// Emits an intrinsic function by its name without `llvm.`.
    pub(crate) fn intrinsic(&mut self, it: ValueRef, name: &str) -> Result<Vec<Word>, String> {
        if IGNORED.iter().any(|prefix| name.starts_with(prefix)) {
            return Ok(Vec::new());
        }
        let ir = self.ir;
        // "umin.i32" is umin, "uadd.with.overflow.i32" is uadd.with.overflow.
        let base = without_types(name);
        if matches!(base, "expect" | "ptr.annotation" | "launder.invariant.group") {
            return self.value(ir.operand(it, 0));
        }
        if name == "trap" || name == "debugtrap" {
            return Err("a trap does not exist in SPIR-V, where a launch cannot fail".to_owned());
        }
        let count = ir.operands(it).len().saturating_sub(1);
        let mut arguments = Vec::new();
        for index in 0..count {
            arguments.push(self.value(ir.operand(it, index as u32))?);
        }
        if let Some(operation) = base.strip_suffix(".with.overflow") {
            let number = self.number(ir.type_of(ir.operand(it, 0)))?;
            return self.with_overflow(operation, number, arguments[0][0], arguments[1][0]);
        }
        if base == "is.fpclass" {
            let number = self.number(ir.type_of(ir.operand(it, 0)))?;
            let classes = ir.constant_value(ir.operand(it, 1)).ok_or("the classes vary")?;
            return Ok(vec![self.is_of_class(number, arguments[0][0], classes)]);
        }
        let from = self.number(ir.type_of(ir.operand(it, 0)));
        match (base, from, self.number(ir.type_of(it))) {
            ("ucmp" | "scmp", Ok(from), Ok(to)) => {
                let values = [arguments[0][0], arguments[1][0]];
                return Ok(vec![self.order(base == "scmp", from, to, values)?]);
            }
            ("fptoui.sat" | "fptosi.sat", Ok(from), Ok(Number::Int(width))) => {
                let is_signed = base == "fptosi.sat";
                return Ok(vec![self.saturated(is_signed, from, width, arguments[0][0])]);
            }
            _ => {}
        }
        let mut made = Vec::new();
        for (index, (number, _)) in numbers(ir, ir.type_of(it))?.into_iter().enumerate() {
            let values: Vec<Word> =
                arguments.iter().map(|it| *it.get(index).unwrap_or(&it[0])).collect();
            made.push(match number {
                Number::Float(bits) => self.real_function(base, bits, &values),
                Number::Int(width) => self.integer_function(base, width, &values),
                Number::Bool => None,
            });
        }
        let made: Option<Vec<Word>> = made.into_iter().collect();
        made.ok_or_else(|| format!("LLVM's function '{name}' does not exist in SPIR-V"))
    }

    /// Emits a result and whether it is outside of the type.
    fn with_overflow(
        &mut self,
        operation: &str,
        number: Number,
        first: Word,
        second: Word,
    ) -> Result<Vec<Word>, String> {
        let Number::Int(width) = number else {
            return Err("the sum of truths with overflow does not exist in SPIR-V".to_owned());
        };
        let opcode = match operation {
            "uadd" | "sadd" => opcode::ADD,
            "usub" | "ssub" => opcode::SUB,
            _ => opcode::MUL,
        };
        let made = self.on_integers(opcode, width, &[first, second])?;
        let truth = self.to.bool();
        let zero = self.scalar(number, 0);
        let mut compare = |predicate, x, y| self.compare_integers(predicate, number, x, y);
        let over = match operation {
            "uadd" => compare(predicate::ULT, made, first)?,
            "usub" => compare(predicate::ULT, first, second)?,
            "sadd" | "ssub" => {
                let is_less = compare(predicate::SLT, made, first)?;
                let (edge, bound) =
                    if operation == "sadd" { (second, zero) } else { (zero, second) };
                let goes_down = compare(predicate::SLT, edge, bound)?;
                self.to.op(Op::LogicalNotEqual, truth, &[is_less, goes_down])
            }
            "umul" if width == 64 => {
                let high = self.high_product(first, second);
                self.to.op(Op::INotEqual, truth, &[high, zero])
            }
            "umul" if width <= 32 => {
                let long = self.to.int(64);
                let [first, second] =
                    [first, second].map(|it| self.to.op(Op::UConvert, long, &[it]));
                let whole = self.to.op(Op::IMul, long, &[first, second]);
                let wide = self.convert(number, Number::Int(64), made);
                self.to.op(Op::INotEqual, truth, &[whole, wide])
            }
            _ => return Err(format!("the operation '{operation}' with overflow is unknown")),
        };
        Ok(vec![made, over])
    }
}

/// Returns the name of an intrinsic function without the types at its end: "umin" of "umin.i32".
fn without_types(name: &str) -> &str {
    let is_type = |part: &str| {
        let number = part.strip_prefix(['i', 'f', 'v', 'p']).unwrap_or_default();
        number.starts_with(|it: char| it.is_ascii_digit())
    };
    match name.rsplit_once('.') {
        Some((base, part)) if is_type(part) => without_types(base),
        _ => name,
    }
}

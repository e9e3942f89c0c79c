//! Reduction of a kernel with a wrong result: smaller kernels with a wrong result are tried, until
//! none is left.

use super::Kernel;
use super::ast::{Expr, Extent, Kind, Statement};
use super::compare::Bench;
use super::print::source;
use super::walk::operands;
use crate::items::Build;
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

/// Least and greatest number of kernels in an image.
const BATCH: RangeInclusive<usize> = 4..=64;
/// Time after which the reduction ends.
const MOST_TIME: Duration = Duration::from_secs(180);

/// Returns a small kernel that still has a difference, and the description of that. Blocks for
/// up to some minutes.
pub fn reduce(
    bench: &Bench,
    build: &Build,
    kernel: Kernel,
    difference: String,
) -> (Kernel, String) {
    let begin = Instant::now();
    let (mut best, mut from, mut size) = ((kernel, difference), 0, *BATCH.start());
    loop {
        let mut edits = edits(&best.0);
        let count = edits.len();
        // After a success, the edits before it are rarely possible again.
        edits.rotate_left(from % count);
        let (mut rest, mut smaller) = (edits.as_slice(), None);
        while !rest.is_empty() && smaller.is_none() && begin.elapsed() < MOST_TIME {
            let (batch, others) = rest.split_at(size.min(rest.len()));
            smaller = smallest_difference(bench, build, &best.0, batch);
            from += if smaller.is_some() { 0 } else { batch.len() };
            size = if smaller.is_some() { size / 2 } else { size * 2 };
            size = size.clamp(*BATCH.start(), *BATCH.end());
            rest = others;
        }
        match smaller {
            Some(smaller) => best = smaller,
            None => return best,
        }
    }
}

/// Applies each edit alone, and returns the smallest kernel with a difference.
fn smallest_difference(
    bench: &Bench,
    build: &Build,
    kernel: &Kernel,
    edits: &[Edit],
) -> Option<(Kernel, String)> {
    let numbered = (0..).zip(edits);
    let candidates = numbered.filter_map(|(number, edit)| {
        let mut candidate = edit.apply(kernel.clone());
        let is_new = candidate != *kernel;
        candidate.seed = number;
        let expected = candidate.interpret().ok()?;
        is_new.then_some((candidate, expected))
    });
    let candidates: Vec<_> = candidates.collect();
    let differences = match bench.compare(build, &candidates) {
        Ok(differences) => differences,
        // Some kernel does not compile, so each is tried alone.
        Err(_) => {
            let alone = candidates.iter().map(std::slice::from_ref);
            alone.map(|one| bench.compare(build, one).ok()?.pop()?).collect()
        }
    };
    let different = differences.into_iter().zip(candidates);
    let different = different.filter_map(|(difference, (kernel, _))| Some((kernel, difference?)));
    let (mut smallest, difference) =
        different.min_by_key(|(kernel, _)| (source([kernel]).len(), kernel.total()))?;
    smallest.seed = kernel.seed;
    Some((smallest, difference))
}

/// A change that makes a kernel smaller. Blocks and expressions have numbers in the order of walks.
#[derive(Clone, Debug)]
enum Edit {
    Groups,
    Items([u32; 3]),
    Remove {
        block: usize,
        begin: usize,
        end: usize,
    },
    /// A block in place of the statement around it.
    Unwrap {
        block: usize,
        at: usize,
        which: usize,
    },
    /// An operand in place of an expression of the same type.
    Operand {
        expr: usize,
        which: usize,
    },
    /// A constant in place of an expression.
    Constant {
        expr: usize,
        bits: u64,
    },
}

/// Returns all edits of a kernel, large ones first.
fn edits(kernel: &Kernel) -> Vec<Edit> {
    let mut kernel = kernel.clone();
    let (mut blocks, mut unwraps) = (Vec::new(), Vec::new());
    kernel.for_each_block(&mut |block| {
        let number = blocks.len();
        blocks.push(block.len());
        for (at, statement) in block.iter().enumerate() {
            let count = match statement {
                Statement::If(..) => 2,
                Statement::Loop(_) => 1,
                Statement::Switch(_, cases) => cases.len(),
                _ => 0,
            };
            unwraps.extend((0..count).map(|which| Edit::Unwrap { block: number, at, which }));
        }
    });
    let mut edits = vec![Edit::Groups];
    let halved = kernel.items.map(|length| length.div_ceil(2));
    let shortened = kernel.items.map(|length| (length - 1).max(1));
    edits.extend([halved, shortened].map(Edit::Items));
    edits.push(Edit::Items([kernel.volume(), 1, 1]));
    let longest = blocks.iter().copied().max().unwrap_or(0).next_power_of_two();
    let mut length = longest;
    while length > 0 {
        for (block, count) in
            blocks.iter().copied().enumerate().filter(|(_, count)| *count >= length)
        {
            let begins =
                (0..count).step_by(length).map(|begin| (begin, (begin + length).min(count)));
            edits.extend(begins.map(|(begin, end)| Edit::Remove { block, begin, end }));
        }
        length /= 2;
    }
    edits.append(&mut unwraps);
    let mut number = 0;
    kernel.for_each_expr(&mut |expr| {
        let ty = expr.ty;
        for (which, operand) in operands(expr).into_iter().enumerate() {
            if operand.ty == ty {
                edits.push(Edit::Operand { expr: number, which });
            }
        }
        if !matches!(*expr.kind, Kind::Constant(_)) {
            edits.extend([0, 1].map(|bits| Edit::Constant { expr: number, bits }));
        }
        number += 1;
    });
    edits
}

impl Edit {
    fn apply(&self, mut kernel: Kernel) -> Kernel {
        match *self {
            Edit::Groups => kernel.groups = [1; 3],
            Edit::Items(items) => {
                kernel.items = items;
                let volume = kernel.volume();
                for array in &mut kernel.shared {
                    if let Extent::Items(length) = &mut array.extent {
                        *length = volume.max(*length);
                    }
                }
            }
            Edit::Remove { block, begin, end } => at_block(&mut kernel, block, |block| {
                block.drain(begin..end);
            }),
            Edit::Unwrap { block, at, which } => at_block(&mut kernel, block, |block| {
                let inner = match block.remove(at) {
                    Statement::If(_, yes, no) => [yes, no].into_iter().nth(which),
                    Statement::Loop(details) => Some(details.body),
                    Statement::Switch(_, cases) => {
                        cases.into_iter().nth(which).map(|case| case.body)
                    }
                    other => Some(vec![other]),
                };
                block.splice(at..at, inner.unwrap_or_default());
            }),
            Edit::Operand { expr, which } => at_expr(&mut kernel, expr, |expr| {
                let operand = operands(expr).swap_remove(which).clone();
                *expr = operand;
            }),
            Edit::Constant { expr, bits } => {
                at_expr(&mut kernel, expr, |expr| *expr = Expr::new(expr.ty, Kind::Constant(bits)));
            }
        }
        kernel
    }
}

fn at_block(kernel: &mut Kernel, number: usize, change: impl Fn(&mut Vec<Statement>)) {
    let mut at = 0;
    kernel.for_each_block(&mut |block| {
        if at == number {
            change(block);
        }
        at += 1;
    });
}

fn at_expr(kernel: &mut Kernel, number: usize, change: impl Fn(&mut Expr)) {
    let mut at = 0;
    kernel.for_each_expr(&mut |expr| {
        if at == number {
            change(expr);
        }
        at += 1;
    });
}

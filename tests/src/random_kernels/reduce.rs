//! Reduction of a kernel with a wrong result: smaller kernels with a wrong result are tried, until
//! none is left.

use super::Kernel;
use super::ast::{Expr, Extent, Kind, Statement};
use super::compare::{Bench, Way};
use super::walk::operands;

/// Number of kernels in an image.
const BATCH: usize = 32;
/// Number of images after which the reduction ends.
const MOST_IMAGES: usize = 400;

/// Returns a small kernel that still has a difference, and the description of that. Blocks for
/// minutes.
pub fn reduce(bench: &Bench, way: &Way, kernel: Kernel, difference: String) -> (Kernel, String) {
    let (mut best, mut images, mut from) = ((kernel, difference), 0, 0);
    'reduction: loop {
        let mut edits = edits(&best.0);
        let count = edits.len();
        // After a success, the edits before it are rarely possible again.
        edits.rotate_left(from % count);
        for (number, batch) in edits.chunks(BATCH).enumerate() {
            images += 1;
            if images > MOST_IMAGES {
                break 'reduction;
            }
            if let Some((at, smaller)) = first_difference(bench, way, &best.0, batch) {
                (best, from) = (smaller, (from + number * BATCH + at) % count);
                continue 'reduction;
            }
        }
        break;
    }
    best
}

/// Tries edits, and returns the first kernel with a difference, with the number of its edit.
fn first_difference(
    bench: &Bench,
    way: &Way,
    kernel: &Kernel,
    edits: &[Edit],
) -> Option<(usize, (Kernel, String))> {
    let mut numbers = Vec::new();
    let mut candidates = Vec::new();
    for (number, edit) in edits.iter().enumerate() {
        let mut candidate = edit.apply(kernel.clone());
        if candidate == *kernel {
            continue;
        }
        candidate.seed = number as u64;
        if let Ok(expected) = candidate.interpret() {
            numbers.push(number);
            candidates.push((candidate, expected));
        }
    }
    let differences = match bench.compare(way, &candidates) {
        Ok(differences) => differences,
        // One of the kernels does not compile. The others have another try.
        Err(_) => candidates
            .iter()
            .map(|one| {
                bench.compare(way, std::slice::from_ref(one)).ok().and_then(|mut one| one.remove(0))
            })
            .collect(),
    };
    let found = differences.into_iter().zip(numbers).zip(candidates);
    found.into_iter().find_map(|((difference, number), (mut candidate, _))| {
        candidate.seed = kernel.seed;
        Some((number, (candidate, difference?)))
    })
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
    /// Replaces a statement by one of its blocks.
    Unwrap {
        block: usize,
        at: usize,
        which: usize,
    },
    /// Replaces an expression by one of its operands of the same type.
    Operand {
        expr: usize,
        which: usize,
    },
    /// Replaces an expression by a constant.
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

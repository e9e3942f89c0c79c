//! The instructions of trampolines and stubs, for each architecture.

use longshore_orc_rt::reentry::TRAMPOLINE_SIZE;

use crate::Architecture;
use crate::graph::{BlockId, Edge, EdgeKind, LinkGraph, SymbolId};

/// The size in bytes of a batch's head, the common code to which its trampolines jump; it lies
/// before them.
pub(super) const HEAD_SIZE: u64 = 32;
/// The size of a stub in bytes.
pub(super) const STUB_SIZE: u64 = 16;

/// Returns the code of a batch: the head, then the trampolines.
pub(super) fn trampolines(architecture: Architecture, count: u32) -> Vec<u8> {
    let mut code = Vec::with_capacity((HEAD_SIZE + u64::from(count) * TRAMPOLINE_SIZE) as usize);
    code.extend(match architecture {
        // `push %r11; lea header(%rip), %r11; jmp *(%r11); int3...`
        Architecture::X86_64 => *b"\x41\x53\x4c\x8d\x1d\0\0\0\0\x41\xff\x23\xcc\xcc\xcc\xcc",
        // `str x15, [sp, #-16]!; adrp x15, header; add x15, x15, :lo12:header; ldr x16, [x15]`
        Architecture::Aarch64 => words([0xf81f_0fef, 0x9000_000f, 0x9100_01ef, 0xf940_01f0]),
    });
    code.extend(match architecture {
        Architecture::X86_64 => [0xcc; 16],
        // `br x16; udf...`
        Architecture::Aarch64 => words([0xd61f_0200, 0, 0, 0]),
    });
    for index in 0..count {
        let to_head = 0u32.wrapping_sub(code.len() as u32);
        code.extend(match architecture {
            Architecture::X86_64 => x86_64_trampoline(index, to_head),
            Architecture::Aarch64 => aarch64_trampoline(to_head),
        });
    }
    code
}

/// Returns the edges by which the head finds the header.
pub(super) fn head_edges(architecture: Architecture, header: SymbolId) -> Vec<Edge> {
    let edge = |offset, kind, addend| Edge { offset, kind: EdgeKind(kind), target: header, addend };
    match architecture {
        Architecture::X86_64 => vec![edge(5, R_X86_64_PC32, -4)],
        Architecture::Aarch64 => {
            vec![edge(4, R_AARCH64_ADR_PREL_PG_HI21, 0), edge(8, R_AARCH64_ADD_ABS_LO12_NC, 0)]
        }
    }
}

/// Returns the code of `count` stubs.
pub(super) fn stubs(architecture: Architecture, count: u32) -> Vec<u8> {
    let stub = match architecture {
        // `endbr64; jmp *slot(%rip); int3...`
        Architecture::X86_64 => *b"\xf3\x0f\x1e\xfa\xff\x25\0\0\0\0\xcc\xcc\xcc\xcc\xcc\xcc",
        // `bti c; adrp x16, slot; ldr x16, [x16, :lo12:slot]; br x16`
        Architecture::Aarch64 => words([0xd503_245f, 0x9000_0010, 0xf940_0210, 0xd61f_0200]),
    };
    stub.repeat(count as usize)
}

/// Returns the edges by which the stubs find their slots.
pub(super) fn stub_edges(architecture: Architecture, count: u32, slots: SymbolId) -> Vec<Edge> {
    let of_stub = |index: u32| {
        let (stub, slot) = (u64::from(index) * STUB_SIZE, i64::from(index) * 8);
        let edge = move |offset, kind, addend| Edge {
            offset: stub + offset,
            kind: EdgeKind(kind),
            target: slots,
            addend: slot + addend,
        };
        match architecture {
            Architecture::X86_64 => [Some(edge(6, R_X86_64_PC32, -4)), None],
            Architecture::Aarch64 => [
                Some(edge(4, R_AARCH64_ADR_PREL_PG_HI21, 0)),
                Some(edge(8, R_AARCH64_LDST64_ABS_LO12_NC, 0)),
            ],
        }
    };
    (0..count).flat_map(of_stub).flatten().collect()
}

/// Makes a word of a block the address of a symbol.
pub(super) fn add_pointer(
    graph: &mut LinkGraph,
    block: BlockId,
    offset: u64,
    (target, addend): (SymbolId, u64),
) {
    let kind = EdgeKind(match graph.architecture() {
        Architecture::X86_64 => R_X86_64_64,
        Architecture::Aarch64 => R_AARCH64_ABS64,
    });
    graph.add_edge(block, Edge { offset, kind, target, addend: addend as i64 });
}

/// Returns `endbr64; push $index; jmp head; int3; int3`.
fn x86_64_trampoline(index: u32, to_head: u32) -> [u8; TRAMPOLINE_SIZE as usize] {
    let mut code = *b"\xf3\x0f\x1e\xfa\x68\0\0\0\0\xe9\0\0\0\0\xcc\xcc";
    code[5..9].copy_from_slice(&index.to_le_bytes());
    // A jump's distance counts from its end.
    code[10..14].copy_from_slice(&to_head.wrapping_sub(14).to_le_bytes());
    code
}

/// Returns `bti c; adr x17, .-4; b head; udf`: `x17` is the address of the trampoline.
fn aarch64_trampoline(to_head: u32) -> [u8; TRAMPOLINE_SIZE as usize] {
    /// The bits of a branch instruction that hold its distance, in words.
    const DISTANCE: u32 = (1 << 26) - 1;
    // A branch's distance counts from its start, which is the third word.
    let distance = to_head.wrapping_sub(8).cast_signed() >> 2;
    words([0xd503_245f, 0x10ff_fff1, 0x1400_0000 | distance.cast_unsigned() & DISTANCE, 0])
}

fn words(words: [u32; 4]) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes.copy_from_slice(words.map(u32::to_le_bytes).as_flattened());
    bytes
}

const R_X86_64_64: u32 = 1;
const R_X86_64_PC32: u32 = 2;
const R_AARCH64_ABS64: u32 = 257;
const R_AARCH64_ADR_PREL_PG_HI21: u32 = 275;
const R_AARCH64_ADD_ABS_LO12_NC: u32 = 277;
const R_AARCH64_LDST64_ABS_LO12_NC: u32 = 286;

//! Numbers of calls. LLVM 20 and newer put a letter into the upper 8 bits: `c` for libc, `o` for
//! the device runtime. LLVM 19 has the numbers alone.

const LIBC: u32 = b'c' as u32;
const OFFLOAD: u32 = b'o' as u32;

/// The place to which text is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Output {
    Standard,
    Error,
    /// A stream that the client names.
    Stream,
}

/// A call of device code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opcode {
    Nothing,
    Exit,
    Write(Output),
    WriteLine,
    Read,
    ReadLine,
    Open,
    Close,
    Allocate,
    Free,
    HostCall,
    Abort,
    IsAtEnd,
    HasError,
    ClearError,
    Seek,
    Tell,
    Flush,
    PutBack,
    /// Formatted text; `true` for arguments without padding.
    Print(Output, bool),
    Remove,
    Rename,
    System,
}

impl Opcode {
    /// Returns the call with a number; `None` if the server does not answer such a call.
    pub(super) fn from_raw(raw: u32) -> Option<Opcode> {
        let number = raw & 0x00ff_ffff;
        match raw >> 24 {
            LIBC | 0 => Opcode::for_libc(number),
            OFFLOAD if number == 0 => Some(Opcode::HostCall),
            _ => None,
        }
    }

    fn for_libc(number: u32) -> Option<Opcode> {
        Some(match number {
            0 => Opcode::Nothing,
            1 => Opcode::Exit,
            2 => Opcode::Write(Output::Standard),
            3 => Opcode::Write(Output::Error),
            4 => Opcode::Write(Output::Stream),
            5 => Opcode::WriteLine,
            6 => Opcode::Read,
            7 => Opcode::ReadLine,
            8 => Opcode::Open,
            9 => Opcode::Close,
            10 => Opcode::Allocate,
            11 => Opcode::Free,
            12 => Opcode::HostCall,
            13 => Opcode::Abort,
            14 => Opcode::IsAtEnd,
            15 => Opcode::HasError,
            16 => Opcode::ClearError,
            17 => Opcode::Seek,
            18 => Opcode::Tell,
            19 => Opcode::Flush,
            20 => Opcode::PutBack,
            21 => Opcode::Print(Output::Standard, false),
            22 => Opcode::Print(Output::Error, false),
            23 => Opcode::Print(Output::Stream, false),
            24 => Opcode::Print(Output::Standard, true),
            25 => Opcode::Print(Output::Error, true),
            26 => Opcode::Print(Output::Stream, true),
            27 => Opcode::Remove,
            28 => Opcode::Rename,
            29 => Opcode::System,
            _ => return None,
        })
    }
}

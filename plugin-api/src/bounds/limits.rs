//! The numbers: the most that a plugin may report.

/// Devices of a platform.
pub const DEVICES: u32 = 1024;
/// Bytes of each text of a description.
pub const DESCRIPTION_BYTES: usize = 4 << 10;
/// Bytes of an answer to a query about a platform or a device.
pub const REPLY_BYTES: usize = 64 << 10;
/// Bytes of the reason for which a plugin is not connected or an image is refused.
pub const REASON_BYTES: usize = 64 << 10;
/// Bytes of an error's message or vendor name, and of a log record's target or message.
pub const MESSAGE_BYTES: usize = 64 << 10;
/// Arguments of a kernel.
pub const ARGUMENTS: usize = 32 << 10;
/// Bytes of an argument of a kernel.
pub const ARGUMENT_BYTES: u32 = 16 << 20;
/// Bytes of a kernel's parameters as its source declares them.
pub const DECLARATION_BYTES: usize = 1 << 20;
/// Symbols of a module.
pub const SYMBOLS: usize = 1 << 20;
/// Bytes of a symbol's name.
pub const SYMBOL_BYTES: usize = 1 << 20;
/// Bytes of the names of all symbols of a module.
pub const SYMBOLS_BYTES: usize = 64 << 20;
/// Profile sections of a module.
pub const PROFILE_SECTIONS: usize = 4 << 10;
/// Bytes of the contents of all profile sections of a module.
pub const PROFILE_BYTES: usize = 64 << 20;
/// Bytes of a global variable, of a kernel's code, and of the memory that a kernel declares.
pub const MEMORY_BYTES: u64 = i64::MAX as u64;

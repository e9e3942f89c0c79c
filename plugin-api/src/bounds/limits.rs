//! Limits of a plugin's answers.

/// Maximum number of devices of a platform.
pub const DEVICES: u32 = 1024;
/// Maximum size of each text of a description, in bytes.
pub const DESCRIPTION_BYTES: usize = 4 << 10;
/// Maximum size of an answer to a query about a platform or a device, in bytes.
pub const REPLY_BYTES: usize = 64 << 10;
/// Maximum size of the reason why a plugin is not connected or an image is refused, in bytes.
pub const REASON_BYTES: usize = 64 << 10;
/// Maximum size of an error's message or vendor name, and of a log record's target or message, in
/// bytes.
pub const MESSAGE_BYTES: usize = 64 << 10;
/// Maximum number of arguments of a kernel.
pub const ARGUMENTS: usize = 32 << 10;
/// Maximum size of an argument of a kernel, in bytes.
pub const ARGUMENT_BYTES: u32 = 16 << 20;
/// Maximum size of a kernel's parameters as its source declares them, in bytes.
pub const DECLARATION_BYTES: usize = 1 << 20;
/// Maximum number of symbols of a module.
pub const SYMBOLS: usize = 1 << 20;
/// Maximum size of a symbol's name, in bytes.
pub const SYMBOL_BYTES: usize = 1 << 20;
/// Maximum size of the names of all symbols of a module, in bytes.
pub const SYMBOLS_BYTES: usize = 64 << 20;
/// Maximum number of profile sections of a module.
pub const PROFILE_SECTIONS: usize = 4 << 10;
/// Maximum size of the contents of all profile sections of a module, in bytes.
pub const PROFILE_BYTES: usize = 64 << 20;
/// Maximum size of a global variable, of a kernel's code, and of the memory that a kernel declares,
/// in bytes.
pub const MEMORY_BYTES: u64 = i64::MAX as u64;

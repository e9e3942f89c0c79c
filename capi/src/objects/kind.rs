//! The kinds of handles.

use crate::registry::handle::Kind;
use longshore::ErrorCode;

/// Platforms.
pub(super) const PLATFORM: Kind = kind(1, "platform", ErrorCode::InvalidPlatform);
/// Devices.
pub(super) const DEVICE: Kind = kind(2, "device", ErrorCode::InvalidDevice);
/// Queues.
pub(super) const QUEUE: Kind = kind(3, "queue", ErrorCode::InvalidQueue);
/// Events.
pub(super) const EVENT: Kind = kind(4, "event", ErrorCode::InvalidEvent);
/// Programs, for which LLVM has no code.
pub(super) const PROGRAM: Kind = kind(5, "program", ErrorCode::InvalidArgument);
/// Symbols, for which LLVM has no code.
pub(super) const SYMBOL: Kind = kind(6, "symbol", ErrorCode::InvalidArgument);

const fn kind(tag: u8, name: &'static str, code: ErrorCode) -> Kind {
    Kind { tag, name, code }
}

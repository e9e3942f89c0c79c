//! Messages between a host and the executor that runs a plugin for it.
//!
//! A message is a [`Request`] or a [`Callback`]; its reply is a `Result` of a value or an
//! [`Error`]. The executor numbers the plugin's objects ([`Id`]) and checks the numbers it
//! receives. Addresses belong to the plugin's process; shared memory has the same address there and
//! in the host.

use longshore_plugin_api::bounds::{self, PROFILE_SECTIONS, SYMBOLS};
use longshore_plugin_api::{
    Description, Error, ErrorCode, Extent, LaunchShape, Loading, MemoryKind, Pitch, ProfileSection,
    Result, SymbolKind,
};
use serde::{Deserialize, Serialize};

use super::channel::Address;
use super::interface::messages::{DeviceCall, EventCall, ModuleCall, PlatformCall, QueueCall};

/// The method of calls with a [`Request`] or a [`Callback`].
pub(super) const CALL: u32 = 0x1000;
/// The method of messages with a [`Request`] or a [`Callback`] that have no reply.
pub(super) const POST: u32 = 0x1001;

/// Greatest number of bytes of a request in one message; larger requests go in pieces. Less than
/// the limit of a connection's replies and posts.
pub(super) const CHUNK: usize = 32 << 10;

/// Greatest number of events in [`Request::CreateEvents`].
pub(super) const MOST_EVENTS: u32 = 64;

/// The number of an object. Numbers are not reused.
pub(super) type Id = u64;

/// A request of the host to the executor.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Request<'a> {
    /// The first request, which opens the plugin's library and connects it. The reply is a
    /// [`Connected`] and an [`RequestedSettings`].
    Connect {
        path: &'a [u8],
        backend: &'a str,
        log_level: u32,
        /// The user's settings for the backend, by name.
        settings: Vec<(&'a str, &'a str)>,
    },
    /// Reserves addresses for shared memory. The reply is whether they are free.
    Reserve {
        address: u64,
        bytes: u64,
    },
    /// Maps bytes of the shared file at a reserved address.
    Map {
        address: u64,
        offset: u64,
        bytes: u64,
    },
    /// Unmaps bytes mapped by [`Request::Map`].
    Unmap {
        address: u64,
        bytes: u64,
    },
    Platform(#[serde(borrow)] PlatformCall<'a>),
    Device(Id, #[serde(borrow)] DeviceCall<'a>),
    Module(Id, #[serde(borrow)] ModuleCall<'a>),
    Queue(Id, #[serde(borrow)] QueueCall<'a>),
    Event(Id, #[serde(borrow)] EventCall<'a>),
    Close {
        device: Id,
    },
    /// Prepares for an upload of `bytes` bytes, which follow in order, each by [`Request::Chunk`].
    /// The reply is an [`Id`].
    Upload {
        bytes: u64,
    },
    Chunk {
        upload: Id,
        #[serde(borrow, with = "serde_bytes")]
        content: &'a [u8],
    },
    /// A check whether the device accepts an image. The reply is an `Acceptance`.
    Accepts {
        device: Id,
        #[serde(borrow)]
        image: Image<'a>,
    },
    Score {
        device: Id,
        #[serde(borrow)]
        image: Image<'a>,
        triple: &'a str,
        arch: &'a str,
    },
    /// Makes mapped shared memory an allocation of the device under its own address.
    ImportMemory {
        device: Id,
        kind: MemoryKind,
        address: u64,
        bytes: u64,
    },
    Free {
        device: Id,
        kind: MemoryKind,
        address: u64,
    },
    SetLogicalSize {
        device: Id,
        address: u64,
        bytes: u64,
    },
    /// A request to load an image. The reply is an [`Id`].
    Load {
        device: Id,
        #[serde(borrow)]
        image: Image<'a>,
        loading: Loading,
    },
    /// A request to look up a kernel. The reply is an [`Id`] and a `KernelAttributes`.
    Kernel {
        module: Id,
        name: &'a str,
    },
    Unload {
        module: Id,
    },
    Launch(#[serde(borrow)] Launch<'a>),
    Copy(Copy),
    Rect(Rect),
    /// Copies bytes in this message to the device.
    CopyIn {
        queue: Id,
        device: Id,
        address: u64,
        #[serde(borrow, with = "serde_bytes")]
        content: &'a [u8],
    },
    /// Copies from the device when all earlier work of the queue is done. The reply is the bytes.
    CopyOut {
        queue: Id,
        device: Id,
        address: u64,
        bytes: u64,
    },
    Transfer(Transfer),
    /// Copies between a device and the sender by the channel's transfers, after all earlier work of
    /// the queue. The reply comes when the copy is done.
    Bulk(BulkCopy),
    /// Copies between a device and a device of another process, which exchange the data directly.
    Exchange(Exchange),
    /// Creates events. The reply is their numbers, of which there are `count`, or fewer.
    CreateEvents {
        device: Id,
        timing: bool,
        count: u32,
    },
    /// Makes later work of the queue wait for the event's last record.
    WaitEvent {
        queue: Id,
        event: Id,
    },
    /// Sends [`Request::Signal`] to another process when the event's last record is reached.
    Announce {
        event: Id,
        to: Address,
        signal: u64,
    },
    /// Makes later work of the queue wait for a signal of another process. The receiver of this
    /// request has the address `to`.
    AwaitSignal {
        queue: Id,
        signal: u64,
        from: Address,
        to: Address,
    },
    /// The arrival of an announced event, or the error in place of it.
    Signal {
        signal: u64,
        failure: Option<Error>,
    },
    /// Asks for data of a device, which is sent in place of a signal.
    Push(Push),
    Fill {
        queue: Id,
        address: u64,
        bytes: u64,
        #[serde(borrow, with = "serde_bytes")]
        pattern: &'a [u8],
        wait: bool,
    },
    HostFunction {
        queue: Id,
        function: u64,
    },
    /// The end of the host's use of the platform.
    Disconnect,
}

/// The place of an image's bytes.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) enum Image<'a> {
    Here(#[serde(borrow, with = "serde_bytes")] &'a [u8]),
    /// Bytes in the shared file.
    Shared {
        offset: u64,
        bytes: u64,
    },
    /// Bytes sent by an earlier upload, which can be used once.
    Uploaded(Id),
    /// Bytes that the process keeps: see [`Images`](super::Images).
    Kept(Digest),
}

/// The SHA-256 digest of an image.
pub type Digest = [u8; 32];

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Launch<'a> {
    pub(super) queue: Id,
    pub(super) kernel: Id,
    pub(super) shape: LaunchShape,
    /// The arguments' values one after the other, each preceded by its size: see [`put_argument`].
    #[serde(borrow, with = "serde_bytes")]
    pub(super) arguments: &'a [u8],
}

/// A copy between memory of devices or memory shared by both processes.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Copy {
    pub(super) queue: Id,
    pub(super) to: u64,
    /// The device of the destination; `None` for memory of the host.
    pub(super) to_device: Option<Id>,
    pub(super) from: u64,
    pub(super) from_device: Option<Id>,
    pub(super) bytes: u64,
    pub(super) wait: bool,
}

/// A rectangular copy between memory of devices or memory shared by both processes.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Rect {
    pub(super) queue: Id,
    pub(super) to: u64,
    pub(super) to_pitch: Pitch,
    /// The device of the destination; `None` for memory of the host.
    pub(super) to_device: Option<Id>,
    pub(super) from: u64,
    pub(super) from_pitch: Pitch,
    pub(super) from_device: Option<Id>,
    pub(super) extent: Extent,
}

/// A copy between memory of a device and memory of the host alone. The executor exchanges pieces
/// with the host when the queue comes to them, by [`Callback::Fetch`] and [`Callback::Store`].
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Transfer {
    pub(super) queue: Id,
    pub(super) transfer: u64,
    pub(super) device: Id,
    pub(super) address: u64,
    pub(super) bytes: u64,
    pub(super) to_device: bool,
    /// Address and size of mapped shared memory for a piece; without it pieces go in messages.
    pub(super) staging: Option<(u64, u64)>,
}

/// A copy between a device and the process that sends the request.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct BulkCopy {
    /// The queue with the earlier work; `None` for the process's own queue of the device.
    pub(super) queue: Option<Id>,
    pub(super) device: Id,
    pub(super) address: u64,
    pub(super) bytes: u64,
    /// The number of the channel's transfer.
    pub(super) number: u64,
    pub(super) to_device: bool,
}

/// A copy between a device of this process and one of another process.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Exchange {
    /// The queue in whose order the copy runs; `None` for the process's own queue of the device.
    pub(super) queue: Option<Id>,
    pub(super) device: Id,
    pub(super) address: u64,
    pub(super) bytes: u64,
    pub(super) other: Address,
    pub(super) other_device: Id,
    pub(super) other_address: u64,
    /// Whether `device` receives the data.
    pub(super) to_device: bool,
    pub(super) wait: bool,
}

/// Data of a device to send by the transfer `number`, when the event of `signal` is reached.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Push {
    /// The address of the process that asks.
    pub(super) to: Address,
    pub(super) signal: u64,
    /// Whether the event is known to be reached.
    pub(super) is_reached: bool,
    pub(super) device: Id,
    pub(super) address: u64,
    pub(super) bytes: u64,
    pub(super) number: u64,
}

/// A request of the executor to the host.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Callback<'a> {
    /// A request to run a function of the program.
    Run {
        function: u64,
    },
    /// Copies from the host's memory into the staging memory; without staging memory the reply is
    /// the bytes.
    Fetch {
        transfer: u64,
        at: u64,
        bytes: u64,
        /// The number of the channel's transfer that carries the bytes, in place of both.
        bulk: Option<u64>,
    },
    /// Copies from the staging memory into the host's memory; without staging memory, copies
    /// `content`.
    Store {
        transfer: u64,
        at: u64,
        bytes: u64,
        #[serde(borrow, with = "serde_bytes")]
        content: &'a [u8],
        /// The number of the channel's transfer, as in [`Callback::Fetch`].
        bulk: Option<u64>,
    },
    /// The end of a transfer.
    Done {
        transfer: u64,
    },
    Log {
        level: u32,
        target: &'a str,
        message: &'a str,
    },
}

/// The result of connecting the plugin.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Connected {
    Platform { description: Description<String>, devices: u32 },
    NoDriver(String),
    NoDevice(String),
    NotAPlugin(String),
    WrongInterface { plugin: (u32, u32), host: (u32, u32) },
    WrongLayout(String),
    Misnamed(String),
}

/// The symbols of a module.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Symbols(
    #[serde(deserialize_with = "bounds::list::<_, _, SYMBOLS>")]
    pub(super)  Vec<(String, SymbolKind)>,
);

/// The profile sections of a module.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Sections(
    #[serde(deserialize_with = "bounds::list::<_, _, PROFILE_SECTIONS>")]
    pub(super)  Vec<ProfileSection>,
);

/// Greatest number of names in [`RequestedSettings`].
pub(super) const REQUESTED_SETTINGS: usize = 100;

/// Names of the settings that a plugin has looked up while it was connected, at most
/// [`REQUESTED_SETTINGS`].
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct RequestedSettings(
    #[serde(deserialize_with = "bounds::list::<_, _, REQUESTED_SETTINGS>")] pub(super) Vec<String>,
);

impl RequestedSettings {
    /// Returns all names.
    ///
    /// # Errors
    /// A breach of the interface for too many names, or for a name that is too long.
    pub(super) fn names(self, plugin: &str) -> Result<Vec<String>> {
        let place = "services, settings that were asked for";
        bounds::few(plugin, place, self.0.len(), "names", REQUESTED_SETTINGS)?;
        for name in &self.0 {
            bounds::text(plugin, format_args!("{place}, name"), name, bounds::DESCRIPTION_BYTES)?;
        }
        Ok(self.0)
    }
}

/// Encodes a message.
pub(super) fn encode(message: &impl Serialize) -> Vec<u8> {
    postcard::to_stdvec(message).expect("a message of these types has no limit")
}

/// Encodes a message into a reused buffer.
pub(super) fn encode_into(message: &impl Serialize, mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.clear();
    postcard::to_extend(message, bytes).expect("a message of these types has no limit")
}

/// Decodes a message. Any input gives a message or an error.
///
/// # Errors
/// `BackendFailure` for malformed bytes.
pub(super) fn decode<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T> {
    postcard::from_bytes(bytes).map_err(|error| {
        let message = format!("a message of {} bytes is malformed: {error}", bytes.len());
        Error::new(ErrorCode::BackendFailure, message)
    })
}

/// Appends an argument's size and value to `into`.
pub(super) fn put_argument(value: &[u8], into: &mut Vec<u8>) {
    into.extend_from_slice(&(value.len() as u64).to_le_bytes());
    into.extend_from_slice(value);
}

/// Takes the first argument's value from `from`; `None` at the end, and for a size beyond the
/// remaining bytes.
pub(super) fn take_argument<'a>(from: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (size, rest) = from.split_first_chunk::<8>()?;
    let size = usize::try_from(u64::from_le_bytes(*size)).ok()?;
    let (value, rest) = rest.split_at_checked(size)?;
    *from = rest;
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_come_back_and_truncated_ones_are_refused() {
        let mut bytes = Vec::new();
        for value in [&b""[..], b"one", &[7; 300]] {
            put_argument(value, &mut bytes);
        }
        let mut rest = &bytes[..];
        let values: Vec<_> = std::iter::from_fn(|| take_argument(&mut rest)).collect();
        assert_eq!(values, [&b""[..], b"one", &[7; 300]]);
        let mut cut = &bytes[..bytes.len() - 1];
        assert_eq!(std::iter::from_fn(|| take_argument(&mut cut)).count(), 2);
    }

    #[test]
    fn any_bytes_are_a_request_or_an_error() {
        let good =
            encode(&Request::Fill { queue: 1, address: 2, bytes: 4, pattern: b"ab", wait: true });
        for end in 0..good.len() {
            assert!(decode::<Request<'_>>(&good[..end]).is_err(), "{end} bytes");
        }
        let mut seed = 1_u64;
        for _ in 0..20_000 {
            let mut bytes = good.clone();
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let at = (seed >> 33) as usize % bytes.len();
            bytes[at] = (seed >> 20) as u8;
            let _ = decode::<Request<'_>>(&bytes);
        }
    }

    #[test]
    fn an_error_comes_back_whole() {
        let error = Error::new(ErrorCode::InvalidSize, "size 0").with_vendor("X_TOO_SMALL", -3);
        let bytes = encode(&Err::<u32, Error>(error.clone()));
        let back: Result<u32> = decode(&bytes).unwrap();
        assert_eq!(back.unwrap_err(), error);
    }
}

//! A node's description of itself.

use longshore_plugin_api::{Error, ErrorCode, Result};
use serde::{Deserialize, Serialize};

/// The method of the call to a node for its [`Hello`]. The argument is a [`Greeting`].
pub const HELLO: u32 = 1;
/// The method of the call that stores an image on a node and its followers.
pub const STORE: u32 = 2;
/// The method of a node's log records: messages to the program.
pub const LOG: u32 = 3;
/// The method of collective operations.
pub const COLLECTIVE: u32 = 4;
/// The method of messages that end a collective operation before time.
pub const ABANDON: u32 = 5;
/// The method of messages about a node that is lost. The argument is its rank.
pub const LOST: u32 = 6;
/// The method of messages of a program that has no host for now, and sends no signs of life.
pub const REST: u32 = 7;
/// The method of messages of a program that has a host again.
pub const WAKE: u32 = 8;
/// The number of the plugin in calls about the node itself.
pub const NODE: u16 = u16::MAX;

/// The version of these messages. Program and nodes must have the same.
pub const VERSION: u32 = 1;

/// The program's first message to a node.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Greeting {
    /// [`VERSION`] of the program.
    pub version: u32,
    /// Greatest level of log records that the program wants, from 0 for none to 5.
    pub log_level: u32,
    /// Whether the program sends signs of life.
    pub has_pulse: bool,
}

/// The node's reply.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Hello {
    /// [`VERSION`] of the node.
    pub version: u32,
    /// The name of the machine.
    pub host: String,
    /// The number of the process.
    pub process: u32,
    /// The plugins with devices.
    pub plugins: Vec<HelloPlugin>,
    /// The reason for having no plugin with a device; else empty.
    pub absence: String,
}

/// A plugin of a node.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct HelloPlugin {
    /// The name of the backend.
    pub backend: String,
    /// The plugin's version.
    pub version: String,
    /// The indices of its selected devices.
    pub devices: Vec<u32>,
}

/// A log record of a node.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LogRecord {
    /// The severity, from 1 for an error to 5.
    pub level: u32,
    /// The part of the node that logs.
    pub target: String,
    /// The text of the record.
    pub message: String,
}

/// A request to keep an image, and to send it on.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Store {
    /// The SHA-256 digest of the image.
    pub digest: [u8; 32],
    /// The size of the image in bytes.
    pub bytes: u64,
    /// The number of the transfer from the sender.
    pub number: u64,
    /// The ranks to which the receiver sends the image.
    pub followers: Vec<i32>,
}

/// Encodes a message.
pub fn encode(message: &impl Serialize) -> Vec<u8> {
    postcard::to_stdvec(message).expect("a message of these types has no limit")
}

/// Decodes a message. Any input gives a message or an error.
///
/// # Errors
/// `BackendFailure` for malformed bytes.
pub fn decode<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T> {
    postcard::from_bytes(bytes).map_err(|error| {
        let message = format!("a message of {} bytes is malformed: {error}", bytes.len());
        Error::new(ErrorCode::BackendFailure, message)
    })
}

/// Number of plugins that one node may have; the rest of a plugin's number tells hosts of one
/// program apart.
pub const MOST_PLUGINS: u16 = 64;

/// Returns the index of a plugin on its node, from its number in messages.
pub fn plugin_of(number: u16) -> u16 {
    number % MOST_PLUGINS
}

/// Returns the filter for a level of [`Greeting`].
pub fn level_filter(level: u32) -> log::LevelFilter {
    longshore_plugin_api::log_level_filter(level)
}

//! # One declaration of the plugin interface
//!
//! `plugin-api/src/interface.rs` declares the traits of a backend, once. This crate reads the declaration ([`Interface`])
//! and writes the code that follows from it:
//!
//! - [`traits`]: the traits, and the macro by which the other code is made in the modules that it belongs to;
//! - [`tables`]: the C tables of functions. `cargo xtask header` makes the C header of the same; [`layouts`] lists them for the
//!   golden layout;
//! - [`export`]: the export side, traits to tables;
//! - [`remote_tables`], [`remote`]: the remote side, tables to traits;
//! - [`isolation`]: the messages of isolated plugins, the proxies in the program and the serving in the executor;
//! - [`either`]: the backend of the host, whose objects are a plugin's in this process or in another one.
//!
//! # The declaration
//!
//! A trait is one kind of object. A method becomes a function of the object's table `longshore.<object>`, a message, and so on.
//! [`crossing`] says how each type of a parameter or an answer crosses; another type is an error of the declaration.
//! Attributes of a method say the rest:
//!
//! | attribute | meaning |
//! | --- | --- |
//! | `#[table("pinning", "...")]` | a function of the optional table `longshore.pinning`, which the text describes |
//! | `#[without(value)]` | the answer where the optional table is missing, instead of `Unsupported` |
//! | `#[request(Launch)]` | all parameters cross as one structure `abi::Launch` |
//! | `#[require(expression)]` | a precondition that the plugin's side checks; `object` is the object |
//! | `#[check(expression)]` | a bound that the host's side checks; `plugin` is the plugin's name, `reply` the answer |
//! | `#[undo(expression)]` | takes back an answer that is beyond its bound |
//! | `#[export(path)]`, `#[remote(path)]` | a function written by hand for that side |
//! | `#[end]` | the end of the handle, where the trait has a `Drop` |
//! | `#[isolated(by_hand)]` | message, proxy and serving are written by hand; the proxy's function is `<method>_there` |
//! | `#[isolated(proxy)]` | only the proxy is, as `<method>_there` |
//! | `#[isolated(queued)]` | the proxy counts what it queues, without waiting for it |
//! | `#[isolated(posted)]` | the same, without an answer of the executor |
//! | `#[isolated(waits)]` | the call waits for all that was queued before |
//! | `#[isolated(finishes)]` | the call waits for functions and memory of the program |
//! | `#[isolated(gives_up)]` | the call succeeds if the process of the plugin is gone |
//!
//! The names in these expressions and paths are those of the module in which the code is made.

pub mod crossing;
mod declaration;
mod either;
mod glue;
mod isolation;

pub use declaration::{Interface, Isolated, Method, Object, Optional, Receiver};
pub use either::either;
pub use glue::{export, layouts, remote, remote_tables, tables, traits};
pub use isolation::isolation;

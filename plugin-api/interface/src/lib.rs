//! # One declaration of the plugin interface
//!
//! `plugin-api/src/interface.rs` declares the traits of a backend, once. This crate parses the
//! declaration ([`Interface`]) and generates the code that follows from it:
//!
//! - [`traits`]: the traits, and the macro that generates the other code in its modules;
//! - [`tables`]: the C tables of functions, from which `cargo xtask header` also generates the C
//!   header; [`layouts`] lists them for the golden layout;
//! - [`export`]: the export side, traits to tables;
//! - [`remote_tables`], [`remote`]: the remote side, tables to traits;
//! - `isolation`: the messages of isolated plugins, the proxies in the program and
//!   the server code in the executor;
//! - `either`: the backend of the host, whose objects belong to a plugin in this
//!   process or in another one.
//!
//! # The declaration
//!
//! A trait is one kind of object. Each method becomes a function of the object's table
//! `longshore.<object>`, a message, and the code between them. The module [`crossing`] defines how
//! each type of a parameter or an answer crosses the boundary; any other type is an error of the
//! declaration. Attributes of a method define the rest:
//!
//! | attribute | meaning |
//! | --- | --- |
//! | `#[table("pinning", "...")]` | a function of the optional table `longshore.pinning` |
//! | `#[without(value)]` | the answer without the optional table, instead of `Unsupported` |
//! | `#[request(Launch)]` | all parameters cross as one structure `abi::Launch` |
//! | `#[require(expression)]` | a precondition on `object`, checked by the plugin's side |
//! | `#[check(expression)]` | a bound on the answer `reply`, checked by the host's side |
//! | `#[undo(expression)]` | takes back an answer that is beyond its bound |
//! | `#[export(path)]`, `#[remote(path)]` | a function written by hand for that side |
//! | `#[end]` | the end of the handle, where the trait has a `Drop` |
//! | `#[isolated(by_hand)]` | message, proxy `<method>_there` and server code are by hand |
//! | `#[isolated(proxy)]` | only the proxy is written by hand, as `<method>_there` |
//! | `#[isolated(queued)]` | the proxy counts the work that it queues, without waiting for it |
//! | `#[isolated(posted)]` | the same, without an answer of the executor |
//! | `#[isolated(waits)]` | the call waits for all work queued before it |
//! | `#[isolated(finishes)]` | the call waits for functions and memory of the program |
//! | `#[isolated(gives_up)]` | the call succeeds if the process of the plugin is gone |
//!
//! The text of `#[table]` describes the table, and stands at its first function. In `#[check]`,
//! `plugin` is the plugin's name. Other names in these expressions and paths belong to the module
//! of the generated code.

pub mod crossing;
mod declaration;
mod either;
mod glue;
mod isolation;

pub use declaration::{Interface, Isolated, Method, Object, Optional, Receiver};
pub use either::either;
pub use glue::{export, layouts, remote, remote_tables, tables, traits};
pub use isolation::isolation;

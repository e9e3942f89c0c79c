//! The traits of the interface, implemented by calls through a plugin's tables and generated from
//! the declaration.

use super::{
    Remote, RemoteDevice, RemoteEvent, RemoteModule, RemotePlatform, RemoteQueue, lacks_table,
    receive, request,
};
use crate::backend::*;
use crate::collective::CollectiveRequest;
use crate::error::Result;
use crate::info::*;
use crate::rect::RectRequest;
use crate::request::*;
use crate::{bounds, raw};
use std::sync::Arc;

with_interface!(longshore_interface_macros::remote_of);

//! What a controller can ask of this process.

use std::sync::Arc;

use crate::rpc::{Peer, Service};

#[derive(Debug)]
pub(super) struct Target;

impl Service for Target {
    fn call(&self, _: &Arc<Peer>, method: u32, argument: &[u8]) -> Result<Vec<u8>, String> {
        match method {
            0 => Ok(argument.to_vec()),
            other => Err(format!("the executor has no method {other}")),
        }
    }

    fn post(&self, _: &Arc<Peer>, _: u32, _: &[u8]) {}
}

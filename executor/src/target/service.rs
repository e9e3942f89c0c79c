//! What a controller can ask of this process.

use std::sync::Arc;

use crate::plugin::serve::Server;
use crate::rpc::{Peer, Service};

#[derive(Default)]
pub(super) struct Target {
    plugins: Server,
}

impl Service for Target {
    fn call(&self, peer: &Arc<Peer>, method: u32, argument: &[u8]) -> Result<Vec<u8>, String> {
        match method {
            method if Server::has(method) => self.plugins.call(peer, argument),
            0 => Ok(argument.to_vec()),
            other => Err(format!("the executor has no method {other}")),
        }
    }

    fn post(&self, _: &Arc<Peer>, method: u32, argument: &[u8]) {
        if Server::has(method) {
            self.plugins.post(argument);
        }
    }
}

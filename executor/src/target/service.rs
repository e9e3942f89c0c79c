//! The methods by which a controller uses this process.

use std::sync::Arc;

use longshore_orc_rt::service::pages::set_shared_file;
use longshore_orc_rt::{bootstrap_symbols, callback, triple, wrapper};
use longshore_plugin_api::remote::Remote;

use crate::compiler::serve::CompilerServer;
use crate::plugin::Channel;
use crate::plugin::serve::Server;
use crate::protocol::{
    CALL, CALL_CONTROLLER, CALL_ON_FIRST_THREAD, ECHO, FACTS, Facts, join, split,
};
use crate::rpc::{EndReason, Peer, Service};

use super::first_thread::FirstThread;

/// The service that this process offers to its controller.
pub(super) struct Target {
    pub(super) plugins: Server,
    pub(super) compiler: CompilerServer,
    pub(super) first_thread: Arc<FirstThread>,
}

impl Service for Target {
    fn call(&self, peer: &Arc<Peer>, method: u32, argument: &[u8]) -> Result<Vec<u8>, String> {
        match method {
            method if Server::<Remote>::has(method) => {
                let channel: Arc<dyn Channel> = Arc::clone(peer) as _;
                self.plugins.call(&channel, argument)
            }
            method if CompilerServer::has(method) => self.compiler.call(peer, method, argument),
            ECHO => Ok(argument.to_vec()),
            FACTS => {
                lead_calls_to(peer);
                if let Some(Ok(file)) = peer.memory().map(|file| file.try_clone_to_owned()) {
                    set_shared_file(file);
                }
                postcard::to_stdvec(&facts()).map_err(|error| error.to_string())
            }
            CALL => {
                let (function, argument) = split(argument)?;
                // SAFETY: the controller has started this process or proved that it has the key. It
                // guarantees that the function can be called.
                unsafe { wrapper::call(function, argument) }
            }
            CALL_ON_FIRST_THREAD => {
                let (function, argument) = split(argument)?;
                let argument = argument.to_vec();
                // SAFETY: as for `CALL`.
                self.first_thread.call(move || unsafe { wrapper::call(function, &argument) })
            }
            other => Err(format!("the executor has no method {other}")),
        }
    }

    fn post(&self, peer: &Arc<Peer>, method: u32, argument: &[u8]) {
        if Server::<Remote>::has(method) {
            self.plugins.post(&|| Some(Arc::clone(peer) as _), argument);
        } else if CompilerServer::has(method) {
            self.compiler.post(argument);
        }
    }

    fn ended(&self, why: &EndReason) {
        self.first_thread.end(why);
    }
}

fn facts() -> Facts {
    let symbols = bootstrap_symbols();
    Facts {
        triple: triple().to_owned(),
        page_size: rustix::param::page_size() as u64,
        symbols: symbols.into_iter().map(|(name, address)| (name.to_owned(), address)).collect(),
    }
}

/// Lets code of this process call its controller, until the controller goes.
fn lead_calls_to(peer: &Arc<Peer>) {
    let peer = Arc::downgrade(peer);
    callback::set_controller(Some(Arc::new(move |tag, argument| {
        let peer = peer.upgrade().ok_or("the controller is gone")?;
        peer.call(CALL_CONTROLLER, &join(tag, argument)).map_err(|error| error.to_string())
    })));
}

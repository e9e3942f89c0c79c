//! A process without devices that belongs to the nodes, so that the program waits for it, and runs
//! the other end of MPI's own figures.

use crate::floor::Peers;
use anyhow::{Context, Result};
use longshore_executor::plugin::Address;
use longshore_executor::rpc::EndReason;
use longshore_mpi_backend::endpoint::{Endpoint, MpiChannel, Options, Service};
use longshore_mpi_backend::hello::{self, HELLO, Hello, VERSION};
use longshore_mpi_backend::launch;
use longshore_mpi_backend::roles;
use longshore_mpi_backend::settings::Settings;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The answers of a helper to the program.
struct Helper {
    is_over: AtomicBool,
}

/// Takes part in figures until the program ends.
pub(crate) fn serve(helpers: usize) -> Result<()> {
    let setting = |name: &str| std::env::var(format!("LONGSHORE_MPI_{}", name.to_uppercase())).ok();
    let settings = Settings::read(setting).map_err(anyhow::Error::msg)?;
    let mpi = launch::library(&settings).map_err(anyhow::Error::msg)?;
    let (level, _) = launch::initialize(mpi)?;
    let (rank, size) = (mpi.rank(mpi.world())?, mpi.size(mpi.world())?);
    let crew = roles::crew(rank, size, 1).context("the job has a program")?;
    let comms = launch::communicators(mpi, &crew, level, None, settings.bells);
    let comms = comms.map_err(anyhow::Error::msg)?;
    let helper = Arc::new(Helper { is_over: AtomicBool::new(false) });
    let service = Arc::clone(&helper) as Arc<dyn Service>;
    let options =
        Options { limit: Duration::from_secs(600), spin: Duration::ZERO, collects_posts: false };
    let endpoint = Endpoint::new(mpi, &comms, level, service, options);
    let endpoint = endpoint.map_err(anyhow::Error::msg)?;
    // Without signs of life this process is lost.
    endpoint.watch(0);
    Peers::join(mpi, helpers)?.obey()?;
    while !helper.is_over.load(Ordering::Acquire) {
        std::thread::sleep(Duration::from_millis(10));
    }
    if endpoint.end(&[], Duration::from_secs(2)) {
        launch::meet(mpi, &comms);
        mpi.finalize()?;
    }
    Ok(())
}

impl Service for Helper {
    fn call(&self, _: &Arc<MpiChannel>, method: u32, _: &[u8]) -> Result<Vec<u8>, String> {
        match method {
            HELLO => Ok(hello::encode(&Hello {
                version: VERSION,
                host: "helper".to_owned(),
                process: std::process::id(),
                plugins: Vec::new(),
                absence: "a helper of a benchmark has no device".to_owned(),
            })),
            other => Err(format!("a helper has no method {other}")),
        }
    }

    fn post(&self, _: Address, _: u32, _: &[u8]) {}

    fn lost(&self, _: i32, _: &EndReason) {
        std::process::exit(3);
    }

    fn bye(&self, _: i32) {
        self.is_over.store(true, Ordering::Release);
    }
}

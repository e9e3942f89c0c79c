//! Calls of the services of `longshore-orc-rt` in a process.

use std::future::ready;

use longshore_orc_rt::wrapper::Service;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::ProcessCalls;
use crate::memory::Pending;
use crate::{Error, Result};

/// Calls a service of a process. The request is sent before the function returns.
///
/// # Errors
/// [`Error::Unsupported`] if the process does not have the service, and the errors of a call.
///
/// # Safety
/// The argument must be true of the process: see the service.
pub unsafe fn call_service<P, A, R>(process: &P, service: Service<A, R>, argument: &A) -> Pending<R>
where
    P: ProcessCalls + ?Sized,
    A: Serialize + 'static,
    R: DeserializeOwned + Send + 'static,
{
    let function = match address_of(process, service.name()) {
        Ok(function) => function,
        Err(error) => return Box::pin(ready(Err(error))),
    };
    // SAFETY: the process offers the service; the argument is promised by the caller.
    let answer = unsafe { process.call(function, &service.argument(argument)) };
    let failed = move |problem| Error::Call { function: service.name().to_owned(), problem };
    Box::pin(async move {
        let answer = answer.await.map_err(|error| match error {
            Error::Call { problem, .. } => failed(problem),
            error => error,
        })?;
        service.decode_reply(&answer).map_err(failed)
    })
}

/// Returns the address of a symbol that every process with `longshore-orc-rt` has.
pub(crate) fn address_of<P: ProcessCalls + ?Sized>(process: &P, name: &str) -> Result<u64> {
    process.facts().symbols.get(name).copied().ok_or_else(|| Error::Unsupported {
        file: "the process that executes the code".to_owned(),
        problem: format!(
            "has no {name}: its longshore-orc-rt is of another version than the linker"
        ),
    })
}

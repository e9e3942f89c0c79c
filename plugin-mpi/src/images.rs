//! The way of images to the nodes: along a tree, so that no process sends more than a few times.

use std::sync::Arc;

use longshore_executor::plugin::{BulkTransfer, Digest};

use crate::endpoint::Endpoint;
use crate::hello::{self, NODE, STORE, Store};

/// Sends an image to the first half of the tree's members through the first of them, and so on.
/// Returns the ranks that have the image. Blocks until they have it.
pub fn distribute(
    endpoint: &Arc<Endpoint>,
    targets: &[i32],
    digest: Digest,
    image: &[u8],
) -> Vec<i32> {
    let mut branches = Vec::new();
    let mut rest = targets;
    while let Some((first, others)) = rest.split_first() {
        let (followers, later) = others.split_at(others.len() / 2);
        branches.push((*first, followers));
        rest = later;
    }
    let send = |(to, followers): &(i32, &[i32])| {
        send(endpoint, *to, followers, digest, image).unwrap_or_else(|why| {
            log::warn!("sending an image of {} bytes to rank {to}: {why}", image.len());
            Vec::new()
        })
    };
    if !endpoint.is_threaded() || branches.len() == 1 {
        return branches.iter().flat_map(send).collect();
    }
    std::thread::scope(|scope| {
        let threads: Vec<_> =
            branches.iter().map(|branch| scope.spawn(move || send(branch))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap_or_default()).collect()
    })
}

fn send(
    endpoint: &Arc<Endpoint>,
    to: i32,
    followers: &[i32],
    digest: Digest,
    image: &[u8],
) -> Result<Vec<i32>, String> {
    let channel = endpoint.channel(to, NODE).ok_or("there is no such process")?;
    let bulk = channel.bulk().ok_or("the channel has no transfers")?;
    let number = bulk.number();
    let (bytes, followers) = (image.len() as u64, followers.to_vec());
    let request = hello::encode(&Store { digest, bytes, number, followers });
    let mut sent = None;
    let reply = channel.call_while(STORE, &request, &mut || {
        // SAFETY: the image stays in place until the transfer is dropped below.
        sent = Some(unsafe { bulk.send(number, image.as_ptr(), image.len()) });
    });
    let reply = reply.map_err(|error| error.to_string())?;
    if let Some(sent) = sent {
        let mut sent: Box<dyn BulkTransfer + '_> = sent.map_err(|error| error.to_string())?;
        sent.wait().map_err(|error| error.to_string())?;
    }
    hello::decode(&reply).map_err(|error| error.message().to_owned())
}

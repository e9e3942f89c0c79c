//! Collective operations over the memory of several devices.

use super::context::{Context, refused};
use super::{Check, behaviour_list, ensure};
use longshore::{
    Buffer, BufferSlice, CollectiveOperation, Device, ErrorCode, Group, Queue, Result,
};

behaviour_list! { "collectives":
    "a broadcast reaches every member" ["P-84"] a_broadcast_reaches_all;
    "members are gathered in their order" ["P-84"] members_are_gathered;
    "reductions combine each element of all members" ["P-84"] elements_are_combined;
    "members that do not fit are refused" ["H-5"] unfit_members_are_refused;
}

/// Runs `check` for groups of the device with itself and with another one, if there is one.
fn each_group(cx: &Context, check: impl Fn(&[Queue]) -> Check) -> Check {
    let here = cx.device();
    let mut groups: Vec<Vec<&Device>> = vec![vec![here], vec![here, here, here]];
    if let Ok(other) = cx.other() {
        groups.extend([vec![here, other], vec![other, here], vec![other, here, other, here]]);
        groups.push(vec![here, here, other]);
    }
    for devices in groups {
        let queues: Result<Vec<_>> = devices.iter().map(|device| device.queue()).collect();
        check(&queues?)?;
    }
    Ok(())
}

/// Returns a buffer for each queue, with the values of `value` for each member and element.
fn buffers(
    queues: &[Queue],
    count: usize,
    value: impl Fn(usize, usize) -> i32,
) -> Result<Vec<Buffer<i32>>> {
    let content = |member: usize| (0..count).map(|at| value(member, at)).collect::<Vec<_>>();
    let members = queues.iter().enumerate();
    members.map(|(member, queue)| queue.device().buffer_of(queue, &content(member))).collect()
}

fn slices(buffers: &[Buffer<i32>]) -> Vec<BufferSlice<'_, i32>> {
    buffers.iter().map(Buffer::as_slice).collect()
}

const COUNTS: [usize; 3] = [1, 1000, 100_003];

fn a_broadcast_reaches_all(cx: &Context) -> Check {
    each_group(cx, |queues| {
        let group = Group::new(queues)?;
        for count in COUNTS {
            for root in [0, queues.len() - 1] {
                let buffers = buffers(queues, count, |member, at| (member * 7 + at) as i32)?;
                group.broadcast(root, &slices(&buffers))?;
                let expected: Vec<_> = (0..count).map(|at| (root * 7 + at) as i32).collect();
                for (member, (buffer, queue)) in buffers.iter().zip(queues).enumerate() {
                    let found = buffer.to_vec(queue)?;
                    ensure!(found == expected, "member {member} of {}", queues.len());
                }
            }
            let (buffers, data) = (buffers(queues, count, |_, _| 0)?, vec![5; count]);
            group.broadcast_from_host(&data, &slices(&buffers))?;
            for (buffer, queue) in buffers.iter().zip(queues) {
                ensure!(buffer.to_vec(queue)? == data, "{count} elements of the host");
            }
        }
        Ok(())
    })
}

fn members_are_gathered(cx: &Context) -> Check {
    each_group(cx, |queues| {
        let (group, members) = (Group::new(queues)?, queues.len());
        for count in COUNTS {
            let from = buffers(queues, count, |member, at| (member * 1_000_000 + at) as i32)?;
            let all = (0..members)
                .flat_map(|member| (0..count).map(move |at| (member * 1_000_000 + at) as i32));
            let all: Vec<_> = all.collect();
            let into = buffers(queues, count * members, |_, _| -1)?;
            let root = members - 1;
            group.gather(&slices(&from), root, into[root].as_slice())?;
            ensure!(into[root].to_vec(&queues[root])? == all, "{count} elements at the root");
            let untouched = root == 0 || into[0].to_vec(&queues[0])?.iter().all(|n| *n == -1);
            ensure!(untouched, "another member's memory has changed");
            group.all_gather(&slices(&from), &slices(&into))?;
            for (buffer, queue) in into.iter().zip(queues) {
                ensure!(buffer.to_vec(queue)? == all, "{count} elements at all members");
            }
            let mut host = vec![0; count * members];
            group.gather_to_host(&slices(&from), &mut host)?;
            ensure!(host == all, "{count} elements at the host");
        }
        Ok(())
    })
}

fn elements_are_combined(cx: &Context) -> Check {
    each_group(cx, |queues| {
        let (group, members) = (Group::new(queues)?, queues.len());
        for count in COUNTS {
            let value = |member: usize, at: usize| (at % 50) as i32 - 20 + 3 * member as i32;
            let from = buffers(queues, count, value)?;
            let into = buffers(queues, count, |_, _| -1)?;
            let each = |combine: fn(i32, i32) -> i32| {
                let at = |at| (0..members).map(|m| value(m, at)).reduce(combine).unwrap_or(0);
                (0..count).map(at).collect::<Vec<_>>()
            };
            let (sum, max) = (each(|a, b| a + b), each(i32::max));
            group.reduce(CollectiveOperation::Max, &slices(&from), 0, into[0].as_slice())?;
            ensure!(into[0].to_vec(&queues[0])? == max, "the greatest of {count} elements");
            let mut host = vec![0; count];
            group.reduce_to_host(CollectiveOperation::Sum, &slices(&from), &mut host)?;
            ensure!(host == sum, "sums of {count} elements at the host");
            // In place.
            group.all_reduce(CollectiveOperation::Sum, &slices(&from), &slices(&from))?;
            for (buffer, queue) in from.iter().zip(queues) {
                ensure!(buffer.to_vec(queue)? == sum, "sums of {count} elements at all members");
            }
        }
        Ok(())
    })
}

fn unfit_members_are_refused(cx: &Context) -> Check {
    let queues = [cx.queue()?, cx.queue()?];
    let group = Group::new(&queues)?;
    let (long, short) = (buffers(&queues, 8, |_, _| 1)?, buffers(&queues, 7, |_, _| 1)?);
    let mixed = [long[0].as_slice(), short[1].as_slice()];
    refused(group.broadcast(0, &mixed), ErrorCode::InvalidSize, "buffers of two lengths")?;
    let one = [long[0].as_slice()];
    refused(group.broadcast(0, &one), ErrorCode::InvalidSize, "a buffer too few")?;
    let both = slices(&long);
    refused(group.broadcast(2, &both), ErrorCode::InvalidSize, "a root beyond the group")?;
    let into = long[0].as_slice();
    refused(group.gather(&both, 0, into), ErrorCode::InvalidSize, "no room for all")?;
    let empty = Group::new([]).map(|_: Group<'_>| ());
    refused(empty, ErrorCode::InvalidSize, "a group of no queues")
}

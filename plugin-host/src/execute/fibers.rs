//! Groups whose items wait for each other: each item runs on its own stack, and all on one thread.

use super::fault::{Cause, Fault};
use super::runtime;
use super::stack::{ItemStack, STACK_BYTES};
use super::wait::{State, Wait};
use crate::guard::{Guard, Stop};
use crate::kernel::abi::{Calls, GroupEntry, Work};
use corosensei::{Coroutine, CoroutineResult, Yielder};
use std::ffi::c_void;

/// Number of items of a sub-group.
pub(crate) const SUBGROUP_ITEMS: usize = 32;

/// A group's progress.
pub(crate) enum Progress {
    /// The end: all items have returned.
    Done,
    /// A wait of all items for the other groups.
    AtGridBarrier,
}

/// A running group.
pub(crate) struct Group {
    call: Call,
    number: u64,
    /// The items. The vector never grows, because kernels hold addresses of its elements.
    items: Vec<Item>,
    states: Vec<State>,
    fibers: Vec<Option<Fiber>>,
    subgroups: Vec<Subgroup>,
    /// Whether one item loops over all items.
    is_whole: bool,
}

/// A kernel's entry and arguments.
#[derive(Clone, Copy)]
pub(crate) struct Call {
    pub(crate) entry: GroupEntry,
    pub(crate) arguments: *const *const c_void,
}

type Fiber = Coroutine<(), Wait, Result<(), Stop>, ItemStack>;

/// An item on its own stack. Kernels identify it by the address of `work`.
#[repr(C)]
struct Item {
    work: Work,
    yielder: *const Yielder<(), Wait>,
    is_whole: bool,
    /// The value given to the sub-group, and the values received.
    value: u64,
    gathered: *const u64,
    present: u64,
}

/// Values of a sub-group's items, in two alternating buffers: a slow item may still read the
/// previous values.
#[derive(Clone)]
struct Subgroup {
    values: [[u64; SUBGROUP_ITEMS]; 2],
    turn: usize,
}

static CALLS: Calls =
    Calls { barrier, grid_barrier, gather, write: runtime::write, fail: runtime::fail };

/// The same functions, without output.
static SILENT_CALLS: Calls = Calls { write: runtime::leave_out, ..CALLS };

impl Group {
    /// Creates group `number` of the launch of `work`. If `is_whole`, the kernel itself loops over
    /// the items.
    pub(crate) fn new(work: &Work, number: u64, is_whole: bool, call: Call) -> Group {
        let [width, height, depth] = if is_whole { [1; 3] } else { work.items };
        let mut items = Vec::new();
        for z in 0..depth {
            for y in 0..height {
                items.extend((0..width).map(|x| Item::new(work, number, is_whole, [x, y, z])));
            }
        }
        let count = items.len();
        let subgroup = Subgroup { values: [[0; SUBGROUP_ITEMS]; 2], turn: 0 };
        Group {
            call,
            number,
            items,
            states: vec![State::Ready; count],
            fibers: std::iter::repeat_with(|| None).take(count).collect(),
            subgroups: vec![subgroup; count.div_ceil(SUBGROUP_ITEMS)],
            is_whole,
        }
    }

    /// Makes the items print nothing.
    pub(crate) fn silence(&mut self) {
        self.items.iter_mut().for_each(|item| item.work.calls = &SILENT_CALLS);
    }

    /// Runs the group until all items have returned, or all wait for other groups. The next call
    /// resumes the waiting items.
    ///
    /// # Errors
    /// The fault of an item; the group cannot resume afterwards.
    ///
    /// # Safety
    /// The kernel may be run with these arguments.
    pub(crate) unsafe fn advance(&mut self) -> Result<Progress, Fault> {
        self.release(Wait::Grid);
        loop {
            for index in 0..self.items.len() {
                if self.states[index] == State::Ready {
                    // SAFETY: as the caller vouches.
                    unsafe { self.resume(index) }?;
                }
            }
            if self.states.iter().all(|state| *state == State::Done) {
                return Ok(Progress::Done);
            }
            if self.all_wait_for(Wait::Grid) {
                return Ok(Progress::AtGridBarrier);
            }
            if self.all_wait_for(Wait::Barrier) {
                self.release(Wait::Barrier);
            } else if !self.exchange() {
                return Err(self.stuck());
            }
        }
    }

    /// Runs an item until it waits or returns.
    ///
    /// # Safety
    /// As for [`Group::advance`].
    unsafe fn resume(&mut self, index: usize) -> Result<(), Fault> {
        let mut fiber = match self.fibers[index].take() {
            Some(fiber) => fiber,
            None => self.start(index)?,
        };
        match fiber.resume(()) {
            CoroutineResult::Yield(wait) => {
                self.states[index] = State::Waiting(wait);
                self.fibers[index] = Some(fiber);
                Ok(())
            }
            CoroutineResult::Return(result) => {
                self.states[index] = State::Done;
                let stack = fiber.into_stack();
                let result = result.map_err(|stop| self.fault(cause(stop, &stack), Some(index)));
                stack.give_back();
                result
            }
        }
    }

    fn start(&mut self, index: usize) -> Result<Fiber, Fault> {
        let stack =
            ItemStack::take().map_err(|error| self.fault(Cause::NoStack(error), Some(index)))?;
        let (item, call) = (&raw mut self.items[index], self.call);
        Ok(Coroutine::with_stack(stack, move |yielder, ()| {
            // SAFETY: the item stays in place while the group lives, and so does the fiber. The
            // caller of `advance` vouches for the kernel.
            unsafe {
                (*item).yielder = yielder;
                Guard::for_thread().call(call.entry, call.arguments, item.cast())
            }
        }))
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    fn all_wait_for(&self, wait: Wait) -> bool {
        self.states.iter().all(|state| *state == State::Waiting(wait))
    }

    fn release(&mut self, wait: Wait) {
        for state in self.states.iter_mut().filter(|state| **state == State::Waiting(wait)) {
            *state = State::Ready;
        }
    }

    /// Exchanges the values of the items in each sub-group whose items all wait or have returned.
    /// Returned items contribute nothing. Returns `false` if no sub-group is ready.
    fn exchange(&mut self) -> bool {
        let mut any = false;
        for (number, subgroup) in self.subgroups.iter_mut().enumerate() {
            let begin = number * SUBGROUP_ITEMS;
            let end = (begin + SUBGROUP_ITEMS).min(self.items.len());
            let states = &mut self.states[begin..end];
            let waits = |state: &State| *state == State::Waiting(Wait::Gather);
            if !states.iter().any(waits) || !states.iter().all(|s| waits(s) || *s == State::Done) {
                continue;
            }
            subgroup.turn ^= 1;
            let values = &mut subgroup.values[subgroup.turn];
            let items = &mut self.items[begin..end];
            let mut present = 0;
            for (lane, (state, item)) in states.iter().zip(&*items).enumerate() {
                if waits(state) {
                    values[lane] = item.value;
                    present |= 1 << lane;
                }
            }
            for (state, item) in states.iter_mut().zip(items).filter(|(state, _)| waits(state)) {
                (item.gathered, item.present, *state) = (values.as_ptr(), present, State::Ready);
            }
            any = true;
        }
        any
    }

    /// Creates the fault of items whose waits can never end.
    fn stuck(&self) -> Fault {
        let at = |index: usize| (self.items[index].work.first, self.states[index]);
        let other = self.states.iter().position(|state| *state != self.states[0]).unwrap_or(0);
        self.fault(Cause::Stuck([at(0), at(other)]), Some(other))
    }

    fn fault(&self, cause: Cause, index: Option<usize>) -> Fault {
        let item = index.filter(|_| !self.is_whole).map(|index| self.items[index].work.first);
        Fault { cause, group: self.number, item }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for mut fiber in self.fibers.drain(..).flatten() {
            // SAFETY: the stack holds only frames of device code and of `wait`, which have nothing
            // to drop.
            unsafe { fiber.force_reset() };
            fiber.into_stack().give_back();
        }
    }
}

impl Item {
    fn new(work: &Work, number: u64, is_whole: bool, item: [u32; 3]) -> Item {
        let mut work = Work { begin: number, end: number + 1, calls: &CALLS, ..*work };
        if !is_whole {
            (work.traced, work.first, work.last) = (1, item, item.map(|at| at + 1));
        }
        let (yielder, gathered) = (std::ptr::null(), std::ptr::null());
        Item { work, yielder, is_whole, value: 0, gathered, present: 0 }
    }
}

fn cause(stop: Stop, stack: &ItemStack) -> Cause {
    match stop {
        Stop::Signal(signal) if stack.is_overflow(signal.address) => {
            Cause::StackOverflow(STACK_BYTES)
        }
        stop => Cause::Stop(stop),
    }
}

unsafe extern "C" fn barrier(work: *mut Work) {
    let item = work.cast::<Item>();
    // SAFETY: kernels pass the work that was their argument.
    unsafe {
        match (*item).is_whole {
            true => (runtime::CALLS.barrier)(work),
            false => wait(item, Wait::Barrier),
        }
    }
}

unsafe extern "C" fn grid_barrier(work: *mut Work) {
    // SAFETY: as above.
    unsafe { wait(work.cast(), Wait::Grid) }
}

unsafe extern "C" fn gather(work: *mut Work, value: u64, present: *mut u64) -> *const u64 {
    let item = work.cast::<Item>();
    // SAFETY: as above; `present` is a local of the kernel.
    unsafe {
        if (*item).is_whole {
            return (runtime::CALLS.gather)(work, value, present);
        }
        (*item).value = value;
        wait(item, Wait::Gather);
        present.write((*item).present);
        (*item).gathered
    }
}

/// Suspends the item until its wait is over.
///
/// # Safety
/// `item` is the item of this fiber.
unsafe fn wait(item: *mut Item, wait: Wait) {
    let guard = Guard::for_thread();
    let suspended = guard.suspend();
    // SAFETY: this is the fiber's own yielder, which lives as long as the fiber runs.
    unsafe { (*(*item).yielder).suspend(wait) };
    guard.resume(suspended);
}

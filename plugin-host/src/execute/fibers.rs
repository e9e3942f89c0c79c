//! Groups whose items wait for each other: each item runs on its own stack, and all on one thread.

use super::fault::{Cause, Fault};
use super::listed::Listed;
use super::runtime;
use super::stack::{ItemStack, STACK_BYTES};
use super::wait::{State, Wait};
use crate::check::steps;
use crate::guard::{Guard, Stop};
use crate::kernel::abi::{Calls, GroupEntry, Work};
use corosensei::{Coroutine, CoroutineResult, Yielder};
use std::arch::naked_asm;
use std::ffi::c_void;
use std::mem::offset_of;

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
    /// Dropped before the items.
    _listed: Option<Listed>,
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
pub(super) struct Item {
    work: Work,
    yielder: *const Yielder<(), Wait>,
    is_whole: bool,
    /// The value given to the sub-group, and the values received.
    value: u64,
    gathered: *const u64,
    present: u64,
    /// The values received in an exchange among chosen lanes.
    received: [u64; SUBGROUP_ITEMS],
    /// Addresses of the item's stack.
    stack: [u64; 2],
    /// The reason for the item's wait, and the kernel's registers at its beginning, for debuggers.
    pub(super) wait: WaitCode,
    pub(super) registers: [u64; SAVED_REGISTERS],
}

/// A [`Wait`] as a debugger sees it.
#[derive(Clone, Copy)]
#[repr(u64)]
pub(super) enum WaitCode {
    Nothing,
    Barrier,
    Gather,
    Grid,
    BarrierOfRest,
    GatherOf,
}

/// Values of a sub-group's items, in two alternating buffers: a slow item may still read the
/// previous values.
#[derive(Clone)]
struct Subgroup {
    values: [[u64; SUBGROUP_ITEMS]; 2],
    turn: usize,
}

static CALLS: Calls = Calls {
    barrier,
    grid_barrier,
    gather,
    write: runtime::write,
    fail: runtime::fail,
    barrier_of_rest,
    gather_of,
};

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
        let listed = Listed::new(&items);
        let subgroup = Subgroup { values: [[0; SUBGROUP_ITEMS]; 2], turn: 0 };
        Group {
            call,
            number,
            items,
            states: vec![State::Ready; count],
            fibers: std::iter::repeat_with(|| None).take(count).collect(),
            subgroups: vec![subgroup; count.div_ceil(SUBGROUP_ITEMS)],
            is_whole,
            _listed: listed,
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
                steps::pass_barrier(self.items.len());
                self.release(Wait::Barrier);
            } else if self.all_but_returned_wait_for(Wait::BarrierOfRest) {
                let is_active = |item: usize| self.states[item] != State::Done;
                steps::pass_barrier_of_rest(self.items.len(), is_active);
                self.release(Wait::BarrierOfRest);
            } else if !(self.exchange() | self.exchange_among_lanes())
                && !self.exchange_among_present()
            {
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
        let item = &self.items[index];
        let [begin, end] = item.stack;
        steps::turn_to_item(index, &item.work, &(begin..end));
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
        let range = stack.range();
        self.items[index].stack = [range.start, range.end];
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

    fn all_but_returned_wait_for(&self, wait: Wait) -> bool {
        self.states.iter().all(|state| *state == State::Waiting(wait) || *state == State::Done)
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
            steps::compare_waits(begin..end, |item| waits(&states[item - begin]));
            steps::pass_exchange(number, u32::MAX);
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

    /// Exchanges the values of chosen lanes, where all of them wait for the same exchange or have
    /// returned. Returns `false` if there are no such lanes.
    fn exchange_among_lanes(&mut self) -> bool {
        let mut any = false;
        for begin in (0..self.items.len()).step_by(SUBGROUP_ITEMS) {
            let end = (begin + SUBGROUP_ITEMS).min(self.items.len());
            for first in begin..end {
                let State::Waiting(Wait::GatherOf(lanes)) = self.states[first] else { continue };
                let chosen = || (begin..end).filter(|at| lanes >> (at - begin) & 1 != 0);
                let waits = |at: &usize| self.states[*at] == State::Waiting(Wait::GatherOf(lanes));
                if lanes != 0 && chosen().all(|at| waits(&at) || self.states[at] == State::Done) {
                    let present: Vec<usize> = chosen().filter(waits).collect();
                    steps::compare_waits(begin..end, |item| present.contains(&item));
                    self.exchange_lanes(begin, present, lanes);
                    any = true;
                }
            }
        }
        any
    }

    /// Exchanges the values of the lanes that wait for an exchange of all present ones. Returns
    /// `false` if there are no such lanes.
    fn exchange_among_present(&mut self) -> bool {
        let mut any = false;
        for begin in (0..self.items.len()).step_by(SUBGROUP_ITEMS) {
            let end = (begin + SUBGROUP_ITEMS).min(self.items.len());
            let waits = |at: &usize| self.states[*at] == State::Waiting(Wait::GatherOf(0));
            let present: Vec<usize> = (begin..end).filter(waits).collect();
            any |= !present.is_empty();
            let waits_or_is_over = |at: &usize| waits(at) || self.states[*at] == State::Done;
            let lanes =
                (begin..end).filter(waits_or_is_over).fold(0, |mask, at| mask | 1 << (at - begin));
            self.exchange_lanes(begin, present, lanes);
        }
        any
    }

    /// Gives the items, of a sub-group that begins with item `begin`, each other's values. `lanes`
    /// has returned items too.
    fn exchange_lanes(&mut self, begin: usize, present: Vec<usize>, lanes: u32) {
        if !present.is_empty() {
            steps::pass_exchange(begin / SUBGROUP_ITEMS, lanes);
        }
        let mut values = [0; SUBGROUP_ITEMS];
        present.iter().for_each(|at| values[at - begin] = self.items[*at].value);
        let mask = present.iter().fold(0, |mask, at| mask | 1 << (at - begin));
        for at in present {
            let item = &mut self.items[at];
            (item.received, item.present) = (values, mask);
            item.gathered = item.received.as_ptr();
            self.states[at] = State::Ready;
        }
    }

    /// Creates the fault of items whose waits can never end.
    fn stuck(&self) -> Fault {
        let at = |index: usize| (self.items[index].work.first, self.states[index]);
        let other = self.states.iter().position(|state| *state != self.states[0]).unwrap_or(0);
        self.fault(Cause::Stuck([at(0), at(other)]), Some(other))
    }

    fn fault(&self, cause: Cause, index: Option<usize>) -> Fault {
        let item = index.filter(|_| !self.is_whole).map(|index| self.items[index].work.first);
        Fault { cause, group: self.number, item, earlier_code: None }
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
        let (wait, registers) = (WaitCode::Nothing, [0; SAVED_REGISTERS]);
        Item {
            work,
            yielder,
            is_whole,
            value: 0,
            gathered,
            present: 0,
            received: [0; SUBGROUP_ITEMS],
            stack: [0; 2],
            wait,
            registers,
        }
    }
}

impl From<Wait> for WaitCode {
    fn from(wait: Wait) -> WaitCode {
        match wait {
            Wait::Barrier => WaitCode::Barrier,
            Wait::Gather => WaitCode::Gather,
            Wait::Grid => WaitCode::Grid,
            Wait::BarrierOfRest => WaitCode::BarrierOfRest,
            Wait::GatherOf(_) => WaitCode::GatherOf,
        }
    }
}

fn cause(stop: Stop, stack: &ItemStack) -> Cause {
    match stop {
        Stop::Signal(signal) if stack.is_overflow(signal.address) => {
            Cause::StackOverflow(STACK_BYTES, signal.instruction)
        }
        stop => Cause::Stop(stop),
    }
}

/// Stores the caller's registers in the item: the address of the code, the stack pointer, then the
/// registers that calls preserve. Debuggers unwind from them while the item waits. Goes on in
/// `$next`.
#[cfg(target_arch = "x86_64")]
macro_rules! save_registers {
    ($next:path) => {
        naked_asm!(
            "mov rax, [rsp]",
            "mov [rdi + {registers}], rax",
            "lea rax, [rsp + 8]",
            "mov [rdi + {registers} + 8], rax",
            "mov [rdi + {registers} + 16], rbp",
            "mov [rdi + {registers} + 24], rbx",
            "mov [rdi + {registers} + 32], r12",
            "mov [rdi + {registers} + 40], r13",
            "mov [rdi + {registers} + 48], r14",
            "mov [rdi + {registers} + 56], r15",
            "jmp {next}",
            registers = const offset_of!(Item, registers),
            next = sym $next,
        )
    };
}
#[cfg(target_arch = "x86_64")]
const SAVED_REGISTERS: usize = 8;

#[cfg(target_arch = "aarch64")]
macro_rules! save_registers {
    ($next:path) => {
        naked_asm!(
            "mov x9, sp",
            "add x10, x0, #{registers}",
            "stp x30, x9, [x10]",
            "stp x29, x19, [x10, #16]",
            "stp x20, x21, [x10, #32]",
            "stp x22, x23, [x10, #48]",
            "stp x24, x25, [x10, #64]",
            "stp x26, x27, [x10, #80]",
            "str x28, [x10, #96]",
            "b {next}",
            registers = const offset_of!(Item, registers),
            next = sym $next,
        )
    };
}
#[cfg(target_arch = "aarch64")]
const SAVED_REGISTERS: usize = 13;

#[unsafe(naked)]
unsafe extern "C" fn barrier(work: *mut Work) {
    save_registers!(wait_at_barrier)
}

#[unsafe(naked)]
unsafe extern "C" fn grid_barrier(work: *mut Work) {
    save_registers!(wait_at_grid_barrier)
}

#[unsafe(naked)]
unsafe extern "C" fn gather(work: *mut Work, value: u64, present: *mut u64) -> *const u64 {
    save_registers!(wait_to_gather)
}

#[unsafe(naked)]
unsafe extern "C" fn barrier_of_rest(work: *mut Work) {
    save_registers!(wait_at_barrier_of_rest)
}

#[unsafe(naked)]
unsafe extern "C" fn gather_of(
    work: *mut Work,
    value: u64,
    lanes: u32,
    present: *mut u64,
) -> *const u64 {
    save_registers!(wait_to_gather_of)
}

unsafe extern "C" fn wait_at_barrier(work: *mut Work) {
    let item = work.cast::<Item>();
    // SAFETY: kernels pass the work that was their argument.
    unsafe {
        match (*item).is_whole {
            true => (runtime::CALLS.barrier)(work),
            false => wait(item, Wait::Barrier),
        }
    }
}

unsafe extern "C" fn wait_at_barrier_of_rest(work: *mut Work) {
    let item = work.cast::<Item>();
    // SAFETY: as above.
    unsafe {
        match (*item).is_whole {
            true => (runtime::CALLS.barrier)(work),
            false => wait(item, Wait::BarrierOfRest),
        }
    }
}

unsafe extern "C" fn wait_at_grid_barrier(work: *mut Work) {
    // SAFETY: as above.
    unsafe { wait(work.cast(), Wait::Grid) }
}

unsafe extern "C" fn wait_to_gather(work: *mut Work, value: u64, present: *mut u64) -> *const u64 {
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

unsafe extern "C" fn wait_to_gather_of(
    work: *mut Work,
    value: u64,
    lanes: u32,
    present: *mut u64,
) -> *const u64 {
    let item = work.cast::<Item>();
    // SAFETY: as above; `present` is a local of the kernel.
    unsafe {
        if (*item).is_whole {
            return (runtime::CALLS.gather)(work, value, present);
        }
        (*item).value = value;
        wait(item, Wait::GatherOf(lanes));
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
    // SAFETY: the item and its fiber's yielder live as long as the fiber runs. A debugger reads the
    // code of the wait.
    unsafe {
        (&raw mut (*item).wait).write_volatile(WaitCode::from(wait));
        (*(*item).yielder).suspend(wait);
        (&raw mut (*item).wait).write_volatile(WaitCode::Nothing);
    }
    guard.resume(suspended);
}

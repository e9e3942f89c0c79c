//! A scalar interpreter: each item runs alone until it waits for its group or its sub-group.
//!
//! It also judges kernels: a kernel with a data race, with a barrier that not all items reach, or
//! with a read of undefined shared memory has no expected result.

use super::ast::{Argument, Arguments, Id, Kernel, OUTPUTS, Type};
use super::lower::{Slot, Step, Steps, lower};
use super::operations::{binary, cast, combined, compare, exchange, unary};
use super::shared_memory::SharedMemory;

/// Contents of the output before a launch.
pub(super) const UNWRITTEN: u32 = 0xA5A5_5A5A;
/// Contents of the wide output before a launch.
pub(super) const WIDE_UNWRITTEN: u64 = 0xA5A5_5A5A_0FF0_F00F;

/// Number of steps of all items after which a kernel counts as endless.
const MOST_STEPS: u64 = 4_000_000;
pub(super) const LANES: usize = 32;

/// The results of a launch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Output {
    /// Elements of 4 bytes.
    pub out: Vec<u32>,
    /// Elements of 8 bytes.
    pub wide: Vec<u64>,
}

/// Returns the results of a kernel's launch.
///
/// # Errors
/// The reason why the kernel has no defined result, or too long a run.
pub(super) fn interpret(kernel: &Kernel, lanes: usize) -> Result<Output, String> {
    let steps = lower(kernel)?;
    let count = kernel.total() * OUTPUTS as usize;
    let mut output = Output { out: vec![UNWRITTEN; count], wide: vec![WIDE_UNWRITTEN; count] };
    let mut left = MOST_STEPS;
    let [width, height, depth] = kernel.groups;
    for z in 0..depth {
        for y in 0..height {
            for x in 0..width {
                let mut group = Group::new(kernel, &steps, [x, y, z], &mut output, &mut left);
                group.lanes = lanes;
                group.run()?;
            }
        }
    }
    Ok(output)
}

/// A running group.
struct Group<'a> {
    kernel: &'a Kernel,
    steps: &'a Steps,
    group: [u32; 3],
    items: Vec<Item>,
    /// Items in a sub-group.
    lanes: usize,
    shared: SharedMemory,
    output: &'a mut Output,
    left: &'a mut u64,
}

struct Item {
    index: u32,
    slots: Vec<u64>,
    /// The next step, or the step at which the item waits.
    at: usize,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Ready,
    AtBarrier,
    AtExchange,
    Done,
}

impl<'a> Group<'a> {
    fn new(
        kernel: &'a Kernel,
        steps: &'a Steps,
        group: [u32; 3],
        output: &'a mut Output,
        left: &'a mut u64,
    ) -> Group<'a> {
        let slots = vec![0; steps.slots as usize];
        let item = |index| Item { index, slots: slots.clone(), at: 0, state: State::Ready };
        let items = (0..kernel.volume()).map(item).collect();
        let shared = SharedMemory::new(kernel);
        Group { kernel, steps, group, items, lanes: LANES, shared, output, left }
    }

    fn run(&mut self) -> Result<(), String> {
        loop {
            for index in 0..self.items.len() {
                if self.items[index].state == State::Ready {
                    self.run_item(index)?;
                }
            }
            if self.items.iter().all(|item| item.state == State::Done) {
                return Ok(());
            }
            if !self.pass_barrier() && !self.exchange_all() {
                return Err("items wait for each other at different places".to_owned());
            }
        }
    }

    /// Releases the items if all wait at the same barrier.
    fn pass_barrier(&mut self) -> bool {
        let at = self.items[0].at;
        if self.items.iter().any(|item| item.state != State::AtBarrier || item.at != at) {
            return false;
        }
        self.items.iter_mut().for_each(Item::proceed);
        self.shared.begin_phase();
        true
    }

    /// Exchanges values in each sub-group whose items wait for that at the same place. Returns
    /// `false` without such a sub-group.
    fn exchange_all(&mut self) -> bool {
        let mut any = false;
        for items in self.items.chunks_mut(self.lanes) {
            let Some(first) = items.iter().find(|item| item.state != State::Done) else { continue };
            let (at, state) = (first.at, State::AtExchange);
            let is_here = |item: &Item| item.state == state && item.at == at;
            if !items.iter().all(|item| is_here(item) || item.state == State::Done) {
                continue;
            }
            let Step::Exchange { result, subgroup, ty, value, other } = self.steps.steps[at] else {
                unreachable!("items exchange at such steps");
            };
            let mut lanes = vec![None; self.lanes];
            for (lane, item) in lanes.iter_mut().zip(&*items) {
                *lane = (item.state == state).then(|| item.get(value));
            }
            for (lane, item) in items.iter_mut().enumerate().filter(|(_, item)| is_here(item)) {
                let result_here = exchange(subgroup, ty, &lanes, lane, item.get(other));
                item.set(result, result_here);
                item.proceed();
            }
            any = true;
        }
        any
    }

    /// Runs an item until it waits or ends.
    fn run_item(&mut self, index: usize) -> Result<(), String> {
        loop {
            *self.left = self.left.checked_sub(1).ok_or("the kernel takes too many steps")?;
            let item = &mut self.items[index];
            match self.steps.steps[item.at] {
                Step::Jump(target) => {
                    item.at = target;
                    continue;
                }
                Step::JumpIfZero(condition, target) => {
                    item.at = if item.get(condition) == 0 { target } else { item.at + 1 };
                    continue;
                }
                Step::Barrier => item.state = State::AtBarrier,
                Step::Exchange { .. } => item.state = State::AtExchange,
                Step::End => item.state = State::Done,
                step => self.step(index, step)?,
            }
            if self.items[index].state != State::Ready {
                return Ok(());
            }
            self.items[index].at += 1;
        }
    }

    /// Executes a step without control flow.
    fn step(&mut self, index: usize, step: Step) -> Result<(), String> {
        let item = &mut self.items[index];
        let number = item.index;
        match step {
            Step::Constant(result, bits) => item.set(result, bits),
            Step::Copy(result, from) => item.set(result, item.get(from)),
            Step::Id(result, id) => {
                let (group, lanes) = (self.group, self.lanes as u32);
                item.set(result, identify(self.kernel, group, number, lanes, id));
            }
            Step::Argument(result, argument) => {
                item.set(result, bits(&self.kernel.arguments, argument));
            }
            Step::Unary(result, how, ty, operand) => {
                item.set(result, unary(how, ty, item.get(operand)))
            }
            Step::Binary(result, how, ty, left, right) => {
                item.set(result, binary(how, ty, item.get(left), item.get(right)));
            }
            Step::Modulo(result, left, right) => {
                let value = item.get(left).checked_rem(item.get(right));
                item.set(result, value.ok_or("a division by zero")?);
            }
            Step::Compare(result, how, ty, left, right) => {
                item.set(result, compare(how, ty, item.get(left), item.get(right)).into());
            }
            Step::Cast(result, to, from, operand) => {
                item.set(result, cast(to, from, item.get(operand)))
            }
            Step::Element { result, array, length, index } => {
                item.set(result, u64::from(array) + item.get(index) % u64::from(length));
            }
            Step::Load(result, address) => item.set(result, item.get(item.get(address) as Slot)),
            Step::Store(address, value) => item.set(item.get(address) as Slot, item.get(value)),
            Step::LoadShared(result, array, at) => {
                let value = self.shared.load(array, item.get(at), number)?;
                item.set(result, value);
            }
            Step::StoreShared { array, index, value } => {
                self.shared.store(array, item.get(index), number, item.get(value))?;
            }
            Step::Atomic { combine, array, index, value } => {
                let ty = self.kernel.shared[array].ty;
                let next = |old| combined(combine, ty, old, item.get(value));
                self.shared.update(array, item.get(index), combine, next)?;
            }
            Step::LoadInput(result, at) => {
                let input = &self.kernel.arguments.input;
                item.set(result, input[item.get(at) as usize % input.len()].into());
            }
            Step::LoadOutput(..) | Step::StoreOutput { .. } => self.access_output(index, step),
            Step::Jump(_)
            | Step::JumpIfZero(..)
            | Step::Barrier
            | Step::Exchange { .. }
            | Step::End => {
                unreachable!("the caller handles control flow")
            }
        }
        Ok(())
    }

    fn access_output(&mut self, index: usize, step: Step) {
        let item = &mut self.items[index];
        let mine = identify(self.kernel, self.group, item.index, LANES as u32, Id::GroupIndex)
            * u64::from(self.kernel.volume())
            + u64::from(item.index);
        let at = |slot: u32| mine as usize * OUTPUTS as usize + slot as usize;
        match step {
            Step::LoadOutput(result, Type::U64, slot) => {
                item.set(result, self.output.wide[at(slot)])
            }
            Step::LoadOutput(result, _, slot) => item.set(result, self.output.out[at(slot)].into()),
            Step::StoreOutput { ty: Type::U64, slot, value } => {
                self.output.wide[at(slot)] = item.get(value);
            }
            Step::StoreOutput { slot, value, .. } => {
                self.output.out[at(slot)] = item.get(value) as u32;
            }
            _ => unreachable!("the caller looked"),
        }
    }
}

impl Item {
    fn get(&self, slot: Slot) -> u64 {
        self.slots[slot as usize]
    }

    fn set(&mut self, slot: Slot, value: u64) {
        self.slots[slot as usize] = value;
    }

    /// Ends the item's wait.
    fn proceed(&mut self) {
        (self.state, self.at) = (State::Ready, self.at + 1);
    }
}

fn identify(kernel: &Kernel, group: [u32; 3], index: u32, lanes: u32, id: Id) -> u64 {
    let [width, height, _] = kernel.items;
    let item = [index % width, index / width % height, index / width / height];
    let small = match id {
        Id::Item(d) => item[d as usize],
        Id::Group(d) => group[d as usize],
        Id::GroupItems(d) => kernel.items[d as usize],
        Id::GroupCount(d) => kernel.groups[d as usize],
        Id::Global(d) => {
            let [group, items] = [group, kernel.items].map(|of| u64::from(of[d as usize]));
            return group * items + u64::from(item[d as usize]);
        }
        Id::ItemIndex => index,
        Id::GroupIndex => {
            let [x, y, z] = group.map(u64::from);
            return (z * u64::from(kernel.groups[1]) + y) * u64::from(kernel.groups[0]) + x;
        }
        Id::Items => kernel.volume(),
        Id::Lane => index % lanes,
        Id::Subgroup => index / lanes,
        Id::SubgroupCount => kernel.volume().div_ceil(lanes),
        Id::SubgroupWidth => lanes,
    };
    small.into()
}

fn bits(arguments: &Arguments, argument: Argument) -> u64 {
    match argument {
        Argument::N => arguments.input.len() as u64,
        Argument::A => arguments.a.into(),
        Argument::B => u64::from(arguments.b as u32),
        Argument::C => arguments.c,
        Argument::F => arguments.f.to_bits().into(),
    }
}

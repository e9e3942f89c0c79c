//! A checked launch.

use super::found::Found;
use super::group::{Block, Group, Mode, SUBGROUP_ITEMS};
use super::kept::Kept;
use super::kinds::Kinds;
use super::memory::Checker;
use super::order::Order;
use super::region::{Kind, Record, Region};
use super::report::{Reports, What, at};
use super::site::Site;
use super::state::State;
use crate::guard::thread_stack;
use crate::kernel::abi::Work;
use longshore_plugin_api::Error;
use parking_lot::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::ops::Range;
use std::ptr::{NonNull, null, null_mut};
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};

/// The running checked launch, of which there is at most one in the process.
static CURRENT: AtomicPtr<Session> = AtomicPtr::new(null_mut());
/// Held by a checked launch: the next segment.
static LAUNCHES: Mutex<u32> = Mutex::new(1);
/// Number of segments after which the numbers start again, with the next launch.
const MOST_SEGMENTS: u32 = 3 << 30;

/// A checked launch, on the thread that runs it.
pub(crate) struct Session {
    pub(crate) checker: Arc<Checker>,
    pub(crate) kinds: Kinds,
    kernel: String,
    groups: [u32; 3],
    pub(crate) dynamic_bytes: u64,
    /// Segments below this one are of earlier launches, or before a barrier of the grid.
    pub(crate) first: u32,
    pub(crate) next: u32,
    pub(crate) blocks: Vec<Block>,
    pub(crate) group: Box<Group>,
    /// Groups that wait for others, by number.
    parked: HashMap<u64, Box<Group>>,
    /// The work of the current item or group.
    pub(crate) work: *const Work,
    /// The stack of the current item or group.
    pub(crate) stack: Range<u64>,
    pub(crate) order: Order,
    reports: Reports,
    /// Regions that sites know.
    pub(crate) held: HashMap<*const Region, Arc<Region>>,
    /// Regions of shared memory of earlier groups.
    spare: Vec<Arc<Region>>,
    /// The current segment and its neighbours, for inlined checks.
    pub(crate) state: Box<State>,
    /// Whether `state` has the segment of each item.
    pub(crate) is_exact: bool,
    /// Sites whose inlined checks are in use.
    pub(crate) sites: Vec<*mut Site>,
    /// Ranges of accesses, during their check.
    pub(crate) found: Vec<Found>,
    pub(crate) kept: Box<Kept>,
    /// Number of reports and copies so far.
    pub(crate) changes: u64,
    guard: Option<MutexGuard<'static, u32>>,
}

/// The owner of a running launch. Checked code changes the session as well, so references to it
/// are short.
pub(crate) struct RunningSession(NonNull<Session>);

impl RunningSession {
    /// Begins a checked launch. Waits for the current one.
    pub(crate) fn begin(
        checker: &Arc<Checker>,
        kernel: &str,
        groups: [u32; 3],
        dynamic_bytes: u64,
    ) -> RunningSession {
        let session = Box::into_raw(Session::new(checker, kernel, groups, dynamic_bytes));
        // The regions that sites know from earlier launches may be gone.
        checker.change();
        CURRENT.store(session, Ordering::Release);
        RunningSession(NonNull::new(session).expect("a box is not null"))
    }

    /// Calls `body`, which runs no checked code.
    pub(crate) fn with<T>(&self, body: impl FnOnce(&mut Session) -> T) -> T {
        // SAFETY: the session lives until this is dropped, and only this thread uses it.
        body(unsafe { &mut *self.0.as_ptr() })
    }

    /// Ends the launch, and returns the error that lists its reports.
    pub(crate) fn end(self) -> Option<Error> {
        self.with(|session| {
            let reports = std::mem::take(&mut session.reports);
            reports.into_error(&session.kernel)
        })
    }
}

impl Drop for RunningSession {
    fn drop(&mut self) {
        CURRENT.store(null_mut(), Ordering::Release);
        // SAFETY: `begin` made the box, and nothing uses the session any more.
        let mut session = unsafe { Box::from_raw(self.0.as_ptr()) };
        for site in session.sites.drain(..) {
            // SAFETY: the launch keeps its image loaded, and nothing runs its code now.
            unsafe { (*site).face = null() };
        }
        let next = session.next;
        if let Some(guard) = &mut session.guard {
            **guard = next;
        }
    }
}

impl Session {
    fn new(
        checker: &Arc<Checker>,
        kernel: &str,
        groups: [u32; 3],
        dynamic_bytes: u64,
    ) -> Box<Session> {
        let mut guard = LAUNCHES.lock();
        if *guard > MOST_SEGMENTS {
            checker.forget_accesses();
            *guard = 1;
        }
        let first = *guard;
        Box::new(Session {
            checker: Arc::clone(checker),
            kinds: checker.kinds,
            kernel: kernel.to_owned(),
            groups,
            dynamic_bytes,
            first,
            next: first,
            blocks: Vec::new(),
            group: Box::new(Group::new(0, [1; 3], Mode::Loop)),
            parked: HashMap::new(),
            work: std::ptr::null(),
            stack: 0..0,
            order: Order::default(),
            reports: Reports::default(),
            held: HashMap::new(),
            spare: Vec::new(),
            state: Box::new(State::NONE),
            is_exact: false,
            sites: Vec::new(),
            found: Vec::new(),
            kept: Box::new(Kept::new()),
            changes: 0,
            guard: Some(guard),
        })
    }

    /// Returns the running launch; `None` if none is checked.
    ///
    /// # Safety
    /// The caller runs on the launch's thread, and keeps no other reference to it.
    #[inline]
    pub(crate) unsafe fn current<'a>() -> Option<&'a mut Session> {
        // SAFETY: the session stays in place until its end resets the pointer; the caller vouches
        // for the rest.
        unsafe { CURRENT.load(Ordering::Relaxed).as_mut() }
    }

    /// Returns the launch that runs the calling code; `None` if it is not checked. Another host of
    /// the process may run the same image without checks, on another thread.
    ///
    /// # Safety
    /// The caller keeps no other reference to the session.
    #[inline]
    pub(crate) unsafe fn running<'a>() -> Option<&'a mut Session> {
        let frame = 0_u8;
        let here = std::hint::black_box(&raw const frame) as u64;
        // SAFETY: as in `current`. Only the launch's thread runs on this stack.
        unsafe {
            let session = CURRENT.load(Ordering::Relaxed);
            if session.is_null() || !(*session).stack.contains(&here) {
                return None;
            }
            session.as_mut()
        }
    }

    // ---- Groups and items ----

    /// Begins a group, whose code gets `work`. The former group is over.
    pub(crate) fn begin_group(&mut self, number: u64, work: &Work, mode: Mode) {
        self.stack = thread_stack::range();
        self.spare.append(&mut self.group.shared);
        self.group.restart(number, work.items, mode);
        self.work = work;
        self.is_exact = matches!(mode, Mode::Fibers | Mode::ItemLoops);
        self.new_epoch(0);
        self.group.first = self.group.base;
        self.update();
        if work.dynamic_bytes > 0 {
            self.share(work.dynamic as u64, work.dynamic_bytes, Kind::DynamicShared);
        }
    }

    /// Begins or resumes a group of a launch whose groups take turns.
    pub(crate) fn turn_to_group(&mut self, number: u64, work: &Work, mode: Mode) {
        let next = self.parked.remove(&number);
        let is_new = next.is_none();
        let next = next.unwrap_or_else(|| Box::new(Group::new(number, work.items, mode)));
        let former = std::mem::replace(&mut self.group, next);
        if !former.shared.is_empty() || former.base > 0 {
            self.parked.insert(former.number, former);
        }
        self.work = work;
        let epoch = self.group.epoch + 1;
        self.new_epoch(epoch);
        (self.group.first, self.group.epoch_first) = (0, 0);
        self.update();
        if is_new && work.dynamic_bytes > 0 {
            self.share(work.dynamic as u64, work.dynamic_bytes, Kind::DynamicShared);
        }
    }

    /// Orders all that the groups did before all that they will do.
    pub(crate) fn pass_grid_barrier(&mut self) {
        self.first = self.next;
        self.update();
    }

    /// Orders all that the items did before all that they will do.
    pub(crate) fn pass_barrier(&mut self) {
        let is_alone = self.group.epoch_first != 0;
        let epoch = self.group.epoch + 1;
        self.new_epoch(epoch);
        if !is_alone {
            self.group.epoch_first = 0;
        }
        if !self.group.acquired_items.is_empty() {
            self.group.acquired_items.clear();
        }
        self.update();
    }

    fn new_epoch(&mut self, epoch: u32) {
        let group = &mut *self.group;
        // One segment more is that of the group's own code.
        let base = self.next;
        self.next = self.next.saturating_add(group.count + 1);
        self.blocks.push(Block { base, group: group.number, first_item: 0, epoch });
        group.begin_epoch(epoch, base);
        self.order.end_loop();
        (self.state.base, self.state.segment) = (base, base);
    }

    /// Orders all that some items of a sub-group did before all that they will do. `lanes` has a
    /// bit for each of them.
    pub(crate) fn pass_exchange(&mut self, subgroup: usize, lanes: u32) {
        let group = &mut *self.group;
        let (base, first) = (self.next, subgroup * SUBGROUP_ITEMS as usize);
        let end = (first + SUBGROUP_ITEMS as usize).min(group.count as usize);
        self.next = self.next.saturating_add((end - first) as u32);
        let (number, epoch) = (group.number, group.epoch);
        self.blocks.push(Block { base, group: number, first_item: first as u32, epoch });
        group.exchange(first..end, lanes, base);
        self.update();
    }

    /// Continues the run of an item with a stack of its own.
    pub(crate) fn turn_to_item(&mut self, item: usize, work: &Work, stack: Range<u64>) {
        (self.work, self.stack) = (work, stack);
        let group = &mut *self.group;
        if group.mode == Mode::Fibers {
            (group.current, group.segment) = (item as u32, group.segments[item]);
            self.state.segment = group.segment;
        }
    }

    /// Notes that the next item of a loop begins.
    #[inline]
    pub(crate) fn begin_item(&mut self) {
        self.is_exact = true;
        self.state.segment = self.segment();
    }

    /// Brings [`Session::state`] up to date.
    pub(crate) fn update(&mut self) {
        let segment = self.segment();
        let group = &*self.group;
        let is_alone = group.epoch_first != 0;
        *self.state = State {
            segment,
            first: self.first,
            group_first: group.first,
            span: group.epoch_first.saturating_sub(group.first),
            older_end: 0,
            two_from: if is_alone && !group.has_exchanges { group.epoch_first } else { u32::MAX },
            base: group.base,
        };
        for region in &group.shared {
            // Only this group uses the memory.
            region.face.past_end.set(group.epoch_first.max(region.face.first.get()));
        }
        self.update_order();
    }

    /// Brings the part of [`Session::state`] up to date that atomic operations change.
    pub(crate) fn update_order(&mut self) {
        let is_alone = self.group.epoch_first != 0;
        self.state.older_end = match is_alone && !self.order.is_used() {
            true => self.group.first,
            false => 0,
        };
    }

    /// Returns whether a second read of a word by another item may be kept beside the first.
    #[inline]
    pub(crate) fn keeps_two_reads(&self) -> bool {
        self.group.epoch_first != 0 && !self.group.has_exchanges && !self.order.is_used()
    }

    /// Enters or leaves the loop over items in a group's code.
    pub(crate) fn set_in_loop(&mut self, is_in_loop: bool) {
        self.group.is_in_loop = is_in_loop;
        self.state.segment = self.segment();
    }

    /// Enters memory that the items of the group share, without contents.
    pub(crate) fn share(&mut self, start: u64, bytes: u64, kind: Kind) {
        let known = |region: &Arc<Region>| region.start == start && region.bytes == bytes;
        if self.group.shared.iter().any(known) {
            return;
        }
        let spare = self.spare.iter().position(|region| known(region) && region.kind == kind);
        let region = match spare.map(|index| self.spare.swap_remove(index)) {
            Some(region) => {
                region.forget();
                region
            }
            None => {
                // The headers' own code, whose plain accesses are not checked, writes these.
                let is_of_header =
                    matches!(&kind, Kind::Shared(name) if name.starts_with("longshore_"));
                let is_tracked = self.kinds.initialized && !is_of_header;
                Arc::new(Region::new(start, bytes, kind, is_tracked))
            }
        };
        region.face.first.set(self.group.base);
        region.face.past_end.set(self.group.base);
        self.group.shared.push(region);
    }

    /// Returns the coordinates of the running item; `None` in the group's own code.
    pub(crate) fn running_item(&self) -> Option<[u32; 3]> {
        let item = self.item();
        (item < self.group.count).then(|| self.group.coordinates(item))
    }

    /// Returns the current item's segment.
    #[inline]
    pub(crate) fn segment(&self) -> u32 {
        if self.group.mode == Mode::ItemLoops {
            return self.state.segment;
        }
        // SAFETY: the work is that of the running item or group.
        self.group.segment(unsafe { &*self.work })
    }

    /// Returns the current item's index.
    #[inline]
    pub(crate) fn item(&self) -> u32 {
        if self.group.mode == Mode::ItemLoops {
            let item = self.state.segment - self.group.base;
            return if item <= self.group.count { item } else { self.item_of_further_segment() };
        }
        // SAFETY: as above.
        self.group.item(unsafe { &*self.work })
    }

    #[cold]
    fn item_of_further_segment(&self) -> u32 {
        self.block_of(self.state.segment).1
    }

    /// Returns whether a record is a read by a group that is over, so that any write by the current
    /// or a later group races with it.
    #[inline]
    pub(crate) fn is_read_by_older_group(&self, read: Record, first: u32) -> bool {
        let group = &*self.group;
        group.epoch_first != 0
            && read.segment() >= first
            && read.segment() < group.first
            && read.bytes() == 15
            && !read.is_atomic()
            && !self.order.is_used()
    }

    /// Returns the block of a segment of this launch, and the index of its item.
    pub(crate) fn block_of(&self, segment: u32) -> (Block, u32) {
        if let Some(last) = self.blocks.last().filter(|last| last.base <= segment) {
            return (*last, last.first_item + (segment - last.base));
        }
        let after = self.blocks.partition_point(|block| block.base <= segment);
        let block = self.blocks[after.saturating_sub(1)];
        (block, block.first_item + (segment - block.base))
    }

    // ---- Reports ----

    /// Adds an error at one or two places.
    pub(crate) fn report(
        &mut self,
        what: What,
        places: [u32; 2],
        text: impl FnOnce(&Session) -> String,
    ) {
        self.changes += 1;
        let mut reports = std::mem::take(&mut self.reports);
        reports.add(what, places, || text(self));
        self.reports = reports;
    }

    /// Returns the current item: "item (1, 0, 0) of group (0, 0, 0)".
    pub(crate) fn who(&self) -> String {
        self.named(self.group.number, self.item())
    }

    /// Returns the name of an item.
    pub(crate) fn named(&self, group: u64, item: u32) -> String {
        let (width, height) = (u64::from(self.groups[0]), u64::from(self.groups[1]));
        let (x, rest) = (group % width, group / width);
        let group = format!("group ({x}, {}, {})", rest % height, rest / height);
        if item >= self.group.count {
            return format!("{group}, outside of LONGSHORE_ITEMS,");
        }
        let [x, y, z] = self.group.coordinates(item);
        format!("item ({x}, {y}, {z}) of {group}")
    }

    /// Reports items that wait at different places. `message` has two of them.
    pub(crate) fn report_stuck(&mut self, items: [u32; 2], message: &str) {
        let places = items.map(|item| self.group.waits.get(item as usize).copied().unwrap_or(0));
        self.report(What::Barrier, places, |session| {
            let mut text = message.to_owned();
            for (item, place) in items.into_iter().zip(places) {
                let [x, y, z] = session.group.coordinates(item);
                let place = match place {
                    0 => "has not waited".to_owned(),
                    place => format!("has waited {} last", at(place)),
                };
                text.push_str(&format!("; item ({x}, {y}, {z}) {place}"));
            }
            text
        });
    }

    /// Reports items of a range that wait at different lines.
    pub(crate) fn compare_waits(&mut self, items: Range<usize>, is_active: impl Fn(usize) -> bool) {
        if !self.kinds.barriers || self.group.mode != Mode::Fibers {
            return;
        }
        let waits = &self.group.waits;
        let mut active = items.filter(|item| is_active(*item));
        let Some(first) = active.next() else { return };
        let Some(other) = active.find(|item| waits[*item] != waits[first]) else { return };
        let message = format!(
            "{} and other items wait at different lines, expected the same call for all",
            self.named(self.group.number, first as u32)
        );
        self.report_stuck([first as u32, other as u32], &message);
    }
}

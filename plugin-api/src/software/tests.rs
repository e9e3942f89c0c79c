use super::*;
use crate::{
    Acceptance, Device, DeviceInfo, ImageBytes, InfoValue, KernelAttributes, Loading, MemoryKind,
    Module, Platform, PlatformInfo, SymbolKind,
};

/// A backend of queues and events alone, without a platform, device or module.
enum QueueBackend {}

impl Backend for QueueBackend {
    type Platform = QueueBackend;
    type Device = QueueBackend;
    type Module = QueueBackend;
    type Kernel = QueueBackend;
    type Queue = SoftwareQueue;
    type Event = SoftwareEvent;
}

impl SoftwareBackend for QueueBackend {
    fn launch(kernel: &QueueBackend, _: &LaunchShape, _: Arguments<'_>) -> Result<Work> {
        match *kernel {}
    }
    fn copy(_: &CopyRequest<'_, QueueBackend>) -> Result<Work> {
        Ok(Box::new(|| Ok(())))
    }
    fn fill(_: Span, _: &[u8]) -> Result<Work> {
        Ok(Box::new(|| Ok(())))
    }
}

impl Platform<QueueBackend> for QueueBackend {
    fn info(&self, _: PlatformInfo) -> Result<String> {
        match *self {}
    }
    fn device_count(&self) -> u32 {
        match *self {}
    }
    fn device_info(&self, _: u32, _: DeviceInfo) -> Result<InfoValue> {
        match *self {}
    }
    fn open(&self, _: u32) -> Result<QueueBackend> {
        match *self {}
    }
}

impl Device<QueueBackend> for QueueBackend {
    fn accepts(&self, _: &[u8]) -> Result<Acceptance> {
        match *self {}
    }
    fn allocate(&self, _: MemoryKind, _: u64, _: u64) -> Result<u64> {
        match *self {}
    }
    fn free(&self, _: MemoryKind, _: u64) -> Result<()> {
        match *self {}
    }
    fn load(&self, _: ImageBytes, _: Loading) -> Result<QueueBackend> {
        match *self {}
    }
    fn create_queue(&self) -> Result<SoftwareQueue> {
        match *self {}
    }
    fn create_event(&self, _: bool) -> Result<SoftwareEvent> {
        match *self {}
    }
}

impl Module<QueueBackend> for QueueBackend {
    fn kernel(&self, _: &str) -> Result<(Arc<QueueBackend>, KernelAttributes)> {
        match *self {}
    }
    fn symbols(&self) -> Result<Vec<(String, SymbolKind)>> {
        match *self {}
    }
}

type BackendQueue = <QueueBackend as Backend>::Queue;

fn wait(queue: &BackendQueue) -> Result<()> {
    Queue::<QueueBackend>::synchronize(queue)
}

fn record(queue: &BackendQueue, event: &SoftwareEvent) {
    Queue::<QueueBackend>::record_event(queue, event).unwrap();
}

fn wait_for(event: &SoftwareEvent) -> Result<()> {
    Event::<QueueBackend>::synchronize(event)
}

fn elapsed_ns(start: &SoftwareEvent, end: &SoftwareEvent) -> Result<i64> {
    Event::<QueueBackend>::elapsed_ns(start, end)
}

fn failing(message: &'static str) -> Work {
    Box::new(move || Err(Error::new(ErrorCode::BackendFailure, message)))
}

fn doing(work: impl FnOnce() + Send + 'static) -> Work {
    Box::new(|| {
        work();
        Ok(())
    })
}

fn code(result: Result<()>) -> ErrorCode {
    result.unwrap_err().code()
}

#[test]
fn the_first_error_is_reported_once_and_later_work_is_done() {
    let queue = SoftwareQueue::new().unwrap();
    queue.push(false, failing("one")).unwrap();
    queue.push(false, failing("two")).unwrap();
    let (done, reported) = channel();
    queue.push(false, doing(move || done.send(7).unwrap())).unwrap();
    assert_eq!(wait(&queue).unwrap_err().message(), "one");
    assert_eq!(reported.try_recv(), Ok(7));
    wait(&queue).unwrap();
    assert_eq!(code(queue.push(true, failing("three"))), ErrorCode::BackendFailure);
    wait(&queue).unwrap();
}

#[test]
fn an_event_reports_a_failure_each_time_and_passes_it_to_queues_that_wait() {
    let [failed, other] = [(); 2].map(|()| SoftwareQueue::new().unwrap());
    let event = SoftwareEvent::new(0, false);
    failed.push(false, failing("before the event")).unwrap();
    record(&failed, &event);
    assert_eq!(code(wait_for(&event)), ErrorCode::BackendFailure);
    assert_eq!(code(wait_for(&event)), ErrorCode::BackendFailure);
    Queue::<QueueBackend>::wait_event(&other, &event).unwrap();
    assert_eq!(wait(&other).unwrap_err().message(), "before the event");
    assert_eq!(code(wait(&failed)), ErrorCode::BackendFailure);
    record(&failed, &event);
    wait_for(&event).unwrap();
}

#[test]
fn a_panic_is_an_error_of_the_queue() {
    let queue = SoftwareQueue::new().unwrap();
    assert_eq!(code(queue.push(true, Box::new(|| panic!("a mistake")))), ErrorCode::Unknown);
    wait(&queue).unwrap();
}

#[test]
fn work_cannot_wait_for_its_own_queue() {
    let queue = Arc::new(SoftwareQueue::new().unwrap());
    let own = Arc::clone(&queue);
    let (pass, passed) = channel();
    let work = move || {
        let waits = own.push(true, failing("never queued"));
        pass.send((code(waits), code(wait(&own)))).unwrap();
        Ok(())
    };
    queue.push(false, Box::new(work)).unwrap();
    assert_eq!(passed.recv(), Ok((ErrorCode::Unsupported, ErrorCode::Unsupported)));
    wait(&queue).unwrap();
}

#[test]
fn a_dropped_queue_runs_its_queued_work() {
    let queue = SoftwareQueue::new().unwrap();
    let event = SoftwareEvent::new(0, false);
    let (open, gate) = channel::<()>();
    queue.push(false, doing(move || gate.recv().unwrap())).unwrap();
    record(&queue, &event);
    assert!(!Queue::<QueueBackend>::is_idle(&queue).unwrap());
    drop(queue);
    assert!(!Event::<QueueBackend>::is_complete(&event).unwrap());
    open.send(()).unwrap();
    wait_for(&event).unwrap();
}

#[test]
fn times_are_between_reached_events_of_one_device_with_timing() {
    let queue = SoftwareQueue::new().unwrap();
    let [start, end, untimed] = [true, true, false].map(|timing| SoftwareEvent::new(0, timing));
    let other = SoftwareEvent::new(1, true);
    let refused = |start: &_, end: &_| elapsed_ns(start, end).unwrap_err().code();
    assert_eq!(refused(&start, &end), ErrorCode::InvalidEvent);
    for event in [&start, &end, &untimed, &other] {
        record(&queue, event);
    }
    wait(&queue).unwrap();
    assert!(elapsed_ns(&start, &end).unwrap() > 0);
    assert_eq!(elapsed_ns(&end, &start), elapsed_ns(&start, &end).map(|ns| -ns));
    assert_eq!(refused(&start, &untimed), ErrorCode::InvalidArgument);
    assert_eq!(refused(&start, &other), ErrorCode::InvalidDevice);
}

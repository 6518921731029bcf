//! Tests of a worker over a datapath without room for a connection's segments.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use braid_transport::{Access, AddrPair, EndCause, QpError, Regions, Status};
use braid_wire::{QpId, RailId, Time};

use crate::config::EngineConfig;
use crate::datapath::{
    Arrived, Caps, Datapath, DatapathSetup, JoinError, Losses, Owner, Partner, PathInfo, Reach,
    Room, SegmentRun, Sent, Taken, Via,
};
use crate::datapaths::Datapath as Named;
use crate::event_fd::sleep_on;
use crate::{
    AsyncEvent, CompletionQueue, Engine, Listener, MemFabric, MemoryRegion, Progress, QpOptions,
    QpState, QueuePair, RemoteRegion, wr,
};

const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes of a WRITE of several segments.
const LEN: usize = 256 << 10;

/// A datapath that is full for one connection after each of its segments while `shut` is set.
struct Full {
    inner: Box<dyn Datapath>,
    id: QpId,
    shut: Arc<AtomicBool>,
    /// Whether it has reported that it is full and not yet that it has room.
    is_full: bool,
    /// Whether it reports a lost device, once.
    is_gone: bool,
    /// Empty looks before it hands out arrivals again.
    empty_looks: Arc<AtomicUsize>,
}

macro_rules! as_the_other {
    ($($name:ident($($arg:ident: $of:ty),*) $(-> $result:ty)?;)*) => {
        $(fn $name(&self $(, $arg: $of)*) $(-> $result)? {
            self.inner.$name($($arg),*)
        })*
    };
    (mut $($name:ident($($arg:ident: $of:ty),*) $(-> $result:ty)?;)*) => {
        $(fn $name(&mut self $(, $arg: $of)*) $(-> $result)? {
            self.inner.$name($($arg),*)
        })*
    };
}

impl DatapathSetup for Full {
    as_the_other! {
        caps() -> Caps;
        local_addr() -> SocketAddr;
        pair(to: SocketAddr) -> AddrPair;
    }

    as_the_other! { mut
        open(owner: Owner) -> Result<Vec<u8>, JoinError>;
        join(id: QpId, partner: Partner, routing: &[u8]) -> Result<u32, JoinError>;
        retire(id: QpId);
        close(id: QpId);
        forget_memory();
    }
}

impl PathInfo for Full {
    as_the_other! {
        max_datagram(to: AddrPair) -> io::Result<usize>;
        reach(to: AddrPair) -> Option<Reach>;
        losses() -> Losses;
    }

    as_the_other! { mut
        watch(to: AddrPair);
        unwatch(to: AddrPair);
    }
}

impl Datapath for Full {
    as_the_other! {
        readiness() -> Option<Vec<BorrowedFd<'_>>>;
        next_due() -> Option<Instant>;
    }

    as_the_other! { mut
        make_room() -> Room;
        send_packet(id: QpId, to: AddrPair, via: Via, packet: &[u8]);
        send_datagram(to: AddrPair, via: Via, packet: &[u8]);
        send_alone(to: AddrPair, via: Via, packets: &mut Vec<u8>, segment_len: usize);
        flush() -> bool;
        arm() -> bool;
    }

    fn send_segments(&mut self, now: Time, segment: &mut SegmentRun<'_>) -> Sent {
        assert!(!(self.is_full && segment.id == self.id), "it is full");
        let is_full = segment.id == self.id;
        self.is_full |= is_full;
        Sent { is_full, ..self.inner.send_segments(now, segment) }
    }

    fn receive(
        &mut self,
        now: Time,
        regions: &Regions,
        sink: &mut dyn FnMut(Arrived<'_>),
    ) -> io::Result<Taken> {
        if std::mem::take(&mut self.is_gone) {
            sink(Arrived::Failed);
        }
        if self.is_full && !self.shut.load(Ordering::Relaxed) {
            self.is_full = false;
            sink(Arrived::Room(self.id));
        }
        let counted = |left: usize| left.checked_sub(1);
        match self.empty_looks.fetch_update(Ordering::Relaxed, Ordering::Relaxed, counted) {
            Ok(_) => Ok(Taken::default()),
            Err(_) => self.inner.receive(now, regions, sink),
        }
    }
}

/// An engine with memory and two queue pairs.
struct Side {
    engine: Engine,
    cq: CompletionQueue,
    memory: MemoryRegion,
    qps: [QueuePair; 2],
}

impl Side {
    /// An engine, with a second rail if `second` is set.
    fn new(fabric: &MemFabric, second: Option<IpAddr>) -> Self {
        let bind = "127.0.0.1:0".parse().expect("an address");
        let datapath = Named::Mem(fabric.clone());
        let rails = second.into_iter().collect();
        let config = EngineConfig { datapath, bind, rails, ..EngineConfig::default() };
        let engine = Engine::new(config).expect("an engine");
        let (pd, cq) = (engine.alloc_pd(), engine.create_cq(64).expect("a queue"));
        let memory = pd.alloc_mr(LEN, Access::ALL).expect("memory");
        let qps = [(); 2].map(|()| pd.create_qp(QpOptions::new(&cq, &cq)).expect("a queue pair"));
        qps.iter().for_each(|qp| qp.modify(QpState::Init).expect("from RESET"));
        Side { engine, cq, memory, qps }
    }

    /// Wraps the datapath of a rail in one that is full for `id` while `shut` is set.
    fn fill(&self, rail: RailId, id: QpId, shut: &Arc<AtomicBool>) {
        self.replace(rail, |inner| Full {
            inner,
            id,
            shut: shut.clone(),
            is_full: false,
            is_gone: false,
            empty_looks: Arc::default(),
        });
    }

    /// Simulates the loss of the first rail's device.
    fn lose_device(&self) {
        let (id, shut) = (QpId::default(), Arc::default());
        self.replace(RailId::FIRST, |inner| Full {
            inner,
            id,
            shut,
            is_full: false,
            is_gone: true,
            empty_looks: Arc::default(),
        });
    }

    /// Lets the first rail's datapath hand out arrivals after this many empty looks.
    fn delay(&self, empty_looks: &Arc<AtomicUsize>) {
        let (id, shut, empty_looks) = (QpId::default(), Arc::default(), empty_looks.clone());
        let (is_full, is_gone) = (false, false);
        self.replace(RailId::FIRST, |inner| Full {
            inner,
            id,
            shut,
            is_full,
            is_gone,
            empty_looks,
        });
    }

    fn replace(&self, rail: RailId, full: impl FnOnce(Box<dyn Datapath>) -> Full) {
        let mut worker = self.cq.engine().first_worker().control();
        worker.rails.replace(rail, |inner| Box::new(full(inner)));
    }

    fn write(&self, qp: usize, to: &RemoteRegion) {
        let piece = self.memory.slice(..).expect("all of it");
        self.qps[qp].post_send(wr::write(qp as u64, [piece], to.at(0))).expect("there is room");
    }

    /// The queue pair of the next completion within `limit`.
    fn next(&self, limit: Duration) -> Option<u64> {
        let done = self.cq.wait(limit).expect("it does not overrun");
        assert!(done.len() <= 1 && done.iter().all(|done| done.status == Status::Success));
        done.first().map(|done| done.wr_id)
    }
}

fn accept(listener: &Listener, side: &Side) {
    for qp in &side.qps {
        let request = listener.accept(PATIENCE).expect("somebody comes");
        request.accept(qp, &side.memory.remote().to_bytes()).expect("it is accepted");
    }
}

/// Connects both queue pairs of `a` with those of `b`. Returns the memory of `b`.
fn connect(a: &Side, b: &Side) -> RemoteRegion {
    let listener = b.engine.listen(2).expect("nobody else listens");
    thread::scope(|scope| {
        scope.spawn(|| accept(&listener, b));
        let [_, key] = [0, 1].map(|qp| {
            a.qps[qp].connect(b.engine.local_addr(), b"", PATIENCE).expect("it is accepted")
        });
        RemoteRegion::from_bytes(&key).expect("a key")
    })
}

#[test]
fn a_full_connection_waits_for_room_and_delays_no_other() {
    let fabric = MemFabric::new();
    let (a, b) = (Side::new(&fabric, None), Side::new(&fabric, None));
    let remote = connect(&a, &b);
    let shut = Arc::new(AtomicBool::new(true));
    a.fill(RailId::FIRST, a.qps[0].number(), &shut);
    a.write(0, &remote);
    a.write(1, &remote);
    assert_eq!(a.next(PATIENCE), Some(1), "the other goes on");
    assert_eq!(a.next(Duration::from_millis(50)), None, "it waits");
    shut.store(false, Ordering::Relaxed);
    assert_eq!(a.next(PATIENCE), Some(0));
}

/// [`Full`] checks that it gets no segment while it is full.
#[test]
fn no_segment_goes_to_a_rail_without_room_because_another_has_some() {
    let fabric = MemFabric::new();
    let second = |last| Some(IpAddr::from([127, 0, 0, last]));
    let (a, b) = (Side::new(&fabric, second(2)), Side::new(&fabric, second(3)));
    let remote = connect(&a, &b);
    let shut = [true, false].map(|shut| Arc::new(AtomicBool::new(shut)));
    for (rail, shut) in shut.iter().enumerate() {
        a.fill(RailId::new(rail), a.qps[0].number(), shut);
    }
    for _ in 0..20 {
        a.write(0, &remote);
        shut[0].store(true, Ordering::Relaxed);
        thread::sleep(Duration::from_millis(5));
        shut[0].store(false, Ordering::Relaxed);
        assert_eq!(a.next(PATIENCE), Some(0));
    }
}

#[test]
fn an_idle_round_of_a_spinning_thread_looks_twice_for_arrivals() {
    const MANY: usize = 1 << 20;
    let fabric = MemFabric::new();
    let (a, b) = (Side::new(&fabric, None), Side::new(&fabric, None));
    let remote = connect(&a, &b);
    let empty_looks = Arc::new(AtomicUsize::new(MANY));
    b.delay(&empty_looks);
    let mut worker = b.cq.engine().first_worker().control();
    let looks = || MANY - empty_looks.swap(MANY, Ordering::Relaxed);
    // A timer that is due is work.
    let mut idle_looks = |is_wanted: bool| loop {
        looks();
        if !worker.spin(|| is_wanted) {
            return looks();
        }
    };
    assert_eq!(idle_looks(false), 2);
    assert_eq!(idle_looks(true), 1, "another thread waits for the worker");
    b.qps[0].post_recv(wr::recv(5, [])).expect("there is room");
    assert!(worker.spin(|| false));
    assert_eq!(looks(), 1, "the posted receive was work");

    let piece = a.memory.slice(..8).expect("all of it");
    a.qps[0].post_send(wr::write_imm(6, [piece], remote.at(0), 7)).expect("there is room");
    while a.cq.engine().first_worker().control().progress() {}
    let done = (0..100).find_map(|_| {
        empty_looks.store(1, Ordering::Relaxed);
        worker.spin(|| false);
        b.cq.poll_one().expect("it does not overrun")
    });
    assert_eq!(done.map(|done| done.wr_id), Some(5), "the second look takes the message");
}

/// Restricts the calling thread, and those that it starts, to one processor.
fn use_one_processor() {
    // SAFETY: the set is plain data, and the calls read and write no more than its size.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        assert_eq!(libc::sched_getaffinity(0, size_of_val(&set), &raw mut set), 0);
        let first = (0..libc::CPU_SETSIZE as usize).find(|cpu| libc::CPU_ISSET(*cpu, &set));
        libc::CPU_ZERO(&mut set);
        libc::CPU_SET(first.expect("it runs on one"), &mut set);
        assert_eq!(libc::sched_setaffinity(0, size_of_val(&set), &raw const set), 0);
    }
}

/// Time that a poll takes while another thread holds the worker for `held`.
fn poll_while_held(held: Duration) -> Duration {
    let (datapath, progress) = (Named::Mem(MemFabric::new()), Progress::Application);
    let bind = "127.0.0.1:0".parse().expect("an address");
    let config = EngineConfig { datapath, bind, progress, ..EngineConfig::default() };
    let cq = Engine::new(config).expect("an engine").create_cq(1).expect("a queue");
    let barrier = Barrier::new(2);
    thread::scope(|scope| {
        scope.spawn(|| {
            let worker = cq.engine().first_worker().lock_until(Instant::now() + PATIENCE);
            let _worker = worker.expect("it becomes free");
            barrier.wait();
            thread::sleep(held);
        });
        barrier.wait();
        let start = Instant::now();
        assert_eq!(cq.poll_one().expect("it does not overrun"), None);
        start.elapsed()
    })
}

#[test]
fn a_poll_waits_for_the_driver_only_if_both_share_the_only_processor() {
    let held = Duration::from_millis(500);
    if thread::available_parallelism().is_ok_and(|count| count.get() > 1) {
        assert!(poll_while_held(held) < held / 2, "the driver may run");
    }
    thread::spawn(move || {
        use_one_processor();
        assert!(poll_while_held(held) > held / 2, "the driver needs the processor");
    })
    .join()
    .expect("no assertion fails");
}

/// Returns whether a posted receive wakes a sleeping driver, and whether the worker has it at once.
fn post_beside_a_sleeper() -> (bool, bool) {
    let (datapath, progress) = (Named::Mem(MemFabric::new()), Progress::Application);
    let bind = "127.0.0.1:0".parse().expect("an address");
    let config = EngineConfig { datapath, bind, progress, ..EngineConfig::default() };
    let engine = Engine::new(config).expect("an engine");
    let (pd, cq) = (engine.alloc_pd(), engine.create_cq(64).expect("a queue"));
    let qp = pd.create_qp(QpOptions::new(&cq, &cq)).expect("a queue pair");
    qp.modify(QpState::Init).expect("from RESET");
    let worker = cq.engine().first_worker();
    let sleeper = worker.signals().sleepers().announce();
    qp.post_recv(wr::recv(1, [])).expect("there is room");
    let event = sleeper.event().expect("there are descriptors").as_fd();
    (sleep_on(&[event], Some(Duration::ZERO)), !worker.signals().doorbells().any())
}

#[test]
fn on_the_only_processor_the_posting_thread_does_the_work_of_a_sleeping_driver() {
    // The attendant may be in a round just then, or have taken the work first.
    let is_seen = |outcome| (0..10).any(|_| post_beside_a_sleeper() == outcome);
    if thread::available_parallelism().is_ok_and(|count| count.get() > 1) {
        let wakes = || post_beside_a_sleeper().0;
        assert!((0..10).all(|_| wakes()), "a driver on another processor is woken");
    }
    let alone = thread::spawn(move || {
        use_one_processor();
        assert!(is_seen((false, true)), "it is not woken, and the work is done");
    });
    alone.join().expect("no assertion fails");
}

/// The other reasons are in `engine/tests/ends/each_way.rs`, which has no device to lose.
#[test]
fn a_device_that_is_gone_ends_its_queue_pairs_and_everybody_says_so() {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let log = heard.clone();
    let hear = move |record: &braid_log::Record| {
        log.lock().expect("nobody panics").push(record.text.clone());
    };
    braid_log::show("warn".parse().expect("a filter"), hear).expect("nobody else listens");
    let fabric = MemFabric::new();
    let (a, b) = (Side::new(&fabric, None), Side::new(&fabric, None));
    connect(&a, &b);
    a.lose_device();
    let error = QpError::from(EndCause::DeviceGone);
    let mut told = Vec::new();
    while told.len() < 2 {
        match a.engine.wait_event(PATIENCE).expect("an event") {
            AsyncEvent::QpEnded { qp, error: why } if why == error => told.push(qp),
            AsyncEvent::QpEnded { error, .. } => panic!("{error}"),
            _ => {}
        }
    }
    for qp in &a.qps {
        assert_eq!((qp.state(), qp.error()), (QpState::Error, Some(error)));
        assert!(told.contains(&qp.number()));
        let line = format!("queue pair ended qp={} error={error}", qp.number());
        assert!(heard.lock().expect("nobody panics").contains(&line), "no `{line}`");
    }
}

//! Two engines and a connection between them, with which every test begins.
#![allow(dead_code, reason = "each test program uses a part of it")]

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use braid::{
    Access, Completion, CompletionQueue, CqError, Datapath, Engine, EngineConfig, Listener,
    MemFabric, MemoryRegion, Progress, ProtectionDomain, QpOptions, QpState, QueuePair,
    RemoteRegion, Status,
};

/// Time after which a test considers a wait a hang.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes of each side's memory.
pub(crate) const MEMORY: usize = 4 << 20;

/// An engine with one of everything.
pub(crate) struct Side {
    pub(crate) engine: Engine,
    pub(crate) pd: ProtectionDomain,
    pub(crate) cq: CompletionQueue,
    pub(crate) qp: QueuePair,
    pub(crate) memory: MemoryRegion,
}

/// Two connected sides. `a` has connected to `b`.
pub(crate) struct Pair {
    pub(crate) a: Side,
    pub(crate) b: Side,
    /// The memory of `b`, as `a` knows it.
    pub(crate) remote: RemoteRegion,
}

/// The ways to run two engines.
pub(crate) fn configs() -> Vec<(&'static str, EngineConfig)> {
    let mem = || Datapath::Mem(MemFabric::new());
    let config = |datapath, progress| {
        let mut config = EngineConfig { datapath, progress, ..local() };
        // One thread drives both engines: while one closes, the other does not confirm.
        if progress == Progress::Application {
            config.linger = Duration::ZERO;
        }
        config
    };
    vec![
        ("udp, threads", config(Datapath::Udp, Progress::Threads(1))),
        ("udp, application", config(Datapath::Udp, Progress::Application)),
        ("tcp, threads", config(Datapath::Tcp, Progress::Threads(1))),
        ("tcp, application", config(Datapath::Tcp, Progress::Application)),
        ("auto, threads", config(Datapath::Auto, Progress::Threads(1))),
        ("auto, application", config(Datapath::Auto, Progress::Application)),
        ("mem, threads", config(mem(), Progress::Threads(1))),
        ("mem, application", config(mem(), Progress::Application)),
    ]
}

/// The ways to run two engines that can have faults injected.
pub(crate) fn configs_for_faults() -> impl Iterator<Item = (&'static str, EngineConfig)> {
    let has_tcp = |config: &EngineConfig| matches!(config.datapath, Datapath::Tcp | Datapath::Auto);
    configs().into_iter().filter(move |(_, config)| !has_tcp(config))
}

/// The datapaths over sockets of this machine.
pub(crate) fn over_sockets() -> [Datapath; 3] {
    [Datapath::Udp, Datapath::Tcp, Datapath::Auto]
}

/// A configuration for any free port of this machine.
pub(crate) fn local() -> EngineConfig {
    EngineConfig { bind: "127.0.0.1:0".parse().unwrap(), ..EngineConfig::default() }
}

/// Runs a test in each way.
pub(crate) fn everywhere(test: impl Fn(&Pair)) {
    for (name, config) in configs() {
        println!("-- {name}");
        test(&Pair::new(&config));
    }
}

impl Side {
    pub(crate) fn new(config: &EngineConfig, options: impl FnOnce(&mut QpOptions)) -> Self {
        let engine = Engine::new(config.clone()).unwrap();
        let pd = engine.alloc_pd();
        let cq = engine.create_cq(4096).unwrap();
        let memory = pd.alloc_mr(MEMORY, Access::ALL).unwrap();
        let mut chosen = QpOptions::new(&cq, &cq);
        options(&mut chosen);
        let qp = pd.create_qp(chosen).unwrap();
        qp.modify(QpState::Init).unwrap();
        Side { engine, pd, cq, qp, memory }
    }

    /// Posts a receive for `range` of the memory.
    pub(crate) fn post_recv(&self, id: u64, range: std::ops::Range<usize>) {
        self.qp.post_recv(braid::wr::recv(id, [self.memory.slice(range).unwrap()])).unwrap();
    }

    pub(crate) fn bytes(&self, range: std::ops::Range<usize>) -> Vec<u8> {
        let mut bytes = vec![0; range.len()];
        self.memory.read_at(range.start, &mut bytes).unwrap();
        bytes
    }
}

impl Pair {
    pub(crate) fn new(config: &EngineConfig) -> Self {
        Self::with(config, |_| {})
    }

    pub(crate) fn with(config: &EngineConfig, options: impl Fn(&mut QpOptions)) -> Self {
        let (a, b) = (Side::new(config, &options), Side::new(config, &options));
        let listener = b.engine.listen(8).unwrap();
        Self::connected([a, b], &listener, reachable(listener.local_addr()), &[])
    }

    /// Connects two new sides. The first connects to `to`, which leads to the listener of the
    /// second, with `private` as private data.
    pub(crate) fn connected(
        [a, b]: [Side; 2],
        listener: &Listener,
        to: SocketAddr,
        private: &[u8],
    ) -> Self {
        let memory = b.memory.remote().to_bytes();
        let said = thread::scope(|scope| {
            scope.spawn(|| accept(listener, &b.qp, &memory));
            a.qp.connect(to, private, PATIENCE).unwrap()
        });
        let remote = RemoteRegion::from_bytes(&said).unwrap();
        Pair { a, b, remote }
    }

    /// Runs both engines if the test has to drive them.
    pub(crate) fn progress(&self) {
        self.a.engine.progress();
        self.b.engine.progress();
    }

    /// Waits for the next `count` completions of `side`, which must be successes.
    pub(crate) fn successes(&self, side: &Side, count: usize) -> Vec<Completion> {
        let done = self.completions(side, count);
        assert!(done.iter().all(|c| c.status == Status::Success), "{done:?}");
        done
    }

    /// Waits for the next `count` completions of `side`.
    pub(crate) fn completions(&self, side: &Side, count: usize) -> Vec<Completion> {
        let mut done = Vec::new();
        self.until("completions", || {
            side.cq.poll(&mut done, count).unwrap();
            done.len() >= count
        });
        assert_eq!(done.len(), count, "{done:?}");
        done
    }

    /// Waits for the first error of `side`'s completion queue.
    pub(crate) fn cq_error(&self, side: &Side) -> CqError {
        let mut error = None;
        self.until("an error of the completion queue", || {
            error = side.cq.poll_one().err();
            error.is_some()
        });
        error.unwrap()
    }

    pub(crate) fn until(&self, what: &str, mut done: impl FnMut() -> bool) {
        let start = Instant::now();
        while !done() {
            self.progress();
            assert!(start.elapsed() < PATIENCE, "no {what} within {PATIENCE:?}");
        }
    }

    /// Checks that nothing completes on either side for a while.
    pub(crate) fn quiet(&self, span: Duration) {
        let start = Instant::now();
        while start.elapsed() < span {
            self.progress();
            assert_eq!(self.a.cq.poll_one(), Ok(None));
            assert_eq!(self.b.cq.poll_one(), Ok(None));
        }
    }
}

/// Connects `from` with `to`, whose side listens. Returns the private data of that side's
/// application.
pub(crate) fn connect(
    from: &QueuePair,
    listener: &Listener,
    to: &QueuePair,
    private: &[u8],
) -> Vec<u8> {
    thread::scope(|scope| {
        scope.spawn(|| accept(listener, to, private));
        from.connect(reachable(listener.local_addr()), &[], PATIENCE).unwrap()
    })
}

fn accept(listener: &Listener, to: &QueuePair, private: &[u8]) {
    let request = listener.accept(PATIENCE).expect("a connection request");
    request.accept(to, private).unwrap();
}

/// The address to connect to, for an engine that is bound to a wildcard.
pub(crate) fn reachable(addr: SocketAddr) -> SocketAddr {
    match addr {
        addr if !addr.ip().is_unspecified() => addr,
        addr => SocketAddr::from(([127, 0, 0, 1], addr.port())),
    }
}

/// Bytes of this process's resident memory, from `/proc/self/statm`.
///
/// They are those of all tests that run beside: a test that compares them has a process of its own.
pub(crate) fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = statm.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}

//! The datapath `auto` while a firewall begins to drop UDP, and ends: engines in two namespaces.

use std::thread;
use std::time::{Duration, Instant};

use braid::{
    Access, CompletionQueue, Datapath, EndCause, Engine, EngineConfig, Listener, MemoryRegion,
    ProtectionDomain, QpOptions, QueuePair, Status, wr,
};
use braid_lab::Namespace;

const MESSAGE: usize = 64 << 10;
const PATIENCE: Duration = Duration::from_secs(10);
/// An attempt over UDP without an answer takes 250 ms before TCP is tried.
const AT_ONCE: Duration = Duration::from_millis(200);
/// Time in which connections begin over TCP.
const TCP_FIRST: Duration = Duration::from_secs(10);

const DROPS_UDP: &str = "table inet braid { chain in { type filter hook input priority 0;
    meta l4proto udp drop; }; }";
const PASSES_UDP: &str = "delete table inet braid";

/// An engine in a namespace.
struct End {
    host: Namespace,
    engine: Engine,
    pd: ProtectionDomain,
    cq: CompletionQueue,
    memory: MemoryRegion,
}

/// A connection from the first end to the second.
struct Connected {
    a: QueuePair,
    _b: QueuePair,
    took: Duration,
}

impl End {
    fn new(host: Namespace, ip: [u8; 4]) -> End {
        let made = host.on(|| {
            let (bind, datapath) = ((ip, 4791).into(), Datapath::Auto);
            Engine::new(EngineConfig { bind, datapath, ..EngineConfig::default() }).unwrap()
        });
        let engine = made.unwrap();
        let (pd, cq) = (engine.alloc_pd(), engine.create_cq(64).unwrap());
        let memory = pd.alloc_mr(MESSAGE, Access::ALL).unwrap();
        End { host, engine, pd, cq, memory }
    }

    fn qp(&self) -> QueuePair {
        self.pd.create_qp(QpOptions::new(&self.cq, &self.cq)).unwrap()
    }

    /// The names and texts of the degradations.
    fn degraded(&self, qp: &QueuePair) -> Vec<(&'static str, String)> {
        let all = || qp.degradations().iter().map(|one| (one.name(), one.to_string())).collect();
        self.host.on(all).unwrap()
    }
}

fn ends(name: &str) -> [End; 2] {
    let [a, b] = Namespace::up(name).unwrap();
    a.join(&b, "braid0", 1500).unwrap();
    for (host, ip) in [(&a, "10.78.0.1/24"), (&b, "10.78.0.2/24")] {
        host.set_up("braid0", &[ip.to_owned()]).unwrap();
    }
    a.wait_until_up("braid0").unwrap();
    [End::new(a, [10, 78, 0, 1]), End::new(b, [10, 78, 0, 2])]
}

fn connect([a, b]: &[End; 2], listener: &Listener) -> Connected {
    let (from, to) = (a.qp(), b.qp());
    let began = Instant::now();
    thread::scope(|scope| {
        scope.spawn(|| {
            let request = listener.accept(PATIENCE).unwrap();
            b.host.on(|| request.accept(&to, &[])).unwrap().unwrap();
        });
        let connected = a.host.on(|| from.connect(b.engine.local_addr(), &[], PATIENCE));
        connected.unwrap().unwrap();
    });
    Connected { a: from, _b: to, took: began.elapsed() }
}

/// Writes a message. Returns the status of its completion.
fn write(ends: &[End; 2], by: &Connected) -> Status {
    let [a, b] = ends;
    let piece = a.memory.slice(..).unwrap();
    by.a.post_send(wr::write(1, [piece], b.memory.remote().at(0))).unwrap();
    a.cq.wait_one(PATIENCE).unwrap().expect("a completion in time").status
}

/// The namespaces need root.
#[test]
fn connections_change_to_tcp_while_udp_is_dropped_and_back() {
    if !nix::unistd::geteuid().is_root() {
        return println!("not root: not tried");
    }
    let ends = ends("autocut");
    let [a, b] = &ends;
    let listener = b.engine.listen(4).unwrap();
    let before = connect(&ends, &listener);
    assert_eq!((before.a.protocol(), write(&ends, &before)), (Some("UDP"), Status::Success));
    assert_eq!(a.degraded(&before.a), []);

    [a, b].iter().for_each(|end| end.host.nft(DROPS_UDP).unwrap());
    let cut = Instant::now();
    assert_eq!(write(&ends, &before), Status::RetryExceeded);
    println!("the queue pair ended after {:?}", cut.elapsed());
    assert_eq!(before.a.error().unwrap().cause, EndCause::PeerSilent);
    let degraded = a.degraded(&before.a);
    let [("datapath-silent", why)] = &degraded[..] else { panic!("{degraded:?}") };
    assert!(why.contains("10.78.0.2:4791 does not answer over UDP any more"), "{why}");
    assert!(why.contains("connect again, which takes TCP"), "{why}");

    // The next connection does not wait for UDP.
    let over_tcp = connect(&ends, &listener);
    assert_eq!((over_tcp.a.protocol(), write(&ends, &over_tcp)), (Some("TCP"), Status::Success));
    assert!(over_tcp.took < AT_ONCE, "{:?}", over_tcp.took);
    drop(before);
    let second = connect(&ends, &listener);
    assert_eq!(second.a.protocol(), Some("TCP"));
    assert!(second.took < AT_ONCE, "{:?}", second.took);

    // While connections over TCP last, UDP is tried again after a while.
    [a, b].iter().for_each(|end| end.host.nft(PASSES_UDP).unwrap());
    let soon = connect(&ends, &listener);
    assert_eq!(soon.a.protocol(), Some("TCP"));
    thread::sleep(TCP_FIRST);
    let later = connect(&ends, &listener);
    assert_eq!((later.a.protocol(), write(&ends, &later)), (Some("UDP"), Status::Success));
    assert_eq!(write(&ends, &over_tcp), Status::Success);
}

/// The peer still sends, but does not receive. A short cut ends no connection, and no degradation
/// remains.
#[test]
fn short_cut_of_one_direction_leaves_nothing() {
    if !nix::unistd::geteuid().is_root() {
        return println!("not root: not tried");
    }
    let ends = ends("autoshort");
    let [a, b] = &ends;
    let listener = b.engine.listen(4).unwrap();
    let qp = connect(&ends, &listener);
    b.host.nft(DROPS_UDP).unwrap();
    let (began, mut seen) = (Instant::now(), Vec::new());
    while seen.is_empty() && began.elapsed() < Duration::from_millis(2500) {
        thread::sleep(Duration::from_millis(20));
        seen = a.degraded(&qp.a);
    }
    b.host.nft(PASSES_UDP).unwrap();
    assert!(seen.iter().any(|(name, _)| *name == "datapath-silent"), "{seen:?}");
    println!("seen after {:?}", began.elapsed());
    assert_eq!(write(&ends, &qp), Status::Success);
    assert_eq!((a.degraded(&qp.a), qp.a.protocol()), (Vec::new(), Some("UDP")));
    assert_eq!(connect(&ends, &listener).a.protocol(), Some("UDP"));
}

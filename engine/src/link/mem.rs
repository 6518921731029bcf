//! A network inside one process, which connects the links of one [`MemFabric`].

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crossbeam_queue::ArrayQueue;

use super::{
    AddrPair, DatagramBatch, Datagrams, Link, LinkCaps, LinkLosses, LocalAddr, SendResult, Via,
};
use crate::event_fd::EventFd;
use crate::wake::Event;

/// The number of batches that a port holds before it drops, as a socket does.
const QUEUE_TRAINS: usize = 1024;
/// The bytes that the queue holds if every batch has 4 KiB, a single data packet.
const RECEIVE_BUFFER: usize = QUEUE_TRAINS << 12;
/// The largest number of datagrams in a batch.
const BATCH_SEGMENTS: usize = 16;
/// The largest number of bytes in a batch, as over UDP.
const BATCH_BYTES: usize = 65_507;
/// Bytes of the largest datagram: an MTU of 9000 less the headers of IPv4 and UDP.
const MAX_DATAGRAM: usize = 9000 - 20 - 8;
/// The first port assigned for port 0, in the dynamic range of RFC 6335.
const FIRST_FREE_PORT: u16 = 49_152;

/// A network inside one process. Clones are handles of the same network. Any address may be chosen,
/// and addresses mean nothing outside the network. A port bound to an unspecified IP (`0.0.0.0`,
/// `[::]`) receives what is sent to it at any IP of that version.
///
/// The network keeps the order of datagrams. It loses datagrams only if a receiver lags more than a
/// thousand batches behind.
///
/// ```
/// use braid::{Datapath, Engine, EngineConfig, MemFabric};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let fabric = MemFabric::new();
/// let at = |addr: &str| -> Result<Engine, Box<dyn std::error::Error>> {
///     let datapath = Datapath::Mem(fabric.clone());
///     Ok(Engine::new(EngineConfig { datapath, bind: addr.parse()?, ..Default::default() })?)
/// };
/// let (server, client) = (at("10.0.0.1:4791")?, at("10.0.0.2:4791")?);
/// assert_ne!(server.local_addr(), client.local_addr());
/// assert!(at("10.0.0.1:4791").is_err(), "the address is taken");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
pub struct MemFabric {
    ports: Arc<Mutex<HashMap<SocketAddr, Arc<Port>>>>,
}

impl MemFabric {
    /// Creates an empty network.
    pub fn new() -> Self {
        Self::default()
    }

    fn ports(&self) -> MutexGuard<'_, HashMap<SocketAddr, Arc<Port>>> {
        // The map is consistent between any two statements, so a panic elsewhere does not corrupt
        // it.
        self.ports.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The port that receives for `to`.
    fn find(&self, to: SocketAddr) -> Option<Arc<Port>> {
        let any = match to {
            SocketAddr::V4(_) => IpAddr::from(Ipv4Addr::UNSPECIFIED),
            SocketAddr::V6(_) => IpAddr::from(Ipv6Addr::UNSPECIFIED),
        };
        let dual = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), to.port());
        let ports = self.ports();
        let port = ports.get(&to).or_else(|| ports.get(&SocketAddr::new(any, to.port())));
        port.or_else(|| ports.get(&dual)).cloned()
    }

    fn bind(&self, addr: SocketAddr) -> io::Result<(SocketAddr, Arc<Port>)> {
        let port = Arc::new(Port::new()?);
        let mut ports = self.ports();
        let taken = |addr: SocketAddr| ports.keys().any(|other| clash(addr, *other));
        let addr = if addr.port() == 0 {
            (FIRST_FREE_PORT..=u16::MAX)
                .map(|number| SocketAddr::new(addr.ip(), number))
                .find(|addr| !taken(*addr))
        } else {
            Some(addr).filter(|addr| !taken(*addr))
        };
        let addr = addr.ok_or(io::ErrorKind::AddrInUse)?;
        ports.insert(addr, port.clone());
        Ok((addr, port))
    }
}

/// Whether the two addresses exclude each other.
fn clash(a: SocketAddr, b: SocketAddr) -> bool {
    let any = a.ip().is_unspecified() || b.ip().is_unspecified();
    a.port() == b.port() && (a.ip() == b.ip() || any)
}

/// The receive queue of a bound address.
struct Port {
    queue: ArrayQueue<Parcel>,
    /// Empty buffers for the next batches.
    spare: ArrayQueue<Vec<u8>>,
    /// Readable while the queue may hold a batch.
    event: EventFd,
    /// Set by a sender, cleared by a receiver that finds the queue empty. Only a change from clear
    /// to set raises the event, so a busy receiver costs its senders no system call.
    signalled: AtomicBool,
    /// Whether the event of the current signal has been raised. Until then it must not be cleared,
    /// because the sender would raise it afterwards and it would stay raised.
    raised: AtomicBool,
    closed: AtomicBool,
    dropped: AtomicU64,
}

/// A batch in a queue.
struct Parcel {
    from: SocketAddr,
    segment_len: usize,
    bytes: Vec<u8>,
}

impl Port {
    fn new() -> io::Result<Port> {
        Ok(Port {
            queue: ArrayQueue::new(QUEUE_TRAINS),
            spare: ArrayQueue::new(QUEUE_TRAINS),
            event: EventFd::new()?,
            signalled: AtomicBool::new(false),
            raised: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            dropped: AtomicU64::new(0),
        })
    }

    fn push(&self, from: SocketAddr, batch: &DatagramBatch<'_>) {
        let mut bytes = self.spare.pop().unwrap_or_default();
        bytes.clear();
        batch.slices.iter().for_each(|slice| slice.append_to(&mut bytes));
        let parcel = Parcel { from, segment_len: batch.segment_len, bytes };
        if let Err(parcel) = self.queue.push(parcel) {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            let _ = self.spare.push(parcel.bytes);
        } else if !self.signalled.swap(true, Ordering::AcqRel) {
            self.event.raise();
            self.raised.store(true, Ordering::Release);
        }
    }

    fn pop(&self) -> Option<Parcel> {
        if let Some(parcel) = self.queue.pop() {
            return Some(parcel);
        }
        if !self.raised.load(Ordering::Acquire) {
            return None;
        }
        // Clear, allow the next signal, look again, in this order. The second look finds every push
        // before the swap, and every push after it signals again.
        self.raised.store(false, Ordering::Relaxed);
        self.event.clear();
        self.signalled.swap(false, Ordering::AcqRel);
        self.queue.pop()
    }
}

/// A link of a [`MemFabric`]. Dropping it frees its address.
pub(crate) struct MemLink {
    fabric: MemFabric,
    local: SocketAddr,
    /// The sender's IP that receivers see.
    ip: IpAddr,
    port: Arc<Port>,
    /// The last destination, cached to save the look-up for each batch.
    peer: Option<(SocketAddr, Arc<Port>)>,
}

impl MemLink {
    /// Binds `addr`. Port 0: any free port.
    ///
    /// # Errors
    ///
    /// The address is in use, or the process has no file descriptor left.
    pub(crate) fn bind(fabric: &MemFabric, addr: SocketAddr) -> io::Result<MemLink> {
        let (local, port) = fabric.bind(addr)?;
        let ip = match local.ip() {
            ip if !ip.is_unspecified() => ip,
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        };
        Ok(MemLink { fabric: fabric.clone(), local, ip, port, peer: None })
    }

    fn peer(&mut self, to: SocketAddr) -> Option<&Port> {
        let known =
            |peer: &(SocketAddr, Arc<Port>)| peer.0 == to && !peer.1.closed.load(Ordering::Relaxed);
        if !self.peer.as_ref().is_some_and(known) {
            self.peer = self.fabric.find(to).map(|port| (to, port));
        }
        self.peer.as_ref().map(|(_, port)| &**port)
    }
}

impl Drop for MemLink {
    fn drop(&mut self) {
        self.port.closed.store(true, Ordering::Relaxed);
        self.fabric.ports().remove(&self.local);
    }
}

impl Link for MemLink {
    fn losses(&self) -> LinkLosses {
        LinkLosses { overflowed: self.port.dropped.load(Ordering::Relaxed), ..Default::default() }
    }

    fn caps(&self) -> LinkCaps {
        LinkCaps {
            batch_segments: BATCH_SEGMENTS,
            batch_bytes: BATCH_BYTES,
            receive_buffer: RECEIVE_BUFFER,
            has_hops: false,
            congestion_marks: false,
        }
    }

    fn local_addr(&self) -> SocketAddr {
        self.local
    }

    fn max_datagram(&self, _to: AddrPair) -> io::Result<usize> {
        Ok(MAX_DATAGRAM)
    }

    fn open_paths(&mut self, count: usize) -> io::Result<()> {
        if count > braid_wire::MAX_PATHS {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        Ok(())
    }

    fn send(&mut self, batch: &DatagramBatch<'_>) -> io::Result<SendResult> {
        check(batch)?;
        let from = match batch.via {
            Via::Port => self.local.port(),
            Via::Path(path) => path.source_port(),
        };
        let from = SocketAddr::new(self.ip, from);
        // Without a receiver the batch is lost, as on any network.
        if let Some(port) = self.peer(batch.to.remote) {
            port.push(from, batch);
        }
        Ok(SendResult::Gone)
    }

    fn recv(&mut self, sink: &mut dyn FnMut(Datagrams<'_>)) -> io::Result<usize> {
        let Some(Parcel { from, segment_len, mut bytes }) = self.port.pop() else { return Ok(0) };
        let count = bytes.len().div_ceil(segment_len);
        let called = LocalAddr::default();
        sink(Datagrams { from, called, congestion: false, segment_len, bytes: &mut bytes });
        // If more buffers circulate than the queue holds, the buffer is freed.
        let _ = self.port.spare.push(bytes);
        Ok(count)
    }

    fn readiness(&self) -> Option<Vec<BorrowedFd<'_>>> {
        Some(vec![self.port.event.as_fd()])
    }
}

/// Refuses batches that UDP would refuse too.
fn check(batch: &DatagramBatch<'_>) -> io::Result<()> {
    let bytes = batch.slices.iter().map(|slice| slice.len()).sum::<usize>();
    let datagrams = bytes.div_ceil(batch.segment_len.max(1));
    let largest = batch.segment_len.min(bytes);
    let fits = (1..=BATCH_SEGMENTS).contains(&datagrams)
        && bytes <= BATCH_BYTES
        && largest <= MAX_DATAGRAM
        && batch.segment_len > 0;
    if fits {
        return Ok(());
    }
    Err(io::Error::new(
        io::ErrorKind::InvalidInput,
        format!(
            "a batch of {bytes} bytes in {datagrams} datagrams of up to {largest}; \
             at most {BATCH_BYTES} in {BATCH_SEGMENTS} of up to {MAX_DATAGRAM}"
        ),
    ))
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::{Duration, Instant};

    use braid_wire::PathId;

    use super::*;
    use crate::event_fd::sleep_on;
    use crate::link::Slice;

    fn addr(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    fn send(link: &mut MemLink, to: SocketAddr, via: Via, segment_len: usize, bytes: &[u8]) {
        let (a, b) = bytes.split_at(bytes.len() / 3);
        let slices = [Slice::new(a), Slice::new(b)];
        let batch = DatagramBatch { to: to.into(), via, segment_len, ecn: true, slices: &slices };
        assert_eq!(link.send(&batch).unwrap(), SendResult::Gone);
    }

    fn recv(link: &mut MemLink) -> Vec<(SocketAddr, Vec<u8>)> {
        let mut got = Vec::new();
        let received = link.recv(&mut |r| {
            got.extend(r.bytes.chunks(r.segment_len).map(|bytes| (r.from, bytes.to_vec())));
        });
        let count = received.unwrap();
        assert_eq!(count, got.len());
        got
    }

    #[test]
    fn a_batch_arrives_whole_from_the_port_of_its_path() {
        let fabric = MemFabric::new();
        let mut a = MemLink::bind(&fabric, addr("10.0.0.1:4791")).unwrap();
        let mut b = MemLink::bind(&fabric, addr("10.0.0.2:4791")).unwrap();
        send(&mut a, b.local_addr(), Via::Path(PathId::new(7)), 4, b"abcdefghij");
        send(&mut a, b.local_addr(), Via::Port, 100, b"ack");
        let from = addr("10.0.0.1:49159");
        let parts = [&b"abcd"[..], b"efgh", b"ij"];
        assert_eq!(recv(&mut b), parts.map(|p| (from, p.to_vec())));
        assert_eq!(recv(&mut b), [(addr("10.0.0.1:4791"), b"ack".to_vec())]);
        assert!(recv(&mut b).is_empty());
    }

    #[test]
    fn addresses_are_taken_and_freed() {
        let fabric = MemFabric::new();
        let a = MemLink::bind(&fabric, addr("0.0.0.0:0")).unwrap();
        let again = MemLink::bind(&fabric, a.local_addr());
        assert_eq!(again.err().unwrap().kind(), io::ErrorKind::AddrInUse);
        let mut b = MemLink::bind(&fabric, addr("127.0.0.1:0")).unwrap();
        assert_ne!(a.local_addr().port(), b.local_addr().port());
        let to = SocketAddr::new(addr("9.9.9.9:1").ip(), a.local_addr().port());
        for round in 0..2u8 {
            let mut a = if round == 0 {
                MemLink::bind(&fabric, addr("[::]:5000")).unwrap()
            } else {
                MemLink::bind(&fabric, addr("9.9.9.9:5000")).unwrap()
            };
            let to = SocketAddr::new(to.ip(), 5000);
            send(&mut b, to, Via::Port, 9, &[round]);
            assert_eq!(recv(&mut a), [(b.local_addr(), vec![round])], "round {round}");
        }
        send(&mut b, addr("9.9.9.9:5000"), Via::Port, 9, b"nobody is there");
    }

    #[test]
    fn a_full_port_drops_and_goes_on() {
        let fabric = MemFabric::new();
        let mut a = MemLink::bind(&fabric, addr("10.0.0.1:1")).unwrap();
        let mut b = MemLink::bind(&fabric, addr("10.0.0.2:1")).unwrap();
        for _ in 0..QUEUE_TRAINS + 10 {
            send(&mut a, b.local_addr(), Via::Port, 9, b"x");
        }
        let mut count = 0;
        while b.recv(&mut |_| ()).unwrap() > 0 {
            count += 1;
        }
        assert_eq!((count, b.losses().overflowed), (QUEUE_TRAINS, 10));
        send(&mut a, b.local_addr(), Via::Port, 9, b"y");
        assert_eq!(recv(&mut b).len(), 1);
    }

    #[test]
    fn trains_that_udp_would_refuse_are_refused() {
        let fabric = MemFabric::new();
        let mut a = MemLink::bind(&fabric, addr("10.0.0.1:1")).unwrap();
        for (segment_len, bytes) in [(0, 1), (10, 0), (10, 161), (9000, 9000), (4096, 65_508)] {
            let bytes = vec![0; bytes];
            let slices = [Slice::new(&bytes)];
            let batch = DatagramBatch {
                to: addr("10.0.0.2:1").into(),
                via: Via::Port,
                segment_len,
                ecn: true,
                slices: &slices,
            };
            assert_eq!(a.send(&batch).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        }
    }

    #[test]
    fn a_sleeper_is_woken() {
        let fabric = MemFabric::new();
        let mut a = MemLink::bind(&fabric, addr("10.0.0.1:1")).unwrap();
        let mut b = MemLink::bind(&fabric, addr("10.0.0.2:1")).unwrap();
        let (to, back) = (b.local_addr(), a.local_addr());
        const ROUNDS: u32 = 2000;
        fn take(link: &mut MemLink) {
            while link.recv(&mut |_| ()).unwrap() == 0 {
                let start = Instant::now();
                let limit = Duration::from_secs(10);
                sleep_on(&link.readiness().unwrap(), Some(limit));
                assert!(start.elapsed() < limit, "a batch came without a signal");
            }
        }
        let echo = thread::spawn(move || {
            for _ in 0..ROUNDS {
                take(&mut b);
                send(&mut b, back, Via::Port, 9, b"pong");
            }
        });
        for _ in 0..ROUNDS {
            send(&mut a, to, Via::Port, 9, b"ping");
            take(&mut a);
        }
        echo.join().unwrap();
        // No signal is left, so the next sleep lasts.
        assert_eq!(a.recv(&mut |_| ()).unwrap(), 0);
        let start = Instant::now();
        let limit = Duration::from_millis(20);
        sleep_on(&a.readiness().unwrap(), Some(limit));
        assert!(start.elapsed() >= limit);
    }
}

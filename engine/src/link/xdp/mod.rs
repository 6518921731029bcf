//! Short datagrams past the network stack, by AF_XDP. All others use the UDP sockets of
//! [`UdpLink`].
//!
//! A leaving datagram becomes an Ethernet frame in memory shared with the kernel. The device sends
//! it without UDP, IP, netfilter or a queueing discipline. An XDP program puts arriving frames into
//! memory where this process finds them without a system call. The sockets remain: they own the
//! ports, the kernel finds the neighbours for their traffic, and GSO and GRO are faster for long
//! datagrams and for many at a time.

mod bpf;
mod error;
mod frame;
#[cfg(fuzzing)]
pub(crate) mod fuzzing;
mod interface;
mod next_hop;
mod program;
mod rings;
mod socket;
#[cfg(test)]
mod tests;
mod turns;

use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::thread;
use std::time::{Duration, Instant};

pub use self::error::XdpSetupError;
use self::frame::{Ends, HEADERS};
use self::interface::Interface;
use self::next_hop::NextHops;
use self::socket::{Refused, Xsk};
use self::turns::Turns;
use super::rtnetlink::Mac;
use super::udp::cut::Cutter;
use super::udp::{UdpLink, canonical};
use super::{
    AddrPair, DatagramBatch, Datagrams, Link, LinkCaps, LinkLosses, PortRefused, Reach, SendResult,
};
use crate::degradation::Degradation;

/// Bytes of the longest datagram sent by AF_XDP. It is less than a full packet at any Ethernet MTU,
/// because full packets come in numbers for which GSO and GRO are faster.
pub(crate) const LONGEST: usize = 1200;
/// The largest number of datagrams in a batch sent by AF_XDP. For more, one GSO call is faster.
const MOST: usize = 2;
/// The largest number of frames that one call hands out: as many of the longest as one batch of the
/// sockets holds.
const MOST_RECEIVED: u32 = 48;
/// The largest number of receive queues served on an interface. No interface is known to have more.
const MAX_QUEUES: u32 = 256;
/// The longest time for which a closed queue may stay in use. The kernel releases it in the
/// background.
const RELEASED: Duration = Duration::from_secs(1);
/// The time after which frames that found no room are sent again, about the time that the device's
/// queue takes.
const RETRY: Duration = Duration::from_micros(50);

/// The link over AF_XDP and UDP sockets.
pub(crate) struct XdpLink {
    sockets: UdpLink,
    local: SocketAddrV4,
    mac: Mac,
    /// A socket for each receive queue. The first one also sends.
    queues: Vec<Xsk>,
    hops: NextHops,
    turns: Turns,
    /// Frames that the interface refused because it is down or gone.
    unreachable: u64,
    /// The interface runs the program for as long as this is open.
    _attached: OwnedFd,
}

impl XdpLink {
    /// Joins AF_XDP sockets to the UDP sockets of `sockets`, on the interface that has their
    /// address.
    ///
    /// # Errors
    /// The address is not an IPv4 address of an Ethernet interface, or the system refuses.
    pub(crate) fn join(sockets: UdpLink) -> Result<XdpLink, XdpSetupError> {
        let local = match sockets.local_addr() {
            SocketAddr::V4(local) if !local.ip().is_unspecified() => local,
            other => return Err(XdpSetupError::Address { ip: other.ip() }),
        };
        let interface = interface::of_address(*local.ip())?;
        let (program, map) = load(interface.mac, local)?;
        // This comes first, because it shows at once whether another engine is there.
        let attached = attach(&interface, program.as_fd())?;
        let queues = open_queues(&interface, map.as_fd())?;
        let hops = NextHops::new(interface.index, *local.ip())
            .map_err(|source| XdpSetupError::System { step: "rtnetlink", source })?;
        tracing::debug!(
            interface = %interface.name,
            queues = queues.len(),
            "short datagrams go by AF_XDP"
        );
        let (mac, turns) = (interface.mac, Turns::new(Instant::now()));
        let _attached = attached;
        Ok(XdpLink { sockets, local, mac, queues, hops, turns, unreachable: 0, _attached })
    }

    /// Sends a batch if it suits AF_XDP and there is room. Otherwise sends nothing of it.
    fn send_short(&mut self, batch: &DatagramBatch<'_>) -> bool {
        let bytes: usize = batch.slices.iter().map(|slice| slice.len()).sum();
        let datagrams = bytes.div_ceil(batch.segment_len.max(1));
        if !(1..=MOST).contains(&datagrams) || batch.segment_len > LONGEST {
            return false;
        }
        let SocketAddr::V4(target) = canonical(batch.to.remote) else { return false };
        let Some(target_mac) = self.hops.mac(*target.ip()) else { return false };
        // If there is no port, the sockets report the reason.
        let Ok(port) = self.sockets.source_port(batch.via, &batch.to) else {
            return false;
        };
        let xsk = &mut self.queues[0];
        if xsk.room() < datagrams {
            return false;
        }
        let source = SocketAddrV4::new(*self.local.ip(), port);
        let traffic_class = self.sockets.traffic_class(batch);
        let ends = Ends { source_mac: self.mac, target_mac, source, target, traffic_class };
        let mut cutter = Cutter::new(batch);
        for index in 0..datagrams {
            let len = batch.segment_len.min(bytes - index * batch.segment_len);
            xsk.push(HEADERS + len, |frame| {
                let mut at = HEADERS;
                cutter.next_datagram(|slice| {
                    slice.copy_to(&mut frame[at..at + slice.len()]);
                    at += slice.len();
                });
                frame::write_headers(frame, &ends);
            });
        }
        self.flush();
        true
    }

    fn flush(&mut self) {
        if let Err(error) = self.queues[0].flush() {
            if self.unreachable == 0 {
                tracing::warn!(%error, "AF_XDP cannot send; counted from now on, not logged");
            }
            self.unreachable += 1;
        }
    }
}

impl Link for XdpLink {
    fn caps(&self) -> LinkCaps {
        self.sockets.caps()
    }

    fn local_addr(&self) -> SocketAddr {
        self.sockets.local_addr()
    }

    fn pair(&self, to: SocketAddr) -> AddrPair {
        self.sockets.pair(to)
    }

    fn max_datagram(&self, to: AddrPair) -> io::Result<usize> {
        self.sockets.max_datagram(to)
    }

    fn reach(&self, to: AddrPair) -> Option<Reach> {
        self.sockets.reach(to)
    }

    fn open_paths(&mut self, count: usize) -> io::Result<()> {
        self.sockets.open_paths(count)
    }

    fn watch(&mut self, to: AddrPair) {
        self.hops.watch(to.remote);
    }

    fn unwatch(&mut self, to: AddrPair) {
        self.sockets.unwatch(to);
        self.hops.unwatch(to.remote);
    }

    fn use_ecn(&mut self, to: SocketAddr, ecn: bool) {
        self.sockets.use_ecn(to, ecn);
    }

    fn send(&mut self, batch: &DatagramBatch<'_>) -> io::Result<SendResult> {
        if self.send_short(batch) { Ok(SendResult::Gone) } else { self.sockets.send(batch) }
    }

    fn recv(&mut self, sink: &mut dyn FnMut(Datagrams<'_>)) -> io::Result<usize> {
        if self.queues[0].is_waiting() {
            self.flush();
        }
        let local = self.local;
        let mut datagrams = 0;
        for xsk in &mut self.queues {
            xsk.receive(MOST_RECEIVED, |frame| {
                if let Some(received) = frame::read(frame, local) {
                    datagrams += 1;
                    sink(received);
                }
            });
        }
        if !self.turns.is_sockets(datagrams > 0) {
            return Ok(datagrams);
        }
        let by_sockets = self.sockets.recv(sink)?;
        self.turns.sockets_had(by_sockets > 0);
        Ok(datagrams + by_sockets)
    }

    fn take_refused(&mut self, sink: &mut dyn FnMut(PortRefused)) {
        self.sockets.take_refused(sink);
    }

    fn readiness(&self) -> Option<Vec<BorrowedFd<'_>>> {
        let mut all = self.sockets.readiness()?;
        all.extend(self.queues.iter().map(Xsk::as_fd));
        Some(all)
    }

    fn next_due(&self) -> Option<Instant> {
        self.queues[0].is_waiting().then(|| Instant::now() + RETRY)
    }

    fn degradations(&self, rail: usize, to: SocketAddr, all: &mut Vec<Degradation>) {
        self.sockets.degradations(rail, to, all);
        if self.hops.is_missing(to) {
            all.push(Degradation::DatapathUnavailable {
                rail,
                wanted: "AF_XDP",
                used: "UDP sockets",
                cause: format!(
                    "no route or neighbour towards {} is known on its interface",
                    to.ip()
                ),
            });
        }
    }

    fn losses(&self) -> LinkLosses {
        let by_sockets = self.sockets.losses();
        LinkLosses {
            overflowed: by_sockets.overflowed + self.queues.iter().map(Xsk::dropped).sum::<u64>(),
            unreachable: by_sockets.unreachable + self.unreachable,
            injected: 0,
        }
    }
}

/// Checks whether this process may use AF_XDP on this kernel ([`crate::Datapath::Xdp`]), as far as
/// possible without an interface. The check changes no interface. Returns the bytes of the longest
/// datagram that AF_XDP carries. Any thread may call it.
///
/// # Errors
/// Names the missing requirement.
///
/// ```
/// match braid::check_xdp() {
///     Ok(longest) => println!("datagrams of up to {longest} bytes go by AF_XDP"),
///     Err(why) => println!("take UDP: {why}"),
/// }
/// ```
pub fn check_xdp() -> Result<usize, XdpSetupError> {
    Xsk::open().map_err(refused)?;
    load(Mac::default(), SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).map(|_| LONGEST)
}

fn refused(Refused { step, source }: Refused) -> XdpSetupError {
    XdpSetupError::of(step, source)
}

/// Opens a socket on each receive queue and puts it into the map.
fn open_queues(interface: &Interface, map: BorrowedFd<'_>) -> Result<Vec<Xsk>, XdpSetupError> {
    let mut queues = Vec::new();
    let deadline = Instant::now() + RELEASED;
    for queue in 0..MAX_QUEUES {
        let xsk = Xsk::open().map_err(refused)?;
        match bind(&xsk, interface, queue, deadline) {
            Ok(()) => {}
            Err(error) if queue > 0 && error.raw_os_error() == Some(libc::EINVAL) => break,
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
                return Err(interface.is_busy());
            }
            Err(source) => return Err(XdpSetupError::of("bind of an AF_XDP socket", source)),
        }
        bpf::set_socket(map, queue, xsk.as_fd())
            .map_err(|source| XdpSetupError::of("a socket in the map", source))?;
        queues.push(xsk);
    }
    Ok(queues)
}

fn bind(xsk: &Xsk, interface: &Interface, queue: u32, deadline: Instant) -> io::Result<()> {
    loop {
        match xsk.bind(interface.index, queue) {
            Err(error)
                if error.raw_os_error() == Some(libc::EBUSY) && Instant::now() < deadline =>
            {
                thread::sleep(Duration::from_millis(5));
            }
            bound => return bound,
        }
    }
}

/// Loads a program that puts datagrams for `local`, in frames to `mac`, into the sockets of a map.
/// Returns the program and the map.
fn load(mac: Mac, local: SocketAddrV4) -> Result<(OwnedFd, OwnedFd), XdpSetupError> {
    let refused = |step| move |source| XdpSetupError::of(step, source);
    let map = bpf::create_socket_map(MAX_QUEUES).map_err(refused("a map of sockets"))?;
    let program = program::program(mac, local, map.as_fd());
    let program = bpf::load(&program).map_err(refused("loading the XDP program"))?;
    Ok((program, map))
}

/// Attaches a program to the interface.
fn attach(interface: &Interface, program: BorrowedFd<'_>) -> Result<OwnedFd, XdpSetupError> {
    bpf::attach(program, interface.index).map_err(|source| match source.raw_os_error() {
        Some(libc::EBUSY | libc::EEXIST) => interface.is_busy(),
        _ => XdpSetupError::of("attaching the XDP program", source),
    })
}

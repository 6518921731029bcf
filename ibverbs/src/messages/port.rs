//! UDP ports, with the links that use them.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use braid::Faults;

use super::datagram::{Body, Datagram};
use super::driver;
use super::link::End;
use super::listener::Queue;
use super::udp::Udp;
use crate::threads::lock_until;

/// The options of a port.
#[derive(Clone, Debug, Default)]
pub(crate) struct PortOptions {
    /// A port of IPv6 does not take IPv4 (`IPV6_V6ONLY`).
    pub(crate) is_only_v6: bool,
    /// Other ports with this option may have the same number, until one of them listens
    /// (`SO_REUSEADDR`).
    pub(crate) is_shared: bool,
    /// Type of service. Default: 0.
    pub(crate) tos: u8,
    /// Losses and duplicates that the port causes on purpose.
    pub(crate) faults: Faults,
}

/// A UDP port. Dropping it frees the number.
pub(crate) struct Port {
    pub(super) shared: Arc<PortShared>,
    addr: SocketAddr,
}

impl Port {
    /// Takes the port, or any free one for port 0.
    ///
    /// # Errors
    /// Those of the kernel, such as `AddrInUse` and `AddrNotAvailable`.
    pub(crate) fn bind(addr: SocketAddr, options: PortOptions) -> io::Result<Self> {
        let udp = options.bind(addr, options.is_shared)?;
        let addr = udp.addr();
        let shared = Arc::new(PortShared {
            token: driver::token(),
            udp: Mutex::new(Some(udp)),
            links: Mutex::default(),
            queue: Mutex::default(),
            is_shared: AtomicBool::new(false),
            has_owner: AtomicBool::new(true),
            sent: AtomicU64::new(options.faults.seed),
            options,
        });
        let port = Port { shared, addr };
        driver::get()?.add(&port.shared)?;
        if port.shared.options.is_shared {
            port.share()?;
        }
        Ok(port)
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Sets the type of service.
    ///
    /// # Errors
    /// Those of the kernel.
    pub(crate) fn set_tos(&self, tos: u8) -> io::Result<()> {
        self.shared.with_udp(|udp| udp.set_tos(tos))
    }

    /// Shares the number with other ports that do so too, until one of them listens.
    ///
    /// # Errors
    /// Those of the kernel.
    pub(crate) fn share(&self) -> io::Result<()> {
        self.shared.with_udp(|udp| {
            // A socket that is connected to itself takes nothing from another one that listens at
            // the port.
            udp.connect(itself(udp.addr()))?;
            udp.set_shared(true)
        })?;
        self.shared.is_shared.store(true, Ordering::Release);
        Ok(())
    }

    /// Takes the number away from other ports that share it, for a listener.
    ///
    /// # Errors
    /// `AddrInUse`: another port listens.
    pub(super) fn claim(&self) -> io::Result<()> {
        static CLAIMING: Mutex<()> = Mutex::new(());
        if !self.shared.is_shared() {
            return Ok(());
        }
        let _one_at_a_time = lock(&CLAIMING);
        // A port that does not share any more is one that listens.
        let udp = self.shared.options.bind(self.addr, true)?;
        udp.set_shared(false)?;
        self.shared.is_shared.store(false, Ordering::Release);
        self.shared.replace(udp)
    }

    /// Prepares the port for a link to this address.
    ///
    /// # Errors
    /// Those of the kernel.
    pub(super) fn prepare(&self, to: SocketAddr) -> io::Result<()> {
        match self.shared.is_shared() {
            true => self.shared.with_udp(|udp| udp.connect(to)),
            false => Ok(()),
        }
    }
}

impl PortOptions {
    fn bind(&self, addr: SocketAddr, is_shared: bool) -> io::Result<Udp> {
        let udp = Udp::bind(addr, self.is_only_v6, is_shared)?;
        if self.tos != 0 {
            udp.set_tos(self.tos)?;
        }
        Ok(udp)
    }
}

/// The address of a socket, or the loopback address if the socket has all addresses.
fn itself(addr: SocketAddr) -> SocketAddr {
    let ip = match addr.ip() {
        ip if !ip.is_unspecified() => ip,
        IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
    };
    SocketAddr::new(ip, addr.port())
}

impl Drop for Port {
    fn drop(&mut self) {
        self.shared.leave(self.addr.ip());
    }
}

/// A port, as its links and the driver hold it.
pub(super) struct PortShared {
    pub(super) token: u64,
    /// `None`: the port was given up, and no links remain. The socket has no other owner, so that
    /// the number is free as soon as another socket takes its place.
    udp: Mutex<Option<Udp>>,
    links: Mutex<HashMap<u64, Arc<End>>>,
    /// The queue of the listener.
    queue: Mutex<Option<Arc<Queue>>>,
    is_shared: AtomicBool,
    has_owner: AtomicBool,
    /// The state of the random numbers that decide the faults.
    sent: AtomicU64,
    options: PortOptions,
}

impl PortShared {
    fn number(&self) -> u16 {
        self.with_udp(|udp| Ok(udp.addr().port())).unwrap_or_default()
    }

    fn is_shared(&self) -> bool {
        self.is_shared.load(Ordering::Acquire)
    }

    /// Calls `action` with the socket.
    ///
    /// # Errors
    /// `NotConnected`: the port was given up. Otherwise those of `action`.
    pub(super) fn with_udp<T>(&self, action: impl FnOnce(&Udp) -> io::Result<T>) -> io::Result<T> {
        lock(&self.udp).as_ref().ok_or(io::ErrorKind::NotConnected.into()).and_then(action)
    }

    /// Sends a datagram from an address of this host, or loses it, as the options say.
    ///
    /// # Errors
    /// Those of the kernel.
    pub(super) fn send(&self, bytes: &[u8], from: IpAddr, to: SocketAddr) -> io::Result<()> {
        let Faults { drop, duplicate, .. } = self.options.faults;
        if drop > 0.0 && self.random() < drop {
            return Ok(());
        }
        let copies = 1 + u8::from(duplicate > 0.0 && self.random() < duplicate);
        self.with_udp(|udp| (0..copies).try_for_each(|_| udp.send(bytes, from, to)))
    }

    /// Sends a datagram as [`PortShared::send`] does. If another thread holds the lock until
    /// `until`, the datagram is lost.
    pub(super) fn send_at_exit(&self, bytes: &[u8], from: IpAddr, to: SocketAddr, until: Instant) {
        if let Some(udp) = lock_until(&self.udp, until)
            && let Some(udp) = udp.as_ref()
        {
            let _ = udp.send(bytes, from, to);
        }
    }

    /// Closes all links as the process ends. Waits for locks until `until`.
    pub(super) fn close_at_exit(&self, until: Instant) {
        if let Some(links) = lock_until(&self.links, until) {
            links.values().for_each(|end| end.leave(until));
        }
    }

    /// A random number from 0 to 1 (splitmix64).
    fn random(&self) -> f64 {
        const STEP: u64 = 0x9E37_79B9_7F4A_7C15;
        let mut z = self.sent.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Adds a link, unless its number is taken.
    pub(super) fn add(&self, end: &Arc<End>) -> bool {
        let mut links = lock(&self.links);
        let is_new = !links.contains_key(&end.number);
        if is_new {
            links.insert(end.number, end.clone());
        }
        is_new
    }

    /// Removes a link that is over. The last link of a port without an owner ends the port.
    pub(super) fn remove(&self, end: &End) {
        let is_empty = {
            let mut links = lock(&self.links);
            links.remove(&end.number);
            links.is_empty()
        };
        if is_empty && !self.has_owner.load(Ordering::Acquire) {
            self.end();
        }
    }

    pub(super) fn link(&self, number: u64) -> Option<Arc<End>> {
        lock(&self.links).get(&number).cloned()
    }

    pub(super) fn links(&self) -> Vec<Arc<End>> {
        lock(&self.links).values().cloned().collect()
    }

    pub(super) fn set_queue(&self, queue: Option<Arc<Queue>>) {
        *lock(&self.queue) = queue;
    }

    /// Receives all datagrams and errors that have arrived.
    pub(super) fn receive(self: &Arc<Self>) {
        let recv_error = || lock(&self.udp).as_ref().and_then(Udp::recv_error);
        while let Some((received, errno)) = recv_error() {
            let link = Datagram::decode_beginning(received.bytes());
            if let Some(end) = link.and_then(|link| self.link(link)) {
                end.on_report(errno);
            }
        }
        let recv = || lock(&self.udp).as_ref().and_then(Udp::recv);
        while let Some((received, from, to)) = recv() {
            if let Some(datagram) = Datagram::decode(received.bytes()) {
                self.on_datagram(&datagram, from, to);
            }
        }
    }

    fn on_datagram(self: &Arc<Self>, datagram: &Datagram<'_>, from: SocketAddr, to: IpAddr) {
        if let Some(end) = self.link(datagram.link) {
            return end.on_datagram(datagram, from);
        }
        let queue = lock(&self.queue).clone();
        let answer = match (datagram.body, queue) {
            (Body::Hello, Some(queue)) => Some(queue.cookie(datagram.link, from)),
            (Body::Open(cookie, message), Some(queue)) => {
                let to = SocketAddr::new(to, self.number());
                queue.open((datagram.link, cookie, message), (from, to), self)
            }
            (Body::Cookie(_) | Body::Ack | Body::Gone, _) => None,
            _ => Some(Body::Gone),
        };
        if let Some(body) = answer {
            // If this fails, the other end asks again.
            let _ = self.send(&Datagram::new(datagram.link, body).encode(), to, from);
        }
    }

    /// Continues with another socket.
    fn replace(self: &Arc<Self>, udp: Udp) -> io::Result<()> {
        *lock(&self.udp) = Some(udp);
        driver::get()?.add(self)
    }

    /// Gives the number up. Remaining links continue at another port.
    fn leave(self: &Arc<Self>, ip: IpAddr) {
        self.set_queue(None);
        self.has_owner.store(false, Ordering::Release);
        let links = self.links();
        let elsewhere = SocketAddr::new(ip, 0);
        let moved = !links.is_empty()
            && self.options.bind(elsewhere, false).and_then(|udp| self.replace(udp)).is_ok();
        if moved {
            links.iter().for_each(|end| end.probe());
        } else {
            // Links that cannot move receive nothing any more.
            self.end();
        }
    }

    /// Closes the socket.
    fn end(&self) {
        if let Ok(driver) = driver::get() {
            driver.remove(self);
        }
        *lock(&self.udp) = None;
    }

    /// The next timeout of any link.
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        lock(&self.links).values().filter_map(|end| end.next_timeout()).min()
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

//! The handle of a port: it starts and stops the port's thread.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::inbox::Inbox;
use super::serve;
use super::share::{Share, name};
use super::unix::NameListener;
use crate::fork::Origin;
use crate::link::Link;
use crate::link::udp::UdpLink;
use crate::threads::spawn_without_signals;
use crate::wake::Event;

/// Attempts to open a port whose reader has just ended, and the pause between them.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(10);

/// A port of this process. Dropping it leaves the port to the other processes.
pub(crate) struct PortHandle {
    origin: Origin,
    pub(super) share: Arc<Share>,
    /// Whether other processes can join, or that has failed.
    is_started: AtomicBool,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// A port, its socket, and the inbox unless this process reads.
pub(super) type Opened = (Arc<PortHandle>, UdpLink, Option<Inbox>);

impl PortHandle {
    /// Opens a port, or joins the processes that have it.
    ///
    /// # Errors
    /// `AddrInUse`: others have the port who do not let this process in.
    pub(super) fn open(addr: SocketAddr, receive_buffer: usize) -> io::Result<Opened> {
        let mut tries = 1;
        loop {
            let taken = match UdpLink::bind(addr, receive_buffer) {
                Ok(mut link) => {
                    let port = PortHandle::of(&mut link)?;
                    port.start();
                    return Ok((port, link, None));
                }
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => error,
                Err(error) => return Err(error),
            };
            match PortHandle::join(addr) {
                // The port is not shared, or its reader has just ended.
                Err(error) if is_nobody(&error) && tries == TRIES => return Err(taken),
                Err(error) if is_nobody(&error) => thread::sleep(PAUSE),
                joined => return joined,
            }
            tries += 1;
        }
    }

    /// The port of a socket that this process has opened. Others can join once it has started.
    pub(super) fn of(link: &mut UdpLink) -> io::Result<Arc<Self>> {
        link.accept_unchecked();
        Ok(PortHandle::new(Share::of_reader(link.local_addr(), link.receiver()?)?))
    }

    fn new(share: Share) -> Arc<Self> {
        let (origin, share) = (Origin::here(), Arc::new(share));
        Arc::new(PortHandle {
            origin,
            share,
            is_started: AtomicBool::default(),
            thread: Mutex::default(),
        })
    }

    fn join(addr: SocketAddr) -> io::Result<Opened> {
        let inbox = Inbox::open()?;
        let mut nobody = io::ErrorKind::ConnectionRefused.into();
        for bound in bound_for(addr) {
            match Share::join(bound, &inbox) {
                Ok(share) => {
                    let socket = share.socket().try_clone_to_owned()?;
                    let link = UdpLink::of(socket)?;
                    let port = PortHandle::new(share);
                    port.spawn(None);
                    tracing::info!(local = %addr, "shares the port of RoCEv2 with other processes");
                    return Ok((port, link, Some(inbox)));
                }
                Err(error) if is_nobody(&error) => nobody = error,
                Err(error) => return Err(error),
            }
        }
        Err(nobody)
    }

    /// Lets other processes join this one, which reads.
    pub(super) fn start(&self) {
        if self.is_started.swap(true, Ordering::Relaxed) {
            return;
        }
        match take_name(&name(self.share.local())) {
            Ok(listener) => self.spawn(Some(listener)),
            Err(error) => self.warn(&error),
        }
    }

    fn spawn(&self, listener: Option<NameListener>) {
        let share = self.share.clone();
        let thread = thread::Builder::new().name("braid-roce-port".to_owned());
        match spawn_without_signals(thread, move || serve::run(&share, listener)) {
            Ok(thread) => {
                *self.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread);
            }
            Err(error) => self.warn(&error),
        }
    }

    fn warn(&self, error: &io::Error) {
        let local = self.share.local();
        tracing::warn!(%local, %error, "no other process can share the port of RoCEv2");
    }
}

impl Drop for PortHandle {
    fn drop(&mut self) {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        // A forked child shares the descriptors with its parent, whose thread goes on.
        if let (Some(thread), true) = (thread, self.origin.is_here()) {
            self.share.stop.raise();
            // A thread that has panicked has reported that.
            let _ = thread.join();
        }
    }
}

/// Takes the name of a port, once a process that has just ended has given it back.
fn take_name(name: &str) -> io::Result<NameListener> {
    for _ in 1..TRIES {
        match NameListener::bind(name) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => thread::sleep(PAUSE),
            taken => return taken,
        }
    }
    NameListener::bind(name)
}

/// Whether no process has the name.
fn is_nobody(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::ConnectionRefused
}

/// The addresses of sockets that receive all that is sent to this one.
fn bound_for(addr: SocketAddr) -> impl Iterator<Item = SocketAddr> {
    let any: IpAddr = match addr {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let wildcards = [any, Ipv6Addr::UNSPECIFIED.into()];
    let mut all = vec![addr];
    all.extend(wildcards.map(|ip| SocketAddr::new(ip, addr.port())));
    all.dedup();
    all.into_iter()
}

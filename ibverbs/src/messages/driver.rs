//! The thread that receives for all ports of this process, and repeats what was lost.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::eventfd::{EfdFlags, EventFd};

use super::port::{Shared, lock};
use crate::threads;

/// The token of the wake-up call; ports count from 1.
const WAKE: u64 = 0;
/// Longest sleep. Nothing waits for its end.
const SLEEP: Duration = Duration::from_secs(60);

/// A new token of a port.
pub(super) fn token() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(WAKE + 1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// The ports of a process.
pub(super) struct Driver {
    epoll: Epoll,
    wake: EventFd,
    ports: Mutex<HashMap<u64, Arc<Shared>>>,
}

static DRIVER: Mutex<Option<(u32, &Driver)>> = Mutex::new(None);

/// Closes all links as the process ends. A signal handler may end it while locks are held, so that
/// nobody waits for one.
pub(crate) fn close_at_exit() {
    let Ok(driver) = DRIVER.try_lock() else { return };
    if let Some((owner, driver)) = *driver
        && owner == std::process::id()
        && let Ok(ports) = driver.ports.try_lock()
    {
        ports.values().for_each(|port| port.close_at_exit());
    }
}

/// The driver of this process. A forked child has its own, without its parent's ports.
///
/// # Errors
/// There are too many descriptors or threads.
pub(super) fn get() -> io::Result<&'static Driver> {
    let mut driver = lock(&DRIVER);
    let process = std::process::id();
    match *driver {
        Some((owner, driver)) if owner == process => Ok(driver),
        _ => {
            let started = Driver::start()?;
            *driver = Some((process, started));
            Ok(started)
        }
    }
}

impl Driver {
    fn start() -> io::Result<&'static Self> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let wake = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
        epoll.add(&wake, EpollEvent::new(EpollFlags::EPOLLIN, WAKE))?;
        // It serves until the process ends.
        let driver: &'static Driver =
            Box::leak(Box::new(Driver { epoll, wake, ports: Mutex::default() }));
        threads::spawn("braid-cm-links", || driver.run())?;
        Ok(driver)
    }

    /// Receives for a port, which may have a new socket.
    ///
    /// # Errors
    /// The kernel's.
    pub(super) fn add(&self, port: &Arc<Shared>) -> io::Result<()> {
        lock(&self.ports).insert(port.token, port.clone());
        let event = EpollEvent::new(EpollFlags::EPOLLIN, port.token);
        port.with_udp(|udp| Ok(self.epoll.add(udp, event)?))
    }

    pub(super) fn remove(&self, port: &Shared) {
        lock(&self.ports).remove(&port.token);
        // Fails if the parent's driver receives for it.
        let _ = port.with_udp(|udp| Ok(self.epoll.delete(udp)?));
    }

    /// A timeout may be due sooner than before.
    pub(super) fn wake(&self) {
        // Fails only if it is awake anyway.
        let _ = self.wake.write(1);
    }

    fn run(&self) {
        let mut events = [EpollEvent::empty(); 64];
        loop {
            let sleep = self.sleep();
            let count = self.epoll.wait(&mut events, sleep).unwrap_or(0);
            for event in &events[..count] {
                match event.data() {
                    WAKE => _ = self.wake.read(),
                    token => {
                        let port = lock(&self.ports).get(&token).cloned();
                        if let Some(port) = port {
                            port.receive();
                        }
                    }
                }
            }
            let ports: Vec<_> = lock(&self.ports).values().cloned().collect();
            for end in ports.iter().flat_map(|port| port.links()) {
                end.on_timeout();
            }
        }
    }

    /// Until the next timeout, rounded up.
    fn sleep(&self) -> EpollTimeout {
        let next = lock(&self.ports).values().filter_map(|port| port.next_timeout()).min();
        let sleep = next.map_or(SLEEP, |next| next.saturating_duration_since(Instant::now()));
        let ms = sleep.min(SLEEP).as_millis() as u16 + u16::from(!sleep.is_zero());
        EpollTimeout::from(ms)
    }
}

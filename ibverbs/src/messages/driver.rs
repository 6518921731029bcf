//! The driver: one thread that receives for all ports of this process, and repeats lost datagrams.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::eventfd::{EfdFlags, EventFd};

use super::port::{PortShared, lock};
use crate::threads::{self, lock_until};

/// The token of the wake-up event. Those of ports count from 1.
const WAKE: u64 = 0;
/// The longest sleep. Nothing depends on its end.
const SLEEP: Duration = Duration::from_secs(60);

/// A new token for a port.
pub(super) fn token() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(WAKE + 1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// The ports of a process.
pub(super) struct Driver {
    epoll: Epoll,
    wake: EventFd,
    ports: Mutex<HashMap<u64, Arc<PortShared>>>,
}

static DRIVER: Mutex<Option<(u32, &Driver)>> = Mutex::new(None);

/// Closes all links as the process ends. Waits for locks until `until`.
pub(crate) fn close_at_exit(until: Instant) {
    let Some(driver) = lock_until(&DRIVER, until) else { return };
    if let Some((owner, driver)) = *driver
        && owner == std::process::id()
        && let Some(ports) = lock_until(&driver.ports, until)
    {
        ports.values().for_each(|port| port.close_at_exit(until));
    }
}

/// The driver of this process. A forked child has a driver of its own, without its parent's ports.
///
/// # Errors
/// The system has no more descriptors or threads.
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
        // The driver serves until the process ends.
        let driver: &'static Driver =
            Box::leak(Box::new(Driver { epoll, wake, ports: Mutex::default() }));
        threads::spawn("braid-cm-links", || driver.run())?;
        Ok(driver)
    }

    /// Receives for a port, also after the port has got a new socket.
    ///
    /// # Errors
    /// Those of the kernel.
    pub(super) fn add(&self, port: &Arc<PortShared>) -> io::Result<()> {
        lock(&self.ports).insert(port.token, port.clone());
        let event = EpollEvent::new(EpollFlags::EPOLLIN, port.token);
        port.with_udp(|udp| Ok(self.epoll.add(udp, event)?))
    }

    pub(super) fn remove(&self, port: &PortShared) {
        lock(&self.ports).remove(&port.token);
        // This fails if the driver of the parent process receives for the port.
        let _ = port.with_udp(|udp| Ok(self.epoll.delete(udp)?));
    }

    /// Wakes the thread, because a timeout may be due sooner than before.
    pub(super) fn wake(&self) {
        // This fails only if the thread is awake.
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

    /// The time until the next timeout, rounded up.
    fn sleep(&self) -> EpollTimeout {
        let next = lock(&self.ports).values().filter_map(|port| port.next_timeout()).min();
        let sleep = next.map_or(SLEEP, |next| next.saturating_duration_since(Instant::now()));
        let ms = sleep.min(SLEEP).as_millis() as u16 + u16::from(!sleep.is_zero());
        EpollTimeout::from(ms)
    }
}

//! The thread that forwards packets.

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use tun_rs::SyncDevice;

use super::line::{Passage, QueuedLink};
use super::network::Network;
use super::packet::Packet;
use crate::{FabricError, tools};

/// Packets that are read from a host at once before those that are due are sent.
const BATCH: usize = 64;
/// Time between two looks at the hosts. A packet may be late by this time, but no core is kept
/// busy.
const REST: Duration = Duration::from_micros(50);
/// Time between two checks for the end.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The data that the thread and its owner share.
#[derive(Debug, Default)]
pub(super) struct Shared {
    pub(super) stop: AtomicBool,
    pub(super) trace: Mutex<Vec<Passage>>,
}

pub(super) struct Switch {
    pub(super) network: Network,
    pub(super) addresses: Vec<Ipv4Addr>,
    pub(super) devices: Vec<SyncDevice>,
    /// The time at which the network was made.
    pub(super) began: Instant,
}

impl Switch {
    /// Forwards until it is told to stop.
    pub(super) fn run(&self, shared: &Shared) -> Result<(), FabricError> {
        // Packets that wait for this thread would reach a short queue at once, which would drop
        // some.
        tools::run_first()?;
        // The default slack, 50 us, would be added to every delay.
        nix::sys::prctl::set_timerslack(1).map_err(FabricError::system("set the timer slack"))?;
        let links = self.network.links();
        let mut lines: Vec<QueuedLink> =
            links.iter().zip(0..).map(|(link, index)| QueuedLink::new(index, *link)).collect();
        let mut waits: Vec<PollFd<'_>> =
            self.devices.iter().map(|end| PollFd::new(end.as_fd(), PollFlags::POLLIN)).collect();
        let mut buffer = vec![0; self.network.mtu as usize];
        let mut fresh = Vec::new();
        while !shared.stop.load(Ordering::Relaxed) {
            let due = lines.iter().filter_map(QueuedLink::next_due).min();
            let wait = due.map_or(LOOK_EVERY, |due| due.saturating_sub(self.began.elapsed()));
            match ppoll(&mut waits, Some(TimeSpec::from(wait.min(LOOK_EVERY))), None) {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(e) => return Err(FabricError::system("wait for packets")(e)),
            }
            for from in (0..waits.len()).filter(|from| waits[*from].any().unwrap_or(true)) {
                self.take(from, &mut lines, &mut buffer, &mut fresh)?;
            }
            for (index, line) in lines.iter_mut().enumerate() {
                let to = &self.devices[self.network.end_of(index)];
                while let Some((passage, packet)) = line.pop_due(self.began.elapsed()) {
                    // Only the device of a host that is being removed takes no packet.
                    let _ = to.send(&packet);
                    fresh.push(passage);
                }
            }
            if !fresh.is_empty() {
                shared.trace.lock().expect("nobody panics with it").append(&mut fresh);
            }
            thread::sleep(REST);
        }
        Ok(())
    }

    /// Takes the packets of a host, up to a batch. Packets for no host vanish.
    fn take(
        &self,
        from: usize,
        lines: &mut [QueuedLink],
        buffer: &mut [u8],
        fresh: &mut Vec<Passage>,
    ) -> Result<(), FabricError> {
        for _ in 0..BATCH {
            let length = match self.devices[from].recv(buffer) {
                Ok(length) => length,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(FabricError::system("read from a host")(e)),
            };
            let bytes = &mut buffer[..length];
            let Some(packet) = Packet::read(bytes) else { continue };
            let Some(to) = self.addresses.iter().position(|ip| *ip == packet.to) else { continue };
            let line = &mut lines[self.network.route(packet, to)];
            fresh.extend(line.take(self.began.elapsed(), from as u16, bytes));
        }
        Ok(())
    }
}

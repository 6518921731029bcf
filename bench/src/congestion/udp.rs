//! Cross traffic without congestion control: datagrams at a constant rate, on and off.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use braid_lab::Rate;

use super::lab::EmulatedLab;
use crate::failure::Failure;

/// Bytes of a full packet on a link, and of its payload.
const ON_LINK: usize = 1514;
const PAYLOAD: usize = ON_LINK - 14 - 20 - 8;
/// Interval between two bursts.
const TICK: Duration = Duration::from_millis(1);

/// A sender of datagrams in the second and fourth quarter of the time, until it is stopped.
pub(super) struct Udp {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    /// An open socket, so that the host does not reply with ICMP errors to unwanted datagrams.
    _receiver: UdpSocket,
}

/// Returns whether it sends at a time within a whole.
pub(super) fn is_on(at: Duration, whole: Duration) -> bool {
    let quarter = at.as_secs_f64() * 4.0 / whole.as_secs_f64();
    (1.0..2.0).contains(&quarter) || (3.0..4.0).contains(&quarter)
}

impl Udp {
    pub(super) fn start(
        lab: &EmulatedLab,
        (from, to): (usize, usize),
        rate: Rate,
        whole: Duration,
    ) -> Result<Self, Failure> {
        let cannot = |why| Failure::Io { what: "cannot start cross traffic".to_owned(), why };
        let open = |host| {
            let ip = lab.host(host).ip;
            lab.on(host, move || UdpSocket::bind((ip, 0)))?.map_err(cannot)
        };
        let (sender, receiver) = (open(from)?, open(to)?);
        let to = receiver.local_addr().map_err(cannot)?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let sending = move || send(&sender, to, rate, whole, &stopped);
        let thread =
            thread::Builder::new().name("cross traffic".into()).spawn(sending).map_err(cannot)?;
        Ok(Udp { stop, thread: Some(thread), _receiver: receiver })
    }
}

/// Sends datagrams. One that the system does not accept counts as lost in the network.
fn send(socket: &UdpSocket, to: SocketAddr, rate: Rate, whole: Duration, stop: &AtomicBool) {
    let payload = [0; PAYLOAD];
    let (began, mut last, mut owed) = (Instant::now(), Instant::now(), 0.0);
    while !stop.load(Ordering::Relaxed) {
        let now = Instant::now();
        if is_on(now - began, whole) {
            owed += (now - last).as_secs_f64() * rate.bits() as f64 / 8.0;
        }
        last = now;
        while owed >= ON_LINK as f64 {
            let _ = socket.send_to(&payload, to);
            owed -= ON_LINK as f64;
        }
        thread::sleep(TICK);
    }
}

impl Drop for Udp {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // A thread that panicked has reported it.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cross_traffic_is_on_in_every_other_quarter() {
        let on = |ms| is_on(Duration::from_millis(ms), Duration::from_secs(4));
        assert_eq!(
            [0, 999, 1000, 1999, 2000, 3000, 3999, 4000].map(on),
            [false, false, true, true, false, true, true, false]
        );
    }
}

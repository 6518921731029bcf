//! Congestion control at work: what the controller of a stream lets out, and when.

use std::time::Duration;

use braid_cc::{AckSample, Controller, Loss, Subflow};
use braid_wire::Time;

use super::pacer::Pacer;
use super::room::Block;
use super::window::Segment;
use crate::{QpConfig, Remote};

/// Invariant: `window` is what the controller answers now; it is asked only after it was told something.
#[derive(Debug)]
pub(crate) struct Congestion {
    controller: Box<dyn Controller>,
    window: u64,
    has_rate: bool,
    /// Made once the controller has a rate, or a window smaller than a packet.
    pacer: Option<Box<Pacer>>,
    /// When the stream last stopped sending, it was not the controller that stopped it.
    app_limited: bool,
}

impl Congestion {
    pub(crate) fn new(config: &QpConfig, remote: &Remote) -> Self {
        let packet_bytes = Segment::wire_len(remote.mtu);
        let mut controller = config.cc.build(&Subflow { packet_bytes });
        let has_rate = controller.rate(Time::ZERO).is_some();
        Congestion {
            window: controller.window(),
            has_rate,
            pacer: has_rate.then(Box::default),
            controller,
            app_limited: true,
        }
    }

    /// Bytes that may be in flight.
    pub(crate) fn window(&self) -> u64 {
        self.window
    }

    /// Whether the window has room for so many bytes. A segment always fits an empty window, however small that is: what
    /// it takes too much, the pacer makes up for.
    pub(crate) fn has_room(&self, in_flight: u64, bytes: u64) -> bool {
        in_flight == 0 || in_flight.saturating_add(bytes) <= self.window
    }

    /// Whether what has left has had its time.
    pub(crate) fn is_open(&self, now: Time) -> bool {
        self.pacer.as_ref().is_none_or(|pacer| pacer.is_open(now))
    }

    /// When the pacer lets out what it holds back, if it does.
    pub(crate) fn opens_at(&self) -> Option<Time> {
        self.pacer.as_ref()?.opens_at()
    }

    /// Nothing more leaves for now.
    pub(crate) fn on_blocked(&mut self, by: Block) {
        self.app_limited = !matches!(by, Block::Window | Block::Rate);
        if let Some(pacer) = &mut self.pacer {
            pacer.hold(by == Block::Rate);
        }
    }

    /// So many bytes leave, of a burst of at most `burst` segments; `rtt`: about how long they will be in flight.
    pub(crate) fn on_sent(&mut self, now: Time, bytes: u64, burst: u32, rtt: Duration) {
        if bytes > self.window {
            // Swift, section 3.5: a window of less than a packet is a packet in more than a round trip.
            let slow = bits_per_second(self.window, rtt);
            let rate = self.controller.rate(now).map_or(slow, |rate| rate.min(slow));
            self.pacer.get_or_insert_default().on_sent(now, bytes, rate, 1);
        } else if let (true, Some(pacer)) = (self.has_rate, &mut self.pacer) {
            let rate = self.controller.rate(now);
            let rate = rate.expect("a controller answers always with a rate or never");
            pacer.on_sent(now, bytes, rate, burst);
        }
    }

    pub(crate) fn on_ack(&mut self, ack: AckSample) {
        self.controller.on_ack(&ack);
    }

    pub(crate) fn on_loss(&mut self, loss: &Loss) {
        self.controller.on_loss(loss);
    }

    pub(crate) fn on_timeout(&mut self, now: Time) {
        self.controller.on_timeout(now);
    }

    pub(crate) fn app_limited(&self) -> bool {
        self.app_limited
    }

    /// Asks the controller for its window, after it was told something. Returns whether it has changed.
    pub(crate) fn ask(&mut self) -> bool {
        let before = std::mem::replace(&mut self.window, self.controller.window());
        before != self.window
    }
}

/// The rate of a window in each round trip.
fn bits_per_second(window: u64, rtt: Duration) -> u64 {
    let bits = u128::from(window.max(1)) * 8 * Duration::from_secs(1).as_nanos();
    u64::try_from(bits / rtt.as_nanos().max(1)).unwrap_or(u64::MAX)
}

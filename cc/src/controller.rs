//! What a controller is told, and what it answers.

use std::fmt;
use std::time::Duration;

use braid_wire::{PathId, Time};

/// Decides how much of a subflow may be in flight, and how fast it may leave.
///
/// A subflow is what a stream sends over one rail: each has a controller of its own. Of one acknowledgement a controller
/// hears in this order: [`Controller::on_ack`] for each path that it speaks of, [`Controller::on_chunk`] for each chunk
/// that it completes, [`Controller::on_loss`] if it shows losses, [`Controller::on_spurious`] if it shows that some were none.
/// Afterwards it is asked for its window. Times never run
/// backwards. Nothing of this may allocate, block or log.
pub trait Controller: fmt::Debug + Send {
    /// Packets of one path are acknowledged, or reported as marked, or both.
    fn on_ack(&mut self, _ack: &AckSample) {}

    /// Packets were found lost: later ones have arrived, or the network has said so.
    fn on_loss(&mut self, _loss: &Loss) {}

    /// Packets that were declared lost had only come late: what was sent again for them came twice.
    fn on_spurious(&mut self, _spurious: &Spurious) {}

    /// Nothing was heard for the retransmission time-out. What is resent then is a question, not a loss that is known.
    fn on_timeout(&mut self, _now: Time) {}

    /// Bytes of a chunk. `Some`: [`Controller::on_chunk`] is told of them, and the last packet of each asks for its
    /// acknowledgement. Asked once, before anything is sent.
    fn chunk_bytes(&self) -> Option<u64> {
        None
    }

    /// Everything of a chunk is acknowledged.
    fn on_chunk(&mut self, _chunk: &Chunk) {}

    /// Bytes that may be in flight, packet headers included. Below one packet, packets leave one at a time and with pauses,
    /// so that on average no more than this is in flight; 0 counts as 1. It changes with what the controller is told only, not with time.
    fn window(&self) -> u64;

    /// Bits per second at which packets may leave from `now` on, headers included; `None`: as fast as the window lets
    /// them. Whether there is a rate changes with what the controller is told only, not with time.
    fn rate(&mut self, _now: Time) -> Option<u64> {
        None
    }

    /// Where it stands: asked after each acknowledgement and time-out, and for logs and counters.
    fn metrics(&self) -> Metrics;
}

/// Makes the controllers of a configuration, one for each subflow (as quinn's `ControllerFactory`).
///
/// Its text names it, with all parameters that decide what it makes: reports show it, and configurations with the same
/// text are taken for equal.
pub trait ControllerFactory: fmt::Display + Send + Sync {
    /// A fresh controller.
    fn build(&self, subflow: &Subflow) -> Box<dyn Controller>;
}

/// What is known of a subflow before anything is sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Subflow {
    /// Bytes of a full packet, headers included.
    pub packet_bytes: u64,
}

/// What an acknowledgement says about the packets that took one path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AckSample {
    /// When it came.
    pub now: Time,
    /// Their path.
    pub path: PathId,
    /// How many are newly acknowledged.
    pub packets: u32,
    /// Their bytes, headers included.
    pub bytes: u64,
    /// How many that took this path are newly reported with a congestion mark. Marks are reported after the packets if
    /// an acknowledgement was lost, so these may be more than `packets`.
    pub marks: u32,
    /// The round trip of the packet that made the peer acknowledge, if it is one of these.
    pub rtt: Option<RttSample>,
    /// Bytes in flight before it came, those that it acknowledges included.
    pub in_flight: u64,
    /// When the stream last stopped sending, neither window nor rate of the controller stopped it: there was nothing to
    /// send, or the peer had no room. A window that is not used says nothing about a larger one.
    pub app_limited: bool,
}

/// A round trip.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RttSample {
    /// When the packet left.
    pub sent_at: Time,
    /// From there to the acknowledgement, less the time for which the peer held that back.
    pub rtt: Duration,
}

/// Packets that were found lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Loss {
    /// When that was found.
    pub now: Time,
    /// How many.
    pub packets: u64,
    /// Their bytes, headers included.
    pub bytes: u64,
    /// When the latest of them left.
    pub sent_at: Time,
}

/// Packets that were declared lost and had only come late.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Spurious {
    /// When that was found.
    pub now: Time,
    /// How many.
    pub packets: u64,
}

/// A chunk whose every packet is acknowledged. It is as long as [`Controller::chunk_bytes`] says, to the next whole packet;
/// shorter if the stream had nothing more to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Chunk {
    /// When its first packet left for the first time.
    pub first_sent: Time,
    /// When its last packet left for the first time.
    pub last_sent: Time,
    /// When the last of its packets was acknowledged.
    pub last_acked: Time,
    /// For how long the peer held that acknowledgement back.
    pub peer_delay: Duration,
    /// Its bytes, packet headers included.
    pub bytes: u64,
    /// The longest round trip that was sampled of its packets; `None`: of none.
    pub longest_rtt: Option<Duration>,
}

impl Chunk {
    /// What the network, and the sender's own window and rate, took for it.
    pub fn delay(&self) -> Duration {
        (self.last_acked - self.first_sent).saturating_sub(self.peer_delay)
    }
}

/// Where a controller stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Metrics {
    /// Bytes that may be in flight.
    pub window: u64,
    /// Bits per second, if it has a rate: as of when it was last asked or told.
    pub bits_per_second: Option<u64>,
}

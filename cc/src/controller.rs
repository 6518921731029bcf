//! The interface of congestion controllers.

use std::fmt;
use std::time::Duration;

use braid_wire::{PathId, Time};

/// A congestion controller: limits the bytes in flight and the sending rate of one subflow.
///
/// A subflow is the part of a stream that uses one rail. For one acknowledgement, the caller
/// invokes in this order:
///
/// - [`Controller::on_ack`] for each path that the acknowledgement reports,
/// - [`Controller::on_chunk`] for each chunk that it completes,
/// - [`Controller::on_loss`] if it reveals losses,
/// - [`Controller::on_spurious`] if it reveals spurious losses.
///
/// The caller then reads the window. Times never decrease. No method may allocate, block or log.
pub trait Controller: fmt::Debug + Send {
    /// Processes the acknowledgements and congestion marks of one path.
    fn on_ack(&mut self, _ack: &AckSample) {}

    /// Processes packets that are declared lost, because later packets arrived.
    fn on_loss(&mut self, _loss: &Loss) {}

    /// Processes packets that the network itself reports as lost, because a switch has trimmed
    /// them to their headers. Default: as any loss.
    fn on_trimmed(&mut self, loss: &Loss) {
        self.on_loss(loss);
    }

    /// Processes packets that were declared lost although they were only late, so that their
    /// retransmissions arrived as duplicates.
    fn on_spurious(&mut self, _spurious: &Spurious) {}

    /// Processes a retransmission time-out. The retransmission is a probe, because no loss is
    /// confirmed yet.
    fn on_timeout(&mut self, _now: Time) {}

    /// Returns the chunk size in bytes, if the controller needs [`Controller::on_chunk`]. The last
    /// packet of each chunk then requests an acknowledgement. The caller asks once, before it
    /// sends.
    fn chunk_bytes(&self) -> Option<u64> {
        None
    }

    /// Processes a chunk whose packets are all acknowledged.
    fn on_chunk(&mut self, _chunk: &Chunk) {}

    /// Returns the number of bytes that may be in flight, including packet headers.
    ///
    /// If the window is smaller than one packet, the sender spaces single packets so that the
    /// average in flight does not exceed it. 0 counts as 1. The window changes only in the `on_`
    /// methods, not with time.
    fn window(&self) -> u64;

    /// Returns the sending rate from `now` on in bits per second, including headers, or `None` if
    /// only the window limits the sender. Whether there is a rate changes only in the `on_`
    /// methods.
    fn rate(&mut self, _now: Time) -> Option<u64> {
        None
    }

    /// Returns the terms on which the subflow sends by credit of its receiver, if it does. The
    /// window and the rate hold as well. The caller asks when the subflow begins and, if there are
    /// terms, after each event.
    fn credit_terms(&self) -> Option<CreditTerms> {
        None
    }

    /// Returns the current state, for logs and counters. The caller reads it after each
    /// acknowledgement and time-out.
    fn metrics(&self) -> Metrics;
}

/// The terms on which a subflow sends by credit of its receiver.
///
/// The sender tells the receiver how much it wants to send. The receiver grants that by and by, so
/// that all its senders together fill its link and no more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CreditTerms {
    /// Rate of the receiver's link in bits per second, at which the receiver grants credit.
    pub bits_per_second: u64,
    /// Bytes that a stream may send without credit after it had nothing in flight, including
    /// packet headers: about the bandwidth-delay product.
    pub unsolicited: u64,
}

/// Creates the controllers of a configuration, one per subflow (compare quinn's
/// `ControllerFactory`).
///
/// The text names the configuration with every parameter that matters. Reports show it. Two
/// configurations with the same text are equal.
pub trait ControllerFactory: fmt::Display + Send + Sync {
    /// Creates a controller.
    fn build(&self, subflow: &Subflow) -> Box<dyn Controller>;

    /// Returns whether the controllers have [`Controller::credit_terms`], so that the peer has to
    /// grant credit.
    fn needs_credit(&self) -> bool {
        false
    }
}

/// The properties of a subflow before the first packet.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Subflow {
    /// Length of a full packet in bytes, including headers.
    pub packet_bytes: u64,
    /// Oversubscription of the network at its worst point on the way to the peer: the rate of the
    /// links that lead there over the rate that leaves, rounded up. `None`: unknown.
    pub oversubscription: Option<u32>,
}

/// The part of an acknowledgement that concerns one path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AckSample {
    /// Time of arrival.
    pub now: Time,
    /// The path.
    pub path: PathId,
    /// Number of newly acknowledged packets.
    pub packets: u32,
    /// Length of these packets in bytes, including headers.
    pub bytes: u64,
    /// Number of newly reported congestion marks on this path. It can exceed `packets`, because
    /// marks are reported later if an acknowledgement was lost. A full queue of the sender's own
    /// device counts as a mark.
    pub marks: u32,
    /// The round trip of the packet that triggered the acknowledgement, if it took this path.
    pub rtt: Option<RttSample>,
    /// Bytes in flight before the acknowledgement, including those that it acknowledges.
    pub in_flight: u64,
    /// Whether the stream last stopped for a reason other than the controller's window or rate: no
    /// data, or no space at the peer. An unused window is no evidence for a larger one.
    pub app_limited: bool,
}

/// A round trip.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RttSample {
    /// Time at which the packet was sent.
    pub sent_at: Time,
    /// Time from then to the acknowledgement, without the peer's acknowledgement delay.
    pub rtt: Duration,
}

/// Packets that are declared lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Loss {
    /// Time of the declaration.
    pub now: Time,
    /// Number of packets.
    pub packets: u64,
    /// Length of the packets in bytes, including headers.
    pub bytes: u64,
    /// Time at which the latest of them was sent.
    pub sent_at: Time,
}

/// Packets that were declared lost although they were only late.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Spurious {
    /// Time of the detection.
    pub now: Time,
    /// Number of packets.
    pub packets: u64,
}

/// A chunk whose packets are all acknowledged.
///
/// Its length is [`Controller::chunk_bytes`], rounded up to whole packets, or less if the stream
/// had no more data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Chunk {
    /// Time of the first transmission of its first packet.
    pub first_sent: Time,
    /// Time of the first transmission of its last packet.
    pub last_sent: Time,
    /// Time of the acknowledgement that completed the chunk.
    pub last_acked: Time,
    /// The peer's delay of that acknowledgement.
    pub peer_delay: Duration,
    /// Length in bytes, including packet headers.
    pub bytes: u64,
    /// The longest round trip sampled from its packets, if any.
    pub longest_rtt: Option<Duration>,
}

impl Chunk {
    /// Returns the time that the network and the sender's own window and rate took.
    pub fn delay(&self) -> Duration {
        (self.last_acked - self.first_sent).saturating_sub(self.peer_delay)
    }
}

/// The state of a controller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Metrics {
    /// Bytes that may be in flight.
    pub window: u64,
    /// Sending rate in bits per second, if the controller has one, as of the last call.
    pub bits_per_second: Option<u64>,
}

//! Configuration of queue pairs and endpoints, with defaults that suit a data centre.

use std::time::Duration;

use braid_cc::CcConfig;
use braid_wire::{Crc, Offer, QpId, Token};

use crate::{Access, LossRecovery, PdId};

/// Configuration of a queue pair.
///
/// More fields may come: write `..QpConfig::default()`.
///
/// ```
/// use std::time::Duration;
///
/// use braid_transport::{LossRecovery, QpConfig};
///
/// let config = QpConfig {
///     max_send_wr: 1024,
///     recovery: LossRecovery::Sack,
///     rnr_retry: Some(7),
///     rnr_delay: Duration::from_millis(1),
///     cc: "fixed:512K".parse().unwrap(),
///     ..QpConfig::default()
/// };
/// assert_eq!(config.retry_timeout, Duration::from_secs(3));
/// ```
#[derive(Clone, Debug)]
pub struct QpConfig {
    /// Its protection domain. Default: number 0.
    pub pd: PdId,
    /// Operations that the peer may use through the queue pair, whatever the region allows.
    /// Default: [`Access::ALL`].
    pub access: Access,
    /// Work requests that its send queue holds, 1 to 1,048,576. Default: 128.
    pub max_send_wr: u32,
    /// Work requests that its receive queue holds, 1 to 1,048,576. Default: 512.
    pub max_recv_wr: u32,
    /// Packets beyond the ePSN that it tracks, 1 to 4096; more are refused. Default: 4096.
    pub window: u16,
    /// READs and atomics that it serves at a time, 1 to 255. Default: 128.
    pub max_rd_atomic: u8,
    /// Time without progress after which the queue pair fails with `RetryExceeded`, up to one
    /// time-out later. The clock stops while the driver does not run, and while the queue pair
    /// leaves the peer's full receive buffer to others, which it does after two time-outs. If
    /// acknowledgements of this peer took longer than a third of this time of late, the queue pair
    /// waits three times as long as they took, and at most four times as long as this. A DISCONNECT
    /// is repeated for this time, too. Default: 3 s.
    pub retry_timeout: Duration,
    /// Times that the peer may answer "receiver not ready" to one message, the oldest that it has
    /// no receive for. `None`: no limit. Default: `None`.
    pub rnr_retry: Option<u8>,
    /// Time that a peer is told to wait when no receive is posted. Default: 100 us.
    pub rnr_delay: Duration,
    /// Shortest retransmission time-out. Default: 4 ms.
    pub min_rto: Duration,
    /// Longest retransmission time-out; twice that where other queue pairs of the endpoint measure
    /// round trips as long. Default: 300 ms.
    pub max_rto: Duration,
    /// Loss detection, which tells lost packets from late ones. Default:
    /// [`LossRecovery::FifoPath`].
    pub recovery: LossRecovery,
    /// Packets sent later that must have arrived before one counts as lost, with
    /// [`LossRecovery::Sack`]. `u32::MAX`: only time-outs and [`crate::Endpoint::on_lost`] declare
    /// losses. Default: 48.
    pub reorder_threshold: u32,
    /// Segments after which the sender asks for an acknowledgement; sooner where the window is
    /// small, and whenever nothing follows. 1: every segment asks, as the packets of RNICs do.
    /// Default: 32.
    pub ask_every: u32,
    /// Time that the acknowledgement of a message waits once data has gone the other way. A request
    /// that was replied to needs no haste, and one acknowledgement then does for several. After
    /// half of this time, more data takes the acknowledgement along. Default: 50 us.
    pub reply_hold: Duration,
    /// Time that the acknowledgement of a message that may be replied to
    /// ([`crate::Arrival::may_be_replied_to`]) waits for data to go the other way, if the message
    /// before was replied to. Default: zero, so that the acknowledgement leaves with the next
    /// transmission whether there is a reply or not.
    pub reply_wait: Duration,
    /// Congestion control, which limits the bytes in flight. Default: `cubic`.
    pub cc: CcConfig,
}

impl Default for QpConfig {
    fn default() -> Self {
        QpConfig {
            pd: PdId::default(),
            access: Access::ALL,
            max_send_wr: 128,
            max_recv_wr: 512,
            window: 4096,
            max_rd_atomic: 128,
            retry_timeout: Duration::from_secs(3),
            rnr_retry: None,
            rnr_delay: Duration::from_micros(100),
            min_rto: Duration::from_millis(4),
            max_rto: Duration::from_millis(300),
            recovery: LossRecovery::default(),
            reorder_threshold: 48,
            ask_every: 32,
            reply_hold: Duration::from_micros(50),
            reply_wait: Duration::ZERO,
            cc: CcConfig::default(),
        }
    }
}

/// Longest time of a configuration. Sums of a few of them stay far from what clocks and
/// [`Duration`] can hold.
pub const MAX_TIMER: Duration = Duration::from_secs(24 * 3600);
/// Shortest retransmission time-out: with none at all, a queue pair would look for losses without a
/// pause.
const LEAST_RTO: Duration = Duration::from_micros(1);

/// A time of a configuration that is out of its range.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{name}` is {value:?}; take {min:?} to {max:?}")]
pub struct TimerError {
    /// The field.
    pub name: &'static str,
    /// The refused value.
    pub value: Duration,
    /// Shortest.
    pub min: Duration,
    /// Longest.
    pub max: Duration,
}

impl TimerError {
    /// Refuses a time that is shorter than `min` or longer than [`MAX_TIMER`].
    ///
    /// # Errors
    /// It is.
    pub fn check(name: &'static str, value: Duration, min: Duration) -> Result<(), Self> {
        let max = MAX_TIMER;
        if (min..=max).contains(&value) {
            Ok(())
        } else {
            Err(TimerError { name, value, min, max })
        }
    }
}

impl QpConfig {
    /// Refuses times that no queue pair can work with. A `min_rto` above `max_rto` is the longest,
    /// too.
    ///
    /// # Errors
    /// The first that is out of its range.
    pub fn check_timers(&self) -> Result<(), TimerError> {
        for (name, value, min) in [
            ("retry_timeout", self.retry_timeout, Duration::ZERO),
            ("rnr_delay", self.rnr_delay, Duration::ZERO),
            ("min_rto", self.min_rto, LEAST_RTO),
            ("max_rto", self.max_rto, LEAST_RTO),
            ("reply_hold", self.reply_hold, Duration::ZERO),
            ("reply_wait", self.reply_wait, Duration::ZERO),
        ] {
            TimerError::check(name, value, min)?;
        }
        Ok(())
    }
}

/// Attributes of a [`QpConfig`] that may change while its queue pair exists; the fields are those
/// of the same names. Times beyond [`MAX_TIMER`] count as that.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QpAttributes {
    /// Holds for requests that arrive from now on.
    pub access: Access,
    /// Counts from the last progress on.
    pub retry_timeout: Duration,
    /// Counts from the next answer on.
    pub rnr_retry: Option<u8>,
    /// Time that the next "receiver not ready" names.
    pub rnr_delay: Duration,
}

/// Configuration of an endpoint: all queue pairs towards one peer.
#[derive(Clone, Copy, Debug)]
pub struct EndpointConfig {
    /// Most segments of a batch. So many leave on one path before the next is picked, or more until
    /// a batch is whole.
    pub batch_segments: u32,
    /// Most bytes of a batch, headers included. New segments wait until a whole batch may leave, or
    /// a quarter of what is in flight: a batch costs the datapath little more than one segment.
    pub batch_bytes: u64,
    /// Whether segments of several queue pairs may share a batch, and so its path, where the path
    /// policy does not mind.
    pub joint_batches: bool,
    /// Bytes that the peer's socket can hold: where the wire is short, all that the queue pairs
    /// together may have in flight. See [`crate::Endpoint::most_in_flight`].
    pub peer_receive_buffer: u64,
    /// Interval in which the queue pairs, one after the other, ask for a sign of life.
    pub ping_interval: Duration,
    /// Silence after which the peer is dead, in whole intervals of pings, of time in which the
    /// driver ran. Each pause of the driver of more than an interval costs up to an eighth of one
    /// more. A peer whose answers took long of late gets more time, as for
    /// [`QpConfig::retry_timeout`].
    pub peer_timeout: Duration,
    /// Whether to search the path MTU, from [`braid_wire::BASE_DATAGRAM`], which set-up has proved,
    /// up to what the longest segments agreed on take, and to follow it as it changes (RFC 8899).
    /// Otherwise the path carries whatever is agreed, by every port of a path as by the receiving
    /// port, and rails are probed by their paths alone.
    pub search_path_mtu: bool,
    /// Bytes that the driver adds to each packet, less than half of [`braid_wire::BASE_DATAGRAM`]:
    /// a datagram is so much longer. 0 unless the connection is keyed.
    pub envelope: u16,
    /// Direct placement. `Some`: the peer's NIC can write payloads where they belong before
    /// software sees them, and first transmissions of WRITEs ask for it, see [`crate::Placement`].
    /// The network must not duplicate such packets. The driver closes a queue pair's NIC queue
    /// pairs when that leaves RTS and SQD, before it hands out the completions.
    pub direct: Option<DirectConfig>,
    /// Key that decides which segments are skipped and masks the serials of probes. Nobody else may
    /// know it. Now and then a segment leaves a round trip late, and a peer that acknowledges it
    /// before ends the queue pair, because it acknowledges what it has not received. `None`:
    /// acknowledgements are believed. No segment is skipped with direct placement, nor with
    /// [`LossRecovery::GoBackN`].
    pub withholding_key: Option<[u8; 16]>,
    /// The driver sends segments ECN-capable where [`crate::Endpoint::sends_ecn`] says so: what the
    /// network makes of that is watched. Default: false.
    pub validate_ecn: bool,
}

/// Parameters of direct placement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DirectConfig {
    /// Payload bytes of a full segment while many have arrived on every path in use and none was
    /// lost, if that is more than [`Remote::mtu`].
    pub long: u16,
    /// Payload bytes while there is a path on trial, if that is less. A longer segment is not
    /// placed directly on such a path.
    pub short: u16,
    /// Time for which nothing is placed directly on a path that has lost a segment, nor on others
    /// that are not known to lose none. If many had arrived on it before, this holds for it alone,
    /// for a 16th of that.
    pub hold_down: Duration,
}

impl Default for EndpointConfig {
    fn default() -> Self {
        EndpointConfig {
            batch_segments: 1,
            batch_bytes: u64::MAX,
            joint_batches: false,
            peer_receive_buffer: u64::MAX,
            ping_interval: Duration::from_millis(500),
            peer_timeout: Duration::from_secs(3),
            search_path_mtu: false,
            envelope: 0,
            direct: None,
            withholding_key: None,
            validate_ecn: false,
        }
    }
}

/// The other end of a queue pair, as agreed at set-up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Remote {
    /// Its number.
    pub qp: QpId,
    /// The token that packets towards it carry.
    pub token: Token,
    /// First PSN that we send (24 bits).
    pub send_psn: u32,
    /// First PSN that it sends (24 bits).
    pub recv_psn: u32,
    /// Payload bytes of a full segment, in both directions; but see [`EndpointConfig::direct`].
    pub mtu: u16,
    /// Packets beyond its ePSN that it tracks.
    pub window: u16,
    /// Segments of a stream that may be in flight, however short: the number of receive buffers,
    /// where those are counted. At least 1; `u32::MAX`: only bytes count.
    pub segments: u32,
    /// READs and atomics that it serves at a time.
    pub max_rd_atomic: u8,
    /// Whether payloads carry a check.
    pub crc: Crc,
}

impl Remote {
    /// Combines two offers, seen from the side that made `ours`.
    pub fn agree(ours: &Offer, theirs: &Offer) -> Remote {
        Remote {
            qp: theirs.qp,
            token: theirs.token,
            send_psn: ours.psn,
            recv_psn: theirs.psn,
            mtu: ours.mtu.min(theirs.mtu),
            window: theirs.window,
            segments: u32::MAX,
            max_rd_atomic: theirs.max_rd_atomic,
            crc: if ours.crc == Crc::On || theirs.crc == Crc::On { Crc::On } else { Crc::Off },
        }
    }
}

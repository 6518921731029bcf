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
    /// The protection domain of the queue pair. Default: number 0.
    pub pd: PdId,
    /// Operations that the peer may use through the queue pair, whatever the region allows.
    /// Default: [`Access::ALL`].
    pub access: Access,
    /// Number of work requests that the send queue holds, 1 to 1,048,576. Default: 128.
    pub max_send_wr: u32,
    /// Number of work requests that the receive queue holds, 1 to 1,048,576. Default: 512.
    pub max_recv_wr: u32,
    /// Receive window: number of packets from the ePSN on that are tracked, 1 to 4096. Packets
    /// beyond it are refused. Default: 4096.
    pub window: u16,
    /// Number of READs and atomics that the peer may have outstanding, 1 to 255. Default: 128.
    pub max_rd_atomic: u8,
    /// Time without progress after which the queue pair fails with `RetryExceeded`, up to one
    /// time-out later. Time in which the driver does not run is not counted. Nor is time in which
    /// the queue pair has nothing in flight because others fill the peer's receive buffer. That
    /// time is short, because a queue pair leaves the buffer to others after two time-outs.
    ///
    /// A slow peer gets more time. If its recent acknowledgements took longer than a third of
    /// `retry_timeout`, the limit is three times as long as they took, but at most four times
    /// `retry_timeout`. A DISCONNECT is repeated for this time, too. Default: 3 s.
    pub retry_timeout: Duration,
    /// Number of "receiver not ready" (RNR) NAKs that a message may get before it fails. Only the
    /// oldest message without a receive counts. `None`: no limit. Default: `None`.
    pub rnr_retry: Option<u8>,
    /// Time for which a peer has to pause after an RNR NAK, which says that no receive is posted.
    /// Default: 100 us.
    pub rnr_delay: Duration,
    /// Shortest retransmission time-out. Default: 4 ms.
    pub min_rto: Duration,
    /// Longest retransmission time-out. A time-out is extended to at most twice this value if other
    /// queue pairs of the endpoint measure such long round trips. Default: 300 ms.
    pub max_rto: Duration,
    /// Loss detection, which distinguishes lost packets from late ones. Default:
    /// [`LossRecovery::FifoPath`].
    pub recovery: LossRecovery,
    /// Number of packets sent later that must have arrived before a packet counts as lost, with
    /// [`LossRecovery::Sack`]. `u32::MAX`: only time-outs and [`crate::Endpoint::on_lost`] declare
    /// losses. Default: 48.
    pub reorder_threshold: u32,
    /// Number of segments after which the sender requests an acknowledgement. It requests one
    /// earlier if the window is small, and whenever no segment follows. 1: every segment requests
    /// one, as with RNICs. Default: 32.
    pub ask_every: u32,
    /// Delay of a message's acknowledgement once data has gone in the other direction. The peer has
    /// its reply and is in no hurry, so one acknowledgement can cover several messages. After half
    /// of this time, more data in that direction makes the acknowledgement leave at once. Default:
    /// 50 us.
    pub reply_hold: Duration,
    /// Delay of a message's acknowledgement that may leave together with a reply. Only messages
    /// that may be replied to ([`crate::Arrival::may_be_replied_to`]) wait, and only if the
    /// application replied to the message before. Default: zero, so that the acknowledgement leaves
    /// with the next transmission.
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
            window: QpConfig::MAX_WINDOW,
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

/// Upper limit of every time in a configuration. Sums of a few such times stay far below what
/// clocks and [`Duration`] can hold.
pub const MAX_TIMER: Duration = Duration::from_secs(24 * 3600);
/// Lower limit of the retransmission time-out. With a time-out of zero, a queue pair would check
/// for losses without a pause.
const LEAST_RTO: Duration = Duration::from_micros(1);

/// A time of a configuration that is out of range.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{name}` is {value:?}; take {min:?} to {max:?}")]
pub struct TimerError {
    /// The name of the field.
    pub name: &'static str,
    /// The refused value.
    pub value: Duration,
    /// The shortest allowed time.
    pub min: Duration,
    /// The longest allowed time.
    pub max: Duration,
}

impl TimerError {
    /// Refuses a time that is shorter than `min` or longer than [`MAX_TIMER`].
    ///
    /// # Errors
    /// Returns the error if `value` is out of that range.
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
    /// The largest receive window in packets.
    pub const MAX_WINDOW: u16 = 4096;

    /// Refuses times that no queue pair can work with. A `min_rto` above `max_rto` is allowed: it
    /// is then the longest time-out, too.
    ///
    /// # Errors
    /// Returns the first time that is out of range.
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

/// Attributes of a [`QpConfig`] that may change while its queue pair exists. The fields have the
/// meaning of those with the same names. Times beyond [`MAX_TIMER`] are cut to that limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QpAttributes {
    /// Applies to requests that arrive from now on.
    pub access: Access,
    /// Counts from the last progress on.
    pub retry_timeout: Duration,
    /// Applies from the next RNR NAK on.
    pub rnr_retry: Option<u8>,
    /// Applies to the next RNR NAK that is sent.
    pub rnr_delay: Duration,
}

/// Configuration of an endpoint, which holds all queue pairs towards one peer.
#[derive(Clone, Copy, Debug)]
pub struct EndpointConfig {
    /// Maximum number of segments in a batch, as far as the datapath limits it.
    pub batch_segments: u32,
    /// Maximum number of bytes in a batch, headers included. New segments wait until a whole batch,
    /// or a quarter of the bytes in flight, may leave: a batch costs the datapath little more than
    /// one segment.
    pub batch_bytes: u64,
    /// Path quantum: maximum number of segments that a stream sends on one path before it picks the
    /// next path, at least 1. A batch takes one path, so it is no longer. More segments than a
    /// batch holds are rounded down to whole batches. A quantum is also at most a share of the
    /// window, see [`braid_lb::Requirements::quanta`]. `None`: one batch, of no more bytes than
    /// [`EndpointConfig::QUANTUM`] full segments have.
    pub quantum: Option<u32>,
    /// Maximum number of segments that one [`crate::Transmit`] describes. 1: each by itself.
    pub transmit_segments: u32,
    /// Whether segments of several queue pairs may share a batch and its path, if the path policy
    /// permits it.
    pub joint_batches: bool,
    /// Bytes that the peer's socket can hold. On a short wire this limits what all queue pairs
    /// together may have in flight. See [`crate::Endpoint::most_in_flight`].
    pub peer_receive_buffer: u64,
    /// Interval at which the endpoint sends a PING, on behalf of each queue pair in turn.
    pub ping_interval: Duration,
    /// Silence after which the peer counts as dead, in whole ping intervals. Time in which the
    /// driver did not run does not count. Each pause of the driver that is longer than an interval
    /// adds up to an eighth of an interval. A slow peer gets more time, as with
    /// [`QpConfig::retry_timeout`].
    pub peer_timeout: Duration,
    /// Whether to search the path MTU, and to follow it as it changes (RFC 8899). The search starts
    /// at [`braid_wire::BASE_DATAGRAM`], which set-up has proved, and ends at the longest segments
    /// agreed on. Without a search, all paths are taken to carry the agreed segments, from the
    /// ports of paths as well as from the receiving port. Rails are then probed only from the ports
    /// of paths.
    pub search_path_mtu: bool,
    /// Bytes that the driver adds to each packet, and by which each datagram is longer. Less than
    /// half of [`braid_wire::BASE_DATAGRAM`]; 0 unless the connection is keyed.
    pub envelope: u16,
    /// Direct placement. `Some`: the peer's NIC can write payloads to their final place before
    /// software sees them, and first transmissions of WRITEs request that, see
    /// [`crate::Placement`]. The network must not duplicate such packets. When a queue pair leaves
    /// RTS and SQD, the driver closes its NIC queue pairs before it hands out the completions.
    pub direct: Option<DirectConfig>,
    /// Key that decides which segments are skipped and masks the serials of probes. It must stay
    /// secret. From time to time a segment leaves a round trip late. A peer that acknowledges it
    /// before then has acknowledged data that it did not receive, and its queue pair ends. `None`:
    /// acknowledgements are not checked in this way. No segment is skipped with direct placement,
    /// nor with [`LossRecovery::GoBackN`].
    pub skip_key: Option<[u8; 16]>,
    /// Whether to check that the network handles ECN correctly. The driver then sends segments as
    /// ECN-capable on the rails for which [`crate::Endpoint::sends_ecn`] returns true. Default:
    /// false.
    pub validate_ecn: bool,
}

/// Parameters of direct placement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DirectConfig {
    /// Payload bytes of a full segment once many segments have arrived on every path in use and
    /// none was lost. Has no effect unless it is more than [`Remote::mtu`].
    pub long: u16,
    /// Payload bytes of a full segment while some path is on probation. Has no effect unless it is
    /// less than [`Remote::mtu`]. Longer segments are not placed directly on such a path.
    pub short: u16,
    /// Time without direct placement on a path that has lost a segment. It also applies to all
    /// other paths on probation. If many segments had arrived on the path before the loss, only
    /// that path is held down, for a 16th of this time.
    pub hold_down: Duration,
}

impl EndpointConfig {
    /// Maximum number of segments in a batch of a UDP socket with segmentation offload (GSO).
    /// Kernels took 64 (`UDP_MAX_SEGMENTS`) until 2024 and take 128 since. A virtual machine hands
    /// its batches to the host as a whole. An older host silently drops those longer than 64
    /// (`virtio_net_hdr_to_skb`), so 64 is the limit here.
    pub const GSO_SEGMENTS: u32 = 64;
    /// Maximum number of bytes in a batch of a UDP socket with segmentation offload: an IPv4 packet
    /// without its headers. IPv6 takes 20 more, but a socket may use both.
    pub const GSO_BYTES: u64 = 65_535 - 20 - 8;
    /// Maximum number of full segments in a path quantum, unless the user gives another. It does
    /// not limit Ethernet's MTU of 1500, with which a batch has 44. The curve that leads to it is
    /// in `docs/spraying.md`.
    pub const QUANTUM: u32 = 48;

    /// Maximum number of segments in a batch, which takes one path.
    pub(crate) fn longest_batch(&self) -> u32 {
        self.quantum.map_or(self.batch_segments, |most| most.min(self.batch_segments)).max(1)
    }
}

impl Default for EndpointConfig {
    fn default() -> Self {
        EndpointConfig {
            batch_segments: 1,
            batch_bytes: u64::MAX,
            quantum: None,
            transmit_segments: 1,
            joint_batches: false,
            peer_receive_buffer: u64::MAX,
            ping_interval: Duration::from_millis(500),
            peer_timeout: Duration::from_secs(3),
            search_path_mtu: false,
            envelope: 0,
            direct: None,
            skip_key: None,
            validate_ecn: false,
        }
    }
}

/// The peer's end of a queue pair, as agreed at set-up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Remote {
    /// The peer's queue pair number.
    pub qp: QpId,
    /// The token that packets to the peer carry.
    pub token: Token,
    /// First PSN that this end sends (24 bits).
    pub send_psn: u32,
    /// First PSN that the peer sends (24 bits).
    pub recv_psn: u32,
    /// Payload bytes of a full segment, in both directions; but see [`EndpointConfig::direct`].
    pub mtu: u16,
    /// Receive window of the peer: number of packets from its ePSN on that it tracks.
    pub window: u16,
    /// Maximum number of segments of a stream in flight, however short they are: the number of
    /// receive buffers, if the datapath counts those. At least 1; `u32::MAX`: only bytes are
    /// limited.
    pub segments: u32,
    /// Number of READs and atomics that this end may have outstanding at the peer.
    pub max_rd_atomic: u8,
    /// Whether payloads carry a CRC.
    pub crc: Crc,
    /// Oversubscription of the network on the way to the peer, if known: see
    /// [`braid_cc::Subflow::oversubscription`].
    pub oversubscription: Option<u32>,
    /// Shortest retransmission time-out that suits the carrier, if it is longer than
    /// [`QpConfig::min_rto`]: a carrier that repairs losses itself delivers late what it repairs.
    pub min_rto: Duration,
    /// Whether the peer grants credit for what it receives. Earlier builds do not, and then this
    /// end's congestion control may not need it, see [`braid_cc::CcConfig::needs_credit`].
    pub grants_credit: bool,
}

impl Remote {
    /// Combines two offers, from the point of view of the side that made `ours`.
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
            oversubscription: None,
            min_rto: Duration::ZERO,
            grants_credit: theirs.grants_credit,
        }
    }
}

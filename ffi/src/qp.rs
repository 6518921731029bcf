//! Queue pairs.

use std::ffi::{c_char, c_int, c_void};
use std::net::IpAddr;

use braid::{Crc, QpCounters, QpState, QueuePair};

use crate::address::{BRAID_ADDR_LEN, NO_ADDRESS, resolve, to_text};
use crate::answer::Answer;
use crate::arguments::{Out, cut, patience, private_data, put_text, text};
use crate::boundary::enter;
use crate::failure::Failure;
use crate::growing::{self, Growing};
use crate::handle::{Child, Children, find, hand_out, object, take};
use crate::{braid_pd, braid_qp_options};

/// The queue pair accepts nothing.
pub const BRAID_QP_RESET: c_int = 0;
/// The queue pair accepts receives.
pub const BRAID_QP_INIT: c_int = 1;
/// The queue pair receives. It passes through this state while it connects.
pub const BRAID_QP_RTR: c_int = 2;
/// The queue pair sends and receives.
pub const BRAID_QP_RTS: c_int = 3;
/// The queue pair receives, completes the sends that it has started and holds back the others.
pub const BRAID_QP_SQD: c_int = 4;
/// The queue pair flushes all outstanding and new work requests.
pub const BRAID_QP_ERR: c_int = 5;

/// Maximum length of the private data that each side sends when it connects, in bytes.
pub const BRAID_MAX_PRIVATE_DATA: usize = 512;
const _: () = assert!(BRAID_MAX_PRIVATE_DATA == braid::MAX_PRIVATE_DATA);

/// Maximum length of a peer's name with its NUL: 64 characters in UTF-8.
pub const BRAID_PEER_NAME_LEN: usize = 64 * 4 + 1;

/// Maximum length of a protocol's name, with its NUL.
pub const BRAID_PROTOCOL_LEN: usize = 32;

/// A reliable connected queue pair. Work requests of each queue end in posting order. Each has one
/// completion if it is signalled or fails.
pub struct braid_qp {
    pub(crate) qp: QueuePair,
    pub(crate) max_inline: usize,
    /// The receiving address of the engine.
    pub(crate) ours: IpAddr,
    pub(crate) children: Children,
    _pd: Child,
    _queues: [Child; 2],
}

object!(
    braid_qp,
    6,
    "queue pair",
    fn may_close(&self) -> Result<(), Failure> {
        self.children.none("queue pair")
    }
);

/// Creates a queue pair in RESET.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_qp_create(
    pd: *mut braid_pd,
    options: *const braid_qp_options,
    qp: *mut *mut braid_qp,
) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise.
        let (out, (options, queues)) =
            unsafe { (Out::new(qp, "qp")?, braid_qp_options::read(options)?) };
        let (pd, max_inline) = (find(pd)?, options.max_inline);
        out.set(hand_out(braid_qp {
            qp: pd.pd.create_qp(options)?,
            max_inline,
            ours: pd.ours,
            children: Children::default(),
            _pd: pd.children.add(),
            _queues: queues,
        })?);
        Ok(0)
    })
}

/// Closes a queue pair, notifies the peer and drops outstanding work requests without completions.
/// Call braid_qp_disconnect before if they matter.
///
/// Threads: any; BRAID_ERR_BUSY while another thread is inside a call with it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_qp_close(qp: *mut braid_qp) -> c_int {
    enter(|| take(qp).map(|_| 0))
}

/// Changes the state. BRAID_QP_INIT: to post receives before connecting. SQD: to drain the send
/// queue. RTS: to resume. ERR: to flush. RESET: to start again; outstanding work requests are
/// dropped without completions, and the peer is notified. Connecting leads to RTR and RTS.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_qp_modify(qp: *mut braid_qp, state: c_int) -> c_int {
    enter(|| {
        let accepted = "BRAID_QP_RESET (0) to BRAID_QP_ERR (5)";
        let unknown = || Failure::Constant { name: "state", value: state.into(), accepted };
        let state = u8::try_from(state).ok().and_then(QpState::from_u8).ok_or_else(unknown)?;
        find(qp)?.qp.modify(state)?;
        Ok(0)
    })
}

/// Sets the traffic class of the packets of connections made from now on, 0 to 255, as IP_TOS and
/// IPV6_TCLASS. The upper six bits are the DSCP (RFC 2474). The lower two are ignored, because the
/// engine sets the ECN bits. Set-up packets have class 0. Default: 0.
///
/// Connections of another class to the same peer have their own paths and share no datagram
/// batches.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_qp_set_traffic_class(
    qp: *mut braid_qp,
    traffic_class: c_int,
) -> c_int {
    enter(|| {
        let name = "traffic_class";
        let unknown =
            |_| Failure::Constant { name, value: traffic_class.into(), accepted: "0 to 255" };
        let class = u8::try_from(traffic_class).map_err(unknown)?;
        find(qp)?.qp.set_traffic_class(class);
        Ok(0)
    })
}

/// Connects to the listener at `addr`, such as "10.0.0.2:4791" or "name:4791", and waits up to
/// `timeout_us` microseconds. A name is resolved first, which may block. Its addresses are tried in
/// turn, 250 ms each, until one responds.
///
/// Sends `len` bytes at `data` (up to BRAID_MAX_PRIVATE_DATA; NULL for none) to the peer's
/// application. Writes its reply to `reply`, up to `*reply_len` bytes; `*reply_len` becomes the
/// full length. `reply` may be NULL if the length suffices, and both may be NULL.
///
/// After an error, the queue pair is in INIT and can try again.
///
/// Threads: any, one at a time for a queue pair; another gets BRAID_ERR_STATE.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_qp_connect(
    qp: *mut braid_qp,
    addr: *const c_char,
    data: *const c_void,
    len: usize,
    timeout_us: u64,
    reply: *mut c_void,
    reply_len: *mut usize,
) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise.
        let (addr, data, answer) = unsafe {
            (
                text(addr, "addr")?,
                private_data(data, len)?,
                Answer::new(reply, reply_len, "reply_len")?,
            )
        };
        let qp = find(qp)?;
        let addr = resolve(&addr, qp.ours)?;
        answer.set(&qp.qp.connect_any(&addr, data, patience(timeout_us))?);
        Ok(0)
    })
}

/// Closes the connection: both sides enter ERR and flush outstanding work requests. Work requests
/// that have not completed may or may not take effect at the peer.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_qp_disconnect(qp: *mut braid_qp) -> c_int {
    enter(|| {
        find(qp)?.qp.disconnect();
        Ok(0)
    })
}

/// The state of a queue pair.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct braid_qp_info {
    /// Set it to sizeof(braid_qp_info).
    pub size: usize,
    /// The queue pair number, 24 bits, which completions carry.
    pub qp_num: u32,
    /// The state: BRAID_QP_RESET and so on.
    pub state: c_int,
    /// Number of posted sends that have not ended.
    pub outstanding_sends: u32,
    /// Number of posted receives that have not ended.
    pub outstanding_recvs: u32,
    /// Payload of a full packet in bytes, as agreed with the peer, or 0 if the queue pair is not
    /// connected.
    pub packet_payload: u32,
    /// Whether payloads carry a CRC, as agreed with the peer: 0 or 1, or -1 if the queue pair is
    /// not connected.
    pub payload_crc: c_int,
    /// The receiving address of the peer, or empty if the queue pair is not connected.
    pub peer: [c_char; BRAID_ADDR_LEN],
    /// 1: packets leave from the source port of each path. 0: a NAT or firewall drops these, so all
    /// packets leave from the receiving port, on one path. -1: the queue pair is not connected.
    pub path_ports: c_int,
    /// 0.
    pub reserved: u32,
    /// The protocol that carries the packets, such as "UDP" or "TCP". Empty if the queue pair is
    /// not connected. If the datapath "auto" has chosen TCP, the degradation "datapath-unavailable"
    /// gives the reason, see braid_qp_get_degradation.
    pub protocol: [c_char; BRAID_PROTOCOL_LEN],
}

// SAFETY: `repr(C)`, `size` first, numbers and an array of them only.
unsafe impl Growing for braid_qp_info {
    const NAME: &'static str = "braid_qp_info";
}

impl From<&QueuePair> for braid_qp_info {
    fn from(qp: &QueuePair) -> Self {
        let (outstanding_sends, outstanding_recvs) = qp.outstanding();
        braid_qp_info {
            size: size_of::<Self>(),
            qp_num: qp.number().get(),
            state: qp.state() as c_int,
            outstanding_sends,
            outstanding_recvs,
            packet_payload: qp.packet_payload().map_or(0, u32::from),
            payload_crc: qp.payload_crc().map_or(-1, |crc| (crc == Crc::On).into()),
            peer: qp.remote_addr().map_or(NO_ADDRESS, to_text),
            path_ports: qp.uses_path_ports().map_or(-1, c_int::from),
            reserved: 0,
            protocol: qp.protocol().map_or([0; BRAID_PROTOCOL_LEN], cut),
        }
    }
}

/// Reads the state of the queue pair.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_qp_query(qp: *const braid_qp, info: *mut braid_qp_info) -> c_int {
    enter(|| {
        let qp = find(qp)?;
        // SAFETY: the caller's promise.
        unsafe { growing::write(info, (&qp.qp).into()) }.map(|()| 0)
    })
}

/// Writes the authenticated name of the peer, from the list `allowed_keys` of the engine, into
/// `text` of `size` bytes; BRAID_PEER_NAME_LEN suffice. Empty without static keys or without a
/// connection.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_qp_peer_name(
    qp: *const braid_qp,
    text: *mut c_char,
    size: usize,
) -> c_int {
    enter(|| {
        let name = find(qp)?.qp.peer_name();
        // SAFETY: the caller's promise.
        unsafe { put_text(name.as_deref().unwrap_or_default(), text, size, "text") }.map(|()| 0)
    })
}

/// Counters of a queue pair since its creation or reset.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct braid_qp_counters {
    /// Set it to sizeof(braid_qp_counters).
    pub size: usize,
    /// Data segments sent, including retransmissions.
    pub segments_sent: u64,
    /// Retransmissions among them.
    pub retransmitted: u64,
    /// Segments declared lost.
    pub lost: u64,
    /// Retransmissions of segments that were only late.
    pub spurious: u64,
    /// Congestion marks (ECN CE) that the peer reported.
    pub ecn_marks: u64,
    /// Payload bytes in segments sent.
    pub bytes_sent: u64,
    /// Data segments accepted.
    pub segments_received: u64,
    /// Payload bytes in segments accepted.
    pub bytes_received: u64,
    /// Duplicate segments.
    pub duplicates: u64,
    /// Segments accepted ahead of the first missing one.
    pub out_of_order: u64,
    /// Segments refused: beyond the window, without permission, or malformed.
    pub refused: u64,
    /// Acknowledgements sent.
    pub acks_sent: u64,
    /// Acknowledgements received.
    pub acks_received: u64,
    /// RNR NAKs received.
    pub rnr_naks: u64,
    /// Retransmission time-outs.
    pub timeouts: u64,
    /// Acknowledgements of packets that were never sent. Each ended the queue pair.
    pub untrue_acks: u64,
    /// RoCEv2 packets received with a congestion mark (ECN CE).
    pub marks_received: u64,
    /// Congestion notification packets (CNPs) of RoCEv2 sent.
    pub cnps_sent: u64,
    /// Congestion notification packets (CNPs) of RoCEv2 received.
    pub cnps_received: u64,
}

// SAFETY: `repr(C)`, `size` first, numbers only.
unsafe impl Growing for braid_qp_counters {
    const NAME: &'static str = "braid_qp_counters";
}

impl From<QpCounters> for braid_qp_counters {
    fn from(from: QpCounters) -> Self {
        braid_qp_counters {
            size: size_of::<Self>(),
            segments_sent: from.segments_sent,
            retransmitted: from.retransmitted,
            lost: from.lost,
            spurious: from.spurious,
            ecn_marks: from.ecn_marks,
            bytes_sent: from.bytes_sent,
            segments_received: from.segments_received,
            bytes_received: from.bytes_received,
            duplicates: from.duplicates,
            out_of_order: from.out_of_order,
            refused: from.refused,
            acks_sent: from.acks_sent,
            acks_received: from.acks_received,
            rnr_naks: from.rnr_naks,
            timeouts: from.timeouts,
            untrue_acks: from.untrue_acks,
            marks_received: from.marks_received,
            cnps_sent: from.cnps_sent,
            cnps_received: from.cnps_received,
        }
    }
}

/// Reads the counters of the queue pair.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_qp_query_counters(
    qp: *const braid_qp,
    counters: *mut braid_qp_counters,
) -> c_int {
    enter(|| {
        let seen = find(qp)?.qp.counters();
        // SAFETY: the caller's promise.
        unsafe { growing::write(counters, seen.into()) }.map(|()| 0)
    })
}

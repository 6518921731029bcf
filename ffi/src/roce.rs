//! Connections that speak plain RoCEv2.

use std::ffi::{c_char, c_int};
use std::net::SocketAddr;
use std::ptr;

use braid::{QpId, RoceMtu, RoceRemote};

use crate::address::{BRAID_ADDR_LEN, NO_ADDRESS, parse_ip, to_text};
use crate::arguments::{micros, narrow, text, timer};
use crate::boundary::enter;
use crate::engine::braid_engine;
use crate::failure::Failure;
use crate::growing::{self, Growing};
use crate::handle::find;
use crate::qp::braid_qp;

/// Queue pair numbers and PSNs have 24 bits.
pub(crate) const MAX_24_BITS: u64 = (1 << 24) - 1;

/// The peer's end of a RoCEv2 connection, initialised by braid_roce_remote_init. The caller must
/// set `gid` and `qp`. The applications of the two ends exchange these values by other means.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct braid_roce_remote {
    /// Set by braid_roce_remote_init.
    pub size: usize,
    /// The peer's GID as an address, such as "192.0.2.7" or "::ffff:192.0.2.7".
    pub gid: *const c_char,
    /// The peer's queue pair number, 24 bits.
    pub qp: u32,
    /// The number by which the peer knows the queue pair of this end. 0: `qp_num` of
    /// braid_qp_query.
    pub own_qp: u32,
    /// The first PSN that the peer sends, 24 bits.
    pub recv_psn: u32,
    /// The first PSN that this end sends, 24 bits.
    pub send_psn: u32,
    /// The path MTU in bytes: 256, 512, 1024, 2048 or 4096, the same at both ends. 0: the largest
    /// that the route carries, see braid_engine_roce_port.
    pub mtu: u32,
    /// Number of READs and atomics that this end may have outstanding at the peer, 1 to 255.
    pub max_rd_atomic: u32,
    /// Number of retries without progress after which the queue pair fails, 0 to 255.
    pub retry_count: u32,
    /// Number of packets that may be in flight, 1 to 65535.
    pub window: u32,
    /// Time without an acknowledgement after which packets are sent again, in microseconds.
    pub ack_timeout_us: u64,
    /// The UDP port at which the peer receives. RNICs and Soft-RoCE know only 4791.
    pub port: u32,
    /// DCQCN: the rate of the link, and parameters, such as "25G" or "25G,min=10M". Congestion
    /// notification packets of the peer then reduce the rate, and packets leave ECN-capable. NULL:
    /// off.
    pub dcqcn: *const c_char,
}

// SAFETY: `repr(C)`, `size` first, numbers and a raw pointer only.
unsafe impl Growing for braid_roce_remote {
    const NAME: &'static str = "braid_roce_remote";
}

impl Default for braid_roce_remote {
    fn default() -> Self {
        let defaults = RoceRemote::new([0; 4].into(), QpId::new(0));
        braid_roce_remote {
            size: size_of::<Self>(),
            gid: ptr::null(),
            qp: 0,
            own_qp: 0,
            recv_psn: defaults.recv_psn,
            send_psn: defaults.send_psn,
            mtu: 0,
            max_rd_atomic: defaults.max_rd_atomic.into(),
            retry_count: defaults.retry_count.into(),
            window: defaults.window.into(),
            ack_timeout_us: micros(defaults.ack_timeout),
            port: defaults.port.into(),
            dcqcn: ptr::null(),
        }
    }
}

impl braid_roce_remote {
    /// # Safety
    /// The caller's promise, for the struct and its string.
    unsafe fn read(remote: *const Self) -> Result<RoceRemote, Failure> {
        // SAFETY: as the caller promises.
        let from = unsafe { growing::read(remote, Self::default()) }?;
        // SAFETY: as above.
        let gid = parse_ip(&unsafe { text(from.gid, "gid") }?)?;
        let mtu = match from.mtu {
            0 => None,
            bytes => Some(RoceMtu::from_bytes(bytes).ok_or(Failure::Constant {
                name: "mtu",
                value: bytes.into(),
                accepted: "256, 512, 1024, 2048 or 4096, or 0",
            })?),
        };
        let number = |value: u32, name| narrow(value.into(), MAX_24_BITS, name).map(QpId::new);
        let mut to = RoceRemote::new(gid, number(from.qp, "qp")?);
        to.own_qp = Some(number(from.own_qp, "own_qp")?).filter(|own| own.get() != 0);
        to.recv_psn = narrow(from.recv_psn.into(), MAX_24_BITS, "recv_psn")?;
        to.send_psn = narrow(from.send_psn.into(), MAX_24_BITS, "send_psn")?;
        to.mtu = mtu;
        to.max_rd_atomic = narrow(from.max_rd_atomic.into(), 255, "max_rd_atomic")?;
        to.retry_count = narrow(from.retry_count.into(), 255, "retry_count")?;
        to.window = narrow(from.window.into(), 65_535, "window")?;
        to.ack_timeout = timer(from.ack_timeout_us, "ack_timeout_us")?;
        to.port = narrow(from.port.into(), 65_535, "port")?;
        if !from.dcqcn.is_null() {
            // SAFETY: as above.
            to.dcqcn = Some(unsafe { text(from.dcqcn, "dcqcn") }?.parse()?);
        }
        Ok(to)
    }
}

/// The end of an engine of its RoCEv2 connections to a peer, which the peer has to be told.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct braid_roce_port {
    /// Set it to sizeof(braid_roce_port).
    pub size: usize,
    /// The GID from which packets leave, as an address.
    pub gid: [c_char; BRAID_ADDR_LEN],
    /// The UDP port at which the engine receives.
    pub port: u32,
    /// The largest path MTU in bytes that the route to the peer carries.
    pub mtu: u32,
}

// SAFETY: `repr(C)`, `size` first, numbers and an array of numbers only.
unsafe impl Growing for braid_roce_port {
    const NAME: &'static str = "braid_roce_port";
}

/// Fills `remote` with the defaults, and the GID with NULL; `size` is sizeof(braid_roce_remote).
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_roce_remote_init(
    remote: *mut braid_roce_remote,
    size: usize,
) -> c_int {
    // SAFETY: the caller's promise.
    enter(|| unsafe { growing::init(remote, size, Default::default()) }.map(|()| 0))
}

/// Reads the end of the engine of RoCEv2 connections to the peer at `gid`, which receives at UDP
/// port `peer_port`. If that is 4791 and the engine receives elsewhere, it opens port 4791 too.
/// Other processes of this user may share that port.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_engine_roce_port(
    engine: *const braid_engine,
    gid: *const c_char,
    peer_port: u32,
    port: *mut braid_roce_port,
) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise.
        let gid = parse_ip(&unsafe { text(gid, "gid") }?)?;
        let peer = SocketAddr::new(gid, narrow(peer_port.into(), 65_535, "peer_port")?);
        let found = find(engine)?.engine.roce_port(peer)?;
        let mut end = braid_roce_port { size: 0, gid: NO_ADDRESS, port: 0, mtu: 0 };
        (end.gid, end.port, end.mtu) = (to_text(found.gid), found.port.into(), found.mtu.bytes());
        // SAFETY: as above.
        unsafe { growing::write(port, end) }.map(|()| 0)
    })
}

/// Connects to a peer that speaks plain RoCEv2: an RNIC, Soft-RoCE, or another engine. No packet is
/// exchanged. Receives have to be posted before the peer sends, see braid_qp_modify.
///
/// RoCEv2 protects nothing: whoever sends packets with the peer's address and guesses the PSN and
/// the rkey writes to memory that the peer may write to.
///
/// Threads: any, one at a time for a queue pair.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_qp_connect_roce(
    qp: *mut braid_qp,
    remote: *const braid_roce_remote,
) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise.
        let remote = unsafe { braid_roce_remote::read(remote) }?;
        find(qp)?.qp.connect_roce(&remote)?;
        Ok(0)
    })
}

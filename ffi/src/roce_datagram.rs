//! Work requests of datagram queue pairs, and their completions.

use std::ffi::{c_int, c_void};

use braid::{Completion, QpId, RoceDatagram};

use crate::arguments::{bytes, narrow};
use crate::boundary::enter;
use crate::cq::{braid_cq, poll_queue, wait_queue};
use crate::failure::Failure;
use crate::handle::find;
use crate::post::post_all;
use crate::roce::MAX_24_BITS;
use crate::roce_ud::{braid_roce_address, braid_roce_ud};
use crate::wc::braid_wc;
use crate::wr::{
    BRAID_SEND_SIGNALED, BRAID_SEND_SOLICITED, BRAID_WR_SEND, BRAID_WR_SEND_WITH_IMM, braid_recv_wr,
};

/// Bytes in front of the payload in a receive: the IPv6 header of the datagram, or its IPv4 header
/// in the last 20 bytes.
pub const BRAID_ROCE_HEADER_LEN: usize = 40;
const _: () = assert!(BRAID_ROCE_HEADER_LEN == braid::NETWORK_HEADER_LEN);

/// A send of a datagram.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct braid_roce_datagram {
    /// The id, which the completion returns.
    pub id: u64,
    /// BRAID_WR_SEND or BRAID_WR_SEND_WITH_IMM.
    pub opcode: u32,
    /// BRAID_SEND_SIGNALED and BRAID_SEND_SOLICITED.
    pub flags: u32,
    /// The peer's address, of the same datagram queue pair.
    pub to: *const braid_roce_address,
    /// The number of the peer's queue pair, 24 bits.
    pub qp: u32,
    /// The key of the peer's queue pair.
    pub q_key: u32,
    /// The payload, which is copied: `len` bytes. NULL if there are none.
    pub data: *const c_void,
    /// Length of the payload in bytes, up to the MTU of the address.
    pub len: u32,
    /// Immediate data: a number, equal on both sides for any byte order.
    pub imm: u32,
}

/// The result of a work request, with the sender of a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct braid_roce_wc {
    /// The completion. For a receive, `byte_len` includes the BRAID_ROCE_HEADER_LEN bytes in front
    /// of the payload.
    pub wc: braid_wc,
    /// The number of the queue pair that sent the datagram. 0: no datagram was received.
    pub source: u32,
    /// 0.
    pub reserved: u32,
}

impl From<Completion> for braid_roce_wc {
    fn from(from: Completion) -> Self {
        braid_roce_wc { source: from.source.get(), reserved: 0, wc: from.into() }
    }
}

impl braid_roce_datagram {
    fn read(&self) -> Result<RoceDatagram, Failure> {
        let allowed = BRAID_SEND_SIGNALED | BRAID_SEND_SOLICITED;
        if self.flags & !allowed != 0 {
            let accepted = "BRAID_SEND_SIGNALED and BRAID_SEND_SOLICITED";
            return Err(Failure::Bits { name: "flags", value: self.flags, accepted });
        }
        let qp = QpId::new(narrow(self.qp.into(), MAX_24_BITS, "qp")?);
        let mut datagram = RoceDatagram::new(self.id, qp, self.q_key);
        datagram.imm = match self.opcode {
            BRAID_WR_SEND => None,
            BRAID_WR_SEND_WITH_IMM => Some(self.imm),
            value => {
                let accepted = "BRAID_WR_SEND (0) or BRAID_WR_SEND_WITH_IMM (1)";
                return Err(Failure::Constant { name: "opcode", value: value.into(), accepted });
            }
        };
        datagram.signalled = self.flags & BRAID_SEND_SIGNALED != 0;
        datagram.solicited = self.flags & BRAID_SEND_SOLICITED != 0;
        Ok(datagram)
    }
}

/// Posts `count` datagrams of the array `datagrams` in order, up to the first one that is refused.
/// Writes the number of posted ones to `posted` unless it is NULL, also on an error.
///
/// A send completes when its datagram leaves, whether the datagram arrives or not. The peer drops
/// it without a receive, and with another Q_Key (`wrong_q_key` of its braid_engine_counters).
///
/// Threads: any; datagrams that several threads post at the same time have an undefined order.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_roce_ud_post_send(
    ud: *mut braid_roce_ud,
    datagrams: *const braid_roce_datagram,
    count: usize,
    posted: *mut usize,
) -> c_int {
    // SAFETY: the caller's promise, for the array and the memory of its elements.
    let post = |of: &braid_roce_ud, datagram| unsafe { post_send(of, ud.addr(), &datagram) };
    // SAFETY: as above.
    enter(|| unsafe { post_all(ud, (datagrams, count, "datagrams"), posted, post) })
}

/// Posts `count` receives of the array `wrs`, like braid_qp_post_recv. Each takes a datagram with
/// BRAID_ROCE_HEADER_LEN bytes in front of it. If it is shorter than that, the datagram is lost and
/// the receive ends with BRAID_WC_LOC_LEN_ERR. The queue pair goes on.
///
/// Threads: any, as for braid_roce_ud_post_send.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_roce_ud_post_recv(
    ud: *mut braid_roce_ud,
    wrs: *const braid_recv_wr,
    count: usize,
    posted: *mut usize,
) -> c_int {
    // SAFETY: the caller's promise, for the array and what its elements name.
    let post =
        |ud: &braid_roce_ud, wr: braid_recv_wr| unsafe { Ok(ud.receives.post_recv(wr.read()?)?) };
    // SAFETY: the caller's promise.
    enter(|| unsafe { post_all(ud, (wrs, count, "wrs"), posted, post) })
}

/// Takes completions like braid_cq_poll, with the senders of datagrams.
///
/// Threads: any; each completion goes to one of them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_cq_poll_datagrams(
    cq: *mut braid_cq,
    wcs: *mut braid_roce_wc,
    max: usize,
) -> c_int {
    // SAFETY: the caller's promise.
    enter(|| unsafe { poll_queue(cq, wcs, max) })
}

/// Takes completions like braid_cq_wait, with the senders of datagrams.
///
/// Threads: any; each completion goes to one of them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_cq_wait_datagrams(
    cq: *mut braid_cq,
    wcs: *mut braid_roce_wc,
    max: usize,
    timeout_us: u64,
) -> c_int {
    // SAFETY: the caller's promise.
    enter(|| unsafe { wait_queue(cq, wcs, max, timeout_us) })
}

/// # Safety
/// The caller's promise, for the payload.
unsafe fn post_send(
    ud: &braid_roce_ud,
    handle: usize,
    datagram: &braid_roce_datagram,
) -> Result<(), Failure> {
    let send = datagram.read()?;
    let address = find(datagram.to)?;
    if address.of != handle {
        return Err(Failure::OtherAddress);
    }
    let len = datagram.len as usize;
    let mtu = address.to.mtu().bytes();
    if datagram.len > mtu {
        return Err(Failure::LongDatagram { len, mtu });
    }
    // SAFETY: as the caller promises; the length is checked.
    let payload = unsafe { bytes(datagram.data, len, "data") }?;
    Ok(ud.ud.send(&send, &address.to, payload)?)
}

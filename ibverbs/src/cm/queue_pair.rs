//! The steps of the queue pairs of identifiers, from INIT to RTS and to ERR.

use std::ffi::c_int;
use std::mem;

use braid_verbs::abi::*;

use super::options::Options;
use super::wire_up::Terms;
use crate::errno::Errno;
use crate::qp::attributes::RETRY_FOR_EVER;
use crate::qp::handle::Qp;
use crate::qp::modify::ibv_modify_qp;

/// The operations that a peer may perform.
const ACCESS: u32 = IBV_ACCESS_LOCAL_WRITE
    | IBV_ACCESS_REMOTE_WRITE
    | IBV_ACCESS_REMOTE_READ
    | IBV_ACCESS_REMOTE_ATOMIC;
/// The local ack timeout of connections, unless the program sets one: 4.096 us * 2^18, about a
/// second.
const TIMEOUT: u8 = 18;
/// The `min_rnr_timer` where the other end's retries are limited: 655 ms, as in the kernel.
/// Programs choose the limit for pauses of that length.
const LIMITED_RNR_TIMER: u8 = 0;
/// The `min_rnr_timer` where they are not: 0.64 ms.
const UNLIMITED_RNR_TIMER: u8 = 12;

/// `RDMA_UDP_QKEY`: the Q_Key of a queue pair of type UD, unless the program sets another one.
pub(super) const UDP_Q_KEY: u32 = 0x0123_4567;

/// The attributes of a change of state, and their mask.
pub(super) type Step = (ibv_qp_attr, u32);

fn modify(qp: *mut ibv_qp, mut attr: ibv_qp_attr, mask: u32) -> Result<(), Errno> {
    // SAFETY: the queue pair exists, because the caller has it of an identifier that does.
    match unsafe { ibv_modify_qp(qp, &raw mut attr, mask as c_int) } {
        0 => Ok(()),
        errno => Err(Errno(errno)),
    }
}

fn attributes(state: u32) -> ibv_qp_attr {
    // SAFETY: the structure consists of numbers, so zero is valid.
    let mut attr: ibv_qp_attr = unsafe { mem::zeroed() };
    attr.qp_state = state;
    attr
}

/// The step to RTR, towards the queue pair that the other end has named, from the GID of this
/// index.
pub(super) fn to_rtr(terms: &Terms, options: Options, sgid_index: u8) -> Step {
    let Terms { peer, own, .. } = terms;
    let mut attr = attributes(IBV_QPS_RTR);
    (attr.path_mtu, attr.dest_qp_num) = (IBV_MTU_4096, peer.number);
    attr.min_rnr_timer = match own.rnr_retry_count {
        RETRY_FOR_EVER.. => UNLIMITED_RNR_TIMER,
        _ => LIMITED_RNR_TIMER,
    };
    attr.max_dest_rd_atomic = own.responder_resources;
    (attr.ah_attr.is_global, attr.ah_attr.port_num) = (1, 1);
    attr.ah_attr.grh.traffic_class = options.tos;
    attr.ah_attr.grh.dgid = ibv_gid { raw: peer.gid };
    attr.ah_attr.grh.sgid_index = sgid_index;
    if let Some(roce) = options.roce {
        (attr.path_mtu, attr.rq_psn) = (roce.mtu, roce.recv_psn);
    }
    let mask = IBV_QP_STATE
        | IBV_QP_AV
        | IBV_QP_PATH_MTU
        | IBV_QP_DEST_QPN
        | IBV_QP_RQ_PSN
        | IBV_QP_MAX_DEST_RD_ATOMIC
        | IBV_QP_MIN_RNR_TIMER;
    (attr, mask)
}

/// The step from RTR to RTS.
pub(super) fn to_rts(terms: &Terms, options: Options) -> Step {
    let mut attr = attributes(IBV_QPS_RTS);
    attr.timeout = options.ack_timeout.unwrap_or(TIMEOUT);
    (attr.retry_cnt, attr.rnr_retry) = (7, terms.rnr_retry_count.min(RETRY_FOR_EVER));
    attr.max_rd_atomic = terms.own.initiator_depth;
    if let Some(roce) = options.roce {
        (attr.timeout, attr.retry_cnt) = (roce.ack_timeout, roce.retry_count);
        attr.sq_psn = roce.send_psn;
        attr.max_rd_atomic = terms.own.initiator_depth.min(roce.most_reads);
    }
    let mask = IBV_QP_STATE
        | IBV_QP_TIMEOUT
        | IBV_QP_RETRY_CNT
        | IBV_QP_RNR_RETRY
        | IBV_QP_SQ_PSN
        | IBV_QP_MAX_QP_RD_ATOMIC;
    (attr, mask)
}

/// Moves a queue pair to RTS, towards the one that the other end has named.
pub(super) fn connect(qp: *mut ibv_qp, terms: &Terms, options: Options) -> Result<(), Errno> {
    // SAFETY: the queue pair exists, because the caller has it of an identifier that does.
    let object = unsafe { Qp::of(qp).as_ref() }.ok_or(Errno::INVALID)?;
    let ours = object.shared.running.gids.towards(&ibv_gid { raw: terms.peer.gid });
    object.shared.connection().is_roce_expected = options.roce.is_some();
    let (attr, mask) = to_rtr(terms, options, ours.ok_or(Errno::INVALID)? as u8);
    modify(qp, attr, mask)?;
    let (attr, mask) = to_rts(terms, options);
    modify(qp, attr, mask)
}

/// Moves a queue pair to ERR, which flushes its work.
pub(super) fn fail(qp: *mut ibv_qp) -> Result<(), Errno> {
    modify(qp, attributes(IBV_QPS_ERR), IBV_QP_STATE)
}

/// Moves a queue pair as far as possible without another end: of type UD to RTS, any other to INIT.
pub(super) fn initialize(qp: *mut ibv_qp, qp_type: u32) -> Result<(), Errno> {
    match qp_type {
        IBV_QPT_UD => take_datagrams(qp),
        _ => allow(qp),
    }
}

/// The step of a queue pair of type UD to this state, INIT, RTR or RTS.
pub(super) fn of_datagrams(state: u32) -> Step {
    let mut attr = attributes(state);
    match state {
        IBV_QPS_INIT => {
            (attr.port_num, attr.qkey) = (1, UDP_Q_KEY);
            (attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY)
        }
        IBV_QPS_RTS => (attr, IBV_QP_STATE | IBV_QP_SQ_PSN),
        _ => (attr, IBV_QP_STATE),
    }
}

fn take_datagrams(qp: *mut ibv_qp) -> Result<(), Errno> {
    [IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS].into_iter().try_for_each(|state| {
        let (attr, mask) = of_datagrams(state);
        modify(qp, attr, mask)
    })
}

/// The step to INIT. It permits all remote operations.
pub(super) fn to_init() -> Step {
    let mut attr = attributes(IBV_QPS_INIT);
    (attr.port_num, attr.qp_access_flags) = (1, ACCESS);
    (attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)
}

fn allow(qp: *mut ibv_qp) -> Result<(), Errno> {
    let (attr, mask) = to_init();
    modify(qp, attr, mask)
}

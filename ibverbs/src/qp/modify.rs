//! `ibv_modify_qp` and `ibv_query_qp`.

use std::ffi::c_int;
use std::net::Ipv6Addr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use braid::{QpState, RecvWr, Status, Work};
use braid_verbs::abi::{
    IBV_QP_ACCESS_FLAGS, IBV_QP_AV, IBV_QP_DEST_QPN, IBV_QP_MAX_DEST_RD_ATOMIC,
    IBV_QP_MAX_QP_RD_ATOMIC, IBV_QP_MIN_RNR_TIMER, IBV_QP_PATH_MTU, IBV_QP_PKEY_INDEX, IBV_QP_PORT,
    IBV_QP_RETRY_CNT, IBV_QP_RNR_RETRY, IBV_QP_STATE, IBV_QP_TIMEOUT, IBV_QPS_ERR, IBV_QPS_INIT,
    IBV_QPS_RESET, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QPS_SQD, ibv_global_route, ibv_qp, ibv_qp_attr,
    ibv_qp_init_attr,
};

use super::attributes::Attributes;
use super::handle::Qp;
use super::queue_pair::{QueuePair, Sends};
use super::queues::Queues;
use super::transition::{self, CUR_STATE, SQD_NOTIFY};
use crate::connect::inbox::ControlMessage;
use crate::errno::{self, Errno};
use crate::limits::MAX_RD_ATOMIC;
use crate::peer::Peer;

/// Queue pair numbers have 24 bits.
const MAX_NUMBER: u32 = (1 << 24) - 1;
/// The accepted bits of `enum ibv_access_flags`: local writing to flushing, relaxed ordering, and
/// the optional ones. Only the remote ones have an effect. A peer cannot ask for a FLUSH.
const KNOWN_ACCESS: u32 = 0x3FF0_03FF;

/// Changes the state or the attributes. `EINVAL`, without any change: the state machine has no such
/// transition, or attributes are missing, not allowed or out of range.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_modify_qp(
    qp: *mut ibv_qp,
    attr: *mut ibv_qp_attr,
    mask: c_int,
) -> c_int {
    errno::code(|| {
        // SAFETY: by the caller's promise.
        let (object, attr) = unsafe { (Qp::of(qp).as_mut(), attr.as_ref()) };
        let (object, attr) = (object.ok_or(Errno::INVALID)?, attr.ok_or(Errno::INVALID)?);
        object.base.state = modify(&object.shared, attr, mask as u32)?;
        Ok(())
    })
}

/// Returns the new state.
fn modify(qp: &Arc<QueuePair>, new: &ibv_qp_attr, mask: u32) -> Result<u32, Errno> {
    let mut attributes = qp.attributes();
    let from = qp.state_seen(attributes.state);
    if mask & CUR_STATE != 0 && new.cur_qp_state != from {
        return Err(Errno::INVALID);
    }
    let to = if mask & IBV_QP_STATE != 0 { new.qp_state } else { from };
    transition::check(qp.service, from, to, mask)?;
    check_values(qp, new, mask)?;
    let mut changed = *attributes;
    changed.merge(new, mask);
    changed.state = to;
    changed.reports_drained =
        to == IBV_QPS_SQD && mask & SQD_NOTIFY != 0 && new.en_sqd_async_notify != 0;
    // The attributes hold from the transition on.
    let is_reliable = qp.service.is_reliable();
    qp.engine.set_attributes(changed.engine(is_reliable));
    if let Err(error) = apply(qp, &changed, from, to) {
        qp.engine.set_attributes(attributes.engine(is_reliable));
        return Err(error);
    }
    *attributes = changed;
    if let Some(datagrams) = &qp.datagrams {
        datagrams.set_q_key(changed.given.qkey);
    }
    Ok(to)
}

fn check_values(qp: &QueuePair, new: &ibv_qp_attr, mask: u32) -> Result<(), Errno> {
    let has = |bit| mask & bit != 0;
    let route = &new.ah_attr.grh;
    let is_refused = (has(IBV_QP_PORT) && new.port_num != 1)
        || (has(IBV_QP_PKEY_INDEX) && new.pkey_index != 0)
        || (has(IBV_QP_PATH_MTU) && !(1..=5).contains(&new.path_mtu))
        || (has(IBV_QP_AV)
            && (new.ah_attr.is_global == 0 || new.ah_attr.port_num != 1 || !leads(qp, route)))
        || (has(IBV_QP_DEST_QPN) && new.dest_qp_num > MAX_NUMBER)
        || is_out_of_range(new, mask, qp.is_roce());
    if is_refused {
        return Err(Errno::INVALID);
    }
    // The receives of a queue pair that is connected to itself have to come from a shared queue.
    let is_own = has(IBV_QP_DEST_QPN) && new.dest_qp_num == qp.number;
    if is_own && qp.queues.srq.is_none() { Err(Errno::UNSUPPORTED) } else { Ok(()) }
}

/// Whether packets of this route leave by the GID that it names.
fn leads(qp: &QueuePair, route: &ibv_global_route) -> bool {
    let leads = qp.running.gids.source(route).is_ok();
    if !leads {
        // SAFETY: both members of the union are plain bytes.
        let gid = Ipv6Addr::from(unsafe { route.dgid.raw });
        tracing::warn!(qp = qp.number, %gid, index = route.sgid_index,
            "no GID of this index leads to the peer's: take another index (`-x`, `-g`)");
    }
    leads
}

/// Whether a value exceeds its range. Timers have five bits, and counts of retries three. The
/// device limits READs and atomics at a time. Over RoCEv2 the peer alone limits those that this end
/// asks for: perftest passes on the peer's number, 128 with rxe.
fn is_out_of_range(new: &ibv_qp_attr, mask: u32, is_roce: bool) -> bool {
    let most_asked = if is_roce { u8::MAX } else { MAX_RD_ATOMIC as u8 };
    let limits = [
        (IBV_QP_TIMEOUT, new.timeout, 31),
        (IBV_QP_MIN_RNR_TIMER, new.min_rnr_timer, 31),
        (IBV_QP_RETRY_CNT, new.retry_cnt, 7),
        (IBV_QP_RNR_RETRY, new.rnr_retry, 7),
        (IBV_QP_MAX_QP_RD_ATOMIC, new.max_rd_atomic, most_asked),
        (IBV_QP_MAX_DEST_RD_ATOMIC, new.max_dest_rd_atomic, MAX_RD_ATOMIC as u8),
    ];
    let exceeds = |&(bit, value, most): &(u32, u8, u8)| mask & bit != 0 && value > most;
    limits.iter().any(exceeds)
        || (mask & IBV_QP_ACCESS_FLAGS != 0 && new.qp_access_flags & !KNOWN_ACCESS != 0)
}

/// Carries the change out. The engine's queue pair stays in INIT until the control thread connects
/// it.
fn apply(qp: &Arc<QueuePair>, new: &Attributes, from: u32, to: u32) -> Result<(), Errno> {
    let engine = |state| qp.engine.modify(state).map_err(|_| Errno::INVALID);
    match (from, to) {
        (_, IBV_QPS_RESET) => {
            qp.set_sends(Sends::Refused);
            qp.running.send_control(ControlMessage::Forget(qp.number));
            qp.forget_connection();
            qp.stop_datagrams(false);
            engine(QpState::Reset)?;
            qp.hide_completions();
            qp.forget_failures();
            qp.places.clear();
            qp.has_reported_last.store(false, Ordering::Relaxed);
        }
        (_, IBV_QPS_ERR) => {
            qp.fail_held(Status::Flushed);
            qp.stop_datagrams(true);
            qp.failed_by_program();
            qp.report_last_receive();
        }
        (IBV_QPS_RESET, IBV_QPS_INIT) => engine(QpState::Init)?,
        (IBV_QPS_INIT, IBV_QPS_RTR) if qp.datagrams.is_none() => begin(qp, new)?,
        (IBV_QPS_INIT, IBV_QPS_RTR) => qp.open_roce_datagrams(new.given.qkey)?,
        (IBV_QPS_RTR, IBV_QPS_RTS) if qp.datagrams.is_some() => qp.set_sends(Sends::Posted),
        (IBV_QPS_RTR, IBV_QPS_RTS) => {
            qp.set_roce_sending(new)?;
            let mut connection = qp.connection();
            qp.set_sends(Sends::Held);
            qp.post_held(&mut connection);
        }
        (IBV_QPS_RTS, IBV_QPS_SQD) if qp.sends() == Sends::Posted => {
            engine(QpState::SendQueueDrained)?;
        }
        (IBV_QPS_SQD, IBV_QPS_RTS) if qp.engine.state() == QpState::SendQueueDrained => {
            engine(QpState::ReadyToSend)?;
        }
        // All other changes concern attributes only.
        _ => {}
    }
    Ok(())
}

impl QueuePair {
    /// Hides the completions that precede a reset.
    fn hide_completions(&self) {
        let Queues { send_cq, recv_cq, .. } = &*self.queues;
        send_cq.resets.reset(self.number, &send_cq.engine);
        if !self.queues.have_one_cq() {
            recv_cq.resets.reset(self.number, &recv_cq.engine);
        }
    }

    /// Stops sending and receiving datagrams. The posted work is flushed if the program is to see
    /// that (`is_seen`).
    fn stop_datagrams(&self, is_seen: bool) {
        let Some(datagrams) = &self.datagrams else { return };
        if is_seen {
            datagrams.flush(&self.queues);
        }
        datagrams.clear();
        let Some(posted) = &datagrams.posted else { return };
        while let Some(wr) = datagrams.receives.take_back() {
            if let Some(RecvWr { id, .. }) = posted.take(wr.id).filter(|_| is_seen) {
                self.queues.push(&self.queues.recv_cq, id, Work::Recv, Status::Flushed);
            }
        }
    }
}

/// Begins to connect, in RTR: the program has named both ends. A queue pair that is connected to
/// itself gets a second queue pair of the engine, which receives.
fn begin(qp: &Arc<QueuePair>, new: &Attributes) -> Result<(), Errno> {
    let route = &new.given.ah_attr.grh;
    let ours = Peer::new(&qp.running.gids.source(route)?, qp.number);
    let theirs = Peer::new(&route.dgid, new.given.dest_qp_num);
    qp.engine.set_traffic_class(route.traffic_class);
    if qp.connect_roce(new, (ours, theirs))? {
        return Ok(());
    }
    let twin = if ours == theirs { Some(qp.make_twin(new)?) } else { None };
    let mut connection = qp.connection();
    (connection.ends, connection.twin) = (Some((ours, theirs)), twin);
    qp.running.send_control(ControlMessage::Connect(qp.number, connection.attempt));
    Ok(())
}

/// Returns the attributes that the program has set, the present state and the initial attributes.
/// All fields are filled in, whatever the mask.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_qp(
    qp: *mut ibv_qp,
    attr: *mut ibv_qp_attr,
    _mask: c_int,
    init: *mut ibv_qp_init_attr,
) -> c_int {
    errno::code(|| {
        // SAFETY: by the caller's promise.
        let (object, attr) = unsafe { (Qp::of(qp).as_mut(), attr.as_mut()) };
        let (object, attr) = (object.ok_or(Errno::INVALID)?, attr.ok_or(Errno::INVALID)?);
        let shared = &object.shared;
        let attributes = *shared.attributes();
        let state = shared.state_seen(attributes.state);
        *attr = attributes.given;
        (attr.qp_state, attr.cur_qp_state) = (state, state);
        attr.cap = shared.queues.limits.to_c();
        let is_draining = shared.engine.state() == QpState::SendQueueDrained;
        attr.sq_draining = u8::from(is_draining && shared.engine.outstanding().0 > 0);
        object.base.state = state;
        // SAFETY: as above.
        if let Some(init) = unsafe { init.as_mut() } {
            init.qp_context = object.base.qp_context;
            (init.send_cq, init.recv_cq) = (object.base.send_cq, object.base.recv_cq);
            (init.srq, init.cap) = (object.base.srq, attr.cap);
            init.qp_type = object.base.qp_type;
            init.sq_sig_all = shared.queues.signals_all.into();
        }
        Ok(())
    })
}

//! Queue pairs.

use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};
use std::{fmt, io};

use crate::abi::*;
use crate::error::{at_most, check};
use crate::port::mtu_from_bytes;
use crate::post::{ENOSYS, post};
use crate::{Cq, MrAccess, Pd, PostError, RecvWr, Route, SendWr, Srq, VerbsError};

/// The largest queue pair number and PSN: 24 bits.
const MAX_24_BITS: u32 = (1 << 24) - 1;

/// Which service a queue pair gives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QpKind {
    /// Reliable, connected.
    Rc,
    /// Unreliable, connected.
    Uc,
    /// Unreliable datagrams.
    Ud,
}

/// The states of IBTA volume 1, 10.3.1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum QpState {
    /// New.
    Reset,
    /// Receives may be posted.
    Init,
    /// Receives.
    Rtr,
    /// Sends, too.
    Rts,
    /// Has stopped sending after what was begun.
    Sqd,
    /// Has stopped sending after a failure.
    Sqe,
    /// Has failed.
    Err,
    /// What this library does not know, with its number.
    Other(u32),
}

/// What a queue pair is to be.
#[derive(Clone, Copy, Debug)]
pub struct QpInit<'a> {
    /// Its service.
    pub kind: QpKind,
    /// Where completions of sends go.
    pub send_cq: &'a Cq,
    /// Where completions of receives go.
    pub recv_cq: &'a Cq,
    /// A shared receive queue instead of one of its own.
    pub srq: Option<&'a Srq>,
    /// Outstanding sends.
    pub max_send_wr: u32,
    /// Outstanding receives; of no effect with a shared receive queue.
    pub max_recv_wr: u32,
    /// Scatter/gather entries of a send.
    pub max_send_sge: u32,
    /// Scatter/gather entries of a receive.
    pub max_recv_sge: u32,
    /// Bytes of an inline send.
    pub max_inline: u32,
}

/// What an RC or UC queue pair must know to receive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rtr {
    /// The peer's queue pair number, 24 bits.
    pub dest_qp: u32,
    /// The PSN that the peer begins with, 24 bits.
    pub psn: u32,
    /// 256, 512, 1024, 2048 or 4096 bytes, the same at both ends.
    pub path_mtu_bytes: u32,
    /// The way to the peer.
    pub route: Route,
    /// RC only: READs and atomics of the peer that are answered at once.
    pub max_dest_rd_atomic: u8,
    /// RC only: how long the peer shall wait for a receive work request, a code of 5 bits (12: 0.64 ms).
    pub min_rnr_timer: u8,
}

/// What a queue pair must know to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rts {
    /// The PSN that it begins with, 24 bits.
    pub psn: u32,
    /// RC only: when to send again, 4.096 us * 2^timeout, 5 bits; 0 is never.
    pub timeout: u8,
    /// RC only: how often, 3 bits.
    pub retry_count: u8,
    /// RC only: how often when the peer has no receive work request, 3 bits; 7 is for ever.
    pub rnr_retry: u8,
    /// RC only: READs and atomics outstanding at once.
    pub max_rd_atomic: u8,
}

/// A queue pair. It ends when dropped; work requests that are outstanding then have no completion.
///
/// Posting is possible from several threads, but they wait for each other. So do state changes, which
/// may take the kernel milliseconds.
#[derive(Debug)]
pub struct Qp {
    // Dropped after the queue pair itself, which `drop` destroys.
    pd: Pd,
    _send_cq: Cq,
    _recv_cq: Cq,
    _srq: Option<Srq>,
    raw: NonNull<ibv_qp>,
    kind: QpKind,
    max_inline: u32,
}

// SAFETY: libibverbs may be called from any thread and locks inside; the pointer stays valid until `drop`, and
// the only field that is read here, the number, is not written after it was made.
unsafe impl Send for Qp {}
// SAFETY: as above.
unsafe impl Sync for Qp {}

impl Qp {
    pub(crate) fn create(pd: &Pd, init: &QpInit<'_>) -> Result<Self, VerbsError> {
        let context = pd.context();
        context.require_same("the send completion queue", init.send_cq.context())?;
        context.require_same("the receive completion queue", init.recv_cq.context())?;
        if let Some(srq) = init.srq {
            context.require_same("the shared receive queue", srq.pd().context())?;
        }
        let mut attr = init.to_raw();
        // SAFETY: the domain and the queues are alive and of one context; `attr` takes the real sizes.
        let raw = unsafe { (context.symbols().ibv_create_qp)(pd.raw(), &raw mut attr) };
        let raw = context.made("ibv_create_qp", || init.to_string(), raw)?;
        Ok(Qp {
            pd: pd.clone(),
            _send_cq: init.send_cq.clone(),
            _recv_cq: init.recv_cq.clone(),
            _srq: init.srq.cloned(),
            raw,
            kind: init.kind,
            max_inline: attr.cap.max_inline_data,
        })
    }

    /// Its number, 24 bits, by which peers address it.
    pub fn number(&self) -> u32 {
        // SAFETY: the queue pair is alive.
        unsafe { (*self.raw()).qp_num }
    }

    /// Its service.
    pub fn kind(&self) -> QpKind {
        self.kind
    }

    /// Bytes of an inline send: at least as many as were asked for.
    pub fn max_inline(&self) -> u32 {
        self.max_inline
    }

    /// The domain it is in.
    pub fn pd(&self) -> &Pd {
        &self.pd
    }

    /// RC, UC: to INIT, from where receives may be posted. `access` is what the peer may do at all.
    ///
    /// # Errors
    /// [`VerbsError::WrongKind`] for UD, [`VerbsError::Refused`].
    pub fn to_init(&self, port: u8, access: MrAccess) -> Result<(), VerbsError> {
        self.require_connected("to_init")?;
        let mut attr = attr_for(IBV_QPS_INIT);
        (attr.port_num, attr.qp_access_flags) = (port, access.bits());
        let mask = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
        self.modify(attr, mask, || format!("to INIT on port {port}, {access:?}"))
    }

    /// UD: to INIT, from where receives may be posted. Peers must name `qkey`.
    ///
    /// # Errors
    /// [`VerbsError::WrongKind`] for RC and UC, [`VerbsError::Refused`].
    pub fn to_init_ud(&self, port: u8, qkey: u32) -> Result<(), VerbsError> {
        self.require_ud("to_init_ud")?;
        let mut attr = attr_for(IBV_QPS_INIT);
        (attr.port_num, attr.qkey) = (port, qkey);
        let mask = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;
        self.modify(attr, mask, || format!("to INIT on port {port}"))
    }

    /// RC, UC: from INIT to RTR: it receives.
    ///
    /// # Errors
    /// [`VerbsError::WrongKind`] for UD, [`VerbsError::PathMtu`], [`VerbsError::OutOfRange`],
    /// [`VerbsError::NoDestination`], [`VerbsError::Refused`].
    pub fn to_rtr(&self, rtr: &Rtr) -> Result<(), VerbsError> {
        self.require_connected("to_rtr")?;
        let mut attr = attr_for(IBV_QPS_RTR);
        attr.dest_qp_num = at_most("queue pair number", rtr.dest_qp, MAX_24_BITS)?;
        attr.rq_psn = at_most("PSN", rtr.psn, MAX_24_BITS)?;
        attr.path_mtu = mtu_from_bytes(rtr.path_mtu_bytes)?;
        attr.ah_attr = rtr.route.to_raw()?;
        let mut mask = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
        if self.kind == QpKind::Rc {
            attr.max_dest_rd_atomic = rtr.max_dest_rd_atomic;
            attr.min_rnr_timer = at_most("RNR timer", rtr.min_rnr_timer, 31)?;
            mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
        }
        self.modify(attr, mask, || format!("to RTR, {rtr:?}"))
    }

    /// UD: from INIT to RTR: it receives.
    ///
    /// # Errors
    /// [`VerbsError::WrongKind`] for RC and UC, [`VerbsError::Refused`].
    pub fn to_rtr_ud(&self) -> Result<(), VerbsError> {
        self.require_ud("to_rtr_ud")?;
        self.modify(attr_for(IBV_QPS_RTR), 0, || "to RTR".into())
    }

    /// From RTR to RTS: it sends, too.
    ///
    /// # Errors
    /// [`VerbsError::OutOfRange`], [`VerbsError::Refused`].
    pub fn to_rts(&self, rts: &Rts) -> Result<(), VerbsError> {
        let mut attr = attr_for(IBV_QPS_RTS);
        attr.sq_psn = at_most("PSN", rts.psn, MAX_24_BITS)?;
        let mut mask = IBV_QP_SQ_PSN;
        if self.kind == QpKind::Rc {
            attr.timeout = at_most("time-out code", rts.timeout, 31)?;
            attr.retry_cnt = at_most("retry count", rts.retry_count, 7)?;
            attr.rnr_retry = at_most("RNR retry count", rts.rnr_retry, 7)?;
            attr.max_rd_atomic = rts.max_rd_atomic;
            mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
        }
        self.modify(attr, mask, || format!("to RTS, {rts:?}"))
    }

    /// From any state to ERR: what is outstanding ends as flushed.
    ///
    /// # Errors
    /// [`VerbsError::Refused`].
    pub fn to_error(&self) -> Result<(), VerbsError> {
        self.modify(attr_for(IBV_QPS_ERR), 0, || "to ERR".into())
    }

    /// From any state to RESET: what is outstanding is forgotten without a completion.
    ///
    /// # Errors
    /// [`VerbsError::Refused`].
    pub fn to_reset(&self) -> Result<(), VerbsError> {
        self.modify(attr_for(IBV_QPS_RESET), 0, || "to RESET".into())
    }

    /// Asks the device for its state.
    ///
    /// # Errors
    /// [`VerbsError::Refused`].
    pub fn state(&self) -> Result<QpState, VerbsError> {
        let context = self.pd.context();
        let mut attr = attr_for(IBV_QPS_RESET);
        let mut init = MaybeUninit::<ibv_qp_init_attr>::zeroed();
        // SAFETY: the queue pair is alive; both structs take what the device tells.
        let code = unsafe {
            let query = context.symbols().ibv_query_qp;
            query(self.raw(), &raw mut attr, IBV_QP_STATE as i32, init.as_mut_ptr())
        };
        check(code).map_err(|e| context.refused("ibv_query_qp", "the state", e))?;
        Ok(QpState::from_raw(attr.qp_state))
    }

    /// Posts work requests to the send queue in order, as one chain up to 32 of them. Does not block or
    /// allocate.
    ///
    /// # Errors
    /// The first one that was not posted. A work request for queue pairs of another kind is `EINVAL`.
    ///
    /// # Safety
    /// Until a request's completion, or that of a later one on this queue pair where it is not signalled: the
    /// memory that its entries name stays registered and is not written (for inline, until this returns), and
    /// its address handle, of the same domain, stays alive.
    pub unsafe fn post_send(&self, wrs: &[SendWr<'_>]) -> Result<(), PostError> {
        let qp = self.raw();
        let is_ud = self.kind == QpKind::Ud;
        // SAFETY: the queue pair and its context are alive.
        let call = unsafe { (*(*qp).context).ops.post_send };
        post(
            wrs,
            |wr| wr.to_raw(is_ud),
            |first, bad| match call {
                // SAFETY: the queue pair is alive, the chain ends in null, and the caller vouches for the memory.
                Some(post_send) => unsafe { post_send(qp, first, bad) },
                None => ENOSYS,
            },
        )
    }

    /// Posts work requests to the receive queue in order. Does not block or allocate.
    ///
    /// # Errors
    /// The first one that was not posted; with a shared receive queue that is always the first.
    ///
    /// # Safety
    /// Until a request's completion, or until the queue pair is dropped, the memory that its entries name stays
    /// registered and nobody reads or writes it.
    pub unsafe fn post_recv(&self, wrs: &[RecvWr<'_>]) -> Result<(), PostError> {
        if self._srq.is_some() {
            // Some drivers have no receive queue then and do not look.
            let source = io::Error::from_raw_os_error(libc::EINVAL);
            return Err(PostError { index: 0, source });
        }
        let qp = self.raw();
        // SAFETY: the queue pair and its context are alive.
        let call = unsafe { (*(*qp).context).ops.post_recv };
        post(
            wrs,
            |wr| wr.to_raw(),
            |first, bad| match call {
                // SAFETY: the queue pair is alive, the chain ends in null, and the caller vouches for the memory.
                Some(post_recv) => unsafe { post_recv(qp, first, bad) },
                None => ENOSYS,
            },
        )
    }

    fn modify(
        &self,
        mut attr: ibv_qp_attr,
        mask: u32,
        asked: impl FnOnce() -> String,
    ) -> Result<(), VerbsError> {
        let context = self.pd.context();
        let mask = (IBV_QP_STATE | mask) as i32;
        // SAFETY: the queue pair is alive, and `attr` holds what the mask says.
        let code = unsafe { (context.symbols().ibv_modify_qp)(self.raw(), &raw mut attr, mask) };
        check(code).map_err(|e| {
            let asked = format!("queue pair {} {}", self.number(), asked());
            context.refused("ibv_modify_qp", asked, e)
        })
    }

    fn require_connected(&self, call: &'static str) -> Result<(), VerbsError> {
        match self.kind {
            QpKind::Rc | QpKind::Uc => Ok(()),
            QpKind::Ud => Err(VerbsError::WrongKind { call, kind: self.kind }),
        }
    }

    fn require_ud(&self, call: &'static str) -> Result<(), VerbsError> {
        match self.kind {
            QpKind::Ud => Ok(()),
            QpKind::Rc | QpKind::Uc => Err(VerbsError::WrongKind { call, kind: self.kind }),
        }
    }

    pub(crate) fn raw(&self) -> *mut ibv_qp {
        self.raw.as_ptr()
    }
}

impl Drop for Qp {
    fn drop(&mut self) {
        // SAFETY: the queue pair came from `ibv_create_qp` and is given back once.
        let code = unsafe { (self.pd.context().symbols().ibv_destroy_qp)(self.raw()) };
        self.pd.context().unmade("ibv_destroy_qp", code);
    }
}

impl QpInit<'_> {
    fn to_raw(self) -> ibv_qp_init_attr {
        ibv_qp_init_attr {
            qp_context: ptr::null_mut(),
            send_cq: self.send_cq.raw(),
            recv_cq: self.recv_cq.raw(),
            srq: self.srq.map_or(ptr::null_mut(), Srq::raw),
            cap: ibv_qp_cap {
                max_send_wr: self.max_send_wr,
                max_recv_wr: self.max_recv_wr,
                max_send_sge: self.max_send_sge,
                max_recv_sge: self.max_recv_sge,
                max_inline_data: self.max_inline,
            },
            qp_type: self.kind.to_raw(),
            sq_sig_all: 0,
        }
    }
}

impl fmt::Display for QpInit<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}, {} sends of {} entries and {} bytes inline, {} receives of {} entries",
            self.kind,
            self.max_send_wr,
            self.max_send_sge,
            self.max_inline,
            self.max_recv_wr,
            self.max_recv_sge,
        )
    }
}

impl QpKind {
    fn to_raw(self) -> u32 {
        match self {
            QpKind::Rc => IBV_QPT_RC,
            QpKind::Uc => IBV_QPT_UC,
            QpKind::Ud => IBV_QPT_UD,
        }
    }
}

impl fmt::Display for QpKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            QpKind::Rc => "RC",
            QpKind::Uc => "UC",
            QpKind::Ud => "UD",
        })
    }
}

impl QpState {
    fn from_raw(state: u32) -> Self {
        match state {
            IBV_QPS_RESET => QpState::Reset,
            IBV_QPS_INIT => QpState::Init,
            IBV_QPS_RTR => QpState::Rtr,
            IBV_QPS_RTS => QpState::Rts,
            IBV_QPS_SQD => QpState::Sqd,
            IBV_QPS_SQE => QpState::Sqe,
            IBV_QPS_ERR => QpState::Err,
            other => QpState::Other(other),
        }
    }
}

fn attr_for(state: u32) -> ibv_qp_attr {
    // SAFETY: all of its fields are integers, or unions of integers.
    let zeros: ibv_qp_attr = unsafe { std::mem::zeroed() };
    ibv_qp_attr { qp_state: state, ..zeros }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake;

    fn rtr() -> Rtr {
        Rtr {
            dest_qp: 9,
            psn: 77,
            path_mtu_bytes: 1024,
            route: fake::route(),
            max_dest_rd_atomic: 4,
            min_rnr_timer: 12,
        }
    }

    const RTS: Rts = Rts { psn: 78, timeout: 14, retry_count: 7, rnr_retry: 6, max_rd_atomic: 3 };

    #[test]
    fn each_kind_sets_what_it_must_and_no_more() {
        let connected = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
        let rc_rtr = connected | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
        let rc_rts = IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY;
        let rc_rts = IBV_QP_SQ_PSN | rc_rts | IBV_QP_MAX_QP_RD_ATOMIC;
        for (kind, rtr_mask, rts_mask) in
            [(QpKind::Uc, connected, IBV_QP_SQ_PSN), (QpKind::Rc, rc_rtr, rc_rts)]
        {
            let fake = fake::Device::new();
            let qp = fake::queue_pair(&fake.open(), kind);
            qp.to_init(1, MrAccess::REMOTE_WRITE).expect("to INIT");
            qp.to_rtr(&rtr()).expect("to RTR");
            qp.to_rts(&RTS).expect("to RTS");
            let init_mask = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
            let seen = fake.modified();
            let masks: Vec<u32> = seen.iter().map(|(mask, _)| mask & !IBV_QP_STATE).collect();
            assert_eq!(masks, [init_mask, rtr_mask, rts_mask], "{kind}");
            assert!(seen.iter().all(|(mask, _)| mask & IBV_QP_STATE != 0));
            let [(_, init), (_, rtr), (_, rts)] = seen[..] else { unreachable!("three masks") };
            assert_eq!((init.port_num, init.qp_access_flags), (1, IBV_ACCESS_REMOTE_WRITE));
            assert_eq!((rtr.dest_qp_num, rtr.rq_psn, rtr.path_mtu), (9, 77, IBV_MTU_1024));
            assert_eq!((rtr.ah_attr.grh.sgid_index, rts.sq_psn), (2, 78));
            assert_eq!(qp.state().expect("known"), QpState::Rts);
        }
    }

    #[test]
    fn datagrams_have_states_of_their_own() {
        let fake = fake::Device::new();
        let qp = fake::queue_pair(&fake.open(), QpKind::Ud);
        qp.to_init_ud(1, 0x1234).expect("to INIT");
        qp.to_rtr_ud().expect("to RTR");
        qp.to_rts(&RTS).expect("to RTS");
        let seen = fake.modified();
        let masks: Vec<u32> = seen.iter().map(|(mask, _)| mask & !IBV_QP_STATE).collect();
        let init_mask = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;
        assert_eq!(masks, [init_mask, 0, IBV_QP_SQ_PSN]);
        assert_eq!(seen[0].1.qkey, 0x1234);
        for error in [qp.to_init(1, MrAccess::NONE), qp.to_rtr(&rtr())] {
            let text = error.expect_err("UD").to_string();
            assert!(text.ends_with("is not for a queue pair of kind UD"), "{text}");
        }
        qp.to_error().expect("to ERR");
        assert_eq!(qp.state().expect("known"), QpState::Err);
        qp.to_reset().expect("to RESET");
        assert_eq!(qp.state().expect("known"), QpState::Reset);
    }

    #[test]
    fn values_out_of_range_never_reach_the_driver() {
        let fake = fake::Device::new();
        let qp = fake::queue_pair(&fake.open(), QpKind::Rc);
        let refused = |rtr: Rtr| qp.to_rtr(&rtr).expect_err("refused").to_string();
        let text = refused(Rtr { psn: 1 << 24, ..rtr() });
        assert_eq!(text, "PSN 16777216 is out of range: at most 16777215");
        assert!(
            refused(Rtr { dest_qp: 1 << 24, ..rtr() }).starts_with("queue pair number 16777216")
        );
        assert!(refused(Rtr { path_mtu_bytes: 1500, ..rtr() }).starts_with("path MTU 1500 is not"));
        assert!(refused(Rtr { min_rnr_timer: 32, ..rtr() }).starts_with("RNR timer 32"));
        let text = qp.to_rts(&Rts { retry_count: 8, ..RTS }).expect_err("refused").to_string();
        assert_eq!(text, "retry count 8 is out of range: at most 7");
        assert_eq!(fake.took("ibv_modify_qp"), 0);
    }

    #[test]
    fn a_refused_change_names_the_queue_pair_and_the_state() {
        let fake = fake::Device::new().failing("ibv_modify_qp");
        let qp = fake::queue_pair(&fake.open(), QpKind::Uc);
        let text = qp.to_init(3, MrAccess::NONE).expect_err("refused").to_string();
        let expected = "fake0: ibv_modify_qp failed (queue pair 1122867 to INIT on port 3, ";
        assert!(text.starts_with(expected), "{text}");
    }

    #[test]
    fn the_device_may_give_more_inline_room() {
        let fake = fake::Device::new();
        assert_eq!(fake::queue_pair(&fake.open(), QpKind::Uc).max_inline(), 60);
    }

    #[test]
    fn receives_of_a_shared_queue_are_posted_there() {
        let fake = fake::Device::new();
        let context = fake.open();
        let (pd, cq) = (context.alloc_pd().expect("pd"), context.create_cq(4, None).expect("cq"));
        let srq = pd.create_srq(4, 1).expect("srq");
        let init = QpInit { srq: Some(&srq), ..fake::qp_init(QpKind::Rc, &cq) };
        let qp = pd.create_qp(&init).expect("qp");
        // SAFETY: the fake device does not touch memory.
        let error = unsafe { qp.post_recv(&[RecvWr { id: 1, sges: &[] }]) }.expect_err("shared");
        assert_eq!((error.index, fake.took("post_recv")), (0, 0));
    }

    #[test]
    fn parts_of_another_opening_are_refused() {
        let fake = fake::Device::new();
        let cq = fake.open().create_cq(4, None).expect("a queue");
        let pd = fake.open().alloc_pd().expect("a domain");
        let error = pd.create_qp(&fake::qp_init(QpKind::Uc, &cq)).expect_err("of another");
        assert!(matches!(error, VerbsError::OtherContext { .. }), "{error}");
    }

    /// Whatever is dropped first: what something was made from is unmade after it.
    #[test]
    fn any_order_of_dropping_is_right() {
        for first in 0..6 {
            let fake = fake::Device::new();
            let context = fake.open();
            let channel = context.create_channel().expect("channel");
            let cq = context.create_cq(4, Some(&channel)).expect("cq");
            let pd = context.alloc_pd().expect("pd");
            let srq = pd.create_srq(4, 1).expect("srq");
            let init = QpInit { srq: Some(&srq), ..fake::qp_init(QpKind::Rc, &cq) };
            let qp = pd.create_qp(&init).expect("qp");
            let mut owners: Vec<Box<dyn std::any::Any>> = vec![
                Box::new(context),
                Box::new(channel),
                Box::new(cq),
                Box::new(pd),
                Box::new(srq),
                Box::new(qp),
            ];
            owners.rotate_left(first);
            owners.into_iter().for_each(drop);
            assert_eq!(fake.alive(), Vec::<&str>::new());
            let calls = fake.calls();
            let at = |call| calls.iter().position(|c| *c == call).expect("it was unmade");
            for (child, parent) in [
                ("ibv_destroy_qp", "ibv_destroy_cq"),
                ("ibv_destroy_qp", "ibv_destroy_srq"),
                ("ibv_destroy_qp", "ibv_dealloc_pd"),
                ("ibv_destroy_srq", "ibv_dealloc_pd"),
                ("ibv_destroy_cq", "ibv_destroy_comp_channel"),
                ("ibv_destroy_comp_channel", "ibv_close_device"),
                ("ibv_dealloc_pd", "ibv_close_device"),
            ] {
                assert!(at(child) < at(parent), "{parent} before {child}: {calls:?}");
            }
        }
    }
}

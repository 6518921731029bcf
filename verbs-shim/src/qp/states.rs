//! The states of a queue pair, and the transitions between them.

use std::mem::MaybeUninit;

use super::{Qp, QpKind};
use crate::abi::*;
use crate::error::{at_most, check};
use crate::port::mtu_from_bytes;
use crate::{MrAccess, Route, VerbsError};

/// The largest queue pair number and PSN: 24 bits.
const MAX_24_BITS: u32 = (1 << 24) - 1;

/// The states of IBTA volume 1, 10.3.1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum QpState {
    /// The initial state.
    Reset,
    /// Receives may be posted.
    Init,
    /// The queue pair receives.
    Rtr,
    /// The queue pair receives and sends.
    Rts,
    /// The send queue is drained: no new requests are started.
    Sqd,
    /// The send queue has stopped after a failure.
    Sqe,
    /// The queue pair has failed.
    Err,
    /// An unknown state, with its number.
    Other(u32),
}

/// The parameters for receiving on an RC or UC queue pair.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rtr {
    /// The peer's queue pair number, 24 bits.
    pub dest_qp: u32,
    /// The first PSN of the peer, 24 bits.
    pub psn: u32,
    /// The path MTU: 256, 512, 1024, 2048 or 4096 bytes, the same at both ends.
    pub path_mtu_bytes: u32,
    /// The route to the peer.
    pub route: Route,
    /// RC only: number of the peer's READs and atomics that are responded to at once.
    pub max_dest_rd_atomic: u8,
    /// RC only: time that the peer shall wait for a receive work request, a code of 5 bits (12:
    /// 0.64 ms).
    pub min_rnr_timer: u8,
}

/// The parameters for sending on a queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rts {
    /// The first PSN, 24 bits.
    pub psn: u32,
    /// RC only: retransmission time-out, 4.096 us * 2^timeout, 5 bits; 0: infinite.
    pub timeout: u8,
    /// RC only: number of retransmissions, 3 bits.
    pub retry_count: u8,
    /// RC only: number of retries if the peer has no receive work request, 3 bits; 7: infinite.
    pub rnr_retry: u8,
    /// RC only: number of READs and atomics outstanding at once.
    pub max_rd_atomic: u8,
}

impl Qp {
    /// RC, UC: changes to INIT, in which receives may be posted. `access` limits the peer's
    /// operations.
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

    /// UD: changes to INIT, in which receives may be posted. Peers must use `qkey`.
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

    /// RC, UC: changes from INIT to RTR, in which the queue pair receives.
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

    /// UD: changes from INIT to RTR, in which the queue pair receives.
    ///
    /// # Errors
    /// [`VerbsError::WrongKind`] for RC and UC, [`VerbsError::Refused`].
    pub fn to_rtr_ud(&self) -> Result<(), VerbsError> {
        self.require_ud("to_rtr_ud")?;
        self.modify(attr_for(IBV_QPS_RTR), 0, || "to RTR".into())
    }

    /// Changes from RTR to RTS, in which the queue pair also sends.
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

    /// Changes from any state to ERR: outstanding work requests are flushed. Soft-RoCE (Linux 6.1)
    /// ignores receives posted afterwards, so they have no completion there.
    ///
    /// # Errors
    /// [`VerbsError::Refused`].
    pub fn to_error(&self) -> Result<(), VerbsError> {
        self.modify(attr_for(IBV_QPS_ERR), 0, || "to ERR".into())
    }

    /// Changes from any state to RESET: outstanding work requests are dropped without a completion.
    ///
    /// # Errors
    /// [`VerbsError::Refused`].
    pub fn to_reset(&self) -> Result<(), VerbsError> {
        self.modify(attr_for(IBV_QPS_RESET), 0, || "to RESET".into())
    }

    /// Queries the state from the device.
    ///
    /// # Errors
    /// [`VerbsError::Refused`].
    pub fn state(&self) -> Result<QpState, VerbsError> {
        let context = self.pd.context();
        let mut attr = attr_for(IBV_QPS_RESET);
        let mut init = MaybeUninit::<ibv_qp_init_attr>::zeroed();
        // SAFETY: the queue pair is alive, and both structs receive the device's values.
        let code = unsafe {
            let query = context.symbols().ibv_query_qp;
            query(self.raw(), &raw mut attr, IBV_QP_STATE as i32, init.as_mut_ptr())
        };
        check(code).map_err(|e| context.refused("ibv_query_qp", "the state", e))?;
        Ok(QpState::from_raw(attr.qp_state))
    }

    fn modify(
        &self,
        mut attr: ibv_qp_attr,
        mask: u32,
        asked: impl FnOnce() -> String,
    ) -> Result<(), VerbsError> {
        let context = self.pd.context();
        let mask = (IBV_QP_STATE | mask) as i32;
        // SAFETY: the queue pair is alive, and `attr` has the fields of the mask.
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
    // SAFETY: all fields are integers, or unions of integers.
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
            assert!(text.ends_with("does not apply to a queue pair of kind UD"), "{text}");
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
}

//! The attributes that a program has set by `ibv_modify_qp`, and the engine's part of them.

use std::mem;
use std::time::Duration;

use braid::{Access, QpAttributes};
use braid_verbs::abi::{
    IBV_ACCESS_REMOTE_ATOMIC, IBV_ACCESS_REMOTE_READ, IBV_ACCESS_REMOTE_WRITE, IBV_QP_ACCESS_FLAGS,
    IBV_QP_AV, IBV_QP_DEST_QPN, IBV_QP_MAX_DEST_RD_ATOMIC, IBV_QP_MAX_QP_RD_ATOMIC,
    IBV_QP_MIN_RNR_TIMER, IBV_QP_PATH_MTU, IBV_QP_PKEY_INDEX, IBV_QP_PORT, IBV_QP_QKEY,
    IBV_QP_RETRY_CNT, IBV_QP_RNR_RETRY, IBV_QP_RQ_PSN, IBV_QP_SQ_PSN, IBV_QP_TIMEOUT, ibv_qp_attr,
};

/// The shortest time after which a peer is given up. A NIC answers by itself, but the process of
/// this peer may have been paused.
const MIN_PEER_TIMEOUT: Duration = Duration::from_secs(3);
/// The time that stands for a time-out of 0, which means that there is none.
pub(crate) const MAX_PEER_TIMEOUT: Duration = Duration::from_secs(3600);
/// The `rnr_retry` without a limit.
pub(crate) const RETRY_FOR_EVER: u8 = 7;
/// Delays of `min_rnr_timer`, in units of 10 us (IBTA vol. 1, table 46).
const RNR_DELAYS: [u32; 32] = [
    65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536,
    2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
];

/// The state that the program has asked for, and the attributes that it has set.
#[derive(Clone, Copy)]
pub(super) struct Attributes {
    pub(super) state: u32,
    pub(super) given: ibv_qp_attr,
    /// In SQD, the program wants to know when the send queue is drained.
    pub(super) reports_drained: bool,
}

impl Attributes {
    pub(super) fn new() -> Self {
        // SAFETY: the structure consists of numbers, so zero is valid.
        Attributes { state: 0, given: unsafe { mem::zeroed() }, reports_drained: false }
    }

    /// Takes over the attributes that the mask names.
    pub(super) fn merge(&mut self, new: &ibv_qp_attr, mask: u32) {
        let given = &mut self.given;
        macro_rules! take {
            ($($bit:ident: $($field:ident),*;)*) => {
                $(if mask & $bit != 0 { $(given.$field = new.$field;)* })*
            };
        }
        take! {
            IBV_QP_ACCESS_FLAGS: qp_access_flags;
            IBV_QP_PKEY_INDEX: pkey_index;
            IBV_QP_PORT: port_num;
            IBV_QP_QKEY: qkey;
            IBV_QP_AV: ah_attr;
            IBV_QP_PATH_MTU: path_mtu;
            IBV_QP_TIMEOUT: timeout;
            IBV_QP_RETRY_CNT: retry_cnt;
            IBV_QP_RNR_RETRY: rnr_retry;
            IBV_QP_RQ_PSN: rq_psn;
            IBV_QP_SQ_PSN: sq_psn;
            IBV_QP_MAX_QP_RD_ATOMIC: max_rd_atomic;
            IBV_QP_MAX_DEST_RD_ATOMIC: max_dest_rd_atomic;
            IBV_QP_MIN_RNR_TIMER: min_rnr_timer;
            IBV_QP_DEST_QPN: dest_qp_num;
        }
    }

    /// The attributes of the engine's queue pair. An unreliable queue pair has no retries to set
    /// and drops messages that find no receive. Because the engine serves it reliably, its sends
    /// wait for a receive without limit.
    pub(super) fn engine(&self, is_reliable: bool) -> QpAttributes {
        let rnr_retry = self.given.rnr_retry;
        QpAttributes {
            access: access(self.given.qp_access_flags),
            retry_timeout: self.peer_timeout(),
            rnr_retry: Some(rnr_retry).filter(|retries| is_reliable && *retries < RETRY_FOR_EVER),
            rnr_delay: rnr_delay(self.given.min_rnr_timer),
        }
    }

    /// The longest time without an answer from the peer. A NIC waits up to four times the local ack
    /// timeout before each try (IBTA vol. 1, 9.7.6.1.3).
    pub(super) fn peer_timeout(&self) -> Duration {
        match self.tries() {
            Some(tries) => (4 * tries).clamp(MIN_PEER_TIMEOUT, MAX_PEER_TIMEOUT),
            None => MAX_PEER_TIMEOUT,
        }
    }

    /// The time in which a NIC gives up a peer that is gone, at most the shortest peer time-out.
    pub(super) fn retry_time(&self) -> Duration {
        self.tries().unwrap_or(MIN_PEER_TIMEOUT).min(MIN_PEER_TIMEOUT)
    }

    /// The local ack timeouts of all tries together. `None`: no limit.
    fn tries(&self) -> Option<Duration> {
        let exponent = u32::from(self.given.timeout & 31);
        let tries = u32::from(self.given.retry_cnt) + 1;
        (exponent > 0).then(|| tries * Duration::from_nanos(4096 << exponent))
    }
}

/// The remote operations that `qp_access_flags` permit.
fn access(flags: u32) -> Access {
    let bits = [
        (IBV_ACCESS_REMOTE_WRITE, Access::REMOTE_WRITE),
        (IBV_ACCESS_REMOTE_READ, Access::REMOTE_READ),
        (IBV_ACCESS_REMOTE_ATOMIC, Access::REMOTE_ATOMIC),
    ];
    let set = bits.into_iter().filter(|(bit, _)| flags & bit != 0);
    set.fold(Access::LOCAL_WRITE, |all, (_, access)| all | access)
}

fn rnr_delay(timer: u8) -> Duration {
    Duration::from_micros(10 * u64::from(RNR_DELAYS[usize::from(timer & 31)]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(timeout: u8, retry_cnt: u8) -> Attributes {
        let mut attributes = Attributes::new();
        (attributes.given.timeout, attributes.given.retry_cnt) = (timeout, retry_cnt);
        attributes
    }

    #[test]
    fn the_peer_timeout_follows_the_ack_timeout_within_bounds() {
        assert_eq!(with(0, 7).peer_timeout(), MAX_PEER_TIMEOUT);
        assert_eq!(with(1, 0).peer_timeout(), MIN_PEER_TIMEOUT);
        assert_eq!(with(31, 7).peer_timeout(), MAX_PEER_TIMEOUT);
        assert_eq!(with(18, 7).peer_timeout(), 32 * Duration::from_nanos(4096 << 18));
    }

    #[test]
    fn a_peer_that_is_gone_is_given_up_after_as_many_timeouts_as_tries() {
        assert_eq!(with(14, 6).retry_time(), 7 * Duration::from_nanos(4096 << 14));
        assert_eq!(with(0, 7).retry_time(), MIN_PEER_TIMEOUT);
        assert_eq!(with(31, 7).retry_time(), MIN_PEER_TIMEOUT);
    }

    #[test]
    fn only_a_reliable_queue_pair_has_a_limit_of_refusals() {
        let mut attributes = Attributes::new();
        attributes.given.rnr_retry = 3;
        assert_eq!(attributes.engine(true).rnr_retry, Some(3));
        assert_eq!(attributes.engine(false).rnr_retry, None);
        attributes.given.rnr_retry = RETRY_FOR_EVER;
        assert_eq!(attributes.engine(true).rnr_retry, None);
    }

    #[test]
    fn receiver_not_ready_delays_are_those_of_the_table() {
        assert_eq!(rnr_delay(0), Duration::from_micros(655_360));
        assert_eq!(rnr_delay(1), Duration::from_micros(10));
        assert_eq!(rnr_delay(12), Duration::from_micros(640));
        assert_eq!(rnr_delay(31), Duration::from_micros(491_520));
    }

    #[test]
    fn only_what_the_mask_names_is_taken_over() {
        let mut attributes = Attributes::new();
        let mut new = attributes.given;
        (new.timeout, new.retry_cnt, new.qkey) = (14, 3, 5);
        attributes.merge(&new, IBV_QP_TIMEOUT | IBV_QP_QKEY);
        let given = attributes.given;
        assert_eq!((given.timeout, given.retry_cnt, given.qkey), (14, 0, 5));
    }
}

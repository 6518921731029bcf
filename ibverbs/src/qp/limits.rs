//! Capacities of queue pairs.

use braid_verbs::abi::ibv_qp_cap;

use crate::errno::Errno;
use crate::limits::{MAX_INLINE, MAX_SGE, MAX_WR};

/// The smallest send queue. Programs that ask for one send rely on the few that NICs grant: they
/// post the next send after the reply to the one before, not after its completion.
const LEAST_SEND_WR: u32 = 64;

/// Inline data is rounded up to a multiple of this size, as in drivers of NICs: programs that ask
/// for none send a few bytes inline all the same.
const INLINE_STEP: u32 = 64;
const _: () = assert!(MAX_INLINE.is_multiple_of(INLINE_STEP));

/// The capacities of a queue pair.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) send_wr: u32,
    pub(crate) recv_wr: u32,
    pub(crate) sge: u32,
    pub(crate) inline: u32,
}

impl Limits {
    /// The capacities of a queue pair for which a program asks for `asked`, or more.
    ///
    /// # Errors
    /// `EINVAL`: more than the device has.
    pub(super) fn granted(asked: &ibv_qp_cap) -> Result<Self, Errno> {
        let sge = asked.max_send_sge.max(asked.max_recv_sge);
        let wr = asked.max_send_wr.max(asked.max_recv_wr);
        if wr > MAX_WR || sge > MAX_SGE || asked.max_inline_data > MAX_INLINE {
            return Err(Errno::INVALID);
        }
        Ok(Limits {
            send_wr: asked.max_send_wr.max(LEAST_SEND_WR),
            recv_wr: asked.max_recv_wr.max(1),
            sge: sge.max(1),
            inline: asked.max_inline_data.max(1).next_multiple_of(INLINE_STEP),
        })
    }

    pub(crate) fn to_c(self) -> ibv_qp_cap {
        ibv_qp_cap {
            max_send_wr: self.send_wr,
            max_recv_wr: self.recv_wr,
            max_send_sge: self.sge,
            max_recv_sge: self.sge,
            max_inline_data: self.inline,
        }
    }
}

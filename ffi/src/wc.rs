//! Completions: how work requests have ended.

use std::ffi::c_int;

use braid::{Completion, Status, Work};

/// As asked.
pub const BRAID_WC_SUCCESS: c_int = 0;
/// A message did not fit its receive buffer.
pub const BRAID_WC_LOC_LEN_ERR: c_int = 1;
/// Local memory was deregistered under a work request.
pub const BRAID_WC_LOC_PROT_ERR: c_int = 2;
/// The queue pair went into ERR before this work request had ended.
pub const BRAID_WC_WR_FLUSH_ERR: c_int = 3;
/// The peer found the request malformed, or too long for its receive buffer.
pub const BRAID_WC_REM_INV_REQ_ERR: c_int = 4;
/// The peer does not allow this access.
pub const BRAID_WC_REM_ACCESS_ERR: c_int = 5;
/// The peer failed on its own account.
pub const BRAID_WC_REM_OP_ERR: c_int = 6;
/// The peer did not answer in time.
pub const BRAID_WC_RETRY_EXC_ERR: c_int = 7;
/// The peer posted no receive in time.
pub const BRAID_WC_RNR_RETRY_EXC_ERR: c_int = 8;

/// By their numbers above.
pub(crate) const STATUSES: [Status; 9] = [
    Status::Success,
    Status::LocalLength,
    Status::LocalProtection,
    Status::Flushed,
    Status::RemoteInvalidRequest,
    Status::RemoteAccess,
    Status::RemoteOperational,
    Status::RetryExceeded,
    Status::RnrRetryExceeded,
];

/// The number of a status.
pub(crate) fn status(of: Status) -> c_int {
    let number = STATUSES.iter().position(|status| *status == of);
    number.expect("every status has a number") as c_int
}

/// A SEND, with or without immediate data.
pub const BRAID_WC_SEND: u32 = 0;
/// A WRITE, with or without immediate data.
pub const BRAID_WC_WRITE: u32 = 1;
/// A READ.
pub const BRAID_WC_READ: u32 = 2;
/// A compare-and-swap.
pub const BRAID_WC_COMPARE_SWAP: u32 = 3;
/// A fetch-and-add.
pub const BRAID_WC_FETCH_ADD: u32 = 4;
/// A receive that a SEND filled.
pub const BRAID_WC_RECV: u32 = 5;
/// A receive that a WRITE with immediate data consumed.
pub const BRAID_WC_RECV_WRITE_IMM: u32 = 6;

/// By their numbers above, with their names.
pub(crate) const WORKS: [(Work, &str); 7] = [
    (Work::Send, "SEND"),
    (Work::Write, "WRITE"),
    (Work::Read, "READ"),
    (Work::CompareSwap, "COMPARE_SWAP"),
    (Work::FetchAdd, "FETCH_ADD"),
    (Work::Recv, "RECV"),
    (Work::RecvWriteImm, "RECV_WRITE_IMM"),
];

/// The number of a kind of work.
pub(crate) fn opcode(of: Work) -> u32 {
    let number = WORKS.iter().position(|(work, _)| *work == of);
    number.expect("every kind of work has a number") as u32
}

/// The completion carries immediate data.
pub const BRAID_WC_WITH_IMM: u32 = 1;
/// The sender has asked for a solicited event.
pub const BRAID_WC_SOLICITED: u32 = 2;

/// How one work request ended. Completions of one queue come in posting order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct braid_wc {
    /// The id of the work request.
    pub wr_id: u64,
    /// The number of the queue pair.
    pub qp_num: u32,
    /// BRAID_WC_SUCCESS or why it failed. The fields below are valid on success only, but for `opcode`.
    pub status: c_int,
    /// What it was: BRAID_WC_SEND and so on.
    pub opcode: u32,
    /// Bytes of the message.
    pub byte_len: u32,
    /// Immediate data, where `flags` say so: a number, the same on both sides.
    pub imm: u32,
    /// BRAID_WC_WITH_IMM, BRAID_WC_SOLICITED.
    pub flags: u32,
}

impl From<Completion> for braid_wc {
    fn from(from: Completion) -> Self {
        let with_imm = if from.imm.is_some() { BRAID_WC_WITH_IMM } else { 0 };
        let solicited = if from.solicited { BRAID_WC_SOLICITED } else { 0 };
        braid_wc {
            wr_id: from.wr_id,
            qp_num: from.qp.get(),
            status: status(from.status),
            opcode: opcode(from.work),
            byte_len: from.len,
            imm: from.imm.unwrap_or(0),
            flags: with_imm | solicited,
        }
    }
}

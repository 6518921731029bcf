//! Completions of work requests.

use std::ffi::c_int;

use braid::{Completion, Status, Work};

/// The work request succeeded.
pub const BRAID_WC_SUCCESS: c_int = 0;
/// A message did not fit its receive buffer.
pub const BRAID_WC_LOC_LEN_ERR: c_int = 1;
/// A memory region was deregistered while a work request used it.
pub const BRAID_WC_LOC_PROT_ERR: c_int = 2;
/// The queue pair entered ERR before the work request had ended.
pub const BRAID_WC_WR_FLUSH_ERR: c_int = 3;
/// The peer found the request malformed or too long for its receive buffer.
pub const BRAID_WC_REM_INV_REQ_ERR: c_int = 4;
/// The peer does not permit the access.
pub const BRAID_WC_REM_ACCESS_ERR: c_int = 5;
/// The peer failed for a reason of its own.
pub const BRAID_WC_REM_OP_ERR: c_int = 6;
/// The peer did not respond in time.
pub const BRAID_WC_RETRY_EXC_ERR: c_int = 7;
/// The peer posted no receive in time.
pub const BRAID_WC_RNR_RETRY_EXC_ERR: c_int = 8;

/// Indexed by the numbers above.
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

/// Returns the number of a status.
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

/// Indexed by the numbers above, with their names.
pub(crate) const WORKS: [(Work, &str); 7] = [
    (Work::Send, "SEND"),
    (Work::Write, "WRITE"),
    (Work::Read, "READ"),
    (Work::CompareSwap, "COMPARE_SWAP"),
    (Work::FetchAdd, "FETCH_ADD"),
    (Work::Recv, "RECV"),
    (Work::RecvWriteImm, "RECV_WRITE_IMM"),
];

/// Returns the number of an opcode.
pub(crate) fn opcode(of: Work) -> u32 {
    let number = WORKS.iter().position(|(work, _)| *work == of);
    number.expect("every kind of work has a number") as u32
}

/// The completion carries immediate data.
pub const BRAID_WC_WITH_IMM: u32 = 1;
/// The sender requested a solicited event.
pub const BRAID_WC_SOLICITED: u32 = 2;

/// The result of a work request. Completions of one queue have posting order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct braid_wc {
    /// The id of the work request.
    pub wr_id: u64,
    /// The number of the queue pair.
    pub qp_num: u32,
    /// BRAID_WC_SUCCESS or the error. On an error, only `opcode` of the fields below is valid.
    pub status: c_int,
    /// The kind of work request: BRAID_WC_SEND and so on.
    pub opcode: u32,
    /// Length of the message in bytes.
    pub byte_len: u32,
    /// Immediate data, if `flags` has BRAID_WC_WITH_IMM: a number, equal on both sides.
    pub imm: u32,
    /// BRAID_WC_WITH_IMM and BRAID_WC_SOLICITED.
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

//! Completions.

use std::fmt;

use crate::abi::*;

/// The completion of a work request, as the device wrote it.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Completion(pub(crate) ibv_wc);

impl Completion {
    /// Returns the `id` of the work request.
    pub fn id(&self) -> u64 {
        self.0.wr_id
    }

    /// Returns whether the work request succeeded. If it failed, only [`Completion::id`],
    /// [`Completion::qp_num`] and [`Completion::vendor_error`] are valid besides.
    ///
    /// # Errors
    /// The work request failed with this status.
    pub fn status(&self) -> Result<(), WcStatus> {
        match self.0.status {
            IBV_WC_SUCCESS => Ok(()),
            error => Err(WcStatus::from_raw(error)),
        }
    }

    /// Returns the operation.
    pub fn opcode(&self) -> WcOpcode {
        match self.0.opcode {
            IBV_WC_SEND => WcOpcode::Send,
            IBV_WC_RDMA_WRITE => WcOpcode::Write,
            IBV_WC_RECV => WcOpcode::Recv,
            IBV_WC_RECV_RDMA_WITH_IMM => WcOpcode::RecvWriteWithImm,
            other => WcOpcode::Other(other),
        }
    }

    /// Returns the number of bytes received; for a UD message including the 40 bytes before it, see
    /// [`Completion::has_grh`].
    pub fn byte_len(&self) -> u32 {
        self.0.byte_len
    }

    /// Returns the peer's immediate data in host order, if there are any.
    pub fn imm(&self) -> Option<u32> {
        (self.0.wc_flags & IBV_WC_WITH_IMM != 0).then(|| u32::from_be(self.0.imm_data))
    }

    /// Returns the number of the local queue pair.
    pub fn qp_num(&self) -> u32 {
        self.0.qp_num
    }

    /// Returns the number of the sender's queue pair, for UD.
    pub fn src_qp(&self) -> u32 {
        self.0.src_qp
    }

    /// Returns whether the first 40 bytes of a UD message's buffer hold a network header; an IPv4
    /// header is in the last 20 of them. The message itself begins after them in either case.
    pub fn has_grh(&self) -> bool {
        self.0.wc_flags & IBV_WC_GRH != 0
    }

    /// Returns the vendor's error number.
    pub fn vendor_error(&self) -> u32 {
        self.0.vendor_err
    }
}

impl Default for Completion {
    /// Returns an empty completion to poll into.
    fn default() -> Self {
        // SAFETY: all of its fields are integers.
        Completion(unsafe { std::mem::zeroed() })
    }
}

impl fmt::Debug for Completion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Completion");
        out.field("id", &self.id()).field("qp_num", &self.qp_num()).field("status", &self.status());
        match self.status() {
            Ok(()) => out
                .field("opcode", &self.opcode())
                .field("byte_len", &self.byte_len())
                .field("imm", &self.imm())
                .field("src_qp", &self.src_qp())
                .field("has_grh", &self.has_grh()),
            Err(_) => out.field("vendor_error", &self.vendor_error()),
        };
        out.finish()
    }
}

/// The operation of a successful work request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum WcOpcode {
    /// Sent, with or without immediate data.
    Send,
    /// Written, with or without immediate data.
    Write,
    /// Received a SEND of the peer.
    Recv,
    /// Received the immediate data of a WRITE of the peer.
    RecvWriteWithImm,
    /// Any other operation, with its number in `enum ibv_wc_opcode`.
    Other(u32),
}

macro_rules! statuses {
    ($($(#[$doc:meta])* $name:ident = $raw:ident, $text:literal;)*) => {
        /// The status of a failed work request. The queue pair is in ERR, or for UD possibly in
        /// SQE.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
        #[non_exhaustive]
        pub enum WcStatus {
            $($(#[$doc])* #[error($text)] $name,)*
            /// An unknown status, with its number in `enum ibv_wc_status`.
            #[error("status {0} of ibv_wc_status")]
            Other(u32),
        }

        impl WcStatus {
            fn from_raw(status: u32) -> Self {
                match status {
                    $($raw => WcStatus::$name,)*
                    other => WcStatus::Other(other),
                }
            }
        }
    };
}

statuses! {
    /// The message is longer than a receive buffer, or than the port's limit.
    LocalLength = IBV_WC_LOC_LEN_ERR, "the message does not fit into its buffer or a message";
    /// The queue pair cannot execute this request.
    LocalOperation = IBV_WC_LOC_QP_OP_ERR, "the request is impossible for this queue pair";
    /// An `lkey` does not cover the bytes.
    LocalProtection = IBV_WC_LOC_PROT_ERR, "a scatter/gather entry is outside its memory region";
    /// The queue pair had failed or was stopped before it executed this request.
    Flushed = IBV_WC_WR_FLUSH_ERR, "flushed: the queue pair had left RTS before";
    /// A memory window could not be bound.
    WindowBind = IBV_WC_MW_BIND_ERR, "the memory window could not be bound";
    /// The peer sent an invalid response.
    BadResponse = IBV_WC_BAD_RESP_ERR, "the peer sent an invalid response";
    /// The peer's WRITE WITH IMM was not permitted here.
    LocalAccess = IBV_WC_LOC_ACCESS_ERR, "access to local memory was refused";
    /// The peer rejected the request as invalid.
    RemoteInvalidRequest = IBV_WC_REM_INV_REQ_ERR, "the peer refused the request as invalid";
    /// An `rkey` does not permit the access.
    RemoteAccess = IBV_WC_REM_ACCESS_ERR, "the peer refused access to its memory";
    /// The peer failed to execute the request.
    RemoteOperation = IBV_WC_REM_OP_ERR, "the peer could not complete the request";
    /// The peer did not respond.
    RetryExceeded = IBV_WC_RETRY_EXC_ERR, "no response from the peer after all retries";
    /// The peer had no receive work request.
    RnrRetryExceeded = IBV_WC_RNR_RETRY_EXC_ERR, "the peer had no receive buffer after all retries";
    /// The peer aborted the request.
    RemoteAborted = IBV_WC_REM_ABORT_ERR, "the peer aborted the request";
    /// The device has failed.
    Fatal = IBV_WC_FATAL_ERR, "the device has failed";
    /// The peer responded too late.
    ResponseTimeout = IBV_WC_RESP_TIMEOUT_ERR, "the peer's response came too late";
    /// The driver gives no reason.
    General = IBV_WC_GENERAL_ERR, "the device reports an unspecified error";
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completion(fill: impl FnOnce(&mut ibv_wc)) -> Completion {
        let mut completion = Completion::default();
        fill(&mut completion.0);
        completion
    }

    #[test]
    fn immediate_data_is_in_host_order() {
        let with = completion(|wc| {
            wc.wc_flags = IBV_WC_WITH_IMM;
            wc.imm_data = u32::from_ne_bytes([1, 2, 3, 4]);
        });
        assert_eq!(with.imm(), Some(0x0102_0304));
        assert_eq!(completion(|wc| wc.imm_data = 7).imm(), None);
    }

    #[test]
    fn unknown_values_keep_their_number() {
        assert_eq!(completion(|wc| wc.status = 77).status(), Err(WcStatus::Other(77)));
        assert_eq!(completion(|wc| wc.opcode = 6).opcode(), WcOpcode::Other(6));
        assert_eq!(completion(|wc| wc.opcode = IBV_WC_RECV).opcode(), WcOpcode::Recv);
        let text = completion(|wc| wc.status = IBV_WC_REM_ACCESS_ERR).status();
        let text = text.expect_err("not a success").to_string();
        assert_eq!(text, "the peer refused access to its memory");
    }

    #[test]
    fn a_failure_shows_nothing_that_is_undefined() {
        let failed = completion(|wc| {
            (wc.wr_id, wc.status, wc.byte_len) = (5, IBV_WC_WR_FLUSH_ERR, 4711);
        });
        let text = format!("{failed:?}");
        assert!(text.contains("id: 5") && text.contains("Flushed"), "{text}");
        assert!(!text.contains("4711"), "{text}");
    }
}

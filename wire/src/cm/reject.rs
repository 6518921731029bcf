//! The refusal of a message (REJ; IBTA vol. 1, 12.6.7).

use super::bytes::Body;

/// Bytes of private data.
const PRIVATE: usize = 148;
const PRIVATE_AT: usize = 84;
/// Bytes of a device's number.
const GUID_LEN: u8 = 8;

/// The refusal of a request or of a reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CmReject {
    /// The number of the connection at the sender of this message. 0: it has none.
    pub local_id: u32,
    /// The number of the connection at the receiver of this message. 0: it is not known.
    pub remote_id: u32,
    /// The kind of message that is refused.
    pub message: CmRejected,
    /// The reason.
    pub reason: CmRejectReason,
    /// The number of the sender's device, by which the receiver finds the connection if `remote_id`
    /// is 0.
    pub ca_guid: Option<u64>,
    /// Private data.
    pub private_data: [u8; PRIVATE],
}

/// The kind of message that is refused, or for which more time is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum CmRejected {
    /// A request.
    Request = 0,
    /// A reply.
    Reply = 1,
    /// Another message, or none.
    Other = 2,
}

impl CmRejected {
    /// The kind in the upper two bits of a byte.
    pub(super) const fn from_byte(byte: u8) -> Self {
        match byte >> 6 {
            0 => CmRejected::Request,
            1 => CmRejected::Reply,
            _ => CmRejected::Other,
        }
    }
}

/// The reason of a refusal (IBTA vol. 1, 12.6.7.2).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct CmRejectReason(pub u16);

impl CmRejectReason {
    /// The end has no room for another connection.
    pub const NO_RESOURCES: Self = Self(3);
    /// No answer came in time.
    pub const TIMEOUT: Self = Self(4);
    /// The message is malformed, or asks for something that is not supported.
    pub const UNSUPPORTED: Self = Self(5);
    /// Nobody listens at the service.
    pub const INVALID_SERVICE: Self = Self(8);
    /// The transport service is not served.
    pub const INVALID_TRANSPORT: Self = Self(9);
    /// The queue pair of the sender is taken for connected to an earlier one.
    pub const STALE_CONNECTION: Self = Self(10);
    /// The GIDs of the path are not those of the two ends.
    pub const INVALID_GID: Self = Self(12);
    /// The path MTU is not supported.
    pub const INVALID_MTU: Self = Self(26);
    /// The program has refused.
    pub const CONSUMER: Self = Self(28);
}

impl CmReject {
    /// Bytes of private data.
    pub const PRIVATE: usize = PRIVATE;

    pub(super) fn encode(&self, body: &mut Body) {
        body.set_word(0, self.local_id);
        body.set_word(4, self.remote_id);
        let info_len = if self.ca_guid.is_some() { GUID_LEN } else { 0 };
        body.set(8, &[(self.message as u8) << 6, info_len << 1]);
        body.set(10, &self.reason.0.to_be_bytes());
        body.set(12, &self.ca_guid.unwrap_or(0).to_be_bytes());
        body.set(PRIVATE_AT, &self.private_data);
    }

    pub(super) fn decode(body: &Body) -> Self {
        CmReject {
            local_id: body.word(0),
            remote_id: body.word(4),
            message: CmRejected::from_byte(body.byte(8)),
            reason: CmRejectReason(u16::from_be_bytes(body.get(10))),
            ca_guid: (body.byte(9) >> 1 == GUID_LEN).then(|| u64::from_be_bytes(body.get(12))),
            private_data: body.get(PRIVATE_AT),
        }
    }
}

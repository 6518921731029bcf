//! The purpose of the queue pairs of two ends, in messages.

use std::ffi::c_uint;

use braid_verbs::abi::{IBV_QPT_RC, IBV_QPT_UD};

/// Bytes of the purpose in a message: four that describe the sender's queue pair, one that is 0,
/// and the kind.
pub(super) const LEN: usize = 6;
const CONNECTION: u8 = 0;
const DATAGRAMS: u8 = 1;

/// The purpose, with the properties of the sender's queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Purpose {
    Connection(ConnectionLimits),
    /// The Q_Key that the queue pair accepts.
    Datagrams {
        q_key: u32,
    },
}

/// The limits of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ConnectionLimits {
    pub(super) responder_resources: u8,
    pub(super) initiator_depth: u8,
    /// Limit of the other end's retries after RNR NAKs of this end; 7: none.
    pub(super) rnr_retry_count: u8,
}

impl Purpose {
    pub(super) fn qp_type(&self) -> c_uint {
        match self {
            Purpose::Connection(_) => IBV_QPT_RC,
            Purpose::Datagrams { .. } => IBV_QPT_UD,
        }
    }

    pub(super) fn encode(&self) -> [u8; LEN] {
        match *self {
            Purpose::Connection(limits) => {
                let ConnectionLimits { responder_resources, initiator_depth, rnr_retry_count } =
                    limits;
                [responder_resources, initiator_depth, rnr_retry_count, 0, 0, CONNECTION]
            }
            Purpose::Datagrams { q_key } => {
                let [a, b, c, d] = q_key.to_be_bytes();
                [a, b, c, d, 0, DATAGRAMS]
            }
        }
    }

    /// Decodes a purpose. `None`: this version does not know it.
    pub(super) fn decode(bytes: [u8; LEN]) -> Option<Self> {
        let [a, b, c, d, 0, purpose] = bytes else { return None };
        match (purpose, d) {
            (CONNECTION, 0) => Some(Purpose::Connection(ConnectionLimits {
                responder_resources: a,
                initiator_depth: b,
                rnr_retry_count: c,
            })),
            (DATAGRAMS, _) => Some(Purpose::Datagrams { q_key: u32::from_be_bytes([a, b, c, d]) }),
            _ => None,
        }
    }
}

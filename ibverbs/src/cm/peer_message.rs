//! The part of an event that describes the other end (`rdma_get_cm_event(3)`).

use std::{mem, ptr};

use braid_verbs::abi::ibv_ah_attr;

use super::message::CmMessage;
use super::purpose::Purpose;
use super::structs::{rdma_cm_param, rdma_conn_param};

/// A message of the other end.
pub(super) struct PeerMessage {
    message: CmMessage,
    /// The attributes of an address handle for the other end, in answers for datagrams.
    ah_attr: Option<ibv_ah_attr>,
}

impl From<CmMessage> for PeerMessage {
    fn from(message: CmMessage) -> Self {
        PeerMessage { message, ah_attr: None }
    }
}

impl PeerMessage {
    /// The answer of the queue pair that takes datagrams.
    pub(super) fn by_destination(message: CmMessage, ah_attr: ibv_ah_attr) -> Self {
        PeerMessage { message, ah_attr: Some(ah_attr) }
    }

    /// Converts the message to the form of an event, with the private data to which it points.
    pub(super) fn into_param(self) -> (rdma_cm_param, Vec<u8>) {
        let (number, data) = (self.message.queue_pair.number, self.message.private_data);
        // SAFETY: both members of the union consist of numbers and pointers, so zero is valid.
        let mut param: rdma_cm_param = unsafe { mem::zeroed() };
        let (private_data, private_data_len) = match data.len() {
            0 => (ptr::null(), 0),
            len => (data.as_ptr().cast(), len as u8),
        };
        match self.message.purpose {
            Purpose::Connection(limits) => {
                param.conn = rdma_conn_param {
                    private_data,
                    private_data_len,
                    // The two limits change places, because the requests of one end need the
                    // resources of the other.
                    responder_resources: limits.initiator_depth,
                    initiator_depth: limits.responder_resources,
                    flow_control: 0,
                    retry_count: 7,
                    rnr_retry_count: limits.rnr_retry_count,
                    srq: 0,
                    qp_num: number,
                };
            }
            Purpose::Datagrams { q_key } => {
                // SAFETY: as above.
                let ud = unsafe { &mut param.ud };
                (ud.private_data, ud.private_data_len) = (private_data, private_data_len);
                if let Some(ah_attr) = self.ah_attr {
                    (ud.ah_attr, ud.qp_num, ud.qkey) = (ah_attr, number, q_key);
                }
            }
        }
        (param, data)
    }
}

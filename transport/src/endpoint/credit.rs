//! Credit: packets of the peer, and grants to it.
//!
//! The driver owns one [`braid_cc::CreditPacer`] for each link that receives, because the senders
//! that share a link belong to several endpoints. It passes the demands on and returns the grants.

use braid_cc::{CreditDemand, CreditGrant};
use braid_lb::Rails;
use braid_wire::{Credit, RailId, Stream, Time};

use super::members::Endpoint;
use crate::qp::CreditNews;
use crate::{QpSlot, Transmit};

impl Endpoint {
    /// Handles a credit packet. Returns the demand of a request, for the pacer of the packet's
    /// rail: the key is this queue pair with the stream and the rail.
    pub fn on_credit(&mut self, slot: QpSlot, credit: &Credit) -> Option<CreditDemand> {
        let news = self.qp_mut(slot).on_credit(credit)?;
        self.heard();
        match news {
            CreditNews::Granted => {
                self.settle(slot.0);
                None
            }
            CreditNews::Demand { demand, repeats } => {
                if repeats {
                    self.send_grant(slot, credit.stream, credit.rail);
                }
                Some(demand)
            }
        }
    }

    /// Handles a packet that a switch has trimmed to its header, of this length before: the peer
    /// needs credit to send it again. Returns the demand, as [`Endpoint::on_credit`] does.
    pub fn on_trimmed(
        &mut self,
        slot: QpSlot,
        stream: Stream,
        rail: RailId,
        bytes: u64,
    ) -> Option<CreditDemand> {
        self.qp_mut(slot).on_trimmed(stream, rail, bytes)
    }

    /// Grants up to `most` bytes of credit to the peer, whose turn it is. `None`: the queue pair
    /// does not receive any more, or has left.
    pub fn grant_credit(
        &mut self,
        slot: QpSlot,
        stream: Stream,
        rail: RailId,
        most: u64,
    ) -> Option<CreditGrant> {
        let member = self.members.get_mut(slot.0 as usize)?.as_mut()?;
        let (grant, is_new) = member.qp.grant_credit(stream, rail, most)?;
        if is_new {
            self.send_grant(slot, stream, rail);
        }
        Some(grant)
    }

    fn send_grant(&mut self, slot: QpSlot, stream: Stream, rail: RailId) {
        self.outputs.grants.push_back((slot.0, stream, rail));
        self.control_due = true;
    }

    /// Returns the next grant to send. A queue pair that has left sends none.
    pub(super) fn poll_grant(&mut self, now: Time, rails: &mut Rails) -> Option<Transmit> {
        while let Some((index, stream, rail)) = self.outputs.grants.pop_front() {
            let Some(member) = self.members[index as usize].as_mut() else { continue };
            if let Some((body, egress)) = member.qp.describe_grant(now, (stream, rail), rails) {
                let egress = self.path_mtu.permitted(egress);
                return Some(Transmit { slot: QpSlot(index), egress, body });
            }
        }
        None
    }
}

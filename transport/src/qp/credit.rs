//! Credit in both directions: requests for the peer's and the grants of this end.

use braid_cc::{CreditDemand, CreditGrant};
use braid_lb::Rails;
use braid_wire::{Credit, RailId, Stream, Time};

use super::connected::ConnectedQp;
use crate::stream::send::source::Source;
use crate::{Egress, TransmitBody};

/// The result of a credit packet of the peer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CreditNews {
    /// The peer's need has changed. `repeats`: the last grant is to be sent again.
    Demand { demand: CreditDemand, repeats: bool },
    /// The peer has granted credit.
    Granted,
}

impl ConnectedQp {
    /// Handles a credit packet. `None`: it is not the peer's, or the queue pair does not receive.
    pub(crate) fn on_credit(&mut self, credit: &Credit) -> Option<CreditNews> {
        if credit.token != self.qp.token || !self.qp.state.receives() {
            return None;
        }
        if let Some(need) = &credit.need {
            let grants = self.streams.grants.get_or_insert_default();
            let (demand, repeats) = grants.on_request(credit, need);
            return Some(CreditNews::Demand { demand, repeats });
        }
        let outgoing = self.streams.outgoing(credit.stream)?;
        outgoing.on_grant(credit.rail, credit.granted);
        Some(CreditNews::Granted)
    }

    /// See [`crate::Endpoint::on_trimmed`].
    pub(crate) fn on_trimmed(
        &mut self,
        stream: Stream,
        rail: RailId,
        bytes: u64,
    ) -> Option<CreditDemand> {
        let grants = self.streams.grants.as_deref_mut()?;
        Some(grants.on_trimmed(stream, rail, bytes))
    }

    /// Grants credit. Returns the grant, and whether a packet is to be sent for it.
    pub(crate) fn grant_credit(
        &mut self,
        stream: Stream,
        rail: RailId,
        most: u64,
    ) -> Option<(CreditGrant, bool)> {
        let grants = self.streams.grants.as_deref_mut().filter(|_| self.qp.state.receives())?;
        Some(grants.grant(stream, rail, most))
    }

    /// Returns the grant of a stream and rail, if one is to be sent, and its egress.
    pub(crate) fn describe_grant(
        &mut self,
        now: Time,
        (stream, rail): (Stream, RailId),
        rails: &mut Rails,
    ) -> Option<(TransmitBody, Egress)> {
        let granted = self.streams.grants.as_deref_mut()?.take(stream, rail)?;
        let (qp, token) = (self.streams.remote.qp, self.streams.remote.token);
        let credit = Credit { qp, token, stream, rail, granted, need: None };
        Some((TransmitBody::Credit(credit), Egress::Path(self.single_path(now, rails))))
    }

    pub(super) fn describe_credit_request(
        &mut self,
        now: Time,
        stream: Stream,
        rails: &mut Rails,
    ) -> Option<(TransmitBody, Egress)> {
        let mtu = self.streams.mtu();
        let (qp, token) = (self.streams.remote.qp, self.streams.remote.token);
        let streams = &mut *self.streams;
        let asked = match (stream, &mut streams.responses) {
            (Stream::Requests, _) => {
                let queue = &streams.requests.queue;
                let backlog = |most| queue.backlog(mtu, most);
                streams.requests.stream.request_credit(now, backlog)
            }
            (Stream::Responses, Some(responses)) => {
                let queue = &responses.queue;
                responses.stream.request_credit(now, |most| queue.backlog(mtu, most))
            }
            (Stream::Responses, None) => None,
        };
        let (rail, granted, need) = asked?;
        let credit = Credit { qp, token, stream, rail, granted, need: Some(need) };
        Some((TransmitBody::Credit(credit), Egress::Path(self.single_path(now, rails))))
    }
}

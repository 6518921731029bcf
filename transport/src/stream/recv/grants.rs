//! The credit that the receiving end of a connection grants to the peer, for each stream and rail.
//!
//! All numbers of bytes are totals since the connection began, so requests may be lost, late or
//! repeated.

use braid_cc::{CreditDemand, CreditGrant};
use braid_wire::{Credit, CreditNeed, MAX_RAILS, RailId, Stream};

/// The accounts of a connection whose peer has requested credit.
#[derive(Clone, Debug, Default)]
pub(crate) struct Grants {
    accounts: [[Account; MAX_RAILS]; 2],
}

/// The account of one stream on one rail.
#[derive(Clone, Copy, Default, Debug)]
struct Account {
    /// The largest numbers that the peer has stated.
    need: CreditNeed,
    granted: u64,
    /// Bytes that the peer may send, less those that are lost, as far as the pacer knows of them.
    charged: u64,
    /// Whether the account has a turn at the pacer.
    is_waiting: bool,
    /// Whether a grant is to be sent.
    is_due: bool,
}

impl Grants {
    fn account(&mut self, stream: Stream, rail: RailId) -> &mut Account {
        &mut self.accounts[stream as usize][rail.get()]
    }

    /// Handles a request. Returns the demand, and whether the last grant is to be sent again,
    /// because the peer does not know of it.
    pub(crate) fn on_request(
        &mut self,
        request: &Credit,
        need: &CreditNeed,
    ) -> (CreditDemand, bool) {
        let account = self.account(request.stream, request.rail);
        let known = &mut account.need;
        known.bits_per_second = need.bits_per_second;
        known.target = known.target.max(need.target);
        known.unsolicited = known.unsolicited.max(need.unsolicited);
        known.lost = known.lost.max(need.lost);
        let demand = account.demand();
        let repeats = !account.is_waiting && request.granted < account.granted;
        (demand, repeats && !std::mem::replace(&mut account.is_due, true))
    }

    /// Handles a trimmed packet with this length on the wire: the peer needs credit to send it
    /// again.
    pub(crate) fn on_trimmed(&mut self, stream: Stream, rail: RailId, bytes: u64) -> CreditDemand {
        let account = self.account(stream, rail);
        account.need.target = account.need.target.saturating_add(bytes);
        account.need.lost = account.need.lost.saturating_add(bytes);
        account.demand()
    }

    /// Grants up to `most` bytes to an account whose turn it is. Returns the grant, and whether a
    /// packet is to be sent for it.
    pub(crate) fn grant(&mut self, stream: Stream, rail: RailId, most: u64) -> (CreditGrant, bool) {
        let account = self.account(stream, rail);
        let bytes = account.backlog().min(most);
        account.granted = account.granted.saturating_add(bytes);
        account.charged = account.charged.saturating_add(bytes);
        account.is_waiting = account.backlog() > 0;
        let is_new = bytes > 0 && !std::mem::replace(&mut account.is_due, true);
        (CreditGrant { bytes, is_waiting: account.is_waiting }, is_new)
    }

    /// Returns the total of a grant that leaves now, if one is due.
    pub(crate) fn take(&mut self, stream: Stream, rail: RailId) -> Option<u64> {
        let account = self.account(stream, rail);
        std::mem::take(&mut account.is_due).then_some(account.granted)
    }
}

impl Account {
    fn allowed(&self) -> u64 {
        self.granted.saturating_add(self.need.unsolicited)
    }

    /// Bytes that the peer wants to send and may not.
    fn backlog(&self) -> u64 {
        self.need.target.saturating_sub(self.allowed())
    }

    /// Returns the demand after the peer's need has changed.
    fn demand(&mut self) -> CreditDemand {
        let sends = self.need.target.min(self.allowed());
        let before = std::mem::replace(&mut self.charged, sends.saturating_sub(self.need.lost));
        let charge = i64::try_from(i128::from(self.charged) - i128::from(before));
        let begins = !self.is_waiting && self.backlog() > 0;
        self.is_waiting |= begins;
        CreditDemand {
            bytes: charge.unwrap_or(i64::MAX),
            bits_per_second: self.need.bits_per_second,
            begins,
        }
    }
}

#[cfg(test)]
mod tests {
    use braid_wire::{QpId, Token};

    use super::*;

    const STREAM: Stream = Stream::Requests;
    const RAIL: RailId = RailId::FIRST;

    fn request(granted: u64, target: u64, lost: u64) -> (Credit, CreditNeed) {
        let need = CreditNeed { bits_per_second: 1_000_000, target, unsolicited: 100, lost };
        let (qp, token) = (QpId::new(2), Token(7));
        (Credit { qp, token, stream: STREAM, rail: RAIL, granted, need: Some(need) }, need)
    }

    fn ask(grants: &mut Grants, granted: u64, target: u64, lost: u64) -> (i64, bool, bool) {
        let (request, need) = request(granted, target, lost);
        let (demand, repeats) = grants.on_request(&request, &need);
        (demand.bytes, demand.begins, repeats)
    }

    #[test]
    fn what_is_sent_without_credit_is_charged_and_the_rest_granted() {
        let mut grants = Grants::default();
        assert_eq!(ask(&mut grants, 0, 60, 0), (60, false, false), "no credit is needed");
        assert_eq!(ask(&mut grants, 0, 150, 0), (40, true, false));
        assert_eq!(ask(&mut grants, 0, 130, 0), (0, false, false), "an old one");
        let (grant, is_new) = grants.grant(STREAM, RAIL, 30);
        assert_eq!((grant, is_new), (CreditGrant { bytes: 30, is_waiting: true }, true));
        let (grant, is_new) = grants.grant(STREAM, RAIL, 30);
        assert_eq!((grant, is_new), (CreditGrant { bytes: 20, is_waiting: false }, false));
        assert_eq!(grants.take(STREAM, RAIL), Some(50), "both in one packet");
        assert_eq!(grants.take(STREAM, RAIL), None);
        assert_eq!(grants.grant(STREAM, RAIL, 30).0.bytes, 0, "there is nothing left to grant");
    }

    #[test]
    fn a_grant_that_was_lost_is_sent_again_for_a_request_that_does_not_know_of_it() {
        let mut grants = Grants::default();
        ask(&mut grants, 0, 150, 0);
        grants.grant(STREAM, RAIL, 100);
        assert_eq!(grants.take(STREAM, RAIL), Some(50));
        assert_eq!(ask(&mut grants, 50, 150, 0), (0, false, false));
        assert_eq!(ask(&mut grants, 0, 150, 0), (0, false, true));
        assert_eq!(ask(&mut grants, 0, 150, 0), (0, false, false), "one packet is enough");
        assert_eq!(grants.take(STREAM, RAIL), Some(50));
    }

    #[test]
    fn lost_and_trimmed_bytes_are_charged_once() {
        let mut grants = Grants::default();
        ask(&mut grants, 0, 100, 0);
        let demand = grants.on_trimmed(STREAM, RAIL, 10);
        assert_eq!((demand.bytes, demand.begins), (-10, true), "it needs credit at once");
        // The sender's own report of the same packet changes nothing.
        assert_eq!(ask(&mut grants, 0, 110, 10), (0, false, false));
        assert_eq!(ask(&mut grants, 0, 115, 15), (-5, false, false));
        assert_eq!(grants.grant(STREAM, RAIL, 100).0.bytes, 15);
    }

    #[test]
    fn absurd_numbers_do_no_harm() {
        let mut grants = Grants::default();
        let (request, need) = request(u64::MAX, u64::MAX, u64::MAX);
        let need = CreditNeed { unsolicited: u64::MAX, ..need };
        grants.on_request(&request, &need);
        assert_eq!(grants.grant(STREAM, RAIL, u64::MAX).0.bytes, 0);
        grants.on_trimmed(STREAM, RAIL, u64::MAX);
        let mut grants = Grants::default();
        assert_eq!(ask(&mut grants, 0, u64::MAX, 0), (100, true, false));
        let (grant, _) = grants.grant(STREAM, RAIL, u64::MAX);
        assert_eq!((grant.bytes, grant.is_waiting), (u64::MAX - 100, false));
        assert_eq!(grants.grant(STREAM, RAIL, u64::MAX).0.bytes, 0);
    }
}

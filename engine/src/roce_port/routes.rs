//! The destinations of all processes of a port, and their inboxes. The process that reads the port
//! has them.

use std::collections::{BTreeMap, HashMap};
use std::os::fd::{AsFd, OwnedFd};

use super::claim::Claim;
use super::destination::Destination;
use super::inbox::forward;
use crate::link::Datagrams;

/// Destinations of a process, at most: all queue pairs of an engine, and as many services.
const MAX_CLAIMS: usize = 1 << 17;

/// A process of the port, as long as it is connected.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct MemberId(pub(super) u64);

/// The process that reads the port.
pub(super) const READER: MemberId = MemberId(0);

#[derive(Default)]
pub(super) struct PortRoutes {
    claims: HashMap<Claim, MemberId>,
    counts: BTreeMap<MemberId, usize>,
    inboxes: BTreeMap<MemberId, OwnedFd>,
    /// Datagrams without room in the inbox of their process.
    pub(super) overflowed: u64,
}

impl PortRoutes {
    /// Adds a process, by the sending end of its inbox.
    pub(super) fn add(&mut self, member: MemberId, inbox: OwnedFd) {
        self.inboxes.insert(member, inbox);
    }

    /// Removes a process and all that it has claimed.
    pub(super) fn remove(&mut self, member: MemberId) {
        self.inboxes.remove(&member);
        self.counts.remove(&member);
        self.claims.retain(|_, owner| *owner != member);
    }

    pub(super) fn has_inboxes(&self) -> bool {
        !self.inboxes.is_empty()
    }

    /// Gives destinations to a process, all or none. A service passes to the process that claims
    /// it last, because it stays claimed: late messages still concern connections made there.
    /// Returns false if another process has one of them, or this one has too many.
    pub(super) fn claim(&mut self, member: MemberId, claims: &[Claim]) -> bool {
        let is_free = |claim: &Claim| {
            let owner = self.claims.get(claim).filter(|owner| **owner != member);
            owner.is_none() || matches!(claim, Claim::Service(_))
        };
        let count = self.counts.get(&member).copied().unwrap_or(0);
        if count + claims.len() > MAX_CLAIMS || !claims.iter().all(is_free) {
            return false;
        }
        for claim in claims {
            let before = self.claims.insert(*claim, member);
            if before == Some(member) {
                continue;
            }
            *self.counts.entry(member).or_default() += 1;
            if let Some(count) = before.and_then(|before| self.counts.get_mut(&before)) {
                *count -= 1;
            }
        }
        true
    }

    /// Takes destinations from a process, as far as it has them.
    pub(super) fn release(&mut self, member: MemberId, claims: &[Claim]) {
        for claim in claims {
            if self.claims.get(claim) == Some(&member) {
                self.claims.remove(claim);
                if let Some(count) = self.counts.get_mut(&member) {
                    *count -= 1;
                }
            }
        }
    }

    /// Hands datagrams to their processes, those of the reader to `sink`.
    pub(super) fn deal(&mut self, all: Datagrams<'_>, sink: &mut dyn FnMut(Datagrams<'_>)) {
        let Datagrams { from, called, congestion, segment_len, bytes: mut rest } = all;
        let step = segment_len.max(1);
        loop {
            let route = self.route(&rest[..step.min(rest.len())]);
            let same = rest.chunks(step).take_while(|next| self.route(next) == route);
            let len = (same.count().max(1) * step).min(rest.len());
            let (bytes, later) = rest.split_at_mut(len);
            self.hand_on(&route, (from, congestion), segment_len, bytes);
            if route.contains(READER) {
                sink(Datagrams { from, called, congestion, segment_len, bytes });
            }
            if later.is_empty() {
                return;
            }
            rest = later;
        }
    }

    fn hand_on(
        &mut self,
        route: &MemberRoute,
        source: (std::net::SocketAddr, bool),
        segment_len: usize,
        bytes: &[u8],
    ) {
        for (member, inbox) in &self.inboxes {
            if route.contains(*member) && (*route != MemberRoute::All || self.has_gsi(*member)) {
                let sent = forward(inbox.as_fd(), source, segment_len, bytes);
                if sent.is_err() {
                    self.overflowed += bytes.len().div_ceil(segment_len.max(1)) as u64;
                }
            }
        }
    }

    fn route(&self, datagram: &[u8]) -> MemberRoute {
        match Destination::of(datagram) {
            Destination::Claimed(claim) => MemberRoute::To(self.owner(claim).unwrap_or(READER)),
            Destination::Request(service) => {
                MemberRoute::To(self.owner(service).or_else(|| self.any_gsi()).unwrap_or(READER))
            }
            Destination::All => MemberRoute::All,
            Destination::Reader => MemberRoute::To(READER),
        }
    }

    fn owner(&self, claim: Claim) -> Option<MemberId> {
        self.claims.get(&claim).copied()
    }

    /// The processes that have queue pair 1: those that have a tag.
    fn gsis(&self) -> impl Iterator<Item = MemberId> {
        (0..=u8::MAX).filter_map(|tag| self.owner(Claim::Tag(tag)))
    }

    fn any_gsi(&self) -> Option<MemberId> {
        self.gsis().min()
    }

    fn has_gsi(&self, member: MemberId) -> bool {
        self.gsis().any(|other| other == member)
    }
}

/// The processes of a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum MemberRoute {
    To(MemberId),
    All,
}

impl MemberRoute {
    fn contains(self, member: MemberId) -> bool {
        self == MemberRoute::All || self == MemberRoute::To(member)
    }
}

#[cfg(test)]
mod tests {
    use braid_wire::{QpId, RcHeader, RcOpcode, RcPosition};

    use super::super::inbox::Inbox;
    use super::*;

    const OTHER: MemberId = MemberId(7);
    const LEN: usize = 20;

    fn packet(qp: u32, salt: u8) -> Vec<u8> {
        let opcode = RcOpcode::send(RcPosition::of(true, true), false);
        let mut bytes = Vec::new();
        RcHeader::new(opcode, QpId::new(qp), 9).encode(LEN - 12, &mut bytes);
        bytes.resize(LEN, salt);
        bytes
    }

    fn deal(routes: &mut PortRoutes, datagrams: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let (mut bytes, mut own) = (datagrams.concat(), Vec::new());
        let from = "192.0.2.1:4791".parse().unwrap();
        let (called, congestion, segment_len) = (Default::default(), false, LEN);
        let all = Datagrams { from, called, congestion, segment_len, bytes: &mut bytes };
        routes.deal(all, &mut |got| own.extend(got.bytes.chunks(LEN).map(<[u8]>::to_vec)));
        own
    }

    fn taken(inbox: &mut Inbox) -> Vec<Vec<u8>> {
        let mut got = Vec::new();
        while inbox.recv(&mut |all| got.extend(all.bytes.chunks(LEN).map(<[u8]>::to_vec))).unwrap()
            > 0
        {}
        got
    }

    #[test]
    fn merged_datagrams_are_dealt_to_their_processes_in_order() {
        let mut inbox = Inbox::open().unwrap();
        let mut routes = PortRoutes::default();
        routes.add(OTHER, inbox.sender().unwrap());
        assert!(routes.claim(OTHER, &[Claim::Qp(5)]) && routes.claim(READER, &[Claim::Qp(6)]));
        let all: Vec<_> =
            [5, 5, 6, 5, 9, 6].into_iter().zip(0..).map(|(qp, salt)| packet(qp, salt)).collect();
        let own = [&all[2], &all[4], &all[5]].map(Clone::clone);
        assert_eq!(deal(&mut routes, &all), own, "a number that nobody has is the reader's");
        assert_eq!(taken(&mut inbox), [&all[0], &all[1], &all[3]].map(Clone::clone));
        routes.remove(OTHER);
        assert_eq!(deal(&mut routes, &all), all);
        assert!(!routes.has_inboxes());
    }

    #[test]
    fn a_number_has_one_process_and_a_service_the_last() {
        let mut routes = PortRoutes::default();
        let (qp, tag, service) = (Claim::Qp(5), Claim::Tag(1), Claim::Service(8));
        assert!(routes.claim(OTHER, &[qp, tag, service]));
        assert!(routes.claim(OTHER, &[qp]), "again");
        assert!(!routes.claim(READER, &[Claim::Qp(6), qp]) && !routes.claim(READER, &[tag]));
        assert_eq!(routes.owner(Claim::Qp(6)), None, "all or none");
        assert!(routes.claim(READER, &[service]));
        assert_eq!(routes.owner(service), Some(READER));
        routes.release(READER, &[qp]);
        assert_eq!(routes.owner(qp), Some(OTHER), "it belongs to the other process");
        routes.release(OTHER, &[qp, service]);
        assert_eq!((routes.owner(qp), routes.owner(service)), (None, Some(READER)));
        assert_eq!(routes.counts[&OTHER], 1);
        assert_eq!((routes.any_gsi(), routes.has_gsi(READER)), (Some(OTHER), false));
    }

    #[test]
    fn claims_of_a_process_are_limited() {
        let mut routes = PortRoutes::default();
        let services: Vec<Claim> = (0..MAX_CLAIMS as u64).map(Claim::Service).collect();
        assert!(routes.claim(OTHER, &services));
        assert!(!routes.claim(OTHER, &[Claim::Qp(5)]));
        routes.remove(OTHER);
        assert!(routes.claim(OTHER, &[Claim::Qp(5)]));
    }
}

//! Work requests that must fail, each in a way of its own.

use braid_transport::{PdId, RemoteAddr, SendOp, SgList, Status};
use rand::RngExt;

use super::memory::{AreaId, Use};
use super::plan::{Draft, Planner};
use super::settings::pick;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sabotage {
    /// A key that no region of the peer has.
    WrongKey,
    /// Memory that begins inside of a region and ends outside, or lies outside.
    OutOfBounds,
    /// Memory that was not registered for this.
    Permission,
    /// Memory of another protection domain.
    ForeignDomain,
    /// A SEND that is longer than the receive it meets.
    ShortBuffer,
    /// A SEND that meets a receive whose memory is not registered.
    BadReceive,
    /// A SEND for which no receive is ever posted.
    NotReady,
    /// A SEND or WRITE of local memory that is not registered.
    BadSource,
    /// A READ or atomic into local memory that is not registered.
    BadLanding,
    /// A READ of memory that the peer deregisters at some time.
    Withdrawn,
}

pub(crate) const BREACHES: [Sabotage; 4] =
    [Sabotage::WrongKey, Sabotage::OutOfBounds, Sabotage::Permission, Sabotage::ForeignDomain];

impl Sabotage {
    /// Status of the work request.
    pub(crate) fn status(self) -> Status {
        match self {
            Sabotage::ShortBuffer => Status::RemoteInvalidRequest,
            Sabotage::NotReady => Status::RnrRetryExceeded,
            Sabotage::BadReceive => Status::RemoteOperational,
            Sabotage::BadSource | Sabotage::BadLanding => Status::LocalProtection,
            _ => Status::RemoteAccess,
        }
    }

    /// The other way in which it may end, depending on when it strikes.
    pub(crate) fn other_status(self) -> Status {
        if self == Sabotage::Withdrawn { Status::RemoteOperational } else { self.status() }
    }

    /// Status of the receive that it would have consumed.
    pub(crate) fn recv_status(self) -> Status {
        match self {
            Sabotage::ShortBuffer => Status::LocalLength,
            Sabotage::BadReceive => Status::LocalProtection,
            _ => Status::Flushed,
        }
    }
}

/// The operation that a breach tries.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Attempt {
    Write,
    WriteImm,
    Read,
    Atomic,
}

pub(super) const NO_KEY: u32 = 0xFFFF_FF01;

impl Planner<'_> {
    pub(crate) fn sabotage(&mut self, draft: &mut Draft, sabotage: Sabotage) {
        self.struck = Some(draft.sends.len());
        let mtu = u64::from(self.settings.mtu);
        let len = self.rng.random_range(1..=3 * mtu);
        match sabotage {
            Sabotage::ShortBuffer | Sabotage::BadReceive | Sabotage::NotReady => {
                self.send_of(draft, len);
            }
            Sabotage::BadSource => {
                self.send_of(draft, len);
                let sges = &mut draft.sends.last_mut().expect("just pushed").wr.sges;
                sges.iter_mut().for_each(|sge| sge.lkey = NO_KEY);
            }
            Sabotage::BadLanding => self.bad_landing(draft, len),
            Sabotage::Withdrawn => self.read_from(draft, Use::Doomed, 5 * len),
            breach => self.breach(draft, breach, len),
        }
    }

    fn bad_landing(&mut self, draft: &mut Draft, len: u64) {
        let source = self.reserve(1 - draft.host, draft.pd, Use::Exposed, len, 1);
        let remote = self.remote(1 - draft.host, source, 0);
        let (areas, mut sges) = self.landing(draft, len);
        sges.iter_mut().for_each(|sge| sge.lkey = NO_KEY);
        self.add(draft, SendOp::Read { remote }, (areas, sges), len);
    }

    fn breach(&mut self, draft: &mut Draft, breach: Sabotage, len: u64) {
        let all = [Attempt::Write, Attempt::WriteImm, Attempt::Read, Attempt::Atomic];
        let attempt = pick(self.rng, &all);
        let len = if attempt == Attempt::Atomic { 8 } else { len };
        let remote = self.forbidden(draft, breach, attempt, len);
        let local = match attempt {
            Attempt::Write | Attempt::WriteImm => {
                let (areas, sges, _) = self.payload(draft, len);
                (areas, sges)
            }
            Attempt::Read => self.landing(draft, len),
            Attempt::Atomic => {
                let area = self.reserve(draft.host, draft.pd, Use::Landing, 8, 1);
                let sges = SgList::from_iter([self.memories[draft.host].sge(area)]);
                (vec![area], sges)
            }
        };
        let op = match attempt {
            Attempt::Write => SendOp::Write { remote, imm: None },
            Attempt::WriteImm => SendOp::Write { remote, imm: Some(7) },
            Attempt::Read => SendOp::Read { remote },
            Attempt::Atomic => SendOp::FetchAdd { remote, add: 1 },
        };
        self.add(draft, op, local, len);
    }

    fn forbidden(
        &mut self,
        draft: &Draft,
        breach: Sabotage,
        attempt: Attempt,
        len: u64,
    ) -> RemoteAddr {
        let peer = 1 - draft.host;
        let (allowed, denied) = match attempt {
            Attempt::Write | Attempt::WriteImm => (Use::Target, Use::Exposed),
            Attempt::Read => (Use::Exposed, Use::Counter),
            Attempt::Atomic => (Use::Counter, Use::Target),
        };
        let other_pd = PdId((draft.pd.0 + 1) % self.settings.domains);
        let area = match breach {
            Sabotage::Permission => self.reserve(peer, draft.pd, denied, len, 8),
            Sabotage::ForeignDomain => self.reserve(peer, other_pd, allowed, len, 8),
            _ => self.reserve(peer, draft.pd, allowed, len, 8),
        };
        let good = self.remote(peer, area, 0);
        match breach {
            Sabotage::WrongKey => RemoteAddr { rkey: NO_KEY, ..good },
            Sabotage::OutOfBounds => self.beyond(peer, area, good, len),
            _ => good,
        }
    }

    fn beyond(&mut self, peer: usize, area: AreaId, good: RemoteAddr, len: u64) -> RemoteAddr {
        let end = self.memories[peer].region_end(area);
        let addr = match self.rng.random_range(0..3) {
            // The last byte, or the last few, are outside.
            0 => end - len / 2,
            1 => end + 1000,
            _ => u64::MAX - 20,
        };
        RemoteAddr { addr: addr.next_multiple_of(8), ..good }
    }
}

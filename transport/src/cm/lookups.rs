//! Lookups of the queue pairs that take datagrams (service ID resolution, SIDR; IBTA vol. 1,
//! 12.11): those of this end, and those of peers.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

use braid_wire::{CmBody, CmLookup, CmLookupAnswer, CmLookupStatus, CmMad, Time};

use super::conversation::{CmEvent, CmEventKind, CmId, Repeated};

/// Repetitions of a lookup: the last one leaves after 20 s.
const TRIES: u8 = 8;
/// Lookups that the program has not answered, at most.
const UNANSWERED: usize = 128;
/// The time in which the program has to answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);
/// The time for which an answer is kept, to be repeated: longer than a lookup is.
const KEPT: Duration = Duration::from_secs(61);
/// Answers that are kept, at most.
const ANSWERS: usize = 1024;

/// A message to send, and the host that it goes to.
type Sent = (IpAddr, CmMad);

/// A lookup of this end.
struct Asking {
    peer: IpAddr,
    service: u64,
    repeated: Repeated,
}

/// A lookup of a peer.
struct Asked {
    peer: IpAddr,
    transaction: u64,
    lookup: Box<CmLookup>,
    /// `None`: the program has not answered.
    answer: Option<Box<CmMad>>,
    expires: Time,
}

/// The lookups of a port.
#[derive(Default)]
pub(super) struct Lookups {
    asking: BTreeMap<CmId, Asking>,
    asked: BTreeMap<CmId, Asked>,
    /// The lookups of peers, by their hosts and numbers.
    numbers: HashMap<(IpAddr, u32), CmId>,
    /// The answered lookups of peers, oldest first.
    answered: VecDeque<CmId>,
}

impl Lookups {
    pub(super) fn contains(&self, id: CmId) -> bool {
        self.asking.contains_key(&id) || self.asked.contains_key(&id)
    }

    pub(super) fn ids(&self) -> Vec<CmId> {
        self.asking.keys().chain(self.asked.keys()).copied().collect()
    }

    /// Begins a lookup. Returns its message.
    pub(super) fn begin(
        &mut self,
        now: Time,
        (id, peer): (CmId, IpAddr),
        transaction: u64,
        lookup: CmLookup,
    ) -> Sent {
        let service = lookup.service;
        let mad = CmMad { transaction, body: CmBody::Lookup(lookup) };
        let repeated = Repeated::new(now, mad, TRIES);
        self.asking.insert(id, Asking { peer, service, repeated });
        (peer, mad)
    }

    /// Takes the answer of a peer.
    pub(super) fn on_answer(&mut self, from: IpAddr, answer: &CmLookupAnswer) -> Option<CmEvent> {
        let id = CmId(answer.request_id);
        let asking = self.asking.get(&id)?;
        if asking.peer != from || asking.service != answer.service {
            return None;
        }
        self.asking.remove(&id);
        Some(CmEvent { id, peer: from, kind: CmEventKind::Found(Box::new(*answer)) })
    }

    /// The answer to a repeated lookup of a peer. `None`: it is a new one. `Some(None)`: the
    /// program has not answered yet.
    pub(super) fn repeated(&self, from: IpAddr, lookup: &CmLookup) -> Option<Option<Sent>> {
        let asked = self.asked.get(self.numbers.get(&(from, lookup.request_id))?)?;
        Some(asked.answer.as_ref().map(|mad| (from, **mad)))
    }

    /// Takes a new lookup of a peer. `None`: too many wait for an answer.
    pub(super) fn take(
        &mut self,
        now: Time,
        (id, peer): (CmId, IpAddr),
        transaction: u64,
        lookup: &CmLookup,
    ) -> Option<CmEvent> {
        if self.asked.len() - self.answered.len() >= UNANSWERED {
            return None;
        }
        let (lookup, expires) = (Box::new(*lookup), now + ANSWER_LIMIT);
        self.numbers.insert((peer, lookup.request_id), id);
        let kind = CmEventKind::LookedUp(lookup.clone());
        self.asked.insert(id, Asked { peer, transaction, lookup, answer: None, expires });
        Some(CmEvent { id, peer, kind })
    }

    /// Answers a lookup of a peer. `None`: it was answered, or is unknown. The numbers of the
    /// request are filled in.
    pub(super) fn answer(
        &mut self,
        now: Time,
        id: CmId,
        mut answer: CmLookupAnswer,
    ) -> Option<Sent> {
        let asked = self.asked.get_mut(&id).filter(|asked| asked.answer.is_none())?;
        (answer.request_id, answer.service) = (asked.lookup.request_id, asked.lookup.service);
        let mad = CmMad { transaction: asked.transaction, body: CmBody::LookupAnswer(answer) };
        (asked.answer, asked.expires) = (Some(Box::new(mad)), now + KEPT);
        let peer = asked.peer;
        self.answered.push_back(id);
        if self.answered.len() > ANSWERS
            && let Some(oldest) = self.answered.pop_front()
        {
            self.remove(oldest);
        }
        Some((peer, mad))
    }

    /// Answers a lookup of a peer without a queue pair. `None`: it was answered, or is none.
    pub(super) fn refuse(&mut self, now: Time, id: CmId, private_data: &[u8]) -> Option<Sent> {
        let lookup = &self.asked.get(&id)?.lookup;
        let mut refusal = CmLookupAnswer::negative(lookup, CmLookupStatus::REJECTED);
        let len = private_data.len().min(CmLookupAnswer::PRIVATE);
        refusal.private_data[..len].copy_from_slice(&private_data[..len]);
        self.answer(now, id, refusal)
    }

    /// Forgets a lookup, whatever its state. Returns the refusal of a peer's.
    pub(super) fn forget(&mut self, now: Time, id: CmId) -> Option<Sent> {
        self.asking.remove(&id);
        self.refuse(now, id, &[])
    }

    pub(super) fn next_timeout(&self) -> Option<Time> {
        let asking = self.asking.values().map(|asking| asking.repeated.next);
        asking.chain(self.asked.values().map(|asked| asked.expires)).min()
    }

    /// Repeats lookups, and gives up those that stay without an answer.
    pub(super) fn on_timeout(
        &mut self,
        now: Time,
        output: &mut VecDeque<Sent>,
        events: &mut VecDeque<CmEvent>,
    ) {
        self.asking.retain(|id, asking| {
            if asking.repeated.next > now {
                return true;
            }
            let again = asking.repeated.again(now);
            output.extend(again.map(|mad| (asking.peer, *mad)));
            if again.is_none() {
                let kind = CmEventKind::Unreachable;
                events.push_back(CmEvent { id: *id, peer: asking.peer, kind });
            }
            again.is_some()
        });
        let due: Vec<CmId> = self
            .asked
            .iter()
            .filter(|(_, asked)| asked.expires <= now)
            .map(|(id, _)| *id)
            .collect();
        for id in due {
            // The program is told that the peer does not wait any longer.
            if let Some(asked) = self.asked.get(&id).filter(|asked| asked.answer.is_none()) {
                let kind = CmEventKind::Unreachable;
                events.push_back(CmEvent { id, peer: asked.peer, kind });
            }
            self.answered.retain(|answered| *answered != id);
            self.remove(id);
        }
    }

    fn remove(&mut self, id: CmId) {
        if let Some(gone) = self.asked.remove(&id) {
            self.numbers.remove(&(gone.peer, gone.lookup.request_id));
        }
    }
}

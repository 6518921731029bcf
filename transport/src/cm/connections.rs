//! All connections of a port.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::hash::Hasher;
use std::net::IpAddr;
use std::time::Duration;

use braid_wire::{
    CmAck, CmBody, CmDisconnect, CmLookup, CmLookupAnswer, CmLookupStatus, CmMad, CmPrivate,
    CmReject, CmRejectReason, CmRejected, CmReply, CmRequest, CmTimeouts, IpCmHeader, MAD_LEN,
    Time,
};
use siphasher::sip::SipHasher24;

use super::conversation::{CmEvent, CmEventKind, CmId, CmState, Conversation};
use super::lookups::Lookups;

/// Repetitions of a request or reply: the last one leaves after 20 s.
const TRIES: u8 = 8;
/// Repetitions of a DREQ: the connection is given up after 4 s.
const LAST_TRIES: u8 = 3;
/// Requests that are not established, at most.
const HALF_OPEN: usize = 128;
/// The time in which the program has to answer a request, and to connect its queue pair after a
/// reply.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);
/// The time for which an ended connection answers late messages: longer than a request is repeated.
const TIME_WAIT: Duration = Duration::from_secs(61);
/// Connections that have ended and still answer, at most.
const ENDED: usize = 1024;
/// The code of the time for which a repeated request is put off: 17 s.
const SERVICE_TIMEOUT: u8 = 22;
/// The transport service RC.
const RC: u8 = 0;

/// The connections of a port that were made by CM messages, see the module's documentation.
pub struct CmManager {
    /// The key and the count of random numbers, which peers must not guess.
    key: [u8; 16],
    count: u64,
    ca_guid: u64,
    /// The high 8 bits of the numbers of connections.
    tag: u8,
    services: BTreeSet<u64>,
    conversations: BTreeMap<CmId, Conversation>,
    /// The connections that peers have asked for, by their hosts and numbers.
    asked: HashMap<(IpAddr, u32), CmId>,
    /// Connections in [`CmState::TimeWait`], oldest first.
    ended: VecDeque<CmId>,
    lookups: Lookups,
    output: VecDeque<(IpAddr, CmMad)>,
    events: VecDeque<CmEvent>,
}

impl CmManager {
    /// A manager without connections. `key`: random bytes, unknown to peers. `ca_guid`: the number
    /// of the device. `tag`: the high 8 bits of the numbers of its connections. Managers that share
    /// a port have different ones.
    pub fn new(key: [u8; 16], ca_guid: u64, tag: u8) -> Self {
        CmManager {
            key,
            count: 0,
            ca_guid,
            tag,
            services: BTreeSet::new(),
            conversations: BTreeMap::new(),
            asked: HashMap::new(),
            ended: VecDeque::new(),
            lookups: Lookups::default(),
            output: VecDeque::new(),
            events: VecDeque::new(),
        }
    }

    /// Takes requests for a service from now on. Returns false if it did before.
    pub fn listen(&mut self, service: u64) -> bool {
        self.services.insert(service)
    }

    /// Takes no more requests for a service.
    pub fn stop_listening(&mut self, service: u64) {
        self.services.remove(&service);
    }

    /// Asks for a connection to a host. The manager fills in its own numbers.
    pub fn connect(&mut self, now: Time, peer: IpAddr, mut request: CmRequest) -> CmId {
        let (id, transaction) = (self.new_id(), self.random());
        (request.local_id, request.ca_guid) = (id.0, self.ca_guid);
        let mut conversation = Conversation::new(peer, CmState::ReqSent, transaction);
        conversation.own_qp = request.queue_pair.number;
        let mad = conversation.begin(now, CmBody::Request(request), TRIES);
        self.conversations.insert(id, conversation);
        self.output.push_back((peer, mad));
        id
    }

    /// Looks up the queue pair that takes datagrams at a host. The manager fills in the number.
    /// [`CmEventKind::Found`] or `Unreachable` follows.
    pub fn look_up(&mut self, now: Time, peer: IpAddr, mut lookup: CmLookup) -> CmId {
        let (id, transaction) = (self.new_id(), self.random());
        lookup.request_id = id.0;
        let sent = self.lookups.begin(now, (id, peer), transaction, lookup);
        self.output.push_back(sent);
        id
    }

    /// Answers a lookup of a peer. The manager fills in its numbers. Returns false if nobody waits
    /// any more.
    pub fn answer(&mut self, now: Time, id: CmId, answer: CmLookupAnswer) -> bool {
        let sent = self.lookups.answer(now, id, answer);
        self.output.extend(sent);
        sent.is_some()
    }

    /// Accepts a request, once the queue pair is connected. Returns false if nobody asks any more.
    pub fn accept(&mut self, now: Time, id: CmId, mut reply: CmReply) -> bool {
        let ca_guid = self.ca_guid;
        let Some(conversation) = self.in_state(id, CmState::ReqReceived) else { return false };
        (reply.local_id, reply.remote_id) = (id.0, conversation.remote_id);
        reply.ca_guid = ca_guid;
        conversation.own_qp = reply.queue_pair.number;
        conversation.state = CmState::RepSent;
        let mad = conversation.begin(now, CmBody::Reply(reply), TRIES);
        let peer = conversation.peer;
        self.output.push_back((peer, mad));
        true
    }

    /// Tells the other end that the queue pair is connected, after [`CmEventKind::Replied`].
    /// Returns false if the other end is gone.
    pub fn ready(&mut self, id: CmId) -> bool {
        let Some(conversation) = self.in_state(id, CmState::RepReceived) else { return false };
        conversation.rest(CmState::Established, None);
        self.send_ready(id);
        true
    }

    /// Refuses a request, a reply or a lookup with private data of at most [`CmReject::PRIVATE`]
    /// bytes, or [`CmLookupAnswer::PRIVATE`]. Lookups have no reason. Returns false if nothing is
    /// to be answered.
    pub fn reject(
        &mut self,
        now: Time,
        id: CmId,
        reason: CmRejectReason,
        private_data: &[u8],
    ) -> bool {
        let Some(conversation) = self.conversations.get(&id) else {
            let refusal = self.lookups.refuse(now, id, private_data);
            self.output.extend(refusal);
            return refusal.is_some();
        };
        let refused = match conversation.state {
            CmState::ReqReceived => CmRejected::Request,
            CmState::RepReceived => CmRejected::Reply,
            _ => return false,
        };
        self.send_reject(id, refused, reason, private_data);
        self.end(now, id);
        true
    }

    /// Ends a connection. [`CmEventKind::Disconnected`] follows. Returns false if there is none.
    pub fn disconnect(&mut self, now: Time, id: CmId) -> bool {
        let transaction = self.random();
        let Some(conversation) = self.conversations.get_mut(&id) else { return false };
        // The connecting end may be ready without having been heard.
        if !matches!(conversation.state, CmState::Established | CmState::RepSent) {
            return false;
        }
        conversation.state = CmState::DreqSent;
        let (remote_id, remote_qp) = (conversation.remote_id, conversation.remote_qp);
        let body = CmBody::Disconnect(CmDisconnect { local_id: id.0, remote_id, remote_qp });
        let mad = conversation.repeat(now, CmMad { transaction, body }, LAST_TRIES);
        let peer = conversation.peer;
        self.output.push_back((peer, mad));
        true
    }

    /// Forgets a connection, whatever its state. The other end is told; no events follow.
    pub fn forget(&mut self, now: Time, id: CmId) {
        self.output.extend(self.lookups.forget(now, id));
        let Some(conversation) = self.conversations.get_mut(&id) else { return };
        conversation.is_forgotten = true;
        match conversation.state {
            CmState::ReqSent => {
                self.send_reject(id, CmRejected::Other, CmRejectReason::TIMEOUT, &[]);
                self.end(now, id);
            }
            CmState::ReqReceived | CmState::RepReceived => {
                self.reject(now, id, CmRejectReason::CONSUMER, &[]);
            }
            CmState::RepSent | CmState::Established => _ = self.disconnect(now, id),
            CmState::DreqSent | CmState::TimeWait => {}
        }
    }

    /// Ends all connections, as far as messages that nobody repeats do so.
    pub fn abandon(&mut self, now: Time) {
        let all: Vec<CmId> = self.conversations.keys().copied().collect();
        all.into_iter().chain(self.lookups.ids()).for_each(|id| self.forget(now, id));
    }

    /// The next message to send, and the host that it goes to.
    pub fn poll_transmit(&mut self) -> Option<(IpAddr, [u8; MAD_LEN])> {
        self.output.pop_front().map(|(to, mad)| (to, mad.encode()))
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<CmEvent> {
        self.events.pop_front()
    }

    /// The next time at which [`CmManager::on_timeout`] has something to do.
    pub fn next_timeout(&self) -> Option<Time> {
        let conversations = self.conversations.values().filter_map(Conversation::next_timeout);
        conversations.chain(self.lookups.next_timeout()).min()
    }

    /// Repeats messages, and gives up those that stay without an answer.
    pub fn on_timeout(&mut self, now: Time) {
        let is_due = |conversation: &Conversation| {
            conversation.next_timeout().is_some_and(|timeout| timeout <= now)
        };
        let due: Vec<CmId> =
            self.conversations.iter().filter(|(_, c)| is_due(c)).map(|(id, _)| *id).collect();
        due.into_iter().for_each(|id| self.on_timeout_of(now, id));
        self.lookups.on_timeout(now, &mut self.output, &mut self.events);
    }

    fn on_timeout_of(&mut self, now: Time, id: CmId) {
        let Some(conversation) = self.conversations.get_mut(&id) else { return };
        if let Some(mad) = conversation.repeated.as_mut().and_then(|repeated| repeated.again(now)) {
            self.output.push_back((conversation.peer, *mad));
            return;
        }
        match conversation.state {
            CmState::TimeWait => return self.remove(id),
            CmState::DreqSent => self.report(id, CmEventKind::Disconnected),
            CmState::Established => return,
            state => {
                let refused = match state {
                    CmState::ReqReceived => CmRejected::Request,
                    CmState::RepReceived => CmRejected::Reply,
                    _ => CmRejected::Other,
                };
                self.send_reject(id, refused, CmRejectReason::TIMEOUT, &[]);
                self.report(id, CmEventKind::Unreachable);
            }
        }
        self.end(now, id);
    }

    /// Takes a MAD that has come to queue pair 1 from that of a host. Returns false if it is
    /// malformed.
    pub fn on_mad(&mut self, now: Time, from: IpAddr, bytes: &[u8]) -> bool {
        let Ok(CmMad { transaction, body }) = CmMad::decode(bytes) else { return false };
        match body {
            CmBody::Request(request) => self.on_request(now, from, transaction, &request),
            CmBody::Wait(wait) => self.on_wait(now, from, &wait),
            CmBody::Reject(reject) => self.on_reject(now, from, &reject),
            CmBody::Reply(reply) => self.on_reply(now, from, &reply),
            CmBody::Ready(ready) => self.on_ready(from, &ready),
            CmBody::Disconnect(end) => self.on_disconnect(now, from, transaction, &end),
            CmBody::Lookup(lookup) => self.on_lookup(now, from, transaction, &lookup),
            CmBody::LookupAnswer(answer) => {
                self.events.extend(self.lookups.on_answer(from, &answer));
            }
            CmBody::Disconnected(end) => {
                if self.known(from, (end.remote_id, end.local_id))
                    && self.in_state(CmId(end.remote_id), CmState::DreqSent).is_some()
                {
                    self.report(CmId(end.remote_id), CmEventKind::Disconnected);
                    self.end(now, CmId(end.remote_id));
                }
            }
        }
        true
    }

    fn on_lookup(&mut self, now: Time, from: IpAddr, transaction: u64, lookup: &CmLookup) {
        if let Some(answer) = self.lookups.repeated(from, lookup) {
            return self.output.extend(answer);
        }
        let is_served = IpCmHeader::datagram_port(lookup.service).is_some()
            && self.services.contains(&lookup.service)
            && IpCmHeader::decode(&lookup.private_data).is_some();
        let id = self.new_id();
        let taken = is_served.then(|| self.lookups.take(now, (id, from), transaction, lookup));
        let status = match taken {
            Some(Some(event)) => return self.events.push_back(event),
            Some(None) => CmLookupStatus::NO_QP,
            None => CmLookupStatus::UNSUPPORTED,
        };
        let body = CmBody::LookupAnswer(CmLookupAnswer::negative(lookup, status));
        self.output.push_back((from, CmMad { transaction, body }));
    }

    fn on_request(&mut self, now: Time, from: IpAddr, transaction: u64, request: &CmRequest) {
        if let Some(id) = self.asked.get(&(from, request.local_id)).copied() {
            return self.on_repeated_request(id, transaction);
        }
        if let Err(reason) = self.check(from, request) {
            let reject = CmReject {
                local_id: 0,
                remote_id: request.local_id,
                message: CmRejected::Request,
                reason,
                ca_guid: None,
                private_data: [0; CmReject::PRIVATE],
            };
            let mad = CmMad { transaction, body: CmBody::Reject(reject) };
            return self.output.push_back((from, mad));
        }
        let id = self.new_id();
        let mut conversation = Conversation::new(from, CmState::ReqReceived, transaction);
        conversation.expires = Some(now + ANSWER_LIMIT);
        conversation.remote_id = request.local_id;
        conversation.remote_qp = request.queue_pair.number;
        self.conversations.insert(id, conversation);
        self.asked.insert((from, request.local_id), id);
        self.report(id, CmEventKind::Requested(Box::new(*request)));
    }

    /// The reason against a request.
    fn check(&self, from: IpAddr, request: &CmRequest) -> Result<(), CmRejectReason> {
        let is_open = |is_right, reason| if is_right { Ok(()) } else { Err(reason) };
        is_open(request.transport == RC, CmRejectReason::INVALID_TRANSPORT)?;
        let is_served =
            IpCmHeader::port(request.service).is_some() && self.services.contains(&request.service);
        is_open(is_served, CmRejectReason::INVALID_SERVICE)?;
        // Data goes to the host that asks, and to no other.
        let gid = IpAddr::V6(request.path.local).to_canonical();
        is_open(gid == from, CmRejectReason::INVALID_GID)?;
        is_open((1..=5).contains(&request.path.mtu), CmRejectReason::INVALID_MTU)?;
        let has_addresses = IpCmHeader::decode(&request.private_data).is_some();
        is_open(has_addresses, CmRejectReason::UNSUPPORTED)?;
        let half_open = self
            .asked
            .values()
            .filter(|id| self.conversations.get(id).is_some_and(Conversation::is_half_open));
        is_open(half_open.count() < HALF_OPEN, CmRejectReason::NO_RESOURCES)
    }

    fn on_repeated_request(&mut self, id: CmId, transaction: u64) {
        let Some(conversation) = self.conversations.get(&id) else { return };
        let mad = match conversation.state {
            CmState::ReqReceived => CmMad {
                transaction,
                body: CmBody::Wait(CmAck {
                    local_id: id.0,
                    remote_id: conversation.remote_id,
                    message: CmRejected::Request,
                    service_timeout: SERVICE_TIMEOUT,
                }),
            },
            CmState::RepSent => match &conversation.repeated {
                Some(repeated) => *repeated.mad(),
                None => return,
            },
            _ => match &conversation.refusal {
                Some(refusal) => **refusal,
                None => return,
            },
        };
        self.output.push_back((conversation.peer, mad));
    }

    fn on_wait(&mut self, now: Time, from: IpAddr, wait: &CmAck) {
        let Some(conversation) = self.conversations.get_mut(&CmId(wait.remote_id)) else { return };
        let is_meant = match (conversation.state, wait.message) {
            (CmState::ReqSent, CmRejected::Request) => true,
            (CmState::RepSent, CmRejected::Reply) => conversation.remote_id == wait.local_id,
            _ => false,
        };
        if is_meant
            && conversation.peer == from
            && let Some(repeated) = &mut conversation.repeated
        {
            repeated.put_off(now, CmTimeouts::time(wait.service_timeout));
        }
    }

    fn on_reject(&mut self, now: Time, from: IpAddr, reject: &CmReject) {
        // An end that has never heard the number of this one names its own alone.
        let id = match reject.remote_id {
            0 => self.asked.get(&(from, reject.local_id)).copied(),
            id => Some(CmId(id)),
        };
        let Some((id, conversation)) = id.and_then(|id| Some((id, self.conversations.get(&id)?)))
        else {
            return;
        };
        let is_meant = match conversation.state {
            CmState::ReqSent => true,
            CmState::ReqReceived | CmState::RepSent | CmState::RepReceived => {
                conversation.remote_id == reject.local_id
            }
            // The other end has not heard that this one is ready, and has given up.
            CmState::Established => {
                conversation.remote_id == reject.local_id
                    && reject.reason == CmRejectReason::TIMEOUT
            }
            _ => false,
        };
        if is_meant && conversation.peer == from {
            let kind = match conversation.state {
                CmState::Established => CmEventKind::Disconnected,
                _ => CmEventKind::Rejected(reject.reason, Box::from(reject.private_data)),
            };
            self.report(id, kind);
            self.end(now, id);
        }
    }

    fn on_reply(&mut self, now: Time, from: IpAddr, reply: &CmReply) {
        let id = CmId(reply.remote_id);
        let Some(conversation) = self.conversations.get_mut(&id) else { return };
        if conversation.peer != from || reply.local_id == 0 {
            return;
        }
        match conversation.state {
            CmState::ReqSent => {
                conversation.rest(CmState::RepReceived, Some(now + ANSWER_LIMIT));
                conversation.remote_id = reply.local_id;
                conversation.remote_qp = reply.queue_pair.number;
                self.report(id, CmEventKind::Replied(Box::new(*reply)));
            }
            // The message that this end is ready was lost.
            CmState::Established if conversation.remote_id == reply.local_id => self.send_ready(id),
            _ => {}
        }
    }

    fn on_ready(&mut self, from: IpAddr, ready: &CmPrivate) {
        let id = CmId(ready.remote_id);
        if self.known(from, (ready.remote_id, ready.local_id))
            && let Some(conversation) = self.in_state(id, CmState::RepSent)
        {
            conversation.rest(CmState::Established, None);
            self.report(id, CmEventKind::Established);
        }
    }

    fn on_disconnect(&mut self, now: Time, from: IpAddr, transaction: u64, end: &CmDisconnect) {
        let id = CmId(end.remote_id);
        let answer = CmPrivate { local_id: end.remote_id, remote_id: end.local_id };
        let answer = CmMad { transaction, body: CmBody::Disconnected(answer) };
        let Some(conversation) = self.conversations.get(&id) else {
            // This end has forgotten the connection, and the other end need not know it longer.
            return self.output.push_back((from, answer));
        };
        let is_meant = conversation.peer == from
            && conversation.remote_id == end.local_id
            && conversation.own_qp == end.remote_qp;
        let state = conversation.state;
        if !is_meant || matches!(state, CmState::ReqSent | CmState::ReqReceived) {
            return;
        }
        self.output.push_back((from, answer));
        if state != CmState::TimeWait {
            self.report(id, CmEventKind::Disconnected);
            self.end(now, id);
        }
    }

    /// Whether a message with the numbers of both ends comes from the other end of a connection.
    fn known(&self, from: IpAddr, (own, remote): (u32, u32)) -> bool {
        let conversation = self.conversations.get(&CmId(own));
        conversation.is_some_and(|known| known.peer == from && known.remote_id == remote)
    }

    fn in_state(&mut self, id: CmId, state: CmState) -> Option<&mut Conversation> {
        self.conversations.get_mut(&id).filter(|conversation| conversation.state == state)
    }

    fn send_ready(&mut self, id: CmId) {
        let Some(conversation) = self.conversations.get(&id) else { return };
        let ready = CmPrivate { local_id: id.0, remote_id: conversation.remote_id };
        let mad = CmMad { transaction: conversation.transaction, body: CmBody::Ready(ready) };
        self.output.push_back((conversation.peer, mad));
    }

    fn send_reject(
        &mut self,
        id: CmId,
        message: CmRejected,
        reason: CmRejectReason,
        private_data: &[u8],
    ) {
        let Some(conversation) = self.conversations.get_mut(&id) else { return };
        let mut data = [0; CmReject::PRIVATE];
        let len = private_data.len().min(data.len());
        data[..len].copy_from_slice(&private_data[..len]);
        let reject = CmReject {
            local_id: id.0,
            remote_id: conversation.remote_id,
            message,
            reason,
            ca_guid: (reason == CmRejectReason::TIMEOUT).then_some(self.ca_guid),
            private_data: data,
        };
        let mad = CmMad { transaction: conversation.transaction, body: CmBody::Reject(reject) };
        conversation.refusal = Some(Box::new(mad));
        self.output.push_back((conversation.peer, mad));
    }

    fn report(&mut self, id: CmId, kind: CmEventKind) {
        let Some(conversation) = self.conversations.get(&id) else { return };
        if !conversation.is_forgotten {
            self.events.push_back(CmEvent { id, peer: conversation.peer, kind });
        }
    }

    /// A connection is over.
    fn end(&mut self, now: Time, id: CmId) {
        let Some(conversation) = self.conversations.get_mut(&id) else { return };
        conversation.rest(CmState::TimeWait, Some(now + TIME_WAIT));
        self.ended.push_back(id);
        if self.ended.len() > ENDED
            && let Some(oldest) = self.ended.pop_front()
        {
            self.remove(oldest);
        }
    }

    fn remove(&mut self, id: CmId) {
        if let Some(gone) = self.conversations.remove(&id)
            && self.asked.get(&(gone.peer, gone.remote_id)) == Some(&id)
        {
            self.asked.remove(&(gone.peer, gone.remote_id));
        }
        self.ended.retain(|ended| *ended != id);
    }

    /// A number that no connection has.
    fn new_id(&mut self) -> CmId {
        loop {
            let id = CmId(u32::from(self.tag) << 24 | self.random() as u32 & 0xFF_FFFF);
            let is_known = self.conversations.contains_key(&id) || self.lookups.contains(id);
            if id.0 != 0 && !is_known {
                return id;
            }
        }
    }

    /// A number that peers cannot guess (SipHash of a counter).
    fn random(&mut self) -> u64 {
        self.count += 1;
        let mut hasher = SipHasher24::new_with_key(&self.key);
        hasher.write_u64(self.count);
        hasher.finish()
    }
}

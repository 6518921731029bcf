//! The state of one connection, and the message that it repeats.

use std::net::IpAddr;
use std::time::Duration;

use braid_wire::{
    CmBody, CmLookup, CmLookupAnswer, CmMad, CmRejectReason, CmReply, CmRequest, QpId, Time,
};

/// The first pause before a message is repeated. Each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(4);
/// The longest time for which the other end may put an answer off, from the first message on.
const PATIENCE: Duration = Duration::from_secs(60);

/// The number of a connection at this end.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct CmId(pub(super) u32);

/// Something that has happened to a connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CmEvent {
    /// The connection.
    pub id: CmId,
    /// The host of the other end.
    pub peer: IpAddr,
    /// The kind of event.
    pub kind: CmEventKind,
}

/// The kind of an event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CmEventKind {
    /// A peer asks for a connection, which [`super::CmManager::accept`] or `reject` answers.
    Requested(Box<CmRequest>),
    /// The peer has accepted. Once its queue pair is connected, this end calls
    /// [`super::CmManager::ready`].
    Replied(Box<CmReply>),
    /// The connecting end is ready.
    Established,
    /// The peer refuses the connection. The private data has a fixed length.
    Rejected(CmRejectReason, Box<[u8]>),
    /// A peer looks up the queue pair of a service, which [`super::CmManager::answer`] names.
    LookedUp(Box<CmLookup>),
    /// The answer to a lookup.
    Found(Box<CmLookupAnswer>),
    /// No answer came in time.
    Unreachable,
    /// The connection has ended.
    Disconnected,
}

/// The state of a connection. The names are those of IBTA vol. 1, 12.9.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum CmState {
    ReqSent,
    RepReceived,
    ReqReceived,
    RepSent,
    Established,
    DreqSent,
    /// Over. Late messages are still answered.
    TimeWait,
}

/// A message that is repeated until it is answered.
pub(super) struct Repeated {
    mad: Box<CmMad>,
    /// The time of the next repetition.
    pub(super) next: Time,
    pause: Duration,
    left: u8,
    /// No answer is waited for beyond this time.
    until: Time,
}

impl Repeated {
    /// A message that was sent at `now`, and is repeated `tries` times.
    pub(super) fn new(now: Time, mad: CmMad, tries: u8) -> Self {
        let (mad, pause) = (Box::new(mad), FIRST_PAUSE);
        Repeated { mad, next: now + pause, pause, left: tries, until: now + PATIENCE }
    }

    /// The message, to answer a repeated one.
    pub(super) fn mad(&self) -> &CmMad {
        &self.mad
    }

    /// The message to send again now. `None`: all repetitions were in vain.
    pub(super) fn again(&mut self, now: Time) -> Option<&CmMad> {
        if self.left == 0 || now >= self.until {
            return None;
        }
        self.left -= 1;
        self.pause = (2 * self.pause).min(LONGEST_PAUSE);
        self.next = now + self.pause;
        Some(&self.mad)
    }

    /// The answer takes this long.
    pub(super) fn put_off(&mut self, now: Time, by: Duration) {
        self.next = self.next.max((now + by).min(self.until));
    }
}

/// A connection.
pub(super) struct Conversation {
    pub(super) peer: IpAddr,
    /// The number of the connection at the other end. 0: not known.
    pub(super) remote_id: u32,
    pub(super) state: CmState,
    /// The number of the exchange that the request began.
    pub(super) transaction: u64,
    pub(super) own_qp: QpId,
    pub(super) remote_qp: QpId,
    /// The last message, if it waits for an answer.
    pub(super) repeated: Option<Repeated>,
    /// The message by which this end has refused, to answer a repeated one.
    pub(super) refusal: Option<Box<CmMad>>,
    /// The end of a state in which nothing is repeated.
    pub(super) expires: Option<Time>,
    /// The driver wants no events any more.
    pub(super) is_forgotten: bool,
}

impl Conversation {
    pub(super) fn new(peer: IpAddr, state: CmState, transaction: u64) -> Self {
        Conversation {
            peer,
            remote_id: 0,
            state,
            transaction,
            own_qp: QpId::new(0),
            remote_qp: QpId::new(0),
            repeated: None,
            refusal: None,
            expires: None,
            is_forgotten: false,
        }
    }

    /// Sends and repeats a message of the exchange that the request began.
    pub(super) fn begin(&mut self, now: Time, body: CmBody, tries: u8) -> CmMad {
        self.repeat(now, CmMad { transaction: self.transaction, body }, tries)
    }

    /// Sends and repeats a message.
    pub(super) fn repeat(&mut self, now: Time, mad: CmMad, tries: u8) -> CmMad {
        self.repeated = Some(Repeated::new(now, mad, tries));
        self.expires = None;
        mad
    }

    /// Enters a state in which nothing is repeated, for a limited time.
    pub(super) fn rest(&mut self, state: CmState, expires: Option<Time>) {
        (self.state, self.expires, self.repeated) = (state, expires, None);
    }

    /// Whether the connecting end has asked and the connection is not established.
    pub(super) fn is_half_open(&self) -> bool {
        matches!(self.state, CmState::ReqReceived | CmState::RepSent)
    }

    pub(super) fn next_timeout(&self) -> Option<Time> {
        self.repeated.as_ref().map(|repeated| repeated.next).or(self.expires)
    }
}

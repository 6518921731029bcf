//! The sending end: it matches messages with offers and writes to the offered buffers.
//!
//! Messages queue in the order of their `isend`s, offers in the order of the receiver. Only the
//! oldest offer is used. A message takes its first free place with the same tag. When all places
//! are taken, the next offer is used.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use braid::wr::{self, SendWrExt};
use braid::{Access, Completion, MAX_MESSAGE, MemoryRegion, QueuePair, RemoteAddr, Sge, Work};

use super::connection::Connection;
use super::limits::{MAX_GROUPS, MAX_REQUESTS, Sizes};
use super::linger::{Moment, waits_since};
use super::offer::{MAX_OFFER, Offer, Piece, Place};
use super::tally::Tally;
use crate::broken::Broken;
use crate::device_context::DeviceContext;
use crate::error::Error;
use crate::profiler::Event;

/// Maximum number of requests that wait for an offer. The rest is reserved for requests that an
/// offer waits for.
const MAX_WAITING: usize = MAX_REQUESTS / 2;
/// Maximum number of offers in flight, plus one.
const INBOX: usize = MAX_GROUPS + 1;
/// One WRITE per request, and some more for messages of several WRITEs.
const MAX_SEND_WR: u32 = 2 * MAX_REQUESTS as u32;

/// A message to send.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message {
    pub(crate) addr: u64,
    pub(crate) len: u64,
    pub(crate) lkey: u32,
    pub(crate) tag: i32,
}

/// The sending end; see the module.
pub(crate) struct SendComm {
    context: Arc<DeviceContext>,
    state: Mutex<SendState>,
}

struct SendState {
    connection: Connection,
    /// The buffers of arriving offers.
    inbox: MemoryRegion,
    requests: Vec<Request>,
    free: Vec<usize>,
    /// Requests without a place, the oldest first.
    waiting: VecDeque<usize>,
    /// Offers with free places, the oldest first.
    offers: VecDeque<Open>,
    /// Time at which the latest message was posted.
    posted: Moment,
    tally: Tally,
}

struct Request {
    progress: Progress,
    message: Message,
    event: Option<Event>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Progress {
    Free,
    Waiting,
    Posted,
    Done,
}

/// An offer and its taken places.
struct Open {
    offer: Offer,
    taken: u8,
}

impl Open {
    fn place(&self, tag: i32) -> Option<usize> {
        let free = |(i, place): (usize, &Place)| self.taken & 1 << i == 0 && place.tag == tag;
        self.offer.places.iter().enumerate().position(free)
    }

    fn is_full(&self) -> bool {
        self.taken.count_ones() as usize == self.offer.places.len()
    }
}

impl SendComm {
    /// Creates an end that is not connected yet.
    ///
    /// # Errors
    /// If the system has no memory or descriptor left.
    pub(crate) fn new(context: Arc<DeviceContext>, peer: SocketAddr) -> Result<Self, Error> {
        let inbox = context.pd().alloc_mr(INBOX * MAX_OFFER, Access::LOCAL_WRITE)?;
        let connection = Connection::new(context.clone(), peer, MAX_SEND_WR, INBOX as u32)?;
        let message = Message { addr: 0, len: 0, lkey: 0, tag: 0 };
        let request = || Request { progress: Progress::Free, message, event: None };
        let mut state = SendState {
            connection,
            inbox,
            requests: (0..MAX_REQUESTS).map(|_| request()).collect(),
            free: (0..MAX_REQUESTS).rev().collect(),
            waiting: VecDeque::with_capacity(MAX_WAITING + 1),
            offers: VecDeque::with_capacity(INBOX),
            posted: Moment::default(),
            tally: Tally::new(),
        };
        (0..INBOX).for_each(|slot| state.expect_offer(slot));
        Ok(SendComm { context, state: Mutex::new(state) })
    }

    pub(crate) fn queue_pair(&self) -> Arc<QueuePair> {
        self.state().connection.qp().clone()
    }

    pub(crate) fn context(&self) -> &Arc<DeviceContext> {
        &self.context
    }

    /// Accepts a message, which is sent when its place is known. Returns `None` if that is not
    /// possible now.
    ///
    /// A broken communicator accepts it as well, and [`SendComm::test`] returns the reason, because
    /// the sender cannot know yet that the peer has closed.
    ///
    /// # Errors
    /// If the communicator is broken and has no free request.
    pub(crate) fn isend(&self, message: Message) -> Result<Option<usize>, Error> {
        let state = &mut *self.state();
        let broken = state.connection.broken();
        let wanted = state.offers.front().is_some_and(|open| open.place(message.tag).is_some());
        if broken.is_none() && state.waiting.len() >= MAX_WAITING && !wanted {
            state.progress();
            return Ok(None);
        }
        let Some(index) = state.free.pop() else {
            return broken.map_or(Ok(None), |broken| Err(broken.into()));
        };
        state.requests[index] = Request { progress: Progress::Waiting, message, event: None };
        if broken.is_some() {
            return Ok(Some(index));
        }
        state.waiting.push_back(index);
        state.match_up();
        // If polling threads drive the engine, this sends the message at once.
        state.progress();
        if state.requests[index].progress == Progress::Waiting {
            state.tally.waited += 1;
        }
        Ok(Some(index))
    }

    /// Returns the event of a request, which ends with it.
    pub(crate) fn observe(&self, index: usize, event: Event) {
        self.state().requests[index].event = Some(event);
    }

    /// Returns whether a request is complete. It has then ended.
    ///
    /// # Errors
    /// If the communicator broke before.
    pub(crate) fn test(&self, index: usize) -> Result<Option<Sizes>, Error> {
        let state = &mut *self.state();
        if state.requests[index].progress != Progress::Done {
            state.progress();
        }
        let request = &mut state.requests[index];
        match (request.progress, state.connection.broken()) {
            (Progress::Free, _) => Err(Error::StaleRequest),
            (Progress::Done, _) => {
                request.progress = Progress::Free;
                let size = request.message.len;
                request.event.take().into_iter().for_each(Event::stop);
                state.free.push(index);
                Ok(Some(Sizes::from_slice(&[size])))
            }
            (_, Some(broken)) => Err(broken.into()),
            (_, None) => Ok(None),
        }
    }

    fn state(&self) -> MutexGuard<'_, SendState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SendState {
    fn progress(&mut self) {
        while let Some(done) = self.connection.next_done() {
            if done.work == Work::Recv {
                self.take_offer(done);
            } else {
                let request = &mut self.requests[done.wr_id as usize];
                request.progress = Progress::Done;
                self.tally.message(request.message.len);
            }
        }
        if self.connection.broken().is_none() {
            self.match_up();
        }
    }

    fn take_offer(&mut self, done: Completion) {
        let slot = done.wr_id as usize;
        let mut bytes = [0; MAX_OFFER];
        let bytes = &mut bytes[..done.len as usize];
        self.inbox.read_at(slot * MAX_OFFER, bytes).expect("every slot lies in the inbox");
        self.expect_offer(slot);
        match Offer::from_bytes(bytes) {
            Some(offer) => self.offers.push_back(Open { offer, taken: 0 }),
            None => self.connection.fail(Broken::Protocol("a message that is no offer")),
        }
    }

    fn expect_offer(&mut self, slot: usize) {
        let start = slot * MAX_OFFER;
        let piece =
            self.inbox.slice(start..start + MAX_OFFER).expect("every slot lies in the inbox");
        self.connection.post_recv(wr::recv(slot as u64, [piece]));
    }

    /// Posts every message that has a place in the oldest offer.
    fn match_up(&mut self) {
        let mut at = 0;
        while let (Some(open), Some(&index)) = (self.offers.front_mut(), self.waiting.get(at)) {
            let request = &mut self.requests[index];
            let message = request.message;
            let Some(number) = open.place(message.tag) else {
                at += 1;
                continue;
            };
            let place = open.offer.places[number];
            let (size, room, tag) = (message.len, place.len, message.tag);
            if size > room {
                return self.connection.fail(Broken::TooLong { size, room, tag });
            }
            let pieces = size.div_ceil(MAX_MESSAGE).max(1) as u8;
            if !self.connection.has_room(pieces.into()) {
                return;
            }
            let piece = Piece { number: open.offer.number, buffer: number as u8, pieces };
            write(&mut self.connection, index, &message, place, piece);
            self.posted = Moment::now();
            request.progress = Progress::Posted;
            open.taken |= 1 << number;
            let full = open.is_full();
            self.waiting.remove(at);
            if full {
                self.offers.pop_front();
                at = 0;
            }
        }
    }
}

/// Posts consecutive WRITEs of up to 1 GiB. The completion of the last one completes the message.
fn write(connection: &mut Connection, index: usize, message: &Message, to: Place, piece: Piece) {
    for at in 0..u64::from(piece.pieces) {
        let start = at * MAX_MESSAGE;
        let len = (message.len - start).min(MAX_MESSAGE) as u32;
        let from = Sge { addr: message.addr + start, len, lkey: message.lkey };
        let remote = RemoteAddr { addr: to.addr + start, rkey: to.rkey };
        let wr = wr::write_imm(index as u64, (len > 0).then_some(from), remote, piece.to_imm());
        let last = at + 1 == u64::from(piece.pieces);
        connection.post(if last { wr } else { wr.unsignalled() }, &[]);
    }
}

/// Waits until the peer has all data, at most for the configured time. That time is shared with the
/// communicators that were closed before.
impl Drop for SendComm {
    fn drop(&mut self) {
        let mut state = self.state();
        let mut until = None;
        loop {
            state.progress();
            let under_way = |request: &Request| request.progress == Progress::Posted;
            if state.connection.broken().is_some() || !state.requests.iter().any(under_way) {
                break;
            }
            let posted = state.posted;
            let until = *until.get_or_insert_with(|| waits_since(posted) + self.context.linger());
            if Instant::now() >= until {
                break;
            }
            thread::yield_now();
        }
        state.connection.report("sent to", &state.tally);
    }
}

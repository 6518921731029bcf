//! The requests of a context towards one rank, in posting order on one queue pair.

use std::collections::VecDeque;
use std::thread;
use std::time::Instant;

use braid::wr::{self, SendWrExt};
use braid::{Access, MemoryRegion, RemoteAddr, SendWr, Sge, Status};

use super::error::RmaError;
use crate::broken::Broken;
use crate::comm::{Connection, Moment, Tally, waits_since};
use crate::error::Error;

/// Maximum number of outstanding requests to a rank. NCCL's proxies have 32 times `maxRecvs`, 256,
/// and one more to flush.
const MAX_REQUESTS: usize = 512;
/// Work requests of the queue pair. Those of longer transfers wait here.
pub(super) const MAX_SEND_WR: u32 = 2 * MAX_REQUESTS as u32;
/// Longest WRITE or READ. The engine copies a message of device memory as a whole, and through
/// memory that is pinned for CUDA up to 16 MiB: a longer one would need an allocation.
const MAX_PIECE: u64 = 8 << 20;

/// The requests towards one rank; see the module.
pub(super) struct PeerQueue {
    connection: Connection,
    rank: usize,
    /// The earlier values of signals, one per request. Nobody reads them.
    fetched: MemoryRegion,
    requests: Box<[Slot]>,
    free: Vec<u16>,
    /// Requests that are not done, in posting order.
    under_way: VecDeque<u16>,
    /// Work requests that find no room in the queue pair, in posting order.
    unposted: VecDeque<SendWr>,
    /// Time at which the latest request was posted.
    posted: Moment,
    tally: Tally,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    progress: SlotState,
    /// The use of this place.
    generation: u16,
    /// Whether the request has work requests. One without is done when all before it are.
    has_work: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum SlotState {
    Free,
    UnderWay,
    Done,
}

/// Bytes that a request moves between this rank and another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Transfer {
    /// The start of the local memory; the length has no meaning.
    pub(super) local: Sge,
    pub(super) remote: RemoteAddr,
    pub(super) size: u64,
}

impl Transfer {
    /// The pieces, each of them one work request.
    fn pieces(self) -> impl Iterator<Item = (Sge, RemoteAddr)> {
        (0..self.size).step_by(MAX_PIECE as usize).map(move |start| {
            let len = (self.size - start).min(MAX_PIECE) as u32;
            let local = Sge { addr: self.local.addr + start, len, lkey: self.local.lkey };
            (local, RemoteAddr { addr: self.remote.addr + start, rkey: self.remote.rkey })
        })
    }
}

impl PeerQueue {
    /// Creates the queue of a queue pair to this rank. `generation` is that of its first requests.
    ///
    /// # Errors
    /// If there is no memory.
    pub(super) fn new(connection: Connection, rank: usize, generation: u16) -> Result<Self, Error> {
        let pd = connection.context().pd();
        let fetched = pd.alloc_mr(8 * MAX_REQUESTS, Access::LOCAL_WRITE)?;
        let request = Slot { progress: SlotState::Free, generation, has_work: false };
        Ok(PeerQueue {
            connection,
            rank,
            fetched,
            requests: vec![request; MAX_REQUESTS].into(),
            free: (0..MAX_REQUESTS as u16).rev().collect(),
            under_way: VecDeque::with_capacity(MAX_REQUESTS),
            unposted: VecDeque::new(),
            posted: Moment::default(),
            tally: Tally::new(),
        })
    }

    /// Writes to the rank's memory, then adds to a word of it. Both are optional.
    ///
    /// # Errors
    /// If the rank is lost, or there are too many requests.
    pub(super) fn put(
        &mut self,
        transfer: Option<Transfer>,
        signal: Option<(RemoteAddr, u64)>,
    ) -> Result<(u16, u16), RmaError> {
        let place = self.take_place()?;
        for (local, remote) in transfer.into_iter().flat_map(Transfer::pieces) {
            self.unposted.push_back(wr::write(place.into(), [local], remote).unsignalled());
        }
        if let Some((at, add)) = signal {
            let start = 8 * usize::from(place);
            let fetched = self.fetched.slice(start..start + 8).expect("every place has a word");
            self.unposted.push_back(wr::fetch_add(place.into(), fetched, at, add).unsignalled());
        }
        self.tally.message(transfer.map_or(0, |transfer| transfer.size));
        Ok(self.start(place))
    }

    /// Reads from the rank's memory.
    ///
    /// # Errors
    /// As for [`PeerQueue::put`].
    pub(super) fn get(&mut self, transfer: Option<Transfer>) -> Result<(u16, u16), RmaError> {
        let place = self.take_place()?;
        for (local, remote) in transfer.into_iter().flat_map(Transfer::pieces) {
            self.unposted.push_back(wr::read(place.into(), [local], remote).unsignalled());
        }
        self.tally.message(transfer.map_or(0, |transfer| transfer.size));
        Ok(self.start(place))
    }

    /// Begins a request that is done when all earlier ones are.
    ///
    /// # Errors
    /// As for [`PeerQueue::put`].
    pub(super) fn flush(&mut self) -> Result<(u16, u16), RmaError> {
        let place = self.take_place()?;
        Ok(self.start(place))
    }

    /// Returns whether a request is done. It has then ended.
    ///
    /// # Errors
    /// If the rank is lost, or the request has ended before.
    pub(super) fn test(&mut self, place: u16, generation: u16) -> Result<bool, Error> {
        let index = usize::from(place);
        let known = |it: &&Slot| it.generation == generation && it.progress != SlotState::Free;
        let request = self.requests.get(index).filter(known).ok_or(Error::StaleRequest)?;
        if request.progress == SlotState::UnderWay {
            self.progress();
        }
        let request = &mut self.requests[index];
        match (request.progress, self.connection.broken()) {
            (SlotState::Done, _) => {
                request.progress = SlotState::Free;
                request.generation = request.generation.wrapping_add(1);
                self.free.push(place);
                Ok(true)
            }
            (_, Some(broken)) => Err(RmaError::RankLost { rank: self.rank, broken }.into()),
            (_, None) => Ok(false),
        }
    }

    /// Takes completions, and posts what had no room before.
    pub(super) fn progress(&mut self) {
        while let Some(done) = self.connection.next_done() {
            while let Some(place) = self.under_way.pop_front() {
                self.requests[usize::from(place)].progress = SlotState::Done;
                if u64::from(place) == done.wr_id {
                    break;
                }
            }
            self.end_requests_without_work();
        }
        self.post();
    }

    /// Returns why the rank is lost, also if no request was outstanding. A rank that has closed its
    /// context is not lost until a request needs it.
    pub(super) fn fault(&self) -> Option<RmaError> {
        let ended = || {
            let error = self.connection.qp().error();
            error.map(|error| Broken::by(Status::Flushed, Some(error.cause)))
        };
        let lost = self.connection.broken().or_else(ended);
        let lost = lost.filter(|broken| *broken != Broken::Closed);
        lost.map(|broken| RmaError::RankLost { rank: self.rank, broken })
    }

    /// Number of requests that are not done, unless the rank is lost.
    pub(super) fn in_flight(&mut self) -> usize {
        self.progress();
        if self.connection.broken().is_some() { 0 } else { self.under_way.len() }
    }

    fn take_place(&mut self) -> Result<u16, RmaError> {
        if self.free.is_empty() {
            self.progress();
        }
        let rank = self.rank;
        if let Some(broken) = self.connection.broken() {
            return Err(RmaError::RankLost { rank, broken });
        }
        self.free.pop().ok_or(RmaError::TooManyRequests { rank, most: MAX_REQUESTS })
    }

    /// Begins the request whose work requests are the last ones for its place. Returns its place
    /// and generation.
    fn start(&mut self, place: u16) -> (u16, u16) {
        let last = self.unposted.back_mut().filter(|wr| wr.id == u64::from(place));
        let has_work = last.is_some();
        if let Some(last) = last {
            last.signalled = true;
        }
        let request = &mut self.requests[usize::from(place)];
        request.progress = SlotState::UnderWay;
        request.has_work = has_work;
        let generation = request.generation;
        self.under_way.push_back(place);
        self.posted = Moment::now();
        self.end_requests_without_work();
        self.post();
        (place, generation)
    }

    fn end_requests_without_work(&mut self) {
        while let Some(place) = self.under_way.front() {
            let request = &mut self.requests[usize::from(*place)];
            if request.has_work {
                break;
            }
            request.progress = SlotState::Done;
            self.under_way.pop_front();
        }
    }

    fn post(&mut self) {
        while self.connection.broken().is_none()
            && !self.unposted.is_empty()
            && self.connection.has_room(1)
        {
            let wr = self.unposted.pop_front().expect("it is not empty");
            self.connection.post(wr, &[]);
        }
    }
}

/// Waits until the rank has everything, at most for the configured time, like a closing
/// communicator of the net tables.
impl Drop for PeerQueue {
    fn drop(&mut self) {
        let mut until = None;
        while self.in_flight() > 0 {
            let posted = self.posted;
            let linger = self.connection.context().linger();
            if Instant::now() >= *until.get_or_insert_with(|| waits_since(posted) + linger) {
                break;
            }
            thread::yield_now();
        }
        self.connection.report(&format!("rank {},", self.rank), &self.tally);
    }
}

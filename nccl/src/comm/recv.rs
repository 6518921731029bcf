//! The receiving end: it offers buffers to the sender, and WRITEs with immediate data report which
//! of them are filled.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use braid::wr::{self, SendWrExt};
use braid::{Completion, QueuePair, Work};
use smallvec::SmallVec;

use super::connection::Connection;
use super::limits::{MAX_GROUPS, MAX_RECVS, Sizes};
use super::offer::{Offer, Piece, Place};
use super::tally::Tally;
use crate::broken::Broken;
use crate::device_context::DeviceContext;
use crate::error::Error;
use crate::profiler::Event;

/// Offers in flight, including those that have arrived but are not acknowledged yet.
const MAX_SEND_WR: u32 = 2 * MAX_GROUPS as u32;
/// One WRITE per buffer.
const MAX_RECV_WR: u32 = (MAX_GROUPS * MAX_RECVS) as u32;

/// A buffer of a receive.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Buffer {
    pub(crate) addr: u64,
    pub(crate) len: u64,
    pub(crate) rkey: u32,
    pub(crate) tag: i32,
}

/// The receiving end; see the module.
pub(crate) struct RecvComm {
    context: Arc<DeviceContext>,
    state: Mutex<RecvState>,
}

struct RecvState {
    connection: Connection,
    /// Receive `n` is at `n % MAX_GROUPS`.
    groups: Vec<Group>,
    next: u16,
    tally: Tally,
}

/// The buffers of one receive, or empty if the place is free.
struct Group {
    number: u16,
    fills: SmallVec<[Fill; MAX_RECVS]>,
    /// Number of buffers whose message is incomplete.
    left: usize,
}

/// The data that has arrived in one buffer.
struct Fill {
    /// Length of the buffer in bytes.
    len: u64,
    bytes: u64,
    pieces: u8,
    /// Number of pieces, as the first of them states.
    announced: Option<u8>,
    event: Option<Event>,
}

impl Fill {
    fn new(len: u64) -> Self {
        Fill { len, bytes: 0, pieces: 0, announced: None, event: None }
    }

    /// Records one of `pieces` pieces. Returns whether it was the last, or `None` if the peer
    /// violates the protocol.
    fn add(&mut self, bytes: u64, pieces: u8) -> Option<bool> {
        let announced = *self.announced.get_or_insert(pieces);
        self.bytes += bytes;
        let is_sound = pieces == announced && self.pieces < pieces && self.bytes <= self.len;
        is_sound.then(|| {
            self.pieces += 1;
            self.pieces == pieces
        })
    }
}

impl RecvComm {
    /// Creates an end that is not connected yet.
    ///
    /// # Errors
    /// If the system has no memory or descriptor left.
    pub(crate) fn new(context: Arc<DeviceContext>, peer: SocketAddr) -> Result<Self, Error> {
        let mut connection = Connection::new(context.clone(), peer, MAX_SEND_WR, MAX_RECV_WR)?;
        let group = |_| Group { number: 0, fills: Default::default(), left: 0 };
        let groups = (0..MAX_GROUPS).map(group).collect();
        (0..MAX_RECV_WR).for_each(|_| connection.post_recv(wr::recv(0, [])));
        let state = RecvState { connection, groups, next: 0, tally: Tally::new() };
        Ok(RecvComm { context, state: Mutex::new(state) })
    }

    pub(crate) fn queue_pair(&self) -> Arc<QueuePair> {
        self.state().connection.qp().clone()
    }

    pub(crate) fn context(&self) -> &Arc<DeviceContext> {
        &self.context
    }

    /// Offers 1 to 8 buffers to the sender. Returns `None` if that is not possible now. A broken
    /// communicator accepts them as well, and [`RecvComm::test`] returns the reason, because the
    /// receiver cannot know yet that the peer has closed.
    ///
    /// # Errors
    /// If the communicator is broken and has no free request.
    pub(crate) fn irecv(&self, buffers: &[Buffer]) -> Result<Option<usize>, Error> {
        let state = &mut *self.state();
        let number = state.next;
        let index = usize::from(number) % MAX_GROUPS;
        let fills = || buffers.iter().map(|buffer| Fill::new(buffer.len)).collect();
        if let Some(broken) = state.connection.broken() {
            if !state.groups[index].fills.is_empty() {
                return Err(broken.into());
            }
            state.groups[index] = Group { number, left: buffers.len(), fills: fills() };
            state.next = number.wrapping_add(1);
            return Ok(Some(index));
        }
        if !state.groups[index].fills.is_empty() || !state.connection.has_room(1) {
            state.tally.waited += 1;
            state.progress();
            return Ok(None);
        }
        let place = |b: &Buffer| Place { addr: b.addr, len: b.len, rkey: b.rkey, tag: b.tag };
        let offer = Offer { number, places: buffers.iter().map(place).collect() };
        state.groups[index] = Group { number, left: offer.places.len(), fills: fills() };
        state.next = number.wrapping_add(1);
        let wr = wr::send(0, []).unsignalled();
        state.connection.post(wr, &offer.to_bytes()[..offer.len()]);
        // If polling threads drive the engine, this sends the offer at once.
        state.progress();
        Ok(Some(index))
    }

    /// Returns the event of a receive's buffer, which ends with the receive.
    pub(crate) fn observe(&self, index: usize, buffer: usize, event: Event) {
        self.state().groups[index].fills[buffer].event = Some(event);
    }

    /// Returns whether a receive is complete. It has then ended.
    ///
    /// # Errors
    /// If the communicator broke before.
    pub(crate) fn test(&self, index: usize) -> Result<Option<Sizes>, Error> {
        let state = &mut *self.state();
        if state.groups[index].left > 0 {
            state.progress();
        }
        let group = &mut state.groups[index];
        if group.fills.is_empty() {
            return Err(Error::StaleRequest);
        }
        match (group.left, state.connection.broken()) {
            (0, _) => {
                let fills = std::mem::take(&mut group.fills);
                let sizes: Sizes = fills.iter().map(|fill| fill.bytes).collect();
                sizes.iter().for_each(|bytes| state.tally.message(*bytes));
                fills.into_iter().filter_map(|fill| fill.event).for_each(Event::stop);
                Ok(Some(sizes))
            }
            (_, Some(broken)) => Err(broken.into()),
            (_, None) => Ok(None),
        }
    }

    fn state(&self) -> MutexGuard<'_, RecvState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RecvState {
    fn progress(&mut self) {
        while let Some(done) = self.connection.next_done() {
            self.connection.post_recv(wr::recv(0, []));
            if let Err(broken) = self.take(done) {
                self.connection.fail(broken);
            }
        }
    }

    /// Records a completed WRITE.
    fn take(&mut self, done: Completion) -> Result<(), Broken> {
        if done.work != Work::RecvWriteImm {
            return Err(Broken::Protocol("a message where only WRITEs are"));
        }
        let piece = Piece::from_imm(done.imm.unwrap_or_default());
        let group = &mut self.groups[usize::from(piece.number) % MAX_GROUPS];
        let known = group.number == piece.number && group.left > 0;
        let fill = group.fills.get_mut(usize::from(piece.buffer)).filter(|_| known);
        let is_whole = fill.and_then(|fill| fill.add(done.len.into(), piece.pieces));
        if is_whole.ok_or(Broken::Protocol("a message for a buffer that was not offered"))? {
            group.left -= 1;
        }
        Ok(())
    }
}

impl Drop for RecvComm {
    fn drop(&mut self) {
        let state = self.state();
        state.connection.report("received from", &state.tally);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_whole_once_and_only_with_the_pieces_that_were_announced() {
        let mut fill = Fill::new(10);
        assert_eq!([fill.add(4, 2), fill.add(6, 2)], [Some(false), Some(true)]);
        assert_eq!(fill.bytes, 10);
        // A faulty sender repeats a number, or exceeds it.
        assert_eq!([fill.add(0, 2), fill.add(0, 3)], [None, None]);
        // The sender changes the number of pieces, states none, or sends more data than the buffer
        // has space for.
        assert_eq!([Fill::new(10).add(0, 0), Fill::new(10).add(11, 1)], [None, None]);
        let mut fill = Fill::new(10);
        assert_eq!([fill.add(1, 3), fill.add(1, 2)], [Some(false), None]);
    }
}

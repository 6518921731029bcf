//! Copies in one direction on one stream, many of which may be under way.
//!
//! Each copy has a number, its ticket. Copies end in the order of their tickets, because a stream
//! keeps order. Adjacent copies become one.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use super::context::{
    COPY_LIMIT, Context, CopyDirection, CudaEvent, CudaStream, Current, LATE, wait_until,
};
use super::error::CudaFault;
use super::library::DevicePtr;

/// Bytes of a copy to which no others are added.
const LONGEST: usize = 1 << 20;

/// A copy that was requested, at a context of the lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Ticket {
    pub(super) context: usize,
    number: u64,
}

/// The state of a copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum CopyState {
    UnderWay,
    Ended,
    Failed(CudaFault),
}

/// A copy that was requested and not begun, because the next may continue it.
#[derive(Clone, Copy)]
struct Pending {
    device: DevicePtr,
    host: *mut u8,
    len: usize,
}

/// An event behind copies that have begun.
struct Recorded {
    /// The ticket of the next copy.
    end: u64,
    event: CudaEvent,
    at: Instant,
}

/// The copies of one stream.
///
/// Invariants: tickets below `ended` have ended or failed. `under_way` has an event behind all
/// others but those from `recorded` on, which no event follows yet.
pub(super) struct Copies {
    context: Arc<Context>,
    direction: CopyDirection,
    stream: CudaStream,
    pending: Option<Pending>,
    next: u64,
    recorded: u64,
    ended: u64,
    under_way: VecDeque<Recorded>,
    idle: Vec<CudaEvent>,
    /// Whether copies did not end in time. Nobody knows whether they still access memory.
    is_stuck: bool,
    /// Tickets of copies that failed. There are few: each ends a queue pair.
    failed: Vec<(Range<u64>, CudaFault)>,
}

// SAFETY: the pointers are to memory of arenas, which any thread may use.
unsafe impl Send for Copies {}

impl Copies {
    pub(super) fn new(context: &Arc<Context>, direction: CopyDirection) -> Result<Self, CudaFault> {
        Ok(Copies {
            stream: context.stream()?,
            context: context.clone(),
            direction,
            pending: None,
            next: 0,
            recorded: 0,
            ended: 0,
            under_way: VecDeque::new(),
            idle: Vec::new(),
            is_stuck: false,
            failed: Vec::new(),
        })
    }

    /// Requests a copy, which begins with [`Copies::submit`] at the latest.
    ///
    /// # Safety
    /// Until the ticket is no longer [`CopyState::UnderWay`], `len` bytes at `host` must stay
    /// mapped, and nobody may write to them (or read them, if they are the destination). `device`
    /// must have been registered.
    pub(super) unsafe fn add(&mut self, device: DevicePtr, host: *mut u8, len: usize) -> Ticket {
        let context = self.context.index;
        if let Some(last) = &mut self.pending
            && last.device + last.len as u64 == device
            && last.host.wrapping_add(last.len) == host
            && last.len + len <= LONGEST
        {
            last.len += len;
            return Ticket { context, number: self.next };
        }
        self.begin_pending();
        self.pending = Some(Pending { device, host, len });
        Ticket { context, number: self.next }
    }

    /// Begins the copy that was requested last. All earlier ones have begun.
    fn begin_pending(&mut self) {
        let Some(Pending { device, host, len }) = self.pending.take() else { return };
        let number = self.next;
        self.next += 1;
        let begun = self.context.enter().and_then(|_current| {
            // SAFETY: the caller of `add` vouches for the memory.
            unsafe { self.context.copy(self.direction, device, host, len, &self.stream) }
        });
        if let Err(fault) = begun {
            self.fail(number..number + 1, fault);
        }
    }

    fn fail(&mut self, tickets: Range<u64>, fault: CudaFault) {
        match self.failed.last_mut() {
            Some((last, known)) if last.end == tickets.start && *known == fault => {
                last.end = tickets.end;
            }
            _ => self.failed.push((tickets, fault)),
        }
    }

    /// Begins all requested copies, and makes their ends known to [`Copies::poll`].
    pub(super) fn submit(&mut self) {
        self.begin_pending();
        if self.recorded == self.next {
            return;
        }
        let idle = self.idle.pop();
        let recorded = self.context.enter().and_then(|_current| {
            let event = idle.map_or_else(|| self.context.event(), Ok)?;
            self.context.record(&event, &self.stream).map(|()| event)
        });
        match recorded {
            Ok(event) => {
                let (end, at) = (self.next, Instant::now());
                self.under_way.push_back(Recorded { end, event, at });
            }
            // Whether these copies end will never be known.
            Err(fault) => self.fail(self.recorded..self.next, fault),
        }
        self.recorded = self.next;
        self.skip_failed();
    }

    /// Looks for copies that have ended. Returns whether there were any.
    pub(super) fn poll(&mut self) -> bool {
        if self.under_way.is_empty() {
            return false;
        }
        let before = self.ended;
        let context = self.context.clone();
        match context.enter() {
            Ok(current) => self.poll_current(&current),
            Err(fault) => self.fail_all(fault),
        }
        self.ended > before
    }

    fn poll_current(&mut self, _: &Current<'_>) {
        while let Some(&Recorded { end, ref event, at }) = self.under_way.front() {
            match self.context.has_happened(event) {
                Ok(false) if at.elapsed() > COPY_LIMIT => {
                    self.is_stuck = true;
                    return self.fail_all(LATE);
                }
                Ok(false) => return,
                Ok(true) => {}
                Err(fault) => self.fail(self.ended..end, fault),
            }
            self.ended = end;
            self.idle.extend(self.under_way.pop_front().map(|recorded| recorded.event));
        }
        self.skip_failed();
    }

    /// With nothing under way, everything that was recorded has ended or failed.
    fn skip_failed(&mut self) {
        if self.under_way.is_empty() {
            self.ended = self.recorded;
        }
    }

    fn fail_all(&mut self, fault: CudaFault) {
        self.fail(self.ended..self.recorded, fault);
        self.under_way.clear();
        self.skip_failed();
    }

    /// Waits until no copy is under way. The error says that some did not end in time: they count
    /// as failed, and may still access the memory.
    pub(super) fn wait(&mut self) -> Result<(), CudaFault> {
        self.submit();
        let waited = wait_until(|| {
            self.poll();
            Ok(self.under_way.is_empty())
        });
        if waited.is_err() {
            self.is_stuck = true;
            self.fail_all(LATE);
        }
        if self.is_stuck { Err(LATE) } else { Ok(()) }
    }

    /// Whether copies were requested that have not ended.
    pub(super) fn is_busy(&self) -> bool {
        self.pending.is_some() || self.ended < self.next
    }

    pub(super) fn state(&self, ticket: Ticket) -> CopyState {
        let number = ticket.number;
        if number >= self.ended {
            return CopyState::UnderWay;
        }
        let failed = self.failed.iter().find(|(tickets, _)| tickets.contains(&number));
        failed.map_or(CopyState::Ended, |(_, fault)| CopyState::Failed(*fault))
    }
}

impl Drop for Copies {
    fn drop(&mut self) {
        let under_way = self.under_way.drain(..).map(|recorded| recorded.event);
        let events = under_way.chain(self.idle.drain(..));
        events.for_each(|event| self.context.destroy_event(&event));
        self.context.destroy_stream(&self.stream);
    }
}

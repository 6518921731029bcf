//! Streams, their copies, and events.

use std::collections::{HashMap, VecDeque};
use std::slice;
use std::time::Duration;

use crate::behaviour::Record;
use crate::code::{CONTEXT_IS_DESTROYED, Code, ILLEGAL_ADDRESS, INVALID_VALUE, NOT_READY, SUCCESS};
use crate::memory::Memory;

/// A copy that was requested.
#[derive(Clone, Copy)]
pub(crate) struct Copy {
    pub(crate) is_in: bool,
    pub(crate) device: u64,
    pub(crate) host: u64,
    pub(crate) len: usize,
    /// The time at which it ends.
    pub(crate) ends: Duration,
    /// Whether it fails as it is carried out.
    pub(crate) fails: bool,
}

struct Stream {
    context: u64,
    waiting: VecDeque<Copy>,
    /// Copies that were requested, and that have ended.
    requested: u64,
    ended: u64,
    fault: Option<Code>,
}

#[derive(Clone, Copy)]
struct Event {
    context: u64,
    /// The stream, and the copies that were requested on it.
    after: Option<(u64, u64)>,
}

/// All streams and events, by handle.
#[derive(Default)]
pub(crate) struct Streams {
    streams: HashMap<u64, Stream>,
    events: HashMap<u64, Event>,
    next: u64,
}

impl Streams {
    pub(crate) fn create(&mut self, context: u64) -> u64 {
        self.next += 1;
        let stream =
            Stream { context, waiting: VecDeque::new(), requested: 0, ended: 0, fault: None };
        self.streams.insert(self.next, stream);
        self.next
    }

    pub(crate) fn destroy(&mut self, stream: u64) -> bool {
        self.streams.remove(&stream).is_some()
    }

    pub(crate) fn create_event(&mut self, context: u64) -> u64 {
        self.next += 1;
        self.events.insert(self.next, Event { context, after: None });
        self.next
    }

    pub(crate) fn destroy_event(&mut self, event: u64) -> bool {
        self.events.remove(&event).is_some()
    }

    pub(crate) fn destroy_context(&mut self, context: u64) {
        self.streams.retain(|_, stream| stream.context != context);
        self.events.retain(|_, event| event.context != context);
    }

    pub(crate) fn under_way(&self) -> u64 {
        self.streams.values().map(|stream| stream.waiting.len() as u64).sum()
    }

    pub(crate) fn request(&mut self, stream: u64, copy: Copy) -> Code {
        let Some(stream) = self.streams.get_mut(&stream) else { return INVALID_VALUE };
        if let Some(fault) = stream.fault {
            return fault;
        }
        stream.waiting.push_back(copy);
        stream.requested += 1;
        SUCCESS
    }

    pub(crate) fn record(&mut self, event: u64, stream: u64) -> Code {
        let (Some(event), Some(found)) = (self.events.get_mut(&event), self.streams.get(&stream))
        else {
            return INVALID_VALUE;
        };
        event.after = Some((stream, found.requested));
        SUCCESS
    }

    /// Carries out the copies before an event that have ended by `now`. Returns whether the event
    /// has happened.
    pub(crate) fn query(
        &mut self,
        event: u64,
        now: Duration,
        memory: &mut Memory,
        record: &mut Record,
    ) -> Code {
        let Some(event) = self.events.get(&event) else { return INVALID_VALUE };
        let Some((stream, requested)) = event.after else { return SUCCESS };
        let Some(stream) = self.streams.get_mut(&stream) else { return CONTEXT_IS_DESTROYED };
        while let Some(copy) = stream.waiting.front().copied()
            && stream.ended < requested
            && copy.ends <= now
            && stream.fault.is_none()
        {
            stream.waiting.pop_front();
            stream.ended += 1;
            if copy.fails || !carry_out(&copy, memory) {
                stream.fault = Some(ILLEGAL_ADDRESS);
                stream.waiting.clear();
                break;
            }
            let (copies, bytes) = match copy.is_in {
                true => (&mut record.copies_in, &mut record.bytes_in),
                false => (&mut record.copies_out, &mut record.bytes_out),
            };
            (*copies, *bytes) = (*copies + 1, *bytes + copy.len as u64);
        }
        match stream.fault {
            Some(fault) => fault,
            None if stream.ended >= requested => SUCCESS,
            None => NOT_READY,
        }
    }
}

/// Moves the bytes of a copy. Returns false if the device memory does not exist any more.
fn carry_out(copy: &Copy, memory: &mut Memory) -> bool {
    let Some(device) = memory.bytes(copy.device, copy.len) else { return false };
    if copy.is_in {
        // SAFETY: whoever requests a copy keeps the memory until the copy has ended.
        device.copy_from_slice(unsafe { slice::from_raw_parts(copy.host as *const u8, copy.len) });
    } else {
        // SAFETY: as above, and nobody accesses it meanwhile.
        unsafe { slice::from_raw_parts_mut(copy.host as *mut u8, copy.len) }
            .copy_from_slice(device);
    }
    true
}

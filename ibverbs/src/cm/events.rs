//! Event channels, and the events of connections.

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_int};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::{mem, ptr};

use braid::Uncancelled;

use super::id::Id;
use super::peer_message::PeerMessage;
use super::structs::{rdma_cm_event, rdma_cm_id, rdma_event_channel};
use crate::acknowledgements::Acknowledgements;
use crate::cancel;
use crate::errno::{self, Errno};
use crate::waiting::Waiting;

/// `enum rdma_cm_event_type`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(i32)]
pub(super) enum EventKind {
    AddrResolved = 0,
    AddrError = 1,
    RouteResolved = 2,
    ConnectRequest = 4,
    ConnectResponse = 5,
    ConnectError = 6,
    Unreachable = 7,
    Rejected = 8,
    Established = 9,
    Disconnected = 10,
}

const NAMES: [&CStr; 16] = [
    c"RDMA_CM_EVENT_ADDR_RESOLVED",
    c"RDMA_CM_EVENT_ADDR_ERROR",
    c"RDMA_CM_EVENT_ROUTE_RESOLVED",
    c"RDMA_CM_EVENT_ROUTE_ERROR",
    c"RDMA_CM_EVENT_CONNECT_REQUEST",
    c"RDMA_CM_EVENT_CONNECT_RESPONSE",
    c"RDMA_CM_EVENT_CONNECT_ERROR",
    c"RDMA_CM_EVENT_UNREACHABLE",
    c"RDMA_CM_EVENT_REJECTED",
    c"RDMA_CM_EVENT_ESTABLISHED",
    c"RDMA_CM_EVENT_DISCONNECTED",
    c"RDMA_CM_EVENT_DEVICE_REMOVAL",
    c"RDMA_CM_EVENT_MULTICAST_JOIN",
    c"RDMA_CM_EVENT_MULTICAST_ERROR",
    c"RDMA_CM_EVENT_ADDR_CHANGE",
    c"RDMA_CM_EVENT_TIMEWAIT_EXIT",
];

/// An event, as the program holds it until it acknowledges it.
#[repr(C)]
struct Event {
    base: rdma_cm_event,
    /// The memory behind pointers of `base.param`.
    _private_data: Vec<u8>,
}

/// The channels by address. `None`: the channel is destroyed.
///
/// Programs destroy a channel while another thread is about to wait for its events. `rping` does so
/// at its end, and exits with an error if that thread gets one. Such a thread waits until the
/// program ends or cancels it, like a thread that reads a descriptor which another one closes.
struct Channels(BTreeMap<usize, Option<Arc<Events>>>);

static CHANNELS: Mutex<Channels> = Mutex::new(Channels(BTreeMap::new()));

impl Channels {
    fn lock() -> MutexGuard<'static, Channels> {
        CHANNELS.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn make(&mut self, events: Arc<Events>) -> *mut rdma_event_channel {
        let channel = Box::into_raw(Box::new(rdma_event_channel { fd: events.0.fd() }));
        self.0.insert(channel.addr(), Some(events));
        channel
    }

    /// The events of a channel. `None`: it is destroyed.
    ///
    /// # Errors
    /// `EINVAL`: nobody has made such a channel.
    fn get(&self, channel: *mut rdma_event_channel) -> Result<Option<Arc<Events>>, Errno> {
        self.0.get(&channel.addr()).cloned().ok_or(Errno::INVALID)
    }

    /// Removes a channel. Returns whether it existed.
    fn remove(&mut self, channel: *mut rdma_event_channel) -> bool {
        self.0.get_mut(&channel.addr()).is_some_and(|events| events.take().is_some())
    }
}

/// The events that the program has not taken.
pub(super) struct Events(Waiting<Box<Event>>);

// SAFETY: the pointers in the events are used only while the identifiers exist, because the
// destruction of an identifier forgets its events first.
unsafe impl Send for Events {}
// SAFETY: as above, and behind a lock.
unsafe impl Sync for Events {}

impl Events {
    fn new() -> Result<Self, Errno> {
        Ok(Events(Waiting::new()?))
    }

    /// Adds an event of an identifier, with the message of the other end.
    pub(super) fn push(
        &self,
        (id, listener): (*mut rdma_cm_id, *mut rdma_cm_id),
        kind: EventKind,
        status: c_int,
        peer: Option<PeerMessage>,
    ) {
        // SAFETY: both members of the union consist of numbers and pointers, so zero is valid.
        let nothing = || (unsafe { mem::zeroed() }, Vec::new());
        let (param, private_data) = peer.map_or_else(nothing, PeerMessage::into_param);
        let event = kind as c_int;
        let base = rdma_cm_event { id, listen_id: listener, event, status, param };
        self.0.push(Box::new(Event { base, _private_data: private_data }));
    }

    /// Removes the events of an identifier that is about to be destroyed. Returns the connections
    /// that have come to it and that the program does not know.
    pub(super) fn forget(&self, id: *mut rdma_cm_id) -> Vec<*mut rdma_cm_id> {
        let gone = self.0.forget(|event| event.base.id == id || event.base.listen_id == id);
        let unknown = gone.iter().filter(|event| event.base.listen_id == id);
        unknown.map(|event| event.base.id).collect()
    }

    /// Moves the events of an identifier, and those of connections that have come to it, to another
    /// channel.
    pub(super) fn move_to(&self, id: *mut rdma_cm_id, to: &Target) {
        for event in self.0.forget(|event| event.base.id == id || event.base.listen_id == id) {
            if event.base.listen_id == id {
                // SAFETY: the connection exists, and the program does not know it yet.
                unsafe { follow(event.base.id, to) };
            }
            to.events.0.push(event);
        }
    }

    /// Waits for an event, unless the program has made the descriptor non-blocking.
    pub(super) fn take(&self) -> Result<*mut rdma_cm_event, Errno> {
        self.0.take(|event| expect(event)).map(|event| Box::into_raw(event).cast())
    }

    /// Takes an event as [`Events::take`] does. `None`: there is none, and the caller has to wait.
    fn look(&self) -> Result<Option<*mut rdma_cm_event>, Errno> {
        Ok(self.0.look(|event| expect(event))?.map(|event| Box::into_raw(event).cast()))
    }
}

/// Counts an event that the program takes.
fn expect(event: &Event) {
    // SAFETY: the event waits, so neither of its identifiers is destroyed while the lock is held.
    unsafe { counted_on(&event.base) }.expect();
}

/// Moves a connection that has come to a listener along with the listener. If no channel can be
/// made for it, the connection stays where it is.
unsafe fn follow(connection: *mut rdma_cm_id, listener: &Target) {
    // SAFETY: by the caller's promise.
    if let (Ok(object), Ok(target)) = (unsafe { Id::of(connection) }, listener.of_connection()) {
        object.retarget(target);
    }
}

/// The destination of an identifier's events.
#[derive(Clone)]
pub(super) struct Target {
    pub(super) channel: *mut rdma_event_channel,
    pub(super) events: Arc<Events>,
    /// The channel was made for this identifier, which is synchronous.
    pub(super) is_own: bool,
}

impl Target {
    /// The channel that a program names. For NULL, makes one for the identifier.
    ///
    /// # Errors
    /// `EINVAL`: there is no such channel.
    pub(super) fn given(channel: *mut rdma_event_channel) -> Result<Self, Errno> {
        if channel.is_null() {
            return Self::own();
        }
        let events = Channels::lock().get(channel)?.ok_or(Errno::INVALID)?;
        Ok(Target { channel, events, is_own: false })
    }

    fn own() -> Result<Self, Errno> {
        let events = Arc::new(Events::new()?);
        Ok(Target { channel: Channels::lock().make(events.clone()), events, is_own: true })
    }

    /// The destination of the events of a connection that comes to a listener with this one.
    pub(super) fn of_connection(&self) -> Result<Self, Errno> {
        if self.is_own { Self::own() } else { Ok(self.clone()) }
    }

    /// Frees the channel of an identifier, if it is its own. The events go elsewhere, or the
    /// identifier is destroyed.
    pub(super) fn release(self) {
        if self.is_own {
            // SAFETY: the channel was made for this identifier alone.
            unsafe { rdma_destroy_event_channel(self.channel) };
        }
    }
}

/// The identifier that counts an event until it is acknowledged. A connection request counts for
/// the listener, because programs reject a connection and destroy its identifier before they
/// acknowledge the event.
///
/// # Safety
/// The listener of the event or, if there is none, the identifier is not destroyed meanwhile.
unsafe fn counted_on<'a>(event: &rdma_cm_event) -> &'a Acknowledgements {
    let id = if event.listen_id.is_null() { event.id } else { event.listen_id };
    // SAFETY: by the caller's promise. Only the counter is borrowed, because other threads may use
    // the identifier.
    unsafe { &(*id.cast::<Id>()).events }
}

#[unsafe(no_mangle)]
pub extern "C" fn rdma_create_event_channel() -> *mut rdma_event_channel {
    errno::pointer(|| {
        let events = Arc::new(Events::new()?);
        Ok(Channels::lock().make(events))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_destroy_event_channel(channel: *mut rdma_event_channel) {
    let _uncancelled = Uncancelled::begin();
    if Channels::lock().remove(channel) {
        // SAFETY: `Channels::make` has made the channel, and nobody else has removed it.
        drop(unsafe { Box::from_raw(channel) });
    }
}

/// `poll` ignores this descriptor.
const NEVER_READY: c_int = -1;

/// Waits for the next event. Returns -1 with `errno`: `EAGAIN` if there is no event and the program
/// has made the descriptor non-blocking, `EINVAL` if nobody has made the channel. Waits forever if
/// the channel is destroyed.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn rdma_get_cm_event(
    channel: *mut rdma_event_channel,
    event: *mut *mut rdma_cm_event,
) -> c_int {
    cancel::until(|| {
        // SAFETY: by the caller's promise.
        let event = unsafe { event.as_mut() }.ok_or(Errno::INVALID)?;
        let Some(events) = Channels::lock().get(channel)? else { return Ok(Some(NEVER_READY)) };
        let Some(taken) = events.look()? else { return Ok(Some(events.0.fd())) };
        *event = taken;
        Ok(None)
    })
}

/// Acknowledges an event, and frees it. The identifier may be destroyed once all its events are
/// acknowledged; a connection request counts for the listener.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_ack_cm_event(event: *mut rdma_cm_event) -> c_int {
    errno::number(|| {
        if event.is_null() {
            return Err(Errno::INVALID);
        }
        // SAFETY: by the caller's promise `rdma_get_cm_event` has returned the event, and it was
        // not acknowledged.
        let event = unsafe { Box::from_raw(event.cast::<Event>()) };
        // SAFETY: the identifier that counts the event exists until the event is acknowledged.
        unsafe { counted_on(&event.base) }.take(1);
        Ok(0)
    })
}

/// Acknowledges the latest event of a synchronous identifier.
pub(super) fn acknowledge(id: &mut rdma_cm_id) {
    let event = std::mem::replace(&mut id.event, ptr::null_mut());
    if !event.is_null() {
        // SAFETY: the event was taken for this identifier, and is acknowledged only here.
        unsafe { rdma_ack_cm_event(event) };
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn rdma_event_str(event: c_int) -> *const c_char {
    let known = usize::try_from(event).ok().and_then(|event| NAMES.get(event));
    known.copied().unwrap_or(c"UNKNOWN EVENT").as_ptr()
}

//! Queue pair 1 of a device: one thread that takes its messages, and the connections that they
//! make.

use std::collections::HashMap;
use std::ffi::c_int;
use std::net::IpAddr;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

use braid::{RoceError, RoceGsi};
use braid_transport::{CmEvent, CmEventKind, CmId, CmManager};
use braid_wire::{
    CmLookup, CmLookupAnswer, CmLookupStatus, CmRejectReason, CmReply, CmRequest, IpCmHeader, Time,
};

use super::super::devices;
use crate::context::Context;
use crate::errno::Errno;
use crate::process_exit;
use crate::running::Running;
use crate::threads::{self, lock_until};

/// The receiver of a connection's events.
pub(super) trait ConnectionEvents: Send + Sync {
    /// Takes an event.
    fn on_event(&self, kind: CmEventKind);
}

/// A listener.
pub(super) trait RequestEvents: Send + Sync {
    /// Whether calls to this address are for the listener.
    fn takes(&self, called: IpAddr) -> bool;

    /// Takes the request of a host.
    fn on_request(&self, link: &RoceLink, peer: IpAddr, request: &CmRequest);

    /// Takes the lookup of a host. `header`: the addresses that it names.
    fn on_lookup(&self, link: &RoceLink, peer: IpAddr, header: &IpCmHeader, lookup: &CmLookup);
}

/// The receiver of a connection's events.
pub(super) enum Owner {
    /// The thread that connects.
    Attempt(Sender<CmEventKind>),
    Connection(Weak<dyn ConnectionEvents>),
}

/// Queue pair 1 of a device. It is never closed.
pub(crate) struct Gsi {
    port: RoceGsi,
    pub(super) running: Arc<Running>,
    start: Instant,
    state: Mutex<GsiState>,
}

/// The connections and listeners. No other lock but the engine's is taken while this one is held.
struct GsiState {
    manager: CmManager,
    owners: HashMap<CmId, Owner>,
    listeners: HashMap<u64, Vec<Arc<dyn RequestEvents>>>,
}

/// All of this process, by the engines of their devices.
static ALL: Mutex<OpenGsis> = Mutex::new(OpenGsis { process: 0, all: Vec::new() });

struct OpenGsis {
    /// The process of the engines. A forked child has a copy of them.
    process: u32,
    all: Vec<Arc<Gsi>>,
}

impl Gsi {
    /// Queue pair 1 of the device that has an address. Opens it unless it is open.
    ///
    /// # Errors
    /// The port is taken, or the device does not start.
    pub(super) fn of(addr: IpAddr) -> Result<Arc<Self>, OpenError> {
        let open = devices::of(addr).map_err(OpenError::Device)?;
        // SAFETY: the contexts of rdma_cm are never closed.
        let context = unsafe { Context::of(open.context) }.map_err(OpenError::Device)?;
        let registry = context.open.registry().map_err(OpenError::Device)?;
        let running = &registry.running;
        let mut gsis = ALL.lock().unwrap_or_else(PoisonError::into_inner);
        let process = std::process::id();
        if gsis.process != process {
            // The threads of a parent process are not here.
            gsis.all.drain(..).for_each(std::mem::forget);
            gsis.process = process;
        }
        if let Some(gsi) = gsis.all.iter().find(|gsi| Arc::ptr_eq(&gsi.running, running)) {
            return Ok(gsi.clone());
        }
        let gsi = Gsi::open(running.clone(), context.open.device.guid())?;
        gsis.all.push(gsi.clone());
        Ok(gsi)
    }

    fn open(running: Arc<Running>, guid: u64) -> Result<Arc<Self>, OpenError> {
        let port = running.engine.roce_gsi().map_err(OpenError::Port)?;
        let mut key = [0; 16];
        getrandom::fill(&mut key).map_err(|_| OpenError::Device(Errno(libc::EIO)))?;
        let state = Mutex::new(GsiState {
            manager: CmManager::new(key, u64::from_be(guid), port.tag()),
            owners: HashMap::new(),
            listeners: HashMap::new(),
        });
        let gsi = Arc::new(Gsi { port, running, start: Instant::now(), state });
        process_exit::call_last(close_at_exit);
        let of_thread = gsi.clone();
        threads::spawn("braid-cm-mads", move || of_thread.run())
            .map_err(|_| OpenError::Device(Errno::NO_MEMORY))?;
        Ok(gsi)
    }

    /// Takes messages until the process ends.
    fn run(self: &Arc<Self>) -> ! {
        loop {
            let next = self.state().manager.next_timeout();
            let limit = next.map(|next| next.saturating_since(self.now()));
            let received = self.port.recv(limit);
            let events = {
                let mut state = self.state();
                let now = self.now();
                if let Some(mad) = received
                    && !state.manager.on_mad(now, mad.from, &mad.bytes)
                {
                    tracing::debug!(from = %mad.from, "a management datagram is malformed");
                }
                state.manager.on_timeout(now);
                self.send(&mut state);
                state.take_events()
            };
            events.into_iter().for_each(|(event, recipient)| self.deliver(event, recipient));
        }
    }

    fn deliver(self: &Arc<Self>, event: CmEvent, recipient: Recipient) {
        let CmEvent { id, peer, kind } = event;
        match (recipient, kind) {
            (Recipient::Listeners(listeners), CmEventKind::Requested(request)) => {
                let called = IpAddr::V6(request.path.remote).to_canonical();
                let link = RoceLink { gsi: self.clone(), id };
                match listeners.iter().find(|listener| listener.takes(called)) {
                    Some(listener) => listener.on_request(&link, peer, &request),
                    None => link.refuse(CmRejectReason::INVALID_SERVICE),
                }
            }
            (Recipient::Listeners(listeners), CmEventKind::LookedUp(lookup)) => {
                let link = RoceLink { gsi: self.clone(), id };
                let found = IpCmHeader::decode(&lookup.private_data).and_then(|header| {
                    let takes = |listener: &&Arc<dyn RequestEvents>| listener.takes(header.to);
                    Some((listeners.iter().find(takes)?, header))
                });
                match found {
                    Some((listener, header)) => listener.on_lookup(&link, peer, &header, &lookup),
                    None => link.refuse_lookup(&lookup, CmLookupStatus::UNSUPPORTED),
                }
            }
            (Recipient::Connection(connection), kind) => connection.on_event(kind),
            _ => {}
        }
    }

    /// Calls `change` with the protocol's state and sends its messages.
    fn with<T>(&self, change: impl FnOnce(&mut GsiState, Time) -> T) -> T {
        let result = {
            let mut state = self.state();
            let result = change(&mut state, self.now());
            self.send(&mut state);
            result
        };
        // The thread may have to wake up sooner than it knows.
        self.port.wake();
        result
    }

    fn send(&self, state: &mut GsiState) {
        while let Some((to, mad)) = state.manager.poll_transmit() {
            if let Err(error) = self.port.send(to, &mad) {
                tracing::debug!(%to, %error, "a management datagram does not leave");
            }
        }
    }

    /// Asks a host for a connection.
    pub(super) fn connect(&self, to: IpAddr, request: CmRequest, owner: Owner) -> CmId {
        self.with(|state, now| {
            let id = state.manager.connect(now, to, request);
            state.owners.insert(id, owner);
            id
        })
    }

    /// Looks up the queue pair that takes datagrams at a host.
    pub(super) fn look_up(&self, to: IpAddr, lookup: CmLookup, owner: Owner) -> CmId {
        self.with(|state, now| {
            let id = state.manager.look_up(now, to, lookup);
            state.owners.insert(id, owner);
            id
        })
    }

    /// Replaces the receiver of a connection's events.
    pub(super) fn set_owner(&self, id: CmId, owner: Owner) {
        self.state().owners.insert(id, owner);
    }

    /// Removes the receiver of a connection's events, which has had the last one.
    pub(super) fn remove_owner(&self, id: CmId) {
        self.state().owners.remove(&id);
    }

    /// Adds a listener to a service.
    ///
    /// # Errors
    /// The process that reads the port does not answer.
    pub(super) fn listen(
        self: &Arc<Self>,
        service: u64,
        listener: Arc<dyn RequestEvents>,
    ) -> Result<RoceService, OpenError> {
        self.port.serve(service).map_err(OpenError::Port)?;
        self.with(|state, _| {
            state.manager.listen(service);
            state.listeners.entry(service).or_default().push(listener.clone());
        });
        Ok(RoceService { gsi: self.clone(), service, listener })
    }

    fn state(&self) -> MutexGuard<'_, GsiState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Time {
        Time::ZERO + self.start.elapsed()
    }
}

/// Ends all connections as the process ends. Waits for locks until `until`.
fn close_at_exit(until: Instant) {
    let Some(gsis) = lock_until(&ALL, until) else { return };
    if gsis.process != std::process::id() {
        return;
    }
    for gsi in &gsis.all {
        let Some(mut state) = lock_until(&gsi.state, until) else { continue };
        state.manager.abandon(gsi.now());
        while let Some((to, mad)) = state.manager.poll_transmit() {
            gsi.port.send_at_exit(to, &mad, until);
        }
    }
}

/// The reason why queue pair 1 of a device is not open.
#[derive(Debug, thiserror::Error)]
pub(super) enum OpenError {
    #[error("the device does not start: {0:?}")]
    Device(Errno),
    #[error(transparent)]
    Port(RoceError),
}

impl OpenError {
    /// The errno value of the error.
    pub(super) fn errno(&self) -> c_int {
        match self {
            OpenError::Device(errno) => errno.0,
            OpenError::Port(RoceError::Unreachable { .. }) => libc::EHOSTUNREACH,
            OpenError::Port(error) => Errno::from(error).0,
        }
    }
}

/// The receiver of an event.
enum Recipient {
    Listeners(Vec<Arc<dyn RequestEvents>>),
    Connection(Arc<dyn ConnectionEvents>),
}

impl GsiState {
    /// Takes the events, except those that a waiting thread gets.
    fn take_events(&mut self) -> Vec<(CmEvent, Recipient)> {
        let mut events = Vec::new();
        while let Some(event) = self.manager.poll_event() {
            let service = match &event.kind {
                CmEventKind::Requested(request) => Some(request.service),
                CmEventKind::LookedUp(lookup) => Some(lookup.service),
                _ => None,
            };
            if let Some(service) = service {
                let listeners = self.listeners.get(&service).cloned().unwrap_or_default();
                events.push((event, Recipient::Listeners(listeners)));
                continue;
            }
            let is_last = !matches!(event.kind, CmEventKind::Replied(_) | CmEventKind::Established);
            match self.owners.get(&event.id) {
                Some(Owner::Attempt(sender)) => {
                    // The thread has the attempt given up if it does not wait.
                    let _ = sender.send(event.kind);
                    continue;
                }
                Some(Owner::Connection(shared)) => {
                    let id = event.id;
                    if let Some(shared) = shared.upgrade() {
                        events.push((event, Recipient::Connection(shared)));
                    }
                    if is_last {
                        self.owners.remove(&id);
                    }
                }
                None => {}
            }
        }
        events
    }
}

/// A connection, or an attempt at one.
#[derive(Clone)]
pub(in crate::cm) struct RoceLink {
    pub(super) gsi: Arc<Gsi>,
    pub(super) id: CmId,
}

impl RoceLink {
    pub(in crate::cm) fn is(&self, other: &Self) -> bool {
        self.id == other.id && Arc::ptr_eq(&self.gsi, &other.gsi)
    }

    /// Accepts the request.
    ///
    /// # Errors
    /// `ECONNRESET`: the other end is gone.
    pub(super) fn accept(&self, reply: CmReply) -> Result<(), Errno> {
        let is_accepted = self.gsi.with(|state, now| state.manager.accept(now, self.id, reply));
        if is_accepted { Ok(()) } else { Err(Errno(libc::ECONNRESET)) }
    }

    /// Refuses the request, as the program says.
    ///
    /// # Errors
    /// `ECONNRESET`: the other end is gone.
    pub(in crate::cm) fn reject(&self, private_data: &[u8]) -> Result<(), Errno> {
        let is_refused = self.gsi.with(|state, now| {
            state.owners.remove(&self.id);
            state.manager.reject(now, self.id, CmRejectReason::CONSUMER, private_data)
        });
        if is_refused { Ok(()) } else { Err(Errno(libc::ECONNRESET)) }
    }

    /// Refuses the request.
    pub(super) fn refuse(&self, reason: CmRejectReason) {
        self.gsi.with(|state, now| state.manager.reject(now, self.id, reason, &[]));
    }

    /// Answers the lookup.
    ///
    /// # Errors
    /// `ECONNRESET`: the other end does not wait any longer.
    pub(super) fn answer(&self, answer: CmLookupAnswer) -> Result<(), Errno> {
        let is_answered = self.gsi.with(|state, now| {
            state.owners.remove(&self.id);
            state.manager.answer(now, self.id, answer)
        });
        if is_answered { Ok(()) } else { Err(Errno(libc::ECONNRESET)) }
    }

    /// Answers the lookup without a queue pair.
    pub(super) fn refuse_lookup(&self, lookup: &CmLookup, status: CmLookupStatus) {
        // If nobody waits any longer, nobody misses the answer.
        let _ = self.answer(CmLookupAnswer::negative(lookup, status));
    }

    /// Tells the other end that this one is ready.
    ///
    /// # Errors
    /// `ECONNRESET`: the other end is gone.
    pub(in crate::cm) fn ready(&self) -> Result<(), Errno> {
        let is_ready = self.gsi.with(|state, _| state.manager.ready(self.id));
        if is_ready { Ok(()) } else { Err(Errno(libc::ECONNRESET)) }
    }

    /// Ends the connection, whose end is reported, or the attempt at one, whose end is not.
    pub(in crate::cm) fn close(&self) {
        self.gsi.with(|state, now| {
            if !state.manager.disconnect(now, self.id) {
                state.manager.forget(now, self.id);
                state.owners.remove(&self.id);
            }
        });
    }
}

/// A service that a listener serves, until this value is dropped.
pub(in crate::cm) struct RoceService {
    gsi: Arc<Gsi>,
    service: u64,
    listener: Arc<dyn RequestEvents>,
}

impl Drop for RoceService {
    fn drop(&mut self) {
        let Self { gsi, service, listener } = self;
        gsi.with(|state, _| {
            let Some(listeners) = state.listeners.get_mut(service) else { return };
            listeners.retain(|other| !Arc::ptr_eq(other, listener));
            if listeners.is_empty() {
                state.listeners.remove(service);
                state.manager.stop_listening(*service);
            }
        });
    }
}

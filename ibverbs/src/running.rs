//! The engine of an open device, which starts with the first object that needs it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};
use std::thread::{self, JoinHandle};

use braid::{Engine, spawn_without_signals};
use braid_verbs::abi::ibv_srq;

use crate::async_events::{AsyncEvents, Element};
use crate::connect::{self, Inbox, Message, Watch};
use crate::datagram::Flow;
use crate::device::Device;
use crate::ending;
use crate::errno::Errno;
use crate::gid_table::GidTable;
use crate::numbers::{self, Numbers};
use crate::qp::QueuePair;
use crate::routes::Routes;
use crate::settings::Settings;

/// Connection requests that wait for the control thread.
const BACKLOG: usize = 4096;

/// An engine, its queue pairs by number, and the thread that connects them.
pub(crate) struct Running {
    pub(crate) engine: Engine,
    /// Of its device.
    pub(crate) gids: GidTable,
    pub(crate) settings: Settings,
    pub(crate) events: Arc<AsyncEvents>,
    pub(crate) routes: Routes,
    pub(crate) srqs: Srqs,
    pub(crate) flows: Flows,
    numbers: Mutex<Numbers>,
    qps: RwLock<HashMap<u32, Weak<QueuePair>>>,
    control: Arc<Inbox>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Running {
    /// # Errors
    /// `EADDRINUSE`: all ports are taken; `EIO`: what the log says.
    pub(crate) fn start(
        device: &Device,
        mut settings: Settings,
        events: Arc<AsyncEvents>,
    ) -> Result<Arc<Self>, Errno> {
        settings.engine.second_addr = device.interface.second;
        settings.engine.rails.clone_from(&device.interface.rails);
        let (engine, slot) =
            numbers::claim(&settings.engine, device.interface.addr).map_err(|error| {
                tracing::error!(%error, "no engine for this device");
                Errno(libc::EIO)
            })?;
        let listener = engine.listen(BACKLOG).map_err(|error| {
            tracing::error!(%error, "no connection can reach this device");
            Errno(libc::EIO)
        })?;
        let control = Arc::new(Inbox::new()?);
        let watch = Watch::new()?;
        watch.add(&*control)?;
        watch.add(&listener)?;
        watch.add(engine.event_fd().map_err(|_| Errno::NO_MEMORY)?)?;
        let running = Arc::new(Running {
            engine,
            gids: device.gids.clone(),
            settings,
            events,
            routes: Routes::new(),
            srqs: Srqs::default(),
            flows: Flows::default(),
            numbers: Mutex::new(Numbers::new(slot)),
            qps: RwLock::default(),
            control: control.clone(),
            thread: Mutex::default(),
        });
        let of = Arc::downgrade(&running);
        let thread = thread::Builder::new().name("braid-verbs".to_owned());
        let run = move || connect::run(&of, &listener, &control, watch);
        let thread = spawn_without_signals(thread, run);
        *running.thread() = Some(thread.map_err(|_| Errno::NO_MEMORY)?);
        ending::enter(&running);
        Ok(running)
    }

    /// Lets go of it. Who lets go last ends the engine, which waits until peers have heard of it: that is to be a thread of the program, as a
    /// process may end before the control thread does.
    pub(crate) fn release(self: Arc<Self>) {
        let control = self.control.clone();
        let turn = control.turn();
        let last = Arc::into_inner(self);
        drop(turn); // the thread ends in its next one
        drop(last);
    }

    pub(crate) fn tell(&self, message: Message) {
        self.control.push(message);
    }

    pub(crate) fn take_number(&self) -> Option<u32> {
        self.numbers().take()
    }

    pub(crate) fn give_back(&self, number: u32) {
        self.qps.write().unwrap_or_else(PoisonError::into_inner).remove(&number);
        self.numbers().give_back(number);
    }

    pub(crate) fn enter(&self, qp: &Arc<QueuePair>) {
        let mut qps = self.qps.write().unwrap_or_else(PoisonError::into_inner);
        qps.insert(qp.number, Arc::downgrade(qp));
    }

    pub(crate) fn qp(&self, number: u32) -> Option<Arc<QueuePair>> {
        self.qps.read().unwrap_or_else(PoisonError::into_inner).get(&number)?.upgrade()
    }

    fn numbers(&self) -> MutexGuard<'_, Numbers> {
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn thread(&self) -> MutexGuard<'_, Option<JoinHandle<()>>> {
        self.thread.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.tell(Message::Close);
        let Some(thread) = self.thread().take() else { return };
        if thread.thread().id() != thread::current().id() {
            // One that has panicked has said so already.
            let _ = thread.join();
        }
    }
}

/// The shared receive queues that exist, by the engine's numbers of them.
#[derive(Default)]
pub(crate) struct Srqs(Mutex<HashMap<u32, Element>>);

// SAFETY: the pointers are only handed to the program, while the queues exist.
unsafe impl Send for Srqs {}
// SAFETY: as above, and behind a lock.
unsafe impl Sync for Srqs {}

impl Srqs {
    pub(crate) fn enter(&self, number: u32, srq: *mut ibv_srq) {
        self.all().insert(number, Element::Srq(srq));
    }

    pub(crate) fn leave(&self, number: u32) {
        self.all().remove(&number);
    }

    /// Tells the program that this has happened to it, unless it is being destroyed.
    pub(crate) fn happened(&self, number: u32, event: u32, events: &AsyncEvents) {
        if let Some(element) = self.all().get(&number) {
            events.push(event, *element);
        }
    }

    fn all(&self) -> MutexGuard<'_, HashMap<u32, Element>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The flows of datagrams, by the engine's numbers of them.
#[derive(Default)]
pub(crate) struct Flows(RwLock<HashMap<u32, Weak<Flow>>>);

impl Flows {
    pub(crate) fn enter(&self, flow: &Arc<Flow>) {
        let mut flows = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if flows.len() == flows.capacity() {
            flows.retain(|_, flow| flow.strong_count() > 0);
        }
        flows.insert(flow.id(), Arc::downgrade(flow));
    }

    pub(crate) fn get(&self, id: u32) -> Option<Arc<Flow>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(&id)?.upgrade()
    }
}

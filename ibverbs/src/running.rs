//! The engine of an open device, and the state that the objects of the device share.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use braid::{Engine, QpId};
use braid_verbs::abi::ibv_srq;

use crate::async_events::{AsyncEvents, Element};
use crate::connect::inbox::{ControlMessage, Inbox};
use crate::device::Device;
use crate::errno::Errno;
use crate::gid_table::GidTable;
use crate::numbers::{self, Numbers};
use crate::routes::Routes;
use crate::settings::Settings;

/// Time for which an address that did not answer is not asked again. Queue pairs of one RNIC mostly
/// lead to the same one.
const SILENCE: Duration = Duration::from_secs(30);

/// An engine, with the names by which programs know its objects.
pub(crate) struct Running {
    pub(crate) engine: Engine,
    /// The GIDs of the device.
    pub(crate) gids: GidTable,
    pub(crate) settings: Settings,
    pub(crate) events: Arc<AsyncEvents>,
    pub(crate) routes: Routes,
    pub(crate) srqs: Srqs,
    pub(crate) inbox: Arc<Inbox>,
    numbers: Mutex<Numbers>,
    /// Whether Braid processes have answered at addresses, and until when that is believed. `None`:
    /// for good.
    braid_peers: Mutex<HashMap<SocketAddr, (bool, Option<Instant>)>>,
}

impl Running {
    /// Starts the engine.
    ///
    /// # Errors
    /// `EIO`: the engine does not start, for the reason that the log gives; or that of a system
    /// call.
    pub(crate) fn start(
        device: &Device,
        mut settings: Settings,
        events: Arc<AsyncEvents>,
    ) -> Result<Self, Errno> {
        settings.engine.second_addr = device.interface.second;
        settings.engine.rails.clone_from(&device.interface.rails);
        let (engine, slot) =
            numbers::claim(&settings.engine, device.interface.addr).map_err(|error| {
                tracing::error!(%error, "the engine of this device does not start");
                Errno(libc::EIO)
            })?;
        Ok(Running {
            engine,
            gids: device.gids.clone(),
            settings,
            events,
            routes: Routes::new(),
            srqs: Srqs::default(),
            inbox: Arc::new(Inbox::new()?),
            numbers: Mutex::new(Numbers::new(slot)),
            braid_peers: Mutex::default(),
        })
    }

    /// Gives the control thread something to do.
    pub(crate) fn send_control(&self, message: ControlMessage) {
        self.inbox.push(message);
    }

    /// The number of the program's queue pair behind one of the engine's.
    pub(crate) fn number_of(&self, engine: u32) -> u32 {
        self.routes.get(QpId::new(engine)).number()
    }

    /// A free number for a queue pair. `None`: all numbers are in use.
    pub(crate) fn take_number(&self) -> Option<u32> {
        self.numbers().take()
    }

    pub(crate) fn give_back(&self, number: u32) {
        self.numbers().give_back(number);
    }

    /// Whether a Braid process has answered at this address. `None`: that has to be found out.
    pub(crate) fn is_braid_at(&self, addr: SocketAddr) -> Option<bool> {
        let peers = self.braid_peers.lock().unwrap_or_else(PoisonError::into_inner);
        let (is_braid, until) = *peers.get(&addr)?;
        until.is_none_or(|until| Instant::now() < until).then_some(is_braid)
    }

    pub(crate) fn found_at(&self, addr: SocketAddr, is_braid: bool) {
        let until = (!is_braid).then(|| Instant::now() + SILENCE);
        let mut peers = self.braid_peers.lock().unwrap_or_else(PoisonError::into_inner);
        peers.insert(addr, (is_braid, until));
    }

    fn numbers(&self) -> MutexGuard<'_, Numbers> {
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The shared receive queues of programs, by the engine's numbers.
#[derive(Default)]
pub(crate) struct Srqs(Mutex<HashMap<u32, Element>>);

// SAFETY: the pointers are only handed to the program, and only while the queues exist.
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

    /// Reports an event of a queue to the program, unless the queue is being destroyed.
    pub(crate) fn report(&self, number: u32, event: u32, events: &AsyncEvents) {
        if let Some(element) = self.all().get(&number) {
            events.push(event, *element);
        }
    }

    fn all(&self) -> MutexGuard<'_, HashMap<u32, Element>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

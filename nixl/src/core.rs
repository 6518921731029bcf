//! The engine of an agent, its peers and its memory. NIXL's threads and the service thread share
//! it.

use std::collections::HashMap;
use std::ffi::c_int;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use braid::{Access, ConnectionRequest, Engine, MemoryRegion, ProtectionDomain, QpId};
use nix::sys::eventfd::{EfdFlags, EventFd};

use crate::addresses::ConnInfo;
use crate::connection::Connection;
use crate::cost::{Costs, Estimate};
use crate::frame::{self, MAX_NOTIFICATION, Notification};
use crate::inbox::Inbox;
use crate::memory::{Described, MemoryKind, Registered, Target, covers};
use crate::settings::Settings;
use crate::status::{Error, SUCCESS};
use crate::transfer::{Flight, Operation, Pair, Plan, Transfer};

/// Time for the delivery of notifications when an agent or a connection ends.
const FLUSH: Duration = Duration::from_secs(1);

/// The part of a backend that the service thread uses, too.
pub(crate) struct Core {
    name: Vec<u8>,
    settings: Settings,
    info: ConnInfo,
    peers: Mutex<HashMap<Vec<u8>, Peer>>,
    /// The registered memory by key.
    memory: Mutex<HashMap<u32, Weak<MemoryRegion>>>,
    /// The transfers within this agent.
    own_costs: Arc<Costs>,
    inbox: Inbox,
    pd: ProtectionDomain,
    engine: Engine,
    wake: EventFd,
    is_stopping: AtomicBool,
}

/// An agent whose connection information is loaded.
struct Peer {
    info: ConnInfo,
    connection: Option<Arc<Connection>>,
    costs: Arc<Costs>,
}

impl Core {
    pub(crate) fn new(
        name: &[u8],
        settings: Settings,
        info: ConnInfo,
        inbox: Inbox,
        (engine, pd): (Engine, ProtectionDomain),
    ) -> io::Result<Self> {
        let wake = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
        Ok(Core {
            name: name.to_owned(),
            settings,
            info,
            peers: Mutex::default(),
            memory: Mutex::default(),
            own_costs: Arc::default(),
            inbox,
            pd,
            engine,
            wake,
            is_stopping: AtomicBool::new(false),
        })
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Registers memory of NIXL's user.
    pub(crate) fn register(&self, memory: Described) -> Result<Registered, Error> {
        let Described { kind, addr, len, device } = memory;
        let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE | Access::REMOTE_READ;
        let region = match kind {
            MemoryKind::Dram => {
                let start = ptr::with_exposed_provenance_mut(addr as usize);
                // SAFETY: NIXL's user promises to keep the memory mapped and writable until it is
                // deregistered. No reference to it is made here.
                unsafe { self.pd.register(start, len, access) }
            }
            // SAFETY: as above, allocated instead of mapped.
            MemoryKind::Vram => unsafe { self.pd.register_cuda(addr, len, access) },
        };
        let region =
            region.map_err(|source| Error::Register { addr, len, source: Box::new(source) })?;
        if let Some(gpu) = region.gpu().filter(|gpu| u64::from(*gpu) != device) {
            // Addresses of all GPUs differ. Programs pass ranks, too.
            tracing::info!(device, gpu, "memory is of another GPU than its descriptor says");
        }
        let region = Arc::new(region);
        self.memory().insert(region.lkey(), Arc::downgrade(&region));
        Ok(Registered { region })
    }

    /// Deregisters memory.
    pub(crate) fn deregister(&self, registered: Registered) {
        self.memory().remove(&registered.region.lkey());
    }

    /// Describes the registered region that has all of this memory. `None`: there is none.
    pub(crate) fn query(&self, memory: Described) -> Option<[(&'static str, String); 3]> {
        let Described { kind, addr, len, .. } = memory;
        // Locked until the reference is gone, so that deregistering does not miss it.
        let known = self.memory();
        let region = known.values().filter_map(Weak::upgrade).find(|region| {
            MemoryKind::of_region(region) == kind
                && covers((region.addr(), region.len() as u64), addr, len as u64)
        })?;
        let (addr, len) = (format!("{:#x}", region.addr()), region.len().to_string());
        Some([("memory", kind.name().to_owned()), ("addr", addr), ("len", len)])
    }

    fn memory(&self) -> MutexGuard<'_, HashMap<u32, Weak<MemoryRegion>>> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connection information for peers.
    pub(crate) fn conn_info(&self) -> String {
        self.info.encode()
    }

    /// Remembers where a peer can be reached.
    pub(crate) fn load_conn_info(&self, agent: &[u8], info: &[u8]) -> Result<(), Error> {
        let malformed = |why| {
            let what = "the connection information";
            Error::Malformed { what, agent: text(agent), why }
        };
        let info = ConnInfo::decode(info).map_err(malformed)?;
        let mut peers = self.peers();
        if peers.contains_key(agent) {
            return Err(Error::Loaded { agent: text(agent) });
        }
        let costs = Arc::default();
        peers.insert(agent.to_owned(), Peer { info, connection: None, costs });
        Ok(())
    }

    /// Decodes the memory of a peer.
    pub(crate) fn load_remote(
        &self,
        kind: MemoryKind,
        agent: &[u8],
        data: &[u8],
    ) -> Result<Target, Error> {
        let malformed =
            |why| Error::Malformed { what: "the memory description", agent: text(agent), why };
        Target::remote(agent, kind, data).map_err(malformed)
    }

    /// Connects to a peer and waits for that.
    pub(crate) fn connect(&self, agent: &[u8]) -> Result<(), Error> {
        if agent == self.name {
            return Ok(());
        }
        let why = "it was not established, see above".to_owned();
        let failed = |_| Error::Ended { agent: text(agent), why, is_refused: false };
        self.connection(agent)?.wait_connected().map_err(failed)
    }

    /// Forgets a peer.
    pub(crate) fn disconnect(&self, agent: &[u8]) -> Result<(), Error> {
        if agent == self.name {
            return Ok(());
        }
        let peer = self.peers().remove(agent);
        let peer = peer.ok_or_else(|| stranger(agent))?;
        if let Some(connection) = peer.connection {
            connection.close(FLUSH);
        }
        Ok(())
    }

    /// Prepares a transfer, and begins to connect to its peer.
    pub(crate) fn prepare<'a>(
        &self,
        operation: Operation,
        agent: &[u8],
        pairs: impl ExactSizeIterator<Item = Result<Pair<'a>, Error>>,
    ) -> Result<Transfer, Error> {
        let is_own = agent == self.name;
        let plan = Plan::new(operation, agent, is_own, pairs)?;
        if !is_own {
            self.connection(agent)?;
        }
        Ok(Transfer::new(plan))
    }

    /// Posts a transfer. Returns NIXL's code.
    pub(crate) fn post(
        &self,
        transfer: &Transfer,
        notification: Option<&[u8]>,
    ) -> Result<c_int, Error> {
        if transfer.flight().is_some_and(|flight| flight.code() > SUCCESS) {
            return Err(Error::Active);
        }
        let frames = notification.map(frames).transpose()?.unwrap_or_default();
        let plan = &transfer.plan;
        if plan.agent == self.name {
            let begun = Instant::now();
            plan.copy()?;
            self.own_costs.add(plan.class(), plan.bytes(), begun.elapsed());
            if let Some(text) = notification {
                self.inbox.push((self.name.clone(), text.to_owned()));
            }
            transfer.set_flight(Flight::ended(SUCCESS));
            return Ok(SUCCESS);
        }
        let connection = self.connection(&plan.agent)?;
        let costs = self.costs(&plan.agent).ok_or_else(|| stranger(&plan.agent))?;
        let flight = connection.post(plan.clone(), frames, &costs);
        self.wake_for(&connection);
        transfer.set_flight(flight.clone());
        Ok(flight.code())
    }

    /// NIXL's code of a posted transfer.
    pub(crate) fn check(&self, transfer: &Transfer) -> Result<c_int, Error> {
        let flight = transfer.flight().ok_or(Error::Null("a posted transfer"))?;
        if flight.code() > SUCCESS {
            let peers = self.peers();
            let connection = peers.get(&transfer.plan.agent).and_then(|p| p.connection.clone());
            drop(peers);
            if let Some(connection) = connection {
                connection.poll();
            }
        }
        Ok(flight.code())
    }

    /// Estimates the duration of a transfer from those that have ended.
    pub(crate) fn estimate(&self, transfer: &Transfer) -> Result<Estimate, Error> {
        let plan = &transfer.plan;
        let costs = self.costs(&plan.agent).ok_or_else(|| stranger(&plan.agent))?;
        let (operation, kind) = plan.class();
        costs.estimate(plan.class(), plan.bytes()).ok_or_else(|| Error::Unmeasured {
            operation: operation.name(),
            kind: kind.name(),
            agent: text(&plan.agent),
        })
    }

    /// The measured transfers with an agent. `None`: it is unknown.
    fn costs(&self, agent: &[u8]) -> Option<Arc<Costs>> {
        if agent == self.name {
            return Some(self.own_costs.clone());
        }
        self.peers().get(agent).map(|peer| peer.costs.clone())
    }

    /// Takes all notifications.
    pub(crate) fn notifications(&self) -> Vec<Notification> {
        self.inbox.take()
    }

    /// Sends a notification.
    pub(crate) fn notify(&self, agent: &[u8], message: &[u8]) -> Result<(), Error> {
        let frames = frames(message)?;
        if agent == self.name {
            self.inbox.push((self.name.clone(), message.to_owned()));
            return Ok(());
        }
        let connection = self.connection(agent)?;
        connection.notify(frames);
        self.wake_for(&connection);
        Ok(())
    }

    /// The connection to a peer. Begins one if there is none, or if it has ended.
    fn connection(&self, agent: &[u8]) -> Result<Arc<Connection>, Error> {
        let mut peers = self.peers();
        let peer = peers.get_mut(agent).ok_or_else(|| stranger(agent))?;
        if let Some(connection) = peer.connection.as_ref().filter(|known| !known.has_ended()) {
            return Ok(connection.clone());
        }
        let (engine, pd, settings) = (&self.engine, &self.pd, &self.settings);
        let connection = Connection::begin(engine, pd, settings, &self.name, agent, &peer.info)?;
        peer.connection = Some(connection.clone());
        drop(peers);
        self.wake_for(&connection);
        Ok(connection)
    }

    fn peers(&self) -> MutexGuard<'_, HashMap<Vec<u8>, Peer>> {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn connections(&self) -> Vec<Arc<Connection>> {
        self.peers().values().filter_map(|peer| peer.connection.clone()).collect()
    }

    /// Delivers what was posted, for a limited time, and ends all connections.
    pub(crate) fn close_connections(&self) {
        let until = Instant::now() + FLUSH;
        for connection in self.connections() {
            connection.close(until.saturating_duration_since(Instant::now()));
        }
    }
}

/// The part of the service thread.
impl Core {
    pub(crate) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Acquire)
    }

    /// Ends the service thread.
    pub(crate) fn stop(&self) {
        self.is_stopping.store(true, Ordering::Release);
        self.wake_service();
    }

    pub(crate) fn wake(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    pub(crate) fn clear_wake(&self) {
        // Reading fails if the descriptor is clear.
        let _ = self.wake.read();
    }

    fn wake_for(&self, connection: &Connection) {
        if connection.has_backlog() {
            self.wake_service();
        }
    }

    fn wake_service(&self) {
        // Writing fails if the count is as high as possible, which wakes, too.
        let _ = self.wake.write(1);
    }

    pub(crate) fn connections_with_backlog(&self) -> Vec<Arc<Connection>> {
        let mut all = self.connections();
        all.retain(|connection| connection.has_backlog());
        all
    }

    pub(crate) fn accept(&self, request: ConnectionRequest) {
        self.inbox.accept(request, &self.settings);
    }

    pub(crate) fn on_end(&self, qp: QpId) {
        self.inbox.on_end(qp);
        // The queue pair may be that of a connection, whose work then fails.
        for connection in self.connections() {
            connection.has_ended();
        }
    }

    pub(crate) fn on_receives_low(&self) {
        self.inbox.drain();
    }

    pub(crate) fn on_missed_events(&self) {
        self.inbox.find_ended();
        self.on_receives_low();
    }
}

fn frames(message: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
    let (len, max) = (message.len(), MAX_NOTIFICATION);
    if len > max { Err(Error::Notification { len, max }) } else { Ok(frame::notification(message)) }
}

fn stranger(agent: &[u8]) -> Error {
    Error::Stranger { agent: text(agent) }
}

fn text(agent: &[u8]) -> String {
    String::from_utf8_lossy(agent).into_owned()
}

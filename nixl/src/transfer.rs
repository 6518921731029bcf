//! Transfers: lists of descriptors as the work requests that move them.

use std::collections::HashMap;
use std::ffi::c_int;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

use braid::{MAX_MESSAGE, MemoryError, MemoryRegion, RemoteAddr, SendWr, Sge, wr};

use crate::cost::{Class, Costs};
use crate::memory::{MemoryKind, Registered, Target, covers};
use crate::status::{Error, IN_PROGRESS, SUCCESS};

/// The largest number of bytes of a work request with memory of a GPU. The engine copies each as a
/// whole before it sends, and the next ones meanwhile.
const MAX_GPU_PIECE: u64 = 4 << 20;
/// Bytes that are copied at a time between memory of this agent, if a GPU takes part.
const BOUNCE: usize = 1 << 20;

/// The direction of a transfer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Operation {
    /// From the peer to this process.
    Read,
    /// From this process to the peer.
    Write,
}

impl Operation {
    /// NIXL's word for it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Operation::Read => "READ",
            Operation::Write => "WRITE",
        }
    }
}

/// A pair of descriptors, as NIXL gives them.
pub(crate) struct Pair<'a> {
    pub(crate) local_addr: u64,
    pub(crate) remote_addr: u64,
    pub(crate) len: u64,
    pub(crate) local: &'a Registered,
    pub(crate) remote: &'a Target,
}

/// Memory that one work request moves.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Piece {
    local: Sge,
    remote: RemoteAddr,
}

/// The work of a transfer, which can be posted repeatedly.
pub(crate) struct Plan {
    pub(crate) operation: Operation,
    /// The agent at the far end.
    pub(crate) agent: Vec<u8>,
    /// Pairs that follow each other at both ends are one piece.
    pieces: Vec<Piece>,
    /// The bytes of all pieces.
    bytes: u64,
    /// Whether memory of a GPU takes part.
    kind: MemoryKind,
    /// The memory of this agent by key, if both ends are this agent.
    own: HashMap<u32, Weak<MemoryRegion>>,
}

impl Plan {
    /// Checks the descriptors and puts them together. `is_own`: the agent is this one.
    pub(crate) fn new<'a>(
        operation: Operation,
        agent: &[u8],
        is_own: bool,
        pairs: impl ExactSizeIterator<Item = Result<Pair<'a>, Error>>,
    ) -> Result<Self, Error> {
        if pairs.len() == 0 {
            return Err(Error::Empty);
        }
        let mut plan = Plan {
            operation,
            agent: agent.to_owned(),
            pieces: Vec::with_capacity(pairs.len()),
            bytes: 0,
            kind: MemoryKind::Dram,
            own: HashMap::new(),
        };
        for (index, pair) in pairs.enumerate() {
            let pair = pair?;
            check(index, agent, is_own, &pair)?;
            plan.add(&pair);
        }
        Ok(plan)
    }

    fn add(&mut self, pair: &Pair<'_>) {
        let lkey = pair.local.region.lkey();
        let rkey = match pair.remote {
            Target::Remote { region, .. } => region.rkey,
            Target::Here { region, .. } => self.add_own(lkey, &pair.local.region, region),
        };
        let has_gpu = pair.local.region.is_device() || pair.remote.kind() == MemoryKind::Vram;
        let most = if has_gpu { MAX_GPU_PIECE } else { MAX_MESSAGE };
        if has_gpu {
            self.kind = MemoryKind::Vram;
        }
        self.bytes += pair.len;
        let (mut local, mut remote, mut left) = (pair.local_addr, pair.remote_addr, pair.len);
        while left > 0 {
            let len = left.min(most);
            let piece = Piece {
                local: Sge { addr: local, len: len as u32, lkey },
                remote: RemoteAddr { addr: remote, rkey },
            };
            let joined = self.pieces.last().and_then(|last| last.joined(&piece, most));
            match (self.pieces.last_mut(), joined) {
                (Some(last), Some(all)) => *last = all,
                _ => self.pieces.push(piece),
            }
            (local, remote, left) = (local + len, remote + len, left - len);
        }
    }

    /// Remembers the memory of both ends, which are this agent. Returns the key of the far one.
    fn add_own(&mut self, lkey: u32, local: &Arc<MemoryRegion>, far: &Weak<MemoryRegion>) -> u32 {
        // A region without a key is gone, which `copy` finds.
        let rkey = far.upgrade().map_or(0, |region| region.lkey());
        self.own.insert(lkey, Arc::downgrade(local));
        self.own.insert(rkey, far.clone());
        rkey
    }

    /// The class of transfers that take as long for each byte.
    pub(crate) fn class(&self) -> Class {
        (self.operation, self.kind)
    }

    /// The bytes that it moves.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Number of work requests.
    pub(crate) fn len(&self) -> usize {
        self.pieces.len()
    }

    /// The work request of a piece.
    pub(crate) fn work(&self, index: usize, id: u64) -> SendWr {
        let Piece { local, remote } = self.pieces[index];
        match self.operation {
            Operation::Read => wr::read(id, [local], remote),
            Operation::Write => wr::write(id, [local], remote),
        }
    }

    /// Copies the memory, all of which belongs to this agent.
    pub(crate) fn copy(&self) -> Result<(), Error> {
        let mut bounce = Vec::new();
        for Piece { local, remote } in &self.pieces {
            let here = (self.own_region(local.lkey)?, local.addr);
            let there = (self.own_region(remote.rkey)?, remote.addr);
            let (from, to) = match self.operation {
                Operation::Read => (there, here),
                Operation::Write => (here, there),
            };
            let len = local.len as usize;
            if from.0.is_device() || to.0.is_device() {
                bounce.resize(BOUNCE, 0);
                copy_by_cuda((&from.0, from.1), (&to.0, to.1), len, &mut bounce)
                    .map_err(|source| Error::Copy { source })?;
                continue;
            }
            let start = ptr::with_exposed_provenance::<u8>(from.1 as usize);
            let end = ptr::with_exposed_provenance_mut::<u8>(to.1 as usize);
            // SAFETY: `check` has found both in registered memory, and it still is. NIXL's user has
            // promised to keep it mapped and writable until then, and not to use it during a
            // transfer.
            unsafe { ptr::copy(start, end, len) };
        }
        Ok(())
    }

    fn own_region(&self, key: u32) -> Result<Arc<MemoryRegion>, Error> {
        self.own.get(&key).and_then(Weak::upgrade).ok_or(Error::Deregistered)
    }
}

/// Copies `len` bytes between two regions and addresses in them, one of which is memory of a GPU.
/// Bytes that overlap are copied in an order that keeps them.
fn copy_by_cuda(
    (from, from_addr): (&MemoryRegion, u64),
    (to, to_addr): (&MemoryRegion, u64),
    len: usize,
    bounce: &mut [u8],
) -> Result<(), MemoryError> {
    let (from_at, to_at) = ((from_addr - from.addr()) as usize, (to_addr - to.addr()) as usize);
    let parts = len.div_ceil(bounce.len());
    for index in 0..parts {
        let index = if to_addr > from_addr { parts - 1 - index } else { index };
        let at = index * bounce.len();
        let part = &mut bounce[..(len - at).min(BOUNCE)];
        from.read_at(from_at + at, part)?;
        to.write_at(to_at + at, part)?;
    }
    Ok(())
}

impl Piece {
    /// The piece with another one behind it, if both are neighbours at both ends and have at most
    /// `most` bytes.
    fn joined(&self, next: &Piece, most: u64) -> Option<Piece> {
        let len = u64::from(self.local.len);
        let is_next = self.local.lkey == next.local.lkey
            && self.remote.rkey == next.remote.rkey
            && self.local.addr + len == next.local.addr
            && self.remote.addr + len == next.remote.addr
            && len + u64::from(next.local.len) <= most;
        let local = Sge { len: self.local.len.wrapping_add(next.local.len), ..self.local };
        is_next.then_some(Piece { local, ..*self })
    }
}

/// Checks that both ends of a pair are registered memory, and whose.
fn check(index: usize, agent: &[u8], is_own: bool, pair: &Pair<'_>) -> Result<(), Error> {
    let here = (pair.local.region.addr(), pair.local.region.len() as u64);
    let there = pair.remote.extent();
    for (extent, addr) in [(here, pair.local_addr), (there, pair.remote_addr)] {
        if !covers(extent, addr, pair.len) {
            let (region_addr, region_len) = extent;
            return Err(Error::Bounds { index, addr, len: pair.len, region_addr, region_len });
        }
    }
    let owner = match pair.remote {
        Target::Remote { agent: owner, .. } if !is_own && owner == agent => return Ok(()),
        Target::Here { .. } if is_own => return Ok(()),
        Target::Remote { agent: owner, .. } => String::from_utf8_lossy(owner).into(),
        Target::Here { .. } => "(this one)".to_owned(),
    };
    Err(Error::Owner { index, owner, agent: String::from_utf8_lossy(agent).into() })
}

/// A prepared transfer, as NIXL holds it.
pub(crate) struct Transfer {
    pub(crate) plan: Arc<Plan>,
    flight: Mutex<Option<Arc<Flight>>>,
}

impl Transfer {
    pub(crate) fn new(plan: Plan) -> Self {
        Transfer { plan: Arc::new(plan), flight: Mutex::new(None) }
    }

    /// The posted transfer. `None`: it was not posted.
    pub(crate) fn flight(&self) -> Option<Arc<Flight>> {
        self.slot().clone()
    }

    /// Remembers what was posted.
    pub(crate) fn set_flight(&self, flight: Arc<Flight>) {
        *self.slot() = Some(flight);
    }

    fn slot(&self) -> MutexGuard<'_, Option<Arc<Flight>>> {
        self.flight.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One posting of a transfer.
pub(crate) struct Flight {
    code: AtomicI32,
    is_cancelled: AtomicBool,
    /// `None`: the duration would include the time to connect.
    measurement: Option<Measurement>,
}

/// The measurement of a transfer's duration.
struct Measurement {
    costs: Arc<Costs>,
    class: Class,
    bytes: u64,
    begun: Instant,
}

impl Flight {
    /// A transfer that begins now. `costs` gets its duration.
    pub(crate) fn begun(plan: &Plan, costs: Option<Arc<Costs>>) -> Arc<Self> {
        let measurement = costs.map(|costs| Measurement {
            costs,
            class: plan.class(),
            bytes: plan.bytes(),
            begun: Instant::now(),
        });
        Flight::new(IN_PROGRESS, measurement)
    }

    pub(crate) fn ended(code: c_int) -> Arc<Self> {
        Flight::new(code, None)
    }

    fn new(code: c_int, measurement: Option<Measurement>) -> Arc<Self> {
        let code = AtomicI32::new(code);
        Arc::new(Flight { code, is_cancelled: AtomicBool::new(false), measurement })
    }

    /// NIXL's code: in progress, success or an error.
    pub(crate) fn code(&self) -> c_int {
        self.code.load(Ordering::Acquire)
    }

    pub(crate) fn end(&self, code: c_int) {
        if let Some(it) = self.measurement.as_ref().filter(|_| code == SUCCESS) {
            it.costs.add(it.class, it.bytes, it.begun.elapsed());
        }
        self.code.store(code, Ordering::Release);
    }

    /// Stops what was not given to the engine.
    pub(crate) fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::Release);
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.is_cancelled.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use braid::{Access, Engine, EngineConfig, RemoteRegion};

    use super::*;

    fn registered(len: usize) -> Registered {
        let bind = "127.0.0.1:0".parse().unwrap();
        let engine = Engine::new(EngineConfig { bind, ..EngineConfig::default() }).unwrap();
        let region = engine.alloc_pd().alloc_mr(len, Access::LOCAL_WRITE).unwrap();
        Registered { region: Arc::new(region) }
    }

    fn remote(len: u64) -> Target {
        let region = RemoteRegion { addr: 1 << 40, len, rkey: 9 };
        Target::remote(b"decode", MemoryKind::Dram, &region.to_bytes()).unwrap()
    }

    fn plan(local: &Registered, remote: &Target, pairs: &[(u64, u64, u64)]) -> Result<Plan, Error> {
        let (here, there) = (local.region.addr(), remote.extent().0);
        let pairs = pairs.iter().map(|&(from, to, len)| {
            Ok(Pair { local_addr: here + from, remote_addr: there + to, len, local, remote })
        });
        Plan::new(Operation::Write, b"decode", false, pairs)
    }

    #[test]
    fn neighbours_are_moved_together() {
        let (local, remote) = (registered(1 << 16), remote(1 << 16));
        let joined = plan(&local, &remote, &[(0, 0, 4096), (4096, 4096, 100), (4196, 4196, 5)]);
        let joined = joined.unwrap();
        assert_eq!(joined.len(), 1);
        assert_eq!(joined.pieces[0].local.len, 4201);
        let apart = [(0, 0, 8), (8, 16, 8), (24, 24, 8), (32, 32, 0), (40, 40, 8)];
        assert_eq!(plan(&local, &remote, &apart).unwrap().len(), 4);
    }

    #[test]
    fn memory_of_a_gpu_is_moved_in_shorter_pieces() {
        let local = registered(1 << 16);
        let far = RemoteRegion { addr: 1 << 40, len: 1 << 40, rkey: 9 };
        let far = Target::remote(b"decode", MemoryKind::Vram, &far.to_bytes()).unwrap();
        let mut plan = plan(&local, &far, &[(0, 0, 4096), (4096, 4096, 4096)]).unwrap();
        assert_eq!((plan.len(), plan.bytes()), (1, 8192), "neighbours are still joined");
        assert_eq!(plan.class(), (Operation::Write, MemoryKind::Vram));
        let (local_addr, remote_addr) = (local.region.addr(), 1 << 41);
        let len = 3 * MAX_GPU_PIECE + 1;
        plan.add(&Pair { local_addr, remote_addr, len, local: &local, remote: &far });
        assert_eq!(plan.len(), 1 + 4);
    }

    #[test]
    fn own_memory_is_copied_unless_it_is_gone() {
        let (local, far) = (registered(4096), registered(4096));
        local.region.write_at(0, b"braid").unwrap();
        let target = far.target();
        let (local_addr, remote_addr) = (local.region.addr(), far.region.addr() + 1);
        let pair = Pair { local_addr, remote_addr, len: 5, local: &local, remote: &target };
        let plan = Plan::new(Operation::Write, b"own", true, [Ok(pair)].into_iter()).unwrap();
        plan.copy().unwrap();
        let mut text = [0; 5];
        far.region.read_at(1, &mut text).unwrap();
        assert_eq!(&text, b"braid");
        drop(far);
        assert!(matches!(plan.copy(), Err(Error::Deregistered)));
    }

    #[test]
    fn descriptors_outside_registered_memory_are_refused() {
        let (local, remote) = (registered(4096), remote(100));
        for pair in [(4000, 0, 97), (0, 4, 97), (0, 0, u64::MAX), (u64::MAX, 0, 1)] {
            let local_addr = local.region.addr().wrapping_add(pair.0);
            let remote_addr = remote.extent().0 + pair.1;
            let (local, remote) = (&local, &remote);
            let pair = Pair { local_addr, remote_addr, len: pair.2, local, remote };
            let refused = Plan::new(Operation::Read, b"decode", false, [Ok(pair)].into_iter());
            assert!(matches!(refused, Err(Error::Bounds { index: 0, .. })));
        }
        assert!(matches!(plan(&local, &remote, &[]), Err(Error::Empty)));
    }

    #[test]
    fn memory_of_another_agent_is_refused() {
        let (local, remote) = (registered(4096), remote(100));
        let (local_addr, remote_addr) = (local.region.addr(), remote.extent().0);
        let here = local.target();
        for (agent, is_own, remote_addr, remote) in [
            (&b"prefill"[..], false, remote_addr, &remote),
            // A peer with the name of this agent: its addresses mean nothing here.
            (b"decode", true, remote_addr, &remote),
            (b"decode", false, local_addr, &here),
        ] {
            let pair = Pair { local_addr, remote_addr, len: 8, local: &local, remote };
            let refused = Plan::new(Operation::Read, agent, is_own, [Ok(pair)].into_iter());
            assert!(matches!(refused, Err(Error::Owner { .. })));
        }
    }
}

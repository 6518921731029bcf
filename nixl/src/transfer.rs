//! Transfers: lists of descriptors as the work requests that move them.

use std::ffi::c_int;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use braid::{MAX_MESSAGE, RemoteAddr, SendWr, Sge, wr};

use crate::memory::{Registered, Target, covers};
use crate::status::{Error, IN_PROGRESS};

/// The direction of a transfer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Operation {
    /// From the peer to this process.
    Read,
    /// From this process to the peer.
    Write,
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
}

impl Plan {
    /// Checks the descriptors and puts them together.
    pub(crate) fn new<'a>(
        operation: Operation,
        agent: &[u8],
        pairs: impl ExactSizeIterator<Item = Result<Pair<'a>, Error>>,
    ) -> Result<Self, Error> {
        if pairs.len() == 0 {
            return Err(Error::Empty);
        }
        let mut plan =
            Plan { operation, agent: agent.to_owned(), pieces: Vec::with_capacity(pairs.len()) };
        for (index, pair) in pairs.enumerate() {
            let pair = pair?;
            check(index, agent, &pair)?;
            plan.add(&pair);
        }
        Ok(plan)
    }

    fn add(&mut self, pair: &Pair<'_>) {
        let rkey = match pair.remote {
            Target::Remote { region, .. } => region.rkey,
            Target::Here { .. } => 0,
        };
        let lkey = pair.local.region.lkey();
        let (mut local, mut remote, mut left) = (pair.local_addr, pair.remote_addr, pair.len);
        while left > 0 {
            let len = left.min(MAX_MESSAGE);
            let piece = Piece {
                local: Sge { addr: local, len: len as u32, lkey },
                remote: RemoteAddr { addr: remote, rkey },
            };
            match self.pieces.last_mut().and_then(|last| last.joined(&piece).map(|all| (last, all)))
            {
                Some((last, all)) => *last = all,
                None => self.pieces.push(piece),
            }
            (local, remote, left) = (local + len, remote + len, left - len);
        }
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

    /// Copies the memory, all of which belongs to this process.
    pub(crate) fn copy(&self) {
        for Piece { local, remote } in &self.pieces {
            let here = ptr::with_exposed_provenance_mut::<u8>(local.addr as usize);
            let there = ptr::with_exposed_provenance_mut::<u8>(remote.addr as usize);
            let (from, to) = match self.operation {
                Operation::Read => (there, here),
                Operation::Write => (here, there),
            };
            // SAFETY: `check` has found both in registered memory. NIXL's user has promised to keep
            // it mapped and writable until it is deregistered, and not to use it during a transfer.
            unsafe { ptr::copy(from, to, local.len as usize) };
        }
    }
}

impl Piece {
    /// The piece with another one behind it, if both are neighbours at both ends.
    fn joined(&self, next: &Piece) -> Option<Piece> {
        let len = u64::from(self.local.len);
        let is_next = self.local.lkey == next.local.lkey
            && self.remote.rkey == next.remote.rkey
            && self.local.addr + len == next.local.addr
            && self.remote.addr + len == next.remote.addr
            && len + u64::from(next.local.len) <= MAX_MESSAGE;
        let local = Sge { len: self.local.len.wrapping_add(next.local.len), ..self.local };
        is_next.then_some(Piece { local, ..*self })
    }
}

/// Checks that both ends of a pair are registered memory, and whose.
fn check(index: usize, agent: &[u8], pair: &Pair<'_>) -> Result<(), Error> {
    let here = (pair.local.region.addr(), pair.local.region.len() as u64);
    let there = pair.remote.extent();
    for (extent, addr) in [(here, pair.local_addr), (there, pair.remote_addr)] {
        if !covers(extent, addr, pair.len) {
            let (region_addr, region_len) = extent;
            return Err(Error::Bounds { index, addr, len: pair.len, region_addr, region_len });
        }
    }
    match pair.remote {
        Target::Remote { agent: owner, .. } if owner != agent => {
            let [owner, agent] = [owner, agent].map(|name| String::from_utf8_lossy(name).into());
            Err(Error::Owner { index, owner, agent })
        }
        _ => Ok(()),
    }
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
}

impl Flight {
    pub(crate) fn begun() -> Arc<Self> {
        Flight::ended(IN_PROGRESS)
    }

    pub(crate) fn ended(code: c_int) -> Arc<Self> {
        Arc::new(Flight { code: AtomicI32::new(code), is_cancelled: AtomicBool::new(false) })
    }

    /// NIXL's code: in progress, success or an error.
    pub(crate) fn code(&self) -> c_int {
        self.code.load(Ordering::Acquire)
    }

    pub(crate) fn end(&self, code: c_int) {
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
        Registered { region: engine.alloc_pd().alloc_mr(len, Access::LOCAL_WRITE).unwrap() }
    }

    fn remote(len: u64) -> Target {
        let region = RemoteRegion { addr: 1 << 40, len, rkey: 9 };
        Target::remote(b"decode", &region.to_bytes()).unwrap()
    }

    fn plan(local: &Registered, remote: &Target, pairs: &[(u64, u64, u64)]) -> Result<Plan, Error> {
        let (here, there) = (local.region.addr(), remote.extent().0);
        let pairs = pairs.iter().map(|&(from, to, len)| {
            Ok(Pair { local_addr: here + from, remote_addr: there + to, len, local, remote })
        });
        Plan::new(Operation::Write, b"decode", pairs)
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
    fn descriptors_outside_registered_memory_are_refused() {
        let (local, remote) = (registered(4096), remote(100));
        for pair in [(4000, 0, 97), (0, 4, 97), (0, 0, u64::MAX), (u64::MAX, 0, 1)] {
            let local_addr = local.region.addr().wrapping_add(pair.0);
            let remote_addr = remote.extent().0 + pair.1;
            let (local, remote) = (&local, &remote);
            let pair = Pair { local_addr, remote_addr, len: pair.2, local, remote };
            let refused = Plan::new(Operation::Read, b"decode", [Ok(pair)].into_iter());
            assert!(matches!(refused, Err(Error::Bounds { index: 0, .. })));
        }
        assert!(matches!(plan(&local, &remote, &[]), Err(Error::Empty)));
    }

    #[test]
    fn memory_of_another_agent_is_refused() {
        let (local, remote) = (registered(4096), remote(100));
        let (local_addr, remote_addr) = (local.region.addr(), remote.extent().0);
        let pair = Pair { local_addr, remote_addr, len: 8, local: &local, remote: &remote };
        let refused = Plan::new(Operation::Read, b"prefill", [Ok(pair)].into_iter());
        assert!(matches!(refused, Err(Error::Owner { .. })));
    }
}

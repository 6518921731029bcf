//! Groups of engines that exchange data all-to-all, with counts for each peer.
//!
//! A process creates an [`crate::Engine`] and joins a [`Group`] with it. The [`GroupConfig`] has
//! the rank, the number of ranks, and the address of rank 0 or the addresses of all. Then the
//! process starts rounds of [`AllToAllV`], several of which can be in flight. All ranks start the
//! same rounds in the same order. `examples/all-to-all.rs` shows this in one page.
//!
//! A group consists of queue pairs, one for each pair of ranks. A round begins with a SEND to each
//! other rank. It says how many bytes the other rank will get, how many are expected of it, and
//! where they go. Once both ranks have said the same, the bytes go by WRITE, in chunks of 64 KiB,
//! the longest part first. The last chunk carries immediate data.
//!
//! A failure at one rank ends the group at all ranks, each of which gets an error that names the
//! rank. The ranks trust each other only with the memory that they receive into, from the first
//! round with it until it is deregistered or the group has ended.

mod config;
mod driver;
mod environment;
mod error;
mod hello;
mod mesh;
mod notice;
mod operation;
mod peer;
mod rendezvous;
mod round;
mod state;
mod strangers;
#[cfg(test)]
mod tests;

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

pub use self::config::{GroupConfig, MAX_SIZE as MAX_RANKS, Members};
pub use self::error::{Blame, GroupError};
pub use self::hello::MAX_JOB;
pub use self::operation::AllToAllV;

use self::driver::Driver;
use self::error::ForGroup;
use self::hello::Hello;
use self::mesh::Mesh;
use self::peer::Peer;
use self::rendezvous::{Meeting, Table};
use self::state::State;
use self::strangers::Strangers;
use crate::clock::deadline;
use crate::threads::spawn_without_signals;
use crate::{Engine, ProtectionDomain};

/// A rank's membership in a group. Dropping it tells the other ranks and cancels its unfinished
/// rounds.
///
/// ```
/// use std::sync::Arc;
/// use std::thread;
/// use std::time::Duration;
///
/// use braid::{Access, AllToAllV, Engine, EngineConfig, Group, GroupConfig};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let bind = "127.0.0.1:0".parse()?;
/// let config = EngineConfig { bind, ..Default::default() };
/// let engines = [(); 2].map(|()| Engine::new(config.clone()).unwrap());
/// let root = engines[0].local_addr();
/// thread::scope(|scope| {
///     for (rank, engine) in engines.iter().enumerate() {
///         scope.spawn(move || {
///             let group = Group::join(engine, &GroupConfig::with_root(rank, 2, root)).unwrap();
///             let send = Arc::new(group.pd().alloc_mr(16, Access::NONE).unwrap());
///             let landing = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
///             let recv = Arc::new(group.pd().alloc_mr(16, landing).unwrap());
///             send.write_at(0, &[rank as u8 + 1; 16]).unwrap();
///
///             // 8 bytes from each rank to each.
///             let round = group.start(AllToAllV::even(send, recv.clone(), 2, 8)).unwrap();
///             round.wait(Duration::from_secs(10)).unwrap();
///             let mut bytes = [0; 16];
///             recv.read_at(0, &mut bytes).unwrap();
///             assert_eq!(bytes, [1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2]);
///         });
///     }
/// });
/// # Ok(())
/// # }
/// ```
pub struct Group {
    driver: Arc<Driver>,
    thread: Option<JoinHandle<()>>,
    pd: ProtectionDomain,
    rank: usize,
    addresses: Vec<SocketAddr>,
}

impl Group {
    /// Finds the other ranks and connects with each. The engine must not listen, because this call
    /// does so until all ranks are connected. So an engine joins one group at a time, and can be in
    /// several.
    ///
    /// # Errors
    /// If a rank is missing or its configuration differs from the others', every rank gets an error
    /// within [`GroupConfig::timeout`] and a few seconds. See [`GroupError`].
    pub fn join(engine: &Engine, config: &GroupConfig) -> Result<Self, GroupError> {
        config.check(engine.local_addr())?;
        let (size, rank) = (config.size, config.rank);
        let strangers = Arc::new(Strangers::default());
        let is_rank = {
            let strangers = strangers.clone();
            move |data: &[u8]| {
                let is_rank = Hello::from_bytes(data).is_some();
                if !is_rank {
                    strangers.on_no_rank();
                }
                is_rank
            }
        };
        let listener = engine.listen_for(2 * size, is_rank).for_group(size)?;
        let by = deadline(config.timeout);
        let meeting =
            Meeting { engine, listener: &listener, config, strangers: &strangers, deadline: by };
        let table = meeting.meet()?;
        let pd = engine.alloc_pd();
        let capacity = (peer::SENDS + peer::RECEIVES) as usize * size;
        let cq = engine.create_cq(capacity).for_group(size)?;
        let mesh = Mesh {
            pd: &pd,
            cq: &cq,
            listener: &listener,
            rank,
            table: &table,
            strangers: &strangers,
            // Rank 0 has waited for the last rank, so connecting gets as much time again.
            deadline: deadline(config.timeout),
            queues: (peer::SENDS, peer::RECEIVES),
            cc: &config.cc,
        };
        let mut inboxes = Vec::new();
        let qps = mesh.connect(|_, qp| {
            inboxes.push(peer::prepare(&pd, qp, size)?);
            Ok(())
        })?;
        let mut inboxes = inboxes.into_iter();
        let mut peer = |qp| Some(Peer::new(qp, inboxes.next()?));
        let peers = qps.into_iter().map(|qp| qp.and_then(&mut peer)).collect();
        let window = peer::window(engine.datapath_attributes().receive_buffer, size);
        let driver = Arc::new(Driver::new(State::new(rank, peers, window), cq));
        let thread = thread::Builder::new().name("braid-group".to_owned());
        let thread = spawn_without_signals(thread, {
            let driver = driver.clone();
            move || driver.run()
        });
        let thread = Some(thread.map_err(|why| GroupError::resources(size, why))?);
        let Table { addresses, .. } = table;
        Ok(Group { driver, thread, pd, rank, addresses })
    }

    /// The rank of this process.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// The number of ranks.
    pub fn size(&self) -> usize {
        self.addresses.len()
    }

    /// The listening addresses of the ranks when the group was formed.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The protection domain for the memory of rounds.
    pub fn pd(&self) -> &ProtectionDomain {
        &self.pd
    }

    /// The reason why the group has ended. From then on no rank accesses the memory of its rounds.
    /// `None`: it has not ended.
    pub fn end(&self) -> Option<GroupError> {
        self.driver.state().end().cloned()
    }

    /// Starts a round and returns at once, after copying the bytes that this rank has for itself.
    /// Until the round is over, the sent bytes must not change, and the received bytes belong to
    /// the peers. At most 8 rounds are in flight.
    ///
    /// # Errors
    /// The operation is invalid, for example because memory belongs to another protection domain;
    /// nothing was begun, and a corrected one can be started. Too many rounds are in flight, or the
    /// group has ended.
    pub fn start(&self, operation: AllToAllV) -> Result<Round, GroupError> {
        operation.check(&self.pd, self.size(), self.rank)?;
        operation.copy_own(self.rank)?;
        let number = self.driver.state().start(operation)?;
        Ok(Round { driver: self.driver.clone(), number })
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if !self.pd.is_here() {
            // The thread runs in the parent process.
            std::mem::forget(self.thread.take());
            return;
        }
        self.driver.state().leave();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Group").field("rank", &self.rank).field("size", &self.size()).finish()
    }
}

/// A round in flight. It proceeds by itself, even if this handle is dropped.
pub struct Round {
    driver: Arc<Driver>,
    number: u64,
}

impl Round {
    /// The number of the round in the group, from 0.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Whether the round is over: this rank has received everything, and its peers have received
    /// everything from it.
    ///
    /// # Errors
    /// The group has ended before. No rank accesses the memory any more.
    pub fn test(&self) -> Result<bool, GroupError> {
        self.driver.state().is_over(self.number)
    }

    /// Waits up to `timeout` until the round is over.
    ///
    /// # Errors
    /// As for [`Round::test`]. After the time, [`GroupError::Unfinished`] names the ranks that the
    /// round waits for, and the round goes on.
    pub fn wait(&self, timeout: Duration) -> Result<(), GroupError> {
        self.driver.wait(self.number, timeout)
    }

    /// Cancels the round. If it is not over, the group ends at all ranks with an error that names
    /// this one.
    pub fn cancel(self) {
        self.driver.state().cancel(self.number);
    }
}

impl fmt::Debug for Round {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Round").field("number", &self.number).finish()
    }
}

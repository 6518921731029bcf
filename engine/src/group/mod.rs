//! Groups of engines that exchange data, each with each: an all-to-all with counts by peer.
//!
//! A process makes an [`crate::Engine`] and joins a [`Group`] with it, by a [`GroupConfig`]: a
//! rank, how many there are, and where rank 0 is or where all are. Then it starts rounds of
//! [`AllToAllV`]; several can be in flight. All ranks start the same rounds in the same order.
//! `examples/all-to-all.rs` shows it in one page.
//!
//! All of it is built on queue pairs, one for each pair of ranks. A round begins with a SEND to
//! each other rank that says how many bytes it will get and how many are expected of it, and where
//! they go. Once both sides have said the same, the bytes go by WRITE, in chunks of 64 KiB, the
//! longest part first; the last carries immediate data.
//!
//! Whatever goes wrong at one rank ends the group at all: each has an error that names the rank.
//! The ranks trust each other with the memory that they receive into, from the first round with it
//! until it is deregistered or the group has ended, and with nothing else.

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

/// A rank's membership. Dropping it tells the others; rounds of it that are not over are cancelled.
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
/// let engines = [(); 2].map(|()| Engine::new(EngineConfig { bind, ..Default::default() }).unwrap());
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
    /// Finds the other ranks and connects with each. The engine must not listen; it does so itself
    /// until all are connected, so that an engine joins one group at a time. It can be in several.
    ///
    /// # Errors
    /// Every rank has one within [`GroupConfig::timeout`] and a few seconds, if any is missing or
    /// says something else than the others; see [`GroupError`].
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
            // Rank 0 has waited for the last one: connecting gets as long again.
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

    /// This process's number.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// How many ranks there are.
    pub fn size(&self) -> usize {
        self.addresses.len()
    }

    /// Where the ranks listened when the group was made.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The protection domain that memory for its rounds is registered with.
    pub fn pd(&self) -> &ProtectionDomain {
        &self.pd
    }

    /// Why it has ended; `None`: it has not. From then on nobody touches the memory of its rounds.
    pub fn end(&self) -> Option<GroupError> {
        self.driver.state().end().cloned()
    }

    /// Starts a round and returns at once, but for copying what this rank has for itself. From now
    /// on the bytes that are sent must not change, and those that are received are the peers',
    /// until the round is over. At most 8 rounds are in flight.
    ///
    /// # Errors
    /// What is asked for cannot be, as with memory of another protection domain: then nothing was
    /// begun, and it can be corrected. Too many rounds are in flight, or the group has ended.
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
            // The thread runs in the parent.
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

/// A round in flight. It goes on without being asked, and if this is dropped.
pub struct Round {
    driver: Arc<Driver>,
    number: u64,
}

impl Round {
    /// Its number in the group, from 0.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Whether it is over: all that this rank receives is here, and all that it sends is at its
    /// peers.
    ///
    /// # Errors
    /// The group has ended before; then nobody touches the memory any more.
    pub fn test(&self) -> Result<bool, GroupError> {
        self.driver.state().is_over(self.number)
    }

    /// Waits until it is over, at most as long as `timeout`.
    ///
    /// # Errors
    /// As [`Round::test`]; [`GroupError::Unfinished`] with the ranks that are waited for, when the
    /// time is over. It goes on then.
    pub fn wait(&self, timeout: Duration) -> Result<(), GroupError> {
        self.driver.wait(self.number, timeout)
    }

    /// Gives up: if it is not over, the group ends at all ranks with an error that names this one.
    pub fn cancel(self) {
        self.driver.state().cancel(self.number);
    }
}

impl fmt::Debug for Round {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Round").field("number", &self.number).finish()
    }
}

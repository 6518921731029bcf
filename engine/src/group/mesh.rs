//! The queue pairs between all ranks. A rank connects to the lower ones, and the higher ones
//! connect to it.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use braid_cc::CcConfig;
use braid_transport::QpState;

use super::error::{ForGroup, GroupError};
use super::hello::Hello;
use super::rendezvous::{Table, connect};
use super::strangers::Strangers;
use crate::listener::ConnectionRequest;
use crate::qp::{QpOptions, QueuePair};
use crate::{CompletionQueue, Listener, ProtectionDomain};

/// The interval at which the accepting thread checks whether the connecting one has failed.
const LOOK: Duration = Duration::from_millis(50);

/// The parameters of the mesh.
pub(super) struct Mesh<'a> {
    pub(super) pd: &'a ProtectionDomain,
    pub(super) cq: &'a CompletionQueue,
    pub(super) listener: &'a Listener,
    pub(super) rank: usize,
    pub(super) table: &'a Table,
    pub(super) strangers: &'a Strangers,
    pub(super) deadline: Instant,
    /// The lengths of each queue pair's send queue and receive queue.
    pub(super) queues: (u32, u32),
    pub(super) cc: &'a CcConfig,
}

impl Mesh<'_> {
    /// Creates the queue pairs, calls `prepare` to post their first receives, and connects them.
    /// The result is by rank, without one for this rank.
    pub(super) fn connect(
        &self,
        mut prepare: impl FnMut(usize, &QueuePair) -> Result<(), GroupError>,
    ) -> Result<Vec<Option<QueuePair>>, GroupError> {
        let size = self.table.addresses.len();
        let mut make = |rank: usize| {
            if rank == self.rank {
                return Ok(None);
            }
            let options = QpOptions::new(self.cq, self.cq);
            let mut options = options.queues(self.queues.0, self.queues.1);
            options.config.cc = self.cc.clone();
            let qp = self.pd.create_qp(options).for_group(size)?;
            qp.modify(QpState::Init).expect("a new queue pair can be initialised");
            prepare(rank, &qp)?;
            Ok(Some(qp))
        };
        let qps: Vec<_> = (0..size).map(&mut make).collect::<Result<_, _>>()?;
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let below = scope.spawn(|| {
                let connected = self.join_those_below(&qps, &stop);
                stop.fetch_or(connected.is_err(), Ordering::Relaxed);
                connected
            });
            let above = self.accept_those_above(&qps, &stop);
            stop.fetch_or(above.is_err(), Ordering::Relaxed);
            // The error of the connecting thread says more than that of the accepting one.
            below.join().expect("connecting does not panic").and(above)
        })?;
        Ok(qps)
    }

    fn address(&self, rank: usize) -> SocketAddr {
        self.table.addresses[rank]
    }

    fn join_those_below(
        &self,
        qps: &[Option<QueuePair>],
        stop: &AtomicBool,
    ) -> Result<(), GroupError> {
        for (rank, qp) in qps[..self.rank].iter().enumerate() {
            if stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            let hello =
                Hello::Join { group: self.table.group, from: self.rank as u32, to: rank as u32 };
            let addr = self.address(rank);
            let failed = |why: String| GroupError::NotConnected { rank, addr, why };
            let qp = qp.as_ref().expect("there is one to each other rank");
            connect(qp, &[addr], &hello, self.deadline).map_err(|why| failed(why.to_string()))?;
        }
        Ok(())
    }

    fn accept_those_above(
        &self,
        qps: &[Option<QueuePair>],
        stop: &AtomicBool,
    ) -> Result<(), GroupError> {
        let mut missing: Vec<usize> = (self.rank + 1..qps.len()).collect();
        while let Some(rank) = missing.first().copied() {
            if stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            if Instant::now() > self.deadline {
                let strangers = self.strangers.text();
                let why = format!("it did not connect in time; missing: {missing:?}{strangers}");
                return Err(GroupError::NotConnected { rank, addr: self.address(rank), why });
            }
            let Some(request) = self.listener.accept(LOOK) else { continue };
            let Some(rank) = self.guest(&request).filter(|rank| missing.contains(rank)) else {
                self.refuse(request);
                continue;
            };
            let qp = qps[rank].as_ref().expect("there is one to each other rank");
            let addr = self.address(rank);
            let failed = |why: String| GroupError::NotConnected { rank, addr, why };
            request.accept(qp, &[]).map_err(|why| failed(why.to_string()))?;
            missing.retain(|other| *other != rank);
        }
        Ok(())
    }

    fn refuse(&self, request: ConnectionRequest) {
        let who = match Hello::from_bytes(request.private_data()) {
            Some(Hello::Come { rank, .. }) => format!("rank {rank}, which looks for rank 0"),
            Some(Hello::Join { from, .. }) => {
                format!("rank {from} of another group, or a second one")
            }
            None => "no rank".to_owned(),
        };
        self.strangers.refuse(request.peer_addr(), who);
        request.reject();
    }

    /// The rank of an initiator, if it belongs to this group.
    fn guest(&self, request: &ConnectionRequest) -> Option<usize> {
        match Hello::from_bytes(request.private_data())? {
            Hello::Join { group, from, to }
                if group == self.table.group && to as usize == self.rank =>
            {
                Some(from as usize)
            }
            _ => None,
        }
    }
}

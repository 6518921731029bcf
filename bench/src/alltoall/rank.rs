//! One rank of the benchmark.

use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use braid::{Access, AllToAllV, Engine, Group, GroupConfig, MemoryRegion};
use braid_lab::traffic::Workload;
use serde::{Deserialize, Serialize};

use super::args::AllToAllArgs;
use super::progress::RoundProgress;
use crate::engine_args::EngineArgs;
use crate::failure::{Attempt, Failure};
use crate::{interrupt, pattern, session};

/// Maximum duration of a round.
const PATIENCE: Duration = Duration::from_secs(300);

/// The measurements of a rank for one workload.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Seen {
    /// Seconds of each round.
    pub(super) seconds: Vec<f64>,
    /// Packets sent in all rounds, by rail.
    pub(super) sent: Vec<u64>,
    /// Packets of this rank that arrived, by the address of the receiver's rail.
    pub(super) arrived: Vec<(std::net::IpAddr, u64)>,
}

/// A rank of a group that measures together.
pub(crate) struct Rank {
    engine: Engine,
    pub(crate) group: Group,
    /// One byte for each rank. [`Rank::barrier`] sends it.
    flags: AllToAllV,
}

/// A byte of [`Rank::flags`]: the sender has got a signal.
const STOP: u8 = 1;

fn region(group: &Group, bytes: usize, access: Access) -> Result<Arc<MemoryRegion>, Failure> {
    Ok(Arc::new(group.pd().alloc_mr(bytes.max(1), access).attempt("memory")?))
}

/// Returns the range of each rank's part in a region.
fn ranges(counts: impl Iterator<Item = u64>) -> Vec<Range<usize>> {
    let mut end = 0;
    counts
        .map(|count| {
            let start = end;
            end += count as usize;
            start..end
        })
        .collect()
}

impl Rank {
    /// Joins the group.
    pub(crate) fn join(args: &EngineArgs) -> Result<Rank, Failure> {
        let usage = |error: braid::GroupError| Failure::Usage(error.to_string());
        let mut config = GroupConfig::from_env().map_err(usage)?;
        config.cc = args.policy.cc.clone();
        let port = args.port.unwrap_or(config.port());
        let engine = Engine::new(session::rank_config(args, port)?);
        let engine = engine.attempt("engine")?;
        let group = Group::join(&engine, &config).attempt("join the group")?;
        let (size, access) = (group.size(), Access::LOCAL_WRITE | Access::REMOTE_WRITE);
        let (send, recv) = (region(&group, size, Access::NONE)?, region(&group, size, access)?);
        let flags = AllToAllV::even(send, recv, size, 1);
        Ok(Rank { engine, group, flags })
    }

    fn region(&self, bytes: usize, access: Access) -> Result<Arc<MemoryRegion>, Failure> {
        region(&self.group, bytes, access)
    }

    /// Runs one workload. A signal at any rank ends it after the same round at all ranks, with the
    /// second result.
    pub(super) fn run(
        &self,
        workload: Workload,
        args: &AllToAllArgs,
        progress: &mut RoundProgress,
    ) -> Result<(Seen, Option<Failure>), Failure> {
        let (own, size) = (self.group.rank(), self.group.size());
        let matrix = workload.matrix(size, args.size, args.engine.seed);
        let sends = ranges((0..size).map(|to| matrix[own][to]));
        let receives = ranges((0..size).map(|from| matrix[from][own]));
        let end = |ranges: &[Range<usize>]| ranges.last().map_or(0, |range| range.end);
        let send = self.region(end(&sends), Access::NONE)?;
        let recv = self.region(end(&receives), Access::LOCAL_WRITE | Access::REMOTE_WRITE)?;
        let operation = AllToAllV { send, sends, recv, receives };
        let before = self.packets();
        let (mut seconds, mut cut) = (Vec::new(), None);
        for round in 0..=args.rounds {
            if args.verify {
                self.fill(&operation, round.into())?;
            }
            cut = self.barrier()?;
            if cut.is_some() {
                break;
            }
            progress.tick(workload, round);
            let began = Instant::now();
            let started = self.group.start(operation.clone()).attempt("start a round")?;
            started.wait(PATIENCE).attempt("a round")?;
            seconds.push(began.elapsed().as_secs_f64());
            if args.verify {
                self.check(&operation, round.into())?;
            }
        }
        if cut.is_none() {
            cut = self.barrier()?;
        }
        // The first round warms up.
        let seconds = seconds.split_off(seconds.len().min(1));
        Ok((self.packets().since(&before, seconds), cut))
    }

    /// Waits until all ranks have reached this point. Returns the reason to stop, which all ranks
    /// have at the same barrier.
    pub(crate) fn barrier(&self) -> Result<Option<Failure>, Failure> {
        let own = interrupt::is_requested();
        let (mut flags, what) = (vec![if own { STOP } else { 0 }; self.group.size()], "a barrier");
        self.flags.send.write_at(0, &flags).attempt(what)?;
        self.group
            .start(self.flags.clone())
            .and_then(|round| round.wait(PATIENCE))
            .attempt(what)?;
        self.flags.recv.read_at(0, &mut flags).attempt(what)?;
        Ok(match flags.contains(&STOP) {
            true if own => Some(Failure::Interrupted),
            true => Some(Failure::RankInterrupted),
            false => None,
        })
    }

    /// Tells all ranks a port at which this one listens. Returns the addresses of all ranks, each
    /// with the port that it has told.
    pub(crate) fn share_port(&self, port: u16) -> Result<Vec<SocketAddr>, Failure> {
        const LEN: usize = size_of::<u16>();
        let (size, what) = (self.group.size(), "an exchange of ports");
        let send = self.region(size * LEN, Access::NONE)?;
        let recv = self.region(size * LEN, Access::LOCAL_WRITE | Access::REMOTE_WRITE)?;
        send.write_at(0, &port.to_le_bytes().repeat(size)).attempt(what)?;
        let operation = AllToAllV::even(send, recv.clone(), size, LEN);
        self.group.start(operation).and_then(|round| round.wait(PATIENCE)).attempt(what)?;
        let mut told = vec![0; size * LEN];
        recv.read_at(0, &mut told).attempt(what)?;
        let (ports, _) = told.as_chunks::<LEN>();
        let address = |(rank, port): (&SocketAddr, &[u8; LEN])| {
            SocketAddr::new(rank.ip(), u16::from_le_bytes(*port))
        };
        Ok(self.group.addresses().iter().zip(ports).map(address).collect())
    }

    fn fill(&self, operation: &AllToAllV, round: u64) -> Result<(), Failure> {
        let (own, size) = (self.group.rank(), self.group.size());
        for (to, range) in operation.sends.iter().enumerate() {
            let mut bytes = vec![0; range.len()];
            pattern::fill(&mut bytes, own * size + to, round);
            operation.send.write_at(range.start, &bytes).attempt("fill")?;
        }
        // Cleared, so that bytes of the previous round cannot pass for new ones.
        operation.recv.write_at(0, &vec![0; operation.recv.len()]).attempt("clear")
    }

    fn check(&self, operation: &AllToAllV, round: u64) -> Result<(), Failure> {
        let (own, size) = (self.group.rank(), self.group.size());
        let mut expected = Vec::new();
        for (from, range) in operation.receives.iter().enumerate() {
            let mut bytes = vec![0; range.len()];
            operation.recv.read_at(range.start, &mut bytes).attempt("check")?;
            pattern::check(&bytes, &mut expected, from * size + own, round)?;
        }
        Ok(())
    }

    /// Returns the counters of the engine.
    fn packets(&self) -> Seen {
        let (mut sent, mut arrived) = (Vec::new(), Vec::new());
        for to in self.engine.paths() {
            sent.resize(sent.len().max(to.rail + 1), 0);
            sent[to.rail] += to.paths.iter().map(|path| path.counters.sent).sum::<u64>();
            arrived.push((to.ip, to.paths.iter().map(|path| path.counters.arrived).sum()));
        }
        Seen { seconds: Vec::new(), sent, arrived }
    }

    /// Gathers the reports of all ranks at rank 0, by rank. The other ranks get an empty list.
    pub(crate) fn gather(&self, report: &[u8]) -> Result<Vec<Vec<u8>>, Failure> {
        let (own, size) = (self.group.rank(), self.group.size());
        let lengths = self.to_rank_0(&(report.len() as u64).to_le_bytes(), &vec![8; size])?;
        let length =
            |bytes: &Vec<u8>| bytes.first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
        let lengths: Vec<u64> = match own {
            0 => lengths.iter().map(length).collect(),
            _ => vec![report.len() as u64; size],
        };
        self.to_rank_0(report, &lengths)
    }

    fn to_rank_0(&self, report: &[u8], lengths: &[u64]) -> Result<Vec<Vec<u8>>, Failure> {
        let (own, size) = (self.group.rank(), self.group.size());
        let mut sends = vec![0..0; size];
        sends[0] = 0..report.len();
        let receives = match own {
            0 => ranges(lengths.iter().copied()),
            _ => vec![0..0; size],
        };
        let total = receives.last().map_or(0, |range| range.end);
        let send = self.region(report.len(), Access::NONE)?;
        send.write_at(0, report).attempt("results")?;
        let recv = self.region(total, Access::LOCAL_WRITE | Access::REMOTE_WRITE)?;
        let operation = AllToAllV { send, sends, recv: recv.clone(), receives: receives.clone() };
        let round = self.group.start(operation).attempt("results")?;
        round.wait(PATIENCE).attempt("results")?;
        let part = |range: Range<usize>| {
            let mut bytes = vec![0; range.len()];
            recv.read_at(range.start, &mut bytes).attempt("results").map(|()| bytes)
        };
        receives.into_iter().map(part).collect()
    }
}

impl Seen {
    /// Creates the measurements of a rank before its first round.
    pub(super) fn of_rails(count: usize) -> Seen {
        Seen { seconds: Vec::new(), sent: vec![0; count], arrived: Vec::new() }
    }

    /// Returns the packets since `before`, with the seconds of the rounds.
    fn since(mut self, before: &Seen, seconds: Vec<f64>) -> Seen {
        for (rail, sent) in self.sent.iter_mut().enumerate() {
            *sent -= before.sent.get(rail).copied().unwrap_or(0);
        }
        for (ip, arrived) in &mut self.arrived {
            let known = before.arrived.iter().find(|(other, _)| other == ip);
            *arrived -= known.map_or(0, |(_, count)| *count);
        }
        Seen { seconds, ..self }
    }
}

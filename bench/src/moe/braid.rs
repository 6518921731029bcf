//! Puts as RDMA WRITEs, and signals as atomic additions, which Braid applies in posting order.

use std::collections::VecDeque;
use std::time::Duration;

use braid::wr::{self, SendWrExt};
use braid::{
    Access, Completion, CompletionQueue, Engine, MemoryRegion, QpOptions, QueuePair, RemoteRegion,
    Status,
};

use super::round::{Layout, Op, Puts, place_of};
use crate::alltoall::Rank;
use crate::engine_args::EngineArgs;
use crate::failure::{Attempt, Failure};
use crate::session;

/// Work requests of a queue pair.
const DEPTH: u32 = 256;
/// One put in this number reports its completion, and with it that of those before it. Signals
/// always do.
const REPORTED: u32 = 16;
const CONNECT: Duration = Duration::from_secs(60);
/// The most completions taken at once.
const BATCH: usize = 64;
/// Longest sleep without a completion. Puts and signals of the peers complete nothing here, so the
/// words are looked at this often.
const NAP: Duration = Duration::from_micros(100);

pub(super) struct BraidPuts {
    layout: Layout,
    /// Absent for the own rank.
    peers: Vec<Option<PutPeer>>,
    cq: CompletionQueue,
    done: Vec<Completion>,
    memory: MemoryRegion,
    words: MemoryRegion,
    /// Earlier values of the peers' words, which nobody reads.
    earlier: MemoryRegion,
    engine: Engine,
}

struct PutPeer {
    qp: QueuePair,
    queue: VecDeque<Op>,
    posted: u32,
    /// Work requests that the next completion covers.
    unreported: u32,
    memory: RemoteRegion,
    words: RemoteRegion,
}

impl BraidPuts {
    /// Connects with all other ranks.
    pub(super) fn connect(
        rank: &Rank,
        layout: Layout,
        args: &EngineArgs,
    ) -> Result<BraidPuts, Failure> {
        let (own, size) = (rank.group.rank(), rank.group.size());
        // The group's thread drives the engine of the group.
        let engine = Engine::new(session::rank_config(args, 0)?).attempt("engine")?;
        let pd = engine.alloc_pd();
        let cq = engine.create_cq(DEPTH as usize * size).attempt("completion queue")?;
        let region = |bytes: usize, access| pd.alloc_mr(bytes.max(1), access).attempt("memory");
        let landing = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
        let memory = region(layout.bytes, landing)?;
        let words = region(8 * layout.words, landing | Access::REMOTE_ATOMIC)?;
        let earlier = region(8, Access::LOCAL_WRITE)?;
        let (own_rank, offered) = (own as u32, [memory.remote(), words.remote()]);
        let mut card = own_rank.to_le_bytes().to_vec();
        offered.iter().for_each(|region| card.extend(region.to_bytes()));
        let listener = engine.listen(2 * size).attempt("listen")?;
        let addresses = rank.share_port(engine.local_addr().port())?;
        let mut options = QpOptions::new(&cq, &cq).queues(DEPTH, 1);
        options.config.cc = args.policy.cc.clone();
        let mut peers: Vec<Option<PutPeer>> = (0..size).map(|_| None).collect();
        for (lower, addr) in addresses.iter().enumerate().take(own) {
            let qp = pd.create_qp(options.clone()).attempt("queue pair")?;
            let answer = qp.connect(*addr, &card, CONNECT).attempt("connect")?;
            peers[lower] = Some(PutPeer::new(qp, &answer)?.1);
        }
        for _ in own + 1..size {
            let request = listener.accept(CONNECT).ok_or(Failure::Stalled(CONNECT))?;
            let qp = pd.create_qp(options.clone()).attempt("queue pair")?;
            let told = request.private_data().to_vec();
            request.accept(&qp, &card).attempt("accept")?;
            let (higher, peer) = PutPeer::new(qp, &told)?;
            *place_of(&mut peers, higher, own)? = Some(peer);
        }
        let done = Vec::with_capacity(BATCH);
        Ok(BraidPuts { layout, peers, cq, done, memory, words, earlier, engine })
    }

    /// Posts what the send queues have room for. Returns whether anything was posted.
    fn post_queued(&mut self) -> Result<bool, Failure> {
        let mut has_posted = false;
        for (id, peer) in self.peers.iter_mut().enumerate() {
            let Some(peer) = peer else { continue };
            while peer.posted < DEPTH
                && let Some(op) = peer.queue.pop_front()
            {
                peer.posted += 1;
                peer.unreported += 1;
                let id = work_id(id, peer.unreported);
                let request = match op {
                    Op::Put { from, to } => {
                        let piece = self.memory.slice(from..from + self.layout.size);
                        let put = wr::write(id, [piece.attempt("put")?], peer.memory.at(to as u64));
                        if peer.unreported < REPORTED { put.unsignalled() } else { put }
                    }
                    Op::Signal { word, add } => {
                        let piece = self.earlier.slice(..).attempt("signal")?;
                        wr::fetch_add(id, piece, peer.words.at(8 * word as u64), add)
                    }
                };
                if request.signalled {
                    peer.unreported = 0;
                }
                peer.qp.post_send(request).attempt("post")?;
                has_posted = true;
            }
        }
        Ok(has_posted)
    }

    fn take_completions(&mut self) -> Result<bool, Failure> {
        self.cq.poll(&mut self.done, BATCH).attempt("poll")?;
        self.count()
    }

    /// Counts the completions. Returns whether there were any.
    fn count(&mut self) -> Result<bool, Failure> {
        let any = !self.done.is_empty();
        for done in self.done.drain(..) {
            let (id, covered) = parts_of(done.wr_id);
            let (Status::Success, Some(Some(peer))) = (done.status, self.peers.get_mut(id)) else {
                let why = format!("rank {id}: {}", done.status);
                return Err(Failure::Engine { what: "put", why });
            };
            peer.posted -= covered;
        }
        Ok(any)
    }
}

/// The id of a work request for a rank, whose completion covers `covered` of them.
fn work_id(rank: usize, covered: u32) -> u64 {
    u64::from(covered) << 32 | rank as u64
}

/// The rank and the number of a [`work_id`].
fn parts_of(id: u64) -> (usize, u32) {
    (id as u32 as usize, (id >> 32) as u32)
}

impl PutPeer {
    /// Reads a rank and its regions.
    fn new(qp: QueuePair, told: &[u8]) -> Result<(usize, PutPeer), Failure> {
        let malformed = || Failure::Peer("is no rank of this benchmark".to_owned());
        let (rank, regions) = told.split_first_chunk().ok_or_else(malformed)?;
        let (memory, words) = regions.split_at_checked(regions.len() / 2).ok_or_else(malformed)?;
        let region = |bytes| RemoteRegion::from_bytes(bytes).map_err(|_| malformed());
        let (memory, words) = (region(memory)?, region(words)?);
        let peer = PutPeer { qp, queue: VecDeque::new(), posted: 0, unreported: 0, memory, words };
        Ok((u32::from_le_bytes(*rank) as usize, peer))
    }
}

impl Puts for BraidPuts {
    fn post(&mut self, peer: usize, op: Op) {
        self.peers[peer].as_mut().expect("no rank puts to itself").queue.push_back(op);
    }

    fn progress(&mut self) -> Result<(), Failure> {
        let has_posted = self.post_queued()?;
        // An empty queue lets the poll run the engine.
        if !self.take_completions()? && !has_posted {
            // The other ranks may need this processor.
            self.cq.wait_into(&mut self.done, NAP).attempt("wait")?;
            self.count()?;
        }
        Ok(())
    }

    /// The last responses and acknowledgements would otherwise leave once the attendant notices
    /// that nobody polls any more.
    fn pause(&mut self) {
        self.engine.acknowledge(NAP);
    }

    fn is_quiet(&self) -> bool {
        self.peers.iter().flatten().all(|peer| peer.queue.is_empty() && peer.posted == 0)
    }

    fn word(&self, word: usize) -> Result<u64, Failure> {
        self.words.load_u64(8 * word).attempt("read a signal")
    }

    fn write(&mut self, at: usize, bytes: &[u8]) -> Result<(), Failure> {
        self.memory.write_at(at, bytes).attempt("fill")
    }

    fn read(&self, at: usize, bytes: &mut [u8]) -> Result<(), Failure> {
        self.memory.read_at(at, bytes).attempt("check")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_ids_name_the_rank_and_the_number_of_requests() {
        for (rank, covered) in [(0, 1), (7, REPORTED), (1023, u32::MAX)] {
            assert_eq!(parts_of(work_id(rank, covered)), (rank, covered));
        }
    }
}

//! The state of a rank's group and rounds, and the handling of completions.

use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use braid_transport::{Completion, EndCause, PostError, QpState, Status, Work};
use braid_wire::QpId;

use super::error::{Blame, GroupError};
use super::notice::{Begin, Notice};
use super::operation::AllToAllV;
use super::peer::{BEGIN, LAST, Peer};
use super::round::{MAX_ROUNDS, RoundState};

/// Time for the others to confirm that they know the end.
const FAREWELL: Duration = Duration::from_secs(1);

pub(super) struct State {
    rank: usize,
    /// The largest number of chunks in flight to one rank.
    window: usize,
    /// The other ranks, by rank.
    peers: Vec<Option<Peer>>,
    by_qp: HashMap<QpId, usize>,
    /// The rounds in flight, in order. Earlier rounds have succeeded.
    rounds: VecDeque<RoundState>,
    /// The number of rounds begun.
    started: u64,
    /// The reason for the end, and the time until which the others are awaited.
    ending: Option<(GroupError, Instant)>,
    ended: Option<GroupError>,
}

impl State {
    pub(super) fn new(rank: usize, peers: Vec<Option<Peer>>, window: usize) -> Self {
        let numbered = peers.iter().enumerate();
        let by_qp = numbered
            .filter_map(|(rank, peer)| Some((peer.as_ref()?.qp().number(), rank)))
            .collect();
        let (rounds, started) = (VecDeque::new(), 0);
        State { rank, window, peers, by_qp, rounds, started, ending: None, ended: None }
    }

    fn all_peers(&mut self) -> impl Iterator<Item = (usize, &mut Peer)> {
        let numbered = self.peers.iter_mut().enumerate();
        numbered.filter_map(|(rank, peer)| Some((rank, peer.as_mut()?)))
    }

    fn peer(&mut self, rank: usize) -> &mut Peer {
        self.peers[rank].as_mut().expect("completions come from other ranks")
    }

    /// The reason why there are no more rounds.
    pub(super) fn end(&self) -> Option<&GroupError> {
        self.ended.as_ref()
    }

    /// Begins a round. The bytes of this rank for itself were copied before.
    pub(super) fn start(&mut self, operation: AllToAllV) -> Result<u64, GroupError> {
        if let Some(why) = self.ended.as_ref().or(self.ending.as_ref().map(|(why, _)| why)) {
            return Err(why.clone());
        }
        if self.rounds.len() >= MAX_ROUNDS {
            return Err(GroupError::TooManyRounds { max: MAX_ROUNDS });
        }
        let (number, own) = (self.started, self.rank);
        self.started += 1;
        let recv = operation.recv.clone();
        let round = RoundState::new(number, operation, own);
        let size = self.peers.len();
        // The ranks begin with different peers.
        for rank in (1..size).map(|step| (own + step) % size) {
            let (sends, receives) = (&round.operation.sends[rank], &round.operation.receives[rank]);
            let begin = Begin {
                round: number,
                sends: sends.len() as u64,
                expects: receives.len() as u64,
                addr: recv.addr() + receives.start as u64,
                rkey: recv.rkey(),
            };
            if let Err(why) = self.peer(rank).send(BEGIN, Notice::Begin(begin)) {
                self.on_post_error(number, rank, why);
            }
        }
        self.rounds.push_back(round);
        for rank in (0..size).filter(|rank| *rank != own) {
            if self.peer(rank).left.is_some() {
                self.fail(Blame::Left { rank }, None);
            }
            if let Some(begin) = self.peer(rank).early.pop_front() {
                self.on_begun(rank, begin);
            }
        }
        self.advance();
        Ok(number)
    }

    /// Whether a round has succeeded.
    ///
    /// # Errors
    /// The round has failed.
    pub(super) fn is_over(&self, number: u64) -> Result<bool, GroupError> {
        match self.rounds.iter().find(|round| round.number == number) {
            Some(round) if round.is_over() => Ok(true),
            Some(_) => self.ended.clone().map_or(Ok(false), Err),
            None => Ok(true),
        }
    }

    /// The ranks that a round waits for.
    pub(super) fn waits_for(&self, number: u64) -> Vec<usize> {
        let round = self.rounds.iter().find(|round| round.number == number);
        round.into_iter().flat_map(RoundState::waits_for).collect()
    }

    /// Ends the group because this rank leaves, or has cancelled a round that is not over.
    pub(super) fn leave(&mut self) {
        if let Some(round) = self.rounds.iter().find(|round| !round.is_over()) {
            let (rank, round) = (self.rank, round.number);
            return self.fail(Blame::Cancelled { rank, round }, None);
        }
        if self.ending.is_none() && self.ended.is_none() {
            let rounds = self.started;
            self.send_to_all(Notice::Bye { rounds });
            let why = GroupError::Failed { blame: Blame::Left { rank: self.rank }, told_by: None };
            self.ending = Some((why, Instant::now() + FAREWELL));
        }
    }

    /// Cancels a round. If it is not over, the group ends.
    pub(super) fn cancel(&mut self, number: u64) {
        if self.is_over(number).is_ok_and(|over| !over) {
            self.fail(Blame::Cancelled { rank: self.rank, round: number }, None);
        }
    }

    /// Fails the rounds in flight, and with them the group, and tells all ranks. A rank that learns
    /// it from another knows the culprit before that one's queue pairs fail.
    pub(super) fn fail(&mut self, blame: Blame, told_by: Option<usize>) {
        if self.ending.is_some() || self.ended.is_some() {
            return;
        }
        self.send_to_all(Notice::Failed(blame));
        let why = GroupError::Failed { blame, told_by };
        self.ending = Some((why, Instant::now() + FAREWELL));
    }

    fn send_to_all(&mut self, notice: Notice) {
        for (_, peer) in self.all_peers().filter(|(_, peer)| !peer.is_gone && peer.left.is_none()) {
            peer.is_told = peer.send(LAST, notice).is_ok();
        }
    }

    /// Handles completions.
    pub(super) fn on_completions(&mut self, done: &[Completion]) {
        for completion in done {
            if let Some(rank) = self.by_qp.get(&completion.qp).copied() {
                self.on_completion(rank, completion);
            }
        }
        self.advance();
    }

    fn on_completion(&mut self, rank: usize, done: &Completion) {
        if done.status != Status::Success {
            return self.on_gone(rank);
        }
        match done.work {
            Work::Recv => {
                let size = self.peers.len();
                match self.peer(rank).take(done.wr_id, done.len, size) {
                    Some(notice) => self.on_notice(rank, notice),
                    None => self.fail(Blame::Malformed { rank }, None),
                }
            }
            Work::RecvWriteImm => {
                self.peer(rank).free(done.wr_id);
                self.on_data(rank, done.imm);
            }
            Work::Write => {
                self.peer(rank).open -= 1;
                let number = done.wr_id;
                if let Some(round) = self.rounds.iter_mut().find(|round| round.number == number) {
                    round.exchanges[rank].open -= 1;
                }
            }
            _ if done.wr_id == LAST => self.peer(rank).is_told = false,
            _ => {}
        }
    }

    fn on_notice(&mut self, rank: usize, notice: Notice) {
        match notice {
            Notice::Begin(begin) => {
                let (started, peer) = (self.started, self.peer(rank));
                let is_next = begin.round == peer.begun && peer.early.len() < MAX_ROUNDS;
                peer.begun += 1;
                match begin.round < started {
                    _ if !is_next || peer.left.is_some() => {
                        self.fail(Blame::Malformed { rank }, None);
                    }
                    true => self.on_begun(rank, begin),
                    false => peer.early.push_back(begin),
                }
            }
            Notice::Bye { rounds } => {
                self.peer(rank).left = Some(rounds);
                if self.started > rounds {
                    self.fail(Blame::Left { rank }, None);
                }
            }
            Notice::Failed(blame) => self.fail(blame, Some(rank)),
        }
    }

    /// Compares the begins of both ranks, once both have begun a round.
    fn on_begun(&mut self, rank: usize, begin: Begin) {
        let own = self.rank;
        let found = self.rounds.iter_mut().find(|round| round.number == begin.round);
        let Some(round) = found else { return self.fail(Blame::Malformed { rank }, None) };
        let operation = &round.operation;
        let sent = operation.sends[rank].len() as u64;
        let expected = operation.receives[rank].len() as u64;
        let differs = |sender, receiver, sent, expected| {
            let round = begin.round;
            (sent != expected).then_some(Blame::Counts { round, sender, receiver, sent, expected })
        };
        let first = differs(own, rank, sent, begin.expects);
        match first.or_else(|| differs(rank, own, begin.sends, expected)) {
            None => round.exchanges[rank].begin = Some(begin),
            Some(blame) => self.fail(blame, None),
        }
    }

    /// Handles immediate data: a rank has sent everything of a round.
    fn on_data(&mut self, rank: usize, imm: Option<u32>) {
        let awaited = self.rounds.iter_mut().find(|round| !round.exchanges[rank].has_arrived);
        match awaited {
            Some(round) if imm == Some(round.number as u32) => {
                round.exchanges[rank].has_arrived = true;
            }
            _ => self.fail(Blame::Malformed { rank }, None),
        }
    }

    /// Handles the failure of a rank's queue pair. A rank that has left had received everything
    /// from this rank and had sent everything, so unacknowledged data has arrived. A rank that
    /// falsely says so counts as dead.
    fn on_gone(&mut self, rank: usize) {
        let peer = self.peer(rank);
        (peer.is_gone, peer.is_told) = (true, false);
        if peer.left.is_none() {
            let blame = self.blame_for(rank);
            return self.fail(blame, None);
        }
        for round in &mut self.rounds {
            let exchange = &mut round.exchanges[rank];
            exchange.is_over |= exchange.begin.is_some() && exchange.has_arrived;
        }
        if self.rounds.iter().any(|round| !round.exchanges[rank].is_over) {
            let blame = self.blame_for(rank);
            self.fail(blame, None);
        }
    }

    /// The cause of the end of a rank's queue pair. An error of memory is the fault of the rank
    /// that provided the memory.
    fn blame_for(&self, rank: usize) -> Blame {
        let peer = self.peers[rank].as_ref();
        match peer.and_then(|peer| peer.qp().error()).map(|error| error.cause) {
            Some(EndCause::RefusedByPeer(Status::RemoteAccess)) => Blame::Memory { rank },
            Some(EndCause::RefusedHere(Status::RemoteAccess) | EndCause::LocalMemory) => {
                Blame::Memory { rank: self.rank }
            }
            _ => Blame::Dead { rank },
        }
    }

    /// Handles a work request towards `rank` that could not be posted. Nothing of the round can
    /// follow, so it fails at all ranks.
    #[cold]
    fn on_post_error(&mut self, round: u64, rank: usize, why: PostError) {
        tracing::warn!(round, rank, error = %why, "a part of a round could not be posted");
        let blame = match why {
            PostError::State { .. } => self.blame_for(rank),
            PostError::Access(_) => Blame::Memory { rank: self.rank },
            _ => Blame::NotPosted { rank: self.rank },
        };
        self.fail(blame, None);
    }

    /// Posts everything that can be posted, and removes finished rounds.
    pub(super) fn advance(&mut self) {
        if self.ending.is_none() {
            for index in 0..self.rounds.len() {
                while self.ending.is_none()
                    && let Some(rank) = self.next_to_send(index)
                {
                    self.send_chunk(index, rank);
                }
            }
        }
        while self.rounds.front().is_some_and(RoundState::is_over) {
            self.rounds.pop_front();
        }
        let all_told = self.peers.iter().flatten().all(|peer| !peer.is_told);
        let is_due = |(_, until): &mut (GroupError, Instant)| all_told || Instant::now() > *until;
        if let Some((why, _)) = self.ending.take_if(is_due) {
            // From here on no rank accesses the memory of the rounds.
            for (_, peer) in self.all_peers() {
                let end = peer.qp().modify(QpState::Error);
                end.expect("any connected queue pair can go to ERR");
            }
            self.ended = Some(why);
        }
    }

    /// The rank with the longest remaining part of a round, of those that can be sent to. Among
    /// equals it is the next one after this rank.
    fn next_to_send(&self, index: usize) -> Option<usize> {
        let (round, size) = (&self.rounds[index], self.peers.len());
        let has_room = |rank: &usize| {
            let peer = self.peers[*rank].as_ref();
            round.can_send(*rank) && peer.is_some_and(|peer| peer.open < self.window)
        };
        let turn = |rank: usize| Reverse((rank + size - self.rank) % size);
        (0..size).filter(has_room).max_by_key(|rank| (round.unposted(*rank), turn(*rank)))
    }

    fn send_chunk(&mut self, index: usize, rank: usize) {
        let round = &mut self.rounds[index];
        let unposted = round.unposted(rank);
        let exchange = &mut round.exchanges[rank];
        let peer = self.peers[rank].as_mut().expect("it is another rank");
        let begin = exchange.begin.expect("it has begun the round");
        let (send, at) = (&round.operation.send, round.operation.sends[rank].start);
        match peer.write(&begin, send, at + exchange.posted, exchange.posted, unposted) {
            Ok(len) => {
                exchange.posted += len;
                exchange.open += 1;
            }
            Err(why) => {
                let number = round.number;
                self.on_post_error(number, rank, why);
            }
        }
    }
}

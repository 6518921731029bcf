//! The bandwidth tests: a number of messages outstanding on each queue pair, in one direction or both.
//!
//! Both sides run the same loop. A side that transmits keeps its queue pairs full; a side that
//! receives keeps receives posted and, with `--verify`, checks every byte before it lets the slot be
//! used again: by reposting the receive (SEND), or by a credit word written back (WRITE).

use std::time::{Duration, Instant, SystemTime};

use braid::{Completion, Status, Work, wr};

use crate::cli::Test;
use crate::failure::{Attempt, Failure};
use crate::pattern;
use crate::peer::cpu_seconds;
use crate::plan::{Answer, Extent, Order, Phase, SideReport};
use crate::samples::{Sample, Sampler};
use crate::session::Session;

/// Nothing at all happened for so long: something is broken.
const STALL: Duration = Duration::from_secs(20);
/// The look at the clock is too dear for every turn of a spin.
const CLOCK_EVERY: u64 = 4096;
/// The id of a credit; data messages have their number, receives their slot.
const CREDIT: u64 = 1 << 40;
const QP_SHIFT: u32 = 44;

/// How many turns without a completion a side spins before it sleeps, where it may, and how long it
/// sleeps at most: orders do not wake it.
const SPINS: u64 = 100;
const NAP: Duration = Duration::from_millis(1);

/// What a phase came to, as the client sees it.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    /// Those that had ended after `elapsed`, of both sides. With a limit of time more follow, which were under way
    /// and are not counted (as perftest's -D): a slow queue pair's would take long.
    pub(crate) messages: u64,
    pub(crate) elapsed: Duration,
    pub(crate) verified: u64,
    /// When each queue pair had sent (or read) its last message.
    pub(crate) qp_seconds: Vec<f64>,
    pub(crate) began_unix_s: f64,
    pub(crate) samples: Vec<Sample>,
}

/// One queue pair's books.
#[derive(Clone, Default)]
struct Lane {
    /// Messages that it sends in this phase; `u64::MAX`: until it is stopped.
    target: u64,
    posted: u64,
    ended: u64,
    /// Slots that may be used again: `ended`, or what the other side has credited.
    reusable: u64,
    received: u64,
    credit_sent: u64,
    credit_in_flight: bool,
    finished: Option<Instant>,
}

struct Run<'s> {
    session: &'s mut Session,
    phase: Phase,
    began: Instant,
    transmits: bool,
    receives: bool,
    lanes: Vec<Lane>,
    /// Messages of ours that are done, of all lanes.
    ended: u64,
    /// Lanes with messages that have not ended.
    unended: usize,
    /// Lanes that may have room for another message. With thousands of them nobody looks at all in every turn; only
    /// credits have to be looked for everywhere, because they come unannounced.
    with_room: Vec<usize>,
    verified: u64,
    completions: Vec<Completion>,
    scratch: Vec<u8>,
    found: Vec<u8>,
    idle_turns: u64,
    idle_since: Instant,
    /// Whether something is bound to happen: a server waits as long as its client likes.
    expects: bool,
    sampler: Option<Sampler>,
}

/// What a side that transmits had sent when its part of a phase was over.
#[derive(Clone, Copy)]
struct Part {
    messages: u64,
    elapsed: Duration,
}

/// Measures one phase from the client's side.
pub(crate) fn client(
    session: &mut Session,
    phase: Phase,
    interval: Option<Duration>,
) -> Result<(Outcome, SideReport), Failure> {
    let mut run = Run::new(session, phase)?;
    run.session.control.begin(phase, STALL)?;
    let began_unix_s = unix_seconds();
    run.began = Instant::now();
    run.sampler = interval.map(|every| Sampler::new(every, run.began));
    while !run.is_over() {
        run.step()?;
    }
    let own = run.stop();
    let samples = run.sampler.take().map(Sampler::into_samples).unwrap_or_default();
    run.send_rest()?;
    run.session.control.send(&Order::End { sent: run.ended })?;
    let report = loop {
        run.step()?;
        match run.session.control.try_receive()? {
            Some(Answer::Report(report)) => break report,
            Some(Answer::Ready) => return Err(Failure::Peer("answered out of turn".to_owned())),
            None => {}
        }
    };
    run.receive_all(report.sent)?;
    let elapsed = match phase.extent {
        Extent::Messages(_) if report.sent > 0 => run.began.elapsed(),
        Extent::Messages(_) => own.elapsed,
        Extent::Time(_) => own.elapsed.max(report.counted_in),
    };
    let messages = own.messages + report.counted;
    let verified = run.verified + report.verified;
    let since = |lane: &Lane| Some(lane.finished?.duration_since(run.began).as_secs_f64());
    let qp_seconds = run.lanes.iter().filter_map(since).collect();
    Ok((Outcome { messages, elapsed, verified, qp_seconds, began_unix_s, samples }, report))
}

fn unix_seconds() -> f64 {
    SystemTime::UNIX_EPOCH.elapsed().map_or(0.0, |since| since.as_secs_f64())
}

/// Serves one phase; the order to begin it has come.
pub(crate) fn server(session: &mut Session, phase: Phase) -> Result<(), Failure> {
    let (cpu, before) = (cpu_seconds(), session.traffic());
    let mut run = Run::new(session, phase)?;
    run.session.control.send(&Answer::Ready)?;
    run.began = Instant::now();
    run.expects = false;
    let mut own = None;
    let sent = loop {
        run.step()?;
        // Its own messages end without an order: while both sides send, neither has a moment to hear one.
        if own.is_none() && run.is_over() {
            own = Some(run.stop());
        }
        // While there is traffic no order can have come, and looking for one costs a turn of the engine.
        if run.idle_turns == 0 {
            continue;
        }
        match run.session.control.try_receive()? {
            Some(Order::End { sent }) => break sent,
            Some(_) => return Err(Failure::Peer("gave orders out of turn".to_owned())),
            None => {}
        }
    };
    run.expects = true;
    let own = run.finish(own)?;
    run.receive_all(sent)?;
    let report = SideReport {
        verified: run.verified,
        counted: own.messages,
        counted_in: own.elapsed,
        sent: run.ended,
        cpu_s: cpu_seconds() - cpu,
        traffic: run.session.traffic().since(before),
        order: run.session.out_of_order(),
    };
    run.session.control.send(&Answer::Report(report))
}

impl<'s> Run<'s> {
    fn new(session: &'s mut Session, phase: Phase) -> Result<Self, Failure> {
        let plan = &session.plan;
        if phase.size > plan.slot_len || phase.depth == 0 || phase.depth > plan.sends {
            return Err(Failure::Peer(format!("asked for a phase outside of its plan: {phase:?}")));
        }
        let (transmits, receives) = match (session.is_client, plan.bidirectional) {
            (_, true) => (true, true),
            (client, false) => (client, !client),
        };
        let target = match phase.extent {
            _ if !transmits => 0,
            Extent::Messages(count) => count,
            Extent::Time(_) => u64::MAX,
        };
        let lanes = vec![Lane { target, ..Lane::default() }; plan.qps as usize];
        let mut run = Run {
            transmits,
            // READs need nothing of the other side, unverified WRITEs neither.
            receives: receives
                && (plan.test == Test::SendBw || (plan.test == Test::WriteBw && plan.verify)),
            ended: 0,
            unended: lanes.iter().filter(|lane| lane.target > 0).count(),
            with_room: (0..lanes.len()).collect(),
            lanes,
            verified: 0,
            completions: Vec::with_capacity(256),
            scratch: Vec::new(),
            found: vec![0; phase.size as usize],
            idle_turns: 0,
            idle_since: Instant::now(),
            expects: true,
            sampler: None,
            phase,
            began: Instant::now(),
            session,
        };
        run.prepare()?;
        Ok(run)
    }

    fn prepare(&mut self) -> Result<(), Failure> {
        for qp in 0..self.lanes.len() {
            self.session.credits.store_u64(8 * qp, 0).attempt("credit")?;
            let is_read = !self.session.is_client || self.session.plan.bidirectional;
            if is_read && self.session.plan.test == Test::ReadBw && self.session.plan.verify {
                self.fill_exposed(qp)?;
            }
            if self.receives && self.session.qps[qp].outstanding().1 == 0 {
                for slot in 0..u64::from(self.session.plan.receives) {
                    self.post_receive(qp, slot)?;
                }
            }
        }
        Ok(())
    }

    fn fill_exposed(&mut self, qp: usize) -> Result<(), Failure> {
        for slot in 0..u64::from(self.session.plan.slots) {
            pattern::fill(&mut self.found, qp, slot);
            let offset = self.session.plan.slot_offset(qp, slot) as usize;
            self.session.exposed.write_at(offset, &self.found).attempt("memory")?;
        }
        Ok(())
    }

    fn post_receive(&self, qp: usize, slot: u64) -> Result<(), Failure> {
        let id = (qp as u64) << QP_SHIFT | slot;
        let piece = match self.session.plan.test {
            Test::SendBw => {
                let offset = self.session.plan.slot_offset(qp, slot) as usize;
                let end = offset + self.session.plan.slot_len as usize;
                Some(self.session.exposed.slice(offset..end).attempt("slot")?)
            }
            _ => None,
        };
        self.session.qps[qp].post_recv(wr::recv(id, piece)).attempt("receive")
    }

    /// Whether this side's own part of the phase is over: it has sent all, or for long enough.
    fn is_over(&self) -> bool {
        match self.phase.extent {
            Extent::Time(limit) if self.transmits => {
                self.ended > 0 && self.began.elapsed() >= limit
            }
            _ => self.has_sent_all(),
        }
    }

    /// Posts no more messages: those that were posted are all there will be. Returns what counts.
    fn stop(&mut self) -> Part {
        for lane in self.lanes.iter_mut().filter(|lane| lane.target == u64::MAX) {
            lane.target = lane.posted;
            lane.finished = (lane.ended == lane.target).then(Instant::now);
        }
        self.unended = self.lanes.iter().filter(|lane| lane.ended != lane.target).count();
        Part { messages: self.ended, elapsed: self.began.elapsed() }
    }

    /// Goes on until this side's part is over, unless it is (`own`), and all of its messages have ended.
    fn finish(&mut self, own: Option<Part>) -> Result<Part, Failure> {
        while own.is_none() && !self.is_over() {
            self.step()?;
        }
        let own = own.unwrap_or_else(|| self.stop());
        self.send_rest()?;
        Ok(own)
    }

    fn send_rest(&mut self) -> Result<(), Failure> {
        while !self.has_sent_all() {
            self.step()?;
        }
        Ok(())
    }

    fn has_sent_all(&self) -> bool {
        let credits = self.session.uses_credits();
        self.unended == 0 && !(credits && self.lanes.iter().any(|lane| lane.credit_in_flight))
    }

    /// `count`: over all queue pairs.
    fn receive_all(&mut self, count: u64) -> Result<(), Failure> {
        let credits = self.session.uses_credits();
        let settled =
            |lane: &Lane| (!credits || lane.credit_sent >= lane.received) && !lane.credit_in_flight;
        let received = |lanes: &[Lane]| lanes.iter().map(|lane| lane.received).sum::<u64>();
        while self.receives && !(received(&self.lanes) >= count && self.lanes.iter().all(settled)) {
            self.step()?;
        }
        Ok(())
    }

    fn step(&mut self) -> Result<(), Failure> {
        if self.transmits {
            self.fill_lanes()?;
        }
        let mut completions = std::mem::take(&mut self.completions);
        self.session.cq.poll(&mut completions, 256).attempt("completion queue")?;
        // Nothing completes for a credit, so nothing would wake who waits for one.
        let may_sleep = self.idle_turns > SPINS && !self.session.uses_credits();
        if completions.is_empty() && may_sleep {
            completions = self.session.cq.wait(NAP).attempt("completion queue")?;
        }
        self.watch(!completions.is_empty())?;
        for completion in completions.drain(..) {
            self.on_completion(&completion)?;
        }
        self.completions = completions;
        if let Some(sampler) = &mut self.sampler {
            sampler.tick(Instant::now());
        }
        if self.receives && self.session.uses_credits() {
            for qp in 0..self.lanes.len() {
                self.send_credit(qp)?;
            }
        }
        Ok(())
    }

    /// Notices that nothing happens any more, without a look at the clock in every turn.
    fn watch(&mut self, busy: bool) -> Result<(), Failure> {
        if busy {
            self.idle_turns = 0;
            return Ok(());
        }
        self.idle_turns += 1;
        if self.idle_turns == 1 {
            self.idle_since = Instant::now();
        }
        let stalled =
            self.idle_turns.is_multiple_of(CLOCK_EVERY) && self.idle_since.elapsed() > STALL;
        if stalled && self.expects { Err(Failure::Stalled(STALL)) } else { Ok(()) }
    }

    fn fill_lanes(&mut self) -> Result<(), Failure> {
        if self.session.uses_credits() {
            return (0..self.lanes.len()).try_for_each(|qp| self.fill_lane(qp));
        }
        while let Some(qp) = self.with_room.pop() {
            self.fill_lane(qp)?;
        }
        Ok(())
    }

    fn fill_lane(&mut self, qp: usize) -> Result<(), Failure> {
        if self.session.uses_credits() {
            let credited = self.session.credits.load_u64(8 * qp).attempt("credit")?;
            let lane = &mut self.lanes[qp];
            lane.reusable = lane.reusable.max(credited.min(lane.ended));
        } else {
            self.lanes[qp].reusable = self.lanes[qp].ended;
        }
        let depth = u64::from(self.phase.depth);
        loop {
            let lane = &self.lanes[qp];
            let full = lane.posted - lane.reusable >= depth || lane.posted - lane.ended >= depth;
            if full || lane.posted >= lane.target {
                return Ok(());
            }
            self.post_message(qp, lane.posted)?;
            self.lanes[qp].posted += 1;
        }
    }

    fn post_message(&mut self, qp: usize, message: u64) -> Result<(), Failure> {
        let plan = &self.session.plan;
        let slot = plan.slot_offset(qp, message);
        let range = slot as usize..(slot + self.phase.size) as usize;
        if plan.verify {
            match plan.test {
                Test::ReadBw => self.found.fill(0),
                _ => pattern::fill(&mut self.found, qp, message),
            }
            self.session.local.write_at(range.start, &self.found).attempt("memory")?;
        }
        let piece = self.session.local.slice(range).attempt("slot")?;
        let id = (qp as u64) << QP_SHIFT | message;
        let remote = self.session.remote.at(slot);
        let work = match plan.test {
            Test::SendBw => wr::send(id, [piece]),
            Test::ReadBw => wr::read(id, [piece], remote),
            _ if plan.verify => wr::write_imm(id, [piece], remote, message as u32),
            _ => wr::write(id, [piece], remote),
        };
        self.session.qps[qp].post_send(work).attempt("post")
    }

    fn on_completion(&mut self, completion: &Completion) -> Result<(), Failure> {
        let id = completion.wr_id;
        let qp = (id >> QP_SHIFT) as usize;
        let message = id & (CREDIT - 1);
        if completion.status != Status::Success {
            let what = match completion.work {
                Work::Recv | Work::RecvWriteImm => "a receive".to_owned(),
                _ if id & CREDIT != 0 => "the Write of a credit".to_owned(),
                work => format!("{work:?} of message {message}"),
            };
            return Err(self.session.failed(qp, what, completion.status));
        }
        if matches!(completion.work, Work::Recv | Work::RecvWriteImm) {
            return self.on_receive(qp, message, completion);
        }
        if id & CREDIT != 0 {
            self.lanes[qp].credit_in_flight = false;
            return Ok(());
        }
        self.on_end(qp);
        if self.session.plan.verify && self.session.plan.test == Test::ReadBw {
            let slot = message % u64::from(self.session.plan.slots);
            let offset = self.session.plan.slot_offset(qp, message) as usize;
            self.session.local.read_at(offset, &mut self.found).attempt("memory")?;
            pattern::check(&self.found, &mut self.scratch, qp, slot)?;
            self.verified += 1;
        }
        Ok(())
    }

    /// A message of ours is done.
    fn on_end(&mut self, qp: usize) {
        let lane = &mut self.lanes[qp];
        lane.ended += 1;
        self.ended += 1;
        if lane.ended == lane.target {
            lane.finished = Some(Instant::now());
            self.unended -= 1;
        } else if !self.session.uses_credits() {
            self.with_room.push(qp);
        }
        if let Some(sampler) = &mut self.sampler {
            sampler.add(self.phase.size);
        }
    }

    fn on_receive(&mut self, qp: usize, slot: u64, completion: &Completion) -> Result<(), Failure> {
        let message = self.lanes[qp].received;
        if self.session.plan.verify {
            self.check_received(qp, message, completion)?;
            self.verified += 1;
        }
        self.lanes[qp].received += 1;
        self.post_receive(qp, slot)
    }

    fn check_received(
        &mut self,
        qp: usize,
        message: u64,
        completion: &Completion,
    ) -> Result<(), Failure> {
        let wrong = |what: String| Err(Failure::Wrong { qp, message, what });
        if u64::from(completion.len) != self.phase.size {
            return wrong(format!("has {} bytes, not {}", completion.len, self.phase.size));
        }
        if completion.work == Work::RecvWriteImm && completion.imm != Some(message as u32) {
            return wrong(format!("came with immediate data {:?}", completion.imm));
        }
        let slot = match self.session.plan.test {
            // Receives are used in posting order, so message and slot go together.
            Test::SendBw => completion.wr_id & (CREDIT - 1),
            _ => message,
        };
        let offset = self.session.plan.slot_offset(qp, slot) as usize;
        self.session.exposed.read_at(offset, &mut self.found).attempt("memory")?;
        pattern::check(&self.found, &mut self.scratch, qp, message)
    }

    /// Tells the other side how many slots it may use again. One credit is under way at a time: two
    /// writes to the same word must not race.
    fn send_credit(&mut self, qp: usize) -> Result<(), Failure> {
        let words = self.lanes.len();
        let lane = &mut self.lanes[qp];
        if lane.credit_in_flight || lane.credit_sent == lane.received {
            return Ok(());
        }
        lane.credit_sent = lane.received;
        lane.credit_in_flight = true;
        let source = 8 * (words + qp);
        self.session.credits.store_u64(source, lane.received).attempt("credit")?;
        let piece = self.session.credits.slice(source..source + 8).attempt("credit")?;
        let remote = self.session.remote_credits.at(8 * qp as u64);
        let id = (qp as u64) << QP_SHIFT | CREDIT;
        self.session.qps[qp].post_send(wr::write(id, [piece], remote)).attempt("credit")
    }
}

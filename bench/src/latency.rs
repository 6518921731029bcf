//! The latency tests: one message at a time, in a ping-pong.
//!
//! SEND and WRITE are ping-pong: both sides do the same and the figure is half a round trip, as in
//! perftest. READ and the atomics are whole operations. A WRITE that fits one packet is detected by
//! polling its last byte. A longer one, whose packets may arrive in any order, and every verified
//! one, has immediate data and is detected by its completion.

use std::time::{Duration, Instant};

use braid::{Completion, Status, Work, wr};
use hdrhistogram::Histogram;

use crate::cli::{AtomicKind, Test};
use crate::failure::{Attempt, Failure};
use crate::peer::cpu_seconds;
use crate::plan::{Answer, Extent, Order, Phase, PhaseOutcome, SideReport};
use crate::progress::ProgressLine;
use crate::session::Session;
use crate::{interrupt, pattern};

const STALL: Duration = Duration::from_secs(20);
/// Interval between two checks for other messages of the other side while completions are awaited.
const SLEEP: Duration = Duration::from_millis(10);
/// Interval at which the client looks whether the server was interrupted.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Turns of a spin between two reads of the clock, which is too expensive for every turn.
const CLOCK_EVERY: u32 = 4096;

/// The results of a phase.
pub(crate) struct LatencyOutcome {
    /// Nanoseconds of each message.
    pub(crate) times: Histogram<u64>,
    /// Nanoseconds of each message in order, if they are recorded.
    pub(crate) each: Vec<u64>,
    pub(crate) elapsed: Duration,
    pub(crate) verified: u64,
}

struct LatencyRun<'s> {
    session: &'s mut Session,
    phase: Phase,
    /// Whether WRITEs complete a receive at the other side.
    with_imm: bool,
    sends_open: u64,
    received: u64,
    /// Consumed receives. They are posted again after the answer has been sent, because they are
    /// for later messages.
    taken: u32,
    verified: u64,
    completions: Vec<Completion>,
    scratch: Vec<u8>,
    buffer: Vec<u8>,
}

/// Measures one phase from the client's side; `keep`: records each time.
pub(crate) fn client(
    session: &mut Session,
    phase: Phase,
    keep: bool,
) -> Result<PhaseOutcome<LatencyOutcome>, Failure> {
    let mut run = LatencyRun::new(session, phase)?;
    run.session.control.begin(phase, STALL)?;
    let mut times = Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("sound bounds");
    let mut each = Vec::new();
    if let (true, Extent::Messages(count)) = (keep, phase.extent) {
        each.reserve_exact(count as usize);
    }
    let begin = Instant::now();
    let mut sent = 0;
    let mut looked = begin;
    let mut progress = ProgressLine::begin(phase.extent, 1);
    let is_over = |sent| match phase.extent {
        Extent::Messages(count) => sent >= count,
        Extent::Time(limit) => sent > 0 && begin.elapsed() >= limit,
    };
    let mut failed = None;
    while !is_over(sent) && run.session.control.interruption().is_none() {
        let started = Instant::now();
        let done = match started.duration_since(looked) > LOOK_EVERY {
            true => run.session.control.look(),
            false => run.client_turn(sent),
        };
        if let Err(failure) = done {
            failed = Some(failure);
            break;
        }
        if started.duration_since(looked) > LOOK_EVERY {
            looked = started;
            progress.iter_mut().for_each(|progress| progress.tick(started, sent));
            continue;
        }
        let took = started.elapsed().as_nanos() as u64;
        times.saturating_record(took);
        if keep {
            each.push(took);
        }
        sent += 1;
    }
    let elapsed = begin.elapsed();
    drop(progress);
    let (report, cut) = match failed.map_or_else(|| run.end(sent), Err) {
        Ok(report) => (report, run.session.control.interruption()),
        Err(failure) if failure.leaves_results() && sent > 0 => {
            (SideReport::default(), Some(failure))
        }
        Err(failure) => return Err(failure),
    };
    let verified = run.verified + report.verified;
    Ok(PhaseOutcome { result: LatencyOutcome { times, each, elapsed, verified }, report, cut })
}

/// Serves one phase after the order to begin.
pub(crate) fn server(session: &mut Session, phase: Phase) -> Result<(), Failure> {
    let (cpu, before) = (cpu_seconds(), session.traffic());
    let mut run = LatencyRun::new(session, phase)?;
    run.session.control.send(&Answer::Ready)?;
    let ping_pong = matches!(run.session.plan.test, Test::WriteLat | Test::SendLat);
    let mut answered = 0;
    loop {
        if ping_pong && run.try_receive(answered)? {
            run.send(answered)?;
            answered += 1;
            continue;
        }
        if !ping_pong {
            run.poll()?;
        }
        run.session.pass_interruption_on()?;
        match run.session.control.try_receive()? {
            Some(Order::End { sent } | Order::Stop { sent }) if !ping_pong || sent == answered => {
                break;
            }
            Some(_) => return Err(Failure::Peer("sent an unexpected order".to_owned())),
            None => {}
        }
    }
    run.drain()?;
    let report = SideReport {
        verified: run.verified,
        cpu_s: cpu_seconds() - cpu,
        traffic: run.session.traffic().since(before),
        order: run.session.out_of_order(),
        paths_live: run.session.paths_live(),
        degraded: run.session.degraded(),
        ..SideReport::default()
    };
    run.session.control.send(&Answer::Report(report))
}

impl<'s> LatencyRun<'s> {
    fn new(session: &'s mut Session, phase: Phase) -> Result<Self, Failure> {
        let plan = &session.plan;
        if phase.size == 0 || phase.size > plan.slot_len {
            return Err(Failure::Usage(
                "a latency test needs messages of at least 1 byte".to_owned(),
            ));
        }
        let one_packet = phase.size <= u64::from(session.qps[0].packet_payload().unwrap_or(0));
        let with_imm = plan.test == Test::WriteLat && (plan.verify || !one_packet);
        let buffer = vec![0; phase.size as usize];
        let run = LatencyRun {
            with_imm,
            sends_open: 0,
            received: 0,
            taken: 0,
            verified: 0,
            completions: Vec::with_capacity(64),
            scratch: Vec::new(),
            buffer,
            phase,
            session,
        };
        run.prepare()?;
        Ok(run)
    }

    fn prepare(&self) -> Result<(), Failure> {
        let test = self.session.plan.test;
        let receives = test == Test::SendLat || self.with_imm;
        let len = self.phase.size as usize;
        if test == Test::ReadLat && self.session.plan.verify {
            let mut bytes = vec![0; len];
            pattern::fill(&mut bytes, 0, 0);
            self.session.exposed.write_at(0, &bytes).attempt("memory")?;
        } else {
            self.session.exposed.write_at(0, &vec![0; len.max(8)]).attempt("memory")?;
        }
        // One more receive than in use, because the last one consumed is posted again a moment
        // later.
        while receives && self.session.qps[0].outstanding().1 <= self.session.plan.receives {
            self.post_receive()?;
        }
        Ok(())
    }

    fn post_receive(&self) -> Result<(), Failure> {
        let piece = match self.session.plan.test {
            Test::SendLat => Some(
                self.session
                    .exposed
                    .slice(..self.session.plan.slot_len as usize)
                    .attempt("slot")?,
            ),
            _ => None,
        };
        self.session.qps[0].post_recv(wr::recv(0, piece)).attempt("receive")
    }

    fn client_turn(&mut self, message: u64) -> Result<(), Failure> {
        self.send(message)?;
        match self.session.plan.test {
            Test::WriteLat | Test::SendLat => {
                self.wait(|run| run.try_receive(message))?;
            }
            _ => {
                self.wait(|run| {
                    run.poll()?;
                    Ok(run.sends_open == 0)
                })?;
                self.check_fetched(message)?;
            }
        }
        Ok(())
    }

    fn wait(
        &mut self,
        mut done: impl FnMut(&mut Self) -> Result<bool, Failure>,
    ) -> Result<(), Failure> {
        let mut turns: u32 = 0;
        let mut begin = None;
        while !done(self)? {
            turns = turns.wrapping_add(1);
            if !turns.is_multiple_of(CLOCK_EVERY) {
                continue;
            }
            let limit = if interrupt::is_requested() { interrupt::GRACE } else { STALL };
            if begin.get_or_insert_with(Instant::now).elapsed() > limit {
                return Err(Failure::Stalled(limit));
            }
        }
        Ok(())
    }

    fn send(&mut self, message: u64) -> Result<(), Failure> {
        let len = self.phase.size as usize;
        let plan = &self.session.plan;
        let most_open = u64::from(plan.sends) / 2;
        if plan.verify && matches!(plan.test, Test::WriteLat | Test::SendLat) {
            // The slice is free, because the answer to the previous message proves its arrival.
            pattern::fill(&mut self.buffer, 0, message);
            self.session.local.write_at(0, &self.buffer).attempt("memory")?;
        } else if plan.test == Test::WriteLat {
            self.session.local.write_at(len - 1, &[mark(message)]).attempt("memory")?;
        } else if plan.verify {
            self.buffer.fill(0);
            self.session.local.write_at(0, &self.buffer).attempt("memory")?;
        }
        // A completion may lag behind the answer, and the send queue must have room.
        while self.sends_open > most_open {
            self.poll()?;
        }
        let work = self.work(message)?;
        self.session.qps[0].post_send(work).attempt("post")?;
        self.sends_open += 1;
        Ok(())
    }

    fn work(&self, message: u64) -> Result<braid::SendWr, Failure> {
        let plan = &self.session.plan;
        let remote = self.session.remote.at(0);
        let piece = |len| self.session.local.slice(..len).attempt("slot");
        let all = self.phase.size as usize;
        Ok(match plan.test {
            Test::SendLat => wr::send(message, [piece(all)?]),
            Test::ReadLat => wr::read(message, [piece(all)?], remote),
            Test::AtomicLat => match plan.atomic {
                AtomicKind::FetchAndAdd => wr::fetch_add(message, piece(8)?, remote, 1),
                AtomicKind::CmpAndSwap => {
                    wr::compare_swap(message, piece(8)?, remote, message, message + 1)
                }
            },
            _ if self.with_imm => wr::write_imm(message, [piece(all)?], remote, message as u32),
            _ => wr::write(message, [piece(all)?], remote),
        })
    }

    /// Polls the engine once, or sleeps until there is a completion, and handles the completions.
    /// An answer is sent before the next turn.
    fn poll(&mut self) -> Result<(), Failure> {
        let mut completions = std::mem::take(&mut self.completions);
        if self.session.plan.events {
            completions.extend(self.session.cq.wait(SLEEP).attempt("completion queue")?);
        } else {
            self.session.cq.poll(&mut completions, 64).attempt("completion queue")?;
        }
        for _ in 0..std::mem::take(&mut self.taken) {
            self.post_receive()?;
        }
        for completion in completions.drain(..) {
            self.on_completion(&completion)?;
        }
        self.completions = completions;
        Ok(())
    }

    fn on_completion(&mut self, completion: &Completion) -> Result<(), Failure> {
        if completion.status != Status::Success {
            let what = match completion.work {
                Work::Recv | Work::RecvWriteImm => "a receive".to_owned(),
                work => format!("{work:?} of message {}", completion.wr_id),
            };
            return Err(self.session.failed(0, what, completion.status));
        }
        if !matches!(completion.work, Work::Recv | Work::RecvWriteImm) {
            self.sends_open -= 1;
            return Ok(());
        }
        self.received += 1;
        if u64::from(completion.len) != self.phase.size {
            let what = format!("has {} bytes, not {}", completion.len, self.phase.size);
            return Err(Failure::Wrong { qp: 0, message: self.received - 1, what });
        }
        self.taken += 1;
        Ok(())
    }

    /// Returns whether the other side's message of this number has arrived. Polls the engine only
    /// if it has not: another poll, such as that of the control connection, may have received it.
    fn try_receive(&mut self, message: u64) -> Result<bool, Failure> {
        if !self.is_here(message)? {
            self.poll()?;
            if !self.is_here(message)? {
                return Ok(false);
            }
        }
        if self.session.plan.verify {
            self.session.exposed.read_at(0, &mut self.buffer).attempt("memory")?;
            pattern::check(&self.buffer, &mut self.scratch, 0, message)?;
            self.verified += 1;
        }
        Ok(true)
    }

    fn is_here(&self, message: u64) -> Result<bool, Failure> {
        if self.session.plan.test == Test::SendLat || self.with_imm {
            return Ok(self.received > message);
        }
        let mut last = [0];
        self.session.exposed.read_at(self.phase.size as usize - 1, &mut last).attempt("memory")?;
        Ok(last[0] == mark(message))
    }

    fn check_fetched(&mut self, message: u64) -> Result<(), Failure> {
        if !self.session.plan.verify {
            return Ok(());
        }
        if self.session.plan.test == Test::AtomicLat {
            let fetched = self.result()?;
            if fetched != message {
                let what = format!(
                    "the atomic fetched {fetched}, not {message}: it did not execute exactly once"
                );
                return Err(Failure::Wrong { qp: 0, message, what });
            }
        } else {
            self.session.local.read_at(0, &mut self.buffer).attempt("memory")?;
            pattern::check(&self.buffer, &mut self.scratch, 0, 0)?;
        }
        self.verified += 1;
        Ok(())
    }

    /// The word that an atomic or a READ has stored, which may be device memory.
    fn result(&self) -> Result<u64, Failure> {
        let mut word = [0; 8];
        self.session.local.read_at(0, &mut word).attempt("memory")?;
        Ok(u64::from_ne_bytes(word))
    }

    /// Checks that the other side's counter equals the number of atomics sent.
    fn check_total(&mut self, sent: u64) -> Result<(), Failure> {
        if !self.session.plan.verify || self.session.plan.test != Test::AtomicLat {
            return Ok(());
        }
        let piece = self.session.local.slice(..8).attempt("slot")?;
        let read = wr::read(sent, [piece], self.session.remote.at(0));
        self.session.qps[0].post_send(read).attempt("post")?;
        self.sends_open += 1;
        self.drain()?;
        let total = self.result()?;
        if total != sent {
            let what = format!("the counter holds {total} after {sent} atomics");
            return Err(Failure::Wrong { qp: 0, message: sent, what });
        }
        Ok(())
    }

    /// Ends the phase after `sent` messages. Returns the report of the server.
    fn end(&mut self, sent: u64) -> Result<SideReport, Failure> {
        self.drain()?;
        self.check_total(sent)?;
        self.session.control.send(&Order::End { sent })?;
        match self.session.control.answer(STALL)? {
            Answer::Report(report) => Ok(report),
            _ => Err(Failure::Peer("sent an unexpected answer".to_owned())),
        }
    }

    fn drain(&mut self) -> Result<(), Failure> {
        self.wait(|run| {
            run.poll()?;
            Ok(run.sends_open == 0)
        })
    }
}

/// Returns the last byte of a message: different from that of the previous message, and not the 0
/// of fresh memory.
fn mark(message: u64) -> u8 {
    (message % 255) as u8 + 1
}

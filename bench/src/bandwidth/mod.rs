//! The bandwidth tests: a number of messages outstanding on each queue pair, in one direction or
//! both.
//!
//! Both sides run the same loop. A side that transmits keeps its queue pairs full. A side that
//! receives keeps receives posted. With `--verify` it checks every byte before it releases the
//! slot, by reposting the receive (SEND) or by writing back a credit word (WRITE).

mod observations;
mod peak;
mod receive;
mod run;
mod stall;
mod transmit;

use std::time::{Duration, Instant, SystemTime};

pub(crate) use self::observations::Watch;

use self::run::{Progress, Run};
use self::stall::STALL;
use crate::failure::Failure;
use crate::peer::cpu_seconds;
use crate::plan::{Answer, Extent, Order, Phase, PhaseOutcome, SideReport};
use crate::samples::Sample;
use crate::session::Session;

/// The results of a phase at the client.
#[derive(Clone, Debug)]
pub(crate) struct BandwidthOutcome {
    /// Messages of both sides that had completed after `elapsed`. With a time limit, messages in
    /// flight at the end are not counted (as with perftest's -D), because those of a slow queue
    /// pair would take long.
    pub(crate) messages: u64,
    pub(crate) elapsed: Duration,
    pub(crate) verified: u64,
    /// Completion time of the last message sent or read, by queue pair.
    pub(crate) qp_seconds: Vec<f64>,
    /// Messages of this side that had completed after `elapsed`, by queue pair.
    pub(crate) qp_messages: Vec<u64>,
    pub(crate) began_unix_s: f64,
    pub(crate) samples: Vec<Sample>,
    /// Peak rate in messages per second.
    pub(crate) peak: Option<f64>,
}

/// Measures one phase from the client's side. The phase may end early.
pub(crate) fn client(
    session: &mut Session,
    phase: Phase,
    watch: Watch,
) -> Result<PhaseOutcome<BandwidthOutcome>, Failure> {
    let mut run = Run::new(session, phase)?;
    run.session.control.begin(phase, STALL)?;
    let began_unix_s = unix_seconds();
    run.began = Instant::now();
    run.observe(&watch);
    let transmitted = transmit(&mut run);
    let own = run.stop();
    let qp_messages = run.progress.iter().map(|qp| qp.ended).collect();
    let samples = run.observations.take_samples();
    let ended = transmitted.and_then(|()| end(&mut run));
    let peak = run.observations.take_peak();
    let (report, cut) = match ended {
        Ok(report) => (report, run.session.control.interruption()),
        Err(failure) if failure.leaves_results() && own.messages > 0 => {
            (SideReport::default(), Some(failure))
        }
        Err(failure) => return Err(failure),
    };
    let elapsed = match phase.extent {
        Extent::Messages(_) if report.sent > 0 => run.began.elapsed(),
        Extent::Messages(_) => own.elapsed,
        Extent::Time(_) => own.elapsed.max(report.counted_in),
    };
    let messages = own.messages + report.counted;
    let verified = run.verification.verified + report.verified;
    let since = |qp: &Progress| Some(qp.finished?.duration_since(run.began).as_secs_f64());
    let qp_seconds = run.progress.iter().filter_map(since).collect();
    let result = BandwidthOutcome {
        messages,
        elapsed,
        verified,
        qp_seconds,
        qp_messages,
        began_unix_s,
        samples,
        peak,
    };
    Ok(PhaseOutcome { result, report, cut })
}

fn transmit(run: &mut Run<'_>) -> Result<(), Failure> {
    while !run.is_over() && !run.is_interrupted()? {
        run.step()?;
    }
    Ok(())
}

/// Waits for the messages on the way, and for the report of the server.
fn end(run: &mut Run<'_>) -> Result<SideReport, Failure> {
    run.send_rest()?;
    let sent = run.ended;
    let order = match run.session.control.interruption() {
        None => Order::End { sent },
        Some(_) => Order::Stop { sent },
    };
    run.session.control.send(&order)?;
    let report = loop {
        run.step()?;
        match run.session.control.try_answer()? {
            Some(Answer::Report(report)) => break report,
            Some(_) => return Err(Failure::Peer("sent an unexpected answer".to_owned())),
            None => {}
        }
    };
    run.receive_all(report.sent)?;
    Ok(report)
}

fn unix_seconds() -> f64 {
    SystemTime::UNIX_EPOCH.elapsed().map_or(0.0, |since| since.as_secs_f64())
}

/// Serves one phase after the order to begin.
pub(crate) fn server(session: &mut Session, phase: Phase) -> Result<(), Failure> {
    let (cpu, before) = (cpu_seconds(), session.traffic());
    let mut run = Run::new(session, phase)?;
    run.session.control.send(&Answer::Ready)?;
    run.began = Instant::now();
    run.stall.expects = false;
    let mut own = None;
    let sent = loop {
        run.step()?;
        // Its own part ends without an order, because neither side can read orders while both send.
        if own.is_none() && run.is_over() {
            own = Some(run.stop());
        }
        // An order seldom arrives while there is traffic, and a check costs a turn of the engine.
        if run.stall.idle_turns() == 0 && !run.is_time_to_look() {
            continue;
        }
        run.session.pass_interruption_on()?;
        match run.session.control.try_receive()? {
            Some(Order::End { sent }) => break sent,
            Some(Order::Stop { sent }) => {
                own = own.or_else(|| Some(run.stop()));
                break sent;
            }
            Some(_) => return Err(Failure::Peer("sent an unexpected order".to_owned())),
            None => {}
        }
    };
    run.stall.expects = true;
    let own = run.finish(own)?;
    run.receive_all(sent)?;
    let report = SideReport {
        verified: run.verification.verified,
        counted: own.messages,
        counted_in: own.elapsed,
        sent: run.ended,
        cpu_s: cpu_seconds() - cpu,
        traffic: run.session.traffic().since(before),
        order: run.session.out_of_order(),
        paths_live: run.session.paths_live(),
        degraded: run.session.degraded(),
    };
    run.session.control.send(&Answer::Report(report))
}

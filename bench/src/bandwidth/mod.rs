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
use crate::plan::{Answer, Extent, Order, Phase, SideReport};
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

/// Measures one phase from the client's side.
pub(crate) fn client(
    session: &mut Session,
    phase: Phase,
    watch: Watch,
) -> Result<(BandwidthOutcome, SideReport), Failure> {
    let mut run = Run::new(session, phase)?;
    run.session.control.begin(phase, STALL)?;
    let began_unix_s = unix_seconds();
    run.began = Instant::now();
    run.observe(&watch);
    while !run.is_over() {
        run.step()?;
    }
    let own = run.stop();
    let qp_messages = run.progress.iter().map(|qp| qp.ended).collect();
    let samples = run.observations.take_samples();
    run.send_rest()?;
    let peak = run.observations.take_peak();
    run.session.control.send(&Order::End { sent: run.ended })?;
    let report = loop {
        run.step()?;
        match run.session.control.try_receive()? {
            Some(Answer::Report(report)) => break report,
            Some(Answer::Ready) => {
                return Err(Failure::Peer("sent an unexpected answer".to_owned()));
            }
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
    let verified = run.verification.verified + report.verified;
    let since = |qp: &Progress| Some(qp.finished?.duration_since(run.began).as_secs_f64());
    let qp_seconds = run.progress.iter().filter_map(since).collect();
    let outcome = BandwidthOutcome {
        messages,
        elapsed,
        verified,
        qp_seconds,
        qp_messages,
        began_unix_s,
        samples,
        peak,
    };
    Ok((outcome, report))
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
        // No order can arrive while there is traffic, and a check costs a turn of the engine.
        if run.stall.idle_turns() == 0 {
            continue;
        }
        match run.session.control.try_receive()? {
            Some(Order::End { sent }) => break sent,
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

//! The bandwidth tests: a number of messages outstanding on each queue pair, in one direction or both.
//!
//! Both sides run the same loop. A side that transmits keeps its queue pairs full; a side that
//! receives keeps receives posted and, with `--verify`, checks every byte before it lets the slot be
//! used again: by reposting the receive (SEND), or by a credit word written back (WRITE).

mod peak;
mod receive;
mod run;
mod transmit;

use std::time::{Duration, Instant, SystemTime};

use self::run::{Progress, Run, STALL};
use crate::failure::Failure;
use crate::peer::cpu_seconds;
use crate::plan::{Answer, Extent, Order, Phase, SideReport};
use crate::samples::{Sample, Sampler};
use crate::session::Session;
use crate::table::Table;

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
    /// How many messages of each had ended after `elapsed`, of this side.
    pub(crate) qp_messages: Vec<u64>,
    pub(crate) began_unix_s: f64,
    pub(crate) samples: Vec<Sample>,
    /// Messages a second, the most in any span.
    pub(crate) peak: Option<f64>,
}

/// What to look at while a phase runs.
pub(crate) struct Watch {
    /// Between samples of the goodput.
    pub(crate) interval: Option<Duration>,
    /// Shows each sample as it comes.
    pub(crate) lines: Option<Table>,
    /// Looks for the peak, where perftest does.
    pub(crate) peak: bool,
}

/// Measures one phase from the client's side.
pub(crate) fn client(
    session: &mut Session,
    phase: Phase,
    watch: Watch,
) -> Result<(Outcome, SideReport), Failure> {
    let mut run = Run::new(session, phase)?;
    run.session.control.begin(phase, STALL)?;
    let began_unix_s = unix_seconds();
    run.began = Instant::now();
    run.look(&watch);
    while !run.is_over() {
        run.step()?;
    }
    let own = run.stop();
    let qp_messages = run.progress.iter().map(|qp| qp.ended).collect();
    let samples = run.sampler.take().map(Sampler::into_samples).unwrap_or_default();
    run.send_rest()?;
    let peak = run.peak.take().and_then(|peak| peak.messages_per_second());
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
    let since = |qp: &Progress| Some(qp.finished?.duration_since(run.began).as_secs_f64());
    let qp_seconds = run.progress.iter().filter_map(since).collect();
    let outcome = Outcome {
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
        paths_live: run.session.paths_live(),
        degraded: run.session.degraded(),
    };
    run.session.control.send(&Answer::Report(report))
}

//! Runs in the middle of which a spine becomes a black hole.

use std::thread;
use std::time::{Duration, Instant, SystemTime};

use braid_lab::Trouble;

use super::lab::{Forward, Lab};
use super::record::Record;
use super::run::Troubled;
use super::scenario::Scenario;
use super::timeline::{Recovery, recovery};
use super::trial::{Amount, Braid};
use crate::failure::Failure;
use crate::report::Row;

/// Seconds from the first message to the trouble, from there to its end, and from there to the last message.
const PART: Duration = Duration::from_secs(1);
/// The share of what is left of the fabric at which it has recovered.
const RECOVERED: f64 = 0.9;
const SAMPLE_MS: u64 = 5;
/// A look at the counters takes about 20 ms by itself.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// A spine is in use again when it has passed on so much: more than probes are.
const DATA_BYTES: u64 = 64 << 10;
const FLAP: Duration = Duration::from_millis(100);
const FLAP_SECONDS: u32 = 10;

/// The first `spines` spines are black holes for the middle third of the run.
pub(super) fn cut(
    lab: &Lab,
    scenario: Scenario,
    braid: &Braid,
    spines: usize,
) -> Result<Record, Failure> {
    let mut record = Record::new(lab, scenario, lab.capacity_gbps());
    let braid = Braid { interval_ms: Some(SAMPLE_MS), ..*braid };
    let before = lab.forward()?;
    let seconds = (3 * PART).as_secs_f64();
    let mut pair = lab.pair(&braid, Amount::Seconds(seconds))?;
    let begin = pair.wait_for_begin()?;
    sleep_until(begin + PART);
    let mut cut_at = SystemTime::now();
    let mut troubles = Vec::new();
    for spine in 0..spines {
        // The time of the last: those before it are being dealt with meanwhile.
        cut_at = SystemTime::now();
        troubles.push(Troubled::make(lab, spine, Trouble::Blackhole)?);
    }
    sleep_until(begin + 2 * PART);
    let at_end = lab.forward()?;
    let ended_at = SystemTime::now();
    troubles.into_iter().try_for_each(Troubled::end)?;
    record.return_ms = returned(lab, &at_end[..spines], begin + 3 * PART)?
        .map(|at| at.duration_since(ended_at).unwrap_or_default().as_secs_f64() * 1e3);
    let row = pair.finish()?;
    record.braid(&braid, std::slice::from_ref(&row));
    record.links(&before, &lab.forward()?);
    let left = (lab.plan().spines - spines) as f64 * lab.payload_gbps(lab.plan().rate);
    judge(&mut record, row, [cut_at, ended_at], RECOVERED * left);
    Ok(record)
}

/// When all of these spines had passed on data again.
fn returned(lab: &Lab, before: &[Forward], until: Instant) -> Result<Option<SystemTime>, Failure> {
    while Instant::now() < until {
        let now = lab.forward()?;
        if before.iter().zip(&now).all(|(before, now)| now.down >= before.down + DATA_BYTES) {
            return Ok(Some(SystemTime::now()));
        }
        thread::sleep(LOOK_EVERY);
    }
    Ok(None)
}

fn judge(record: &mut Record, row: Row, trouble: [SystemTime; 2], target_gbps: f64) {
    let begin = row.began_unix_s.unwrap_or(0.0);
    let ms = |at: SystemTime| {
        (at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64() - begin) * 1e3
    };
    let [from, until] = trouble.map(ms);
    let (took, recovered) = match recovery(&row.samples, from, until, target_gbps) {
        Recovery::After(took) => (took, true),
        Recovery::Never => (until - from, false),
    };
    record.recovery_ms = Some(took);
    record.recovered = Some(recovered);
    record.trouble_ms = vec![from, until];
    record.samples = row.samples;
}

/// The first spine comes and goes.
pub(super) fn flap(lab: &Lab, braid: &Braid) -> Result<Record, Failure> {
    let mut record = Record::new(lab, Scenario::Flap, lab.capacity_gbps());
    let braid = Braid { verify: true, ..*braid };
    let before = lab.forward()?;
    let amount = Amount::Seconds(f64::from(FLAP_SECONDS));
    let mut pair = lab.pair(&braid, amount)?;
    let begin = pair.wait_for_begin()?;
    for turn in (0..)
        .step_by(2)
        .take_while(|turn| FLAP * (turn + 2) < Duration::from_secs(1) * FLAP_SECONDS)
    {
        sleep_until(begin + FLAP * turn);
        let trouble = Troubled::make(lab, 0, Trouble::Blackhole)?;
        sleep_until(begin + FLAP * (turn + 1));
        trouble.end()?;
    }
    record.braid(&braid, &[pair.finish()?]);
    record.links(&before, &lab.forward()?);
    Ok(record)
}

fn sleep_until(at: Instant) {
    thread::sleep(at.saturating_duration_since(Instant::now()));
}

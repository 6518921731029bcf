//! Runs in the middle of which a spine becomes a black hole.

use std::thread;
use std::time::{Duration, Instant, SystemTime};

use braid_lab::Trouble;

use super::lab::{Forward, SpineLab};
use super::record::SprayRecord;
use super::run::Troubled;
use super::scenario::SprayScenario;
use super::timeline::{Recovery, acked, mean, recovery};
use super::trial::{Amount, BraidSender};
use crate::failure::Failure;
use crate::report::Row;

/// Duration of each part: before the failure, during it, and after it.
const PART: Duration = Duration::from_secs(1);
/// Failures begin with a second of Unix time, so that the kernel can start them by its clock.
const WHOLE_SECOND: Duration = Duration::from_secs(1);
/// The share of the remaining capacity, or of the earlier goodput if that was less, at which the
/// fabric has recovered.
const RECOVERED: f64 = 0.9;
const SAMPLE_MS: u64 = 2;
/// Interval of reading the counters. A reading itself takes about 20 ms.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// Number of bytes that a spine must forward to be in use again: more than probes have.
const DATA_BYTES: u64 = 64 << 10;
const FLAP: Duration = Duration::from_millis(100);
const FLAP_SECONDS: u32 = 10;

/// Makes the first `spines` spines black holes for a second in the middle of the run.
///
/// The rules are set up half a part earlier, because that takes a dozen processes. On few cores,
/// these would delay the recovery.
pub(super) fn cut(
    lab: &SpineLab,
    scenario: SprayScenario,
    braid: &BraidSender,
    spines: usize,
) -> Result<SprayRecord, Failure> {
    let mut record = SprayRecord::new(lab, scenario, lab.capacity_gbps());
    let braid = BraidSender { interval_ms: Some(SAMPLE_MS), ..*braid };
    let before = lab.forward()?;
    let duration = 3 * PART + WHOLE_SECOND;
    let mut pair = lab.pair(&braid, Amount::Seconds(duration.as_secs_f64()))?;
    let begin = pair.wait_for_begin()?;
    let second = next_second(SystemTime::now() + PART);
    sleep_until(begin + PART / 2);
    let make = |spine| Troubled::make(lab, spine, Trouble::BlackholeFrom(second));
    let troubles = (0..spines).map(make).collect::<Result<Vec<_>, _>>()?;
    let cut_at = SystemTime::UNIX_EPOCH + Duration::from_secs(second);
    if SystemTime::now() >= cut_at {
        let late = "the failure was set up too late; run it again on a machine with less load";
        return Err(Failure::Trial(late.to_owned()));
    }
    let ended_at = cut_at + PART;
    thread::sleep(ended_at.duration_since(SystemTime::now()).unwrap_or_default());
    let at_end = lab.forward()?;
    let restored_at = SystemTime::now();
    troubles.into_iter().try_for_each(Troubled::end)?;
    record.return_ms = returned(lab, &at_end[..spines], begin + duration)?
        .map(|at| at.duration_since(restored_at).unwrap_or_default().as_secs_f64() * 1e3);
    let row = pair.finish()?;
    record.braid(&braid, std::slice::from_ref(&row));
    record.links(&before, &lab.forward()?);
    let left = (lab.plan().spines - spines) as f64 * lab.payload_gbps(lab.plan().rate);
    record.paths = scenario.varies_paths().then_some(braid.paths);
    judge(&mut record, row, [cut_at, ended_at], left);
    Ok(record)
}

/// Returns the first whole second of Unix time from `at` on.
fn next_second(at: SystemTime) -> u64 {
    let since = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    since.as_secs() + u64::from(since.subsec_nanos() > 0)
}

/// Returns the time at which all of these spines had forwarded data again.
fn returned(
    lab: &SpineLab,
    before: &[Forward],
    until: Instant,
) -> Result<Option<SystemTime>, Failure> {
    while Instant::now() < until {
        let now = lab.forward()?;
        if before.iter().zip(&now).all(|(before, now)| now.down >= before.down + DATA_BYTES) {
            return Ok(Some(SystemTime::now()));
        }
        thread::sleep(LOOK_EVERY);
    }
    Ok(None)
}

/// Judges the recovery from a failure that left a capacity of `left_gbps`.
fn judge(record: &mut SprayRecord, row: Row, trouble: [SystemTime; 2], left_gbps: f64) {
    let begin = row.began_unix_s.unwrap_or(0.0);
    let ms = |at: SystemTime| {
        (at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64() - begin) * 1e3
    };
    let [from, until] = trouble.map(ms);
    let acked = acked(&row.samples);
    let before = mean(&acked, from / 2.0, from).unwrap_or_default();
    let target_gbps = RECOVERED * left_gbps.min(before);
    record.rto_ms = row.samples.iter().rfind(|sample| sample.at_ms <= from).map(|s| s.rto_ms);
    let (took, recovered) = match recovery(&acked, from, until, target_gbps) {
        Recovery::After(took) => (took, true),
        Recovery::Never => (until - from, false),
    };
    record.recovery_ms = Some(took);
    record.recovered = Some(recovered);
    record.trouble_ms = vec![from, until];
    record.samples = row.samples;
}

/// Makes the first spine a black hole every other interval.
pub(super) fn flap(lab: &SpineLab, braid: &BraidSender) -> Result<SprayRecord, Failure> {
    let mut record = SprayRecord::new(lab, SprayScenario::Flap, lab.capacity_gbps());
    let braid = BraidSender { verify: true, ..*braid };
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

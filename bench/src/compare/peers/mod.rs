//! The contestants: programs that move bytes from one host to another.

mod braid;
mod libfabric;
mod openmpi;
mod sockets;
mod ucx;

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

pub(super) use self::braid::{BraidPeer, Operation};
pub(super) use self::libfabric::Libfabric;
pub(super) use self::openmpi::OpenMpi;
pub(super) use self::sockets::Sockets;
pub(super) use self::ucx::{Ucx, Via};
use super::case::CompareCase;
use super::place::Place;
use crate::failure::Failure;
use crate::peer::Metrics;

/// Time that a run may take beyond the requested seconds.
const GRACE: Duration = Duration::from_secs(30);

/// A program to compare.
pub(super) trait ComparedPeer {
    /// The name in tables.
    fn name(&self) -> String;

    /// Whether it supports this case.
    fn fits(&self, case: &CompareCase) -> bool;

    /// The program that it runs, and the Debian package that contains it. `None`: part of Braid.
    fn needs(&self) -> Option<Needs> {
        None
    }

    /// The reason why it cannot run on this machine, with the remedy.
    fn missing(&self) -> Option<String> {
        let Needs { program, package } = self.needs().filter(|needs| !needs.is_there())?;
        Some(format!("`{program}` is not on PATH: apt-get install {package}"))
    }

    /// Prepares the first run of a case.
    fn prepare(&mut self, _place: &Place, _case: &CompareCase) -> Result<(), Failure> {
        Ok(())
    }

    /// Runs once and measures for about this many seconds.
    fn run(
        &mut self,
        place: &Place,
        case: &CompareCase,
        seconds: f64,
    ) -> Result<PeerOutcome, Failure>;
}

/// The results of a run.
pub(super) struct PeerOutcome {
    pub(super) metrics: Metrics,
    /// Duration of the measurement.
    pub(super) seconds: f64,
    /// End of the measurement.
    pub(super) ended: Instant,
}

impl PeerOutcome {
    /// Creates the results of a run that has just ended.
    fn now(metrics: Metrics, seconds: f64) -> Self {
        PeerOutcome { metrics, seconds, ended: Instant::now() }
    }
}

/// The requirements of a peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Needs {
    pub(super) program: &'static str,
    pub(super) package: &'static str,
}

impl Needs {
    pub(super) fn is_there(self) -> bool {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).any(|folder| folder.join(self.program).is_file())
    }
}

/// Converts a recent time of day to an instant.
fn moment(unix_s: f64) -> Instant {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let past = Duration::try_from_secs_f64(since_epoch.as_secs_f64() - unix_s).unwrap_or_default();
    let now = Instant::now();
    now.checked_sub(past).unwrap_or(now)
}

/// Returns the time limit of a run.
fn limit(seconds: f64) -> Duration {
    GRACE + Duration::from_secs_f64(seconds)
}

/// Bytes and maximum messages of the first estimate of a program's rate.
const FIRST_BYTES: u64 = 4 << 20;
const FIRST_MOST: u64 = 2000;
/// Minimum duration of an estimate.
const LOOK_SECONDS: f64 = 0.03;

/// Returns the messages per second of a program that takes a number of messages instead of a
/// duration. `seconds_of` returns the seconds of one message in a run of that many.
fn rate(
    case: &CompareCase,
    mut seconds_of: impl FnMut(u64) -> Result<f64, Failure>,
) -> Result<f64, Failure> {
    const FACTOR: u64 = 8;
    let mut count = (FIRST_BYTES / case.size).clamp(2, FIRST_MOST);
    loop {
        let each = seconds_of(count)?;
        if each * count as f64 >= LOOK_SECONDS {
            return Ok(1.0 / each);
        }
        count = count.saturating_mul(FACTOR);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::case::Family;

    #[test]
    fn the_rate_does_not_depend_on_the_start() {
        let case = Family::OneWay.cases(1500, false)[0];
        let mut runs = 0;
        // One microsecond per message, and one millisecond at the start.
        let rate = rate(&case, |count| {
            runs += 1;
            Ok(1e-6 + 1e-3 / count as f64)
        });
        let rate = rate.expect("nothing fails");
        assert!((900_000.0..=1_000_000.0).contains(&rate), "{rate}");
        assert_eq!(runs, 3);
    }
}

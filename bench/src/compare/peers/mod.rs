//! Programs that move bytes from one host to another, each with what it is good for.

mod braid;
mod libfabric;
mod openmpi;
mod sockets;
mod ucx;

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

pub(super) use self::braid::{Braid, Operation};
pub(super) use self::libfabric::Libfabric;
pub(super) use self::openmpi::OpenMpi;
pub(super) use self::sockets::Sockets;
pub(super) use self::ucx::{Ucx, Via};
use super::case::Case;
use super::place::Place;
use crate::failure::Failure;
use crate::peer::Metrics;

/// What a run may take beyond the time that it is asked to send for.
const GRACE: Duration = Duration::from_secs(30);

/// Something to compare.
pub(super) trait Peer {
    /// As tables have it.
    fn name(&self) -> String;

    /// Whether it can do this at all.
    fn fits(&self, case: &Case) -> bool;

    /// The program that it runs and the Debian package that has it, unless it is part of Braid.
    fn needs(&self) -> Option<Needs> {
        None
    }

    /// Why it cannot run on this machine, and what would change that.
    fn missing(&self) -> Option<String> {
        let Needs { program, package } = self.needs().filter(|needs| !needs.is_there())?;
        Some(format!("`{program}` is not on PATH: apt-get install {package}"))
    }

    /// What it has to find out, or to make, before its first run of a case.
    fn prepare(&mut self, _place: &Place, _case: &Case) -> Result<(), Failure> {
        Ok(())
    }

    /// One run, which measures for about so many seconds.
    fn run(&mut self, place: &Place, case: &Case, seconds: f64) -> Result<Outcome, Failure>;
}

/// What a run came to.
pub(super) struct Outcome {
    pub(super) metrics: Metrics,
    /// How long it measured.
    pub(super) seconds: f64,
    /// Until when.
    pub(super) ended: Instant,
}

impl Outcome {
    /// Of a run that has just ended.
    fn now(metrics: Metrics, seconds: f64) -> Self {
        Outcome { metrics, seconds, ended: Instant::now() }
    }
}

/// What a peer needs.
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

/// The moment of a time of day that lies less than a run back.
fn moment(unix_s: f64) -> Instant {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let past = Duration::try_from_secs_f64(since_epoch.as_secs_f64() - unix_s).unwrap_or_default();
    let now = Instant::now();
    now.checked_sub(past).unwrap_or(now)
}

/// How long a run is waited for.
fn limit(seconds: f64) -> Duration {
    GRACE + Duration::from_secs_f64(seconds)
}

/// Bytes, and messages at most, that are enough for the first look at how fast a program is.
const FIRST_BYTES: u64 = 4 << 20;
const FIRST_MOST: u64 = 2000;
/// How long such a look has to take.
const LOOK_SECONDS: f64 = 0.03;

/// How many messages take a second, for programs that count them instead of looking at the clock. `seconds_of`: what one
/// message takes when so many are sent.
fn rate(
    case: &Case,
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
    fn the_rate_is_found_whatever_the_start_takes() {
        let case = Family::OneWay.cases(1500, false)[0];
        let mut runs = 0;
        // A microsecond each, and a millisecond to begin with.
        let rate = rate(&case, |count| {
            runs += 1;
            Ok(1e-6 + 1e-3 / count as f64)
        });
        let rate = rate.expect("nothing fails");
        assert!((900_000.0..=1_000_000.0).contains(&rate), "{rate}");
        assert_eq!(runs, 3);
    }
}

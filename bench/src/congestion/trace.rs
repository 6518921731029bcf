//! What the emulator's trace of a run says.

use std::time::Duration;

use braid_lab::emulator::{Fate, Passage};

use super::metric::{Measured, Metric};

/// The packets that came to some links while a run was measured.
pub(super) struct Trace {
    packets: Vec<Passage>,
}

impl Trace {
    /// Of all packets, those that came to one of these links between two times.
    pub(super) fn of(all: &[Passage], links: &[usize], [from, until]: [Duration; 2]) -> Self {
        let wanted =
            |p: &&Passage| links.contains(&usize::from(p.link)) && p.at >= from && p.at < until;
        Trace { packets: all.iter().filter(wanted).copied().collect() }
    }

    /// Loss and delays.
    pub(super) fn measure(&self, into: &mut Measured) {
        let dropped = self.packets.iter().filter(|p| p.fate == Fate::Dropped).count();
        into.insert(Metric::LossPercent, dropped as f64 * 100.0 / self.packets.len().max(1) as f64);
        let passed = || self.packets.iter().filter(|p| p.fate != Fate::Dropped);
        let waited = sorted(passed().map(|p| p.waited));
        into.insert(Metric::QueueP50Ms, quantile_ms(&waited, 0.5));
        into.insert(Metric::QueueP99Ms, quantile_ms(&waited, 0.99));
        let late = sorted(passed().map(|p| p.late));
        into.insert(Metric::EmulatorLateP99Ms, quantile_ms(&late, 0.99));
    }
}

fn sorted(times: impl Iterator<Item = Duration>) -> Vec<Duration> {
    let mut times: Vec<Duration> = times.collect();
    times.sort_unstable();
    times
}

/// Of times in order; 0 if there is none.
fn quantile_ms(sorted: &[Duration], share: f64) -> f64 {
    let at = (share * sorted.len() as f64) as usize;
    sorted.get(at.min(sorted.len().saturating_sub(1))).map_or(0.0, |time| time.as_secs_f64() * 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passage(at_ms: u64, link: u16, waited_ms: u64, fate: Fate) -> Passage {
        let (at, waited) = (Duration::from_millis(at_ms), Duration::from_millis(waited_ms));
        Passage { link, from: 0, bytes: 1514, at, waited, late: Duration::ZERO, fate }
    }

    #[test]
    fn only_the_links_and_the_time_that_are_asked_for_count() {
        let all = [
            passage(0, 1, 50, Fate::Dropped),
            passage(10, 1, 1, Fate::Passed),
            passage(11, 0, 70, Fate::Dropped),
            passage(12, 1, 3, Fate::Marked),
            passage(13, 1, 9, Fate::Dropped),
            passage(14, 1, 2, Fate::Passed),
            passage(20, 1, 80, Fate::Dropped),
        ];
        let mut measured = Measured::new();
        Trace::of(&all, &[1], [10, 20].map(Duration::from_millis)).measure(&mut measured);
        assert_eq!(measured[&Metric::LossPercent], 25.0);
        assert_eq!(measured[&Metric::QueueP50Ms], 2.0);
        assert_eq!(measured[&Metric::QueueP99Ms], 3.0);
    }
}

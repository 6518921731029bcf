//! Analysis of the emulator's trace of a run.

use std::collections::BTreeMap;
use std::time::Duration;

use braid_lab::emulator::{Fate, Passage};
use serde::Serialize;

use super::case::CongestionCase;
use super::flow::FlowSender;
use super::metric::{Measured, Metric};
use super::udp;

/// Interval of the samples.
const INTERVAL: Duration = Duration::from_millis(100);

/// The packets that reached some links during the measurement.
pub(super) struct Trace {
    packets: Vec<Passage>,
    from: Duration,
    until: Duration,
}

/// The traffic of one host through one link in an interval, including headers.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub(super) struct TraceSample {
    /// Start of the interval, from the beginning of the run.
    pub(super) at_ms: f64,
    pub(super) link: u16,
    pub(super) from_host: u16,
    pub(super) mbit_s: f64,
}

impl Trace {
    /// Selects the packets that reached one of these links between two times.
    pub(super) fn of(all: &[Passage], links: &[usize], [from, until]: [Duration; 2]) -> Self {
        let wanted =
            |p: &&Passage| links.contains(&usize::from(p.link)) && p.at >= from && p.at < until;
        Trace { packets: all.iter().filter(wanted).copied().collect(), from, until }
    }

    /// Adds all figures of the trace for a case.
    pub(super) fn measure(&self, case: &CongestionCase, into: &mut Measured) {
        let percent = |fate| {
            let count = self.packets.iter().filter(|p| p.fate == fate).count();
            count as f64 * 100.0 / self.packets.len().max(1) as f64
        };
        into.insert(Metric::LossPercent, percent(Fate::Dropped));
        if case.marks() {
            into.insert(Metric::MarkedPercent, percent(Fate::Marked));
        }
        let waited = sorted(self.passed().map(|p| p.waited));
        into.insert(Metric::QueueP50Ms, quantile_ms(&waited, 0.5));
        into.insert(Metric::QueueP99Ms, quantile_ms(&waited, 0.99));
        let late = sorted(self.passed().map(|p| p.late));
        into.insert(Metric::EmulatorLateP99Ms, quantile_ms(&late, 0.99));
        self.beside_tcp(case, into);
        self.beside_udp(case, into);
        self.utilisation(case, into);
    }

    /// Returns the traffic of every host on every link that it has used, by interval.
    pub(super) fn samples(&self) -> Vec<TraceSample> {
        let intervals = (self.until - self.from).as_nanos().div_ceil(INTERVAL.as_nanos()) as usize;
        let mut bytes = BTreeMap::<(u16, u16), Vec<u64>>::new();
        for p in self.passed() {
            let interval = ((p.at - self.from).as_nanos() / INTERVAL.as_nanos()) as usize;
            let ours = bytes.entry((p.link, p.from)).or_insert_with(|| vec![0; intervals]);
            ours[interval] += u64::from(p.bytes);
        }
        let seconds = INTERVAL.as_secs_f64();
        let of = |((link, from_host), bytes): ((u16, u16), Vec<u64>)| {
            bytes.into_iter().enumerate().map(move |(interval, bytes)| TraceSample {
                at_ms: interval as f64 * seconds * 1e3,
                link,
                from_host,
                mbit_s: bytes as f64 * 8e-6 / seconds,
            })
        };
        bytes.into_iter().flat_map(of).collect()
    }

    fn passed(&self) -> impl Iterator<Item = &Passage> {
        self.packets.iter().filter(|p| matches!(p.fate, Fate::Passed | Fate::Marked))
    }

    /// Adds the shares after the first third, when an earlier start is no advantage any more.
    fn beside_tcp(&self, case: &CongestionCase, into: &mut Measured) {
        let is_tcp = |sender: &FlowSender| matches!(sender, FlowSender::Tcp(_));
        let Some(tcp) = case.flows.iter().find(|flow| is_tcp(&flow.sender)) else { return };
        let settled = self.from + (self.until - self.from) / 3;
        let bits = |of_tcp: bool| {
            let wanted =
                |p: &&Passage| p.at >= settled && (usize::from(p.from) == tcp.from) == of_tcp;
            self.passed().filter(wanted).map(|p| f64::from(p.bytes) * 8.0).sum::<f64>()
        };
        let whole = case.rate().bits() as f64 * (self.until - settled).as_secs_f64();
        into.insert(Metric::BraidShare, bits(false) / whole);
        into.insert(Metric::TcpShare, bits(true) / whole);
    }

    /// Adds the shares of the rate left by cross traffic, while it was on and off.
    fn beside_udp(&self, case: &CongestionCase, into: &mut Measured) {
        let is_udp = |sender: &FlowSender| matches!(sender, FlowSender::Udp(_));
        let Some(udp) = case.flows.iter().find(|flow| is_udp(&flow.sender)) else { return };
        let whole = self.until - self.from;
        for (metric, on) in [(Metric::LeftUsedOn, true), (Metric::LeftUsedOff, false)] {
            let (mut ours, mut theirs) = (0.0, 0.0);
            for p in self.passed().filter(|p| udp::is_on(p.at - self.from, whole) == on) {
                let bits = f64::from(p.bytes) * 8.0;
                if usize::from(p.from) == udp.from { theirs += bits } else { ours += bits }
            }
            // Cross traffic is on for half of the time.
            let left = case.rate().bits() as f64 * whole.as_secs_f64() / 2.0 - theirs;
            into.insert(metric, ours / left);
        }
    }

    /// Adds the utilisation of several links.
    fn utilisation(&self, case: &CongestionCase, into: &mut Measured) {
        let share = |(index, rate): (usize, u64)| {
            let bytes =
                self.passed().filter(|p| usize::from(p.link) == index).map(|p| u64::from(p.bytes));
            bytes.sum::<u64>() as f64 * 8.0 / (rate as f64 * (self.until - self.from).as_secs_f64())
        };
        let shares: Vec<f64> = case.bottleneck_rates().map(share).collect();
        if shares.len() > 1 {
            into.insert(Metric::LinkUseMin, shares.iter().copied().fold(f64::MAX, f64::min));
            into.insert(Metric::LinkUseMax, shares.iter().copied().fold(0.0, f64::max));
        }
    }
}

fn sorted(times: impl Iterator<Item = Duration>) -> Vec<Duration> {
    let mut times: Vec<Duration> = times.collect();
    times.sort_unstable();
    times
}

/// Returns a quantile of sorted times; 0 if there is none.
fn quantile_ms(sorted: &[Duration], share: f64) -> f64 {
    let at = (share * sorted.len() as f64) as usize;
    sorted.get(at.min(sorted.len().saturating_sub(1))).map_or(0.0, |time| time.as_secs_f64() * 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion::scenario::CongestionScenario;

    fn passage(at_ms: u64, from: u16, waited_ms: u64, fate: Fate) -> Passage {
        let (at, waited) = (Duration::from_millis(at_ms), Duration::from_millis(waited_ms));
        Passage { link: 2, from, bytes: 1514, at, waited, late: Duration::ZERO, fate }
    }

    fn measured(scenario: CongestionScenario, all: &[Passage], span_ms: [u64; 2]) -> Measured {
        let case = &scenario.cases(true)[0];
        let mut measured = Measured::new();
        Trace::of(all, &[2], span_ms.map(Duration::from_millis)).measure(case, &mut measured);
        measured
    }

    #[test]
    fn only_the_links_and_the_time_that_are_asked_for_count() {
        let all = [
            passage(0, 0, 50, Fate::Dropped),
            passage(10, 0, 1, Fate::Passed),
            Passage { link: 0, ..passage(11, 0, 70, Fate::Dropped) },
            passage(12, 0, 3, Fate::Marked),
            passage(13, 0, 9, Fate::Dropped),
            passage(14, 0, 2, Fate::Passed),
            passage(20, 0, 80, Fate::Dropped),
        ];
        let measured = measured(CongestionScenario::Bottleneck, &all, [10, 20]);
        assert_eq!(measured[&Metric::LossPercent], 25.0);
        assert_eq!(measured[&Metric::QueueP50Ms], 2.0);
        assert_eq!(measured[&Metric::QueueP99Ms], 3.0);
        assert!(
            !measured.contains_key(&Metric::TcpShare)
                && !measured.contains_key(&Metric::LinkUseMin)
        );
    }

    #[test]
    fn shares_are_of_the_time_after_the_first_third() {
        // Host 1 sends TCP.
        let all = [
            passage(0, 0, 0, Fate::Passed),
            passage(40, 0, 0, Fate::Passed),
            passage(50, 1, 0, Fate::Passed),
            passage(60, 1, 0, Fate::Passed),
            passage(70, 1, 0, Fate::Dropped),
        ];
        let measured = measured(CongestionScenario::BesideTcp, &all, [0, 90]);
        assert_eq!(measured[&Metric::TcpShare], 2.0 * measured[&Metric::BraidShare]);
    }

    #[test]
    fn the_rate_left_is_the_rest_of_cross_traffic() {
        // 200 Mbit/s for 4 ms: 25,000 bytes in each phase of 1 ms. Host 1 sends the cross traffic,
        // on in [1, 2) and [3, 4) ms.
        let all = [
            Passage { bytes: 25_000, ..passage(0, 0, 0, Fate::Passed) },
            Passage { bytes: 10_000, ..passage(1, 0, 0, Fate::Passed) },
            Passage { bytes: 30_000, ..passage(3, 1, 0, Fate::Passed) },
        ];
        let measured = measured(CongestionScenario::CrossTraffic, &all, [0, 4]);
        assert!((measured[&Metric::LeftUsedOff] - 0.5).abs() < 1e-9, "{measured:?}");
        assert!((measured[&Metric::LeftUsedOn] - 0.5).abs() < 1e-9, "{measured:?}");
    }

    #[test]
    fn samples_are_per_host_and_interval() {
        let all = [0, 99, 100].map(|at| passage(at, 0, 0, Fate::Passed));
        let samples = Trace::of(&all, &[2], [0, 250].map(Duration::from_millis)).samples();
        let at: Vec<f64> = samples.iter().map(|sample| sample.at_ms).collect();
        assert_eq!(at, [0.0, 100.0, 200.0]);
        assert_eq!(samples[0].mbit_s, 2.0 * samples[1].mbit_s);
        assert_eq!(samples[2].mbit_s, 0.0, "an idle interval counts");
    }
}

//! Braid beside perftest: measured in turns, compared as ratios of medians.

use std::time::{Duration, Instant};

use braid_lab::median;

use super::braid::{Datapath, Run};
use super::pair::Machines;
use super::perftest::{Figure, Perftest, Provider};
use super::trouble::Trouble;
use crate::Failure;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
/// Everybody sends as much: a second's worth and more, of which the beginning is a tenth.
const VOLUME: u64 = 32 * MIB;
/// Medians need three.
const MOST_ROUNDS: usize = 3;

/// A program that is measured, under a name for the table.
struct Contestant {
    name: &'static str,
    over: Over,
    program: Measured,
}

/// The link between the machines, with its faults.
struct Over {
    link: u16,
    trouble: Trouble,
}

/// Its devices offer nothing: every packet costs all there is to it.
const CABLE: Over = Over { link: 0, trouble: Trouble::Clean };
/// With all that loses packets on it, but it loses none.
const LOSSLESS: Over = Over { link: 0, trouble: Trouble::Idle };
const LOSSY: Over = Over { link: 0, trouble: Trouble::Loss };
/// Its devices offer checksums and scatter-gather, so that there is GSO.
const BRIDGE: Over = Over { link: 1, trouble: Trouble::Clean };

enum Measured {
    Perftest(Perftest),
    Braid(Run),
}

/// A ratio that is wanted: one contestant's median over another's.
struct Wanted {
    over: (&'static str, &'static str),
    least: f64,
}

/// The results of all contestants in MB/s, one figure per round.
pub(super) struct Results {
    pub(super) figures: Vec<(&'static str, Vec<f64>)>,
    pub(super) ratios: Vec<Ratio>,
}

pub(super) struct Ratio {
    pub(super) of: &'static str,
    pub(super) to: &'static str,
    pub(super) value: f64,
    pub(super) least: f64,
}

/// The number of rounds.
#[derive(Clone, Copy, Debug)]
pub(super) enum Rounds {
    /// Once, and again up to [`MOST_ROUNDS`] as long as that would end before this.
    Until(Instant),
    /// So often.
    Exactly(usize),
}

impl Rounds {
    /// Whether another one follows; the longest so far took `longest`.
    fn go_on(self, done: usize, longest: Duration) -> bool {
        match self {
            Rounds::Until(until) => {
                done == 0 || done < MOST_ROUNDS && Instant::now() + longest <= until
            }
            Rounds::Exactly(rounds) => done < rounds,
        }
    }
}

/// Measures all contestants in turns.
pub(super) fn measure(pair: &Machines, rounds: Rounds) -> Result<Results, Failure> {
    let contestants = contestants();
    let mut figures: Vec<Vec<f64>> = contestants.iter().map(|_| Vec::new()).collect();
    let mut longest = Duration::ZERO;
    let mut done = 0;
    while rounds.go_on(done, longest) {
        let start = Instant::now();
        for trouble in [Trouble::Clean, Trouble::Idle, Trouble::Loss] {
            trouble.set(pair)?;
            for (contestant, figures) in contestants.iter().zip(&mut figures) {
                if contestant.over.trouble == trouble {
                    figures.push(contestant.run(pair)?.value());
                }
            }
        }
        Trouble::Clean.set(pair)?;
        longest = longest.max(start.elapsed());
        done += 1;
    }
    let names = contestants.iter().map(|contestant| contestant.name);
    let figures: Vec<(&str, Vec<f64>)> = names.zip(figures).collect();
    let ratios = wanted().iter().map(|wanted| wanted.judge(&figures)).collect();
    Ok(Results { figures, ratios })
}

impl Contestant {
    fn run(&self, pair: &Machines) -> Result<Figure, Failure> {
        match &self.program {
            Measured::Perftest(test) => test.run_on(pair, self.over.link),
            Measured::Braid(run) => run.run_on(pair, self.over.link),
        }
    }
}

fn contestants() -> Vec<Contestant> {
    let perftest = |name, over, provider, service, size| {
        let iterations = VOLUME / size;
        let test = Perftest { provider, program: "ib_write_bw", service, size, iterations };
        Contestant { name, over, program: Measured::Perftest(test) }
    };
    let rxe = |name, over, service, size| perftest(name, over, Provider::Rxe, service, size);
    let drop_in =
        |name, over, crc, size| perftest(name, over, Provider::DropIn { crc }, "RC", size);
    let braid = |name, over, datapath, crc, size| {
        let program = Measured::Braid(Run::write(datapath, size, VOLUME / size, crc));
        Contestant { name, over, program }
    };
    use Datapath::{Udp, Verbs};
    // Those that are compared stand next to each other: the host's load changes with time.
    vec![
        rxe("rxe RC 64K", CABLE, "RC", 64 * KIB),
        braid("udp crc off 64K", CABLE, Udp, "off", 64 * KIB),
        drop_in("drop-in crc off 64K", CABLE, "off", 64 * KIB),
        drop_in("drop-in crc on 64K", CABLE, "on", 64 * KIB),
        braid("udp crc on 64K", CABLE, Udp, "on", 64 * KIB),
        rxe("rxe UC 64K", CABLE, "UC", 64 * KIB),
        braid("verbs 64K", CABLE, Verbs, "off", 64 * KIB),
        rxe("rxe RC 1M", CABLE, "RC", MIB),
        braid("udp crc off 1M", CABLE, Udp, "off", MIB),
        drop_in("drop-in crc off 1M", CABLE, "off", MIB),
        braid("udp crc on 1M", CABLE, Udp, "on", MIB),
        rxe("rxe UC 1M", CABLE, "UC", MIB),
        braid("verbs 1M", CABLE, Verbs, "off", MIB),
        rxe("rxe RC 64K bridge", BRIDGE, "RC", 64 * KIB),
        braid("udp crc off 64K bridge", BRIDGE, Udp, "off", 64 * KIB),
        braid("udp crc on 64K bridge", BRIDGE, Udp, "on", 64 * KIB),
        rxe("rxe RC 1M bridge", BRIDGE, "RC", MIB),
        braid("udp crc off 1M bridge", BRIDGE, Udp, "off", MIB),
        braid("udp crc on 1M bridge", BRIDGE, Udp, "on", MIB),
        braid("udp crc off 64K netem", LOSSLESS, Udp, "off", 64 * KIB),
        braid("verbs 64K netem", LOSSLESS, Verbs, "off", 64 * KIB),
        rxe("rxe RC 64K loss", LOSSY, "RC", 64 * KIB),
        braid("udp crc off 64K loss", LOSSY, Udp, "off", 64 * KIB),
        drop_in("drop-in crc off 64K loss", LOSSY, "off", 64 * KIB),
        braid("verbs 64K loss", LOSSY, Verbs, "off", 64 * KIB),
    ]
}

fn wanted() -> Vec<Wanted> {
    let wanted = |of, to, least| Wanted { over: (of, to), least };
    vec![
        wanted("udp crc off 64K", "rxe RC 64K", 1.8),
        wanted("udp crc off 1M", "rxe RC 1M", 1.8),
        wanted("udp crc on 64K", "rxe RC 64K", 1.3),
        wanted("udp crc on 1M", "rxe RC 1M", 1.3),
        wanted("udp crc off 64K bridge", "rxe RC 64K bridge", 1.8),
        wanted("udp crc off 1M bridge", "rxe RC 1M bridge", 1.8),
        wanted("udp crc on 64K bridge", "rxe RC 64K bridge", 1.3),
        wanted("udp crc on 1M bridge", "rxe RC 1M bridge", 1.3),
        wanted("verbs 64K", "rxe UC 64K", 0.85),
        wanted("verbs 1M", "rxe UC 1M", 0.85),
        wanted("drop-in crc off 64K", "rxe RC 64K", 1.8),
        wanted("drop-in crc off 1M", "rxe RC 1M", 1.8),
        wanted("drop-in crc on 64K", "rxe RC 64K", 1.3),
        wanted("udp crc off 64K loss", "rxe RC 64K loss", 2.0),
        wanted("drop-in crc off 64K loss", "rxe RC 64K loss", 2.0),
        wanted("verbs 64K loss", "rxe RC 64K loss", 2.0),
        wanted("udp crc off 64K loss", "udp crc off 64K netem", 0.8),
        wanted("verbs 64K loss", "verbs 64K netem", 0.8),
    ]
}

impl Wanted {
    fn judge(&self, figures: &[(&str, Vec<f64>)]) -> Ratio {
        let (of, to) = self.over;
        let median = |name| {
            let found = figures.iter().find(|(other, _)| *other == name);
            median(&found.expect("ratios are of contestants").1)
        };
        Ratio { of, to, value: median(of) / median(to), least: self.least }
    }
}

impl Ratio {
    pub(super) fn is_short(&self) -> bool {
        self.value < self.least
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_one_round_and_more_only_as_time_allows() {
        let minute = Duration::from_secs(60);
        let until = Rounds::Until(Instant::now() + minute);
        assert!(until.go_on(0, minute * 2) && until.go_on(2, minute / 2));
        assert!(!until.go_on(1, minute * 2) && !until.go_on(MOST_ROUNDS, Duration::ZERO));
        assert!(Rounds::Exactly(9).go_on(8, minute * 99) && !Rounds::Exactly(9).go_on(9, minute));
    }

    #[test]
    fn every_ratio_is_of_contestants_that_exist() {
        let figures: Vec<_> = contestants().iter().map(|c| (c.name, vec![2.0])).collect();
        for wanted in wanted() {
            let ratio = wanted.judge(&figures);
            assert_eq!(ratio.value, 1.0);
            assert_eq!(ratio.is_short(), ratio.least > 1.0);
        }
    }
}

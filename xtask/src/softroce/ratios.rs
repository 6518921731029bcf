//! Braid beside perftest: measured in turns, compared as ratios of medians.

use std::time::{Duration, Instant};

use braid_lab::median;

use super::braid::{Datapath, Run};
use super::pair::Machines;
use super::perftest::{Figure, Perftest, Provider};
use super::roce;
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
    stage: Stage,
}

/// The state of the machines: contestants of one stage are measured without a change of it.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Stage {
    trouble: Trouble,
    /// Whether machines a and b have rxe, and not its port free.
    rxe: [bool; 2],
}

const CLEAN: Stage = Stage { trouble: Trouble::Clean, rxe: [true; 2] };
const IDLE: Stage = Stage { trouble: Trouble::Idle, ..CLEAN };
const LOSS: Stage = Stage { trouble: Trouble::Loss, ..CLEAN };
const NOT_IN_A: Stage = Stage { rxe: [false, true], ..CLEAN };
const NOT_IN_B: Stage = Stage { rxe: [true, false], ..CLEAN };
const NOWHERE: Stage = Stage { rxe: [false; 2], ..CLEAN };
const STAGES: [Stage; 6] = [CLEAN, IDLE, LOSS, NOT_IN_A, NOWHERE, NOT_IN_B];

/// Its devices offer nothing: every packet costs all there is to it.
const CABLE: Over = Over { link: 0, stage: CLEAN };
/// With all that loses packets on it, but it loses none.
const LOSSLESS: Over = Over { link: 0, stage: IDLE };
const LOSSY: Over = Over { link: 0, stage: LOSS };
/// Its devices offer checksums and scatter-gather, so that there is GSO.
const BRIDGE: Over = Over { link: 1, stage: CLEAN };

enum Measured {
    Perftest(Perftest),
    Braid(Run),
}

/// A ratio that is wanted: one contestant's median over another's.
struct Wanted {
    over: (&'static str, &'static str),
    least: f64,
}

/// The results of all contestants.
pub(super) struct Results {
    pub(super) rows: Vec<Row>,
    pub(super) ratios: Vec<Ratio>,
}

/// The results of one contestant, one of each round: a figure or a failure.
pub(super) struct Row {
    pub(super) name: &'static str,
    /// Whether both ends are rxe, so that a failure is none of Braid's.
    pub(super) is_rivals: bool,
    /// In MB/s or in microseconds.
    pub(super) figures: Vec<f64>,
    pub(super) failures: Vec<String>,
}

pub(super) struct Ratio {
    pub(super) of: &'static str,
    pub(super) to: &'static str,
    /// `None`: one of the two has no figure.
    pub(super) value: Option<f64>,
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

/// Measures in turns the contestants of the ratios whose names contain one of the words. Without
/// words, measures all.
pub(super) fn measure(
    pair: &Machines,
    rounds: Rounds,
    words: &[String],
) -> Result<Results, Failure> {
    let (contestants, wanted) = chosen(words)?;
    let mut rows: Vec<Row> = contestants.iter().map(Contestant::row).collect();
    let (mut longest, mut done, mut now) = (Duration::ZERO, 0, CLEAN);
    while rounds.go_on(done, longest) {
        let start = Instant::now();
        for stage in STAGES {
            let of_stage = |(contestant, _): &(&Contestant, _)| contestant.over.stage == stage;
            let mut entries = contestants.iter().zip(&mut rows).filter(of_stage).peekable();
            if entries.peek().is_some() {
                stage.enter(&mut now, pair)?;
            }
            entries.for_each(|(contestant, row)| row.record(contestant.run(pair)));
        }
        CLEAN.enter(&mut now, pair)?;
        longest = longest.max(start.elapsed());
        done += 1;
    }
    let ratios = wanted.iter().map(|wanted| wanted.judge(&rows)).collect();
    Ok(Results { rows, ratios })
}

/// The ratios whose names contain one of the words, and their contestants. Without words: all.
fn chosen(words: &[String]) -> Result<(Vec<Contestant>, Vec<Wanted>), Failure> {
    if words.is_empty() {
        return Ok((contestants(), wanted()));
    }
    let mut wanted = wanted();
    wanted.retain(|Wanted { over: (of, to), .. }| {
        words.iter().any(|words| of.contains(words.as_str()) || to.contains(words.as_str()))
    });
    if wanted.is_empty() {
        return Err(Failure::new("no ratio has these words in its name"));
    }
    let mut contestants = contestants();
    contestants.retain(|contestant| {
        wanted.iter().any(|Wanted { over: (of, to), .. }| [of, to].contains(&&contestant.name))
    });
    Ok((contestants, wanted))
}

impl Results {
    /// The number of contestants that failed in a round. rxe's failures among itself say nothing
    /// of Braid: their ratios are not measured.
    pub(super) fn failed(&self) -> usize {
        let failed = |row: &&Row| !row.is_rivals && !row.failures.is_empty();
        self.rows.iter().filter(failed).count()
    }
}

impl Row {
    /// Adds the result of a round. A failure is printed at once.
    fn record(&mut self, result: Result<Figure, Failure>) {
        match result {
            Ok(figure) => self.figures.push(figure.value()),
            Err(failure) => {
                println!("{}: no figure in this round: {failure}", self.name);
                self.failures.push(failure.to_string());
            }
        }
    }

    /// The median of the rounds that have a figure.
    pub(super) fn median(&self) -> Option<f64> {
        (!self.figures.is_empty()).then(|| median(&self.figures))
    }
}

impl Stage {
    /// Changes the machines from the stage `now` to this one.
    fn enter(self, now: &mut Stage, pair: &Machines) -> Result<(), Failure> {
        self.trouble.set(pair)?;
        for (index, machine) in [&pair.a, &pair.b].into_iter().enumerate() {
            match (now.rxe[index], self.rxe[index]) {
                (true, false) => roce::free_port(machine)?,
                (false, true) => roce::restore_devices(machine)?,
                _ => {}
            }
        }
        *now = self;
        Ok(())
    }
}

impl Contestant {
    fn row(&self) -> Row {
        let is_rivals = match &self.program {
            Measured::Perftest(test) => test.is_rivals(),
            Measured::Braid(_) => false,
        };
        Row { name: self.name, is_rivals, figures: Vec::new(), failures: Vec::new() }
    }

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
        let (providers, program) = ([provider; 2], "ib_write_bw");
        let test = Perftest { providers, program, service, size, iterations };
        Contestant { name, over, program: Measured::Perftest(test) }
    };
    // RoCEv2 in userspace, at the ends whose machine has no rxe.
    let roce = |name, stage: Stage, size| {
        let providers = stage.rxe.map(|is_rxe| if is_rxe { Provider::Rxe } else { Provider::Roce });
        let (program, iterations) = match size {
            8 => ("ib_write_lat", 1000),
            _ => ("ib_write_bw", VOLUME / size),
        };
        let test = Perftest { providers, program, service: "RC", size, iterations };
        Contestant { name, over: Over { link: 0, stage }, program: Measured::Perftest(test) }
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
        roce("rxe latency [us]", CLEAN, 8),
        roce("RoCEv2 to rxe 64K", NOT_IN_A, 64 * KIB),
        roce("RoCEv2 to rxe 1M", NOT_IN_A, MIB),
        roce("RoCEv2 to rxe latency [us]", NOT_IN_A, 8),
        roce("RoCEv2 64K", NOWHERE, 64 * KIB),
        roce("RoCEv2 1M", NOWHERE, MIB),
        roce("RoCEv2 latency [us]", NOWHERE, 8),
        roce("rxe to RoCEv2 64K", NOT_IN_B, 64 * KIB),
        roce("rxe to RoCEv2 1M", NOT_IN_B, MIB),
        roce("rxe to RoCEv2 latency [us]", NOT_IN_B, 8),
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
        wanted("RoCEv2 to rxe 64K", "rxe RC 64K", 0.8),
        wanted("RoCEv2 to rxe 1M", "rxe RC 1M", 0.8),
        wanted("rxe to RoCEv2 64K", "rxe RC 64K", 0.8),
        wanted("rxe to RoCEv2 1M", "rxe RC 1M", 0.8),
        wanted("RoCEv2 64K", "rxe RC 64K", 1.5),
        wanted("RoCEv2 1M", "rxe RC 1M", 1.5),
        // A latency of at most 1.2 times rxe's.
        wanted("rxe latency [us]", "RoCEv2 to rxe latency [us]", 0.83),
        wanted("rxe latency [us]", "rxe to RoCEv2 latency [us]", 0.83),
    ]
}

impl Wanted {
    fn judge(&self, rows: &[Row]) -> Ratio {
        let (of, to) = self.over;
        let median = |name| {
            let found = rows.iter().find(|row| row.name == name);
            found.expect("ratios are of contestants").median()
        };
        let value = median(of).zip(median(to)).map(|(of, to)| of / to);
        Ratio { of, to, value, least: self.least }
    }
}

impl Ratio {
    pub(super) fn is_short(&self) -> bool {
        self.value.is_some_and(|value| value < self.least)
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

    fn row(name: &'static str, figures: &[f64]) -> Row {
        Row { name, is_rivals: false, figures: figures.to_vec(), failures: Vec::new() }
    }

    #[test]
    fn every_ratio_is_of_contestants_that_exist() {
        let rows: Vec<_> = contestants().iter().map(|c| row(c.name, &[2.0])).collect();
        for wanted in wanted() {
            let ratio = wanted.judge(&rows);
            assert_eq!(ratio.value, Some(1.0));
            assert_eq!(ratio.is_short(), ratio.least > 1.0);
        }
    }

    #[test]
    fn a_contestant_without_a_figure_has_no_ratio() {
        let wanted = Wanted { over: ("x", "y"), least: 0.8 };
        let mut hung = row("y", &[]);
        hung.record(Err(Failure::new("b: `ib_write_bw` hung")));
        assert_eq!((hung.median(), hung.failures.len()), (None, 1));
        let ratio = wanted.judge(&[row("x", &[2.0]), hung]);
        assert!(ratio.value.is_none() && !ratio.is_short());
    }

    #[test]
    fn words_choose_ratios_with_both_contestants() {
        let (contestants, wanted) = chosen(&["RoCEv2".to_owned()]).expect("there are such");
        let of_roce = |name: &str| name.contains("RoCEv2");
        assert!(wanted.iter().all(|Wanted { over: (of, to), .. }| of_roce(of) || of_roce(to)));
        assert!(contestants.iter().any(|c| c.name == "rxe RC 64K"));
        assert!(!contestants.iter().any(|c| c.name == "verbs 64K"));
        assert!(chosen(&["nothing".to_owned()]).is_err());
    }
}

//! Independent checks between the machines.

use std::thread;
use std::time::{Duration, Instant};

use super::braid::{Datapath, Run, TESTS};
use super::pair::Machines;
use super::perftest::{self, Figure, Perftest, Provider};
use super::trouble::{self, Trouble};
use super::{breach, drop_in, late, rails, roce, roce_cm, roce_drop_in, server, tshark, users};
use crate::Failure;

/// Time limit for a transfer to end after its device has gone.
const END_LIMIT: Duration = Duration::from_secs(20);
/// Exit codes from here on mean signals.
const SIGNAL: u8 = 128;

const RC: Perftest = Perftest {
    providers: [Provider::Rxe; 2],
    program: "ib_write_bw",
    service: "RC",
    size: 65536,
    iterations: 300,
};

/// The programs that Braid stands beside; `ib_write_bw` alone is measured in turns with it.
const RIVALS: &[Perftest] = &[
    Perftest { program: "ib_read_bw", ..RC },
    Perftest { program: "ib_send_bw", ..RC },
    Perftest { program: "ib_write_lat", size: 8, iterations: 1000, ..RC },
];

/// The result of one check.
pub(super) struct Check {
    pub(super) name: String,
    pub(super) verdict: Verdict,
    pub(super) took: Duration,
}

pub(super) enum Verdict {
    /// Success, with the measured value if there is one.
    Passed(String),
    Failed(String),
}

/// Collects checks and prints each as it ends.
#[derive(Default)]
pub(super) struct Checks {
    pub(super) done: Vec<Check>,
    /// Only checks run whose names contain one of these. Empty: all of them.
    pub(super) only: Vec<String>,
}

impl Checks {
    pub(super) fn rivals(&mut self, pair: &Machines) {
        for test in RIVALS {
            self.check(test.line(), || test.run(pair).map(|figure| figure.to_string()));
        }
        self.check("both devices at once: ib_write_bw", || both_rivals(pair));
        self.check("iperf3 (TCP)", || perftest::tcp(pair).map(|figure| figure.to_string()));
    }

    /// Every test, with every byte checked, under every trouble.
    pub(super) fn verified(&mut self, pair: &Machines, datapath: Datapath) -> Result<(), Failure> {
        for trouble in trouble::ALL {
            trouble.set(pair)?;
            for test in TESTS {
                let name = format!("{} {test}, {}", datapath.name(), trouble.name());
                let run = Run::verified(test, datapath);
                self.check(name, || run.run(pair).map(|figure| figure.to_string()));
            }
        }
        Trouble::Clean.set(pair)
    }

    /// Programs that check what has arrived, on the drop-in libibverbs.
    pub(super) fn drop_in(&mut self, pair: &Machines) -> Result<(), Failure> {
        for trouble in [Trouble::Clean, Trouble::Loss] {
            trouble.set(pair)?;
            let name = trouble.name();
            self.check(format!("drop-in: ibv_rc_pingpong, {name}"), || drop_in::pingpong(pair));
            self.check(format!("drop-in: rping, {name}"), || drop_in::rping(pair));
        }
        Trouble::Clean.set(pair)
    }

    /// Plain RoCEv2 from userspace in machine a, against rxe in machine b.
    pub(super) fn roce(&mut self, pair: &Machines) -> Result<(), Failure> {
        roce::free_port(&pair.a)?;
        let clean = (Trouble::Clean, &roce::TESTS[..], &roce_drop_in::PROGRAMS[..]);
        let loss = (Trouble::Loss, &roce::WITH_LOSS[..], &roce_drop_in::WITH_LOSS[..]);
        self.check("RoCEv2: packets as tshark reads them", || tshark::check(pair));
        for program in &roce_drop_in::OVER_IPV6 {
            self.check(format!("RoCEv2: {program}"), || program.run(pair));
        }
        for program in &roce_cm::OVER_IPV6 {
            self.check(format!("RoCEv2: {program}"), || program.run(pair));
        }
        for (trouble, tests, programs) in [clean, loss] {
            trouble.set(pair)?;
            for program in programs {
                let name = format!("RoCEv2: {program}, {}", trouble.name());
                self.check(name, || program.run(pair));
            }
            let programs = if trouble == Trouble::Clean {
                &roce_cm::PROGRAMS[..]
            } else {
                &roce_cm::WITH_LOSS[..]
            };
            for program in programs {
                let name = format!("RoCEv2: {program}, {}", trouble.name());
                self.check(name, || program.run(pair));
            }
            for test in tests {
                let name = format!("RoCEv2: {test}, {}", trouble.name());
                self.check(name, || test.run(pair));
            }
        }
        Trouble::Clean.set(pair)?;
        self.check("RoCEv2: rdma_cm, nobody listens", || roce_cm::rejected(pair));
        self.check("RoCEv2: UC", || roce_drop_in::unreliable_is_refused(pair));
        roce::restore_devices(&pair.a)
    }

    /// Checks of several devices, and of devices that fail during a transfer.
    pub(super) fn devices(&mut self, pair: &Machines) {
        self.check("verbs: both devices at once", || both_devices(pair));
        self.check("verbs: two rails", || rails::verified(pair));
        for link in [0, 1] {
            let name = format!("verbs: two rails, link {link} cut in mid-transfer");
            self.check(name, || rails::cut(pair, link));
        }
        self.check("verbs: two rails, rxe1 deleted in mid-transfer", || rails::deleted(pair));
        self.check("verbs: a program in C", || users::c_program(pair));
        self.check("verbs: NCCL's plugin", || users::nccl_plugin(pair));
        self.check("verbs: WRITEs that are not allowed", || breach::check(pair));
        self.check("verbs: a WRITE that comes late", || late::check(pair));
        self.check("verbs: rxe0 deleted in mid-transfer", || deleted(pair));
    }

    pub(super) fn failed(&self) -> usize {
        self.done.iter().filter(|check| matches!(check.verdict, Verdict::Failed(_))).count()
    }

    fn check(&mut self, name: impl Into<String>, check: impl FnOnce() -> Result<String, Failure>) {
        let (name, start) = (name.into(), Instant::now());
        let is_wanted = |words: &String| name.contains(words.as_str());
        if !self.only.is_empty() && !self.only.iter().any(is_wanted) {
            return;
        }
        let verdict = match check() {
            Ok(figure) => Verdict::Passed(figure),
            Err(failure) => Verdict::Failed(failure.to_string()),
        };
        let took = start.elapsed();
        let seconds = took.as_secs_f64();
        match &verdict {
            Verdict::Passed(figure) => println!("{name:<44} passed {seconds:>5.1} s  {figure}"),
            Verdict::Failed(why) => println!("{name:<44} FAILED {seconds:>5.1} s\n{why}"),
        }
        self.done.push(Check { name, verdict, took });
    }
}

fn both_rivals(pair: &Machines) -> Result<String, Failure> {
    at_once(|link| RC.run_on(pair, link))
}

fn both_devices(pair: &Machines) -> Result<String, Failure> {
    let run = Run::verified("write-bw", Datapath::Verbs);
    at_once(|link| run.run_on(pair, link))
}

fn at_once(run: impl Fn(u16) -> Result<Figure, Failure> + Sync) -> Result<String, Failure> {
    thread::scope(|scope| {
        let other = scope.spawn(|| run(1));
        let one = run(0);
        let other = other.join().expect("a run does not panic");
        Ok(format!("{} and {}", one?, other?))
    })
}

/// The client ends with an error of its own, in bounded time, and the server does not hang on to
/// it.
fn deleted(pair: &Machines) -> Result<String, Failure> {
    let mut run = Run::write(Datapath::Verbs, 65536, 1, "on");
    run.load = "-s 65536 -D 60".into();
    let limit = Duration::from_secs(90);
    let server = server::start(&pair.b, &run.server(0), run.port(0), limit)?;
    let client = pair.a.spawn(&run.client(0), limit)?;
    thread::sleep(Duration::from_secs(2));
    let start = Instant::now();
    pair.a.must("rdma link delete rxe0", END_LIMIT)?;
    let ended = client.wait();
    let took = start.elapsed();
    // Later checks need it, however this one ends.
    pair.a.must("rdma link add rxe0 type rxe netdev eth0", END_LIMIT)?;
    let ended = ended?;
    server.stop()?;
    match ended.status {
        1..SIGNAL if took < END_LIMIT => Ok(format!("an error after {:.1} s", took.as_secs_f64())),
        status => Err(Failure::new(format!(
            "the client ended with status {status} after {:.1} s:\n{}",
            took.as_secs_f64(),
            ended.text.trim_end()
        ))),
    }
}

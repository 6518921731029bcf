//! `braid-perf moe`: dispatch and combine of a mixture of experts, as small puts into the memory of
//! other ranks with a signal for each expert (DeepEP; RailS, section II). Beside Braid, the same
//! puts over TCP.

mod args;
mod braid;
mod report;
mod round;
mod routing;
mod tcp;

use std::io::Write;
use std::time::Instant;

pub(crate) use self::args::MoeArgs;

use self::args::Carrier;
use self::braid::BraidPuts;
use self::report::MoeReport;
use self::round::{Layout, Puts, Rounds};
use self::routing::Routing;
use self::tcp::TcpPuts;
use crate::alltoall::{Rank, launch};
use crate::failure::Failure;
use crate::json_file::JsonFile;
use crate::plan::{from_json, to_json};
use crate::progress::Line;
use crate::{interrupt, session, stdio};

/// Runs all ranks, or the one that the environment describes.
pub(crate) fn run(args: &MoeArgs) -> Result<(), Failure> {
    session::check(&args.engine)?;
    match args.loopback {
        true => launch(args.ranks, args.loopback_rails),
        false => run_rank(args),
    }
}

fn run_rank(args: &MoeArgs) -> Result<(), Failure> {
    let rank = Rank::join(&args.engine)?;
    let own = rank.group.rank();
    let pattern = args.pattern();
    let routing = Routing::new(rank.group.size(), &pattern);
    let layout = Layout::new(&routing, pattern.tokens, args.size as usize);
    let rounds = Rounds::new(&routing, layout, own);
    let mut carriers = Vec::new();
    for carrier in &args.only {
        carriers.push(connect(*carrier, &rank, layout, args)?);
    }
    let file = if own == 0 { JsonFile::asked(args.json.as_ref())? } else { None };
    interrupt::end_in_order();
    let (seconds, cut) = measure(&rank, &rounds, &mut carriers, args)?;
    let told = rank.gather(&to_json(&seconds))?;
    if own != 0 {
        return match cut {
            Some(Failure::RankInterrupted) => Err(Failure::Reported { exit_status: 1 }),
            cut => cut.map_or(Ok(()), Err),
        };
    }
    let told: Vec<Vec<Vec<f64>>> =
        told.iter().map(|bytes| from_json(bytes)).collect::<Result<_, _>>()?;
    if told[0].iter().all(|rounds| rounds.is_empty()) {
        return cut.map_or(Ok(()), Err);
    }
    let mut report = MoeReport::new(args, &routing, &told);
    report.ended_early = cut.as_ref().map(Failure::to_string);
    stdio::print(|out| write!(out, "{}", report.text()))?;
    file.map_or(Ok(()), |file| file.write(&report))?;
    cut.map_or(Ok(()), Err)
}

/// Runs the carriers in turn, round by round. Returns the seconds of this rank's measured rounds
/// by carrier, and why they ended early.
fn measure(
    rank: &Rank,
    rounds: &Rounds,
    carriers: &mut [Box<dyn Puts>],
    args: &MoeArgs,
) -> Result<(Vec<Vec<f64>>, Option<Failure>), Failure> {
    let mut line = if rank.group.rank() == 0 { Line::begin() } else { None };
    let mut seconds = vec![Vec::new(); carriers.len()];
    for round in 0..=args.rounds {
        let mut measured = Vec::new();
        for (carrier, puts) in args.only.iter().zip(carriers.iter_mut()) {
            if let Some(line) = &mut line {
                let text = format!("round {round} of {}: {carrier}", args.rounds);
                line.tick(Instant::now(), |_| text);
            }
            if args.verify {
                rounds.fill(puts.as_mut(), round.into())?;
            }
            if let Some(cut) = rank.barrier()? {
                return Ok((seconds, Some(cut)));
            }
            let began = Instant::now();
            rounds.run(puts.as_mut(), round.into())?;
            measured.push(began.elapsed().as_secs_f64());
            if args.verify {
                rounds.check(puts.as_ref(), round.into())?;
            }
        }
        // The first round warms up.
        if round > 0 {
            seconds.iter_mut().zip(measured).for_each(|(all, one)| all.push(one));
        }
    }
    Ok((seconds, rank.barrier()?))
}

fn connect(
    carrier: Carrier,
    rank: &Rank,
    layout: Layout,
    args: &MoeArgs,
) -> Result<Box<dyn Puts>, Failure> {
    Ok(match carrier {
        Carrier::Braid => Box::new(BraidPuts::connect(rank, layout, &args.engine)?),
        Carrier::TcpStopAndWait => Box::new(TcpPuts::connect(rank, layout, true)?),
        Carrier::TcpPipelined => Box::new(TcpPuts::connect(rank, layout, false)?),
    })
}

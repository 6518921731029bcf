//! `braid-perf compare`: Braid compared with other transports between two hosts.
//!
//! The hosts are namespaces joined by one veth pair, and every contestant is at least two
//! processes, one on each host. Contestants take turns, round by round, because the state of the
//! machine varies more than any measured figure. Ratios are taken within a round. CPU time and
//! memory are read from outside, in the same way for all of them ([`usage`]).

mod case;
mod contestants;
mod options;
mod page;
mod peers;
mod place;
mod plot;
mod tables;
mod trial;
mod usage;

use std::collections::BTreeMap;
use std::io::Write;

use serde::Serialize;

use self::case::{CompareCase, Family};
pub(crate) use self::options::CompareOptions;
use self::place::Place;
use self::trial::{LeftOut, MeasuredCase, Trial};
use crate::failure::Failure;
use crate::results::ResultFiles;
use crate::{interrupt, stdio};

/// The results of all cases.
#[derive(Serialize)]
struct CompareResults<'a> {
    run_seconds: f64,
    rounds: u32,
    /// Versions of the packages that contain the peers' programs.
    package_versions: BTreeMap<&'static str, String>,
    cases: &'a [MeasuredCase],
}

/// Measures, prints a table for each family of cases, and writes the requested files.
pub(crate) fn run(options: &CompareOptions) -> Result<(), Failure> {
    interrupt::take_networks_down();
    let families = options.families()?;
    let files = ResultFiles::create(options.json.as_ref(), options.out.as_ref())?;
    let mut page = options.page.as_ref().map(|path| page::MarkdownPage::read(path)).transpose()?;
    let package_versions = contestants::package_versions();
    let trial = Trial { seconds: options.seconds(), rounds: options.rounds() };
    let mut measured = Vec::new();
    let mut show = |family: Family, mtu: u32, of_family: &[MeasuredCase]| {
        let text = tables::family(family, mtu, of_family);
        stdio::print(|out| writeln!(out, "{text}"))?;
        let Some(page) = &mut page else { return Ok(()) };
        if interrupt::is_requested() {
            return Ok(());
        }
        let about = tables::about(&trial, of_family, &package_versions);
        let name = block(family, mtu);
        page.replace(&name, &format!("{text}\n\n{}\n\n{about}", page.image(&name)))?;
        page.write()?;
        plot::all(&page.folder()?, of_family)
    };
    let mut was_interrupted = false;
    for mtu in options.mtus()? {
        let mut place = Place::make(mtu)?;
        for family in families.iter().filter(|_| !interrupt::is_requested()) {
            let first = measured.len();
            let mut cases = family.cases(mtu, options.full).into_iter();
            let done = cases.try_for_each(|case| {
                measured.push(trial.run(&mut place, &case)?);
                Ok(())
            });
            was_interrupted |= interrupt::interrupted(done)?;
            if measured.len() > first {
                show(*family, mtu, &measured[first..])?;
            }
        }
        if was_interrupted {
            break;
        }
    }
    let folder = files.folder();
    files.write(&CompareResults {
        run_seconds: trial.seconds,
        rounds: trial.rounds,
        package_versions,
        cases: &measured,
    })?;
    if was_interrupted {
        return Err(Failure::Interrupted);
    }
    folder.map_or(Ok(()), |folder| plot::all(folder, &measured))?;
    let first = measured.iter().flat_map(|measured| &measured.left_out).next();
    match first.filter(|_| options.complete) {
        Some(LeftOut { contestant, why }) => {
            Err(Failure::Trial(format!("{contestant} was not measured: {why}")))
        }
        None => Ok(()),
    }
}

/// Returns the name of a family's block in a page.
fn block(family: Family, mtu: u32) -> String {
    format!("{}-{mtu}", family.name())
}

/// Formats a number of bytes.
fn size_name(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{} KiB", bytes >> 10),
        _ => format!("{} MiB", bytes >> 20),
    }
}

/// Returns the heading of a case within its family.
fn heading(case: &CompareCase) -> String {
    match (case.family, case.queue_pairs) {
        (Family::QueuePairs, 1) => "1 queue pair".to_owned(),
        (Family::QueuePairs, many) => format!("{many} queue pairs"),
        _ => size_name(case.size),
    }
}

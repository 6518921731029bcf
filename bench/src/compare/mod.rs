//! `braid-perf compare`: Braid beside what else moves bytes between two hosts.
//!
//! The hosts are namespaces with one veth pair between them, and every contestant is at least two processes, one on each. They
//! take turns, round by round, because the machine's own state moves more than anything that is measured; ratios are taken
//! within a round. CPU time and memory are read from outside, in the same way for all of them ([`usage`]).

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
use std::path::Path;

use serde::Serialize;

use self::case::{Case, Family};
pub(crate) use self::options::Options;
use self::place::Place;
use self::trial::{LeftOut, Measured, Trial};
use crate::failure::Failure;
use crate::results::ResultFiles;
use crate::{interrupt, stdio};

/// All that was measured.
#[derive(Serialize)]
struct Results<'a> {
    run_seconds: f64,
    rounds: u32,
    /// Of the packages that the peers' programs come from.
    package_versions: BTreeMap<&'static str, String>,
    cases: &'a [Measured],
    left_out: Vec<&'a LeftOut>,
}

/// Measures, prints a table for each family of cases, and writes what was asked for.
pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    interrupt::take_networks_down()?;
    let families = options.families()?;
    let files = ResultFiles::create(options.json.as_ref(), options.out.as_ref())?;
    let mut page = options.page.as_ref().map(|path| page::Page::read(path)).transpose()?;
    let trial = Trial { seconds: options.seconds(), rounds: options.rounds() };
    let mut measured = Vec::new();
    for mtu in options.mtus()? {
        let place = Place::make(mtu)?;
        for family in &families {
            let first = measured.len();
            for case in family.cases(mtu, options.full) {
                measured.push(trial.run(&place, &case)?);
            }
            let of_family: &[Measured] = &measured[first..];
            let text = tables::family(*family, mtu, of_family);
            stdio::print(|out| writeln!(out, "{text}"))?;
            if let Some(page) = &mut page {
                page.replace(&block(*family, mtu), &text)?;
            }
        }
    }
    let package_versions = contestants::package_versions();
    if let Some(page) = page {
        finish_page(page, options, &measured, &package_versions)?;
    }
    let folder = files.folder();
    files.write(&Results {
        run_seconds: trial.seconds,
        rounds: trial.rounds,
        package_versions,
        left_out: measured.iter().flat_map(|measured| &measured.left_out).collect(),
        cases: &measured,
    })?;
    folder.map_or(Ok(()), |folder| plot::all(folder, &measured))
}

/// What a family's part of a page is called.
fn block(family: Family, mtu: u32) -> String {
    format!("{}-{mtu}", family.name())
}

fn finish_page(
    mut page: page::Page,
    options: &Options,
    measured: &[Measured],
    versions: &BTreeMap<&'static str, String>,
) -> Result<(), Failure> {
    let about = tables::about(options.rounds(), options.seconds(), measured, versions);
    for mtu in options.mtus()? {
        page.replace(&format!("about-{mtu}"), &about)?;
    }
    let plots = page.folder();
    page.write()?;
    std::fs::create_dir_all(&plots).map_err(|why| cannot_make(&plots, why))?;
    plot::all(&plots, measured)
}

fn cannot_make(path: &Path, why: std::io::Error) -> Failure {
    Failure::Io { what: format!("cannot make {}", path.display()), why }
}

/// A case's heading in a table, and the bytes of a message as people say them.
fn size_name(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{} KiB", bytes >> 10),
        _ => format!("{} MiB", bytes >> 20),
    }
}

/// The heading of a case among those of its family.
fn heading(case: &Case) -> String {
    match (case.family, case.queue_pairs) {
        (Family::QueuePairs, 1) => "1 queue pair".to_owned(),
        (Family::QueuePairs, many) => format!("{many} queue pairs"),
        _ => size_name(case.size),
    }
}

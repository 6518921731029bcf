//! Who is compared, in the order of the tables.

use std::collections::BTreeMap;
use std::process::Command;

use braid::SecurityMode;

use super::case::{Case, Family};
use super::peers::{Braid, Libfabric, OpenMpi, Operation, Peer, Sockets, Ucx, Via};
use super::trial::LeftOut;

fn all() -> Vec<Box<dyn Peer>> {
    let braid = |operation, crc, engine_thread| {
        Box::new(Braid { operation, crc, engine_thread, security: None }) as Box<dyn Peer>
    };
    let keyed = |mode| {
        let (operation, security) = (Operation::Write, Some(mode));
        Box::new(Braid { operation, crc: true, engine_thread: false, security }) as Box<dyn Peer>
    };
    let mut all = vec![
        braid(Operation::Write, true, false),
        braid(Operation::Write, false, false),
        keyed(SecurityMode::Auth),
        keyed(SecurityMode::Encrypt),
        braid(Operation::Read, true, false),
        braid(Operation::Send, true, false),
        braid(Operation::Send, true, true),
    ];
    all.extend(Sockets::all().map(|sockets| Box::new(sockets) as Box<dyn Peer>));
    let ucx = [Via::Put, Via::Tag, Via::ActiveMessage];
    all.extend(ucx.map(|via| Box::new(Ucx::new(via)) as Box<dyn Peer>));
    all.extend(Libfabric::all().map(|provider| Box::new(provider) as Box<dyn Peer>));
    all.push(Box::new(OpenMpi));
    all
}

/// Those that can do a case, and those whose program is not installed.
pub(super) fn of(case: &Case) -> (Vec<Box<dyn Peer>>, Vec<LeftOut>) {
    let mut there = Vec::new();
    let mut missing = Vec::new();
    for peer in all().into_iter().filter(|peer| peer.fits(case)) {
        match peer.missing() {
            None => there.push(peer),
            Some(why) => missing.push(LeftOut { contestant: peer.name(), why }),
        }
    }
    (there, missing)
}

/// The same without payload checks.
pub(super) const UNCHECKED: &str = "Braid WRITE, crc off";

/// Whom the others are compared with.
pub(super) fn reference(family: Family) -> &'static str {
    match family {
        Family::MessageRate | Family::LatencyBlocking => "Braid SEND",
        Family::Keyed | Family::KeyedLatency => "Braid WRITE, encrypt",
        _ => "Braid WRITE",
    }
}

/// The versions of what is installed of the peers' packages.
pub(super) fn package_versions() -> BTreeMap<&'static str, String> {
    let packages = all()
        .into_iter()
        .filter_map(|peer| peer.needs())
        .flat_map(|needs| needs.package.split(' '));
    packages.filter_map(|package| Some((package, version(package)?))).collect()
}

fn version(package: &str) -> Option<String> {
    let asked = Command::new("dpkg-query").args(["-W", "-f", "${Version}", package]).output();
    let said = asked.ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&said.stdout).trim().to_owned()).filter(|text| !text.is_empty())
}

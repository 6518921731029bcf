//! The contestants, in the order of the tables.

use std::collections::BTreeMap;
use std::process::Command;

use braid::SecurityMode;

use super::case::{CompareCase, Family};
use super::peers::{BraidPeer, ComparedPeer, Libfabric, OpenMpi, Operation, Sockets, Ucx, Via};
use super::trial::LeftOut;

fn all() -> Vec<Box<dyn ComparedPeer>> {
    let plain = BraidPeer {
        operation: Operation::Write,
        crc: true,
        engine_thread: false,
        security: None,
        over_tcp: false,
        one_path: false,
    };
    let boxed = |peer: BraidPeer| Box::new(peer) as Box<dyn ComparedPeer>;
    let braid =
        |operation, crc, engine_thread| boxed(BraidPeer { operation, crc, engine_thread, ..plain });
    let over_tcp = |operation, crc| boxed(BraidPeer { operation, crc, over_tcp: true, ..plain });
    let one_path = |over_tcp| boxed(BraidPeer { one_path: true, over_tcp, ..plain });
    let keyed = |mode| boxed(BraidPeer { security: Some(mode), ..plain });
    let keyed_over_tcp = |mode| boxed(BraidPeer { security: Some(mode), over_tcp: true, ..plain });
    let mut all = vec![
        braid(Operation::Write, true, false),
        one_path(false),
        braid(Operation::Write, false, false),
        keyed(SecurityMode::Auth),
        keyed(SecurityMode::Encrypt),
        braid(Operation::Read, true, false),
        braid(Operation::Send, true, false),
        braid(Operation::Send, true, true),
        over_tcp(Operation::Write, true),
        one_path(true),
        over_tcp(Operation::Write, false),
        over_tcp(Operation::Send, true),
        keyed_over_tcp(SecurityMode::Encrypt),
    ];
    all.extend(Sockets::all().map(|sockets| Box::new(sockets) as Box<dyn ComparedPeer>));
    let ucx = [Via::Put, Via::Tag, Via::ActiveMessage];
    all.extend(ucx.map(|via| Box::new(Ucx::new(via)) as Box<dyn ComparedPeer>));
    all.extend(Libfabric::all().map(|provider| Box::new(provider) as Box<dyn ComparedPeer>));
    all.push(Box::new(OpenMpi));
    all
}

/// Returns the contestants that support a case, and those whose program is not installed.
pub(super) fn of(case: &CompareCase) -> (Vec<Box<dyn ComparedPeer>>, Vec<LeftOut>) {
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

/// The name of Braid's WRITE without payload checks.
pub(super) const UNCHECKED: &str = "Braid WRITE, crc off";

/// Returns the contestant that the others are compared with.
pub(super) fn reference(family: Family) -> &'static str {
    match family {
        Family::MessageRate | Family::LatencyBlocking => "Braid SEND",
        Family::Keyed | Family::KeyedLatency => "Braid WRITE, encrypt",
        _ => "Braid WRITE",
    }
}

/// Returns the versions of the peers' installed packages.
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

//! The header above the table in perftest's manner: the parameters of the measurement.

use std::io::{self, Write};

use braid::{Crc, Datapath, Medium};

use crate::cli::Test;
use crate::engine_args::{EngineArgs, MemoryKind, Service};
use crate::policies::Policies;
use crate::session::Session;
use crate::table::RULE;

/// Prints test, device, peer and parameters of this side.
pub(crate) fn print(out: &mut impl Write, session: &Session, args: &EngineArgs) -> io::Result<()> {
    writeln!(out, "{RULE}\n{:20}{}", "", title(session.plan.test, session.plan.bidirectional))?;
    for [(left, value), (right, beside)] in parameters(session, args) {
        writeln!(out, " {left:<15} : {value:<21} {right:<15} : {beside}")?;
    }
    if args.memory != MemoryKind::Host {
        writeln!(out, " {:<15} : {}", "Memory", args.memory)?;
    }
    writeln!(out, " local address: {}", session.engine.local_addr())?;
    writeln!(out, " remote address: {}\n{RULE}", session.peer())
}

fn title(test: Test, bidirectional: bool) -> String {
    let verb = match test {
        Test::WriteBw | Test::WriteLat => "RDMA_Write",
        Test::ReadBw | Test::ReadLat => "RDMA_Read",
        Test::SendBw | Test::SendLat => "Send",
        Test::AtomicLat => "Atomic",
    };
    let both = if bidirectional { "Bidirectional " } else { "" };
    format!("{verb} {both}{} Test", if test.is_latency() { "Latency" } else { "BW" })
}

type Parameter = (&'static str, String);

fn parameters(session: &Session, args: &EngineArgs) -> [[Parameter; 2]; 6] {
    let (plan, is_roce) = (&session.plan, session.plan.roce.is_some());
    let policies = Policies::of(plan, args);
    let on = |yes| if yes { "ON" } else { "OFF" }.to_owned();
    let has_crc = session.qps[0].payload_crc() == Some(Crc::On);
    let payload = session.qps[0].packet_payload();
    let payload = payload.map_or_else(|| "unknown".to_owned(), |bytes| format!("{bytes}[B]"));
    [
        [("Device", device(args, session.qps[0].protocol())), ("Peer", session.peer().to_string())],
        [
            ("Number of qps", plan.qps.to_string()),
            ("Connection type", if is_roce { "RoCEv2 RC" } else { connection(args) }.to_owned()),
        ],
        [("TX depth", plan.sends.to_string()), ("Packet payload", payload)],
        [("Paths", policies.paths.to_string()), ("Path policy", policies.lb)],
        [("Rails", args.policy.rails.len().max(1).to_string()), ("Congestion", policies.cc)],
        [("Payload CRC", on(has_crc)), ("Loss recovery", policies.loss_recovery.to_owned())],
    ]
}

/// The device, or the datapath with the protocol that it has chosen.
fn device(args: &EngineArgs, protocol: Option<&str>) -> String {
    let (datapath, device) = (args.datapath(), args.device.dev.clone());
    device.unwrap_or_else(|| match protocol {
        Some(protocol) if datapath == Datapath::Auto.kind() => format!("{protocol} ({datapath})"),
        _ => datapath.label().to_owned(),
    })
}

fn connection(args: &EngineArgs) -> &'static str {
    match (args.datapath().medium(), args.device.connection) {
        (Medium::Device, Some(Service::Rc)) => "RC over RC",
        (Medium::Device, _) => "RC over UC",
        _ => "RC",
    }
}

//! Short datagrams by AF_XDP between two namespaces, on a clean wire and with faults injected.

use std::path::Path;

use braid_lab::Namespace;

use super::cases::{Case, FAULTS};
use super::place::{CLIENT_V4, Pair, Place, SERVER_V4};
use super::{MTUS, peers};
use crate::{Failure, process};

const CASES: &[Case] = &[
    Case { verb: "send-lat", size: 8, clean: 2000, faulty: 500 },
    Case { verb: "write-bw", size: 65536, clean: 2000, faulty: 500 },
    Case { verb: "read-bw", size: 65536, clean: 2000, faulty: 500 },
];

/// A pair of hosts that both have AF_XDP.
struct OverXdp {
    pair: Pair,
}

impl Place for OverXdp {
    fn ends(&self) -> [&Namespace; 2] {
        self.pair.ends()
    }

    fn arguments(&self) -> [Vec<String>; 2] {
        [SERVER_V4, CLIENT_V4]
            .map(|bind| ["--datapath", "xdp", "--bind", bind].map(str::to_owned).to_vec())
    }

    fn name(&self) -> String {
        format!("{}, AF_XDP", self.pair.name())
    }
}

/// Runs the cases; the first must hardly touch the server's UDP sockets, or it went another way.
pub(super) fn run(braid_perf: &Path) -> Result<(), Failure> {
    for mtu in MTUS {
        let place = OverXdp { pair: Pair::new(mtu)? };
        short_datagrams_pass_the_stack_by(braid_perf, &place)?;
        for case in CASES {
            peers::server_and_client(braid_perf, case, &place, &[], SERVER_V4)?;
            peers::server_and_client(braid_perf, case, &place, FAULTS, SERVER_V4)?;
        }
        peers::second_server_fails(braid_perf, &place, "has AF_XDP sockets or an XDP program")?;
    }
    Ok(())
}

fn short_datagrams_pass_the_stack_by(braid_perf: &Path, place: &OverXdp) -> Result<(), Failure> {
    let case = &CASES[0];
    let before = datagrams_of_the_stack(place)?;
    peers::server_and_client(braid_perf, case, place, &[], SERVER_V4)?;
    let by_the_stack = datagrams_of_the_stack(place)? - before;
    if by_the_stack > u64::from(case.clean) / 10 {
        return Err(Failure::new(format!(
            "the server's sockets had {by_the_stack} of the datagrams of {} short messages: \
             they ought to go by AF_XDP",
            case.clean
        )));
    }
    Ok(())
}

/// The number of datagrams that the UDP sockets of the server have received.
fn datagrams_of_the_stack(place: &OverXdp) -> Result<u64, Failure> {
    let snmp = process::output(place.ends()[0].command(Path::new("cat")).arg("/proc/net/snmp"))?;
    received(&snmp).ok_or_else(|| Failure::new(format!("no count of datagrams in\n{snmp}")))
}

/// `InDatagrams`, the first number of the line of UDP that has numbers.
fn received(snmp: &str) -> Option<u64> {
    let numbers = snmp.lines().filter_map(|line| line.strip_prefix("Udp: "));
    numbers.filter_map(|line| line.split(' ').next()?.parse().ok()).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_of_datagrams_is_found() {
        let snmp = "Tcp: 7 8\nUdp: InDatagrams NoPorts\nUdp: 41 2\nUdpLite: InDatagrams\n";
        assert_eq!(received(snmp), Some(41));
    }
}

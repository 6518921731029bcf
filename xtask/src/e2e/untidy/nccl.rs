//! The devices that the NCCL plugin finds on a host with containers, and on one whose address is on
//! the loopback device.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use braid_lab::Namespace;

use super::case::UntidyCase;
use super::network::Network;
use crate::Failure;
use crate::process::{self, Program};

pub(super) const CASES: &[UntidyCase] = &[
    UntidyCase { name: "NCCL on a host with containers", run: host_of_containers },
    UntidyCase {
        name: "NCCL on a host whose address is on the loopback device",
        run: routed_address,
    },
];

/// Containers on a bridge.
const CONTAINERS: usize = 6;
const LIMIT: Duration = Duration::from_secs(30);

/// A host with a NIC, a bridge and its containers. One link to a container has a link-local
/// address, another one an address without a subnet. The address of one device is in duplicate
/// address detection.
fn host_of_containers(braid_perf: &Path) -> Result<(), Failure> {
    let network = Network::new()?;
    let host = &network.server;
    network.link([host, &network.client], "braid0")?;
    host.ip(&["link add br-5f type bridge", "link set br-5f up"])?;
    for number in 0..CONTAINERS {
        let port = format!("veth{number}");
        network.link([host, &network.router], &port)?;
        host.ip(&[&format!("link set {port} master br-5f")])?;
    }
    for link in ["cali0", "ptp0", "dad0"] {
        network.link([host, &network.router], link)?;
    }
    host.ip(&[
        "address add 10.77.0.1/24 dev braid0",
        "address add fd77::1/64 dev braid0 nodad",
        "address add 172.18.0.1/16 dev br-5f",
        "address add 169.254.1.1/16 dev cali0",
        "address add 10.244.1.1/32 dev ptp0",
    ])?;
    // Detection that lasts longer than the case.
    host.sysctl("ipv6/conf/dad0/dad_transmits", 100)?;
    host.ip(&["address add fd78::1/64 dev dad0"])?;
    ["braid0", "br-5f", "cali0", "ptp0", "dad0"]
        .into_iter()
        .try_for_each(|device| host.wait_until_up(device))?;
    let offers = |variable: &str, expected: &str| devices(&network, braid_perf, variable, expected);
    offers("", "braid0:10.77.0.1")?;
    offers("NCCL_SOCKET_IFNAME=", "braid0:10.77.0.1")?;
    offers("NCCL_SOCKET_IFNAME=^docker0", "braid0:10.77.0.1")?;
    offers("NCCL_SOCKET_FAMILY=AF_INET6", "braid0:fd77::1")?;
    offers("NCCL_SOCKET_IFNAME==br-5f", "br-5f:172.18.0.1")?;
    offers("NCCL_SOCKET_IFNAME=br", "br-5f:172.18.0.1 braid0:10.77.0.1")?;
    offers("NCCL_COMM_ID=172.18.0.9:1234", "br-5f:172.18.0.1")?;
    // Somebody who has nothing better gets it, and is told.
    host.ip(&["link set braid0 down"])?;
    offers("", "ptp0:10.244.1.1")?;
    let refused = [
        (
            "NCCL_SOCKET_IFNAME=^lo,ptp,cali,br,veth",
            "duplicate address detection is not over: dad0",
        ),
        ("NCCL_SOCKET_IFNAME=eth", "NCCL_SOCKET_IFNAME is `eth`"),
        ("BRAID_ADDR=fd78::1", "BRAID_ADDR names fd78::1 of dad0"),
    ];
    refused
        .into_iter()
        .try_for_each(|(variable, words)| refuses(&network, braid_perf, variable, words))
}

/// The host's NIC has a link-local address only, and routes to the address of the loopback device
/// lead there.
fn routed_address(braid_perf: &Path) -> Result<(), Failure> {
    let network = Network::new()?;
    let (host, client) = (&network.server, &network.client);
    network.link([host, client], "braid0")?;
    host.ip(&["address add 10.9.0.1/32 dev lo", "route add 10.77.0.0/24 dev braid0"])?;
    client.ip(&["address add 10.77.0.2/24 dev braid0", "route add 10.9.0.1 dev braid0"])?;
    [host, client].into_iter().try_for_each(|end| end.wait_until_up("braid0"))?;
    devices(&network, braid_perf, "", "lo:10.9.0.1")?;
    devices(&network, braid_perf, "NCCL_SOCKET_IFNAME=lo", "lo:10.9.0.1")?;
    let at = |host: &Namespace, ifname: &str| {
        let mut command = host.command(&conformance(braid_perf));
        command.args(["--ifname", ifname]).stdin(Stdio::null());
        command
    };
    let address = "10.9.0.1:47921";
    let mut server =
        Program::start(at(host, "lo").args(["--serve", address]).stdout(Stdio::piped()))?;
    server.value("listening on ", LIMIT)?;
    let rounds = ["--rounds", "1", "--seconds", "0.1"];
    Program::start(at(client, "braid0").args(["--against", address]).args(rounds))?.wait(LIMIT)?;
    Ok(server.wait(LIMIT)?)
}

/// Built beside `braid-perf`.
fn conformance(braid_perf: &Path) -> std::path::PathBuf {
    braid_perf.with_file_name("nccl-conformance")
}

/// The program that prints the devices, with a variable, `NAME=VALUE`, where there is one.
fn printer(network: &Network, braid_perf: &Path, variable: &str) -> Command {
    let mut command = network.server.command(&conformance(braid_perf));
    command.arg("--devices").stdin(Stdio::null()).envs(variable.split_once('='));
    command
}

/// Checks the names of the devices, with spaces between them.
fn devices(
    network: &Network,
    braid_perf: &Path,
    variable: &str,
    expected: &str,
) -> Result<(), Failure> {
    let said = process::output(&mut printer(network, braid_perf, variable))?;
    let mut names: Vec<&str> =
        said.lines().filter_map(|line| line.split_whitespace().nth(1)).collect();
    // The order is the system's.
    names.sort_unstable();
    match names.join(" ") {
        names if names == expected => Ok(()),
        names => Err(Failure::new(format!(
            "with `{variable}` the plugin offers `{names}` instead of `{expected}`"
        ))),
    }
}

/// Checks that the plugin finds no device and says so in these words.
fn refuses(
    network: &Network,
    braid_perf: &Path,
    variable: &str,
    words: &str,
) -> Result<(), Failure> {
    match process::output(&mut printer(network, braid_perf, variable)) {
        Ok(said) => Err(Failure::new(format!("with `{variable}` the plugin offers `{said}`"))),
        Err(failure) if failure.to_string().contains(words) => Ok(()),
        Err(failure) => Err(Failure::new(format!(
            "with `{variable}` the plugin does not say `{words}`: {failure}"
        ))),
    }
}

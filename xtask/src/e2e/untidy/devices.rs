//! Network devices whose queues are full.

use std::path::Path;
use std::time::Duration;

use super::case::UntidyCase;
use super::network::Network;
use crate::{Failure, process};

pub(super) const CASES: &[UntidyCase] = &[
    UntidyCase { name: "a device slower than its sender", run: slow },
    UntidyCase { name: "a device that takes nothing any more", run: stuck },
];

const SERVER: &str = "write-bw -p 47910 --bind 10.78.0.1";
/// Holds twice as many bytes as a batch.
const SLOW: &str = "tbf rate 100mbit burst 64k limit 128k";
/// No packet fits.
const STUCK: &str = "bfifo limit 1";
/// Segments of 22,000 that may be declared lost, by a machine that does not run for a while. A
/// sender that fills the queue until it drops loses a hundred.
const MOST_LOST: u64 = 20;
/// Time for the server to notice, beyond the client's.
const GRACE: Duration = Duration::from_secs(4);

fn network() -> Result<Network, Failure> {
    let network = Network::new()?;
    network.link([&network.server, &network.client], "braid0")?;
    network.server.ip(&["address add 10.78.0.1/24 dev braid0"])?;
    network.client.ip(&["address add 10.78.0.2/24 dev braid0"])?;
    Ok(network)
}

fn queue(network: &Network, discipline: &str) -> Result<(), Failure> {
    let arguments = format!("qdisc replace dev braid0 root {discipline}");
    let mut tc = network.client.command(Path::new("tc"));
    process::run(tc.args(arguments.split(' ')))
}

/// The sender's own device loses nothing.
fn slow(braid_perf: &Path) -> Result<(), Failure> {
    let network = network()?;
    queue(&network, SLOW)?;
    let client = "write-bw -p 47910 -s 64K -D 2 10.78.0.1";
    let said = network.perf(braid_perf, SERVER, client)?.succeeded()?;
    let lost = said.client.split(" declared lost").next().and_then(|said| said.rsplit(' ').next());
    let lost: Option<u64> = lost.and_then(|lost| lost.parse().ok());
    match lost {
        Some(lost) if lost <= MOST_LOST => Ok(()),
        _ => Err(Failure::new(format!(
            "more than {MOST_LOST} segments were declared lost behind the sender's own queue\n{}",
            said.client
        ))),
    }
}

/// Waiting for room comes to an end.
fn stuck(braid_perf: &Path) -> Result<(), Failure> {
    let network = network()?;
    let stop = |_: &mut _| queue(&network, STUCK);
    let arguments = [SERVER, "write-bw -p 47910 -D 20 10.78.0.1"];
    let (said, _) = network.perf_and_change(braid_perf, arguments, stop, GRACE)?;
    if said.client.contains(" failed: ") {
        return Ok(());
    }
    Err(Failure::new(format!("the client goes on\n{}\n{}", said.server, said.client)))
}

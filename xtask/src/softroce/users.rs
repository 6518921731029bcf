//! Those who use the engine through another door than Rust, over verbs: a C program, and NCCL's
//! plugin.

use std::time::Duration;

use super::pair::{B, Machines};
use super::server::{self, Port};
use crate::Failure;

const LIMIT: Duration = Duration::from_secs(100);
/// 4791 is the device's own.
const PORT: u16 = 18515;

/// The C example, as its head says to run it.
pub(super) fn c_program(pair: &Machines) -> Result<String, Failure> {
    let at = format!("{B}:{PORT} rxe0");
    let [server, client] = ["listen", "connect"].map(|role| format!("pingpong {role} {at}"));
    let [said, _] = server::serve(pair, &server, Port::Udp(PORT), &client, LIMIT)?;
    Ok(said.trim().to_owned())
}

/// Those of the conformance program's checks that move data; all of them take an emulated machine
/// minutes.
const CHECKS: &str = "connection states,sizes from,32 requests,sends before,words land,groups of 8,\
     close with data,longer than its buffer";

/// NCCL's proxy is played within one machine, whose device hands packets to itself.
pub(super) fn nccl_plugin(pair: &Machines) -> Result<String, Failure> {
    let plays = "nccl-conformance --datapath verbs --ifname eth0 --versions 12";
    let said = pair.a.must(&format!("{plays} --only '{CHECKS}'"), LIMIT)?;
    Ok(said.lines().last().unwrap_or_default().to_owned())
}

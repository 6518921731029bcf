//! `cargo xtask wireshark`: what Wireshark makes of Braid's packets, with
//! `wire/wireshark/braid.lua`.
//!
//! Traffic of real programs is captured, and each field that tshark shows is compared with what
//! `braid-wire` reads in the same bytes. Packets that are cut, damaged or made up must not raise an
//! error in the script.

mod capture;
mod expected;
mod malformed;
mod shown;

use std::path::Path;
use std::process::Command;

use crate::files::cannot;
use crate::{Failure, process, programs, tools, tree};

/// Short runs between a client and a server that together send every kind of packet.
const TRAFFIC: [&[&str]; 4] = [
    &["write-bw", "-s", "65536", "-n", "40", "--drop", "0.02", "--seed", "7"],
    &["send-bw", "-s", "3000", "-n", "20"],
    &["read-lat", "-s", "5000", "-n", "10"],
    &["atomic-lat", "-n", "10"],
];

/// Builds `braid-perf`, captures what it sends and checks what tshark says of it.
pub fn run() -> Result<(), Failure> {
    ["tshark", "dumpcap", "ip"].into_iter().try_for_each(tools::need)?;
    let program = programs::build()?.join("braid-perf");
    let folder = tree::target()?.join("xtask/wireshark");
    std::fs::create_dir_all(&folder)
        .map_err(|e| Failure::new(format!("cannot make {}: {e}", folder.display())))?;
    let (file, key) = (folder.join("traffic.pcap"), folder.join("key"));
    let key_name = key.to_str().ok_or_else(|| Failure::new("target/ is no text"))?;
    // One of an earlier run is not overwritten.
    let _ = std::fs::remove_file(&key);
    process::run(Command::new(&program).args(["keygen", key_name]))?;
    let keyed = ["write-bw", "-s", "3000", "-n", "20", "--key", key_name];
    let mut traffic = TRAFFIC.to_vec();
    traffic.push(&keyed);
    capture::capture(&file, &program, &traffic)?;
    let (frames, packets) = shown::compare(&file)?;
    println!("{packets} packets in {frames} frames are shown as they were sent");
    let count = malformed::check(&folder, &file)?;
    println!("{count} cut, damaged and made up packets raise no error");
    Ok(())
}

/// tshark with the script, reading a file.
fn tshark(file: &Path) -> Command {
    tshark_with(&tree::root().join("wire/wireshark/braid.lua"), file)
}

fn tshark_with(script: &Path, file: &Path) -> Command {
    let mut command = Command::new("tshark");
    command.arg("-X").arg(format!("lua_script:{}", script.display()));
    command.args(["-o", "braid.payload_checks:TRUE", "-n", "-r"]).arg(file);
    command
}

//! The ranks of `--loopback`: this same program, once for each.

use std::env;
use std::net::UdpSocket;
use std::process::{Child, Command, Stdio};

use super::args::{AllToAllArgs, loopback_address};
use crate::failure::Failure;

/// Killed when dropped.
struct Ranks(Vec<Child>);

impl Drop for Ranks {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Starts all ranks and waits for them. Rank 0 writes to our standard output.
pub(super) fn run(args: &AllToAllArgs) -> Result<(), Failure> {
    let (count, rails) = (args.ranks.unwrap_or(1), args.loopback_rails.unwrap_or(1));
    let root = loopback_address(0, 0);
    let port = free_port(root)?;
    let program = env::current_exe().map_err(|why| io("find this program", why))?;
    let mut ranks = Ranks(Vec::new());
    for rank in 0..count {
        let addresses = (0..rails).map(|rail| loopback_address(rail, rank).to_string());
        let mut command = Command::new(&program);
        command
            .args(arguments())
            .args(["--rails", &addresses.collect::<Vec<_>>().join(",")])
            .env("RANK", rank.to_string())
            .env("WORLD_SIZE", count.to_string())
            .env("MASTER_ADDR", root.to_string())
            .env("MASTER_PORT", port.to_string())
            .stdin(Stdio::null());
        if rank > 0 {
            command.stdout(Stdio::null());
        }
        ranks.0.push(command.spawn().map_err(|why| io("start a rank", why))?);
    }
    for (rank, child) in ranks.0.iter_mut().enumerate() {
        let status = child.wait().map_err(|why| io("wait for a rank", why))?;
        if !status.success() {
            return Err(Failure::Peer(format!("of rank {rank} ended with {status}")));
        }
    }
    Ok(())
}

/// Ours, but for what is the launcher's.
fn arguments() -> Vec<String> {
    let mut ours = env::args().skip(1);
    let mut kept = Vec::new();
    while let Some(argument) = ours.next() {
        match argument.as_str() {
            "--loopback" => {}
            "-n" | "--ranks" | "--loopback-rails" => drop(ours.next()),
            own if ["-n", "--ranks=", "--loopback-rails="].iter().any(|it| own.starts_with(it)) => {
            }
            _ => kept.push(argument),
        }
    }
    kept
}

fn free_port(ip: std::net::IpAddr) -> Result<u16, Failure> {
    let port = UdpSocket::bind((ip, 0)).and_then(|socket| socket.local_addr());
    Ok(port.map_err(|why| io("find a free port", why))?.port())
}

fn io(what: &str, why: std::io::Error) -> Failure {
    Failure::Io { what: format!("cannot {what}"), why }
}

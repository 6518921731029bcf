//! The server of `--loopback`: this same program, in a process of its own.

use std::io::{BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::{self, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::cli::{EngineArgs, ProgressKind, Switch, Test, TestArgs};
use crate::failure::Failure;
use crate::quantities::address_text;

const START: Duration = Duration::from_secs(10);
const FINISH: Duration = Duration::from_secs(10);

/// Killed when dropped.
pub(crate) struct Child {
    process: process::Child,
    address: SocketAddr,
}

impl Child {
    pub(crate) fn server(test: Test, args: &TestArgs) -> Result<Self, Failure> {
        let io = |what: &str, why| Failure::Io { what: what.to_owned(), why };
        let program = std::env::current_exe().map_err(|why| io("cannot find this program", why))?;
        let mut process = Command::new(program)
            .arg(test.name())
            .arg("--once")
            .args(engine_args(&args.engine))
            // Those are of the client: an address has room for one process.
            .env_remove("BRAID_METRICS")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|why| io("cannot start the server process", why))?;
        let stdout = process.stdout.take().expect("a pipe was asked for");
        let mut child = Child { process, address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)) };
        child.address = ready_line(stdout)?;
        Ok(child)
    }

    /// Where it listens, as seen from this machine.
    pub(crate) fn address(&self) -> SocketAddr {
        let mut address = self.address;
        if address.ip().is_unspecified() {
            address.set_ip(IpAddr::V4(Ipv4Addr::LOCALHOST));
        }
        address
    }

    /// Waits for it to end and passes its failure on.
    pub(crate) fn finish(mut self) -> Result<(), Failure> {
        let deadline = Instant::now() + FINISH;
        loop {
            match self.process.try_wait() {
                Ok(Some(status)) if status.success() => return Ok(()),
                Ok(Some(status)) => return Err(Failure::Peer(format!("ended with {status}"))),
                Ok(None) if Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(5));
                }
                Ok(None) => return Err(Failure::Peer("did not end".to_owned())),
                Err(why) => {
                    return Err(Failure::Io { what: "cannot wait for the server".to_owned(), why });
                }
            }
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn ready_line(stdout: process::ChildStdout) -> Result<SocketAddr, Failure> {
    let (tell, hear) = mpsc::channel();
    // The thread also keeps the pipe open, and ends with the process.
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            let _ = tell.send(line);
        }
    });
    let line = hear
        .recv_timeout(START)
        .map_err(|_| Failure::Peer("ended, or said nothing, before it listened".to_owned()))?;
    let address = line.strip_prefix("listening on ").and_then(|text| text.parse().ok());
    address.ok_or_else(|| Failure::Peer(format!("began with `{line}`")))
}

/// The options that a server has to be told; everything else comes from the client.
fn engine_args(args: &EngineArgs) -> Vec<String> {
    let pairs = [
        ("--port", "0".to_owned()),
        (
            "--progress",
            if args.progress == ProgressKind::Poll { "poll" } else { "thread" }.to_owned(),
        ),
        ("--paths", args.paths.to_string()),
        ("--lb", args.lb.to_string()),
        ("--rail-policy", args.rail_policy.to_string()),
        ("--cc", args.cc.to_string()),
        ("--crc", if args.crc == Switch::On { "on" } else { "off" }.to_owned()),
        ("--drop", args.drop.to_string()),
        ("--reorder", args.reorder.to_string()),
        ("--duplicate", args.duplicate.to_string()),
        ("--corrupt", args.corrupt.to_string()),
        ("--delay", args.delay.to_string()),
        // Another stream of faults than the client's.
        ("--seed", args.seed.wrapping_add(1).to_string()),
    ];
    let key = args.key.as_ref().map(|key| ("--key", key.display().to_string()));
    let allowed = args.allowed_keys.as_ref();
    let allowed = allowed.map(|file| ("--allowed-keys", file.display().to_string()));
    let security = args.security.as_ref().map(|mode| ("--security", mode.to_string()));
    let mtu = args.mtu.map(|mtu| ("--mtu", mtu.to_string()));
    let bind = address_text(args.bind.unwrap_or((Ipv4Addr::LOCALHOST, 0).into()));
    let rails: Vec<String> = args.rails.iter().map(ToString::to_string).collect();
    let place = if rails.is_empty() { ("--bind", bind) } else { ("--rails", rails.join(",")) };
    let pairs = pairs.into_iter().chain([place]);
    pairs
        .chain(mtu)
        .chain(key)
        .chain(allowed)
        .chain(security)
        .flat_map(|(name, value)| [name.to_owned(), value])
        .collect()
}

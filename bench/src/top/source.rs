//! Whom to ask: a process of this machine, or an address.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddr, UnixStream};
use std::path::Path;
use std::time::Duration;

use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};

use crate::failure::Failure;

/// Bytes of an answer, at most: many times what an engine with as many queue pairs as are shown has to say.
const MAX_ANSWER: u64 = 64 << 20;
const PATIENCE: Duration = Duration::from_secs(5);
const REQUEST: &[u8] = b"GET /metrics HTTP/1.1\r\nHost: braid\r\nConnection: close\r\n\r\n";

pub(super) enum Source {
    Process(u32),
    Address(String),
}

impl Source {
    /// # Errors
    /// It is neither of the two.
    pub(super) fn new(target: &str) -> Result<Self, Failure> {
        if let Ok(pid) = target.parse() {
            return Ok(Source::Process(pid));
        }
        if target.contains(':') {
            return Ok(Source::Address(target.to_owned()));
        }
        let wanted =
            "give the PID of a process, or an address with its port, such as 127.0.0.1:9464";
        Err(Failure::Usage(format!("`{target}` is nothing to look at: {wanted}")))
    }

    /// The page that is served there.
    ///
    /// # Errors
    /// Nobody serves one, or not to us.
    pub(super) fn fetch(&self) -> Result<String, Failure> {
        let asked = match self {
            Source::Process(pid) => ask_process(*pid)?,
            Source::Address(addr) => connect(addr).and_then(|mut stream| {
                stream.set_read_timeout(Some(PATIENCE))?;
                stream.set_write_timeout(Some(PATIENCE))?;
                ask(&mut stream)
            }),
        };
        let answer = asked.map_err(|why| self.refused(&why))?;
        match answer.split_once("\r\n\r\n") {
            Some((head, page)) if head.starts_with("HTTP/1.1 200 ") => Ok(page.to_owned()),
            _ => Err(self.foreign("is no metrics endpoint of Braid's")),
        }
    }

    /// Somebody answers who is not an engine; `what` says why not.
    pub(super) fn foreign(&self, what: &str) -> Failure {
        let who = match self {
            Source::Process(pid) => format!("process {pid}"),
            Source::Address(addr) => addr.clone(),
        };
        let remedy = "give the address that a running program has in BRAID_METRICS, or its PID";
        Failure::Usage(format!("{who} {what}; {remedy}"))
    }

    fn refused(&self, why: &io::Error) -> Failure {
        Failure::Usage(match self {
            Source::Process(pid) if !Path::new(&format!("/proc/{pid}")).exists() => {
                format!("there is no process {pid}; `pgrep -a PROGRAM` shows which there are")
            }
            Source::Process(pid) if why.kind() == ErrorKind::ConnectionRefused => format!(
                "process {pid} has no engine that can be looked at; start it with BRAID_METRICS=local"
            ),
            // Somebody is there, and the time-out of reading or writing has passed.
            Source::Process(pid) if why.kind() == ErrorKind::WouldBlock => format!(
                "process {pid} does not answer within {} s; if it is stopped, `kill -CONT {pid}` lets it go on",
                PATIENCE.as_secs()
            ),
            Source::Address(addr) if why.kind() == ErrorKind::WouldBlock => format!(
                "{addr} does not answer within {} s; `ss -tlnp` shows whose port it is: give the one in BRAID_METRICS of a program that runs",
                PATIENCE.as_secs()
            ),
            Source::Process(pid) => format!(
                "the engine of process {pid} does not answer: {why}; only its user and root may look"
            ),
            Source::Address(addr) => {
                format!("no metrics at {addr}: {why}; start the program with BRAID_METRICS={addr}")
            }
        })
    }
}

fn connect(addr: &str) -> io::Result<TcpStream> {
    let mut failed = io::Error::from(ErrorKind::AddrNotAvailable);
    for addr in addr.to_socket_addrs()? {
        match TcpStream::connect_timeout(&addr, PATIENCE) {
            Ok(stream) => return Ok(stream),
            Err(why) => failed = why,
        }
    }
    Err(failed)
}

/// The outer error: somebody else has the name.
fn ask_process(pid: u32) -> Result<io::Result<String>, Failure> {
    let asked = UnixAddr::from_abstract_name(format!("braid-{pid}"))
        .and_then(|name| UnixStream::connect_addr(&name));
    let mut stream = match asked {
        Ok(stream) => stream,
        Err(why) => return Ok(Err(why)),
    };
    // Any program may take that name.
    let owner = getsockopt(&stream, PeerCredentials).map_err(io::Error::from);
    match owner {
        Ok(owner) if owner.pid() == pid as i32 => {}
        Ok(owner) => {
            let text = format!("@braid-{pid} is a socket of process {}, not of {pid}", owner.pid());
            return Err(Failure::Usage(text));
        }
        Err(why) => return Ok(Err(why)),
    }
    let limits = stream
        .set_read_timeout(Some(PATIENCE))
        .and_then(|()| stream.set_write_timeout(Some(PATIENCE)));
    Ok(limits.and_then(|()| ask(&mut stream)))
}

fn ask(stream: &mut (impl Read + Write)) -> io::Result<String> {
    stream.write_all(REQUEST)?;
    let mut answer = Vec::new();
    stream.take(MAX_ANSWER).read_to_end(&mut answer)?;
    if answer.is_empty() {
        // It has seen who asks, and hung up.
        return Err(ErrorKind::PermissionDenied.into());
    }
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

//! The source of the metrics: a process of this machine, or an address.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddr, UnixStream};
use std::path::Path;
use std::time::Duration;

use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};

use super::namespace::Namespace;
use crate::failure::Failure;

/// Maximum bytes of a reply: many times the metrics of an engine with the maximum of queue pairs.
const MAX_ANSWER: u64 = 64 << 20;
const PATIENCE: Duration = Duration::from_secs(5);
const REQUEST: &[u8] = b"GET /metrics HTTP/1.1\r\nHost: braid\r\nConnection: close\r\n\r\n";

pub(super) enum Source {
    Process(u32),
    Address(String),
}

impl Source {
    /// Parses a process id or an address.
    ///
    /// # Errors
    /// The target is neither of the two.
    pub(super) fn new(target: &str) -> Result<Self, Failure> {
        if let Ok(pid) = target.parse() {
            return Ok(Source::Process(pid));
        }
        if target.contains(':') {
            return Ok(Source::Address(target.to_owned()));
        }
        let wanted =
            "give the PID of a process, or an address with its port, such as 127.0.0.1:9464";
        Err(Failure::Usage(format!("`{target}` is not a process or an address: {wanted}")))
    }

    /// Fetches the metrics page.
    ///
    /// # Errors
    /// The source serves no page, or refuses us.
    pub(super) fn fetch(&self) -> Result<String, Failure> {
        let asked = match self {
            Source::Process(pid) => match Namespace::of(*pid) {
                Namespace::Other(other) => other.inside(|| ask_process(*pid))??,
                Namespace::Ours | Namespace::Hidden => ask_process(*pid)?,
            },
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

    /// Returns the error for a source that is not an engine; `what` gives the reason.
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
                format!("there is no process {pid}; `pgrep -a PROGRAM` lists the processes")
            }
            Source::Process(pid)
                if why.kind() == ErrorKind::ConnectionRefused
                    && matches!(Namespace::of(*pid), Namespace::Hidden) =>
            {
                format!(
                    "process {pid} has no engine with metrics in this network namespace, and is \
                     another user's; run this as that user or as root"
                )
            }
            Source::Process(pid) if why.kind() == ErrorKind::ConnectionRefused => format!(
                "process {pid} has no engine with metrics; start it with BRAID_METRICS=local"
            ),
            // The process is there, but the read or write timed out.
            Source::Process(pid) if why.kind() == ErrorKind::WouldBlock => format!(
                "process {pid} does not answer within {} s; \
                 if it is stopped, `kill -CONT {pid}` resumes it",
                PATIENCE.as_secs()
            ),
            Source::Address(addr) if why.kind() == ErrorKind::WouldBlock => format!(
                "{addr} does not answer within {} s; `ss -tlnp` shows the owner of the port: \
                 give the one in BRAID_METRICS of a running program",
                PATIENCE.as_secs()
            ),
            Source::Process(pid) => format!(
                "the engine of process {pid} does not answer: {why}; \
                 run this as its user or as root"
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

/// Asks each socket that may belong to the process until one answers. The kernel reports the owner:
/// any program may take a name, and in a PID namespace a process has a different number. The outer
/// error: another process has the name.
fn ask_process(pid: u32) -> Result<io::Result<String>, Failure> {
    let own = format!("braid-{pid}");
    let (mut failed, mut other) = (io::Error::from(ErrorKind::ConnectionRefused), None);
    for name in candidates(&own) {
        let owned = connect_local(&name);
        let (mut stream, owner) = match owned {
            Ok(owned) => owned,
            Err(why) => {
                if name == own {
                    failed = why;
                }
                continue;
            }
        };
        if owner != pid as i32 {
            other = other.or((name == own).then_some(owner));
            continue;
        }
        match ask(&mut stream) {
            Ok(answer) => return Ok(Ok(answer)),
            Err(why) => (failed, other) = (why, None),
        }
    }
    match other {
        None => Ok(Err(failed)),
        Some(owner) => {
            let text = format!(
                "@{own} is a socket of process {owner}, \
             and process {pid} has no engine with metrics; \
             start it with BRAID_METRICS=local"
            );
            Err(Failure::Usage(text))
        }
    }
}

/// Returns the names of all listening sockets of engines in this network namespace, the default
/// name of the process first.
fn candidates(own: &str) -> Vec<String> {
    let all = std::fs::read_to_string("/proc/thread-self/net/unix").unwrap_or_default();
    let listed = all.lines().filter_map(listening_engine).filter(|name| *name != own);
    [own].into_iter().chain(listed).map(str::to_owned).collect()
}

/// Returns the name in a line of `/proc/net/unix`, if it is of a listening engine. The fields are
/// address, count, protocol, flags, type, state, inode and name; abstract names begin with `@`.
fn listening_engine(line: &str) -> Option<&str> {
    const ACCEPTS: u32 = 1 << 16; // __SO_ACCEPTCON
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let flags = u32::from_str_radix(words.get(3)?, 16).ok()?;
    let name = words.get(7)?.strip_prefix('@')?;
    (flags & ACCEPTS != 0 && name.starts_with("braid-")).then_some(name)
}

/// Connects, and returns the process that listens.
fn connect_local(name: &str) -> io::Result<(UnixStream, i32)> {
    let stream = UnixStream::connect_addr(&UnixAddr::from_abstract_name(name)?)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let owner = getsockopt(&stream, PeerCredentials).map_err(io::Error::from)?;
    Ok((stream, owner.pid()))
}

fn ask(stream: &mut (impl Read + Write)) -> io::Result<String> {
    stream.write_all(REQUEST)?;
    let mut answer = Vec::new();
    stream.take(MAX_ANSWER).read_to_end(&mut answer)?;
    if answer.is_empty() {
        // The engine has rejected our user id and closed the connection.
        return Err(ErrorKind::PermissionDenied.into());
    }
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_listening_sockets_of_engines_are_candidates() {
        let lines = "\
Num       RefCount Protocol Flags    Type St Inode Path
0000000000000000: 00000002 00000000 00010000 0001 01 101 @braid-1
0000000000000000: 00000003 00000000 00000000 0001 03 102 @braid-2
0000000000000000: 00000002 00000000 00010000 0001 01 103 /run/braid-3
0000000000000000: 00000002 00000000 00010000 0001 01 104 @braid-1-00ff
0000000000000000: 00000002 00000000 00000000 0002 01 105
";
        let found: Vec<&str> = lines.lines().filter_map(listening_engine).collect();
        assert_eq!(found, ["braid-1", "braid-1-00ff"]);
    }
}

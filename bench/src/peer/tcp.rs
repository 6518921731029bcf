//! One TCP stream: the default transport of most programs.

use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use socket2::{Domain, Socket, Type};

use super::error::{Context, PeerError};
use super::limits::{ANSWER_LIMIT, IDLE_LIMIT, WORKING_SET_BYTES};
use super::metrics::{Bulk, Metrics, ServerReport};
use super::options::{
    ClientOptions, DEFAULT_CONGESTION, PeerKind, SYSTEM_CONGESTION, ServeOptions, Timing,
};
use super::process::{Peer, announce, arguments};
use super::sys;
use crate::interrupt;

/// Maximum bytes of one read.
const READ_BYTES: usize = 1 << 20;

/// Options of a TCP run.
#[derive(Debug, Clone)]
pub(crate) struct TcpOptions {
    /// Address of both ends.
    pub(crate) bind: IpAddr,
    /// Bytes of one write.
    pub(crate) write_bytes: usize,
    /// Congestion control of both ends.
    pub(crate) congestion: String,
    /// Durations of warm-up and measurement.
    pub(crate) timing: Timing,
}

/// Starts the receiver in another process, sends to it, and measures.
///
/// # Errors
/// A process or a socket fails, or the receiver does not answer.
pub(crate) fn run(options: &TcpOptions) -> Result<Metrics, PeerError> {
    let mut serve = ServeOptions::new(PeerKind::Tcp, options.bind);
    serve.transport.congestion.clone_from(&options.congestion);
    let mut peer = Peer::spawn(&serve)?;
    let stream = connect(peer.address(), &options.congestion)?;
    let bulk = measure(stream, options.write_bytes, options.timing, finish)?;
    Ok(bulk.metrics(peer.report(ANSWER_LIMIT)?))
}

/// Sends to a receiver that the caller has started.
///
/// # Errors
/// A socket call fails, or the receiver does not answer.
pub(crate) fn send(options: &ClientOptions, timing: Timing) -> Result<Metrics, PeerError> {
    let stream = connect(options.to, &options.transport.congestion)?;
    Ok(measure(stream, options.bytes, timing, finish)?.sender_metrics())
}

/// Returns the command line of a receiver on another host.
pub(crate) fn receiver_args(bind: IpAddr) -> Vec<String> {
    arguments(&ServeOptions::new(PeerKind::Tcp, bind))
}

pub(super) fn connect(address: SocketAddr, congestion: &str) -> Result<TcpStream, PeerError> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)
        .context("make the TCP sender")?;
    set_congestion(&socket, congestion)?;
    socket.connect_timeout(&address.into(), ANSWER_LIMIT).context("connect to the TCP receiver")?;
    let stream = TcpStream::from(socket);
    stream.set_nodelay(true).context("set TCP_NODELAY")?;
    stream.set_write_timeout(Some(ANSWER_LIMIT)).context("set a timeout")?;
    stream.set_read_timeout(Some(ANSWER_LIMIT)).context("set a timeout")?;
    Ok(stream)
}

/// Warms up, writes for the given time, then waits with `finish` until the receiver has read
/// everything.
///
/// The bytes that the warm-up left in the socket buffers drain within the measurement: some 5 MB,
/// far below a thousandth of a second's traffic.
pub(super) fn measure<S: Write>(
    stream: S,
    write_bytes: usize,
    timing: Timing,
    finish: impl FnOnce(S) -> Result<(), PeerError>,
) -> Result<Bulk, PeerError> {
    if write_bytes == 0 {
        return Err(PeerError::Usage("a TCP write of 0 bytes is not possible".to_owned()));
    }
    let memory = vec![0x5A; WORKING_SET_BYTES.max(write_bytes)];
    let mut writer = Writer { stream, memory, write_bytes, next: 0 };
    writer.write_for(timing.warm_up)?;
    let (start, cpu) = (Instant::now(), sys::thread_cpu());
    let payload_bytes = writer.write_for(timing.duration)?;
    finish(writer.stream)?;
    let (elapsed, sender_cpu) = (start.elapsed(), sys::thread_cpu() - cpu);
    Ok(Bulk { payload_bytes, elapsed, sender_cpu, lost_bytes: 0 })
}

/// A writer that writes its working set over and over.
struct Writer<S> {
    stream: S,
    memory: Vec<u8>,
    write_bytes: usize,
    /// Offset of the next write; `next + write_bytes` never exceeds the end of `memory`.
    next: usize,
}

impl<S: Write> Writer<S> {
    fn write_for(&mut self, duration: Duration) -> Result<u64, PeerError> {
        let start = Instant::now();
        let mut written = 0;
        while start.elapsed() < duration && !interrupt::is_requested() {
            let chunk = &self.memory[self.next..self.next + self.write_bytes];
            self.stream.write_all(chunk).context("write to the TCP receiver")?;
            written += self.write_bytes as u64;
            self.next += self.write_bytes;
            if self.next + self.write_bytes > self.memory.len() {
                self.next = 0;
            }
        }
        Ok(written)
    }
}

/// Ends the stream and waits for the byte that confirms its end.
fn finish(mut stream: TcpStream) -> Result<(), PeerError> {
    stream.shutdown(Shutdown::Write).context("end the TCP stream")?;
    stream.read_exact(&mut [0]).context("wait for the TCP receiver's last byte")
}

/// Serves one sender.
///
/// # Errors
/// When a socket call fails, or the sender stays silent for ten seconds.
pub(crate) fn serve(bind: IpAddr, congestion: &str, out: &mut impl Write) -> Result<(), PeerError> {
    let mut stream = accept(bind, congestion, out)?;
    let report = drain(&mut stream)?;
    stream.shutdown(Shutdown::Write).context("close the TCP stream")?;
    report.write_to(out)
}

/// Announces the address, and waits for a sender.
pub(super) fn accept(
    bind: IpAddr,
    congestion: &str,
    out: &mut impl Write,
) -> Result<TcpStream, PeerError> {
    let address = SocketAddr::new(bind, 0);
    let listener = Socket::new(Domain::for_address(address), Type::STREAM, None)
        .context("make the TCP receiver")?;
    set_congestion(&listener, congestion)?;
    listener.bind(&address.into()).context("bind the TCP receiver")?;
    listener.listen(1).context("listen")?;
    // accept() obeys the receive timeout too.
    listener.set_read_timeout(Some(IDLE_LIMIT)).context("set a timeout")?;
    let local = listener.local_addr().context("ask for the address")?;
    announce(out, local.as_socket().expect("an IP socket has an IP address"))?;

    let (socket, _) = listener.accept().context("wait for a sender")?;
    set_congestion(&socket, congestion)?;
    socket.set_read_timeout(Some(IDLE_LIMIT)).context("set a timeout")?;
    Ok(socket.into())
}

/// Reads to the end of the stream, and confirms it with one byte.
pub(super) fn drain(stream: &mut (impl Read + Write)) -> Result<ServerReport, PeerError> {
    let mut memory = vec![0xA5; WORKING_SET_BYTES];
    let cpu = sys::process_cpu();
    let mut payload_bytes = 0;
    let mut next = 0;
    loop {
        let room = memory.len().min(next + READ_BYTES);
        let read = stream.read(&mut memory[next..room]).context("read from the TCP sender")?;
        if read == 0 {
            break;
        }
        payload_bytes += read as u64;
        next = (next + read) % memory.len();
    }
    stream.write_all(&[1]).context("confirm the end of the TCP stream")?;
    stream.flush().context("confirm the end of the TCP stream")?;
    Ok(ServerReport { payload_bytes, cpu_seconds: (sys::process_cpu() - cpu).as_secs_f64() })
}

/// A congestion control that every kernel allows to every user. Without a queue on the path it
/// performs equally.
const ALLOWED_TO_ALL: &str = "reno";

/// Returns the congestion control that this user may set: [`DEFAULT_CONGESTION`] if possible.
///
/// # Errors
/// Not even reno can be set.
pub(crate) fn allowed_congestion() -> Result<&'static str, PeerError> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).context("make a TCP socket")?;
    choose(|name| set_congestion(&socket, name))
}

fn choose(set: impl Fn(&'static str) -> Result<(), PeerError>) -> Result<&'static str, PeerError> {
    match set(DEFAULT_CONGESTION) {
        Ok(()) => Ok(DEFAULT_CONGESTION),
        Err(_) => set(ALLOWED_TO_ALL).map(|()| ALLOWED_TO_ALL),
    }
}

/// Explains why TCP was not measured with [`DEFAULT_CONGESTION`].
pub(crate) fn explain(congestion: &str) -> String {
    format!(
        "TCP is measured with {congestion}: this user may not set {DEFAULT_CONGESTION}, \
         which the sysctl \
         net.ipv4.tcp_allowed_congestion_control would allow"
    )
}

fn set_congestion(socket: &Socket, name: &str) -> Result<(), PeerError> {
    if name == SYSTEM_CONGESTION {
        return Ok(());
    }
    socket.set_tcp_congestion(name.as_bytes()).context("set TCP_CONGESTION")
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::net::Ipv4Addr;
    use std::thread;

    use super::*;

    #[test]
    fn reno_replaces_a_forbidden_cubic() {
        let refused = |_| Err(PeerError::Usage("not allowed".to_owned()));
        assert_eq!(choose(|_| Ok(())).unwrap(), "cubic");
        let only_reno = |name| if name == "reno" { Ok(()) } else { refused(name) };
        assert_eq!(choose(only_reno).unwrap(), "reno");
        assert!(choose(refused).is_err());
        assert!(["cubic", "reno"].contains(&allowed_congestion().unwrap()));
    }

    #[test]
    fn the_receiver_confirms_and_reports_every_byte() {
        let (output, mut out) = std::io::pipe().unwrap();
        let bind = IpAddr::V4(Ipv4Addr::LOCALHOST);
        // Every kernel allows reno to every user.
        let serving = thread::spawn(move || serve(bind, "reno", &mut out));
        let mut lines = BufReader::new(output).lines().map(Result::unwrap);
        let ready = lines.next().unwrap();
        let address = ready.strip_prefix("listening on ").unwrap().parse().unwrap();

        let timing = Timing { warm_up: Duration::ZERO, duration: Duration::from_millis(20) };
        let bulk = measure(connect(address, "reno").unwrap(), 64 << 10, timing, finish).unwrap();
        let report = lines.next().unwrap();
        let json = report.strip_prefix("report ").unwrap();
        let report: ServerReport = serde_json::from_str(json).unwrap();
        assert!(bulk.payload_bytes > 0);
        assert_eq!(report.payload_bytes, bulk.payload_bytes);
        serving.join().unwrap().unwrap();
    }
}

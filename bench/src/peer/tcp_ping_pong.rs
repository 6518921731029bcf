//! TCP ping-pong: one small message over one stream, spinning or sleeping in the kernel.

use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use super::error::{Context, PeerError};
use super::limits::{ANSWER_LIMIT, IDLE_LIMIT, WORKING_SET_BYTES};
use super::metrics::{Metrics, RoundTrips, ServerReport};
use super::options::{ClientOptions, Timing};
use super::process::announce;
use super::sys;

/// Plays with a server that the caller has started.
///
/// # Errors
/// A socket call fails, or the server does not answer.
pub(crate) fn play(options: &ClientOptions, timing: Timing) -> Result<Metrics, PeerError> {
    if !(1..=WORKING_SET_BYTES).contains(&options.bytes) {
        return Err(PeerError::Usage(format!("a ping of {} bytes is not possible", options.bytes)));
    }
    let mut end = End::connect(options.to, options.transport.blocking)?;
    let mut ping = vec![0x5A; options.bytes];
    end.play(timing.warm_up, &mut ping, &mut RoundTrips::new(ANSWER_LIMIT))?;
    let mut round_trips = RoundTrips::new(ANSWER_LIMIT);
    end.play(timing.duration, &mut ping, &mut round_trips)?;
    end.stream.shutdown(Shutdown::Write).context("end the TCP stream")?;
    Ok(round_trips.metrics())
}

/// Serves one client by echoing every piece at once.
///
/// # Errors
/// A socket call fails, or the client is silent for ten seconds.
pub(crate) fn serve(bind: IpAddr, blocking: bool, out: &mut impl Write) -> Result<(), PeerError> {
    let listener = TcpListener::bind((bind, 0)).context("bind the TCP echo")?;
    announce(out, listener.local_addr().context("ask for the address")?)?;
    let (stream, _) = listener.accept().context("wait for a pinger")?;
    let mut end = End::new(stream, blocking, IDLE_LIMIT)?;
    let mut bytes = vec![0; WORKING_SET_BYTES];
    let cpu = sys::process_cpu();
    let mut payload_bytes = 0;
    loop {
        let read = end.read(&mut bytes)?;
        if read == 0 {
            break;
        }
        end.stream.write_all(&bytes[..read]).context("echo")?;
        payload_bytes += read as u64;
    }
    let cpu_seconds = (sys::process_cpu() - cpu).as_secs_f64();
    ServerReport { payload_bytes, cpu_seconds }.write_to(out)
}

/// One end of the stream.
struct End {
    stream: TcpStream,
    blocking: bool,
    /// Time for which the other end may be silent.
    limit: Duration,
}

impl End {
    fn connect(to: SocketAddr, blocking: bool) -> Result<Self, PeerError> {
        let stream =
            TcpStream::connect_timeout(&to, ANSWER_LIMIT).context("connect to the echo")?;
        Self::new(stream, blocking, ANSWER_LIMIT)
    }

    fn new(stream: TcpStream, blocking: bool, limit: Duration) -> Result<Self, PeerError> {
        stream.set_nodelay(true).context("set TCP_NODELAY")?;
        stream.set_read_timeout(Some(limit)).context("set a timeout")?;
        Ok(Self { stream, blocking, limit })
    }

    fn play(
        &mut self,
        duration: Duration,
        ping: &mut [u8],
        round_trips: &mut RoundTrips,
    ) -> Result<(), PeerError> {
        let begin = Instant::now();
        while begin.elapsed() < duration {
            let start = Instant::now();
            self.stream.write_all(ping).context("send a ping")?;
            let mut have = 0;
            while have < ping.len() {
                match self.read(&mut ping[have..])? {
                    0 => return Err(PeerError::Process("ended the stream early".to_owned())),
                    read => have += read,
                }
            }
            round_trips.record(start.elapsed());
        }
        Ok(())
    }

    /// Reads at least one byte. Returns 0 if the other end has ended the stream.
    fn read(&mut self, bytes: &mut [u8]) -> Result<usize, PeerError> {
        if self.blocking {
            return self.stream.read(bytes).context("read a message");
        }
        let read = sys::spin(&self.stream, bytes, Instant::now() + self.limit);
        let late = PeerError::Timeout { what: "message", after: self.limit };
        read.context("read a message")?.ok_or(late)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::net::Ipv4Addr;
    use std::thread;

    use super::super::metrics::ONE_WAY_P50;
    use super::super::options::PeerKind;
    use super::*;

    #[test]
    fn every_message_comes_back_spinning_and_sleeping() {
        for blocking in [false, true] {
            let (output, mut out) = std::io::pipe().unwrap();
            let serving =
                thread::spawn(move || serve(Ipv4Addr::LOCALHOST.into(), blocking, &mut out));
            let mut lines = BufReader::new(output).lines().map(Result::unwrap);
            let ready = lines.next().unwrap();
            let to = ready.strip_prefix("listening on ").unwrap().parse().unwrap();
            let mut options = ClientOptions::new(PeerKind::TcpPingPong, to, 0.02);
            (options.bytes, options.transport.blocking) = (8, blocking);
            let timing = Timing { warm_up: Duration::ZERO, duration: Duration::from_millis(20) };
            assert!(play(&options, timing).unwrap()[ONE_WAY_P50] > 0.1);
            assert!(lines.next().unwrap().starts_with("report "));
            serving.join().unwrap().unwrap();
        }
    }
}

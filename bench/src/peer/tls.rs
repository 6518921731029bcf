//! TLS 1.3 over one TCP stream, through rustls: the usual protection of a TCP connection.

use std::io::{self, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};

use quinn::rustls::pki_types::ServerName;
use quinn::rustls::{ClientConnection, ServerConnection, StreamOwned};

use super::error::{Context, PeerError};
use super::metrics::Metrics;
use super::options::{ClientOptions, ServeOptions, Timing};
use super::tcp;
use super::tls_config::{self, broken};

/// Bytes of one read from the kernel. rustls itself reads 4 KiB at a time.
const READ_BYTES: usize = 256 << 10;

/// A TCP stream with large reads.
struct Buffered(BufReader<TcpStream>);

impl Buffered {
    fn new(stream: TcpStream) -> Self {
        Buffered(BufReader::with_capacity(READ_BYTES, stream))
    }

    /// Ends the sending direction.
    fn close(&self) -> Result<(), PeerError> {
        self.0.get_ref().shutdown(Shutdown::Write).context("end the TCP stream")
    }
}

impl Read for Buffered {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.0.read(bytes)
    }
}

impl Write for Buffered {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.get_ref().write(bytes)
    }

    fn write_vectored(&mut self, pieces: &[io::IoSlice<'_>]) -> io::Result<usize> {
        self.0.get_ref().write_vectored(pieces)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.get_ref().flush()
    }
}

/// Sends to a receiver that the caller has started.
///
/// # Errors
/// A socket call fails, or the receiver does not answer or has another certificate.
pub(crate) fn send(options: &ClientOptions, timing: Timing) -> Result<Metrics, PeerError> {
    let config = tls_config::client(options.transport.certificate.as_deref())?;
    let name = ServerName::try_from(tls_config::NAME).map_err(broken)?;
    let connection = ClientConnection::new(config, name).map_err(broken)?;
    let stream = tcp::connect(options.to, &options.transport.congestion)?;
    let stream = StreamOwned::new(connection, Buffered::new(stream));
    Ok(tcp::measure(stream, options.bytes, timing, finish)?.sender_metrics())
}

/// Ends the stream and waits for the byte that confirms its end.
fn finish(mut stream: StreamOwned<ClientConnection, Buffered>) -> Result<(), PeerError> {
    stream.conn.send_close_notify();
    stream.flush().context("end the TLS stream")?;
    stream.sock.close()?;
    stream.read_exact(&mut [0]).context("wait for the TLS receiver's last byte")
}

/// Serves one sender.
///
/// # Errors
/// A socket call fails, or the sender is silent for ten seconds.
pub(crate) fn serve(options: &ServeOptions, out: &mut impl Write) -> Result<(), PeerError> {
    let config = tls_config::server(options.transport.certificate.as_deref())?;
    let connection = ServerConnection::new(config).map_err(broken)?;
    let stream = tcp::accept(options.bind, &options.transport.congestion, out)?;
    let mut stream = StreamOwned::new(connection, Buffered::new(stream));
    let report = tcp::drain(&mut stream)?;
    stream.sock.close()?;
    report.write_to(out)
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::net::Ipv4Addr;
    use std::thread;
    use std::time::Duration;

    use super::super::metrics::{GOODPUT, ServerReport};
    use super::super::options::{PeerKind, SYSTEM_CONGESTION};
    use super::*;

    #[test]
    fn every_byte_arrives_at_whose_certificate_it_is() {
        let folder = crate::scratch::Scratch::make().expect("a folder");
        let file = folder.path().join("certificate");
        let (output, mut out) = std::io::pipe().expect("a pipe");
        let mut serve_options = ServeOptions::new(PeerKind::Tls, Ipv4Addr::LOCALHOST.into());
        serve_options.transport.certificate = Some(file.clone());
        serve_options.transport.congestion = SYSTEM_CONGESTION.to_owned();
        let serving = thread::spawn(move || serve(&serve_options, &mut out));
        let mut lines = BufReader::new(output).lines().map(Result::unwrap);
        let ready = lines.next().expect("a line");
        let to = ready.strip_prefix("listening on ").expect("ready").parse().expect("an address");
        let mut options = ClientOptions::new(PeerKind::Tls, to, 0.05);
        options.transport.certificate = Some(file);
        options.transport.congestion = SYSTEM_CONGESTION.to_owned();
        let timing = Timing { warm_up: Duration::ZERO, duration: Duration::from_millis(50) };
        assert!(send(&options, timing).expect("a run")[GOODPUT] > 0.0);
        let report = lines.next().expect("a report");
        let json = report.strip_prefix("report ").expect("a report");
        let report: ServerReport = serde_json::from_str(json).expect("its figures");
        assert!(report.payload_bytes > 0 && report.payload_bytes.is_multiple_of(64 << 10));
        serving.join().expect("no panic").expect("served");
    }
}

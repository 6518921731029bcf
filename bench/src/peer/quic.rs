//! QUIC through quinn: one stream of one connection, encrypted and authenticated as always in QUIC.
//!
//! Both ends have windows as large as Braid's, and packets of the full MTU from the beginning.

use std::fmt::Display;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::rustls::Tls13CipherSuite;
use quinn::rustls::crypto::aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256;
use quinn::rustls::quic::Suite;
use quinn::{
    ClientConfig, Endpoint, EndpointConfig, MtuDiscoveryConfig, RecvStream, SendStream,
    ServerConfig, TokioRuntime, TransportConfig, VarInt,
};

use super::error::{Context, PeerError};
use super::limits::{ANSWER_LIMIT, IDLE_LIMIT, WORKING_SET_BYTES};
use super::metrics::{Bulk, Metrics, RoundTrips, ServerReport};
use super::options::{ClientOptions, ServeOptions, Timing, TransportOptions};
use super::process::announce;
use super::{sys, tls_config};

/// Maximum bytes in flight.
const WINDOW: u32 = 8 << 20;

/// Sends to a receiver that the caller has started.
///
/// # Errors
/// The connection cannot be made, or breaks.
pub(crate) fn send(options: &ClientOptions, timing: Timing) -> Result<Metrics, PeerError> {
    runtime()?.block_on(async {
        let (endpoint, mut writer, mut reader) = open(options).await?;
        let memory = vec![0x5A; WORKING_SET_BYTES.max(options.bytes)];
        let slots = memory.len() / options.bytes.max(1);
        let mut sent: usize = 0;
        let mut write_for = async |writer: &mut SendStream, duration: Duration| {
            let (start, before) = (Instant::now(), sent);
            while start.elapsed() < duration {
                let at = sent % slots * options.bytes;
                writer.write_all(&memory[at..at + options.bytes]).await.map_err(broken)?;
                sent += 1;
            }
            Ok::<_, PeerError>((sent - before) as u64 * options.bytes as u64)
        };
        write_for(&mut writer, timing.warm_up).await?;
        let (start, cpu) = (Instant::now(), sys::thread_cpu());
        let payload_bytes = write_for(&mut writer, timing.duration).await?;
        writer.finish().map_err(broken)?;
        // The byte that confirms the end of the stream.
        reader.read_exact(&mut [0]).await.map_err(broken)?;
        let (elapsed, sender_cpu) = (start.elapsed(), sys::thread_cpu() - cpu);
        close(&endpoint).await;
        Ok(Bulk { payload_bytes, elapsed, sender_cpu, lost_bytes: 0 }.sender_metrics())
    })
}

/// Plays with an echo that the caller has started.
///
/// # Errors
/// As [`send`].
pub(crate) fn play(options: &ClientOptions, timing: Timing) -> Result<Metrics, PeerError> {
    runtime()?.block_on(async {
        let (endpoint, mut writer, mut reader) = open(options).await?;
        let mut ping = vec![0x5A; options.bytes];
        let mut play_for = async |duration: Duration| {
            let mut round_trips = RoundTrips::new(ANSWER_LIMIT);
            let begin = Instant::now();
            while begin.elapsed() < duration {
                let start = Instant::now();
                writer.write_all(&ping).await.map_err(broken)?;
                reader.read_exact(&mut ping).await.map_err(broken)?;
                round_trips.record(start.elapsed());
            }
            Ok::<_, PeerError>(round_trips)
        };
        play_for(timing.warm_up).await?;
        let round_trips = play_for(timing.duration).await?;
        close(&endpoint).await;
        Ok(round_trips.metrics())
    })
}

/// Serves one client: reads to the end and confirms with one byte, or echoes everything.
///
/// # Errors
/// A socket or a file cannot be made, or the client is silent for ten seconds.
pub(crate) fn serve(
    options: &ServeOptions,
    echo: bool,
    out: &mut impl Write,
) -> Result<(), PeerError> {
    let config = server_config(&options.transport)?;
    runtime()?.block_on(async {
        let endpoint = endpoint(options.bind, Some(config), options.transport.payload)?;
        announce(out, endpoint.local_addr().context("ask for the address")?)?;
        let waiting = tokio::time::timeout(IDLE_LIMIT, endpoint.accept()).await;
        let incoming = waiting.ok().flatten();
        let incoming = incoming.ok_or(PeerError::Timeout { what: "client", after: IDLE_LIMIT })?;
        let connection = incoming.await.map_err(broken)?;
        let (writer, reader) = connection.accept_bi().await.map_err(broken)?;
        let report =
            if echo { echo_back(writer, reader).await } else { take(writer, reader).await };
        connection.closed().await;
        report.write_to(out)
    })
}

/// Reads to the end of the stream.
async fn take(mut writer: SendStream, mut reader: RecvStream) -> ServerReport {
    let mut memory = vec![0xA5; WORKING_SET_BYTES];
    let cpu = sys::process_cpu();
    let (mut payload_bytes, mut next) = (0, 0);
    while let Ok(Some(read)) = reader.read(&mut memory[next..]).await {
        payload_bytes += read as u64;
        next = (next + read) % memory.len();
    }
    // A client that has ended needs no confirmation.
    let _ = writer.write_all(&[1]).await;
    let _ = writer.finish();
    ServerReport { payload_bytes, cpu_seconds: (sys::process_cpu() - cpu).as_secs_f64() }
}

/// Echoes all bytes until the client ends the stream.
async fn echo_back(mut writer: SendStream, mut reader: RecvStream) -> ServerReport {
    let mut memory = vec![0; 1 << 20];
    let cpu = sys::process_cpu();
    let mut payload_bytes = 0;
    while let Ok(Some(read)) = reader.read(&mut memory).await {
        if writer.write_all(&memory[..read]).await.is_err() {
            break;
        }
        payload_bytes += read as u64;
    }
    ServerReport { payload_bytes, cpu_seconds: (sys::process_cpu() - cpu).as_secs_f64() }
}

async fn open(options: &ClientOptions) -> Result<(Endpoint, SendStream, RecvStream), PeerError> {
    let any: IpAddr = Ipv4Addr::UNSPECIFIED.into();
    let endpoint = endpoint(any, None, options.transport.payload)?;
    let config = client_config(&options.transport)?;
    let connecting = endpoint.connect_with(config, options.to, tls_config::NAME).map_err(broken)?;
    let connection = connecting.await.map_err(broken)?;
    let (writer, reader) = connection.open_bi().await.map_err(broken)?;
    Ok((endpoint, writer, reader))
}

async fn close(endpoint: &Endpoint) {
    endpoint.close(VarInt::from_u32(0), b"done");
    endpoint.wait_idle().await;
}

fn runtime() -> Result<tokio::runtime::Runtime, PeerError> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().context("make a runtime")
}

/// Creates an endpoint; `payload`: bytes of a UDP datagram.
fn endpoint(
    bind: IpAddr,
    server: Option<ServerConfig>,
    payload: usize,
) -> Result<Endpoint, PeerError> {
    let socket = UdpSocket::bind(SocketAddr::new(bind, 0)).context("bind the QUIC socket")?;
    sys::enlarge_receive_buffer(&socket).context("enlarge the receive buffer")?;
    let mut config = EndpointConfig::default();
    config.max_udp_payload_size(datagram(payload)?).map_err(broken)?;
    Endpoint::new(config, server, socket, Arc::new(TokioRuntime)).context("make a QUIC endpoint")
}

fn transport(payload: usize) -> Result<Arc<TransportConfig>, PeerError> {
    let mut config = TransportConfig::default();
    config.stream_receive_window(VarInt::from_u32(WINDOW)).receive_window(VarInt::from_u32(WINDOW));
    config.send_window(WINDOW.into()).initial_mtu(datagram(payload)?);
    let mut discovery = MtuDiscoveryConfig::default();
    discovery.upper_bound(datagram(payload)?);
    config.mtu_discovery_config(Some(discovery));
    Ok(Arc::new(config))
}

fn datagram(payload: usize) -> Result<u16, PeerError> {
    let fits = u16::try_from(payload).ok().filter(|bytes| *bytes >= 1200);
    fits.ok_or_else(|| PeerError::Usage(format!("a QUIC datagram cannot have {payload} bytes")))
}

fn server_config(options: &TransportOptions) -> Result<ServerConfig, PeerError> {
    let tls = tls_config::server(options.certificate.as_deref())?;
    let tls = QuicServerConfig::with_initial(tls, initial_suite()).map_err(broken)?;
    let mut config = ServerConfig::with_crypto(Arc::new(tls));
    config.transport_config(transport(options.payload)?);
    Ok(config)
}

fn client_config(options: &TransportOptions) -> Result<ClientConfig, PeerError> {
    let tls = tls_config::client(options.certificate.as_deref())?;
    let tls = QuicClientConfig::with_initial(tls, initial_suite()).map_err(broken)?;
    let mut config = ClientConfig::new(Arc::new(tls));
    config.transport_config(transport(options.payload)?);
    Ok(config)
}

/// Returns the cipher suite of the first packets, whose key everybody can compute (RFC 9001,
/// section 5.2).
fn initial_suite() -> Suite {
    let suite = TLS13_AES_128_GCM_SHA256.tls13().and_then(Tls13CipherSuite::quic_suite);
    suite.expect("it is a suite of TLS 1.3, and QUIC has it")
}

fn broken(why: impl Display) -> PeerError {
    PeerError::Quic(why.to_string())
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::thread;

    use super::super::metrics::{GOODPUT, ONE_WAY_P50};
    use super::super::options::PeerKind;
    use super::*;

    #[test]
    fn bytes_arrive_and_come_back() {
        for echo in [false, true] {
            let folder = crate::scratch::Scratch::make().expect("a folder");
            let file = folder.path().join("certificate");
            let (output, mut out) = std::io::pipe().expect("a pipe");
            let mut serve_options = ServeOptions::new(PeerKind::Quic, Ipv4Addr::LOCALHOST.into());
            serve_options.transport.certificate = Some(file.clone());
            serve_options.transport.payload = 1400;
            let serving = thread::spawn(move || serve(&serve_options, echo, &mut out));
            let mut lines = BufReader::new(output).lines().map(Result::unwrap);
            let ready = lines.next().expect("a line");
            let to =
                ready.strip_prefix("listening on ").expect("ready").parse().expect("an address");
            let mut options = ClientOptions::new(PeerKind::Quic, to, 0.05);
            options.transport.certificate = Some(file);
            options.transport.payload = 1400;
            options.bytes = 100;
            let timing = Timing { warm_up: Duration::ZERO, duration: Duration::from_millis(50) };
            let (metrics, name) = match echo {
                false => (send(&options, timing), GOODPUT),
                true => (play(&options, timing), ONE_WAY_P50),
            };
            assert!(metrics.expect("a run")[name] > 0.0);
            assert!(lines.next().expect("a report").starts_with("report "));
            serving.join().expect("no panic").expect("served");
        }
    }
}

//! Raw peers: the kernel's own transports on this machine, between two processes.
//!
//! Each peer has a *sender* and a *server*. The sender measures in the bench process or, between
//! hosts, in a process of its own ([`client`]). The server is this executable started again with
//! the hidden `peer-server` subcommand:
//!
//! ```text
//! bench process                      other process
//!   Peer::spawn ------------------->  serve: binds, prints "listening on ADDR"
//!   run: warm-up, measure  <======>   receives, acknowledges
//!   Peer::report  <-----------------  prints "report {json}" (its CPU time), exits
//! ```
//!
//! No process is pinned to a core. On an idle machine, pinning changes no figure by more than the
//! noise. On a busy one it costs every peer, because a pinned process cannot make way for others.
//! The price: while others keep a core busy, two spinning processes may share one, and a ping-pong
//! then takes milliseconds.

pub(crate) mod client;
pub(crate) mod error;
pub(crate) mod limits;
pub(crate) mod machine;
pub(crate) mod metrics;
pub(crate) mod options;
pub(crate) mod ping_pong;
pub(crate) mod process;
#[cfg(feature = "quic")]
pub(crate) mod quic;
pub(crate) mod tcp;
pub(crate) mod tcp_ping_pong;
#[cfg(feature = "quic")]
pub(crate) mod tls;
#[cfg(feature = "quic")]
mod tls_config;
pub(crate) mod udp_frame;
pub(crate) mod udp_gso;
pub(crate) mod udp_gso_server;

mod sys;

use std::io;

pub(crate) use metrics::Metrics;

use error::PeerError;
use options::{PeerKind, ServeOptions, TransportOptions};

/// Serves one sender as the other process, and reports on stdout.
///
/// # Errors
/// A socket cannot be set up, or the sender is silent for ten seconds.
pub(crate) fn serve(options: &ServeOptions) -> Result<(), PeerError> {
    let out = &mut io::stdout();
    let TransportOptions { payload, congestion, blocking, .. } = &options.transport;
    match options.kind {
        PeerKind::UdpGso => udp_gso_server::serve(options.bind, *payload, out),
        PeerKind::Tcp => tcp::serve(options.bind, congestion, out),
        PeerKind::UdpPingPong => ping_pong::serve(options.bind, *blocking, out),
        PeerKind::TcpPingPong => tcp_ping_pong::serve(options.bind, *blocking, out),
        #[cfg(feature = "quic")]
        PeerKind::Tls => tls::serve(options, out),
        #[cfg(feature = "quic")]
        PeerKind::Quic => quic::serve(options, false, out),
        #[cfg(feature = "quic")]
        PeerKind::QuicPingPong => quic::serve(options, true, out),
        #[cfg(not(feature = "quic"))]
        PeerKind::Tls | PeerKind::Quic | PeerKind::QuicPingPong => Err(without_quic()),
    }
}

/// Returns the error for a peer that this program was built without.
#[cfg(not(feature = "quic"))]
fn without_quic() -> PeerError {
    PeerError::Usage(
        "QUIC and TLS are not built in: cargo build -p braid-bench --features quic".to_owned(),
    )
}

/// Returns the CPU time of this process so far: all threads, user and system.
pub(crate) fn cpu_seconds() -> f64 {
    sys::process_cpu().as_secs_f64()
}

/// Returns the cores that this program may run on; empty if the kernel does not report them.
pub(crate) fn allowed_cores() -> Vec<usize> {
    sys::allowed_cores().unwrap_or_default()
}

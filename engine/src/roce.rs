//! Connections that speak plain RoCEv2: the peer's end, and the reasons against one.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use braid_cc::ReactionPointConfig;
use braid_transport::{AddrPair, QpState, RoceMtu};
use braid_wire::{DEFAULT_PORT, QpId};

use crate::link::remedy;
use crate::roce_port::{PortTaken, Unshared};

/// The peer's end of a connection that speaks plain RoCEv2 (the RC service of IBTA), for
/// [`crate::QueuePair::connect_roce`]. The applications of the two ends exchange these values by
/// other means, as programs for verbs do.
///
/// ```
/// use std::time::Duration;
///
/// use braid::{QpId, RoceRemote};
///
/// // The peer's GID is ::ffff:192.0.2.7; its queue pair 0x11 sends from PSN 1000 on.
/// let mut remote = RoceRemote::new("192.0.2.7".parse().unwrap(), QpId::new(0x11));
/// (remote.recv_psn, remote.send_psn) = (1000, 77);
/// remote.ack_timeout = Duration::from_millis(10);
/// assert_eq!(remote.port, 4791);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct RoceRemote {
    /// The peer's GID. That of an IPv4 address is `::ffff:a.b.c.d`.
    pub gid: IpAddr,
    /// The UDP port at which the peer receives. Only another Braid engine can receive elsewhere.
    /// Default: 4791.
    pub port: u16,
    /// The peer's queue pair number.
    pub qp: QpId,
    /// The number by which the peer knows this end's queue pair. `None`, the default: its
    /// [`crate::QueuePair::number`]. Programs that number queue pairs themselves set it.
    pub own_qp: Option<QpId>,
    /// The first PSN that the peer sends (`rq_psn` of verbs; 24 bits). Default: 0.
    pub recv_psn: u32,
    /// The first PSN that this end sends (`sq_psn` of verbs; 24 bits). Default: 0.
    pub send_psn: u32,
    /// The path MTU, the same at both ends. `None`, the default: the largest that the route to the
    /// peer carries, see [`crate::Engine::roce_port`].
    pub mtu: Option<RoceMtu>,
    /// READs and atomics that this end may have outstanding at the peer: at most the peer's
    /// `max_dest_rd_atomic`. Default: 16.
    pub max_rd_atomic: u8,
    /// Time without an acknowledgement after which packets are sent again. Default: 67 ms, which is
    /// `timeout` 14 of verbs.
    pub ack_timeout: Duration,
    /// Number of retries without progress after which the queue pair fails with
    /// [`crate::Status::RetryExceeded`]. Default: 7.
    pub retry_count: u8,
    /// Number of packets that may be in flight. It halves with each loss and recovers slowly.
    /// Default: 128, as many as rxe has.
    pub window: u16,
    /// DCQCN: congestion notification packets (CNPs) of the peer reduce the rate, and requests and
    /// responses to READs leave ECN-capable, as those of RNICs do. `None`, the default: only the
    /// window limits this end, and its packets leave without ECN, as those of rxe do.
    ///
    /// ```
    /// # use braid::{QpId, RoceRemote};
    /// # let mut remote = RoceRemote::new("192.0.2.7".parse().unwrap(), QpId::new(0x11));
    /// remote.dcqcn = Some("25G".parse().unwrap());
    /// ```
    pub dcqcn: Option<ReactionPointConfig>,
}

impl RoceRemote {
    /// A peer with this GID and queue pair number. The other fields have their defaults.
    pub fn new(gid: IpAddr, qp: QpId) -> Self {
        RoceRemote {
            gid,
            port: DEFAULT_PORT,
            qp,
            own_qp: None,
            recv_psn: 0,
            send_psn: 0,
            mtu: None,
            max_rd_atomic: 16,
            ack_timeout: Duration::from_nanos(4096 << 14),
            retry_count: 7,
            window: 128,
            dcqcn: None,
        }
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        SocketAddr::new(self.gid.to_canonical(), self.port)
    }
}

/// This engine's end of RoCEv2 connections to a peer, from [`crate::Engine::roce_port`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct RocePort {
    /// The GID, from which packets to the peer leave.
    pub gid: IpAddr,
    /// The UDP port at which this engine receives.
    pub port: u16,
    /// The largest path MTU that the route to the peer carries.
    pub mtu: RoceMtu,
}

/// The address of a peer (an address handle in verbs terms), from [`crate::RoceUd::address`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RoceUdAddress {
    pub(crate) pair: AddrPair,
    /// The sending address.
    pub(crate) from: SocketAddr,
    pub(crate) mtu: RoceMtu,
}

impl RoceUdAddress {
    /// The largest path MTU that the route to the peer carries: the bytes of the longest datagram.
    pub fn mtu(&self) -> RoceMtu {
        self.mtu
    }

    /// Sets the differentiated services code point of datagrams, in the upper six bits.
    pub fn set_traffic_class(&mut self, class: u8) {
        self.pair.local.traffic_class = class;
    }
}

/// The reason why there is no RoCEv2 connection.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RoceError {
    /// The datapath does not carry RoCEv2.
    #[error("the datapath over {protocol} carries no RoCEv2; create the engine with `udp`")]
    Datapath {
        /// The protocol of the datapath.
        protocol: &'static str,
    },
    /// The engine has a key, and RoCEv2 has no protection.
    #[error(
        "this engine protects its connections, and RoCEv2 can neither encrypt nor authenticate; \
         create another engine without a key for it"
    )]
    Keyed,
    /// The port that the peer sends to cannot be opened.
    #[error("cannot receive RoCEv2 packets at {local}: {source}; {}", port_remedy(*local, source))]
    Port {
        /// The receiving address.
        local: SocketAddr,
        /// The error of the system.
        source: io::Error,
    },
    /// A peer would know two queue pairs by one number.
    #[error(
        "another queue pair of this engine, or of a process that shares its port, has the number \
         {number} already; take another one"
    )]
    Number {
        /// The number.
        number: QpId,
    },
    /// A queue pair for datagrams has a number of management datagrams.
    #[error(
        "queue pair number {number} is reserved for management datagrams; take one from 2 to \
         16777215"
    )]
    Reserved {
        /// The number.
        number: QpId,
    },
    /// The completion queues or receives of a queue pair for datagrams belong to another engine.
    #[error(
        "a queue pair for datagrams, its completion queues and its receives must be of one engine; \
         create all of them with the same one"
    )]
    OtherEngine,
    /// Work requests were posted before the parameters of sending changed.
    #[error(
        "queue pair {qp} has no RoCEv2 connection, or work requests were posted to it; set the \
         parameters of sending before"
    )]
    Sending {
        /// The number of the queue pair.
        qp: QpId,
    },
    /// The GID belongs to the other IP version.
    #[error(
        "the peer's GID {gid} belongs to another IP version than {local}, where this engine \
         receives; take the peer's GID of that version (`show_gids`, `rdma link`), or create the \
         engine with `bind` to `[::]`"
    )]
    Family {
        /// The peer's GID.
        gid: IpAddr,
        /// The receiving address.
        local: SocketAddr,
    },
    /// The engine receives at every address, and does not know which one a datagram was sent to.
    #[error(
        "datagrams over RoCEv2 need an engine that is bound to one address, and this one receives \
         at {local}; create it with `bind` to an address of an interface"
    )]
    Wildcard {
        /// The receiving address.
        local: SocketAddr,
    },
    /// The route does not carry packets of the path MTU.
    #[error(
        "a path MTU of {mtu} needs datagrams of {needed} bytes, and the route to {gid} carries \
         {route}; take a smaller path MTU at both ends, or raise the MTU of the interface to {raised}",
        needed = datagram(mtu), raised = datagram(mtu) + 48
    )]
    PathMtu {
        /// The peer's GID.
        gid: IpAddr,
        /// The path MTU.
        mtu: RoceMtu,
        /// Bytes of the largest datagram that the route carries.
        route: usize,
    },
    /// The peer cannot be reached.
    #[error("{gid} cannot be reached: {source}; {}", remedy(source))]
    Unreachable {
        /// The peer's GID.
        gid: IpAddr,
        /// The error of the system.
        source: io::Error,
    },
    /// The queue pair's state does not allow connecting.
    #[error(
        "queue pair {qp} is in state {state}; only one in RESET or INIT can be connected, so move \
         it to RESET first"
    )]
    State {
        /// The number of the queue pair.
        qp: QpId,
        /// The state of the queue pair.
        state: QpState,
    },
}

/// The remedy if the UDP port of RoCEv2 cannot be opened.
fn port_remedy(local: SocketAddr, source: &io::Error) -> &'static str {
    match PortTaken::in_error(source) {
        Some(Unshared::OtherUser) => {
            "only processes of one user share the port: run this program as that user, or take \
             another address of this host, or a network namespace of your own"
        }
        Some(Unshared::Refused) => {
            "that process does not share it with this one: use one version of Braid for both, or \
             see whether that process is stopped"
        }
        None if source.kind() == io::ErrorKind::AddrInUse && local.ip().is_unspecified() => {
            "another process has the port at one of this host's addresses (`ss -uanp`): create the \
             engine with `bind` to that address to share it, end that process, or unload the \
             kernel's Soft-RoCE (`rmmod rdma_rxe`)"
        }
        None if source.kind() == io::ErrorKind::AddrInUse => {
            "a program that does not share the port has it (`ss -uanp`), or the kernel for \
             Soft-RoCE: end that program, start a Braid server at another port (`-p`), unload the \
             module (`rmmod rdma_rxe`), or run in a network namespace of your own"
        }
        None => remedy(source),
    }
}

/// Bytes of the largest datagram with this path MTU.
fn datagram(mtu: &RoceMtu) -> usize {
    mtu.bytes() as usize + RoceMtu::OVERHEAD
}

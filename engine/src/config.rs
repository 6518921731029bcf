//! The configuration of an engine. The defaults suit most programs.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use braid_lb::{LbPolicy, PathSet, RailScheme};
use braid_wire::Crc;

use crate::datapaths::Datapath;
use crate::destination_groups::DestinationGroups;
use crate::link::faults::Faults;
use crate::observe::MetricsEndpoint;
use crate::random;
use crate::security::Security;

/// The threads that run the protocol.
///
/// ```
/// use std::time::Duration;
///
/// use braid::{Engine, EngineConfig, Progress, QpOptions, QpState, Status, wr};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let bind = "127.0.0.1:0".parse()?;
/// let progress = Progress::Application;
/// let engine = Engine::new(EngineConfig { bind, progress, ..Default::default() })?;
/// let (pd, cq) = (engine.alloc_pd(), engine.create_cq(16)?);
/// let qp = pd.create_qp(QpOptions::new(&cq, &cq))?;
/// qp.modify(QpState::Init)?;
/// qp.post_recv(wr::recv(1, []))?;
/// qp.modify(QpState::Error)?;
/// // No engine thread runs the protocol: the wait itself flushes the work request.
/// let done = cq.wait(Duration::from_secs(5))?;
/// assert_eq!((done[0].wr_id, done[0].status), (1, Status::Flushed));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// This number of engine threads, 1 to 64. Each thread has a receiving port of its own. Queue
    /// pairs are assigned to the threads in turn.
    Threads(usize),
    /// The application's threads, in [`crate::Engine::progress`] and in every poll and wait. This
    /// has the lowest latency. While the application does something else, a thread of the engine
    /// takes over. It waits for 4 ms, or for 80 times [`EngineConfig::spin`] if that is longer. It
    /// takes over at once if the application asked for a notification
    /// ([`crate::CompletionQueue::notify`]). In a forked child no thread takes over.
    Application,
}

impl Default for Progress {
    fn default() -> Self {
        Progress::Threads(1)
    }
}

/// The configuration of an engine.
///
/// Later versions may add fields, so end the literal with `..EngineConfig::default()`.
///
/// ```
/// use std::time::Duration;
///
/// use braid::{Engine, EngineConfig, LbPolicy, Progress};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let engine = Engine::new(EngineConfig {
///     bind: "127.0.0.1:0".parse()?,
///     progress: Progress::Application, // polls and waits of this thread run the protocol
///     paths: 64,
///     lb: LbPolicy::REPS,
///     peer_timeout: Duration::from_secs(10),
///     ..EngineConfig::default()
/// })?;
/// assert_ne!(engine.local_addr().port(), 0);
/// # Ok(())
/// # }
/// ```
///
/// The error for an invalid value names the field, the value and the valid range:
///
/// ```
/// # use braid::{Engine, EngineConfig};
/// let error = Engine::new(EngineConfig { paths: 5000, ..EngineConfig::default() }).unwrap_err();
/// assert!(error.to_string().contains("5000"), "{error}");
/// ```
#[derive(Clone)]
pub struct EngineConfig {
    /// The datapath that carries the packets. Default: UDP.
    pub datapath: Datapath,
    /// The receiving address of the first worker. Port 0: any free port. An engine that others
    /// connect to needs a known port, such as [`crate::DEFAULT_PORT`]. With a wildcard address, the
    /// engine answers each peer from the address that the peer called. With the address of a
    /// network interface, it sends through that interface. Default: `[::]:0`, which includes IPv4.
    pub bind: SocketAddr,
    /// A second receiving address, of the other IP version. Each worker has the same port at both.
    /// A connection uses the address of its peer's IP version. Set it if `bind` is a single
    /// address; `[::]` accepts both versions alone. Requires UDP sockets or TCP connections, one
    /// rail and no `discover`. Default: `None`.
    pub second_addr: Option<IpAddr>,
    /// The addresses of this host's further rails, at most 7, in the same order as the peers'
    /// rails. Rail 0 has the address of `bind`, and connections are set up over it. A connection
    /// uses the rails that both ends have: the first with the first, and so on. Over verbs, an
    /// address selects the RDMA device that has it as a RoCE v2 GID. Default: none.
    pub rails: Vec<IpAddr>,
    /// The policy that picks a rail for each 64 KiB of a stream. Default:
    /// [`RailScheme::LEAST_LOADED`].
    pub rail_policy: RailScheme,
    /// The threads that run the protocol. Default: one thread of the engine.
    pub progress: Progress,
    /// The number of paths to a peer on each rail, 1 to 4096. Over UDP each path is a source port.
    /// Default: 16 ([`PathSet::DEFAULT_PATHS`]).
    pub paths: usize,
    /// The policy that picks a path for each quantum. Default: [`LbPolicy::ADAPTIVE`].
    pub lb: LbPolicy,
    /// The path quantum: the largest number of packets that a queue pair sends on one path before
    /// it picks the next path, 1 to 4096. Fewer packets keep the queues of switches shorter, and
    /// cost more calls: the packets of a call take one path. More packets than a call takes are
    /// rounded down to whole calls. A quantum is also at most an eighth of the congestion window,
    /// or a 32nd with policies that judge paths by their packets. Default: `None`, one call, of no
    /// more bytes than 48 full packets have; over TCP with a key four calls; one packet with
    /// [`LbPolicy::DR`].
    pub quantum: Option<u32>,
    /// The groups of peers that share a path set, such as the hosts behind one ToR switch. Not with
    /// `discover`, which finds the routes to single hosts. Default: no groups, a path set for each
    /// host.
    pub destination_groups: DestinationGroups,
    /// Whether the engine discovers which paths take different routes to a peer, and uses equally
    /// many paths of each route. Use it in networks whose switches hash (ECMP), where source ports
    /// fall unevenly on the links. The discovery is repeated every few seconds. Requires UDP. If no
    /// probe is answered, the engine uses plain source ports and logs that. See
    /// [`crate::discover`]. Default: `false`.
    pub discover: bool,
    /// The largest payload of a packet in bytes. The limits of the peer and of the link apply as
    /// well. Default: `None`, which is 16384 bytes. Over verbs `None` means 4 KiB of NIC packets,
    /// headers included, and 16 KiB for payloads that the NIC places.
    pub mtu: Option<u16>,
    /// Whether payloads carry a CRC. One end that asks for it is enough. Default: `None`, which is
    /// [`Crc::On`], except over TCP, which has a checksum of its own.
    pub crc: Option<Crc>,
    /// The peers that may connect, and the protection of packets. `None`: every peer may connect,
    /// and packets are not protected. A keyed connection ignores `crc`. Not available over verbs.
    /// Default: `None`.
    pub security: Option<Security>,
    /// The size of a worker's socket receive buffer in bytes. The system may grant less
    /// (`net.core.rmem_max`). Peers never have more in flight towards this engine than was granted.
    /// Default: 8 MiB.
    pub receive_buffer: usize,
    /// Faults injected below the protocol, for tests and experiments. Default: none.
    pub faults: Faults,
    /// The seed of the path policy's random choices. Secrets never depend on it. Senders with the
    /// same seed choose the same paths at once. Default: a random number.
    pub seed: u64,
    /// Time for which an idle worker polls before it sleeps. Default: 50 us.
    pub spin: Duration,
    /// The interval of the PINGs to a peer, which its queue pairs send in turn. 1 ms to a day.
    /// Default: 500 ms.
    pub ping_interval: Duration,
    /// Silence after which a peer is considered dead. This is also the default of
    /// [`crate::QpConfig::retry_timeout`]. A slow peer gets more time: if its recent answers took
    /// longer than a third of this time, the limit is three times as long as they took. The limit
    /// is at most four times this time. At most a day. Default: 3 s.
    pub peer_timeout: Duration,
    /// Time that a closing engine waits for its peers to confirm the end of its queue pairs. A peer
    /// that never learns of the end reports work as failed that did arrive. At most a day. Default:
    /// 500 ms.
    pub linger: Duration,
    /// The address at which other processes can read the metrics. Default: the value of
    /// `BRAID_METRICS`; none if that is not set.
    pub metrics: MetricsEndpoint,
}

impl Default for EngineConfig {
    fn default() -> Self {
        EngineConfig {
            datapath: Datapath::default(),
            bind: SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), 0),
            second_addr: None,
            rails: Vec::new(),
            rail_policy: RailScheme::default(),
            progress: Progress::default(),
            paths: PathSet::DEFAULT_PATHS,
            quantum: None,
            destination_groups: DestinationGroups::default(),
            lb: LbPolicy::default(),
            discover: false,
            mtu: None,
            crc: None,
            security: None,
            receive_buffer: 8 << 20,
            faults: Faults::default(),
            seed: random::number(),
            spin: Duration::from_micros(50),
            ping_interval: Duration::from_millis(500),
            peer_timeout: Duration::from_secs(3),
            linger: Duration::from_millis(500),
            metrics: MetricsEndpoint::default(),
        }
    }
}

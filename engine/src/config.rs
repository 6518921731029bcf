//! What an engine can be told, with the defaults that suit most programs.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use braid_lb::{LbPolicy, RailScheme};
use braid_wire::Crc;

use crate::datapaths::Datapath;
use crate::link::faults::Faults;
use crate::observe::MetricsEndpoint;
use crate::security::Security;

/// Who runs the protocol.
///
/// ```
/// use std::time::Duration;
///
/// use braid::{Engine, EngineConfig, Progress, QpOptions, QpState, Status, wr};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let bind = "127.0.0.1:0".parse()?;
/// let engine = Engine::new(EngineConfig { bind, progress: Progress::Application, ..Default::default() })?;
/// let (pd, cq) = (engine.alloc_pd(), engine.create_cq(16)?);
/// let qp = pd.create_qp(QpOptions::new(&cq, &cq))?;
/// qp.modify(QpState::Init)?;
/// qp.post_recv(wr::recv(1, []))?;
/// qp.modify(QpState::Error)?;
/// // No thread runs but this one: the work request ends in here.
/// let done = cq.wait(Duration::from_secs(5))?;
/// assert_eq!((done[0].wr_id, done[0].status), (1, Status::Flushed));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// So many threads of the engine, 1 to 64. Each has a receiving port of its own; queue pairs
    /// are dealt out to them in turn.
    Threads(usize),
    /// The application: inside [`crate::Engine::progress`] and wherever it polls or waits. The
    /// lowest latency. While it does something else, a thread of the engine does that in its place:
    /// within 4 ms (or 80 times [`EngineConfig::spin`], where that is longer), at once where it has
    /// asked for a notification ([`crate::CompletionQueue::notify`]). In a child that was forked
    /// nobody does.
    Application,
}

impl Default for Progress {
    fn default() -> Self {
        Progress::Threads(1)
    }
}

/// How an engine behaves.
///
/// More fields may come: write `..EngineConfig::default()`.
///
/// ```
/// use std::time::Duration;
///
/// use braid::{Engine, EngineConfig, LbPolicy, Progress};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let engine = Engine::new(EngineConfig {
///     bind: "127.0.0.1:0".parse()?,
///     progress: Progress::Application, // this thread drives it, wherever it polls or waits
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
/// What cannot be is refused with the field, its value and what it may be:
///
/// ```
/// # use braid::{Engine, EngineConfig};
/// let error = Engine::new(EngineConfig { paths: 5000, ..EngineConfig::default() }).unwrap_err();
/// assert!(error.to_string().contains("5000"), "{error}");
/// ```
#[derive(Clone)]
pub struct EngineConfig {
    /// What carries the packets. Default: UDP.
    pub datapath: Datapath,
    /// The receiving address of the first worker; port 0: any free one. Those that others connect
    /// to want a port that is known: [`crate::DEFAULT_PORT`]. Bound to all addresses of the host,
    /// it answers each peer from the one that the peer has called; bound to one of a network
    /// interface, it sends by that interface. Default: `[::]:0`, which takes IPv4 as well.
    pub bind: SocketAddr,
    /// An address of the IP version that `bind`'s is not of, at which the engine receives as well,
    /// the first worker at `bind`'s port: a connection goes by the one that is of its peer's
    /// version. For two addresses of their own; `[::]` takes both versions by itself. Over UDP
    /// sockets, on one rail and without `discover`. Default: none.
    pub second_addr: Option<IpAddr>,
    /// The addresses of this host's further rails, in the order in which the peers name theirs, at
    /// most 7: rail 0 is `bind`'s. A connection uses as many rails as both its ends have, the first
    /// with the first and so on; connections are set up over rail 0. Over verbs each is the address
    /// of an RDMA device's port, as a GID of RoCE v2, and that device is the rail's. Default: none.
    pub rails: Vec<IpAddr>,
    /// How a rail is picked for each 64 KiB of a stream. Default: [`RailScheme::LEAST_LOADED`].
    pub rail_policy: RailScheme,
    /// Who runs the protocol. Default: one thread of the engine.
    pub progress: Progress,
    /// How many paths there are to a peer on each rail, 1 to 4096; over UDP each is a source port.
    /// Default: 16.
    pub paths: usize,
    /// How a path is picked. Default: [`LbPolicy::ADAPTIVE`].
    pub lb: LbPolicy,
    /// Whether the engine finds out which of the paths take different ways to a peer, and uses
    /// equally many of each way. For networks whose switches hash (ECMP): there, source ports fall
    /// unevenly on the links. Ways are learnt anew every few seconds. Over UDP only; where no probe
    /// is answered, plain source ports are used, and the log says so. See [`crate::discover`].
    /// Default: `false`.
    pub discover: bool,
    /// Most payload bytes of a packet; the peer's and the link's limits apply as well. Default:
    /// `None`, which is 16384; over verbs what fits 4 KiB of the NIC's packets, headers included,
    /// and 16 KiB where the NIC places it.
    pub mtu: Option<u16>,
    /// Whether payloads carry a check. On if either side wants it. Default: [`Crc::On`].
    pub crc: Crc,
    /// Who may connect, and how packets are protected. `None`: anybody, and not at all. A keyed
    /// connection has no use for `crc`. Not over verbs. Default: `None`.
    pub security: Option<Security>,
    /// Bytes of arrived datagrams that a worker's socket shall hold. The system may grant less
    /// (`net.core.rmem_max`); no more than what is granted is ever in flight towards this engine.
    /// Default: 8 MiB.
    pub receive_buffer: usize,
    /// What goes wrong below the protocol, for tests and experiments. Default: nothing.
    pub faults: Faults,
    /// Where the random choices of the path policy start. Secrets never depend on it. Default: 1.
    pub seed: u64,
    /// How long a worker looks for work before it sleeps. Default: 50 us.
    pub spin: Duration,
    /// How often a peer is asked for a sign of life, by its queue pairs in turn. 1 ms to a day.
    /// Default: 500 ms.
    pub ping_interval: Duration,
    /// Silence after which it is taken for dead. Unless told otherwise, a queue pair waits as long
    /// for any progress ([`crate::QpConfig::retry_timeout`]). Where its answers have taken longer
    /// than a third of this of late, three times as long as they took, and at most four times as
    /// long as this. At most a day. Default: 3 s.
    pub peer_timeout: Duration,
    /// How long an engine that ends waits at most for its peers to confirm that its queue pairs
    /// have ended. What the peers have sent, and what has arrived here, they count as failed if
    /// they never hear of that. At most a day. Default: 500 ms.
    pub linger: Duration,
    /// Where its metrics can be read from outside the process. Default: where `BRAID_METRICS` says,
    /// or else nowhere.
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
            paths: 16,
            lb: LbPolicy::default(),
            discover: false,
            mtu: None,
            crc: Crc::default(),
            security: None,
            receive_buffer: 8 << 20,
            faults: Faults::default(),
            seed: 1,
            spin: Duration::from_micros(50),
            ping_interval: Duration::from_millis(500),
            peer_timeout: Duration::from_secs(3),
            linger: Duration::from_millis(500),
            metrics: MetricsEndpoint::default(),
        }
    }
}

/// Most workers of one engine.
pub(crate) const MAX_WORKERS: usize = 64;

//! The configuration of an engine.

use std::ffi::{c_char, c_int};
use std::path::Path;
use std::ptr;

use braid::{
    Crc, Datapath, DatapathKind, DatapathOptions, DestinationGroups, EngineConfig, Faults, Medium,
    Progress, Security, VerbsOptions, VerbsService,
};

use crate::arguments::{flag, micros, narrow, optional_text, timer};
use crate::boundary::enter;
use crate::failure::Failure;
use crate::growing::{self, Growing};
use crate::handle::{Child, find};
use crate::{address, braid_fabric};

/// The default UDP port of Braid.
pub const BRAID_DEFAULT_PORT: u16 = 4791;
const _: () = assert!(BRAID_DEFAULT_PORT == braid::DEFAULT_PORT);

/// Maximum number of paths to a peer.
pub const BRAID_MAX_PATHS: usize = 4096;
const _: () = assert!(BRAID_MAX_PATHS == braid::MAX_PATHS);

/// The NIC's unreliable connections carry the paths. Braid retransmits lost packets on any good
/// path.
pub const BRAID_SERVICE_UC: c_int = 0;
/// The NIC's reliable connections carry the paths, for NICs without unreliable ones.
pub const BRAID_SERVICE_RC: c_int = 1;

/// The configuration of an engine, initialised by braid_engine_config_init.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct braid_engine_config {
    /// Set by braid_engine_config_init.
    pub size: usize,
    /// The receiving address, such as `10.0.0.1:4791` or `[::]:0`. Port 0 selects a free port;
    /// servers need a fixed one. NULL: `[::]:0`.
    pub bind: *const c_char,
    /// The network inside this process that carries the packets. NULL: UDP, or `device`.
    pub fabric: *mut braid_fabric,
    /// Number of engine threads, 1 to 64, each with its own receiving port. 0: the application
    /// makes progress in braid_engine_progress and whenever it polls or waits. If it does not for 4
    /// ms, a thread of the engine does.
    pub threads: u32,
    /// Number of paths to a peer, 1 to BRAID_MAX_PATHS. Over UDP, each is a source port.
    pub paths: u32,
    /// Name of the path policy, such as "pro" or "ecmp". NULL: the default.
    pub lb: *const c_char,
    /// 1: the engine discovers the routes of the paths and uses equally many paths per route, for
    /// networks that hash flows. 0: all paths are treated alike.
    pub discover: c_int,
    /// 1: payloads carry a CRC. It is on if either side requests it. 0: this side does not request
    /// it. -1, the default: as the datapath chooses, which is 0 over TCP and 1 otherwise.
    pub crc: c_int,
    /// Maximum payload of a packet in bytes, up to 65535. 0: adapted to the path, at most 16384.
    pub mtu: u32,
    /// Size of the receive buffer of each socket in bytes. The system may grant less.
    pub receive_buffer: usize,
    /// Seed of the path policy's random choices. Senders with the same seed choose the same paths
    /// at once. Default: a random number.
    pub seed: u64,
    /// Time for which an idle thread polls before it sleeps, in microseconds. This and the
    /// following timers are at most one day.
    pub spin_us: u64,
    /// Interval of the liveness checks of a peer, in which its queue pairs take turns, in
    /// microseconds. At least 1000.
    pub ping_interval_us: u64,
    /// Time without packets after which a peer is considered dead, in microseconds.
    pub peer_timeout_us: u64,
    /// Maximum time for which a closed engine waits for its peers to confirm the end of its queue
    /// pairs, in microseconds.
    pub linger_us: u64,
    /// Injected fault for tests: probability, from 0 to 1, that a datagram is dropped.
    pub fault_drop: f64,
    /// Injected fault: probability that a datagram is reordered.
    pub fault_reorder: f64,
    /// Injected fault: probability that a datagram is duplicated.
    pub fault_duplicate: f64,
    /// Injected fault: probability that bits of a datagram are flipped.
    pub fault_corrupt: f64,
    /// Injected fault: delay of every datagram in microseconds, at most ten seconds.
    pub fault_delay_us: u64,
    /// Seed of the injected faults.
    pub fault_seed: u64,
    /// The RDMA device that carries the packets, Soft-RoCE included, by its name in `rdma link`.
    /// NULL: none. Connections are still set up over UDP. The NIC checks payloads, regardless of
    /// `crc`, and no faults can be injected.
    pub device: *const c_char,
    /// Port of the device, from 1.
    pub device_port: u32,
    /// Transport service of the paths: BRAID_SERVICE_UC or BRAID_SERVICE_RC.
    pub service: c_int,
    /// Index into the port's GID table. -1: the entry of `bind`, otherwise the first RoCE v2 entry
    /// with an IPv4 address, otherwise the first RoCE v2 entry.
    pub gid_index: i64,
    /// Addresses of this host's further rails, separated by commas, such as `10.1.0.1,10.2.0.1`; at
    /// most seven. `bind` is the address of the first rail and must then be specific. A connection
    /// uses as many rails as both ends have, paired in order. NULL: one rail. With `device`, which
    /// is the first rail's, each address must belong to an RDMA device as well.
    pub rails: *const c_char,
    /// Name of the rail policy: "least-loaded", "round-robin", "hash", "lpt" or "min-rtt". NULL:
    /// the default.
    pub rail_policy: *const c_char,
    /// Access to the engine's metrics from outside the process. `off`: none. `local`: by
    /// `braid-perf top PID` of the same user. An address such as `127.0.0.1:9464`: also by HTTP for
    /// Prometheus. NULL: the value of the environment variable BRAID_METRICS, otherwise `off`.
    pub metrics: *const c_char,
    /// A key file of `braid-perf keygen` that only its owner can read. Connections are then keyed,
    /// over UDP. A private key requires `allowed_keys`. NULL: no keys.
    pub key_file: *const c_char,
    /// Use of the key. "off": none. "auth": packets are authenticated. "encrypt": packets are
    /// encrypted as well. "required": a listener also rejects peers without a key. An optional list
    /// restricts the ciphers: "required:aes-128-gcm,chacha20-poly1305". NULL: "required" with
    /// `key_file`, otherwise "off".
    pub security: *const c_char,
    /// The file of the public keys of allowed peers, which only its owner can change. Its lines are
    /// those of `braid-perf keygen --static`: `braid-public DIGITS [until YYYY-MM-DD] [# NAME]`.
    /// Requires a `key_file` with a private key. NULL: none.
    pub allowed_keys: *const c_char,
    /// 1: datagrams of up to 1200 bytes use AF_XDP, which bypasses the network stack and is faster;
    /// others use UDP sockets. `bind` must then be the IPv4 address of an Ethernet interface, and
    /// `threads` 1 or 0. Requires root, or CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF. One engine per
    /// interface can use it. Not with `fabric` or `device`. 0: UDP sockets only.
    pub xdp: c_int,
    /// The datapath by name: "udp", "tcp", "auto" (TCP where UDP does not pass), "xdp", "verbs"
    /// (needs `device`) or "mem" (needs `fabric`).
    /// NULL: the one that `fabric`, `device` or `xdp` selects, otherwise "udp". New programs name
    /// "xdp" here instead of setting `xdp`.
    pub datapath: *const c_char,
    /// Path quantum: maximum number of packets that a queue pair sends on one path before it picks
    /// the next path, 1 to 4096. 0: one call, at most 48 full packets; one packet with `dr`.
    pub quantum: u32,
    /// A file of the peers that share paths, such as the hosts behind one ToR switch. It has a line
    /// for each group: `NAME PREFIX ...`, such as `tor1 10.0.1.0/24 10.0.9.17`. Not with
    /// `discover`. NULL: no groups.
    pub destination_groups: *const c_char,
}

// SAFETY: `repr(C)`, `size` first, numbers and raw pointers only.
unsafe impl Growing for braid_engine_config {
    const NAME: &'static str = "braid_engine_config";
}

impl Default for braid_engine_config {
    fn default() -> Self {
        let config = EngineConfig::default();
        braid_engine_config {
            size: size_of::<Self>(),
            bind: ptr::null(),
            fabric: ptr::null_mut(),
            threads: match config.progress {
                Progress::Threads(count) => count as u32,
                Progress::Application => 0,
            },
            paths: config.paths as u32,
            lb: ptr::null(),
            discover: config.discover.into(),
            crc: config.crc.map_or(-1, |crc| (crc == Crc::On).into()),
            mtu: config.mtu.map_or(0, u32::from),
            receive_buffer: config.receive_buffer,
            seed: config.seed,
            spin_us: micros(config.spin),
            ping_interval_us: micros(config.ping_interval),
            peer_timeout_us: micros(config.peer_timeout),
            linger_us: micros(config.linger),
            fault_drop: config.faults.drop,
            fault_reorder: config.faults.reorder,
            fault_duplicate: config.faults.duplicate,
            fault_corrupt: config.faults.corrupt,
            fault_delay_us: micros(config.faults.delay),
            fault_seed: config.faults.seed,
            device: ptr::null(),
            device_port: 1,
            service: BRAID_SERVICE_UC,
            gid_index: -1,
            rails: ptr::null(),
            rail_policy: ptr::null(),
            metrics: ptr::null(),
            key_file: ptr::null(),
            security: ptr::null(),
            allowed_keys: ptr::null(),
            xdp: 0,
            datapath: ptr::null(),
            quantum: config.quantum.unwrap_or(0),
            destination_groups: ptr::null(),
        }
    }
}

/// The configuration of an engine and its registration with the fabric.
pub(crate) type Checked = (EngineConfig, Option<Child>);

impl braid_engine_config {
    /// # Safety
    /// The caller's promise, for the struct and its strings.
    pub(crate) unsafe fn read(config: *const Self) -> Result<Checked, Failure> {
        // SAFETY: as the caller promises.
        let config = unsafe { growing::read(config, Self::default()) }?;
        let mut checked = config.numbers()?;
        // SAFETY: the strings are covered by the promise.
        let groups = unsafe { optional_text(config.destination_groups, "destination_groups")? };
        // SAFETY: the same.
        let [bind, lb, device, rails, rail_policy, metrics, key, security, allowed, datapath] = unsafe {
            [
                optional_text(config.bind, "bind")?,
                optional_text(config.lb, "lb")?,
                optional_text(config.device, "device")?,
                optional_text(config.rails, "rails")?,
                optional_text(config.rail_policy, "rail_policy")?,
                optional_text(config.metrics, "metrics")?,
                optional_text(config.key_file, "key_file")?,
                optional_text(config.security, "security")?,
                optional_text(config.allowed_keys, "allowed_keys")?,
                optional_text(config.datapath, "datapath")?,
            ]
        };
        if let Some(bind) = bind {
            checked.bind = address::parse(&bind)?;
        }
        if let Some(lb) = lb {
            checked.lb = lb.parse()?;
        }
        if let Some(rails) = rails {
            checked.rails = rails.split(',').map(address::parse_ip).collect::<Result<_, _>>()?;
        }
        if let Some(policy) = rail_policy {
            checked.rail_policy = policy.parse()?;
        }
        if let Some(file) = groups {
            checked.destination_groups = DestinationGroups::read(file)?;
        }
        if let Some(metrics) = metrics {
            checked.metrics = metrics.parse()?;
        }
        let mode = security.map(|mode| mode.parse()).transpose()?;
        let [key, allowed] = [&key, &allowed].map(|file| file.as_deref().map(Path::new));
        checked.security = Security::from_files(key, allowed, mode)?;
        let mut child = None;
        let mut options = DatapathOptions::default();
        let implied = match (config.fabric.is_null(), device, flag(config.xdp, "xdp")?) {
            (true, None, false) => None,
            (true, None, true) => Some(Datapath::Xdp.kind()),
            (true, Some(device), false) => {
                let device = config.verbs(device)?;
                options.device = Some(device.clone());
                Some(Datapath::Verbs(device).kind())
            }
            (false, None, false) => {
                let fabric = find(config.fabric)?;
                options.fabric = Some(fabric.fabric.clone());
                child = Some(fabric.children.add());
                Some(Datapath::Mem(fabric.fabric.clone()).kind())
            }
            _ => return Err(Failure::TwoDatapaths),
        };
        let kind = selected(datapath.map(|name| name.parse()).transpose()?, implied)?;
        checked.datapath = kind.build(&options)?;
        Ok((checked, child))
    }

    /// Names all fields, so that a new setting of the engine cannot be forgotten here.
    fn numbers(&self) -> Result<EngineConfig, Failure> {
        let EngineConfig { datapath, bind, rails, rail_policy, lb, metrics, .. } =
            EngineConfig::default();
        Ok(EngineConfig {
            datapath,
            bind,
            // For the drop-in libibverbs. C programs that need both IP versions bind to `[::]`.
            second_addr: None,
            rails,
            rail_policy,
            lb,
            metrics,
            progress: match self.threads {
                0 => Progress::Application,
                count => Progress::Threads(count as usize),
            },
            paths: self.paths as usize,
            // Read elsewhere.
            destination_groups: DestinationGroups::default(),
            quantum: Some(self.quantum).filter(|packets| *packets != 0),
            discover: flag(self.discover, "discover")?,
            // The strings are read elsewhere.
            security: None,
            crc: match self.crc {
                -1 => None,
                crc => Some(if flag(crc, "crc")? { Crc::On } else { Crc::Off }),
            },
            mtu: match narrow(self.mtu.into(), u16::MAX.into(), "mtu")? {
                0 => None,
                mtu => Some(mtu),
            },
            receive_buffer: narrow(self.receive_buffer as u64, 1 << 30, "receive_buffer")?,
            seed: self.seed,
            spin: timer(self.spin_us, "spin_us")?,
            ping_interval: timer(self.ping_interval_us, "ping_interval_us")?,
            peer_timeout: timer(self.peer_timeout_us, "peer_timeout_us")?,
            linger: timer(self.linger_us, "linger_us")?,
            faults: Faults {
                drop: self.fault_drop,
                reorder: self.fault_reorder,
                duplicate: self.fault_duplicate,
                corrupt: self.fault_corrupt,
                delay: timer(self.fault_delay_us, "fault_delay_us")?,
                seed: self.fault_seed,
            },
        })
    }

    fn verbs(&self, device: String) -> Result<VerbsOptions, Failure> {
        let gid_index = match self.gid_index {
            -1 => None,
            value => Some(u32::try_from(value).map_err(|_| Failure::Constant {
                name: "gid_index",
                value,
                accepted: "-1, or an entry of the table from 0",
            })?),
        };
        let service = match self.service {
            BRAID_SERVICE_UC => VerbsService::Uc,
            BRAID_SERVICE_RC => VerbsService::Rc,
            other => {
                let (name, accepted) = ("service", "BRAID_SERVICE_UC and BRAID_SERVICE_RC");
                return Err(Failure::Constant { name, value: other.into(), accepted });
            }
        };
        let port = narrow(self.device_port.into(), u8::MAX.into(), "device_port")?;
        Ok(VerbsOptions { device, port, gid_index, service })
    }
}

/// The datapath that `datapath` names, or else the one that `fabric`, `device` or `xdp` implies.
fn selected(
    named: Option<DatapathKind>,
    implied: Option<DatapathKind>,
) -> Result<DatapathKind, Failure> {
    match (named, implied) {
        (None, None) => Ok(Datapath::default().kind()),
        (Some(kind), None) | (None, Some(kind)) => Ok(kind),
        // `device` and `fabric` are options of every datapath of their medium.
        (Some(named), Some(implied))
            if named == implied
                || named.medium() == implied.medium() && implied.medium() != Medium::Network =>
        {
            Ok(named)
        }
        (Some(named), Some(implied)) => Err(Failure::OtherDatapath { named, implied }),
    }
}

/// Fills `config` with the defaults, which suit most programs; `size` is
/// sizeof(braid_engine_config).
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_engine_config_init(
    config: *mut braid_engine_config,
    size: usize,
) -> c_int {
    // SAFETY: the caller's promise.
    enter(|| unsafe { growing::init(config, size, Default::default()) }.map(|()| 0))
}

//! What an engine can be told.

use std::ffi::{c_char, c_int};
use std::path::Path;
use std::ptr;

use braid::{
    Crc, Datapath, DatapathKind, DatapathOptions, EngineConfig, Faults, Medium, Progress, Security,
    VerbsOptions, VerbsService,
};

use crate::arguments::{flag, micros, narrow, optional_text, timer};
use crate::boundary::enter;
use crate::failure::Failure;
use crate::growing::{self, Growing};
use crate::handle::{Child, find};
use crate::{address, braid_fabric};

/// The UDP port of Braid, unless a program is told another.
pub const BRAID_DEFAULT_PORT: u16 = 4791;
const _: () = assert!(BRAID_DEFAULT_PORT == braid::DEFAULT_PORT);

/// Paths to a peer are fewer than this, or as many.
pub const BRAID_MAX_PATHS: usize = 4096;
const _: () = assert!(BRAID_MAX_PATHS == braid::MAX_PATHS);

/// The NIC's unreliable connections carry the paths: what is lost is resent by Braid, on whatever path
/// is good.
pub const BRAID_SERVICE_UC: c_int = 0;
/// Its reliable connections, for NICs that have no others.
pub const BRAID_SERVICE_RC: c_int = 1;

/// How an engine behaves. Filled by braid_engine_config_init.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct braid_engine_config {
    /// Set by braid_engine_config_init.
    pub size: usize,
    /// The receiving address, such as `10.0.0.1:4791` or `[::]:0`. Port 0: any free one; an engine
    /// that others connect to wants one that they know. NULL: `[::]:0`.
    pub bind: *const c_char,
    /// The network inside this process that carries the packets. NULL: UDP, or `device`.
    pub fabric: *mut braid_fabric,
    /// Threads of the engine, 1 to 64, each with a receiving port of its own. 0: the application
    /// makes progress, in braid_engine_progress and wherever it polls or waits; while it does something
    /// else, a thread of the engine does, within 4 ms.
    pub threads: u32,
    /// How many paths there are to a peer, 1 to BRAID_MAX_PATHS; over UDP each is a source port.
    pub paths: u32,
    /// The path policy by name, such as "pro" or "ecmp". NULL: the default.
    pub lb: *const c_char,
    /// 1: the engine finds out which paths take different ways, and uses equally many of each, for
    /// networks whose switches hash. 0: all paths alike.
    pub discover: c_int,
    /// 1: payloads carry a check. It is on if either side wants it.
    pub crc: c_int,
    /// Most payload bytes of a packet, up to 65535. 0: what suits the path, 16384 at most.
    pub mtu: u32,
    /// Bytes of arrived datagrams that each receiving socket shall hold. The system may grant less.
    pub receive_buffer: usize,
    /// Where the random choices of the path policy start.
    pub seed: u64,
    /// How long a thread looks for work before it sleeps, in microseconds. This and the timers below:
    /// a day at most.
    pub spin_us: u64,
    /// How often a peer is asked for a sign of life, by its queue pairs in turn, in microseconds; 1000 at least.
    pub ping_interval_us: u64,
    /// Silence after which it is taken for dead, in microseconds.
    pub peer_timeout_us: u64,
    /// How long an engine that is closed waits at most for its peers to confirm that its queue pairs have ended, in
    /// microseconds.
    pub linger_us: u64,
    /// Faults that are injected below the protocol, for tests: the probability, from 0 to 1, that a
    /// datagram is lost,
    pub fault_drop: f64,
    /// that it is overtaken by later ones,
    pub fault_reorder: f64,
    /// that it is sent twice,
    pub fault_duplicate: f64,
    /// that some of its bits are flipped.
    pub fault_corrupt: f64,
    /// Added to the way of every datagram, in microseconds, at most ten seconds.
    pub fault_delay_us: u64,
    /// Where the random numbers of the faults start.
    pub fault_seed: u64,
    /// The RDMA device that carries the packets, Soft-RoCE included, as `rdma link` names it. NULL: none.
    /// Connections are set up over UDP all the same. Its NIC checks payloads, whatever `crc` says, and
    /// no faults can be injected.
    pub device: *const c_char,
    /// Its port, from 1.
    pub device_port: u32,
    /// What carries the paths: BRAID_SERVICE_UC or BRAID_SERVICE_RC.
    pub service: c_int,
    /// The entry of the port's GID table that is its address. -1: the one of `bind`, or else the first
    /// of RoCE v2 that is an IPv4 address, or else the first of RoCE v2.
    pub gid_index: i64,
    /// The addresses of this host's further rails, with commas between them, such as `10.1.0.1,10.2.0.1`; at most seven. `bind` is
    /// the first rail's, and then has to be an address, too. A connection uses as many rails as both its ends have, the
    /// first with the first and so on. NULL: one rail. With `device`, which is the first rail's, each is the address of an RDMA
    /// device, too.
    pub rails: *const c_char,
    /// The rail policy by name: "least-loaded", "round-robin", "hash", "lpt" or "min-rtt". NULL: the default.
    pub rail_policy: *const c_char,
    /// Where the engine's metrics can be read from outside the process: `off`; `local`, by `braid-perf top PID` of the same user; an
    /// address such as `127.0.0.1:9464`, there by HTTP too, as Prometheus does. NULL: what the environment variable BRAID_METRICS says,
    /// or else `off`.
    pub metrics: *const c_char,
    /// A key file, made by `braid-perf keygen`, that nobody but its owner can read: connections are keyed, over UDP. With a
    /// private key, `allowed_keys` has to name something. NULL: they are not.
    pub key_file: *const c_char,
    /// What the key is for: "off", "auth" (packets are authenticated), "encrypt" (they are encrypted as well), "required" (and a
    /// listener turns away who has no key), behind it the ciphers that may be used if not all:
    /// "required:aes-128-gcm,chacha20-poly1305". NULL: "required" with `key_file`, or else "off".
    pub security: *const c_char,
    /// The file of the public keys of those that are connected to and taken connections of, which nobody but its owner can change:
    /// lines as `braid-perf keygen --static` prints them, `braid-public DIGITS [until YYYY-MM-DD] [# NAME]`. It goes with a
    /// `key_file` that holds a private key. NULL: none.
    pub allowed_keys: *const c_char,
    /// 1: datagrams of up to 1200 bytes go by AF_XDP, past the network stack, which takes less time, and the others by UDP sockets.
    /// `bind` is the IPv4 address of an Ethernet interface then, and `threads` is 1 or 0; it takes root, or CAP_NET_RAW,
    /// CAP_NET_ADMIN and CAP_BPF, and one engine has it on an interface. Not with `fabric` or `device`. 0: UDP sockets alone.
    pub xdp: c_int,
    /// The datapath by name: "udp", "xdp", "verbs" (needs `device`) or "mem" (needs `fabric`). NULL:
    /// the one that `fabric`, `device` or `xdp` selects, otherwise "udp". New programs name "xdp"
    /// here instead of setting `xdp`.
    pub datapath: *const c_char,
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
            crc: (config.crc == Crc::On).into(),
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
        }
    }
}

/// What an engine is made with, and its place among the users of its fabric.
pub(crate) type Checked = (EngineConfig, Option<Child>);

impl braid_engine_config {
    /// # Safety
    /// The caller's promise, for the struct and its strings.
    pub(crate) unsafe fn read(config: *const Self) -> Result<Checked, Failure> {
        // SAFETY: as the caller promises.
        let config = unsafe { growing::read(config, Self::default()) }?;
        let mut checked = config.numbers()?;
        // SAFETY: the strings are covered by the promise.
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

    /// All fields are named, so that one that is new to the engine is not forgotten here.
    fn numbers(&self) -> Result<EngineConfig, Failure> {
        let EngineConfig { datapath, bind, rails, rail_policy, lb, metrics, .. } =
            EngineConfig::default();
        Ok(EngineConfig {
            datapath,
            bind,
            // For the drop-in libibverbs. Programs in C that want both IP versions bind to `[::]`.
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
            discover: flag(self.discover, "discover")?,
            // Its strings are read elsewhere.
            security: None,
            crc: if flag(self.crc, "crc")? { Crc::On } else { Crc::Off },
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
                accepted: "-1, and the entries of the table from 0",
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

/// Fills `config` with the defaults, which suit most programs; `size` is sizeof(braid_engine_config).
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

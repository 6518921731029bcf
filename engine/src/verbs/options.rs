//! The options of the verbs datapath.

/// The service of the NIC that carries a queue pair's paths (IBTA vol. 1, 9.7 and 9.8).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum VerbsService {
    /// Unreliable connection. Braid sends lost packets again, on any good path.
    #[default]
    Uc,
    /// Reliable connection, for NICs without UC. The NIC sends lost packets again by itself.
    Rc,
}

/// An RDMA device and its options.
///
/// Later versions may add fields, so begin with [`VerbsOptions::new`].
///
/// ```
/// use braid::{Datapath, Engine, EngineConfig, VerbsOptions};
///
/// let datapath = Datapath::Verbs(VerbsOptions::new("rxe0"));
/// match Engine::new(EngineConfig { datapath, ..EngineConfig::default() }) {
///     Ok(engine) => println!("{:?}", engine.datapath_attributes()),
///     Err(error) => println!("{error}"), // says what is missing, and how to get it
/// }
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VerbsOptions {
    /// The name of the device, as `ibv_devices` or `rdma link` show it. It is the device of the
    /// first rail. The addresses in [`crate::EngineConfig::rails`] select those of further rails.
    pub device: String,
    /// The port of the device, from 1. Default: 1.
    pub port: u8,
    /// The entry of the port's GID table with the port's address. Default: `None`, the entry of the
    /// address that the engine is bound to, otherwise the first RoCE v2 entry with an IPv4 address,
    /// otherwise the first RoCE v2 entry.
    pub gid_index: Option<u32>,
    /// The service that carries the paths. Default: [`VerbsService::Uc`].
    pub service: VerbsService,
}

impl VerbsOptions {
    /// The first port of `device`, over unreliable connections.
    pub fn new(device: impl Into<String>) -> Self {
        let service = VerbsService::default();
        VerbsOptions { device: device.into(), port: 1, gid_index: None, service }
    }
}

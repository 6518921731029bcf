//! The table of datapaths, the only place that lists them. A datapath is a folder here and a row in
//! the table: Rust, C, NCCL, the drop-in libibverbs and `braid-perf` take their names from it.

mod auto;
mod factory;
mod mem;
mod tcp;
mod udp;
mod verbs;
mod xdp;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use self::factory::{Factory, Info};
use crate::datapath;
use crate::error::EngineError;
use crate::link::mem::MemFabric;
use crate::verbs::{Device, VerbsOptions};

pub(crate) use self::factory::{EnginePlan, Feature, Opening, RocePlace};
pub use self::factory::{Medium, Program};

/// Makes the variants of [`Datapath`] from the rows, and the calls to their factories. A variant's
/// payload is an option of [`DatapathOptions`], by which a row names it.
macro_rules! table {
    ($($(#[$attr:meta])+ $variant:ident $(($option:ident: $type:ty))? = $factory:ty;)+) => {
        /// The medium that carries the packets.
        #[derive(Clone, Default)]
        #[non_exhaustive]
        pub enum Datapath {
            $($(#[$attr])+ $variant $(($type))?,)+
        }

        static TABLE: &[Row] = &[$(Row {
            info: <$factory as Factory>::INFO,
            build: |_options| Some(Datapath::$variant $((_options.$option.clone()?))?),
        },)+];

        impl Datapath {
            fn info(&self) -> &'static Info {
                match self {
                    $(Datapath::$variant { .. } => &<$factory as Factory>::INFO,)+
                }
            }

            /// Opens the devices that the workers of an engine share, by rail. Datapaths without
            /// devices have none.
            pub(crate) fn prepare(
                &self,
                plan: &EnginePlan,
            ) -> Result<Vec<Arc<Device>>, EngineError> {
                match self {
                    $(Datapath::$variant $(($option))? => {
                        <$factory>::prepare(&($($option)?), plan)
                    })+
                }
            }

            /// Opens one rail of one worker.
            pub(crate) fn open(
                &self,
                opening: &Opening<'_>,
            ) -> Result<Box<dyn datapath::Datapath>, EngineError> {
                match self {
                    $(Datapath::$variant $(($option))? => {
                        <$factory>::open(&($($option)?), opening)
                    })+
                }
            }
        }
    };
}

table! {
    /// UDP sockets of this machine.
    #[default]
    Udp = udp::Udp;
    /// TCP connections, one for each path to a peer. They pass networks that drop UDP, and move
    /// bulk data with fewer processor cycles where the MTU is small. Both ends take this datapath.
    /// See docs/tcp.md.
    Tcp = tcp::Tcp;
    /// UDP for peers that it reaches, and TCP connections for others. Both receive at the same port
    /// number. A connection over TCP has the degradation
    /// [`crate::Degradation::DatapathUnavailable`], with the reason. The peer may use this,
    /// [`Datapath::Udp`] or [`Datapath::Tcp`]. See docs/tcp.md.
    Auto = auto::Auto;
    /// UDP sockets, and AF_XDP for datagrams of up to 1200 bytes. AF_XDP bypasses the network
    /// stack, its firewall and its packet captures, and takes less time. The datapath needs an
    /// Ethernet interface whose IPv4 address is [`crate::EngineConfig::bind`], and root or
    /// CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF. An interface serves one engine with one worker. The
    /// peer may use this or [`Datapath::Udp`]. See docs/xdp.md.
    Xdp = xdp::Xdp;
    /// A port of an RDMA device, Soft-RoCE included, and one more device for each further rail.
    /// Connections are set up over a UDP socket. The NIC checks the payloads (the ICRC of RoCEv2),
    /// so [`crate::EngineConfig::crc`] is ignored. See docs/verbs.md.
    Verbs(device: VerbsOptions) = verbs::Verbs;
    /// A network inside this process, for tests. Engines with clones of one fabric reach each
    /// other.
    Mem(fabric: MemFabric) = mem::Mem;
}

struct Row {
    info: Info,
    build: fn(&DatapathOptions) -> Option<Datapath>,
}

/// A datapath without its options: a row of the table.
///
/// ```
/// use braid::{Datapath, DatapathKind, DatapathOptions, Medium, VerbsOptions};
///
/// let names: Vec<_> = DatapathKind::all().map(DatapathKind::name).collect();
/// assert!(names.contains(&"udp"));
/// let kind: DatapathKind = "verbs".parse().unwrap();
/// assert_eq!(kind.medium(), Medium::Device);
/// let device = Some(VerbsOptions::new("rxe0"));
/// let built = kind.build(&DatapathOptions { device, ..Default::default() });
/// assert!(matches!(built, Ok(Datapath::Verbs(_))));
/// ```
#[derive(Clone, Copy)]
pub struct DatapathKind(&'static Row);

/// The options of all datapaths. Each datapath takes its own.
#[derive(Clone, Default)]
pub struct DatapathOptions {
    /// The RDMA device of [`Medium::Device`].
    pub device: Option<VerbsOptions>,
    /// The network of [`Medium::Process`].
    pub fabric: Option<MemFabric>,
}

/// A datapath cannot be built from a name and options.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DatapathError {
    /// The table has no datapath of this name.
    #[error("no datapath is called `{name}`; there is: {}", known())]
    Unknown {
        /// The name that was asked for.
        name: String,
    },
    /// The datapath runs over an RDMA device, and the options name none.
    #[error("the datapath `{name}` needs an RDMA device; name one (`rdma link` lists them)")]
    NoDevice {
        /// The name of the datapath.
        name: &'static str,
    },
    /// The datapath connects engines inside one process, and the options name no network.
    #[error("the datapath `{name}` stays inside one process; give its engines one fabric")]
    NoFabric {
        /// The name of the datapath.
        name: &'static str,
    },
}

impl DatapathKind {
    /// All datapaths, in the order of the table.
    pub fn all() -> impl Iterator<Item = DatapathKind> {
        TABLE.iter().map(DatapathKind)
    }

    /// The datapaths that `program` offers.
    pub fn offered_by(program: Program) -> impl Iterator<Item = DatapathKind> {
        Self::all().filter(move |kind| kind.0.info.programs.contains(&program))
    }

    /// The name that users type.
    pub fn name(self) -> &'static str {
        self.0.info.name
    }

    /// The name in the header of a measurement.
    pub fn label(self) -> &'static str {
        self.0.info.label
    }

    /// One line for the help of a program.
    pub fn summary(self) -> &'static str {
        self.0.info.summary
    }

    /// The medium that carries the packets.
    pub fn medium(self) -> Medium {
        self.0.info.medium
    }

    /// Builds the datapath with its options.
    ///
    /// # Errors
    /// The options lack the one that the datapath needs.
    pub fn build(self, options: &DatapathOptions) -> Result<Datapath, DatapathError> {
        let name = self.name();
        (self.0.build)(options).ok_or(match self.medium() {
            Medium::Process => DatapathError::NoFabric { name },
            Medium::Network | Medium::Device => DatapathError::NoDevice { name },
        })
    }
}

impl Datapath {
    /// The row of this datapath.
    pub fn kind(&self) -> DatapathKind {
        let name = self.info().name;
        DatapathKind::all().find(|kind| kind.name() == name).expect("the table has every variant")
    }

    /// The protocol of the packets, by carrier.
    pub(crate) fn protocols(&self) -> &'static [&'static str] {
        self.info().protocols
    }

    /// Whether queue pairs can speak plain RoCEv2 ([`crate::QueuePair::connect_roce`]).
    pub fn carries_roce(&self) -> bool {
        self.has(Feature::Roce)
    }

    /// Whether the datapath has an optional feature.
    pub(crate) fn has(&self, feature: Feature) -> bool {
        self.info().features.contains(&feature)
    }
}

fn known() -> String {
    DatapathKind::all().map(DatapathKind::name).collect::<Vec<_>>().join(", ")
}

impl FromStr for DatapathKind {
    type Err = DatapathError;

    fn from_str(name: &str) -> Result<Self, DatapathError> {
        let found = DatapathKind::all().find(|kind| kind.name() == name);
        found.ok_or_else(|| DatapathError::Unknown { name: name.to_owned() })
    }
}

impl fmt::Display for DatapathKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Debug for DatapathKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl PartialEq for DatapathKind {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for DatapathKind {}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_row_is_built_by_its_name() {
        let device = Some(VerbsOptions::new("rxe0"));
        let options = DatapathOptions { device, fabric: Some(MemFabric::new()) };
        for kind in DatapathKind::all() {
            let named: DatapathKind = kind.name().parse().unwrap();
            assert_eq!(named.build(&options).unwrap().kind(), kind);
        }
        let names: HashSet<_> = DatapathKind::all().map(DatapathKind::name).collect();
        assert_eq!(names.len(), TABLE.len(), "no name twice");
    }

    #[test]
    fn missing_options_and_unknown_names_are_refused() {
        let none = DatapathOptions::default();
        for kind in DatapathKind::all() {
            let is_built = kind.build(&none).is_ok();
            assert_eq!(is_built, kind.medium() == Medium::Network, "{kind}");
        }
        let error = "pigeon".parse::<DatapathKind>().unwrap_err().to_string();
        assert_eq!(error, format!("no datapath is called `pigeon`; there is: {}", known()));
    }

    #[test]
    fn each_program_offers_udp() {
        for program in [Program::Nccl, Program::DropIn] {
            let udp = Datapath::Udp.kind();
            assert!(DatapathKind::offered_by(program).any(|kind| kind == udp));
        }
    }
}

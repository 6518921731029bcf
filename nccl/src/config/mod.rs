//! The configuration of the plugin: a TOML file, named by `BRAID_CONFIG`, and `BRAID_*` variables,
//! which take precedence. Both have the same settings, [`settings::SETTINGS`].

mod nccl;
mod settings;
mod source;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use braid::{
    AllowList, CcConfig, Crc, DatapathKind, DestinationGroups, EngineConfig, Faults, KeyPurpose,
    LbPolicy, LossRecovery, RailScheme, SecretKey, Security, SecurityError, VerbsService,
};

use crate::interfaces::Pattern;

pub(crate) use nccl::{Family, NcclHints};
pub(crate) use settings::names;

/// An invalid setting.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigError {
    #[error(transparent)]
    Log(#[from] braid_log::FilterError),
    #[error("{setting} is `{value}`: {reason}")]
    Value { setting: String, value: String, reason: String },
    #[error("unknown setting `{name}` in {file}; available: {known}")]
    Unknown { name: String, file: String, known: String },
    #[error("BRAID_CONFIG is `{}`, which cannot be read: {source}", file.display())]
    Read { file: PathBuf, source: std::io::Error },
    #[error("BRAID_CONFIG is `{}`, which is not valid TOML: {source}", file.display())]
    Syntax { file: PathBuf, source: toml::de::Error },
    #[error("BRAID_KEY_FILE, BRAID_ALLOWED_KEYS and BRAID_SECURITY are inconsistent: {0}")]
    Security(#[from] SecurityError),
}

/// All settings of the plugin.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Config {
    pub(crate) devices: DeviceSettings,
    /// Number of engine threads of a device. 0: NCCL's threads drive the engine while they poll.
    /// Default: [`default_threads`].
    pub(crate) threads: usize,
    pub(crate) paths: PathSettings,
    /// Maximum payload of a packet in bytes. `None`: depends on the device.
    pub(crate) mtu: Option<u16>,
    pub(crate) crc: Option<Crc>,
    pub(crate) keys: KeySettings,
    pub(crate) receive_buffer: usize,
    pub(crate) cc: CcConfig,
    pub(crate) loss_recovery: LossRecovery,
    pub(crate) spin: Duration,
    pub(crate) timeouts: Timeouts,
    pub(crate) faults: Faults,
    /// The values of NCCL's own variables.
    pub(crate) nccl: NcclHints,
    /// The origin of each setting: a variable, or a line of the file.
    pub(crate) set_by: BTreeMap<String, String>,
}

/// The devices, and their datapath.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct DeviceSettings {
    /// The interfaces that become devices. `None`: see [`crate::choice`].
    pub(crate) interfaces: Option<Pattern>,
    /// The addresses that become devices, in this order. Empty: one per interface.
    pub(crate) addresses: Vec<IpAddr>,
    /// The interfaces or addresses that become the rails of one device each. Empty: each interface
    /// is a device.
    pub(crate) rails: Vec<Vec<String>>,
    /// The planes of the network that the devices are on, in their order.
    pub(crate) planes: Vec<i16>,
    /// The datapath of every interface.
    pub(crate) datapath: DatapathKind,
    /// The transport service of the paths over verbs.
    pub(crate) service: VerbsService,
}

/// The paths and rails of a connection.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct PathSettings {
    /// Number of paths. `None`: depends on the datapath.
    pub(crate) count: Option<usize>,
    pub(crate) lb: LbPolicy,
    /// Path quantum in packets. `None`: the engine's default.
    pub(crate) quantum: Option<u32>,
    /// The peers that share paths.
    pub(crate) groups: DestinationGroups,
    pub(crate) discover: bool,
    pub(crate) rail_policy: RailScheme,
}

/// The keys of connections.
#[derive(Clone, PartialEq, Default, Debug)]
pub(crate) struct KeySettings {
    pub(crate) key: Option<SecretKey>,
    pub(crate) allowed_keys: Option<AllowList>,
    pub(crate) purpose: Option<KeyPurpose>,
    /// The security that follows from these three settings.
    pub(crate) security: Option<Security>,
}

/// The times after which the plugin gives up.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Timeouts {
    pub(crate) ping_interval: Duration,
    pub(crate) peer_timeout: Duration,
    /// Time for which a connecting rank waits for its peer.
    pub(crate) connect_timeout: Duration,
    /// Maximum time for which closing waits for the delivery of sent data.
    pub(crate) linger: Duration,
}

impl Default for Config {
    fn default() -> Self {
        let engine = EngineConfig::default();
        Config {
            devices: DeviceSettings {
                interfaces: None,
                addresses: Vec::new(),
                rails: Vec::new(),
                planes: Vec::new(),
                datapath: engine.datapath.kind(),
                service: VerbsService::default(),
            },
            threads: default_threads(),
            paths: PathSettings {
                count: None,
                lb: engine.lb,
                quantum: engine.quantum,
                groups: engine.destination_groups,
                discover: engine.discover,
                rail_policy: engine.rail_policy,
            },
            mtu: None,
            crc: engine.crc,
            keys: KeySettings::default(),
            receive_buffer: engine.receive_buffer,
            cc: CcConfig::default(),
            loss_recovery: LossRecovery::default(),
            spin: engine.spin,
            timeouts: Timeouts {
                ping_interval: engine.ping_interval,
                peer_timeout: Duration::from_secs(5),
                connect_timeout: Duration::from_secs(60),
                linger: Duration::from_secs(1),
            },
            faults: engine.faults,
            nccl: NcclHints::default(),
            set_by: BTreeMap::new(),
        }
    }
}

/// Returns the default number of engine threads: a quarter of the CPUs, at most 4, and 0 on fewer
/// than 8 CPUs.
///
/// One proxy thread limits a rank to 3 GB/s in both directions together. Four engine threads moved
/// three times as much on 16 CPUs (`docs/nccl.md`). On few CPUs they wait for a core instead.
fn default_threads() -> usize {
    match std::thread::available_parallelism().map_or(1, usize::from) {
        0..8 => 0,
        cpus => (cpus / 4).min(4),
    }
}

impl Config {
    /// Reads the file and the environment.
    ///
    /// # Errors
    /// If a value is invalid; see [`ConfigError`].
    pub(crate) fn read() -> Result<Self, ConfigError> {
        let config = Config::from_settings(source::from_environment()?)?;
        Ok(Config { nccl: NcclHints::from_environment(), ..config })
    }

    /// Returns the origin of a setting: the name of its variable, or its name and the file.
    pub(crate) fn origin(&self, setting: &str) -> String {
        let set_by = self.set_by.get(setting).cloned();
        set_by.unwrap_or_else(|| format!("BRAID_{}", setting.to_uppercase()))
    }

    fn from_settings(given: Vec<source::Given>) -> Result<Self, ConfigError> {
        let mut config = Config::default();
        for source::Given { name, setting, value } in given {
            let apply = settings::find(&name).expect("sources give known settings only");
            apply(&mut config, value.trim()).map_err(|reason| ConfigError::Value {
                setting: setting.clone(),
                value,
                reason,
            })?;
            config.set_by.insert(name, setting);
        }
        let KeySettings { key, allowed_keys, purpose, .. } = config.keys.clone();
        config.keys.security = Security::with(key, allowed_keys, purpose)?;
        Ok(config)
    }
}

#[cfg(test)]
mod tests {
    use super::source::{Given, from_file};
    use super::*;

    fn given(name: &str, value: &str) -> Given {
        let setting = format!("BRAID_{}", name.to_uppercase());
        Given { name: name.to_owned(), setting, value: value.to_owned() }
    }

    #[test]
    fn every_setting_names_itself_the_value_and_what_is_accepted() {
        for name in names() {
            // An invalid value for each setting, including names of interfaces.
            let error = Config::from_settings(vec![given(name, "no such\u{7}thing")]).unwrap_err();
            let text = error.to_string();
            let start = format!("BRAID_{} is `no such\u{7}thing`: ", name.to_uppercase());
            let reason = text.strip_prefix(&start).expect("it begins with what was set");
            // These errors list the available names in their own words.
            assert!(
                reason.contains("accepted: ")
                    || reason.contains("there is: ")
                    || reason.contains("available: "),
                "{text}"
            );
        }
    }

    #[test]
    fn later_settings_win() {
        let given = vec![given("threads", "2"), given("drop", "0.5"), given("threads", "3")];
        let config = Config::from_settings(given).unwrap();
        assert_eq!(config.threads, 3);
        assert_eq!(config.faults.drop, 0.5);
        assert_eq!(config.paths.count, None);
    }

    #[test]
    fn the_author_of_a_setting_is_known() {
        let nccl = Given { setting: "NCCL_SOCKET_IFNAME".to_owned(), ..given("ifname", "eth") };
        let config = Config::from_settings(vec![nccl, given("threads", "2")]).unwrap();
        let origins = ["ifname", "threads", "addr"].map(|name| config.origin(name));
        assert_eq!(origins, ["NCCL_SOCKET_IFNAME", "BRAID_THREADS", "BRAID_ADDR"]);
        let file = from_file("ifname = \"eth\"\n", "f.toml".as_ref()).unwrap();
        let config = Config::from_settings(file).unwrap();
        assert_eq!(config.origin("ifname"), "`ifname` in f.toml");
    }

    #[test]
    fn a_file_takes_numbers_words_switches_and_lists() {
        let text = "threads = 2\ncrc = \"off\"\ndiscover = true\ndrop = 0.25\naddr = [\"10.0.0.1\", \"fd00::1\"]\n";
        let config = Config::from_settings(from_file(text, "f".as_ref()).unwrap()).unwrap();
        assert_eq!((config.threads, config.crc, config.paths.discover), (2, Some(Crc::Off), true));
        assert_eq!(config.faults.drop, 0.25);
        assert_eq!(config.devices.addresses.len(), 2);
    }

    #[test]
    fn a_file_with_an_unknown_setting_is_refused() {
        let error = from_file("thread = 2\n", "braid.toml".as_ref()).unwrap_err().to_string();
        assert!(error.contains("`thread`") && error.contains("braid.toml"), "{error}");
        assert!(error.contains("threads"), "{error}");
        let error = from_file("threads = ", "braid.toml".as_ref()).unwrap_err().to_string();
        assert!(error.contains("not valid TOML"), "{error}");
    }
}

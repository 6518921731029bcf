//! Settings of the environment: `BRAID_*` variables. If one has an invalid value, standard error
//! names it and no device opens.
//!
//! Programs rely on a later WRITE landing after an earlier one (IBTA vol. 1, 9.5, and 10.8.3.3),
//! and look at memory to see what has arrived. So there is one path, and data lands in the order in
//! which it was sent, unless the user of the program says that the order does not matter.

use std::ffi::OsString;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::sync::OnceLock;
use std::time::Duration;

use braid::congestion::ReactionPointConfig;
use braid::environment;
use braid::{
    AllowList, CcConfig, Crc, Datapath, DatapathKind, DatapathOptions, DestinationGroups,
    EngineConfig, KeyPurpose, LossRecovery, Program, Progress, QpConfig, RailNames, SecretKey,
    Security, SecurityError,
};
use braid_log::FilterError;

use crate::errno::Errno;
use crate::interfaces::Interface;
use crate::rails;

/// All settings of the library.
#[derive(Clone)]
pub(crate) struct Settings {
    /// The configuration of every engine. The code that starts an engine sets `bind`.
    pub(crate) engine: EngineConfig,
    pub(crate) cc: CcConfig,
    pub(crate) recovery: LossRecovery,
    /// The groups of interfaces that become one device each. Empty: every interface is a device.
    pub(crate) rails: Vec<Vec<String>>,
    /// When reliable queue pairs speak plain RoCEv2.
    pub(crate) roce: RoceUse,
    /// DCQCN of queue pairs that speak plain RoCEv2.
    pub(crate) roce_dcqcn: Option<ReactionPointConfig>,
    /// These three fields become the `security` of the engine.
    key: Option<SecretKey>,
    allowed_keys: Option<AllowList>,
    security: Option<KeyPurpose>,
}

/// The peers of reliable queue pairs to which the library speaks plain RoCEv2.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RoceUse {
    /// Peers that are not Braid.
    Auto,
    /// All peers.
    Always,
    /// No peer.
    Never,
}

/// An environment variable with an invalid value.
#[derive(Debug, thiserror::Error)]
#[error("{name} is `{value}`: {reason}")]
pub(crate) struct SettingError {
    name: String,
    value: String,
    reason: String,
}

/// Changes the settings. On failure, returns the accepted values.
type Apply = fn(&mut Settings, &str) -> Result<(), String>;

const ALLOWED_KEYS: &str = "BRAID_ALLOWED_KEYS";
/// The time for which an acknowledgement waits for a reply, so that both leave together. A program
/// that waits for a reply in memory and for the completion of its own send drives the engine only
/// while it looks at its completion queue.
const REPLY_WAIT: Duration = Duration::from_micros(50);

const SECURITY: &str = "BRAID_SECURITY";
const RAILS: &str = "BRAID_RAILS";
const ROCE: &str = "BRAID_ROCE";

/// The settings, by the name of the variable.
const SETTINGS: &[(&str, Apply)] = &[
    ("BRAID_DATAPATH", |s, v| set(&mut s.engine.datapath, datapath(v))),
    ("BRAID_PATHS", |s, v| set(&mut s.engine.paths, number(v, 1..=braid::MAX_PATHS))),
    ("BRAID_LB", |s, v| set(&mut s.engine.lb, parsed(v))),
    ("BRAID_QUANTUM", |s, v| set(&mut s.engine.quantum, number(v, 1..=4096).map(Some))),
    ("BRAID_DESTINATION_GROUPS", |s, v| set(&mut s.engine.destination_groups, groups(v))),
    ("BRAID_CC", |s, v| set(&mut s.cc, parsed(v))),
    ("BRAID_LOSS_RECOVERY", |s, v| set(&mut s.recovery, parsed(v))),
    (RAILS, |s, v| set(&mut s.rails, parsed(v).map(|names: RailNames| names.devices))),
    (ROCE, |s, v| set(&mut s.roce, roce(v))),
    ("BRAID_ROCE_DCQCN", |s, v| set(&mut s.roce_dcqcn, parsed(v).map(Some))),
    ("BRAID_MTU", |s, v| set(&mut s.engine.mtu, number(v, 8..=65_400).map(Some))),
    ("BRAID_CRC", |s, v| set(&mut s.engine.crc, crc(v).map(Some))),
    // The key file is read at once, so that an error is known before anything opens.
    ("BRAID_KEY_FILE", |s, v| set(&mut s.key, read_key(v).map(Some))),
    (ALLOWED_KEYS, |s, v| set(&mut s.allowed_keys, read_allowed_keys(v).map(Some))),
    (SECURITY, |s, v| set(&mut s.security, parsed(v).map(Some))),
    ("BRAID_RECEIVE_BUFFER", |s, v| set(&mut s.engine.receive_buffer, number(v, 65_536..=1 << 30))),
    ("BRAID_SPIN_US", |s, v| {
        set(&mut s.engine.spin, number(v, 0..=1_000_000).map(Duration::from_micros))
    }),
    ("BRAID_PEER_TIMEOUT_MS", |s, v| {
        set(&mut s.engine.peer_timeout, number(v, 10..=3_600_000).map(Duration::from_millis))
    }),
    ("BRAID_DROP", |s, v| set(&mut s.engine.faults.drop, number(v, 0.0..=1.0))),
    ("BRAID_REORDER", |s, v| set(&mut s.engine.faults.reorder, number(v, 0.0..=1.0))),
    ("BRAID_DUPLICATE", |s, v| set(&mut s.engine.faults.duplicate, number(v, 0.0..=1.0))),
    ("BRAID_CORRUPT", |s, v| set(&mut s.engine.faults.corrupt, number(v, 0.0..=1.0))),
    ("BRAID_SEED", |s, v| set(&mut s.engine.faults.seed, number(v, 0..=u64::MAX))),
];

/// The names of all variables.
#[cfg(test)]
fn names() -> impl Iterator<Item = &'static str> {
    SETTINGS.iter().map(|(name, _)| *name)
}

impl Settings {
    /// Reads the environment.
    ///
    /// # Errors
    /// The first variable with an invalid value.
    fn read() -> Result<Self, SettingError> {
        Self::from_variables(environment::variable)?.checked()
    }

    /// Checks the combination of settings.
    fn checked(self) -> Result<Self, SettingError> {
        self.check_rails()?;
        self.check_roce()?;
        Ok(self)
    }

    /// Packets of several rails arrive out of order, which go-back-n does not accept.
    fn check_rails(&self) -> Result<(), SettingError> {
        let several = self.rails.iter().find(|rails| rails.len() > 1);
        match several.filter(|_| self.recovery == LossRecovery::GoBackN) {
            None => Ok(()),
            Some(rails) => Err(SettingError {
                name: RAILS.to_owned(),
                value: rails.join(","),
                reason: "packets of several rails arrive out of order; set \
                         BRAID_LOSS_RECOVERY=ooo-window for a program that waits for completions"
                    .to_owned(),
            }),
        }
    }

    fn check_roce(&self) -> Result<(), SettingError> {
        if self.roce != RoceUse::Always || self.engine.datapath.carries_roce() {
            return Ok(());
        }
        Err(SettingError {
            name: ROCE.to_owned(),
            value: "always".to_owned(),
            reason: "RoCEv2 takes UDP; leave out BRAID_DATAPATH".to_owned(),
        })
    }

    /// Whether peers are spoken to that are not Braid. RoCEv2 takes UDP, and protects nothing, so
    /// a program with keys does not speak it.
    pub(crate) fn speaks_roce(&self) -> bool {
        let carries = self.engine.datapath.carries_roce();
        self.roce != RoceUse::Never && self.engine.security.is_none() && carries
    }

    /// Reads the settings as [`Settings::read`] does, and opens the log as `BRAID_LOG` says.
    /// Standard error names invalid values.
    pub(crate) fn load() -> Result<Self, Errno> {
        open_log().map_err(refused)?;
        Self::read().map_err(refused)
    }

    /// Combines the interfaces to devices. Standard error names invalid values.
    pub(crate) fn combine(all: Vec<Interface>) -> Result<Vec<Interface>, Errno> {
        let rails = |name: &str| (name == RAILS).then(|| environment::variable(name)).flatten();
        let groups = Self::from_variables(rails).map_err(refused)?.rails;
        rails::combine(all, &groups).map_err(|reason| refused(format!("{RAILS}: {reason}")))
    }

    fn from_variables(value: impl Fn(&str) -> Option<OsString>) -> Result<Self, SettingError> {
        let progress = Progress::Application;
        let engine = EngineConfig { progress, paths: 1, ..EngineConfig::default() };
        let (cc, recovery) = (CcConfig::default(), LossRecovery::GoBackN);
        let (key, allowed_keys, security) = (None, None, None);
        let (rails, roce, roce_dcqcn) = (Vec::new(), RoceUse::Auto, None);
        let mut settings =
            Settings { engine, cc, recovery, rails, roce, roce_dcqcn, key, allowed_keys, security };
        for (name, apply) in SETTINGS {
            let Some(value) = value(name) else { continue };
            let value = text(name, value)?;
            apply(&mut settings, value.trim()).map_err(|reason| SettingError {
                name: (*name).to_owned(),
                value,
                reason,
            })?;
        }
        let (key, allowed) = (settings.key.take(), settings.allowed_keys.take());
        let security = Security::with(key, allowed, settings.security.take());
        settings.engine.security = security.map_err(|error| {
            let name = match error {
                SecurityError::NoKey { .. } => SECURITY,
                _ => ALLOWED_KEYS,
            };
            let reason = format!("{error}; BRAID_KEY_FILE names it");
            let value = value(name).unwrap_or_default().to_string_lossy().into_owned();
            SettingError { name: name.to_owned(), value, reason }
        })?;
        Ok(settings)
    }

    /// Applies the settings to the configuration of a queue pair.
    pub(crate) fn apply(&self, config: &mut QpConfig) {
        config.cc = self.cc.clone();
        config.recovery = self.recovery;
        (config.reply_wait, config.reply_hold) = (REPLY_WAIT, Duration::ZERO);
    }
}

/// Opens the log once. Later changes of the environment have no effect.
fn open_log() -> Result<(), FilterError> {
    static IS_OPEN: OnceLock<()> = OnceLock::new();
    if IS_OPEN.get().is_none() {
        braid_log::from_environment(environment::variable)?;
        // Two threads may have opened the log, with the same result.
        let _ = IS_OPEN.set(());
    }
    Ok(())
}

fn refused(error: impl Display) -> Errno {
    eprintln!("braid: {error}");
    Errno::INVALID
}

/// The value as text. A value that is not text is an error, because it may have been meant to
/// switch encryption on.
fn text(name: &str, value: OsString) -> Result<String, SettingError> {
    value.into_string().map_err(|value| SettingError {
        name: name.to_owned(),
        value: value.to_string_lossy().into_owned(),
        reason: "accepted: UTF-8".to_owned(),
    })
}

fn set<T>(place: &mut T, value: Result<T, String>) -> Result<(), String> {
    *place = value?;
    Ok(())
}

fn parsed<T: FromStr<Err: Display>>(value: &str) -> Result<T, String> {
    value.parse().map_err(|error: T::Err| error.to_string())
}

fn number<T: FromStr + PartialOrd + Display>(
    value: &str,
    range: RangeInclusive<T>,
) -> Result<T, String> {
    let number = value.parse().ok().filter(|number| range.contains(number));
    number.ok_or_else(|| format!("accepted: a number from {} to {}", range.start(), range.end()))
}

/// The datapaths of the table that the drop-in offers. None of them has options.
fn datapath(value: &str) -> Result<Datapath, String> {
    let offered = || DatapathKind::offered_by(Program::DropIn);
    let kind = offered().find(|kind| kind.name() == value).ok_or_else(|| {
        let names: Vec<_> = offered().map(DatapathKind::name).collect();
        format!("accepted: {}", names.join(", "))
    })?;
    kind.build(&DatapathOptions::default()).map_err(|error| error.to_string())
}

fn groups(file: &str) -> Result<DestinationGroups, String> {
    DestinationGroups::read(file).map_err(|error| error.to_string())
}

fn read_key(file: &str) -> Result<SecretKey, String> {
    braid::read_key(file).map_err(|error| error.to_string())
}

fn read_allowed_keys(file: &str) -> Result<AllowList, String> {
    braid::read_allowed_keys(file).map_err(|error| error.to_string())
}

fn roce(value: &str) -> Result<RoceUse, String> {
    match value {
        "auto" => Ok(RoceUse::Auto),
        "always" => Ok(RoceUse::Always),
        "never" => Ok(RoceUse::Never),
        _ => Err("accepted: auto, always, never".to_owned()),
    }
}

fn crc(value: &str) -> Result<Crc, String> {
    match value {
        "on" => Ok(Crc::On),
        "off" => Ok(Crc::Off),
        _ => Err("accepted: on, off".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use super::*;

    #[test]
    fn every_variable_names_itself_and_what_is_accepted() {
        for name in names() {
            let wrong = |asked: &str| (asked == name).then(|| "no such thing".into());
            let error = Settings::from_variables(wrong).err().expect("it cannot be").to_string();
            assert!(error.starts_with(&format!("{name} is `no such thing`: ")), "{error}");
        }
    }

    #[test]
    fn values_that_are_not_text_are_refused() {
        let file = OsString::from_vec(b"/keys/\xFF".to_vec());
        let given = |name: &str| (name == "BRAID_KEY_FILE").then(|| file.clone());
        let error = Settings::from_variables(given).err().expect("it cannot be").to_string();
        assert!(
            error.starts_with("BRAID_KEY_FILE is `/keys/") && error.contains("UTF-8"),
            "{error}"
        );
    }

    #[test]
    fn a_mode_without_a_key_is_refused() {
        let given = |name: &str| (name == SECURITY).then(|| "encrypt".into());
        let error = Settings::from_variables(given).err().expect("it cannot be").to_string();
        assert!(error.contains("BRAID_SECURITY") && error.contains("BRAID_KEY_FILE"), "{error}");
        let off = |name: &str| (name == SECURITY).then(|| "off".into());
        assert!(Settings::from_variables(off).expect("it needs none").engine.security.is_none());
    }

    #[test]
    fn roce_requires_udp() {
        let given = |roce: &'static str, datapath: &'static str| {
            let settings = Settings::from_variables(|name| match name {
                ROCE => Some(roce.into()),
                "BRAID_DATAPATH" => Some(datapath.into()),
                _ => None,
            });
            settings.expect("both are known").checked().map(|settings| settings.speaks_roce())
        };
        assert!(given("always", "udp").unwrap() && given("auto", "auto").unwrap());
        assert!(!given("auto", "tcp").unwrap() && !given("never", "udp").unwrap());
        let refused = given("always", "tcp").unwrap_err().to_string();
        assert_eq!(refused, "BRAID_ROCE is `always`: RoCEv2 takes UDP; leave out BRAID_DATAPATH");
    }

    #[test]
    fn several_rails_require_a_loss_recovery_for_reordering() {
        let with = |recovery: Option<&'static str>, rails: &'static str| {
            let settings = Settings::from_variables(|name| match name {
                RAILS => Some(rails.into()),
                "BRAID_LOSS_RECOVERY" => recovery.map(Into::into),
                _ => None,
            });
            settings.expect("both can be").checked().map(|settings| settings.rails.len())
        };
        assert_eq!(with(Some("ooo-window"), "eth0,eth1;eth2").expect("it takes them"), 2);
        assert_eq!(with(None, "eth0;eth1").expect("one rail each"), 2);
        let error = with(None, "eth0,eth1").expect_err("go-back-n").to_string();
        assert!(error.starts_with("BRAID_RAILS is `eth0,eth1`: "), "{error}");
        assert!(error.contains("BRAID_LOSS_RECOVERY=ooo-window"), "{error}");
    }

    #[test]
    fn variables_are_obeyed() {
        let given = |name: &str| match name {
            "BRAID_DROP" => Some("0.25".into()),
            "BRAID_CRC" => Some("off".into()),
            "BRAID_ROCE_DCQCN" => Some("25G,min=10M".into()),
            _ => None,
        };
        let settings = Settings::from_variables(given).expect("all can be");
        assert_eq!(settings.engine.faults.drop, 0.25);
        assert_eq!(settings.engine.crc, Some(Crc::Off));
        let dcqcn = settings.roce_dcqcn.expect("it is given");
        assert_eq!(dcqcn.min_bits_per_second, 10_000_000);
    }
}

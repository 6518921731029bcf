//! The parameters of the backend. NIXL's user passes them when the backend is created; what is not
//! passed comes from the environment variable `BRAID_` and the name in capital letters.

use std::fmt::Display;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use braid::{
    CcConfig, CompletionQueue, Crc, DatapathKind, DatapathOptions, EngineConfig, KeyPurpose,
    LossRecovery, Medium, Progress, QpOptions, RailNames, Security, environment,
};

use crate::addresses::named;

/// An invalid parameter.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum SettingError {
    #[error("unknown parameter `{name}` of the backend BRAID; leave it out. Known: {known}")]
    Unknown { name: String, known: String },
    #[error("{origin} is `{value}`: {reason}")]
    Value { origin: String, value: String, reason: String },
    #[error("`key_file`, `allowed_keys`, `security`: {0}")]
    Security(String),
    #[error("{0}")]
    Log(String),
}

/// The values of the parameters.
pub(crate) struct Settings {
    pub(crate) engine: EngineConfig,
    /// Time for an attempt to connect. Default: 4 s.
    pub(crate) connect_timeout: Duration,
    /// The version of NIXL, if its package does not tell it.
    pub(crate) nixl_version: Option<String>,
    cc: CcConfig,
    recovery: LossRecovery,
    /// `None`: one with NIXL's progress thread, 0 without.
    threads: Option<usize>,
    key_file: Option<String>,
    allowed_keys: Option<String>,
    purpose: Option<KeyPurpose>,
}

type Apply = fn(&mut Settings, &str) -> Result<(), String>;

/// The name of a parameter, its default as text, and what applies a value. An empty default: the
/// parameter is not set.
const SETTINGS: &[(&str, &str, Apply)] = &[
    ("bind", "", |s, v| set(&mut s.engine.bind, bind(v))),
    ("rails", "", rails),
    ("rail_policy", "", |s, v| set(&mut s.engine.rail_policy, parsed(v))),
    ("datapath", "udp", datapath),
    ("threads", "", |s, v| set(&mut s.threads, number(v, 0..=64).map(Some))),
    ("paths", "", |s, v| set(&mut s.engine.paths, number(v, 1..=4096))),
    ("lb", "", |s, v| set(&mut s.engine.lb, parsed(v))),
    ("quantum", "", |s, v| set(&mut s.engine.quantum, number(v, 1..=4096).map(Some))),
    ("discover", "off", |s, v| set(&mut s.engine.discover, switch(v))),
    ("mtu", "", |s, v| set(&mut s.engine.mtu, number(v, 1..=65_400).map(Some))),
    ("crc", "on", |s, v| set(&mut s.engine.crc, switch(v).map(crc))),
    ("cc", "", |s, v| set(&mut s.cc, parsed(v))),
    ("loss_recovery", "", |s, v| set(&mut s.recovery, parsed(v))),
    ("key_file", "", |s, v| set(&mut s.key_file, Ok(Some(v.to_owned())))),
    ("allowed_keys", "", |s, v| set(&mut s.allowed_keys, Ok(Some(v.to_owned())))),
    ("security", "", |s, v| set(&mut s.purpose, parsed(v).map(Some))),
    ("receive_buffer", "", |s, v| set(&mut s.engine.receive_buffer, number(v, 65_536..=1 << 30))),
    ("peer_timeout_ms", "", |s, v| set(&mut s.engine.peer_timeout, millis(v, 10..=3_600_000))),
    ("connect_timeout_ms", "", |s, v| set(&mut s.connect_timeout, millis(v, 10..=3_600_000))),
    ("linger_ms", "", |s, v| set(&mut s.engine.linger, millis(v, 0..=60_000))),
    ("nixl_version", "", |s, v| set(&mut s.nixl_version, Ok(Some(v.to_owned())))),
];

/// The parameters and their defaults, for NIXL's user. An empty text: not set.
pub(crate) fn options() -> impl Iterator<Item = (&'static str, &'static str)> {
    SETTINGS.iter().map(|(name, default, _)| (*name, *default))
}

impl Settings {
    /// Reads the parameters that were passed, and variables for the others.
    pub(crate) fn read(
        passed: &[(String, String)],
        has_progress_thread: bool,
    ) -> Result<Self, SettingError> {
        let environment = |name: &str| {
            let variable = variable(name);
            let value = environment::variable(&variable)?;
            Some((variable, value.to_string_lossy().into_owned()))
        };
        Settings::with(passed, has_progress_thread, environment)
    }

    fn with(
        passed: &[(String, String)],
        has_progress_thread: bool,
        environment: impl Fn(&str) -> Option<(String, String)>,
    ) -> Result<Self, SettingError> {
        if let Some((name, _)) = passed.iter().find(|(name, _)| !is_known(name)) {
            let known = options().map(|(name, _)| name).collect::<Vec<_>>().join(", ");
            return Err(SettingError::Unknown { name: name.clone(), known });
        }
        let mut settings = Settings {
            engine: EngineConfig::default(),
            connect_timeout: Duration::from_secs(4),
            nixl_version: None,
            cc: CcConfig::default(),
            recovery: LossRecovery::default(),
            threads: None,
            key_file: None,
            allowed_keys: None,
            purpose: None,
        };
        for (name, _, apply) in SETTINGS {
            let passed = passed.iter().find(|(known, value)| known == name && !value.is_empty());
            let passed = passed.map(|(name, value)| (format!("`{name}`"), value.clone()));
            let Some((origin, value)) = passed.or_else(|| environment(name)) else { continue };
            apply(&mut settings, value.trim()).map_err(|reason| SettingError::Value {
                origin,
                value,
                reason,
            })?;
        }
        settings.finish(has_progress_thread)
    }

    fn finish(mut self, has_progress_thread: bool) -> Result<Self, SettingError> {
        self.engine.progress = match self.threads.unwrap_or(has_progress_thread.into()) {
            0 => Progress::Application,
            threads => Progress::Threads(threads),
        };
        let [key, allowed] = [&self.key_file, &self.allowed_keys].map(|file| file.as_deref());
        let [key, allowed] = [key, allowed].map(|file| file.map(AsRef::as_ref));
        self.engine.security = Security::from_files(key, allowed, self.purpose.take())
            .map_err(|error| SettingError::Security(error.to_string()))?;
        Ok(self)
    }

    /// The options of a queue pair whose work ends in `cq`.
    pub(crate) fn qp_options(&self, cq: &CompletionQueue) -> QpOptions {
        let mut options = QpOptions::new(cq, cq);
        options.config.cc = self.cc.clone();
        options.config.recovery = self.recovery;
        options
    }
}

fn is_known(name: &str) -> bool {
    options().any(|(known, _)| known == name)
}

/// The environment variable of a parameter.
fn variable(name: &str) -> String {
    format!("BRAID_{}", name.to_uppercase())
}

fn set<T>(place: &mut T, value: Result<T, String>) -> Result<(), String> {
    *place = value?;
    Ok(())
}

fn parsed<T: FromStr<Err: Display>>(value: &str) -> Result<T, String> {
    value.parse().map_err(|error: T::Err| error.to_string())
}

fn number<T>(value: &str, range: RangeInclusive<T>) -> Result<T, String>
where
    T: FromStr + PartialOrd + Display,
{
    let number = value.parse().ok().filter(|number| range.contains(number));
    number.ok_or_else(|| format!("accepted: a number from {} to {}", range.start(), range.end()))
}

fn millis(value: &str, range: RangeInclusive<u64>) -> Result<Duration, String> {
    number(value, range).map(Duration::from_millis)
}

fn switch(value: &str) -> Result<bool, String> {
    match value {
        "on" | "true" | "1" => Ok(true),
        "off" | "false" | "0" => Ok(false),
        _ => Err("accepted: on, off".to_owned()),
    }
}

fn crc(on: bool) -> Crc {
    if on { Crc::On } else { Crc::Off }
}

/// An address of this host, with a port or any free one.
fn bind(value: &str) -> Result<SocketAddr, String> {
    let with_port = value.parse().ok();
    let addr = with_port.or_else(|| Some(SocketAddr::new(value.parse().ok()?, 0)));
    addr.ok_or_else(|| {
        let example = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), 4791);
        format!("accepted: an address of this host, or an address and a port such as {example}")
    })
}

/// The interfaces of one device. The first one also has the port of `bind`.
fn rails(settings: &mut Settings, value: &str) -> Result<(), String> {
    let names: RailNames = parsed(value)?;
    let [names] = &names.devices[..] else {
        return Err("accepted: the rails of one device, with commas between them".to_owned());
    };
    let addresses: Vec<IpAddr> = named(names)?;
    settings.engine.bind.set_ip(addresses[0]);
    settings.engine.rails = addresses[1..].to_vec();
    Ok(())
}

fn datapath(settings: &mut Settings, value: &str) -> Result<(), String> {
    let networks = || DatapathKind::all().filter(|kind| kind.medium() == Medium::Network);
    let kind = networks().find(|kind| kind.name() == value).ok_or_else(|| {
        let names: Vec<_> = networks().map(DatapathKind::name).collect();
        format!("accepted: {}", names.join(", "))
    })?;
    let datapath = kind.build(&DatapathOptions::default()).map_err(|error| error.to_string())?;
    settings.engine.datapath = datapath;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(passed: &[(&str, &str)]) -> Result<Settings, SettingError> {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let passed: Vec<_> = passed.iter().map(owned).collect();
        Settings::with(&passed, true, |name| {
            (name == "paths").then(|| ("BRAID_PATHS".to_owned(), "64".to_owned()))
        })
    }

    fn refusal(passed: &[(&str, &str)]) -> String {
        read(passed).err().expect("the parameter is invalid").to_string()
    }

    #[test]
    fn every_parameter_names_itself_the_value_and_what_is_accepted() {
        let free_texts = ["key_file", "allowed_keys", "nixl_version"];
        for (name, _) in options().filter(|(name, _)| !free_texts.contains(name)) {
            let text = refusal(&[(name, "no such\u{7}thing")]);
            let reason = text.strip_prefix(&format!("`{name}` is `no such\u{7}thing`: "));
            let reason = reason.expect("the error begins with what was passed");
            let remedies = ["accepted: ", "available: ", "there is: "];
            assert!(remedies.iter().any(|word| reason.contains(word)), "{text}");
        }
    }

    #[test]
    fn unknown_parameters_are_refused_by_name() {
        let text = refusal(&[("path", "8")]);
        assert!(text.contains("`path`") && text.contains("leave it out"), "{text}");
        assert!(text.contains("paths"), "{text}");
    }

    #[test]
    fn passed_parameters_precede_variables_and_empty_ones_do_not_count() {
        assert_eq!(read(&[]).unwrap().engine.paths, 64);
        assert_eq!(read(&[("paths", "")]).unwrap().engine.paths, 64);
        assert_eq!(read(&[("paths", "8")]).unwrap().engine.paths, 8);
        let all: Vec<_> = options().collect();
        assert!(read(&all).is_ok(), "defaults can be passed back");
    }

    #[test]
    fn the_progress_thread_decides_unless_threads_are_given() {
        let progress = |passed: &[_], has| Settings::with(passed, has, |_| None).unwrap();
        assert_eq!(progress(&[], true).engine.progress, Progress::Threads(1));
        assert_eq!(progress(&[], false).engine.progress, Progress::Application);
        let two = [("threads".to_owned(), "2".to_owned())];
        assert_eq!(progress(&two, false).engine.progress, Progress::Threads(2));
    }

    #[test]
    fn a_missing_key_file_is_named() {
        let text = refusal(&[("key_file", "/no/such/key")]);
        assert!(text.contains("/no/such/key"), "{text}");
    }

    #[test]
    fn rails_are_addresses_of_this_host() {
        let settings = read(&[("rails", "127.0.0.1"), ("bind", "0.0.0.0:4791")]).unwrap();
        assert_eq!(settings.engine.bind, "127.0.0.1:4791".parse().unwrap());
        assert!(refusal(&[("rails", "127.0.0.1;127.0.0.1")]).contains("one device"));
        assert!(refusal(&[("rails", "no-such-0")]).contains("there is: "));
    }
}

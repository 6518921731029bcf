//! The settings by name, with their parsers and accepted values.

use std::fmt::Display;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use braid::{
    AllowList, Crc, DatapathKind, DestinationGroups, Program, RailNames, SecretKey, VerbsService,
};

use super::Config;

/// Changes the configuration, or returns the accepted values.
pub(super) type Apply = fn(&mut Config, &str) -> Result<(), String>;

/// The names in a file. Variables have the prefix `BRAID_` and capital letters.
const SETTINGS: &[(&str, Apply)] = &[
    ("ifname", |c, v| set(&mut c.devices.interfaces, parsed(v).map(Some))),
    ("addr", |c, v| set(&mut c.devices.addresses, addresses(v))),
    ("rails", |c, v| set(&mut c.devices.rails, parsed(v).map(|names: RailNames| names.devices))),
    ("planes", |c, v| set(&mut c.devices.planes, planes(v))),
    ("rail_policy", |c, v| set(&mut c.paths.rail_policy, parsed(v))),
    ("datapath", |c, v| set(&mut c.devices.datapath, datapath(v))),
    ("service", |c, v| set(&mut c.devices.service, service(v))),
    ("threads", |c, v| set(&mut c.threads, number(v, 0..=64))),
    ("paths", |c, v| set(&mut c.paths.count, number(v, 1..=4096).map(Some))),
    ("lb", |c, v| set(&mut c.paths.lb, parsed(v))),
    ("quantum", |c, v| set(&mut c.paths.quantum, number(v, 1..=4096).map(Some))),
    ("destination_groups", |c, v| set(&mut c.paths.groups, groups(v))),
    ("discover", |c, v| set(&mut c.paths.discover, switch(v))),
    ("mtu", |c, v| set(&mut c.mtu, packet_payload(v).map(Some))),
    ("crc", |c, v| set(&mut c.crc, switch(v).map(|on| Some(crc(on))))),
    ("key_file", |c, v| set(&mut c.keys.key, key(v).map(Some))),
    ("allowed_keys", |c, v| set(&mut c.keys.allowed_keys, allowed_keys(v).map(Some))),
    ("security", |c, v| set(&mut c.keys.purpose, parsed(v).map(Some))),
    ("receive_buffer", |c, v| set(&mut c.receive_buffer, number(v, 65_536..=1 << 30))),
    ("cc", |c, v| set(&mut c.cc, parsed(v))),
    ("loss_recovery", |c, v| set(&mut c.loss_recovery, parsed(v))),
    ("spin_us", |c, v| set(&mut c.spin, micros(v, 0..=1_000_000))),
    ("ping_interval_ms", |c, v| set(&mut c.timeouts.ping_interval, millis(v, 1..=60_000))),
    ("peer_timeout_ms", |c, v| set(&mut c.timeouts.peer_timeout, millis(v, 10..=3_600_000))),
    ("connect_timeout_ms", |c, v| set(&mut c.timeouts.connect_timeout, millis(v, 10..=3_600_000))),
    ("linger_ms", |c, v| set(&mut c.timeouts.linger, millis(v, 0..=60_000))),
    ("drop", |c, v| set(&mut c.faults.drop, probability(v))),
    ("reorder", |c, v| set(&mut c.faults.reorder, probability(v))),
    ("duplicate", |c, v| set(&mut c.faults.duplicate, probability(v))),
    ("corrupt", |c, v| set(&mut c.faults.corrupt, probability(v))),
    ("delay_us", |c, v| set(&mut c.faults.delay, micros(v, 0..=10_000_000))),
    ("seed", |c, v| set(&mut c.faults.seed, number(v, 0..=u64::MAX))),
];

/// Returns all names.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    SETTINGS.iter().map(|(name, _)| *name)
}

pub(super) fn find(name: &str) -> Option<Apply> {
    SETTINGS.iter().find(|(known, _)| *known == name).map(|(_, apply)| *apply)
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

fn micros(value: &str, range: RangeInclusive<u64>) -> Result<Duration, String> {
    number(value, range).map(Duration::from_micros)
}

fn millis(value: &str, range: RangeInclusive<u64>) -> Result<Duration, String> {
    number(value, range).map(Duration::from_millis)
}

fn probability(value: &str) -> Result<f64, String> {
    number(value, 0.0..=1.0)
}

fn switch(value: &str) -> Result<bool, String> {
    match value {
        "on" | "true" | "1" => Ok(true),
        "off" | "false" | "0" => Ok(false),
        _ => Err("accepted: on, off".to_owned()),
    }
}

fn datapath(value: &str) -> Result<DatapathKind, String> {
    let offered = || DatapathKind::offered_by(Program::Nccl);
    offered().find(|kind| kind.name() == value).ok_or_else(|| {
        let names: Vec<_> = offered().map(DatapathKind::name).collect();
        format!("accepted: {}", names.join(", "))
    })
}

fn service(value: &str) -> Result<VerbsService, String> {
    match value {
        "uc" => Ok(VerbsService::Uc),
        "rc" => Ok(VerbsService::Rc),
        _ => Err("accepted: uc, rc".to_owned()),
    }
}

fn crc(on: bool) -> Crc {
    if on { Crc::On } else { Crc::Off }
}

/// Reads a key file at once, so that errors are known before anything is opened.
fn key(file: &str) -> Result<SecretKey, String> {
    let refused = |error| format!("accepted: a file of `braid-perf keygen`; {error}");
    braid::read_key(file).map_err(refused)
}

/// Reads a list of allowed keys at once; see [`key`].
fn allowed_keys(file: &str) -> Result<AllowList, String> {
    let refused = |error| format!("accepted: a file of public keys; {error}");
    braid::read_allowed_keys(file).map_err(refused)
}

/// Reads a file of destination groups at once; see [`key`].
fn groups(file: &str) -> Result<DestinationGroups, String> {
    let refused = |error| format!("accepted: a file of destination groups; {error}");
    DestinationGroups::read(file).map_err(refused)
}

/// Parses a payload length. GPUs read 8-byte words while they arrive, so no packet may end inside
/// one.
fn packet_payload(value: &str) -> Result<u16, String> {
    let bytes = number(value, 8..=65_400u16).ok().filter(|bytes| bytes % 8 == 0);
    bytes.ok_or_else(|| "accepted: a multiple of 8 from 8 to 65400".to_owned())
}

fn planes(value: &str) -> Result<Vec<i16>, String> {
    let plane = |text: &str| text.trim().parse().ok().filter(|plane| *plane >= 0);
    let planes = value.split(',').map(plane).collect::<Option<Vec<_>>>();
    planes.ok_or_else(|| "accepted: numbers from 0 to 32767, with commas between them".to_owned())
}

fn addresses(value: &str) -> Result<Vec<IpAddr>, String> {
    let each = value.split(',').map(|address| address.trim().parse());
    each.collect::<Result<_, _>>()
        .map_err(|_| "accepted: IP addresses of this host, with commas between them".to_owned())
}

//! Validation of an engine's configuration.

use std::net::IpAddr;
use std::time::Duration;

use braid_keys::KEY_PACKETS_LOG2;
use braid_lb::PathSet;
use braid_transport::TimerError;
use braid_wire::MAX_RAILS;

use crate::config::{EngineConfig, Progress};
use crate::datapaths::Feature;
use crate::error::{EngineError, MAX_WORKERS, QUANTA};

/// The shortest interval of PINGs. With a shorter one the peer would only answer PINGs.
const LEAST_PING_INTERVAL: Duration = Duration::from_millis(1);

/// Validates the configuration. Returns the number of workers.
pub(crate) fn check(config: &EngineConfig) -> Result<usize, EngineError> {
    config.faults.validate()?;
    PathSet::new(config.lb, config.paths, config.seed)?;
    if let Some(packets) = config.quantum.filter(|packets| !QUANTA.contains(packets)) {
        return Err(EngineError::Quantum { packets });
    }
    if config.discover && !config.datapath.has(Feature::Discovery) {
        return Err(EngineError::Discover);
    }
    if config.discover && !config.destination_groups.is_empty() {
        return Err(EngineError::DiscoverForGroups);
    }
    check_timers(config)?;
    check_rails(config)?;
    check_second_addr(config)?;
    check_security(config)?;
    if config.mtu == Some(0) {
        return Err(EngineError::Mtu);
    }
    match config.progress {
        Progress::Application => Ok(1),
        Progress::Threads(count) if (1..=MAX_WORKERS).contains(&count) => Ok(count),
        Progress::Threads(count) => Err(EngineError::Threads { count }),
    }
}

/// Validates the timers. A `spin` of any length is valid: with a long one no worker sleeps.
fn check_timers(config: &EngineConfig) -> Result<(), TimerError> {
    TimerError::check("ping_interval", config.ping_interval, LEAST_PING_INTERVAL)?;
    TimerError::check("peer_timeout", config.peer_timeout, Duration::ZERO)?;
    TimerError::check("linger", config.linger, Duration::ZERO)
}

fn check_security(config: &EngineConfig) -> Result<(), EngineError> {
    match &config.security {
        Some(_) if !braid_keys::HAS_CRYPTO => Err(EngineError::KeysAbsent),
        Some(_) if !config.datapath.has(Feature::Keys) => Err(EngineError::KeyOverVerbs),
        Some(security) if security.ciphers.is_empty() => Err(EngineError::NoCipher),
        Some(security) if !KEY_PACKETS_LOG2.contains(&security.key_packets_log2) => {
            Err(EngineError::KeyPackets { log2: security.key_packets_log2 })
        }
        _ => Ok(()),
    }
}

fn check_second_addr(config: &EngineConfig) -> Result<(), EngineError> {
    let (Some(second), first) = (config.second_addr, config.bind.ip()) else { return Ok(()) };
    let refused = |why| Err(EngineError::SecondAddr { first, second, why });
    if first.is_unspecified() || second.is_unspecified() {
        return refused("both have to be addresses of this host; `[::]` alone takes both versions");
    }
    if first.to_canonical().is_ipv4() == second.to_canonical().is_ipv4() {
        return refused("one has to be of IPv4, the other of IPv6");
    }
    if !config.datapath.has(Feature::SecondAddress) {
        return refused("only the datapaths `udp`, `tcp` and `auto` receive at two addresses");
    }
    if !config.rails.is_empty() {
        return refused("with further rails every rail has one address");
    }
    if config.discover {
        return refused("`discover` finds the ways of one address: leave it off");
    }
    Ok(())
}

fn check_rails(config: &EngineConfig) -> Result<(), EngineError> {
    let rails: Vec<IpAddr> =
        std::iter::once(config.bind.ip()).chain(config.rails.clone()).collect();
    let refused = |why| Err(EngineError::Rails { rails: rails.clone(), why });
    if rails.len() == 1 {
        return Ok(());
    }
    if rails.len() > MAX_RAILS {
        return refused("there are at most 8");
    }
    if rails.iter().any(|rail| rail.is_unspecified()) {
        return refused("each needs an address of its own, `bind` too");
    }
    if rails.iter().any(|rail| rail.is_ipv4() != rails[0].is_ipv4()) {
        return refused("take IPv4 addresses only, or IPv6 addresses only");
    }
    if (1..rails.len()).any(|index| rails[..index].contains(&rails[index])) {
        return refused("each address is one rail");
    }
    Ok(())
}

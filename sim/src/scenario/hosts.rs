//! `[hosts]`: the configuration of the hosts.

use std::time::Duration;

use braid_cc::CcConfig;
use braid_lb::LbPolicy;
use braid_transport::LossRecovery;
use serde::Deserialize;

use super::quantity::{Parsed, Share, Text, by_name};
use crate::host::{HostConfig, Paths, Recovery, Sharing};
use crate::time::Ps;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HostKeys {
    lb: Option<Parsed<LbPolicy>>,
    paths: Option<Parsed<PathsName>>,
    sharing: Option<Parsed<Sharing>>,
    health: Option<bool>,
    recovery: Option<Parsed<Recovery>>,
    reorder_threshold: Option<u32>,
    cc: Option<Parsed<CcConfig>>,
    share: Option<Parsed<Share>>,
    ack_every: Option<u32>,
    min_rto: Option<Parsed<Ps>>,
    max_rto: Option<Parsed<Ps>>,
    retry_timeout: Option<Parsed<Ps>>,
    window: Option<u16>,
    direct: Option<bool>,
}

/// The policies that a comparison varies.
#[derive(Clone, Debug)]
pub struct Policies {
    /// The path policy.
    pub lb: LbPolicy,
    /// The congestion control.
    pub cc: CcConfig,
    /// The detection of losses.
    pub recovery: Recovery,
    /// The shortest retransmission time-out. `None`: that of the scenario.
    pub min_rto: Option<Ps>,
}

/// A kind of path numbers in text form: `source`, `hashed:256`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct PathsName(Paths);

impl Text for PathsName {
    const WHAT: &'static str = "kind of paths";
    const EXAMPLE: &'static str = "hashed:256";

    fn from_text(text: &str) -> Result<Self, String> {
        parse_paths(text).map(PathsName)
    }
}

/// Parses `source`, or `hashed:N` with N source ports.
///
/// # Errors
/// The text is neither of them, or N exceeds the number of paths.
pub fn parse_paths(text: &str) -> Result<Paths, String> {
    let most = braid_wire::MAX_PATHS;
    let count = match text.split_once(':') {
        None if text == "source" => return Ok(Paths::Source),
        Some(("hashed", count)) => count.trim().parse().ok(),
        _ => None,
    };
    match count.filter(|count| (1..=most).contains(&usize::from(*count))) {
        Some(count) => Ok(Paths::Hashed(count)),
        None => Err(format!(
            "`{text}` is not a kind of paths; give source, or hashed:1 to hashed:{most}"
        )),
    }
}

impl Text for Sharing {
    const WHAT: &'static str = "sharing of paths";
    const EXAMPLE: &'static str = "edge";

    fn from_text(text: &str) -> Result<Self, String> {
        let known = [
            ("edge", Sharing::Edge),
            ("host", Sharing::Host),
            ("interface", Sharing::Interface),
            ("nothing", Sharing::Nothing),
        ];
        by_name("sharing of paths", text, &known)
    }
}

impl Text for Recovery {
    const WHAT: &'static str = "loss recovery";
    const EXAMPLE: &'static str = "fifo-path";

    fn from_text(text: &str) -> Result<Self, String> {
        parse_recovery(text)
    }
}

/// Parses a loss recovery: a method of the protocol by its name, or `ideal`.
///
/// # Errors
/// No method has this name.
pub fn parse_recovery(text: &str) -> Result<Recovery, String> {
    match text {
        "ideal" => Ok(Recovery::Ideal),
        _ => text
            .parse::<LossRecovery>()
            .map(Recovery::Protocol)
            .map_err(|error| format!("{error}, ideal")),
    }
}

/// Parses a time with its unit, such as `100us` or `1.5 ms`.
///
/// # Errors
/// The text is no time, or it is longer than an hour.
pub fn parse_time(text: &str) -> Result<Ps, String> {
    Ps::from_text(text)
}

impl HostKeys {
    /// Creates the keys that a command line can give. `None`: the value of the model.
    pub(super) fn with(
        lb: Option<LbPolicy>,
        paths: Option<Paths>,
        recovery: Option<Recovery>,
        cc: Option<CcConfig>,
        min_rto: Option<Ps>,
    ) -> HostKeys {
        HostKeys {
            lb: lb.map(Parsed),
            paths: paths.map(|paths| Parsed(PathsName(paths))),
            recovery: recovery.map(Parsed),
            cc: cc.map(Parsed),
            min_rto: min_rto.map(Parsed),
            ..HostKeys::default()
        }
    }

    /// Replaces the policies.
    pub(super) fn set(&mut self, policies: Policies) {
        self.lb = Some(Parsed(policies.lb));
        self.cc = Some(Parsed(policies.cc));
        self.recovery = Some(Parsed(policies.recovery));
        self.min_rto = policies.min_rto.map(Parsed).or(self.min_rto);
    }

    /// Applies the scenario's keys to the hosts of the model or profile; `source`: switches route
    /// by paths.
    pub(super) fn apply(&self, model: HostConfig, source: bool) -> Result<HostConfig, String> {
        let duration = |value: Option<Parsed<Ps>>, model: Duration| {
            value.map_or(model, |Parsed(ps)| Duration::from_nanos(ps.0 / 1000))
        };
        let host = HostConfig {
            lb: self.lb.map_or(model.lb, |Parsed(lb)| lb),
            paths: self.paths.map_or(fitting_paths(model.paths, source), |Parsed(paths)| paths.0),
            sharing: self.sharing.map_or(model.sharing, |Parsed(sharing)| sharing),
            health: self.health.unwrap_or(model.health),
            recovery: self.recovery.map_or(model.recovery, |Parsed(recovery)| recovery),
            reorder_threshold: self.reorder_threshold.unwrap_or(model.reorder_threshold),
            cc: self.cc.clone().map_or(model.cc, |Parsed(cc)| cc),
            share: self.share.map_or(model.share, |Parsed(Share(share))| share),
            ack_every: self.ack_every.unwrap_or(model.ack_every),
            min_rto: duration(self.min_rto, model.min_rto),
            max_rto: duration(self.max_rto, model.max_rto),
            retry_timeout: duration(self.retry_timeout, model.retry_timeout),
            window: self.window.unwrap_or(model.window),
            direct: self.direct.unwrap_or(model.direct),
            ..model
        };
        check(&host)?;
        Ok(host)
    }
}

/// Returns the kind of path numbers that fits the switches, unless the scenario gives one.
pub(super) fn fitting_paths(model: Paths, source: bool) -> Paths {
    match (source, model) {
        (true, _) => Paths::Source,
        (false, Paths::Hashed(count)) => Paths::Hashed(count),
        (false, Paths::Source) => Paths::Hashed(256),
    }
}

fn check(host: &HostConfig) -> Result<(), String> {
    let HostConfig { share, ack_every, min_rto, max_rto, window, reorder_threshold, .. } = *host;
    match () {
        () if share < 0.001 => {
            Err(format!("share = {} % is too little; give 0.1 % to 100 %", share * 100.0))
        }
        () if !(1..=1024).contains(&ack_every) => {
            Err(format!("ack_every = {ack_every} is not possible; give 1 to 1024"))
        }
        () if !(1..=4096).contains(&window) => {
            Err(format!("window = {window} is not possible; give 1 to 4096 packets"))
        }
        () if reorder_threshold == 0 => {
            Err("reorder_threshold = 0 is not possible; give at least 1 packet".into())
        }
        () if min_rto < Duration::from_micros(1) || min_rto > max_rto => Err(format!(
            "min_rto = {min_rto:?} with max_rto = {max_rto:?} is not possible; \
             give 1 us or more, the shorter first"
        )),
        () => Ok(()),
    }
}

//! The defaults in force, and their origin: the library, or `braid-perf` in its place.

use std::time::Duration;

use braid::{EngineConfig, Progress, QpConfig};
use clap::Parser;
use serde::Serialize;
use serde_json::{Value, json};

use crate::engine_args::EngineArgs;
use crate::failure::Failure;
use crate::session;

/// A setting in force.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(super) struct Setting {
    pub(super) name: &'static str,
    /// The value. `null`: not set, so that the datapath decides.
    pub(super) value: Value,
    /// The type of the library that has this default, or `braid-perf`.
    pub(super) from: &'static str,
    /// The option of `braid-perf` that changes it, if there is one.
    pub(super) option: Option<&'static str>,
}

/// A command line without options.
#[derive(Parser)]
struct Nothing {
    #[command(flatten)]
    engine: EngineArgs,
}

/// Name, value and option of a setting.
type Named = (&'static str, Value, Option<&'static str>);

/// Returns all settings.
///
/// # Errors
/// The defaults are not valid together.
pub(super) fn all() -> Result<Vec<Setting>, Failure> {
    let args = Nothing::parse_from(["braid-perf"]).engine;
    let (engine, qp) = (EngineConfig::default(), QpConfig::default());
    let own_engine = session::engine_config(&args, args.port(), None)?;
    let own_qp = QpConfig { cc: args.policy.cc, recovery: args.policy.loss_recovery, ..qp.clone() };
    let mut all = compared("EngineConfig", of_engine(&engine), of_engine(&own_engine));
    all.extend(compared("QpConfig", of_qp(&qp), of_qp(&own_qp)));
    Ok(all)
}

fn compared(library: &'static str, theirs: Vec<Named>, ours: Vec<Named>) -> Vec<Setting> {
    let settings = theirs.into_iter().zip(ours).map(|((_, theirs, _), (name, value, option))| {
        let from = if value == theirs { library } else { "braid-perf" };
        Setting { name, value, from, option }
    });
    settings.collect()
}

fn of_engine(config: &EngineConfig) -> Vec<Named> {
    let progress = match config.progress {
        Progress::Threads(count) => json!(format!("{count} thread(s) of the engine")),
        Progress::Application => json!("the application"),
    };
    let crc = json!(config.crc.map(|crc| format!("{crc:?}").to_lowercase()));
    let groups = Some("--destination-groups");
    vec![
        ("bind", json!(config.bind.to_string()), Some("--bind, --port")),
        ("rails", json!(config.rails), Some("--rails")),
        ("rail_policy", json!(config.rail_policy.name()), Some("--rail-policy")),
        ("progress", progress, Some("--progress")),
        ("paths", json!(config.paths), Some("--paths")),
        ("lb", json!(config.lb.name()), Some("--lb")),
        ("quantum_packets", json!(config.quantum), Some("--quantum")),
        ("destination_groups", json!(!config.destination_groups.is_empty()), groups),
        ("discover", json!(config.discover), Some("--discover")),
        ("mtu", json!(config.mtu), Some("--mtu")),
        ("crc", crc, Some("--crc")),
        ("keyed", json!(config.security.is_some()), Some("--key, --allowed-keys, --security")),
        ("receive_buffer_bytes", json!(config.receive_buffer), None),
        ("spin_us", us(config.spin), None),
        ("ping_interval_us", us(config.ping_interval), None),
        ("peer_timeout_us", us(config.peer_timeout), None),
        ("linger_us", us(config.linger), None),
    ]
}

fn of_qp(config: &QpConfig) -> Vec<Named> {
    vec![
        ("cc", json!(config.cc.to_string()), Some("--cc")),
        ("loss_recovery", json!(config.recovery.name()), Some("--loss-recovery")),
        ("window_packets", json!(config.window), None),
        ("max_rd_atomic", json!(config.max_rd_atomic), None),
        ("reorder_threshold_packets", json!(config.reorder_threshold), None),
        ("ask_every_segments", json!(config.ask_every), None),
        ("reply_hold_us", us(config.reply_hold), None),
        ("min_rto_us", us(config.min_rto), None),
        ("max_rto_us", us(config.max_rto), None),
        ("rnr_retry", json!(config.rnr_retry), None),
        ("rnr_delay_us", us(config.rnr_delay), None),
    ]
}

fn us(span: Duration) -> Value {
    json!(span.as_micros() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_of_braid_perf_are_distinguished_from_those_of_the_library() {
        let all = all().expect("the defaults go together");
        let of = |name: &str| {
            let found = all.iter().find(|setting| setting.name == name).expect("it is listed");
            (found.value.clone(), found.from)
        };
        assert_eq!(of("progress"), (json!("the application"), "braid-perf"));
        assert_eq!(of("bind"), (json!("[::]:4791"), "braid-perf"));
        assert_eq!(of("paths"), (json!(16), "EngineConfig"));
        assert_eq!(of("cc"), (json!("cubic"), "QpConfig"));
    }
}

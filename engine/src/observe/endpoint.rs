//! Where the metrics of an engine can be read.

use std::net::SocketAddr;
use std::str::FromStr;

use crate::environment;

/// The environment variable that says so where the program does not.
const VARIABLE: &str = "BRAID_METRICS";

/// Where the metrics of an engine can be read from outside its process.
///
/// ```
/// use braid::{Engine, EngineConfig, MetricsEndpoint};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let metrics: MetricsEndpoint = "127.0.0.1:0".parse()?;
/// let engine = Engine::new(EngineConfig { bind: "127.0.0.1:0".parse()?, metrics, ..Default::default() })?;
/// println!("curl http://{}/metrics", engine.metrics_addr().ok_or("it is not served")?);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum MetricsEndpoint {
    /// Where the environment variable `BRAID_METRICS` says, in the same words; it is not set, or
    /// ignored ([`crate::environment`]): nowhere.
    #[default]
    Environment,
    /// `off`: nowhere.
    Off,
    /// `local`: by `braid-perf top PID` of the same user, or of root, in the same network
    /// namespace.
    Local,
    /// An address such as `127.0.0.1:9464`, port 0 for any free one: there by HTTP, as Prometheus
    /// does, at `/metrics`, and as `local`. Whoever reaches the address can read it. Engines of one
    /// process that name the same address share it.
    Http(SocketAddr),
}

/// Neither of the words nor an address.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "{name} is `{text}`; write `local`, `off`, or an address with its port, such as 127.0.0.1:9464"
)]
pub struct UnknownEndpoint {
    name: &'static str,
    text: String,
}

impl FromStr for MetricsEndpoint {
    type Err = UnknownEndpoint;

    fn from_str(text: &str) -> Result<Self, UnknownEndpoint> {
        let unknown = || UnknownEndpoint { name: "the metrics endpoint", text: text.to_owned() };
        match text {
            "off" => Ok(MetricsEndpoint::Off),
            "local" => Ok(MetricsEndpoint::Local),
            addr => addr.parse().map(MetricsEndpoint::Http).map_err(|_| unknown()),
        }
    }
}

impl MetricsEndpoint {
    /// What holds: the environment has been asked.
    pub(super) fn resolve(self) -> Result<Self, UnknownEndpoint> {
        let text = match (self, environment::variable(VARIABLE)) {
            (MetricsEndpoint::Environment, Some(text)) if !text.is_empty() => text,
            (MetricsEndpoint::Environment, _) => return Ok(MetricsEndpoint::Off),
            _ => return Ok(self),
        };
        let named = |error: UnknownEndpoint| UnknownEndpoint { name: VARIABLE, ..error };
        text.to_string_lossy().parse().map_err(named)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_addresses_are_understood_and_nothing_else() {
        let addr = "[::1]:9464".parse().expect("an address");
        assert_eq!("[::1]:9464".parse(), Ok(MetricsEndpoint::Http(addr)));
        assert_eq!("local".parse(), Ok(MetricsEndpoint::Local));
        for text in ["", "9464", "localhost:9464", "127.0.0.1", "on"] {
            let error = text.parse::<MetricsEndpoint>().expect_err(text).to_string();
            assert!(error.contains(&format!("`{text}`")) && error.contains("such as"), "{error}");
        }
    }
}

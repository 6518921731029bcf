//! The address of an engine's metrics.

use std::io;
use std::net::SocketAddr;
use std::str::FromStr;

use crate::environment;

/// The environment variable with the address, if the program sets none.
const VARIABLE: &str = "BRAID_METRICS";

/// The address at which other processes can read the metrics of an engine.
///
/// ```
/// use braid::{Engine, EngineConfig, MetricsEndpoint};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let metrics: MetricsEndpoint = "127.0.0.1:0".parse()?;
/// let bind = "127.0.0.1:0".parse()?;
/// let engine = Engine::new(EngineConfig { bind, metrics, ..Default::default() })?;
/// println!("curl http://{}/metrics", engine.metrics_addr().ok_or("it is not served")?);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum MetricsEndpoint {
    /// The value of the environment variable `BRAID_METRICS`, in the same syntax. None if it is not
    /// set or ignored ([`crate::environment`]).
    #[default]
    Environment,
    /// `off`: metrics are not served.
    Off,
    /// `local`: `braid-perf top PID` of the same user, or of root, in the same network namespace.
    Local,
    /// An address such as `127.0.0.1:9464`, with port 0 for any free port. Serves `/metrics` over
    /// HTTP for Prometheus, and `local` too. Every host that reaches the address can read the
    /// metrics. Engines of one process may share an address.
    Http(SocketAddr),
}

/// The text is neither a keyword nor an address.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "{name} is `{text}`; write `local`, `off`, or an address with its port, such as 127.0.0.1:9464"
)]
pub struct UnknownEndpoint {
    name: &'static str,
    text: String,
}

/// The reason why the metrics of an engine cannot be served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EndpointError {
    /// The environment variable is invalid.
    #[error(transparent)]
    Unknown(#[from] UnknownEndpoint),
    /// The address cannot be bound.
    #[error(
        "cannot serve metrics at {addr}: {source}; give each process an address of its own, port 0 \
         for any free one, or `local` for `braid-perf top PID` alone"
    )]
    Http {
        /// The requested address.
        addr: SocketAddr,
        /// The error of the system.
        source: io::Error,
    },
    /// The engine is built without metrics.
    #[error(
        "this program is built without metrics; build it with the feature `metrics` of braid-rdma, \
         or set the metrics (BRAID_METRICS) to `off`"
    )]
    Absent,
    /// The local socket cannot be bound.
    #[error(
        "cannot serve metrics at the local socket @braid-{pid}: {source}; raise the limit of open \
         files (`ulimit -n`) if it is reached, or set the metrics (BRAID_METRICS) to `off`"
    )]
    Local {
        /// The id of this process.
        pid: u32,
        /// The error of the system.
        source: io::Error,
    },
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
    /// The effective setting, with the environment variable resolved.
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

//! A client of this program and its server, each on a host.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde::Deserialize;

use crate::failure::Failure;
use braid_lab::process::Program;

use crate::report::Row;

/// Time limit for a server to listen.
pub(crate) const LISTEN_LIMIT: Duration = Duration::from_secs(10);
/// Time limit for a client to connect and begin.
const BEGIN_LIMIT: Duration = Duration::from_secs(20);
/// Time that a run may take beyond the requested seconds.
pub(crate) const GRACE: Duration = Duration::from_secs(60);

/// A running client with its server.
pub(crate) struct Pair {
    pub(crate) client: Program,
    pub(crate) server: Program,
    /// The client's result file.
    pub(crate) json: PathBuf,
    /// Seconds of the measurement.
    pub(crate) seconds: f64,
}

/// The part of a client's results that is used here.
#[derive(Deserialize)]
struct ClientResults {
    rows: Vec<Row>,
}

impl Pair {
    /// Waits until the client measures, and returns the time.
    pub(crate) fn wait_for_begin(&mut self) -> Result<Instant, Failure> {
        self.client.line(BEGIN_LIMIT)?;
        Ok(Instant::now())
    }

    /// Waits for the end and returns what the client has measured.
    pub(crate) fn finish(mut self) -> Result<Row, Failure> {
        self.client.wait(GRACE + Duration::from_secs_f64(self.seconds))?;
        self.server.wait(GRACE)?;
        let what = || format!("cannot read {}", self.json.display());
        let text =
            std::fs::read_to_string(&self.json).map_err(|why| Failure::Io { what: what(), why })?;
        let results: Result<ClientResults, _> = serde_json::from_str(&text);
        let results = results.map_err(|why| Failure::Trial(format!("{}: {why}", what())))?;
        let first = results.rows.into_iter().next();
        first.ok_or_else(|| Failure::Trial(format!("{}: no rows", what())))
    }
}

//! Attempts to connect.

use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::time::Duration;

use braid::{Connecting as Attempt, DEFAULT_PORT, resolve};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use pyo3::prelude::*;

use crate::errors::Raise;
use crate::process::{Waiting, release};
use crate::queue_pair::QpHandle;
use crate::settings::Settings;
use crate::slot::Slot;

/// The private data of an attempt to connect, and its time.
pub(crate) struct Terms {
    private_data: Vec<u8>,
    timeout: Duration,
}

impl Terms {
    pub(crate) fn read(settings: &mut Settings<'_>) -> PyResult<Self> {
        let mut timeout = Duration::from_secs(10);
        settings.seconds("timeout", &mut timeout)?;
        let private_data = settings.bytes("private_data")?;
        Ok(Terms { private_data, timeout })
    }
}

/// Connects a queue pair, with a look for signals in between.
pub(crate) fn connect(
    py: Python<'_>,
    qp: &Arc<QpHandle>,
    address: &str,
    terms: &Terms,
) -> PyResult<()> {
    let connecting = Connecting::begin(py, qp, address, terms)?;
    // The attempt itself ends in time.
    let waiting = Waiting::begin(py, None)?;
    loop {
        if connecting.is_over(py)? {
            return Ok(());
        }
        let attempt = connecting.attempt.get(py)?;
        let slice = waiting.slice().as_millis() as u16;
        release(py, || {
            let mut fds = [PollFd::new(attempt.as_fd(), PollFlags::POLLIN)];
            // A signal ends it early.
            let _ = poll(&mut fds, PollTimeout::from(slice));
        });
        waiting.is_over(py)?;
    }
}

/// An attempt in progress. Dropping it cancels it.
#[pyclass(frozen)]
pub(crate) struct Connecting {
    attempt: Slot<Attempt>,
    qp: Arc<QpHandle>,
}

impl Connecting {
    pub(crate) fn begin(
        py: Python<'_>,
        handle: &Arc<QpHandle>,
        address: &str,
        terms: &Terms,
    ) -> PyResult<Self> {
        let qp = handle.qp(py)?;
        let addrs = release(py, || resolve(address, DEFAULT_PORT)).raise(py, "ConnectError")?;
        let Terms { private_data, timeout } = terms;
        let attempt = release(py, || qp.begin_connect_any(&addrs, private_data, *timeout));
        let attempt = Slot::new("attempt", attempt.raise(py, "ConnectError")?);
        Ok(Connecting { attempt, qp: handle.clone() })
    }
}

#[pymethods]
impl Connecting {
    fn fileno(&self, py: Python<'_>) -> PyResult<i32> {
        Ok(self.attempt.get(py)?.as_raw_fd())
    }

    /// Whether the queue pair is connected. Raises if the attempt has failed.
    fn is_over(&self, py: Python<'_>) -> PyResult<bool> {
        let attempt = self.attempt.get(py)?;
        let Some(result) = release(py, || attempt.result()) else { return Ok(false) };
        self.qp.set_private_data(result.raise(py, "ConnectError")?);
        Ok(true)
    }

    /// Cancels the attempt.
    fn close(&self, py: Python<'_>) {
        self.attempt.close(py, |_| ());
    }
}

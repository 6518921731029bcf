//! A check, and where it runs.

use std::path::PathBuf;

use crate::net::{Net, Opaque};
use crate::pair::{Pair, Verdict, returns};

/// Where a check runs.
pub(crate) struct Stage {
    pub(crate) plugin: PathBuf,
    pub(crate) net: Net,
}

/// One check.
pub(crate) struct Check {
    pub(crate) name: &'static str,
    /// Versions of the table before this one do not have what is checked.
    pub(crate) since: u32,
    /// Variables for the plugin, beside `BRAID_IFNAME` and `BRAID_DATAPATH`.
    pub(crate) env: &'static [(&'static str, &'static str)],
    /// The check injects faults into datagrams, uses loopback addresses, or needs too much memory
    /// or too many descriptors over verbs.
    pub(crate) udp_only: bool,
    /// The check configures the devices itself.
    pub(crate) picks_devices: bool,
    pub(crate) run: fn(&Stage) -> Verdict,
}

impl Check {
    pub(super) const fn new(name: &'static str, run: fn(&Stage) -> Verdict) -> Self {
        Check { name, since: 6, env: &[], udp_only: false, picks_devices: false, run }
    }

    pub(super) const fn with(mut self, env: &'static [(&'static str, &'static str)]) -> Self {
        self.env = env;
        self
    }

    pub(super) const fn udp_only(mut self) -> Self {
        self.udp_only = true;
        self
    }

    pub(super) const fn picks_devices(mut self) -> Self {
        self.picks_devices = true;
        self
    }

    pub(super) const fn since(mut self, version: u32) -> Self {
        self.since = version;
        self
    }
}

impl Stage {
    /// Initialises, runs, finalises.
    pub(crate) fn session(&self, run: impl FnOnce(&Net, Opaque) -> Verdict) -> Verdict {
        let ctx = self.net.init(None).map_err(|code| format!("init returned {code}"))?;
        run(&self.net, ctx)?;
        returns("finalize", self.net.finalize(ctx), 0)
    }

    /// A session with a connection over the first device.
    pub(crate) fn connected(&self, run: impl FnOnce(&Pair<'_>) -> Verdict) -> Verdict {
        self.session(|net, ctx| {
            let pair = Pair::new(net, ctx, 0)?;
            run(&pair)?;
            pair.close()
        })
    }
}

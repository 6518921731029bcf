//! The flows of a case.

use braid::{CcConfig, LbPolicy};
use braid_lab::Rate;

/// Bytes of a message.
pub(super) const MESSAGE_BYTES: u64 = 64 << 10;
const PORT: u16 = 4791;

/// A sender and its receiver, by the numbers of their hosts.
#[derive(Clone, Debug)]
pub(super) struct Flow {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) sender: FlowSender,
}

#[derive(Clone, Debug)]
pub(super) enum FlowSender {
    /// One process with the controller under test.
    BraidFlow(BraidFlow),
    /// One stream with a congestion control of the kernel.
    Tcp(&'static str),
    /// Datagrams at a constant rate in the second and fourth quarter of the run.
    Udp(Rate),
}

/// The set-up of a Braid process.
#[derive(Clone, Debug)]
pub(super) struct BraidFlow {
    pub(super) queue_pairs: u32,
    pub(super) lb: LbPolicy,
    pub(super) paths: usize,
}

impl Default for BraidFlow {
    fn default() -> Self {
        BraidFlow { queue_pairs: 1, lb: LbPolicy::default(), paths: 16 }
    }
}

impl Flow {
    /// Creates a flow with one queue pair.
    pub(super) fn braid(from: usize, to: usize) -> Self {
        Flow { from, to, sender: FlowSender::BraidFlow(BraidFlow::default()) }
    }
}

/// The work of a Braid client.
pub(super) struct Work {
    /// Bytes posted over all queue pairs.
    pub(super) posted: u64,
    pub(super) seconds: f64,
}

impl BraidFlow {
    /// Returns the command line of a server. Several may run on one host, so each flow has a port.
    pub(super) fn server_args(&self, cc: &CcConfig, flow: usize) -> Vec<String> {
        let mut args = vec!["write-bw".to_owned()];
        let mut option = |name: &str, value: String| args.extend([name.to_owned(), value]);
        option("--progress", "thread".to_owned());
        option("--port", (PORT + flow as u16).to_string());
        option("--cc", cc.to_string());
        option("--lb", self.lb.to_string());
        option("--paths", self.paths.to_string());
        args
    }

    /// Returns the command line of a client of such a server.
    pub(super) fn client_args(
        &self,
        cc: &CcConfig,
        flow: usize,
        (server, json): (&str, &str),
        work: &Work,
    ) -> Vec<String> {
        let mut args = self.server_args(cc, flow);
        args.insert(1, server.to_owned());
        let mut option = |name: &str, value: String| args.extend([name.to_owned(), value]);
        let depth = work.posted.div_ceil(MESSAGE_BYTES * u64::from(self.queue_pairs)).max(2);
        option("--size", MESSAGE_BYTES.to_string());
        option("--tx-depth", depth.to_string());
        option("--qps", self.queue_pairs.to_string());
        option("--duration", work.seconds.to_string());
        option("--json", json.to_owned());
        args
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, Command};

    #[test]
    fn the_command_lines_are_understood() {
        let cc: CcConfig = "swift".parse().unwrap();
        let braid = BraidFlow { queue_pairs: 8, lb: LbPolicy::REPS, paths: 64 };
        let work = Work { posted: 8 << 20, seconds: 1.5 };
        let args = braid.client_args(&cc, 3, ("10.80.0.2", "out.json"), &work);
        let cli = Cli::try_parse_from(["braid-perf".to_owned()].into_iter().chain(args)).unwrap();
        let Command::WriteBw(test) = cli.command else { panic!("another test") };
        assert_eq!(
            (test.host.as_deref(), test.load.qps, test.load.tx_depth),
            (Some("10.80.0.2"), 8, Some(16))
        );
        assert_eq!(
            (test.engine.policy.cc, test.engine.port, test.load.duration),
            (cc, Some(4794), Some(1.5))
        );
        assert_eq!((test.engine.policy.lb, test.engine.policy.paths), (LbPolicy::REPS, 64));
    }
}

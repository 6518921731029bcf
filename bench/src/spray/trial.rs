//! The parameters of one run, and the command lines that set them.

use braid::congestion::FixedWindow;
use braid::{CcConfig, LbPolicy, LossRecovery};

/// Number of paths, unless a scenario varies it: all 64 that the low six bits of a path
/// distinguish.
pub(super) const PATHS: usize = 64;
/// Bytes of a message.
pub(super) const MESSAGE_BYTES: u64 = 64 << 10;
/// Bytes in flight over all queue pairs of a run: several times the capacity of an idle fabric of
/// 800 Mbit/s (100 us). With it one queue pair has been observed to fill all links and to lose
/// nothing.
pub(super) const WINDOW_BYTES: u64 = 64 << 10;
/// Minimum bytes in flight per queue pair: a few packets.
const MIN_WINDOW_BYTES: u64 = 8 << 10;
/// Bytes posted over all queue pairs of a run, and the minimum messages per queue pair.
const POSTED_BYTES: u64 = 4 << 20;
const MIN_DEPTH: u64 = 4;

/// The amount that a run sends.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Amount {
    Seconds(f64),
    /// Messages per queue pair.
    Messages(u64),
}

/// The sender of a run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Sender {
    BraidSender(BraidSender),
    /// A number of TCP streams.
    Tcp(u32),
}

/// One client with one server.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct BraidSender {
    pub(super) policy: LbPolicy,
    pub(super) recovery: LossRecovery,
    pub(super) queue_pairs: u32,
    /// Whether paths and congestion control are the defaults, instead of `paths` and `window`.
    pub(super) ships: bool,
    pub(super) paths: usize,
    /// Bytes in flight per queue pair.
    pub(super) window: u64,
    /// Whether every byte is checked.
    pub(super) verify: bool,
    /// Whether path discovery runs first.
    pub(super) discover: bool,
    /// Milliseconds between samples of the goodput.
    pub(super) interval_ms: Option<u64>,
}

impl BraidSender {
    /// Creates a sender with one queue pair.
    pub(super) fn new(policy: LbPolicy, recovery: LossRecovery, window: u64) -> Self {
        let (queue_pairs, paths, interval_ms) = (1, PATHS, None);
        let (ships, verify, discover) = (false, false, false);
        BraidSender {
            policy,
            recovery,
            queue_pairs,
            ships,
            paths,
            window,
            verify,
            discover,
            interval_ms,
        }
    }

    /// Creates a sender with all defaults but the path policy.
    pub(super) fn shipped(policy: LbPolicy) -> Self {
        let sender = BraidSender::new(policy, LossRecovery::FifoPath, WINDOW_BYTES);
        BraidSender { ships: true, ..sender }
    }

    /// Sets the number of queue pairs, of `all` that share the window.
    pub(super) fn queue_pairs(mut self, count: u32, all: u32) -> Self {
        self.queue_pairs = count;
        self.window = (self.window / u64::from(all)).max(MIN_WINDOW_BYTES);
        self
    }

    pub(super) fn server_args(&self, port: u16) -> Vec<String> {
        let mut args = vec!["write-bw".to_owned()];
        let mut option = |name: &str, value: String| args.extend([name.to_owned(), value]);
        option("--port", port.to_string());
        option("--progress", "thread".to_owned());
        option("--lb", self.policy.to_string());
        if !self.ships {
            option("--paths", self.paths.to_string());
            option("--cc", CcConfig::new(FixedWindow { window: self.window }).to_string());
        }
        args
    }

    pub(super) fn client_args(
        &self,
        server: &str,
        port: u16,
        amount: Amount,
        json: &str,
    ) -> Vec<String> {
        let mut args = self.server_args(port);
        args.insert(1, server.to_owned());
        let mut option = |name: &str, value: String| args.extend([name.to_owned(), value]);
        let depth = POSTED_BYTES / MESSAGE_BYTES / u64::from(self.queue_pairs);
        option("--size", MESSAGE_BYTES.to_string());
        option("--tx-depth", depth.max(MIN_DEPTH).to_string());
        option("--qps", self.queue_pairs.to_string());
        option("--loss-recovery", self.recovery.to_string());
        option("--discover", if self.discover { "on" } else { "off" }.to_owned());
        option("--json", json.to_owned());
        match amount {
            Amount::Seconds(seconds) => option("--duration", seconds.to_string()),
            Amount::Messages(messages) => option("--iters", messages.to_string()),
        }
        if let Some(ms) = self.interval_ms {
            option("--interval", ms.to_string());
        }
        if self.verify {
            args.push("--verify".to_owned());
        }
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
        let mut braid =
            BraidSender::new(LbPolicy::PRO, LossRecovery::FifoPath, WINDOW_BYTES).queue_pairs(4, 4);
        (braid.verify, braid.interval_ms) = (true, Some(5));
        let args = braid.client_args("10.80.1.1", 4791, Amount::Seconds(1.5), "out.json");
        let cli = Cli::try_parse_from(["braid-perf".to_owned()].into_iter().chain(args)).unwrap();
        let Command::WriteBw(test) = cli.command else { panic!("another test") };
        assert_eq!(
            (test.host.as_deref(), test.load.qps, test.output.interval),
            (Some("10.80.1.1"), 4, Some(5))
        );
        assert_eq!(
            (test.engine.policy.lb, test.engine.policy.loss_recovery),
            (LbPolicy::PRO, LossRecovery::FifoPath)
        );
        assert_eq!(test.engine.policy.cc, CcConfig::new(FixedWindow { window: WINDOW_BYTES / 4 }));
        assert_eq!(
            (test.load.tx_depth, test.load.duration, test.verify),
            (Some(16), Some(1.5), true)
        );

        let shipped = BraidSender::shipped(LbPolicy::ADAPTIVE).server_args(1);
        let cli =
            Cli::try_parse_from(["braid-perf".to_owned()].into_iter().chain(shipped)).unwrap();
        let Command::WriteBw(test) = cli.command else { panic!("another test") };
        let defaults = Cli::try_parse_from(["braid-perf", "write-bw"]).unwrap();
        let Command::WriteBw(default) = defaults.command else { panic!("another test") };
        let policies = [test, default].map(|test| test.engine.policy);
        let [ours, default] = policies.map(|policy| (policy.lb, policy.paths, policy.cc));
        assert_eq!(ours, default);

        let args = braid.server_args(1);
        let cli = Cli::try_parse_from(["braid-perf".to_owned()].into_iter().chain(args)).unwrap();
        let Command::WriteBw(test) = cli.command else { panic!("another test") };
        assert_eq!((test.host, test.engine.port, test.engine.policy.paths), (None, Some(1), PATHS));
    }
}

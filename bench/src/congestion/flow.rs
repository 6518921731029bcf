//! Who sends to whom, and the command lines that say so.

use braid::CcConfig;

/// Bytes of a message.
pub(super) const MESSAGE_BYTES: u64 = 64 << 10;
const PORT: u16 = 4791;

/// A sender and its receiver, by the numbers of their hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Flow {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) sender: Sender,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Sender {
    /// So many queue pairs of one process, each with the controller that is judged.
    Braid { queue_pairs: u32 },
}

impl Flow {
    /// One queue pair.
    pub(super) fn braid(from: usize, to: usize) -> Self {
        Flow { from, to, sender: Sender::Braid { queue_pairs: 1 } }
    }
}

/// What a client of Braid is told.
pub(super) struct Client<'a> {
    pub(super) cc: &'a CcConfig,
    pub(super) queue_pairs: u32,
    /// Bytes that are posted over all queue pairs.
    pub(super) posted: u64,
    pub(super) seconds: f64,
}

/// The port of the server of a flow: several may run on one host.
pub(super) fn port(flow: usize) -> u16 {
    PORT + flow as u16
}

/// The command line of a server.
pub(super) fn server_args(cc: &CcConfig, flow: usize) -> Vec<String> {
    let port = port(flow).to_string();
    let cc = cc.to_string();
    ["write-bw", "--progress", "thread", "--port", &port, "--cc", &cc].map(str::to_owned).to_vec()
}

impl Client<'_> {
    /// The command line of a client of such a server.
    pub(super) fn args(&self, server: &str, flow: usize, json: &str) -> Vec<String> {
        let mut args = server_args(self.cc, flow);
        args.insert(1, server.to_owned());
        let mut option = |name: &str, value: String| args.extend([name.to_owned(), value]);
        let depth = self.posted.div_ceil(MESSAGE_BYTES * u64::from(self.queue_pairs)).max(2);
        option("--size", MESSAGE_BYTES.to_string());
        option("--tx-depth", depth.to_string());
        option("--qps", self.queue_pairs.to_string());
        option("--duration", self.seconds.to_string());
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
        let client = Client { cc: &cc, queue_pairs: 8, posted: 8 << 20, seconds: 1.5 };
        let args = client.args("10.80.0.2", 3, "out.json");
        let cli = Cli::try_parse_from(["braid-perf".to_owned()].into_iter().chain(args)).unwrap();
        let Command::WriteBw(test) = cli.command else { panic!("another test") };
        assert_eq!(
            (test.host.as_deref(), test.qps, test.tx_depth),
            (Some("10.80.0.2"), 8, Some(16))
        );
        assert_eq!((test.engine.cc, test.engine.port, test.duration), (cc, Some(4794), Some(1.5)));
    }
}

//! The command line.

use std::net::IpAddr;
use std::path::PathBuf;

use braid::LbPolicy;
use braid::congestion::ReactionPointConfig;
use braid_lab::pages::named;
use clap::{Args, Parser, Subcommand, ValueEnum};
use serde::{Deserialize, Serialize};

use crate::engine_args::{EngineArgs, policies};
use crate::perftest::PerftestOptions;
use crate::quantities::{parse_seconds, parse_size};
use crate::table::Unit;

/// Benchmarks for Braid in the manner of perftest.
///
/// Without HOST a test is the server: it waits for one client, serves it and exits. The client
/// decides what is measured. `--loopback` runs both ends on this machine, in two processes.
#[derive(Parser, Debug)]
#[command(name = "braid-perf", version, propagate_version = true, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Bandwidth of RDMA WRITE.
    WriteBw(TestArgs),
    /// Bandwidth of RDMA READ.
    ReadBw(TestArgs),
    /// Bandwidth of SEND.
    SendBw(TestArgs),
    /// Latency of RDMA WRITE, half a round trip.
    WriteLat(TestArgs),
    /// Latency of RDMA READ, the whole operation.
    ReadLat(TestArgs),
    /// Latency of SEND, half a round trip.
    SendLat(TestArgs),
    /// Latency of atomics, the whole operation.
    AtomicLat(TestArgs),
    /// An all-to-all between many ranks, with the traffic matrices of RailS.
    Alltoall(crate::alltoall::AllToAllArgs),
    /// Dispatch and combine of a mixture of experts: small puts, with a signal per expert.
    Moe(crate::moe::MoeArgs),
    /// Braid compared with the raw limits of this machine, interleaved, as ratios.
    Ceiling(CeilingArgs),
    /// The route of each source port to a host, found by probing.
    Paths(PathsArgs),
    /// Version, interfaces, RDMA devices, the offers of each datapath, policies, and defaults with
    /// their origin.
    Info(InfoArgs),
    /// Live view of a running program's engines: queue pairs, rails, paths, rates, losses.
    Top(crate::top::TopArgs),
    /// Path policies and loss recovery methods on a leaf-spine fabric of network namespaces with
    /// failing links.
    ///
    /// Needs root, and `ip`, `tc` and `nft`. Clients run on the first leaf, servers on the second.
    Spray(SprayArgs),
    /// Congestion controls on emulated bottlenecks: one flow, beside TCP, many to one, unequal
    /// paths, ECN.
    ///
    /// Needs root and `ip`. The measured programs run without privilege.
    Congestion(crate::congestion::CongestionOptions),
    /// Braid compared with other transports between two network namespaces: interleaved, medians,
    /// ratios.
    ///
    /// Needs root and `ip`. If the program of a peer is not installed, the result names its
    /// package.
    Compare(crate::compare::CompareOptions),
    /// Makes a file with a new key for `--key`, which only this user can read. Never overwrites a
    /// file.
    Keygen {
        /// The file.
        file: PathBuf,
        /// Makes a private key of this host only. Its public key goes to standard output, as a line
        /// for `--allowed-keys` of other hosts.
        #[arg(long = "static")]
        is_static: bool,
    },
    /// The other process of a raw peer, started by `ceiling`.
    #[command(hide = true)]
    PeerServer(crate::peer::options::ServeOptions),
    /// The measuring process of a raw peer on another host, started by `compare`.
    #[command(name = crate::peer::options::CLIENT_SUBCOMMAND, hide = true)]
    PeerClient(crate::peer::options::ClientOptions),
    /// Man pages and completions; the installation writes them.
    #[command(name = braid_lab::pages::COMMAND, hide = true)]
    WritePages(braid_lab::pages::Options),
    /// The process that delays links of a fabric; the fabric starts it.
    #[command(name = braid_lab::relay::SUBCOMMAND, hide = true)]
    FabricRelay {
        /// Name of the fabric.
        name: String,
    },
}

/// The test of a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Test {
    WriteBw,
    ReadBw,
    SendBw,
    WriteLat,
    ReadLat,
    SendLat,
    AtomicLat,
}

impl Test {
    /// Returns the name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Test::WriteBw => "write-bw",
            Test::ReadBw => "read-bw",
            Test::SendBw => "send-bw",
            Test::WriteLat => "write-lat",
            Test::ReadLat => "read-lat",
            Test::SendLat => "send-lat",
            Test::AtomicLat => "atomic-lat",
        }
    }

    pub(crate) fn is_latency(self) -> bool {
        !matches!(self, Test::WriteBw | Test::ReadBw | Test::SendBw)
    }

    pub(crate) fn default_size(self) -> u64 {
        match self {
            Test::WriteBw | Test::ReadBw | Test::SendBw => 64 << 10,
            _ => 8,
        }
    }
}

#[derive(Args, Clone, Debug)]
pub(crate) struct TestArgs {
    /// Name or address of the server, also as `HOST:PORT` and `[IPv6]:PORT`. All addresses of a
    /// name are tried. Without it, this is the server.
    pub(crate) host: Option<String>,
    #[command(flatten)]
    pub(crate) load: LoadArgs,
    /// Atomic operation (atomic-lat).
    #[arg(short = 'A', long, alias = "atomic_type", value_enum,
        default_value_t = AtomicKind::FetchAndAdd)]
    pub(crate) atomic: AtomicKind,
    /// Sleep until a completion arrives, on both sides, instead of polling (send-lat, read-lat,
    /// atomic-lat).
    #[arg(short = 'e', long)]
    pub(crate) events: bool,
    /// Both ends on this machine, in two processes (one with `--datapath mem`).
    #[arg(long, conflicts_with = "host")]
    pub(crate) loopback: bool,
    /// As the server, exit after the first client, even if it fails. `--loopback` sets this.
    #[arg(long, hide = true)]
    pub(crate) once: bool,
    /// As the server, serve one client after the other until interrupted. Clients that connect
    /// meanwhile wait for their turn [default: exit after one client, as perftest does]
    #[arg(long)]
    pub(crate) forever: bool,
    /// As the client, seconds to wait for the server, also if it has not started yet [default: 10,
    /// and not at all if no server listens]
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    pub(crate) connect_timeout: Option<f64>,
    /// Check every byte.
    #[arg(long)]
    pub(crate) verify: bool,
    /// Measure plain RoCEv2 instead of Braid's protocol: one path, go-back-N, no protection. As the
    /// client; the server follows. With -m, the path MTU is 256, 512, 1024, 2048 or 4096 [default:
    /// the largest that fits the route].
    #[arg(long)]
    pub(crate) roce: bool,
    /// With --roce, congestion control by DCQCN at both ends: the rate of the link, such as 25G,
    /// and parameters [default: none]
    #[arg(long, value_name = "RATE", requires = "roce")]
    pub(crate) dcqcn: Option<ReactionPointConfig>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) engine: EngineArgs,
    #[command(flatten)]
    pub(crate) perftest: PerftestOptions,
}

/// The messages of a test.
#[derive(Args, Clone, Debug)]
pub(crate) struct LoadArgs {
    /// Bytes of a message, at most 1 GiB; 64K and 1M are understood [default: 65536, latency: 8]
    #[arg(short = 's', long, value_parser = parse_size)]
    pub(crate) size: Option<u64>,
    /// Messages per queue pair [default: enough for about a second]
    #[arg(short = 'n', long, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) iters: Option<u64>,
    /// Queue pairs.
    #[arg(short = 'q', long, alias = "qp", default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..=16384))]
    pub(crate) qps: u32,
    /// All sizes from 2 bytes to 8 MiB.
    #[arg(short = 'a', long, conflicts_with = "size")]
    pub(crate) all: bool,
    /// Seconds to run instead of a number of messages.
    #[arg(short = 'D', long, conflicts_with = "iters", value_parser = parse_seconds)]
    pub(crate) duration: Option<f64>,
    /// Both directions at once (bandwidth tests).
    #[arg(short = 'b', long)]
    pub(crate) bidirectional: bool,
    /// Messages outstanding per queue pair [default: 8 MiB worth, 2 to 128; with --verify, over all
    /// queue pairs together]
    #[arg(short = 't', long, value_parser = clap::value_parser!(u32).range(1..=8192))]
    pub(crate) tx_depth: Option<u32>,
}

/// The figures of a test, and the place where they are written.
#[derive(Args, Clone, Debug)]
pub(crate) struct OutputArgs {
    /// Milliseconds between samples of the goodput, which `--json` records. With -D, samples of 100
    /// ms and more are also printed at once (bandwidth tests).
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..=60_000))]
    pub(crate) interval: Option<u64>,
    /// Use 10^9 bits per second instead of MiB per second in the table (bandwidth tests).
    #[arg(long = "report_gbits")]
    pub(crate) report_gbits: bool,
    /// Do not measure the peak, which is measured in one direction, for up to 20000 messages,
    /// without -D (bandwidth tests).
    #[arg(short = 'N', long = "no-peak", alias = "noPeak")]
    pub(crate) no_peak: bool,
    /// Print the time of every message, in ascending order (latency tests).
    #[arg(short = 'H', long, alias = "report-histogrm", conflicts_with = "duration")]
    pub(crate) report_histogram: bool,
    /// Print the time of every message, in order of arrival (latency tests).
    #[arg(short = 'U', long, conflicts_with = "duration")]
    pub(crate) report_unsorted: bool,
    /// Write the results to this file too, as JSON; `-` is standard output, and the table then goes
    /// to standard error.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

impl OutputArgs {
    /// Returns the unit of bandwidths in the table.
    pub(crate) fn unit(&self) -> Unit {
        if self.report_gbits { Unit::Gbits } else { Unit::Mib }
    }
}

#[derive(Args, Clone, Debug)]
pub(crate) struct CeilingArgs {
    /// Rounds; every contestant runs once in each.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) rounds: u32,
    /// Seconds of measurement per contestant and round.
    #[arg(long, default_value_t = 0.5, value_parser = parse_seconds)]
    pub(crate) seconds: f64,
    /// Write the results to this file too; `-` is standard output.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Path policy.
    #[arg(long, default_value_t, value_name = "POLICY", value_parser = named::<LbPolicy>(policies))]
    pub(crate) lb: LbPolicy,
    /// Paths to the peer.
    #[arg(long, default_value_t = braid::paths::PathSet::DEFAULT_PATHS)]
    pub(crate) paths: usize,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct PathsArgs {
    /// Name or address of the host, also as `HOST:PORT` and `[IPv6]:PORT`. No server needs to run
    /// there.
    pub(crate) host: String,
    /// UDP port that the packets go to.
    #[arg(short = 'p', long, default_value_t = braid::DEFAULT_PORT,
        value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) port: u16,
    /// Local address to send from [default: any]
    #[arg(long)]
    pub(crate) bind: Option<IpAddr>,
    /// Paths to probe, 1 to 4096; each is a UDP source port.
    #[arg(long, default_value_t = 64,
        value_parser = clap::value_parser!(u16).range(1..=braid::MAX_PATHS as i64))]
    pub(crate) paths: u16,
    /// Write the map to this file too; `-` is standard output.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct InfoArgs {
    /// Write the information as JSON: to FILE in addition to the text, or without FILE to standard
    /// output instead of it
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    pub(crate) json: Option<PathBuf>,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct SprayArgs {
    /// Write results.json and plots (SVG) into this folder.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Run a subset of the runs, each shortened: under a minute.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Only these scenarios, in the usual order; an unknown name lists them all
    #[arg(long, value_name = "SCENARIO,..", value_delimiter = ',',
        value_parser = named::<String>(crate::spray::scenario_names))]
    pub(crate) only: Vec<String>,
    /// Seconds of a run without events [default: 2, with --quick 0.6]
    #[arg(long, value_parser = parse_seconds)]
    pub(crate) seconds: Option<f64>,
    /// Existing fabric (`cargo xtask fabric up`), with the scenarios that suit it [default: a new
    /// fabric per scenario]
    #[arg(long, value_name = "NAME")]
    pub(crate) fabric: Option<String>,
    /// Write the results to this file too; `-` is standard output.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum AtomicKind {
    /// 8-byte fetch and add.
    #[value(name = "FETCH_AND_ADD")]
    FetchAndAdd,
    /// 8-byte compare and swap.
    #[value(name = "CMP_AND_SWAP")]
    CmpAndSwap,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }
}

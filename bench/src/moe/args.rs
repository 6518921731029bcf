//! Arguments of `moe`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};

use super::routing::Pattern;
use crate::engine_args::EngineArgs;
use crate::quantities::parse_size;

#[derive(Args, Clone, Debug)]
pub(crate) struct MoeArgs {
    /// Starts all ranks on this machine, each in a process of its own [default: one rank, given by
    /// RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, or by mpirun or srun]
    #[arg(long, requires = "ranks")]
    pub(super) loopback: bool,
    /// Number of ranks with --loopback.
    #[arg(short = 'n', long, value_parser = clap::value_parser!(u16).range(2..=1024))]
    pub(super) ranks: Option<u16>,
    /// Number of rails of each rank with --loopback, each with an address of its own.
    #[arg(long, value_name = "COUNT", requires = "loopback", conflicts_with = "rails",
          value_parser = clap::value_parser!(u8).range(1..=8))]
    pub(super) loopback_rails: Option<u8>,
    /// Bytes of a token: those of one put. 7K and 14K are understood.
    #[arg(short = 's', long, default_value = "7K", value_parser = parse_token)]
    pub(super) size: u32,
    /// Tokens of each rank in a round.
    #[arg(long, default_value_t = 128, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub(super) tokens: u32,
    /// Experts of each rank.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(super) experts: u32,
    /// Experts that each token is sent to.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(super) top_k: u32,
    /// Exponent of the Zipf distribution of tokens over experts; 0 chooses all alike.
    #[arg(long, default_value_t = 0.5, value_parser = parse_zipf)]
    pub(super) zipf: f64,
    /// Contestants, in turn in each round.
    #[arg(long, value_name = "NAME,..", value_delimiter = ',',
          default_values_t = Carrier::ALL)]
    pub(super) only: Vec<Carrier>,
    /// Measured rounds of each contestant, after one warm-up round.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(super) rounds: u32,
    /// Checks every byte of every round.
    #[arg(long)]
    pub(super) verify: bool,
    /// Makes rank 0 write the results to this file too.
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
    #[command(flatten)]
    pub(super) engine: EngineArgs,
}

/// A way to carry tokens into the memory of another rank.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Carrier {
    /// RDMA WRITEs and atomic additions of Braid.
    Braid,
    /// A TCP connection per pair of ranks; a put follows when the last one is acknowledged.
    TcpStopAndWait,
    /// A TCP connection per pair of ranks; puts follow one another.
    TcpPipelined,
}

impl MoeArgs {
    pub(super) fn pattern(&self) -> Pattern {
        Pattern {
            tokens: self.tokens as usize,
            experts: self.experts as usize,
            top_k: self.top_k as usize,
            zipf: self.zipf,
            seed: self.engine.seed,
        }
    }
}

impl Carrier {
    const ALL: [Carrier; 3] = [Carrier::Braid, Carrier::TcpStopAndWait, Carrier::TcpPipelined];

    pub(super) fn name(self) -> &'static str {
        match self {
            Carrier::Braid => "braid",
            Carrier::TcpStopAndWait => "tcp-stop-and-wait",
            Carrier::TcpPipelined => "tcp-pipelined",
        }
    }
}

impl std::fmt::Display for Carrier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// The most bytes of a token.
const MOST: u64 = 1 << 20;

fn parse_token(text: &str) -> Result<u32, String> {
    match parse_size(text)? {
        size @ 1..=MOST => Ok(size as u32),
        size => Err(format!("{size} is not in 1 to {MOST}")),
    }
}

fn parse_zipf(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(exponent) if (0.0..=4.0).contains(&exponent) => Ok(exponent),
        _ => Err("not a number from 0 to 4".to_owned()),
    }
}

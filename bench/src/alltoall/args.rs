//! What people type after `alltoall`.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

use braid::RailScheme;
use braid_lab::traffic::Workload;
use clap::Args;

use super::fabric::Shape;
use crate::cli::EngineArgs;
use crate::quantities::parse_size;

/// Rails of a rank on this machine: 127.20.0.0/16 and so on, one address of each for each rank.
const FIRST_LOOPBACK: u8 = 20;

#[derive(Args, Clone, Debug)]
pub(crate) struct AllToAllArgs {
    /// Starts all ranks on this machine, in processes of their own [default: this is one rank, by RANK, WORLD_SIZE, MASTER_ADDR
    /// and MASTER_PORT, or what mpirun or srun set]
    #[arg(long, requires = "ranks")]
    pub(crate) loopback: bool,
    /// Ranks with --loopback.
    #[arg(short = 'n', long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) ranks: Option<u16>,
    /// Rails of each rank with --loopback, each an address of its own.
    #[arg(long, value_name = "COUNT", requires = "loopback", conflicts_with = "rails",
          value_parser = clap::value_parser!(u8).range(1..=8))]
    pub(crate) loopback_rails: Option<u8>,
    /// Makes a fabric of so many hosts and rails in network namespaces, with a rank on each host, and runs every matrix with every
    /// rail policy, and with MPI_Alltoallv of Open MPI over TCP beside it. Needs root, `ip`, `tc`, `nft`, `mpicc` and `mpirun`
    #[arg(long, value_name = "DOMAINSxRAILS", num_args = 0..=1, default_missing_value = "4x4", require_equals = true,
          conflicts_with_all = ["loopback", "rails", "bind", "rail_policy"])]
    pub(crate) fabric: Option<Shape>,
    /// Rail policies with --fabric [default: all]
    #[arg(long, value_name = "NAME,..", value_delimiter = ',', requires = "fabric")]
    pub(crate) rail_policies: Vec<RailScheme>,
    /// With --fabric: a folder for results and the table in Markdown.
    #[arg(long, value_name = "DIR", requires = "fabric")]
    pub(crate) out: Option<PathBuf>,
    /// Traffic matrices, one after the other; an unknown name lists them all [default: all of RailS]
    #[arg(long, value_name = "NAME,..", value_delimiter = ',')]
    pub(crate) matrix: Vec<Workload>,
    /// Bytes for each pair of ranks on average; 64K and 1M are understood.
    #[arg(short = 's', long, default_value = "1M", value_parser = parse_size)]
    pub(crate) size: u64,
    /// Rounds of each matrix that are measured, after one that is not.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) rounds: u32,
    /// What a rail carries, as in 100mbit: the results then say how far they are from the bound [with --fabric: 100mbit]
    #[arg(long)]
    pub(crate) rate: Option<braid_lab::Rate>,
    /// Check every byte of every round.
    #[arg(long)]
    pub(crate) verify: bool,
    /// Rank 0 writes the results there, too.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) engine: EngineArgs,
}

impl AllToAllArgs {
    /// The workloads that are asked for.
    pub(crate) fn workloads(&self) -> Vec<Workload> {
        match self.matrix.is_empty() {
            true => Workload::all(),
            false => self.matrix.clone(),
        }
    }

    /// The rail policies of a fabric.
    pub(super) fn policies(&self) -> Vec<RailScheme> {
        match self.rail_policies.is_empty() {
            true => RailScheme::ALL.to_vec(),
            false => self.rail_policies.clone(),
        }
    }
}

/// Where a rank of `--loopback` receives on each of its rails.
pub(super) fn loopback_address(rail: u8, rank: u16) -> IpAddr {
    let [high, low] = (rank + 1).to_be_bytes();
    Ipv4Addr::new(127, FIRST_LOOPBACK + rail, high, low).into()
}

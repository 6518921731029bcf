//! Arguments of `alltoall`.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

use braid::RailScheme;
use braid_lab::pages::named;
use braid_lab::traffic::Workload;
use clap::Args;

use super::fabric::Shape;
use crate::engine_args::{EngineArgs, rail_schemes};
use crate::quantities::parse_size;

/// The first loopback network of a rank's rails: 127.20.0.0/16, then 127.21.0.0/16 and so on, with
/// one address per rank.
const FIRST_LOOPBACK: u8 = 20;

#[derive(Args, Clone, Debug)]
pub(crate) struct AllToAllArgs {
    /// Starts all ranks on this machine, each in a process of its own [default: one rank, given by
    /// RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, or by mpirun or srun]
    #[arg(long, requires = "ranks")]
    pub(crate) loopback: bool,
    /// Number of ranks with --loopback.
    #[arg(short = 'n', long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) ranks: Option<u16>,
    /// Number of rails of each rank with --loopback, each with an address of its own.
    #[arg(long, value_name = "COUNT", requires = "loopback", conflicts_with = "rails",
          value_parser = clap::value_parser!(u8).range(1..=8))]
    pub(crate) loopback_rails: Option<u8>,
    /// Makes a fabric with this number of hosts and rails in network namespaces, with a rank on
    /// each host. Runs every matrix with every rail policy, and with MPI_Alltoallv of Open MPI over
    /// TCP. Needs root, `ip`, `tc`, `nft`, `mpicc` and `mpirun`
    #[arg(long, value_name = "DOMAINSxRAILS", num_args = 0..=1, default_missing_value = "4x4",
        require_equals = true,
          conflicts_with_all = ["loopback", "rails", "bind", "rail_policy"])]
    pub(crate) fabric: Option<Shape>,
    /// Rail policies with --fabric [default: all]
    #[arg(long, value_name = "NAME,..", value_delimiter = ',', requires = "fabric",
        value_parser = named::<RailScheme>(rail_schemes))]
    pub(crate) rail_policies: Vec<RailScheme>,
    /// Folder for results and the table in Markdown, with --fabric.
    #[arg(long, value_name = "DIR", requires = "fabric")]
    pub(crate) out: Option<PathBuf>,
    /// Traffic matrices, one after the other; an unknown name lists them all [default: all of
    /// RailS]
    #[arg(long, value_name = "NAME,..", value_delimiter = ',')]
    pub(crate) matrix: Vec<Workload>,
    /// Mean bytes per pair of ranks; 64K and 1M are understood.
    #[arg(short = 's', long, default_value = "1M", value_parser = parse_size)]
    pub(crate) size: u64,
    /// Measured rounds of each matrix, after one warm-up round.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) rounds: u32,
    /// Rate of a rail, such as 100mbit; the results then include the ratio to the lower bound [with
    /// --fabric: 100mbit]
    #[arg(long)]
    pub(crate) rate: Option<braid_lab::Rate>,
    /// Checks every byte of every round.
    #[arg(long)]
    pub(crate) verify: bool,
    /// Makes rank 0 write the results to this file too.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) engine: EngineArgs,
}

impl AllToAllArgs {
    /// Returns the requested workloads.
    pub(crate) fn workloads(&self) -> Vec<Workload> {
        match self.matrix.is_empty() {
            true => Workload::all(),
            false => self.matrix.clone(),
        }
    }

    /// Returns the rail policies of a fabric run.
    pub(super) fn policies(&self) -> Vec<RailScheme> {
        match self.rail_policies.is_empty() {
            true => RailScheme::ALL.to_vec(),
            false => self.rail_policies.clone(),
        }
    }
}

/// Returns the address of a rail of a rank with `--loopback`.
pub(super) fn loopback_address(rail: u8, rank: u16) -> IpAddr {
    let [high, low] = (rank + 1).to_be_bytes();
    Ipv4Addr::new(127, FIRST_LOOPBACK + rail, high, low).into()
}

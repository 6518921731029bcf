//! The configuration of a group, which each rank has.

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use braid_cc::CcConfig;

use super::error::GroupError;
use super::hello::{MAX_JOB, is_job};

/// The largest number of ranks in a group.
pub const MAX_SIZE: usize = 4096;
/// The default of [`GroupConfig::timeout`].
const TIMEOUT: Duration = Duration::from_secs(30);

/// The rank of this process in a group, and the addresses of the others. [`super::Group`] shows its
/// use.
///
/// Later versions may add fields, so begin with [`GroupConfig::with_root`], [`GroupConfig::listed`]
/// or [`GroupConfig::from_env`].
///
/// ```
/// use std::time::Duration;
///
/// use braid::GroupConfig;
///
/// let mut config = GroupConfig::with_root(3, 8, "192.0.2.1:4791".parse().unwrap());
/// config.timeout = Duration::from_secs(120);
/// // Only rank 0 has a known port.
/// assert_eq!((config.rank, config.size, config.port()), (3, 8, 0));
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupConfig {
    /// The rank of this process, 0 to `size - 1`.
    pub rank: usize,
    /// The number of ranks, at most 4096.
    pub size: usize,
    /// The addresses of the ranks.
    pub members: Members,
    /// Other addresses of rank 0's host, which are also tried if the group has a root.
    pub other_roots: Vec<SocketAddr>,
    /// The name of the run that the ranks belong to, the same at all of them, at most 255 bytes.
    /// Rank 0 rejects ranks of another run, such as one that was left over, and keeps waiting for
    /// its own. [`GroupConfig::from_env`] sets the launcher's name. Empty: only ranks without a
    /// name belong together. Default: empty.
    pub job: String,
    /// Time to wait until all ranks are connected. Default: 30 s.
    pub timeout: Duration,
    /// The congestion control of this rank's traffic to each other rank on each rail. Default:
    /// `cubic`.
    pub cc: CcConfig,
}

/// The addresses of a group's ranks.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Members {
    /// Rank 0 receives here and tells each rank the addresses of the others.
    Root(SocketAddr),
    /// The address of each rank, the same list at all of them.
    Listed(Vec<SocketAddr>),
}

impl GroupConfig {
    /// A group whose rank 0 receives at `root`, through which the others find each other.
    pub fn with_root(rank: usize, size: usize, root: SocketAddr) -> Self {
        Self::new(rank, size, Members::Root(root))
    }

    /// A group whose ranks receive at these addresses.
    pub fn listed(rank: usize, addresses: Vec<SocketAddr>) -> Self {
        let size = addresses.len();
        Self::new(rank, size, Members::Listed(addresses))
    }

    fn new(rank: usize, size: usize, members: Members) -> Self {
        let (other_roots, job, cc) = (Vec::new(), String::new(), CcConfig::default());
        GroupConfig { rank, size, members, other_roots, job, timeout: TIMEOUT, cc }
    }

    /// The port that this rank's engine has to be bound to. 0: any.
    pub fn port(&self) -> u16 {
        self.address().map_or(0, |addr| addr.port())
    }

    /// The address at which the others look for this rank, if it is known beforehand.
    pub fn address(&self) -> Option<SocketAddr> {
        match &self.members {
            Members::Root(root) => (self.rank == 0).then_some(*root),
            Members::Listed(addresses) => addresses.get(self.rank).copied(),
        }
    }

    /// A group whose rank 0 receives at one of `roots`, of which there is at least one.
    pub(super) fn with_roots(rank: usize, size: usize, roots: &[SocketAddr]) -> Self {
        let other_roots = roots[1..].to_vec();
        GroupConfig { other_roots, ..Self::with_root(rank, size, roots[0]) }
    }

    /// The address of rank 0.
    pub(super) fn root(&self) -> SocketAddr {
        self.roots()[0]
    }

    /// The address of rank 0 and the other addresses of its host.
    pub(super) fn roots(&self) -> Vec<SocketAddr> {
        match &self.members {
            Members::Root(root) => [&[*root], &self.other_roots[..]].concat(),
            Members::Listed(addresses) => vec![addresses[0]],
        }
    }

    /// Whether an engine at `local` is at the address at which the others look for this rank. The
    /// root may have several.
    fn is_found_at(&self, local: SocketAddr) -> bool {
        match &self.members {
            Members::Root(_) if self.rank == 0 => {
                self.roots().iter().any(|root| receives_at(local, *root))
            }
            _ => self.address().is_none_or(|addr| receives_at(local, addr)),
        }
    }

    /// Rejects an invalid configuration for an engine that receives at `local`.
    pub(super) fn check(&self, local: SocketAddr) -> Result<(), GroupError> {
        let GroupConfig { rank, size, .. } = self;
        if !(1..=MAX_SIZE).contains(size) {
            let why = format!("a group of {size} ranks cannot be; take 1 to {MAX_SIZE}");
            return Err(GroupError::Config(why));
        }
        if rank >= size {
            let why = format!("rank {rank} is not in a group of {size}; ranks are counted from 0");
            return Err(GroupError::Config(why));
        }
        if !is_job(&self.job) {
            let (job, max) = (self.job.escape_debug(), MAX_JOB);
            let why = format!(
                "the job `{job}` cannot be: take at most {max} bytes, no control characters"
            );
            return Err(GroupError::Config(why));
        }
        if let Members::Listed(addresses) = &self.members {
            check_list(addresses, *size)?;
        }
        match self.address() {
            Some(addr) if !self.is_found_at(local) => {
                Err(GroupError::NotOurs { rank: *rank, addr, local })
            }
            _ => Ok(()),
        }
    }
}

fn check_list(addresses: &[SocketAddr], size: usize) -> Result<(), GroupError> {
    if addresses.len() != size {
        let why = format!("{} addresses for {size} ranks; name one for each", addresses.len());
        return Err(GroupError::Config(why));
    }
    for (rank, addr) in addresses.iter().enumerate() {
        if addr.port() == 0 || addr.ip().is_unspecified() {
            let why = format!("rank {rank} cannot be reached at {addr}; name its IP and port");
            return Err(GroupError::Config(why));
        }
        if let Some(other) = addresses[..rank].iter().position(|other| other == addr) {
            let why = format!("ranks {other} and {rank} have the same address, {addr}");
            return Err(GroupError::Config(why));
        }
    }
    Ok(())
}

/// Whether an engine bound to `local` receives packets to `addr`.
fn receives_at(local: SocketAddr, addr: SocketAddr) -> bool {
    let is_here = || UdpSocket::bind((addr.ip(), 0)).is_ok();
    local.port() == addr.port()
        && (local.ip() == addr.ip() || local.ip().is_unspecified() && is_here())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addr(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    fn refusal(config: &GroupConfig, local: &str) -> String {
        config.check(addr(local)).unwrap_err().to_string()
    }

    #[test]
    fn invalid_configurations_are_rejected_with_their_values() {
        let root = addr("127.0.0.1:4000");
        let with = |rank, size| GroupConfig::with_root(rank, size, root);
        assert!(refusal(&with(0, 0), "127.0.0.1:4000").contains("0 ranks"));
        assert!(refusal(&with(0, 4097), "127.0.0.1:4000").contains("1 to 4096"));
        assert!(refusal(&with(3, 3), "127.0.0.1:4000").contains("rank 3 is not in a group of 3"));
        for job in ["a\nb".to_owned(), "x".repeat(256)] {
            let refused = refusal(&GroupConfig { job, ..with(0, 2) }, "127.0.0.1:4000");
            assert!(refused.contains("at most 255") && !refused.contains('\n'), "{refused}");
        }
        let listed = |addresses: &[&str]| {
            GroupConfig::listed(0, addresses.iter().map(|text| addr(text)).collect())
        };
        let twice = listed(&["127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:1"]);
        assert!(refusal(&twice, "127.0.0.1:1").contains("ranks 0 and 2"));
        assert!(refusal(&listed(&["127.0.0.1:1", "0.0.0.0:2"]), "127.0.0.1:1").contains("rank 1"));
    }

    #[test]
    fn an_address_of_another_host_is_refused() {
        for (to, local) in [
            ("192.0.2.1:4000", "0.0.0.0:4000"),
            ("192.0.2.1:4000", "127.0.0.1:4000"),
            ("127.0.0.1:4000", "127.0.0.1:4001"),
        ] {
            let refused = refusal(&GroupConfig::with_root(0, 2, addr(to)), local);
            assert!(refused.contains(to) && refused.contains(local), "{refused}");
        }
        let here = GroupConfig::with_root(0, 2, addr("127.0.0.1:4000"));
        assert!(here.check(addr("0.0.0.0:4000")).is_ok());
        // This rank cannot check the address of another.
        let elsewhere = GroupConfig::with_root(1, 2, addr("192.0.2.1:4000"));
        assert!(elsewhere.check(addr("0.0.0.0:9")).is_ok());
    }
}

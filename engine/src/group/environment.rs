//! A rank's place in its group, as launchers leave it in the environment.

use std::net::{SocketAddr, ToSocketAddrs};

use super::config::GroupConfig;
use super::error::GroupError;
use crate::environment;

/// Rank and size, by launcher: that of PyTorch, `mpirun` of OpenMPI and of MPICH or Intel MPI, Slurm's. The first of which
/// either is set counts: an `mpirun` inside of a Slurm job comes before the job's own.
const NAMES: [[&str; 2]; 4] = [
    ["RANK", "WORLD_SIZE"],
    ["OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"],
    ["PMI_RANK", "PMI_SIZE"],
    ["SLURM_PROCID", "SLURM_NTASKS"],
];
const ROOT: [&str; 2] = ["MASTER_ADDR", "MASTER_PORT"];

impl GroupConfig {
    /// Rank and size from `RANK` and `WORLD_SIZE`, or `OMPI_COMM_WORLD_RANK` and `.._SIZE`, or `PMI_RANK` and `PMI_SIZE`, or
    /// `SLURM_PROCID` and `SLURM_NTASKS`; rank 0's address from `MASTER_ADDR`, a name or an address, and `MASTER_PORT` (default: 4791).
    ///
    /// # Errors
    /// [`GroupError::Environment`], with the variable's name and value.
    pub fn from_env() -> Result<Self, GroupError> {
        Self::from_variables(environment::of_launcher)
    }

    /// As [`GroupConfig::from_env`], from variables that `value` knows.
    ///
    /// # Errors
    /// As there.
    pub fn from_variables(value: impl Fn(&str) -> Option<String>) -> Result<Self, GroupError> {
        let is_set = |names: &&[&str; 2]| names.iter().any(|name| value(name).is_some());
        let [rank, size] = NAMES.iter().find(is_set).unwrap_or(&NAMES[0]);
        let number = |name: &str, remedy| {
            let text = value(name);
            let parsed = text.as_deref().and_then(|text| text.trim().parse::<usize>().ok());
            parsed.ok_or(GroupError::Environment { name: name.to_owned(), value: text, remedy })
        };
        let rank = number(rank, "set it to this process's number, from 0")?;
        let size = number(size, "set it to how many processes there are")?;
        Ok(GroupConfig::with_root(rank, size, root(&value)?))
    }
}

fn root(value: &impl Fn(&str) -> Option<String>) -> Result<SocketAddr, GroupError> {
    let [host, port] = ROOT.map(value);
    let wrong = |index: usize, value: &Option<String>, remedy| {
        let name = ROOT[index].to_owned();
        GroupError::Environment { name, value: value.clone(), remedy }
    };
    let number = match &port {
        None => Some(braid_wire::DEFAULT_PORT),
        Some(text) => text.trim().parse().ok().filter(|port| *port != 0),
    };
    let number =
        number.ok_or_else(|| wrong(1, &port, "set it to rank 0's UDP port, 1 to 65535"))?;
    let name = host.as_deref().unwrap_or_default();
    let found = (name, number).to_socket_addrs().ok().and_then(|mut found| found.next());
    found
        .filter(|addr| !name.is_empty() && !addr.ip().is_unspecified())
        .ok_or_else(|| wrong(0, &host, "set it to the name or address of rank 0's host"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(set: &[(&str, &str)]) -> Result<GroupConfig, GroupError> {
        let find = |name: &str| set.iter().find(|(known, _)| *known == name);
        GroupConfig::from_variables(|name| find(name).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn every_launcher_is_understood() {
        let addr = [("MASTER_ADDR", "127.0.0.1"), ("MASTER_PORT", "1234")];
        let expected = GroupConfig::with_root(2, 5, "127.0.0.1:1234".parse().unwrap());
        for [rank, size] in NAMES {
            let set = [&addr[..], &[(rank, "2"), (size, "5")]].concat();
            assert_eq!(read(&set).unwrap(), expected);
        }
        let both = [("RANK", "2"), ("WORLD_SIZE", "5"), ("SLURM_PROCID", "4"), addr[0], addr[1]];
        assert_eq!(read(&both).unwrap(), expected);
        // As they are where a launcher runs inside of another one's job.
        let nested = [
            ("OMPI_COMM_WORLD_RANK", "2"),
            ("OMPI_COMM_WORLD_SIZE", "5"),
            ("SLURM_PROCID", "0"),
            ("SLURM_NTASKS", "1"),
            addr[0],
            addr[1],
        ];
        assert_eq!(read(&nested).unwrap(), expected);
        let plain = read(&[("RANK", "0"), ("WORLD_SIZE", "1"), addr[0]]).unwrap();
        assert_eq!(plain.port(), braid_wire::DEFAULT_PORT);
    }

    #[test]
    fn what_is_missing_or_wrong_is_named() {
        let good =
            [("RANK", "0"), ("WORLD_SIZE", "2"), ("MASTER_ADDR", "::1"), ("MASTER_PORT", "9")];
        assert!(read(&good).is_ok());
        for (name, value) in [
            ("RANK", "x"),
            ("RANK", "-1"),
            ("WORLD_SIZE", ""),
            ("MASTER_PORT", "0"),
            ("MASTER_PORT", "70000"),
            ("MASTER_ADDR", "0.0.0.0"),
            ("MASTER_ADDR", ""),
        ] {
            let set: Vec<_> =
                good.iter().map(|(n, v)| (*n, if *n == name { value } else { v })).collect();
            let error = read(&set).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains(&format!("`{value}`")), "{error}");
        }
        assert!(read(&[]).unwrap_err().to_string().contains("RANK is not set"));
        assert!(read(&[("SLURM_PROCID", "1")]).unwrap_err().to_string().contains("SLURM_NTASKS"));
    }
}

//! A rank's place in its group, as launchers set it in the environment.

use std::net::SocketAddr;

use super::config::GroupConfig;
use super::error::GroupError;
use super::hello::is_job;
use crate::{environment, resolve};

/// The variables of rank and size by launcher: PyTorch, `mpirun` of OpenMPI, `mpirun` of MPICH or
/// Intel MPI, Slurm. The first launcher with a set variable counts: an `mpirun` inside a Slurm job
/// precedes the job's own.
const NAMES: [[&str; 2]; 4] = [
    ["RANK", "WORLD_SIZE"],
    ["OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"],
    ["PMI_RANK", "PMI_SIZE"],
    ["SLURM_PROCID", "SLURM_NTASKS"],
];
const ROOT: [&str; 2] = ["MASTER_ADDR", "MASTER_PORT"];
/// The variable with the name of the job, whatever the launcher. Empty: the job has no name.
const JOB: &str = "BRAID_JOB";
/// The variables with a launcher's name of a run, in the order of [`NAMES`]. The first set line
/// counts. If a line has two variables, both together identify the run, because Slurm counts the
/// steps of a job.
const JOBS: [&[&[&str]]; 4] = [
    &[&["TORCHELASTIC_RUN_ID"], &["SLURM_JOB_ID"]],
    &[&["PMIX_NAMESPACE"], &["OMPI_MCA_ess_base_jobid"]],
    &[&["PMIX_NAMESPACE"], &["PMI_JOBID"]],
    &[&["SLURM_JOB_ID", "SLURM_STEP_ID"]],
];

impl GroupConfig {
    /// Reads rank and size from `RANK` and `WORLD_SIZE`, or `OMPI_COMM_WORLD_RANK` and `.._SIZE`,
    /// or `PMI_RANK` and `PMI_SIZE`, or `SLURM_PROCID` and `SLURM_NTASKS`. Rank 0's address comes
    /// from `MASTER_ADDR`, a name or an address, and `MASTER_PORT` (default: 4791). The job comes
    /// from `BRAID_JOB`, otherwise from the launcher's variables: `TORCHELASTIC_RUN_ID` or
    /// `SLURM_JOB_ID` for the first launcher, `PMIX_NAMESPACE` or `OMPI_MCA_ess_base_jobid`,
    /// `PMIX_NAMESPACE` or `PMI_JOBID`, `SLURM_JOB_ID` with `SLURM_STEP_ID`.
    ///
    /// # Errors
    /// [`GroupError::Environment`], with the variable's name and value.
    pub fn from_env() -> Result<Self, GroupError> {
        Self::from_variables(environment::of_launcher)
    }

    /// Reads the variables from `value`, see [`GroupConfig::from_env`].
    ///
    /// # Errors
    /// As for [`GroupConfig::from_env`].
    pub fn from_variables(value: impl Fn(&str) -> Option<String>) -> Result<Self, GroupError> {
        let is_set = |names: &&[&str; 2]| names.iter().any(|name| value(name).is_some());
        let launcher = NAMES.iter().position(|names| is_set(&names)).unwrap_or(0);
        let [rank, size] = NAMES[launcher];
        let number = |name: &str, remedy| {
            let text = value(name);
            let parsed = text.as_deref().and_then(|text| text.trim().parse::<usize>().ok());
            parsed.ok_or(GroupError::Environment { name: name.to_owned(), value: text, remedy })
        };
        let rank = number(rank, "set it to this process's number, from 0")?;
        let size = number(size, "set it to how many processes there are")?;
        let job = job(JOBS[launcher], &value)?;
        Ok(GroupConfig { job, ..GroupConfig::with_roots(rank, size, &roots(&value)?) })
    }
}

fn job(known: &[&[&str]], value: &impl Fn(&str) -> Option<String>) -> Result<String, GroupError> {
    let named = |names: &&[&str]| {
        let parts: Vec<String> = names.iter().map_while(|name| value(name)).collect();
        (parts.first().is_some_and(|first| !first.is_empty())).then(|| parts.join("."))
    };
    let job = value(JOB).or_else(|| known.iter().find_map(named)).unwrap_or_default();
    if is_job(&job) {
        return Ok(job);
    }
    let (name, remedy) =
        (JOB.to_owned(), "set it to at most 255 bytes, without control characters");
    Err(GroupError::Environment { name, value: Some(job.escape_debug().to_string()), remedy })
}

fn roots(value: &impl Fn(&str) -> Option<String>) -> Result<Vec<SocketAddr>, GroupError> {
    let [host, port] = ROOT.map(value);
    let wrong = |index: usize, value: &Option<String>, remedy| {
        let name = ROOT[index].to_owned();
        GroupError::Environment { name, value: value.clone(), remedy }
    };
    let number = match &port {
        None => Some(braid_wire::DEFAULT_PORT),
        Some(text) => text.trim().parse().ok().filter(|port| *port != 0),
    };
    let number = number.ok_or_else(|| wrong(1, &port, "set it to rank 0's port, 1 to 65535"))?;
    let name = host.as_deref().unwrap_or_default();
    resolve(name, number)
        .ok()
        .filter(|found| found.iter().all(|addr| !addr.ip().is_unspecified()))
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
        // The variables of a launcher that runs inside another one's job.
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
    fn the_job_is_what_the_launcher_calls_it_or_what_the_user_says() {
        let addr = [("MASTER_ADDR", "127.0.0.1"), ("MASTER_PORT", "1234")];
        let torch = [("RANK", "0"), ("WORLD_SIZE", "2")];
        let slurm = [("SLURM_PROCID", "0"), ("SLURM_NTASKS", "2"), ("SLURM_JOB_ID", "77")];
        let mpi = [("OMPI_COMM_WORLD_RANK", "0"), ("OMPI_COMM_WORLD_SIZE", "2")];
        let job = |sets: &[&[(&str, &str)]]| {
            read(&[&addr[..], &sets.concat()].concat()).map(|config| config.job)
        };
        assert_eq!(job(&[&torch]).unwrap(), "");
        assert_eq!(job(&[&torch, &slurm[2..]]).unwrap(), "77");
        let run = ("TORCHELASTIC_RUN_ID", "a1");
        assert_eq!(job(&[&torch, &slurm[2..], &[run]]).unwrap(), "a1");
        assert_eq!(job(&[&slurm]).unwrap(), "77");
        assert_eq!(job(&[&slurm, &[("SLURM_STEP_ID", "3")]]).unwrap(), "77.3");
        // An `mpirun` in a Slurm job may be one of several.
        assert_eq!(job(&[&mpi, &slurm]).unwrap(), "");
        assert_eq!(job(&[&mpi, &slurm, &[("PMIX_NAMESPACE", "prte-1@2")]]).unwrap(), "prte-1@2");
        assert_eq!(job(&[&torch, &[run, ("BRAID_JOB", "mine")]]).unwrap(), "mine");
        assert_eq!(job(&[&torch, &[run, ("BRAID_JOB", "")]]).unwrap(), "");
        let error = job(&[&torch, &[("BRAID_JOB", "a\nb")]]).unwrap_err().to_string();
        assert!(error.contains("BRAID_JOB is `a\\nb`") && error.contains("255"), "{error}");
    }

    #[test]
    fn missing_and_invalid_variables_are_named() {
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

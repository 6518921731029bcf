//! The configuration of a group, which each rank provides.

use std::ffi::{c_char, c_int};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ptr;

use braid::{GroupConfig, Members};

use crate::address::{self, BRAID_ADDR_LEN, NO_ADDRESS};
use crate::arguments::{Array, micros, optional_text, put_text, text, timer};
use crate::boundary::enter;
use crate::failure::Failure;
use crate::growing::{self, Growing};

/// Maximum number of ranks of a group.
pub const BRAID_MAX_RANKS: usize = 4096;
const _: () = assert!(BRAID_MAX_RANKS == braid::MAX_RANKS);

/// Maximum length of a job's name with its NUL.
pub const BRAID_JOB_LEN: usize = 256;
const _: () = assert!(BRAID_JOB_LEN == braid::MAX_JOB + 1);

/// The rank of this process and the addresses of the others: `root` or `addresses`. Initialised by
/// braid_group_config_init, or by braid_group_config_from_env from the environment of a launcher.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct braid_group_config {
    /// Set by braid_group_config_init.
    pub size: usize,
    /// The rank of this process, 0 to `ranks` - 1.
    pub rank: u32,
    /// Number of ranks, at most BRAID_MAX_RANKS.
    pub ranks: u32,
    /// The address of rank 0, which sends each rank the addresses of the others: `10.0.0.1:4791`,
    /// or a name and a port. Empty: see `addresses`.
    pub root: [c_char; BRAID_ADDR_LEN],
    /// The addresses of all `ranks` ranks, equal at all of them. NULL: see `root`.
    pub addresses: *const *const c_char,
    /// Maximum time to wait for all ranks in microseconds; at most one day.
    pub timeout_us: u64,
    /// Name of the congestion control for the data to each other rank on each rail. NULL: the
    /// default.
    pub cc: *const c_char,
    /// The job of the ranks, equal at all of them. Rank 0 rejects ranks of another job, for example
    /// of an earlier run. Empty: accepts only ranks without a job.
    pub job: [c_char; BRAID_JOB_LEN],
}

// SAFETY: `repr(C)`, `size` first, numbers, raw pointers and an array of numbers only.
unsafe impl Growing for braid_group_config {
    const NAME: &'static str = "braid_group_config";
}

impl Default for braid_group_config {
    fn default() -> Self {
        let nowhere = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
        let defaults = GroupConfig::with_root(0, 1, nowhere);
        braid_group_config {
            size: size_of::<Self>(),
            rank: 0,
            ranks: 0,
            root: NO_ADDRESS,
            addresses: ptr::null(),
            timeout_us: micros(defaults.timeout),
            cc: ptr::null(),
            job: [0; BRAID_JOB_LEN],
        }
    }
}

impl braid_group_config {
    /// # Safety
    /// The caller's promise, for the struct, its strings and addresses.
    pub(super) unsafe fn read(config: *const Self) -> Result<GroupConfig, Failure> {
        // SAFETY: as the caller promises.
        let given = unsafe { growing::read(config, Self::default()) }?;
        let (rank, ranks) = (given.rank as usize, given.ranks as usize);
        if !(1..=BRAID_MAX_RANKS).contains(&ranks) {
            let (name, value, max) = ("ranks", given.ranks.into(), BRAID_MAX_RANKS as u64);
            return Err(Failure::Range { name, value, min: 1, max });
        }
        let mut config = match (given.addresses.is_null(), given.root[0] == 0) {
            (true, true) => return Err(Failure::NoMembers),
            (false, false) => return Err(Failure::TwoMembers),
            (true, false) => {
                let roots = given.roots()?;
                let other_roots = roots[1..].to_vec();
                GroupConfig { other_roots, ..GroupConfig::with_root(rank, ranks, roots[0]) }
            }
            (false, true) => {
                // SAFETY: as the caller promises.
                let addresses = unsafe { given.listed() }?;
                GroupConfig { rank, size: ranks, ..GroupConfig::listed(rank, addresses) }
            }
        };
        config.timeout = timer(given.timeout_us, "timeout_us")?;
        config.job = array_text(&given.job, "job")?;
        // SAFETY: as the caller promises.
        if let Some(cc) = unsafe { optional_text(given.cc, "cc") }? {
            config.cc = cc.parse()?;
        }
        Ok(config)
    }

    fn roots(&self) -> Result<Vec<SocketAddr>, Failure> {
        let text = array_text(&self.root, "root")?;
        address::resolve(&text, IpAddr::V6(Ipv6Addr::UNSPECIFIED))
    }

    /// # Safety
    /// The caller's promise, with `ranks` strings at `addresses`.
    unsafe fn listed(&self) -> Result<Vec<SocketAddr>, Failure> {
        // SAFETY: as the caller promises.
        let all = unsafe { Array::new(self.addresses, self.ranks as usize, "addresses") }?;
        // SAFETY: as the caller promises.
        all.iter().map(|one| address::parse(&unsafe { text(one, "addresses") }?)).collect()
    }
}

/// Returns the text up to the NUL in an array of a struct.
fn array_text(array: &[c_char], name: &'static str) -> Result<String, Failure> {
    let bytes: Vec<u8> =
        array.iter().map(|byte| *byte as u8).take_while(|byte| *byte != 0).collect();
    if bytes.len() == array.len() {
        return Err(Failure::Text { name, why: "it has no NUL" });
    }
    String::from_utf8(bytes).map_err(|_| Failure::Text { name, why: "it is not UTF-8" })
}

/// Fills `config` with the defaults; `size` is sizeof(braid_group_config). The caller must set
/// `rank`, `ranks`, and `root` or `addresses`.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_group_config_init(
    config: *mut braid_group_config,
    size: usize,
) -> c_int {
    // SAFETY: the caller's promise.
    enter(|| unsafe { growing::init(config, size, Default::default()) }.map(|()| 0))
}

/// Initialises `config` like braid_group_config_init, with `rank`, `ranks`, `root` and `job` from
/// the environment.
///
/// Rank and number of ranks: RANK and WORLD_SIZE (PyTorch), OMPI_COMM_WORLD_RANK and _SIZE or
/// PMI_RANK and PMI_SIZE (mpirun), or SLURM_PROCID and SLURM_NTASKS (srun). Root: MASTER_ADDR and
/// MASTER_PORT (default 4791). Job: BRAID_JOB, or the name that the launcher sets
/// (TORCHELASTIC_RUN_ID, PMIX_NAMESPACE, SLURM_JOB_ID and SLURM_STEP_ID and so on).
///
/// BRAID_ERR_INVALID names the variable that is missing or invalid.
///
/// Threads: any, while none changes the environment.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_group_config_from_env(
    config: *mut braid_group_config,
    size: usize,
) -> c_int {
    enter(|| {
        let GroupConfig { rank, size: ranks, members, job: name, .. } = GroupConfig::from_env()?;
        let narrow = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let (rank, ranks) = (narrow(rank), narrow(ranks));
        let root = match members {
            Members::Root(root) => address::to_text(root),
            // The environment contains no list of addresses.
            _ => NO_ADDRESS,
        };
        let mut job = [0; BRAID_JOB_LEN];
        // The last byte stays 0.
        let room = job[..BRAID_JOB_LEN - 1].iter_mut();
        room.zip(name.bytes()).for_each(|(to, from)| *to = from as c_char);
        let found = braid_group_config { rank, ranks, root, job, ..Default::default() };
        // SAFETY: the caller's promise.
        unsafe { growing::init(config, size, found) }.map(|()| 0)
    })
}

/// Writes the `bind` address of this rank's engine into `text` of `size` bytes; BRAID_ADDR_LEN
/// suffice. This is its own address if the others know it in advance, otherwise any port.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_group_config_bind(
    config: *const braid_group_config,
    text: *mut c_char,
    size: usize,
) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise.
        let config = unsafe { braid_group_config::read(config) }?;
        let any = SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0));
        let bind = config.address().unwrap_or(any).to_string();
        // SAFETY: the caller's promise.
        unsafe { put_text(&bind, text, size, "text") }.map(|()| 0)
    })
}

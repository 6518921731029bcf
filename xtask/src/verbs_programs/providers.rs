//! Programs that link a provider: they start with the provider of any release of rdma-core since
//! 34.

use std::path::Path;
use std::process::Command;

use crate::{Failure, process, tree};

/// `IBVERBS_PABI_VERSION` of rdma-core's releases, from 34 to 65.
const VERSIONS: [u32; 5] = [34, 57, 59, 64, 65];

/// Builds a stand-in for each version, and starts it.
pub(super) fn start_with_each(
    libraries: &Path,
    braid_run: &Path,
    logs: &Path,
) -> Result<(), Failure> {
    for version in VERSIONS {
        let program = logs.join(format!("provider-{version}"));
        let mut cc = Command::new("cc");
        cc.args(["-Wall", "-Wextra", "-Werror", "-Wl,-z,now", &format!("-DPABI={version}")])
            .arg(tree::root().join("ibverbs/tests/provider.c"))
            .arg(libraries.join("libibverbs.so.1"))
            .arg("-o")
            .arg(&program);
        process::run(&mut cc)?;
        let said = process::output(Command::new(braid_run).arg("--quiet").arg(&program))?;
        if said != "refused send\n" {
            return Err(Failure::new(format!("a provider of version {version} says: {said}")));
        }
    }
    super::print_note("providers", &format!("of the versions {VERSIONS:?}"));
    Ok(())
}

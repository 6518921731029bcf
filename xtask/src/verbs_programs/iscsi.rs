//! tgtd with a disk over iSER, and libiscsi's own tests as its initiator. tgtd listens by rdma_cm,
//! and over TCP at the port of the same number.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use super::print_row;
use super::table::LOSS;
use crate::process::{Program, log_to};
use crate::{Failure, process};

pub(super) const TGTD: &str = "/usr/sbin/tgtd";
const TGTADM: &str = "/usr/sbin/tgtadm";
const PORT: u16 = 13_260;
/// The port over which `tgtadm` configures tgtd.
const CONTROL_PORT: &str = "13260";
const TARGET: &str = "iqn.2026-11.braid:disk";
/// The two initiators that libiscsi's tests are.
const INITIATORS: [&str; 2] = ["iqn.2026-11.braid:one", "iqn.2026-11.braid:two"];
const DISK: u64 = 16 << 20;
/// VERIFY sends data, which the target compares with the disk's. Other tests have more than 256
/// commands under way, for which libiscsi has no descriptors.
const TESTS: [&str; 4] = [
    "SCSI.Read10.Simple",
    "SCSI.Write10.Simple",
    "SCSI.Verify10.Simple",
    "SCSI.WriteVerify10.Simple",
];
/// The last line of a test that has passed.
const PASSED: &str = "Tests completed with return value: 0";
const LIMIT: Duration = Duration::from_secs(60);

/// Runs the tests, once without loss and once with.
pub(super) fn run(braid_run: &Path, logs: &Path) -> Result<(), Failure> {
    for faults in [&[], LOSS] {
        let start = Instant::now();
        let log = logs.join("tgtd.log");
        test(braid_run, logs, faults).map_err(|failure| {
            let said = fs::read_to_string(&log).unwrap_or_default();
            Failure::new(format!("{failure}\n--- tgtd:\n{said}"))
        })?;
        print_row("tgtd", "iscsi-test-cu over iSER", faults, start.elapsed().as_secs_f64());
    }
    Ok(())
}

fn test(braid_run: &Path, logs: &Path, faults: &[(&str, &str)]) -> Result<(), Failure> {
    let _target = start_target(braid_run, logs, faults)?;
    let url = format!("iser://127.0.0.1:{PORT}/{TARGET}/1");
    let [one, two] = INITIATORS;
    for name in TESTS {
        let log = logs.join(format!("iscsi-test-cu.{name}.log"));
        let mut tests = Command::new(braid_run);
        tests
            .args(["--quiet", "stdbuf", "-oL", "iscsi-test-cu", "-d", "-f"])
            .args(["-i", one, "-I", two, "-t", name, &url])
            .envs(faults.iter().copied())
            // libiscsi 1.19 takes it that memory of malloc is 0. With this it is.
            .env("MALLOC_PERTURB_", "255");
        log_to(&mut tests, &log)?;
        // The output counts, not the exit status. After the tests a thread of libiscsi uses memory
        // that another one has freed, which ends the process in about one run of ten.
        let ended = Program::start(&mut tests)?.wait(LIMIT);
        let said = fs::read_to_string(&log).unwrap_or_default();
        if !said.contains(PASSED) || said.contains("[FAILED]") {
            let ended = ended.err().map(|failure| failure.to_string()).unwrap_or_default();
            return Err(Failure::new(format!("{name} has not passed: {ended}\n{said}")));
        }
    }
    Ok(())
}

/// Starts tgtd and gives it a disk, which the two initiators may use.
fn start_target(
    braid_run: &Path,
    logs: &Path,
    faults: &[(&str, &str)],
) -> Result<Program, Failure> {
    let (log, disk) = (logs.join("tgtd.log"), logs.join("tgtd.disk"));
    let cannot = |e| Failure::new(format!("cannot write beside {}: {e}", log.display()));
    File::create(&disk).and_then(|file| file.set_len(DISK)).map_err(cannot)?;
    fs::create_dir_all("/run/tgtd").map_err(|e| {
        Failure::new(format!("cannot make /run/tgtd: {e}")).remedy("run it as root, once")
    })?;
    let mut tgtd = Command::new(braid_run);
    tgtd.args(["--quiet", TGTD, "-f", "-C", CONTROL_PORT])
        .args(["--iscsi", &format!("portal=127.0.0.1:{PORT}")])
        .args(["--iser", &format!("port={PORT},pool_sz_mb=64")])
        .envs(faults.iter().copied());
    log_to(&mut tgtd, &log)?;
    let target = Program::start(&mut tgtd)?;
    if !braid_lab::wait_for_listener(target.child.id(), PORT, LIMIT) {
        return Err(Failure::new(format!("tgtd does not listen at TCP port {PORT}")));
    }
    let tell = |options: &[&str]| {
        let mut tgtadm = Command::new(TGTADM);
        tgtadm.args(["-C", CONTROL_PORT, "--lld", "iser", "--tid", "1"]).args(options);
        process::run(&mut tgtadm)
    };
    tell(&["--mode", "target", "--op", "new", "-T", TARGET])?;
    let disk = disk.to_string_lossy();
    tell(&["--mode", "logicalunit", "--op", "new", "--lun", "1", "-b", &disk])?;
    // Over iSER tgtd asks for both: the host and the initiator must be allowed.
    tell(&["--mode", "target", "--op", "bind", "-I", "ALL"])?;
    for initiator in INITIATORS {
        tell(&["--mode", "target", "--op", "bind", "-Q", initiator])?;
    }
    Ok(target)
}

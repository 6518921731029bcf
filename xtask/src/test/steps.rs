//! The steps of `cargo xtask test`, in their order, and the lanes in which they run.

use crate::lanes::{Lane, Step};
use crate::step::Shown;

/// The packages whose tests run under AddressSanitizer, in the step `address`, and not in `test`.
pub(crate) const SANITIZED: &[&str] = &["braid-rdma", "braid-verbs", "braid-ffi", "braid-ibverbs"];

/// The three lanes.
pub(super) fn lanes() -> [Lane; 3] {
    [
        Lane { steps: DEBUG.to_vec(), shown: Shown::AsItComes, yields: true },
        Lane { steps: OTHERWISE.to_vec(), shown: Shown::InItsLog, yields: true },
        Lane { steps: WAITING.to_vec(), shown: Shown::InItsLog, yields: false },
    ]
}

/// Steps that build with the debug profile. They would wait for each other's builds.
#[rustfmt::skip]
const DEBUG: &[Step] = &[
    Step::new("lint", &["xtask", "lint"]).after("tools"),
    Step::new("test", &[
        "test", "--workspace", "--exclude", "braid-rdma", "--exclude", "braid-verbs",
        "--exclude", "braid-ffi", "--exclude", "braid-ibverbs",
    ]),
    // AddressSanitizer does not reach them.
    Step::new("doctests", &[
        "test", "--doc", "-p", "braid-rdma", "-p", "braid-verbs", "-p", "braid-ffi",
        "-p", "braid-ibverbs",
    ]),
    Step::new("recipe", &["xtask", "recipe"]),
    Step::new("package", &["xtask", "package"]),
    Step::new("licences", &["xtask", "dependencies"]),
    Step::new("advisories", &["xtask", "advisories"]),
];

/// Steps that build in other ways, all but the first in folders of their own.
#[rustfmt::skip]
const OTHERWISE: &[Step] = &[
    Step::new("build", &["xtask", "build"]),
    Step::new("studies", &["xtask", "studies", "--of-commit"]),
    Step::new("wheel", &["xtask", "wheel"]).after("tools"),
    Step::new("address", &["xtask", "sanitize", "--only", "address"]).after("tools"),
    Step::new("loom", &["xtask", "loom"]),
    Step::new("msrv", &["xtask", "msrv"]),
    Step::new("benches", &["xtask", "count", "--build"]),
];

/// Instructions are more where the machine makes a program wait, so this step runs when the lanes
/// are done.
pub(super) const COUNT: Step = Step::new("count", &["xtask", "count"]);

/// Steps that wait most of the time, for timers and for links of limited rate.
#[rustfmt::skip]
const WAITING: &[Step] = &[
    Step::new("tools", &["xtask", "tools"]),
    Step::new("e2e", &["xtask", "e2e"]).after("build"),
    Step::new("spray", &["run", "--release", "--bin", "braid-perf", "--", "spray", "--quick"]),
    Step::new("congestion", &["run", "--release", "--bin", "braid-perf", "--", "congestion", "--quick"]),
    Step::new("compare", &[
        "run", "--release", "--bin", "braid-perf", "--", "compare", "--complete", "--rounds=1",
        "--seconds=0.1", "--mtu=9000", "--only=message-rate,latency-spinning",
    ]),
    Step::new("fabric", &["xtask", "fabric", "check"]),
    Step::new("wireshark", &["xtask", "wireshark"]),
    Step::new("terminal", &["xtask", "terminal"]),
    Step::new("c", &["xtask", "c"]),
    Step::new("programs", &["xtask", "verbs-programs"]),
    Step::new("deb", &["xtask", "deb", "--check"]),
    Step::new("nccl", &["run", "--release", "--bin", "nccl-conformance", "--", "--quick"]),
];

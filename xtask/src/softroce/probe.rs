//! Whether rxe of this kernel does what Braid's verbs datapath is built on.

use super::pair::Machines;
use super::perftest::{Perftest, Provider};
use crate::Failure;

const UC_WRITE: Perftest = Perftest {
    providers: [Provider::Rxe; 2],
    program: "ib_write_bw",
    service: "UC",
    size: 65536,
    iterations: 20,
};
const UC_SEND: Perftest = Perftest { program: "ib_send_bw", ..UC_WRITE };
const UD_SEND: Perftest = Perftest { service: "UD", size: 2048, iterations: 50, ..UC_SEND };

/// Fails with the first that does not work. Writes with immediate data this perftest cannot send;
/// they are the verbs datapath's own first check.
pub(super) fn run(pair: &Machines, kernel: &str) -> Result<(), Failure> {
    for (what, test) in [("UC writes", UC_WRITE), ("UC sends", UC_SEND), ("UD sends", UD_SEND)] {
        test.run(pair).map_err(|failure| {
            Failure::new(format!("rxe of {kernel} is broken: {what}: {failure}"))
                .remedy("some kernels' rxe is: try the next package of the kernel")
        })?;
    }
    let immediate = pair.a.run("ib_write_bw --help | grep -q -- --write_with_imm", super::SHORT)?;
    if immediate.status == 0 {
        let line = "ib_write_bw --write_with_imm";
        let test = Perftest { program: line, ..UC_WRITE };
        test.run(pair).map_err(|failure| {
            Failure::new(format!("rxe of {kernel} is broken: {line}: {failure}"))
        })?;
        println!("probe: UC writes, UC and UD sends and writes with immediate data work");
    } else {
        println!("probe: UC writes, UC and UD sends work; this perftest has no --write_with_imm");
    }
    Ok(())
}

//! Unmodified programs on Braid's libibverbs that check what has arrived.

use std::time::Duration;

use super::pair::{B, Machines};
use super::perftest::Provider;
use super::server::{self, Port};
use crate::Failure;

const LIMIT: Duration = Duration::from_secs(40);
const PROVIDER: Provider = Provider::DropIn { crc: "on" };
/// The TCP port of `ibv_rc_pingpong`, and the port number of rdma_cm in `rping`, which the drop-in
/// serves over UDP.
const PORT: u16 = 18_520;

/// A message there and back, each of several packets, both buffers checked.
pub(super) fn pingpong(pair: &Machines) -> Result<String, Failure> {
    let line =
        format!("ibv_rc_pingpong -d {} -g 0 -p {PORT} -s 100001 -n 30 -c", PROVIDER.device(0));
    let said = serve(pair, Port::Tcp(PORT), &line, &format!("{line} {B}"))?;
    // `20000200 bytes in 1.23 seconds = 130.08 Mbit/sec`
    last_with(&said, "bytes in")
}

/// Connects by address; READs, WRITEs and SENDs of known text.
pub(super) fn rping(pair: &Machines) -> Result<String, Failure> {
    let line = format!("rping -p {PORT} -C 20 -S 4096 -V");
    let port = Port::Udp(PORT);
    serve(pair, port, &format!("{line} -s -a {B}"), &format!("{line} -c -a {B}"))?;
    Ok("20 messages".to_owned())
}

/// Returns what the client has said.
fn serve(pair: &Machines, port: Port, server: &str, client: &str) -> Result<String, Failure> {
    let [server, client] = [server, client].map(|line| PROVIDER.start(line));
    let [said, _] = server::serve(pair, &server, port, &client, LIMIT)?;
    Ok(said)
}

fn last_with(said: &str, words: &str) -> Result<String, Failure> {
    let line = said.lines().rfind(|line| line.contains(words));
    line.map(|line| line.trim().to_owned())
        .ok_or_else(|| Failure::new(format!("no line with `{words}` in what it said:\n{said}")))
}

#[cfg(test)]
mod tests {
    use super::last_with;

    #[test]
    fn a_pingpong_that_says_no_result_has_none() {
        let said = "20 bytes in 1.2 seconds = 3 Mbit/sec\n2 iters in 1.2 seconds = 6 usec/iter\n";
        let found = last_with(said, "bytes in").expect("it is there");
        assert_eq!(found, "20 bytes in 1.2 seconds = 3 Mbit/sec");
        assert!(last_with("", "bytes in").is_err());
    }
}

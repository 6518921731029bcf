//! A WRITE that the link holds back until its buffer is in other use.

use std::thread;
use std::time::Duration;

use super::pair::{B, Machines};
use super::server::{self, Port};
use crate::Failure;

const LIMIT: Duration = Duration::from_secs(40);
const PORT: u16 = 7100;
/// Longer than the retransmission takes, shorter than the server watches.
const HELD: &str = "2s";

/// Every packet longer than 4095 bytes goes through band 3, and waits there; the headers that come
/// before a WRITE and the acknowledgements are shorter.
fn hold_back() -> String {
    [
        "tc qdisc add dev eth0 root handle 1: prio bands 3 priomap 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0".into(),
        format!("tc qdisc add dev eth0 parent 1:3 handle 3: netem delay {HELD} limit 1000"),
        "tc filter add dev eth0 parent 1: protocol ip prio 1 u32 match u16 0x1000 0x1000 at 2 flowid 1:3".into(),
    ]
    .join(" && ")
}

/// The buffer stays as its owner has left it, and the packet was indeed let go.
pub(super) fn check(pair: &Machines) -> Result<String, Failure> {
    let server = server::start(&pair.b, "late-write rxe0", Port::Udp(PORT), LIMIT)?;
    pair.a.must("cd /tmp && rm -f late-write.go ready", LIMIT)?;
    let client = pair.a.spawn(&format!("cd /tmp && late-write rxe0 {B}:{PORT} >ready"), LIMIT)?;
    let is_ready =
        "for i in $(seq 200); do grep -q ready /tmp/ready && exit 0; sleep 0.05; done; exit 1";
    pair.a.must(is_ready, LIMIT)?;
    pair.a.must(&format!("{} && touch /tmp/late-write.go", hold_back()), LIMIT)?;
    // Long enough for the WRITE to be posted. What is sent again after that is not held back.
    thread::sleep(Duration::from_millis(150));
    pair.a.must("tc filter del dev eth0 parent 1:", LIMIT)?;
    client.wait()?.good("a", "late-write")?;
    let said = server.wait()?.good("b", "late-write")?;
    let released = pair.a.must("tc -s qdisc show dev eth0 | grep -A1 'netem 3:'", LIMIT)?;
    pair.a.must("tc qdisc del dev eth0 root", LIMIT)?;
    if !said.contains("intact") {
        return Err(Failure::new(format!("b: late-write said:\n{said}")));
    }
    match sent_bytes(&released) {
        Some(bytes) if bytes > 4096 => Ok(format!("intact; {bytes} bytes were let go {HELD} late")),
        _ => Err(Failure::new(format!("nothing was held back:\n{released}"))),
    }
}

/// `Sent 4174 bytes 1 pkt (..`.
fn sent_bytes(text: &str) -> Option<u64> {
    text.split_once("Sent ")?.1.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_queue_says_what_it_has_let_go() {
        let text =
            "qdisc netem 3: parent 1:3 limit 1000 delay 2s\n Sent 4174 bytes 1 pkt (dropped 0)\n";
        assert_eq!(sent_bytes(text), Some(4174));
        assert_eq!(sent_bytes("qdisc noqueue 0:"), None);
    }
}

//! Both devices of each machine as two rails of one connection, and one of them cut in
//! mid-transfer.

use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::braid::TESTS;
use super::pair::Machines;
use super::server::{self, Port};
use crate::Failure;

const LIMIT: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_secs(15);
const PORT: u16 = 7300;
/// By machine, a first: its address on each link.
const RAILS: [&str; 2] = ["10.77.0.1,10.77.1.1", "10.77.0.2,10.77.1.2"];
/// The least share of all bytes that each rail carries. 0.25 to 0.43 were measured with every
/// policy: in these slow machines a time-out shrinks the window of its rail. Neither the packets
/// (of up to 60 KB) nor the times are even.
const LEAST_SHARE: f64 = 0.15;
/// A transfer in whose middle a link is cut, when it is, and for how long.
const TRANSFER: &str = "-s 100001 -D 5 --tx-depth 8 --verify";
const CUT_AFTER: Duration = Duration::from_secs(2);
const CUT_FOR: Duration = Duration::from_millis(1_500);

/// Every test, with every byte checked; WRITEs, of which there are enough, take both rails.
pub(super) fn verified(pair: &Machines) -> Result<String, Failure> {
    for test in TESTS {
        let load = if test.ends_with("-lat") { "-n 100" } else { "-s 100001 -n 40 --tx-depth 8" };
        run(pair, test, &format!("{load} --verify"), || Ok(()))?;
    }
    let before = sent_bytes(pair)?;
    run(pair, "write-bw", "-s 1048576 -n 96 --tx-depth 8 --verify", || Ok(()))?;
    let after = sent_bytes(pair)?;
    let [first, second] = [0, 1].map(|link| after[link] - before[link]);
    even([first, second])?;
    Ok(format!("{first} and {second} bytes"))
}

/// Returns the bytes that the client's machine has sent on each link.
fn sent_bytes(pair: &Machines) -> Result<[u64; 2], Failure> {
    let command =
        "cat /sys/class/net/eth0/statistics/tx_bytes /sys/class/net/eth1/statistics/tx_bytes";
    let text = pair.a.must(command, SHORT)?;
    let numbers: Option<Vec<u64>> = text.lines().map(|line| line.trim().parse().ok()).collect();
    let bytes = numbers.and_then(|numbers| numbers.try_into().ok());
    bytes.ok_or_else(|| Failure::new(format!("a: `{command}`: not two numbers: {text}")))
}

/// Nothing passes a link any more, either way, and nobody says so. The transfer goes on over the
/// other, and over both once it is mended.
pub(super) fn cut(pair: &Machines, link: usize) -> Result<String, Failure> {
    let used = run(pair, "write-bw", TRANSFER, || {
        thread::sleep(CUT_AFTER);
        both(pair, &format!("tc qdisc add dev eth{link} root netem loss 100%"))?;
        thread::sleep(CUT_FOR);
        both(pair, &format!("tc qdisc del dev eth{link} root"))
    })?;
    let (there, elsewhere) = (used[link], used[1 - link]);
    if there.lost == 0 {
        return Err(Failure::new(format!("nothing was lost on link {link}, which was cut")));
    }
    Ok(format!(
        "lost: {} of {} there, {} of {} elsewhere",
        there.lost, there.packets, elsewhere.lost, elsewhere.packets
    ))
}

/// A device that goes takes no connection with it that has another rail.
pub(super) fn deleted(pair: &Machines) -> Result<String, Failure> {
    let mut deletion = None;
    let used = run(pair, "write-bw", TRANSFER, || {
        thread::sleep(CUT_AFTER);
        // It ends when the program has let go of the device.
        deletion = Some(pair.a.spawn("rdma link delete rxe1", LIMIT)?);
        Ok(())
    });
    if let Some(deletion) = deletion {
        deletion.wait()?.good("a", "rdma link delete rxe1")?;
        pair.a.must("rdma link add rxe1 type rxe netdev eth1", SHORT)?;
    }
    let [stays, goes] = used?;
    Ok(format!("{} packets by rxe0, {} by rxe1", stays.packets, goes.packets))
}

fn both(pair: &Machines, command: &str) -> Result<(), Failure> {
    [&pair.a, &pair.b].into_iter().try_for_each(|machine| machine.must(command, SHORT).map(drop))
}

/// The packets of the client on one rail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Used {
    packets: u64,
    lost: u64,
}

/// Runs a test over both rails. Returns what the client has sent on each.
fn run(
    pair: &Machines,
    test: &str,
    load: &str,
    meanwhile: impl FnOnce() -> Result<(), Failure>,
) -> Result<[Used; 2], Failure> {
    let [client, server] = RAILS.map(|rails| {
        format!("braid-perf {test} -p {PORT} --datapath verbs -d rxe0 --paths 2 --rails {rails}")
    });
    let result = "/tmp/rails.json";
    let client = format!("{client} 10.77.0.2 {load} --json {result} && cat {result}");
    let job = server::start(&pair.b, &server, Port::Udp(PORT), LIMIT)?;
    let sender = pair.a.spawn(&client, LIMIT)?;
    let met = meanwhile();
    let ended = sender.wait().and_then(|output| output.good("a", &client));
    let said = match ended.is_ok() {
        true => job.wait()?.good("b", &server)?,
        false => job.stop().map(|output| output.text).unwrap_or_default(),
    };
    met?;
    let text =
        ended.map_err(|failure| Failure::new(format!("{failure}\nb: `{server}` said:\n{said}")))?;
    parse(&text).map_err(|why| Failure::new(format!("a: `{client}`: {why}\n{text}")))
}

/// From the JSON that follows the table.
fn parse(text: &str) -> Result<[Used; 2], &'static str> {
    let json = text.find("\n{").map_or(text, |at| &text[at..]);
    let value: Value = serde_json::from_str(json).map_err(|_| "no JSON in its output")?;
    if value["rows"][0]["verified_messages"].as_u64().unwrap_or(0) == 0 {
        return Err("it has verified nothing");
    }
    let rail = |rail: &Value| {
        Some(Used { packets: rail["packets"].as_u64()?, lost: rail["lost"].as_u64()? })
    };
    let rails: Option<Vec<Used>> =
        value["rails"].as_array().into_iter().flatten().map(rail).collect();
    rails.and_then(|rails| rails.try_into().ok()).ok_or("it has not used two rails")
}

fn even([first, second]: [u64; 2]) -> Result<(), Failure> {
    match first.min(second) as f64 >= LEAST_SHARE * (first + second) as f64 {
        true => Ok(()),
        false => Err(Failure::new(format!(
            "the rails carried {first} and {second} bytes, one of them less than {LEAST_SHARE} of all"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_each_rail_has_carried_comes_from_the_json() {
        let rails = r#"{"packets": 60, "lost": 0}, {"packets": 40, "lost": 2}"#;
        let text = format!(
            " table\n{{\"rails\": [{rails}], \"rows\": [{{\"verified_messages\": 40}}]}}\n"
        );
        let used = parse(&text).expect("it is whole");
        assert_eq!((used[0].packets, used[1].lost), (60, 2));
        assert_eq!(parse(&text.replace("40}]", "0}]")), Err("it has verified nothing"));
        let one = text.replace(", {\"packets\": 40, \"lost\": 2}", "");
        assert_eq!(parse(&one), Err("it has not used two rails"));
    }

    #[test]
    fn a_rail_that_stands_by_is_not_even() {
        assert!(even([60, 40]).is_ok() && even([40, 60]).is_ok());
        assert!(even([86, 14]).is_err() && even([14, 86]).is_err());
    }
}

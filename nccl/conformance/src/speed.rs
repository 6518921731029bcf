//! The speed of the plugin relative to one TCP socket on the same loopback: in the same process,
//! with the same buffers, in turns.

use std::collections::VecDeque;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::net::{Net, Opaque, SUCCESS};
use crate::pair::{Memory, Pair, Request, Verdict, returns, until};
use crate::tcp;
use crate::workload::{LONG, MESSAGE, ROUND_TRIPS, SLOTS};

/// Medians over the rounds; ratios of the values of each round.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Measured {
    #[serde(flatten)]
    throughput: Throughput,
    plugin_latency_p50_us: f64,
    plugin_latency_p99_us: f64,
    tcp_latency_p50_us: f64,
    tcp_latency_p99_us: f64,
}

/// Results for messages of 1 MiB: medians over the rounds; ratios of the values of each round.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Throughput {
    rounds: usize,
    plugin_gbytes_per_s: f64,
    plugin_without_payload_check_gbytes_per_s: f64,
    tcp_1m_writes_gbytes_per_s: f64,
    tcp_64k_writes_gbytes_per_s: f64,
    ratio_to_tcp_1m_writes: f64,
    ratio_to_tcp_64k_writes: f64,
    unchecked_ratio_to_tcp_1m_writes: f64,
    unchecked_ratio_to_tcp_64k_writes: f64,
}

/// The results of one round in GB/s.
pub(crate) struct Round {
    pub(crate) checked: f64,
    pub(crate) unchecked: f64,
    pub(crate) tcp_1m: f64,
    pub(crate) tcp_64k: f64,
}

/// Measures.
///
/// # Errors
/// The plugin or TCP failed.
pub(crate) fn measure(net: &Net, rounds: u32) -> Verdict<Measured> {
    // SAFETY: no other thread runs yet. Two devices, and so an engine for each end, as two ranks
    // have.
    unsafe { std::env::set_var("BRAID_ADDR", "127.0.0.1,127.0.0.1") };
    let (mut found, mut plugin, mut socket) = (Vec::new(), latencies(), latencies());
    for round in 0..rounds {
        found.push(measure_round(net, round % 2 == 1)?);
        with_check("on", net, |net, ctx| latency(net, ctx, &mut plugin))?;
        tcp::latency(&mut socket)?;
    }
    let us = |histogram: &Histogram<u64>, q| histogram.value_at_quantile(q) as f64 / 2000.0;
    Ok(Measured {
        throughput: Throughput::of(&found),
        plugin_latency_p50_us: us(&plugin, 0.5),
        plugin_latency_p99_us: us(&plugin, 0.99),
        tcp_latency_p50_us: us(&socket, 0.5),
        tcp_latency_p99_us: us(&socket, 0.99),
    })
}

/// Every other round goes backwards, so that nothing always comes after the same.
fn measure_round(net: &Net, backwards: bool) -> Verdict<Round> {
    let mut found = [0.0; 4];
    for step in 0..4 {
        let which = if backwards { 3 - step } else { step };
        found[which] = match which {
            0 => with_check("on", net, throughput)?,
            1 => tcp::throughput(MESSAGE)?,
            2 => with_check("off", net, throughput)?,
            _ => tcp::throughput(64 << 10)?,
        };
    }
    let [checked, tcp_1m, unchecked, tcp_64k] = found;
    Ok(Round { checked, unchecked, tcp_1m, tcp_64k })
}

fn latencies() -> Histogram<u64> {
    Histogram::new_with_max(10_000_000_000, 3).expect("three digits of up to 10 s are possible")
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// A session with the payload check on or off.
pub(crate) fn with_check<T>(
    crc: &str,
    net: &Net,
    run: impl FnOnce(&Net, Opaque) -> Verdict<T>,
) -> Verdict<T> {
    // SAFETY: no other thread runs: the last session's have ended with it.
    unsafe { std::env::set_var("BRAID_CRC", crc) };
    let ctx = net.init(None).map_err(|code| format!("init returned {code}"))?;
    let value = run(net, ctx)?;
    returns("finalize", net.finalize(ctx), SUCCESS)?;
    Ok(value)
}

/// GB/s of messages of 1 MiB, 8 outstanding, one thread for each end.
fn throughput(net: &Net, ctx: Opaque) -> Verdict<f64> {
    let (send, recv) = Pair::between(net, ctx, 0, 1)?.halves();
    // The receiver posts more receives than there are messages, so an early end of the sender would
    // fail.
    let received_all = &Barrier::new(2);
    let all_received = || {
        received_all.wait();
        Ok(())
    };
    thread::scope(|scope| {
        let sender = scope.spawn(move || send_for(send, LONG, all_received));
        let received = receive(recv, |_| all_received());
        sender.join().expect("the sender does not panic").and(received)
    })
}

/// Waits for one request, looking at no other: the polls are counted in.
fn wait(pair: &Pair<'_>, request: Request) -> Verdict<[i32; 8]> {
    until("test", || pair.test(request))
}

/// Sends until the time is over; the last message is empty. `received_all` waits until the receiver
/// has all of it.
pub(crate) fn send_for(
    pair: Pair<'_>,
    time: Duration,
    received_all: impl FnOnce() -> Verdict,
) -> Verdict {
    let mut from = Memory::new(pair.net, pair.send, SLOTS * MESSAGE)?;
    from.fill(0, SLOTS * MESSAGE, 1);
    let (since, mut outstanding) = (Instant::now(), VecDeque::new());
    for slot in (0..SLOTS).cycle() {
        if outstanding.len() == SLOTS {
            wait(&pair, outstanding.pop_front().expect("there are 8"))?;
        }
        let size = if since.elapsed() < time { MESSAGE } else { 0 };
        outstanding.push_back(pair.isend(&mut from, slot * MESSAGE, size, 0)?);
        if size == 0 {
            break;
        }
    }
    outstanding.into_iter().try_for_each(|request| wait(&pair, request).map(|_| ()))?;
    received_all()?;
    drop(from);
    pair.close()
}

/// Receives up to the empty message and returns GB/s from the first one on. `tell` notifies the
/// sender with the speed.
pub(crate) fn receive(pair: Pair<'_>, tell: impl FnOnce(f64) -> Verdict) -> Verdict<f64> {
    let mut to = Memory::new(pair.net, pair.recv, SLOTS * MESSAGE)?;
    to.fill(0, SLOTS * MESSAGE, 2);
    let post = |to: &mut Memory<'_>, slot| pair.irecv(to, &[(slot * MESSAGE, MESSAGE, 0)]);
    let mut outstanding = VecDeque::new();
    for slot in 0..SLOTS {
        outstanding.push_back(post(&mut to, slot)?);
    }
    let (mut bytes, mut since) = (0, None);
    for slot in (0..SLOTS).cycle() {
        let size = wait(&pair, outstanding.pop_front().expect("there are 8"))?[0];
        if size == 0 {
            break;
        }
        // The first message only starts the clock.
        match since {
            None => since = Some(Instant::now()),
            Some(_) => bytes += size as usize,
        }
        outstanding.push_back(post(&mut to, slot)?);
    }
    let seconds = since.ok_or("nothing arrived")?.elapsed().as_secs_f64();
    let rate = bytes as f64 / seconds / 1e9;
    tell(rate)?;
    drop(to);
    pair.close()?;
    Ok(rate)
}

/// Round trips of 8 bytes, in ns.
fn latency(net: &Net, ctx: Opaque, into: &mut Histogram<u64>) -> Verdict {
    let (there, heard_there) = Pair::between(net, ctx, 0, 1)?.halves();
    let (back, heard_back) = Pair::between(net, ctx, 1, 0)?.halves();
    thread::scope(|scope| {
        let echo = scope.spawn(move || ping_pong(heard_there, back, false, |_| ()));
        let pinged = ping_pong(heard_back, there, true, |ns| into.saturating_record(ns));
        echo.join().expect("the echo does not panic").and(pinged)
    })
}

/// Receives that are posted ahead, as NCCL posts its steps.
const AHEAD: u32 = 4;

/// One side of the ping-pong. The first side sends and then receives, the other one receives first.
fn ping_pong(hear: Pair<'_>, say: Pair<'_>, first: bool, mut took: impl FnMut(u64)) -> Verdict {
    let mut from = Memory::new(say.net, say.send, 8)?;
    let mut to = Memory::new(hear.net, hear.recv, 8)?;
    let (mut posted, mut sent) = (VecDeque::new(), VecDeque::new());
    for _ in 0..AHEAD {
        posted.push_back(hear.irecv(&mut to, &[(0, 8, 0)])?);
    }
    for round in 1..=ROUND_TRIPS {
        let since = Instant::now();
        if first {
            sent.push_back(say.isend(&mut from, 0, 8, 0)?);
        }
        let heard = posted.pop_front().expect("some are posted ahead");
        // Both requests need polling: the message waits for the other side's receive.
        until("test", || {
            if let Some(request) = sent.front()
                && say.test(*request)?.is_some()
            {
                sent.pop_front();
            }
            hear.test(heard)
        })?;
        took(since.elapsed().as_nanos() as u64);
        if !first {
            sent.push_back(say.isend(&mut from, 0, 8, 0)?);
        }
        if round + AHEAD <= ROUND_TRIPS {
            posted.push_back(hear.irecv(&mut to, &[(0, 8, 0)])?);
        }
    }
    sent.into_iter().try_for_each(|request| wait(&say, request).map(|_| ()))?;
    drop((from, to));
    say.close()?;
    hear.close()
}

impl Throughput {
    pub(crate) fn of(found: &[Round]) -> Self {
        let over = |value: fn(&Round) -> f64| median(found.iter().map(value).collect());
        Throughput {
            rounds: found.len(),
            plugin_gbytes_per_s: over(|r| r.checked),
            plugin_without_payload_check_gbytes_per_s: over(|r| r.unchecked),
            tcp_1m_writes_gbytes_per_s: over(|r| r.tcp_1m),
            tcp_64k_writes_gbytes_per_s: over(|r| r.tcp_64k),
            ratio_to_tcp_1m_writes: over(|r| r.checked / r.tcp_1m),
            ratio_to_tcp_64k_writes: over(|r| r.checked / r.tcp_64k),
            unchecked_ratio_to_tcp_1m_writes: over(|r| r.unchecked / r.tcp_1m),
            unchecked_ratio_to_tcp_64k_writes: over(|r| r.unchecked / r.tcp_64k),
        }
    }

    pub(crate) fn print(&self) {
        println!(
            "\n{:44}{:>8}{:>12}{:>12}",
            "1 MiB messages, 8 outstanding", "GB/s", "of TCP 1M", "of TCP 64K"
        );
        let row = |name, rate: f64, ratios: Option<(f64, f64)>| {
            let cell = |ratio: f64| format!("{ratio:>12.2}");
            let (a, b) = ratios.map_or_else(Default::default, |(a, b)| (cell(a), cell(b)));
            println!("{name:44}{rate:>8.3}{a}{b}");
        };
        row(
            "plugin",
            self.plugin_gbytes_per_s,
            Some((self.ratio_to_tcp_1m_writes, self.ratio_to_tcp_64k_writes)),
        );
        let unchecked =
            (self.unchecked_ratio_to_tcp_1m_writes, self.unchecked_ratio_to_tcp_64k_writes);
        row(
            "plugin, BRAID_CRC=off",
            self.plugin_without_payload_check_gbytes_per_s,
            Some(unchecked),
        );
        row("TCP cubic, 1 MiB writes", self.tcp_1m_writes_gbytes_per_s, None);
        row("TCP cubic, 64 KiB writes", self.tcp_64k_writes_gbytes_per_s, None);
        println!("medians of {} interleaved rounds", self.rounds);
    }
}

impl Measured {
    pub(crate) fn print(&self) {
        self.throughput.print();
        println!("\n{:44}{:>8}{:>12}", "8 bytes, half a round trip, us", "p50", "p99");
        let row = |name, p50: f64, p99: f64| println!("{name:44}{p50:>8.1}{p99:>12.1}");
        row("plugin", self.plugin_latency_p50_us, self.plugin_latency_p99_us);
        row("TCP_NODELAY", self.tcp_latency_p50_us, self.tcp_latency_p99_us);
    }
}

//! Reports to a controller, and the effect of its window.

use std::collections::BTreeMap;
use std::time::Duration;

use braid_cc::Chunk;
use braid_transport::QpConfig;
use braid_wire::{DATA_HEADER_LEN, Time};

use crate::hosts::{MTU, Pair, Sent};
use crate::recorder::{Answers, Recorder, Told};

const GBIT: u64 = 1_000_000_000;
/// Bytes of a full segment on the wire.
const PACKET: u64 = MTU as u64 + DATA_HEADER_LEN as u64;
const OPEN: Answers = Answers { window: 1 << 30, rate: None, chunk_bytes: None };

fn micros(us: u64) -> Duration {
    Duration::from_micros(us)
}

fn pair(recorder: &Recorder, ask_every: u32) -> Pair {
    Pair::new(QpConfig { cc: recorder.config(), ask_every, ..QpConfig::default() }, 1)
}

/// Sends `count` segments, each when the pacer lets it.
fn departures(pair: &mut Pair, count: usize) -> Vec<(Time, Sent)> {
    let mut left = Vec::new();
    while left.len() < count {
        let now = pair.now;
        left.extend(pair.send().into_iter().map(|sent| (now, sent)));
        if left.len() < count {
            pair.sleep();
        }
    }
    left
}

#[test]
fn rtt_excludes_the_delay_of_the_peer() {
    let recorder = Recorder::new(OPEN);
    let mut pair = pair(&recorder, 1);
    pair.write(1);
    let first = (pair.now, pair.send().remove(0));
    pair.pass(micros(7));
    pair.write(1);
    let second = (pair.now, pair.send().remove(0));
    // They swap places on the way.
    for ((sent_at, sent), one_way, held, in_flight) in [(second, 30, 11, 2), (first, 5, 0, 1)] {
        pair.pass(micros(one_way));
        let mut ack = pair.arrive(&sent).expect("it asks");
        pair.pass(micros(held));
        ack.delay_ns = micros(held).as_nanos() as u32;
        pair.pass(micros(20));
        pair.ack(&ack);
        let acks = recorder.acks();
        let [sample] = acks[..] else { panic!("one packet, so one sample: {acks:?}") };
        let rtt = sample.rtt.expect("it is the one that is echoed");
        assert_eq!((sample.now, sample.path), (pair.now, sent.path));
        assert_eq!((rtt.sent_at, rtt.rtt), (sent_at, pair.now - sent_at - micros(held)));
        assert_eq!((sample.packets, sample.bytes), (1, PACKET));
        assert_eq!(sample.in_flight, in_flight * PACKET);
    }
}

#[test]
fn marks_count_for_the_path_that_carried_them_and_one_packet_is_sampled() {
    let recorder = Recorder::new(OPEN);
    let mut pair = pair(&recorder, 32);
    for marked in [1, 3] {
        pair.write(16);
        let sent_at = pair.now;
        let sent = pair.send();
        let congested = sent[marked].path;
        pair.pass(micros(10));
        let mut acks = Vec::new();
        for sent in &sent {
            acks.extend(pair.arrive_marked(sent, sent.path == congested));
        }
        assert_eq!(acks.len(), 1, "only the last asks");
        pair.ack(&acks[0]);
        let mut by_path: BTreeMap<u16, (u32, u64, u32)> = BTreeMap::new();
        let mut sampled = Vec::new();
        for ack in recorder.acks() {
            let known = by_path.entry(ack.path.get()).or_default();
            *known = (known.0 + ack.packets, known.1 + ack.bytes, known.2 + ack.marks);
            sampled.extend(ack.rtt.map(|rtt| (ack.path, rtt.sent_at, rtt.rtt)));
            assert_eq!(ack.in_flight, 16 * PACKET, "before the acknowledgement came");
        }
        let is = |path: u16| if path == congested.get() { 4 } else { 0 };
        let expected = (0..4).map(|path| (path, (4, 4 * PACKET, is(path)))).collect();
        assert_eq!(by_path, expected);
        assert_eq!(sampled, [(sent[15].path, sent_at, micros(10))]);
    }
}

#[test]
fn refusals_of_the_local_device_count_as_one_mark() {
    let recorder = Recorder::new(OPEN);
    let mut pair = pair(&recorder, 1);
    for refusals in [0, 1, 3, 0] {
        for _ in 0..refusals {
            pair.refuse();
        }
        for mark in [refusals.min(1), 0] {
            pair.write(1);
            let sent = pair.send().remove(0);
            let ack = pair.arrive(&sent).expect("it asks");
            pair.ack(&ack);
            let marks: u32 = recorder.acks().iter().map(|ack| ack.marks).sum();
            assert_eq!(marks, mark, "{refusals} refusals");
        }
    }
}

#[test]
fn late_marks_count_for_their_path_without_packets() {
    let recorder = Recorder::new(OPEN);
    let mut pair = pair(&recorder, 1);
    pair.write(2);
    let sent = pair.send();
    let first = pair.arrive_marked(&sent[0], true).unwrap();
    let second = pair.arrive_marked(&sent[1], false).unwrap();
    pair.ack(&second);
    let packets: u32 = recorder.acks().iter().map(|ack| ack.packets + 10 * ack.marks).sum();
    assert_eq!(packets, 2, "both, and no mark yet");
    pair.ack(&first);
    let late = recorder.acks();
    let [late] = late[..] else { panic!("one path has marks: {late:?}") };
    assert_eq!((late.path, late.packets, late.marks, late.rtt), (sent[0].path, 0, 1, None));
}

#[test]
fn chunks_are_timed_under_loss_and_reordering() {
    let answers = Answers { rate: Some(GBIT), chunk_bytes: Some(4 * PACKET), ..OPEN };
    let recorder = Recorder::new(answers);
    let mut pair = pair(&recorder, 1);
    pair.write(10);
    let left = departures(&mut pair, 10);
    let first_sent = |chunk: usize| left[4 * chunk].0;
    // The round trips that are sampled, by chunk; the last segments are a chunk too.
    let mut longest = [Duration::ZERO; 3];
    let mut chunks = Vec::new();
    let mut deliver = |pair: &mut Pair, index: usize, sent_at: Time, sent: &Sent| {
        pair.pass(micros(3 + 10 * (index as u64 % 3)));
        let ack = pair.arrive(sent).expect("it asks");
        pair.pass(micros(5));
        pair.ack(&ack);
        longest[index / 4] = longest[index / 4].max(pair.now - sent_at);
        let told = recorder.told();
        let done = told.iter().filter_map(|told| match told {
            Told::Chunk(chunk) => Some(*chunk),
            _ => None,
        });
        chunks.extend(done.map(|chunk| (index, pair.now, chunk)));
        told
    };
    let mut lost = Vec::new();
    // Paths keep their order, and there are four of them.
    for index in [3, 7, 2, 6, 5, 0, 4, 9, 8] {
        let (sent_at, sent) = &left[index];
        let told = deliver(&mut pair, index, *sent_at, sent);
        lost.extend(told.into_iter().filter(|told| matches!(told, Told::Loss(_))));
    }
    let again = departures(&mut pair, 1).remove(0);
    assert!(again.1.header.retransmission && again.1.header.psn == left[1].1.header.psn);
    deliver(&mut pair, 1, again.0, &again.1);
    let [Told::Loss(loss)] = lost[..] else { panic!("segment 1 was lost: {lost:?}") };
    assert_eq!((loss.packets, loss.bytes), (1, PACKET));
    let order: Vec<usize> = chunks.iter().map(|(index, ..)| *index).collect();
    assert_eq!(order, [4, 8, 1], "the packets that were missing last");
    for (number, (_, last_acked, chunk)) in [1, 2, 0].into_iter().zip(chunks) {
        let bytes = if number == 2 { 2 * PACKET } else { 4 * PACKET };
        let expected = Chunk {
            first_sent: first_sent(number),
            last_sent: left[(4 * number + 3).min(9)].0,
            last_acked,
            peer_delay: Duration::ZERO,
            bytes,
            longest_rtt: Some(longest[number]),
        };
        assert_eq!(chunk, expected, "chunk {number}");
    }
}

#[test]
fn last_packet_of_a_chunk_requests_an_ack_and_an_idle_stream_ends_its_chunk() {
    let recorder = Recorder::new(Answers { chunk_bytes: Some(4 * PACKET), ..OPEN });
    let mut pair = pair(&recorder, 32);
    for segments in [8, 1] {
        pair.write(segments);
        let sent = pair.send();
        let asks: Vec<bool> = sent.iter().map(|sent| sent.header.ack_request).collect();
        assert!((0..asks.len()).all(|at| asks[at] == (at % 4 == 3 || at + 1 == asks.len())));
        pair.pass(micros(10));
        for sent in &sent {
            if let Some(ack) = pair.arrive(sent) {
                pair.ack(&ack);
            }
        }
        let told = recorder.told();
        let bytes = told.iter().filter_map(|told| match told {
            Told::Chunk(chunk) => Some((chunk.bytes / PACKET, chunk.delay())),
            _ => None,
        });
        let expected = if segments == 8 { vec![(4, micros(10)); 2] } else { vec![(1, micros(10))] };
        assert_eq!(bytes.collect::<Vec<_>>(), expected);
    }
}

#[test]
fn in_flight_is_sent_less_acknowledged_or_lost() {
    let recorder = Recorder::new(Answers { window: 20 * PACKET, ..OPEN });
    let mut pair = pair(&recorder, 1);
    pair.write(60);
    let mut in_flight = 0;
    let mut acknowledged = 0;
    for round in 0.. {
        let sent = pair.send();
        in_flight += sent.len() as u64 * PACKET;
        assert!(in_flight <= 20 * PACKET, "the window is the controller's");
        pair.pass(micros(50));
        for (index, sent) in sent.iter().enumerate() {
            if round == 0 && index % 7 == 3 {
                continue; // lost
            }
            let ack = pair.arrive(sent).expect("it asks");
            pair.ack(&ack);
            for told in recorder.told() {
                match told {
                    Told::Ack(ack) => {
                        assert_eq!(ack.in_flight, in_flight);
                        in_flight -= ack.bytes;
                        acknowledged += ack.packets;
                    }
                    Told::Loss(loss) => in_flight -= loss.bytes,
                    other => panic!("nothing else has happened: {other:?}"),
                }
            }
        }
        if acknowledged == 60 {
            break;
        }
    }
    assert_eq!(in_flight, 0);
}

#[test]
fn stream_is_application_limited_unless_window_or_rate_stop_it() {
    for limited in [Answers { window: 2 * PACKET, ..OPEN }, Answers { rate: Some(GBIT), ..OPEN }] {
        let recorder = Recorder::new(limited);
        let mut pair = pair(&recorder, 1);
        pair.write(3);
        let mut flags = Vec::new();
        let mut left = pair.send();
        while !left.is_empty() {
            let sent = left.remove(0);
            pair.pass(micros(1));
            let ack = pair.arrive(&sent).expect("it asks");
            pair.ack(&ack);
            flags.extend(recorder.acks().iter().map(|ack| ack.app_limited));
            left.extend(pair.send());
            if left.is_empty() && flags.len() < 3 {
                pair.sleep();
                left.extend(pair.send());
            }
        }
        assert_eq!(flags.first(), Some(&false), "{limited:?}: more could have been sent");
        assert_eq!(flags.last(), Some(&true), "{limited:?}: nothing was left");
    }
}

#[test]
fn time_out_is_reported_as_such() {
    let recorder = Recorder::new(OPEN);
    let mut pair = pair(&recorder, 1);
    pair.write(1);
    pair.send();
    while pair.counters().timeouts == 0 {
        pair.sleep();
    }
    assert_eq!(recorder.told(), [Told::Timeout(pair.now)]);
}

/// Lets `count` segments leave, each acknowledged `rtt` later, and returns when they left.
fn exchange(pair: &mut Pair, count: usize, rtt: Duration) -> Vec<Time> {
    let mut left = Vec::new();
    while left.len() < count {
        let mut sent = departures(pair, 1);
        assert_eq!(sent.len(), 1, "one packet at a time");
        let (at, sent) = sent.remove(0);
        pair.pass(rtt);
        let ack = pair.arrive(&sent).expect("it asks");
        pair.ack(&ack);
        left.push(at);
    }
    left
}

#[test]
fn window_below_one_packet_sends_one_in_several_round_trips() {
    const RTT: Duration = Duration::from_micros(100);
    let recorder = Recorder::new(Answers { window: PACKET / 4, ..OPEN });
    let mut pair = pair(&recorder, 1);
    pair.write(20);
    let left = exchange(&mut pair, 6, RTT);
    // The first one left before any round trip was known.
    for pause in left[1..].windows(2).map(|pair| pair[1] - pair[0]) {
        assert!(pause.abs_diff(4 * RTT) < micros(2), "{pause:?}");
    }
    // As soon as it has room for a packet, nothing holds one back.
    recorder.set_window(PACKET);
    let left = exchange(&mut pair, 3, RTT);
    let pauses: Vec<_> = left[1..].windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(pauses, [RTT]);
}

/// The peer was away for a while: that is no round trip to pace by.
#[test]
fn pause_of_the_peer_does_not_delay_a_small_window() {
    let config = QpConfig::default();
    let recorder = Recorder::new(Answers { window: PACKET / 10, ..OPEN });
    let mut pair = pair(&recorder, 1);
    pair.write(4);
    let left = exchange(&mut pair, 4, 30 * config.max_rto);
    // Ten round trips of the longest that counts, and the one that was waited for.
    for pause in left[1..].windows(2).map(|pair| pair[1] - pair[0]) {
        assert!(pause <= 31 * config.max_rto, "{pause:?}");
    }
}

//! Fuzzes the datagrams of links, and an end of a link that receives them.

use std::time::{Duration, Instant};

use super::association::{Association, MAX_PENDING, Taken};
use super::datagram::{Body, Datagram, MAX_DATAGRAM, MAX_MESSAGE};

const LINK: u64 = 7;
const MAGIC: &[u8] = b"BrMs";
/// Most datagrams with which an end answers one: all that it repeats, and an acknowledgement.
const MOST_ANSWERS: usize = MAX_PENDING + 2;

/// Decodes the input as one datagram, then splits it into datagrams for an end of a link. The first
/// byte chooses the end. Three bytes precede each datagram: its length, an action of the end's
/// owner, and the time that passes, in units of 10 ms.
///
/// # Panics
/// A datagram is not encoded as it was decoded, or the end breaks a limit.
pub fn link_datagrams(input: &[u8]) {
    check_datagram(input);
    check_datagram(&[MAGIC, input].concat());
    let Some((&choice, mut rest)) = input.split_first() else { return };
    let is_client = choice & 1 == 0;
    let mut now = Instant::now();
    let mut end = match is_client {
        true => Association::client(LINK, now),
        false => Association::server(LINK, b"first", now),
    };
    while let Some((&[len, action, pause], after)) = rest.split_first_chunk::<3>() {
        let (bytes, after) = after.split_at(usize::from(len).min(after.len()));
        rest = after;
        now += Duration::from_millis(u64::from(pause) * 10);
        while end.poll_transmit().is_some() {}
        let datagram = [MAGIC, bytes].concat();
        if let Some(datagram) = Datagram::decode(&datagram) {
            end.on_datagram(&Datagram { link: LINK, ..datagram }, now);
        }
        check_answers(&mut end);
        act(&mut end, action, now);
        end.on_timeout(now);
    }
    end.close(now);
    assert_ne!(end.take(), Taken::Nothing, "a closed end has an end");
}

/// Encodes what `bytes` decode to, which gives the same datagram and, unless it is padded, the same
/// bytes.
fn check_datagram(bytes: &[u8]) {
    let Some(datagram) = Datagram::decode(bytes) else { return };
    let again = datagram.encode();
    assert!(again.len() <= MAX_DATAGRAM);
    assert_eq!(Datagram::decode(&again), Some(datagram));
    assert_eq!(Datagram::decode_beginning(bytes), Some(datagram.link));
    match datagram.body {
        Body::Hello => assert_eq!(again.len(), bytes.len()),
        _ => assert_eq!(again, bytes),
    }
}

/// Takes the answers to one datagram.
fn check_answers(end: &mut Association) {
    let mut count = 0;
    while let Some(answer) = end.poll_transmit() {
        let answer = Datagram::decode(&answer).expect("an end sends datagrams");
        assert_eq!(answer.link, LINK);
        count += 1;
    }
    assert!(count <= MOST_ANSWERS, "{count} datagrams answer one");
}

/// Does what the owner of the end may do, and what the driver tells it.
fn act(end: &mut Association, action: u8, now: Instant) {
    match action % 8 {
        1 => {
            let message = [action; MAX_MESSAGE];
            // Refused if the link has ended or if too many messages wait.
            let _ = end.send(&message[..usize::from(action) * 4], now);
        }
        2 => {
            let taken = (0..).take_while(|_| matches!(end.take(), Taken::Message(_))).count();
            assert!(taken <= MAX_PENDING, "{taken} messages waited");
        }
        3 => end.probe(now),
        4 => end.on_report(libc::ECONNREFUSED, now),
        5 => end.on_report(libc::EHOSTUNREACH, now),
        6 if action > 0xF0 => end.close(now),
        _ => {}
    }
}

use std::thread;
use std::time::Duration;

use braid_keys::{AllowList, Key, PrivateKey, StaticKeys};

use super::super::message::MessageKind;
use super::super::message::tests::message;
use super::*;
use crate::messages::tests::Pairs;

const REQUEST: &[u8] = b"what only the listener may read";
const ACCEPT: &[u8] = b"and what only who has asked may";

/// An asking end and an asked one. Each recv waits for 10 s.
fn pair() -> [Link; 2] {
    let ends = Pairs::new().begin();
    ends.iter().for_each(|link| link.set_limit(Some(Duration::from_secs(10))));
    ends
}

fn shared(byte: u8) -> Security {
    Security::new(Key::new([byte; 32]))
}

/// The keys of an end: its own private key, and the other end's public key as an allowed one.
fn own(own: u8, other: u8) -> Security {
    let public = PrivateKey::new([other; 32]).public();
    let list = AllowList::parse(&format!("{public} # other\n")).expect("a list");
    Security::new(StaticKeys::new(PrivateKey::new([own; 32]), list))
}

/// Runs the asking end, and returns whether it was accepted.
fn asks(link: &Link, security: Option<&Security>) -> io::Result<()> {
    let pending = send_request(link, security, &message(MessageKind::Request, REQUEST))?;
    let (answer, protection) = pending.answer(link)?;
    assert_eq!(answer, message(MessageKind::Accept, ACCEPT));
    protection.send(link, &message(MessageKind::Ready, b""))
}

fn accepts(link: &Link, security: Option<&Security>) -> io::Result<()> {
    let (request, reply) = recv_request(link, security)?;
    assert_eq!(request, message(MessageKind::Request, REQUEST));
    let protection = reply.send(link, &message(MessageKind::Accept, ACCEPT))?;
    assert_eq!(protection.recv(link)?, message(MessageKind::Ready, b""));
    Ok(())
}

/// The results of both ends. An end that gives up closes its link.
fn both(one: Option<Security>, other: Option<Security>) -> [io::Result<()>; 2] {
    let [near, far] = pair();
    let accepting = thread::spawn(move || accepts(&far, other.as_ref()));
    let asked = asks(&near, one.as_ref());
    drop(near);
    [asked, accepting.join().expect("what is received is what was said")]
}

fn errno(result: &io::Result<()>) -> Option<i32> {
    result.as_ref().expect_err("it is denied").raw_os_error()
}

#[test]
fn ends_with_the_same_key_or_none_exchange_messages() {
    let mut optional = shared(1);
    optional.required = false;
    for [one, other] in [
        [None, None],
        [Some(shared(1)), Some(shared(1))],
        [Some(own(1, 2)), Some(own(2, 1))],
        [None, Some(optional)],
    ] {
        for result in both(one.clone(), other) {
            result.unwrap_or_else(|error| panic!("{one:?}: {error}"));
        }
    }
}

#[test]
fn an_end_with_another_key_or_none_is_denied() {
    for [one, other] in [
        [shared(1), shared(2)],
        [own(1, 2), own(2, 3)],
        [own(1, 3), own(2, 1)],
        [own(1, 2), shared(1)],
    ] {
        let [asked, accepted] = both(Some(one), Some(other));
        assert_eq!((errno(&asked), errno(&accepted)), (Some(libc::EACCES), Some(libc::EACCES)));
    }
    for [one, other] in [[None, Some(shared(1))], [Some(shared(1)), None]] {
        let [asked, accepted] = both(one, other);
        assert!(asked.is_err());
        assert_eq!(errno(&accepted), Some(libc::EACCES));
    }
}

/// Forwards the messages of one link to another, with one byte changed. Returns the bytes.
fn relay(from: &Link, to: &Link, changed: Option<usize>) -> Vec<u8> {
    let mut seen = Vec::new();
    while let Ok(mut message) = from.recv() {
        let (before, len) = (seen.len(), message.len());
        seen.extend_from_slice(&message);
        if let Some(at) = changed.and_then(|at| at.checked_sub(before)).filter(|at| *at < len) {
            message[at] ^= 0x10;
        }
        if to.send(&message).is_err() {
            break;
        }
    }
    to.close();
    seen
}

/// The results and messages of two ends with an attacker between them.
fn between(changed: [Option<usize>; 2]) -> ([io::Result<()>; 2], [Vec<u8>; 2]) {
    let ([near, relay_near], [relay_far, far]) = (pair(), pair());
    thread::scope(|scope| {
        let asking = scope.spawn(move || {
            let asked = asks(&near, Some(&own(1, 2)));
            near.close();
            asked
        });
        let accepting = scope.spawn(move || accepts(&far, Some(&own(2, 1))));
        let forth = scope.spawn(|| relay(&relay_near, &relay_far, changed[0]));
        let back = relay(&relay_far, &relay_near, changed[1]);
        let results =
            [asking, accepting].map(|end| end.join().expect("it hears the truth or none"));
        (results, [forth.join().expect("it ends"), back])
    })
}

#[test]
fn an_attacker_in_between_reads_and_changes_nothing() {
    let (results, said) = between([None; 2]);
    assert!(results.iter().all(Result::is_ok), "{results:?}");
    for part in [REQUEST, ACCEPT] {
        let is_seen = said.iter().any(|said| said.windows(part.len()).any(|seen| seen == part));
        assert!(!is_seen, "in clear");
    }
    for at in 0..said[0].len() {
        assert!(between([Some(at), None]).0[1].is_err(), "byte {at} there was changed");
    }
    for at in 0..said[1].len() {
        assert!(between([None, Some(at)]).0[0].is_err(), "byte {at} back was changed");
    }
}

#[test]
fn recorded_messages_have_no_effect() {
    let (results, [said, _]) = between([None; 2]);
    assert!(results.iter().all(Result::is_ok), "{results:?}");
    let [near, far] = pair();
    let (hello, rest) = said.split_at(KEYED.len() + 8);
    near.send(hello).expect("it is open");
    near.send(rest).expect("it is open");
    let received = recv_request(&far, Some(&own(2, 1))).map(drop);
    assert_eq!(errno(&received), Some(libc::EACCES));
}

#[test]
fn bytes_that_are_no_message_are_refused() {
    for bytes in [&b"BrCk"[..], b"BrCk1234567", b"BrCk123456789", b"", b"BrCm"] {
        let [near, far] = pair();
        near.send(bytes).expect("it is open");
        let received = recv_request(&far, Some(&shared(1))).map(drop).expect_err("it is none");
        let denied = received.raw_os_error() == Some(libc::EACCES);
        assert!(denied || received.kind() == io::ErrorKind::InvalidData, "{bytes:?}: {received}");
    }
}

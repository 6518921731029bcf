use std::net::{Ipv4Addr, TcpListener};
use std::thread;
use std::time::Duration;

use braid_keys::{AllowList, Key, PrivateKey, StaticKeys};

use super::super::message::Kind;
use super::super::message::tests::message;
use super::*;

const REQUEST: &[u8] = b"what only the listener may read";
const ACCEPT: &[u8] = b"and what only who has asked may";

fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let near = TcpStream::connect(listener.local_addr().expect("an address")).expect("it listens");
    let far = listener.accept().expect("it has connected").0;
    for stream in [&near, &far] {
        stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a time");
    }
    (near, far)
}

fn shared(byte: u8) -> Security {
    Security::new(Key::new([byte; 32]))
}

/// With the private key of `own`, which allows that of `other`.
fn own(own: u8, other: u8) -> Security {
    let public = PrivateKey::new([other; 32]).public();
    let list = AllowList::parse(&format!("{public} # other\n")).expect("a list");
    Security::new(StaticKeys::new(PrivateKey::new([own; 32]), list))
}

/// All that who has asked says, and whether it was accepted.
fn asks(stream: &TcpStream, security: Option<&Security>) -> io::Result<()> {
    let pending = ask(stream, security, &message(Kind::Request, REQUEST))?;
    let (answer, speech) = pending.answer(stream)?;
    assert_eq!(answer, message(Kind::Accept, ACCEPT));
    speech.say(stream, &message(Kind::Ready, b""))
}

fn accepts(stream: &TcpStream, security: Option<&Security>) -> io::Result<()> {
    let (request, reply) = hear(stream, security)?;
    assert_eq!(request, message(Kind::Request, REQUEST));
    let speech = reply.give(stream, &message(Kind::Accept, ACCEPT))?;
    assert_eq!(speech.hear(stream)?, message(Kind::Ready, b""));
    Ok(())
}

/// What both ends come to; one that gives up closes its stream.
fn both(one: Option<Security>, other: Option<Security>) -> [io::Result<()>; 2] {
    let (near, far) = pair();
    let accepting = thread::spawn(move || accepts(&far, other.as_ref()));
    let asked = asks(&near, one.as_ref());
    drop(near);
    [asked, accepting.join().expect("what is heard is what was said")]
}

fn errno(result: &io::Result<()>) -> Option<i32> {
    result.as_ref().expect_err("it is denied").raw_os_error()
}

#[test]
fn ends_with_the_same_key_or_none_hear_each_other() {
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
fn who_has_another_key_or_none_is_denied() {
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

/// Lets one stream's bytes through to another, with one of them changed. Returns them.
fn relay(from: &TcpStream, to: &TcpStream, changed: Option<usize>) -> Vec<u8> {
    let (mut from, mut to) = (from, to);
    let mut seen = Vec::new();
    let mut bytes = [0; 512];
    while let Ok(len @ 1..) = from.read(&mut bytes) {
        let before = seen.len();
        seen.extend_from_slice(&bytes[..len]);
        if let Some(at) = changed.and_then(|at| at.checked_sub(before)).filter(|at| *at < len) {
            bytes[at] ^= 0x10;
        }
        if to.write_all(&bytes[..len]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(std::net::Shutdown::Write);
    seen
}

/// What both ends come to and have said, with somebody between them.
fn between(changed: [Option<usize>; 2]) -> ([io::Result<()>; 2], [Vec<u8>; 2]) {
    let ((near, relay_near), (relay_far, far)) = (pair(), pair());
    thread::scope(|scope| {
        let asking = scope.spawn(move || asks(&near, Some(&own(1, 2))));
        let accepting = scope.spawn(move || accepts(&far, Some(&own(2, 1))));
        let forth = scope.spawn(|| relay(&relay_near, &relay_far, changed[0]));
        let back = relay(&relay_far, &relay_near, changed[1]);
        let results =
            [asking, accepting].map(|end| end.join().expect("it hears the truth or none"));
        (results, [forth.join().expect("it ends"), back])
    })
}

#[test]
fn who_is_between_reads_nothing_and_changes_nothing() {
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
fn what_was_recorded_begins_nothing() {
    let (_, [said, _]) = between([None; 2]);
    let (mut near, far) = pair();
    near.write_all(&said).expect("there is room");
    let heard = hear(&far, Some(&own(2, 1))).map(drop);
    assert_eq!(errno(&heard), Some(libc::EACCES));
}

#[test]
fn what_is_longer_than_any_message_is_not_waited_for() {
    let (mut near, far) = pair();
    near.write_all(&[&KEYED[..], &[0; 8], &[0xFF; 2]].concat()).expect("there is room");
    let heard = hear(&far, Some(&shared(1))).map(drop);
    assert_eq!(heard.expect_err("it is none").kind(), io::ErrorKind::InvalidData);
}

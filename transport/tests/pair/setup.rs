//! Connection set-up over a link that loses, repeats and forges packets, in virtual time.
//!
//! The responder here is a listener in its smallest form: it answers each packet on its own, as
//! `engine` does, and keeps nothing but the offers it has accepted.

use std::time::Duration;

use braid_transport::{ConnectError, CookieJar, Initiator};
use braid_wire::{
    BASE_DATAGRAM, Connect, Crc, Hello, Offer, Packet, QpId, Reject, RejectReason, Routing, Setup,
    Time, Token,
};

const NONCE: u64 = 0x1234_5678_9ABC_DEF0;
const TIMEOUT: Duration = Duration::from_secs(2);
const ADDRESS: &[u8] = b"10.0.0.1:4791";

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn offer(qp: u32) -> Offer {
    Offer {
        qp: QpId::new(qp),
        token: Token(qp),
        psn: 5,
        instance: 9,
        mtu: 1024,
        receive_buffer: 1 << 20,
        window: 4096,
        max_rd_atomic: 16,
        crc: Crc::On,
        grants_credit: true,
    }
}

fn connect_with(nonce: u64, cookie: u64, qp: u32) -> Connect {
    let (private_data, routing) = (Vec::new(), Routing::default());
    Connect { nonce, cookie, offer: offer(qp), private_data, routing }
}

struct Listener {
    jar: CookieJar,
    /// Turns down this many CONNECTs first.
    busy: u32,
    /// The reason with which it rejects every CONNECT.
    refusal: Option<RejectReason>,
    accepted: Vec<u64>,
}

impl Listener {
    fn new() -> Self {
        let jar = CookieJar::new([7; 16]);
        Listener { jar, busy: 0, refusal: None, accepted: Vec::new() }
    }

    fn answer(&mut self, now: Time, packet: &Setup) -> Option<Setup> {
        match packet {
            Setup::Hello(Hello { nonce, len }) => {
                let cookie = self.jar.bake(now, ADDRESS, *nonce);
                Some(Setup::Cookie { nonce: *nonce, cookie, key_id: 0, len: *len })
            }
            Setup::Connect(connect) => Some(self.connect(now, connect)),
            _ => None,
        }
    }

    fn connect(&mut self, now: Time, connect: &Connect) -> Setup {
        let nonce = connect.nonce;
        let reject = |reason| Setup::Reject(Reject { nonce, reason });
        if !self.jar.verify(now, ADDRESS, nonce, connect.cookie) {
            return reject(RejectReason::Cookie);
        }
        if let Some(reason) = self.refusal {
            return reject(reason);
        }
        if self.busy > 0 {
            self.busy -= 1;
            return reject(RejectReason::Busy);
        }
        if !self.accepted.contains(&nonce) {
            self.accepted.push(nonce);
        }
        Setup::Accept(Connect { private_data: b"hi".to_vec(), ..connect_with(nonce, 0, 20) })
    }
}

/// Every packet goes through its bytes.
fn through_bytes(packet: &Setup) -> Setup {
    let mut bytes = Vec::new();
    packet.encode(&mut bytes);
    match Packet::decode(&bytes) {
        Ok(Packet::Setup(decoded)) => decoded,
        other => panic!("{packet:?} becomes {other:?}"),
    }
}

fn initiator() -> Initiator {
    Initiator::new(Time::ZERO, NONCE, offer(10), b"data".to_vec(), TIMEOUT)
}

/// Runs to the end, losing the packets (both ways counted together) that `loses` names.
fn run(
    listener: &mut Listener,
    initiator: &mut Initiator,
    mut loses: impl FnMut(usize, &Setup) -> bool,
) -> (Result<Connect, ConnectError>, Time) {
    let (mut now, mut count) = (Time::ZERO, 0);
    loop {
        while let Some(packet) = initiator.poll_transmit(now) {
            let mut pass = |packet: &Setup| {
                count += 1;
                assert!(count < 1000, "set-up does not come to an end");
                (!loses(count - 1, packet)).then(|| through_bytes(packet))
            };
            let answer = pass(&packet).and_then(|packet| listener.answer(now, &packet));
            if let Some(answer) = answer.and_then(|answer| pass(&answer)) {
                initiator.on_setup(now, &answer);
            }
        }
        if let Some(outcome) = initiator.outcome(now) {
            return (outcome.cloned(), now);
        }
        let next = initiator.next_timeout().expect("not over yet");
        assert!(next > now, "time stands still");
        now = next;
    }
}

#[test]
fn setup_without_loss_takes_no_time() {
    let (mut listener, mut initiator) = (Listener::new(), initiator());
    let (outcome, now) = run(&mut listener, &mut initiator, |_, _| false);
    let accept = outcome.unwrap();
    assert_eq!((accept.offer, accept.private_data, now), (offer(20), b"hi".to_vec(), Time::ZERO));
    assert_eq!(initiator.next_timeout(), None, "an ended set-up wants nothing more");
    assert_eq!(initiator.poll_transmit(now + TIMEOUT), None);
}

#[test]
fn setup_survives_the_loss_of_any_packet() {
    for lost in 0..4 {
        let (mut listener, mut initiator) = (Listener::new(), initiator());
        let (outcome, now) = run(&mut listener, &mut initiator, |index, _| index == lost);
        assert!(outcome.is_ok(), "packet {lost} lost: {outcome:?}");
        assert!(now > Time::ZERO && now < Time::ZERO + ms(100), "packet {lost} lost: {now:?}");
        assert_eq!(listener.accepted, [NONCE]);
    }
}

#[test]
fn setup_survives_the_loss_of_three_of_eight_packets() {
    for lost in (0u32..256).filter(|lost| lost.count_ones() == 3) {
        let (mut listener, mut initiator) = (Listener::new(), initiator());
        let loses = |index: usize, _: &Setup| index < 8 && lost >> index & 1 == 1;
        let (outcome, _) = run(&mut listener, &mut initiator, loses);
        assert!(outcome.is_ok(), "{lost:#b}: {outcome:?}");
    }
}

#[test]
fn setup_without_answers_ends_at_the_deadline() {
    let (mut listener, mut initiator) = (Listener::new(), initiator());
    let mut sent = 0;
    let (outcome, now) = run(&mut listener, &mut initiator, |_, _| {
        sent += 1;
        true
    });
    assert_eq!((outcome, now), (Err(ConnectError::TimedOut), Time::ZERO + TIMEOUT));
    assert!((5..20).contains(&sent), "{sent} packets: neither one try nor a flood");
}

/// Its driver may have been held up until then, with the answer in its socket.
#[test]
fn accept_after_the_deadline_is_too_late() {
    let (mut listener, mut initiator) = (Listener::new(), initiator());
    let hello = initiator.poll_transmit(Time::ZERO).unwrap();
    let cookie = listener.answer(Time::ZERO, &hello).unwrap();
    initiator.on_setup(Time::ZERO, &cookie);
    let connect = initiator.poll_transmit(Time::ZERO).unwrap();
    let accept = listener.answer(Time::ZERO, &connect).unwrap();
    initiator.on_setup(Time::ZERO + TIMEOUT, &accept);
    let outcome = initiator.outcome(Time::ZERO + TIMEOUT).map(|outcome| outcome.cloned());
    assert_eq!(outcome, Some(Err(ConnectError::TimedOut)));
}

#[test]
fn packets_after_the_end_of_setup_are_ignored() {
    let (mut listener, mut initiator) = (Listener::new(), initiator());
    let (outcome, now) = run(&mut listener, &mut initiator, |_, _| false);
    let first = outcome.unwrap();
    let other = Connect { offer: offer(99), ..first.clone() };
    initiator.on_setup(now, &Setup::Accept(other));
    let reason = RejectReason::Refused;
    initiator.on_setup(now, &Setup::Reject(Reject { nonce: NONCE, reason }));
    assert_eq!(initiator.outcome(now + TIMEOUT), Some(Ok(&first)));
}

#[test]
fn foreign_nonces_are_ignored() {
    let mut initiator = initiator();
    let now = Time::ZERO;
    assert!(matches!(initiator.poll_transmit(now), Some(Setup::Hello(_))));
    let nonce = NONCE + 1;
    let accept = connect_with(nonce, 0, 20);
    for reason in [RejectReason::NotListening, RejectReason::Version, RejectReason::Cookie] {
        initiator.on_setup(now, &Setup::Reject(Reject { nonce, reason }));
    }
    initiator.on_setup(now, &Setup::Accept(accept));
    initiator.on_setup(now, &Setup::Cookie { nonce, cookie: 1, key_id: 0, len: 1200 });
    assert_eq!(initiator.outcome(now), None);
    assert_eq!(initiator.poll_transmit(now), None, "a forged cookie moves nothing");
}

fn len_of(packet: &Setup) -> usize {
    let mut bytes = Vec::new();
    packet.encode(&mut bytes);
    bytes.len()
}

#[test]
fn path_of_the_base_size_connects() {
    let (mut listener, mut initiator) = (Listener::new(), initiator());
    let (outcome, _) =
        run(&mut listener, &mut initiator, |_, packet| len_of(packet) > BASE_DATAGRAM);
    assert!(outcome.is_ok(), "{outcome:?}");
}

/// Whichever way is the narrow one.
#[test]
fn path_below_the_base_size_is_reported() {
    for narrow in [["hello", "cookie"], ["hello", ""], ["", "cookie"]] {
        let (mut listener, mut initiator) = (Listener::new(), initiator());
        let loses = |_, packet: &Setup| match packet {
            Setup::Hello(hello) => narrow[0] == "hello" && hello.len > 548,
            Setup::Cookie { len, .. } => narrow[1] == "cookie" && *len > 548,
            _ => false,
        };
        let (outcome, now) = run(&mut listener, &mut initiator, loses);
        assert_eq!(outcome, Err(ConnectError::PathMtu), "{narrow:?}");
        assert!(now < Time::ZERO + TIMEOUT, "{narrow:?}: sooner than silence");
        assert!(ConnectError::PathMtu.to_string().contains("1200 bytes"));
        assert!(listener.accepted.is_empty());
    }
}

#[test]
fn random_loss_is_not_reported_as_a_narrow_path() {
    // Two full-length HELLOs are lost, and short ones come through at once.
    let (mut listener, mut initiator) = (Listener::new(), initiator());
    let mut lost = 0;
    let (outcome, _) = run(&mut listener, &mut initiator, |_, packet| {
        let is_long = matches!(packet, Setup::Hello(hello) if hello.len > 64);
        lost += u32::from(is_long);
        is_long && lost <= 4
    });
    assert!(outcome.is_ok(), "{outcome:?}");
}

#[test]
fn accept_before_the_cookie_is_ignored() {
    let mut initiator = initiator();
    initiator.on_setup(Time::ZERO, &Setup::Accept(connect_with(NONCE, 0, 20)));
    assert_eq!(initiator.outcome(Time::ZERO), None);
}

#[test]
fn busy_is_retried() {
    let (mut listener, mut initiator) = (Listener::new(), initiator());
    listener.busy = 3;
    let (outcome, now) = run(&mut listener, &mut initiator, |_, _| false);
    assert!(outcome.is_ok());
    assert!(now > Time::ZERO, "not at once: it is busy");
}

#[test]
fn final_reject_ends_setup_at_once() {
    use RejectReason::*;
    for reason in [NotListening, Refused, Version] {
        let (mut listener, mut initiator) = (Listener::new(), initiator());
        listener.refusal = Some(reason);
        let (outcome, now) = run(&mut listener, &mut initiator, |_, _| false);
        assert_eq!((outcome, now), (Err(ConnectError::Rejected(reason)), Time::ZERO));
    }
}

#[test]
fn version_reject_of_a_hello_is_reported() {
    let mut initiator = initiator();
    let reason = RejectReason::Version;
    initiator.on_setup(Time::ZERO, &Setup::Reject(Reject { nonce: NONCE, reason }));
    let outcome = initiator.outcome(Time::ZERO).unwrap();
    assert!(outcome.unwrap_err().to_string().contains("another version"));
}

#[test]
fn refused_cookie_restarts_setup_with_hello() {
    let (mut listener, mut initiator) = (Listener::new(), initiator());
    let mut hellos = 0;
    // As if the responder had restarted, with another key, since it baked this.
    initiator
        .on_setup(Time::ZERO, &Setup::Cookie { nonce: NONCE, cookie: 12345, key_id: 0, len: 1200 });
    let (outcome, _) = run(&mut listener, &mut initiator, |_, packet| {
        hellos += u32::from(matches!(packet, Setup::Hello(_)));
        false
    });
    assert!(outcome.is_ok(), "{outcome:?}");
    assert_eq!(hellos, 1);
}

#[test]
fn cookie_is_bound_to_address_nonce_and_time() {
    let jar = CookieJar::new([1; 16]);
    let other_jar = CookieJar::new([2; 16]);
    for at in [0, 1, 7_999, 8_000, 123_456] {
        let now = Time::ZERO + ms(at);
        let cookie = jar.bake(now, ADDRESS, NONCE);
        assert!(jar.verify(now, ADDRESS, NONCE, cookie));
        assert!(jar.verify(now + ms(8_000), ADDRESS, NONCE, cookie), "for 8 s at least");
        assert!(!jar.verify(now + ms(16_000), ADDRESS, NONCE, cookie), "for 16 s at most");
        assert!(!jar.verify(now, b"10.0.0.2:4791", NONCE, cookie), "another address");
        assert!(!jar.verify(now, ADDRESS, NONCE ^ 1, cookie), "another nonce");
        assert!(!jar.verify(now, ADDRESS, NONCE, cookie ^ 1), "a guess");
        assert!(!other_jar.verify(now, ADDRESS, NONCE, cookie), "another responder");
    }
}

#[test]
fn late_cookie_is_replaced() {
    let (mut listener, mut initiator) = (Listener::new(), initiator());
    let stale = listener.jar.bake(Time::ZERO, ADDRESS, NONCE);
    let now = Time::ZERO + Duration::from_secs(60);
    let answer = listener.answer(now, &Setup::Connect(connect_with(NONCE, stale, 10)));
    let reason = RejectReason::Cookie;
    assert_eq!(answer, Some(Setup::Reject(Reject { nonce: NONCE, reason })));
    initiator
        .on_setup(Time::ZERO, &Setup::Cookie { nonce: NONCE, cookie: stale, key_id: 0, len: 1200 });
    assert!(matches!(initiator.poll_transmit(Time::ZERO), Some(Setup::Connect(_))));
    // A stranger that answers for the listener does not get one CONNECT after the other for cookies
    // of its choice.
    let answer = answer.unwrap();
    initiator.on_setup(Time::ZERO, &answer);
    let soon = initiator.next_timeout().unwrap();
    assert!(matches!(initiator.poll_transmit(soon), Some(Setup::Connect(_))));
    let later = Time::ZERO + Duration::from_secs(1);
    initiator.on_setup(later, &answer);
    assert!(matches!(initiator.poll_transmit(later), Some(Setup::Hello(_))));
}

#[test]
fn answers_to_unproved_packets_are_no_longer_than_them() {
    let mut listener = Listener::new();
    let hello = |len| Setup::Hello(Hello { nonce: NONCE, len });
    let forged = connect_with(1, 2, 10);
    for packet in [hello(64), hello(700), hello(1200), Setup::Connect(forged)] {
        let (mut asked, mut answered) = (Vec::new(), Vec::new());
        packet.encode(&mut asked);
        listener.answer(Time::ZERO, &packet).unwrap().encode(&mut answered);
        assert!(answered.len() <= asked.len());
    }
    assert!(listener.accepted.is_empty());
}

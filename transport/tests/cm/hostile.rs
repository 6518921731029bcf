//! Messages of whoever can send some.

use std::net::IpAddr;
use std::time::Duration;

use braid_transport::{CmEventKind, CmId, CmManager};
use braid_wire::{
    CmBody, CmDisconnect, CmMad, CmPrivate, CmReject, CmRejectReason, CmRejected, CmReply,
    IpCmHeader, MAD_LEN, QpId, Time,
};
use proptest::prelude::*;

use super::world::{HOSTS, PORT, reply, request};

const KEY: [u8; 16] = [9; 16];

fn listener() -> CmManager {
    let mut manager = CmManager::new(KEY, 1, 0);
    manager.listen(IpCmHeader::service(PORT));
    manager
}

fn mad(body: CmBody) -> [u8; MAD_LEN] {
    CmMad { transaction: 5, body }.encode()
}

fn asks(manager: &mut CmManager, now: Time, local_id: u32) {
    let mut request = request(PORT);
    request.local_id = local_id;
    assert!(manager.on_mad(now, HOSTS[0], &mad(CmBody::Request(request))));
}

fn sent(manager: &mut CmManager) -> Vec<CmBody> {
    let sent = std::iter::from_fn(|| manager.poll_transmit());
    sent.map(|(_, mad)| CmMad::decode(&mad).expect("its own message").body).collect()
}

fn requested(manager: &mut CmManager) -> Vec<CmId> {
    let events = std::iter::from_fn(|| manager.poll_event());
    events.filter(|event| matches!(event.kind, CmEventKind::Requested(_))).map(|e| e.id).collect()
}

#[test]
fn requests_that_nobody_answers_are_limited_in_number_and_time() {
    let (mut manager, now) = (listener(), Time::from_nanos(1));
    for local_id in 1..=1000 {
        asks(&mut manager, now, local_id);
    }
    assert_eq!(requested(&mut manager).len(), 128);
    let refusals = sent(&mut manager);
    assert_eq!(refusals.len(), 1000 - 128, "one message for each refused one");
    for body in refusals {
        let CmBody::Reject(reject) = body else { panic!("{body:?}") };
        assert_eq!(reject.reason, CmRejectReason::NO_RESOURCES);
    }
    let later = now + Duration::from_secs(61);
    manager.on_timeout(later);
    assert_eq!(sent(&mut manager).len(), 128);
    asks(&mut manager, later, 2000);
    assert_eq!(requested(&mut manager).len(), 1, "there is room again");
    manager.on_timeout(later + Duration::from_secs(300));
    manager.on_timeout(later + Duration::from_secs(600));
    assert_eq!(manager.next_timeout(), None, "nothing is left");
}

#[test]
fn replies_to_an_end_that_never_asked_are_few() {
    let (mut manager, mut now) = (listener(), Time::from_nanos(1));
    asks(&mut manager, now, 7);
    let id = requested(&mut manager)[0];
    assert!(manager.accept(now, id, reply()));
    let mut count = sent(&mut manager).len();
    while let Some(next) = manager.next_timeout() {
        now = next;
        manager.on_timeout(now);
        count += sent(&mut manager).len();
    }
    assert!((2..=10).contains(&count), "{count} messages");
}

#[test]
fn ended_connections_are_limited_in_number() {
    let (mut manager, now) = (listener(), Time::from_nanos(1));
    for local_id in 1..=5000 {
        asks(&mut manager, now, local_id);
        let id = requested(&mut manager)[0];
        assert!(manager.reject(now, id, CmRejectReason::CONSUMER, &[]));
    }
    // A repetition of the first request begins another connection, because it is forgotten.
    asks(&mut manager, now, 1);
    assert_eq!(requested(&mut manager).len(), 1);
    // The last one is remembered.
    asks(&mut manager, now, 5000);
    assert!(requested(&mut manager).is_empty());
}

#[test]
fn data_is_directed_to_no_third_host() {
    let mut manager = listener();
    let other = IpAddr::from([192, 0, 2, 99]);
    let mut request = request(PORT);
    request.local_id = 3;
    assert!(manager.on_mad(Time::from_nanos(1), other, &mad(CmBody::Request(request))));
    assert!(manager.poll_event().is_none());
    let [CmBody::Reject(CmReject { reason, .. })] = sent(&mut manager)[..] else { panic!() };
    assert_eq!(reason, CmRejectReason::INVALID_GID);
}

/// The established connection of a connecting end, with the number of the other end.
fn established(now: Time) -> (CmManager, CmId, u32) {
    let mut manager = CmManager::new(KEY, 1, 0);
    let id = manager.connect(now, HOSTS[1], request(PORT));
    let [CmBody::Request(request)] = sent(&mut manager)[..] else { panic!("a request") };
    let answer = CmReply { local_id: 77, remote_id: request.local_id, ..reply() };
    assert!(manager.on_mad(now, HOSTS[1], &mad(CmBody::Reply(answer))));
    assert!(matches!(manager.poll_event().expect("an event").kind, CmEventKind::Replied(_)));
    assert!(manager.ready(id));
    assert!(matches!(sent(&mut manager)[..], [CmBody::Ready(_)]));
    (manager, id, request.local_id)
}

#[test]
fn only_the_other_end_ends_a_connection() {
    let now = Time::from_nanos(1);
    let (mut manager, _, own) = established(now);
    let end = CmDisconnect { local_id: 77, remote_id: own, remote_qp: QpId::new(0x11) };
    let refusal = CmReject {
        local_id: 77,
        remote_id: own,
        message: CmRejected::Other,
        reason: CmRejectReason::CONSUMER,
        ca_guid: None,
        private_data: [0; CmReject::PRIVATE],
    };
    for (from, body) in [
        (HOSTS[0], CmBody::Disconnect(end)),
        (HOSTS[1], CmBody::Disconnect(CmDisconnect { local_id: 78, ..end })),
        (HOSTS[1], CmBody::Disconnect(CmDisconnect { remote_qp: QpId::new(0x12), ..end })),
        (HOSTS[1], CmBody::Reject(refusal)),
        (HOSTS[1], CmBody::Disconnected(CmPrivate { local_id: 77, remote_id: own })),
    ] {
        assert!(manager.on_mad(now, from, &mad(body)));
        assert!(manager.poll_event().is_none(), "{body:?}");
        assert!(sent(&mut manager).is_empty(), "{body:?}");
    }
    assert!(manager.on_mad(now, HOSTS[1], &mad(CmBody::Disconnect(end))));
    assert_eq!(manager.poll_event().expect("an event").kind, CmEventKind::Disconnected);
}

#[test]
fn a_reply_that_comes_again_is_confirmed_again() {
    let now = Time::from_nanos(1);
    let (mut manager, _, own) = established(now);
    let again = CmReply { local_id: 77, remote_id: own, ..reply() };
    assert!(manager.on_mad(now, HOSTS[1], &mad(CmBody::Reply(again))));
    assert!(matches!(sent(&mut manager)[..], [CmBody::Ready(_)]));
    assert!(manager.poll_event().is_none());
    // Another end's reply is not.
    let other = CmReply { local_id: 78, remote_id: own, ..reply() };
    assert!(manager.on_mad(now, HOSTS[1], &mad(CmBody::Reply(other))));
    assert!(sent(&mut manager).is_empty());
}

/// Messages with numbers that are often right.
fn any_mad() -> impl Strategy<Value = (bool, u8, Vec<u8>, [u8; 4])> {
    (any::<bool>(), 0x0Fu8..0x19, prop::collection::vec(any::<u8>(), 232), any::<[u8; 4]>())
}

proptest! {
    #[test]
    fn any_messages_are_survived_and_answered_by_no_more(
        mads in prop::collection::vec(any_mad(), 1..60),
    ) {
        let mut now = Time::from_nanos(1);
        let (mut manager, _, own) = established(now);
        manager.listen(IpCmHeader::service(PORT));
        let mut ids = vec![own, 77];
        for (is_peer, attribute, mut body, [first, second, change, accepts]) in mads {
            let from = HOSTS[usize::from(is_peer)];
            // Mostly a message that begins like a request.
            if attribute == 0x10 && change > 64 {
                let request = mad(CmBody::Request(request(PORT)));
                body = request[24..].to_vec();
                body[usize::from(change) % 100] ^= 1;
            }
            for (at, pick) in [(0, first), (4, second)] {
                if let Some(id) = ids.get(usize::from(pick) % 8) {
                    body[at..at + 4].copy_from_slice(&id.to_be_bytes());
                }
            }
            let mut bytes = mad(CmBody::Ready(CmPrivate { local_id: 0, remote_id: 0 }));
            bytes[17] = attribute;
            bytes[24..].copy_from_slice(&body);
            manager.on_mad(now, from, &bytes);
            prop_assert!(sent(&mut manager).len() <= 1, "one answer at most");
            while let Some(event) = manager.poll_event() {
                if let CmEventKind::Requested(request) = event.kind {
                    ids.push(request.local_id);
                    if accepts % 3 == 0 {
                        manager.accept(now, event.id, reply());
                    }
                }
            }
            sent(&mut manager);
            now += Duration::from_millis(u64::from(change) * 20);
            manager.on_timeout(now);
            sent(&mut manager);
        }
        // All of it ends.
        for _ in 0..40 {
            let Some(next) = manager.next_timeout() else { break };
            manager.on_timeout(now.max(next) + Duration::from_secs(5));
            sent(&mut manager);
            now += Duration::from_secs(70);
        }
        manager.abandon(now);
        sent(&mut manager);
        for step in 1..20 {
            manager.on_timeout(now + Duration::from_secs(100 * step));
        }
        prop_assert_eq!(manager.next_timeout(), None);
    }
}

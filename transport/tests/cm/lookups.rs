//! Lookups of queue pairs that take datagrams.

use std::time::Duration;

use braid_transport::{CmEventKind, CmId, CmManager};
use braid_wire::{
    CmBody, CmLookup, CmLookupAnswer, CmLookupStatus, CmMad, CmRejectReason, IpCmHeader, MAD_LEN,
    QpId, Time,
};

use super::world::{HOSTS, PORT, request};

const SERVICE: u64 = IpCmHeader::datagram_service(PORT);

fn ends() -> [CmManager; 2] {
    let mut ends = [1, 2].map(|end| CmManager::new([end; 16], end.into(), end));
    ends[1].listen(SERVICE);
    ends
}

fn lookup(service: u64) -> CmLookup {
    let header = IpCmHeader { from: (HOSTS[0], 4000).into(), to: HOSTS[1] };
    let mut private_data = [0xA5; CmLookup::PRIVATE];
    private_data[..IpCmHeader::LEN].copy_from_slice(&header.encode());
    CmLookup { request_id: 0, service, private_data }
}

fn answer() -> CmLookupAnswer {
    let mut answer = CmLookupAnswer::negative(&lookup(0), CmLookupStatus::VALID);
    (answer.qp, answer.q_key, answer.private_data[0]) = (QpId::new(0x77), 0x1234, 9);
    answer
}

/// The messages that a manager sends to the other host.
fn sent(manager: &mut CmManager) -> Vec<[u8; MAD_LEN]> {
    std::iter::from_fn(|| manager.poll_transmit()).map(|(_, mad)| mad).collect()
}

fn deliver(from: usize, ends: &mut [CmManager; 2], now: Time) -> usize {
    let mads = sent(&mut ends[from]);
    mads.iter().for_each(|mad| assert!(ends[1 - from].on_mad(now, HOSTS[from], mad)));
    mads.len()
}

fn events(manager: &mut CmManager) -> Vec<(CmId, CmEventKind)> {
    std::iter::from_fn(|| manager.poll_event()).map(|event| (event.id, event.kind)).collect()
}

fn asked(manager: &mut CmManager) -> CmId {
    match &events(manager)[..] {
        [(id, CmEventKind::LookedUp(lookup))] if lookup.service == SERVICE => *id,
        other => panic!("{other:?}"),
    }
}

#[test]
fn queue_pairs_are_found_although_messages_get_lost() {
    let (mut ends, mut now) = (ends(), Time::from_nanos(1));
    let id = ends[0].look_up(now, HOSTS[1], lookup(SERVICE));
    // The first message is lost, the second one arrives twice, and so does the answer.
    assert_eq!(sent(&mut ends[0]).len(), 1);
    now = ends[0].next_timeout().expect("it is repeated");
    ends[0].on_timeout(now);
    let again = sent(&mut ends[0]);
    assert!(ends[1].on_mad(now, HOSTS[0], &again[0]) && ends[1].on_mad(now, HOSTS[0], &again[0]));
    let theirs = asked(&mut ends[1]);
    assert!(ends[1].answer(now, theirs, answer()));
    assert!(!ends[1].answer(now, theirs, answer()), "it was answered");
    let first = sent(&mut ends[1]);
    assert!(ends[1].on_mad(now, HOSTS[0], &again[0]));
    assert_eq!(sent(&mut ends[1]), first, "a repeated lookup is answered as before");
    // An answer of another host, and one for another service.
    assert!(ends[0].on_mad(now, "192.0.2.99".parse().unwrap(), &first[0]));
    let Ok(CmMad { transaction, body: CmBody::LookupAnswer(mut other) }) = CmMad::decode(&first[0])
    else {
        panic!("an answer")
    };
    other.service += 1;
    let other = CmMad { transaction, body: CmBody::LookupAnswer(other) };
    assert!(ends[0].on_mad(now, HOSTS[1], &other.encode()));
    assert_eq!(events(&mut ends[0]), []);
    for _ in 0..2 {
        assert!(ends[0].on_mad(now, HOSTS[1], &first[0]));
    }
    match &events(&mut ends[0])[..] {
        [(found, CmEventKind::Found(answer))] if *found == id => {
            assert_eq!(
                (answer.qp, answer.q_key, answer.private_data[0]),
                (QpId::new(0x77), 0x1234, 9)
            );
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(ends[0].next_timeout(), None);
    ends[1].on_timeout(now + Duration::from_secs(100));
    assert_eq!((events(&mut ends[1]), ends[1].next_timeout()), (vec![], None), "nothing is left");
}

#[test]
fn lookups_without_an_answer_end_and_those_that_nobody_serves_are_refused() {
    let (mut ends, mut now) = (ends(), Time::from_nanos(1));
    let id = ends[0].look_up(now, HOSTS[1], lookup(SERVICE));
    let mut count = sent(&mut ends[0]).len();
    while let Some(next) = ends[0].next_timeout() {
        now = next;
        ends[0].on_timeout(now);
        count += sent(&mut ends[0]).len();
    }
    assert_eq!((count, events(&mut ends[0])), (9, vec![(id, CmEventKind::Unreachable)]));
    // A service of connections is none of datagrams, and the other way round.
    ends[1].listen(IpCmHeader::service(PORT + 1));
    for service in [IpCmHeader::service(PORT + 1), SERVICE + 1] {
        ends[0].look_up(now, HOSTS[1], lookup(service));
        deliver(0, &mut ends, now);
        deliver(1, &mut ends, now);
        assert_eq!(events(&mut ends[1]), []);
        let found = events(&mut ends[0]);
        let [(_, CmEventKind::Found(answer))] = &found[..] else { panic!("{found:?}") };
        assert_eq!(answer.status, CmLookupStatus::UNSUPPORTED);
    }
    let mut connect = request(PORT);
    connect.service = SERVICE;
    ends[0].connect(now, HOSTS[1], connect);
    deliver(0, &mut ends, now);
    deliver(1, &mut ends, now);
    let refused = events(&mut ends[0]);
    let [(_, CmEventKind::Rejected(reason, _))] = &refused[..] else { panic!("{refused:?}") };
    assert_eq!(*reason, CmRejectReason::INVALID_SERVICE);
}

#[test]
fn lookups_of_peers_are_limited_in_number_and_time() {
    let (mut ends, now) = (ends(), Time::from_nanos(1));
    for request_id in 1..=1000 {
        let body = CmBody::Lookup(CmLookup { request_id, ..lookup(SERVICE) });
        assert!(ends[1].on_mad(now, HOSTS[0], &CmMad { transaction: 5, body }.encode()));
    }
    assert_eq!(events(&mut ends[1]).len(), 128);
    assert_eq!(sent(&mut ends[1]).len(), 1000 - 128, "one message for each refused one");
    ends[1].on_timeout(now + Duration::from_secs(61));
    let ended = events(&mut ends[1]);
    assert!(ended.iter().all(|(_, kind)| *kind == CmEventKind::Unreachable));
    assert_eq!((ended.len(), sent(&mut ends[1]).len()), (128, 0));
    assert_eq!(ends[1].next_timeout(), None, "nothing is left");
}

#[test]
fn programs_that_go_away_refuse_and_ask_no_more() {
    let (mut ends, now) = (ends(), Time::from_nanos(1));
    let id = ends[0].look_up(now, HOSTS[1], lookup(SERVICE));
    deliver(0, &mut ends, now);
    asked(&mut ends[1]);
    ends[1].abandon(now);
    deliver(1, &mut ends, now);
    let found = events(&mut ends[0]);
    let [(_, CmEventKind::Found(answer))] = &found[..] else { panic!("{found:?}") };
    assert_eq!(answer.status, CmLookupStatus::REJECTED);
    let other = ends[0].look_up(now, HOSTS[1], lookup(SERVICE));
    assert_ne!(id, other);
    ends[0].forget(now, other);
    assert_eq!(ends[0].next_timeout(), None);
}

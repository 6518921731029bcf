use std::time::Duration;

use proptest::prelude::*;

use super::*;

fn window(segments: usize) -> Window {
    let mut window = Window::new(Psn(10));
    for _ in 0..segments {
        let next = Next { source: 0, offset: 0, len: 40 };
        window.push(Time::ZERO, next, PathId::new(0), None);
    }
    window
}

fn ack(window: &mut Window, cumulative: u64, ones: &[u64]) -> Result<Tally, NotTaken> {
    let echo = Echo { path: PathId::new(0), stamp: Time::ZERO.stamp() };
    let word = ones.iter().fold(0, |word, one| word | 1 << one);
    window.ack(Psn(cumulative), &[word], echo, |_| {})
}

fn lose_overtaken_by(window: &mut Window, threshold: u64) -> u64 {
    let mut count = 0;
    window.lose_overtaken(&mut |_| count += 1, |_, by| by >= threshold);
    count
}

#[test]
fn a_cumulative_ack_frees_the_front() {
    let mut window = window(5);
    assert_eq!(window.in_flight().total(), 500);
    let acked = ack(&mut window, 13, &[]).unwrap();
    assert_eq!((acked.packets, acked.bytes), (3, 300));
    assert_eq!((window.una(), window.next(), window.in_flight().total()), (Psn(13), Psn(15), 200));
}

#[test]
fn ack_of_an_unsent_packet_is_refused() {
    assert_eq!(ack(&mut window(5), 16, &[]).unwrap_err(), NotTaken::Foreign);
}

#[test]
fn a_repeated_ack_counts_nothing_twice() {
    let mut window = window(5);
    assert_eq!(ack(&mut window, 10, &[2, 3]).unwrap().packets, 2);
    assert_eq!(ack(&mut window, 10, &[2, 3]).unwrap().packets, 0);
    assert_eq!(ack(&mut window, 14, &[]).unwrap().packets, 2);
}

#[test]
fn the_front_moves_over_what_an_earlier_bitmap_has_reported() {
    let mut window = window(4);
    ack(&mut window, 10, &[2, 3]).unwrap();
    ack(&mut window, 12, &[]).unwrap();
    assert_eq!((window.una(), window.in_flight().total()), (Psn(14), 0));
    assert!(window.is_empty());
}

#[test]
fn overtaken_packets_are_lost_and_resent_oldest_first() {
    let mut window = window(6);
    ack(&mut window, 10, &[1, 4, 5]).unwrap();
    assert_eq!(lose_overtaken_by(&mut window, 3), 2);
    let (psn, _) = window.peek_lost().unwrap();
    assert_eq!(psn, Psn(10));
    window.resend(Time::ZERO, psn, PathId::new(1));
    assert_eq!(window.peek_lost().unwrap().0, Psn(12));
}

#[test]
fn a_retransmission_is_not_lost_again_by_acks_of_earlier_transmissions() {
    let mut window = window(6);
    ack(&mut window, 10, &[5]).unwrap();
    assert_eq!(lose_overtaken_by(&mut window, 5), 1);
    window.resend(Time::ZERO, Psn(10), PathId::new(0));
    ack(&mut window, 10, &[1, 2, 3, 4, 5]).unwrap();
    assert_eq!(lose_overtaken_by(&mut window, 1), 0);
}

#[test]
fn an_ack_that_may_be_for_the_original_proves_nothing_about_what_was_sent_since() {
    let mut window = window(6);
    ack(&mut window, 10, &[2]).unwrap();
    assert_eq!(lose_overtaken_by(&mut window, 2), 1);
    window.resend(Time::from_nanos(1_000), Psn(10), PathId::new(0));
    ack(&mut window, 11, &[]).unwrap();
    assert_eq!(lose_overtaken_by(&mut window, 2), 0, "the echo is not of the retransmission");
}

#[test]
fn a_segment_remembers_its_direct_transmission_whatever_path_it_takes_again() {
    let mut window = window(1);
    let epoch = NicEpoch { path: PathId::new(4095), number: u32::MAX };
    let next = Next { source: 0, offset: 0, len: 40 };
    let psn = window.push(Time::ZERO, next, epoch.path, Some(epoch));
    window.lose_one(psn, &mut |_| {});
    window.resend(Time::ZERO, psn, PathId::new(2));
    assert_eq!(window.get(psn).unwrap().epoch(), Some(epoch));
    assert_eq!(window.get(Psn(10)).unwrap().epoch(), None);
}

#[test]
fn a_late_ack_of_a_lost_segment_cancels_its_retransmission() {
    let mut window = window(3);
    window.lose_from(Psn(10), usize::MAX, &mut |_| {});
    assert_eq!(window.in_flight().total(), 0);
    ack(&mut window, 12, &[]).unwrap();
    assert_eq!(window.peek_lost().unwrap().0, Psn(12));
    assert_eq!(window.in_flight().total(), 0);
}

#[test]
fn a_refused_segment_is_not_sent_again_and_nothing_waits_for_it() {
    let mut window = window(6);
    window.lose_one(Psn(13), &mut |_| {});
    let mut forgotten = 0;
    window.refuse_from(Psn(12), &mut |_| forgotten += 1);
    assert_eq!((forgotten, window.in_flight().total(), window.segments_in_flight()), (3, 200, 2));
    assert!(window.peek_lost().is_none());
    let mut lost = 0;
    window.lose_from(Psn(10), usize::MAX, &mut |_| lost += 1);
    assert_eq!((lost, window.peek_lost().unwrap().0), (2, Psn(10)));
    assert!(window.awaits_ack(), "for what was sent before the refused segment");
    ack(&mut window, 12, &[2]).unwrap();
    assert!(!window.awaits_ack());
    assert_eq!((window.segments_in_flight(), window.is_empty()), (0, false));
}

proptest! {
    /// The credits of an acknowledgement are the segments that were not acknowledged before, each
    /// once and in order. This holds whatever left when and where, was lost or was sent again. All
    /// segments of a credit left together for the first time.
    #[test]
    fn credits_are_the_newly_acknowledged_segments_in_order(
        sent in prop::collection::vec((0_u64..2, 0_u16..3, 1_u16..5), 1..40),
        (early, lost, resent) in (any::<u64>(), 0_usize..4, 0_usize..4),
        share in 0_u64..=40,
    ) {
        let mut window = Window::new(Psn(10));
        let mut now = Time::ZERO;
        for (wait, path, len) in &sent {
            now += Duration::from_nanos(16 * wait);
            let next = Next { source: 0, offset: 0, len: 8 * len };
            window.push(now, next, PathId::new(*path), None);
        }
        let end = share.min(sent.len() as u64);
        let early = early & ((1_u64 << sent.len()) - 1) & !1;
        let echo = Echo { path: PathId::new(9), stamp: 0 };
        window.ack(Psn(10), &[early], echo, |_| {}).expect("it was sent");
        window.lose_from(Psn(10), lost, &mut |_| {});
        for _ in 0..resent {
            if let Some((psn, _)) = window.peek_lost() {
                window.resend(now, psn, PathId::new(1));
            }
        }
        let before: Vec<_> = (0..end).map(|index| window.get(Psn(10 + index)).copied()).collect();
        let in_flight = window.in_flight().total();
        let (mut credited, mut arrived) = (Vec::new(), 0);
        let acked = window.ack(Psn(10 + end), &[], echo, |credit| {
            let alike = credit.psns().map(|psn| before[(psn.0 - 10) as usize].expect("in the window"));
            let alike: Vec<_> = alike.collect();
            let with = |it: &Segment| (it.path, it.sent_at, it.again, it.phase);
            assert!(alike.iter().all(|it| with(it) == with(credit.segment)), "{credit:?}");
            let bytes = alike.iter().map(|it| Segment::wire_len(it.len)).sum::<u64>();
            assert_eq!(credit.bytes, bytes);
            arrived += if credit.segment.phase == Phase::InFlight { bytes } else { 0 };
            credited.extend(credit.psns());
        }).expect("it was sent");
        let open = (0..end).filter(|index| before[*index as usize].is_some_and(|it| it.phase != Phase::Acked));
        let open: Vec<_> = open.map(|index| Psn(10 + index)).collect();
        prop_assert_eq!(acked.packets, open.len() as u64);
        prop_assert_eq!(credited, open);
        prop_assert_eq!(window.in_flight().total(), in_flight - arrived);
    }
}

//! Both ends of a connection end it at the same time, and each program goes once nothing is left to
//! be confirmed.

use std::time::Duration;

use braid_transport::{Disconnects, Egress, EndpointConfig, QpConfig, QpSlot, TransmitBody};
use braid_wire::{Control, ControlKind, QpId, RailId, Time, Token};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::kit::{self, Host, Wire};

const MS: Duration = Duration::from_millis(1);
/// One way.
const DELAY: Duration = Duration::from_micros(20);
/// Time for which an unconfirmed end is repeated.
const LIMIT: Duration = Duration::from_secs(3);

/// One program; `()` is where its peer receives.
struct Program {
    host: Host,
    /// `None`: the queue pair was destroyed.
    slot: Option<QpSlot>,
    disconnects: Disconnects<()>,
    /// When it had nothing left to wait for.
    gone_at: Option<Time>,
}

impl Program {
    fn new(now: Time, [own, peer]: [u32; 2]) -> Self {
        let mut host = Host::new(now, EndpointConfig::default(), kit::paths(4));
        let config = QpConfig { retry_timeout: LIMIT, ..QpConfig::default() };
        let name = |number: u32| (QpId::new(number), Token(number * 1000));
        let slot = host.connect(now, name(own), config, kit::remote(name(peer), 0));
        Program { host, slot: Some(slot), disconnects: Disconnects::new(4), gone_at: None }
    }

    /// Ends its queue pair, and destroys it or keeps it in ERR.
    fn end(&mut self, now: Time, destroys: bool) {
        let slot = self.slot.take_if(|_| destroys).or(self.slot).expect("it was not destroyed");
        self.host.end(now, slot);
        if destroys {
            self.host.release(now, slot);
        }
        self.host.begin_disconnects(now, &(), &mut self.disconnects);
    }

    /// Returns the control packets that leave now, and their ports.
    fn transmit(&mut self, now: Time) -> Vec<(Control, Egress)> {
        let repeated = std::iter::from_fn(|| self.disconnects.poll_transmit(now));
        let repeated = repeated.map(|due| (due.control, due.egress));
        let other = self.host.transmit(now).filter_map(|packet| match packet.body {
            TransmitBody::Control(control) => Some((control, packet.egress)),
            _ => None,
        });
        repeated.chain(other).collect()
    }

    /// Takes a packet. Returns the answer that leaves at once, unless it goes to the port of a
    /// path, where nobody receives.
    fn take(&mut self, now: Time, control: &Control, left_by: Egress) -> Option<Control> {
        let Program { host, slot, disconnects, .. } = self;
        let qp = slot.map(|slot| (&mut *host, slot));
        let answer = kit::on_control(now, qp, (control, left_by), disconnects, |()| true);
        host.begin_disconnects(now, &(), disconnects);
        let is_heard = |to: Option<()>| to.is_some() || left_by.path().is_none();
        answer.filter(|answer| is_heard(answer.to)).map(|answer| answer.control)
    }
}

/// Ends both programs at the same time, and runs until both have gone. `loses`: whether the network
/// loses the packet of this number. `refuses`: whether the host of a program that has gone sends
/// ICMP errors. Returns the time after which each went.
fn close_both(
    destroys: [bool; 2],
    mut loses: impl FnMut(usize) -> bool,
    refuses: bool,
) -> [Duration; 2] {
    let start = Time::from_nanos(1_000_000);
    let mut programs = [[2, 3], [3, 2]].map(|ids| Program::new(start, ids));
    for (program, destroys) in programs.iter_mut().zip(destroys) {
        program.end(start, destroys);
    }
    let (mut now, mut count) = (start, 0);
    let mut wire: Wire<(usize, Control, Egress)> = Wire::default();
    while programs.iter().any(|program| program.gone_at.is_none()) {
        for (index, program) in programs.iter_mut().enumerate() {
            if program.gone_at.is_some() {
                continue;
            }
            for (control, egress) in program.transmit(now) {
                wire.send(now + DELAY, (1 - index, control, egress));
            }
            if program.disconnects.is_empty() {
                program.gone_at = Some(now);
            }
        }
        let alive = programs.iter().filter(|program| program.gone_at.is_none());
        let timeout = alive.filter_map(|program| program.disconnects.next_timeout()).min();
        now = now.max(timeout.unwrap_or(Time::FAR_FUTURE).min(wire.next_arrival()));
        while let Some((to, control, egress)) = wire.arrive(now) {
            count += 1;
            if loses(count - 1) {
                continue;
            }
            if programs[to].gone_at.is_some() {
                if refuses {
                    programs[1 - to].disconnects.on_unreachable(now, |()| true);
                }
                continue;
            }
            if let Some(answer) = programs[to].take(now, &control, egress) {
                wire.send(now + DELAY, (1 - to, answer, Egress::Port(RailId::FIRST)));
            }
        }
    }
    programs.map(|program| program.gone_at.expect("both have gone") - start)
}

const KINDS: [[bool; 2]; 4] = [[true, true], [true, false], [false, true], [false, false]];

#[test]
fn crossing_disconnects_finish_at_once_despite_one_loss() {
    for destroys in KINDS {
        for lost in (0..6).map(Some).chain([None]) {
            let took = close_both(destroys, |packet| Some(packet) == lost, false);
            assert!(
                took.iter().all(|took| *took < MS),
                "destroyed: {destroys:?}, packet {lost:?} is lost: {took:?}"
            );
        }
    }
}

#[test]
fn crossing_disconnects_finish_soon_on_a_lossy_network() {
    for seed in 0..4000 {
        let mut rng = Pcg64Mcg::seed_from_u64(seed);
        let loss = rng.random_range(0.0..0.3);
        let destroys = KINDS[rng.random_range(0..4)];
        let took = close_both(destroys, |_| rng.random_bool(loss), true);
        let most = took[0].max(took[1]);
        assert!(most < 600 * MS, "seed {seed}, loss {loss:.2}, destroyed: {destroys:?}: {took:?}");
    }
}

/// Only the peer of the very connection ends the record, but every DISCONNECT is answered.
#[test]
fn disconnect_of_another_connection_is_ignored() {
    let now = Time::from_nanos(1_000_000);
    let mut programs = [[2, 3], [3, 2]].map(|ids| Program::new(now, ids));
    programs.iter_mut().for_each(|program| program.end(now, true));
    let [said, theirs] = programs.each_mut().map(|program| program.transmit(now)[0].0);
    let disconnects = &mut programs[0].disconnects;
    for other in [
        Control { token: Token(!theirs.token.0), ..theirs },
        // The token of the peer's queue pair, which our DISCONNECT has shown on the wire.
        Control { token: said.token, ..theirs },
        Control { from: QpId::new(77), ..theirs },
    ] {
        let answer = disconnects.on_stray(now, &other, |()| true).expect("all are confirmed");
        assert_eq!((answer.control.kind, answer.to), (ControlKind::Confirm, None));
        assert!(!disconnects.is_empty(), "{other:?}");
    }
    disconnects.on_stray(now, &theirs, |()| false);
    assert!(!disconnects.is_empty(), "it comes from elsewhere");
    let answer = disconnects.on_stray(now, &theirs, |()| true).expect("it is confirmed");
    assert_eq!((answer.control.kind, answer.to), (ControlKind::Confirm, Some(())));
    assert!(disconnects.is_empty());
}

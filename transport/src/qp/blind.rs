//! Which segments a NIC may write into application memory before any software has looked at them.
//!
//! A blind segment that the network has delayed must not land once its retransmission was placed: the
//! message may have completed since, and the buffer may hold something else. Hence three rules.
//! Only the first transmission of a WRITE's payload is blind. A retransmission of a blind segment names the NIC
//! queue pair that the first one was sent to, a [`Fence`], and the receiver closes that before it places
//! the retransmission. And blind placement begins with few segments at a time, and rests where they are
//! lost: a loss costs it a NIC queue pair and all that is on its way to that, where staging costs a copy.
//!
//! Blind segments are long, several packets of the NIC, as long as every path that is used is trusted: some have arrived
//! on it and it has lost none, or none for long. One packet lost loses the segment, and may stop the NIC queue pair, so
//! on other paths only short ones are blind, and all are short while there is a path to try.
//!
//! Invariants of a [`Life`]: it is `fenced` from the first fence of its generation until a newer
//! generation is heard of, and nothing blind is sent meanwhile, nor before `rests_until`. So no segment is
//! ever blind on a generation that a fence of ours has closed. A generation only grows. `good` and `under_way`
//! are of this generation. `trial` is the earliest of those of all lives.

use braid_wire::{PathId, Time};

use crate::BlindConfig;

/// Where the payload of a segment may go on arrival.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Placement {
    /// Into a bounce buffer, to be checked by [`crate::Endpoint::on_arrival`] and then copied.
    Staged {
        /// The receiver closes this NIC queue pair before it places the payload, unless it is closed: what
        /// was sent to it can land no more. Whatever becomes of the segment, and however often the fence comes,
        /// the receiver answers with the path's generation, see [`crate::Endpoint::renewed`].
        fence: Option<Fence>,
    },
    /// The NIC may write it where it belongs at once, through this NIC queue pair and no other.
    Blind(Fence),
}

/// One life of a path's NIC queue pair, from when it was made until it was closed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Fence {
    /// The path.
    pub path: PathId,
    /// How many NIC queue pairs the path had before this one.
    pub generation: u32,
}

impl Placement {
    /// Staged, with nothing to close.
    pub(crate) const PLAIN: Placement = Placement::Staged { fence: None };
}

/// So much shorter is the rest of a path where blind placement has paid.
const PAID: u32 = 16;
/// Blind segments that must arrive between two losses for blind placement to pay, and for a path to be trusted again.
const WORTHWHILE: u16 = 1_000;
/// Those that must arrive on a new path for it to be trusted: where one of a hundred is lost, most paths show it by then.
const PROBATION: u16 = 64;
/// Blind segments that may be on their way at first, and one more for so many that have arrived.
const TRIAL: u16 = 8;
const GOOD_PER_MORE: u16 = 8;

/// What the sender of a stream knows about its paths' NIC queue pairs.
#[derive(Clone, Debug)]
pub(crate) struct Blind {
    /// By path, up to the highest that was used.
    lives: Vec<Life>,
    config: BlindConfig,
    /// From when on a path that is not trusted is tried; `None`: all are trusted.
    trial: Option<Time>,
}

/// The latest NIC queue pair of a path.
#[derive(Clone, Copy, Default, Debug)]
struct Life {
    rests_until: Time,
    generation: u32,
    /// Blind segments that have arrived, as far as it matters.
    good: u16,
    /// Blind segments of which nothing has been heard.
    under_way: u16,
    /// A fence of this generation was sent: the peer closes it, or has.
    fenced: bool,
}

impl Blind {
    pub(crate) fn new(config: BlindConfig) -> Self {
        Blind { lives: Vec::new(), config, trial: None }
    }

    /// Payload bytes of a full segment, where one that is not blind has `mtu`.
    // Not in the way of datapaths where nothing is blind.
    #[inline(never)]
    pub(crate) fn segment_len(&self, now: Time, mtu: u16) -> u16 {
        match self.trial {
            None => self.config.trusted.max(mtu),
            Some(trial) if now >= trial => self.config.tried.min(mtu),
            Some(_) => mtu,
        }
    }

    /// Something that may change whether a path is trusted.
    fn live(&mut self, path: PathId, event: impl FnOnce(&mut Life)) {
        let life = self.life(path);
        let before = life.trial();
        event(life);
        if before != life.trial() {
            self.find_trial();
        }
    }

    fn find_trial(&mut self) {
        self.trial = self.lives.iter().filter_map(Life::trial).min();
    }

    fn life(&mut self, path: PathId) -> &mut Life {
        let index = usize::from(path.get());
        if index >= self.lives.len() {
            self.lives.resize(index + 1, Life::default());
        }
        &mut self.lives[index]
    }

    /// Where the payload of a first transmission goes, of `len` bytes. The retransmission that carried a fence may be lost,
    /// and never repeated because the original has arrived: so all that is staged on the path repeats the
    /// fence until the peer has answered.
    // Not in the way either.
    #[inline(never)]
    pub(crate) fn place_first(&mut self, now: Time, path: PathId, len: u16) -> Placement {
        let tried = self.config.tried;
        let life = self.life(path);
        let fence = Fence { path, generation: life.generation };
        if life.fenced {
            return Placement::Staged { fence: Some(fence) };
        }
        let is_risky = !life.is_trusted() && (len > tried || life.is_tried_enough());
        if now < life.rests_until || is_risky {
            return Placement::PLAIN;
        }
        self.live(path, |life| life.under_way += 1);
        Placement::Blind(fence)
    }

    /// A segment that was to be blind through `fence` was not.
    pub(crate) fn place_staged(&mut self, fence: Fence) {
        self.live(fence.path, |life| {
            if life.generation == fence.generation {
                life.under_way -= 1;
            }
        });
    }

    /// A segment that was blind through `fence` is sent again.
    pub(crate) fn place_again(&mut self, now: Time, fence: Fence) -> Placement {
        let life = self.life(fence.path);
        if life.generation == fence.generation && !life.fenced {
            let has_paid = life.good >= WORTHWHILE;
            life.end();
            self.rest(now, fence.path, has_paid);
        }
        Placement::Staged { fence: Some(fence) }
    }

    /// A path has lost a blind segment. What it has lost without having proven itself, others that have not may lose as well:
    /// they rest, too.
    fn rest(&mut self, now: Time, path: PathId, has_paid: bool) {
        let rest = self.config.rest;
        if has_paid {
            self.life(path).rests_until = now + rest / PAID;
        } else {
            let doubted = self.lives.iter_mut().filter(|life| !life.is_trusted());
            doubted.for_each(|life| life.rests_until = now + rest);
        }
        self.find_trial();
    }

    /// The first transmission of a segment that was blind through `fence` has arrived.
    pub(crate) fn on_arrival(&mut self, fence: Fence) {
        self.live(fence.path, |life| {
            if life.generation == fence.generation {
                life.good = life.good.saturating_add(1);
                life.under_way -= 1;
            }
        });
    }

    /// The peer receives with this generation now.
    pub(crate) fn renew(&mut self, path: PathId, generation: u32) {
        self.live(path, |life| {
            if generation > life.generation {
                life.generation = generation;
                life.fenced = false;
                (life.good, life.under_way) = (0, 0);
            }
        });
    }
}

impl Life {
    /// Whether a loss is not to be reckoned with, or nobody has tried.
    fn is_trusted(&self) -> bool {
        let enough = if self.generation == 0 { PROBATION } else { WORTHWHILE };
        !self.fenced && (self.good >= enough || self.is_unused())
    }

    /// From when on it is tried, unless it is trusted.
    fn trial(&self) -> Option<Time> {
        match self.is_trusted() {
            true => None,
            false if self.fenced => Some(Time::FAR_FUTURE),
            false => Some(self.rests_until),
        }
    }

    fn is_unused(&self) -> bool {
        self.generation == 0 && self.good == 0 && self.under_way == 0
    }

    /// A segment was lost: a fence goes out.
    fn end(&mut self) {
        self.fenced = true;
        self.good = 0;
    }

    /// Unless it is trusted: whether as many are on their way as a loss may cost.
    fn is_tried_enough(&self) -> bool {
        self.under_way >= TRIAL + self.good / GOOD_PER_MORE
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const PATH: PathId = PathId::new(7);
    const SHORT: u16 = 4_000;
    const MTU: u16 = 8_000;
    const LONG: u16 = 16_384;
    const REST: Duration = Duration::from_millis(3_200);
    const CONFIG: BlindConfig = BlindConfig { trusted: LONG, tried: SHORT, rest: REST };

    fn fence(generation: u32) -> Fence {
        Fence { path: PATH, generation }
    }

    fn at(ms: u64) -> Time {
        Time::from_nanos(ms * 1_000_000)
    }

    /// A loss at `now`, answered at once. Returns for how many milliseconds the path then stages.
    fn rest_after_loss(blind: &mut Blind, now: u64, generation: u32) -> u64 {
        blind.place_again(at(now), fence(generation));
        blind.renew(PATH, generation + 1);
        let mut rest = 0..10_000;
        let is_blind = |ms: &u64| {
            blind.place_first(at(now + ms), PATH, SHORT) == Placement::Blind(fence(generation + 1))
        };
        rest.find(is_blind).expect("an end of the rest")
    }

    #[test]
    fn a_fresh_path_is_blind_in_its_first_generation() {
        let mut blind = Blind::new(CONFIG);
        assert_eq!(blind.place_first(at(0), PATH, SHORT), Placement::Blind(fence(0)));
        assert_eq!(blind.lives.len(), 8, "as many as are used");
    }

    #[test]
    fn a_fence_stops_its_path_alone_and_is_repeated_until_it_is_answered() {
        let mut blind = Blind::new(CONFIG);
        let fenced = Placement::Staged { fence: Some(fence(0)) };
        assert_eq!(blind.place_again(at(0), fence(0)), fenced);
        assert_eq!(blind.place_first(at(60_000), PATH, SHORT), fenced, "however long it takes");
        let other = PathId::new(1);
        let untouched = Placement::Blind(Fence { path: other, generation: 0 });
        assert_eq!(blind.place_first(at(0), other, SHORT), untouched);
        blind.renew(PATH, 0);
        assert_eq!(blind.place_first(at(60_000), PATH, SHORT), fenced, "nothing new");
        blind.renew(PATH, 1);
        assert_eq!(blind.place_first(at(3_199), PATH, SHORT), Placement::PLAIN, "it rests");
        assert_eq!(blind.place_first(at(3_200), PATH, SHORT), Placement::Blind(fence(1)));
    }

    #[test]
    fn an_old_fence_goes_out_but_stops_nothing_new() {
        let mut blind = Blind::new(CONFIG);
        blind.renew(PATH, 4);
        assert_eq!(blind.place_again(at(0), fence(3)), Placement::Staged { fence: Some(fence(3)) });
        assert_eq!(blind.place_first(at(0), PATH, SHORT), Placement::Blind(fence(4)));
        blind.renew(PATH, 2);
        assert_eq!(blind.place_first(at(0), PATH, SHORT), Placement::Blind(fence(4)));
    }

    #[test]
    fn a_rest_is_short_if_blind_placement_has_paid() {
        let mut blind = Blind::new(CONFIG);
        let mut now = 0;
        for generation in 0..3 {
            assert_eq!(rest_after_loss(&mut blind, now, generation), 3_200);
            now += 3_200;
        }
        // One is on its way already: `rest_after_loss` has sent it.
        arrive(&mut blind, now, 3, WORTHWHILE - 1);
        (0..WORTHWHILE).for_each(|_| blind.on_arrival(fence(2)));
        assert_eq!(rest_after_loss(&mut blind, now, 3), 3_200, "one too few, or too late");
        now += 3_200;
        arrive(&mut blind, now, 4, WORTHWHILE);
        assert_eq!(rest_after_loss(&mut blind, now, 4), 200);
        assert_eq!(rest_after_loss(&mut blind, now, 5), 3_200);
    }

    #[test]
    fn segments_are_long_while_every_path_is_trusted() {
        let mut blind = Blind::new(CONFIG);
        let len = |blind: &Blind, ms| blind.segment_len(at(ms), MTU);
        let other = Fence { path: PathId::new(1), generation: 0 };
        assert_eq!(len(&blind, 0), LONG, "nobody has tried");
        for _ in 1..PROBATION {
            arrive(&mut blind, 0, 0, 1);
            assert_eq!(len(&blind, 0), SHORT);
        }
        arrive(&mut blind, 0, 0, 1);
        assert_eq!(len(&blind, 0), LONG, "nothing was lost");
        blind.place_first(at(0), other.path, SHORT);
        assert_eq!(len(&blind, 0), SHORT, "a new path");
        blind.place_staged(other);
        assert_eq!(len(&blind, 0), LONG, "it was not used");
        blind.place_again(at(0), fence(0));
        blind.place_again(at(0), fence(0));
        blind.place_again(at(0), other);
        blind.renew(PATH, 1);
        assert_eq!(len(&blind, 3_199), MTU, "both rest");
        arrive(&mut blind, 5_000, 1, WORTHWHILE);
        assert_eq!(len(&blind, 5_000), MTU, "the other path has lost one, too, and is not renewed");
        blind.renew(other.path, 1);
        for _ in 0..WORTHWHILE {
            assert_eq!(len(&blind, 5_000), SHORT);
            blind.place_first(at(5_000), other.path, SHORT);
            blind.on_arrival(Fence { generation: 1, ..other });
        }
        assert_eq!(len(&blind, 5_000), LONG);
        // The peer has closed one of its own accord.
        blind.renew(PATH, 2);
        assert_eq!(len(&blind, 5_000), SHORT);
    }

    #[test]
    fn others_may_be_longer_or_shorter_than_blind_ones() {
        let mut blind = Blind::new(CONFIG);
        assert_eq!(blind.segment_len(at(0), u16::MAX), u16::MAX);
        blind.place_first(at(0), PATH, SHORT);
        assert_eq!(blind.segment_len(at(0), SHORT - 1), SHORT - 1);
    }

    #[test]
    fn long_segments_are_blind_on_trusted_paths_alone() {
        let mut blind = Blind::new(CONFIG);
        let placed = Placement::Blind(fence(0));
        assert_eq!(blind.place_first(at(0), PATH, LONG), placed, "nothing is known of it");
        assert_eq!(blind.place_first(at(0), PATH, SHORT + 1), Placement::PLAIN, "it is on trial");
        assert_eq!(blind.place_first(at(0), PATH, SHORT), placed);
        arrive(&mut blind, 0, 0, PROBATION);
        assert_eq!(blind.place_first(at(0), PATH, LONG), placed);
    }

    /// Sends so many one after the other; each arrives.
    fn arrive(blind: &mut Blind, now: u64, generation: u32, count: u16) {
        for _ in 0..count {
            assert_eq!(
                blind.place_first(at(now), PATH, SHORT),
                Placement::Blind(fence(generation))
            );
            blind.on_arrival(fence(generation));
        }
    }

    /// Sends for as long as it is blind; returns how many those were.
    fn burst(blind: &mut Blind, now: u64) -> u16 {
        let is_blind =
            |_: &u16| matches!(blind.place_first(at(now), PATH, SHORT), Placement::Blind(_));
        (0..1_000).take_while(is_blind).count() as u16
    }

    #[test]
    fn few_are_on_their_way_until_many_have_arrived() {
        let mut blind = Blind::new(CONFIG);
        assert_eq!(burst(&mut blind, 0), TRIAL);
        (0..PROBATION).for_each(|_| blind.live(PATH, |life| life.good += 1));
        assert!(burst(&mut blind, 0) > 100, "it is trusted");
        blind.place_again(at(0), fence(0));
        blind.renew(PATH, 1);
        assert_eq!(burst(&mut blind, 4_000), TRIAL);
        (0..TRIAL).for_each(|_| blind.on_arrival(fence(1)));
        assert_eq!(burst(&mut blind, 4_000), TRIAL + 1);
        blind.place_staged(fence(1));
        assert_eq!(burst(&mut blind, 4_000), 1, "in place of the one that was staged");
        (0..TRIAL).for_each(|_| blind.on_arrival(fence(1)));
        arrive(&mut blind, 4_000, 1, WORTHWHILE);
        assert!(burst(&mut blind, 4_000) > 100);
    }

    #[test]
    fn paths_that_have_not_proven_themselves_rest_when_one_of_them_loses() {
        let mut blind = Blind::new(CONFIG);
        let paths = [0, 1, 2].map(PathId::new);
        let is_blind = |blind: &mut Blind, path: usize, ms| {
            matches!(blind.place_first(at(ms), paths[path], SHORT), Placement::Blind(_))
        };
        for path in 0..3 {
            assert!(is_blind(&mut blind, path, 0));
        }
        (0..PROBATION).for_each(|_| blind.live(paths[2], |life| life.good += 1));
        blind.place_again(at(0), Fence { path: paths[0], generation: 0 });
        assert!(!is_blind(&mut blind, 1, 3_199));
        assert!(is_blind(&mut blind, 1, 3_200), "nobody has closed it");
        assert!(is_blind(&mut blind, 2, 0), "it is trusted");
        // A loss after many others says nothing of the others.
        blind.live(paths[2], |life| life.good = WORTHWHILE);
        blind.place_again(at(3_300), Fence { path: paths[2], generation: 0 });
        assert!(is_blind(&mut blind, 1, 3_300));
    }

    #[test]
    fn the_losses_of_one_generation_count_once() {
        let mut blind = Blind::new(CONFIG);
        blind.place_again(at(0), fence(0));
        blind.place_again(at(140), fence(0));
        blind.renew(PATH, 1);
        blind.place_again(at(3_199), fence(0));
        assert_eq!(blind.place_first(at(3_200), PATH, SHORT), Placement::Blind(fence(1)));
    }
}

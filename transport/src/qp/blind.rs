//! Which segments a NIC may write into application memory before any software has looked at them.
//!
//! A blind segment that the network has delayed must not land once its retransmission was placed: the
//! message may have completed since, and the buffer may hold something else. Hence three rules.
//! Only the first transmission of a WRITE's payload is blind. A retransmission of a blind segment names the NIC
//! queue pair that the first one was sent to, a [`Fence`], and the receiver closes that before it places
//! the retransmission. And where segments are lost, blind placement rests, and begins again with few
//! segments at a time: a loss costs it a NIC queue pair and all that is on its way to that, where
//! staging costs a copy.
//!
//! Blind segments are long, several packets of the NIC, as long as every path that is used is trusted: some have arrived
//! on it and it has lost none, or none for long. One packet lost loses the segment, so others are short.
//!
//! Invariants of a [`Life`]: it is `fenced` from the first fence of its generation until a newer
//! generation is heard of, and nothing blind is sent meanwhile, nor before `rests_until`. So no segment is
//! ever blind on a generation that a fence of ours has closed. A generation only grows. `good` and `under_way`
//! are of this generation. `doubted` counts the lives that are not trusted.

use std::time::Duration;

use braid_wire::{PathId, Time};

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

/// How long a path stages after a loss; doubled each time that blind placement did not pay.
const SHORTEST_REST: Duration = Duration::from_millis(200);
/// The longest is 16 times that, 3.2 s.
const MOST_DOUBLINGS: u8 = 4;
/// Blind segments that must arrive between two losses for blind placement to pay, and for a path to be trusted again.
const WORTHWHILE: u16 = 1_000;
/// Those that must arrive on a new path for it to be trusted: where one of a hundred is lost, most paths show it by then.
const PROBATION: u16 = 64;
/// Blind segments that may be on their way at first after a rest, and one more for so many that have arrived.
const TRIAL: u16 = 8;
const GOOD_PER_MORE: u16 = 8;

/// What the sender of a stream knows about its paths' NIC queue pairs.
#[derive(Clone, Debug)]
pub(crate) struct Blind {
    /// By path, up to the highest that was used.
    lives: Vec<Life>,
    doubted: usize,
    /// Payload bytes of a segment while all are trusted.
    longest: u16,
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
    /// How often the next rest is doubled.
    doublings: u8,
    /// A fence of this generation was sent: the peer closes it, or has.
    fenced: bool,
}

impl Blind {
    pub(crate) fn new(longest: u16) -> Self {
        Blind { lives: Vec::new(), doubted: 0, longest }
    }

    /// Payload bytes of a full segment, where one that is not blind has `mtu`.
    pub(crate) fn segment_len(&self, mtu: u16) -> u16 {
        if self.doubted == 0 { self.longest.max(mtu) } else { mtu }
    }

    /// Something that may change whether a path is trusted.
    fn live(&mut self, path: PathId, event: impl FnOnce(&mut Life)) {
        let life = self.life(path);
        let before = life.is_trusted();
        event(life);
        match (before, life.is_trusted()) {
            (true, false) => self.doubted += 1,
            (false, true) => self.doubted -= 1,
            _ => {}
        }
    }

    fn life(&mut self, path: PathId) -> &mut Life {
        let index = usize::from(path.get());
        if index >= self.lives.len() {
            self.lives.resize(index + 1, Life::default());
        }
        &mut self.lives[index]
    }

    /// Where the payload of a first transmission goes. The retransmission that carried a fence may be lost,
    /// and never repeated because the original has arrived: so all that is staged on the path repeats the
    /// fence until the peer has answered.
    pub(crate) fn place_first(&mut self, now: Time, path: PathId) -> Placement {
        let life = self.life(path);
        let fence = Fence { path, generation: life.generation };
        if life.fenced {
            return Placement::Staged { fence: Some(fence) };
        }
        if now < life.rests_until || life.is_tried_enough() {
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
        self.live(fence.path, |life| {
            if life.generation == fence.generation && !life.fenced {
                life.end(now);
            }
        });
        Placement::Staged { fence: Some(fence) }
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

    fn is_unused(&self) -> bool {
        self.generation == 0 && self.good == 0 && self.under_way == 0
    }

    /// A segment was lost: a fence goes out.
    fn end(&mut self, now: Time) {
        let doublings = if self.good < WORTHWHILE { self.doublings } else { 0 };
        self.rests_until = now + SHORTEST_REST * (1 << doublings);
        self.doublings = (doublings + 1).min(MOST_DOUBLINGS);
        self.fenced = true;
        self.good = 0;
    }

    /// After a loss, whether as many are on their way as the next one may cost.
    fn is_tried_enough(&self) -> bool {
        self.generation > 0
            && !self.is_trusted()
            && self.under_way >= TRIAL + self.good / GOOD_PER_MORE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: PathId = PathId::new(7);
    const SHORT: u16 = 4_000;
    const LONG: u16 = 16_384;

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
            blind.place_first(at(now + ms), PATH) == Placement::Blind(fence(generation + 1))
        };
        rest.find(is_blind).expect("an end of the rest")
    }

    #[test]
    fn a_fresh_path_is_blind_in_its_first_generation() {
        let mut blind = Blind::new(LONG);
        assert_eq!(blind.place_first(at(0), PATH), Placement::Blind(fence(0)));
        assert_eq!(blind.lives.len(), 8, "as many as are used");
    }

    #[test]
    fn a_fence_stops_its_path_alone_and_is_repeated_until_it_is_answered() {
        let mut blind = Blind::new(LONG);
        let fenced = Placement::Staged { fence: Some(fence(0)) };
        assert_eq!(blind.place_again(at(0), fence(0)), fenced);
        assert_eq!(blind.place_first(at(60_000), PATH), fenced, "however long it takes");
        let other = PathId::new(1);
        let untouched = Placement::Blind(Fence { path: other, generation: 0 });
        assert_eq!(blind.place_first(at(0), other), untouched);
        blind.renew(PATH, 0);
        assert_eq!(blind.place_first(at(60_000), PATH), fenced, "nothing new");
        blind.renew(PATH, 1);
        assert_eq!(blind.place_first(at(199), PATH), Placement::PLAIN, "it rests");
        assert_eq!(blind.place_first(at(200), PATH), Placement::Blind(fence(1)));
    }

    #[test]
    fn an_old_fence_goes_out_but_stops_nothing_new() {
        let mut blind = Blind::new(LONG);
        blind.renew(PATH, 4);
        assert_eq!(blind.place_again(at(0), fence(3)), Placement::Staged { fence: Some(fence(3)) });
        assert_eq!(blind.place_first(at(0), PATH), Placement::Blind(fence(4)));
        blind.renew(PATH, 2);
        assert_eq!(blind.place_first(at(0), PATH), Placement::Blind(fence(4)));
    }

    #[test]
    fn rests_double_until_blind_placement_pays() {
        let mut blind = Blind::new(LONG);
        let mut now = 0;
        for (generation, rest) in (0..).zip([200, 400, 800, 1_600, 3_200, 3_200]) {
            assert_eq!(rest_after_loss(&mut blind, now, generation), rest);
            now += rest;
        }
        // One is on its way already: `rest_after_loss` has sent it.
        arrive(&mut blind, now, 6, WORTHWHILE - 1);
        (0..WORTHWHILE).for_each(|_| blind.on_arrival(fence(5)));
        assert_eq!(rest_after_loss(&mut blind, now, 6), 3_200, "one too few, or too late");
        now += 3_200;
        arrive(&mut blind, now, 7, WORTHWHILE);
        assert_eq!(rest_after_loss(&mut blind, now, 7), 200);
        assert_eq!(rest_after_loss(&mut blind, now, 8), 400);
    }

    #[test]
    fn segments_are_long_while_every_path_is_trusted() {
        let mut blind = Blind::new(LONG);
        let other = Fence { path: PathId::new(1), generation: 0 };
        assert_eq!(blind.segment_len(SHORT), LONG, "nobody has tried");
        for _ in 1..PROBATION {
            arrive(&mut blind, 0, 0, 1);
            assert_eq!(blind.segment_len(SHORT), SHORT);
        }
        arrive(&mut blind, 0, 0, 1);
        assert_eq!(blind.segment_len(SHORT), LONG, "nothing was lost");
        blind.place_first(at(0), other.path);
        assert_eq!(blind.segment_len(SHORT), SHORT, "a new path");
        blind.place_staged(other);
        assert_eq!(blind.segment_len(SHORT), LONG, "it was not used");
        assert_eq!(Blind::new(0).segment_len(SHORT), SHORT, "no shorter than what is staged");
        blind.place_again(at(0), fence(0));
        blind.place_again(at(0), fence(0));
        blind.place_again(at(0), other);
        blind.renew(PATH, 1);
        arrive(&mut blind, 500, 1, WORTHWHILE);
        assert_eq!(blind.segment_len(SHORT), SHORT, "the other path has lost one, too");
        blind.renew(other.path, 1);
        for _ in 0..WORTHWHILE {
            assert_eq!(blind.segment_len(SHORT), SHORT);
            blind.place_first(at(500), other.path);
            blind.on_arrival(Fence { generation: 1, ..other });
        }
        assert_eq!(blind.segment_len(SHORT), LONG);
        // The peer has closed one of its own accord.
        blind.renew(PATH, 2);
        assert_eq!(blind.segment_len(SHORT), SHORT);
    }

    /// Sends so many one after the other; each arrives.
    fn arrive(blind: &mut Blind, now: u64, generation: u32, count: u16) {
        for _ in 0..count {
            assert_eq!(blind.place_first(at(now), PATH), Placement::Blind(fence(generation)));
            blind.on_arrival(fence(generation));
        }
    }

    /// Sends for as long as it is blind; returns how many those were.
    fn burst(blind: &mut Blind, now: u64) -> u16 {
        let is_blind = |_: &u16| matches!(blind.place_first(at(now), PATH), Placement::Blind(_));
        (0..1_000).take_while(is_blind).count() as u16
    }

    #[test]
    fn after_a_rest_few_are_on_their_way_until_many_have_arrived() {
        let mut blind = Blind::new(LONG);
        assert_eq!(burst(&mut blind, 0), 1_000, "nothing was lost yet");
        blind.place_again(at(0), fence(0));
        blind.renew(PATH, 1);
        assert_eq!(burst(&mut blind, 1_000), TRIAL);
        (0..TRIAL).for_each(|_| blind.on_arrival(fence(1)));
        assert_eq!(burst(&mut blind, 1_000), TRIAL + 1);
        blind.place_staged(fence(1));
        assert_eq!(burst(&mut blind, 1_000), 1, "in place of the one that was staged");
        (0..TRIAL).for_each(|_| blind.on_arrival(fence(1)));
        arrive(&mut blind, 1_000, 1, WORTHWHILE);
        assert!(burst(&mut blind, 1_000) > 100);
    }

    #[test]
    fn the_losses_of_one_generation_count_once() {
        let mut blind = Blind::new(LONG);
        blind.place_again(at(0), fence(0));
        blind.place_again(at(140), fence(0));
        blind.renew(PATH, 1);
        blind.place_again(at(199), fence(0));
        assert_eq!(blind.place_first(at(200), PATH), Placement::Blind(fence(1)));
    }
}

//! The receives of a queue pair of type UD.
//!
//! Each receive is kept until its datagram has arrived. If the sender disappears before that, the
//! receive takes another datagram.

use std::sync::{Mutex, MutexGuard, PoisonError};

use braid::RecvWr;

/// The kept receives. The engine knows each by its place.
#[derive(Default)]
pub(crate) struct Receives(Mutex<KeptReceives>);

#[derive(Default)]
struct KeptReceives {
    posted: Vec<Option<RecvWr>>,
    free: Vec<usize>,
}

impl Receives {
    /// Keeps a receive, and returns it under the id that the engine uses.
    pub(crate) fn keep(&self, wr: RecvWr) -> RecvWr {
        let mut places = self.places();
        let sges = wr.sges.clone();
        let place = places.free.pop().unwrap_or(places.posted.len());
        if place == places.posted.len() {
            places.posted.push(Some(wr));
        } else {
            places.posted[place] = Some(wr);
        }
        RecvWr { id: place as u64, sges }
    }

    /// Takes the receive that the engine knows by this id and that has ended.
    pub(crate) fn take(&self, id: u64) -> Option<RecvWr> {
        let mut places = self.places();
        let place = usize::try_from(id).ok()?;
        let taken = places.posted.get_mut(place)?.take()?;
        places.free.push(place);
        Some(taken)
    }

    fn places(&self) -> MutexGuard<'_, KeptReceives> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receive_comes_back_once_under_its_own_id() {
        let receives = Receives::default();
        let posted = |id| RecvWr { id, sges: Default::default() };
        let (first, second) = (receives.keep(posted(77)), receives.keep(posted(77)));
        assert_ne!(first.id, second.id);
        assert_eq!(receives.take(first.id), Some(posted(77)));
        assert_eq!(receives.take(first.id), None);
        assert_eq!(receives.keep(posted(5)).id, first.id, "places are used again");
        assert_eq!(receives.take(u64::MAX), None);
    }
}

//! Where the objects behind the handles are.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;

use arc_swap::{ArcSwapOption, Guard};

/// Slots of the first chunk; each further one has twice as many.
const FIRST: usize = 64;
/// Chunks: 16,777,152 slots in all, about as many as an engine has keys for memory.
const CHUNKS: usize = 18;

/// What a slot holds, and its generation, which tells it from what was there before.
pub(super) struct Entry<T> {
    generation: u32,
    /// `None`: a thread is about to close the object, and has not decided yet whether it can be.
    value: Option<T>,
}

struct Slot<T> {
    /// Of what is there, or comes next. It is asked first: who has a stale handle does not hold, not even for an
    /// instant, what another thread may be about to close.
    generation: AtomicU32,
    entry: ArcSwapOption<Entry<T>>,
}

/// Objects of one kind. Looking one up takes no lock, and what was found stays until it is let go of.
///
/// Who closes an object first takes it out of everybody's reach, then decides; those who ask meanwhile wait the
/// few instructions that this takes. So nobody can begin to use it, or make something with it, between the
/// decision and the end, and nobody is told that an object is gone which then stays.
///
/// Slots never move and are never freed, so a stale handle always leads to a slot, whose generation
/// gives it away.
pub(crate) struct Table<T> {
    chunks: [OnceLock<Box<[Slot<T>]>>; CHUNKS],
    vacant: Mutex<Vacant>,
}

/// Where the next objects go.
struct Vacant {
    /// Slots given back.
    reusable: Vec<u32>,
    /// Slots that were ever used.
    used: u32,
}

/// A slot and a generation: what a handle says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place {
    pub(super) index: u32,
    pub(super) generation: u32,
}

/// An object that somebody is using.
pub(crate) struct Held<T>(Guard<Option<Arc<Entry<T>>>>);

/// Why an object was not taken out.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refused<E> {
    Gone,
    InUse,
    Unwilling(E),
}

impl<T> Table<T> {
    pub(crate) const fn new() -> Self {
        let vacant = Mutex::new(Vacant { reusable: Vec::new(), used: 0 });
        Table { chunks: [const { OnceLock::new() }; CHUNKS], vacant }
    }

    /// `None`: it is full.
    pub(super) fn insert(&self, value: T) -> Option<Place> {
        let index = self.vacancy()?;
        let (chunk, offset) = locate(index)?;
        let slots =
            self.chunks[chunk].get_or_init(|| (0..FIRST << chunk).map(|_| Slot::new()).collect());
        let slot = &slots[offset];
        let generation = slot.generation.load(Ordering::Acquire);
        slot.entry.store(Some(Arc::new(Entry { generation, value: Some(value) })));
        Some(Place { index, generation })
    }

    fn vacancy(&self) -> Option<u32> {
        let mut vacant = self.vacant();
        if let Some(index) = vacant.reusable.pop() {
            return Some(index);
        }
        let index = vacant.used;
        locate(index)?;
        vacant.used += 1;
        Some(index)
    }

    fn vacant(&self) -> MutexGuard<'_, Vacant> {
        // Whole between any two statements.
        self.vacant.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `None`: the place is stale.
    fn slot(&self, place: Place) -> Option<&Slot<T>> {
        let (chunk, offset) = locate(place.index)?;
        let slot = self.chunks[chunk].get()?.get(offset)?;
        (slot.generation.load(Ordering::Acquire) == place.generation).then_some(slot)
    }

    pub(super) fn get(&self, place: Place) -> Option<Held<T>> {
        let slot = self.slot(place)?;
        loop {
            let found = slot.entry.load();
            let entry = found.as_ref().filter(|entry| entry.generation == place.generation)?;
            if entry.value.is_some() {
                return Some(Held(found));
            }
            thread::yield_now();
        }
    }

    /// Takes an object out, if nobody is using it and it is `willing`.
    pub(super) fn remove<E>(
        &self,
        place: Place,
        willing: impl FnOnce(&T) -> Result<(), E>,
    ) -> Result<T, Refused<E>> {
        let slot = self.slot(place).ok_or(Refused::Gone)?;
        let entry = self.withdraw(slot, place).ok_or(Refused::Gone)?;
        // The swap has turned the loans of other threads into references that count.
        let Entry { value, generation } = Arc::try_unwrap(entry).map_err(|entry| {
            slot.entry.store(Some(entry));
            Refused::InUse
        })?;
        let value = value.expect("only what is open is withdrawn");
        if let Err(unwilling) = willing(&value) {
            slot.entry.store(Some(Arc::new(Entry { generation, value: Some(value) })));
            return Err(Refused::Unwilling(unwilling));
        }
        slot.entry.store(None);
        slot.generation.store(generation.wrapping_add(1), Ordering::Release);
        self.vacant().reusable.push(place.index);
        Ok(value)
    }

    /// Takes an open object out of everybody's reach, until something is stored in the slot again.
    fn withdraw(&self, slot: &Slot<T>, place: Place) -> Option<Arc<Entry<T>>> {
        let undecided = Arc::new(Entry { generation: place.generation, value: None });
        loop {
            let open = Guard::into_inner(self.get(place)?.0)?;
            let previous = slot.entry.compare_and_swap(&open, Some(undecided.clone()));
            if previous.as_ref().is_some_and(|previous| Arc::ptr_eq(previous, &open)) {
                return Some(open);
            }
        }
    }
}

impl<T> Slot<T> {
    const fn new() -> Self {
        Slot { generation: AtomicU32::new(1), entry: ArcSwapOption::const_empty() }
    }
}

/// The chunk of a slot and its place there.
fn locate(index: u32) -> Option<(usize, usize)> {
    let position = index as usize + FIRST;
    let chunk = (position / FIRST).ilog2() as usize;
    (chunk < CHUNKS).then_some((chunk, position - (FIRST << chunk)))
}

impl<T> std::ops::Deref for Held<T> {
    type Target = T;
    fn deref(&self) -> &T {
        let value = self.0.as_ref().and_then(|entry| entry.value.as_ref());
        value.expect("only what is open is held")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn willing<T>(_: &T) -> Result<(), ()> {
        Ok(())
    }

    #[test]
    fn chunks_follow_each_other_without_gaps() {
        assert_eq!(locate(0), Some((0, 0)));
        assert_eq!(locate(63), Some((0, 63)));
        assert_eq!(locate(64), Some((1, 0)));
        assert_eq!(locate(191), Some((1, 127)));
        assert_eq!(locate(192), Some((2, 0)));
        let last = (64 * ((1 << CHUNKS) - 1)) - 1;
        assert_eq!(locate(last), Some((CHUNKS - 1, (64 << (CHUNKS - 1)) - 1)));
        assert_eq!(locate(last + 1), None);
        assert_eq!(locate(u32::MAX), None);
    }

    #[test]
    fn a_stale_place_is_refused_when_its_slot_is_used_again() {
        let table = Table::new();
        let old = table.insert("old").unwrap();
        assert_eq!(table.remove(old, willing), Ok("old"));
        assert!(table.get(old).is_none());
        let new = table.insert("new").unwrap();
        assert_eq!((new.index, new.generation), (old.index, old.generation + 1));
        assert!(table.get(old).is_none());
        assert_eq!(table.remove(old, willing), Err(Refused::Gone));
        assert_eq!(*table.get(new).unwrap(), "new");
    }

    #[test]
    fn what_is_in_use_or_unwilling_stays() {
        let table = Table::new();
        let place = table.insert(1).unwrap();
        let held = table.get(place).unwrap();
        assert_eq!(table.remove(place, willing), Err(Refused::InUse));
        assert_eq!(*table.get(place).unwrap(), 1);
        drop(held);
        assert_eq!(table.remove(place, |_| Err("no")), Err(Refused::Unwilling("no")));
        assert_eq!(table.remove(place, willing), Ok(1));
    }

    #[test]
    fn whoever_asks_for_an_object_that_is_open_gets_it_while_others_fail_to_close_it() {
        let table = &Table::new();
        let place = table.insert(1).unwrap();
        let held = table.get(place).unwrap();
        std::thread::scope(|scope| {
            let closing = [false, true].map(|unwilling| {
                scope.spawn(move || {
                    let willing = |_: &i32| if unwilling { Err(()) } else { Ok(()) };
                    (0..100_000).all(|_| table.remove(place, willing).is_err())
                })
            });
            let mut asked = 0;
            while closing.iter().any(|thread| !thread.is_finished()) {
                assert_eq!(table.get(place).map(|found| *found), Some(1), "after {asked} times");
                asked += 1;
            }
            closing.into_iter().for_each(|thread| assert!(thread.join().unwrap()));
        });
        drop(held);
        assert_eq!(table.remove(place, willing), Ok(1));
    }

    #[test]
    fn an_object_is_not_closed_under_one_who_has_just_made_something_with_it() {
        let table = &Table::new();
        let place = table.insert(AtomicU32::new(0)).unwrap();
        std::thread::scope(|scope| {
            let (tell, told) = std::sync::mpsc::channel();
            let closed = table.remove(place, |children| {
                let none = children.load(Ordering::SeqCst) == 0;
                // Between the look and the end of the object, as far as it goes.
                scope.spawn(move || {
                    let made = table.get(place).map(|found| found.fetch_add(1, Ordering::SeqCst));
                    let _ = tell.send(made);
                });
                let _ = told.recv_timeout(std::time::Duration::from_millis(100));
                if none { Ok(()) } else { Err(()) }
            });
            let children = closed.expect("nobody uses it").into_inner();
            assert_eq!(children, 0, "closed, and it has a child");
        });
    }

    #[test]
    fn many_threads_open_use_and_close() {
        let table = Table::new();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let table = &table;
                scope.spawn(move || {
                    for round in 0..2000 {
                        let value = Box::new((thread, round));
                        let place = table.insert(value).unwrap();
                        assert_eq!(**table.get(place).unwrap(), (thread, round));
                        assert_eq!(*table.remove(place, willing).unwrap(), (thread, round));
                        assert!(table.get(place).is_none());
                    }
                });
            }
        });
    }
}

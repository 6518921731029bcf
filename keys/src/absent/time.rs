//! The crate `time` without its functions.

use super::never::Absent;

pub(crate) use self::CalendarDate as Date;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct CalendarDate(bool);

impl CalendarDate {
    pub(crate) const MIN: CalendarDate = CalendarDate(false);
    pub(crate) const MAX: CalendarDate = CalendarDate(true);

    pub(crate) fn from_calendar_date(_: i32, _: Month, _: u8) -> Result<Self, Absent> {
        Err(Absent)
    }

    pub(crate) fn to_calendar_date(self) -> (i32, Month, u8) {
        (if self.0 { 9999 } else { 0 }, Month, 1)
    }
}

#[derive(Clone, Copy)]
pub(crate) struct Month;

impl TryFrom<u8> for Month {
    type Error = Absent;

    fn try_from(_: u8) -> Result<Self, Absent> {
        Err(Absent)
    }
}

impl From<Month> for u8 {
    fn from(_: Month) -> u8 {
        1
    }
}

pub(crate) struct OffsetDateTime(super::never::Never);

impl OffsetDateTime {
    pub(crate) fn from_unix_timestamp(_: i64) -> Result<Self, Absent> {
        Err(Absent)
    }

    pub(crate) fn date(self) -> CalendarDate {
        match self.0 {}
    }
}

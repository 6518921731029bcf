//! Dates, for keys that expire.

use std::fmt;
use std::str::FromStr;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::crypto::time::{self, Month, OffsetDateTime};

/// A day of the Gregorian calendar, in UTC.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Date(time::Date);

/// An invalid date.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("invalid date; use YYYY-MM-DD")]
pub struct NoDate;

impl Date {
    /// A day before any date in a list.
    pub const FIRST: Date = Date(time::Date::MIN);

    /// Returns the day of a time in seconds since 1970, at most the last day of year 9999.
    pub fn from_unix(seconds: u64) -> Self {
        let at = i64::try_from(seconds).ok().map(OffsetDateTime::from_unix_timestamp);
        Date(at.and_then(Result::ok).map_or(time::Date::MAX, OffsetDateTime::date))
    }
}

impl From<SystemTime> for Date {
    /// Returns the day of a time, at least the first day of 1970.
    fn from(time: SystemTime) -> Self {
        Date::from_unix(time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()))
    }
}

impl FromStr for Date {
    type Err = NoDate;

    /// Parses `YYYY-MM-DD`.
    fn from_str(text: &str) -> Result<Self, NoDate> {
        let mut parts = text.splitn(3, '-');
        let mut number = |len: usize| {
            let digits = parts.next().filter(|part| part.len() == len);
            let digits = digits.filter(|part| part.bytes().all(|byte| byte.is_ascii_digit()));
            digits.and_then(|digits| digits.parse::<u16>().ok()).ok_or(NoDate)
        };
        let (year, month, day) = (number(4)?, number(2)? as u8, number(2)? as u8);
        let month = Month::try_from(month).map_err(|_| NoDate)?;
        time::Date::from_calendar_date(year.into(), month, day).map(Date).map_err(|_| NoDate)
    }
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = self.0.to_calendar_date();
        write!(f, "{year:04}-{:02}-{day:02}", u8::from(month))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_come_back_from_their_text_and_others_are_refused() {
        for text in ["2026-12-31", "2028-02-29", "0000-01-01"] {
            assert_eq!(text.parse::<Date>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "2026",
            "2026-1-1",
            "2026-13-01",
            "2027-02-29",
            "2026-12-00",
            "2026-12-31x",
            "+026-12-31",
            "2026-12-31-1",
            "2026/12/31",
        ] {
            assert_eq!(text.parse::<Date>(), Err(NoDate), "{text:?}");
        }
    }

    #[test]
    fn a_time_is_of_its_day_in_utc() {
        let date = |text: &str| text.parse::<Date>().unwrap();
        assert_eq!(Date::from_unix(0), date("1970-01-01"));
        assert_eq!(Date::from_unix(86_399), date("1970-01-01"));
        assert_eq!(Date::from_unix(951_782_400), date("2000-02-29"));
        assert_eq!(Date::from_unix(u64::MAX), date("9999-12-31"));
        assert!(Date::FIRST < date("0000-01-01"));
    }
}

//! The language of `ci-softroce/agent`, which describes it: lines, some with so many bytes after
//! them.

use std::io::{self, BufRead, Read};
use std::time::Duration;

/// The result of a command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Output {
    /// Its exit status; 128 and a signal's number where that has ended it.
    pub(super) status: u8,
    /// All that it wrote, to either output.
    pub(super) text: String,
}

/// More than this no command has any business writing.
const LONGEST_ANSWER: u64 = 16 << 20;
/// Maximum length of the first line of a reply.
const LONGEST_LINE: u64 = 64;

/// Returns the request to run a command with a time limit, rounded up to seconds.
pub(super) fn run(id: u64, limit: Duration, command: &str) -> String {
    let seconds = limit.as_millis().div_ceil(1000);
    format!("run {id} {seconds} {}\n{command}", command.len())
}

/// To end a command that runs.
pub(super) fn end(id: u64) -> String {
    format!("end {id}\n")
}

/// The next answer and the id of the request; `None` at the end of the stream.
pub(super) fn read(from: &mut impl BufRead) -> io::Result<Option<(u64, Output)>> {
    let mut line = Vec::new();
    from.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line)?;
    if line.is_empty() {
        return Ok(None);
    }
    let line = String::from_utf8_lossy(&line);
    let Some((id, status, length)) = parse(&line) else {
        let what = format!("the agent said {line:?}, which is no answer");
        return Err(io::Error::new(io::ErrorKind::InvalidData, what));
    };
    let mut text = Vec::new();
    from.by_ref().take(length).read_to_end(&mut text)?;
    if text.len() as u64 != length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(Some((id, Output { status, text: String::from_utf8_lossy(&text).into_owned() })))
}

fn parse(line: &str) -> Option<(u64, u8, u64)> {
    let mut words = line.strip_suffix('\n')?.split(' ');
    let mut word = || words.next();
    let fields = (word()?.parse().ok()?, word()?.parse().ok()?, word()?.parse().ok()?);
    (word().is_none() && fields.2 <= LONGEST_ANSWER).then_some(fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(status: u8, text: &str) -> Output {
        Output { status, text: text.into() }
    }

    #[test]
    fn a_command_follows_its_line_whatever_is_in_it() {
        let request = run(7, Duration::from_millis(1500), "printf 'ä\\n'\necho b");
        assert_eq!(request, "run 7 2 20\nprintf 'ä\\n'\necho b");
    }

    #[test]
    fn answers_follow_each_other() {
        let mut stream: &[u8] = b"0 0 0\n3 137 4\na\nb\n2 0 1\nx";
        let mut next = || read(&mut stream).expect("well formed");
        assert_eq!(next(), Some((0, output(0, ""))));
        assert_eq!(next(), Some((3, output(137, "a\nb\n"))));
        assert_eq!(next(), Some((2, output(0, "x"))));
        assert_eq!(next(), None);
    }

    #[test]
    fn what_is_no_answer_is_refused() {
        let long = "1".repeat(100);
        let huge = format!("1 0 {}\n", LONGEST_ANSWER + 1);
        for stream in [
            "hello\n",
            "1 0\n",
            "1 0 2 3\n",
            "1 256 0\n",
            "-1 0 0\n",
            "1 0 9\nshort",
            "1 0 0",
            &long,
            &huge,
        ] {
            assert!(read(&mut stream.as_bytes()).is_err(), "{stream}");
        }
    }
}

//! As much of HTTP/1.1 (RFC 9112) as it takes to hand out one page: a request, an answer, the end of the connection.

use std::io::{self, Read, Write};

/// Bytes of a request, headers included, at most.
const MAX_REQUEST: usize = 8 << 10;
/// The text format of OpenMetrics, which Prometheus reads.
const FORMAT: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Answers one request with the page, if it asks for that.
///
/// # Errors
/// Whoever asks does not finish, or does not listen.
pub(super) fn answer(
    stream: &mut (impl Read + Write),
    page: impl FnOnce() -> String,
) -> io::Result<()> {
    let request = read(stream)?;
    match judge(&request) {
        Ok(has_body) => {
            let page = page();
            head(stream, "200 OK", FORMAT, page.len())?;
            if has_body { stream.write_all(page.as_bytes()) } else { Ok(()) }
        }
        Err((status, text)) => {
            head(stream, status, "text/plain; charset=utf-8", text.len())?;
            stream.write_all(text.as_bytes())
        }
    }
}

fn head(out: &mut impl Write, status: &str, format: &str, len: usize) -> io::Result<()> {
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {format}\r\nContent-Length: {len}\r\nConnection: close\r\n\r\n"
    );
    out.write_all(head.as_bytes())
}

/// Up to the empty line, or as much as is taken.
fn read(stream: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut request = Vec::new();
    let mut some = [0; 1024];
    while request.len() < MAX_REQUEST && !is_whole(&request) {
        match stream.read(&mut some)? {
            0 => break,
            count => request.extend_from_slice(&some[..count]),
        }
    }
    Ok(request)
}

fn is_whole(request: &[u8]) -> bool {
    request.windows(4).any(|four| four == b"\r\n\r\n")
}

/// Whether the answer has a body, or how and why it is no page.
fn judge(request: &[u8]) -> Result<bool, (&'static str, &'static str)> {
    if !is_whole(request) {
        return Err(match request.len() >= MAX_REQUEST {
            true => ("431 Request Header Fields Too Large", "at most 8 KiB\n"),
            false => ("400 Bad Request", "no HTTP request\n"),
        });
    }
    let line = request.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let mut words = line.split(|byte| *byte == b' ');
    let (method, target, version) = (words.next(), words.next(), words.next());
    if !version.is_some_and(|version| version.starts_with(b"HTTP/1.")) || words.next().is_some() {
        return Err(("400 Bad Request", "no HTTP/1 request\n"));
    }
    let path = target.and_then(|target| target.split(|byte| *byte == b'?').next());
    match (method, path) {
        (Some(b"GET"), Some(b"/metrics")) => Ok(true),
        (Some(b"HEAD"), Some(b"/metrics")) => Ok(false),
        (Some(b"GET" | b"HEAD"), _) => Err(("404 Not Found", "there is /metrics\n")),
        _ => Err(("405 Method Not Allowed", "there is GET\n")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A connection whose other end has said everything.
    struct Said<'a> {
        request: &'a [u8],
        answer: Vec<u8>,
    }

    impl Read for Said<'_> {
        fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
            // In small pieces, as a slow network hands them over.
            let len = to.len().min(7);
            self.request.read(&mut to[..len])
        }
    }

    impl Write for Said<'_> {
        fn write(&mut self, from: &[u8]) -> io::Result<usize> {
            self.answer.write(from)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn answer_to(request: &[u8]) -> String {
        let mut said = Said { request, answer: Vec::new() };
        answer(&mut said, || "the page".to_owned()).expect("it listens");
        String::from_utf8(said.answer).expect("it is text")
    }

    #[test]
    fn who_asks_for_the_page_gets_it() {
        let get = answer_to(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(
            get.starts_with("HTTP/1.1 200 OK\r\n") && get.ends_with("\r\n\r\nthe page"),
            "{get}"
        );
        let head = answer_to(b"HEAD /metrics?x=1 HTTP/1.0\r\n\r\n");
        assert!(head.contains("Content-Length: 8\r\n") && head.ends_with("\r\n\r\n"), "{head}");
    }

    #[test]
    fn everybody_else_gets_a_short_answer() {
        let long = [b"GET /metrics HTTP/1.1\r\nX: ".as_slice(), &[b'x'; 20_000]].concat();
        for (request, status) in [
            (&b"GET / HTTP/1.1\r\n\r\n"[..], "404"),
            (b"POST /metrics HTTP/1.1\r\n\r\n", "405"),
            (b"GET /metrics\r\n\r\n", "400"),
            (b"GET /metrics HTTP/2\r\n\r\n", "400"),
            (b"GET /metrics HTTP/1.1", "400"),
            (b"", "400"),
            (b"\0\xff\xfe\r\n\r\n", "400"),
            (&long, "431"),
        ] {
            let answer = answer_to(request);
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
            assert!(!answer.contains("the page"));
        }
    }
}

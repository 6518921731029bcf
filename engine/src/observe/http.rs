//! The part of HTTP/1.1 (RFC 9112) that serves one page: a request, an answer, the end of the
//! connection.

/// The largest request in bytes, headers included.
const MAX_REQUEST: usize = 8 << 10;
/// The text format of OpenMetrics, which Prometheus reads.
const FORMAT: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Whether the request is complete: the empty line has arrived, or the request is too long.
pub(super) fn is_read(request: &[u8]) -> bool {
    request.len() >= MAX_REQUEST || is_whole(request)
}

/// The answer to a request. The answer has the page if the request asks for it.
pub(super) fn answer(request: &[u8], page: impl FnOnce() -> String) -> Vec<u8> {
    match judge(request) {
        Ok(has_body) => {
            let page = page();
            let head = head("200 OK", FORMAT, page.len());
            [head.as_str(), if has_body { &page } else { "" }].concat().into_bytes()
        }
        Err((status, text)) => {
            let head = head(status, "text/plain; charset=utf-8", text.len());
            [head.as_str(), text].concat().into_bytes()
        }
    }
}

fn head(status: &str, format: &str, len: usize) -> String {
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {format}\r\nContent-Length: {len}\r\n\
         Connection: close\r\n\r\n"
    )
}

fn is_whole(request: &[u8]) -> bool {
    request.windows(4).any(|four| four == b"\r\n\r\n")
}

/// Whether the answer has a body. An error is the status of an invalid request and its reason.
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

    fn answer_to(request: &[u8]) -> String {
        let answer = answer(request, || "the page".to_owned());
        String::from_utf8(answer).expect("it is text")
    }

    #[test]
    fn a_request_is_read_to_its_empty_line_or_its_limit() {
        let whole = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";
        assert!(is_read(whole));
        (0..whole.len()).for_each(|cut| assert!(!is_read(&whole[..cut]), "{cut}"));
        assert!(is_read(&[b'x'; MAX_REQUEST]) && !is_read(&[b'x'; MAX_REQUEST - 1]));
    }

    #[test]
    fn valid_requests_get_the_page() {
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

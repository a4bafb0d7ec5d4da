//! Answers, with the headers that keep what is in them from leaving.

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{
    CACHE_CONTROL, CONNECTION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue, LOCATION,
};
use hyper::header::{REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS};
use hyper::{Response, StatusCode};

/// An answer to a request.
pub type Answer = Response<Full<Bytes>>;

/// The live page loads its script and its style, and asks this server alone.
const OWN_PAGE: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
                        base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
/// A report has everything in it, and must not reach the rest: it is shown as of an origin of its
/// own.
const REPORT: &str = "sandbox allow-scripts allow-downloads allow-popups; default-src 'none'; script-src 'unsafe-inline'; \
                      style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'";

fn answer(status: StatusCode, kind: &'static str, policy: &'static str, body: Bytes) -> Answer {
    let mut answer = Response::new(Full::new(body));
    *answer.status_mut() = status;
    let headers: [(HeaderName, &'static str); 6] = [
        (CONTENT_TYPE, kind),
        (CONTENT_SECURITY_POLICY, policy),
        (CACHE_CONTROL, "no-store"),
        // The token is in the address.
        (REFERRER_POLICY, "no-referrer"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
    ];
    for (name, value) in headers {
        answer.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    answer
}

/// A file of the live page.
pub fn file(kind: &'static str, text: &'static str) -> Answer {
    answer(StatusCode::OK, kind, OWN_PAGE, Bytes::from_static(text.as_bytes()))
}

/// JSON.
pub fn json(body: impl Into<Bytes>) -> Answer {
    answer(StatusCode::OK, "application/json", OWN_PAGE, body.into())
}

/// A report.
pub fn report(page: Bytes) -> Answer {
    answer(StatusCode::OK, "text/html; charset=utf-8", REPORT, page)
}

/// A sentence.
pub fn text(status: StatusCode, text: &str) -> Answer {
    let mut answer =
        answer(status, "text/plain; charset=utf-8", OWN_PAGE, Bytes::copy_from_slice(text.as_bytes()));
    if status != StatusCode::NOT_FOUND {
        answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    answer
}

/// The address with a slash at its end.
pub fn with_slash(path: &str) -> Answer {
    let mut answer = text(StatusCode::PERMANENT_REDIRECT, "");
    if let Ok(place) = HeaderValue::from_str(&format!("{path}/")) {
        answer.headers_mut().insert(LOCATION, place);
    }
    answer
}

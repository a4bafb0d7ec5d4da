//! The messages of agents: lines of JSON, in the body of one long request each.

use crate::answers::{Answer, text};
use crate::jobs::Jobs;
use http_body_util::BodyExt;
use hyper::StatusCode;
use hyper::body::{Body, Bytes};
use mpisee_through::library::live::Message;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Agents that are connected at one time.
const MOST_AGENTS: usize = 1024;
/// The longest line.
const MOST_LINE_BYTES: usize = 16 << 20;
/// Bytes of lines that are not yet whole, of all agents.
const MOST_BYTES: usize = 256 << 20;
/// An agent that sends nothing for so long is gone.
const PATIENCE: Duration = Duration::from_secs(90);

/// Why a line is not taken.
type Refusal = (StatusCode, String);

/// How much agents take at the moment.
#[derive(Default)]
pub struct Agents {
    connected: AtomicUsize,
    bytes: AtomicUsize,
}

/// A part of a number that is given back.
struct Taken<'a>(&'a AtomicUsize, usize);

impl Taken<'_> {
    /// Takes more; false if there is not so much.
    fn more(&mut self, by: usize, most: usize) -> bool {
        self.1 += by;
        self.0.fetch_add(by, Ordering::Relaxed) + by <= most
    }

    fn less(&mut self, by: usize) {
        self.1 -= by;
        self.0.fetch_sub(by, Ordering::Relaxed);
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(self.1, Ordering::Relaxed);
    }
}

impl Agents {
    /// Reads until the agent ends, or fails.
    pub async fn receive<B>(&self, mut body: B, jobs: &Arc<Jobs>) -> Answer
    where
        B: Body<Data = Bytes> + Unpin,
    {
        let mut connected = Taken(&self.connected, 0);
        if !connected.more(1, MOST_AGENTS) {
            return text(
                StatusCode::SERVICE_UNAVAILABLE,
                &format!("{MOST_AGENTS} agents are connected already\n"),
            );
        }
        let mut held = Taken(&self.bytes, 0);
        let mut line = Vec::new();
        loop {
            let Ok(frame) = tokio::time::timeout(PATIENCE, body.frame()).await else {
                return text(StatusCode::REQUEST_TIMEOUT, "nothing came for a long time\n");
            };
            let Some(frame) = frame else { return text(StatusCode::OK, "thank you\n") };
            let Ok(frame) = frame else { return text(StatusCode::BAD_REQUEST, "the request breaks off\n") };
            let Ok(data) = frame.into_data() else { continue };
            let mut rest = &data[..];
            while let Some(at) = rest.iter().position(|&byte| byte == b'\n') {
                line.extend_from_slice(&rest[..at]);
                rest = &rest[at + 1..];
                let whole = std::mem::take(&mut line);
                if whole.len() > MOST_LINE_BYTES {
                    return too_long();
                }
                if let Err((status, why)) = take(whole, jobs).await {
                    return text(status, &format!("{why}\n"));
                }
                held.less(held.1);
            }
            line.extend_from_slice(rest);
            if line.len() > MOST_LINE_BYTES {
                return too_long();
            }
            if !held.more(rest.len(), MOST_BYTES) {
                return text(StatusCode::SERVICE_UNAVAILABLE, "agents send too much at one time\n");
            }
        }
    }
}

fn too_long() -> Answer {
    text(StatusCode::PAYLOAD_TOO_LARGE, &format!("a line has more than {MOST_LINE_BYTES} bytes\n"))
}

/// Takes a line, on a thread that may be busy for a while.
async fn take(line: Vec<u8>, jobs: &Arc<Jobs>) -> Result<(), Refusal> {
    if line.is_empty() {
        return Ok(());
    }
    let jobs = Arc::clone(jobs);
    let taken = tokio::task::spawn_blocking(move || match Message::parse(&line) {
        Ok(Message::Look(look)) => match jobs.take(*look, line.len()) {
            true => Ok(()),
            false => Err((
                StatusCode::SERVICE_UNAVAILABLE,
                "the server holds as much of agents as it may".to_owned(),
            )),
        },
        Ok(Message::Ended(ended)) => {
            jobs.end(ended);
            Ok(())
        }
        Err(why) => Err((StatusCode::BAD_REQUEST, format!("{why:#}"))),
    });
    taken.await.unwrap_or_else(|_| Err((StatusCode::BAD_REQUEST, "the line cannot be used".to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Store;
    use http_body_util::Full;

    fn received(body: Vec<u8>) -> (StatusCode, Agents) {
        let place = tempfile::tempdir().unwrap();
        let store = Arc::new(Store::open(&place.path().join("h"), 10).unwrap());
        let jobs = Arc::new(Jobs::new(store, Duration::from_secs(1)));
        let agents = Agents::default();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let answer = runtime.block_on(agents.receive(Full::new(Bytes::from(body)), &jobs));
        (answer.status(), agents)
    }

    #[test]
    fn lines_that_cannot_be_are_refused() {
        for (body, expected) in [
            (b"".to_vec(), StatusCode::OK),
            (b"\n\n".to_vec(), StatusCode::OK),
            (b"{}\n".to_vec(), StatusCode::BAD_REQUEST),
            (b"\xff\xfe\n".to_vec(), StatusCode::BAD_REQUEST),
            ([b"[".repeat(100_000), b"\n".to_vec()].concat(), StatusCode::BAD_REQUEST),
            (b"x".repeat(MOST_LINE_BYTES + 1), StatusCode::PAYLOAD_TOO_LARGE),
            (
                b"{\"version\":1,\"message\":{\"ended\":{\"host\":\"n\",\"job\":1,\"totals\":[]}}}\n"
                    .to_vec(),
                StatusCode::OK,
            ),
        ] {
            let (status, agents) = received(body.clone());
            let left = [&agents.connected, &agents.bytes].map(|number| number.load(Ordering::Relaxed));
            assert_eq!(
                (status, left),
                (expected, [0, 0]),
                "{}",
                String::from_utf8_lossy(&body[..body.len().min(80)])
            );
        }
    }
}

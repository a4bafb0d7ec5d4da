//! `--to`: sends what `top` sees of the job to `mpisee-through serve`, again and again, over one
//! connection.
//!
//! A thread of its own looks and sends, so that the agent's readings wait for nobody. Nothing is
//! queued: while the server cannot be reached, or is slow, there are fewer looks, and the next one
//! has what happened since the last that was sent.

use crate::command::top::live::{Ended, Message, Reader, Total};
use anyhow::{Context, Result, bail};
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// How long the server may take to accept a connection, and a part of a message.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long the last message may take, in all.
const LAST: Duration = Duration::from_secs(3);
/// The pause before another try, at first and at most.
const PAUSES: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(10)];
/// A look costs that part of the time until the next, of a core, at most, unless that would be too
/// long.
const MOST_SHARE: f64 = 0.01;
const LONGEST: Duration = Duration::from_secs(20);
/// The letters of a token.
const FEWEST_LETTERS: usize = 16;

/// Where to send, and what for.
#[derive(Clone, Debug)]
pub struct Target {
    /// `HOST:PORT`.
    pub to: String,
    /// The secret that the server wants from its clients.
    pub token: String,
}

impl Target {
    /// Fails unless the token can be one.
    pub fn new(to: &str, token: Option<String>) -> Result<Target> {
        let token = token.context(
            "there is no MPISEE_TOKEN in the environment; it is what mpisee-through serve has between slashes in its address",
        )?;
        if !is_token(&token) {
            bail!("MPISEE_TOKEN is no token: {FEWEST_LETTERS} letters, digits, - and _ at least");
        }
        if to.rsplit_once(':').is_none_or(|(host, port)| host.is_empty() || port.parse::<u16>().is_err()) {
            bail!("'{to}' is no HOST:PORT, as mpisee-through serve has them in its address");
        }
        Ok(Target { to: to.to_owned(), token })
    }
}

/// Returns whether a text can be a token: long enough not to be guessed, and nothing in it that an
/// address would need to escape.
pub fn is_token(text: &str) -> bool {
    const MOST_LETTERS: usize = 256;
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '-' || letter == '_';
    (FEWEST_LETTERS..=MOST_LETTERS).contains(&text.len()) && text.chars().all(is_plain)
}

/// A thread that sends until the job ends.
pub struct Sending {
    end: Sender<Vec<Total>>,
    /// Gets sentences on what went wrong, at the end.
    done: Receiver<Vec<String>>,
}

impl Sending {
    /// Begins to send; `job` is read by `reader` alone.
    pub fn start(target: Target, reader: Reader, job: u64, interval: Duration) -> Result<Sending> {
        let (end, ends) = channel();
        let (said, done) = channel();
        let connection =
            Connection { target, stream: None, pause: PAUSES[0], next: Instant::now(), notes: Vec::new() };
        let mut state = State { connection, reader, job };
        let run = move || {
            state.run(&ends, interval);
            // Nobody waits any more, if that took too long.
            let _ = said.send(state.connection.notes);
        };
        std::thread::Builder::new().name("send".to_owned()).spawn(run).context("cannot start a thread")?;
        Ok(Sending { end, done })
    }

    /// Sends nothing more, since the job goes on; returns sentences on what went wrong.
    pub fn leave(self) -> Vec<String> {
        drop(self.end);
        self.done.recv_timeout(LAST).unwrap_or_default()
    }

    /// Sends the sums of the job, and returns sentences on what went wrong; waits for a few seconds
    /// at most.
    pub fn end(self, totals: Vec<Total>) -> Vec<String> {
        let _ = self.end.send(totals);
        self.done
            .recv_timeout(LAST)
            .unwrap_or_else(|_| vec!["the server did not take the last message in time".to_owned()])
    }
}

struct State {
    connection: Connection,
    reader: Reader,
    job: u64,
}

impl State {
    fn run(&mut self, ends: &Receiver<Vec<Total>>, interval: Duration) {
        let mut due = Instant::now() + interval.min(Duration::from_millis(200));
        loop {
            let totals = match ends.recv_timeout(due.saturating_duration_since(Instant::now())) {
                Err(RecvTimeoutError::Timeout) => None,
                Ok(totals) => Some(totals),
                // The agent ends, and the job goes on.
                Err(RecvTimeoutError::Disconnected) => return self.connection.close(),
            };
            let before = thread_cpu();
            if let Some(totals) = totals {
                self.connection.next = Instant::now();
                let ended = Ended { host: self.reader.host().to_owned(), job: self.job, totals };
                self.connection.send(&Message::Ended(ended));
                self.connection.close();
                return;
            }
            // Looking costs more than sending, so nobody looks in vain.
            if self.connection.is_open() {
                match self.reader.look() {
                    Ok(look) if look.jobs().is_empty() => {}
                    Ok(look) => self.connection.send(&Message::Look(Box::new(look))),
                    Err(why) => self.connection.note(&format!("{why:#}")),
                }
            }
            let cost = thread_cpu().saturating_sub(before);
            due = Instant::now() + cost.div_f64(MOST_SHARE).max(interval).min(LONGEST);
        }
    }
}

/// The CPU time of this thread.
fn thread_cpu() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the place for the result is valid.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec.try_into().unwrap_or_default(), time.tv_nsec.try_into().unwrap_or_default())
}

/// A connection that is made again when it breaks.
struct Connection {
    target: Target,
    stream: Option<TcpStream>,
    pause: Duration,
    /// No try before that.
    next: Instant,
    notes: Vec<String>,
}

impl Connection {
    /// Connects, if that is to be tried now; returns whether there is a connection.
    fn is_open(&mut self) -> bool {
        if self.stream.is_none() && Instant::now() >= self.next {
            match connect(&self.target) {
                Ok(stream) => self.stream = Some(stream),
                Err(why) => self.fail(&why),
            }
        }
        self.stream.is_some()
    }

    fn send(&mut self, message: &Message) {
        if !self.is_open() {
            return;
        }
        let Some(stream) = &mut self.stream else { return };
        match message.line().and_then(|line| write(stream, &line)) {
            Ok(()) => self.pause = PAUSES[0],
            Err(why) => self.fail(&why),
        }
    }

    fn fail(&mut self, why: &anyhow::Error) {
        self.stream = None;
        self.next = Instant::now() + self.pause;
        self.pause = (self.pause * 2).min(PAUSES[1]);
        self.note(&format!("{} did not take what was sent: {why:#}", self.target.to));
    }

    fn note(&mut self, what: &str) {
        const MOST_NOTES: usize = 5;
        if self.notes.len() < MOST_NOTES && !self.notes.iter().any(|note| note == what) {
            self.notes.push(what.to_owned());
        }
    }

    /// Ends the request, and waits for the answer.
    fn close(&mut self) {
        let Some(mut stream) = self.stream.take() else { return };
        let ended = stream
            .write_all(b"0\r\n\r\n")
            .and_then(|()| stream.set_read_timeout(Some(Duration::from_secs(1))));
        if let Err(why) = ended.map_err(anyhow::Error::from).and_then(|()| answer(&mut stream, true)) {
            self.fail(&why);
        }
    }
}

/// A connection on which the head of the request is sent.
fn connect(target: &Target) -> Result<TcpStream> {
    let addresses = target.to.to_socket_addrs().context("its address is not known")?;
    let mut failed = None;
    for address in addresses {
        match TcpStream::connect_timeout(&address, PATIENCE) {
            Ok(mut stream) => {
                stream.set_write_timeout(Some(PATIENCE))?;
                stream.set_nodelay(true)?;
                let Target { to, token } = target;
                write!(
                    stream,
                    "POST /agent HTTP/1.1\r\nHost: {to}\r\nAuthorization: Bearer {token}\r\n\
                     Content-Type: application/jsonl\r\nTransfer-Encoding: chunked\r\n\r\n"
                )?;
                return Ok(stream);
            }
            Err(error) => failed = Some(error),
        }
    }
    Err(failed.map_or_else(|| anyhow::anyhow!("its address is not known"), anyhow::Error::from))
}

/// One part of the body. A server that has answered already takes no more.
fn write(stream: &mut TcpStream, line: &[u8]) -> Result<()> {
    stream.set_nonblocking(true)?;
    let early = answer(stream, false);
    stream.set_nonblocking(false)?;
    early?;
    let mut part = format!("{:x}\r\n", line.len()).into_bytes();
    part.extend_from_slice(line);
    part.extend_from_slice(b"\r\n");
    let begin = Instant::now();
    let mut rest = part.as_slice();
    while !rest.is_empty() {
        // One that takes a byte now and then is as good as none.
        if begin.elapsed() > 2 * PATIENCE {
            bail!("it is too slow");
        }
        match stream.write(rest) {
            Ok(0) => bail!("the connection is closed"),
            Ok(written) => rest = &rest[written..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                bail!("it is too slow")
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Reads the answer, if there is one: fails with what it says, unless it is that all is well, which
/// comes `at_end` alone.
fn answer(stream: &mut TcpStream, at_end: bool) -> Result<()> {
    let mut text = [0; 1024];
    match stream.read(&mut text) {
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) && !at_end => {
            Ok(())
        }
        Err(error) => Err(error.into()),
        Ok(0) => bail!("it closed the connection"),
        Ok(length) => {
            let text = String::from_utf8_lossy(&text[..length]).into_owned();
            let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
            let status = head.lines().next().unwrap_or_default().trim_start_matches("HTTP/1.1 ");
            if at_end && status.starts_with("200") {
                return Ok(());
            }
            bail!("it answers '{status}': {}", body.trim())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_has_an_address_and_a_token() {
        let token = || Some("0123456789abcdef".to_owned());
        assert!(Target::new("login:8080", token()).is_ok() && Target::new("[::1]:8080", token()).is_ok());
        let said = |to: &str, token: Option<String>| Target::new(to, token).unwrap_err().to_string();
        assert!(said("login:8080", None).starts_with("there is no MPISEE_TOKEN in the environment"));
        for wrong in ["short", "0123456789abcde/", "0123456789abcdef\r\nHost: x"] {
            assert!(
                said("login:8080", Some(wrong.to_owned())).starts_with("MPISEE_TOKEN is no token"),
                "{wrong}"
            );
        }
        for wrong in ["login", "login:", ":80", "login:http"] {
            assert!(said(wrong, token()).contains("is no HOST:PORT"), "{wrong}");
        }
    }

    #[test]
    fn a_server_that_refuses_says_why() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap().to_string();
        let target = Target::new(&to, Some("0123456789abcdef".to_owned())).unwrap();
        let mut connection =
            Connection { target, stream: None, pause: PAUSES[0], next: Instant::now(), notes: Vec::new() };
        assert!(connection.is_open());
        let (mut server, _) = listener.accept().unwrap();
        server.write_all(b"HTTP/1.1 403 Forbidden\r\n\r\nanother token\n").unwrap();
        drop(server);
        let ended = Ended { host: "n1".to_owned(), job: 7, totals: Vec::new() };
        let begin = Instant::now();
        while connection.notes.is_empty() && begin.elapsed() < Duration::from_secs(5) {
            connection.send(&Message::Ended(ended.clone()));
        }
        let expected = format!("{to} did not take what was sent: it answers '403 Forbidden': another token");
        assert_eq!(connection.notes, [expected]);
        assert!(connection.stream.is_none() && !connection.is_open(), "there is a pause before the next try");
    }

    #[test]
    fn a_server_that_reads_nothing_is_given_up() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap().to_string();
        let mut stream = connect(&Target { to, token: "0123456789abcdef".to_owned() }).unwrap();
        stream.set_write_timeout(Some(Duration::from_millis(100))).unwrap();
        let error = write(&mut stream, &vec![b'x'; 64 << 20]).unwrap_err().to_string();
        assert_eq!(error, "it is too slow");
    }
}

//! Connections and requests: bounded in number, size and time, and each with the token.

use crate::agents::Agents;
use crate::answers::{self, Answer, file, json, report, text};
use crate::jobs::Jobs;
use crate::pages::Pages;
use crate::profiles::Profiles;
use crate::store::Store;
use crate::token::Token;
use anyhow::{Context, Result};
use hyper::body::Incoming;
use hyper::header::AUTHORIZATION;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use mpisee_through::library::raise_descriptor_limit;
use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::net::TcpListener;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

/// Connections at one time, agents included. For a further one the oldest that has not shown the
/// token is closed, if there is one, else itself.
const MOST_CONNECTIONS: usize = 2048;
/// Descriptors for everything else.
const OTHER_DESCRIPTORS: usize = 64;
/// The head of a request has to come within that time, also the next one on a connection.
const HEAD_TIME: Duration = Duration::from_secs(10);
const MOST_HEAD_BYTES: usize = 16 << 10;
/// A connection takes no further request after that time, and is closed after a while, answered or
/// not.
const LIFE: [Duration; 2] = [Duration::from_secs(60), Duration::from_secs(240)];
/// Threads that read files, make reports and parse what agents send.
const MOST_THREADS: usize = 8;
/// Rows of the history in an answer.
const PAGE_ROWS: u32 = 100;

const PAGE: &str = include_str!("../page/page.html");
/// Built by `report/build.mjs`, as is the style.
const SCRIPT: &str = include_str!("../page/bundle.js");
const STYLE: &str = include_str!("../page/bundle.css");

/// Everything that is served.
pub struct Server {
    token: Token,
    profiles: Profiles,
    pages: Pages,
    store: Arc<Store>,
    jobs: Arc<Jobs>,
    agents: Agents,
}

impl Server {
    /// Of these.
    pub fn new(token: Token, profiles: Profiles, store: Arc<Store>, jobs: Arc<Jobs>) -> Server {
        let (pages, agents) = (Pages::default(), Agents::default());
        Server { token, profiles, pages, store, jobs, agents }
    }

    /// Answers for ever.
    pub fn run(self: Arc<Self>, listener: TcpListener) -> Result<()> {
        let most = MOST_CONNECTIONS.min(raise_descriptor_limit().saturating_sub(OTHER_DESCRIPTORS).max(1));
        listener.set_nonblocking(true).context("cannot listen")?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .max_blocking_threads(MOST_THREADS)
            .build()
            .context("cannot start the server")?;
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener).context("cannot listen")?;
            let mut guests = Guests { most, ..Guests::default() };
            loop {
                let Ok((stream, _)) = listener.accept().await else {
                    // Such as for want of descriptors.
                    sleep(Duration::from_millis(100)).await;
                    continue;
                };
                if let Some(guest) = guests.welcome() {
                    tokio::spawn(connection(Arc::clone(&self), stream, guest));
                }
            }
        })
    }

    async fn answer(self: Arc<Self>, request: Request<Incoming>, guest: &Guest) -> Answer {
        if request.uri().path() == "/agent" {
            return self.agent(request, guest).await;
        }
        // `/TOKEN/…`
        let path = request.uri().path().to_owned();
        // Requests without a path, such as CONNECT, have no token either.
        let whole = path.strip_prefix('/').unwrap_or_default();
        let (token, below) = match whole.split_once('/') {
            Some((token, below)) => (token, Some(below)),
            None => (whole, None),
        };
        if !self.token.is(token) {
            return text(
                StatusCode::FORBIDDEN,
                "The token in the address is missing or wrong; mpisee-through serve printed it.\n",
            );
        }
        guest.is_known.store(true, Ordering::Relaxed);
        let Some(below) = below else { return answers::with_slash(&path) };
        if request.method() != Method::GET && request.method() != Method::HEAD {
            return text(StatusCode::METHOD_NOT_ALLOWED, "Only GET is answered.\n");
        }
        let asked = Asked::from_path(below, request.uri().query().unwrap_or_default());
        let server = Arc::clone(&self);
        match asked {
            Asked::File(kind, text) => file(kind, text),
            Asked::Jobs => json(self.jobs.list()),
            Asked::Nothing => text(StatusCode::NOT_FOUND, "There is nothing of that name.\n"),
            asked => {
                let made = tokio::task::spawn_blocking(move || server.made(&asked));
                made.await
                    .unwrap_or_else(|_| text(StatusCode::INTERNAL_SERVER_ERROR, "That cannot be shown.\n"))
            }
        }
    }

    /// The answer that takes a while to make.
    fn made(&self, asked: &Asked) -> Answer {
        let made = match asked {
            Asked::Profiles => {
                serde_json::to_vec(&self.profiles.list()).map(json).map_err(anyhow::Error::from)
            }
            Asked::Report(names) => self.report(names).map(report),
            Asked::History(from) => self.history(*from).map(json),
            Asked::Job(key) => match self.jobs.page(key) {
                Some(page) => Ok(json(page)),
                // One that is not known is no error: it may have been long ago.
                None => {
                    self.store.detail(key).map(|detail| json(detail.unwrap_or_else(|| "null".to_owned())))
                }
            },
            Asked::File(..) | Asked::Jobs | Asked::Nothing => return text(StatusCode::NOT_FOUND, ""),
        };
        made.unwrap_or_else(|why| {
            let said = mpisee_through::library::printable(&format!("{why:#}"));
            text(StatusCode::UNPROCESSABLE_ENTITY, &format!("{said}\n"))
        })
    }

    fn report(&self, names: &[String]) -> Result<hyper::body::Bytes> {
        let paths: Vec<PathBuf> = names.iter().map(|name| self.profiles.path(name)).collect::<Result<_>>()?;
        self.pages.report(&paths)
    }

    fn history(&self, from: u32) -> Result<Vec<u8>> {
        let (count, jobs) = self.store.page(from, PAGE_ROWS)?;
        Ok(serde_json::to_vec(&serde_json::json!({ "count": count, "from": from, "jobs": jobs }))?)
    }

    async fn agent(&self, request: Request<Incoming>, guest: &Guest) -> Answer {
        let given = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let given = given.and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default();
        if !self.token.is(given) {
            return text(StatusCode::FORBIDDEN, "MPISEE_TOKEN is not the token of this server\n");
        }
        guest.is_known.store(true, Ordering::Relaxed);
        if request.method() != Method::POST {
            return text(StatusCode::METHOD_NOT_ALLOWED, "agents use POST\n");
        }
        guest.is_agent.store(true, Ordering::Relaxed);
        self.agents.receive(request.into_body(), &self.jobs).await
    }
}

/// A connection.
#[derive(Default)]
struct Guest {
    /// True once it has shown the token.
    is_known: AtomicBool,
    is_agent: AtomicBool,
    /// Its place is needed.
    leave: Notify,
}

/// Connections that are open.
#[derive(Default)]
struct Guests {
    most: usize,
    /// In the order in which they came, as far as they have not been seen to be gone or known.
    strangers: VecDeque<Weak<Guest>>,
    known: Vec<Weak<Guest>>,
}

impl Guests {
    /// A place for one more, if there is one: strangers make room.
    fn welcome(&mut self) -> Option<Arc<Guest>> {
        if self.strangers.len() + self.known.len() >= self.most {
            self.look_again();
        }
        if self.strangers.len() + self.known.len() >= self.most {
            self.strangers.pop_front()?.upgrade()?.leave.notify_one();
        }
        let guest = Arc::new(Guest::default());
        self.strangers.push_back(Arc::downgrade(&guest));
        Some(guest)
    }

    /// Forgets those that are gone, and sorts out who is known by now.
    fn look_again(&mut self) {
        self.known.retain(|guest| guest.strong_count() > 0);
        let strangers = std::mem::take(&mut self.strangers);
        for (weak, guest) in strangers.into_iter().filter_map(|weak| Some((weak.clone(), weak.upgrade()?))) {
            if guest.is_known.load(Ordering::Relaxed) {
                self.known.push(weak);
            } else {
                self.strangers.push_back(weak);
            }
        }
    }
}

/// The subject of a request.
enum Asked {
    File(&'static str, &'static str),
    Profiles,
    Report(Vec<String>),
    Jobs,
    Job(String),
    History(u32),
    Nothing,
}

impl Asked {
    fn from_path(path: &str, query: &str) -> Asked {
        let mut given: HashMap<String, String> =
            form_urlencoded::parse(query.as_bytes()).into_owned().collect();
        let mut word = |name: &str| given.remove(name).unwrap_or_default();
        match path {
            "" => Asked::File("text/html; charset=utf-8", PAGE),
            "bundle.js" => Asked::File("text/javascript; charset=utf-8", SCRIPT),
            "bundle.css" => Asked::File("text/css; charset=utf-8", STYLE),
            "profiles" => Asked::Profiles,
            "report" => Asked::Report(vec![word("of")]),
            "compare" => Asked::Report(vec![word("before"), word("after")]),
            "jobs" => Asked::Jobs,
            "job" => Asked::Job(word("key")),
            "history" => Asked::History(word("from").parse().unwrap_or_default()),
            _ => Asked::Nothing,
        }
    }
}

/// One connection, until it ends, its time is over, or another one needs its place.
async fn connection(server: Arc<Server>, stream: TcpStream, guest: Arc<Guest>) {
    let service = service_fn(|request| {
        let (server, guest) = (Arc::clone(&server), Arc::clone(&guest));
        async move { Ok::<_, Infallible>(server.answer(request, &guest).await) }
    });
    let mut connection = pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIME)
            .max_buf_size(MOST_HEAD_BYTES)
            .serve_connection(TokioIo::new(stream), service)
    );
    let [life, grace] = LIFE;
    tokio::select! {
        // Errors are those of clients that leave.
        ended = timeout(life, connection.as_mut()) => if ended.is_ok() { return },
        () = guest.leave.notified() => return,
    }
    if guest.is_agent.load(Ordering::Relaxed) {
        let _ = connection.await;
    } else {
        connection.as_mut().graceful_shutdown();
        let _ = timeout(grace, connection).await;
    }
}

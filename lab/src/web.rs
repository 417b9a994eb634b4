//! The page of a running system, and its metrics, over HTTP.
//!
//! The page shows the capability graph with the traffic on its edges, latencies of each tenant, and what has happened; `/events` sends it the
//! news. `/metrics` is for Prometheus. Whoever reaches the address can watch; a change needs the token of the address that was printed.
//! Left out: encryption, and more than one system.

mod feed;
mod page;

use crate::live::Live;
use crate::live::acts::Order;
use crate::live::metrics;
use anyhow::{Context as _, Result};
use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::header::{
    ACCEPT, AUTHORIZATION, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderMap, HeaderName,
    REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{Response, StatusCode};
use axum::response::IntoResponse;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::routing::{get, post};
use feed::{Feed, Seen};
use futures_util::stream::{self, Stream};
use std::convert::Infallible;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tokio::runtime::Builder;
use xtask::project::Project;

/// The page's policy: it loads its own script and style, and the news.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; \
                      form-action 'none'; frame-ancestors 'none'";
const HTML: &str = "text/html; charset=utf-8";
const PLAIN: &str = "text/plain; charset=utf-8";
/// Bytes of a token.
const TOKEN_BYTES: usize = 16;
/// Time between two looks for a system that starts.
const TRY: Duration = Duration::from_millis(100);
/// Time that readers get to hear of the end.
const LAST_NEWS: Duration = Duration::from_secs(2);

/// A page that is served.
pub(crate) struct Web {
    address: SocketAddr,
    token: String,
    feed: Arc<Feed>,
    server: JoinHandle<()>,
}

/// The sources of the answers.
struct Shared {
    feed: Arc<Feed>,
    token: String,
}

/// Binds the address of a page.
///
/// # Errors
/// An address that is taken, or that this machine does not have.
pub(crate) fn bind(address: SocketAddr) -> Result<TcpListener> {
    TcpListener::bind(address).map_err(|error| {
        let mend = match error.kind() {
            ErrorKind::AddrInUse => format!("{address} is taken by another program"),
            ErrorKind::AddrNotAvailable => format!("this machine does not have the address {}", address.ip()),
            ErrorKind::PermissionDenied => format!("the port {} is the system's", address.port()),
            _ => return anyhow::Error::new(error).context(format!("cannot listen at {address}")),
        };
        anyhow::anyhow!("{mend}: name another one, as in --listen 127.0.0.1:0 for any port that is free")
    })
}

impl Web {
    /// Serves a page at this address.
    ///
    /// # Errors
    /// The machine gives no random bytes, or no thread.
    pub(crate) fn open(listener: TcpListener) -> Result<Self> {
        let address = listener.local_addr().context("the address has no name")?;
        let (feed, token) = (Arc::new(Feed::new()), token()?);
        let shared = Arc::new(Shared { feed: Arc::clone(&feed), token: token.clone() });
        listener.set_nonblocking(true).context("cannot serve the page")?;
        let runtime = Builder::new_current_thread().enable_all().build().context("cannot serve the page")?;
        let served = thread::Builder::new().name("web".into()).spawn(move || {
            // It ends with the feed; connections that break are their readers' affair.
            let _ = runtime.block_on(serve(listener, shared));
        });
        Ok(Self { address, token, feed, server: served.context("a thread cannot be started")? })
    }

    /// The address for a browser, with the token.
    pub(crate) fn url(&self) -> String {
        format!("http://{}/#token={}", self.address, self.token)
    }

    /// Shows a running system until its run is over. Returns the sentence about that.
    pub(crate) fn watch(&self, live: Live) -> String {
        self.feed.watch(live)
    }

    /// Shows the run of this process, as soon as it goes on, in a thread of its own.
    pub(crate) fn watch_ours(&self, project: &Project) {
        let (feed, project) = (Arc::clone(&self.feed), Project::at(project.root()));
        thread::spawn(move || {
            while !feed.is_over() {
                match Live::ours(&project) {
                    Ok(Some(live)) => {
                        feed.watch(live);
                    }
                    // Its memory may not be there yet.
                    Ok(None) | Err(_) => thread::sleep(TRY),
                }
            }
        });
    }

    /// Ends the page, after its readers have heard that the run is over.
    pub(crate) fn finish(self) {
        self.feed.end("the run is over");
        let since = Instant::now();
        while !self.server.is_finished() && since.elapsed() < LAST_NEWS {
            thread::sleep(Duration::from_millis(10));
        }
    }
}

fn token() -> Result<String> {
    let mut bytes = [0; TOKEN_BYTES];
    let filled = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    anyhow::ensure!(filled.is_ok_and(|count| count == TOKEN_BYTES), "this machine gives no random bytes");
    Ok(xtask::records::results::hex(&bytes))
}

async fn serve(listener: TcpListener, shared: Arc<Shared>) -> std::io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let (feed, mut news) = (Arc::clone(&shared.feed), shared.feed.subscribe());
    let over = async move { while !feed.is_over() && news.changed().await.is_ok() {} };
    axum::serve(listener, router(shared)).with_graceful_shutdown(over).await
}

fn router(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/", get(index))
        .route("/live.js", get(|| async { answer(StatusCode::OK, "text/javascript; charset=utf-8", page::SCRIPT) }))
        .route("/live.css", get(|| async { answer(StatusCode::OK, "text/css; charset=utf-8", page::style()) }))
        .route("/events", get(events))
        .route("/metrics", get(metrics_text))
        .route("/act", post(act))
        .with_state(shared)
}

/// An answer, with the headers that all have.
fn answer(status: StatusCode, kind: &str, body: impl Into<Body>) -> Response<Body> {
    let headers: [(HeaderName, &str); 5] = [
        (CONTENT_TYPE, kind),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (CACHE_CONTROL, "no-store"),
    ];
    (status, headers, body.into()).into_response()
}

async fn index(State(shared): State<Arc<Shared>>) -> Response<Body> {
    answer(StatusCode::OK, HTML, page::html(shared.feed.system().as_ref()))
}

async fn events(State(shared): State<Arc<Shared>>) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let feed = Arc::clone(&shared.feed);
    let reader = (feed.subscribe(), Seen::default(), feed);
    let stream = stream::unfold(reader, async |(mut news, mut seen, feed)| {
        loop {
            // Marked before it is taken, so that nothing that comes meanwhile is missed.
            news.mark_unchanged();
            if let Some(text) = feed.news(&mut seen) {
                return Some((Ok(Event::default().data(text)), (news, seen, feed)));
            }
            if feed.is_over() {
                return None;
            }
            news.changed().await.ok()?;
        }
    });
    Sse::new(stream).keep_alive(KeepAlive::default())
}

async fn metrics_text(State(shared): State<Arc<Shared>>, headers: HeaderMap) -> Response<Body> {
    let Some(system) = shared.feed.system() else {
        return answer(StatusCode::SERVICE_UNAVAILABLE, PLAIN, "the system has not started: ask again in a second\n");
    };
    let accepts = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    match metrics::text(&system.sample) {
        Ok(text) if metrics::is_classic(accepts) => answer(StatusCode::OK, metrics::CLASSIC, metrics::classic(&text)),
        Ok(text) => answer(StatusCode::OK, metrics::OPEN_METRICS, text),
        Err(error) => answer(StatusCode::INTERNAL_SERVER_ERROR, PLAIN, format!("{error}\n")),
    }
}

/// Carries out a change.
async fn act(State(shared): State<Arc<Shared>>, headers: HeaderMap, body: String) -> Response<Body> {
    let refuse = |status, sentence: &str| answer(status, PLAIN, format!("{sentence}\n"));
    let given = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
    if given != Some(shared.token.as_str()) {
        let sentence = "the token is missing or wrong: open the address that the command printed, with its token";
        return refuse(StatusCode::FORBIDDEN, sentence);
    }
    let Some(acts) = shared.feed.system().and_then(|system| system.acts) else {
        let sentence = "this run has no control component: give its scenario [control] with `acts`, and run it again";
        return refuse(StatusCode::CONFLICT, sentence);
    };
    let order: Order = match serde_json::from_str(&body) {
        Ok(order) => order,
        Err(error) => return refuse(StatusCode::BAD_REQUEST, &format!("this is no order: {error}")),
    };
    // The system may take its time; readers get their news meanwhile.
    match tokio::task::spawn_blocking(move || acts.act(&order)).await {
        Ok(Ok(done)) => answer(StatusCode::OK, PLAIN, format!("{done}\n")),
        Ok(Err(error)) => refuse(StatusCode::UNPROCESSABLE_ENTITY, &format!("{error:#}")),
        Err(_) => {
            refuse(StatusCode::INTERNAL_SERVER_ERROR, "the control component cannot be asked: run the scenario again")
        }
    }
}

#[cfg(test)]
mod tests;

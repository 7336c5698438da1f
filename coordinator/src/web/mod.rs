//! The read-only web page and the metrics, served by the binary itself.
//!
//! Architecture invariant: nothing here changes anything, and no page asks another host for
//! anything.

mod events;
mod metrics;
mod state;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;

use crate::grpc::Limits;
use crate::incoming::{Allowed, Door, Patience};
use crate::service::Shared;

/// Shortest time between two states sent to a page.
const PAUSE: Duration = Duration::from_millis(500);

#[derive(Clone)]
struct Web {
    shared: Arc<Shared>,
    live: Arc<Semaphore>,
    stop: watch::Receiver<bool>,
}

/// Serves the page until `stop` is set.
///
/// # Errors
/// When the listener fails for good.
pub async fn serve(
    listener: TcpListener,
    shared: Arc<Shared>,
    limits: Limits,
    mut stop: watch::Receiver<bool>,
) -> std::io::Result<()> {
    let places = Arc::new(Semaphore::new(limits.live_pages_max));
    let web = Web { shared, live: places, stop: stop.clone() };
    let allowed = Allowed {
        connections_max: limits.web_connections_max,
        per_address_max: limits.web_connections_max,
        patience: Patience::Answered(limits.web_patience),
    };
    let routes = Router::new()
        .route("/", get(page))
        .route("/jobs", get(page))
        .route("/fairness", get(page))
        .route("/cluster", get(page))
        .route("/events", get(page))
        .route("/job/{id}", get(page))
        .route("/page.css", get(|| async { asset("text/css", include_str!("page.css")) }))
        .route("/draw.js", get(|| async { asset("text/javascript", include_str!("draw.js")) }))
        .route("/page.js", get(|| async { asset("text/javascript", include_str!("page.js")) }))
        .route("/icon.svg", get(|| async { asset("image/svg+xml", include_str!("icon.svg")) }))
        .route("/favicon.ico", get(|| async { asset("image/svg+xml", include_str!("icon.svg")) }))
        .route("/api/events", get(events_now))
        .route("/api/state", get(state_now))
        .route("/api/live", get(live))
        .route("/api/job/{id}", get(job_now))
        .route("/metrics", get(metrics_now))
        .layer(middleware::from_fn(guard))
        .with_state(web);
    let stopped = async move {
        let _ = stop.wait_for(|stop| *stop).await;
    };
    axum::serve(Door::new(listener, allowed), routes).with_graceful_shutdown(stopped).await
}

/// Another site's page must not read this one through a name that it makes point here, and this
/// page asks nobody else for anything.
async fn guard(request: Request, next: Next) -> Response {
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    let name = host.map(|host| host.rsplit_once(':').map_or(host, |(name, _)| name));
    if !matches!(name, Some("localhost" | "127.0.0.1" | "[::1]")) {
        let sentence = "this page is served to localhost only";
        return (StatusCode::FORBIDDEN, sentence).into_response();
    }
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    // Styles are set on elements (the width of a bar); scripts are files of this page alone.
    let policy = "default-src 'self'; style-src 'self' 'unsafe-inline'; frame-ancestors 'none'; \
                  base-uri 'none'; form-action 'none'";
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, policy),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
    ] {
        headers.insert(name, header::HeaderValue::from_static(value));
    }
    response
}

async fn page() -> Html<&'static str> {
    Html(include_str!("page.html"))
}

fn asset(kind: &'static str, text: &'static str) -> Response {
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}

async fn events_now(State(web): State<Web>) -> Response {
    match events::newest(&web.shared).await {
        Ok(text) => ([(header::CONTENT_TYPE, "application/json")], text).into_response(),
        Err(_) => unavailable(),
    }
}

fn unavailable() -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, "the coordinator is shutting down").into_response()
}

async fn state_now(State(web): State<Web>) -> Response {
    match state::state(&web.shared).await {
        Ok(text) => ([(header::CONTENT_TYPE, "application/json")], text).into_response(),
        Err(_) => unavailable(),
    }
}

async fn job_now(State(web): State<Web>, Path(id): Path<u64>) -> Response {
    match state::job(&web.shared, id).await {
        Ok(text) => ([(header::CONTENT_TYPE, "application/json")], text).into_response(),
        Err(status) if status.code() == tonic::Code::NotFound => {
            (StatusCode::NOT_FOUND, status.message().to_owned()).into_response()
        }
        Err(_) => unavailable(),
    }
}

async fn metrics_now(State(web): State<Web>) -> Response {
    match metrics::metrics(&web.shared).await {
        Ok(text) => ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response(),
        Err(_) => unavailable(),
    }
}

/// The state, and again whenever the log has grown.
async fn live(State(web): State<Web>) -> Response {
    let Ok(place) = Arc::clone(&web.live).try_acquire_owned() else {
        let sentence = "too many live pages are open";
        return (StatusCode::SERVICE_UNAVAILABLE, sentence).into_response();
    };
    let Ok(mut bell) = web.shared.handle.ask(|owner| Ok(owner.log_bell())).await else {
        return unavailable();
    };
    let (sender, receiver) = mpsc::channel::<Result<Event, Infallible>>(1);
    let mut stop = web.stop.clone();
    tokio::spawn(async move {
        let _place = place;
        loop {
            bell.borrow_and_update();
            let Ok(text) = state::state(&web.shared).await else { return };
            if sender.send(Ok(Event::default().data(text))).await.is_err() {
                return;
            }
            tokio::time::sleep(PAUSE).await;
            tokio::select! {
                changed = bell.changed() => if changed.is_err() { return },
                _ = stop.changed() => return,
                () = sender.closed() => return,
                // Clocks on the page go on although nothing happens.
                () = tokio::time::sleep(Duration::from_secs(5)) => {}
            }
        }
    });
    Sse::new(ReceiverStream::new(receiver)).keep_alive(KeepAlive::default()).into_response()
}

//! Connections: no more than so many at once, in all and from one address, and none that keeps its
//! place without using it.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio_stream::Stream;
use tonic::transport::server::{Connected, TcpConnectInfo};

/// What connections are allowed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allowed {
    /// At once.
    pub(crate) connections_max: usize,
    /// At once from one address.
    pub(crate) per_address_max: usize,
    /// What each must do to keep its place.
    pub(crate) patience: Patience,
}

/// What a connection must do to keep its place.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Patience {
    /// It begins to speak within this time. HTTP/2 asks for signs of life itself after that.
    Opening(Duration),
    /// Something is written to it at least so often: a head that only drips, a caller that asks
    /// nothing more and one that does not read its answer are the same.
    Answered(Duration),
}

/// Bytes with which every HTTP/2 connection begins; a TLS greeting is longer.
const OPENING_BYTES: usize = 24;
/// How often at most it is said that connections are refused.
const TELL_EVERY: Duration = Duration::from_secs(60);
/// Pause after the system has refused a connection (no more files): without it the loop would spin.
const PAUSE: Duration = Duration::from_millis(100);

/// Connections that may wait for being accepted; the system's own limit (`somaxconn`) is the same.
///
/// With the usual 128 a burst overflows the queue. The kernel then drops the last packet of a
/// greeting: the caller takes itself for connected, nobody here knows of it, and where the caller
/// says nothing it never learns.
const BACKLOG: u32 = 4096;

/// Listens.
///
/// # Errors
/// The system refuses: the address is in use, or not this machine's.
pub(crate) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // A port whose last connections are not forgotten yet can be listened on again.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Lets connections in.
pub(crate) struct Door {
    listener: TcpListener,
    allowed: Allowed,
    inside: Arc<Mutex<Inside>>,
    told_at: Option<Instant>,
}

/// Who is inside.
#[derive(Debug, Default)]
struct Inside {
    connections: usize,
    by_address: HashMap<IpAddr, usize>,
}

/// A connection's place; it is free again with this value.
#[derive(Debug)]
struct Place {
    inside: Arc<Mutex<Inside>>,
    address: IpAddr,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut inside = self.inside.lock().unwrap_or_else(PoisonError::into_inner);
        inside.connections -= 1;
        if let Some(count) = inside.by_address.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                inside.by_address.remove(&self.address);
            }
        }
    }
}

/// What counts as one address: of version 6 a whole network of 64 bits, which one host may have.
fn counted_as(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(it) => Ipv6Addr::from_bits(it.to_bits() & !u128::from(u64::MAX)).into(),
        v4 => v4,
    }
}

impl Door {
    pub(crate) fn new(listener: TcpListener, allowed: Allowed) -> Self {
        Self { listener, allowed, inside: Arc::default(), told_at: None }
    }

    /// The next connection that is allowed. Others are closed at once: whoever waits in the kernel's
    /// queue takes itself for connected, and hears nothing.
    async fn next(&mut self) -> (Limited, SocketAddr) {
        loop {
            let (stream, from) = match self.listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "a connection cannot be accepted");
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            };
            match self.enter(from.ip()) {
                Ok(place) => return (Limited::new(stream, self.allowed.patience, place), from),
                Err(why) => self.tell(from, why),
            }
        }
    }

    fn enter(&self, address: IpAddr) -> Result<Place, &'static str> {
        let address = counted_as(address);
        let mut inside = self.inside.lock().unwrap_or_else(PoisonError::into_inner);
        if inside.connections >= self.allowed.connections_max {
            return Err("as many as are allowed are open");
        }
        let count = inside.by_address.entry(address).or_default();
        if *count >= self.allowed.per_address_max {
            return Err("as many as are allowed from one address are open");
        }
        *count += 1;
        inside.connections += 1;
        drop(inside);
        Ok(Place { inside: Arc::clone(&self.inside), address })
    }

    fn tell(&mut self, from: SocketAddr, why: &str) {
        if self.told_at.is_none_or(|at| at.elapsed() >= TELL_EVERY) {
            self.told_at = Some(Instant::now());
            tracing::warn!(%from, "connections are refused: {why}");
        }
    }

    /// As a stream, for tonic; it ends with its receiver.
    pub(crate) fn stream(mut self) -> impl Stream<Item = io::Result<Limited>> {
        let (sender, receiver) = tokio::sync::mpsc::channel(1);
        tokio::spawn(async move {
            loop {
                let connection = tokio::select! {
                    (connection, _) = self.next() => connection,
                    () = sender.closed() => return,
                };
                if sender.send(Ok(connection)).await.is_err() {
                    return;
                }
            }
        });
        tokio_stream::wrappers::ReceiverStream::new(receiver)
    }
}

impl axum::serve::Listener for Door {
    type Io = Limited;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Limited, SocketAddr) {
        self.next().await
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// A connection that holds one of the places.
#[derive(Debug)]
pub(crate) struct Limited {
    stream: TcpStream,
    watch: Option<Watch>,
    _place: Place,
}

/// What is still expected of a connection.
#[derive(Debug)]
struct Watch {
    patience: Patience,
    deadline: Pin<Box<tokio::time::Sleep>>,
    read_bytes: usize,
}

impl Limited {
    fn new(stream: TcpStream, patience: Patience, place: Place) -> Self {
        let (Patience::Opening(time) | Patience::Answered(time)) = patience;
        let deadline = Box::pin(tokio::time::sleep(time));
        // Small answers that wait for the acknowledgement of the one before would take 40 ms.
        let _ = stream.set_nodelay(true);
        Self { stream, watch: Some(Watch { patience, deadline, read_bytes: 0 }), _place: place }
    }

    fn has_read(&mut self, bytes: usize) {
        let Some(watch) = &mut self.watch else { return };
        watch.read_bytes += bytes;
        if matches!(watch.patience, Patience::Opening(_)) && watch.read_bytes >= OPENING_BYTES {
            self.watch = None;
        }
    }

    fn has_written(&mut self) {
        if let Some(Watch { patience: Patience::Answered(time), deadline, .. }) = &mut self.watch {
            deadline.as_mut().reset(tokio::time::Instant::now() + *time);
        }
    }

    /// An error where patience is over.
    fn check(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        let Some(watch) = &mut self.watch else { return Ok(()) };
        if watch.deadline.as_mut().poll(context).is_pending() {
            return Ok(());
        }
        Err(io::Error::new(io::ErrorKind::TimedOut, "the connection does not use its place"))
    }
}

impl Connected for Limited {
    type ConnectInfo = TcpConnectInfo;

    fn connect_info(&self) -> TcpConnectInfo {
        self.stream.connect_info()
    }
}

impl AsyncRead for Limited {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.has_read(buffer.filled().len() - before);
        self.check(context)?;
        read
    }
}

impl AsyncWrite for Limited {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, data);
        match written {
            Poll::Ready(Ok(_)) => self.has_written(),
            Poll::Ready(Err(_)) => {}
            Poll::Pending => self.check(context)?,
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_of_version_six_is_one_address() {
        let same = |one: &str, two: &str| {
            let address = |text: &str| text.parse().map(counted_as);
            address(one).is_ok() && address(one) == address(two)
        };
        assert!(same("2001:db8::1", "2001:db8::ffff:1"));
        assert!(!same("2001:db8::1", "2001:db8:0:1::1"));
        assert!(same("::ffff:10.0.0.1", "10.0.0.1") && !same("10.0.0.1", "10.0.0.2"));
    }
}

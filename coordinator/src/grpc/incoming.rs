//! Connections, no more than so many at once, and none that does not begin to speak.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_stream::Stream;
use tonic::transport::server::{Connected, TcpConnectInfo};

/// A connection that holds one of the places.
pub(super) struct Limited {
    stream: TcpStream,
    opening: Option<Opening>,
    _place: OwnedSemaphorePermit,
}

/// The first bytes: whoever connects and says nothing must not hold a place for good.
struct Opening {
    deadline: Pin<Box<tokio::time::Sleep>>,
    bytes: usize,
}

/// Bytes with which every HTTP/2 connection begins; a TLS greeting is longer.
const OPENING_BYTES: usize = 24;

/// Accepts connections; while every place is taken, new ones wait in the kernel's queue.
pub(super) fn limited(
    listener: TcpListener,
    connections_max: usize,
    opening: Duration,
) -> impl Stream<Item = io::Result<Limited>> {
    let places = Arc::new(Semaphore::new(connections_max));
    let (sender, receiver) = tokio::sync::mpsc::channel(1);
    tokio::spawn(async move {
        while let Ok(place) = Arc::clone(&places).acquire_owned().await {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = sender.closed() => return,
            };
            let connection = accepted.map(|(stream, _)| {
                let deadline = Box::pin(tokio::time::sleep(opening));
                Limited { stream, opening: Some(Opening { deadline, bytes: 0 }), _place: place }
            });
            // Out of file descriptors: without a pause this loop would spin.
            if connection.is_err() {
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            }
            if sender.send(connection).await.is_err() {
                return;
            }
        }
    });
    tokio_stream::wrappers::ReceiverStream::new(receiver)
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
        let Some(opening) = &mut self.opening else { return read };
        opening.bytes += buffer.filled().len() - before;
        if opening.bytes >= OPENING_BYTES {
            self.opening = None;
        } else if opening.deadline.as_mut().poll(context).is_ready() {
            let silent = "the connection does not begin to speak";
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, silent)));
        }
        read
    }
}

impl AsyncWrite for Limited {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, data)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

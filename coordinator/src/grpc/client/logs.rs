//! `Client.Logs`: what a job printed, and goes on printing.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use shockwave_proto::v1::{LogChunk, LogsRequest};
use tokio::sync::mpsc;
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use crate::files::open_foreign;
use crate::grpc::auth::Caller;
use crate::runner::log::rotated;
use crate::service::Shared;
use crate::service::owner::Owner;

/// Bytes in one message.
const CHUNK_BYTES: usize = 64 << 10;
/// How often a followed log is looked at.
const LOOK: Duration = Duration::from_millis(100);

pub(super) async fn logs(
    shared: &Arc<Shared>,
    caller: Caller,
    request: LogsRequest,
) -> Result<impl Stream<Item = Result<LogChunk, Status>> + use<>, Status> {
    let id = request.job_id;
    let ask = move |owner: &mut Owner| {
        super::own_job(owner, &caller, id).map(|job| job.started_unix_s.is_some())
    };
    let has_started = shared.handle.ask(ask).await?;
    let path = shared.jobs_dir.join(id.to_string()).join("log");
    // An agent makes the job's folder before it says that the job runs.
    if has_started && !path.parent().is_some_and(Path::exists) {
        return Err(Status::failed_precondition(format!(
            "job {id} has run, but {} is not there: the agents' --jobs must be the same shared \
             folder as --jobs of `shockwave serve`",
            path.display()
        )));
    }
    let (sender, receiver) = mpsc::channel(4);
    let shared = Arc::clone(shared);
    tokio::spawn(async move {
        let place = request.from_place;
        let begun = tokio::task::spawn_blocking(move || match place.as_str() {
            "" => Tail::new(path, request.tail_bytes),
            place => Tail::after(path, place),
        });
        let Ok(mut tail) = begun.await else { return };
        loop {
            // Asked before the reading: what was printed before the end is read after it.
            let over = !request.follow || is_over(&shared, id).await;
            loop {
                let read = tokio::task::spawn_blocking(move || {
                    let chunk = tail.read();
                    (tail, chunk)
                });
                let Ok((back, chunk)) = read.await else { return };
                tail = back;
                let chunk = match chunk {
                    Ok(chunk) if chunk.is_empty() => break,
                    Ok(data) => Ok(LogChunk { data, place: tail.place() }),
                    Err(error) => Err(Status::internal(format!("the log: {error}"))),
                };
                let failed = chunk.is_err();
                if sender.send(chunk).await.is_err() || failed {
                    return;
                }
            }
            if over {
                return;
            }
            tokio::select! {
                () = tokio::time::sleep(LOOK) => {}
                () = sender.closed() => return,
            }
        }
    });
    Ok(ReceiverStream::new(receiver))
}

/// Whether nothing more can be printed.
async fn is_over(shared: &Shared, id: u64) -> bool {
    let ask = move |owner: &mut Owner| {
        let book = &owner.state.book;
        let runs = book.leases.range((id, 0)..=(id, u64::MAX)).next().is_some();
        Ok(!runs && super::job(owner, id)?.end.is_some())
    };
    shared.handle.ask(ask).await.unwrap_or(true)
}

/// Reads a log that is rotated meanwhile, each byte that is still there once.
#[derive(Debug)]
struct Tail {
    path: PathBuf,
    /// The file being read.
    open: Option<File>,
}

impl Tail {
    /// From the beginning, or (above 0) that many bytes before the end.
    fn new(path: PathBuf, tail_bytes: u64) -> Self {
        let newest = open_foreign(&path).ok();
        let older = open_foreign(&rotated(&path)).ok();
        let size = |file: &Option<File>| {
            file.as_ref().and_then(|file| file.metadata().ok()).map_or(0, |meta| meta.len())
        };
        let (newest_bytes, older_bytes) = (size(&newest), size(&older));
        let total_bytes = newest_bytes + older_bytes;
        let skip_bytes = if tail_bytes == 0 { 0 } else { total_bytes.saturating_sub(tail_bytes) };
        let (mut open, skip_bytes) = match skip_bytes.checked_sub(older_bytes) {
            None => (older, skip_bytes),
            Some(skip_bytes) => (newest, skip_bytes),
        };
        if let Some(file) = &mut open {
            let _ = file.seek(SeekFrom::Start(skip_bytes));
        }
        Self { path, open }
    }

    /// From where another reader has stopped; from the beginning where that is gone.
    fn after(path: PathBuf, place: &str) -> Self {
        let parsed =
            place.split_once('.').map(|(inode, at)| (inode.parse::<u64>(), at.parse::<u64>()));
        let Some((Ok(inode), Ok(at_bytes))) = parsed else { return Self::new(path, 0) };
        // The newest first: it may become the older one between the two looks.
        for file in [path.clone(), rotated(&path)] {
            let Ok(mut file) = open_foreign(&file) else { continue };
            let same = file.metadata().is_ok_and(|it| it.ino() == inode && it.len() >= at_bytes);
            if same && file.seek(SeekFrom::Start(at_bytes)).is_ok() {
                return Self { path, open: Some(file) };
            }
        }
        Self::new(path, 0)
    }

    /// Where it stands.
    fn place(&mut self) -> String {
        let Some(file) = &mut self.open else { return String::new() };
        match (file.metadata(), file.stream_position()) {
            (Ok(it), Ok(at_bytes)) => format!("{}.{at_bytes}", it.ino()),
            _ => String::new(),
        }
    }

    /// The next bytes; none when there are no more for now.
    fn read(&mut self) -> io::Result<Vec<u8>> {
        let mut buffer = vec![0; CHUNK_BYTES];
        loop {
            if self.open.is_none() {
                self.open = open_foreign(&self.path).ok();
            }
            let Some(file) = &mut self.open else { return Ok(Vec::new()) };
            // Asked before the reading: what is written before a rotation is read before it.
            let is_rotated = is_another(file, &self.path);
            let count = file.read(&mut buffer)?;
            if count > 0 || !is_rotated {
                buffer.truncate(count);
                return Ok(buffer);
            }
            self.open = self.next();
        }
    }

    /// The file after the one that was read to its end: the log may have been rotated more than
    /// once since.
    fn next(&self) -> Option<File> {
        let file = self.open.as_ref()?;
        let older = rotated(&self.path);
        // Opened before the question: what it names now follows `file` if `file` is the older one.
        let newest = open_foreign(&self.path).ok();
        match is_another(file, &older) {
            false => newest,
            true => open_foreign(&older).ok().or(newest),
        }
    }
}

/// Whether the path names another file by now.
fn is_another(file: &File, path: &Path) -> bool {
    match (file.metadata(), fs::metadata(path)) {
        (Ok(open), Ok(named)) => (open.dev(), open.ino()) != (named.dev(), named.ino()),
        _ => false,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::runner::log::LogFile;

    fn rest(tail: &mut Tail) -> String {
        let mut all = Vec::new();
        loop {
            let chunk = tail.read().unwrap();
            if chunk.is_empty() {
                return String::from_utf8(all).unwrap();
            }
            all.extend(chunk);
        }
    }

    #[test]
    fn reads_each_byte_once_over_a_rotation() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut tail = Tail::new(path.clone(), 0);
        assert_eq!(rest(&mut tail), "");
        let mut log = LogFile::open(&path, 40).unwrap();
        log.write(b"first line\n");
        assert_eq!(rest(&mut tail), "first line\n");
        log.write(b"second line\n");
        log.write(b"third line\n");
        assert_eq!(rest(&mut tail), "second line\nthird line\n");
    }

    #[test]
    fn goes_on_where_another_reader_has_stopped_over_a_rotation() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut log = LogFile::open(&path, 40).unwrap();
        log.write(b"first line\n");
        let mut tail = Tail::new(path.clone(), 0);
        assert_eq!(rest(&mut tail), "first line\n");
        let place = tail.place();
        assert_eq!(rest(&mut Tail::after(path.clone(), &place)), "");
        log.write(b"second line\n");
        log.write(b"third line\n");
        assert_eq!(rest(&mut Tail::after(path.clone(), &place)), "second line\nthird line\n");
        // What it has read last is gone, or was never there: all that is kept.
        log.write(b"a line as long as half of it\n");
        log.write(b"another line as long as half\n");
        let kept = rest(&mut Tail::new(path.clone(), 0));
        for place in ["1.999999", "none", "", "1"] {
            assert_eq!(rest(&mut Tail::after(path.clone(), place)), kept, "{place}");
        }
    }

    /// A job's folder belongs to its agent's account, which may not read what the coordinator may.
    #[test]
    fn links_and_pipes_are_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let (path, secret) = (folder.path().join("job/log"), folder.path().join("log"));
        std::fs::create_dir(folder.path().join("job")).unwrap();
        std::fs::write(&secret, "secret").unwrap();
        std::os::unix::fs::symlink(&secret, &path).unwrap();
        std::os::unix::fs::symlink(&secret, rotated(&path)).unwrap();
        assert_eq!(rest(&mut Tail::new(path.clone(), 0)), "");
        std::fs::remove_file(&path).unwrap();
        let name = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
        // SAFETY: the name is a live C string.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        assert_eq!(rest(&mut Tail::new(path.clone(), 0)), "");
        // Nor through a folder that is a link.
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(folder.path(), &link).unwrap();
        assert_eq!(rest(&mut Tail::new(link.join("log"), 0)), "");
        assert_eq!(rest(&mut Tail::new(secret, 0)), "secret");
    }

    #[test]
    fn begins_before_the_end_where_asked() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut log = LogFile::open(&path, 20).unwrap();
        log.write(b"12345678\n");
        log.write(b"abcdefgh\n");
        assert_eq!(
            rest(&mut Tail::new(path.clone(), 5)),
            "fgh\n"[..].to_owned().replace("fgh", "efgh")
        );
        assert_eq!(rest(&mut Tail::new(path.clone(), 12)), "78\nabcdefgh\n");
        assert_eq!(rest(&mut Tail::new(path, 0)), "12345678\nabcdefgh\n");
    }
}

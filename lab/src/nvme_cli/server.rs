//! The server of the socket: nodes are opened by connections, and their requests executed one after the other, whoever sends them.
//!
//! A thread serves a connection. Messages of a client are checked here and in [`policy`]; past that a command has a size and an opcode
//! that the far end may see. After every command that may change namespaces, the server rewrites the files of [`sys`], as Linux's driver
//! does after a notice of the controller.

use super::{FarEnd, Refused, identify, policy, sys};
use anyhow::{Context, Result, bail};
use nvme_passthrough::{
    Command, Data, Hello, MOST_DATA, Node, Refusal, Reply, Request, SOCKET, VERSION, receive, send,
};
use nvme_spec::identify::Namespace;
use std::fs;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use zerocopy::FromBytes as _;

/// Nodes that may be open at a time. nvme-cli opens a few.
const MOST_OPEN: usize = 32;
/// Time within which a connection must name its node.
const GREETING: Duration = Duration::from_secs(10);
/// Identify Namespace.
const NAMESPACE: u8 = 0;

/// A server that runs until it is dropped.
pub(crate) struct Server {
    folder: PathBuf,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// State that all connections share.
struct Shared {
    folder: PathBuf,
    state: Mutex<State>,
    open: AtomicUsize,
}

struct State {
    far: Box<dyn FarEnd>,
    /// NSIDs that have nodes.
    namespaces: Vec<u32>,
}

impl Server {
    /// Serves a controller at `folder`, which is created if it is missing. A socket there without a server is replaced.
    pub(crate) fn start(folder: &Path, far: Box<dyn FarEnd>) -> Result<Self> {
        let socket = folder.join(SOCKET);
        if UnixStream::connect(&socket).is_ok() {
            let shown = folder.display();
            bail!("a controller is served at {shown} already: use it with --at {shown}, or name another folder");
        }
        fs::create_dir_all(folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
        let _ = fs::remove_file(&socket);
        let listener =
            UnixListener::bind(&socket).with_context(|| format!("cannot make the socket {}", socket.display()))?;
        let mut state = State { far, namespaces: Vec::new() };
        state.refresh(folder)?;
        let shared = Shared { folder: folder.to_owned(), state: Mutex::new(state), open: AtomicUsize::new(0) };
        let stop = Arc::new(AtomicBool::new(false));
        let (shared, stopped) = (Arc::new(shared), stop.clone());
        let accept = move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if stopped.load(Ordering::Acquire) {
                    break;
                }
                // A few connections too many get an answer; more are dropped.
                if shared.open.load(Ordering::Acquire) < 2 * MOST_OPEN {
                    let open = shared.open.fetch_add(1, Ordering::AcqRel);
                    let server = shared.clone();
                    if thread::Builder::new().spawn(move || server.serve(stream, open)).is_err() {
                        shared.open.fetch_sub(1, Ordering::AcqRel);
                    }
                }
            }
        };
        let thread = thread::Builder::new().spawn(accept).context("a thread cannot be started")?;
        Ok(Self { folder: folder.to_owned(), stop, thread: Some(thread) })
    }

    /// Serves until the process ends.
    pub(crate) fn wait(mut self) {
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        let socket = self.folder.join(SOCKET);
        // The thread waits for a connection. Nobody can make one where the socket's file is gone.
        if UnixStream::connect(&socket).is_ok()
            && let Some(thread) = self.thread.take()
        {
            let _ = thread.join();
        }
        let _ = fs::remove_file(socket);
    }
}

impl State {
    /// Looks for the namespaces, and writes the files about them and the controller.
    fn refresh(&mut self, folder: &Path) -> Result<()> {
        self.namespaces = sys::write(&folder.join(nvme_passthrough::SYS), &mut *self.far)?;
        Ok(())
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves a connection to its end. A client that sends what is no message loses it.
    fn serve(&self, mut stream: UnixStream, open: usize) {
        let _ = self.converse(&mut stream, open);
        self.open.fetch_sub(1, Ordering::AcqRel);
    }

    fn converse(&self, stream: &mut UnixStream, open: usize) -> std::io::Result<()> {
        stream.set_read_timeout(Some(GREETING))?;
        let Some(Hello { version, node }) = receive(stream)? else { return Ok(()) };
        let greeted = self.greet(version, node, open);
        let is_open = greeted.is_ok();
        send(stream, &answer(greeted.map(|()| Reply::Done)))?;
        stream.set_read_timeout(None)?;
        while is_open && let Some(request) = receive(stream)? {
            send(stream, &answer(self.execute(node, &request)))?;
        }
        Ok(())
    }

    fn greet(&self, version: u16, node: Node, open: usize) -> Result<(), Refused> {
        if version != VERSION {
            let sentence = format!(
                "the library has version {version} of the messages, and the server version {VERSION}: build both from one checkout"
            );
            return Err(Refused(Refusal::Version, sentence));
        }
        if open >= MOST_OPEN {
            let sentence = format!("{MOST_OPEN} nodes are open at the server: end another nvme");
            return Err(Refused(Refusal::Busy, sentence));
        }
        match node.nsid() {
            Some(nsid) if !self.state().namespaces.contains(&nsid) => {
                Err(Refused(Refusal::NoNode, format!("there is no namespace {nsid}")))
            }
            _ => Ok(()),
        }
    }

    fn execute(&self, node: Node, request: &Request) -> Result<Reply, Refused> {
        let state = &mut *self.state();
        let mut is_changed = true;
        let result = match request {
            Request::Execute(command, data) => {
                is_changed = !policy::only_reads(command);
                state.command(command, data)
            }
            Request::Geometry => {
                is_changed = false;
                state.geometry(node)
            }
            Request::Reset => state.far.reset().map(|()| Reply::Done),
            Request::ResetSubsystem => state.far.reset_subsystem().map(|()| Reply::Done),
            Request::Rescan => Ok(Reply::Done),
        };
        if is_changed && result.is_ok() {
            // The command was executed; a controller that fails afterwards refuses the next one.
            let _ = state.refresh(&self.folder);
        }
        result
    }
}

impl State {
    fn command(&mut self, command: &Command, data: &Data) -> Result<Reply, Refused> {
        if data.bytes() > MOST_DATA as usize {
            return Err(Refused(Refusal::Invalid, format!("a command has {MOST_DATA} bytes of data at most")));
        }
        if let Some(name) = policy::refused(command) {
            let sentence = format!("{name} is refused by policy: the controller has not seen it");
            return Err(Refused(Refusal::Forbidden, sentence));
        }
        let done = self.far.execute(command, data)?;
        Ok(Reply::Completed { status: done.status, result: done.result, data: done.data })
    }

    fn geometry(&mut self, node: Node) -> Result<Reply, Refused> {
        let none = || Refused(Refusal::Unsupported, "the node has no blocks: name a namespace".into());
        let nsid = node.nsid().ok_or_else(none)?;
        let bytes = identify(&mut *self.far, NAMESPACE, nsid)?.ok_or_else(none)?;
        let namespace = Namespace::read_from_bytes(&bytes).map_err(|_| none())?;
        let block_bytes = namespace.block_bytes().ok_or_else(none)?;
        Ok(Reply::Geometry { block_bytes, blocks: namespace.nsze.get() })
    }
}

fn answer(result: Result<Reply, Refused>) -> Reply {
    result.unwrap_or_else(|Refused(reason, sentence)| Reply::Refused(reason, sentence))
}

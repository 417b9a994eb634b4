//! Tests of the server and of the model's driver, without nvme-cli.

use super::model::Model;
use super::server::Server;
use super::{FarEnd, identify};
use capdl::Scenario;
use nvme_passthrough::{
    Command, Data, Hello, MOST_DATA, Node, Queue, Refusal, Reply, Request, SOCKET, VERSION, receive, send,
};
use sim::{Disk, Exported};
use std::fs;
use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use tempfile::TempDir;

const SYSTEM: &str = r#"
name = "a"
description = "b"
[[controller]]
name = "disk"
serial = "tested"
queue_pairs = 4
[[controller.namespace]]
size = "4M"
[[tenant]]
name = "alice"
queue_pairs = 1
extents = [{ first = 0, blocks = 64 }]
program.name = "bench"
[tenant.program.config]
"#;

fn model_with(more: &str) -> Model {
    let scenario = Scenario::parse(&format!("{SYSTEM}{more}"), "a").unwrap();
    Model::new(Exported::new(&scenario, 0, &[Disk::zeroes()], &scenario.faults, 1).unwrap()).unwrap()
}

fn model() -> Model {
    model_with("")
}

fn served() -> (TempDir, Server) {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), Box::new(model())).unwrap();
    (folder, server)
}

fn greeted(folder: &Path, version: u16, node: Node) -> (UnixStream, Reply) {
    let mut stream = UnixStream::connect(folder.join(SOCKET)).unwrap();
    send(&mut stream, &Hello { version, node }).unwrap();
    let reply = receive(&mut stream).unwrap().unwrap();
    (stream, reply)
}

fn opened(folder: &Path, node: Node) -> UnixStream {
    let (stream, reply) = greeted(folder, VERSION, node);
    assert_eq!(reply, Reply::Done);
    stream
}

fn ask(stream: &mut UnixStream, request: &Request) -> Reply {
    send(stream, request).unwrap();
    receive(stream).unwrap().unwrap()
}

fn refusal(reply: Reply) -> Refusal {
    match reply {
        Reply::Refused(reason, _) => reason,
        other => panic!("{other:?}"),
    }
}

const fn command(queue: Queue, opcode: u8, nsid: u32, first: u32, third: u32) -> Command {
    Command { queue, opcode, nsid, cdw2: [0; 2], cdw10: [first, 0, third, 0, 0, 0] }
}

/// Writes and reads so many blocks, from block 3 on.
fn round_trip(model: &mut Model, blocks: u32) {
    let bytes: Vec<u8> = (0..blocks * 512).map(|at| (at % 251) as u8).collect();
    let wrote = model.execute(&command(Queue::Io, 1, 1, 3, blocks - 1), &Data::Out(bytes.clone())).unwrap();
    assert_eq!((wrote.status, wrote.data.len()), (0, 0));
    let read = model.execute(&command(Queue::Io, 2, 1, 3, blocks - 1), &Data::In(blocks * 512)).unwrap();
    assert_eq!(read.status, 0);
    assert!(read.data == bytes, "{blocks} blocks differ");
}

#[test]
fn data_of_every_number_of_pages_arrives() {
    let mut model = model();
    for blocks in [1, 8, 9, 16, 17, 24, 1024] {
        round_trip(&mut model, blocks);
    }
    model.reset().unwrap();
    round_trip(&mut model, 25);
    // More commands than the queues have entries.
    (0..40).for_each(|_| assert!(identify(&mut model, 1, 0).unwrap().is_some()));
}

#[test]
fn a_failed_command_has_its_status_and_no_data() {
    let mut model = model();
    let beyond = model.execute(&command(Queue::Io, 2, 1, 8192, 0), &Data::In(512)).unwrap();
    assert_eq!((beyond.status & 0x7ff, beyond.data.len()), (0x80, 0), "LBA Out of Range");
    let registers = model.registers();
    assert_eq!((registers.len(), &registers[8..12]), (4096, &[0, 4, 1, 0][..]));
    assert_eq!(model.reset_subsystem().unwrap_err().0, Refusal::Unsupported);
}

#[test]
fn a_lost_completion_is_a_timeout_and_the_controller_works_on() {
    let mut model = model_with("[[fault]]\ncommand = { effect = \"drop-completion\", queues = \"io\", times = 1 }\n");
    assert_eq!(model.execute(&command(Queue::Io, 2, 1, 0, 0), &Data::In(512)).unwrap_err().0, Refusal::Timeout);
    round_trip(&mut model, 1);
}

#[test]
fn nodes_are_those_of_the_active_namespaces() {
    let (folder, _server) = served();
    let mut controller = opened(folder.path(), Node::Controller);
    let mut block = opened(folder.path(), Node::Block(1));
    assert_eq!(ask(&mut block, &Request::Geometry), Reply::Geometry { block_bytes: 512, blocks: 8192 });
    assert_eq!(refusal(ask(&mut controller, &Request::Geometry)), Refusal::Unsupported);
    assert_eq!(refusal(greeted(folder.path(), VERSION, Node::Generic(2)).1), Refusal::NoNode);
    let serial = fs::read_to_string(folder.path().join("sys/class/nvme/nvme0/serial")).unwrap();
    assert_eq!(serial, "tested\n");
    // Namespace Management: delete.
    let delete = Request::Execute(command(Queue::Admin, 0x0d, 1, 1, 0), Data::None);
    assert_eq!(ask(&mut controller, &delete), Reply::Completed { status: 0, result: 0, data: Vec::new() });
    assert_eq!(refusal(greeted(folder.path(), VERSION, Node::Block(1)).1), Refusal::NoNode);
    assert!(!folder.path().join("sys/class/nvme/nvme0/nvme0n1").exists());
}

#[test]
fn what_the_policy_forbids_does_not_reach_the_controller() {
    let (folder, _server) = served();
    let mut controller = opened(folder.path(), Node::Controller);
    let reply = ask(&mut controller, &Request::Execute(command(Queue::Admin, 5, 0, 0, 0), Data::None));
    let sentence = "Create I/O Completion Queue is refused by policy: the controller has not seen it".to_owned();
    assert_eq!(reply, Reply::Refused(Refusal::Forbidden, sentence));
    let long = Request::Execute(command(Queue::Io, 2, 1, 0, 0), Data::In(MOST_DATA + 1));
    assert_eq!(refusal(ask(&mut controller, &long)), Refusal::Invalid);
    assert_eq!(ask(&mut controller, &Request::Reset), Reply::Done);
}

#[test]
fn a_client_that_sends_garbage_loses_its_connection_alone() {
    let (folder, _server) = served();
    let mut other = opened(folder.path(), Node::Controller);
    assert_eq!(refusal(greeted(folder.path(), VERSION + 1, Node::Controller).1), Refusal::Version);
    for garbage in [&[0xff; 64][..], &[3, 0, 0, 0, 9, 9, 9], &[0; 4]] {
        let mut stream = opened(folder.path(), Node::Controller);
        stream.write_all(garbage).unwrap();
        // The end, or a reset where bytes are left.
        assert!(!matches!(receive::<Reply>(&mut stream), Ok(Some(_))), "{garbage:?}");
    }
    assert_eq!(ask(&mut other, &Request::Rescan), Reply::Done);
}

#[test]
fn no_more_nodes_than_the_bound_are_open() {
    let (folder, _server) = served();
    let mut open: Vec<_> = (0..32).map(|_| opened(folder.path(), Node::Controller)).collect();
    assert_eq!(refusal(greeted(folder.path(), VERSION, Node::Controller).1), Refusal::Busy);
    open.pop();
    // The server's thread ends soon.
    let is_open = || greeted(folder.path(), VERSION, Node::Controller).1 == Reply::Done;
    assert!((0..1000).any(|_| is_open()));
}

#[test]
fn a_folder_serves_one_controller_and_a_stale_socket_is_replaced() {
    let (folder, server) = served();
    let error = Server::start(folder.path(), Box::new(model())).err().unwrap().to_string();
    assert!(error.contains("is served at") && error.contains("use it with --at"), "{error}");
    drop(server);
    assert!(!folder.path().join(SOCKET).exists());
    drop(std::os::unix::net::UnixListener::bind(folder.path().join(SOCKET)).unwrap());
    let _server = Server::start(folder.path(), Box::new(model())).unwrap();
    opened(folder.path(), Node::Controller);
}

//! The socket's file, stopping, and clients one after the other.

use super::client::Client;
use super::device::{RESETS, Served, TestDevice};
use crate::message::{Version, command};
use crate::{BindError, ClientEnd, Server};
use std::fs;
use std::os::unix::net::{UnixListener, UnixStream};
use zerocopy::IntoBytes;

#[test]
fn a_stale_socket_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    drop(UnixListener::bind(&path).unwrap());
    let server = Server::bind(&path).unwrap();
    assert!(UnixStream::connect(&path).is_ok());
    drop(server);
    assert!(!path.exists());
}

#[test]
fn a_file_that_is_no_socket_stays() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("precious");
    fs::write(&path, "data").unwrap();
    assert!(matches!(Server::bind(&path), Err(BindError::NotASocket(_))));
    assert_eq!(fs::read(&path).unwrap(), b"data");
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    assert!(matches!(Server::bind(&link), Err(BindError::NotASocket(_))));
}

#[test]
fn a_socket_in_use_stays() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let first = Server::bind(&path).unwrap();
    assert!(matches!(Server::bind(&path), Err(BindError::InUse(_))));
    drop(first);
    let missing = folder.path().join("missing/socket");
    assert!(matches!(Server::bind(&missing), Err(BindError::Io { .. })));
    let long = path.with_file_name("s".repeat(108 - path.parent().unwrap().as_os_str().len() - 1));
    assert_eq!(long.as_os_str().len(), 108);
    let refusal = Server::bind(&long).unwrap_err().to_string();
    assert!(refusal.ends_with("has 108 bytes, and that of a socket 107 at most: name a shorter one"), "{refusal}");
}

#[test]
fn another_servers_socket_is_not_removed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let server = Server::bind(&path).unwrap();
    fs::remove_file(&path).unwrap();
    let _other = UnixListener::bind(&path).unwrap();
    drop(server);
    assert!(path.exists());
}

#[test]
fn a_server_without_client_stops() {
    assert!(Served::begin().end().is_empty());
}

#[test]
fn a_server_with_a_silent_client_stops() {
    let served = Served::begin();
    let _client = Client::begin(&served.path, 1 << 20);
    assert_eq!(served.end(), ["the server was stopped"]);
}

#[test]
fn the_device_is_reset_between_clients() {
    let served = Served::begin();
    for resets in 0..3 {
        let mut client = Client::begin(&served.path, 1 << 20);
        assert_eq!((client.register(0), client.register(RESETS)), (0, resets));
        client.set_register(0, 1);
    }
}

#[test]
fn a_connected_client_is_served_without_the_socket() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::bind(&folder.path().join("socket")).unwrap();
    let (ours, theirs) = UnixStream::pair().unwrap();
    let client = std::thread::spawn(move || {
        use std::io::{Read, Write};
        let mut theirs = theirs;
        let header = crate::message::Header::of_command(1, command::VERSION, 4);
        theirs.write_all(header.as_bytes()).unwrap();
        theirs.write_all(Version { major: 0, minor: 0 }.as_bytes()).unwrap();
        theirs.read_exact(&mut [0; 20]).unwrap();
    });
    let end = server.serve(ours, &mut TestDevice::new());
    assert!(matches!(end, ClientEnd::Left), "{end}");
    client.join().unwrap();
}

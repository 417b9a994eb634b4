//! Traces as a file for Perfetto (<https://ui.perfetto.dev>), by messages of our own.
//!
//! The field numbers are those of Perfetto's `protos/perfetto/trace/`. Each tenant has a track at its server, one at its client, and
//! one at its controller; below them are as many as it had requests at once, so that slices of a track nest. A request is one flow
//! from the client over the server and the controller back. A client with a virtual function has a server's slices on its own track.

use super::requests::{Part, Request, Requests};
use blk_api::operation::Kind;
use prost::Message;
use std::collections::BTreeMap;
use std::io::{self, Write};

/// A packet of the file (`trace_packet.proto`).
#[derive(Clone, PartialEq, Message)]
struct TracePacket {
    /// Nanoseconds.
    #[prost(uint64, optional, tag = "8")]
    timestamp: Option<u64>,
    #[prost(uint32, optional, tag = "10")]
    trusted_packet_sequence_id: Option<u32>,
    #[prost(message, optional, tag = "11")]
    track_event: Option<TrackEvent>,
    #[prost(message, optional, tag = "60")]
    track_descriptor: Option<TrackDescriptor>,
}

/// The beginning or the end of a slice (`track_event.proto`).
#[derive(Clone, PartialEq, Message)]
struct TrackEvent {
    #[prost(message, repeated, tag = "4")]
    debug_annotations: Vec<DebugAnnotation>,
    #[prost(int32, optional, tag = "9")]
    r#type: Option<i32>,
    #[prost(uint64, optional, tag = "11")]
    track_uuid: Option<u64>,
    #[prost(string, optional, tag = "23")]
    name: Option<String>,
    #[prost(fixed64, repeated, packed = "false", tag = "47")]
    flow_ids: Vec<u64>,
    #[prost(fixed64, repeated, packed = "false", tag = "48")]
    terminating_flow_ids: Vec<u64>,
}

/// A named value of a slice (`debug_annotation.proto`).
#[derive(Clone, PartialEq, Message)]
struct DebugAnnotation {
    #[prost(uint64, optional, tag = "3")]
    uint_value: Option<u64>,
    #[prost(string, optional, tag = "10")]
    name: Option<String>,
}

/// A track (`track_descriptor.proto`).
#[derive(Clone, PartialEq, Message)]
struct TrackDescriptor {
    #[prost(uint64, optional, tag = "1")]
    uuid: Option<u64>,
    #[prost(string, optional, tag = "2")]
    name: Option<String>,
    #[prost(message, optional, tag = "3")]
    process: Option<ProcessDescriptor>,
    #[prost(uint64, optional, tag = "5")]
    parent_uuid: Option<u64>,
}

/// A component (`process_descriptor.proto`).
#[derive(Clone, PartialEq, Message)]
struct ProcessDescriptor {
    #[prost(int32, optional, tag = "1")]
    pid: Option<i32>,
    #[prost(string, optional, tag = "6")]
    process_name: Option<String>,
}

/// Types of events.
const BEGIN: i32 = 1;
const END: i32 = 2;
/// The one sequence of packets.
const SEQUENCE: u32 = 1;
/// Tag of a packet in the file: field 1, with a length.
const PACKET: u8 = 0x0a;

/// Writes the requests.
///
/// # Errors
/// Those of `to`, as a full disk.
pub fn write(requests: &Requests, mut to: impl Write) -> io::Result<()> {
    let mut file = File::default();
    let mut sorted: Vec<&Request> = requests.complete.iter().collect();
    sorted.sort_by_key(|request| request.published.unwrap_or(request.seen));
    sorted.iter().for_each(|request| file.client(request));
    sorted.sort_by_key(|request| request.seen);
    sorted.iter().for_each(|request| file.submitter(request));
    let mut commands: Vec<_> =
        sorted.iter().flat_map(|one| one.commands.iter().map(move |command| (*one, command))).collect();
    commands.sort_by_key(|(_, command)| command.rung);
    for (request, command) in
        commands.iter().filter(|(_, command)| command.completed >= command.rung && command.rung > 0)
    {
        let track = file.lane(
            "controller of",
            &request.server,
            &format!("queue pair {} of {}", command.queue, request.tenant),
            (command.rung, command.completed),
        );
        let values = [
            ("command", command.cid.into()),
            ("block", command.first),
            ("bytes", command.bytes.into()),
            ("status", command.status.into()),
        ];
        let flow = file.flow(request);
        file.begin(track, &named(request), command.rung, &values, Flow::Through(flow));
        file.end(track, command.completed);
    }
    // Descriptors come first. Events keep their order where their times are the same.
    file.events.sort_by_key(|packet| packet.timestamp);
    for packet in file.tracks.iter().chain(&file.events) {
        let bytes = packet.encode_length_delimited_to_vec();
        to.write_all(&[PACKET])?;
        to.write_all(&bytes)?;
    }
    to.flush()
}

/// The name of a request's slices.
fn named(request: &Request) -> String {
    let kind = request.opcode.map_or("refused", |opcode| match opcode.kind() {
        Kind::Read => "read",
        Kind::Write => "write",
        Kind::Other => "other",
    });
    kind.to_owned()
}

/// A flow's connection with a slice.
#[derive(Clone, Copy)]
enum Flow {
    None,
    Through(u64),
    Ends(u64),
}

/// The packets of a file.
#[derive(Default)]
struct File {
    tracks: Vec<TracePacket>,
    events: Vec<TracePacket>,
    uuids: BTreeMap<String, u64>,
    /// By the parent's identifier, the times at which the last slices of its lanes end.
    lanes: BTreeMap<u64, Vec<u64>>,
    /// Numbers of the openings of sessions.
    openings: BTreeMap<(String, String, u32), u64>,
}

impl File {
    /// The client's side of a request, from its publication to the answer.
    fn client(&mut self, request: &Request) {
        let (Some(published), Some(received)) = (request.published, request.received) else { return };
        let track = self.lane("client", &request.tenant, "requests", (published, received));
        let flow = self.flow(request);
        self.begin(track, &named(request), published, &values(request), Flow::Through(flow));
        let parts = [("ring", published, request.seen), ("server", request.seen, request.answered)];
        for (name, begins, ends) in parts {
            self.begin(track, name, begins, &[], Flow::None);
            self.end(track, ends);
        }
        self.begin(track, "reply", request.answered, &[], Flow::Ends(flow));
        self.end(track, received);
        self.end(track, received);
    }

    /// The side of the server, or of the client with a function: from its pass to the publication of the answer.
    fn submitter(&mut self, request: &Request) {
        let (what, component, below) = if request.on_function {
            ("client", &request.tenant, "requests")
        } else {
            ("server", &request.server, request.tenant.as_str())
        };
        let track = self.lane(what, component, below, (request.seen, request.answered));
        let flow = self.flow(request);
        self.begin(track, &named(request), request.seen, &values(request), Flow::Through(flow));
        let parts = request.parts();
        for (Part { name, begins, ends }, is_last) in
            parts.into_iter().zip((0..parts.len()).map(|index| index + 1 == parts.len()))
        {
            let ends_flow = is_last && (request.published.is_none() || request.received.is_none());
            self.begin(track, name, begins, &[], if ends_flow { Flow::Ends(flow) } else { Flow::None });
            self.end(track, ends);
        }
        self.end(track, request.answered);
    }

    /// The flow of a request.
    fn flow(&mut self, request: &Request) -> u64 {
        let next = self.openings.len() as u64 + 1;
        let session = (request.server.clone(), request.tenant.clone(), request.opening);
        *self.openings.entry(session).or_insert(next) << 32 | u64::from(request.number)
    }

    /// A track below the one of this name, in a component, that is free at this time.
    fn lane(&mut self, what: &str, component: &str, below: &str, (begins, ends): (u64, u64)) -> u64 {
        let process = format!("{what} {component}");
        let next_pid = i32::try_from(self.uuids.len()).unwrap_or(i32::MAX).saturating_add(1);
        let process = self.track(&process, None, Some(next_pid), &process);
        let parent = self.track(&format!("{process}/{below}"), Some(process), None, below);
        let lanes = self.lanes.entry(parent).or_default();
        let free = lanes.iter().position(|ended| *ended <= begins);
        let number = free.unwrap_or(lanes.len());
        match lanes.get_mut(number) {
            Some(ended) => *ended = ends,
            None => lanes.push(ends),
        }
        self.track(&format!("{parent}/{number}"), Some(parent), None, &format!("slot {number}"))
    }

    /// The identifier of a track, which is described when it is first asked for.
    fn track(&mut self, key: &str, parent: Option<u64>, pid: Option<i32>, name: &str) -> u64 {
        if let Some(uuid) = self.uuids.get(key) {
            return *uuid;
        }
        let uuid = self.uuids.len() as u64 + 1;
        self.uuids.insert(key.to_owned(), uuid);
        let process = pid.map(|pid| ProcessDescriptor { pid: Some(pid), process_name: Some(name.to_owned()) });
        let name = process.is_none().then(|| name.to_owned());
        let descriptor = TrackDescriptor { uuid: Some(uuid), name, process, parent_uuid: parent };
        self.tracks.push(TracePacket {
            trusted_packet_sequence_id: Some(SEQUENCE),
            track_descriptor: Some(descriptor),
            ..TracePacket::default()
        });
        uuid
    }

    fn begin(&mut self, track: u64, name: &str, at: u64, values: &[(&str, u64)], flow: Flow) {
        let annotation =
            |(name, value): &(&str, u64)| DebugAnnotation { uint_value: Some(*value), name: Some((*name).to_owned()) };
        let (through, ends) = match flow {
            Flow::None => (None, None),
            Flow::Through(id) => (Some(id), None),
            Flow::Ends(id) => (None, Some(id)),
        };
        self.event(
            at,
            TrackEvent {
                debug_annotations: values.iter().map(annotation).collect(),
                r#type: Some(BEGIN),
                track_uuid: Some(track),
                name: Some(name.to_owned()),
                flow_ids: through.into_iter().collect(),
                terminating_flow_ids: ends.into_iter().collect(),
            },
        );
    }

    fn end(&mut self, track: u64, at: u64) {
        self.event(at, TrackEvent { r#type: Some(END), track_uuid: Some(track), ..TrackEvent::default() });
    }

    fn event(&mut self, at: u64, event: TrackEvent) {
        self.events.push(TracePacket {
            timestamp: Some(at),
            trusted_packet_sequence_id: Some(SEQUENCE),
            track_event: Some(event),
            ..TracePacket::default()
        });
    }
}

/// The values that a request's slices show.
fn values(request: &Request) -> [(&'static str, u64); 4] {
    [
        ("request", request.number.into()),
        ("block", request.first),
        ("bytes", request.bytes),
        ("commands", request.commands.len() as u64),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::requests::tests::two_reads;
    use super::*;

    fn packets(requests: &Requests) -> Vec<TracePacket> {
        let mut file = Vec::new();
        write(requests, &mut file).unwrap();
        let (mut rest, mut packets) = (file.as_slice(), Vec::new());
        while let [PACKET, packet @ ..] = rest {
            rest = packet;
            packets.push(TracePacket::decode_length_delimited(&mut rest).unwrap());
        }
        assert!(rest.is_empty());
        packets
    }

    #[test]
    fn slices_nest_and_flows_end() {
        let packets = packets(&Requests { complete: two_reads(), incomplete: 0 });
        let mut open: BTreeMap<u64, u32> = BTreeMap::new();
        let (mut flows, mut ended): (BTreeMap<u64, u32>, Vec<u64>) = (BTreeMap::new(), Vec::new());
        let mut last = 0;
        for packet in packets.iter().filter(|packet| packet.track_event.is_some()) {
            let event = packet.track_event.as_ref().unwrap();
            assert!(packet.timestamp.unwrap() >= last);
            last = packet.timestamp.unwrap();
            let depth = open.entry(event.track_uuid.unwrap()).or_default();
            *depth = if event.r#type == Some(BEGIN) { *depth + 1 } else { depth.checked_sub(1).unwrap() };
            assert!(*depth <= 2, "a request and its part");
            event.flow_ids.iter().for_each(|id| *flows.entry(*id).or_default() += 1);
            ended.extend(&event.terminating_flow_ids);
        }
        assert!(open.values().all(|depth| *depth == 0));
        assert_eq!(flows.values().copied().collect::<Vec<_>>(), [3, 3], "client, server, controller");
        ended.sort_unstable();
        assert_eq!(ended, flows.into_keys().collect::<Vec<_>>());
    }

    #[test]
    fn a_request_on_a_function_is_one_flow_over_client_and_controller() {
        let on_function = |one| Request { on_function: true, published: None, received: None, ..one };
        let packets =
            packets(&Requests { complete: two_reads().into_iter().map(on_function).collect(), incomplete: 0 });
        let processes = packets.iter().filter_map(|one| one.track_descriptor.as_ref()?.process.as_ref());
        let names: Vec<_> = processes.filter_map(|process| process.process_name.as_deref()).collect();
        assert_eq!(names, ["client alice", "controller of nvme-server"]);
        let events = packets.iter().filter_map(|packet| packet.track_event.as_ref());
        let (through, ended): (Vec<_>, Vec<_>) =
            events.map(|event| (event.flow_ids.len(), event.terminating_flow_ids.len())).unzip();
        assert_eq!((through.iter().sum::<usize>(), ended.iter().sum::<usize>()), (4, 2));
    }

    #[test]
    fn requests_at_once_are_on_tracks_of_their_own() {
        let packets = packets(&Requests { complete: two_reads(), incomplete: 0 });
        let names = packets.iter().filter_map(|packet| packet.track_descriptor.as_ref()?.name.clone());
        assert_eq!(names.filter(|name| name == "slot 1").count(), 3);
    }
}

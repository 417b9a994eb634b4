"""Judges a trace file for Perfetto: slices nest, flows end, and the parts of a request add up. Prints the number of requests."""

import sys
from collections import defaultdict

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent


def judge(trace):
    tracks = {packet.track_descriptor.uuid: packet.track_descriptor
              for packet in trace.packet if packet.HasField("track_descriptor")}
    for track in tracks.values():
        assert not track.parent_uuid or track.parent_uuid in tracks, f"track {track.uuid} has no parent"

    def process(uuid):
        while tracks[uuid].parent_uuid:
            uuid = tracks[uuid].parent_uuid
        return tracks[uuid].process.process_name

    open_slices, flows, requests, last = defaultdict(list), defaultdict(list), defaultdict(list), 0
    for packet in trace.packet:
        if not packet.HasField("track_event"):
            continue
        event, stack = packet.track_event, open_slices[packet.track_event.track_uuid]
        assert event.track_uuid in tracks, f"an event has no track: {event}"
        assert packet.timestamp >= last, "events are not in the order of their times"
        last = packet.timestamp
        for flow in list(event.flow_ids) + list(event.terminating_flow_ids):
            flows[flow].append((process(event.track_uuid).split()[0], flow in event.terminating_flow_ids))
        if event.type == TrackEvent.TYPE_SLICE_BEGIN:
            stack.append([list(event.flow_ids), packet.timestamp, 0])
            continue
        assert event.type == TrackEvent.TYPE_SLICE_END and stack, "a slice ends that has not begun"
        of, begin, parts = stack.pop()
        if stack:
            stack[-1][2] += packet.timestamp - begin
        elif (side := process(event.track_uuid).split()[0]) != "controller":
            requests[side] += of
            duration = packet.timestamp - begin
            assert abs(parts - duration) <= 0.01 * duration, f"the parts of a request are {parts} ns of {duration}"
        assert len(stack) <= 1, "a part has a part"
    assert not any(open_slices.values()), "a slice does not end"
    # A client with a virtual function has no server.
    on_functions = set(requests["client"]) - set(requests["server"])
    count = len(requests["server"]) + sum(flow in on_functions for flow in requests["client"])
    assert len(flows) == count, f"{count} requests have {len(flows)} flows"
    for flow, ends in flows.items():
        assert sum(is_end for _, is_end in ends) == 1, f"flow {flow} has not one end: {ends}"
        names = {name for name, _ in ends}
        assert "client" in names, f"flow {flow} is seen by {names} alone"
    assert any(name == "controller" for ends in flows.values() for name, _ in ends), "no flow reaches a controller"
    return count


def main():
    trace = Trace()
    with open(sys.argv[1], "rb") as file:
        trace.ParseFromString(file.read())
    try:
        print(judge(trace))
    except AssertionError as error:
        sys.exit(str(error))


main()

use super::*;
use report::Load;
use report::frame::{MAX_FRAME, encode};

fn frame(component: u16, kind: Kind, bytes: &[u8]) -> Vec<u8> {
    let mut line = [0; MAX_FRAME];
    let len = encode(component, kind, bytes, &mut line).unwrap();
    line[..len].to_vec()
}

#[test]
fn the_line_becomes_results_and_a_log_whatever_stands_between() {
    let folder = tempfile::tempdir().unwrap();
    let mut collector = Collector::new(Decoder::new(), folder.path(), None).unwrap();
    let mut bytes = b"firmware says hello\n".to_vec();
    let load = Load { tenant: report::clip("component 4"), reads: 7, ..Load::default() };
    bytes.extend(frame(4, Kind::Report, &Report::Load(load.clone()).encode()));
    bytes.extend(frame(4, Kind::Lost, &12u64.to_le_bytes()));
    bytes.extend(frame(4, Kind::Report, &[0xff; 3]));
    bytes.extend(frame(5, Kind::Report, &Report::Load(load).encode()));
    for chunk in bytes.chunks(5) {
        collector.take(chunk, Duration::ZERO).unwrap();
    }
    collector.finish().unwrap();
    assert_eq!(collector.results.tenants.len(), 1, "of itself a component may speak, not of others");
    assert_eq!(collector.results.tenants[0].reads, 7);
    assert_eq!(collector.results.failures.len(), 2, "what does not decode, and what is not its own");
    assert_eq!(collector.results.lost_log_bytes["component 4"], 12);
    let log = fs::read_to_string(folder.path().join("log")).unwrap();
    let lines: Vec<_> = log.lines().collect();
    assert_eq!(lines[0], "firmware says hello");
    assert!(lines[1].contains("reads: 7"), "{log}");
    assert!(lines[2].starts_with("component 4: 12 bytes"), "{log}");
    assert_eq!(lines[3], "component 4 reports 3 bytes that do not decode");
    assert_eq!(fs::read(folder.path().join("serial")).unwrap(), bytes);
}

#[test]
fn a_command_can_be_pasted_into_a_shell() {
    assert_eq!(shell_word("q35"), "q35");
    assert_eq!(shell_word(r#"{"driver":"file"}"#), r#"'{"driver":"file"}'"#);
    assert_eq!(shell_word("it's"), r"'it'\''s'");
}

#[test]
fn a_users_disk_takes_the_place_of_the_first_file_with_all_its_blocks() {
    let text = "name = \"t\"\ndescription = \"t\"\n[[controller]]\nname = \"a\"\n\
                [[controller.namespace]]\nsize = \"64M\"\nbackend = \"null\"\n[[controller.namespace]]\nsize = \"64M\"\n\
                [[tenant]]\nname = \"w\"\nnamespace = 2\nqueue_pairs = 1\nextents = [{ first = 100, blocks = 1024 }]\n\
                [tenant.workload.bench]\n";
    let mut scenario = Scenario::parse(text, "t.toml").unwrap();
    let mut disk = UserDisk { path: "disk".into(), write: false, bytes: 1000 * 512 };
    let small = use_disk(&mut scenario, &disk).unwrap_err().to_string();
    assert!(small.contains("needs 575488"), "{small}");
    disk.bytes = 4096 * 512 + 100;
    use_disk(&mut scenario, &disk).unwrap();
    assert_eq!(scenario.controllers[0].namespaces[1].size, 4096 * 512);
    assert_eq!(scenario.controllers[0].namespaces[0].size, 64 << 20);
}

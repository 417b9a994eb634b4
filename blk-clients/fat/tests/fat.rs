//! The whole program on a machine in memory; another FAT implementation reads the program's disk, and formats one for it.

use fake_platform::{FakePlatform, Order, Setup};
use fat::{Config, File};
use fatfs::{FileSystem, FormatVolumeOptions, FsOptions};
use report::Report;
use std::collections::BTreeMap;
use std::io::{Cursor, Read, Write};

/// A session of 16 MiB.
fn setup(block_shift: u8) -> Setup {
    Setup { block_shift, blocks: (16 << 20) >> block_shift, order: Order::Drawn(3), ..Setup::default() }
}

fn file(path: &str, text: &str, times: u32) -> File {
    File { path: path.into(), text: text.into(), times }
}

/// Runs the program on `platform` and returns its records.
fn run(platform: &FakePlatform, config: &Config) -> Vec<Report> {
    platform.run(config, fat::run)
}

fn assert_passed(reports: &[Report]) {
    assert!(matches!(reports, [Report::FirstIo { .. }, Report::Done { passed: true, .. }]), "{reports:?}");
}

fn assert_failed(reports: &[Report], expected: &str) {
    let [Report::Failure { reason, .. }, Report::Done { passed: false, .. }] = reports else { panic!("{reports:?}") };
    assert!(reason.contains(expected), "{reason}");
}

/// Reads the file on the disk with the other implementation.
fn found(platform: &FakePlatform, path: &str) -> String {
    let disk = platform.server(|server| server.disk.clone());
    let volume = FileSystem::new(Cursor::new(disk), FsOptions::new()).expect("a FAT volume");
    let mut contents = String::new();
    volume.root_dir().open_file(path).expect(path).read_to_string(&mut contents).expect(path);
    contents
}

/// Puts a volume of the other implementation on the disk, with one file.
fn put_volume(platform: &FakePlatform, path: &str, contents: &str) {
    platform.server(|server| {
        let mut disk = Cursor::new(&mut server.disk);
        fatfs::format_volume(&mut disk, FormatVolumeOptions::new()).unwrap();
        let volume = FileSystem::new(disk, FsOptions::new()).unwrap();
        let root = volume.root_dir();
        if let Some((folder, _)) = path.split_once('/') {
            root.create_dir(folder).unwrap();
        }
        root.create_file(path).unwrap().write_all(contents.as_bytes()).unwrap();
    });
}

#[test]
fn files_written_to_a_blank_session_are_found_by_another_implementation() {
    for block_shift in [9, 12] {
        let platform = FakePlatform::new(&setup(block_shift));
        let write = vec![
            file("HELLO.TXT", "written on seL4\n", 1),
            file("DIR/HELLO.TXT", "in a folder\n", 1),
            file("DIR/Below/A name longer than eleven.text", "0123456789 and so on\n", 5000),
            file("EMPTY", "", 1),
        ];
        assert_passed(&run(&platform, &Config { write: write.clone(), ..Config::default() }));
        for file in &write {
            assert_eq!(found(&platform, &file.path), file.contents(), "{}", file.path);
        }
        // After a restart it finds the files that it wrote.
        let changed = vec![file("DIR/HELLO.TXT", "shorter", 1), file("HELLO.TXT", "longer by far\n", 3000)];
        assert_passed(&run(&platform, &Config { expect: write.clone(), write: changed.clone(), ..Config::default() }));
        for file in changed.iter().chain(&write[2..]) {
            assert_eq!(found(&platform, &file.path), file.contents(), "{}", file.path);
        }
        dump(&platform, block_shift);
    }
}

/// Writes the disk to a file for other tools: `FAT_IMAGES=/tmp cargo test -p fat`.
fn dump(platform: &FakePlatform, block_shift: u8) {
    if let Some(folder) = std::env::var_os("FAT_IMAGES") {
        let image = std::path::Path::new(&folder).join(format!("fat-{}.img", 1 << block_shift));
        std::fs::write(image, platform.server(|server| server.disk.clone())).unwrap();
    }
}

#[test]
fn files_of_another_implementation_are_found_and_stay() {
    let platform = FakePlatform::new(&setup(9));
    put_volume(&platform, "DIR/Old file.txt", "from the build machine");
    let expect = vec![file("DIR/Old file.txt", "from the build machine", 1)];
    let write = vec![file("DIR/NEW.TXT", "from the tenant", 1)];
    assert_passed(&run(&platform, &Config { expect, write, ..Config::default() }));
    assert_eq!(found(&platform, "DIR/NEW.TXT"), "from the tenant");
    assert_eq!(found(&platform, "DIR/Old file.txt"), "from the build machine");
}

#[test]
fn new_file_system_has_no_old_files() {
    let platform = FakePlatform::new(&setup(9));
    put_volume(&platform, "OLD.TXT", "from the build machine");
    let expect = vec![file("OLD.TXT", "from the build machine", 1)];
    let reports = run(&platform, &Config { format: true, expect, ..Config::default() });
    assert_failed(&reports, "read OLD.TXT: entry not found");
}

#[test]
fn files_that_are_not_there_or_differ_are_reported() {
    let platform = FakePlatform::new(&setup(9));
    put_volume(&platform, "OLD.TXT", "from the build machine");
    let cases = [
        ("GONE.TXT", "", "read GONE.TXT: entry not found"),
        ("OLD.TXT", "from the build farm", "OLD.TXT differs from what it is to hold at byte 15"),
        ("OLD.TXT", "from the build machine, and more", "OLD.TXT differs from what it is to hold at byte 22"),
        ("OLD.TXT", "", "OLD.TXT differs from what it is to hold at byte 0"),
    ];
    for (path, text, expected) in cases {
        assert_failed(&run(&platform, &Config { expect: vec![file(path, text, 1)], ..Config::default() }), expected);
    }
}

#[test]
fn other_file_systems_are_not_formatted_unasked() {
    // A superblock of ext4 begins at 1024, one of btrfs at 65536.
    for at in [0, 1024 + 56, (64 << 10) + 64] {
        let platform = FakePlatform::new(&setup(9));
        platform.server(|server| server.disk[at] = 0x53);
        assert_failed(&run(&platform, &Config::default()), "no FAT volume: write format = true");
        assert_passed(&run(&platform, &Config { format: true, ..Config::default() }));
    }
}

#[test]
fn damaged_volume_is_not_formatted_unasked() {
    let platform = FakePlatform::new(&setup(9));
    put_volume(&platform, "OLD.TXT", "from the build machine");
    let damaged = platform.server(|server| {
        // Sectors of no bytes.
        server.disk[11..13].fill(0);
        server.disk.clone()
    });
    assert_failed(&run(&platform, &Config::default()), "mount: corrupt filesystem");
    assert!(platform.server(|server| server.disk == damaged));
    assert_passed(&run(&platform, &Config { format: true, ..Config::default() }));
}

#[test]
fn refused_and_failed_requests_are_reported_with_their_status() {
    let write = || Config { write: vec![file("HELLO.TXT", "hello", 1)], ..Config::default() };
    let platform = FakePlatform::new(&Setup { writable: false, ..setup(9) });
    assert_failed(&run(&platform, &write()), "format: ");
    let platform = FakePlatform::new(&setup(9));
    platform.server(|server| server.bad_block = Some(0));
    assert_failed(&run(&platform, &write()), "stream: media error");
    let platform = FakePlatform::new(&setup(9));
    put_volume(&platform, "OLD.TXT", "old");
    platform.server(|server| server.bad_block = Some(1));
    assert_failed(&run(&platform, &write()), "media error");
}

#[test]
fn sessions_that_hold_no_volume_and_windows_that_hold_no_block_are_reported() {
    let platform = FakePlatform::new(&Setup { blocks: 8, ..setup(9) });
    assert_failed(&run(&platform, &Config::default()), "format: volume size 4096 bytes is too small");
    let platform = FakePlatform::new(&setup(9));
    assert_failed(&run(&platform, &Config { buffer_bytes: 511, ..Config::default() }), "no free range of the window");
    let full = Config { write: vec![file("BIG", "0123456789abcdef", 1 << 20)], ..Config::default() };
    assert_failed(&run(&platform, &full), "write BIG: no free clusters");
}

#[test]
fn scenario_has_a_configuration_that_the_program_carries_out() {
    let scenario: toml::Table = toml::from_str(include_str!("../../../scenarios/fat.toml")).unwrap();
    let program = &scenario["tenant"][0]["program"];
    assert_eq!(program["path"].as_str(), Some("../blk-clients/fat"));
    let config: Config = program["config"].clone().try_into().unwrap();
    let platform = FakePlatform::new(&setup(9));
    assert_passed(&run(&platform, &config));
    assert!(!config.write.is_empty());
    for file in &config.write {
        assert_eq!(found(&platform, &file.path), file.contents());
    }
    for unknown in ["formats = true", "write = [{ path = 'A', text = '', size = 1 }]", "write = [{ path = 'A' }]"] {
        assert!(toml::from_str::<Config>(unknown).is_err(), "{unknown}");
    }
    assert_eq!(toml::from_str::<Config>("").unwrap(), Config::default());
}

#[test]
fn configuration_with_unknown_keys_is_a_failure() {
    let platform = FakePlatform::new(&setup(9));
    let reports = platform.run(&BTreeMap::from([("formats", true)]), fat::run);
    assert_failed(&reports, "its configuration cannot be read: unknown field `formats`");
}

//! Namespace management and attachment.

use nvme_spec::admin::{self, Attachment, Cns};
use nvme_spec::event::AsyncEvent;
use nvme_spec::feature::{AsyncEvents, Feature, set_feature};
use nvme_spec::identify::{Controller, ControllerList, Namespace, NamespaceList};
use nvme_spec::log::{ErrorEntry, LogPage};
use nvme_spec::nvm::{self, Blocks};
use nvme_spec::{Cid, Lba, Nsid, Sqe, StatusCode};
use proptest::prelude::*;
use sim_nvme::{AdminConfig, Config};

use super::support::{Driver, PAGE, config, zeroed};

const CID: Cid = Cid(0);

/// A namespace of this many blocks of 512 bytes.
fn wanted(blocks: u64) -> Namespace {
    let mut namespace: Namespace = zeroed();
    namespace.nsze.set(blocks);
    namespace.ncap.set(blocks);
    namespace
}

fn create(driver: &mut Driver, namespace: &Namespace) -> Nsid {
    driver.put(namespace);
    Nsid(driver.succeed(admin::create_namespace(CID, PAGE)))
}

fn refuse_creation(driver: &mut Driver, namespace: &Namespace, code: StatusCode) {
    driver.put(namespace);
    driver.refuse(admin::create_namespace(CID, PAGE), code);
}

fn attachment(driver: &mut Driver, operation: Attachment, nsid: Nsid) -> Sqe {
    driver.put(&ControllerList::of([0].into_iter()));
    admin::namespace_attachment(CID, operation, nsid, PAGE)
}

fn attach(driver: &mut Driver, nsid: Nsid) {
    let sqe = attachment(driver, Attachment::Attach, nsid);
    driver.succeed(sqe);
}

fn unallocated(driver: &mut Driver) -> u128 {
    driver.succeed(admin::identify_controller(CID, PAGE));
    let about: Controller = driver.data();
    assert_eq!(about.tnvmcap.get(), 2 << 20);
    about.unvmcap.get()
}

fn listed(driver: &mut Driver, cns: Cns) -> Vec<u32> {
    driver.succeed(admin::identify(CID, cns, Nsid::NONE, PAGE));
    driver.data::<NamespaceList>().iter().map(|nsid| nsid.0).collect()
}

fn identify(driver: &mut Driver, nsid: Nsid) -> Namespace {
    driver.succeed(admin::identify(CID, Cns::AllocatedNamespace, nsid, PAGE));
    driver.data()
}

#[test]
fn a_new_namespace_is_allocated_and_not_active_until_attached() {
    let mut driver = Driver::new(config());
    driver.make_io_queue();
    let nsid = create(&mut driver, &wanted(1024));
    assert_eq!(nsid, Nsid(2));
    assert_eq!(unallocated(&mut driver), 512 << 10);
    assert_eq!(listed(&mut driver, Cns::ActiveNamespaces), [1]);
    assert_eq!(listed(&mut driver, Cns::AllocatedNamespaces), [1, 2]);
    let write = nvm::write(CID, nsid, Blocks::new(Lba(1023), 1).unwrap(), PAGE);
    assert_eq!(driver.io(write).status().code(), StatusCode::InvalidField);
    attach(&mut driver, nsid);
    assert_eq!(listed(&mut driver, Cns::ActiveNamespaces), [1, 2]);
    assert!(driver.io(write).status().is_success());
    let sqe = attachment(&mut driver, Attachment::Detach, nsid);
    driver.succeed(sqe);
    assert_eq!(driver.io(write).status().code(), StatusCode::InvalidField);
    driver.assert_clean();
}

#[test]
fn invalid_nsids_of_io_commands_differ_from_inactive_ones() {
    let mut driver = Driver::new(config());
    driver.make_io_queue();
    let read = |nsid| nvm::read(CID, Nsid(nsid), Blocks::new(Lba(0), 1).unwrap(), PAGE);
    for (nsid, code) in [
        (0, StatusCode::InvalidNamespaceOrFormat),
        (2, StatusCode::InvalidField),
        (256, StatusCode::InvalidField),
        (257, StatusCode::InvalidNamespaceOrFormat),
        (u32::MAX - 1, StatusCode::InvalidNamespaceOrFormat),
        (u32::MAX, StatusCode::InvalidField),
    ] {
        assert_eq!(driver.io(read(nsid)).status().code(), code, "{nsid:#x}");
    }
}

#[test]
fn a_namespace_is_created_as_described() {
    let mut driver = Driver::new(config());
    let mut asked = wanted(16);
    asked.flbas = 1;
    asked.nmic = 1;
    let nsid = create(&mut driver, &asked);
    let about = identify(&mut driver, nsid);
    assert_eq!((about.nsze.get(), about.ncap.get(), about.block_bytes()), (16, 16, Some(4096)));
    assert_eq!((about.nmic, about.nvmcap.get()), (1, 65536));
    assert_ne!(about.nguid, [0; 16]);
    let other = create(&mut driver, &wanted(1));
    assert_ne!(identify(&mut driver, other).nguid, about.nguid);
}

#[test]
fn what_a_namespace_cannot_be_is_refused() {
    let mut driver = Driver::new(config());
    let change = |change: fn(&mut Namespace)| {
        let mut namespace = wanted(8);
        change(&mut namespace);
        namespace
    };
    for (namespace, code) in [
        (change(|it| it.nsze.set(0)), StatusCode::InvalidField),
        (change(|it| it.ncap.set(0)), StatusCode::InvalidField),
        (change(|it| it.ncap.set(9)), StatusCode::InvalidField),
        (change(|it| it.ncap.set(7)), StatusCode::ThinProvisioningUnsupported),
        (change(|it| it.flbas = 2), StatusCode::InvalidFormat),
        (change(|it| it.flbas = 0x10), StatusCode::InvalidField),
        (change(|it| it.dps = 1), StatusCode::InvalidFormat),
        (change(|it| it.nmic = 2), StatusCode::InvalidField),
        (change(|it| it.nuse.set(1)), StatusCode::InvalidField),
        (change(|it| it.anagrpid.set(1)), StatusCode::InvalidField),
        (change(|it| it.nvmsetid.set(1)), StatusCode::InvalidField),
    ] {
        refuse_creation(&mut driver, &namespace, code);
    }
    assert_eq!(unallocated(&mut driver), 1 << 20);
    driver.refuse_field(Sqe { nsid: 5, ..admin::create_namespace(CID, PAGE) }, 1);
    driver.refuse_field(Sqe { cdw10: 2, ..admin::create_namespace(CID, PAGE) }, 10);
}

#[test]
fn too_little_capacity_is_reported_with_what_is_needed() {
    let mut driver = Driver::new(config());
    refuse_creation(&mut driver, &wanted(2049), StatusCode::NamespaceInsufficientCapacity);
    let [entry]: [ErrorEntry; 1] = driver.log(LogPage::ErrorInformation);
    assert_eq!(entry.command_specific.get(), 2049 * 512);
    refuse_creation(&mut driver, &wanted(u64::MAX), StatusCode::NamespaceInsufficientCapacity);
    create(&mut driver, &wanted(2048));
    refuse_creation(&mut driver, &wanted(1), StatusCode::NamespaceInsufficientCapacity);
}

#[test]
fn identifiers_run_out() {
    let admin = AdminConfig { max_namespaces: 2, ..AdminConfig::default() };
    let mut driver = Driver::new(Config { admin, ..config() });
    assert_eq!(create(&mut driver, &wanted(1)), Nsid(2));
    refuse_creation(&mut driver, &wanted(1), StatusCode::NamespaceIdUnavailable);
    driver.succeed(admin::delete_namespace(CID, Nsid(1)));
    assert_eq!(create(&mut driver, &wanted(1)), Nsid(1));
}

#[test]
fn deletion_gives_capacity_back_and_detaches() {
    let mut driver = Driver::new(config());
    driver.make_io_queue();
    driver.succeed(admin::delete_namespace(CID, Nsid(1)));
    assert_eq!(unallocated(&mut driver), 2 << 20);
    assert_eq!(listed(&mut driver, Cns::AllocatedNamespaces), [0; 0]);
    let read = nvm::read(CID, Nsid(1), Blocks::new(Lba(0), 1).unwrap(), PAGE);
    assert_eq!(driver.io(read).status().code(), StatusCode::InvalidField);
    driver.refuse(admin::delete_namespace(CID, Nsid(1)), StatusCode::InvalidField);
    driver.refuse(admin::delete_namespace(CID, Nsid::NONE), StatusCode::InvalidNamespaceOrFormat);
    driver.refuse(admin::delete_namespace(CID, Nsid(257)), StatusCode::InvalidNamespaceOrFormat);
}

#[test]
fn the_broadcast_value_deletes_every_namespace() {
    let mut driver = Driver::new(config());
    create(&mut driver, &wanted(8));
    driver.succeed(admin::delete_namespace(CID, Nsid::ALL));
    assert_eq!(listed(&mut driver, Cns::AllocatedNamespaces), [0; 0]);
    assert_eq!(unallocated(&mut driver), 2 << 20);
}

#[test]
fn a_deleted_namespace_leaves_nothing_to_its_successor() {
    let mut driver = Driver::new(config());
    driver.make_io_queue();
    let block = Blocks::new(Lba(3), 1).unwrap();
    driver.fill(0x5a);
    assert!(driver.io(nvm::write(CID, Nsid(1), block, PAGE)).status().is_success());
    driver.succeed(admin::delete_namespace(CID, Nsid(1)));
    assert_eq!(create(&mut driver, &wanted(2048)), Nsid(1));
    attach(&mut driver, Nsid(1));
    driver.fill(0xee);
    assert!(driver.io(nvm::read(CID, Nsid(1), block, PAGE)).status().is_success());
    assert_eq!(driver.data::<[u8; 512]>(), [0; 512]);
}

#[test]
fn attaching_twice_and_detaching_twice_are_refused() {
    let mut driver = Driver::new(config());
    let sqe = attachment(&mut driver, Attachment::Attach, Nsid(1));
    driver.refuse(sqe, StatusCode::NamespaceAttached);
    let sqe = attachment(&mut driver, Attachment::Detach, Nsid(1));
    driver.succeed(sqe);
    driver.refuse(sqe, StatusCode::NamespaceNotAttached);
    for (nsid, code) in [
        (Nsid(9), StatusCode::InvalidField),
        (Nsid::ALL, StatusCode::InvalidField),
        (Nsid::NONE, StatusCode::InvalidNamespaceOrFormat),
        (Nsid(257), StatusCode::InvalidNamespaceOrFormat),
    ] {
        let sqe = attachment(&mut driver, Attachment::Attach, nsid);
        driver.refuse(sqe, code);
    }
    driver.refuse_field(Sqe { cdw10: 2, ..sqe }, 10);
}

#[test]
fn only_a_list_of_this_controller_alone_is_taken() {
    let mut driver = Driver::new(config());
    let detach = admin::namespace_attachment(CID, Attachment::Detach, Nsid(1), PAGE);
    for ids in [vec![], vec![1], vec![0, 1], vec![0, 0]] {
        driver.put(&ControllerList::of(ids.into_iter()));
        driver.refuse(detach, StatusCode::ControllerListInvalid);
    }
    let mut endless = ControllerList::of([0].into_iter());
    endless.count.set(2048);
    driver.put(&endless);
    driver.refuse(detach, StatusCode::ControllerListInvalid);
}

#[test]
fn only_changes_of_attached_namespaces_are_reported() {
    let mut driver = Driver::new(config());
    let events = AsyncEvents::new().with_namespace_changed(true).into_bits();
    driver.succeed(set_feature(CID, Feature::AsyncEvents, events));
    let cid = driver.submit(0, admin::async_event_request(CID));
    let nsid = create(&mut driver, &wanted(8));
    driver.succeed(admin::delete_namespace(CID, nsid));
    assert_eq!(driver.completion(cid), None);
    let nsid = create(&mut driver, &wanted(8));
    attach(&mut driver, nsid);
    driver.succeed(admin::delete_namespace(CID, Nsid(1)));
    assert_eq!(AsyncEvent::from_bits(driver.wait(cid).dw0), AsyncEvent::NAMESPACE_CHANGED);
    let changed: NamespaceList = driver.log(LogPage::ChangedNamespaces);
    assert_eq!(changed.iter().collect::<Vec<_>>(), [Nsid(1), Nsid(2)]);
}

#[test]
fn a_command_under_way_when_its_namespace_goes_fails() {
    let mut driver = Driver::new(config());
    driver.make_io_queue();
    let read = driver.submit(1, nvm::read(CID, Nsid(1), Blocks::new(Lba(0), 8).unwrap(), PAGE));
    let delete = driver.submit(0, admin::delete_namespace(CID, Nsid(1)));
    assert!(driver.wait(delete).status().is_success());
    // In either order the read is answered once, and later ones fail.
    driver.wait(read);
    let later = driver.io(nvm::read(CID, Nsid(1), Blocks::new(Lba(0), 8).unwrap(), PAGE));
    assert_eq!(later.status().code(), StatusCode::InvalidField);
}

#[derive(Clone, Debug)]
enum Step {
    Create(u64),
    Delete(u32),
    Attach(u32),
    Detach(u32),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (1..800_u64).prop_map(Step::Create),
        (1..6_u32).prop_map(Step::Delete),
        (1..6_u32).prop_map(Step::Attach),
        (1..6_u32).prop_map(Step::Detach),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Capacity is neither made nor lost, and the two lists agree with what succeeded.
    #[test]
    fn capacity_and_lists_add_up(steps in proptest::collection::vec(step(), 1..20)) {
        let mut driver = Driver::new(config());
        let mut there = std::collections::BTreeMap::from([(1, (1_u128 << 20, true))]);
        for step in steps {
            let sqe = match step {
                Step::Create(blocks) => {
                    driver.put(&wanted(blocks));
                    admin::create_namespace(CID, PAGE)
                }
                Step::Delete(nsid) => admin::delete_namespace(CID, Nsid(nsid)),
                Step::Attach(nsid) => attachment(&mut driver, Attachment::Attach, Nsid(nsid)),
                Step::Detach(nsid) => attachment(&mut driver, Attachment::Detach, Nsid(nsid)),
            };
            let answer = driver.admin(sqe);
            let free: u128 = (2 << 20) - there.values().map(|(bytes, _)| bytes).sum::<u128>();
            let expected = match step {
                Step::Create(blocks) => u128::from(blocks) * 512 <= free,
                Step::Delete(nsid) => there.remove(&nsid).is_some(),
                Step::Attach(nsid) => there.get_mut(&nsid).is_some_and(|(_, on)| !std::mem::replace(on, true)),
                Step::Detach(nsid) => there.get_mut(&nsid).is_some_and(|(_, on)| std::mem::replace(on, false)),
            };
            prop_assert_eq!(answer.status().is_success(), expected);
            if let (Step::Create(blocks), true) = (step, expected) {
                prop_assert!(there.insert(answer.dw0, (u128::from(blocks) * 512, false)).is_none());
            }
        }
        let active: Vec<u32> = there.iter().filter(|(_, (_, on))| *on).map(|(nsid, _)| *nsid).collect();
        let free: u128 = (2 << 20) - there.values().map(|(bytes, _)| bytes).sum::<u128>();
        prop_assert_eq!(unallocated(&mut driver), free);
        prop_assert_eq!(listed(&mut driver, Cns::ActiveNamespaces), active);
        prop_assert_eq!(listed(&mut driver, Cns::AllocatedNamespaces), there.into_keys().collect::<Vec<_>>());
    }
}

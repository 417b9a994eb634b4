use proptest::prelude::*;

use super::*;

const CONTROLLER: u16 = 0x0100;
const SERVER: u32 = 1;
const TENANT: u32 = 2;

fn request(session: u32, number: u64) -> RequestId {
    RequestId { session, number }
}

/// A server with a pool at pages 0..8, and sessions 1 and 2 with windows at 16..24 and 24..32.
fn system() -> Authority {
    let mut authority = Authority::new();
    authority.may(SERVER, 0..8, Rights::READ_WRITE);
    authority.may(TENANT, 16..24, Rights::READ_WRITE);
    authority.may(TENANT, 40..44, Rights::READ);
    authority.pool(CONTROLLER, 0..6, Rights::READ_WRITE);
    authority.pool(CONTROLLER, 6..8, Rights::READ);
    authority.window(1, 16..24, Rights::READ_WRITE);
    authority.window(2, 24..32, Rights::READ_WRITE);
    authority
}

fn texts(findings: &Findings) -> Vec<&str> {
    findings.kept().iter().map(|finding| finding.text.as_str()).collect()
}

#[test]
fn a_component_touches_its_own_pages_and_no_others() {
    let mut authority = system();
    let mut findings = Findings::new(10);
    authority.touched(SERVER, 7, Access::Write, 1, &mut findings);
    authority.touched(TENANT, 16, Access::Write, 1, &mut findings);
    authority.touched(TENANT, 43, Access::Read, 1, &mut findings);
    assert!(findings.is_empty(), "{findings}");
    authority.touched(SERVER, 16, Access::Read, 2, &mut findings);
    authority.touched(TENANT, 43, Access::Write, 3, &mut findings);
    authority.touched(99, 7, Access::Read, 4, &mut findings);
    assert_eq!(findings.counted_by(Checker::Authority), 3);
    assert_eq!(findings.kept()[1].text, "it did a write of page 0x2b000, and should have been able to read only");
    authority.may_not(TENANT, 16..17);
    authority.touched(TENANT, 17, Access::Write, 5, &mut findings);
    assert_eq!(findings.counted(), 3);
    authority.touched(TENANT, 16, Access::Read, 6, &mut findings);
    assert_eq!(findings.counted(), 4);
}

#[test]
fn a_device_uses_its_pool_and_no_other_functions() {
    let mut authority = system();
    let mut findings = Findings::new(10);
    authority.transfer(CONTROLLER, 5, Access::Write, 1, &mut findings);
    authority.transfer(CONTROLLER, 6, Access::Read, 1, &mut findings);
    assert!(findings.is_empty(), "{findings}");
    authority.transfer(CONTROLLER, 6, Access::Write, 2, &mut findings);
    authority.transfer(CONTROLLER + 1, 5, Access::Read, 3, &mut findings);
    authority.pool_gone(CONTROLLER, 5..6);
    authority.transfer(CONTROLLER, 5, Access::Write, 4, &mut findings);
    assert_eq!(
        texts(&findings),
        [
            "it did a write of page 0x6000, which it should have been able to read only",
            "it did a read of page 0x5000, which is neither in its server's pool nor in any window",
            "it did a write of page 0x5000, which is neither in its server's pool nor in any window",
        ]
    );
}

#[test]
fn device_access_to_a_window_needs_a_lease() {
    let mut authority = system();
    let mut findings = Findings::new(10);
    authority.lease(request(1, 5), CONTROLLER, &[16, 17], Access::Write, 1, &mut findings);
    authority.transfer(CONTROLLER, 17, Access::Write, 2, &mut findings);
    assert!(findings.is_empty(), "{findings}");
    authority.transfer(CONTROLLER, 17, Access::Read, 3, &mut findings);
    authority.transfer(CONTROLLER, 18, Access::Write, 4, &mut findings);
    authority.transfer(CONTROLLER + 1, 17, Access::Write, 5, &mut findings);
    authority.release(request(1, 5));
    authority.transfer(CONTROLLER, 17, Access::Write, 6, &mut findings);
    let idle = "which is in the window of session 1 without a request in flight";
    assert_eq!(
        texts(&findings),
        [
            "it did a read of page 0x11000, which a request in flight covers for the other direction only".to_owned(),
            format!("it did a write of page 0x12000, {idle}"),
            format!("it did a write of page 0x11000, {idle}"),
            format!("it did a write of page 0x11000, {idle}"),
        ]
    );
}

#[test]
fn a_lease_stays_inside_the_window_of_its_session() {
    let mut authority = system();
    let mut findings = Findings::new(10);
    authority.lease(request(1, 1), CONTROLLER, &[23, 24], Access::Write, 1, &mut findings);
    authority.lease(request(3, 1), CONTROLLER, &[16], Access::Read, 2, &mut findings);
    authority.window_gone(2, 24..32);
    authority.lease(request(2, 1), CONTROLLER, &[24], Access::Read, 3, &mut findings);
    assert_eq!(findings.counted(), 3);
    authority.lease(request(1, 2), CONTROLLER, &[16], Access::Write, 4, &mut findings);
    assert_eq!(findings.counted(), 3);
    authority.lease(request(1, 2), CONTROLLER, &[17], Access::Write, 5, &mut findings);
    assert_eq!(findings.counted(), 4);
}

proptest! {
    /// Requests come and go in any order. A device is never reported while it keeps to the requests in flight; each of its
    /// other accesses is.
    #[test]
    fn leases_cover_exactly_what_is_in_flight(
        steps in prop::collection::vec((0..6_u64, 0..8_u64, 1..4_u64, any::<bool>()), 1..60),
    ) {
        let mut authority = system();
        let mut findings = Findings::new(10);
        let mut flying: BTreeMap<u64, (Range<u64>, Access)> = BTreeMap::new();
        for (number, first, count, reading) in steps {
            let device = if reading { Access::Write } else { Access::Read };
            if flying.remove(&number).is_some() {
                authority.release(request(1, number));
            } else {
                let pages = 16 + first..(16 + first + count).min(24);
                let list: Vec<u64> = pages.clone().collect();
                authority.lease(request(1, number), CONTROLLER, &list, device, 0, &mut findings);
                flying.insert(number, (pages, device));
            }
            prop_assert!(findings.is_empty(), "{}", findings);
            for page in 14..34 {
                for access in [Access::Read, Access::Write] {
                    let covered = flying.values().any(|(pages, device)| pages.contains(&page) && *device == access);
                    let mut reported = Findings::new(1);
                    authority.transfer(CONTROLLER, page, access, 0, &mut reported);
                    prop_assert_eq!(reported.is_empty(), covered, "page {} {}", page, access);
                }
            }
        }
        for number in 0..6 {
            authority.release(request(1, number));
        }
        prop_assert_eq!((authority.leases(), authority.leased.len()), (0, 0));
    }
}

//! Calls at the policy component: any label and words from any badge, orders of an operator, a server that answers anything or dies,
//! ticks, and changes of rights under way.
//!
//! The law: every call is answered. A record installed at the server covers the caller's own blocks, at the place where the
//! scenario puts them, and has no right that the caller does not have by then. Between two ticks a client has a bounded
//! number of records installed. An answer with `DONE` covers blocks that were installed for it. An order is taken only from a badge
//! with its right. The blocks and rights for comparison are counted here block by block.

mod world;

use self::world::World;
use crate::target::{Subject, Target};
use arbitrary::{Result, Unstructured};
use blk_api::config::Class;
use blk_api::extent::{Blocks, Extent};
use blk_api::orders::{self, RightsOrder, ShareChange, ShareOrder};
use blk_api::policy::{self, Asked, Change, Covered, Entitlement, Holder, PolicyConfig, READ, Record, WRITE, What};
use platform::{Badge, Event, Incarnation, Message};
use std::ops::Range;

/// The target.
pub const TARGET: Target = Target { name: "policy-calls", law, seeds };

/// Records that one client has installed between two ticks, at most.
const RECORDS_A_TICK: usize = 8192;
const STEPS: usize = 64;
/// Times at which the moments of the two changes of rights come.
const MOMENTS_MS: [u64; 2] = [REVOKED_MS, GRANTED_MS];
const REVOKED_MS: u64 = 300;
const GRANTED_MS: u64 = 700;

/// Two sessions on one namespace: one of three extents, one of which it may only read, and one that may only read.
fn config() -> PolicyConfig {
    let read_only = |first, blocks| Extent { first, blocks, writable: false };
    let share = Entitlement { class: Class::Low, weight: 1, iops: None, bandwidth: None, queue_pairs: 1, depth: 8 };
    let holder = |tenant: &str, extents, writable| Holder { tenant: tenant.into(), nsid: 1, extents, writable };
    PolicyConfig {
        functions: vec![],
        shares: vec![share; 2],
        sessions: vec![
            holder("first", vec![Extent::new(100, 50), read_only(10, 30), Extent::new(150, 20)], true),
            holder("second", vec![read_only(200, 64), read_only(10, 30)], false),
        ],
        changes: vec![
            Change { moment: 0, session: 0, what: What::Revoke(vec![Blocks { first: 110, blocks: 20 }]) },
            Change { moment: 1, session: 0, what: What::Grant(vec![Extent::new(115, 10)]) },
        ],
        interrupts: Vec::new(),
    }
}

/// Sessions, and the blocks that each numbers.
const NUMBERED: [u64; 2] = [100, 94];

/// The place of a session's block, and the session's rights there at first; `None` for a block it does not number.
fn at_first(session: usize, block: u64) -> Option<(u64, u32)> {
    match (session, block) {
        (0, 0..50) => Some((100 + block, READ | WRITE)),
        (0, 50..80) => Some((10 + block - 50, READ)),
        (0, 80..100) => Some((150 + block - 80, READ | WRITE)),
        (1, 0..64) => Some((200 + block, READ)),
        (1, 64..94) => Some((10 + block - 64, READ)),
        _ => None,
    }
}

/// The places and rights of all blocks that sessions number, as they are now.
struct Rights([Vec<(u64, u32)>; 2]);

impl Rights {
    fn at_first() -> Self {
        Self([0, 1].map(|session| (0..NUMBERED[session]).filter_map(|block| at_first(session, block)).collect()))
    }

    /// Gives the session these rights to blocks of the namespace, and no others.
    fn change(&mut self, session: u32, blocks: Range<u64>, rights: u32) {
        let own = self.0.get_mut(session as usize).into_iter().flatten();
        own.filter(|(lba, _)| blocks.contains(lba)).for_each(|(_, has)| *has = rights);
    }

    fn of(&self, session: u32, block: u64) -> Option<(u64, u32)> {
        self.0.get(session as usize)?.get(usize::try_from(block).ok()?).copied()
    }
}

fn law(input: &[u8], subject: Subject) {
    let mut rest = Unstructured::new(input);
    let mut world = World::start(&config());
    let (mut installed, mut covered, mut rights) = ([0usize; 2], Vec::new(), Rights::at_first());
    let mut before_ms = 0;
    for _ in 0..STEPS {
        if rest.is_empty() {
            break;
        }
        let Ok(done) = step(&world, &mut rest) else { break };
        let tick = matches!(done, Event::Signal(badge) if badge.has(Badge::TICK));
        let caller = if let Event::Message(badge, message) = &done { Some((*badge, message.clone())) } else { None };
        if tick {
            installed = [0; 2];
        }
        world.deliver(done);
        let ms = world.ms();
        let has_come = |at_ms: u64| before_ms < at_ms && ms >= at_ms;
        if has_come(REVOKED_MS) {
            rights.change(0, 110..130, 0);
        }
        if has_come(GRANTED_MS) {
            rights.change(0, 115..125, READ | WRITE);
        }
        before_ms = ms;
        let answer = caller.as_ref().map(|_| world.take_answer().expect("a call is answered"));
        let order = caller.as_ref().filter(|(badge, _)| badge.0 & orders::BADGE != 0);
        if let (Some((badge, message)), Some(answer)) = (order, &answer) {
            take_order(*badge, message, answer, &mut rights);
        }
        for record in world.take_installed() {
            assert_own(&record, caller.as_ref().map(|(badge, _)| *badge), &rights, subject);
            installed[record.session as usize] += 1;
            covered.push(record);
        }
        assert!(installed.iter().all(|count| *count <= RECORDS_A_TICK), "{installed:?} records between two ticks");
        let (Some((badge, message)), Some(answer)) = (caller, answer) else { continue };
        if answer.label == policy::DONE && badge.0 & orders::BADGE == 0 {
            assert_covered(badge, &message, &answer, &covered);
        }
    }
}

/// Changes the rights by an order that was taken, and checks that its badge has the right to it.
fn take_order(badge: Badge, message: &Message, answer: &Message, rights: &mut Rights) {
    if answer.label != policy::DONE {
        return;
    }
    let needed = match message.label {
        orders::SHARE => orders::MAY_SHARE,
        orders::RIGHTS => orders::MAY_RIGHTS,
        orders::OUTCOME => return,
        label => panic!("the order {label} is taken"),
    };
    assert!(badge.0 & needed != 0, "{message:?} of {badge:?} is taken");
    if let (orders::RIGHTS, Ok(RightsOrder { session, rights: given, first, blocks })) =
        (message.label, message.payload())
    {
        rights.change(session, first..first + blocks, given);
    }
}

/// Checks that a record is one of the caller's own or, for a change, a refusal of the session that it is about.
fn assert_own(record: &Record, caller: Option<Badge>, rights: &Rights, subject: Subject) {
    let Record { session, rights: has, first, lba, blocks } = *record;
    assert!(session < 2 && blocks > 0, "{record:?}");
    let own = caller.is_none_or(|badge| badge.0 == u64::from(session) + 1) || has == 0;
    assert!(own, "{record:?} of a call with {caller:?}");
    for block in 0..blocks {
        let (at, may) = rights.of(session, first + block).unwrap_or_else(|| panic!("{record:?} beyond its session"));
        // The planted defect: as if the first session could not write any of its blocks.
        let may = if subject == Subject::Planted && session == 0 { may & READ } else { may };
        assert_eq!(at, lba + block, "{record:?} puts block {block} elsewhere");
        assert!(has & !may == 0, "{record:?} gives rights that the session does not have");
    }
}

/// Checks that the blocks an answer covers were installed for the caller, at some time.
fn assert_covered(badge: Badge, message: &Message, answer: &Message, installed: &[Record]) {
    let (Ok(asked), Ok(Covered { blocks })) = (message.payload::<Asked>(), answer.payload()) else {
        panic!("{message:?} was answered with {answer:?}")
    };
    assert!(blocks > 0, "{asked:?} was done, and covers nothing");
    let own = |record: &&Record| u64::from(record.session) + 1 == badge.0;
    let holds = |block| installed.iter().filter(own).any(|r| (r.first..r.first + r.blocks).contains(&block));
    assert!((asked.first..asked.first + blocks).all(holds), "{asked:?} has {blocks} blocks covered, not all installed");
}

/// Draws the next event; it can also change the server's answer, the time and the liveness page.
fn step(world: &World, input: &mut Unstructured<'_>) -> Result<Event> {
    let badge = Badge(if input.ratio(1, 16)? { input.arbitrary()? } else { input.int_in_range(0..=3)? });
    Ok(match input.int_in_range(0..=8u8)? {
        0 | 1 => {
            let asked = Asked { first: input.int_in_range(0..=110)?, blocks: input.int_in_range(0..=110)? };
            Event::Message(badge, Message::with(policy::ASK, &asked))
        }
        2 => Event::Message(
            badge,
            Message::with(policy::ASK, &Asked { first: input.arbitrary()?, blocks: input.arbitrary()? }),
        ),
        3 => {
            let words: Vec<u64> = (0..input.int_in_range(0..=5)?).map(|_| input.arbitrary()).collect::<Result<_>>()?;
            Event::Message(badge, Message::from_words(input.arbitrary()?, &words))
        }
        4 => {
            world.pass(input.int_in_range(0..=400)?);
            for (moment, _) in (0..).zip(MOMENTS_MS).filter(|(_, at_ms)| world.ms() >= *at_ms) {
                world.announce(moment);
            }
            Event::Signal(Badge(Badge::SIGNAL | Badge::TICK))
        }
        5 => {
            let words: Vec<u64> = (0..input.int_in_range(0..=3)?).map(|_| input.arbitrary()).collect::<Result<_>>()?;
            let label =
                if input.arbitrary()? { policy::DONE } else { Message::ANSWERS + input.int_in_range(0..=24)? };
            world.server_answers(&Message::from_words(label, &words));
            Event::Signal(Badge(Badge::SIGNAL | 1))
        }
        6 => {
            let order = RightsOrder {
                session: input.int_in_range(0..=2)?,
                rights: input.int_in_range(0..=4)?,
                first: input.int_in_range(0..=300)?,
                blocks: input.int_in_range(0..=70)?,
            };
            Event::Message(operator(input)?, Message::with(orders::RIGHTS, &order))
        }
        7 => {
            let change = ShareChange { weight: Some(input.arbitrary()?), ..ShareChange::default() };
            let order = ShareOrder::new(input.int_in_range(0..=2)?, &change);
            let message =
                if input.arbitrary()? { Message::with(orders::SHARE, &order) } else { Message::new(orders::OUTCOME) };
            Event::Message(operator(input)?, message)
        }
        _ => {
            let incarnation = Incarnation::load(world.liveness()).unwrap_or_default();
            incarnation.next().store(world.liveness()).expect("a liveness page");
            Event::Signal(Badge(Badge::SIGNAL | Badge::TICK))
        }
    })
}

/// A badge of the control component, with some of its rights.
fn operator(input: &mut Unstructured<'_>) -> Result<Badge> {
    Ok(Badge(orders::BADGE | input.int_in_range(0..=3)?))
}

/// Both clients ask for all their blocks; a tick after the first change; and again.
fn seeds() -> Vec<Vec<u8>> {
    let ask = |badge: u8, first: u8, blocks: u8| [16, badge, 0, first, blocks];
    let all = [ask(1, 0, 100), ask(2, 0, 94), ask(1, 60, 5)].concat();
    let tick: &[u8] = &[16, 0, 4, 0x2c, 1];
    vec![all.clone(), [&all, tick, &all].concat()]
}

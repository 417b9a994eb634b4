//! The admin commands: which exist, the effects of each, and the fields that each has.
//!
//! One table has three uses. Dispatch refuses commands that are not in it, and the check of reserved fields takes its
//! masks from it. The Commands Supported and Effects log (section 5.14.1.5) is made from it, so the log cannot differ.

use nvme_spec::admin::Opcode;
use nvme_spec::log::{CommandEffects, Effects, Execution, Scope};
use nvme_spec::{Sqe, Status, StatusCode, nvm};
use zerocopy::FromZeros;

use super::errors::Details;
use crate::command::refused;
use crate::config::Config;
use crate::controller::Controller;
use crate::violation::ViolationKind;

/// Effects and fields of a command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub(crate) effects: CommandEffects,
    namespace: Field,
    data: Field,
    /// Bits of CDW10 to CDW15 that are not reserved.
    words: [u32; 6],
}

/// Whether a command has a field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Field {
    Used,
    Reserved,
}

const NO_WORDS: [u32; 6] = [0; 6];

/// The UUID index in CDW14. It is a field of 1.4 and is ignored: there is no UUID list, and the log of effects offers no
/// choice of a UUID for any command (section 8.24).
const UUID_INDEX: u32 = 0x7f;

/// The scope of everything that belongs to one controller.
pub(super) const OF_CONTROLLER: Scope = Scope::new().with_controller(true);

impl Rules {
    /// A command without effects and fields.
    const fn plain() -> Self {
        let effects = CommandEffects::new().with_supported(true);
        Self { effects, namespace: Field::Reserved, data: Field::Reserved, words: NO_WORDS }
    }

    const fn with_words<const N: usize>(mut self, words: [u32; N]) -> Self {
        let mut index = 0;
        while index < N && index < self.words.len() {
            self.words[index] = words[index];
            index += 1;
        }
        self
    }

    const fn with_data(mut self) -> Self {
        self.data = Field::Used;
        self
    }

    const fn with_namespace(mut self) -> Self {
        self.namespace = Field::Used;
        self
    }

    const fn with_effects(mut self, effects: CommandEffects) -> Self {
        self.effects = effects.with_supported(true);
        self
    }
}

/// Returns the command of this opcode, if the controller has it.
pub(crate) fn supported(config: &Config, opcode: u8) -> Option<Opcode> {
    let opcode = Opcode::from_raw(opcode)?;
    rules(config, opcode).map(|_| opcode)
}

/// Returns the rules of a command; `None` for one that the controller does not have.
pub(crate) fn rules(config: &Config, opcode: Opcode) -> Option<Rules> {
    let plain = Rules::plain();
    let none = CommandEffects::new();
    let rules = match opcode {
        Opcode::DeleteIoSq | Opcode::DeleteIoCq => plain.with_words([0xffff]),
        Opcode::CreateIoSq => plain.with_words([u32::MAX, 0xffff_0007]).with_data(),
        Opcode::CreateIoCq => plain.with_words([u32::MAX, 0xffff_0003]).with_data(),
        // The log specific identifier is ignored: no page here defines it. The log specific field is the page's.
        Opcode::GetLogPage => {
            plain.with_words([u32::MAX, u32::MAX, u32::MAX, u32::MAX, UUID_INDEX]).with_namespace().with_data()
        }
        Opcode::Identify => plain.with_words([0xffff_00ff, 0, 0, 0, UUID_INDEX]).with_namespace().with_data(),
        Opcode::Abort => plain.with_words([u32::MAX]),
        // CDW11 belongs to the feature.
        Opcode::SetFeatures => plain.with_words([0x8000_00ff, u32::MAX, 0, 0, UUID_INDEX]).with_namespace().with_data(),
        Opcode::GetFeatures => plain.with_words([0x7ff, u32::MAX, 0, 0, UUID_INDEX]).with_namespace().with_data(),
        Opcode::AsyncEventRequest => plain,
        Opcode::NamespaceManagement if config.admin.commands.namespaces => plain
            .with_words([0xf])
            .with_namespace()
            .with_data()
            .with_effects(none.with_inventory(true).with_namespace(true)),
        Opcode::NamespaceAttachment if config.admin.commands.namespaces => {
            plain.with_words([0xf]).with_namespace().with_data().with_effects(none.with_inventory(true))
        }
        Opcode::VirtualizationManagement if config.virtualization.is_some() => plain.with_words([0xffff_070f, 0xffff]),
        Opcode::DeviceSelfTest if config.admin.commands.self_test => plain.with_words([0xf]).with_namespace(),
        Opcode::Sanitize if config.admin.commands.sanitize => {
            let effects = none.with_block_contents(true).with_execution(Execution::Alone as u8);
            plain.with_words([0x3ff, u32::MAX]).with_effects(effects)
        }
        Opcode::FirmwareDownload if config.admin.commands.firmware => {
            plain.with_words([u32::MAX, u32::MAX]).with_data()
        }
        Opcode::FirmwareCommit if config.admin.commands.firmware => {
            plain.with_words([0x8000_003f]).with_effects(none.with_controller(true))
        }
        Opcode::Lockdown if config.admin.commands.lockdown => plain.with_words([0xff7f, 0, 0, 0, UUID_INDEX]),
        Opcode::KeepAlive if config.admin.keep_alive_100ms != 0 => plain,
        Opcode::DoorbellBufferConfig if config.admin.commands.doorbell_buffer => plain.with_data(),
        Opcode::FormatNvm if config.admin.commands.format => {
            let alone = Execution::AloneInNamespace as u8;
            let effects = none.with_block_contents(true).with_namespace(true).with_execution(alone);
            plain.with_words([0x3fff]).with_namespace().with_effects(effects)
        }
        _ => return None,
    };
    Some(rules)
}

/// Refuses a command with a value in a field that it does not have (sections 4.2 and 6.1).
///
/// # Errors
/// Invalid Field in Command.
pub(crate) fn check_reserved(controller: &mut Controller, rules: &Rules, sqe: &Sqe) -> Result<(), Status> {
    match reserved_dword(rules, sqe) {
        Some(dword) => Err(bad_field(controller, sqe, dword)),
        None => Ok(()),
    }
}

/// Records a field that has a value which no driver may put there, and returns the status.
pub(crate) fn bad_field(controller: &mut Controller, sqe: &Sqe, dword: u8) -> Status {
    let (cid, opcode) = (sqe.cid().0, sqe.opcode());
    controller.violation(ViolationKind::CommandField { sq: 0, cid, opcode, dword });
    controller.admin.explain(sqe.cid(), Details { dword: Some(dword), ..Details::default() });
    refused(StatusCode::InvalidField)
}

/// Returns the first dword in which a reserved bit is not 0.
fn reserved_dword(rules: &Rules, sqe: &Sqe) -> Option<u8> {
    let unless = |field: Field, value: u64| if field == Field::Used { 0 } else { value };
    let common = [
        (0, u64::from(sqe.cdw0.into_bits() & 0xff00)),
        (1, unless(rules.namespace, sqe.nsid.into())),
        (2, sqe.cdw2.into()),
        (3, sqe.cdw3.into()),
        (4, sqe.mptr),
        (6, unless(rules.data, sqe.prp1)),
        (8, unless(rules.data, sqe.prp2)),
    ];
    let words = [sqe.cdw10, sqe.cdw11, sqe.cdw12, sqe.cdw13, sqe.cdw14, sqe.cdw15];
    let words = (10..).zip(words.iter().zip(rules.words).map(|(word, mask)| u64::from(word & !mask)));
    common.into_iter().chain(words).find(|&(_, reserved)| reserved != 0).map(|(dword, _)| dword)
}

/// The Commands Supported and Effects log.
pub(crate) fn effects_log(config: &Config) -> Effects {
    let mut log = Effects::new_zeroed();
    for (raw, entry) in (0..=u8::MAX).zip(&mut log.admin) {
        let effects = Opcode::from_raw(raw).and_then(|opcode| {
            let effects = rules(config, opcode)?.effects;
            Some(effects.with_scope(scope(opcode).into_bits()))
        });
        entry.set(effects.map_or(0, CommandEffects::into_bits));
    }
    for (raw, entry) in (0..=u8::MAX).zip(&mut log.io) {
        let effects = nvm::Opcode::from_raw(raw).and_then(io_effects);
        entry.set(effects.map_or(0, CommandEffects::into_bits));
    }
    log
}

/// The scope of a command (base specification 2.0, section 5.16.1.6).
const fn scope(opcode: Opcode) -> Scope {
    match opcode {
        Opcode::FormatNvm => Scope::new().with_namespace(true),
        Opcode::NamespaceManagement
        | Opcode::NamespaceAttachment
        | Opcode::FirmwareDownload
        | Opcode::FirmwareCommit
        | Opcode::VirtualizationManagement
        | Opcode::Lockdown
        | Opcode::Sanitize => Scope::new().with_subsystem(true),
        _ => OF_CONTROLLER,
    }
}

/// Returns the effects of an I/O command, if the controller has it. No scope is reported: Linux calls that unusual.
fn io_effects(opcode: nvm::Opcode) -> Option<CommandEffects> {
    let supported = CommandEffects::new().with_supported(true);
    match opcode {
        nvm::Opcode::Flush | nvm::Opcode::Read | nvm::Opcode::Compare | nvm::Opcode::Verify => Some(supported),
        nvm::Opcode::Write | nvm::Opcode::WriteZeroes | nvm::Opcode::DatasetManagement | nvm::Opcode::Copy => {
            Some(supported.with_block_contents(true))
        }
        nvm::Opcode::WriteUncorrectable => None,
    }
}

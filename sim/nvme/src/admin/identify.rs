//! Identify (section 5.15): data about the controller, its namespaces and its subsystem.
//!
//! Left out: NVM sets, namespace granularity, UUIDs of vendors.

use nvme_spec::Nsid;
use nvme_spec::admin::{Cns, IdentifyDw10};
use nvme_spec::identify::{
    self, Cmic, CommandSetId, ControllerList, Ctratt, Flbas, Fna, IdDescriptor, IdKind, LbaFormat, Lpa, NamespaceList,
    NvmLimits, Oacs, Oaes, Oncs,
};
use nvme_spec::registers::{IOCQES_16, IOSQES_64, Vs};
use nvme_spec::{Sqe, Status, StatusCode};
use zerocopy::{FromZeros, IntoBytes};

use super::commands::bad_field;
use super::names::{self, Named, named};
use super::{firmware, namespaces, sanitize, virtualization};
use crate::attachment::Place;
use crate::command::{Command, Outcome, refused};
use crate::config::CommandLimits;
use crate::controller::Controller;
use crate::host::Host;
use crate::io;
use crate::namespace::Namespace;

/// The data of every selector.
type Page = [u8; 4096];

/// FWUG: pieces of firmware are multiples of 4 KiB.
const FIRMWARE_UNITS: u8 = 1;
/// Unit of EDSTT.
const NS_PER_MINUTE: u64 = 60_000_000_000;
/// Unit of MTFA.
const NS_PER_100_MS: u64 = 100_000_000;
/// VWC: by bits 2:1, Flush may name all namespaces.
const FLUSH_ALL: u8 = 0b110;
/// DLFEAT: deallocated blocks read as zeroes, and Write Zeroes may deallocate.
const DEALLOCATED_ZEROES: u8 = 0b1001;
/// FPI: the field contains a percentage.
const FORMAT_PROGRESS_REPORTED: u8 = 0x80;
/// Invalid I/O Command Set, a command specific status (base specification 2.0, figure 97).
const INVALID_COMMAND_SET: u8 = 0x2c;
/// NMIC: may be attached to more than one controller at a time.
const SHARED: u8 = 1;

/// Executes Identify.
pub(crate) fn execute(controller: &mut Controller, command: &Command, host: &mut dyn Host) -> Result<Outcome, Status> {
    let page = page(controller, &command.sqe)?;
    controller.data_to_host(command, page.as_slice(), host)?;
    Ok(Outcome::SUCCESS)
}

fn page(controller: &mut Controller, sqe: &Sqe) -> Result<Box<Page>, Status> {
    let dw10 = IdentifyDw10::from_bits(sqe.cdw10);
    let cns = Cns::from_raw(dw10.cns()).filter(|&cns| is_supported(controller, cns));
    let cns = cns.ok_or(refused(StatusCode::InvalidField))?;
    let of_subsystem = matches!(cns, Cns::Controllers | Cns::PrimaryCapabilities | Cns::SecondaryControllers);
    if dw10.cntid() != 0 && !of_subsystem && cns != Cns::AttachedControllers {
        return Err(bad_field(controller, sqe, 10));
    }
    if sqe.nsid != 0 && (of_subsystem || cns == Cns::Controller) {
        return Err(bad_field(controller, sqe, 1));
    }
    match cns {
        Cns::Controller => Ok(bytes(&about_controller(controller))),
        Cns::CommandSetController => Ok(bytes(&limits(controller))),
        Cns::Namespace => active_namespace(controller, sqe.nsid()),
        Cns::AllocatedNamespace => allocated_namespace(controller, sqe.nsid()),
        Cns::NamespaceDescriptors => descriptors(controller, sqe.nsid()),
        Cns::ActiveNamespaces => namespace_list(controller, sqe.nsid(), |one| controller.namespaces.is_attached(one)),
        Cns::AllocatedNamespaces => namespace_list(controller, sqe.nsid(), |_| true),
        Cns::AttachedControllers => attached_controllers(controller, sqe.nsid(), dw10.cntid()),
        Cns::Controllers => Ok(controllers_from(controller, controller.places(), dw10.cntid())),
        Cns::PrimaryCapabilities => virtualization::capabilities(controller, dw10.cntid()).map(|about| bytes(&about)),
        Cns::SecondaryControllers => Ok(bytes(&virtualization::secondaries(controller, dw10.cntid()))),
    }
}

/// Whether a controller of this version has what came with revision `major.minor`.
fn is_since(version: Vs, major: u16, minor: u8) -> bool {
    version >= Vs::new().with_mjr(major).with_mnr(minor)
}

/// Whether a selector is supported, by the controller's version too. Those from 10h on belong to namespace management, and two to virtualization.
fn is_supported(controller: &Controller, cns: Cns) -> bool {
    let version = controller.config.capabilities.version;
    match cns {
        Cns::Namespace | Cns::Controller => true,
        Cns::ActiveNamespaces => is_since(version, 1, 1),
        Cns::NamespaceDescriptors => is_since(version, 1, 3),
        Cns::CommandSetController => NvmLimits::are_stated(version, controller.config.capabilities.other_command_sets),
        Cns::AllocatedNamespaces | Cns::AllocatedNamespace | Cns::AttachedControllers | Cns::Controllers => {
            controller.config.admin.commands.namespaces
        }
        Cns::PrimaryCapabilities | Cns::SecondaryControllers => controller.config.virtualization.is_some(),
    }
}

fn bytes(page: &(impl IntoBytes + zerocopy::Immutable)) -> Box<Page> {
    let mut bytes = Box::new([0; 4096]);
    for (place, &byte) in bytes.iter_mut().zip(page.as_bytes()) {
        *place = byte;
    }
    bytes
}

fn about_controller(controller: &Controller) -> identify::Controller {
    let mut about = identify::Controller::new_zeroed();
    report_identity(controller, &mut about);
    report_admin(controller, &mut about);
    report_io(controller, &mut about);
    about
}

fn report_identity(controller: &Controller, about: &mut identify::Controller) {
    let identity = &controller.config.identity;
    about.vid.set(identity.vendor_id);
    about.ssvid.set(identity.subsystem_vendor_id);
    put_text(&mut about.sn, &identity.serial, b' ');
    put_text(&mut about.mn, &identity.model, b' ');
    let firmware = &controller.subsystem.firmware;
    about.fr = firmware.revision(firmware.active()).unwrap_or_default();
    put_text(&mut about.subnqn[..223], &identity.subsystem_name, 0);
    let is_secondary = controller.member.place != Place::PRIMARY;
    let has_others = is_secondary || controller.config.virtualization.is_some();
    about.cmic = Cmic::new().with_controllers(has_others).with_virtual_function(is_secondary).into_bits();
    about.cntlid.set(identity.controller_id);
    let version = controller.config.capabilities.version;
    if is_since(version, 1, 2) {
        about.ver.set(version.into_bits());
    }
    if is_since(version, 1, 4) {
        about.cntrltype = controller.config.purpose.to_raw();
    }
}

fn report_admin(controller: &Controller, about: &mut identify::Controller) {
    let config = &controller.config.admin;
    let commands = config.commands;
    let optional = Oacs::new()
        .with_format(commands.format)
        .with_namespaces(commands.namespaces)
        .with_virtualization(controller.config.virtualization.is_some())
        .with_doorbell_buffer(commands.doorbell_buffer)
        .with_firmware(commands.firmware)
        .with_self_test(commands.self_test)
        .with_lockdown(commands.lockdown);
    about.oacs.set(optional.into_bits());
    about.oaes.set(Oaes::new().with_namespace_changed(true).with_firmware_activation(commands.firmware).into_bits());
    about.ctratt.set(Ctratt::new().with_long_host_id(true).into_bits());
    about.acl_z = config.aborts.saturating_sub(1);
    about.aerl_z = config.event_requests.saturating_sub(1);
    about.frmw = firmware::attributes(config).into_bits();
    if commands.firmware {
        about.fwug = FIRMWARE_UNITS;
        about.mtfa.set(u16::try_from(config.activation_ns.div_ceil(NS_PER_100_MS)).unwrap_or(u16::MAX));
    }
    about.lpa = Lpa::new().with_effects(true).with_extended(true).with_supported_pages(true).into_bits();
    about.elpe_z = u8::try_from(config.error_entries.saturating_sub(1)).unwrap_or(u8::MAX);
    about.npss_z = u8::try_from(config.power_states.len().saturating_sub(1)).unwrap_or(u8::MAX);
    for (place, level) in about.psd.iter_mut().zip(&config.power_states) {
        *place = level.descriptor();
    }
    about.apsta = config.has_idle_states().into();
    about.wctemp.set(config.warning_kelvin);
    about.cctemp.set(config.critical_kelvin);
    if commands.self_test {
        about.edstt.set(u16::try_from(config.extended_test_ns.div_ceil(NS_PER_MINUTE)).unwrap_or(u16::MAX));
    }
    if commands.sanitize {
        about.sanicap.set(sanitize::CAPABILITIES.into_bits());
    }
    about.kas.set(config.keep_alive_100ms);
    about.crdt = controller.config.retry_delays_100ms.map(Into::into);
    about.fna = Fna::new().into_bits();
    // A secondary controller manages no capacity.
    if controller.member.place == Place::PRIMARY {
        about.unvmcap.set(controller.admin.unallocated_bytes.into());
        about.tnvmcap.set(namespaces::total_bytes(controller));
    }
}

fn report_io(controller: &Controller, about: &mut identify::Controller) {
    about.mdts = controller.config.mdts;
    about.sqes = IOSQES_64 << 4 | IOSQES_64;
    about.cqes = IOCQES_16 << 4 | IOCQES_16;
    about.nn.set(names::largest(controller));
    let optional = Oncs::new()
        .with_compare(true)
        .with_dataset_management(true)
        .with_write_zeroes(true)
        .with_feature_save(true)
        .with_timestamp(true)
        .with_verify(true)
        .with_copy(true);
    about.oncs.set(optional.into_bits());
    about.ocfs.set(io::COPY_FORMATS);
    about.vwc = FLUSH_ALL | u8::from(controller.config.cache.is_some());
    let atomic_z = u16::try_from(controller.config.atomic_blocks.saturating_sub(1)).unwrap_or(u16::MAX);
    about.awun_z.set(atomic_z);
    about.awupf_z.set(atomic_z);
}

fn limits(controller: &Controller) -> NvmLimits {
    let CommandLimits { vsl, wzsl, dmrl, dmrsl, dmsl } = controller.config.limits;
    let mut limits = NvmLimits::NONE;
    (limits.vsl, limits.wzsl, limits.dmrl) = (vsl, wzsl, dmrl);
    (limits.dmrsl, limits.dmsl) = (dmrsl.into(), dmsl.into());
    limits
}

/// Fills a field with text, cut to its length or padded.
fn put_text(field: &mut [u8], text: &str, padding: u8) {
    let text = text.bytes().chain(std::iter::repeat(padding));
    for (place, byte) in field.iter_mut().zip(text) {
        *place = byte;
    }
}

fn active_namespace(controller: &Controller, nsid: Nsid) -> Result<Box<Page>, Status> {
    match named(controller, nsid) {
        Some(Named::Active) => about_namespace(controller, nsid),
        Some(Named::Inactive | Named::Unallocated) => Ok(Box::new([0; 4096])),
        Some(Named::All) if controller.config.admin.commands.namespaces => {
            Ok(bytes(&in_common(&controller.config.admin.formats, 0)))
        }
        Some(Named::Nothing | Named::All) | None => Err(refused(StatusCode::InvalidNamespaceOrFormat)),
    }
}

fn allocated_namespace(controller: &Controller, nsid: Nsid) -> Result<Box<Page>, Status> {
    match named(controller, nsid) {
        Some(Named::Active | Named::Inactive) => about_namespace(controller, nsid),
        Some(Named::Unallocated) => Ok(Box::new([0; 4096])),
        Some(Named::Nothing | Named::All) | None => Err(refused(StatusCode::InvalidNamespaceOrFormat)),
    }
}

/// Returns the data of a namespace of blocks.
///
/// # Errors
/// Invalid I/O Command Set for one of keys and values (base specification 2.0, section 5.17.2.1).
fn about_namespace(controller: &Controller, nsid: Nsid) -> Result<Box<Page>, Status> {
    match controller.namespaces.get(nsid.0) {
        Some(namespace) if namespace.command_set == CommandSetId::KeyValue => {
            Err(refused(StatusCode::Other { sct: 1, sc: INVALID_COMMAND_SET }))
        }
        Some(namespace) => Ok(bytes(&about(controller, namespace))),
        None => Ok(Box::new([0; 4096])),
    }
}

/// Returns the fields common to all namespaces that can be created.
fn in_common(formats: &[u8], metadata: u16) -> identify::Namespace {
    let mut about = identify::Namespace::new_zeroed();
    about.nlbaf_z = u8::try_from(formats.len().saturating_sub(1)).unwrap_or(u8::MAX);
    for (place, &bits) in about.lbaf.iter_mut().zip(formats) {
        place.set(LbaFormat::new().with_lbads(bits).with_ms(metadata).into_bits());
    }
    about.dlfeat = DEALLOCATED_ZEROES;
    about.mssrl.set(io::COPY_LIMITS.range_blocks);
    about.mcl.set(io::COPY_LIMITS.blocks);
    about.msrc_z = io::COPY_LIMITS.ranges_z;
    about
}

fn about(controller: &Controller, namespace: &Namespace) -> identify::Namespace {
    let mut about = in_common(&namespace.formats, namespace.metadata);
    about.nsze.set(namespace.blocks);
    about.ncap.set(namespace.blocks);
    // Without thin provisioning all blocks count as allocated.
    about.nuse.set(namespace.blocks);
    about.flbas = Flbas::of(namespace.format).into_bits();
    about.nmic = if namespace.shared { SHARED } else { 0 };
    about.nvmcap.set(namespace.allocated_bytes.into());
    about.dps = namespace.protection;
    about.fpi = format_progress(controller, namespace);
    about.nguid = namespace.nguid;
    about.eui64 = namespace.eui64;
    about
}

/// FPI: percent of a format that remain.
fn format_progress(controller: &Controller, namespace: &Namespace) -> u8 {
    let whole_ns = u128::from(controller.config.admin.format_ns.max(1));
    let remaining_ns = u128::from(namespace.formatted_ns.saturating_sub(controller.clock_ns));
    let percent = (remaining_ns * 100).div_ceil(whole_ns).min(100);
    FORMAT_PROGRESS_REPORTED | u8::try_from(percent).unwrap_or(100)
}

fn descriptors(controller: &Controller, nsid: Nsid) -> Result<Box<Page>, Status> {
    match named(controller, nsid) {
        Some(Named::Active) => {}
        Some(Named::Inactive | Named::Unallocated) => return Err(refused(StatusCode::InvalidField)),
        Some(Named::Nothing | Named::All) | None => return Err(refused(StatusCode::InvalidNamespaceOrFormat)),
    }
    let Some(namespace) = controller.namespaces.get(nsid.0) else {
        return Err(refused(StatusCode::InvalidField));
    };
    let mut list = Vec::new();
    add_descriptor(&mut list, IdKind::Eui64, &namespace.eui64);
    add_descriptor(&mut list, IdKind::Nguid, &namespace.nguid);
    if list.is_empty() {
        add_descriptor(&mut list, IdKind::Uuid, &made_up_uuid(&controller.config.identity.serial, nsid));
    }
    if controller.config.capabilities.other_command_sets {
        list.extend_from_slice(IdDescriptor::new(IdKind::CommandSet).as_bytes());
        list.push(namespace.command_set.to_raw());
    }
    list.resize(4096, 0);
    Ok(Box::new(std::array::from_fn(|index| list[index])))
}

/// Adds an identifier unless it is all zeroes, which stands for none.
fn add_descriptor(list: &mut Vec<u8>, kind: IdKind, id: &[u8]) {
    if id.iter().any(|&byte| byte != 0) {
        list.extend_from_slice(IdDescriptor::new(kind).as_bytes());
        list.extend_from_slice(id);
    }
}

/// Makes an identifier for a namespace, which must have one of some kind: a vendor-defined UUID (version 8) of the last
/// characters of the serial number and the NSID.
fn made_up_uuid(serial: &str, nsid: Nsid) -> [u8; 16] {
    let mut uuid = [0; 16];
    for (place, byte) in uuid.iter_mut().take(12).zip(serial.bytes().rev()) {
        *place = byte;
    }
    uuid[12..].copy_from_slice(&nsid.0.to_be_bytes());
    uuid[6] = uuid[6] & 0x0f | 0x80;
    uuid[8] = uuid[8] & 0x3f | 0x80;
    uuid
}

/// Lists the wanted namespaces above `after`.
fn namespace_list(
    controller: &Controller,
    after: Nsid,
    wanted: impl Fn(&Namespace) -> bool,
) -> Result<Box<Page>, Status> {
    if after.0 >= u32::MAX - 1 {
        return Err(refused(StatusCode::InvalidNamespaceOrFormat));
    }
    let listed = controller.namespaces.iter().filter(|one| one.nsid > after.0 && wanted(one));
    Ok(bytes(&NamespaceList::of(listed.map(|one| Nsid(one.nsid)))))
}

fn attached_controllers(controller: &Controller, nsid: Nsid, first: u16) -> Result<Box<Page>, Status> {
    match named(controller, nsid) {
        Some(Named::Active | Named::Inactive | Named::Unallocated) => {
            let namespace = controller.namespaces.get(nsid.0);
            let attachments = namespace.map(|namespace| namespace.attachments).unwrap_or_default();
            Ok(controllers_from(controller, attachments.places(), first))
        }
        Some(Named::Nothing | Named::All) | None => Err(refused(StatusCode::InvalidNamespaceOrFormat)),
    }
}

/// Lists these controllers, which ascend, from `first` on.
fn controllers_from(controller: &Controller, places: impl Iterator<Item = Place>, first: u16) -> Box<Page> {
    let ids = places.map(|place| controller.controller_id(place));
    bytes(&ControllerList::of(ids.filter(|&id| id >= first)))
}

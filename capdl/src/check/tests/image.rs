//! Systems that tests change, and the ways to change them.

use super::*;
use crate::build;
use crate::build::declaration;
use crate::programs::Programs;

/// A system as the root task would boot it, and the declaration that it was built from: tests change the system.
#[derive(Clone)]
pub(super) struct Image {
    pub(super) specification: Specification,
    pub(super) data: Vec<u8>,
    pub(super) declaration: Arc<Declaration>,
}

impl Image {
    /// The system of a scenario.
    pub(super) fn new(scenario: &Scenario, programs: &Programs) -> Self {
        let built = build(scenario, programs).unwrap_or_else(|error| panic!("{}: {error}", scenario.name));
        let declared = declaration(scenario, programs).unwrap_or_else(|error| panic!("{error}"));
        Self { specification: built.specification, data: built.data, declaration: Arc::new(declared) }
    }

    /// The system of a scenario file.
    pub(super) fn of(name: &str) -> Self {
        Self::new(&scenario_of(name), &samples())
    }
}

impl std::ops::Deref for Image {
    type Target = Specification;

    fn deref(&self) -> &Specification {
        &self.specification
    }
}

impl std::ops::DerefMut for Image {
    fn deref_mut(&mut self) -> &mut Specification {
        &mut self.specification
    }
}

/// A good system: console, PCI server, two NVMe servers, alice at one and bob at the other.
pub(super) fn good() -> Image {
    Image::of("bridge-two-controllers")
}

/// A good system with several clients of one server.
pub(super) fn crowd() -> Image {
    Image::of("demo")
}

/// A component's environment. `None` for one without.
pub(super) fn environment(system: &Image, component: &str) -> Option<Environment> {
    let is_its = |object: &&Object| object.name.strip_suffix(".environment") == Some(component);
    let first = usize::try_from(system.objects.iter().find(is_its)?.fill?.offset).ok()?;
    postcard::from_bytes(system.data.get(first + 8..)?).ok()
}

/// Changes a component's environment. `None` for one without.
pub(super) fn reconfigure<T>(
    system: &mut Image,
    component: &str,
    change: impl FnOnce(&mut Environment) -> T,
) -> Option<T> {
    let mut configured = environment(system, component)?;
    let changed = change(&mut configured);
    let Image { specification, data, .. } = system;
    let is_its = |object: &&mut Object| object.name.strip_suffix(".environment") == Some(component);
    let fill = specification.objects.iter_mut().find(is_its)?.fill.as_mut()?;
    let first = usize::try_from(fill.offset).ok()?;
    let bytes = postcard::to_stdvec(&configured).ok()?;
    if bytes.len() as u64 + 8 != fill.len {
        (fill.offset, fill.len) = (data.len() as u64, bytes.len() as u64 + 8);
        data.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
        data.extend_from_slice(&bytes);
    } else {
        data[first + 8..][..bytes.len()].copy_from_slice(&bytes);
    }
    Some(changed)
}

/// Changes the configuration of a component.
pub(super) fn configure<T: Serialize + DeserializeOwned>(
    system: &mut Image,
    component: &str,
    change: impl FnOnce(&mut T),
) {
    reconfigure(system, component, |configured| {
        let mut config = configured.config().unwrap();
        change(&mut config);
        configured.config = postcard::to_stdvec(&config).unwrap();
    })
    .unwrap();
}

/// Checks the system.
pub(super) fn checked(Image { specification, data, declaration }: &Image) -> Result<(), Vec<Leak>> {
    authority(specification, data, declaration)
}

pub(super) fn component<'a>(system: &'a mut Image, name: &str) -> &'a mut Component {
    system.components.iter_mut().find(|component| component.name == name).unwrap_or_else(|| panic!("no {name}"))
}

pub(super) fn id(specification: &Specification, name: &str) -> ObjectId {
    specification.objects.iter().position(|object| object.name == name).unwrap_or_else(|| panic!("no {name}"))
        as ObjectId
}

pub(super) fn new_object(specification: &mut Specification, name: &str, kind: ObjectKind) {
    specification.objects.push(Object { name: name.into(), kind, count: 1, fill: None });
}

/// Puts a capability to `object` at cptr 200 of `component`.
pub(super) fn plant(specification: &mut Specification, component: &str, object: &str, badge: u64, rights: u8) {
    let (cnode, object) = (id(specification, &format!("{component}.cnode")), id(specification, object));
    specification.caps.push(CapRun { cnode, cptr: 200, object, badge, rights });
}

/// Maps `object` at 0x7000_0000 of `component`.
pub(super) fn map(specification: &mut Specification, component: &str, object: &str, writable: bool, executable: bool) {
    let (vspace, object) = (id(specification, &format!("{component}.vspace")), id(specification, object));
    specification.mappings.push(Mapping { vspace, object, vaddr: 0x7000_0000, writable, executable });
}

/// Asserts that `rule` refuses the system, in a sentence with all of `words`.
#[track_caller]
pub(super) fn refused(system: &Image, rule: Rule, words: &[&str]) {
    let leaks = checked(system).expect_err("the system is refused");
    let fits = |leak: &Leak| leak.rule == rule && words.iter().all(|word| leak.path.contains(word));
    assert!(leaks.iter().any(fits), "{rule:?} {words:?} is not among {leaks:#?}");
}

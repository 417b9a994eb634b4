//! Storage of functions and buses, by ids that are never reused.

use crate::function::Function;
use crate::ids::{BusId, FunctionId};
use crate::view::View;

/// All functions that ever existed; a removed one leaves an empty place.
#[derive(Debug)]
pub(crate) struct Functions<D> {
    places: Vec<Option<Box<Function<D>>>>,
    /// Functions that have a device inside, ascending: few among bridges and ports, and looked up at each event.
    devices: Vec<FunctionId>,
}

impl<D> Functions<D> {
    pub(crate) const fn new() -> Self {
        Self { places: Vec::new(), devices: Vec::new() }
    }

    /// Returns the id that [`Functions::push`] assigns next.
    pub(crate) fn next_id(&self) -> FunctionId {
        FunctionId(self.places.len() as u32)
    }

    pub(crate) fn push(&mut self, function: Function<D>) {
        if function.device().is_some() {
            self.devices.push(self.next_id());
        }
        self.places.push(Some(Box::new(function)));
    }

    pub(crate) fn get(&self, id: FunctionId) -> Option<&Function<D>> {
        self.places.get(id.0 as usize)?.as_deref()
    }

    pub(crate) fn get_mut(&mut self, id: FunctionId) -> Option<&mut Function<D>> {
        self.places.get_mut(id.0 as usize)?.as_deref_mut()
    }

    /// Returns a function that answers at this time: it is not being reset.
    pub(crate) fn ready(&mut self, id: FunctionId, now_ns: u64) -> Option<&mut Function<D>> {
        self.get_mut(id).filter(|function| function.core.ready_at_ns <= now_ns)
    }

    pub(crate) fn take(&mut self, id: FunctionId) -> Option<Function<D>> {
        self.devices.retain(|device| *device != id);
        self.places.get_mut(id.0 as usize)?.take().map(|function| *function)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Function<D>> {
        self.places.iter().filter_map(Option::as_deref)
    }

    /// Returns the functions that have a device inside.
    pub(crate) fn devices(&self) -> &[FunctionId] {
        &self.devices
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Function<D>> {
        self.places.iter_mut().filter_map(Option::as_deref_mut)
    }
}

/// A bus: the bridge above it, and the functions on it.
#[derive(Debug)]
pub(crate) struct Bus {
    /// The bridge above it; the root bus has none.
    pub(crate) bridge: Option<FunctionId>,
    above: Option<BusId>,
    /// By device and function number.
    functions: Box<[Option<FunctionId>; 256]>,
    pub(crate) view: View,
}

impl Bus {
    pub(crate) fn new(above: Option<(BusId, FunctionId)>) -> Self {
        Self {
            bridge: above.map(|(_, bridge)| bridge),
            above: above.map(|(bus, _)| bus),
            functions: Box::new([None; 256]),
            view: View::default(),
        }
    }

    pub(crate) fn at(&self, devfn: u8) -> Option<FunctionId> {
        self.functions.get(usize::from(devfn)).copied().flatten()
    }

    pub(crate) fn put(&mut self, devfn: u8, function: Option<FunctionId>) {
        if let Some(place) = self.functions.get_mut(usize::from(devfn)) {
            *place = function;
        }
    }

    /// Returns the functions in the order of their numbers.
    pub(crate) fn functions(&self) -> impl Iterator<Item = FunctionId> + '_ {
        self.functions.iter().copied().flatten()
    }
}

/// All buses that ever existed. A bus comes after the bus above it.
#[derive(Debug)]
pub(crate) struct Buses(Vec<Option<Bus>>);

impl Buses {
    pub(crate) fn new() -> Self {
        Self(vec![Some(Bus::new(None))])
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn next_id(&self) -> BusId {
        BusId(self.0.len() as u32)
    }

    pub(crate) fn push(&mut self, bus: Bus) {
        self.0.push(Some(bus));
    }

    pub(crate) fn get(&self, id: BusId) -> Option<&Bus> {
        self.0.get(id.0 as usize)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, id: BusId) -> Option<&mut Bus> {
        self.0.get_mut(id.0 as usize)?.as_mut()
    }

    pub(crate) fn take(&mut self, id: BusId) -> Option<Bus> {
        self.0.get_mut(id.0 as usize)?.take()
    }

    pub(crate) fn above(&self, id: BusId) -> Option<BusId> {
        self.get(id)?.above
    }
}

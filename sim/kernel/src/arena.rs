//! Storage for kernel objects: numbered places, which are reused when their object ends.

use core::marker::PhantomData;
use core::ops::{Index, IndexMut};

/// A number that names a place of an [`Arena`].
pub(crate) trait Id: Copy {
    /// The number's place.
    fn from_place(place: usize) -> Self;
    /// The place's number.
    fn place(self) -> usize;
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub struct $name(u32);

        impl $name {
            /// The bare number.
            #[must_use]
            pub const fn number(self) -> u32 {
                self.0
            }
        }

        impl crate::arena::Id for $name {
            #[inline]
            fn from_place(place: usize) -> Self {
                Self(place as u32)
            }

            #[inline]
            fn place(self) -> usize {
                self.0 as usize
            }
        }
    )+};
}

ids!(
    /// A thread. Its number is never reused.
    ThreadId,
    /// An endpoint. Its number is reused after its end, as for all other objects.
    EndpointId,
    /// A notification.
    NotificationId,
    /// A CNode.
    CNodeId,
    /// A paging structure of a VSpace, of any level.
    TableId,
    /// A pool of address space identifiers.
    AsidPoolId,
    /// An IO page table.
    IoTableId,
);

/// Objects of one kind.
#[derive(Clone, Debug)]
pub(crate) struct Arena<I, T> {
    places: Vec<Option<T>>,
    free: Vec<u32>,
    id: PhantomData<I>,
}

impl<I: Id, T> Arena<I, T> {
    pub(crate) const fn new() -> Self {
        Self { places: Vec::new(), free: Vec::new(), id: PhantomData }
    }

    /// Stores `object`, in a free place if there is one.
    pub(crate) fn add(&mut self, object: T) -> I {
        if let Some(place) = self.free.pop() {
            self.places[place as usize] = Some(object);
            return I::from_place(place as usize);
        }
        self.add_last(object)
    }

    /// Stores `object` under a number that no other object ever had.
    pub(crate) fn add_last(&mut self, object: T) -> I {
        self.places.push(Some(object));
        I::from_place(self.places.len() - 1)
    }

    /// Ends an object; its place may be used again.
    pub(crate) fn remove(&mut self, id: I) {
        if self.places[id.place()].take().is_some() {
            self.free.push(id.place() as u32);
        }
    }

    /// Ends an object; its number is not reused.
    pub(crate) fn retire(&mut self, id: I) {
        self.places[id.place()] = None;
    }

    pub(crate) fn get(&self, id: I) -> Option<&T> {
        self.places.get(id.place())?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, id: I) -> Option<&mut T> {
        self.places.get_mut(id.place())?.as_mut()
    }

    /// All objects, in the order of their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (I, &T)> {
        let places = self.places.iter().enumerate();
        places.filter_map(|(place, object)| Some((I::from_place(place), object.as_ref()?)))
    }
}

impl<I: Id, T> Index<I> for Arena<I, T> {
    type Output = T;

    #[inline]
    fn index(&self, id: I) -> &T {
        self.places[id.place()].as_ref().expect("a number of the kernel's own names an object")
    }
}

impl<I: Id, T> IndexMut<I> for Arena<I, T> {
    #[inline]
    fn index_mut(&mut self, id: I) -> &mut T {
        self.places[id.place()].as_mut().expect("a number of the kernel's own names an object")
    }
}

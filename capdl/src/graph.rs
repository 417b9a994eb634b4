//! The capability graph: a picture of the objects and capabilities that components hold, for people.
//!
//! Devices stand on the left, then the PCI server, the NVMe servers with their policy components below them, and the clients.
//! The root task stands above them, the console below. One line joins two components for each object that they share, or that
//! one holds of the other. The picture is made from the [`Specification`] alone, as the checker's rules are. The same system
//! always gives the same bytes.

mod canvas;
mod links;

use canvas::{Canvas, Head, Ink, Line, Weight};
use capdl_spec::{Component, ObjectKind, Role, Specification};
use links::{Device, Kind, Link};

const MARGIN: i32 = 24;
const IOMMU_HEIGHT: i32 = 110;
const WIDTH: i32 = 1272;
const DEVICES_X: i32 = MARGIN;
const DEVICES_WIDTH: i32 = 160;
const PCI_X: i32 = 246;
const PCI_WIDTH: i32 = 184;
const SERVERS_X: i32 = 570;
const SERVERS_WIDTH: i32 = 188;
const CLIENTS_X: i32 = 1000;
const CLIENTS_WIDTH: i32 = 184;
/// Room for rails in front of servers that stand below each other.
const RAILS: i32 = 32;
/// The rails on the right, along which the clients' faults go up and their logs go down.
const FAULT_RAIL_X: i32 = CLIENTS_X + CLIENTS_WIDTH + 24;
const LOG_RAIL_X: i32 = FAULT_RAIL_X + 20;

const TITLE_HEIGHT: i32 = 64;
const ROOT_HEIGHT: i32 = 56;
const CONSOLE_HEIGHT: i32 = 76;
const DEVICE_HEIGHT: i32 = 54;
/// Height between the columns and a box above or below them.
const CORRIDOR: i32 = 40;
const LANE: i32 = 22;
const GAP: i32 = 16;
/// Between an NVMe server and its policy component, for the line that joins them.
const POLICY_GAP: i32 = 40;
/// Between the lines that join these two, and between their labels.
const LINE_GAP: i32 = 14;
const POLICY_HEIGHT: i32 = 150;
/// The rail along which clients reach the policy component, right of it.
const POLICY_RAIL_X: i32 = SERVERS_X + SERVERS_WIDTH + 14;
const LEGEND_HEIGHT: i32 = 56;

/// A component's place.
#[derive(Clone, Copy)]
struct Place {
    x: i32,
    y: i32,
    width: i32,
    height: i32,
}

impl Place {
    const fn right(self) -> i32 {
        self.x + self.width
    }

    const fn bottom(self) -> i32 {
        self.y + self.height
    }

    const fn middle(self) -> (i32, i32) {
        (self.x + self.width / 2, self.y + self.height / 2)
    }
}

/// Draws the graph of a system.
#[must_use]
pub fn svg(specification: &Specification) -> String {
    let links = links::links(specification);
    let devices = links::devices(specification);
    let layout = Layout::of(specification, &links, &devices);
    let mut drawing = Drawing { specification, links, devices, layout, canvas: Canvas::new() };
    drawing.title();
    drawing.root_task();
    drawing.device_column();
    drawing.lanes();
    drawing.rails();
    for index in 0..specification.components.len() {
        drawing.component(index);
    }
    drawing.legend();
    let height = drawing.layout.bottom + LEGEND_HEIGHT;
    drawing.canvas.finish(WIDTH, height)
}

/// The places of all boxes.
struct Layout {
    /// By index of the component.
    places: Vec<Place>,
    /// Bottom of the lowest box.
    bottom: i32,
    columns_top: i32,
    columns_bottom: i32,
}

impl Layout {
    fn of(specification: &Specification, links: &[Link], devices: &[Device]) -> Self {
        let roles: Vec<Role> = specification.components.iter().map(|component| component.role).collect();
        let nowhere = Place { x: 0, y: 0, width: 0, height: 0 };
        let mut places = vec![nowhere; roles.len()];
        let columns_top = MARGIN + TITLE_HEIGHT + ROOT_HEIGHT + CORRIDOR;
        let mut y = columns_top;
        let of_role =
            |role: Role| roles.iter().enumerate().filter(move |(_, other)| **other == role).map(|(index, _)| index);
        let mut placed = vec![false; roles.len()];
        for server in of_role(Role::NvmeServer) {
            let top = y;
            for client in of_role(Role::Client) {
                let lanes = links.iter().filter(|link| link.joins(client, server)).count() as i32;
                if lanes > 0 && !placed[client] {
                    placed[client] = true;
                    let asks = of_role(Role::Policy).any(|policy| links.iter().any(|link| link.joins(client, policy)));
                    let height = ((lanes + i32::from(asks)) * LANE + 14).max(104);
                    places[client] = Place { x: CLIENTS_X, y, width: CLIENTS_WIDTH, height };
                    y += height + GAP;
                }
            }
            y = y.max(top + 150 + GAP);
            places[server] = Place { x: SERVERS_X, y: top, width: SERVERS_WIDTH, height: y - GAP - top };
            for policy in of_role(Role::Policy).filter(|policy| links.iter().any(|link| link.joins(*policy, server))) {
                y += POLICY_GAP - GAP;
                places[policy] = Place { x: SERVERS_X, y, width: SERVERS_WIDTH, height: POLICY_HEIGHT };
                y += POLICY_HEIGHT + GAP;
            }
        }
        for tester in of_role(Role::Probe).chain(of_role(Role::EduDriver)) {
            places[tester] = Place { x: SERVERS_X, y, width: SERVERS_WIDTH, height: 150 };
            y += 150 + GAP;
        }
        for client in of_role(Role::Client).filter(|client| !placed[*client]).chain(of_role(Role::Control)) {
            // Lanes to policy components, where a control component has some.
            let lanes = of_role(Role::Policy).flat_map(|one| links.iter().filter(move |link| link.joins(client, one)));
            let height = 104.max((lanes.count() as i32 + 1) * LANE);
            places[client] = Place { x: CLIENTS_X, y, width: CLIENTS_WIDTH, height };
            y += height + GAP;
        }
        let columns_bottom = (y - GAP).max(columns_top + devices.len() as i32 * (DEVICE_HEIGHT + GAP));
        for pci in of_role(Role::PciServer) {
            // The IOMMU server stands below, where there is one.
            let mut height = columns_bottom - columns_top;
            for iommu in of_role(Role::IommuServer) {
                height -= IOMMU_HEIGHT + GAP;
                let y = columns_bottom - IOMMU_HEIGHT;
                places[iommu] = Place { x: PCI_X, y, width: PCI_WIDTH, height: IOMMU_HEIGHT };
            }
            places[pci] = Place { x: PCI_X, y: columns_top, width: PCI_WIDTH, height };
        }
        let console_y = columns_bottom + CORRIDOR;
        for console in of_role(Role::Console) {
            places[console] = Place { x: PCI_X, y: console_y, width: LOG_RAIL_X + 20 - PCI_X, height: CONSOLE_HEIGHT };
        }
        Self { places, bottom: console_y + CONSOLE_HEIGHT, columns_top, columns_bottom }
    }
}

struct Drawing<'a> {
    specification: &'a Specification,
    links: Vec<Link>,
    devices: Vec<Device>,
    layout: Layout,
    canvas: Canvas,
}

impl Drawing<'_> {
    fn role(&self, index: usize) -> Role {
        self.specification.components[index].role
    }

    fn title(&mut self) {
        let Specification { name, objects, caps, components, .. } = self.specification;
        let runs: u64 = caps.iter().map(|run| u64::from(objects[run.object as usize].count)).sum();
        let installed = runs.saturating_add(components.len() as u64 * u64::from(FAULT_ENDPOINT));
        self.canvas.text(MARGIN, MARGIN + 20, 20, Weight::Bold, Ink::Text, &format!("{name}: who holds what"));
        let line = format!("{} components, {installed} capabilities installed at boot", components.len());
        self.canvas.text(MARGIN, MARGIN + 42, 13, Weight::Regular, Ink::Faint, &line);
    }

    fn root_task(&mut self) {
        let y = MARGIN + TITLE_HEIGHT;
        let width = LOG_RAIL_X + 20 - PCI_X;
        self.canvas.card(PCI_X, y, width, ROOT_HEIGHT, Ink::RootTask);
        self.canvas.text(PCI_X + 14, y + 24, 16, Weight::Bold, Ink::Text, "root-task");
        let line =
            "builds all of this from the specification, then supervises: receives every fault, gives the clock's ticks";
        self.canvas.text(PCI_X + 14, y + 43, 12, Weight::Regular, Ink::Faint, line);
    }

    /// Draws devices beside their holders, with a line each.
    fn device_column(&mut self) {
        for holder in 0..self.layout.places.len() {
            let place = self.layout.places[holder];
            let own: Vec<Device> = self.devices.iter().filter(|device| device.holder == holder).cloned().collect();
            let room = place.height / (own.len() as i32).max(1);
            for (device, number) in own.iter().zip(0..) {
                let middle = place.y + number * room + room / 2;
                let y = middle - DEVICE_HEIGHT / 2;
                self.canvas.line(&Line {
                    points: vec![(place.x, middle), (DEVICES_X + DEVICES_WIDTH, middle)],
                    ink: Ink::Device,
                    dashed: false,
                    head: Head::Arrow,
                });
                self.canvas.card(DEVICES_X, y, DEVICES_WIDTH, DEVICE_HEIGHT, Ink::Device);
                self.canvas.text(DEVICES_X + 12, y + 23, 14, Weight::Bold, Ink::Text, &device.name);
                self.canvas.text(DEVICES_X + 12, y + 41, 11, Weight::Regular, Ink::Faint, &device.detail);
            }
        }
    }

    /// Draws the lines between two components of neighbouring columns, at the height of the right one.
    fn lanes(&mut self) {
        let count = self.layout.places.len();
        for right in 0..count {
            for left in 0..count {
                let (place, other) = (self.layout.places[right], self.layout.places[left]);
                let between: Vec<Link> = self.links.iter().filter(|link| link.joins(left, right)).cloned().collect();
                let console = self.role(left) == Role::Console || self.role(right) == Role::Console;
                let (above, below) = (self.role(left), self.role(right));
                if (above, below) == (Role::NvmeServer, Role::Policy) {
                    self.between_stacked(&between, place, other);
                }
                if other.right() > place.x || between.is_empty() || console {
                    continue;
                }
                if above == Role::Policy {
                    self.along_rail(&between, right, left);
                    continue;
                }
                let asks = self.links.iter().any(|link| link.from == right && self.role(link.to) == Role::Policy);
                let lanes = between.len() as i32 + i32::from(asks);
                let middle = place.y + place.height / 2;
                let top = middle - (lanes - 1) * LANE / 2;
                for (link, number) in between.iter().zip(0..) {
                    self.lane(link, left, (other.right(), place.x), top + number * LANE);
                }
            }
        }
    }

    /// Draws the lines from a policy component up to its server.
    fn between_stacked(&mut self, between: &[Link], place: Place, above: Place) {
        for (link, number) in between.iter().zip(0..) {
            let (x, y) = (place.x + 12 + number * LINE_GAP, above.bottom() + LINE_GAP * (number + 1));
            let (ink, dashed, head) = style(link.kind);
            self.link(link, &Line { points: vec![(x, place.y), (x, above.bottom())], ink, dashed, head });
            let beside = place.x + 12 + between.len() as i32 * LINE_GAP;
            self.canvas.text(beside, y, 11, Weight::Regular, ink, &link.label);
        }
    }

    /// Draws the lines between a client or a control component and a policy component, below those to servers and to the policy
    /// components before it.
    fn along_rail(&mut self, between: &[Link], client: usize, policy: usize) {
        let lanes = |role: Role, end: usize| {
            let all = (0..end).filter(|index| self.role(*index) == role);
            all.map(|index| self.links.iter().filter(|link| link.joins(client, index)).count() as i32).sum::<i32>()
        };
        let end = self.layout.places.len();
        let (servers, policies, before) =
            (lanes(Role::NvmeServer, end), lanes(Role::Policy, end), lanes(Role::Policy, policy));
        let (place, policy) = (self.layout.places[client], self.layout.places[policy]);
        let first = place.y + place.height / 2 - (servers + policies - 1) * LANE / 2 + (servers + before) * LANE;
        let (_, end) = policy.middle();
        for (link, number) in between.iter().zip(0..) {
            let (ink, dashed, head) = style(link.kind);
            let y = first + number * LANE;
            let mut points = vec![(place.x, y), (POLICY_RAIL_X, y), (POLICY_RAIL_X, end), (policy.right(), end)];
            if link.from != client {
                points.reverse();
            }
            self.link(link, &Line { points, ink, dashed, head });
            self.canvas.centred(POLICY_RAIL_X + (place.x - POLICY_RAIL_X) / 2, y - 5, 11, ink, &link.label);
        }
    }

    /// Draws the line of a connection, marked with its kind and its components' names.
    fn link(&mut self, link: &Link, line: &Line) {
        let [from, to] = [link.from, link.to].map(|index| self.specification.components[index].name.as_str());
        let marks = [("data-from", from), ("data-to", to), ("data-kind", link.kind.word())];
        self.canvas.marked(&marks, |canvas| canvas.line(line));
    }

    fn lane(&mut self, link: &Link, left: usize, (from_x, to_x): (i32, i32), y: i32) {
        let points = if link.from == left { vec![(from_x, y), (to_x, y)] } else { vec![(to_x, y), (from_x, y)] };
        let (ink, dashed, head) = style(link.kind);
        self.link(link, &Line { points, ink, dashed, head });
        let stacked = self.layout.places.iter().filter(|place| place.x == SERVERS_X).count();
        // Where boxes stand below each other, rails run in front of them.
        let room = if to_x == SERVERS_X && stacked > 1 { RAILS } else { 0 };
        self.canvas.centred(from_x + (to_x - from_x - room) / 2, y - 5, 11, ink, &link.label);
    }

    /// Draws the lines of faults to the root task, and of logs to the console.
    fn rails(&mut self) {
        let (top, bottom) = (MARGIN + TITLE_HEIGHT + ROOT_HEIGHT, self.layout.columns_bottom + CORRIDOR);
        for index in 0..self.layout.places.len() {
            let place = self.layout.places[index];
            let (x, _) = place.middle();
            match self.role(index) {
                Role::Console => {}
                Role::Client | Role::Control => {
                    let (fault_y, log_y) = (place.y + 24, place.bottom() - 24);
                    let points = vec![(place.right(), fault_y), (FAULT_RAIL_X, fault_y), (FAULT_RAIL_X, top)];
                    self.canvas.line(&Line { points, ink: Ink::Fault, dashed: false, head: Head::Arrow });
                    let points = vec![(place.right(), log_y), (LOG_RAIL_X, log_y), (LOG_RAIL_X, bottom)];
                    self.canvas.line(&Line { points, ink: Ink::Log, dashed: false, head: Head::Arrow });
                }
                Role::PciServer
                | Role::IommuServer
                | Role::NvmeServer
                | Role::Policy
                | Role::Probe
                | Role::EduDriver => {
                    // The line of a server below another one passes that on the left.
                    let above = place.y == self.layout.columns_top;
                    let below = place.bottom() >= self.layout.columns_bottom - GAP;
                    let around = [(place.x, place.y + 24), (place.x - 12, place.y + 24), (place.x - 12, top)];
                    let points = if above { vec![(x, place.y), (x, top)] } else { around.to_vec() };
                    self.canvas.line(&Line { points, ink: Ink::Fault, dashed: false, head: Head::Arrow });
                    let around =
                        [(place.x, place.bottom() - 24), (place.x - 24, place.bottom() - 24), (place.x - 24, bottom)];
                    let points = if below { vec![(x, place.bottom()), (x, bottom)] } else { around.to_vec() };
                    self.canvas.line(&Line { points, ink: Ink::Log, dashed: false, head: Head::Arrow });
                }
            }
        }
        self.canvas.text(
            SERVERS_X + SERVERS_WIDTH + 24,
            top + 24,
            11,
            Weight::Regular,
            Ink::Fault,
            "fault endpoints, the badge is the component's number",
        );
        let line = "log rings, mapped read-only, and one notification";
        self.canvas.text(SERVERS_X + SERVERS_WIDTH + 24, bottom - 14, 11, Weight::Regular, Ink::Log, line);
    }

    fn component(&mut self, index: usize) {
        let Component { name, id, priority, .. } = &self.specification.components[index];
        let place = self.layout.places[index];
        let role = self.role(index);
        let ink = match role {
            Role::Console => Ink::Console,
            Role::PciServer | Role::IommuServer => Ink::PciServer,
            Role::NvmeServer | Role::Policy | Role::Probe | Role::EduDriver | Role::Control => Ink::NvmeServer,
            Role::Client => Ink::Client,
        };
        self.canvas.marked(&[("data-component", name)], |canvas| {
            canvas.card(place.x, place.y, place.width, place.height, ink);
        });
        self.canvas.text(place.x + 14, place.y + 25, name_size(name, place.width), Weight::Bold, Ink::Text, name);
        let mut lines = vec![format!("component {id}, priority {priority}"), holds(self.specification, index)];
        if role == Role::Console {
            // A wide box has everything in one line.
            lines = vec![lines.join(", ")];
        }
        lines.extend(purpose(role).iter().map(|line| (*line).to_owned()));
        for (line, number) in lines.iter().zip(0..) {
            self.canvas.text(place.x + 14, place.y + 44 + number * 16, 11, Weight::Regular, Ink::Faint, line);
        }
    }

    fn legend(&mut self) {
        let entries = [
            (Ink::Call, false, Head::Arrow, "call on an endpoint"),
            (Ink::Signal, false, Head::Arrow, "notification"),
            (Ink::Shared, false, Head::Arrow, "memory: writer to reader"),
            (Ink::Frames, true, Head::Dot, "frames held for DMA, never mapped"),
            (Ink::Device, false, Head::Arrow, "device"),
            (Ink::Control, true, Head::Arrow, "control of a VSpace"),
        ];
        let y = self.layout.bottom + 32;
        let mut x = MARGIN;
        for (ink, dashed, head, label) in entries {
            self.canvas.line(&Line { points: vec![(x, y), (x + 34, y)], ink, dashed, head });
            self.canvas.text(x + 42, y + 4, 12, Weight::Regular, Ink::Text, label);
            x += 66 + label.len() as i32 * 7;
        }
    }
}

/// Size of a component's name that fits into a box of this width: 16, or less for a long name.
fn name_size(name: &str, width: i32) -> i32 {
    // A bold letter is about two thirds as wide as the font is high.
    let letters = name.chars().count() as i32;
    ((width - 28) * 3 / (letters.max(1) * 2)).min(16)
}

const fn style(kind: Kind) -> (Ink, bool, Head) {
    match kind {
        Kind::Call => (Ink::Call, false, Head::Arrow),
        Kind::Signal => (Ink::Signal, false, Head::Arrow),
        Kind::Shared => (Ink::Shared, false, Head::Arrow),
        Kind::Frames => (Ink::Frames, true, Head::Dot),
        Kind::Control => (Ink::Control, true, Head::Arrow),
    }
}

/// The purpose of components of this role, in lines as long as their boxes are wide.
const fn purpose(role: Role) -> &'static [&'static str] {
    match role {
        Role::Console => &["reads every log ring, writes none; the only one with the serial port"],
        Role::PciServer => &["", "hands out BARs, interrupts", "and IOSpaces, keeps every", "MSI-X table"],
        Role::IommuServer => &["", "keeps the functions'", "address spaces"],
        Role::NvmeServer => &["", "owns the queues, checks", "requests, maps no window"],
        Role::Policy => &["", "says which blocks sessions", "may touch, reaches none"],
        Role::Probe => &["", "drives the controller to see", "what DMA is stopped"],
        Role::EduDriver => &["", "takes the edu device's", "interrupts"],
        Role::Control => &["acts for an operator"],
        Role::Client => &[],
    }
}

/// Capabilities that each component holds beside those of its runs: that by which its faults arrive.
const FAULT_ENDPOINT: u32 = 1;

/// Counts the capabilities and slots of a component, as the root task reports them.
fn holds(specification: &Specification, index: usize) -> String {
    let component = &specification.components[index];
    let object = |id: u32| &specification.objects[id as usize];
    let own = specification.caps.iter().filter(|run| run.cnode == component.cnode);
    let capabilities: u32 = own.map(|run| object(run.object).count).sum::<u32>() + FAULT_ENDPOINT;
    let slots = match object(component.cnode).kind {
        ObjectKind::CNode { size_bits } => 1u64 << size_bits,
        _ => 0,
    };
    format!("{capabilities} capabilities, {slots} slots")
}

#[cfg(test)]
mod tests;

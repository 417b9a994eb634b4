//! The rule about moments and kills: the root task stops the components that are declared, when it is declared, and no others.

use super::{Declaration, Rule, System, declaration};
use capdl_spec::{Component, Kill, Moment, Need};

impl Declaration {
    /// The moments and kills in a system of these components. A component that it lacks counts nothing, and is not stopped.
    #[must_use]
    pub fn announced(&self, components: &[Component]) -> (Vec<Moment>, Vec<Kill>) {
        let number = |name: &str| components.iter().find(|one| one.name == name).map(|one| one.id);
        let need = |need: &declaration::Need| {
            let component = number(&need.component).unwrap_or(u16::MAX);
            Need { component, counted: need.counted, at_least: need.at_least }
        };
        let moment = |moment: &declaration::Moment| Moment {
            needs: moment.needs.iter().map(need).collect(),
            after_us: moment.after_us,
        };
        let kill = |kill: &declaration::Kill| {
            let declaration::Kill { ref component, moment, times, every_us, spread_us } = *kill;
            Some(Kill { component: number(component)?, moment, times, every_us, spread_us })
        };
        (self.moments.iter().map(moment).collect(), self.kills.iter().filter_map(kill).collect())
    }
}

impl System<'_> {
    /// Compares moments and kills with the declared ones.
    pub(super) fn moments(&mut self) {
        let (moments, kills) = self.declaration.announced(&self.specification.components);
        if moments != self.specification.moments {
            let path = "the supervisor waits for other moments than those that are declared".into();
            self.refuse(Rule::ConfiguredAsDeclared, path);
        }
        let undeclared = self.specification.kills.iter().find(|kill| !kills.contains(kill));
        if let Some(Kill { component, moment, .. }) = undeclared {
            let path =
                format!("there is an order to kill component {component} at moment {moment}, which nothing declares");
            self.refuse(Rule::ConfiguredAsDeclared, path);
        } else if kills != self.specification.kills {
            let path = "there are fewer kills than are declared, or in another order".into();
            self.refuse(Rule::ConfiguredAsDeclared, path);
        }
    }
}

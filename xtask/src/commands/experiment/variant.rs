//! A scenario that differs from a written one in some values: the input for one point of an experiment.
//!
//! The values are put into the file's structure, and the whole text is parsed again. So a variant passes the same checks as every
//! other scenario, and can be run by hand from its file.

use crate::project::Project;
use anyhow::{Context, Result};
use std::fs;
use toml::{Table, Value};

/// A scenario to be changed.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Variant(Table);

impl Variant {
    /// The scenario `scenarios/experiments/<name>.toml`.
    pub(crate) fn of(project: &Project, name: &str) -> Result<Self> {
        let file = project.path(&format!("scenarios/experiments/{name}.toml"));
        let unreadable = || format!("cannot read {}", project.shown(&file));
        Self::parse(&fs::read_to_string(&file).with_context(unreadable)?).with_context(unreadable)
    }

    fn parse(text: &str) -> Result<Self> {
        Ok(Self(text.parse()?))
    }

    /// Sets `value` at `place`: keys with dots between them; `tenant/red` is the element of the list with that name.
    pub(crate) fn with(mut self, place: &str, value: impl Into<Value>) -> Result<Self> {
        let (way, last) = place.rsplit_once('.').unwrap_or(("", place));
        let table = way.split('.').filter(|key| !key.is_empty()).try_fold(&mut self.0, inside);
        table.with_context(|| format!("'{place}' is no place in the scenario"))?.insert(last.to_owned(), value.into());
        Ok(self)
    }

    /// Removes the tenants for which `keeps` is false.
    pub(crate) fn keeping_tenants(mut self, keeps: impl Fn(&str) -> bool) -> Self {
        if let Some(Value::Array(tenants)) = self.0.get_mut("tenant") {
            tenants.retain(|tenant| name_of(tenant).is_some_and(&keeps));
        }
        self
    }

    /// The scenario's text.
    pub(crate) fn text(&self) -> String {
        self.0.to_string()
    }
}

/// The table at `key` in `table`, created if it is missing; an element of a list must exist.
fn inside<'a>(table: &'a mut Table, key: &str) -> Option<&'a mut Table> {
    if let Some((list, name)) = key.split_once('/') {
        let elements = table.get_mut(list)?.as_array_mut()?;
        return elements.iter_mut().find(|element| name_of(element) == Some(name))?.as_table_mut();
    }
    table.entry(key).or_insert_with(|| Value::Table(Table::new())).as_table_mut()
}

fn name_of(element: &Value) -> Option<&str> {
    element.get("name")?.as_str()
}

#[cfg(test)]
mod tests {
    use super::*;
    use capdl::Scenario;

    const BASE: &str = "name = \"t\"\ndescription = \"t\"\n[[controller]]\nname = \"a\"\n[[controller.namespace]]\n\
        size = \"64M\"\n[[tenant]]\nname = \"red\"\nqueue_pairs = 1\nextents = [{ first = 0, blocks = 1024 }]\n\
        program.name = \"bench\"\n[tenant.program.config]\ndepth = 1\n";

    fn scenario(variant: &Variant) -> Scenario {
        Scenario::parse(&variant.text(), "t.toml").unwrap()
    }

    #[test]
    fn values_are_put_where_they_belong_and_tables_made_on_the_way() {
        let variant = Variant::parse(BASE).unwrap();
        let changed = variant.with("tenant/red.program.config.depth", 7).unwrap();
        let changed = changed.with("server.priority", 130).unwrap().with("seed", 9).unwrap();
        let scenario = scenario(&changed);
        let capdl::scenario::Workload::Bench(bench) = &scenario.tenants[0].workload else { panic!("no bench") };
        assert_eq!((bench.depth, scenario.server.priority, scenario.seed), (7, 130, 9));
    }

    #[test]
    fn tenants_are_left_out_by_name() {
        let other = BASE.replacen("[[tenant]]", "[[tenant]]\nname = \"blue\"\n[[tenant]]", 1);
        let one = Variant::parse(&other).unwrap().keeping_tenants(|name| name == "red");
        let names: Vec<_> = scenario(&one).tenants.iter().map(|tenant| tenant.name.clone()).collect();
        assert_eq!(names, ["red"]);
    }

    #[test]
    fn a_place_that_is_not_there_is_reported() {
        let error = Variant::parse(BASE).unwrap().with("tenant/green.class", "low").unwrap_err().to_string();
        assert!(error.contains("'tenant/green.class'"), "{error}");
    }
}

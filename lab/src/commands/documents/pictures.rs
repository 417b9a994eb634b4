//! Pictures: the capability graph, drawn from the demo's scenario, and the figures of experiments, drawn from their data.

use super::texts::Texts;
use crate::commands::experiment;
use anyhow::{Context, Result};
use capdl::Scenario;
use xtask::project::Project;

/// The capability graph.
const GRAPH: &str = "docs/capability-graph.svg";
/// Folder of the figures and their data.
const FIGURES: &str = "docs/figures/";

/// Draws the pictures.
pub(super) fn make(project: &Project, texts: &mut Texts) -> Result<()> {
    texts.insert(GRAPH.into(), graph(project)?);
    let of_data = |(path, csv): (&String, &String)| {
        let figure = path.strip_suffix(".csv")?;
        let name = figure.strip_prefix(FIGURES)?;
        let picture = experiment::redrawn(name, csv.as_bytes()).with_context(|| format!("{path} cannot be drawn"));
        Some(picture.map(|picture| (format!("{figure}.svg"), picture)))
    };
    let figures = texts.iter().filter_map(of_data).collect::<Result<Vec<_>>>()?;
    texts.extend(figures);
    Ok(())
}

/// Capability graph of the demo. It does not depend on the programs' sizes, so the simulator's images suffice.
fn graph(project: &Project) -> Result<String> {
    let scenario = Scenario::load(project.scenario("demo")?)?;
    Ok(capdl::build(&scenario, &sim::programs(scenario.machine.arch))?.svg())
}

#[cfg(test)]
mod tests {
    use super::super::texts::texts;
    use super::*;

    #[test]
    fn figures_are_drawn_of_their_data() {
        let project = Project::here().unwrap();
        let data = |part| {
            format!("weighed_by,class,weight,part,iops,total_iops,p99_us\nthe controller,high,0.6,{part},1,1,1\n")
        };
        let drawn = |part| {
            let mut texts = texts(&[("docs/figures/wrr.csv", &data(part)), ("docs/figures/wrr.svg", "old")]);
            make(&project, &mut texts).unwrap();
            texts["docs/figures/wrr.svg"].clone()
        };
        assert!(drawn("0.5").contains("</svg>"));
        assert_ne!(drawn("0.5"), drawn("0.4"));
        let error = make(&project, &mut texts(&[("docs/figures/no.csv", "")])).unwrap_err();
        assert_eq!(format!("{error:#}"), "docs/figures/no.csv cannot be drawn: no experiment makes the figure no");
    }
}

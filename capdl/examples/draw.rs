//! Draws a scenario's capability graph, and writes its capDL text beside it:
//! `cargo run -p capdl --example draw -- scenarios/demo.toml FOLDER_WITH_PROGRAMS docs/capability-graph.svg`

use capdl::{Programs, Scenario, build};
use std::error::Error;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [scenario, folder, picture] = arguments.as_slice() else {
        return Err("write: draw SCENARIO.toml FOLDER_WITH_PROGRAMS PICTURE.svg".into());
    };
    let scenario = Scenario::load(scenario)?;
    let programs = Programs::load(Path::new(folder), &scenario.programs())?;
    let system = build(&scenario, &programs)?;
    let text = Path::new(picture).with_extension("cdl");
    std::fs::write(picture, system.svg())?;
    std::fs::write(&text, system.cdl())?;
    println!("{picture} and {}; the image has {} KiB", text.display(), system.image().len() >> 10);
    Ok(())
}

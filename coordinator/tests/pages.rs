//! What the pages tell people to write down is what the program takes.
#![allow(clippy::unwrap_used)] // A test fails by panicking.

use shockwave::cli::{JobTerms, ServeSettings};
use shockwave::launcher::slurm::settings::check_all;

/// The blocks of a page in one language.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let path = format!("{}/../docs/{page}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap();
    let begin = format!("```{language}\n");
    let rests = text.split(&begin).skip(1);
    rests.filter_map(|rest| rest.split("```").next()).map(str::to_owned).collect()
}

#[test]
fn the_published_clusters_settings_can_be_used() {
    let blocks = blocks("published-cluster.md", "toml");
    let [serve, job] = &blocks[..] else { panic!("{} blocks", blocks.len()) };
    let settings: ServeSettings = toml::from_str(serve).unwrap();
    check_all(&settings.slurm, settings.jobs.is_some()).unwrap();
    let pool = &settings.slurm[0];
    assert_eq!((pool.nodes_max, pool.devices_per_node), (8, 4));
    let options = settings.options().unwrap();
    assert_eq!(options.configuration.policy, "shockwave-paper");
    options.configuration.engine().unwrap();
    let _: JobTerms = toml::from_str(job).unwrap();
}

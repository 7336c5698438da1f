//! Settings of pools that cannot be, and what is made of those that can.

use super::*;

fn pool(more: &str) -> Result<Pool, toml::de::Error> {
    toml::from_str(&format!("name = 'low'\nnodes_max = 3\ndevices_per_node = 4\n{more}"))
}

#[test]
fn what_is_not_said_has_a_default() {
    let pool = pool("").unwrap();
    pool.check().unwrap();
    assert_eq!((pool.nodes_min, pool.backlog), (0, 1));
    assert_eq!(pool.gres_for(4), "gpu:4");
}

/// The examples in docs/slurm.md can be used as they are.
#[test]
fn the_documented_pools_are_right() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/slurm.md");
    let page = std::fs::read_to_string(page).unwrap();
    let examples: Vec<&str> =
        page.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert!(examples.len() >= 2);
    #[derive(Deserialize)]
    struct File {
        slurm: Vec<Pool>,
    }
    let read = |text: &&str| toml::from_str::<File>(text).unwrap().slurm;
    let pools = examples.iter().flat_map(read);
    pools.for_each(|pool| pool.check().unwrap());
    let all = toml::to_string(&Pool { name: "low".into(), ..Pool::default() }).unwrap();
    let keys = all.lines().filter_map(|line| line.split(" = ").next());
    let keys = keys.map(|key| key.trim_matches(['[', ']']));
    for key in keys.filter(|key| !key.is_empty()) {
        assert!(page.contains(&format!("\n{key} = ")), "{key} is not documented");
    }
}

#[test]
fn types_and_words_of_ones_own() {
    assert_eq!(pool("gres_type = 'a100'").unwrap().gres_for(2), "gpu:a100:2");
    assert_eq!(pool("gres = 'gpu:h100:8,shard:2'").unwrap().gres_for(2), "gpu:h100:8,shard:2");
    assert_eq!(pool("devices = 'cpu:4'").unwrap().gres_for(4), "");
}

#[test]
fn what_cannot_be_is_named() {
    let check = |more: &str, field: &str| {
        let error = pool(more).unwrap().check().unwrap_err();
        assert_eq!((error.pool.as_str(), error.field), ("low", field));
    };
    check("partition = 'a b'", "partition");
    check("options = ['exclusive']", "options");
    check("devices = 'tpu'", "devices");
    check("nodes_min = 4", "nodes_min");
    check("backlog = 0", "backlog");
    check("walltime_s = 5", "walltime_s");
    check("idle_s = nan", "idle_s");
    check("walltime_s = 100\nwarning_s = 60", "warning_s");
    assert!(pool("partitoin = 'x'").unwrap_err().to_string().contains("partitoin"));
}

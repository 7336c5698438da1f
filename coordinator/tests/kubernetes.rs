//! The manifests of docs/kubernetes.md: they are what the page says, and what they start is what
//! the program takes. No cluster is asked.
#![allow(clippy::unwrap_used)] // A test fails by panicking.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::Parser;
use shockwave::cli::{Cli, Command, ServeSettings};
use yaml_rust2::{Yaml, YamlLoader};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/kubernetes")
}

/// Every object of a manifest.
fn objects(name: &str) -> Vec<Yaml> {
    let text = std::fs::read_to_string(folder().join(name)).unwrap();
    YamlLoader::load_from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn all() -> Vec<Yaml> {
    ["coordinator.yaml", "queue.yaml", "agent.yaml"].into_iter().flat_map(objects).collect()
}

fn text<'a>(value: &'a Yaml, path: &[&str]) -> &'a str {
    let found = path.iter().fold(value, |value, key| &value[*key]);
    found.as_str().unwrap_or_else(|| panic!("no text at {path:?} in {value:?}"))
}

fn list<'a>(value: &'a Yaml, key: &str) -> &'a [Yaml] {
    value[key].as_vec().map_or(&[], Vec::as_slice)
}

/// An object of a kind and name.
fn object(kind: &str, name: &str) -> Yaml {
    let found = all()
        .into_iter()
        .find(|it| text(it, &["kind"]) == kind && text(it, &["metadata", "name"]) == name);
    found.unwrap_or_else(|| panic!("no {kind} {name}"))
}

/// Containers of a StatefulSet, the ones that run before others first.
fn containers(set: &Yaml) -> Vec<Yaml> {
    let spec = &set["spec"]["template"]["spec"];
    list(spec, "initContainers").iter().chain(list(spec, "containers")).cloned().collect()
}

fn command_of(container: &Yaml) -> Vec<String> {
    let words = list(container, "command").iter().chain(list(container, "args"));
    words.map(|word| word.as_str().unwrap().to_owned()).collect()
}

fn sets() -> Vec<Yaml> {
    all().into_iter().filter(|it| text(it, &["kind"]) == "StatefulSet").collect()
}

#[test]
fn the_manifests_have_the_objects_that_the_page_names() {
    let line = |it: &Yaml| {
        let version = text(it, &["apiVersion"]);
        format!("{version} {} {}", text(it, &["kind"]), text(it, &["metadata", "name"]))
    };
    insta::assert_snapshot!(all().iter().map(line).collect::<Vec<_>>().join("\n"), @r"
    v1 Namespace shockwave
    v1 ConfigMap shockwave
    v1 PersistentVolumeClaim shockwave-jobs
    v1 Service shockwave
    apps/v1 StatefulSet shockwave
    kueue.x-k8s.io/v1beta2 ResourceFlavor a100
    kueue.x-k8s.io/v1beta2 ClusterQueue shockwave
    kueue.x-k8s.io/v1beta2 LocalQueue shockwave
    apps/v1 StatefulSet shockwave-agent-0
    ");
    let page = std::fs::read_to_string(folder().join("../kubernetes.md")).unwrap();
    assert!(page.contains("None of this was tried on a live cluster"));
}

/// Every command line is one that the program takes.
#[test]
fn what_is_started_can_be_started() {
    let commands: Vec<Vec<String>> =
        sets().iter().flat_map(containers).map(|it| command_of(&it)).collect();
    let ours: Vec<&Vec<String>> = commands.iter().filter(|it| it[0] == "shockwave").collect();
    assert_eq!(ours.len(), 3, "{commands:?}");
    for command in ours {
        let parsed = Cli::try_parse_from(command).unwrap_or_else(|error| panic!("{error}"));
        match parsed.command {
            Command::Agent(agent) => {
                assert!(agent.pilot, "a pod that is taken away gives its machine back");
                let agents = object("StatefulSet", "shockwave-agent-0");
                let grace_s =
                    agents["spec"]["template"]["spec"]["terminationGracePeriodSeconds"].as_i64();
                assert_eq!(grace_s, Some(agent.warning_s as i64));
            }
            Command::Serve(serve) => assert!(serve.config.is_some()),
            Command::CheckConfig(_) => {}
            other => panic!("{other:?}"),
        }
    }
}

/// The settings are ones that `serve` takes, and the address is the one that agents are given.
#[test]
fn the_settings_can_be_used() {
    let map = object("ConfigMap", "shockwave");
    let settings: ServeSettings = toml::from_str(text(&map, &["data", "serve.toml"])).unwrap();
    let options = settings.options().unwrap();
    assert!(options.tls.is_some() && options.devices.is_empty());
    let advertised = options.advertise.unwrap();
    let agent = containers(&object("StatefulSet", "shockwave-agent-0")).pop().unwrap();
    let wanted = format!("--coordinator=https://{advertised}");
    assert!(command_of(&agent).contains(&wanted), "{wanted}");
    let set = object("StatefulSet", "shockwave");
    let (name, service) = (text(&set, &["metadata", "name"]), text(&set, &["spec", "serviceName"]));
    let namespace = text(&set, &["metadata", "namespace"]);
    assert_eq!(advertised, format!("{name}-0.{service}.{namespace}.svc:7433"));
    let mounts = containers(&set).pop().unwrap();
    let mounts: Vec<&str> =
        list(&mounts, "volumeMounts").iter().map(|it| text(it, &["mountPath"])).collect();
    assert!(mounts.contains(&options.jobs_dir.to_str().unwrap()), "{mounts:?}");
    assert!(mounts.iter().any(|it| options.state_dir.starts_with(it)), "{mounts:?}");
}

/// What one object calls by name is there, or the page says how it is made.
#[test]
fn names_agree() {
    let page = std::fs::read_to_string(folder().join("../kubernetes.md")).unwrap();
    for set in sets() {
        let spec = &set["spec"]["template"]["spec"];
        let mut volumes = BTreeSet::new();
        for volume in list(spec, "volumes") {
            volumes.insert(text(volume, &["name"]).to_owned());
            if let Some(secret) = volume["secret"]["secretName"].as_str() {
                let made = format!("create secret generic {secret}");
                assert!(page.contains(&made), "nobody makes the secret {secret}");
            }
            if let Some(claim) = volume["persistentVolumeClaim"]["claimName"].as_str() {
                object("PersistentVolumeClaim", claim);
            }
            if let Some(map) = volume["configMap"]["name"].as_str() {
                object("ConfigMap", map);
            }
        }
        let templates = list(&set["spec"], "volumeClaimTemplates");
        volumes.extend(templates.iter().map(|it| text(it, &["metadata", "name"]).to_owned()));
        for container in containers(&set) {
            for mount in list(&container, "volumeMounts") {
                let volume = text(mount, &["name"]);
                assert!(volumes.contains(volume), "no volume {volume}");
            }
        }
        let labels = &set["spec"]["template"]["metadata"]["labels"];
        assert_eq!(labels["app"], set["spec"]["selector"]["matchLabels"]["app"]);
    }
    let agent = object("StatefulSet", "shockwave-agent-0");
    let queue = text(&agent, &["metadata", "labels", "kueue.x-k8s.io/queue-name"]);
    let queue = object("LocalQueue", queue);
    let cluster_queue = object("ClusterQueue", text(&queue, &["spec", "clusterQueue"]));
    for group in list(&cluster_queue["spec"], "resourceGroups") {
        for flavor in list(group, "flavors") {
            object("ResourceFlavor", text(flavor, &["name"]));
        }
    }
}

//! The web page in a real browser: what it shows, that it stays in place while it is refreshed, and how it looks.
#![allow(clippy::unwrap_used)] // A test fails by panicking.

use std::path::{Path, PathBuf};
use std::time::Duration;

use shockwave_tests::browser::Browser;
use shockwave_tests::coordinator::Coordinator;
use shockwave_tests::training::Training;

const PATIENCE: Duration = Duration::from_secs(300);
const PAGES: [(&str, &str); 6] = [
    ("overview", "/"),
    ("jobs", "/jobs"),
    ("job", "/job/1"),
    ("fairness", "/fairness"),
    ("cluster", "/cluster"),
    ("events", "/events"),
];

/// A coordinator with something to show: jobs that run, wait, have ended well and badly.
fn busy(folder: &Path) -> Coordinator {
    let arguments =
        "--devices cpu:2 --round-s 4 --grace-s 20 --min-run-s 1 --web 127.0.0.1:0 --node lab-1";
    let coordinator = Coordinator::start(&folder.join("serve"), arguments).unwrap();
    let submit = |name: &str, options: &str| {
        let training = Training::new(
            &folder.join(name),
            &format!("--depth 8 --width 6 --train-samples 512 --test-samples 128 {options}"),
        );
        std::fs::create_dir_all(training.checkpoints()).unwrap();
        coordinator.submit(name, &training.command()).unwrap()
    };
    let first =
        submit("accordion", "--epochs 6 --batch 16 --policy accordion --period 2 --max-batch 128");
    submit("schedule", "--epochs 5000 --batch 16 --policy expert --schedule 0:16,3:32,40:64");
    submit("gns", "--epochs 5000 --batch 16 --policy gns --period 1 --max-batch 64");
    submit("static", "--epochs 5000 --batch 32");
    let failing = coordinator.submit("failing", &["false".to_owned()]).unwrap();
    let cancelled = submit("cancelled", "--epochs 5");
    coordinator.command(&["cancel", &cancelled.to_string()]).unwrap();
    coordinator.ended(failing, PATIENCE).unwrap();
    coordinator.ended(first, PATIENCE).unwrap();
    coordinator
}

/// Where pictures go: beside the build, or into the documentation when that is asked for.
fn pictures() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let folder = match std::env::var_os("SHOCKWAVE_UPDATE_IMAGES") {
        Some(_) => root.join("docs/images"),
        None => root.join("target/web"),
    };
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

const DRAWN: &str = "return document.querySelectorAll('main section').length > 0 \
     && document.getElementById('status').textContent.startsWith('round')";

#[test]
fn the_page_in_a_browser() {
    let Some(browser) = Browser::start().unwrap() else { return };
    let scratch = tempfile::tempdir().unwrap();
    let coordinator = busy(scratch.path());
    let web = coordinator.web().unwrap();
    let at = |path: &str| format!("{}{path}", web.trim_end_matches('/'));
    let folder = pictures();
    for width in [1280, 390] {
        browser.resize(width).unwrap();
        for (name, path) in PAGES {
            browser.open(&at(path)).unwrap();
            browser.until(DRAWN).unwrap();
            let wide = browser.run("return document.documentElement.scrollWidth").unwrap();
            assert!(wide.as_u64().unwrap() <= u64::from(width), "{name} at {width} is {wide} wide");
            browser.run(&without_paths(folder.parent().unwrap(), scratch.path())).unwrap();
            let picture = browser.screenshot(if width < 600 { 1600 } else { 1300 }).unwrap();
            std::fs::write(folder.join(format!("{name}-{width}.png")), picture).unwrap();
            assert_eq!(browser.complaints().unwrap(), Vec::<String>::new(), "{name} at {width}");
            check_accessible(&browser, name);
        }
    }
    check_content(&browser, &at);
    check_in_place(&browser, &at);
    check_missing(&browser, &at);
    check_keyboard_and_dark(&browser, &at, &folder);
}

/// Pictures show no folder of the machine that they were taken on.
fn without_paths(target: &Path, scratch: &Path) -> String {
    let programs = shockwave_tests::programs::program("resnet_cifar");
    let programs = programs.parent().unwrap().display().to_string();
    let (target, scratch) = (target.display(), scratch.display());
    // The page is drawn anew while it is looked at.
    format!(
        "const clean = () => {{ \
             const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT); \
             while (walk.nextNode()) for (const path of [{programs:?}, '{target}', '{scratch}']) \
                 if (walk.currentNode.data.includes(path)) \
                     walk.currentNode.data = walk.currentNode.data.replaceAll(path, '/opt/train'); \
         }}; \
         clean(); \
         new MutationObserver(clean) \
             .observe(document.body, {{ childList: true, subtree: true, characterData: true }})"
    )
}

/// What a screen reader needs: a language, one main heading, names for pictures and regions.
fn check_accessible(browser: &Browser, name: &str) {
    let script = "const nameless = [...document.querySelectorAll('svg, [role=region], [role=img]')] \
             .filter(it => !it.getAttribute('aria-label')).map(it => it.outerHTML.slice(0, 80)); \
         const cells = [...document.querySelectorAll('th')].filter(it => it.scope !== 'col').length; \
         return [document.documentElement.lang, document.querySelectorAll('h1').length, \
                 nameless, cells, document.title !== '', \
                 document.querySelectorAll('[aria-current=page]').length]";
    let found = browser.run(script).unwrap();
    assert_eq!(found, serde_json::json!(["en", 1, [], 0, true, 1]), "{name}");
}

fn check_content(browser: &Browser, at: &impl Fn(&str) -> String) {
    browser.resize(1280).unwrap();
    browser.open(&at("/")).unwrap();
    browser.until(DRAWN).unwrap();
    let text = browser.run("return document.body.innerText").unwrap().to_string();
    for wanted in ["Timeline", "lab-1 0", "lab-1 1", "planned", "price", "schedule", "Ended last"] {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
    let states = browser.run(
        "return [...document.querySelectorAll('section[aria-label=\"Active jobs\"] tbody tr')] \
         .map(row => row.children[2].innerText)",
    );
    let states = states.unwrap();
    let ended = ["finished", "failed", "cancelled"];
    assert!(states.as_array().unwrap().len() >= 3, "{states}");
    assert!(
        states.as_array().unwrap().iter().all(|state| !ended.contains(&state.as_str().unwrap()))
    );

    browser.open(&at("/jobs")).unwrap();
    browser.until(DRAWN).unwrap();
    let states = browser
        .run("return [...document.querySelectorAll('tbody tr')].map(row => row.children[2].innerText)")
        .unwrap();
    let states: Vec<&str> =
        states.as_array().unwrap().iter().filter_map(|it| it.as_str()).collect();
    let first_ended = states.iter().position(|state| ended.contains(state)).unwrap();
    assert!(states[first_ended..].iter().all(|state| ended.contains(state)), "{states:?}");
    assert!(first_ended >= 3, "active jobs come first: {states:?}");

    browser.open(&at("/job/1")).unwrap();
    browser.until(DRAWN).unwrap();
    let text = browser.run("return document.body.innerText").unwrap().to_string();
    for wanted in ["Batch size", "Loss", "Forecast against reality", "Log, its end", "finished"] {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
    let charts = browser.run("return document.querySelectorAll('svg path').length").unwrap();
    assert!(charts.as_u64().unwrap() >= 3, "{charts} lines are drawn");
}

/// A table that was scrolled stays where it is while the page is refreshed.
fn check_in_place(browser: &Browser, at: &impl Fn(&str) -> String) {
    browser.resize(700).unwrap();
    browser.open(&at("/jobs")).unwrap();
    browser.until(DRAWN).unwrap();
    browser
        .run(
            "window.kept = document.querySelector('.wide'); kept.focus(); kept.scrollLeft = 60; \
             window.changes = 0; new MutationObserver(() => window.changes++).observe(\
             document.getElementById('status'), { childList: true, characterData: true, subtree: true })",
        )
        .unwrap();
    browser.until("return window.changes >= 3").unwrap();
    let kept = browser
        .run("return [kept.isConnected, kept.scrollLeft, document.activeElement === kept]")
        .unwrap();
    assert_eq!(kept, serde_json::json!([true, 60, true]));
}

/// A job that is not there is said so, once.
fn check_missing(browser: &Browser, at: &impl Fn(&str) -> String) {
    browser.open(&at("/job/999")).unwrap();
    browser.until("return document.body.innerText.includes('there is no job 999')").unwrap();
    std::thread::sleep(Duration::from_secs(3));
    let asked = browser.run(
        "return performance.getEntriesByType('resource').filter(it => it.name.endsWith('/api/job/999')).length",
    );
    assert_eq!(asked.unwrap(), 1);
    browser.complaints().unwrap();
}

fn check_keyboard_and_dark(browser: &Browser, at: &impl Fn(&str) -> String, folder: &Path) {
    browser.resize(1280).unwrap();
    browser.open(&at("/")).unwrap();
    browser.until(DRAWN).unwrap();
    browser.press("Tab", 9).unwrap();
    assert_eq!(
        browser.run("return document.activeElement.innerText").unwrap(),
        "Skip to the content"
    );
    let back = "return getComputedStyle(document.body).backgroundColor";
    browser.prefer("light").unwrap();
    let light = browser.run(back).unwrap();
    browser.prefer("dark").unwrap();
    assert_ne!(browser.run(back).unwrap(), light);
    std::fs::write(folder.join("overview-dark.png"), browser.screenshot(1300).unwrap()).unwrap();
}

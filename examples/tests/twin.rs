//! The SDK adds at most 12 lines to a plain tch loop.

/// The lines of `main`, without their indentation.
fn main_of(program: &str) -> Vec<&str> {
    let (_, body) = program.split_once("fn main()").unwrap_or_default();
    body.lines().map(str::trim).filter(|line| !line.is_empty()).collect()
}

/// Lines of `new` that are not in `old`: by the longest common subsequence, as diff counts.
fn added(old: &[&str], new: &[&str]) -> usize {
    let mut common = vec![vec![0; new.len() + 1]; old.len() + 1];
    for (i, left) in old.iter().enumerate() {
        for (j, right) in new.iter().enumerate() {
            common[i + 1][j + 1] = if left == right {
                common[i][j] + 1
            } else {
                common[i][j + 1].max(common[i + 1][j])
            };
        }
    }
    new.len() - common[old.len()][new.len()]
}

/// The programs without and with a session.
const TWINS: [(&str, &str, &str); 3] = [
    (
        "cifar",
        include_str!("../src/bin/plain_cifar.rs"),
        include_str!("../src/bin/resnet_cifar.rs"),
    ),
    (
        "text",
        include_str!("../src/bin/plain_text.rs"),
        include_str!("../src/bin/transformer_text.rs"),
    ),
    (
        "ratings",
        include_str!("../src/bin/plain_ratings.rs"),
        include_str!("../src/bin/neumf_ratings.rs"),
    ),
];

#[test]
fn the_sdk_adds_at_most_12_lines_to_a_plain_loop() {
    for (name, plain, wrapped) in TWINS {
        let (plain, wrapped) = (main_of(plain), main_of(wrapped));
        assert!(plain.len() > 15 && wrapped.len() > 15, "{name}: a program has changed its shape");
        let lines = added(&plain, &wrapped);
        assert!(lines <= 12, "{name}: {lines} lines are new or changed");
    }
}

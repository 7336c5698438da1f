//! A folder of pictures as a data set: what is read, augmentation, and what bad files are answered with.
#![allow(clippy::unwrap_used)] // Tests.

use std::path::Path;

use image::{GrayImage, Luma, Rgb, RgbImage};
use shockwave_sdk::data::{Draw, Fit, ImageFolder, Normalisation};
use shockwave_sdk::{Dataset, Error};
use tch::Tensor;

/// Levels come out as they are.
const PLAIN: Normalisation = Normalisation { mean: [0.0; 3], std: [1.0 / 255.0; 3] };

/// Red counts columns, green rows, blue is `blue`.
fn ramp(width: u32, height: u32, blue: u8) -> RgbImage {
    RgbImage::from_fn(width, height, |x, y| Rgb([x as u8, y as u8, blue]))
}

fn save(folder: &Path, name: &str, picture: &RgbImage) {
    let path = folder.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    picture.save(path).unwrap();
}

fn level(x: &Tensor, sample: i64, channel: i64, row: i64, column: i64) -> f64 {
    x.double_value(&[sample, channel, row, column]).round()
}

#[test]
fn pictures_come_in_the_order_of_classes_and_names() {
    let folder = tempfile::tempdir().unwrap();
    save(folder.path(), "dog/b.png", &ramp(16, 8, 3));
    save(folder.path(), "cat/z.png", &ramp(16, 8, 1));
    save(folder.path(), "dog/a.PNG", &ramp(16, 8, 2));
    std::fs::write(folder.path().join("dog/.hidden"), "left by a program").unwrap();
    let set = ImageFolder::open(folder.path(), 8, 16).unwrap().normalised(&PLAIN);
    assert_eq!(set.classes(), ["cat", "dog"]);
    assert_eq!(set.len(), 3);
    let batch = set.batch(&[2, 0, 1]).unwrap();
    assert_eq!(batch.x.size(), [3, 3, 8, 16]);
    assert_eq!(Vec::<i64>::try_from(&batch.y).unwrap(), [1, 0, 1]);
    let blue: Vec<f64> = (0..3).map(|sample| level(&batch.x, sample, 2, 0, 0)).collect();
    assert_eq!(blue, [3.0, 1.0, 2.0]);
    assert_eq!((level(&batch.x, 0, 0, 5, 11), level(&batch.x, 0, 1, 5, 11)), (11.0, 5.0));
    assert!(set.batch(&[3]).unwrap_err().to_string().contains("sample 3 of 3 pictures"));
}

#[test]
fn jpeg_and_grey_pictures_are_read_as_colours() {
    let folder = tempfile::tempdir().unwrap();
    save(folder.path(), "a/flat.jpg", &RgbImage::from_pixel(16, 16, Rgb([200, 100, 50])));
    let grey = GrayImage::from_pixel(16, 16, Luma([77]));
    grey.save(folder.path().join("a/grey.png")).unwrap();
    let set = ImageFolder::open(folder.path(), 16, 16).unwrap().normalised(&PLAIN);
    let x = set.batch(&[0, 1]).unwrap().x;
    for (channel, wanted) in [(0, 200.0), (1, 100.0), (2, 50.0)] {
        assert!((level(&x, 0, channel, 8, 8) - wanted).abs() <= 3.0, "JPEG loses a little");
        assert_eq!(level(&x, 1, channel, 3, 3), 77.0);
    }
}

#[test]
fn other_sizes_are_refused_or_cut() {
    let folder = tempfile::tempdir().unwrap();
    save(folder.path(), "a/wide.png", &ramp(64, 16, 9));
    let set = ImageFolder::open(folder.path(), 16, 16).unwrap().normalised(&PLAIN);
    let said = set.batch(&[0]).unwrap_err().to_string();
    assert!(said.contains("wide.png: 64 x 16 pixels") && said.contains("16 x 16 are expected"));
    let x = set.fit(Fit::Crop).batch(&[0]).unwrap().x;
    assert_eq!(x.size(), [1, 3, 16, 16]);
    // The middle: columns 24 to 39 of 64.
    assert_eq!((level(&x, 0, 0, 0, 0), level(&x, 0, 0, 0, 15)), (24.0, 39.0));
    save(folder.path(), "a/wide.png", &ramp(64, 128, 9));
    let x = ImageFolder::open(folder.path(), 16, 16).unwrap().normalised(&PLAIN);
    let x = x.fit(Fit::Crop).batch(&[0]).unwrap().x;
    // A quarter of the size, rows 8 to 23 of 32.
    assert!(
        (level(&x, 0, 1, 8, 8) - 65.5).abs() < 2.0 && (level(&x, 0, 0, 8, 8) - 33.5).abs() < 2.0
    );
}

#[test]
fn augmentation_depends_on_seed_epoch_and_sample_alone() {
    let folder = tempfile::tempdir().unwrap();
    save(folder.path(), "a/1.png", &ramp(32, 16, 1));
    save(folder.path(), "a/2.png", &ramp(32, 16, 2));
    let set = ImageFolder::open(folder.path(), 16, 32).unwrap().normalised(&PLAIN).augmented(true);
    let draw = |epoch| Draw { seed: 4, epoch };
    let mut seen = std::collections::HashSet::new();
    for epoch in 0..40 {
        let one = set.training_batch(&[1], draw(epoch)).unwrap().x;
        let two = set.training_batch(&[0, 1], draw(epoch)).unwrap().x;
        assert_eq!(one, two.narrow(0, 1, 1));
        assert_ne!(two.get(0).narrow(0, 0, 2), two.get(1).narrow(0, 0, 2), "each has its own");
        // An eighth of each side at most: the middle is always the picture's.
        let (column, row) = (level(&one, 0, 0, 8, 16), level(&one, 0, 1, 8, 16));
        assert!((11.0..=20.0).contains(&column) && (6.0..=10.0).contains(&row), "{column} {row}");
        seen.insert((column as i64, row as i64));
    }
    assert!(seen.len() > 15, "{}", seen.len());
}

#[test]
fn test_classes_have_the_numbers_of_the_training() {
    let folder = tempfile::tempdir().unwrap();
    for class in ["a", "b", "c"] {
        save(folder.path(), &format!("train/{class}/1.png"), &ramp(8, 8, 0));
    }
    save(folder.path(), "test/c/1.png", &ramp(8, 8, 0));
    let (train, test) = ImageFolder::pair(folder.path(), 8, 8).unwrap();
    assert_eq!((train.len(), test.len(), test.classes().len()), (3, 1, 3));
    assert_eq!(Vec::<i64>::try_from(&test.batch(&[0]).unwrap().y).unwrap(), [2]);
    save(folder.path(), "test/d/1.png", &ramp(8, 8, 0));
    let said = ImageFolder::pair(folder.path(), 8, 8).unwrap_err().to_string();
    assert!(said.contains("test/d: a class that") && said.contains("train has not"), "{said}");
}

#[test]
fn the_check_measures_and_finds_what_is_damaged() {
    let folder = tempfile::tempdir().unwrap();
    save(folder.path(), "a/1.png", &RgbImage::from_pixel(8, 8, Rgb([0, 51, 255])));
    save(folder.path(), "a/2.png", &RgbImage::from_pixel(8, 8, Rgb([102, 51, 255])));
    let set = ImageFolder::open(folder.path(), 8, 8).unwrap();
    let measured = set.check().unwrap();
    assert!((measured.mean[0] - 0.2).abs() < 1e-6 && (measured.std[0] - 0.2).abs() < 1e-6);
    assert_eq!((measured.mean[2], measured.std[2]), (1.0, 1.0 / 255.0));

    /// What is said, and what is done to a file.
    type Case<'a> = (&'a str, &'a dyn Fn(&Path));
    let cases: [Case<'_>; 4] = [
        ("damaged PNG", &|path| cut_to_half(path)),
        ("the file is empty", &|path| std::fs::write(path, "").unwrap()),
        ("unknown format; PNG and JPEG are read", &|path| {
            std::fs::write(path, "GIF89a..").unwrap()
        }),
        ("8 x 9 pixels", &|path| ramp(8, 9, 0).save(path).unwrap()),
    ];
    for (expected, damage) in cases {
        let path = folder.path().join("a/2.png");
        ramp(8, 8, 0).save(&path).unwrap();
        damage(&path);
        let said = set.check().unwrap_err();
        assert!(matches!(said, Error::Data(_)));
        let said = said.to_string();
        assert!(said.contains("a/2.png: ") && said.contains(expected), "{said}");
    }
}

fn cut_to_half(path: &Path) {
    let bytes = std::fs::read(path).unwrap();
    std::fs::write(path, &bytes[..bytes.len() / 2]).unwrap();
}

#[test]
fn a_jpeg_cut_short_anywhere_is_found() {
    let folder = tempfile::tempdir().unwrap();
    save(folder.path(), "a/1.jpg", &ramp(64, 64, 7));
    let path = folder.path().join("a/1.jpg");
    let whole = std::fs::read(&path).unwrap();
    let set = ImageFolder::open(folder.path(), 64, 64).unwrap();
    set.check().unwrap();
    // Decoders would fill the rest with grey.
    for share in [1, 30, 60, 90, 99] {
        std::fs::write(&path, &whole[..whole.len() * share / 100]).unwrap();
        let said = set.check().unwrap_err().to_string();
        assert!(said.contains("a/1.jpg: "), "{share} %: {said}");
    }
    std::fs::write(&path, [&whole[..], b"behind the end"].concat()).unwrap();
    set.check().unwrap();
}

#[test]
fn folders_that_are_none_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let said = |path: &Path| ImageFolder::open(path, 8, 8).unwrap_err().to_string();
    let absent = said(&folder.path().join("nowhere"));
    assert!(absent.contains("nowhere: no such folder"), "{absent}");
    assert!(said(folder.path()).contains("no folder there; each class has one"));

    std::fs::create_dir(folder.path().join("empty")).unwrap();
    let empty = said(folder.path());
    assert!(empty.contains("empty: no picture there; a class has one at least"), "{empty}");

    std::fs::write(folder.path().join("empty/notes.txt"), "x").unwrap();
    let other = said(folder.path());
    assert!(other.contains("notes.txt: not a picture's name; .png, .jpg and .jpeg"), "{other}");

    std::fs::write(folder.path().join("stray.png"), "x").unwrap();
    std::fs::remove_dir_all(folder.path().join("empty")).unwrap();
    let stray = said(folder.path());
    assert!(stray.contains("stray.png: a file beside the classes' folders"), "{stray}");

    let size = ImageFolder::open(folder.path(), 0, 8);
    assert!(size.is_err());
}

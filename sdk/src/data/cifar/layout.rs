//! The published sets, and how their files look.

use super::IMAGE_BYTES;

/// Which set, and which of its labels.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Layout {
    /// CIFAR-10.
    #[default]
    Cifar10,
    /// CIFAR-100 with its 100 classes ("fine labels").
    Cifar100,
    /// CIFAR-100 with its 20 superclasses ("coarse labels").
    Cifar100Coarse,
}

impl Layout {
    /// The set's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Cifar10 => "CIFAR-10",
            Self::Cifar100 | Self::Cifar100Coarse => "CIFAR-100",
        }
    }

    /// Number of classes.
    #[must_use]
    pub fn classes(self) -> usize {
        self.label_classes()[self.label_index()]
    }

    /// Bytes of one record: the labels and the picture.
    #[must_use]
    pub fn record_bytes(self) -> usize {
        self.label_bytes() + IMAGE_BYTES
    }

    pub(super) fn label_bytes(self) -> usize {
        self.label_classes().len()
    }

    /// The number of classes of each label byte.
    pub(super) fn label_classes(self) -> &'static [usize] {
        match self {
            Self::Cifar10 => &[10],
            Self::Cifar100 | Self::Cifar100Coarse => &[20, 100],
        }
    }

    /// Which label byte is the class.
    pub(super) fn label_index(self) -> usize {
        match self {
            Self::Cifar10 | Self::Cifar100Coarse => 0,
            Self::Cifar100 => 1,
        }
    }

    /// The names of the training split's files.
    pub(super) fn train(self) -> &'static str {
        match self {
            Self::Cifar10 => "data_batch_*.bin",
            Self::Cifar100 | Self::Cifar100Coarse => "train.bin",
        }
    }

    /// The name of the test split's file.
    pub(super) fn test(self) -> &'static str {
        match self {
            Self::Cifar10 => "test_batch.bin",
            Self::Cifar100 | Self::Cifar100Coarse => "test.bin",
        }
    }

    /// The files of the set, for people.
    pub(super) fn files(self) -> &'static str {
        match self {
            Self::Cifar10 => "data_batch_1.bin .. data_batch_5.bin and test_batch.bin",
            Self::Cifar100 | Self::Cifar100Coarse => "train.bin and test.bin",
        }
    }
}

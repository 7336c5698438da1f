//! The network of the benchmark.

use tch::nn::{self, ModuleT};

fn conv(p: nn::Path, i: i64, o: i64, k: i64, stride: i64) -> nn::Conv2D {
    let config = nn::ConvConfig { stride, padding: k / 2, bias: false, ..Default::default() };
    nn::conv2d(p, i, o, k, config)
}

fn block(p: nn::Path, i: i64, o: i64, stride: i64) -> impl ModuleT + use<> {
    let norm = |name: &str| nn::batch_norm2d(&p / name, o, Default::default());
    let (c1, b1) = (conv(&p / "c1", i, o, 3, stride), norm("b1"));
    let (c2, b2) = (conv(&p / "c2", o, o, 3, 1), norm("b2"));
    let short = (stride != 1 || i != o).then(|| (conv(&p / "cs", i, o, 1, stride), norm("bs")));
    nn::func_t(move |x, t| {
        let y = x.apply(&c1).apply_t(&b1, t).relu().apply(&c2).apply_t(&b2, t);
        let x = short.as_ref().map_or_else(|| x.shallow_clone(), |(c, b)| x.apply(c).apply_t(b, t));
        (y + x).relu()
    })
}

/// ResNet-18 for images of 32x32 pixels.
pub fn resnet18(p: &nn::Path) -> impl ModuleT + use<> {
    let (stem, norm) =
        (conv(p / "stem", 3, 64, 3, 1), nn::batch_norm2d(p / "norm", 64, Default::default()));
    let mut body = nn::seq_t();
    let mut i = 64;
    for (stage, (o, stride)) in [(64, 1), (128, 2), (256, 2), (512, 2)].into_iter().enumerate() {
        for half in 0..2 {
            body = body.add(block(
                p / format!("s{stage}h{half}"),
                i,
                o,
                if half == 0 { stride } else { 1 },
            ));
            i = o;
        }
    }
    let head = nn::linear(p / "head", 512, 10, Default::default());
    nn::func_t(move |x, t| {
        let x = x.apply(&stem).apply_t(&norm, t).relu().apply_t(&body, t);
        x.adaptive_avg_pool2d([1, 1]).flatten(1, -1).apply(&head)
    })
}

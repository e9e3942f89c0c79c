//! Cases of filters of images, fractals and cellular automata.

use super::case::*;

const SIZES: [[u32; 2]; 3] = [[32, 16], [70, 33], [5, 9]];

pub(crate) fn images() -> Vec<Case> {
    let mut cases = Vec::new();
    for size in SIZES {
        let ([width, height], count) = (size, size[0] * size[1]);
        let first = args![zero_floats(count), floats(count), width, height];
        let next = args![zero_floats(count), At(0), width, height];
        let taps = floats_of([0.05, 0.1, 0.2, 0.3, 0.25, 0.07, 0.03]);
        let rows = case("convolve_rows", cover(size, [32, 4]), [32, 4], first);
        let both = rows.then("convolve_columns", cover(size, [16, 8]), [16, 8], next);
        let whole = args![At(2), At(0), At(1), width, height];
        cases.push(both.expecting("convolve", whole).with_global("taps", taps));

        let (blocks, items) = (cover(size, [16, 4]), [16, 4]);
        let (input, output) = (bytes(count, 256), bytes(count, 1));
        let arguments = args![input.clone(), output.clone(), width, height, 0.75_f32];
        cases.push(case("sobel", blocks, items, arguments));
        cases.push(case("median", blocks, items, args![input, output, width, height]));
        let arguments = args![bytes(4 * count, 256), bytes(count, 1), count];
        cases.push(case("rgba_to_gray", parts(count, 96), 96, arguments));
        for radius in [1_u32, 4] {
            let gaussian = floats_of((0..64).map(|i| 1.0 / (1.0 + i as f32)));
            let pixels = args![zero_floats(4 * count), floats(4 * count), width, height];
            let arguments = [pixels, args![0.5_f32, radius]].concat();
            let filtered = case("bilateral", blocks, items, arguments);
            cases.push(filtered.with_global("gaussian", gaussian));
            let arguments = args![floats(count), zero_floats(count), width, height, radius];
            cases.push(case("box_rows", parts(height, 32), 32, arguments));
        }
    }
    cases
}

pub(crate) fn fractals() -> Vec<Case> {
    let mut cases = Vec::new();
    for size in SIZES {
        let ([width, height], count) = (size, size[0] * size[1]);
        let (blocks, items) = (cover(size, [8, 8]), [8, 8]);
        // Steps of powers of two are exact.
        let place = args![zeros(count), width, height, 100_u32, -2.0_f32, -1.0_f32, 0.03125_f32];
        cases.push(case("mandelbrot<float>", blocks, items, place).like("mandelbrot_float"));
        let place = args![zeros(count), width, height, 300_u32, -2.0_f64, -1.0_f64, 0.03125_f64];
        cases.push(case("mandelbrot<double>", blocks, items, place).like("mandelbrot_double"));

        let cells = args![bytes(count, 2), bytes(count, 1), width, height];
        let again = args![At(1), At(0), width, height];
        let both = case("life", cover(size, [16, 8]), [16, 8], cells);
        let both = both.then("life", cover(size, [16, 8]), [16, 8], again);
        cases.push(both.expecting("life", args![At(0), At(1), width, height]));
    }
    for size in [16, 50] {
        cases.push(case("julia", [size, size], 1, args![bytes(4 * size * size, 1)]));
    }
    for words_of_row in [1_u32, 100] {
        let arguments = args![words(2 * words_of_row, 1 << 24), zeros(2 * words_of_row)];
        let arguments = [arguments, args![words_of_row]].concat();
        cases.push(case("rule30", 2, 64, arguments));
    }
    cases
}

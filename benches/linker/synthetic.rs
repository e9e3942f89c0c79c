//! Objects with many functions, each in a section of its own, from generated C.
//!
//! The functions resemble the average of real ones, but are smaller. Each calls up to three others,
//! two of three in its own object. Some read a constant table, change a shared variable, or log
//! their name.

use std::fmt::Write;

/// Numbers of objects and functions in a program.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) objects: usize,
    pub(crate) functions_per_object: usize,
}

impl Shape {
    /// Returns the C source of one of the objects, which only depends on the shape and the number.
    pub(crate) fn source(self, object: usize) -> String {
        let mut numbers = Numbers(object as u64 + 1);
        let mut source = String::from("extern void log_name(const char *name, int value);\n");
        for function in 0..self.functions_per_object {
            self.write_function(&mut source, object, function, &mut numbers)
                .expect("a string takes everything");
        }
        source
    }

    fn write_function(
        self,
        out: &mut String,
        object: usize,
        function: usize,
        numbers: &mut Numbers,
    ) -> std::fmt::Result {
        let callees: Vec<_> = (0..numbers.below(4)).map(|_| self.callee(object, numbers)).collect();
        for (object, function) in &callees {
            writeln!(out, "int f{object}_{function}(int a, int b);")?;
        }
        let has_table = function.is_multiple_of(40);
        if has_table {
            let entries: Vec<_> = (0..8).map(|_| numbers.below(1 << 16).to_string()).collect();
            writeln!(
                out,
                "static const int table{object}_{function}[8] = {{{}}};",
                entries.join(", ")
            )?;
        }
        let shared = function - function % 10;
        if shared == function {
            writeln!(out, "int shared{object}_{shared} = {};", numbers.below(3))?;
        }
        writeln!(out, "int f{object}_{function}(int a, int b) {{")?;
        for (object, function) in &callees {
            writeln!(out, "  a = f{object}_{function}(a + {}, b) ^ b;", numbers.below(100))?;
        }
        if has_table {
            writeln!(out, "  b += table{object}_{function}[a & 7];")?;
        }
        match numbers.below(8) {
            0 => writeln!(out, "  shared{object}_{shared} += a;")?,
            1 => writeln!(out, "  log_name(\"f{object}_{function}\", a);")?,
            _ => {}
        }
        writeln!(out, "  return a * {} + b;\n}}", numbers.below(1000))
    }

    fn callee(self, object: usize, numbers: &mut Numbers) -> (usize, usize) {
        let elsewhere = numbers.below(3) == 0;
        let object = if elsewhere { numbers.below(self.objects) } else { object };
        (object, numbers.below(self.functions_per_object))
    }
}

/// A sequence of pseudo-random numbers from a fixed seed (SplitMix64).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % end as u64) as usize
    }
}

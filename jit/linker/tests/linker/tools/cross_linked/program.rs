//! The linked programs, without thread-local variables and indirect functions, for which each
//! linker has its own way.

use std::fmt::Write;

/// References of every kind between two objects and to undefined names.
pub(crate) const FIXED: [&str; 2] = [
    r#"
typedef unsigned long size_t;
extern int elsewhere, table[], weak_here;
extern int called(int), called_far(const char *, ...);
extern double half(double);
static int counter = 4;
static int zeroes[1000];
int shared = 7;
int *pointer = &table[3], *backward = &table[-2];
int (*const functions[])(int) = { called, 0, (int (*)(int))half };
static const char *const names[] = { "zero", "one", "two", "three" };
__attribute__((weak)) int weak_here = 3;
__attribute__((aligned(4096))) char page[4096] = { 1 };
__attribute__((section("listed"), used)) static int in_list[3] = { 1, 2, 3 };
extern int __start_listed[], __stop_listed[];
size_t list_size(void) { return (char *)__stop_listed - (char *)__start_listed; }
static __attribute__((noinline)) int local(int n) { return n * counter + zeroes[n]; }
int switched(int n)
{
    switch (n) {
    case 0: return called(1);
    case 1: return called_far(names[n], elsewhere, 2.5);
    case 2: return local(4);
    case 3: return shared++;
    case 4: return *pointer + *backward;
    case 5: return functions[n & 1](weak_here);
    case 6: return half(n) + table[n];
    case 7: return (int)(long)&elsewhere;
    }
    return called_far("other");
}
short narrow(unsigned n) { extern short shorts[]; return shorts[n]; }
char narrower(unsigned n) { extern char chars[]; return chars[n] + page[n]; }
__int128 wide(unsigned n) { extern __int128 wides[]; return wides[n]; }
double floating(double n) { return n * 3.14159 + half(1e100); }
"#,
    r#"
extern int shared, switched(int), elsewhere, unknown_data[];
extern int unknown(int);
int table[10] = { 1, 2, 3 };
short shorts[9];
char chars[77] = "characters";
__int128 wides[4];
struct node { struct node *next; int (*visit)(int); const char *name; };
extern struct node second;
struct node first = { &second, switched, "first" };
struct node second = { &first, unknown, "second" };
__attribute__((constructor)) static void begin(void) { shared = elsewhere; }
int called(int n) { return switched(n) + unknown(n) + unknown_data[n]; }
double half(double n) { return n / 2; }
int computed(int n)
{
    static const void *const labels[] = { &&one, &&two, &&three };
    goto *labels[n];
one: n += called(n);
two: n *= 3;
three: return n + (int)second.name[n];
}
"#,
];

/// Returns two objects that call each other: random functions, variables and tables, the same for
/// the same seed.
pub(crate) fn generated(seed: u64) -> [String; 2] {
    let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let prefix = format!("p{seed}_");
    let mut sources = [String::new(), String::new()];
    for source in &mut sources {
        for index in 0..COUNT {
            writeln!(source, "extern long {prefix}v{index}[], {prefix}f{index}(long);").unwrap();
        }
    }
    for index in 0..COUNT {
        let source = &mut sources[dice.below(2)];
        let (other, offset) = (dice.below(COUNT), dice.below(9));
        match dice.below(3) {
            0 => writeln!(source, "long {prefix}v{index}[9];"),
            1 => writeln!(source, "long {prefix}v{index}[9] = {{ {index}, {offset} }};"),
            _ => writeln!(
                source,
                "long {prefix}v{index}[9] = {{ (long)&{prefix}v{other}[{offset}] }};"
            ),
        }
        .unwrap();
    }
    for index in 0..COUNT {
        let source = &mut sources[dice.below(2)];
        writeln!(source, "long {prefix}f{index}(long n)\n{{").unwrap();
        for _ in 0..1 + dice.below(6) {
            let (other, offset) = (dice.below(COUNT), dice.below(9));
            match dice.below(6) {
                0 => writeln!(source, "    n += {prefix}f{other}(n);"),
                1 => writeln!(source, "    n ^= {prefix}v{other}[{offset}];"),
                2 => writeln!(source, "    {prefix}v{other}[n & 7] = n;"),
                3 => writeln!(source, "    n -= (long)&{prefix}v{other}[{offset}];"),
                4 => writeln!(
                    source,
                    "    if (n & {offset}) return {prefix}f{other}((long)\"text {other}\");"
                ),
                _ => writeln!(source, "    n *= (double)n * {other}.{offset};"),
            }
            .unwrap();
        }
        writeln!(source, "    return n;\n}}").unwrap();
    }
    sources
}

const COUNT: usize = 60;

/// Xorshift, which gives the same numbers for the same seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % end
    }
}

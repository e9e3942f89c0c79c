//! Variants of kernels with constant group sizes and arguments.

use super::cache::{files, with_cache};
use super::{Shop, clang};
use longshore::{
    Buffer, Device, DevicePointer, ErrorCode, Grid, KernelVariant, LoadOptions, Program, Queue,
    Untyped,
};
use longshore_tests::device_code::clangs;
use longshore_tests::world::root;
use std::process::Command;

/// Kernels of all forms. Each adds to `launches`, divides by an argument, and uses the group size.
const SOURCE: &str = r#"#include "longshore_device.h"
LONGSHORE_GLOBAL uint32_t launches;
static void count(uint32_t group, uint32_t item) {
  if (group == 0 && item == 0) __atomic_fetch_add(&launches, 1, __ATOMIC_RELAXED);
}
LONGSHORE_KERNEL(apart, (uint32_t *x, uint32_t divisor, float factor, uint8_t shift)) {
  const uint64_t i = longshore_global_id(0);
  count(longshore_group_id(0), longshore_item_id(0));
  longshore_assert(divisor != 0);
  x[i] = (uint32_t)((float)(i % divisor) * factor) + (longshore_group_items(0) << shift);
}
LONGSHORE_KERNEL(waiting, (uint32_t *x, uint32_t divisor, float factor, uint8_t shift)) {
  LONGSHORE_SHARED(uint32_t, tile, [256]);
  const uint32_t item = longshore_item_id(0), items = longshore_group_items(0);
  tile[item] = longshore_global_id(0) % divisor;
  longshore_barrier();
  count(longshore_group_id(0), item);
  longshore_assert(divisor != 0);
  x[longshore_global_id(0)] = (uint32_t)((float)tile[items - 1 - item] * factor) + (items << shift);
}
LONGSHORE_GROUP_KERNEL(grouped, (uint32_t *x, uint32_t divisor, float factor, uint8_t shift)) {
  LONGSHORE_SHARED(uint32_t, tile, [256]);
  LONGSHORE_ITEMS { tile[longshore_item_id(0)] = longshore_global_id(0) % divisor; }
  count(longshore_group_id(0), 0);
  LONGSHORE_ITEMS {
    const uint32_t item = longshore_item_id(0), items = longshore_group_items(0);
    longshore_assert(divisor != 0);
    x[longshore_global_id(0)] = (uint32_t)((float)tile[items - 1 - item] * factor) + (items << shift);
  }
}
static uint32_t begun;
__attribute__((constructor)) static void begin(void) { begun += 1; }
LONGSHORE_EXTERN_C_ void plain(void **arguments);
void plain(void **arguments) {
  uint32_t *x = *(uint32_t **)arguments[0], divisor = *(uint32_t *)arguments[1];
  launches += begun;
  for (uint32_t i = 0; i < 256; i++) x[i] = i % divisor;
}
"#;

const KERNELS: [&str; 3] = ["apart", "waiting", "grouped"];

/// Flags for code whose calls of barriers LLVM still sees, so that items become loops.
const UNCHANGED: &[&str] = &["-O2", "-Xclang", "-disable-llvm-passes", "-gline-tables-only"];

/// Compiles the kernels. The flags choose the level.
fn kernels(shop: &Shop, clang: &str, flags: &[&str]) -> Vec<u8> {
    let include = format!("-I{}", root().join("include").display());
    shop.bitcode(clang, SOURCE, &[&[include.as_str()], flags].concat())
}

fn load(device: &Device, image: &[u8], variants: &[KernelVariant]) -> longshore::Result<Program> {
    let options = variants
        .iter()
        .fold(LoadOptions::new(), |options, variant| options.with_variant(variant.clone()));
    // SAFETY: the test's own code.
    unsafe { device.load_with(image, &options) }
}

/// Returns a variant of a kernel, for all values that the kernel uses.
fn full(kernel: &str) -> KernelVariant {
    let variant = KernelVariant::for_kernel(kernel).with_group_items([64, 1, 1]);
    variant.with_argument(1, 24u32).with_argument(2, 1.5f32).with_argument(3, 3u8)
}

/// A program with memory for 256 items.
struct Run {
    program: Program,
    queue: Queue,
    x: Buffer<u32>,
}

impl Run {
    fn new(program: Program) -> Run {
        let queue = program.device().queue().unwrap();
        let x = program.device().buffer(&queue, 256).unwrap();
        Run { program, queue, x }
    }

    fn launch(&self, kernel: &str, items: u32, divisor: u32, factor: f32, shift: u8) -> Vec<u32> {
        let kernel = self.program.kernel(kernel).unwrap();
        let arguments = (&self.x, divisor, factor, shift);
        // SAFETY: the kernels take these arguments and write a number for each of 256 items.
        unsafe { self.queue.launch(&kernel, Grid::linear(256 / items, items), arguments).unwrap() };
        self.x.to_vec(&self.queue).unwrap()
    }

    fn launch_plain(&self, divisor: u32) -> Vec<u32> {
        let plain = self.program.kernel("plain").unwrap();
        // SAFETY: the kernel takes these arguments and writes 256 numbers.
        unsafe { self.queue.launch(&plain, Grid::default(), (&self.x, divisor)).unwrap() };
        self.x.to_vec(&self.queue).unwrap()
    }

    fn launches(&self) -> u32 {
        self.program.global("launches").unwrap().read(&self.queue).unwrap()
    }
}

#[test]
fn variants_give_the_results_of_their_kernels_and_share_their_globals() {
    let shop = Shop::new();
    let device = shop.device(&[]);
    let flags = [&["-O0"][..], &["-O1"], &["-O3", "-g"], &["-xc++", "-O2"], UNCHANGED];
    for (clang, flags) in clangs().into_iter().flat_map(|it| flags.map(|flags| (it, flags))) {
        let source = kernels(&shop, clang, flags);
        let plain = KernelVariant::for_kernel("plain").with_argument(1, 24u32);
        let [generic, special] = [vec![], [&KERNELS.map(full)[..], &[plain]].concat()]
            .map(|variants| Run::new(load(&device, &source, &variants).unwrap()));
        for kernel in KERNELS {
            // The first values are the variant's; each of the others differs in one.
            for (items, divisor, factor, shift) in [
                (64, 24, 1.5, 3),
                (32, 24, 1.5, 3),
                (64, 25, 1.5, 3),
                (64, 24, 2.5, 3),
                (64, 24, 1.5, 4),
            ] {
                let [expected, found] =
                    [&generic, &special].map(|it| it.launch(kernel, items, divisor, factor, shift));
                assert_eq!(found, expected, "{clang} {flags:?}: {kernel} of {items}, {divisor}");
            }
        }
        for divisor in [24, 25] {
            let [expected, found] = [&generic, &special].map(|it| it.launch_plain(divisor));
            assert_eq!(found, expected, "{clang} {flags:?}: {divisor}");
        }
        // The constructor ran once, and all kernels count in the same variable.
        assert_eq!([generic.launches(), special.launches()], [17, 17], "{clang} {flags:?}");
    }
}

#[test]
fn a_launch_runs_the_variant_with_its_values() {
    let Some(clang) = clang() else { return };
    let shop = Shop::new();
    let source = kernels(&shop, clang, &[]);
    let zero = |kernel: &str| KernelVariant::for_kernel(kernel).with_argument(1, 0u32);
    let larger = |kernel: &str| zero(kernel).with_group_items([64, 1, 1]);
    let variants = KERNELS.map(|kernel| [zero(kernel), larger(kernel)]).concat();
    let run = Run::new(load(&shop.device(&[]), &source, &variants).unwrap());
    for (number, kernel) in KERNELS.into_iter().enumerate() {
        let kernel = run.program.kernel(kernel).unwrap();
        let of = |items, divisor: u32| {
            let arguments = (&run.x, divisor, 1.0f32, 0u8);
            let grid = Grid::linear(256 / items, items);
            let variant = kernel.variant_for(grid, arguments).unwrap();
            // SAFETY: as for `Run::launch`; a failed assertion ends the launch.
            let result = unsafe { run.queue.launch_and_wait(&kernel, grid, arguments) };
            (variant.cloned(), result)
        };
        // The error names the code that ran.
        for (items, variant, number) in
            [(32, zero(kernel.name()), 2 * number), (64, larger(kernel.name()), 2 * number + 1)]
        {
            let (found, result) = of(items, 0);
            assert_eq!(found, Some(variant));
            let name = format!("'longshore_variant_{number}_of_{}'", kernel.name());
            let error = result.unwrap_err();
            assert!(error.message().contains(&name), "{error}");
        }
        assert_eq!(of(64, 1), (None, Ok(())));
    }
    let listed = run.program.symbols().unwrap().into_iter().map(|(name, _)| name);
    assert_eq!(listed.filter(|name| name.contains("variant")).count(), 0);
    let error = run.program.kernel("longshore_variant_0_of_apart").err().unwrap();
    assert_eq!(error.code(), ErrorCode::NotFound);
}

/// Returns the text of a kernel in a module's text. Loops over items that wait for each other may
/// be a function of their own.
fn code<'a>(module: &'a str, kernel: &str) -> &'a str {
    let function = |name: &str| {
        let end = format!(" @{name}(");
        let is_named = |part: &&str| part.lines().next().unwrap().contains(&end);
        module.split("\ndefine ").find(is_named)
    };
    let found = function(&format!("longshore_group_of_{kernel}")).or_else(|| function(kernel));
    let text = found.unwrap_or_else(|| panic!("{kernel} is not defined in {module}"));
    text.split("\n}\n").next().unwrap()
}

#[test]
fn the_code_of_a_variant_has_the_constants() {
    let shop = Shop::new();
    let path = shop.path().join("after.ll");
    let flags = [&["-O0"][..], &["-O1"], &["-O3"], UNCHANGED];
    for (clang, flags) in clangs().into_iter().flat_map(|it| flags.map(|flags| (it, flags))) {
        let version = clang.trim_start_matches("clang-");
        let settings = [("POST_OPT_IR_MODULE", path.to_str().unwrap()), ("LLVM", version)];
        let variants = [&KERNELS[..], &["plain"]].concat();
        let variants: Vec<_> = variants
            .iter()
            .map(|kernel| match *kernel {
                "plain" => KernelVariant::for_kernel("plain").with_argument(1, 32u32),
                kernel => full(kernel).with_argument(3, 9u8),
            })
            .collect();
        let source = kernels(&shop, clang, flags);
        let program = load(&shop.device(&settings), &source, &variants).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        for (number, kernel) in KERNELS.into_iter().chain(["plain"]).enumerate() {
            let generic = code(&text, kernel);
            let variant = code(&text, &format!("longshore_variant_{number}_of_{kernel}"));
            // A factor, and 64 items shifted by 9.
            let constants = ["1.500000e+00", "32768"];
            for constant in constants.into_iter().filter(|_| kernel != "plain") {
                assert!(variant.contains(constant), "{clang} {flags:?}, {constant}: {variant}");
                assert!(!generic.contains(constant), "{clang} {flags:?}, {constant}: {generic}");
            }
            // A division by 32 is a mask.
            if kernel == "plain" {
                assert!(generic.contains("urem i32"), "{clang} {flags:?}: {generic}");
                assert!(!variant.contains("urem i32"), "{clang} {flags:?}: {variant}");
            }
        }
        drop(program);
    }
}

#[test]
fn wrong_variants_are_refused() {
    let Some(clang) = clang() else { return };
    let shop = Shop::new();
    let source = kernels(&shop, clang, &[]);
    let device = shop.device(&[]);
    let of = |kernel: &str| KernelVariant::for_kernel(kernel);
    for (variant, code, part) in [
        (of("other").with_argument(0, 1u32), ErrorCode::NotFound, "apart"),
        (of("begin").with_argument(0, 1u32), ErrorCode::NotFound, "'begin'"),
        (of("apart").with_argument(4, 1u32), ErrorCode::InvalidArgument, "4 arguments"),
        (of("apart").with_argument(0, Untyped(1u64)), ErrorCode::InvalidArgument, "pointer"),
        (of("apart").with_argument(1, 1.0f32), ErrorCode::InvalidArgument, "an integer"),
        (of("apart").with_argument(1, 1u64), ErrorCode::InvalidSize, "4 bytes"),
        (of("apart"), ErrorCode::InvalidArgument, "no constant"),
        (of("apart").with_group_items([0; 3]), ErrorCode::InvalidArgument, "at least 1"),
        (of("plain").with_group_items([1; 3]), ErrorCode::InvalidArgument, "once per launch"),
        (of("plain").with_argument(0, DevicePointer(0)), ErrorCode::InvalidArgument, "numbers"),
    ] {
        let error = load(&device, &source, &[variant]).err().unwrap();
        assert_eq!(error.code(), code, "{error}");
        assert!(error.message().contains(part), "{error}");
    }
    // The kind of an untyped value fits, and its sign does not count.
    let fitting = of("apart").with_argument(1, 1i32).with_argument(2, Untyped(1u32));
    assert!(load(&device, &source, &[fitting]).is_ok());
}

#[test]
fn variants_are_cached_on_disk_by_their_values() {
    let Some(clang) = clang() else { return };
    let shop = Shop::new();
    let source = kernels(&shop, clang, &[]);
    let of = |divisor: u32| KernelVariant::for_kernel("apart").with_argument(1, divisor);
    let sized = of(24).with_group_items([64, 1, 1]);
    let loads = [
        (vec![], 1),
        (vec![of(24)], 2),
        (vec![of(25)], 3),
        (vec![of(24), of(25)], 4),
        (vec![sized], 5),
        (vec![of(24)], 5),
        (vec![of(24), of(24)], 5),
    ];
    for (variants, count) in &loads {
        let (device, folder) = with_cache(&shop, &[]);
        drop(load(&device, &source, variants).unwrap());
        assert_eq!(files(&folder).len(), *count, "{variants:?}");
    }
    // A further host starts no worker, and its launches run the cached variant.
    let environment = longshore::Environment::empty()
        .with("LONGSHORE_JIT_CACHE", shop.path().join("cache"))
        .with("LONGSHORE_EXECUTOR", "/nonexistent/executor");
    let host = shop.world.host().with_environment(environment).build().unwrap();
    let run = Run::new(load(&host.default_device().unwrap(), &source, &[of(24)]).unwrap());
    let expected: Vec<u32> = (0..256).map(|i| i % 24 + 64).collect();
    assert_eq!(run.launch("apart", 64, 24, 1.0, 0), expected);
    let kernel = run.program.kernel("apart").unwrap();
    let found = kernel.variant_for(Grid::linear(4, 64), (&run.x, 24u32, 1.0f32, 0u8)).unwrap();
    assert_eq!(found, Some(&of(24)));
}

#[test]
fn threads_launch_kernels_and_variants_at_the_same_time() {
    let Some(clang) = clang() else { return };
    let shop = Shop::new();
    let source = kernels(&shop, clang, &[]);
    let variants = [5u32, 6, 7].map(|divisor| {
        let variants =
            KERNELS.map(|kernel| KernelVariant::for_kernel(kernel).with_argument(1, divisor));
        variants.map(|variant| variant.with_argument(2, 1.0f32)).to_vec()
    });
    let program = load(&shop.device(&[]), &source, &variants.concat()).unwrap();
    std::thread::scope(|scope| {
        for divisor in 5..9 {
            let run = Run::new(program.clone());
            scope.spawn(move || {
                let apart: Vec<u32> = (0..256).map(|i| i % divisor + 32).collect();
                let turned: Vec<u32> =
                    (0..256).map(|i| (i / 32 * 32 + 31 - i % 32) % divisor + 32).collect();
                for _ in 0..20 {
                    assert_eq!(run.launch("apart", 32, divisor, 1.0, 0), apart);
                    assert_eq!(run.launch("waiting", 32, divisor, 1.0, 0), turned);
                    assert_eq!(run.launch("grouped", 32, divisor, 1.0, 0), turned);
                }
            });
        }
    });
    assert_eq!(Run::new(program).launches(), 4 * 20 * 3);
}

#[test]
fn variants_are_linked_lazily_and_compiled_in_this_process_as_well() {
    let Some(clang) = clang() else { return };
    let shop = Shop::new();
    let source = kernels(&shop, clang, &[]);
    let device = shop.device(&[("PROCESS", "own")]);
    let options = LoadOptions::new().with_lazy_linking(true).with_variant(full("waiting"));
    // SAFETY: the test's own code.
    let run = Run::new(unsafe { device.load_with(&source, &options) }.unwrap());
    let turned = |i: u32| ((i / 64 * 64 + 63 - i % 64) % 24) as f32 * 1.5;
    let expected: Vec<u32> = (0..256).map(|i| turned(i) as u32 + (64 << 3)).collect();
    assert_eq!(run.launch("waiting", 64, 24, 1.5, 3), expected);
    assert_eq!(run.launches(), 1);
}

#[test]
fn images_that_are_not_compiled_have_no_variants() {
    let Some(clang) = clang() else { return };
    let shop = Shop::new();
    let source = kernels(&shop, clang, &[]);
    let [module, object] = ["code.bc", "code.o"].map(|name| shop.path().join(name));
    std::fs::write(&module, &source).unwrap();
    let mut compile = Command::new(clang);
    assert!(
        compile.args(["-c", "-fPIC", "-o"]).arg(&object).arg(module).status().unwrap().success()
    );
    let replaced = shop.device(&[("REPLACEMENT_OBJECT", object.to_str().unwrap())]);
    let code = std::fs::read(&object).unwrap();
    for (device, image) in [(&shop.device(&[]), code), (&replaced, source)] {
        let run = Run::new(load(device, &image, &[full("apart")]).unwrap());
        let kernel = run.program.kernel("apart").unwrap();
        let arguments = (&run.x, 24u32, 1.5f32, 3u8);
        assert_eq!(kernel.variant_for(Grid::linear(4, 64), arguments).unwrap(), None);
        assert_eq!(run.launch("apart", 64, 24, 1.5, 3)[25], 1 + (64 << 3));
    }
}

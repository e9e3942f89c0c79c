//! LLVM bitcode as an image for the CPU: alone and in containers, compiled in a worker process and
//! in this one.

mod cache;
mod damage;
mod faults;
mod isolated;
mod packed;
mod variants;
mod variants_for_gpus;
mod workers;

use super::containers::{answer, own_triple};
use longshore::{
    Acceptance, Device, Environment, ErrorCode, Format, Grid, HostBuilder, Image, ImageKind,
    LoadOptions, OffloadImage, OffloadKind, write_offload_binary,
};
use longshore_conformance::TrustedImages;
use longshore_tests::device_code::clangs;
use longshore_tests::world::{World, copy_into, executor, host_plugin, root};
use std::path::Path;
use std::process::Command;

/// A kernel in LLVM's host form that writes `NUMBER`, with a constructor.
const ANSWER: &str = "static unsigned begun;\n\
    __attribute__((constructor)) static void begin(void) { begun = 1; }\n\
    void answer(void **args) { **(unsigned **)args[0] = begun * NUMBER; }\n";

/// A folder with the CPU's plugin and with images.
struct Shop {
    world: World,
}

impl Shop {
    fn new() -> Shop {
        let world = World::new();
        copy_into(&world, &host_plugin());
        std::fs::copy(executor(), world.path().join("executor")).expect("the executor is built");
        Shop { world }
    }

    fn path(&self) -> &Path {
        self.world.path()
    }

    /// Opens the CPU with settings, named without `LONGSHORE_JIT_`. There is no cache.
    fn device(&self, settings: &[(&str, &str)]) -> Device {
        let host = self.host(settings).build();
        host.and_then(|host| host.default_device()).expect("the CPU is a device")
    }

    /// Returns the builder of a host with the shop's plugin, executor and settings.
    fn host(&self, settings: &[(&str, &str)]) -> HostBuilder {
        let environment = settings.iter().fold(Environment::empty(), |all, (name, value)| {
            all.with(format!("LONGSHORE_JIT_{name}"), value)
        });
        let host = self.world.host().with_environment(environment);
        host.with_executor(self.path().join("executor"))
    }

    /// Returns bitcode whose kernel `answer` writes `number`.
    fn answering(&self, clang: &str, number: u32, flags: &[&str]) -> Vec<u8> {
        self.bitcode(clang, &ANSWER.replace("NUMBER", &number.to_string()), flags)
    }

    fn bitcode(&self, clang: &str, text: &str, flags: &[&str]) -> Vec<u8> {
        let (source, file) = (self.path().join("source.c"), self.path().join("source.bc"));
        std::fs::write(&source, text).unwrap();
        let mut command = Command::new(clang);
        command.args(["-O1", "-fPIC", "-emit-llvm", "-c"]).args(flags);
        let output = command.arg("-o").arg(&file).arg(&source).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        std::fs::read(file).unwrap()
    }
}

/// Returns a clang that is installed. Without one, prints that and returns `None`.
fn clang() -> Option<&'static str> {
    let found = clangs().into_iter().next_back();
    assert!(found.is_some() || std::env::var_os("CI").is_none(), "no clang is installed");
    found
}

/// Returns a container of images: kind, triple, architecture, bytes.
fn packed(entries: &[(ImageKind, &str, &str, &[u8])]) -> Vec<u8> {
    let image = |&(kind, triple, arch, bytes): &(ImageKind, _, _, _)| {
        OffloadImage::new(bytes)
            .with_image_kind(kind)
            .with_offload_kind(OffloadKind::OpenMp)
            .with_triple(triple)
            .with_arch(arch)
    };
    write_offload_binary(&entries.iter().map(image).collect::<Vec<_>>())
}

#[test]
fn bitcode_of_each_compiler_is_compiled_in_a_worker_or_in_this_process() {
    let shop = Shop::new();
    let devices = ["worker", "own"].map(|process| shop.device(&[("PROCESS", process)]));
    for (number, clang) in (1..).zip(clangs()) {
        let bitcode = shop.answering(clang, number, &[]);
        assert_eq!(Image::from(&bitcode).format(), Format::Bitcode);
        for device in &devices {
            assert_eq!(device.suits(&bitcode), Ok(Acceptance::Accepted));
            assert_eq!(answer(device, &bitcode), Ok(number), "{clang}");
        }
    }
}

#[test]
fn each_level_of_optimization_gives_the_same_result() {
    let Some(clang) = clang() else { return };
    let shop = Shop::new();
    let bitcode = shop.answering(clang, 7, &[]);
    for settings in [&[("OPT_LEVEL", "0")][..], &[("OPT_LEVEL", "3")], &[("SKIP_OPT", "1")]] {
        assert_eq!(answer(&shop.device(settings), &bitcode), Ok(7), "{settings:?}");
    }
    let device = shop.device(&[]);
    for level in 0..=3 {
        let options = LoadOptions::new().with_optimization(level);
        // SAFETY: the test's own code.
        assert!(unsafe { device.load_with(&bitcode, &options) }.is_ok());
    }
    // SAFETY: as above.
    let wrong = unsafe { device.load_with(&bitcode, &LoadOptions::new().with_optimization(4)) };
    assert_eq!(wrong.err().unwrap().code(), ErrorCode::InvalidValue);
}

#[test]
fn bitcode_in_a_wrapper_and_without_a_triple_is_compiled() {
    let Some(clang) = clang() else { return };
    let shop = Shop::new();
    let device = shop.device(&[]);
    let bitcode = shop.answering(clang, 3, &[]);
    let mut wrapped = vec![0xde, 0xc0, 0x17, 0x0b, 0, 0, 0, 0, 20, 0, 0, 0];
    wrapped.extend((bitcode.len() as u32).to_le_bytes());
    wrapped.extend([7, 0, 0, 1]);
    wrapped.extend(&bitcode);
    assert_eq!(answer(&device, wrapped), Ok(3));
}

#[test]
fn code_of_the_device_precedes_bitcode_of_the_same_score() {
    let Some(clang) = clang() else { return };
    let shop = Shop::new();
    let device = shop.device(&[]);
    let own = own_triple();
    let code = {
        let bitcode = shop.path().join("code.bc");
        std::fs::write(&bitcode, shop.answering(clang, 1, &[])).unwrap();
        let object = shop.path().join("code.o");
        let mut command = Command::new(clang);
        command.args(["-c", "-fPIC", "-o"]).arg(&object).arg(&bitcode);
        assert!(command.status().unwrap().success());
        std::fs::read(object).unwrap()
    };
    let bitcode = shop.answering(clang, 2, &[]);
    let baseline = if cfg!(target_arch = "x86_64") { "x86-64" } else { "armv8-a" };
    let of = |code_arch, bitcode_arch| {
        let container = packed(&[
            (ImageKind::Bitcode, &own, bitcode_arch, &bitcode),
            (ImageKind::Object, &own, code_arch, &code),
        ]);
        answer(&device, container)
    };
    assert_eq!([of("", ""), of(baseline, baseline)], [Ok(1), Ok(1)]);
    assert_eq!(of("", baseline), Ok(2), "bitcode for this processor, code for any");
    // The module names the triple that the container leaves out.
    let alone = packed(&[(ImageKind::Bitcode, "", "", &bitcode)]);
    assert_eq!(device.suits(&alone), Ok(Acceptance::Accepted));
    assert_eq!(answer(&device, alone), Ok(2));
}

#[test]
fn bitcode_of_another_target_is_refused_with_both_targets() {
    let Some(clang) = clang() else { return };
    let shop = Shop::new();
    let device = shop.device(&[]);
    let foreign = ["--target=nvptx64-nvidia-cuda", "-nogpulib", "-ffreestanding"];
    let bitcode = shop.bitcode(clang, "void k(void) {}", &foreign);
    let error = device.load_trusted(&bitcode).err().unwrap();
    assert_eq!(error.code(), ErrorCode::InvalidBinary);
    for part in ["nvptx64-nvidia-cuda", &own_triple(), "bitcode"] {
        assert!(error.message().contains(part), "{error}");
    }
    assert!(!device.suits(&bitcode).unwrap().is_accepted());
    let container = packed(&[(ImageKind::Bitcode, "nvptx64-nvidia-cuda", "sm_90", &bitcode)]);
    let error = device.load_trusted(container).err().unwrap();
    assert!(error.message().contains("bitcode for nvptx64-nvidia-cuda"), "{error}");
}

#[test]
fn malformed_bitcode_is_an_error_and_the_worker_goes_on() {
    let Some(clang) = clang() else { return };
    let shop = Shop::new();
    let device = shop.device(&[]);
    let good = shop.answering(clang, 5, &[]);
    for cut in [4, 5, 64, good.len() / 3, good.len() / 2, good.len() - 8] {
        let error = device.load_trusted(&good[..cut]).err();
        let error = error.unwrap_or_else(|| panic!("{cut} of {} bytes are loaded", good.len()));
        let codes = [ErrorCode::InvalidBinary, ErrorCode::BackendFailure];
        assert!(codes.contains(&error.code()), "{cut}: {error:?}");
    }
    assert_eq!(answer(&device, &good), Ok(5));
}

#[test]
fn an_undefined_symbol_and_verification_are_refused_as_for_objects() {
    let Some(clang) = clang() else { return };
    let shop = Shop::new();
    let device = shop.device(&[]);
    let undefined = shop.bitcode(clang, "void no(void); void k(void **a) { (void)a; no(); }", &[]);
    let error = device.load_trusted(undefined).err().unwrap();
    assert_eq!(error.code(), ErrorCode::LinkFailure, "{error}");
    let error = device.load_verified(shop.answering(clang, 1, &[])).err().unwrap();
    assert_eq!(error.code(), ErrorCode::Unsupported, "{error}");
}

#[test]
fn modules_and_code_are_replaced_and_printed_as_requested() {
    let Some(clang) = clang() else { return };
    let shop = Shop::new();
    let write = |name: &str, contents: &[u8]| {
        let path = shop.path().join(name);
        std::fs::write(&path, contents).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let image = shop.answering(clang, 1, &[]);
    let module = write("other.bc", &shop.answering(clang, 2, &[]));
    let replaced = shop.device(&[("REPLACEMENT_MODULE", &module)]);
    assert_eq!(answer(&replaced, &image), Ok(2));
    let text = shop.bitcode(clang, &ANSWER.replace("NUMBER", "3"), &["-S"]);
    let text = write("other.ll", &text);
    assert_eq!(answer(&shop.device(&[("REPLACEMENT_MODULE", &text)]), &image), Ok(3));
    let object = shop.path().join("other.o");
    let mut command = Command::new(clang);
    command.args(["-c", "-fPIC", "-o"]).arg(&object).arg(&module);
    assert!(command.status().unwrap().success());
    let object = shop.device(&[("REPLACEMENT_OBJECT", object.to_str().unwrap())]);
    assert_eq!(answer(&object, &image), Ok(2));
    let missing = shop.device(&[("REPLACEMENT_MODULE", "/nonexistent/m.bc")]);
    assert_eq!(answer(&missing, &image).unwrap_err().code(), ErrorCode::NotFound);

    let [before, after] = ["before.ll", "after.ll"].map(|name| write(name, b""));
    let printed = shop.device(&[("PRE_OPT_IR_MODULE", &before), ("POST_OPT_IR_MODULE", &after)]);
    assert_eq!(answer(&printed, &image), Ok(1));
    for file in [before, after] {
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(text.contains("@answer"), "{file}: {text}");
    }
}

#[test]
fn the_text_of_a_module_may_be_larger_than_a_message_of_the_worker() {
    let Some(clang) = clang() else { return };
    let shop = Shop::new();
    // The text has three characters for each byte.
    let large = format!("{ANSWER}\nchar large[6 << 20] = {{[0 ... (6 << 20) - 1] = 1}};")
        .replace("NUMBER", "4");
    let image = shop.bitcode(clang, &large, &[]);
    let [before, after] = ["before.ll", "after.ll"].map(|name| shop.path().join(name));
    let setting = |path: &Path| path.to_str().unwrap().to_owned();
    let (first, second) = (setting(&before), setting(&after));
    let device = shop.device(&[("PRE_OPT_IR_MODULE", &first), ("POST_OPT_IR_MODULE", &second)]);
    assert_eq!(answer(&device, &image), Ok(4));
    for file in [before, after] {
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(text.len() > 16 << 20 && text.contains("@answer"), "{} bytes", text.len());
    }
}

#[test]
fn without_a_library_or_a_worker_the_error_names_the_remedy() {
    let Some(clang) = clang() else { return };
    let shop = Shop::new();
    let image = shop.answering(clang, 1, &[]);
    for process in ["worker", "own"] {
        let device = shop.device(&[("PROCESS", process), ("LLVM", "/nonexistent/libLLVM.so")]);
        let error = device.load_trusted(&image).err().unwrap();
        assert_eq!(error.code(), ErrorCode::HostToolNotFound, "{error}");
        assert!(error.message().contains("/nonexistent/libLLVM.so"), "{error}");
    }
    let host = shop.world.host().with_executor("/nonexistent/executor").build().unwrap();
    let error = host.default_device().unwrap().load_trusted(&image).err().unwrap();
    assert_eq!(error.code(), ErrorCode::HostToolNotFound, "{error}");
    assert!(error.message().contains("LONGSHORE_EXECUTOR"), "{error}");
}

#[test]
fn bitcode_of_a_newer_llvm_is_refused_with_both_versions() {
    let (Some(newest), true) = (clang(), clangs().len() > 1) else { return };
    let shop = Shop::new();
    let oldest = clangs()[0].trim_start_matches("clang-");
    let device = shop.device(&[("LLVM", oldest)]);
    let error = device.load_trusted(shop.answering(newest, 1, &[])).err().unwrap();
    assert_eq!(error.code(), ErrorCode::Unsupported, "{error}");
    for version in [oldest, newest.trim_start_matches("clang-")] {
        assert!(
            error.message().contains(&format!("LLVM{version}"))
                || error.message().contains(&format!("LLVM {version}")),
            "{error}"
        );
    }
    assert_eq!(answer(&device, shop.answering(clangs()[0], 9, &[])), Ok(9));
}

#[test]
fn items_that_wait_for_each_other_give_the_same_results_from_bitcode() {
    const SOURCE: &str = "#include \"longshore_device.h\"\n\
        LONGSHORE_KERNEL(reversed, (uint32_t *values)) {\n\
            LONGSHORE_SHARED(uint32_t, tile, [64]);\n\
            uint32_t item = longshore_item_id(0), last = longshore_group_items(0) - 1;\n\
            uint32_t *own = values + longshore_group_id(0) * longshore_group_items(0);\n\
            for (int round = 0; round < 3; round++) {\n\
                tile[item] = own[item];\n\
                longshore_barrier();\n\
                own[item] = tile[last - item] + 1;\n\
                longshore_barrier();\n\
            }\n\
        }\n";
    let Some(clang) = clang() else { return };
    let shop = Shop::new();
    let include = format!("-I{}", root().join("include").display());
    let bitcode = shop.bitcode(clang, SOURCE, &[&include]);
    let expected: Vec<u32> = (0..256).map(|i| i / 64 * 64 + 63 - i % 64 + 3).collect();
    for process in ["worker", "own"] {
        let device = shop.device(&[("PROCESS", process)]);
        let program = device.load_trusted(&bitcode).unwrap();
        let queue = device.queue().unwrap();
        let values = device.buffer_of(&queue, &(0..256).collect::<Vec<u32>>()).unwrap();
        let kernel = program.kernel("reversed").unwrap();
        // SAFETY: `reversed` takes a pointer to the numbers of all items.
        unsafe { queue.launch(&kernel, Grid::linear(4, 64), (&values,)).unwrap() };
        assert_eq!(values.to_vec(&queue).unwrap(), expected, "{process}");
    }
}

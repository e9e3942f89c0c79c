//! Plugins that are part of the program: their place in the search, and choices of the user.

use longshore::{Environment, ErrorCode, Grid, Host, HostBuilder, Image, LinkedPlugin, Outcome};
use longshore_plugin_api::abi::Entry;
use longshore_plugin_host::HostBackend;
use longshore_tests::world::{World, copy_into, host_plugin};
use std::process::Command;

/// The CPU's plugin, whose code this test program contains.
const CPU: LinkedPlugin = LinkedPlugin::new::<HostBackend>();

/// Returns a host without plugin files, with the linked plugin of the CPU.
fn linked() -> HostBuilder {
    Host::builder()
        .with_environment(Environment::empty())
        .with_only_given_plugins()
        .with_linked_plugin(CPU)
}

/// Returns the labels of all outcomes, in the order of the search.
fn outcomes(host: &Host) -> Vec<(&str, bool, &'static str)> {
    let candidates = host.candidates().iter();
    let facts = candidates.map(|it| (it.backend.as_str(), it.is_linked, it.outcome.label()));
    facts.collect()
}

/// Leaks the entry of a sample plugin in C, as if the program contained its code.
fn sample(world: &World, backend: &str) -> LinkedPlugin {
    let path = world.add_sample(backend, &[]);
    // SAFETY: the sample has no constructors, and stays loaded.
    unsafe {
        let library = Box::leak(Box::new(libloading::Library::new(path).unwrap()));
        let entry = library.get::<*const Entry>(b"longshore_plugin\0").unwrap();
        LinkedPlugin::from_entry(entry.into_raw().into_raw().cast())
    }
}

#[test]
fn a_program_with_the_cpus_plugin_runs_a_kernel_without_any_file() {
    let folder = tempfile::tempdir().unwrap();
    let (source, object) = (folder.path().join("k.c"), folder.path().join("k.o"));
    std::fs::write(&source, "void add(void **a) { **(int **)a[0] += *(int *)a[1]; }").unwrap();
    let mut compiler = Command::new("cc");
    let compiled = compiler.args(["-c", "-O1", "-o"]).arg(&object).arg(&source).status();
    assert!(compiled.unwrap().success());
    let host = linked().build().unwrap();
    assert_eq!(outcomes(&host), [("host", true, "loaded")]);
    let [entry] = host.devices() else { panic!("{:?}", host.candidates()) };
    assert!(entry.is_linked() && !entry.is_isolated());
    assert_eq!(entry.plugin_path(), std::env::current_exe().unwrap());
    let device = entry.open().unwrap();
    // SAFETY: the image contains the function alone.
    let program = unsafe { device.load(Image::read(object).unwrap()) }.unwrap();
    let queue = device.queue().unwrap();
    let number = device.buffer_of(&queue, &[40i32]).unwrap();
    // SAFETY: the kernel takes a pointer and an int, and writes to the int behind the pointer.
    let launch =
        unsafe { queue.launch(&program.kernel("add").unwrap(), Grid::default(), (&number, 2i32)) };
    launch.unwrap();
    assert_eq!(number.to_vec(&queue).unwrap(), [42]);
}

#[test]
fn a_file_that_program_or_user_name_comes_before_the_linked_plugin() {
    let world = World::new();
    let file = copy_into(&world, &host_plugin());
    let by_program = linked().with_plugin(world.path()).build().unwrap();
    let path = Environment::empty().with("LONGSHORE_PLUGIN_PATH", &file);
    let by_user = linked().with_environment(path).build().unwrap();
    for host in [by_program, by_user] {
        assert_eq!(outcomes(&host), [("host", false, "loaded"), ("host", true, "shadowed")]);
        assert_eq!(host.candidates()[1].outcome, Outcome::Shadowed { by: file.clone() });
        assert_eq!(host.devices()[0].plugin_path(), file);
        assert!(!host.devices()[0].is_linked());
    }
}

#[test]
fn selections_and_settings_hold_for_linked_plugins() {
    let with = |name: &str, value: &str| {
        linked().with_environment(Environment::empty().with(name, value)).build()
    };
    assert_eq!(with("LONGSHORE_HOST_DEVICES", "3").unwrap().devices().len(), 3);
    let error = with("LONGSHORE_HOST_DEVICES", "none").err().unwrap();
    assert_eq!(error.code(), ErrorCode::InvalidValue, "{error}");
    let excluded = with("LONGSHORE_DEVICES", "!host:*").unwrap();
    assert_eq!((excluded.devices().len(), excluded.excluded().len()), (0, 1));
    let error = with("LONGSHORE_BACKEND", "cuda").err().unwrap();
    assert!(error.message().contains("there are: host"), "{error}");
    let others = linked().with_optional_backends("cuda").build().unwrap();
    assert_eq!(outcomes(&others), [("host", true, "ruled out")]);
    let listed = linked().candidates().unwrap();
    assert_eq!(listed[0].outcome, Outcome::NotOpened);
    assert_eq!(listed[0].note.as_ref().unwrap().image_formats, "elf-so,elf-o,archive");
}

#[test]
fn a_linked_plugin_cannot_be_isolated_and_says_so() {
    for isolated in ["host", "all"] {
        let host = linked().with_isolated_backends(isolated).build().unwrap();
        let error = host.default_device().err().unwrap();
        assert_eq!(error.code(), ErrorCode::NotFound);
        let message = error.message();
        assert!(
            message.contains("only a plugin in a file can run in another process"),
            "{message}"
        );
        assert!(message.contains("liblongshore_plugin_host.so"), "{message}");
    }
}

#[test]
fn a_program_can_contain_plugins_of_several_backends_and_of_other_languages() {
    let world = World::new();
    let (toy, again) = (sample(&world, "toy"), CPU);
    let host = linked().with_linked_plugin(toy).with_linked_plugin(again).build().unwrap();
    let expected = [("host", true, "loaded"), ("toy", true, "loaded"), ("host", true, "shadowed")];
    assert_eq!(outcomes(&host), expected);
    let ordered = linked().with_linked_plugin(toy).with_backends("toy,host").build().unwrap();
    assert_eq!(ordered.devices()[0].facts().backend, "toy");
    assert!(ordered.devices()[0].plugin_path().ends_with("liblongshore_plugin_toy.so"));
}

#[test]
fn an_entry_of_other_bytes_is_no_plugin() {
    #[repr(align(8))]
    struct Bytes(#[expect(dead_code, reason = "the plugin's checks read it")] [u8; 128]);
    static NO_ENTRY: Bytes = Bytes([7; 128]);
    // SAFETY: no function is called, as the bytes lack the magic number.
    let broken = unsafe { LinkedPlugin::from_entry((&raw const NO_ENTRY).cast()) };
    let host = linked().with_linked_plugin(broken).build().unwrap();
    assert_eq!(outcomes(&host), [("host", true, "loaded"), ("", true, "no plugin")]);
    assert!(host.candidates()[1].to_string().contains("linked into"), "{}", host.candidates()[1]);
}

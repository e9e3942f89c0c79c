//! Objects of the installed compilers, with every feature that the linker reads.

use std::io::Write;
use std::ops::Range;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use object::read::elf::{FileHeader, SectionHeader};
use object::{LittleEndian, elf};

/// An object or an archive, with the places of its parts.
pub(crate) struct Fixture {
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
}

const C: &str = r#"
int puts(const char *);
int data = 1, *pointer = &data, common, zeroes[300];
static const char *const names[] = { "one", "two", "three" };
__thread int counted = 7, uncounted;
extern int weak __attribute__((weak));
extern int far_data;
int far_function(int, ...);
static int chosen(void) { return 3; }
static void *resolve(void) { return chosen; }
int indirect(void) __attribute__((ifunc("resolve")));
__attribute__((constructor)) static void begin(void) { data++; }
__attribute__((section("listed"), used)) static int in_list = 4;
extern int __start_listed[], __stop_listed[];
int use(int n)
{
    switch (n) {
    case 0: return puts(names[data % 3]);
    case 1: return far_function(1, counted, uncounted);
    case 2: return &weak ? weak : far_data;
    case 3: return indirect();
    case 4: return __stop_listed - __start_listed;
    case 5: return common + zeroes[n];
    }
    return *pointer;
}
"#;

const CXX: &str = r#"
struct Base { virtual ~Base() {} virtual int f() { return 1; } };
template <class T> inline T twice(T t) { static T last; last = t; return t * 2; }
struct Derived : Base { int f() override { return twice(21); } };
void may_throw(int);
int g(Base *b) { try { may_throw(b->f()); } catch (int i) { return i; } return 0; }
Base *make() { return new Derived; }
"#;

const COMPILERS: [(&str, &str, &[&str]); 6] = [
    ("gcc", C, &["-xc", "-Os", "-fPIC", "-fcommon"]),
    ("gcc", C, &["-xc", "-O1", "-fno-pic", "-g1", "-ffunction-sections"]),
    ("gcc", CXX, &["-xc++", "-Os", "-fPIC"]),
    ("clang-19", C, &["-xc", "-O1", "-fPIC", "-ffunction-sections"]),
    ("aarch64-linux-gnu-gcc", C, &["-xc", "-O1", "-fPIC", "-fcommon", "-ffunction-sections"]),
    ("aarch64-linux-gnu-gcc", C, &["-xc", "-Os", "-fno-pic"]),
];

/// Returns the objects, compiled once; none of a compiler that is not installed.
pub(crate) fn objects() -> &'static [Fixture] {
    static OBJECTS: OnceLock<Vec<Fixture>> = OnceLock::new();
    OBJECTS.get_or_init(|| {
        let compiled = |(compiler, source, flags): &(&str, &str, &[&str])| {
            let bytes = compile(compiler, source, flags)?;
            Some(Fixture { name: format!("{compiler} {}", flags.join(" ")), bytes })
        };
        COMPILERS.iter().filter_map(compiled).collect()
    })
}

/// Returns an archive of two objects for each architecture.
pub(crate) fn archives() -> Vec<Fixture> {
    let of = |compiler: &'static str| {
        let of_compiler = objects().iter().filter(move |object| object.name.starts_with(compiler));
        let members: Vec<&Fixture> = of_compiler.take(1).collect();
        (!members.is_empty())
            .then(|| Fixture { name: format!("archive of {compiler}"), bytes: archive(&members) })
    };
    ["gcc", "aarch64"].into_iter().filter_map(of).collect()
}

impl Fixture {
    /// Returns the bytes of the section headers.
    pub(crate) fn section_headers(&self) -> Range<usize> {
        let header = self.header();
        let start = header.e_shoff.get(LittleEndian) as usize;
        start..start + 64 * usize::from(header.e_shnum.get(LittleEndian))
    }

    /// Returns the places of the contents of the sections with these types.
    pub(crate) fn content_of(&self, kinds: &[u32]) -> Vec<usize> {
        self.places(|section, _| kinds.contains(&section.sh_type.get(LittleEndian).0))
    }

    /// Returns the places of the contents of the sections with these names.
    pub(crate) fn content_named(&self, names: &[&str]) -> Vec<usize> {
        self.places(|_, name| names.iter().any(|wanted| wanted.as_bytes() == name))
    }

    fn places(
        &self,
        wanted: impl Fn(&elf::SectionHeader64<LittleEndian>, &[u8]) -> bool,
    ) -> Vec<usize> {
        let sections = self.header().sections(LittleEndian, &*self.bytes).unwrap();
        let wanted = sections.iter().filter(|section| {
            wanted(section, sections.section_name(LittleEndian, section).unwrap_or_default())
        });
        let ranges = wanted.filter_map(|section| section.file_range(LittleEndian));
        ranges.flat_map(|(start, size)| start as usize..(start + size) as usize).collect()
    }

    fn header(&self) -> &elf::FileHeader64<LittleEndian> {
        elf::FileHeader64::parse(&*self.bytes).expect("a compiler wrote it")
    }
}

fn compile(compiler: &str, source: &str, flags: &[&str]) -> Option<Vec<u8>> {
    let directory = tempfile::tempdir().unwrap();
    let object = directory.path().join("fixture.o");
    let mut command = Command::new(compiler);
    command.args(flags).args(["-c", "-", "-o"]).arg(&object);
    let Ok(mut child) = command.stdin(Stdio::piped()).spawn() else {
        eprintln!("skipped: there is no {compiler}");
        return None;
    };
    child.stdin.take().unwrap().write_all(source.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success(), "{command:?}");
    Some(std::fs::read(object).unwrap())
}

/// Assembles a source for x86-64; `None` without an assembler.
pub(crate) fn assemble(source: &str) -> Option<Vec<u8>> {
    compile("x86_64-linux-gnu-gcc", source, &["-xassembler"])
}

/// Returns a System V archive in the format of `ar`, with a long name.
fn archive(members: &[&Fixture]) -> Vec<u8> {
    let mut bytes = b"!<arch>\n".to_vec();
    let mut member = |name: &str, content: &[u8]| {
        let size = content.len();
        bytes.extend(format!("{name:16}{:12}{:6}{:6}{:8}{size:<10}`\n", 0, 0, 0, 644).bytes());
        bytes.extend(content);
        bytes.extend(b"\n".iter().take(size % 2));
    };
    member("//", b"an-object-with-a-long-name.o/\n");
    for object in members {
        member("/0", &object.bytes);
    }
    bytes
}

//! The usual case of an access, as functions that LLVM inlines: an aligned access of four or eight
//! bytes of the allocation that the site knows, without a race. Every other case calls the runtime.
//!
//! The functions are text, because they are easier to read so, and to compare with the runtime's
//! `usual` in `plugin-host/src/check/entry.rs`.

use crate::PREFIX;
use crate::ir::{Ir, ll};
use longshore_llvm::types::*;
use std::ffi::CString;
use std::fmt::Write;

/// Offsets in the runtime's `Site`, `Face` and `State`.
const SITE_FACE: u64 = 48;
const SITE_STATE: u64 = 56;
const SITE_RECORD: u64 = 64;
const FACE_START: u64 = 0;
const FACE_ENDS: [(u64, u64); 2] = [(4, 8), (8, 16)];
const FACE_WRITTEN: u64 = 24;
const FACE_CELLS: u64 = 32;
const FACE_MORE: u64 = 40;
const FACE_PAST_END: u64 = 48;
const FACE_FIRST: u64 = 52;
const STATE_SEGMENT: u64 = 0;
const STATE_FIRST: u64 = 4;
const STATE_GROUP_FIRST: u64 = 8;
const STATE_SPAN: u64 = 12;
const STATE_OLDER_END: u64 = 16;
const STATE_TWO_FROM: u64 = 20;
/// The bytes and the atomic flag of a record, and their value for a whole word.
const RECORD_BYTES: u64 = 0x1f << 32;
const RECORD_WHOLE: u64 = 0xf << 32;
const RECORD_HAS_MORE: u64 = 1 << 59;

/// Greatest alignment of an access in bytes that has inlined functions.
const MOST_ALIGNED: u64 = 64;

/// Returns the name of the inlined function for a usual access, if there is one. The alignment in
/// bytes is at least the size.
pub(crate) fn name(bytes: u64, writes: bool, alignment: u64) -> Option<String> {
    let verb = if writes { "write" } else { "read" };
    let by = if alignment > bytes { format!("_by{alignment}") } else { String::new() };
    let has_one = matches!(bytes, 4 | 8) && alignment <= MOST_ALIGNED;
    has_one.then(|| format!("{PREFIX}fast_{verb}{bytes}{by}"))
}

/// Defines the functions of [`name`] that the module calls.
///
/// # Errors
/// LLVM's message if the text is no IR of this version.
pub(crate) fn define(ir: &Ir<'_>) -> Result<(), String> {
    let function = |name: &CString| ll!(ir, LLVMGetNamedFunction(ir.module, name.as_ptr()));
    let mut text = Text { is_typed: ir.show_type(ir.pointer) != "ptr", ..Text::default() };
    let mut used = Vec::new();
    for (bytes, writes) in [(4, false), (4, true), (8, false), (8, true)] {
        let alignments = (2..).map(|power| 1 << power).take_while(|it| *it <= MOST_ALIGNED);
        let before = used.len();
        for alignment in alignments.filter(|it| *it >= bytes) {
            let name = name(bytes, writes, alignment).expect("the sizes are usual");
            let symbol = CString::new(name.as_str()).expect("names have no NUL");
            if function(&symbol).present().is_some() {
                text.function(&name, (bytes, writes, alignment));
                used.push(symbol);
            }
        }
        if used.len() > before {
            let (ptr, slow) = (text.pointer("i8"), slow_name(bytes, writes));
            text.line(&format!("declare {ptr} @{slow}({ptr}, {ptr}) cold"));
        }
    }
    if used.is_empty() {
        return Ok(());
    }
    text.lines.push_str("!0 = !{!\"branch_weights\", i32 2000, i32 1}\n");
    ir.link(&text.lines)?;
    for name in &used {
        ll!(ir, LLVMSetLinkage(function(name), INTERNAL_LINKAGE));
    }
    Ok(())
}

/// Returns the name of the runtime's function for a usual access.
fn slow_name(bytes: u64, writes: bool) -> String {
    format!("{PREFIX}{}{bytes}", if writes { "write" } else { "read" })
}

/// The text of functions.
#[derive(Default)]
struct Text {
    lines: String,
    /// Whether pointers have types, as before LLVM 15.
    is_typed: bool,
    values: u32,
    /// Name of the current block.
    block: String,
}

impl Text {
    fn function(&mut self, name: &str, (bytes, writes, alignment): (u64, bool, u64)) {
        let slow = slow_name(bytes, writes);
        let ptr = self.pointer("i8");
        let parameters = format!("{ptr} %address, {ptr} %site");
        self.line(&format!("define hidden {ptr} @{name}({parameters}) alwaysinline nounwind {{"));
        let face = self.load(&ptr, "%site", SITE_FACE);
        let has_face = self.value(&format!("icmp ne {ptr} {face}, null"));
        self.go_on_if(&has_face);
        let offset = self.check_bounds(&face, bytes, alignment);
        let (bits, written) = self.check_written(&face, &offset, bytes, writes);
        self.check_races(&face, &offset, bytes, writes);
        if writes {
            let all = self.value(&format!("or i8 {written}, {}", bits.1));
            self.store("i8", &all, &bits.0);
        }
        self.line(&format!("ret {ptr} %address"));
        self.line("slow:");
        let checked = self.value(&format!("call {ptr} @{slow}({parameters})"));
        self.line(&format!("ret {ptr} {checked}"));
        self.line("}");
    }

    /// Returns the offset of the access in its region.
    fn check_bounds(&mut self, face: &str, bytes: u64, alignment: u64) -> String {
        let ptr = self.pointer("i8");
        let start = self.load("i64", face, FACE_START);
        let address = self.value(&format!("ptrtoint {ptr} %address to i64"));
        let offset = self.value(&format!("sub i64 {address}, {start}"));
        let (_, end) = FACE_ENDS.into_iter().find(|end| end.0 == bytes).expect("a usual size");
        let end = self.load("i64", face, end);
        let is_inside = self.value(&format!("icmp ult i64 {offset}, {end}"));
        let low = self.value(&format!("and i64 {address}, {}", alignment - 1));
        let is_aligned = self.value(&format!("icmp eq i64 {low}, 0"));
        let is_right = self.value(&format!("and i1 {is_inside}, {is_aligned}"));
        self.go_on_if(&is_right);
        offset
    }

    /// Checks that a read is of written bytes. Returns the address and the mask of the bytes' bits,
    /// and the present bits.
    fn check_written(
        &mut self,
        face: &str,
        offset: &str,
        bytes: u64,
        writes: bool,
    ) -> ((String, String), String) {
        let ptr = self.pointer("i8");
        let written = self.load(&ptr, face, FACE_WRITTEN);
        let index = self.value(&format!("lshr i64 {offset}, 3"));
        let at = self.value(&format!("getelementptr i8, {ptr} {written}, i64 {index}"));
        let present = self.value(&format!("load i8, {ptr} {at}"));
        let wanted = match bytes {
            8 => "-1".to_owned(),
            _ => {
                let half = self.value(&format!("and i64 {offset}, 4"));
                let half = self.value(&format!("trunc i64 {half} to i8"));
                self.value(&format!("shl i8 15, {half}"))
            }
        };
        if !writes {
            let have = self.value(&format!("and i8 {present}, {wanted}"));
            let has_all = self.value(&format!("icmp eq i8 {have}, {wanted}"));
            self.go_on_if(&has_all);
        }
        ((at, wanted), present)
    }

    /// Checks that no recorded access races with this one, and records it.
    fn check_races(&mut self, face: &str, offset: &str, bytes: u64, writes: bool) {
        let ptr = self.pointer("i8");
        let state = self.load(&ptr, "%site", SITE_STATE);
        let segment = self.load("i32", &state, STATE_SEGMENT);
        let high = self.load("i64", "%site", SITE_RECORD);
        let low = self.value(&format!("zext i32 {segment} to i64"));
        let new = self.value(&format!("or i64 {low}, {high}"));
        let cells = self.load(&ptr, face, FACE_CELLS);
        let word = self.value(&format!("lshr i64 {offset}, 2"));
        let at = self.value(&format!("shl i64 {word}, 4"));
        let cells = self.value(&format!("getelementptr i8, {ptr} {cells}, i64 {at}"));
        let past_end = self.load("i32", face, FACE_PAST_END);
        let past = Past { face, state: &state, segment: &segment, end: &past_end };
        let mut new_reads = Vec::new();
        for word in 0..bytes / 4 {
            let write = self.load("i64", &cells, 16 * word);
            let is_past = past.is_surely(self, &write);
            let (next, other) = self.choose(&is_past);
            self.begin(&other);
            let is_past = past.is(self, &write);
            self.line(&format!("br i1 {is_past}, label %{next}, label %slow"));
            self.begin(&next);
            let read = self.load("i64", &cells, 16 * word + 8);
            let is_past = past.is_surely(self, &read);
            let more = self.value(&format!("and i64 {read}, {RECORD_HAS_MORE}"));
            if writes {
                let has_no_more = self.value(&format!("icmp eq i64 {more}, 0"));
                let is_free = self.value(&format!("and i1 {is_past}, {has_no_more}"));
                self.go_on_if(&is_free);
                continue;
            }
            let record = self.value(&format!("or i64 {new}, {more}"));
            new_reads.push(self.new_read(&past, &at, word, &read, (&is_past, &record)));
        }
        for word in 0..bytes / 4 {
            let (offset, record) = match writes {
                true => (16 * word, &new),
                false => (16 * word + 8, &new_reads[word as usize]),
            };
            let at = self.value(&format!("getelementptr i8, {ptr} {cells}, i64 {offset}"));
            self.store("i64", record, &at);
        }
    }

    /// Adds the choice of a word's new record of a read. The present record stays if any write that
    /// races with the current read races with present records too.
    fn new_read(
        &mut self,
        past: &Past<'_>,
        at: &str,
        word: u64,
        read: &str,
        (is_past, record): (&str, &str),
    ) -> String {
        let (known, other) = self.choose(is_past);
        let is_known_from = self.block.clone();
        self.begin(&other);
        let is_past = past.is(self, read);
        let chosen = self.value(&format!("select i1 {is_past}, i64 {record}, i64 {read}"));
        let is_older = past.is_of_older_group(self, read);
        let is_right = self.value(&format!("or i1 {is_past}, {is_older}"));
        let two = self.label();
        self.line(&format!("br i1 {is_right}, label %{known}, label %{two}"));
        self.begin(&two);
        let has_two = self.is_read_by_two(past, at, word);
        self.line(&format!("br i1 {has_two}, label %{known}, label %slow"));
        self.begin(&known);
        self.value(&format!(
            "phi i64 [ {record}, %{is_known_from} ], [ {chosen}, %{other} ], [ {read}, %{two} ]"
        ))
    }

    /// Adds whether the second read of a word is by an item of the current group since the last
    /// barrier. `at` is the offset of the word's records.
    fn is_read_by_two(&mut self, past: &Past<'_>, at: &str, word: u64) -> String {
        let ptr = self.pointer("i8");
        let more = self.load(&ptr, past.face, FACE_MORE);
        let more = self.value(&format!("getelementptr i8, {ptr} {more}, i64 {at}"));
        let other = self.load("i64", &more, 16 * word + 8);
        let segment = self.value(&format!("trunc i64 {other} to i32"));
        let from = self.load("i32", past.state, STATE_TWO_FROM);
        let is_recent = self.value(&format!("icmp uge i32 {segment}, {from}"));
        let bytes = self.value(&format!("and i64 {other}, {RECORD_BYTES}"));
        let is_whole = self.value(&format!("icmp eq i64 {bytes}, {RECORD_WHOLE}"));
        self.value(&format!("and i1 {is_recent}, {is_whole}"))
    }

    // ---- Lines ----

    fn line(&mut self, line: &str) {
        self.lines.push_str(line);
        self.lines.push('\n');
    }

    /// Adds an instruction, and returns the name of its value.
    fn value(&mut self, instruction: &str) -> String {
        self.values += 1;
        let name = format!("%v{}", self.values);
        writeln!(self.lines, "{name} = {instruction}").expect("a text takes all lines");
        name
    }

    fn pointer(&self, ty: &str) -> String {
        if self.is_typed { format!("{ty}*") } else { "ptr".to_owned() }
    }

    fn load(&mut self, ty: &str, base: &str, offset: u64) -> String {
        let (byte, to) = (self.pointer("i8"), self.pointer(ty));
        let at = self.value(&format!("getelementptr i8, {byte} {base}, i64 {offset}"));
        let at = self.value(&format!("bitcast {byte} {at} to {to}"));
        self.value(&format!("load {ty}, {to} {at}"))
    }

    fn store(&mut self, ty: &str, value: &str, at: &str) {
        let (byte, to) = (self.pointer("i8"), self.pointer(ty));
        let at = self.value(&format!("bitcast {byte} {at} to {to}"));
        self.line(&format!("store {ty} {value}, {to} {at}"));
    }

    /// Returns a new name of a block.
    fn label(&mut self) -> String {
        self.values += 1;
        format!("b{}", self.values)
    }

    fn begin(&mut self, block: &str) {
        self.line(&format!("{block}:"));
        block.clone_into(&mut self.block);
    }

    /// Ends the block by the choice between two new ones: the likely one, and another.
    fn choose(&mut self, condition: &str) -> (String, String) {
        let (next, other) = (self.label(), self.label());
        self.line(&format!("br i1 {condition}, label %{next}, label %{other}"));
        (next, other)
    }

    /// Continues in a new block if a condition holds, and calls the runtime otherwise.
    fn go_on_if(&mut self, condition: &str) {
        let next = self.label();
        self.line(&format!("br i1 {condition}, label %{next}, label %slow, !prof !0"));
        self.begin(&next);
    }
}

/// The values by which to compare records with the current access.
struct Past<'a> {
    face: &'a str,
    state: &'a str,
    segment: &'a str,
    end: &'a str,
}

impl Past<'_> {
    /// Adds whether a record is the current item's, or of an access that ended before: the usual
    /// case.
    fn is_surely(&self, text: &mut Text, record: &str) -> String {
        let segment = text.value(&format!("trunc i64 {record} to i32"));
        let is_gone = text.value(&format!("icmp ult i32 {segment}, {}", self.end));
        let is_own = text.value(&format!("icmp eq i32 {segment}, {}", self.segment));
        text.value(&format!("or i1 {is_gone}, {is_own}"))
    }

    /// Adds whether a record is of an access that ended before, and not the current item's.
    fn is(&self, text: &mut Text, record: &str) -> String {
        let segment = text.value(&format!("trunc i64 {record} to i32"));
        let of_launch = text.load("i32", self.state, STATE_FIRST);
        let of_region = text.load("i32", self.face, FACE_FIRST);
        let is_of_launch = text.value(&format!("icmp ult i32 {segment}, {of_launch}"));
        let is_of_region = text.value(&format!("icmp ult i32 {segment}, {of_region}"));
        let is_gone = text.value(&format!("or i1 {is_of_launch}, {is_of_region}"));
        let group_first = text.load("i32", self.state, STATE_GROUP_FIRST);
        let span = text.load("i32", self.state, STATE_SPAN);
        let distance = text.value(&format!("sub i32 {segment}, {group_first}"));
        let is_before = text.value(&format!("icmp ult i32 {distance}, {span}"));
        text.value(&format!("or i1 {is_gone}, {is_before}"))
    }

    /// Adds whether a record is a read of the word by a group that is over.
    fn is_of_older_group(&self, text: &mut Text, record: &str) -> String {
        let end = text.load("i32", self.state, STATE_OLDER_END);
        let segment = text.value(&format!("trunc i64 {record} to i32"));
        let is_older = text.value(&format!("icmp ult i32 {segment}, {end}"));
        let bytes = text.value(&format!("and i64 {record}, {RECORD_BYTES}"));
        let is_whole = text.value(&format!("icmp eq i64 {bytes}, {RECORD_WHOLE}"));
        text.value(&format!("and i1 {is_older}, {is_whole}"))
    }
}

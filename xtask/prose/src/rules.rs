//! The rules, and the check of a passage against them.

use crate::passage::{CODE, Paragraph, Passage, Sentence, Subject, words};
use regex::Regex;
use std::fmt;
use std::sync::LazyLock;

/// A rule of `CONTRIBUTING.md`, by its number there.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Rule {
    /// Documentation begins with a noun phrase or a verb, as its subject asks.
    Opening = 1,
    /// No relative clause where a noun exists, and no person where a thing is meant.
    Nouns = 2,
    /// The acting party is named.
    Actors = 3,
    /// A pronoun has its noun, a number its unit.
    References = 4,
    /// Terms and names belong to the field.
    Terms = 5,
    /// Lines and sentences are short.
    Length = 6,
    /// Commit subjects are imperative and short.
    Commits = 7,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rule {}", *self as u8)
    }
}

/// A breach of a rule.
#[derive(Debug)]
pub(crate) struct Finding {
    pub(crate) rule: Rule,
    /// Number of its line, from 1; 0 for a commit.
    pub(crate) line: usize,
    /// The offending text.
    pub(crate) text: String,
    /// The reason, and the remedy.
    pub(crate) advice: String,
}

/// Longest line of a comment or a page, in characters.
pub(crate) const COLUMNS: usize = 100;
/// Longest sentence, in words.
const WORDS: usize = 30;

/// Checks a passage against rules 1 to 6.
pub(crate) fn check(passage: &Passage, findings: &mut Vec<Finding>) {
    let Some(first) = passage.paragraphs.first() else { return };
    opening(passage, first, findings);
    let mut seen = String::new();
    for paragraph in &passage.paragraphs {
        for sentence in paragraph.sentences() {
            if !paragraph.is_heading {
                length(sentence, findings);
            }
            patterns(sentence, findings);
            if passage.subject.has_lines() && !paragraph.is_heading && !paragraph.is_cell {
                references(sentence, seen.is_empty(), findings);
            }
            seen.push_str(sentence.text);
        }
    }
}

/// Verbs in the third person that are no plural noun here, or that an object may follow at once.
static VERB: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"^(?:[A-Z][a-z]*(?:-[a-z]+)?(?:s|es)|May|Does|Is|Has) (?:a|an|the|its|their|it|them|this|whether|how|what|not|no|all|each|every)\b",
    )
});
/// Openings without a noun.
static NO_NOUN: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"^(?:How|When|Where|Wherever|Why|Which|If|To|With|Without|In|On|At|By|For|From|As|Is|Are|Has|Have|Can|May|Must|Not|Never|It|They|He|We|You|This|These|That|There|Here|Something|Everything|Anything|Nothing|Like|So|Also|Only if|Because|Since|Before|After|While|Until|Unless|Does|Do)\b",
    )
});
/// Plural nouns, and other words in `s`, that no function's documentation may begin with.
static NO_VERB: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"^(?:This|Its|Whether|Less|Always|Perhaps|Besides|Towards|Bytes|Names|Numbers|Values|Devices|Kernels|Symbols|Sections|Arguments|Entries|Parts|Pages|Images|Queues|Events|Words|Objects|Handles|Programs|Functions|Places|Errors|Files|Folders|Lines|Bits|Users|Ways|Things|Types|Kinds|Plugins|Threads|Addresses|Offsets|Ranges|Limits|Rows|Others|Plus|Thus|As|Is|Was|Ours|Theirs|Yes|Us|Bus|Process|Access|Status|Class|Pass|Bias|Alias)\b",
    )
});

fn opening(passage: &Passage, first: &Paragraph, findings: &mut Vec<Finding>) {
    let text = first.text.as_str();
    let (good, advice) = match passage.subject {
        Subject::Function => (
            is_verb(text),
            "a function's documentation begins with a verb in the third person (\"Returns\", \"Copies\")",
        ),
        Subject::Type | Subject::Module => (
            !NO_NOUN.is_match(text) && !text.starts_with("Whether ") && !VERB.is_match(text),
            "a type's or module's documentation begins with a noun phrase",
        ),
        Subject::Value => (
            !NO_NOUN.is_match(text) && !VERB.is_match(text),
            "a field's, variant's or constant's documentation begins with a noun phrase (\"Whether\" for a bool)",
        ),
        Subject::Command | Subject::Code | Subject::Page | Subject::Message => return,
    };
    if !good && !first.is_heading {
        findings.push(finding(Rule::Opening, passage.line, text, advice));
    }
}

fn is_verb(text: &str) -> bool {
    let word = words(text).next().unwrap_or_default();
    let shape = word.starts_with(|c: char| c.is_uppercase()) && word.ends_with('s');
    shape && text.starts_with(word) && (!NO_VERB.is_match(text) || VERB.is_match(text))
}

fn length(sentence: Sentence<'_>, findings: &mut Vec<Finding>) {
    let count = words(sentence.text).count();
    if count > WORDS {
        let advice = format!("a sentence has at most {WORDS} words; this one has {count}");
        findings.push(finding(Rule::Length, sentence.line, sentence.text, &advice));
    }
}

/// A pattern that no sentence has.
struct Pattern {
    rule: Rule,
    regex: Regex,
    advice: &'static str,
}

/// Verbs after which "what" begins an indirect question, which is plain English.
const ASKS: &str = "say|says|said|saying|know|knows|known|knowing|decide|decides|see|sees|ask|asks|tell|tells|explain|explains|describe|describes|show|shows|define|defines|determine|determines|check|checks|state|states|matter|matters|to do|about|on|learn|specify|specifies|choose|chooses|compare|compares|out|of|is|exactly";
/// Words that no noun phrase has after its pronoun.
const NO_NOUN_NEXT: &str = "of|that|which|who|whose|in|on|at|with|without|for|from|by|to|and|or|but|as|are|is|were|was|have|had|do|did|not|the|a|an|it|they|he|we|there|here|before|after|behind|below|above|beyond|still|already|whom|when|where|if|than|then|left|it's|its";

static PATTERNS: LazyLock<Vec<Pattern>> = LazyLock::new(|| {
    use Rule::{Actors, Nouns, Terms};
    let all = [
        (Nouns, r"^(?:What|Who|Whose|Whoever|Whatever|Those|Of|One that|One which|One of)\b".to_owned(), "begin the sentence with a noun or a verb"),
        (Nouns, r"(?i)\b(?:who|whom|whoever|somebody|someone|nobody)\b".to_owned(), "only a person is a \"who\"; name the caller, the thread, the plugin"),
        (Nouns, r"(?i)\b(?:so many|so much|is none|are none|was none|were none|such as it is|as long as that is worth it)\b".to_owned(), "write it in plain English"),
        (Nouns, format!(r"\b(?:[Tt]hose|THOSE)(?:$|[.,;:)]| (?:{NO_NOUN_NEXT})\b)"), "\"those\" needs its noun"),
        (Nouns, format!(r"(?:^|[^a-z ] |\b([A-Za-z]+) )what (?:is|are|was|were|has|have|had|it|they|the|a|an|this|that|its|can|may|must|needs?|belongs|comes|stands|lies|follows|remains|came|went|follows|goes|works|another|others|only|cannot|does|do|did|no|{CODE})\b"), "a noun should stand for \"what ...\""),
        (Actors, r"(?i)\b(?:anyone|anybody|everyone|everybody|no one)\b".to_owned(), "name the acting party"),
        (Actors, r"(?:^Others\b|\bothers (?:wait|use|do|may|can|must|have|had|are|call|see|join|take|read|write|hold|keep|get|need)\b|^One (?:is|has|can|may|must|who|calls|waits|asks|takes|does)\b|^People\b)".to_owned(), "name the acting party"),
        (Terms, r"(?i)\b(?:told|untold)\b".to_owned(), "reported, pending or printed"),
        (Terms, r"(?i)\btells? (?:the|a|an|its|it|them|apart|whether|what|how|why|that|when|where|which)\b".to_owned(), "report, print, notify or distinguish"),
        (Terms, r"(?i)\bonwards?\b(?: target)?".to_owned(), "target"),
        (Terms, r"(?i)\b(?:adopts?|adopted|adopting)\b".to_owned(), "import"),
        (Terms, r"(?i)\b(?:settles?|settled|settling)\b".to_owned(), "commit, finish or decide"),
        (Terms, r"(?i)\b(?:patience|luck)\b".to_owned(), "adaptive spinning"),
        (Terms, r"(?i)\bgated\b".to_owned(), "guarded by a rundown guard"),
    ];
    let pattern =
        |(rule, text, advice): (Rule, String, _)| Pattern { rule, regex: regex(&text), advice };
    all.into_iter().map(pattern).collect()
});

static INDIRECT: LazyLock<Regex> = LazyLock::new(|| regex(&format!(r"(?i)^(?:{ASKS})$")));

fn patterns(sentence: Sentence<'_>, findings: &mut Vec<Finding>) {
    for pattern in PATTERNS.iter() {
        let breach = pattern.regex.captures_iter(sentence.text).find(|found| {
            // The word before "what", where the pattern has it.
            found.get(1).is_none_or(|before| !INDIRECT.is_match(before.as_str()))
        });
        if let Some(breach) = breach {
            let text = format!("{} [{}]", sentence.text, breach[0].trim());
            findings.push(finding(pattern.rule, sentence.line, &text, pattern.advice));
        }
    }
}

static PRONOUN: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"^(?:(?:It|They|Its|Their|Them|He|His|She|Her|Theirs|Such)\b|(?:This|These|Both|That)(?:$|[.,;:]| (?:is|are|was|were|has|have|had|can|cannot|may|must|will|would|does|do|did|not|be|of|in|at|on|way|also|only|needs?|makes?|takes?|keeps?|holds?|costs?|gives?|comes?|goes|means?|works?|lets?|should|happens)\b))",
    )
});
static NUMBER: LazyLock<Regex> = LazyLock::new(|| regex(r"\d{1,3}(?:,\d{3})+|\d+(?:\.\d+)?"));
/// The text behind a number that has no unit.
static NO_UNIT: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"^(?:[.;:)]*$|[.;:)] |,? (?:of|and|in|is|are|were|was|at|that|which|to|for|from|by|with|on|if|when|as|per|than|then|the|a|an|it|they|but|before|after|has|have|may|can|must|do|does)\b)",
    )
});
/// The text behind a number that has the unit of the next one.
static FURTHER: LazyLock<Regex> = LazyLock::new(|| regex(r"^,? (?:and|or|to) \d"));
/// Words before a number that is a name, a version or a place and not an amount.
static NAMES: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(?i)^(?:[A-Za-z]*(?:version|number|chapter|section|table|bit|bits|line|page|step|type|kind|group|item|index|ordinal|entry|row|column|level|rule|promise|value|argument|process|code|status|signal|descriptor|word|figure|device|platform|slot|id|count|size|width|alignment|length|dimension|register|binding|set|location|class|form|field|byte|part|errno|interface|round|thread|queue|model|family|address|offset|priority|exponent|appendix|note|method|ABI|from|to|with|below|above|than|least|most|and|or|by|times|plus|minus|is|are|be|was|until|before|between|exactly|stage|case|state)|(?-i:[A-Z][\w+./-]*)|clang|gcc|glibc|x86|lld|ptxas|about|some|only)$",
    )
});

fn references(sentence: Sentence<'_>, is_first: bool, findings: &mut Vec<Finding>) {
    if is_first && PRONOUN.is_match(sentence.text) {
        findings.push(finding(
            Rule::References,
            sentence.line,
            sentence.text,
            "a comment does not begin with a pronoun: name the thing",
        ));
    }
    let bare = NUMBER.find_iter(sentence.text).find(|number| {
        let (before, after) = (&sentence.text[..number.start()], &sentence.text[number.end()..]);
        is_amount(before)
            && NO_UNIT.is_match(after)
            && !FURTHER.is_match(after)
            && !is_value(number.as_str())
    });
    if let Some(bare) = bare
        && words(sentence.text).count() > 3
    {
        let text = format!("{} [{}]", sentence.text, bare.as_str());
        findings.push(finding(Rule::References, sentence.line, &text, "a number has its unit"));
    }
}

/// Returns whether a number behind this text is an amount: not a part of a word, a name, or a
/// further number of a list or a range.
fn is_amount(before: &str) -> bool {
    let apart = before.is_empty() || before.ends_with([' ', '(', '"']);
    let word = before.trim_end().rsplit([' ', '(', '"']).next().unwrap_or_default();
    let further = word.trim_end_matches(',').ends_with(|c: char| c.is_ascii_digit());
    let factor = [" multiple of", " multiples of", " power of", " powers of", "base"];
    let factor = factor.iter().any(|factor| before.trim_end().ends_with(factor));
    apart && !further && !factor && !NAMES.is_match(word.trim_end_matches([',', ':', ';']))
}

/// Returns whether a number is 0 or 1, which often are values and not amounts.
fn is_value(number: &str) -> bool {
    matches!(number, "0" | "1")
}

/// Names of types that the glossary replaces.
const RETIRED_TYPES: [&str; 11] = [
    "Line", "Noted", "Gated", "Patience", "Luck", "Question", "Answer", "Onward", "Turn", "Way",
    "Told",
];

/// Checks the name of a function or a type against rule 5.
pub(crate) fn check_name(subject: Subject, name: &str, line: usize, findings: &mut Vec<Finding>) {
    if subject == Subject::Function && (name == "of" || name.starts_with("of_")) {
        findings.push(finding(
            Rule::Terms,
            line,
            name,
            "a function is `new`, `from_...`, `for_...`, or the noun that it returns",
        ));
    }
    if subject == Subject::Function && name.split('_').count() >= 4 {
        // The name of a test is a sentence.
        let sentence = name.replace('_', " ");
        let text = sentence[..1].to_uppercase() + &sentence[1..];
        patterns(Sentence { text: &text, line }, findings);
    }
    if subject == Subject::Type && RETIRED_TYPES.contains(&name) {
        findings.push(finding(Rule::Terms, line, name, "docs/glossary.md has the field's term"));
    }
}

/// Checks a line of a comment or a page against rule 6.
pub(crate) fn check_columns(number: usize, line: &str, findings: &mut Vec<Finding>) {
    let columns = line.chars().count();
    // A link, a path, a long piece of code or a table row cannot be broken.
    let breakable = line.trim_start_matches(['/', '!', '*', '#', ' ', '-']).contains(' ');
    if columns > COLUMNS && breakable && !has_long_code(line) && !line.trim_start().starts_with('|')
    {
        let advice = format!("a line has at most {COLUMNS} columns; this one has {columns}");
        findings.push(finding(Rule::Length, number, line.trim(), &advice));
    }
}

/// Returns whether a line has one piece of code, in backticks, that takes most of its columns.
fn has_long_code(line: &str) -> bool {
    line.split('`').skip(1).step_by(2).any(|code| code.chars().count() > COLUMNS * 6 / 10)
}

/// Checks the subject of a commit against rule 7.
pub(crate) fn check_commit(subject: &str, findings: &mut Vec<Finding>) {
    static WRONG: LazyLock<Regex> = LazyLock::new(|| {
        regex(
            r"^(?:[a-z]|(?:\w+ed|\w+ing|A|An|The|It|What|Who|How|Those|These|This|Of|One|No|New|All|Some|More|\w*[^s]s|[a-z]+: .*)\b)",
        )
    });
    static RIGHT: LazyLock<Regex> = LazyLock::new(|| {
        regex(r"^(?:Bring|Ring|String|Embed|Feed|Need|Seed|Shed|Speed|Focus|Bias|Canvas|Alias)\b")
    });
    if subject.chars().count() > 72 {
        findings.push(finding(
            Rule::Commits,
            0,
            subject,
            "a commit's subject has at most 72 characters",
        ));
    }
    if WRONG.is_match(subject) && !RIGHT.is_match(subject) {
        findings.push(finding(
            Rule::Commits,
            0,
            subject,
            "a commit's subject is imperative (\"Reject plugins that are world-writable\")",
        ));
    }
}

/// Checks that each row of the glossary's tables has all its cells, against rule 5.
pub(crate) fn check_glossary(text: &str, findings: &mut Vec<Finding>) {
    for (number, line) in text.lines().enumerate() {
        let Some(row) = line.trim().strip_prefix('|') else { continue };
        let cells: Vec<_> =
            row.trim_end().trim_end_matches('|').split('|').map(str::trim).collect();
        if cells.len() < 3 || cells.iter().any(|cell| cell.is_empty()) {
            findings.push(finding(
                Rule::Terms,
                number + 1,
                line,
                "a term has its meaning, and its equivalent or the reason why it has none",
            ));
        }
    }
}

fn finding(rule: Rule, line: usize, text: &str, advice: &str) -> Finding {
    Finding { rule, line, text: text.to_owned(), advice: advice.to_owned() }
}

fn regex(text: &str) -> Regex {
    Regex::new(text).expect("the pattern is a regular expression")
}

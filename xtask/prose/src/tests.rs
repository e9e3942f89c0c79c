use super::*;
#[test]
fn debug() {
    let s = rust::read(&std::fs::read_to_string("../src/test.rs").unwrap(), true).unwrap();
    for p in &s.passages { println!("{:?} {} {}", p.subject, p.line, p.paragraphs[0].text); }
    let p = s.passages.iter().find(|p| p.paragraphs[0].text.starts_with("Number")).unwrap();
    let mut f = Vec::new();
    rules::check(p, &mut f);
    println!("{f:#?}");
}

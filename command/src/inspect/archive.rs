//! Static archives, of which each member is an image.

use super::image_report;
use super::report::ImageReport;
use longshore::{Format, Image};
use object::read::archive::ArchiveFile;

/// Adds the members. A nested archive is named, but not opened.
pub(super) fn read(bytes: &[u8], report: &mut ImageReport) {
    let archive = match ArchiveFile::parse(bytes) {
        Ok(archive) => archive,
        Err(error) => return report.problems.push(format!("not an archive: {error}")),
    };
    for member in archive.members() {
        let content = member.and_then(|member| Ok((member.name(), member.data(bytes)?)));
        let (name, content) = match content {
            Ok(content) => content,
            Err(error) => return report.problems.push(format!("unreadable member: {error}")),
        };
        if !report.has_room(&String::from_utf8_lossy(name)) {
            return;
        }
        let image = Image::from(content);
        let mut member = match image.format() {
            Format::Archive => ImageReport::new(image.format().to_string(), content.len()),
            _ => image_report(image, report.budget()),
        };
        member.member = Some(String::from_utf8_lossy(name).into_owned());
        report.members.push(member);
    }
}

//! Trust in a plugin's file, or in another file with code: the check that no untrusted user could
//! have written it.
//!
//! A file is refused if the file, or a folder of its path, belongs to neither root nor the
//! effective user. It is also refused if an untrusted user can write to one of these, by the mode
//! or by a POSIX ACL. Symbolic links are followed: the owner of a link and the path to its target
//! are checked as well. Write permission for root's group and for the effective group is accepted,
//! as the common umask of 002 grants it. A sticky folder, such as `/tmp`, counts as not writable by
//! other users: only the owner of a file can replace it there.
//!
//! In a process with more rights than its caller (set-uid, set-gid, file capabilities) the caller
//! is an untrusted user. Root is trusted, and the effective user unless that is the caller; only
//! root's group may write.
//!
//! The path is walked from the root, each step from an open, checked folder. So no untrusted user
//! can replace a later component, neither before its check nor before the library is loaded.

use crate::environment::is_set_uid;
use parking_lot::Mutex;
use rustix::fs::{CWD, FileType, Mode, OFlags, fgetxattr, fstat, getxattr, openat, readlinkat};
use rustix::io::Errno;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::collections::btree_map::{BTreeMap, Entry};
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::{File, Metadata};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::rc::Rc;

const GROUP_WRITE: u32 = 0o020;
const OTHERS_WRITE: u32 = 0o002;
const STICKY: u32 = 0o1000;
/// Most symbolic links in one path, as in Linux.
const MAX_LINKS: usize = 40;
/// Largest ACL that is read, in bytes; a file with a larger one is refused.
const MAX_ACL_BYTES: usize = 4096;

/// The users and groups that may write a plugin.
#[derive(Clone, Debug)]
pub(crate) struct Trust {
    /// The user that is trusted in addition to root.
    user: Option<u32>,
    /// The group that may have write permission in addition to root's.
    group: Option<u32>,
    /// Whether the process has more rights than its caller.
    is_privileged: bool,
    /// The folder of the file that was opened last. Candidates are checked folder by folder, so it
    /// is often the next folder.
    last_folder: RefCell<Option<Folder>>,
}

/// An open, trusted folder.
#[derive(Clone, Debug)]
struct Folder {
    /// The requested absolute path.
    asked: PathBuf,
    file: Rc<OwnedFd>,
    /// The path without links.
    path: PathBuf,
}

/// An open, trusted file.
#[derive(Debug)]
pub(super) struct Trusted {
    file: File,
    path: PathBuf,
    is_privileged: bool,
}

impl Trusted {
    /// Returns the file's path without links.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path for the loader. In a privileged process this is the path of the open
    /// descriptor in `/proc`. Otherwise it is the file's path, which no untrusted user can change:
    /// debuggers find the file by that path, and `$ORIGIN` is the folder.
    pub(super) fn loader_path(&self) -> PathBuf {
        let number = self.is_privileged.then(|| kept(&self.file)).transpose().ok().flatten();
        let open = number.map(|number| PathBuf::from(format!("/proc/self/fd/{number}")));
        open.filter(|open| open.exists()).unwrap_or_else(|| self.path.clone())
    }
}

/// An open folder on a trusted path.
#[derive(Debug)]
pub(crate) struct TrustedFolder {
    file: OwnedFd,
    path: PathBuf,
}

impl TrustedFolder {
    /// Returns the folder's path without links.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// Returns the number of a descriptor of this file that stays open for ever. The loader identifies
/// loaded libraries by their paths, so no other file may get that number later.
fn kept(file: &File) -> std::io::Result<RawFd> {
    static KEPT: Mutex<BTreeMap<(u64, u64), File>> = Mutex::new(BTreeMap::new());
    let facts = file.metadata()?;
    let mut files = KEPT.lock();
    match files.entry((facts.dev(), facts.ino())) {
        Entry::Occupied(known) => Ok(known.get().as_raw_fd()),
        Entry::Vacant(place) => Ok(place.insert(file.try_clone()?).as_raw_fd()),
    }
}

impl Trust {
    /// Returns the trusted users and groups of this process.
    pub(crate) fn for_process() -> Trust {
        let (real, user) =
            (rustix::process::getuid().as_raw(), rustix::process::geteuid().as_raw());
        let group = rustix::process::getegid().as_raw();
        Trust::new(real, user, group, is_set_uid())
    }

    fn new(real: u32, user: u32, group: u32, is_privileged: bool) -> Trust {
        Trust {
            user: (!is_privileged || user != real).then_some(user),
            group: (!is_privileged).then_some(group),
            is_privileged,
            last_folder: RefCell::default(),
        }
    }

    /// Opens a file by a path whose components are all trusted. With `facts`, the file must be the
    /// one with this device and inode.
    ///
    /// # Errors
    /// The reason for the refusal, with a remedy.
    pub(super) fn open(&self, path: &Path, facts: Option<&Metadata>) -> Result<Trusted, String> {
        let (file, path) = self.resolve(path)?.go_to_file()?;
        let is_same =
            |known: &Metadata, now: &Metadata| (known.dev(), known.ino()) == (now.dev(), now.ino());
        match file.metadata() {
            Err(error) => Err(format!("'{}' cannot be read: {error}", path.display())),
            Ok(now) if facts.is_some_and(|known| !is_same(known, &now)) => {
                Err(format!("'{}' was replaced while it was checked", path.display()))
            }
            Ok(_) => Ok(Trusted { file, path, is_privileged: self.is_privileged }),
        }
    }

    /// Opens a folder by a path whose components are all trusted.
    ///
    /// # Errors
    /// The reason for the refusal, with a remedy.
    pub(crate) fn open_folder(&self, path: &Path) -> Result<TrustedFolder, String> {
        let unreadable = |error: std::io::Error| format!("'{}': {error}", path.display());
        let whole = std::path::absolute(path).map_err(unreadable)?;
        let Folder { file, path: found, .. } = self.folder(&whole)?;
        Ok(TrustedFolder { file: file.try_clone().map_err(unreadable)?, path: found })
    }

    /// Opens a file of a folder, after a further check of the folder itself; `None` if there is no
    /// such file. Links are refused.
    ///
    /// # Errors
    /// The reason for the refusal, with a remedy.
    pub(crate) fn open_in(
        &self,
        folder: &TrustedFolder,
        name: &str,
    ) -> Result<Option<File>, String> {
        self.judge(&folder.path, &folder.file)?;
        let path = || folder.path.join(name);
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = match openat(&folder.file, name, flags | OFlags::CLOEXEC, Mode::empty()) {
            Ok(file) => file,
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(format!("'{}' cannot be read: {error}", path().display())),
        };
        self.judge(&path(), &file)?;
        Ok(Some(File::from(file)))
    }

    /// Returns the path to a file, starting at its checked folder.
    fn resolve(&self, path: &Path) -> Result<ResolvedPath<'_>, String> {
        let unreadable = |error: std::io::Error| format!("'{}': {error}", path.display());
        let whole = std::path::absolute(path).map_err(unreadable)?;
        match (whole.parent(), whole.file_name()) {
            (Some(folder), Some(name)) => {
                let Folder { file, path, .. } = self.folder(folder)?;
                let names = VecDeque::from([name.to_owned()]);
                Ok(ResolvedPath { trust: self, folder: file, path, names, links: 0 })
            }
            _ => ResolvedPath::new(self, &whole),
        }
    }

    fn folder(&self, asked: &Path) -> Result<Folder, String> {
        let mut last = self.last_folder.borrow_mut();
        if let Some(known) = last.as_ref().filter(|known| known.asked == asked) {
            return Ok(known.clone());
        }
        let (file, path) = ResolvedPath::new(self, asked)?.go_to_folder()?;
        Ok(last.insert(Folder { asked: asked.to_owned(), file, path }).clone())
    }

    /// Checks an open file, folder or link.
    ///
    /// # Errors
    /// The reason for the refusal, with a remedy.
    fn judge(&self, path: &Path, file: &OwnedFd) -> Result<(), String> {
        let unreadable = |error: Errno| format!("'{}' cannot be read: {error}", path.display());
        let facts = fstat(file).map_err(unreadable)?;
        let kind = FileType::from_raw_mode(facts.st_mode);
        let rights = Rights {
            owner: facts.st_uid,
            group: facts.st_gid,
            mode: facts.st_mode,
            kind,
            acl: match kind {
                FileType::Symlink => Vec::new(),
                // The group's bits of a file with an ACL are the mask of all entries.
                _ if facts.st_mode & GROUP_WRITE == 0 => Vec::new(),
                _ => acl(path, file).map_err(unreadable)?,
            },
        };
        self.judge_rights(path, &rights)
    }

    fn judge_rights(&self, path: &Path, rights: &Rights) -> Result<(), String> {
        let (owner, mode, path) = (rights.owner, rights.mode, path.display());
        if !self.trusts(owner) {
            let user = self.user.unwrap_or(0);
            return Err(format!(
                "'{path}' belongs to user {owner}, not to {self} (to trust it: chown {user} '{path}')"
            ));
        }
        let is_sticky = rights.kind == FileType::Directory && mode & STICKY != 0;
        if is_sticky || rights.kind == FileType::Symlink {
            return Ok(());
        }
        if mode & OTHERS_WRITE != 0 {
            return Err(format!("any user may write to '{path}' (to fix it: chmod o-w '{path}')"));
        }
        let has_acl = !rights.acl.is_empty();
        if !has_acl && mode & GROUP_WRITE != 0 && !self.trusts_group(rights.group) {
            let group = rights.group;
            return Err(format!(
                "group {group} may write to '{path}' (to fix it: chmod g-w '{path}')"
            ));
        }
        let writer = rights.acl.iter().find(|writer| match writer {
            Writer::User(user) => !self.trusts(*user),
            Writer::OwningGroup => !self.trusts_group(rights.group),
            Writer::Group(group) => !self.trusts_group(*group),
        });
        match writer {
            Some(writer) => Err(format!(
                "the ACL of '{path}' lets {writer} write to it (to fix it: setfacl -b '{path}')"
            )),
            None => Ok(()),
        }
    }

    fn trusts(&self, user: u32) -> bool {
        user == 0 || self.user == Some(user)
    }

    fn trusts_group(&self, group: u32) -> bool {
        group == 0 || self.group == Some(group)
    }
}

/// Formats the trusted users.
impl fmt::Display for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.user, self.is_privileged) {
            (Some(0), _) => f.write_str("root"),
            (None, _) => f.write_str(
                "root, which alone is trusted by a program with more rights than its caller",
            ),
            (Some(user), _) => write!(f, "root or the effective user {user}"),
        }
    }
}

/// Owner, mode and ACL of a file or folder.
struct Rights {
    owner: u32,
    group: u32,
    mode: u32,
    kind: FileType,
    /// The writers that the ACL allows, without the owner; empty without an ACL.
    acl: Vec<Writer>,
}

/// An entry of an ACL that gives write permission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Writer {
    User(u32),
    OwningGroup,
    Group(u32),
}

impl fmt::Display for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Writer::User(user) => write!(f, "user {user}"),
            Writer::OwningGroup => f.write_str("its group"),
            Writer::Group(group) => write!(f, "group {group}"),
        }
    }
}

/// Returns the writers that a POSIX ACL allows. Empty without an ACL, and for an ACL that allows
/// only the owner to write.
fn acl(path: &Path, file: &OwnedFd) -> rustix::io::Result<Vec<Writer>> {
    const NAME: &str = "system.posix_acl_access";
    let mut bytes = [0; MAX_ACL_BYTES];
    // A component opened by `O_PATH` cannot be queried for attributes, only its name in `/proc`
    // can.
    let by_name = |bytes: &mut [u8]| match getxattr(
        format!("/proc/self/fd/{}", file.as_raw_fd()),
        NAME,
        &mut *bytes,
    ) {
        Err(Errno::NOENT) => getxattr(path, NAME, &mut *bytes),
        read => read,
    };
    let read = match fgetxattr(file, NAME, &mut bytes) {
        Err(Errno::BADF) => by_name(&mut bytes),
        read => read,
    };
    match read {
        Ok(size) => Ok(writers(&bytes[..size])),
        Err(Errno::NODATA | Errno::NOTSUP) => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Returns the entries of an ACL in Linux's format that grant write permission under the ACL's
/// mask.
fn writers(acl: &[u8]) -> Vec<Writer> {
    const VERSION_BYTES: usize = 4;
    const USER: u16 = 2;
    const OWNING_GROUP: u16 = 4;
    const GROUP: u16 = 8;
    const MASK: u16 = 16;
    const WRITE: u16 = 2;
    let entries = acl.get(VERSION_BYTES..).unwrap_or_default().chunks_exact(8).map(|entry| {
        let half = |at: usize| u16::from_le_bytes([entry[at], entry[at + 1]]);
        let id = u32::from_le_bytes([entry[4], entry[5], entry[6], entry[7]]);
        (half(0), half(2), id)
    });
    let entries: Vec<(u16, u16, u32)> = entries.collect();
    let mask = entries.iter().find(|entry| entry.0 == MASK).map_or(u16::MAX, |entry| entry.1);
    let writing = entries.iter().filter(|entry| entry.1 & mask & WRITE != 0);
    let writers = writing.filter_map(|(tag, _, id)| match *tag {
        USER => Some(Writer::User(*id)),
        OWNING_GROUP => Some(Writer::OwningGroup),
        GROUP => Some(Writer::Group(*id)),
        _ => None,
    });
    writers.collect()
}

/// A path during its resolution. Each folder is checked before any of its entries is opened.
struct ResolvedPath<'a> {
    trust: &'a Trust,
    /// The current folder.
    folder: Rc<OwnedFd>,
    path: PathBuf,
    /// The remaining components.
    names: VecDeque<OsString>,
    links: usize,
}

impl<'a> ResolvedPath<'a> {
    /// Creates the resolution of an absolute path, starting at the root.
    fn new(trust: &'a Trust, whole: &Path) -> Result<ResolvedPath<'a>, String> {
        let (folder, root) = ResolvedPath::root(trust)?;
        let mut path = ResolvedPath { trust, folder, path: root, names: VecDeque::new(), links: 0 };
        path.put_in_front(whole);
        Ok(path)
    }

    fn root(trust: &Trust) -> Result<(Rc<OwnedFd>, PathBuf), String> {
        let root = PathBuf::from("/");
        let folder = openat(CWD, &root, FOLDER, Mode::empty());
        let folder = folder.map_err(|error| format!("'/' cannot be opened: {error}"))?;
        trust.judge(&root, &folder)?;
        Ok((Rc::new(folder), root))
    }

    fn put_in_front(&mut self, path: &Path) {
        let names = path.components().filter_map(|component| match component {
            Component::Normal(name) => Some(name.to_owned()),
            Component::ParentDir => Some(OsString::from("..")),
            _ => None,
        });
        for name in names.collect::<Vec<_>>().into_iter().rev() {
            self.names.push_front(name);
        }
    }

    fn go_to_file(mut self) -> Result<(File, PathBuf), String> {
        match self.go()? {
            Some(name) => self.end(&name),
            None => Err(format!("'{}' is a folder", self.path.display())),
        }
    }

    fn go_to_folder(mut self) -> Result<(Rc<OwnedFd>, PathBuf), String> {
        match self.go()? {
            Some(name) => Err(format!("'{}' is no folder", self.path.join(name).display())),
            None => Ok((self.folder, self.path)),
        }
    }

    /// Resolves all components. Returns the name of a file in the last folder, not yet checked, or
    /// `None` for a folder.
    fn go(&mut self) -> Result<Option<OsString>, String> {
        while let Some(name) = self.names.pop_front() {
            if name == ".." {
                self.folder = Rc::new(self.open(&name, FOLDER)?);
                self.path.pop();
                continue;
            }
            let path = self.path.join(&name);
            let step = self.open(&name, STEP)?;
            let facts = fstat(&step)
                .map_err(|error| format!("'{}' cannot be read: {error}", path.display()))?;
            let kind = FileType::from_raw_mode(facts.st_mode);
            if kind == FileType::RegularFile && self.names.is_empty() {
                return Ok(Some(name));
            }
            self.trust.judge(&path, &step)?;
            match kind {
                FileType::Symlink => self.follow(&step, &path)?,
                FileType::Directory => (self.folder, self.path) = (Rc::new(step), path),
                _ => return Err(format!("'{}' is neither a file nor a folder", path.display())),
            }
        }
        Ok(None)
    }

    /// Opens the file for reading, and checks it. Its folder is already checked.
    fn end(self, name: &OsStr) -> Result<(File, PathBuf), String> {
        let path = self.path.join(name);
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = self.open(name, flags | OFlags::CLOEXEC)?;
        self.trust.judge(&path, &file)?;
        Ok((File::from(file), path))
    }

    fn follow(&mut self, link: &OwnedFd, path: &Path) -> Result<(), String> {
        self.links += 1;
        if self.links > MAX_LINKS {
            return Err(format!("'{}' is behind more than {MAX_LINKS} links", path.display()));
        }
        let target = readlinkat(link, "", Vec::new());
        let target = target.map_err(|error| format!("'{}': {error}", path.display()))?;
        let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
        if target.is_absolute() {
            (self.folder, self.path) = ResolvedPath::root(self.trust)?;
        }
        self.put_in_front(&target);
        Ok(())
    }

    fn open(&self, name: &OsStr, flags: OFlags) -> Result<OwnedFd, String> {
        openat(&*self.folder, name, flags, Mode::empty()).map_err(|error| {
            format!("'{}' cannot be opened: {error}", self.path.join(name).display())
        })
    }
}

const FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
const STEP: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{Permissions, create_dir, metadata, set_permissions, write};
    use std::os::unix::fs::{PermissionsExt, symlink};

    struct World {
        folder: tempfile::TempDir,
        file: PathBuf,
    }

    fn world() -> World {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("plugin.so");
        write(&file, "").unwrap();
        set_mode(&file, 0o644);
        set_mode(folder.path(), 0o755);
        World { folder, file }
    }

    fn set_mode(path: &Path, mode: u32) {
        set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    fn judge(path: &Path) -> Result<PathBuf, String> {
        let trusted = Trust::for_process().open(path, Some(&metadata(path).unwrap()))?;
        Ok(trusted.path().to_owned())
    }

    fn rights(owner: u32, group: u32, mode: u32) -> Rights {
        Rights { owner, group, mode, kind: FileType::RegularFile, acl: Vec::new() }
    }

    #[test]
    fn a_file_that_only_its_owner_writes_is_trusted() {
        let world = world();
        assert_eq!(judge(&world.file), Ok(world.file.canonicalize().unwrap()));
    }

    #[test]
    fn a_world_writable_file_is_refused_with_the_fix() {
        let world = world();
        set_mode(&world.file, 0o646);
        let reason = judge(&world.file).unwrap_err();
        assert!(reason.contains(&format!("chmod o-w '{}'", world.file.display())), "{reason}");
    }

    #[test]
    fn a_world_writable_folder_is_refused_unless_it_is_sticky() {
        let world = world();
        let folder = world.folder.path();
        set_mode(folder, 0o1777);
        assert!(judge(&world.file).is_ok());
        set_mode(folder, 0o777);
        let reason = judge(&world.file).unwrap_err();
        assert!(reason.contains(&format!("chmod o-w '{}'", folder.display())), "{reason}");
    }

    #[test]
    fn every_folder_on_the_way_is_judged() {
        let world = world();
        let inner = world.folder.path().join("outer/inner");
        std::fs::create_dir_all(&inner).unwrap();
        let file = inner.join("plugin.so");
        std::fs::copy(&world.file, &file).unwrap();
        assert!(judge(&file).is_ok());
        set_mode(world.folder.path(), 0o777);
        assert!(judge(&file).unwrap_err().contains("any user may write"));
    }

    #[test]
    fn a_group_may_write_if_it_is_roots_or_the_effective_one() {
        let (user, privileged) =
            (Trust::new(1000, 1000, 1000, false), Trust::new(1000, 1001, 1000, true));
        let judge = |trust: &Trust, owner, group| {
            trust.judge_rights(Path::new("/x.so"), &rights(owner, group, 0o664))
        };
        assert_eq!(judge(&user, 1000, 0), Ok(()));
        assert_eq!(judge(&user, 1000, 1000), Ok(()));
        assert!(judge(&user, 1000, 100).unwrap_err().contains("chmod g-w '/x.so'"));
        assert_eq!(judge(&privileged, 1001, 0), Ok(()));
        assert!(judge(&privileged, 1001, 1000).is_err());
    }

    #[test]
    fn the_caller_of_a_privileged_program_is_not_trusted() {
        let judge =
            |trust: &Trust, owner| trust.judge_rights(Path::new("/x"), &rights(owner, 0, 0o644));
        // Set-gid, or with capabilities: the effective user is the caller.
        let caller = Trust::new(1000, 1000, 50, true);
        assert_eq!(judge(&caller, 0), Ok(()));
        assert!(judge(&caller, 1000).unwrap_err().contains("root, which alone is trusted"));
        // Set-uid: the effective user owns the program.
        let owner = Trust::new(1000, 1001, 1000, true);
        assert_eq!(judge(&owner, 1001), Ok(()));
        assert!(judge(&owner, 1000).is_err());
    }

    #[test]
    fn a_file_of_another_user_is_refused_even_in_a_sticky_folder() {
        let trust = Trust::new(1000, 1000, 1000, false);
        for kind in [FileType::RegularFile, FileType::Directory, FileType::Symlink] {
            let owned = |owner| {
                let rights = Rights { kind, ..rights(owner, 0, 0o1755) };
                trust.judge_rights(Path::new("/x.so"), &rights)
            };
            assert_eq!(owned(0), Ok(()));
            assert_eq!(owned(1000), Ok(()));
            assert!(owned(1001).unwrap_err().contains("belongs to user 1001"));
        }
    }

    #[test]
    fn the_target_and_the_path_of_a_link_are_judged() {
        let (world, elsewhere) = (world(), tempfile::tempdir().unwrap());
        create_dir(elsewhere.path().join("sub")).unwrap();
        let link = elsewhere.path().join("plugin.so");
        symlink(&world.file, &link).unwrap();
        // Through a relative link to a folder, and "..".
        let folder = elsewhere.path().join("folder");
        symlink("sub/..", &folder).unwrap();
        let path = folder.join("plugin.so");
        assert_eq!(judge(&path), Ok(world.file.canonicalize().unwrap()));
        set_mode(&world.file, 0o666);
        assert!(judge(&path).unwrap_err().contains("any user may write"));
        set_mode(&world.file, 0o644);
        set_mode(world.folder.path(), 0o777);
        assert!(judge(&path).is_err());
        set_mode(world.folder.path(), 0o755);
        set_mode(elsewhere.path(), 0o777);
        assert!(judge(&path).is_err(), "the folder of the link");
    }

    #[test]
    fn links_in_a_circle_are_refused() {
        let world = world();
        let link = world.folder.path().join("circle");
        symlink("circle", &link).unwrap();
        assert!(Trust::for_process().open(&link, None).unwrap_err().contains("more than 40 links"));
    }

    /// Returns an ACL with these tags, permissions and ids.
    fn acl(entries: &[(u16, u16, u32)]) -> Vec<u8> {
        let mut bytes = 2_u32.to_le_bytes().to_vec();
        for (tag, permission, id) in entries {
            bytes.extend(tag.to_le_bytes());
            bytes.extend(permission.to_le_bytes());
            bytes.extend(id.to_le_bytes());
        }
        bytes
    }

    const NO_ID: u32 = u32::MAX;

    #[test]
    fn an_acl_that_lets_another_user_write_is_refused() {
        let acl =
            acl(&[(1, 6, NO_ID), (2, 6, 4711), (4, 4, NO_ID), (16, 6, NO_ID), (32, 4, NO_ID)]);
        assert_eq!(writers(&acl), [Writer::User(4711)]);
        let world = world();
        for path in [&world.file, world.folder.path()] {
            let set = rustix::fs::setxattr(
                path,
                "system.posix_acl_access",
                &acl,
                rustix::fs::XattrFlags::empty(),
            );
            if set == Err(Errno::NOTSUP) {
                println!("the file system of '{}' has no ACLs", path.display());
                return;
            }
            set.unwrap();
            let reason = judge(&world.file).unwrap_err();
            assert!(reason.contains("lets user 4711 write"), "{reason}");
            rustix::fs::removexattr(path, "system.posix_acl_access").unwrap();
            assert!(judge(&world.file).is_ok());
        }
    }

    #[test]
    fn an_acl_gives_no_more_than_its_mask() {
        let entries =
            |mask| [(1, 6, NO_ID), (2, 7, 5), (4, 6, NO_ID), (8, 2, 9), (16, mask, NO_ID)];
        assert_eq!(writers(&acl(&entries(5))), []);
        let all = [Writer::User(5), Writer::OwningGroup, Writer::Group(9)];
        assert_eq!(writers(&acl(&entries(7))), all);
        assert_eq!(writers(&[2, 0]), []);
    }
}

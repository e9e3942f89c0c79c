//! Whether a plugin's file could have been written by someone whom the user did not choose.
//!
//! A file is refused if it, or the folder that it really lies in, belongs to neither root nor the
//! effective user, or can be written by others. Of a link the target is judged. Write permission
//! for a group is accepted if it is root's group or the effective one: that is what files look
//! like under the common umask of 002. A folder in which only the owner of a file may replace it
//! (sticky, like `/tmp`) counts as one that others cannot write to.
//!
//! Folders further up need no look: whoever may rename them can only put files of their own there,
//! which are refused by their owner. What remains is the moment between this look and the opening
//! of the library, so in a set-uid process the folders further up are judged as well, and no group
//! but root's is accepted.

use crate::environment::is_set_uid;
use std::collections::HashMap;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const GROUP_WRITE: u32 = 0o020;
const OTHERS_WRITE: u32 = 0o002;
const STICKY: u32 = 0o1000;

/// Who may have written a plugin, and the folders judged so far.
pub(super) struct Trust {
    user: u32,
    /// The group, besides root's, that may have write permission.
    group: Option<u32>,
    /// Judge every folder on the way, not only the one that holds the file.
    whole_path: bool,
    folders: HashMap<PathBuf, Result<(), String>>,
}

impl Trust {
    /// What holds for this process.
    pub(super) fn of_process() -> Trust {
        let user = rustix::process::geteuid().as_raw();
        let group = rustix::process::getegid().as_raw();
        Trust::new(user, group, is_set_uid())
    }

    fn new(user: u32, group: u32, set_uid: bool) -> Trust {
        let group = (!set_uid).then_some(group);
        Trust { user, group, whole_path: set_uid, folders: HashMap::new() }
    }

    /// Judges an open file with these `facts`, which is at `path`. `Err` holds the reason and how
    /// to mend it.
    pub(super) fn judge(&mut self, path: &Path, facts: &Metadata) -> Result<(), String> {
        let link = std::fs::symlink_metadata(path).is_ok_and(|entry| entry.is_symlink());
        let real = match link || self.whole_path {
            true => {
                path.canonicalize().map_err(|error| format!("it cannot be resolved: {error}"))?
            }
            false => path.to_owned(),
        };
        self.judge_rights(&real, facts.into())?;
        let depth = if self.whole_path { usize::MAX } else { 1 };
        real.ancestors().skip(1).take(depth).try_for_each(|folder| self.judge_folder(folder))
    }

    fn judge_folder(&mut self, folder: &Path) -> Result<(), String> {
        if let Some(known) = self.folders.get(folder) {
            return known.clone();
        }
        let judged = std::fs::metadata(folder)
            .map_err(|error| format!("its folder '{}' cannot be read: {error}", folder.display()))
            .and_then(|facts| self.judge_rights(folder, (&facts).into()));
        self.folders.insert(folder.to_owned(), judged.clone());
        judged
    }

    fn judge_rights(&self, path: &Path, rights: Rights) -> Result<(), String> {
        let Rights { owner, group, mode, folder } = rights;
        let (path, user) = (path.display(), self.user);
        if owner != 0 && owner != user {
            return Err(format!(
                "'{path}' belongs to user {owner}, neither root nor the effective user {user} \
                 (to trust it: chown {user} '{path}')"
            ));
        }
        if folder && mode & STICKY != 0 {
            return Ok(());
        }
        if mode & OTHERS_WRITE != 0 {
            return Err(format!("everyone may write to '{path}' (to mend it: chmod o-w '{path}')"));
        }
        if mode & GROUP_WRITE != 0 && group != 0 && Some(group) != self.group {
            return Err(format!(
                "group {group} may write to '{path}' (to mend it: chmod g-w '{path}')"
            ));
        }
        Ok(())
    }
}

/// Who owns a file or folder and who may write to it.
#[derive(Clone, Copy)]
struct Rights {
    owner: u32,
    group: u32,
    mode: u32,
    folder: bool,
}

impl From<&Metadata> for Rights {
    fn from(facts: &Metadata) -> Rights {
        let folder = facts.is_dir();
        Rights { owner: facts.uid(), group: facts.gid(), mode: facts.mode(), folder }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{Permissions, metadata, set_permissions, write};
    use std::os::unix::fs::{PermissionsExt, symlink};

    struct World {
        folder: tempfile::TempDir,
        file: PathBuf,
        trust: Trust,
    }

    fn world() -> World {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("plugin.so");
        write(&file, "").unwrap();
        set_mode(&file, 0o644);
        World { folder, file, trust: Trust::of_process() }
    }

    fn set_mode(path: &Path, mode: u32) {
        set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    fn judge(world: &mut World, path: &Path) -> Result<(), String> {
        world.trust.judge(path, &metadata(path).unwrap())
    }

    #[test]
    fn a_file_that_only_its_owner_writes_is_trusted() {
        let mut world = world();
        let file = world.file.clone();
        assert_eq!(judge(&mut world, &file), Ok(()));
    }

    #[test]
    fn a_world_writable_file_is_refused_with_the_fix() {
        let mut world = world();
        let file = world.file.clone();
        set_mode(&file, 0o646);
        let reason = judge(&mut world, &file).unwrap_err();
        assert!(reason.contains(&format!("chmod o-w '{}'", file.display())), "{reason}");
    }

    #[test]
    fn a_world_writable_folder_is_refused_unless_it_is_sticky() {
        let mut world = world();
        let (file, folder) = (world.file.clone(), world.folder.path().to_owned());
        set_mode(&folder, 0o1777);
        assert_eq!(judge(&mut world, &file), Ok(()));
        set_mode(&folder, 0o777);
        world.trust = Trust::of_process();
        let reason = judge(&mut world, &file).unwrap_err();
        assert!(reason.contains(&format!("chmod o-w '{}'", folder.display())), "{reason}");
    }

    #[test]
    fn a_group_may_write_if_it_is_roots_or_the_effective_one() {
        let (user, set_uid) = (Trust::new(1000, 1000, false), Trust::new(1000, 1000, true));
        let of_group = |trust: &Trust, group| {
            let rights = Rights { owner: 1000, group, mode: 0o664, folder: false };
            trust.judge_rights(Path::new("/x.so"), rights)
        };
        assert_eq!(of_group(&user, 0), Ok(()));
        assert_eq!(of_group(&user, 1000), Ok(()));
        assert!(of_group(&user, 100).unwrap_err().contains("chmod g-w '/x.so'"));
        assert_eq!(of_group(&set_uid, 0), Ok(()));
        assert!(of_group(&set_uid, 1000).is_err());
    }

    #[test]
    fn what_belongs_to_another_user_is_refused_even_in_a_sticky_folder() {
        let trust = Trust::new(1000, 1000, false);
        let owned = |owner, folder| {
            let rights = Rights { owner, group: 0, mode: 0o1755, folder };
            trust.judge_rights(Path::new("/x.so"), rights)
        };
        for folder in [false, true] {
            assert_eq!(owned(0, folder), Ok(()));
            assert_eq!(owned(1000, folder), Ok(()));
            assert!(owned(1001, folder).unwrap_err().contains("belongs to user 1001"));
        }
    }

    #[test]
    fn of_a_link_the_target_and_its_folder_are_judged() {
        let (mut world, elsewhere) = (world(), tempfile::tempdir().unwrap());
        let link = elsewhere.path().join("plugin.so");
        symlink(&world.file, &link).unwrap();
        assert_eq!(judge(&mut world, &link), Ok(()));
        set_mode(&world.file, 0o666);
        assert!(judge(&mut world, &link).unwrap_err().contains("everyone may write"));
        set_mode(&world.file, 0o644);
        set_mode(world.folder.path(), 0o777);
        world.trust = Trust::of_process();
        assert!(judge(&mut world, &link).is_err());
    }

    #[test]
    fn in_a_set_uid_process_every_folder_on_the_way_is_judged() {
        let mut world = world();
        let inner = world.folder.path().join("inner");
        std::fs::create_dir(&inner).unwrap();
        set_mode(&inner, 0o755);
        let file = inner.join("plugin.so");
        std::fs::copy(&world.file, &file).unwrap();
        set_mode(world.folder.path(), 0o777);
        assert_eq!(judge(&mut world, &file), Ok(()));
        let owner = metadata(&file).unwrap();
        world.trust = Trust::new(owner.uid(), owner.gid(), true);
        assert!(judge(&mut world, &file).unwrap_err().contains("everyone may write"));
    }
}

//! A file of built pipelines, kept on disk between processes.
//!
//! A driver trusts the bytes of a pipeline cache, and runs the code in them. So a file is used only
//! if no other user could have written it, and if it is complete and belongs to this device and
//! driver. The folder has a file for each device and driver: a header, little-endian, and the data
//! of `vkGetPipelineCacheData`.
//!
//! | offset | bytes | what |
//! | --- | --- | --- |
//! | 0 | 8 | `LSHRPIPE` |
//! | 8 | 4 | version of this layout |
//! | 12 | 4 | 0 |
//! | 16 | 8 | size of the data in bytes |
//! | 24 | 16 | MD5 of the data |
//! | 40 | 16 | MD5 of the [`Identity`] |

use crate::private_file;
use std::path::{Path, PathBuf};

const MAGIC: [u8; 8] = *b"LSHRPIPE";
const VERSION: u32 = 1;
const HEADER_BYTES: usize = 56;
/// Most bytes of data; a larger file is neither read nor written.
const MOST_BYTES: usize = 64 << 20;
/// `VkPipelineCacheHeaderVersionOne`: its size in bytes, which is its first field, and its version.
const DRIVER_HEADER_BYTES: u32 = 32;
const DRIVER_HEADER_VERSION: u32 = 1;

/// A device and its driver, whose pipelines are useless to any other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    /// `VkPhysicalDeviceProperties::vendorID`.
    pub(crate) vendor_id: u32,
    /// `VkPhysicalDeviceProperties::deviceID`.
    pub(crate) device_id: u32,
    /// `VkPhysicalDeviceProperties::driverVersion`.
    pub(crate) driver_version: u32,
    /// `VkPhysicalDeviceProperties::pipelineCacheUUID`.
    pub(crate) pipeline_cache_uuid: [u8; 16],
    /// `VkPhysicalDeviceDriverProperties::driverName`.
    pub(crate) driver_name: String,
}

/// The file of a device's pipelines. Any thread and any process may load and store at any time; the
/// last store wins.
pub(crate) struct CacheFile {
    /// `None` if no pipelines are kept.
    path: Option<PathBuf>,
    identity: Identity,
}

impl CacheFile {
    /// Creates a cache in this folder, which need not exist. Accesses no file.
    pub(crate) fn new(folder: Option<&Path>, identity: &Identity) -> CacheFile {
        let path = folder.map(|folder| folder.join(identity.file_name()));
        CacheFile { path, identity: identity.clone() }
    }

    /// Returns the data for `vkCreatePipelineCache`; empty without a trusted file. The reason for
    /// not using a file is logged. Blocks while it reads the file.
    pub(crate) fn load(&self) -> Vec<u8> {
        let Some(path) = &self.path else { return Vec::new() };
        match self.read(path) {
            Ok(data) => data,
            Err(why) => {
                log::debug!("pipelines of {} are not used: {why}", path.display());
                Vec::new()
            }
        }
    }

    /// Stores the data of `vkGetPipelineCacheData`, unless the file has it already. A failure is
    /// logged and leaves the file unchanged. Blocks while it reads and writes the file.
    pub(crate) fn store(&self, data: &[u8]) {
        let Some(path) = &self.path else { return };
        if let Err(why) = self.identity.check(data) {
            return log::debug!("pipelines are not kept: {why}");
        }
        if self.read(path).is_ok_and(|kept| kept == data) {
            return;
        }
        match private_file::replace(path, ".pipelines", &[&self.identity.header(data), data]) {
            Ok(()) => log::debug!("{} bytes of pipelines kept in {}", data.len(), path.display()),
            Err(error) => log::warn!("pipelines cannot be kept in {}: {error}", path.display()),
        }
    }

    /// Returns the checked data of the file.
    fn read(&self, path: &Path) -> Result<Vec<u8>, String> {
        let mut content = private_file::read(path, HEADER_BYTES + MOST_BYTES)?;
        let Some((header, data)) = content.split_first_chunk::<HEADER_BYTES>() else {
            return Err(format!("it has {} bytes, fewer than its header", content.len()));
        };
        if *header != self.identity.header(data) {
            return Err("it is damaged, or of another version, device or driver".to_owned());
        }
        self.identity.check(data)?;
        content.drain(..HEADER_BYTES);
        Ok(content)
    }
}

impl Identity {
    /// Returns the file's name, such as `10de-2330-<MD5>.pipelines`.
    fn file_name(&self) -> String {
        let digest = u128::from_be_bytes(self.digest());
        format!("{:04x}-{:04x}-{digest:032x}.pipelines", self.vendor_id, self.device_id)
    }

    fn digest(&self) -> [u8; 16] {
        let numbers = [self.vendor_id, self.device_id, self.driver_version].map(u32::to_le_bytes);
        let numbers = numbers.as_flattened();
        md5::compute([numbers, &self.pipeline_cache_uuid, self.driver_name.as_bytes()].concat()).0
    }

    /// Returns the header of a file with this data.
    fn header(&self, data: &[u8]) -> [u8; HEADER_BYTES] {
        let mut header = [0; HEADER_BYTES];
        header[..8].copy_from_slice(&MAGIC);
        header[8..12].copy_from_slice(&VERSION.to_le_bytes());
        header[16..24].copy_from_slice(&(data.len() as u64).to_le_bytes());
        header[24..40].copy_from_slice(&md5::compute(data).0);
        header[40..].copy_from_slice(&self.digest());
        header
    }

    /// Checks the header that Vulkan requires of every driver, in the machine's byte order.
    fn check(&self, data: &[u8]) -> Result<(), String> {
        if data.len() > MOST_BYTES {
            return Err(format!(
                "the data has {} bytes, expected at most {MOST_BYTES}",
                data.len()
            ));
        }
        let Some((header, _)) = data.split_first_chunk::<{ DRIVER_HEADER_BYTES as usize }>() else {
            return Err(format!("the data has {} bytes, fewer than Vulkan's header", data.len()));
        };
        let (words, uuid) = header.split_at(16);
        let words = words.as_chunks().0.iter().map(|word| u32::from_ne_bytes(*word));
        let expected = [DRIVER_HEADER_BYTES, DRIVER_HEADER_VERSION, self.vendor_id, self.device_id];
        if !words.eq(expected) || uuid != self.pipeline_cache_uuid {
            return Err("the data lacks the Vulkan header of this device and driver".to_owned());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::OpenOptions;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
    use tempfile::TempDir;

    fn identity() -> Identity {
        Identity {
            vendor_id: 0x10005,
            device_id: 7,
            driver_version: 3,
            pipeline_cache_uuid: *b"0123456789abcdef",
            driver_name: "llvmpipe".to_owned(),
        }
    }

    /// Returns cache data as from the driver of an identity.
    fn data(of: &Identity, pipelines: &[u8]) -> Vec<u8> {
        let words = [DRIVER_HEADER_BYTES, DRIVER_HEADER_VERSION, of.vendor_id, of.device_id];
        let words = words.map(u32::to_ne_bytes);
        [words.as_flattened(), &of.pipeline_cache_uuid, pipelines].concat()
    }

    /// A missing folder in an existing one.
    struct Place {
        _outer: TempDir,
        folder: PathBuf,
    }

    impl Place {
        fn new() -> Place {
            let outer = TempDir::new().unwrap();
            Place { folder: outer.path().join("a/b"), _outer: outer }
        }

        fn cache(&self, identity: &Identity) -> CacheFile {
            CacheFile::new(Some(&self.folder), identity)
        }

        /// Returns a filled cache, its data and its file.
        fn filled(&self) -> (CacheFile, Vec<u8>, PathBuf) {
            let (cache, data) = (self.cache(&identity()), data(&identity(), b"pipelines"));
            cache.store(&data);
            assert_eq!(cache.load(), data);
            let path = cache.path.clone().unwrap();
            (cache, data, path)
        }
    }

    fn mode(path: &Path) -> u32 {
        path.metadata().unwrap().mode() & 0o7777
    }

    #[test]
    fn stored_data_is_loaded_and_lies_where_only_the_user_reaches_it() {
        let place = Place::new();
        assert_eq!(place.cache(&identity()).load(), b"");
        let (_, data, path) = place.filled();
        assert_eq!(place.cache(&identity()).load(), data);
        assert_eq!((mode(&place.folder), mode(&path)), (0o700, 0o600));
        let left: Vec<_> = std::fs::read_dir(&place.folder).unwrap().collect();
        assert_eq!(left.len(), 1, "{left:?}");
    }

    #[test]
    fn without_a_folder_nothing_is_kept() {
        let cache = CacheFile::new(None, &identity());
        cache.store(&data(&identity(), b""));
        assert_eq!(cache.load(), b"");
    }

    #[test]
    fn each_device_and_driver_has_a_file_that_no_other_takes() {
        let place = Place::new();
        let (_, _, path) = place.filled();
        let own = identity();
        let others = [
            Identity { vendor_id: 1, ..own.clone() },
            Identity { device_id: 1, ..own.clone() },
            Identity { driver_version: 1, ..own.clone() },
            Identity { pipeline_cache_uuid: [0; 16], ..own.clone() },
            Identity { driver_name: "lvp".to_owned(), ..own.clone() },
        ];
        for other in others {
            let cache = place.cache(&other);
            assert_eq!(cache.load(), b"");
            let others_path = cache.path.as_ref().unwrap();
            assert_ne!(*others_path, path);
            std::fs::copy(&path, others_path).unwrap();
            assert_eq!(cache.load(), b"", "{other:?}");
        }
    }

    #[test]
    fn a_file_that_is_cut_off_longer_or_changed_by_a_bit_is_not_used() {
        let place = Place::new();
        let (cache, data, path) = place.filled();
        let whole = std::fs::read(&path).unwrap();
        assert_eq!(whole.len(), HEADER_BYTES + data.len());
        let changed = (0..whole.len() * 8).map(|bit| {
            let mut bytes = whole.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            bytes
        });
        let cut_off = (0..whole.len()).map(|end| whole[..end].to_vec());
        let longer = [[&whole[..], b"\0"].concat()];
        for bytes in changed.chain(cut_off).chain(longer) {
            std::fs::write(&path, bytes).unwrap();
            assert_eq!(cache.load(), b"");
        }
        cache.store(&data);
        assert_eq!(std::fs::read(&path).unwrap(), whole, "a damaged file is replaced");
    }

    #[test]
    fn data_without_the_drivers_own_header_is_neither_used_nor_kept() {
        let place = Place::new();
        let (cache, good, path) = place.filled();
        for bit in 0..DRIVER_HEADER_BYTES as usize * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            cache.store(&bad);
            assert_eq!(cache.load(), good);
            let header = identity().header(&bad);
            private_file::replace(&path, ".pipelines", &[&header, &bad]).unwrap();
            assert_eq!(cache.load(), b"");
            cache.store(&good);
        }
        cache.store(&good[..31]);
        cache.store(b"");
        assert_eq!(cache.load(), good);
    }

    #[test]
    fn a_file_that_other_users_could_write_is_not_used() {
        let place = Place::new();
        let (cache, data, path) = place.filled();
        for mode in [0o620, 0o602, 0o666] {
            std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
            assert_eq!(cache.load(), b"", "{mode:o}");
        }
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
        assert_eq!(cache.load(), data);
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&path, Some(12345), None).unwrap();
            assert_eq!(cache.load(), b"");
        }
    }

    #[test]
    fn links_folders_and_pipes_are_not_read() {
        let place = Place::new();
        let (cache, data, path) = place.filled();
        let elsewhere = place.folder.join("elsewhere");
        std::fs::rename(&path, &elsewhere).unwrap();
        symlink(&elsewhere, &path).unwrap();
        assert_eq!(cache.load(), b"");
        cache.store(&data);
        assert!(path.symlink_metadata().unwrap().is_file(), "the link is replaced");
        assert_eq!(cache.load(), data);
        std::fs::remove_file(&path).unwrap();
        let pipe = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, &path, pipe, 0o600.into(), 0).unwrap();
        assert_eq!(cache.load(), b"");
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        assert_eq!(cache.load(), b"");
        cache.store(&data);
    }

    #[test]
    fn data_that_is_there_already_is_not_written_again() {
        let place = Place::new();
        let (cache, data, path) = place.filled();
        let file = path.metadata().unwrap().ino();
        cache.store(&data);
        assert_eq!(path.metadata().unwrap().ino(), file);
        let more = [&data[..], b"more"].concat();
        cache.store(&more);
        assert_eq!(cache.load(), more);
    }

    #[test]
    fn more_than_the_limit_is_neither_kept_nor_read() {
        let place = Place::new();
        let (cache, good, path) = place.filled();
        let mut large = good.clone();
        large.resize(MOST_BYTES + 1, 0);
        cache.store(&large);
        assert_eq!(cache.load(), good);
        OpenOptions::new().write(true).open(&path).unwrap().set_len(1 << 40).unwrap();
        assert_eq!(cache.load(), b"");
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_no_failure() {
        let place = Place::new();
        std::fs::write(place.folder.parent().unwrap(), "a file").unwrap();
        let cache = place.cache(&identity());
        cache.store(&data(&identity(), b""));
        assert_eq!(cache.load(), b"");
    }
}

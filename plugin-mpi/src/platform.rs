//! The platform: the devices of all nodes.

use std::sync::Arc;

use longshore_executor::plugin::{Attached, IsolatedDevice, Record};
use longshore_plugin_api::{
    Connected, DeviceInfo, Error, ErrorCode, InfoValue, Platform, PlatformInfo, Result,
};

use crate::MpiBackend;
use crate::cluster::{Absence, Cluster, Node};
use crate::settings::Settings;

/// The devices of the program's nodes, in the order of the nodes' ranks.
pub struct MpiPlatform {
    /// `None` in a process that only tries the plugin.
    cluster: Option<Arc<Cluster>>,
    devices: Vec<Place>,
    session: u16,
}

/// A device on a node.
struct Place {
    node: Arc<Node>,
    plugin: Arc<Attached>,
    backend: String,
    index: u32,
}

impl MpiPlatform {
    /// Joins the nodes, unless the process has joined them.
    pub(crate) fn connect(settings: &Settings) -> Result<Connected<MpiPlatform>> {
        // MPI can be initialized in one process of a rank: the one that will use the nodes.
        let cluster = match settings.is_probe {
            true => Cluster::expected(settings).map(|()| None),
            false => Cluster::get(settings).map(Some),
        };
        let cluster = match cluster {
            Ok(Some(cluster)) => cluster,
            Ok(None) => {
                let nowhere = MpiPlatform { cluster: None, devices: Vec::new(), session: 0 };
                return Ok(Connected::Platform(nowhere));
            }
            Err(Absence::NoLibrary(why)) => return Ok(Connected::NoDriver(why)),
            Err(Absence::NoNodes(why)) => return Ok(Connected::NoDevice(why)),
            Err(Absence::Failed(why)) => {
                return Err(Error::new(ErrorCode::BackendFailure, why));
            }
        };
        let session = cluster.take_session().ok_or_else(|| {
            Error::new(ErrorCode::OutOfResources, "this process has too many hosts")
        })?;
        let shared = Some(Arc::clone(&cluster));
        let mut platform = MpiPlatform { cluster: shared, devices: Vec::new(), session };
        for node in cluster.nodes() {
            for (number, plugin) in node.hello.plugins.iter().enumerate() {
                let attached = platform.attach(&cluster, node, number, &plugin.backend)?;
                platform.devices.extend(plugin.devices.iter().map(|index| Place {
                    node: Arc::clone(node),
                    plugin: Arc::clone(&attached),
                    backend: plugin.backend.clone(),
                    index: *index,
                }));
            }
        }
        if platform.devices.is_empty() {
            let nodes = cluster.nodes().iter();
            let why: Vec<_> =
                nodes.map(|node| format!("{}: {}", node.name(), node.hello.absence)).collect();
            return Ok(Connected::NoDevice(format!("no node has a device: {}", why.join("; "))));
        }
        Ok(Connected::Platform(platform))
    }

    /// Attaches to a plugin of a node.
    fn attach(
        &self,
        cluster: &Arc<Cluster>,
        node: &Arc<Node>,
        number: usize,
        backend: &str,
    ) -> Result<Arc<Attached>> {
        let rank = node.rank;
        let process = format!("{}, which serves the plugin '{backend}', is lost", node.name());
        let name = node.name();
        let log = move |record: Record<'_>| log_record(&name, record);
        let plugin = u16::try_from(number).unwrap_or(u16::MAX);
        let attached = Attached::new(backend, process, log, |handler| {
            cluster.attach(rank, self.session, plugin, handler)
        })?;
        let attached = Arc::new(attached);
        cluster.note_last_words(rank, &attached);
        Ok(attached)
    }

    fn place(&self, index: u32) -> Result<&Place> {
        self.devices.get(index as usize).ok_or_else(|| {
            let message = format!("device {index} of {}", self.devices.len());
            Error::new(ErrorCode::InvalidDevice, message)
        })
    }
}

impl Drop for MpiPlatform {
    fn drop(&mut self) {
        self.devices.clear();
        if let Some(cluster) = &self.cluster {
            cluster.give_back_session(self.session);
        }
    }
}

/// Passes a record of a node on to the program's logger.
pub(crate) fn log_record(node: &str, record: Record<'_>) {
    let level = longshore_plugin_api::log_level(record.level).unwrap_or(log::Level::Trace);
    log::log!(target: record.target, level, "{node}: {}", record.message);
}

impl Platform<MpiBackend> for MpiPlatform {
    fn info(&self, query: PlatformInfo) -> Result<String> {
        Ok(match query {
            PlatformInfo::Name => "MPI".to_owned(),
            PlatformInfo::VendorName => "Longshore".to_owned(),
            PlatformInfo::Version => {
                self.cluster.as_ref().map(|cluster| cluster.library_version()).unwrap_or_default()
            }
            query => return Err(query.unanswered_by("MPI")),
        })
    }

    fn device_count(&self) -> u32 {
        self.devices.len() as u32
    }

    fn device_info(&self, index: u32, query: DeviceInfo) -> Result<InfoValue> {
        let place = self.place(index)?;
        let value = place.plugin.device_info(place.index, query)?;
        Ok(match (query, value) {
            (DeviceInfo::Name | DeviceInfo::ProductName, InfoValue::Text(name)) => {
                InfoValue::Text(format!("{} on {}", name, place.node.hello.host))
            }
            (DeviceInfo::Properties, InfoValue::Text(lines)) => {
                let (node, rank) = (&place.node.hello.host, place.node.rank);
                let (backend, index) = (&place.backend, place.index);
                let behind = format!("node={node}\nrank={rank}\ndevice={backend}:{index}");
                let lines = format!("{behind}\n{lines}");
                InfoValue::Text(lines.trim_end().to_owned())
            }
            (DeviceInfo::Uid, InfoValue::Text(id)) => {
                InfoValue::Text(format!("node-{}-{id}", place.node.rank))
            }
            // The program has not the node's memory.
            (DeviceInfo::HostAccess | DeviceInfo::UnifiedMemory, _) => InfoValue::Bool(false),
            (_, value) => value,
        })
    }

    fn open(&self, index: u32) -> Result<IsolatedDevice> {
        let place = self.place(index)?;
        place.plugin.open(place.index).map_err(|error| error.context(place.node.name()))
    }
}

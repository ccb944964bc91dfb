//! Owners of cgroups. Each owner is written once per segment, with a number that rows refer to.

use std::collections::HashMap;
use std::sync::Arc;

use noctule_model::{CgroupId, Container, ContainerRole, Owner, Pod, Runtime};

use crate::column::{Word, record};

/// Number of an owner in its segment; `None` if the owner is unknown.
pub(crate) type OwnerNumber = Option<u32>;

/// Returns the runtime with that name, or `Oci` if this version does not know the name.
fn runtime(name: &str) -> Runtime {
    Runtime::named(name).unwrap_or(Runtime::Oci)
}

record! {
    pub(crate) struct OwnerRecord {
        owner: u32,
        cgroup: u64,
        path: String,
        container_id: Option<String>,
        container_name: Option<String>,
        container_image: Option<String>,
        container_runtime: Option<Word>,
        container_role: Option<Word>,
        /// Ids of the enclosing containers, outermost first, separated by spaces.
        container_chain: Option<String>,
        pod_uid: Option<String>,
        pod_name: Option<String>,
        pod_namespace: Option<String>,
        pod_qos: Option<Word>,
        unit: Option<String>,
    }
}

impl OwnerRecord {
    fn new(number: u32, owner: &Owner) -> Self {
        let Owner {
            cgroup,
            path,
            container,
            pod,
            unit,
        } = owner;
        let mut record = Self {
            owner: number,
            cgroup: cgroup.0,
            path: path.clone(),
            unit: unit.clone(),
            ..Self::default()
        };
        if let Some(Container {
            id,
            runtime,
            role,
            name,
            image,
            chain,
        }) = container
        {
            record.container_id = Some(id.clone());
            record.container_name.clone_from(name);
            record.container_image.clone_from(image);
            record.container_runtime = Some(Word(runtime.name()));
            record.container_role = Some(Word(role.name()));
            record.container_chain = (!chain.is_empty()).then(|| chain.join(" "));
        }
        if let Some(Pod {
            uid,
            qos,
            name,
            namespace,
        }) = pod
        {
            record.pod_uid = Some(uid.clone());
            record.pod_name.clone_from(name);
            record.pod_namespace.clone_from(namespace);
            record.pod_qos = Some(Word(qos));
        }
        record
    }

    fn owner(self) -> Owner {
        let container = self.container_id.map(|id| Container {
            id,
            runtime: runtime(self.container_runtime.unwrap_or_default().0),
            role: ContainerRole::named(self.container_role.unwrap_or_default().0)
                .unwrap_or_default(),
            name: self.container_name,
            image: self.container_image,
            chain: self
                .container_chain
                .map(|chain| chain.split(' ').map(str::to_owned).collect())
                .unwrap_or_default(),
        });
        let pod = self.pod_uid.map(|uid| Pod {
            uid,
            qos: self.pod_qos.unwrap_or_default().0,
            name: self.pod_name,
            namespace: self.pod_namespace,
        });
        Owner {
            cgroup: CgroupId(self.cgroup),
            path: self.path,
            container,
            pod,
            unit: self.unit,
        }
    }
}

/// The owners of a segment. A writer maps owners to numbers, a reader numbers to owners.
#[derive(Debug, Default)]
pub(crate) struct Owners {
    numbers: HashMap<CgroupId, Vec<(Arc<Owner>, u32)>>,
    known: HashMap<u32, Arc<Owner>>,
    next: u32,
    pending: Vec<OwnerRecord>,
}

impl Owners {
    /// Returns the number of an owner. A new owner is written with the next rows.
    pub(crate) fn number(&mut self, owner: Option<&Arc<Owner>>) -> OwnerNumber {
        let owner = owner?;
        let same = self.numbers.entry(owner.cgroup).or_default();
        let is_known =
            |(known, _): &&(Arc<Owner>, u32)| Arc::ptr_eq(known, owner) || known == owner;
        if let Some((_, number)) = same.iter().find(is_known) {
            return Some(*number);
        }
        let number = self.next;
        self.next += 1;
        same.push((owner.clone(), number));
        self.pending.push(OwnerRecord::new(number, owner));
        Some(number)
    }

    /// Drops all owners. Numbering continues, so that no number is used twice.
    pub(crate) fn restart(&mut self) {
        *self = Self {
            next: self.next,
            ..Self::default()
        };
    }

    /// Removes and returns the owners that are not written yet.
    pub(crate) fn take(&mut self) -> Vec<OwnerRecord> {
        std::mem::take(&mut self.pending)
    }

    /// Adds an owner that was read.
    pub(crate) fn learn(&mut self, record: OwnerRecord) {
        self.known.insert(record.owner, Arc::new(record.owner()));
    }

    /// Moves all owners that another set has read into this set.
    pub(crate) fn add(&mut self, other: &mut Self) {
        self.known.extend(other.known.drain());
    }

    pub(crate) fn owner(&self, number: OwnerNumber) -> Option<Arc<Owner>> {
        self.known.get(&number?).cloned()
    }
}

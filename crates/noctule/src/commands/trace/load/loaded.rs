//! Objects in the kernel: those loaded by libbpf, and plain instructions with their maps.

use noctule_kernel::{
    Attachment, BareKind, BareMap, BareObject, BareProgram, ClassicInsn, ForeignObject,
    ForeignProgram, LoadedObject, MapContents, ObjectError, Places, Target,
};
use noctule_trace::elf::LegacyObject;

use super::jobs::Job;

/// Programs that were parsed, but not loaded yet.
pub(super) enum Object {
    /// A libbpf object, and the names of the programs that other programs tail-call.
    Libbpf(Box<ForeignObject>, Vec<String>),
    Bare(Vec<BareMap>, Vec<(ForeignProgram, BareProgram)>),
    /// A classic socket filter, which the kernel checks when it is attached.
    Classic(ForeignProgram, Vec<ClassicInsn>),
}

impl Object {
    /// Converts an object in the format that libbpf versions before 1.0 used.
    pub(super) fn of_legacy(read: &LegacyObject) -> Self {
        let map = |map: &noctule_trace::elf::LegacyMap| BareMap {
            name: map.name.clone(),
            kind: map.kind,
            key_size: map.key_size,
            value_size: map.value_size,
            entries: map.entries,
            flags: map.flags,
        };
        let program = |program: &noctule_trace::elf::LegacyProgram| {
            let kind = BareKind::of_section(&program.section);
            let shown = ForeignProgram {
                name: program.name.clone(),
                section: program.section.clone(),
                typed: kind.is_some(),
                instructions: program.insns.len(),
            };
            let bare = BareProgram {
                name: program.name.clone(),
                kind: kind.unwrap_or_default(),
                license: read.license.clone(),
                kernel_version: read.version,
                insns: program.insns.clone(),
                loads: program.loads.clone(),
            };
            (shown, bare)
        };
        Self::Bare(
            read.maps.iter().map(map).collect(),
            read.programs.iter().map(program).collect(),
        )
    }

    pub(super) fn programs(&self) -> Vec<ForeignProgram> {
        match self {
            Self::Libbpf(object, _) => object.programs(),
            Self::Bare(_, programs) => programs.iter().map(|(shown, _)| shown.clone()).collect(),
            Self::Classic(shown, _) => vec![shown.clone()],
        }
    }

    /// Returns the names of the programs that the object stores in its maps at load, so that other
    /// programs can tail-call them.
    pub(super) fn tail_calls(&self) -> &[String] {
        match self {
            Self::Libbpf(_, tail_calls) => tail_calls,
            Self::Bare(..) | Self::Classic(..) => &[],
        }
    }

    /// Loads the programs of these jobs, and the programs that they can tail-call.
    pub(super) fn load(self, jobs: &[Job]) -> Result<Loaded, ObjectError> {
        let mut wanted: Vec<_> = jobs.iter().map(|job| job.program.name.clone()).collect();
        match self {
            Self::Libbpf(mut object, tail_calls) => {
                wanted.extend(tail_calls);
                object.keep(&wanted);
                for job in jobs {
                    if let Some(function) = &job.function {
                        object.retarget(&job.program.name, function)?;
                    }
                }
                object.load().map(Loaded::Libbpf)
            }
            Self::Bare(maps, programs) => {
                let programs = programs.into_iter().map(|(_, program)| program);
                let kept = |program: &BareProgram| wanted.contains(&program.name);
                let programs: Vec<_> = programs.filter(kept).collect();
                BareObject::load(&maps, &programs).map(Loaded::Bare)
            }
            Self::Classic(_, filter) => {
                Attachment::of_filter(&filter, None)?;
                Ok(Loaded::Classic(filter))
            }
        }
    }
}

/// Programs that were loaded into the kernel.
pub(super) enum Loaded {
    Libbpf(LoadedObject),
    Bare(BareObject),
    Classic(Vec<ClassicInsn>),
}

impl Loaded {
    pub(super) fn attach(
        &self,
        name: &str,
        target: &Target,
        places: &Places,
    ) -> Result<Attachment, ObjectError> {
        match self {
            Self::Libbpf(object) => object.attach(name, target, places),
            Self::Bare(object) => object.attach(name, target, places),
            Self::Classic(filter) => {
                Ok(Attachment::of_filter(filter, places.interface.as_deref())?)
            }
        }
    }

    /// Registers the function tables (struct_ops) that the object declares.
    pub(super) fn register_tables(&mut self) -> Result<Vec<(String, Attachment)>, ObjectError> {
        match self {
            Self::Libbpf(object) => object.register_tables(),
            Self::Bare(_) | Self::Classic(_) => Ok(Vec::new()),
        }
    }

    pub(super) fn maps(&self) -> Vec<MapContents> {
        match self {
            Self::Libbpf(object) => object.maps(),
            Self::Bare(object) => object.maps(),
            Self::Classic(_) => Vec::new(),
        }
    }
}

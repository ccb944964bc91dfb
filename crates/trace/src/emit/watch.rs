//! The instructions of a [`Watch`].
//!
//! R6, R7, R8 and R9 are used as everywhere; R9 points to the memory of the CPU from the begin to the
//! end. In that memory lies first the text of conditions, and then what is sent: the head,
//! a stack if one is wanted, and the record, which always lies at the same place.

use super::number::in_record;
use super::{EmitError, Emitter, LARGEST_VALUE, MapUse, Place, frame, text_memory};
use crate::asm::{Alu, Assembler, Code, Helper, Jump, Label, Reg, Width};
use crate::probe::Probe;
use crate::watch::{Action, FRAMES, HEAD, LONGEST_RECORD, STACK_ROOM, Shape, Trigger, Watch};

/// Maps that all programs of a command share, with numbers beside those of [`MapUse`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WatchMap {
    /// The ring to user space.
    Ring = 16,
    /// One entry per CPU: what found no room in the ring.
    Lost = 17,
    /// A word for each switch: 0 is off.
    Switches = 18,
    /// A token for how each switch stands (`token`): who takes it out may change the switch.
    Tokens = 19,
    /// What is left of the count of each trigger.
    Counts = 20,
}

/// How many numbers of maps there are.
pub const MAPS: usize = 21;

/// A program that is complete but for its maps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EmittedWatch {
    /// The instructions.
    pub code: Code,
    /// Bytes of the memory of a CPU.
    pub memory_size: usize,
    /// The patterns of the filters, in the order of their entries.
    pub globs: Vec<[u64; 256]>,
}

/// `BPF_RB_AVAIL_DATA`: bytes that were not read yet.
const AVAILABLE: i32 = 0;
/// `BPF_RB_NO_WAKEUP`.
const NO_WAKEUP: i32 = 1;
/// `BPF_RB_FORCE_WAKEUP`.
const FORCE_WAKEUP: i32 = 2;

/// The number of the token that is there while a switch stands so.
pub(crate) const fn token(switch: u32, on: bool) -> u32 {
    2 * switch + on as u32
}

/// Makes the instructions of what happens at event number `event` of a command. The reader is woken
/// when the ring has `wake_at` bytes.
///
/// # Errors
///
/// See [`EmitError`].
pub fn watch(
    watch: &Watch,
    event: u16,
    wake_at: u32,
    has_task_stack: bool,
) -> Result<EmittedWatch, EmitError> {
    let filters = watch.triggers.iter().map(|trigger| &trigger.filter);
    let shown = watch.shown.iter().map(|shown| &shown.filter);
    let conditions = filters.chain(shown).flatten();
    let text = conditions.map(text_memory).max().unwrap_or(0);
    let record = text + STACK_ROOM + HEAD;
    let memory_size = record + LONGEST_RECORD as usize;
    if memory_size > LARGEST_VALUE {
        return Err(EmitError::TooLarge);
    }
    let mut watcher = Watcher {
        emitter: Emitter::new(Probe::Tracepoint, 0),
        shape: &watch.shape,
        record,
        event,
        wake_at: i32::try_from(wake_at).unwrap_or(i32::MAX),
        has_task_stack,
    };
    watcher.program(watch)?;
    Ok(EmittedWatch {
        code: watcher.emitter.asm.finish()?,
        memory_size,
        globs: watcher.emitter.globs,
    })
}

struct Watcher<'a> {
    emitter: Emitter,
    shape: &'a Shape,
    /// Where the record lies in the memory.
    record: usize,
    event: u16,
    wake_at: i32,
    has_task_stack: bool,
}

impl Watcher<'_> {
    fn asm(&mut self) -> &mut Assembler {
        &mut self.emitter.asm
    }

    fn program(&mut self, watch: &Watch) -> Result<(), EmitError> {
        let end = self.asm().label();
        self.emitter.record(None, end);
        self.emitter.lookup_first(MapUse::Memory);
        self.emitter.unless_found(end);
        self.asm().mov(Reg::R9, Reg::R0);
        let (after, before): (Vec<_>, Vec<_>) = watch
            .triggers
            .iter()
            .partition(|trigger| trigger.action.is_after());
        for trigger in before {
            self.trigger(trigger)?;
        }
        if let Some(shown) = &watch.shown {
            let hidden = self.asm().label();
            for &switch in &shown.switches {
                self.gate(switch, hidden);
            }
            if let Some(filter) = &shown.filter {
                self.emitter.branch(filter, false, hidden)?;
            }
            self.asm().at(None);
            self.send(0, false)?;
            self.asm().bind(hidden);
        }
        for trigger in after {
            self.trigger(trigger)?;
        }
        self.asm().bind(end);
        self.asm().mov(Reg::R0, 0);
        self.asm().exit();
        Ok(())
    }

    /// R0: the entry of this number; without one it goes on at the label.
    fn entry(&mut self, map: WatchMap, number: u32, otherwise: Label) {
        let index = Place::stack(frame::INDEX);
        let number = number.cast_signed();
        self.asm()
            .store(Width::B4, index.base, index.offset, number);
        self.asm().map(Reg::R1, map as u32);
        self.emitter.address(Reg::R2, index);
        self.asm().call(Helper::MapLookup);
        self.emitter.unless_found(otherwise);
    }

    /// Goes on if the switch is on, else at the label.
    fn gate(&mut self, switch: u32, otherwise: Label) {
        self.entry(WatchMap::Switches, switch, otherwise);
        self.asm().load(Width::B8, Reg::R1, Reg::R0, 0);
        self.asm().jump(Jump::Eq, Reg::R1, 0, otherwise);
    }

    fn trigger(&mut self, trigger: &Trigger) -> Result<(), EmitError> {
        let done = self.asm().label();
        if let Some(filter) = &trigger.filter {
            self.emitter.branch(filter, false, done)?;
        }
        self.asm().at(None);
        match trigger.action {
            Action::Switch { switch, on, .. } => self.switch(trigger, switch, on, done)?,
            Action::Stack { .. } | Action::Mark => {
                if trigger.counted {
                    // On several CPUs at once it can be used more often; user space cuts that off.
                    self.entry(WatchMap::Counts, trigger.number.into(), done);
                    self.asm().mov(Reg::R8, Reg::R0);
                    self.asm().load(Width::B8, Reg::R1, Reg::R8, 0);
                    self.asm().jump(Jump::Eq, Reg::R1, 0, done);
                    self.asm().alu(Alu::Sub, Reg::R1, 1);
                    self.asm().store(Width::B8, Reg::R8, 0, Reg::R1);
                }
                if let Action::Stack {
                    switch: Some(switch),
                } = trigger.action
                {
                    self.gate(switch, done);
                }
                let stack = matches!(trigger.action, Action::Stack { .. });
                self.send(1 + trigger.number, stack)?;
            }
        }
        self.asm().bind(done);
        Ok(())
    }

    /// Changes a switch if it stands otherwise, and uses the count up by one then. Of several CPUs that
    /// want to, the one does it that takes the token of how the switch stands ([`WatchMap::Tokens`]), which
    /// is possible without atomic instructions that older kernels lack. That of how it stands then it puts
    /// there when the word of the switch has changed: up to then nobody else changes anything, so the count is
    /// exact, also for a CPU that looked at it long ago. What wants to change it back between these two
    /// steps finds no token, and does nothing.
    fn switch(
        &mut self,
        trigger: &Trigger,
        switch: u32,
        on: bool,
        done: Label,
    ) -> Result<(), EmitError> {
        let wanted = i32::from(on);
        self.entry(WatchMap::Switches, switch, done);
        self.asm().mov(Reg::R7, Reg::R0);
        self.asm().load(Width::B8, Reg::R1, Reg::R7, 0);
        self.asm().jump(Jump::Eq, Reg::R1, wanted, done);
        if trigger.counted {
            self.entry(WatchMap::Counts, trigger.number.into(), done);
            self.asm().mov(Reg::R8, Reg::R0);
            self.asm().load(Width::B8, Reg::R1, Reg::R8, 0);
            self.asm().jump(Jump::Eq, Reg::R1, 0, done);
        }
        let (before, after) = (token(switch, !on), token(switch, on));
        self.token(before);
        self.asm().call(Helper::MapDelete);
        self.asm().jump(Jump::Ne, Reg::R0, 0, done);
        if trigger.counted {
            let left = self.asm().label();
            self.asm().load(Width::B8, Reg::R1, Reg::R8, 0);
            self.asm().jump(Jump::Ne, Reg::R1, 0, left);
            self.put(before);
            self.emitter.always(done);
            self.asm().bind(left);
            self.emitter.add(Reg::R8, 0, -1);
        }
        // The time that is sent lies before the first event that is shown again, and behind the last.
        let cell = Place::stack(frame::CELL);
        if on {
            self.asm().store(Width::B8, cell.base, cell.offset, Reg::R7);
            self.send(1 + trigger.number, false)?;
            self.asm().load(Width::B8, Reg::R7, cell.base, cell.offset);
            self.asm().store(Width::B8, Reg::R7, 0, 1);
            self.put(after);
        } else {
            self.asm().store(Width::B8, Reg::R7, 0, 0);
            self.put(after);
            self.send(1 + trigger.number, false)?;
        }
        Ok(())
    }

    /// The first two arguments for a token.
    fn token(&mut self, token: u32) {
        let index = Place::stack(frame::INDEX);
        let number = token.cast_signed();
        self.asm()
            .store(Width::B4, index.base, index.offset, number);
        self.asm().map(Reg::R1, WatchMap::Tokens as u32);
        self.emitter.address(Reg::R2, index);
    }

    /// Puts a token there, whose value says nothing: the number is as long as it.
    fn put(&mut self, token: u32) {
        self.token(token);
        self.asm().mov(Reg::R3, Reg::R2);
        self.asm().mov(Reg::R4, 0);
        self.asm().call(Helper::MapUpdate);
    }

    /// Sends the record, with what it is for, and with a stack in front if wanted. R7 and R8 are lost.
    fn send(&mut self, what: u16, stack: bool) -> Result<(), EmitError> {
        let sent = self.asm().label();
        let record = Place::memory(self.record)?;
        let room = if stack { STACK_ROOM } else { 0 };
        let head = Place::memory(self.record - HEAD - room)?;
        self.head(head, what, sent)?;
        self.length()?;
        let at = head.plus(56)?;
        self.asm().store(Width::B4, at.base, at.offset, Reg::R7);
        let frames = head.plus(60)?;
        if stack {
            self.emitter.context_of_program(Reg::R1);
            self.emitter.address(Reg::R2, head.plus(HEAD)?);
            self.asm().mov(Reg::R3, 8 * FRAMES);
            self.asm().mov(Reg::R4, 0);
            self.asm().call(Helper::GetStack);
            let known = self.asm().label();
            self.asm().jump(Jump::Sgt, Reg::R0, 0, known);
            if self.has_task_stack {
                self.asm().call(Helper::CurrentTaskBtf);
                self.asm().mov(Reg::R1, Reg::R0);
                self.emitter.address(Reg::R2, head.plus(HEAD)?);
                self.asm().mov(Reg::R3, 8 * FRAMES);
                self.asm().mov(Reg::R4, 0);
                self.asm().call(Helper::GetTaskStack);
                self.asm().jump(Jump::Sge, Reg::R0, 0, known);
            }
            self.asm().mov(Reg::R0, 0);
            self.asm().bind(known);
            self.asm()
                .store(Width::B4, frames.base, frames.offset, Reg::R0);
        } else {
            self.asm().store(Width::B4, frames.base, frames.offset, 0);
        }
        // The first eight bytes of the context are the kernel's own.
        self.emitter.address(Reg::R1, record.plus(8)?);
        self.asm().mov(Reg::R2, Reg::R7);
        self.asm().alu(Alu::Sub, Reg::R2, 8);
        self.asm().mov(Reg::R3, Reg::R6);
        self.asm().alu(Alu::Add, Reg::R3, 8);
        self.asm().call(Helper::ProbeReadKernel);
        self.output(head, HEAD + room, sent);
        Ok(())
    }

    /// Writes what is known of every event.
    fn head(&mut self, head: Place, what: u16, end: Label) -> Result<(), EmitError> {
        let word = |offset| head.plus(offset);
        for (helper, offset) in [
            (Helper::KtimeGetNs, 0),
            (Helper::CurrentPidTgid, 8),
            (Helper::CurrentCgroupId, 32),
        ] {
            let at = word(offset)?;
            self.asm().call(helper);
            self.asm().store(Width::B8, at.base, at.offset, Reg::R0);
        }
        let (cpu, id) = (word(16)?, word(20)?);
        self.asm().call(Helper::SmpProcessorId);
        self.asm().store(Width::B4, cpu.base, cpu.offset, Reg::R0);
        let id_there = (u32::from(what) << 16 | u32::from(self.event)).cast_signed();
        self.asm().store(Width::B4, id.base, id.offset, id_there);
        self.entry(WatchMap::Lost, 0, end);
        let lost = word(24)?;
        self.asm().load(Width::B8, Reg::R1, Reg::R0, 0);
        self.asm().store(Width::B8, lost.base, lost.offset, Reg::R1);
        self.emitter.address(Reg::R1, word(40)?);
        self.asm().mov(Reg::R2, 16);
        self.asm().call(Helper::CurrentComm);
        Ok(())
    }

    /// R7: bytes of the record: up to the end of the dynamic field that ends last.
    fn length(&mut self) -> Result<(), EmitError> {
        let longest = LONGEST_RECORD.cast_signed();
        let fixed = self.shape.fixed.clamp(8, LONGEST_RECORD).cast_signed();
        self.asm().mov(Reg::R7, fixed);
        if self.shape.dynamic.is_empty() {
            return Ok(());
        }
        for &(word, relative) in &self.shape.dynamic {
            let shorter = self.asm().label();
            in_record(word, 4)?;
            self.emitter.word(word, Reg::R1)?;
            let base = if relative { word.cast_signed() + 4 } else { 0 };
            self.asm().mov(Reg::R2, Reg::R1);
            self.asm().alu(Alu::Rsh, Reg::R2, 16);
            self.asm().alu(Alu::And, Reg::R1, 0xffff);
            self.asm().alu(Alu::Add, Reg::R1, base);
            self.asm().alu(Alu::Add, Reg::R1, Reg::R2);
            self.asm().jump(Jump::Le, Reg::R1, Reg::R7, shorter);
            self.asm().mov(Reg::R7, Reg::R1);
            self.asm().bind(shorter);
        }
        // The verifier has to see both.
        for (jump, limit) in [(Jump::Le, longest), (Jump::Ge, fixed)] {
            let within = self.asm().label();
            self.asm().jump(jump, Reg::R7, limit, within);
            self.asm().mov(Reg::R7, limit);
            self.asm().bind(within);
        }
        Ok(())
    }

    /// Puts what lies at `start` into the ring, `before` bytes more than R7, or counts it as lost.
    fn output(&mut self, start: Place, before: usize, sent: Label) {
        let before = i32::try_from(before).unwrap_or(i32::MAX);
        let quiet = self.asm().label();
        self.asm().map(Reg::R1, WatchMap::Ring as u32);
        self.asm().mov(Reg::R2, AVAILABLE);
        self.asm().call(Helper::RingbufQuery);
        let wake_at = self.wake_at;
        self.asm().mov(Reg::R4, NO_WAKEUP);
        self.asm().jump(Jump::Lt, Reg::R0, wake_at, quiet);
        self.asm().mov(Reg::R4, FORCE_WAKEUP);
        self.asm().bind(quiet);
        self.asm().map(Reg::R1, WatchMap::Ring as u32);
        self.emitter.address(Reg::R2, start);
        self.asm().mov(Reg::R3, Reg::R7);
        self.asm().alu(Alu::Add, Reg::R3, before);
        self.asm().call(Helper::RingbufOutput);
        self.asm().jump(Jump::Eq, Reg::R0, 0, sent);
        self.entry(WatchMap::Lost, 0, sent);
        self.emitter.add(Reg::R0, 0, 1);
        self.asm().bind(sent);
    }
}

//! Compiles a [`Watch`].
//!
//! Registers are used as in the parent module; R9 always points to the scratch memory of the CPU.
//! The scratch memory holds the text of conditions, then the message to send: a head, an optional
//! stack and the record. The record is always at the same offset.

use super::number::in_record;
use super::{EmitError, Emitter, MAX_VALUE_SIZE, MapUse, Place, frame, text_memory};
use crate::asm::{Alu, Assembler, Code, Helper, Jump, Label, Reg, Width};
use crate::probe::Probe;
use crate::watch::{Action, FRAMES, HEAD, LONGEST_RECORD, STACK_ROOM, Shape, Trigger, Watch};

/// Maps that all programs of a command share. The numbers of these maps follow the numbers of
/// [`MapUse`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WatchMap {
    /// The ring buffer to user space.
    Ring = 16,
    /// One entry per CPU: the number of messages that were lost because the ring was full.
    Lost = 17,
    /// One word per switch: 0 is off.
    Switches = 18,
    /// Two tokens per switch (`token`). Only the token for the current state exists. The CPU that
    /// removes it may change the switch.
    Tokens = 19,
    /// Remaining count of each trigger.
    Counts = 20,
}

/// Number of map numbers in use.
pub const MAPS: usize = 21;

/// A program that is complete except for its maps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EmittedWatch {
    pub code: Code,
    /// Size of the scratch memory per CPU in bytes.
    pub memory_size: usize,
    /// The glob patterns of the filters, in the order of their map entries.
    pub globs: Vec<[u64; 256]>,
}

/// `BPF_RB_AVAIL_DATA`: the number of unread bytes.
const AVAILABLE: i32 = 0;
/// `BPF_RB_NO_WAKEUP`.
const NO_WAKEUP: i32 = 1;
/// `BPF_RB_FORCE_WAKEUP`.
const FORCE_WAKEUP: i32 = 2;

/// Returns the number of the token that exists while the switch has this state.
pub(crate) const fn token(switch: u32, on: bool) -> u32 {
    2 * switch + on as u32
}

/// Compiles the program for event number `event` of a command. The program wakes the reader when
/// the ring buffer holds `wake_at` bytes.
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
    if memory_size > MAX_VALUE_SIZE {
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
    /// Offset of the record in the scratch memory.
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
            self.asm().set_origin(None);
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

    /// Leaves the address of the entry with this number in R0. If there is no such entry, jumps to
    /// `otherwise`.
    fn lookup_entry(&mut self, map: WatchMap, number: u32, otherwise: Label) {
        let index = Place::stack(frame::INDEX);
        let number = number.cast_signed();
        self.asm()
            .store(Width::B4, index.base, index.offset, number);
        self.asm().map(Reg::R1, map as u32);
        self.emitter.address(Reg::R2, index);
        self.asm().call(Helper::MapLookup);
        self.emitter.unless_found(otherwise);
    }

    /// Continues if the switch is on; otherwise jumps to `otherwise`.
    fn gate(&mut self, switch: u32, otherwise: Label) {
        self.lookup_entry(WatchMap::Switches, switch, otherwise);
        self.asm().load(Width::B8, Reg::R1, Reg::R0, 0);
        self.asm().jump(Jump::Eq, Reg::R1, 0, otherwise);
    }

    fn trigger(&mut self, trigger: &Trigger) -> Result<(), EmitError> {
        let done = self.asm().label();
        if let Some(filter) = &trigger.filter {
            self.emitter.branch(filter, false, done)?;
        }
        self.asm().set_origin(None);
        match trigger.action {
            Action::Switch { switch, on, .. } => self.switch(trigger, switch, on, done)?,
            Action::Stack { .. } | Action::Mark => {
                if trigger.counted {
                    // If several CPUs execute this at the same time, too many messages are sent;
                    // user space discards the excess.
                    self.lookup_entry(WatchMap::Counts, trigger.number.into(), done);
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

    /// Sets a switch to `on`. If this changes the switch, decrements the trigger's count.
    ///
    /// Removing the token of the old state ([`WatchMap::Tokens`]) acts as a lock: only one CPU can
    /// remove it. An ordinary lock would need atomic instructions that older kernels lack. The CPU
    /// adds the token of the new state only after it has changed the switch. Until then no other
    /// CPU can change the switch or the count, so the count is exact. A CPU that tries to switch
    /// back in the meantime finds no token and does nothing.
    fn switch(
        &mut self,
        trigger: &Trigger,
        switch: u32,
        on: bool,
        done: Label,
    ) -> Result<(), EmitError> {
        let wanted = i32::from(on);
        self.lookup_entry(WatchMap::Switches, switch, done);
        self.asm().mov(Reg::R7, Reg::R0);
        self.asm().load(Width::B8, Reg::R1, Reg::R7, 0);
        self.asm().jump(Jump::Eq, Reg::R1, wanted, done);
        if trigger.counted {
            self.lookup_entry(WatchMap::Counts, trigger.number.into(), done);
            self.asm().mov(Reg::R8, Reg::R0);
            self.asm().load(Width::B8, Reg::R1, Reg::R8, 0);
            self.asm().jump(Jump::Eq, Reg::R1, 0, done);
        }
        let (before, after) = (token(switch, !on), token(switch, on));
        self.token_args(before);
        self.asm().call(Helper::MapDelete);
        self.asm().jump(Jump::Ne, Reg::R0, 0, done);
        if trigger.counted {
            let left = self.asm().label();
            self.asm().load(Width::B8, Reg::R1, Reg::R8, 0);
            self.asm().jump(Jump::Ne, Reg::R1, 0, left);
            self.add_token(before);
            self.emitter.always(done);
            self.asm().bind(left);
            self.emitter.add(Reg::R8, 0, -1);
        }
        // When switching on, the message precedes the first shown event; when switching off, it
        // follows the last one.
        let cell = Place::stack(frame::CELL);
        if on {
            self.asm().store(Width::B8, cell.base, cell.offset, Reg::R7);
            self.send(1 + trigger.number, false)?;
            self.asm().load(Width::B8, Reg::R7, cell.base, cell.offset);
            self.asm().store(Width::B8, Reg::R7, 0, 1);
            self.add_token(after);
        } else {
            self.asm().store(Width::B8, Reg::R7, 0, 0);
            self.add_token(after);
            self.send(1 + trigger.number, false)?;
        }
        Ok(())
    }

    /// Loads the map and the key of a token as the first two arguments.
    fn token_args(&mut self, token: u32) {
        let index = Place::stack(frame::INDEX);
        let number = token.cast_signed();
        self.asm()
            .store(Width::B4, index.base, index.offset, number);
        self.asm().map(Reg::R1, WatchMap::Tokens as u32);
        self.emitter.address(Reg::R2, index);
    }

    /// Adds a token. The value of a token has no meaning; the key serves as the value because both
    /// have the same size.
    fn add_token(&mut self, token: u32) {
        self.token_args(token);
        self.asm().mov(Reg::R3, Reg::R2);
        self.asm().mov(Reg::R4, 0);
        self.asm().call(Helper::MapUpdate);
    }

    /// Sends the record with its purpose `what`, optionally preceded by a stack. Clobbers R7 and
    /// R8.
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
            self.emitter.load_context(Reg::R1);
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
        // Programs cannot read the first eight bytes of the context.
        self.emitter.address(Reg::R1, record.plus(8)?);
        self.asm().mov(Reg::R2, Reg::R7);
        self.asm().alu(Alu::Sub, Reg::R2, 8);
        self.asm().mov(Reg::R3, Reg::R6);
        self.asm().alu(Alu::Add, Reg::R3, 8);
        self.asm().call(Helper::ProbeReadKernel);
        self.output(head, HEAD + room, sent);
        Ok(())
    }

    /// Writes the head, which messages of all events have.
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
        self.lookup_entry(WatchMap::Lost, 0, end);
        let lost = word(24)?;
        self.asm().load(Width::B8, Reg::R1, Reg::R0, 0);
        self.asm().store(Width::B8, lost.base, lost.offset, Reg::R1);
        self.emitter.address(Reg::R1, word(40)?);
        self.asm().mov(Reg::R2, 16);
        self.asm().call(Helper::CurrentComm);
        Ok(())
    }

    /// Leaves the length of the record in R7: the end of its last dynamic field.
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
        // The verifier needs both checks.
        for (jump, limit) in [(Jump::Le, longest), (Jump::Ge, fixed)] {
            let within = self.asm().label();
            self.asm().jump(jump, Reg::R7, limit, within);
            self.asm().mov(Reg::R7, limit);
            self.asm().bind(within);
        }
        Ok(())
    }

    /// Copies the message at `start` to the ring buffer, or counts it as lost. The length of the
    /// message is R7 plus `before`.
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
        self.lookup_entry(WatchMap::Lost, 0, sent);
        self.emitter.add(Reg::R0, 0, 1);
        self.asm().bind(sent);
    }
}

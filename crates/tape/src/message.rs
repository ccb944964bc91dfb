//! Arrow IPC messages in a file: a schema and record batches. Recordings have no dictionaries.
//! Arrow's `StreamReader` supports dictionaries of every type. `StreamReader` would add a megabyte
//! to the binary, so it is not used.
//!
//! A record batch is checked before it is decoded. The decoder panics on a buffer outside the
//! message, and allocates as much memory as a buffer claims to need.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::convert::try_fb_to_schema;
use arrow_ipc::reader::RecordBatchDecoder;
use arrow_ipc::{Message, RecordBatch as Head, root_as_message};
use arrow_schema::SchemaRef;

/// Marker before the length of a message.
const CONTINUES: [u8; 4] = [0xff; 4];

/// End of a stream: a message with the length 0.
#[cfg(test)]
pub(crate) const END: &[u8] = &[0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];

/// Maximum size of the metadata before a message's body. A hundred columns take about 20 KB.
const LONGEST_HEAD: u64 = 1 << 20;

/// Maximum size of a decompressed batch. 200,000 rows, or a single batch of the agent, need less.
const LONGEST: i64 = 1 << 30;

/// The result of [`find`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// A complete message, with its size in bytes.
    Whole(u64),
    /// A message that extends beyond the available bytes.
    Begun,
    /// The end-of-stream marker.
    End,
    /// Bytes that are neither a message nor the end-of-stream marker.
    Foreign,
}

/// Classifies the bytes at offset `at` of a stream of `to` bytes. For a message, decodes only the
/// metadata, which contains the length.
pub(crate) fn find(stream: &File, at: u64, to: u64) -> io::Result<Found> {
    let room = to.saturating_sub(at);
    let mut begin = [0; 8];
    let known = room.min(8) as usize;
    stream.read_exact_at(&mut begin[..known], at)?;
    if !begin[..known]
        .iter()
        .zip(CONTINUES)
        .all(|(is, must)| *is == must)
    {
        return Ok(Found::Foreign);
    }
    let [_, _, _, _, length @ ..] = begin;
    let length = u64::try_from(i32::from_le_bytes(length)).unwrap_or(u64::MAX);
    if known < 8 {
        return Ok(Found::Begun);
    }
    if length == 0 {
        return Ok(Found::End);
    }
    if length > LONGEST_HEAD {
        return Ok(Found::Foreign);
    }
    if length > room - 8 {
        return Ok(Found::Begun);
    }
    let mut head = vec![0; length as usize];
    stream.read_exact_at(&mut head, at + 8)?;
    let body = root_as_message(&head).map(|message| u64::try_from(message.bodyLength()));
    Ok(match body {
        Ok(Ok(body)) if body <= room - 8 - length => Found::Whole(8 + length + body),
        Ok(Ok(_)) => Found::Begun,
        _ => Found::Foreign,
    })
}

/// Decodes the schema in a message.
pub(crate) fn schema(bytes: &[u8]) -> Result<SchemaRef, String> {
    let (message, _) = split(bytes)?;
    let schema = message.header_as_schema();
    let schema = schema.ok_or("the message is not a schema")?;
    let schema = try_fb_to_schema(schema).map_err(|error| error.to_string())?;
    Ok(Arc::new(schema))
}

/// Checks that all buffers of a record batch are inside its message, and that its sizes are
/// plausible.
pub(crate) fn check(bytes: &[u8]) -> Result<(), String> {
    let (message, body) = split(bytes)?;
    let batch = head(&message)?;
    check_sizes(&message, &batch, body)?;
    check_rows(&batch)
}

/// Decodes the record batch in a message that passed [`check`].
pub(crate) fn record_batch(bytes: &[u8], schema: SchemaRef) -> Result<RecordBatch, String> {
    let (message, body) = split(bytes)?;
    let (batch, body) = (head(&message)?, Buffer::from(body));
    let (version, dictionaries) = (message.version(), HashMap::new());
    let decoder = RecordBatchDecoder::try_new(&body, batch, schema, &dictionaries, &version);
    let batch = decoder.and_then(RecordBatchDecoder::read_record_batch);
    batch.map_err(|error| error.to_string())
}

fn head<'a>(message: &Message<'a>) -> Result<Head<'a>, &'static str> {
    let batch = message.header_as_record_batch();
    batch.ok_or("the message is not a record batch")
}

/// Splits a message into its metadata and its body.
fn split(bytes: &[u8]) -> Result<(Message<'_>, &[u8]), String> {
    let rest = bytes
        .strip_prefix(&CONTINUES)
        .ok_or("no message starts at this offset")?;
    let (length, rest) = rest
        .split_first_chunk()
        .ok_or("the message has no length")?;
    let length = usize::try_from(i32::from_le_bytes(*length)).map_err(|error| error.to_string())?;
    if length > rest.len() {
        return Err(format!(
            "the header claims {length} bytes, but only {} follow",
            rest.len()
        ));
    }
    let (head, body) = rest.split_at(length);
    let message = root_as_message(head).map_err(|error| error.to_string())?;
    Ok((message, body))
}

fn check_sizes(message: &Message<'_>, batch: &Head<'_>, body: &[u8]) -> Result<(), String> {
    if usize::try_from(message.bodyLength()) != Ok(body.len()) {
        let claimed = message.bodyLength();
        return Err(format!(
            "the header claims a body of {claimed} bytes, but it has {}",
            body.len()
        ));
    }
    let mut sum = 0;
    for buffer in batch.buffers().into_iter().flatten() {
        let (offset, length) = (buffer.offset(), buffer.length());
        let end = offset
            .checked_add(length)
            .filter(|_| offset >= 0 && length >= 0);
        let part = end.and_then(|end| body.get(offset as usize..end as usize));
        let part = part.ok_or_else(|| format!("a buffer claims {length} bytes at {offset}"))?;
        // A compressed buffer starts with its decompressed length, or with -1 if it is stored
        // uncompressed.
        let claimed = match (batch.compression(), part.first_chunk()) {
            (Some(_), Some(claimed)) => i64::from_le_bytes(*claimed),
            _ => length,
        };
        sum = claimed.max(length).saturating_add(sum);
        if claimed < -1 || sum > LONGEST {
            return Err(format!(
                "a buffer claims {claimed} bytes after decompression"
            ));
        }
    }
    Ok(())
}

fn check_rows(batch: &Head<'_>) -> Result<(), String> {
    let rows = batch.length();
    let fits = |count: i64| (0..=LONGEST).contains(&count);
    let mut nodes = batch.nodes().into_iter().flatten();
    if !fits(rows) || nodes.any(|node| !fits(node.length()) || !fits(node.null_count())) {
        return Err(format!("the message claims {rows} rows"));
    }
    Ok(())
}

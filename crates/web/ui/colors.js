// The colour of an owner. Owners have cool colours; causes of waits have warm ones.

/** Number of colours of owners, `owner-0` and so on in app.css. */
export const SLOTS = 10;
/** Maximum number of remembered names. */
const KNOWN = 400;

const slots = /** @type {Map<string, number>} */ (new Map());

/** Returns a number that depends on the name alone. @param {string} name */
export function hash(name) {
  let value = 2166136261;
  for (const c of name) value = Math.imul(value ^ /** @type {number} */ (c.codePointAt(0)), 16777619);
  return value >>> 0;
}

/**
 * Returns the colour of each name: the colour that the name had before, or otherwise a colour that
 * depends on the name. If that colour is taken, the next free one is used.
 * @param {string[]} names at most SLOTS
 * @returns {Map<string, string>}
 */
export function colorsOf(names) {
  const taken = new Set();
  const colors = new Map();
  const known = (/** @type {string} */ name) => Number(slots.has(name));
  for (const name of [...names].sort((a, b) => known(b) - known(a) || a.localeCompare(b))) {
    let slot = slots.get(name) ?? hash(name) % SLOTS;
    for (let tries = 0; taken.has(slot) && tries < SLOTS; tries += 1) slot = (slot + 1) % SLOTS;
    taken.add(slot);
    slots.delete(name);
    slots.set(name, slot);
    colors.set(name, `owner-${slot}`);
  }
  for (const name of slots.keys()) {
    if (slots.size <= KNOWN) break;
    slots.delete(name);
  }
  return colors;
}

// What an upload computes, away from the page: the cut of a file into shards, the same as the command's, and their hashes;
// the images that its rows name, found among the chosen files, and their hashes.
"use strict";

const LF = 10, LOOKED_AT = 64 * 1024, READ = 4 * 1024 * 1024, SHOWN = 20;
const K = new Uint32Array(64), FIRST = new Uint32Array(8);
{
  // The constants of SHA-256: the first 32 bits of the fractional parts of roots of the first primes.
  const fraction = (x) => (x - Math.floor(x)) * 2 ** 32 >>> 0;
  for (let n = 2, at = 0; at < 64; n++) {
    let isPrime = true;
    for (let d = 2; d * d <= n; d++) if (n % d === 0) isPrime = false;
    if (!isPrime) continue;
    if (at < 8) FIRST[at] = fraction(Math.sqrt(n));
    K[at++] = fraction(Math.cbrt(n));
  }
}

// The browser's own digest wants a shard whole in memory, and is missing on plain HTTP; this one takes pieces.
class Sha256 {
  constructor() { this.state = FIRST.slice(); this.words = new Uint32Array(64); this.rest = new Uint8Array(64); this.held = 0; this.size = 0; }

  update(bytes) {
    this.size += bytes.length;
    let at = 0;
    if (this.held) {
      at = Math.min(64 - this.held, bytes.length);
      this.rest.set(bytes.subarray(0, at), this.held);
      this.held += at;
      if (this.held < 64) return;
      this.block(this.rest, 0);
      this.held = 0;
    }
    for (; at + 64 <= bytes.length; at += 64) this.block(bytes, at);
    this.rest.set(bytes.subarray(at));
    this.held = bytes.length - at;
  }

  block(bytes, at) {
    const w = this.words, s = this.state;
    for (let i = 0; i < 16; i++, at += 4) w[i] = bytes[at] << 24 | bytes[at + 1] << 16 | bytes[at + 2] << 8 | bytes[at + 3];
    for (let i = 16; i < 64; i++) {
      const x = w[i - 15], y = w[i - 2];
      w[i] = w[i - 16] + w[i - 7] + ((x >>> 7 | x << 25) ^ (x >>> 18 | x << 14) ^ x >>> 3) + ((y >>> 17 | y << 15) ^ (y >>> 19 | y << 13) ^ y >>> 10);
    }
    let a = s[0] | 0, b = s[1] | 0, c = s[2] | 0, d = s[3] | 0, e = s[4] | 0, f = s[5] | 0, g = s[6] | 0, h = s[7] | 0;
    for (let i = 0; i < 64; i++) {
      const t = h + ((e >>> 6 | e << 26) ^ (e >>> 11 | e << 21) ^ (e >>> 25 | e << 7)) + (e & f ^ ~e & g) + K[i] + w[i] | 0;
      const u = ((a >>> 2 | a << 30) ^ (a >>> 13 | a << 19) ^ (a >>> 22 | a << 10)) + (a & b ^ a & c ^ b & c) | 0;
      h = g; g = f; f = e; e = d + t | 0; d = c; c = b; b = a; a = t + u | 0;
    }
    s[0] += a; s[1] += b; s[2] += c; s[3] += d; s[4] += e; s[5] += f; s[6] += g; s[7] += h;
  }

  hex() {
    const bits = this.size * 8, end = new Uint8Array((this.held < 56 ? 64 : 128) - this.held);
    end[0] = 0x80;
    const view = new DataView(end.buffer);
    view.setUint32(end.length - 8, Math.floor(bits / 2 ** 32));
    view.setUint32(end.length - 4, bits >>> 0);
    this.update(end);
    return [...this.state].map((word) => word.toString(16).padStart(8, "0")).join("");
  }
}

const read = async (file, start, end) => new Uint8Array(await file.slice(start, end).arrayBuffer());

// Behind the last LF between two places; `start` where there is none.
const lineEnd = async (file, start, end) => {
  for (; end > start;) {
    const begin = Math.max(start, end - LOOKED_AT), at = (await read(file, begin, end)).lastIndexOf(LF);
    if (at >= 0) return begin + at + 1;
    end = begin;
  }
  return start;
};

const cut = async (file, most) => {
  const shards = [];
  let start = 0;
  while (file.size - start > most) {
    const end = await lineEnd(file, start, start + most);
    if (end === start) throw new Error(`The line that begins at byte ${start} is longer than ${most} bytes, the most of a shard. A row is one conversation; cut it into several.`);
    shards.push({ start, end });
    start = end;
  }
  shards.push({ start, end: file.size });
  return shards;
};

class Refused extends Error {
  constructor(document) { super(document.detail); this.document = document; }
}

const hashed = async (file, start, end, note) => {
  const digest = new Sha256();
  for (let at = start; at < end; at += READ) {
    const piece = await read(file, at, Math.min(end, at + READ));
    digest.update(piece);
    note(piece.length);
  }
  return digest.hex();
};

// How far something of so many bytes is, to the page.
const noting = (total) => {
  let done = 0;
  return (bytes) => postMessage({ share: (done += bytes) / total });
};

const shards = async ({ file, most }) => {
  const found = await cut(file, most), note = noting(file.size);
  for (const shard of found) shard.sha256 = await hashed(file, shard.start, shard.end, note);
  return found;
};

// How many lines end before a place in a file.
const lines = async ({ file, end }) => {
  const note = noting(end);
  let number = 0;
  for (let at = 0; at < end; at += READ) {
    const piece = await read(file, at, Math.min(end, at + READ));
    for (let next = piece.indexOf(LF); next >= 0; next = piece.indexOf(LF, next + 1)) number++;
    note(piece.length);
  }
  return number;
};

// The lines of a file that hold a text, with their numbers; a line is short, and the file may be any length.
async function* linesWith(file, text) {
  const plain = new TextDecoder("latin1"), note = noting(file.size);
  let number = 0, rest = new Uint8Array(0);
  for (let at = 0; at < file.size; at += READ) {
    const piece = await read(file, at, Math.min(file.size, at + READ)), isLast = at + READ >= file.size;
    const bytes = new Uint8Array(rest.length + piece.length);
    bytes.set(rest);
    bytes.set(piece, rest.length);
    const signs = plain.decode(bytes);
    let start = 0, next = -1;
    while (start < bytes.length) {
      const end = bytes.indexOf(LF, start);
      if (end < 0 && !isLast) break;
      const stop = end < 0 ? bytes.length : end;
      number++;
      if (next < start) next = signs.indexOf(text, start);
      if (next < 0) next = Infinity;
      if (next < stop) yield { number, data: bytes.subarray(start, stop) };
      start = stop + 1;
    }
    rest = bytes.subarray(Math.min(start, bytes.length));
    note(piece.length);
  }
}

// The paths that rows name, each with its first line. The box has taken the rows, so each is well formed.
const namedImages = async (file) => {
  const named = new Map(), utf8 = new TextDecoder();
  for await (const { number, data } of linesWith(file, '"image"')) {
    for (const { content } of JSON.parse(utf8.decode(data)).messages || []) {
      for (const part of Array.isArray(content) ? content : []) {
        if (part.type === "image" && !named.has(part.path)) named.set(part.path, number);
      }
    }
  }
  return named;
};

const below = (path) => path.slice(path.indexOf("/") + 1);

// Which chosen files a path of the rows may mean: as it stands in the chosen folder, or with that folder's name before it;
// else the folder was on the way to the image, or the image was chosen without one.
const chosenFor = (path, places, whole) => {
  const exact = places.get(path);
  if (exact) return exact;
  for (let rest = path; rest.includes("/");) {
    rest = below(rest);
    if (whole.has(rest)) return whole.get(rest);
  }
  return [];
};

// Two writings of one name, such as an accent of its own, are one: disks write names as they like.
const asOne = (path) => path.normalize();

const byPath = (given, pathsOf) => {
  const found = new Map();
  for (const item of given) {
    for (const path of new Set(pathsOf(asOne(item.path)))) found.set(path, [...found.get(path) || [], item]);
  }
  return found;
};

// Each path that rows name with its file; refused where a path has none, or it is unclear which.
const matched = (named, given) => {
  const places = byPath(given, (path) => [path, below(path)]), whole = byPath(given, (path) => [path]);
  const images = [], problems = [], taken = new Map();
  for (const [path, line] of named) {
    const [item, other] = chosenFor(asOne(path), places, whole);
    const say = (message) => problems.push({ path: `line ${line}`, message });
    if (!item) say(`The image ${path} was not chosen.`);
    else if (other) say(`The image ${path} may be ${item.path} or ${other.path}.`);
    else if (taken.has(item)) say(`${item.path} may be the image ${path} or ${taken.get(item)}.`);
    else images.push({ path, file: item.file });
    if (item) taken.set(item, path);
  }
  return { images, problems };
};

const images = async ({ file, given }) => {
  const named = await namedImages(file), { images: found, problems } = matched(named, given);
  if (problems.length) {
    throw new Refused({
      detail: `Images that the rows name ${given.length ? "were not found among the chosen files" : "were not chosen"}: ${problems.length} of ${named.size}.`,
      hint: `Choose the folder that ${file.name} lies in, or the images themselves, and upload again: the rows came and are not sent twice. Nothing was registered.`,
      problems: problems.slice(0, SHOWN), more: problems.length > SHOWN ? `And ${problems.length - SHOWN} more images.` : "",
    });
  }
  const note = noting(found.reduce((sum, image) => sum + image.file.size, 0) || 1);
  for (const image of found) image.sha256 = await hashed(image.file, 0, image.file.size, note);
  return found;
};

const TASKS = { shards, images, lines };

onmessage = async ({ data }) => {
  try {
    postMessage({ done: await TASKS[data.task](data) });
  } catch (error) {
    const unread = error.name === "NotReadableError" || error.name === "NotFoundError";
    postMessage({ failure: error.document || { detail: unread ? "A file changed or cannot be read. Choose it again." : error.message } });
  }
};

// Cuts a file into shards on line boundaries and hashes each, away from the page: the same cut as the command's.
"use strict";

const LF = 10, LOOKED_AT = 64 * 1024, READ = 4 * 1024 * 1024;
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

onmessage = async ({ data: { file, most } }) => {
  try {
    const shards = await cut(file, most);
    for (const shard of shards) {
      const digest = new Sha256();
      for (let at = shard.start; at < shard.end; at += READ) {
        const piece = await read(file, at, Math.min(shard.end, at + READ));
        digest.update(piece);
        postMessage({ read: piece.length });
      }
      shard.sha256 = digest.hex();
    }
    postMessage({ shards });
  } catch (error) {
    postMessage({ failure: error.name === "NotReadableError" ? "The file changed or cannot be read. Choose it again." : error.message });
  }
};

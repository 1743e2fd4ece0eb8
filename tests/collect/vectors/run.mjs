// Runs the shared vectors through the JavaScript interpreter: in Node from the command line, in a
// browser by importing `mismatches`. Bytes are AES-256-CTR over zeros, which WebCrypto has too.

const LENGTH = 1 << 17;

const fromHex = (text) => Uint8Array.from(text.match(/../g), (pair) => parseInt(pair, 16));

/** The keystream of a key given in hexadecimal. */
export async function keystream(key, length = LENGTH) {
  const raw = fromHex(key);
  const secret = await crypto.subtle.importKey("raw", raw, "AES-CTR", false, ["encrypt"]);
  const counter = { name: "AES-CTR", counter: new Uint8Array(16), length: 64 };
  return new Uint8Array(await crypto.subtle.encrypt(counter, secret, new Uint8Array(length)));
}

/** Bytes handed out `chunk` at a time, so that words begin in one buffer and end in the next. */
export function inChunks(bytes, chunk) {
  let place = 0;
  return () => {
    if (place >= bytes.length) throw new Error("the vectors need a longer keystream");
    return bytes.subarray(place, (place += chunk));
  };
}

function sameGamma([n, d], text) {
  const [wanted, below] = text.split("/").map(BigInt);
  return n * below === wanted * d;
}

/** Whether integers below all bounds come out as they should. */
function wrongIntegers({ bytes, bounds, drawn }, { Draws }, chunk) {
  const draws = new Draws(inChunks(fromHex(bytes), chunk));
  return bounds.flatMap((bound, i) => {
    const small = BigInt(bound) <= 2n ** 53n;
    const word = small ? draws.below(Number(bound)) : draws.belowLong(BigInt(bound));
    return String(word) === drawn[i] ? [] : [`integer ${i} below ${bound}: ${word}`];
  });
}

/** What differs from the vectors: nothing, if all is well. */
export async function mismatches(cases, integers, { Program, Draws }, chunk) {
  const found = wrongIntegers(integers, { Draws }, chunk);
  for (const { name, key, program: data, gamma, sent, longest, records, reports, shares } of cases) {
    const program = new Program(data);
    const shown = program.gammaBeside(program.sentAsIs);
    if (!sameGamma(shown, gamma)) found.push(`${name}: gamma ${shown}`);
    if (JSON.stringify(program.sentAsIs) !== JSON.stringify(sent))
      found.push(`${name}: sent as it is ${program.sentAsIs}`);
    if (program.longest !== longest) found.push(`${name}: longest ${program.longest}`);
    const draws = new Draws(inChunks(await keystream(key), chunk));
    records.forEach((record, i) => {
      const question = program.question(draws);
      const report = JSON.stringify(program.randomise(record, draws, question));
      if (report !== JSON.stringify(reports[i])) found.push(`${name}, record ${i}: ${report}`);
      const share = program.share(record, question);
      if (Math.abs(share - shares[i]) > 1e-9 * shares[i])
        found.push(`${name}, share ${i}: ${share}`);
    });
  }
  return found;
}

if (globalThis.process?.argv[1]?.endsWith("run.mjs")) {
  const { readFileSync } = await import("node:fs");
  const { pathToFileURL } = await import("node:url");
  const [, , library, vectors, chunk] = process.argv;
  const module = await import(pathToFileURL(library).href);
  const [cases, integers] = ["vectors", "integers"].map((name) =>
    JSON.parse(readFileSync(`${vectors}/${name}.json`, "utf-8")),
  );
  const found = await mismatches(cases, integers, module, Number(chunk));
  console.log(JSON.stringify({ records: cases.flatMap((each) => each.records).length, found }));
}
